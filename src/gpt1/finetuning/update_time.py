"""How long an update takes: a few are made, of this table and this base on this machine, and thrown away."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from gpt1.base.files import remove_folder
from gpt1.finetuning.data import Source, read_source
from gpt1.finetuning.finetune import finetune
from gpt1.recipes.derived import recipe_for, wants_windows
from gpt1.runs.events import Event, Stepped
from gpt1.runs.folder import read_run, run_folder, run_tokenizer
from gpt1.tasks.encoded import EncodedTask

UPDATES = 8
FEWEST = 3  # however short the time is: the first takes longer than others
_CHANGES = (
    f"training.steps={UPDATES}",
    "logging.log_every=1",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
)


def encode_table(init: str, table: Path, **reading: Any) -> dict[str, EncodedTask]:
    """Return the rows of a table as a fine-tuning of the run `init` has them; how it is read is said as to that."""
    base = run_folder(init)
    source = Source(train=table, **reading)
    shape = read_run(base).recipe.shape
    return read_source(source, run_tokenizer(base), shape.context, windows=wants_windows(recipe_for(shape)))[0]


def seconds_an_update(
    init: str,
    folder: Path,
    *,
    tasks: Mapping[str, EncodedTask],
    device: str | None,
    minutes: float,
    changes: Sequence[str] = (),
) -> float:
    """Return how long an update of a fine-tuning takes, by a few of them, for which there are so many `minutes`."""
    watch = Stopwatch(60 * minutes)
    _remove(folder)  # that a kill has left
    with suppress(Enough):
        how = [*changes, *_CHANGES]
        finetune(init, folder, encoded=list(tasks.values()), changes=how, device=device, listeners=[watch])
    _remove(folder)
    return watch.seconds_an_update()


class Enough(Exception):
    """The updates that were made tell how long one takes, and the time for them is up."""


class Stopwatch:
    """Hears a training, and stops it when so many seconds are over, but not before a few updates were made."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._seconds: list[float] = []  # of each update

    def __call__(self, event: Event) -> None:
        """Note how long an update took."""
        if isinstance(event, Stepped) and event.step < event.steps:
            self._seconds.append(event.seconds_left / (event.steps - event.step))
            if len(self._seconds) >= FEWEST and time.monotonic() >= self._end:
                raise Enough

    def seconds_an_update(self) -> float:
        """Return how long an update takes, without the first."""
        return median(self._seconds[1:])


def _remove(folder: Path) -> None:
    if folder.is_dir():
        remove_folder(folder)
