"""A pre-training as one process of several, which waits or stops at the moments that a test names: run by torchrun.

`ranks.py CORPUS RUN PLAN SETTING...`, where PLAN is a file with a JSON object:

- `stop_at`: the update after which a signal to stop comes;
- `alone_until`, `together_until`: a process that is alone waits from this update on for a signal to stop, several wait
  until the plan says otherwise: torchrun sends that signal where others come.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from gpt1 import pretrain
from gpt1.runs.events import Event, Stepped
from tests.waiting import eventually

SIZES_FILE = "sizes.txt"  # how many processes made each update, in a run's folder


class Plan:
    """Listens to the first process."""

    def __init__(self, run: Path, plan: Path) -> None:
        self._run, self._plan = run, plan
        self._size = int(os.environ.get("WORLD_SIZE", "1"))
        self._stopped = False

    def __call__(self, event: Event) -> None:
        """Note who made an update, and do what the plan says of it."""
        if not isinstance(event, Stepped):
            return
        if signal.getsignal(signal.SIGTERM) != self._hear:
            self._listen()
        with (self._run / SIZES_FILE).open("a") as file:
            file.write(f"{event.step} {self._size}\n")
        if self._wanted("stop_at") == event.step:
            os.kill(os.getpid(), signal.SIGTERM)
        name = "alone_until" if self._size == 1 else "together_until"
        eventually(lambda: self._stopped or event.step < self._wanted(name), f"an end of waiting at {event.step}")

    def _wanted(self, name: str) -> float:
        return json.loads(self._plan.read_text()).get(name, float("inf"))

    def _listen(self) -> None:
        """Hear of a signal to stop before the training does."""
        before = signal.signal(signal.SIGTERM, self._hear)
        assert callable(before)
        self._before = before

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True
        self._before(number, frame)


if __name__ == "__main__":
    corpus, run, plan, *changes = sys.argv[1:]
    pretrain("tiny", corpus, run, changes=changes, resume=True, device="cpu", listeners=[Plan(Path(run), Path(plan))])
