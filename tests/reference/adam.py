"""The released code's optimiser, transcribed line by line: clipping, schedule, moments, rate, decay.

Plain loops over dictionaries of tensors; shares no code with the package.
"""

from __future__ import annotations

import math

from torch import Tensor

B1, B2, E, L2, MAX_NORM = 0.9, 0.999, 1e-8, 0.01, 1.0

Tensors = dict[str, Tensor]


def cosine(x: float, warmup: float) -> float:
    """Return the factor of pre-training's schedule at x = (t - 1) / T."""
    if warmup > 0 and x <= warmup:
        return x / warmup
    return 0.5 * (1 + math.cos(math.pi * x))


def norm_of(gradients: Tensors) -> float:
    """Return the norm over all parameters together."""
    return math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))


def clip(gradients: Tensors) -> Tensors:
    """Return gradients whose norm over all parameters is at most 1; no epsilon."""
    scale = min(1.0, MAX_NORM / norm_of(gradients))
    return {name: g * scale for name, g in gradients.items()}


def update(p: Tensors, g: Tensors, m: Tensors, v: Tensors, *, lr: float, t: int, s: float) -> None:
    """Make update `t`, counted from 1, of parameters and moments; `s` is the schedule's factor."""
    g = clip(g)
    r = lr * math.sqrt(1 - B2**t) / (1 - B1**t) * s
    for name in p:
        m[name] = B1 * m[name] + (1 - B1) * g[name]
        v[name] = B2 * v[name] + (1 - B2) * g[name] ** 2
        change = m[name] / (v[name].sqrt() + E)
        if len(p[name].shape) > 1:
            change = change + L2 * p[name]
        p[name] = p[name] - r * change
