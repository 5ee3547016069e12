"""The next-token loss of section 3.1 (equation 1) from vectors and output matrix, without ever holding all logits.

Loss and gradient come from one pass over chunks of rows: a chunk's logits are made, turned into their own gradient in
place, multiplied into the gradients of vectors and matrix, and forgotten; where one chunk is all, it is kept for that.
Products are in the type of the vectors, the softmax and all sums in float32 (float64 stays float64). The matrix may
have more rows than the vocabulary; what lies beyond it has probability 0. On a GPU the softmax is one fused kernel,
with `plain_cross_entropy_` as its judge.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.accumulation import add_product
from gpt1.model.fusing import fuses

# N rows (positions of all sequences), C width, V rows of the output matrix (at least the vocabulary).

# Logits held at once: enough to keep a GPU busy; few enough to stay near the caches of a CPU.
CUDA_LOGITS = 2**28
CPU_LOGITS = 2**22

# (logits_NV, targets_N, weights_N or None, vocab_size) -> losses_N; with weights, the logits become their gradient.
CrossEntropy = Callable[[Tensor, Tensor, Tensor | None, int], Tensor]
Loss = Callable[[Tensor, slice], Tensor]  # (logits_NV, which rows they are) -> their loss; the logits: its gradient


def linear_cross_entropy(
    hidden_NC: Tensor, output_VC: Tensor, targets_N: Tensor, weights_N: Tensor, vocab_size: int
) -> Tensor:
    """Return the sum of weights x negative log-likelihoods; targets below 0 are left out."""
    if torch.is_grad_enabled() and (hidden_NC.requires_grad or output_VC.requires_grad):
        cross_entropy_, wide = _cross_entropy_for(hidden_NC), _wide(hidden_NC)
        # Here the heaviest row weighs 1, and `scale` is multiplied in at the end: 16 bits do not hold a gradient that
        # is divided by tens of thousands of rows.
        heaviest = weights_N.abs().amax().to(wide)
        scale = torch.where(heaviest > 0, heaviest, 1)
        light_N = weights_N.to(wide) / scale

        def loss_(logits_NV: Tensor, rows: slice) -> Tensor:
            return cross_entropy_(logits_NV, targets_N[rows], light_N[rows], vocab_size) @ light_N[rows]

        return _linear_loss(hidden_NC, output_VC, loss_) * scale
    losses_N: Tensor = token_losses(hidden_NC, output_VC, targets_N, vocab_size)
    return losses_N @ weights_N.to(losses_N.dtype)


def linear_divergence(
    hidden_NC: Tensor,
    output_VC: Tensor,
    taught: Callable[[slice], Tensor],
    counted_N: Tensor,
    *,
    temperature: float,
    vocab_size: int,
) -> Tensor:
    """Return the sum over the rows that count of T^2 KL(p || softmax(logits / T)), where p is what rows are taught.

    So that gradients do not shrink with the temperature, its square is multiplied in. `taught` gives p [rows, V] of a
    slice of the rows, so that nobody holds all of it either.
    """

    def loss_(logits_NV: Tensor, rows: slice) -> Tensor:
        shares_NV = taught(rows).to(_wide(logits_NV))
        own_NV = (logits_NV[:, :vocab_size].to(shares_NV.dtype) / temperature).log_softmax(-1)
        counted_N1 = counted_N[rows].unsqueeze(-1)
        logits_NV.zero_()
        logits_NV[:, :vocab_size] = temperature * counted_N1 * (own_NV.exp() - shares_NV)
        divergence_N = (torch.xlogy(shares_NV, shares_NV) - shares_NV * own_NV).sum(-1)
        return temperature**2 * torch.where(counted_N[rows], divergence_N, 0).sum()

    return _linear_loss(hidden_NC, output_VC, loss_)


@torch.no_grad()
def token_losses(hidden_NC: Tensor, output_VC: Tensor, targets_N: Tensor, vocab_size: int) -> Tensor:
    """Return the negative log-likelihood of each target [N], 0 for a target below 0, without gradient."""
    cross_entropy_ = _cross_entropy_for(hidden_NC)
    losses_N = hidden_NC.new_empty(len(hidden_NC), dtype=_wide(hidden_NC))
    for rows in _chunks(hidden_NC, output_VC):
        losses_N[rows] = cross_entropy_(hidden_NC[rows] @ output_VC.T, targets_N[rows], None, vocab_size)
    return losses_N


def _linear_loss(hidden_NC: Tensor, output_VC: Tensor, loss_: Loss) -> Tensor:
    """Return the sum of the losses of chunks of rows, of which `loss_` gives one and turns its logits into gradient."""
    return cast(Tensor, _LinearLoss.apply(hidden_NC, output_VC, loss_))  # type: ignore[no-untyped-call]


class _LinearLoss(torch.autograd.Function):
    """A loss of logits. Of one chunk what they became is kept; of several the gradients, made along with it."""

    @staticmethod
    def forward(ctx: Any, hidden_NC: Tensor, output_VC: Tensor, loss_: Loss) -> Tensor:
        chunks = list(_chunks(hidden_NC, output_VC))
        # Half precision has too little range for gradients that are not multiplied together at the end.
        ctx.in_one = len(chunks) == 1 and hidden_NC.dtype != torch.float16
        if ctx.in_one:
            x_NV = hidden_NC @ output_VC.T
            loss = loss_(x_NV, chunks[0])
            ctx.save_for_backward(x_NV, hidden_NC, output_VC)
            return loss
        wide = _wide(hidden_NC)
        loss = hidden_NC.new_zeros((), dtype=wide)
        wants_hidden, wants_output = ctx.needs_input_grad[:2]
        grad_NC = torch.empty_like(hidden_NC) if wants_hidden else None
        grad_VC = torch.zeros_like(output_VC, dtype=wide) if wants_output else None
        for rows in chunks:
            x_NV = hidden_NC[rows] @ output_VC.T
            loss += loss_(x_NV, rows)
            if grad_NC is not None:
                grad_NC[rows] = x_NV @ output_VC
            if grad_VC is not None:
                add_product(grad_VC, x_NV.T, hidden_NC[rows])
            del x_NV  # before the next ones are made
        ctx.save_for_backward(grad_NC, grad_VC)
        ctx.output_dtype = output_VC.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wants_hidden, wants_output = ctx.needs_input_grad[:2]
        if ctx.in_one:  # the factor goes into the smaller matrices
            x_NV, hidden_NC, output_VC = ctx.saved_tensors
            return (
                x_NV @ output_VC * grad if wants_hidden else None,
                x_NV.T @ (hidden_NC * grad) if wants_output else None,
                None,
            )
        grad_NC, grad_VC = ctx.saved_tensors
        return (
            None if grad_NC is None else _times(grad_NC, grad, grad_NC.dtype),
            None if grad_VC is None else _times(grad_VC, grad, ctx.output_dtype),
            None,
        )


def _times(x: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `x` times a number, in this type."""
    if fuses(x):
        from gpt1.model.kernels.cross_entropy import fused_times

        return fused_times(x, factor, dtype)
    return (x * factor).to(dtype)


def plain_cross_entropy_(logits_NV: Tensor, targets_N: Tensor, weights_N: Tensor | None, vocab_size: int) -> Tensor:
    """Return each row's loss; with weights, overwrite the logits with the gradient of the weighted sum of losses."""
    wide_NV = logits_NV.to(_wide(logits_NV))  # the logits themselves, where they are wide enough
    x = wide_NV[:, :vocab_size]
    counted_N = targets_N >= 0
    targets_N1 = targets_N.clamp(min=0).long().unsqueeze(-1)
    if weights_N is None:
        return torch.where(counted_N, x.logsumexp(-1) - x.gather(-1, targets_N1).squeeze(-1), 0)

    x -= x.amax(-1, keepdim=True)
    chosen_N1 = x.gather(-1, targets_N1)
    x.exp_()
    total_N1 = x.sum(-1, keepdim=True)
    weights_N1 = torch.where(counted_N, weights_N, 0).unsqueeze(-1)
    x *= weights_N1 / total_N1
    x.scatter_add_(-1, targets_N1, -weights_N1)
    wide_NV[:, vocab_size:] = 0
    if wide_NV is not logits_NV:
        logits_NV.copy_(wide_NV)
    return torch.where(counted_N, (total_N1.log() - chosen_N1).squeeze(-1), 0)


def _cross_entropy_for(x: Tensor) -> CrossEntropy:
    """Return the fused kernel where it can work, else its plain twin."""
    return _fused() if x.is_cuda and x.dtype != torch.float64 else plain_cross_entropy_


@functools.cache
def _fused() -> CrossEntropy:
    """Return the fused kernel; where Triton is not installed, say so once and return the plain twin."""
    try:
        from gpt1.model.kernels.cross_entropy import fused_cross_entropy_
    except ImportError:
        warnings.warn(
            "Triton is not installed: the loss is computed without its fused kernel, more slowly", stacklevel=2
        )
        return plain_cross_entropy_
    return fused_cross_entropy_


def _chunks(hidden_NC: Tensor, output_VC: Tensor) -> Iterator[slice]:
    """Cut the rows so that a chunk has about the logits that may be held at once: a power of two, for even chunks."""
    logits = CUDA_LOGITS if hidden_NC.is_cuda else CPU_LOGITS
    rows = 2 ** max(0, round(math.log2(logits / len(output_VC))))
    return (slice(start, start + rows) for start in range(0, len(hidden_NC), rows))


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
