"""Names that were others once: for one release they still work, and whoever types one is told the new one."""

from __future__ import annotations

import inspect
import warnings
from types import FrameType


class Renamed(FutureWarning):
    """A name was typed that is another now."""


def tell_renamed(old: str, new: str) -> None:
    """Warn that a name is another now, at the line of the user's own that gave it."""
    warnings.warn(f"{old} is called {new} now", Renamed, stacklevel=_level_outside())


def _level_outside() -> int:
    """Return how far above `tell_renamed` the nearest caller is that is not of this package."""
    frame: FrameType | None = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gpt1."):
        frame, level = frame.f_back, level + 1
    return level
