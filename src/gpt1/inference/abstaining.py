"""Answers only where few of them are wrong: which ones a run may give so that a share of mistakes can be promised.

The promise: over the draw of the examples that were kept apart, with 95 % confidence, of all answers that the run gives
to new rows like them at most the share `risk` is wrong in the long run. How it is proven: `tasks/promises.py`; which
examples were kept apart: `finetuning/calibrating.py`. What is decided by is how sure an answer was before any
temperature, which was fitted on these very examples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError, SettingError
from gpt1.base.wording import many, x100
from gpt1.inference.answering import Predictions
from gpt1.inference.run import Run
from gpt1.records.calibration import CalibrationRecord, TaskCalibration
from gpt1.records.seeds import SEEDS_FILE, SeedsResult
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.promises import CONFIDENCE, Promise, find_promise, least_examples

LEAST_RISK = 1e-4
# Of mistakes: of these the least that can be promised is told on a card, and where a lesser one is refused.
SHARES = (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
HALF = 100  # of the rows for dev, below which they are not parted


def promise(run: Run, task: Task, risk: float, name: str | None = None) -> Promise:
    """Return how sure an answer of a run must be so that at most a share `risk` of its answers is wrong.

    Errors call the run by `name`, else by its folder.
    """
    name = name or str(run.path)
    if not LEAST_RISK <= risk < 1:
        raise SettingError(
            f"`abstain` is the share of answers that may be wrong, {LEAST_RISK:g} to below 1, not {risk}"
        )
    refuse_words(task, "`abstain`")
    if task.score_range is not None:
        raise SettingError(f"'{task.name}' is answered with scores, which are more or less right; leave `abstain` out")
    if task.is_multilabel:
        raise SettingError(
            f"'{task.name}' is answered with several labels, each right or wrong by itself, and `abstain` promises of "
            "one answer a row; leave `abstain` out"
        )
    if run.int8:
        raise SettingError(
            "what `abstain` promises was proven with the network's own weights, not with rounded ones; leave `int8` out"
        )
    known = _known(run, task, name)
    assert run.calibration is not None  # `_known` has seen it
    level = _level(run.calibration, run.path)
    if (
        known.seen is not None
        and known.kept is not None
        and (found := find_promise(known.seen, known.kept, risk, level))
    ):
        return found
    rows, needed = len(known.kept or ()), least_examples(risk, level)
    other = _greater(known, risk, level)
    problem = f"{name} cannot promise that at most {_percent(risk)} of its answers to '{task.name}' are wrong"
    if rows < needed:
        raise InputError(
            f"{problem}: that takes {needed:,} answers to rows that decided nothing, none of them wrong, and "
            f"{_kept(known, run, task)}; fine-tune with {2 * max(needed, HALF):,} rows for dev or more "
            f"(`gpt1.finetune(dev=TABLE)`){other}"
        )
    raise InputError(
        f"{problem}: even the surest are wrong too often on the {many(rows, 'row')} that were kept for it; fine-tune "
        f"with more rows{other}"
    )


def _greater(known: TaskCalibration, risk: float, level: float) -> str:
    """Return which share could be promised with the rows there are, in words."""
    if known.seen is None or known.kept is None:
        return ""
    if found := _least(known, level, above=risk):
        answered = f"which answers {found.answered:,} of the {many(found.examples, 'row')} that were kept"
        return f"; `abstain={found.risk:g}` could be promised with the rows there are, {answered}"
    return f"; with the rows there are not even {_percent(SHARES[-1])} could be promised"


def least_promise(calibration: CalibrationRecord, task: str, folder: Path) -> Promise | None:
    """Return the least share of mistakes that the run in a folder can promise, of those that are tried; None: none."""
    return _least(calibration.tasks[task], _level(calibration, folder))


def _least(known: TaskCalibration, level: float, above: float = 0.0) -> Promise | None:
    if known.seen is None or known.kept is None:
        return None
    shares = (share for share in SHARES if share > above)
    return next(filter(None, (find_promise(known.seen, known.kept, share, level) for share in shares)), None)


def abstentions(found: Predictions, promised: Promise | None) -> NDArray[np.bool_]:
    """Return which answers are not to be given."""
    if promised is None:
        return np.zeros(len(found), bool)
    silent: NDArray[np.bool_] = found.sure < promised.threshold
    return silent


def in_words(found: Promise) -> str:
    """Return what is promised, and by what."""
    return (
        f"with {x100(CONFIDENCE):g} % confidence at most {_percent(found.risk)} of the answers to rows like those for "
        f"dev are wrong (of {many(found.examples, 'row')} that were kept for it {found.answered:,} are answered so, "
        f"{found.wrong:,} of these wrong)"
    )


def _percent(share: float) -> str:
    return f"{x100(share):g} %"


def _kept(known: TaskCalibration, run: Run, task: Task) -> str:
    if known.kept is not None:
        return f"{many(len(known.kept), 'row')} were kept"
    rows = run.record.examples.get(task.name, {})  # a temperature may be of others, cross-validated
    return f"none were kept of {many(sum(rows.get(split, 0) for split in task.dev_splits), 'row')} for dev"


def _known(run: Run, task: Task, name: str) -> TaskCalibration:
    if run.calibration is not None:
        return run.calibration.tasks[task.name]
    if run.recipe.finetuning.calibrate:
        raise SettingError(
            f"how sure answers are was found for other weights of {name}, those that were the best on dev; leave "
            "`step` out"
        )
    raise InputError(
        f"{name} was fine-tuned without finetuning.calibrate, so no rows were kept by which a share of mistakes could "
        "be promised; fine-tune with it, as recipe auto does"
    )


def _level(calibration: CalibrationRecord, folder: Path) -> float:
    """Return how likely a promise may be broken.

    Of several seeds the run was chosen by all rows for dev, and each of them could have broken it.
    """
    beside = folder.parent / SEEDS_FILE
    seeds = max(calibration.seeds, len(SeedsResult.read(beside).seeds) if beside.is_file() else 1)
    return (1 - CONFIDENCE) / seeds
