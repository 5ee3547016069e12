"""Is what a server is asked still like the rows that its run was judged by? Told by figures; no text is kept.

What a run answers to known rows is found out once, by portions between requests. Then the figures of each row that is
classified go into a window, and a full one is held against the known rows (`tasks/drift_windows.py`), in the run's own
thread: no request waits for it but those that wait for that thread. Bits per byte, which `gpt1 drift` looks at too, are
left out: each row would be read once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import Gpt1Error
from gpt1.documents.drift import ways
from gpt1.finetuning.drifting import (
    FEWEST,
    Digests,
    KnownRows,
    figures_of,
    known_rows,
    too_few,
    unordered,
    were_learned,
)
from gpt1.inference.answering import Predictions, answer
from gpt1.serve.engine import Answering, Engine
from gpt1.serve.limits import ApiError
from gpt1.serve.monitoring import Meters
from gpt1.serve.settings import Worded
from gpt1.tasks.catalog import Task
from gpt1.tasks.drift_windows import DriftWindows, Window
from gpt1.tasks.examples import Example

LOG = logging.getLogger("gpt1.serve")
MOST = 500  # known rows that are asked, drawn at random
PORTION = 16  # of them, between two requests
KNOWN = "known rows"  # the kind of question

Figures = dict[str, NDArray[Any]]


class DriftWatch:
    """Of a run that is served: what its requests are held against, and those that came last, as figures."""

    def __init__(
        self,
        engine: Engine,
        meters: Meters,
        reference: Path | None = None,
        worded: Worded = str,
        *,
        watchers: int = 1,  # each of a share of what comes
    ) -> None:
        self._engine, self._meters, self._reference, self._worded = engine, meters, reference, worded
        self._watchers = watchers
        self._watched: dict[str, tuple[Digests, DriftWindows]] = {}  # by task
        self._has_changed: dict[str, bool] = {}
        self._closing = False
        tasks = engine.run.tasks.values() if engine.run.has_tasks else ()
        self._tasks = [task for task in tasks if not task.labels_words]  # of which it is not known what has changed
        for task in self._tasks:
            meters.drift_watched(engine.name, task.name, is_watched=False)

    def start(self) -> None:
        """Find out what requests are held against, in a thread of its own."""
        if self._tasks:
            threading.Thread(target=self._learn, name=f"known rows of {self._engine.name}", daemon=True).start()

    def close(self) -> None:
        """Ask for no more known rows."""
        self._closing = True

    def see(self, rows: Sequence[Example], answered: Predictions) -> None:
        """Take rows and what they were answered, in the run's thread; tell where a window of them is full.

        Those that repeat a learned text are left out, as they are of the known ones.
        """
        watched = self._watched.get(answered.task.name)
        if watched is None:
            return
        learned, windows = watched
        is_new = ~were_learned(answered.task, rows, learned)
        for window in windows.add({name: values[is_new] for name, values in figures_of(answered).items()}):
            self._tell(answered.task, window)

    def _tell(self, task: Task, window: Window) -> None:
        self._meters.drifted(self._engine.name, task.name, window)
        if window.has_changed != self._has_changed.get(task.name, False):
            self._has_changed[task.name] = window.has_changed
            said = (
                "what comes in has changed: " + ways(window.moved)
                if window.has_changed
                else "what comes in is as it was"
            )
            LOG.warning("the run '%s', task '%s': %s", self._engine.name, task.name, said)

    # ---- what requests are held against, in a thread of its own ----

    def _learn(self) -> None:
        try:
            self._ask(lambda items: items, [None])  # when it is answered the run is loaded
            for known in known_rows(self._engine.run, self._tasks, self._reference, MOST, self._notice):
                self._learn_task(known)
        except Gpt1Error as error:
            self._not_watched(error)
        except (ApiError, CancelledError):  # the run has failed, or the server ends
            return

    def _learn_task(self, known: KnownRows) -> None:
        task, rows = known.task, known.rows
        if len(rows) < FEWEST:
            self._not_watched(too_few(rows, f"the known rows of '{task.name}'"))
            return
        portions = [self._figures(task, rows[start : start + PORTION]) for start in range(0, len(rows), PORTION)]
        figures = {name: np.concatenate([one[name] for one in portions]) for name in portions[0]}
        windows = DriftWindows(figures, unordered(task), watchers=self._watchers)
        self._watched[task.name] = known.learned, windows
        self._meters.drift_watched(self._engine.name, task.name, is_watched=True)

    def _figures(self, task: Task, rows: Sequence[Example]) -> Figures:
        (found,) = self._ask(lambda rows: [figures_of(answer(self._engine.run, task, rows))], rows)
        return cast(Figures, found)

    def _ask(self, answering: Answering, items: Sequence[Any]) -> list[Any]:
        """Have the run's thread answer, which is asked by one thread alone: there is at most one question of ours."""
        if self._closing:
            raise CancelledError
        return self._engine.ask((KNOWN,), answering, items).result()

    def _not_watched(self, why: Gpt1Error) -> None:
        self._notice(f"drift is not watched: {why}")

    def _notice(self, said: str) -> None:
        LOG.warning("the run '%s': %s", self._engine.name, self._worded(said))
