"""Asked to stop: Ctrl-C, a scheduler's SIGTERM, a lost terminal, or the end of a time budget.

The step under way is finished first.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # Windows has none
    SIGNALS.append(signal.SIGHUP)


class StopRequests:
    """While entered, remembers the first signal to stop; a Ctrl-C after it interrupts at once.

    A second SIGTERM says nothing new: a scheduler sends it to all processes, torchrun too, which passes it on.
    """

    def __init__(self, minutes: float | None = None) -> None:
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self._before: dict[int, Any] = {}
        self.signal: int | None = None

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or number

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is used up."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def __bool__(self) -> bool:
        return self.signal is not None or self.out_of_time
