"""Which of several processes at one socket takes the next connection: the one that has fewest.

The system wakes all of them, and whichever comes first would take whatever waits: of 32 connections one process of two
had all. So each tells the others how many it has, in memory that they share, and leaves what waits to who has fewer. No
count is trusted: who has fewer may have died or stand still, so what is left is taken after all a moment later.
"""

from __future__ import annotations

import ctypes
from collections.abc import MutableSequence
from multiprocessing.context import BaseContext
from typing import cast

NOT_THERE = 2**31 - 1  # connections, of a process that takes none
MOMENT = 0.005  # seconds


def shared_counts(context: BaseContext, processes: int) -> MutableSequence[int]:
    """Return a count for each process, in memory that they share when they are started with it."""
    counts = cast(MutableSequence[int], context.RawArray(ctypes.c_int, processes))
    for place in range(processes):
        ConnectionShare(counts, place).leave()
    return counts


class ConnectionShare:
    """What a process knows of the connections of all, and tells of its own."""

    def __init__(self, counts: MutableSequence[int] | None = None, place: int = 0) -> None:
        self._counts, self._place = [NOT_THERE] if counts is None else counts, place

    def has_fewest(self, connections: int) -> bool:
        """Tell the others how many connections this process has, and return whether none of them has fewer."""
        self._counts[self._place] = connections
        return min(self._counts) == connections

    def leave(self) -> None:
        """Tell the others that this process takes no more."""
        self._counts[self._place] = NOT_THERE
