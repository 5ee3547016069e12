"""How long an update takes: a few are made, of this table and this base on this machine, and thrown away."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from gpt1.base.files import remove_folder
from gpt1.finetuning.finetune import finetune
from gpt1.runs.events import Event, Stepped

UPDATES = 8
_CHANGES = (
    f"training.steps={UPDATES}",
    "logging.log_every=1",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
)


def seconds_an_update(
    init: str, folder: Path, *, table: Path, device: str | None, minutes: float, **reading: Any
) -> float:
    """Return how long an update of a fine-tuning takes, by a few of them, for which there are so many `minutes`.

    How the table is read is said as to `gpt1.finetune`.
    """
    seconds: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, Stepped) and event.step < event.steps:
            seconds.append(event.seconds_left / (event.steps - event.step))

    _remove(folder)  # that a kill has left
    finetune(init, folder, train=table, **reading, changes=_CHANGES, device=device, minutes=minutes, listeners=[hear])
    _remove(folder)
    return median(seconds[1:] or seconds)  # the first takes longer than others


def _remove(folder: Path) -> None:
    if folder.is_dir():
        remove_folder(folder)
