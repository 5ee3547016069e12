"""The paper's tables 2 to 5 and figure 2 in one go, as far as the data at hand goes.

Nothing is computed that the single studies would not: the same cells in one folder, and where two parts need the same
fine-tuning (the full model is in all of them) it is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import cast

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.files import whole_file
from gpt1.base.parts import Part
from gpt1.documents.markdown import render
from gpt1.documents.study import claims_page
from gpt1.finetuning.data import Source
from gpt1.records.study import (
    AskedOfStudy,
    ClaimsSection,
    GlueSection,
    PairedDifference,
    PublishedFigures,
    StudyRecord,
    TablesSection,
)
from gpt1.studies import ablations, claims, convergence, further, labels, paper, transfer, zeroshot
from gpt1.studies.ablations import make_arms
from gpt1.studies.cells import Cell, CellResult, Notebook, Watcher
from gpt1.studies.finetuned import FinetuningSettings, Plan, difference, interval, judged_splits, summary_of, whole_arms
from gpt1.studies.folder import CLAIMS_FILE, Done, StudySection, conduct
from gpt1.studies.labels import Wanted
from gpt1.studies.material import (
    InitRun,
    TaskData,
    check_learnable,
    check_same_words,
    open_start,
    read_tasks,
    tell_start,
)
from gpt1.studies.paper import ABLATED, FULL, TABLES, Published, whole_rows
from gpt1.studies.subjects import Subject, task_subject
from gpt1.tasks.catalog import CATALOGUE, GLUE
from gpt1.tasks.metrics import glue_score, task_score
from gpt1.tasks.readers import tasks_in

NAME = "reproduce"
PARTS = ("tables", "zeroshot", "ablations", "transfer", "labels", "further")  # in the order in which they are made
TABLE_TASKS = tuple(dict.fromkeys([*(row.task for rows in TABLES.values() for row in rows), *GLUE]))


@dataclass(frozen=True)
class Scope:
    """Which cells of a reproduction are made: of some of its parts, of some tasks, beside other commands."""

    parts: Sequence[str] = PARTS
    tasks: Sequence[str] | None = None  # None: all
    part: Part | None = None  # None: all cells, and the tables

    def __post_init__(self) -> None:
        for name in self.parts:
            if name not in PARTS:
                raise unknown("part", name, PARTS)


def reproduce(
    init: str | Path,
    out: str | Path,
    *,
    data: str | Path,
    training: FinetuningSettings,
    lstm: str | Path | None = None,
    rates: Mapping[str, float] | None = None,
    counts: Sequence[Wanted] = (),
    texts: Mapping[str, str | Path] | None = None,
    scope: Scope | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Make every table and figure of the paper for which there is data, and return what was found.

    `rates` are learning rates of ablations that have others than the full model; `counts` are numbers of labels from
    which it is learned with and without the auxiliary loss; `texts` are runs that read the same text as it is
    (`"contiguous"`) and with its sentences shuffled (`"shuffled"`). The `scope` is which cells are made now; what is
    done of the others is told all the same.
    """
    notebook = Notebook(watcher)
    scope = scope or Scope()
    runs = zeroshot.open_runs([init] if lstm is None else [init, lstm])
    start, other = runs[0], runs[1] if len(runs) > 1 else None
    read = _open_texts(start, texts or {})
    arms = ablations.with_rates(make_arms(start, other), rates or {}, notebook)
    tell_start(start, notebook)
    labelled = _read(Path(data), notebook)
    learned = {name: one for name, one in labelled.items() if name in TABLE_TASKS and one.train}
    check_learnable(learned)
    asked = {name: task_subject(one, shots=0, seed=0) for name, one in labelled.items() if name in paper.SCALES}
    training = training.settled_by(start, Path(out))
    counted = {name: learned[name] for name in claims.COUNTED if name in learned} if counts else {}
    by_count = {name: labels.counts_of(one, counts, notebook) for name, one in counted.items()}
    planned = _Reproduction(
        runs,
        learned,
        asked,
        questions=zeroshot.plan(runs, asked, device=training.device, watcher=notebook),
        full=ablations.plan(arms[:1], learned, training),
        arms=ablations.plan(arms, _some(learned, ABLATED), training),
        layers=transfer.plan(start, _some(learned, claims.TRANSFERRED), training, None),
        few=labels.plan({arm.name: arm for arm in arms if arm.name in convergence.ARMS}, counted, training, by_count),
        others=further.plan(start, read, learned, training),
    )
    about: AskedOfStudy = {
        "init": str(start.path),
        "lstm": None if other is None else str(other.path),
        "data": str(data),
        "tasks": list(labelled),
        "changes": list(training.changes),
        "rates": dict(rates or {}),
        "counts": list(counts),
        "texts": {name: str(run.path) for name, run in read.items()},
        "seeds": list(training.seed_numbers),
    }
    if absent := [name for name in scope.tasks or () if name not in labelled]:
        raise InputError(f"{data} has no rows of {', '.join(absent)}")
    every, wanted = planned.cells(PARTS), planned.cells(scope.parts, scope.tasks)
    found = conduct(Path(out), NAME, about, every, planned.tabulate, notebook, scope.part, wanted)
    if scope.part is None:
        with whole_file(Path(out) / CLAIMS_FILE) as file:
            file.write(render(claims_page(found)).encode())
    return found


@dataclass(frozen=True)
class _Reproduction:
    """The cells of a reproduction, part by part, and what they come to."""

    runs: Sequence[InitRun]
    learned: Mapping[str, TaskData]
    asked: Mapping[str, Subject]
    questions: Sequence[Cell]
    full: Plan[str]
    arms: Plan[str]
    layers: Plan[int]
    few: Plan[labels.Key]
    others: Plan[str]

    def cells(self, parts: Sequence[str], tasks: Sequence[str] | None = None) -> list[Cell]:
        """Return the cells of parts, of all tasks or some, each once: one name is one computation."""
        by_part: dict[str, Iterable[Cell]] = {
            "tables": self.full.values(),
            "zeroshot": self.questions,
            "ablations": self.arms.values(),
            "transfer": self.layers.values(),
            "labels": self.few.values(),
            "further": self.others.values(),
        }
        found = {cell.name: cell for part in parts for cell in by_part[part]}
        rows = [row for task in tasks or () for row in (task, zeroshot.row_of(task))]
        return [cell for cell in found.values() if tasks is None or cell.row in rows]

    def tabulate(self, done: Done) -> list[StudySection]:
        """Return what is done as sections, the claims first."""
        by_arm = {(task, f"layers-{count}", seed): cell for (task, count, seed), cell in self.layers.items()}
        sections = [
            _tables(self.learned, self.full, done),
            glue_section(self.learned, _full(self.full, done)),
            zeroshot.tabulate(self.runs, self.asked, done),
            *ablations.tabulate(self.learned, self.arms, done),
            convergence.tabulate(self.arms, done),
            transfer.tabulate(self.learned, self.layers, done),
            labels.tabulate(self.learned, self.few, done),
            further.tabulate(self.learned, {**self.full, **self.arms, **by_arm, **self.others}, done),
        ]
        return [_claims(sections, added_by_block(self.learned, self.layers, done)), *sections]


def _some(labelled: Mapping[str, TaskData], names: Sequence[str]) -> dict[str, TaskData]:
    """Return the tasks of these names that are there."""
    return {name: one for name, one in labelled.items() if name in names}


def _open_texts(start: InitRun, texts: Mapping[str, str | Path]) -> dict[str, InitRun]:
    """Open runs that read the same text in different ways, and refuse what cannot be compared."""
    known = (further.CONTIGUOUS, further.SHUFFLED)
    for name in texts:
        if name not in known:
            raise unknown("text", name, known)
    if absent := [name for name in known if name not in texts]:
        if texts:
            raise SettingError(f"`texts` has no run that read {absent[0]} text, so there is nothing to compare with")
        return {}
    found = {name: open_start(texts[name], name) for name in known}
    if len({run.shape for run in found.values()}) > 1:
        raise SettingError("the runs of `texts` are networks of different shapes; train both alike")
    check_same_words(start, [*found.values()], "their arms would differ in more than the text: train all with one")
    return found


def added_by_block(
    labelled: Mapping[str, TaskData], planned: Plan[int], done: Done
) -> dict[str, list[PairedDifference]]:
    """Return what each block adds to the one before it, in pairs, of tasks that were learned with each number."""
    added: dict[str, list[PairedDifference]] = {}
    for name, arms in whole_arms(planned, done).items():
        if len(arms) == len({count for task, count, _ in planned if task == name}):
            learned = [[*arms[count].values()] for count in sorted(arms)]
            added[name] = [difference(labelled[name].task, more, fewer) for fewer, more in pairwise(learned)]
    return added


def _claims(sections: Sequence[StudySection], added: Mapping[str, Sequence[PairedDifference]]) -> StudySection:
    judged = {section.name: section.content for section in sections} | {"added": added}
    found = claims.hold_against(cast(claims.FoundSections, judged))
    content: ClaimsSection = {"claims": found, "least_seeds": claims.SEEDS}
    return StudySection("claims", content, found)


def _read(data: Path, watcher: Watcher) -> dict[str, TaskData]:
    """Read every task of the paper that lies in a folder, and tell which do not."""
    there = tasks_in(data)
    wanted = [name for name in CATALOGUE if name in TABLE_TASKS or name in paper.SCALES]
    found = [name for name in wanted if name in there]
    if not found:
        raise InputError(f"{data} has none of the paper's tasks ({', '.join(wanted)}), each in a folder of its name")
    if absent := [name for name in wanted if name not in there]:
        watcher.say(f"not there, so left out: {', '.join(absent)}")
    labelled = read_tasks(Source(tasks=found, data=str(data)), watcher)
    for name, one in labelled.items():
        if not one.train and name in TABLE_TASKS:
            watcher.say(f"{name} has no training rows, so it is not learned")
    return labelled


def _tables(labelled: Mapping[str, TaskData], planned: Plan[str], done: Done) -> StudySection:
    """Return tables 2 to 4: ours, the paper's, and what was best before it."""
    found = _full(planned, done)
    tables = {
        name: [_figures(labelled[row.task], row, found[row.task]) for row in rows if row.task in found]
        for name, rows in TABLES.items()
    }
    table_rows: list[Mapping[str, object]] = [{"table": name, **row} for name, rows in tables.items() for row in rows]
    content: TablesSection = {"titles": paper.TITLES, "tables": tables, "better": better_than_before(tables)}
    return StudySection("tables", content, table_rows)


def _full(planned: Plan[str], done: Done) -> dict[str, Mapping[int, CellResult]]:
    """Return what the full model gave, by task and seed, of tasks of which every seed is done."""
    return {task: arms[FULL] for task, arms in whole_arms(planned, done).items() if FULL in arms}


def better_than_before(tables: Mapping[str, Sequence[PublishedFigures]]) -> dict[str, bool | None]:
    """Tell of each task of tables 2 to 4 whether ours is better than the best before; None: not comparable."""
    found = [row for rows in tables.values() for row in rows if "/" not in row["metric"]]
    better: dict[str, bool | None] = {}
    for task, published in whole_rows().items():
        if rows := [row for row in found if row["task"] == task]:
            is_better = all(100 * row["median"] > row["previous_percent"] for row in rows)
            better[task] = None if any(one.remark for one in published) else is_better
    return better


def glue_section(labelled: Mapping[str, TaskData], full: Mapping[str, Mapping[int, CellResult]]) -> StudySection:
    """Return GLUE's score where all nine tasks were learned, else what there is of it."""
    judged = {
        task: {seed: _judged_scores(labelled[task], kept) for seed, kept in seeds.items()}
        for task, seeds in full.items()
        if task in GLUE
    }
    tasks = {
        task: median(task_score(labelled[task].task, one) for one in seeds.values()) for task, seeds in judged.items()
    }
    missing = [task for task in GLUE if task not in judged]
    content: GlueSection = {
        "tasks": tasks,
        "missing": missing,
        "score": None,
        "paper_percent": paper.GLUE,
        "previous_percent": paper.PREVIOUS_GLUE,
    }
    rows: list[Mapping[str, object]] = [{"task": task, "score": score} for task, score in tasks.items()]
    if not missing:
        numbers = next(iter(judged.values()))
        each = {str(seed): glue_score({task: judged[task][seed] for task in GLUE}) for seed in numbers}
        examples = sum(labelled[task].judged([*next(iter(judged[task].values()))]) for task in GLUE)
        summary = summary_of(each.values())
        content["score"] = {"metric": "score", "examples": examples, **summary, "seeds": each}
        rows.append({"task": "glue", "score": summary["median"]})
    return StudySection("glue", content, rows)


def _judged_scores(one: TaskData, kept: CellResult) -> dict[str, dict[str, float]]:
    scores = kept.result["scores"]
    return {split: scores[split] for split in judged_splits(one.task, scores)}


def _figures(one: TaskData, row: Published, seeds: Mapping[int, CellResult]) -> PublishedFigures:
    """Return the paper's figures of a row, and ours: on the labelled test set where there is one, else on dev."""
    task = one.task
    splits = judged_splits(task, next(iter(seeds.values())).result["scores"])
    split = splits[task.dev_splits.index(row.split)]
    each = {str(seed): float(kept.result["scores"][split][row.metric]) for seed, kept in seeds.items()}
    found = {
        "task": row.task,
        "metric": row.metric,
        "paper_percent": row.paper,
        "previous_percent": row.previous,
        "remark": row.remark,
        "split": split,
        "examples": one.judged([split], row.metric.partition("/")[2]),
        **summary_of(each.values()),
        "seeds": each,
    }
    figures = cast(PublishedFigures, found)
    if "/" not in row.metric:
        figures["low"], figures["high"] = interval(task, [*seeds.values()], split)
    return figures
