"""What lies in run folders, as values: nothing is trained, measured, changed or drawn here.

What is missing leaves its place empty, and the page says so. What is damaged is an error that names the file. Texts are
cut to a length that a page can show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from gpt1.base.errors import FormatError, SettingError
from gpt1.base.files import read_lines, require_plain, short_names
from gpt1.base.record_files import Record
from gpt1.base.records import LARGEST, Count, RecordPart, check_record
from gpt1.documents.blocks import Curve
from gpt1.documents.figures import LONGEST_NAME, shown_text
from gpt1.recipes.values import Recipe
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord
from gpt1.records.ensemble import ENSEMBLE_FILE, EnsembleRecord, TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.records.run import FINETUNING, RunRecord
from gpt1.records.seeds import SEEDS_FILE, SeedsResult
from gpt1.records.study import StudyRecord
from gpt1.records.thresholds import THRESHOLDS_FILE, ThresholdsRecord
from gpt1.runs.files import ATTENTION_FILE, EVENTS_FILE, LOG_FILE, METRICS_FILE, NOTICE, ROLLBACK, SAMPLES_FILE
from gpt1.runs.folder import RUN_FILE, is_run, read_run, run_folder
from gpt1.studies.folder import read_study
from gpt1.tasks.catalog import Task

MOST_LINES = 50  # of each kind from a log
_ON_RESUME = "the run's own training with `resume=True` leaves the line out"

_ROLLED_BACK = re.compile(r"(?:step|update) \d+: batch \d+ blew up ")
_SAVED = re.compile(r"(?:step|update) \d+: saved ")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")


class _Metrics(TypedDict):
    """What every line of metrics.jsonl holds; the rest are figures by their names."""

    step: Count
    steps: NotRequired[Count]
    terms: NotRequired[dict[str, float]]


class _EventLine(TypedDict):
    kind: str
    text: str


@dataclass(frozen=True)
class TrainingCurves:
    """What metrics.jsonl tells: how far the run got, how far it was to go, and its curves by name."""

    step: int
    planned: int
    curves: dict[str, Curve]


@dataclass(frozen=True)
class Sample(RecordPart):
    """Something the model wrote: a line of samples.jsonl."""

    step: Count
    prompt: str
    text: str


@dataclass(frozen=True)
class AttentionMaps(Record):
    """How each head of each layer looked at a sentence: row t is what token t took from the tokens up to itself."""

    NAME, WHAT = "attention", "the attention of a run"
    REMEDY = "without it a page has no pictures of attention"

    step: Count
    tokens: list[str]
    weights: list[list[list[list[float]]]]


OfTasks = TypeVar("OfTasks", EnsembleRecord, CalibrationRecord)


@dataclass(frozen=True)
class Log:
    """What events.jsonl tells, in lines: the first of each kind, and how many there are."""

    rollbacks: list[str]
    rollback_count: int
    notices: list[str]
    notice_count: int


@dataclass(frozen=True)
class GatheredRun:
    """All that a run left; of several seeds, `folder` is that of the best."""

    name: str
    given: Path
    folder: Path
    record: RunRecord
    progress: TrainingCurves | None
    samples: list[Sample] | None
    attention: AttentionMaps | None
    log: Log | None
    evaluations: list[Evaluation]
    seeds: SeedsResult | None
    ensemble: EnsembleRecord | None  # where it was decided who answers
    calibration: CalibrationRecord | None  # where it was found how sure answers are to be
    thresholds: ThresholdsRecord | None  # of tasks with several labels

    @property
    def decided(self) -> Mapping[str, TaskEnsemble]:
        """By what it was decided who answers each task, where it was."""
        return {} if self.ensemble is None else self.ensemble.tasks

    @property
    def recipe(self) -> Recipe:
        """By which it was trained."""
        return self.record.recipe

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that it has learned, by name."""
        return self.record.tasks

    @property
    def is_finetuned(self) -> bool:
        """Whether it answers tasks."""
        return self.record.kind == FINETUNING

    def evaluation(self, task: str, split: str) -> Evaluation | None:
        """Return the evaluation of a task's split, if there is one."""
        return next((one for one in self.evaluations if (one.task, one.split) == (task, split)), None)


def gather(runs: Sequence[str | Path]) -> list[GatheredRun]:
    """Read runs, in the order they are named."""
    if not runs:
        raise SettingError("name at least one run to report on")
    paths = [Path(run) for run in runs]
    _refuse_twice(paths)
    return [_gather_one(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def gather_studies(folders: Sequence[Path]) -> list[tuple[str, Path, StudyRecord]]:
    """Read studies, in the order they are named: the name, the folder and what was found of each."""
    _refuse_twice(folders)
    return [(name, folder, read_study(folder)) for name, folder in zip(_names(folders), folders, strict=True)]


def _refuse_twice(paths: Sequence[Path]) -> None:
    twice = [path for index, path in enumerate(paths) if path.resolve() in [one.resolve() for one in paths[:index]]]
    if twice:
        raise SettingError(f"{twice[0]} is named twice")


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each path that tells it from the others and that a page can show."""
    found = [shown_text(" ".join(name.split()) or name, LONGEST_NAME) for name in short_names(paths)]
    alike = Counter(found)
    return [f"{name} ({place})" if alike[name] > 1 else name for place, name in enumerate(found, 1)]


def _gather_one(given: Path, name: str) -> GatheredRun:
    folder = run_folder(given)
    record = read_run(folder)
    if record.kind == FINETUNING and not record.tasks:
        raise FormatError(f"{folder / RUN_FILE} is damaged: it is fine-tuned and names no task")
    samples, attention, seeds = folder / SAMPLES_FILE, folder / ATTENTION_FILE, given / SEEDS_FILE
    events, log = folder / EVENTS_FILE, folder / LOG_FILE
    return GatheredRun(
        name=name,
        given=given,
        folder=folder,
        record=record,
        progress=_read_progress(folder / METRICS_FILE),
        samples=list(_read_samples(samples)) if samples.is_file() else None,
        attention=_read_attention(attention) if attention.is_file() else None,
        log=_read_events(events) if events.is_file() else _read_log(log) if log.is_file() else None,
        evaluations=_read_evaluations(folder, record.tasks),
        seeds=None if is_run(given) or not seeds.is_file() else SeedsResult.read(seeds),
        ensemble=_read_of_tasks(folder / ENSEMBLE_FILE, EnsembleRecord, record.tasks),
        calibration=_read_of_tasks(folder / CALIBRATION_FILE, CalibrationRecord, record.tasks),
        thresholds=_read_thresholds(folder / THRESHOLDS_FILE, record.tasks),
    )


def _read_of_tasks(path: Path, kind: type[OfTasks], tasks: dict[str, Task]) -> OfTasks | None:
    """Return what is kept of each task of a run, where there is such a file."""
    if not path.is_file():
        return None
    found = kind.read(path)
    if found.tasks.keys() != tasks.keys():
        raise FormatError(f"{path} is of other tasks than the run; {found.REMEDY}")
    return found


def _read_thresholds(path: Path, tasks: dict[str, Task]) -> ThresholdsRecord | None:
    if not path.is_file():
        return None
    found = ThresholdsRecord.read(path)
    found.check(path, tasks)
    return found


# ---- files that grew with the run ----


def _read_progress(path: Path) -> TrainingCurves | None:
    if not path.is_file():
        return None
    step = planned = 0
    curves: dict[str, Curve] = {}
    for number, line in read_lines(path, _ON_RESUME):
        facts: dict[str, Any] = {**check_record(line, _Metrics, f"{path}, line {number}")}
        step, planned = facts.pop("step"), facts.pop("steps", planned)
        facts |= {f"terms.{name}": value for name, value in facts.pop("terms", {}).items()}
        for name, value in facts.items():
            if isinstance(value, int | float) and -LARGEST <= value <= LARGEST:  # which no NaN is
                curve = curves.setdefault(name, Curve([], []))
                curve.steps.append(step)
                curve.values.append(value)
    return TrainingCurves(step, planned, curves)


def _read_samples(path: Path) -> Iterator[Sample]:
    for number, line in read_lines(path, _ON_RESUME):
        found = check_record(line, Sample, f"{path}, line {number}")
        yield Sample(found.step, shown_text(found.prompt), shown_text(found.text))


def _read_attention(path: Path) -> AttentionMaps:
    found = AttentionMaps.read(path)
    tokens, layers = [shown_text(token, LONGEST_NAME) for token in found.tokens], found.weights
    heads = [head for layer in layers for head in layer]
    problem = (
        "its layers are not alike, or empty"
        if not tokens or not heads or len(set(map(len, layers))) > 1
        else "its rows are not as long as the text"
        if any(list(map(len, head)) != list(range(1, len(tokens) + 1)) for head in heads)
        else "a share is not between 0 and 1"
        if not all(0 <= weight <= 1 for head in heads for row in head for weight in row)
        else None
    )
    if problem is not None:
        raise FormatError(f"{path} is damaged: {problem}; {found.REMEDY}")
    return AttentionMaps(found.step, tokens, layers)


def _read_events(path: Path) -> Log:
    rollbacks, notices = [], []
    for number, line in read_lines(path, _ON_RESUME):
        facts = check_record(line, _EventLine, f"{path}, line {number}", _ON_RESUME)
        if facts["kind"] == ROLLBACK:
            rollbacks.append(shown_text(facts["text"]))
        elif facts["kind"] == NOTICE:
            notices.append(shown_text(facts["text"]))
    return _log(rollbacks, notices)


def _read_log(path: Path) -> Log:
    """Return what the log for people tells, of a run that was begun before there was a file of events."""
    rollbacks, notices = [], []
    require_plain(path)
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            text = _TIME.sub("", line.rstrip("\n"), count=1)
            if _ROLLED_BACK.match(text):
                rollbacks.append(shown_text(text))
            elif text and not _SAVED.match(text):
                notices.append(shown_text(text))
    return _log(rollbacks, notices)


def _log(rollbacks: list[str], notices: list[str]) -> Log:
    return Log(rollbacks[:MOST_LINES], len(rollbacks), notices[:MOST_LINES], len(notices))


# ---- what was measured ----


def _read_evaluations(folder: Path, tasks: dict[str, Task]) -> list[Evaluation]:
    """Return all evaluations of the run's tasks: dev, then test, then what else was measured."""
    found = [Evaluation.read(path) for path in sorted(folder.glob("evaluation-*.json"))]
    order = {
        (name, split): place
        for name, task in tasks.items()
        for place, split in enumerate((*task.dev_splits, *task.test_splits))
    }
    return sorted(
        (one for one in found if one.task in tasks),
        key=lambda one: (list(tasks).index(one.task), order.get((one.task, one.split), len(order)), one.split),
    )
