"""What a fitted estimator is worth: what the command line tells after `gpt1 finetune`, as a value."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from gpt1.base.errors import FormatError, InputError
from gpt1.documents.blocks import Block, Note
from gpt1.documents.headline import HeldScore, measured, measured_by_folds, measured_table
from gpt1.documents.terminal import render
from gpt1.finetuning.results import decisions, evaluations, run_worth
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
    told = run_worth(run, name)
    worth = told.verdict
    return Worth(
        verdict=told.sentence,
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
