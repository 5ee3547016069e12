"""What a fine-tuning gave, read from its folder: for programs and, in short, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, cast

from gpt1.base.errors import FormatError, InputError
from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Note
from gpt1.documents.evaluation import seeds_blocks, task_scores
from gpt1.documents.headline import decisive, headline, measured_line, opened
from gpt1.documents.verdict import Verdict, commonest, is_lopsided, verdict, verdict_without_rows
from gpt1.finetuning.measure import evaluation_file
from gpt1.finetuning.seeds import is_done
from gpt1.inference.run import Run
from gpt1.records.ensemble import TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.records.seeds import SEEDS_FILE, SeedsResult
from gpt1.tasks.assessment import Interval

_OTHER_METRIC = (
    "Nearly all rows have one label, so accuracy says little: a new run with `metric='macro-f1'` is chosen and judged "
    "by all labels alike, and gives rare ones more often."
)


class SplitResult(TypedDict):
    """What was measured on a split."""

    step: int
    examples: int
    metrics: dict[str, float]
    intervals: NotRequired[dict[str, Interval]]  # 95 %
    words: NotRequired[dict[str, float]]  # the metrics of counting words (TF-IDF) on the same examples
    commonest: NotRequired[float]  # the share of the commonest label
    verdict: NotRequired[str]  # what the score is worth
    is_of_use: NotRequired[bool]  # not where there is nothing to hold it against
    is_flattered: NotRequired[bool]  # by rows that were learned
    may_be_chance: NotRequired[bool]  # the rows are too few to tell it from always giving the commonest answer


class Decision(TypedDict):
    """Who answers a task and how surely, and by what that was decided."""

    weights: dict[str, float]  # of the network and of counted words
    why: str
    examples: int  # that decided it
    cross_validated: bool
    scores: NotRequired[dict[str, float]]  # of each and of both together, by the task's first metric
    commonest: NotRequired[float]
    temperature: NotRequired[float]


class TuningResult(TypedDict):
    """What a fine-tuning gave, as `gpt1 finetune --json` prints it."""

    run: str
    is_done: bool  # else it was stopped, and can go on
    decided: dict[str, Decision]  # by task, where counted words were held against the network
    tasks: dict[str, dict[str, SplitResult]]  # by task and split
    seeds: NotRequired[dict[str, dict[str, float]]]


def results(run: Run) -> TuningResult:
    """Return the run's folder and, for each task and split that was measured, metrics and their 95 % intervals."""
    decided = decisions(run)
    measured = {
        name: {split: _short(found, decided.get(name)) for split, found in _evaluations(run, name).items()}
        for name in run.tasks
    }
    found: TuningResult = {
        "run": str(run.path),
        "is_done": is_done(run.path),
        "decided": {name: _decision(run, name, one) for name, one in decided.items()},
        "tasks": measured,
    }
    if (seeds := _seeds(run)) is not None:
        found["seeds"] = seeds.summary
    return found


def results_blocks(run: Run) -> list[Block]:
    """Return the results for people: what all seeds gave, the scores of each task, and what to do next."""
    seeds = _seeds(run)
    found = evaluations(run)
    chosen = [Note(f"{name}: {one.record.why}.") for name, one in run.ensembles.items()]
    calibrated = {} if run.calibration is None else run.calibration.tasks
    sure = [Note(f"{name}: {one.why}.") for name, one in calibrated.items()]
    given = {} if run.thresholds is None else run.thresholds.tasks
    sure += [Note(f"{name}: {one.why}.") for name, one in given.items()]
    return [
        *([] if seeds is None else seeds_blocks(seeds)),
        *task_scores(found, decisions(run)),
        *chosen,
        *sure,
        Note(f"{run.path} {_next_step(run, found)}"),
        *([Note(_OTHER_METRIC)] if any(map(is_lopsided, found)) else []),
    ]


@dataclass(frozen=True)
class RunWorth:
    """What a run is worth by the rows that tell most: the first thing to be said of it, and what that stands on."""

    sentence: str
    figures: str = ""  # score, interval, counted words and rows; empty where nothing was measured on a split
    verdict: Verdict | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as `gpt1 predict --json` prints it."""
        found = self.verdict
        told = {"told": self.sentence, **({"figures": self.figures} if self.figures else {})}
        return told if found is None else {**told, "is_of_use": found.is_of_use, "may_be_chance": found.may_be_chance}


def run_worth(run: Run, task: str) -> RunWorth:
    """Return what a run is worth for one of its tasks; what cannot be read is told, as answers need none of it."""
    try:
        return _run_worth(run, task)
    except (FormatError, InputError) as error:
        return RunWorth(f"What it is worth is not known: {error}.")


def _run_worth(run: Run, task: str) -> RunWorth:
    decided = decisions(run)
    if told := decisive(list(_evaluations(run, task).values())):
        (found,) = told
        if found.step != run.checkpoint.step:
            at = f"it was measured after {many(found.step, 'update')}, and this is after {run.checkpoint.step:,}"
            return RunWorth(f"What it is worth is not known: {at}.")
        return RunWorth(headline(found, decided), measured_line(found, decided), verdict(found, decided.get(task)))
    worth = verdict_without_rows(decided[task]) if task in decided else None
    return RunWorth(_unmeasured(run, task)) if worth is None else RunWorth(opened(worth), verdict=worth)


def _unmeasured(run: Run, task: str) -> str:
    """Return that nothing was measured, and why."""
    if not is_done(run.path):
        why = "its training is not at its end" if run.record.pruned is None else "it was made smaller, and not measured"
        return f"What it is worth is not known: {why}."
    rows = run.record.examples.get(task, {})
    if rows.keys() != {"train"}:
        return "What it is worth is not known: nothing that was measured is kept with it."
    return (
        f"What it is worth was not measured: all {many(rows['train'], 'row')} were trained on, without "
        "cross-validation; `dev=True` keeps a tenth of them aside to measure it, and rows of your own can be scored."
    )


def evaluations(run: Run) -> list[Evaluation]:
    """Return all that was measured of a run's own tasks."""
    return [one for name in run.tasks for one in _evaluations(run, name).values()]


def _next_step(run: Run, found: Sequence[Evaluation]) -> str:
    if not is_done(run.path):
        return "is not at its end; `gpt1.finetune(resume=True)` goes on"
    decided = decisions(run)
    told = [verdict(one, decided.get(one.task)) for one in found]
    measured = {one.task for one in found}
    told += [verdict_without_rows(one) for name, one in decided.items() if name not in measured]
    worths = [worth for worth in told if worth is not None]
    if any(worth.is_of_use is False and not worth.is_as_words for worth in worths):
        return (
            "is trained, but not of use yet: more labels, or a base that has read more, may help; gpt1 evaluate shows "
            "its mistakes"
        )
    if any(worth.is_flattered for worth in worths):
        return (
            "is trained, but how good it is is not known: rows that it is measured on stand in train too; "
            "gpt1 evaluate with a table of other texts tells it"
        )
    if any(worth.may_be_chance for worth in worths):
        return (
            "is trained, but whether it is of use is not known: its rows are too few to tell; label more of them, or "
            "measure it on others with gpt1 evaluate"
        )
    if any(worth.is_as_words for worth in worths):
        return (
            f"is trained, and no better than {found[0].yardstick}: where that is enough it can be used; more labels, "
            "or a base that has read more, may help"
        )
    return "is ready: gpt1 evaluate shows its mistakes, gpt1 predict answers new rows"


def decisions(run: Run) -> dict[str, TaskEnsemble]:
    """Return by what it was decided who answers each task, where it was."""
    return {name: one.record for name, one in run.ensembles.items()}


def _decision(run: Run, task: str, decided: TaskEnsemble) -> Decision:
    found: Decision = {
        "weights": decided.weights,
        "why": decided.why,
        "examples": decided.examples,
        "cross_validated": decided.cross_validated,
    }
    if decided.scores:
        found["scores"] = decided.scores
    if decided.commonest is not None:
        found["commonest"] = decided.commonest
    if run.calibration is not None:
        found["temperature"] = run.calibration.tasks[task].temperature
    return found


def _short(found: Evaluation, decided: TaskEnsemble | None) -> SplitResult:
    told = SplitResult.__annotations__
    short = cast(SplitResult, {name: value for name, value in found.as_json().items() if name in told})
    if (common := commonest(found.classes)) is not None and "accuracy" in found.metrics:
        short["commonest"] = common[1]
    if (worth := verdict(found, decided)) is not None:
        short["verdict"], short["is_flattered"] = worth.sentence, worth.is_flattered
        short["may_be_chance"] = worth.may_be_chance
        if worth.is_of_use is not None:
            short["is_of_use"] = worth.is_of_use
    return short


def _seeds(run: Run) -> SeedsResult | None:
    path = run.path.parent / SEEDS_FILE
    return SeedsResult.read(path) if path.is_file() else None


def _evaluations(run: Run, task: str) -> dict[str, Evaluation]:
    found = {}
    for split in run.tasks[task].splits:
        path = evaluation_file(run.path, task, split)
        if path.is_file():
            found[split] = Evaluation.read(path)
    return found
