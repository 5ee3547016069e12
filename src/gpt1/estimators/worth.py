"""What a fitted estimator is worth: what the command line tells after `gpt1 finetune`, as a value."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from gpt1.base.errors import FormatError, InputError
from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Note
from gpt1.documents.headline import (
    HeldScore,
    decisive,
    headline,
    measured,
    measured_by_folds,
    measured_table,
    opened,
)
from gpt1.documents.terminal import render
from gpt1.documents.verdict import Verdict, verdict, verdict_without_rows
from gpt1.finetuning.results import decisions, evaluations
from gpt1.finetuning.seeds import is_done
from gpt1.inference.answering import task_of
from gpt1.inference.run import Run
from gpt1.linear.ensemble import ALONE

WIDTH = 100  # of a line, which a notebook has room for


@dataclass(frozen=True, repr=False)
class Worth:
    """What an estimator is worth; printed, it is a few lines for a person.

    Shares and scores are from 0 to 1. What is not known is None.
    """

    verdict: str  # in a sentence
    is_of_use: bool | None
    may_be_chance: bool  # the rows are too few to tell it from always giving the commonest answer
    is_flattered: bool  # by rows that stand in train too
    measured: tuple[HeldScore, ...]  # on each split, and by cross-validation
    who_answers: tuple[str, ...]  # the network, counted words, or both
    why: str | None  # it is they who answer
    temperature: float | None
    how_sure: str | None  # answers are made, in a sentence
    thresholds: str | None  # from which probability on one of several labels is given, in a sentence

    def __str__(self) -> str:
        """Return it as lines."""
        return render(list(self._blocks()), width=WIDTH, is_terminal=False, folds=True)

    def __repr__(self) -> str:
        """Return the same, for a notebook."""
        return str(self)

    def _blocks(self) -> Iterator[Block]:
        yield Note(self.verdict)
        yield from map(measured_table, self.measured)
        for told in filter(None, (self.why, self.how_sure, self.thresholds)):
            yield Note(f"{told[0].upper()}{told[1:]}.")


def worth_of(run: Run) -> Worth:
    """Return what a run that has learned one task is worth, as far as it was measured and can be read."""
    try:
        return _worth_of(run)
    except (FormatError, InputError) as error:  # answers need none of it
        warnings.warn(f"what {run.path} is worth cannot be read: {error}", stacklevel=2)
        return Worth(f"What it is worth is not known: {error}.", None, False, False, (), (), None, None, None, None)


def _worth_of(run: Run) -> Worth:
    name = task_of(run).name
    found, decided = evaluations(run), decisions(run).get(name)
    by_folds = None if decided is None or not decided.cross_validated else decided
    calibrated = None if run.calibration is None else run.calibration.tasks[name]
    thresholds = None if run.thresholds is None else run.thresholds.tasks.get(name)
    sentence, worth = _worth(run)
    return Worth(
        verdict=sentence,
        is_of_use=None if worth is None else worth.is_of_use,
        may_be_chance=worth is not None and worth.may_be_chance,
        is_flattered=worth is not None and worth.is_flattered,
        measured=(*map(measured, found), *(() if by_folds is None else (measured_by_folds(by_folds),))),
        who_answers=tuple(ALONE if decided is None else decided.weights),
        why=None if decided is None else decided.why,
        temperature=None if calibrated is None else calibrated.temperature,
        how_sure=None if calibrated is None else calibrated.why,
        thresholds=None if thresholds is None else thresholds.why,
    )


def _worth(run: Run) -> tuple[str, Verdict | None]:
    """Return the first thing to be said of a run, and what its score is worth, where there is one."""
    decided = decisions(run)
    if told := decisive(evaluations(run)):
        return headline(told[0], decided), verdict(told[0], decided.get(told[0].task))
    worths = filter(None, map(verdict_without_rows, decided.values()))
    return next(((opened(worth), worth) for worth in worths), (_unmeasured(run), None))


def _unmeasured(run: Run) -> str:
    """Return that nothing was measured, and why."""
    if not is_done(run.path):
        return "What it is worth is not known: its training is not at its end."
    rows = next(iter(run.record.examples.values()), {})
    if rows.keys() != {"train"}:
        return "What it is worth is not known: nothing that was measured is kept with it."
    return (
        f"What it is worth was not measured: all {many(rows['train'], 'row')} were trained on, without "
        "cross-validation; `dev=True` keeps a tenth of them aside to measure it, and rows of your own can be scored."
    )
