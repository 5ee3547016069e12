"""The one place where tests wait: until something is so, never for a length of time."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, seconds: float = 600) -> T:
    """Return what `condition` returns as soon as it is true; the deadline only ends what would hang for ever."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            faulthandler.dump_traceback()  # of all threads: what is it that does not come?
            raise AssertionError(f"not within {seconds:g} seconds: {what}")
        time.sleep(0.005)
    return found
