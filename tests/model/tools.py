"""What several tests of this room share: small shapes, shaken weights, gradients, and how far tensors are apart."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gpt1.model import DropoutKey, Model, build_model, dropout_key, linear_cross_entropy
from gpt1.recipes.values import LSTM, Shape

VOCAB = 23
PAPER = Shape(layers=2, width=24, heads=3, feed_forward=40, context=11, dropout=0.2)
MODERN = replace(
    PAPER, norm="rms", norm_first=True, positions="rotary", activation="relu2", qk_norm=True, bias=False, tied=False
)
SHAPES = {
    "paper": PAPER,
    "modern": MODERN,
    "modern with a window": replace(MODERN, window=4),
    "a window of one token": replace(PAPER, window=1),
    "a window and a global token": replace(PAPER, window=3, global_tokens=1),
    "modern with a window and global tokens": replace(MODERN, window=2, global_tokens=3),
    "pre-norm with layer norms and biases": replace(PAPER, norm_first=True),
    "post-norm, rms, rotary, tied": replace(PAPER, norm="rms", positions="rotary", bias=False, window=5),
    "layer norms without biases, untied, relu2": replace(PAPER, bias=False, tied=False, activation="relu2"),
}
SMALL_LSTM = replace(PAPER, kind=LSTM, layers=1, units=14)


def shaken(
    shape: Shape,
    *,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    vocab_size: int = VOCAB,
    checkpoint_activations: bool = False,
    bidirectional: bool = False,
    has_mask: bool = False,
) -> Model:
    """Return a network whose every parameter is away from where it started, so that each one matters."""
    model = build_model(
        *(shape, vocab_size),
        compute=dtype,
        seed=seed,
        checkpoint_activations=checkpoint_activations,
        bidirectional=bidirectional,
        has_mask=has_mask,
    ).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype)
    return model


def batch(sequences: int = 3, length: int = 10, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, targets (some of them not counted) and weights, all [B, T]."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCAB, (sequences, length), generator=generator)
    targets = torch.randint(-2, VOCAB, (sequences, length), generator=generator)
    weights = torch.rand((sequences, length), generator=generator, dtype=torch.float64)
    return ids, targets, weights


def noise_for(sequences: int, *, first: int = 0, seed: int = 5, step: int = 7) -> DropoutKey:
    """Return the noise of sequences that stand in the batch from `first` on."""
    return dropout_key(seed, step, torch.arange(first, first + sequences))


def loss_and_gradients(model: Model, noise: DropoutKey | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of the small batch and the gradient of every parameter."""
    ids, targets, weights = batch()
    hidden, output = model(ids, noise)
    loss = linear_cross_entropy(hidden.flatten(0, 1), output, targets.flatten(), weights.flatten(), VOCAB)
    return loss.detach(), gradients(loss, dict(model.named_parameters()))


def gradients(loss: Tensor, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradient of every parameter by name."""
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


def relative_error(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Return the largest norm of a difference, relative to the wanted tensor's norm (or a millionth of all norms)."""
    assert found.keys() == wanted.keys()
    floor = 1e-6 * sum(_norm(x) ** 2 for x in wanted.values()) ** 0.5
    return max(_norm(found[name] - wanted[name]) / max(_norm(wanted[name]), floor) for name in wanted)


def _norm(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x.detach().double()))
