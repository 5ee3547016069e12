"""`gpt1 tune`: settings of fine-tuning are tried on a labelled table within a time, and the best of them learns it.

The first trial is the recipe as it is. All are judged by rows for training that they have not learned (`judging.py`);
rows for dev are read once, by the winner, whose test nobody has looked at before. When the winner is chosen the search
is over for good. Each trial is kept when it is done: stopped at any moment, the same call goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpt1.base.devices import find_device
from gpt1.base.errors import FormatError, InputError, RuinedWeights, SettingError
from gpt1.base.files import remove_folder
from gpt1.base.stages import alone, or_begin_anew, own_folder
from gpt1.base.wording import duration, hundred, many
from gpt1.bases.catalog import default_base
from gpt1.documents.figures import metric_name
from gpt1.finetuning.counting import MOST_REPEATED
from gpt1.finetuning.data import Source
from gpt1.finetuning.finetune import finetune, is_cross_validated
from gpt1.finetuning.seeds import is_done
from gpt1.finetuning.update_time import seconds_an_update
from gpt1.inference.run import Run, load_run
from gpt1.recipes.changes import change
from gpt1.records.tuning import DIVERGED, DONE, PRUNED, TUNING_FILE, TrialEnd, TrialRecord, TuningRecord
from gpt1.runs.events import Listener, Noticed
from gpt1.runs.folder import TUNED_RUN, is_run
from gpt1.training.trainer import Diverged
from gpt1.tuning.budget import Costs, folds_that_fit, measured
from gpt1.tuning.judging import Judge, Judged, learnable, parts_of, updates_of
from gpt1.tuning.proposing import Proposal, propose, require_optuna
from gpt1.tuning.request import TuneRequest
from gpt1.tuning.space import Range, Values, as_changes

TRIALS, PROBE = "trials", "probe"
PROBE_SHARE = 0.05  # of the time, at most, goes to the updates that show how long one takes
_OURS = (TUNING_FILE, TRIALS, TUNED_RUN, PROBE)


@dataclass(frozen=True)
class TuneResult:
    """What a search has tried, and the run that has learned by the best of it."""

    run: Run
    record: TuningRecord
    recipe: str  # its name
    usual: Mapping[str, float]  # what the recipe has for what is searched
    finetune: Mapping[str, object]  # what makes the very same run, as `gpt1.finetune` takes it

    @property
    def best(self) -> int:
        """Which trial won, from 0 on."""
        return best_of(self.record.trials)


def tune(
    train: str | Path,
    out: str | Path,
    *,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    init: str | Path | None = None,
    minutes: float = 60,
    trials: int | None = None,
    search: Sequence[str] = (),
    changes: Sequence[str] = (),
    device: str | None = None,
    listeners: Iterable[Listener] = (),
    **reading: Any,
) -> TuneResult:
    """Search the settings by which a labelled table is best learned, and learn it by them: the run is in `out`/run.

    `minutes` are for all of it, the training of the winner included; at most so many `trials` are made, where it is
    said. `search` restricts what is searched, such as `optimizer.lr=1e-5:1e-3`; `changes` are settings of every trial.
    `training.seed` among them is the search's too. How tables are read is said as to `gpt1.finetune`: `columns`,
    `regression`, `symmetric`, `encoding`, `skip_bad`, `fold_labels`, `labels_sep`, `metric`.
    """
    require_optuna()
    if minutes <= 0:
        raise SettingError(f"a search needs some time, not {minutes:g} minutes")
    if trials is not None and trials < 1:
        raise SettingError(f"at least one trial is needed, not {trials}")
    tables = {name: Path(path) for name, path in (("train", train), ("dev", dev), ("test", test)) if path is not None}
    base = default_base().name if init is None else str(init)
    source = Source(train=tables["train"], dev=tables.get("dev"), test=tables.get("test"), **reading)
    asked = TuneRequest(base, tables, tuple(search), tuple(changes), device, source, reading, tuple(listeners))
    find_device(device)  # what cannot be searched, or not here, is told before a folder is made
    asked.made_for()
    folder = own_folder(out, _OURS)
    with alone(folder):
        with or_begin_anew(folder):
            found = _Search(asked, folder, 60 * minutes, trials)
        found.require_time()
        with or_begin_anew(folder):
            return found.go()


def best_of(trials: Sequence[TrialRecord]) -> int:
    """Return which trial is the best: by its score, of equals by its loss, and then the first."""
    done = [number for number, one in enumerate(trials) if one.end == DONE]

    def rank(number: int) -> tuple[float, float]:
        loss = trials[number].loss
        return trials[number].scores[-1], -loss if loss is not None else float("-inf")

    return max(done, key=rank)


def read_search(path: Path, made_for: Mapping[str, str], space: Sequence[Range]) -> TuningRecord:
    """Return the search that a folder holds, or refuse one that is of something else."""
    found = TuningRecord.read(path)
    if other := [name for name, value in made_for.items() if found.made_for.get(name) != value]:
        raise InputError(
            f"{path.parent} holds a search with other {' and other '.join(other)}; choose another folder with `out`"
        )
    names = {one.name for one in space}
    if any(one.values.keys() not in (set(), names) for one in found.trials):
        raise FormatError(f"{path} is damaged: a trial is of other settings than those that are searched")
    return found


class _Search:
    """A search at work in its folder."""

    def __init__(self, asked: TuneRequest, out: Path, seconds: float, most: int | None) -> None:
        self._asked, self._out, self._seconds, self._most = asked, out, seconds, most
        self._began = time.monotonic()
        parts_of(asked.task)  # too few rows are told before anything is measured
        self._record = self._open()
        self._spent = sum(one.seconds for one in self._record.trials)  # before this call
        folds, listeners = self._record.folds, asked.listeners
        self._judge = Judge(asked.base, asked.task, asked.recipe, folds, asked.device, listeners)

    def require_time(self) -> None:
        """Refuse a time in which nothing can be searched."""
        if self._record.trials or self._needed({}) <= self._left():
            return
        trial, winner = self._takes({})
        enough = -(-self._needed({}) // 60) + 1
        raise SettingError(
            f"{self._seconds / 60:g} minutes are too few: here a trial takes about {duration(trial)}, and the training "
            f"of the winner with what follows it about {duration(winner)}; say `minutes={enough:.0f}` or more, or "
            f"`gpt1.finetune(train={str(self._asked.tables['train'])!r})` without a search"
        )

    def go(self) -> TuneResult:
        """Do what is not done yet."""
        if self._record.closed:
            trials = many(len(self._record.trials), "trial")
            self._tell(f"the winner of {trials} is chosen: what has seen its test is not searched further")
        else:
            self._try_all()
            self._keep(replace(self._record, closed=True))
        self._clear()
        told, run = self._asked.winner(self._out / TUNED_RUN, self._best.values), self._out / TUNED_RUN
        if not is_done(run):
            self._asked.require_same_tables(self._record.made_for)  # the trials read them when the search began
            finetune(**told, resume=is_run(run), listeners=self._asked.listeners)  # type: ignore[arg-type]
        opened = load_run(run, device=self._asked.device)
        return TuneResult(opened, self._record, self._asked.recipe.name, self._asked.usual, told)

    # ---- what is kept ----

    def _open(self) -> TuningRecord:
        """Return the search that the folder holds, which is this one; or a new one."""
        path, made_for = self._out / TUNING_FILE, self._asked.made_for()
        return read_search(path, made_for, self._asked.space) if path.exists() else self._new(made_for)

    def _new(self, made_for: dict[str, str]) -> TuningRecord:
        asked = self._asked
        metric, rows = asked.task.task.metrics[0], len(asked.task.splits["train"])
        minutes = PROBE_SHARE * self._seconds / 60
        tasks = {asked.task.task.name: learnable(asked.task)}
        an_update = seconds_an_update(
            asked.base,
            self._out / PROBE,
            tasks=tasks,
            device=asked.device,
            minutes=minutes,
            changes=asked.changes,
        )
        folds = folds_that_fit(self._costs(an_update), rows, MOST_REPEATED, self._left())
        return TuningRecord(made_for, metric, rows, an_update, folds)

    def _keep(self, record: TuningRecord) -> None:
        record.write(self._out / TUNING_FILE)
        self._record = record

    def _clear(self) -> None:
        if (self._out / TRIALS).is_dir():
            remove_folder(self._out / TRIALS)

    @property
    def _best(self) -> TrialRecord:
        return self._record.trials[best_of(self._record.trials)]

    # ---- what fits ----

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._began)

    def _costs(self, an_update: float) -> Costs:
        recipe, task = self._asked.recipe, self._asked.task
        again = is_cross_validated({task.task.name: task}, recipe)
        return Costs(an_update, self._updates({}), again, recipe.finetuning.folds)

    def _takes(self, values: Values) -> tuple[float, float]:
        """Return how long a trial of values takes, and how long the winner, be it this one or the best so far."""
        costs = self._costs(measured(self._record.seconds_an_update, self._record.trials))
        winners = [values, *([self._best.values] if self._record.trials else [])]
        longest = max(costs.winner(self._updates(one)) for one in winners)
        return costs.trial(self._judge.updates(as_changes(values))), longest

    def _needed(self, values: Values) -> float:
        return sum(self._takes(values))

    def _updates(self, values: Values) -> int:
        return updates_of(change(self._asked.recipe, as_changes(values)), len(self._asked.task.splits["train"]))

    # ---- trials ----

    def _try_all(self) -> None:
        """Make trials, while more of them are wanted and the next one fits."""
        asked = self._asked
        self._tell(self._how())
        self._keep(self._record)
        while self._most is None or len(self._record.trials) < self._most:
            done = self._record.trials
            proposal = propose(asked.space, asked.usual, done, asked.recipe.training.seed) if done else None
            if done and proposal is None:
                self._tell(f"all that is searched has been tried: {many(len(done), 'trial')} made")
                return
            values = {} if proposal is None else proposal.values
            if done and self._needed(values) > self._left() - self._spent:
                self._tell(f"no other trial fits beside the training of the winner: {many(len(done), 'trial')} made")
                return
            self._try(proposal)

    def _try(self, proposal: Proposal | None) -> None:
        """Make a trial, or go on with it, and keep what came of it."""
        done, name = self._record.trials, self._asked.recipe.name
        folder = self._out / TRIALS / f"trial-{len(done) + 1}"
        changes = [] if proposal is None else as_changes(proposal.values)
        self._tell(f"trial {len(done) + 1}: {', '.join(changes) or f'recipe {name} as it is'}")
        was_begun, began = folder.exists(), time.monotonic()
        end, found = self._heard(folder, changes, proposal)
        if end == DIVERGED and proposal is None:
            raise InputError(f"the loss of recipe {name} as it is blows up on this table; set a lower `optimizer.lr`")
        made = self._judge.updates(changes) * len(found) // self._record.folds
        trial = TrialRecord(
            end,
            {} if proposal is None else proposal.values,
            [one.score for one in found],
            found[-1].loss if found else None,
            time.monotonic() - began,
            0 if was_begun or end == DIVERGED else made,
            found[-1].interval if found else None,
        )
        self._keep(replace(self._record, trials=[*done, trial]))
        self._clear()
        self._tell(self._came(trial))

    def _heard(self, folder: Path, changes: Sequence[str], proposal: Proposal | None) -> tuple[TrialEnd, list[Judged]]:
        """Return how a trial ended, and what was found after each of its folds; the recipe itself is never given up."""
        found: list[Judged] = []
        try:
            for one in self._judge.judge(folder, changes):
                found.append(one)
                is_last = len(found) == self._record.folds
                if proposal is not None and not is_last and proposal.is_hopeless([one.score for one in found]):
                    return PRUNED, found
        except (Diverged, RuinedWeights):
            return DIVERGED, found
        return DONE, found

    # ---- what is told ----

    def _tell(self, text: str) -> None:
        for listener in self._asked.listeners:
            listener(Noticed(text))

    def _how(self) -> str:
        ranges = ", ".join(one.in_words() for one in self._asked.space)
        which = "each third of them" if self._record.folds > 1 else "a third of them"
        return (
            f"searched: {ranges}; each trial is judged by {metric_name(self._record.metric)} on "
            f"{many(self._record.rows, 'row')} for training, {which} answered by what has learned the others"
        )

    def _came(self, trial: TrialRecord) -> str:
        number, took = len(self._record.trials), f"in {duration(trial.seconds)}"
        if trial.end == DIVERGED:
            return f"trial {number}: its loss blew up, {took}"
        given_up = f", given up after {many(len(trial.scores), 'fold')}" if trial.end == PRUNED else ""
        best = best_of(self._record.trials) + 1
        beside = "the best so far" if best == number else f"the best is trial {best}: {hundred(self._best.scores[-1])}"
        metric = metric_name(self._record.metric)
        return f"trial {number}: {metric} {hundred(trial.scores[-1])}{given_up}, {took}; {beside}"
