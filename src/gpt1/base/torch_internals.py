"""Names of torch that begin with an underscore: what is nowhere else to be had, in one place.

They may go with any version: `pyproject.toml` has an upper bound, and `tests/base/test_torch_internals.py` tells which
name has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Tells of a missing library each time something is exported.
EXPORT_LOGGER = "torch.onnx._internal.exporter._registration"


def int8_product(x_NI: Tensor, y_IO: Tensor) -> Tensor:
    """Return the product of two matrices of bytes, in whole numbers of 32 bits."""
    return torch._int_mm(x_NI, y_IO)


def reorder_weight(weight_OI: Tensor, rows: int) -> Tensor:
    """Return a matrix in the order in which a CPU's kernel reads it, for about so many tokens at once."""
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI, rows)
    return reordered


def reordered_linear(x_NI: Tensor, weight: Tensor, bias_O: Tensor | None) -> Tensor:
    """Return x W^T + b for a matrix that was reordered."""
    y_NO: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight, bias_O, "none", [], "")
    return y_NO


def packed_attention(
    q_NHD: Tensor, k_NHD: Tensor, v_NHD: Tensor, *, offsets: Tensor, longest: int, dropout: float, causal: bool = True
) -> Tensor:
    """Return attention within each sequence of a packed row, on a GPU in 16 bits."""
    y_NHD: Tensor = torch.ops.aten._flash_attention_forward(
        *(q_NHD, k_NHD, v_NHD, offsets, offsets, longest, longest),
        dropout,
        causal,
        False,  # return_debug_mask
    )[0]
    return y_NHD


def library_attention(heads_BHTD: Sequence[Tensor], dropout: float) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return causal attention of queries, keys and values by cuDNN, and what its gradient wants to be given again."""
    y_BHTD, sums, *_, seed, offset, _ = torch.ops.aten._scaled_dot_product_cudnn_attention(
        *heads_BHTD,
        None,  # attn_bias
        True,  # compute_log_sumexp
        dropout,
        True,  # causal
        False,  # return_debug_mask
    )
    return y_BHTD, (sums, seed, offset)


def library_attention_backward(
    grad_BHTD: Tensor, heads_BHTD: Sequence[Tensor], y_BHTD: Tensor, kept: Sequence[Tensor], dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values, with the same weights dropped."""
    T = y_BHTD.shape[2]
    dq_BHTD, dk_BHTD, dv_BHTD = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        *(grad_BHTD, *heads_BHTD, y_BHTD, *kept),
        *(None, None, None),  # attn_bias, offsets of queries and of keys
        *(T, T, dropout),
        True,  # causal
    )
    return dq_BHTD, dk_BHTD, dv_BHTD


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors into others, all in one go."""
    torch._foreach_copy_(list(targets), list(sources))


def cpu_has_vnni() -> bool:
    """Whether the CPU has instructions for exact products of bytes."""
    return _yes(lambda: torch.cpu._is_vnni_supported())


def x86_has_bf16() -> bool:
    """Whether a CPU of the x86 family has instructions for bf16."""
    return _yes(lambda: torch.cpu._is_avx512_bf16_supported()) or _yes(lambda: torch.cpu._is_amx_tile_supported())


def onednn_has_bf16() -> bool:
    """Whether oneDNN says yes to bf16, which on the x86 family it does without such instructions too."""
    return _yes(lambda: torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _yes(question: Callable[[], bool]) -> bool:
    """Return torch's answer, no where it is built without what the question is about."""
    try:
        return bool(question())
    except AttributeError:
        return False
