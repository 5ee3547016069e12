"""How the learning rate runs over a run: pure functions of the share of updates done.

The rules of the paper's section 4.1, with the corners of the released code: `x` is (t - 1) / T, with t counting updates
from 1 and T the planned number of them; `w` is the share that warms up, 0 for none. A factor multiplies the learning
rate. Knows nothing of optimisers: the trainer asks, and hands the answer on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpt1.recipes.values import Schedule


def _is_warming(x: float, w: float) -> bool:
    return w > 0 and x <= w


def constant(x: float, w: float) -> float:
    """Rise to 1 over the warm-up and stay there."""
    return x / w if _is_warming(x, w) else 1.0


def linear(x: float, w: float) -> float:
    """Rise over the warm-up, all of it under a straight line from 1 at the start to 0 at the end."""
    return constant(x, w) * (1.0 - x)


def cosine(x: float, w: float) -> float:
    """Rise to 1 over the warm-up, then follow half a cosine that began at x = 0, not at the warm-up's end."""
    return x / w if _is_warming(x, w) else 0.5 * (1.0 + math.cos(math.pi * x))


def trapezoid(x: float, w: float, cooldown: float) -> float:
    """Rise to 1 over the warm-up, stay there, and fall straight to 0 over the last share `cooldown`."""
    falling = (1.0 - x) / cooldown if x > 1.0 - cooldown else 1.0
    return min(constant(x, w), falling)


_RULES: dict[str, Callable[[float, float, Schedule], float]] = {
    "constant": lambda x, w, _: constant(x, w),
    "linear": lambda x, w, _: linear(x, w),
    "cosine": lambda x, w, _: cosine(x, w),
    "trapezoid": lambda x, w, schedule: trapezoid(x, w, schedule.cooldown_share),
}


def factor(schedule: Schedule, t: int, updates: int) -> float:
    """Return what the learning rate of update `t`, counted from 1, of `updates` is multiplied by."""
    return _RULES[schedule.kind]((t - 1) / updates, schedule.warmup(updates), schedule)
