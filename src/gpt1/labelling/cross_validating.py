"""Answers to rows by somebody who has not learned them: a run's own way of learning, on two thirds of them at a time.

What the run is answers: its network, trained again from its base with its settings, counted words, or both with the
weights that the run has; as sure as the run is. Each network lies in a folder of its own until all have answered, so
that what was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError
from gpt1.base.wording import duration, many
from gpt1.finetuning.counting import deal_evenly, words_of_others
from gpt1.finetuning.ensembling import chosen, keep, without_part
from gpt1.finetuning.finetune import FOR_A_PART, finetune
from gpt1.finetuning.forecasting import in_fold, seconds_in_all
from gpt1.inference.answering import answer_split, temperature_of
from gpt1.inference.run import LAST, Run, load_run
from gpt1.labelling.workings import PARTS, at_work_in, base_of, made_for
from gpt1.linear.ensemble import ALONE, pool
from gpt1.linear.words import encoded_texts
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import NETWORK, WORDS
from gpt1.runs.events import Event, Listener, Stepped
from gpt1.tasks.answers import Floats
from gpt1.tasks.encoded import EncodedTask
from gpt1.tasks.temperature import tempered

Notice = Callable[[str], None]


class _Progress:
    """Tells once how long all trainings take, and passes on how far each is."""

    def __init__(self, notice: Notice, listeners: Iterable[Listener]) -> None:
        self._notice, self._listeners = notice, tuple(listeners)
        self._seconds_each = 0.0  # until it is known

    def of_part(self, number: int) -> list[Listener]:
        """Return who hears of a training."""
        return [self._reckon, *(in_fold(one, number, FOLDS, lambda: self._seconds_each) for one in self._listeners)]

    def _reckon(self, event: Event) -> None:
        if isinstance(event, Stepped) and not self._seconds_each and 1 < event.step < event.steps:
            each = self._seconds_each = seconds_in_all(event)
            self._notice(
                f"each of the {FOLDS} trainings takes about {duration(each)}, all of them {duration(FOLDS * each)}"
            )


def cross_validated(
    run: Run, encoded: EncodedTask, workings: Path, notice: Notice, listeners: Iterable[Listener]
) -> Floats:
    """Return what those who have not learned a row answer to it, for all that `encoded` has to learn from."""
    task = encoded.task
    ensemble = run.ensembles.get(task.name)
    weights = ALONE if ensemble is None else ensemble.weights
    members = answers_of_others(run, encoded, weights, workings, notice, listeners)
    return tempered(task, pool(task, members, weights), temperature_of(run, task))


def answers_of_others(
    run: Run,
    encoded: EncodedTask,
    who: Container[str],
    workings: Path,
    notice: Notice,
    listeners: Iterable[Listener],
) -> dict[str, Floats]:
    """Return what network and words (those of `who`) answer to each row, having learned two thirds without it."""
    parts = deal_evenly(encoded)
    if parts is None:
        raise InputError(
            f"{many(len(encoded.splits['train']), 'row')} are too few: there must be six different texts, and two "
            "labels in any two thirds of them; add rows, or read so few yourself"
        )
    members: dict[str, Floats] = {}
    base = base_of(run) if NETWORK in who else None  # told before words are counted
    if WORDS in who:
        _ask_words(run, encoded, parts, members)
    if base is not None:
        with at_work_in(workings, made_for(run, base, encoded, notice)):
            _ask_networks(run, base, encoded, parts, members, workings, _Progress(notice, listeners))
    return members


def _ask_words(run: Run, encoded: EncodedTask, parts: NDArray[np.int64], members: dict[str, Floats]) -> None:
    texts = encoded_texts(encoded.task, encoded.splits["train"], run.tokenizer)
    for number in range(FOLDS):
        keep(members, WORDS, parts == number, words_of_others(encoded, texts, parts == number))


def _ask_networks(
    run: Run,
    base: Path,
    encoded: EncodedTask,
    parts: NDArray[np.int64],
    members: dict[str, Floats],
    workings: Path,
    progress: _Progress,
) -> None:
    for number, name in enumerate(PARTS):
        finetune(
            base,
            workings / name,
            encoded=without_part(encoded, parts, number),
            recipe=run.recipe,
            changes=FOR_A_PART,
            resume=True,
            device=str(run.device),
            listeners=progress.of_part(number),
        )
        trained = load_run(workings / name, device=str(run.device), step=LAST)
        inside = parts == number
        keep(members, NETWORK, inside, answer_split(trained, encoded.task, chosen(encoded.splits["train"], inside))[0])
