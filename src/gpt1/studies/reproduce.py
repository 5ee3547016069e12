"""The paper's tables 2 to 5 and figure 2 in one go, as far as the data at hand goes.

Nothing is computed that the single studies would not: the same cells in one folder, and where two parts need the same
fine-tuning (the full model is in all of them) it is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import cast

from gpt1.base.errors import InputError
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
from gpt1.studies import ablations, claims, paper, transfer, zeroshot
from gpt1.studies.ablations import make_arms
from gpt1.studies.cells import Cell, CellResult, Notebook, Watcher
from gpt1.studies.finetuned import FinetuningSettings, Plan, difference, interval, judged_splits, summary_of, whole_arms
from gpt1.studies.folder import CLAIMS_FILE, Done, StudySection, conduct
from gpt1.studies.material import TaskData, check_learnable, read_tasks, tell_start
from gpt1.studies.paper import ABLATED, FULL, TABLES, Published, whole_rows
from gpt1.studies.subjects import task_subject
from gpt1.tasks.catalog import CATALOGUE, GLUE
from gpt1.tasks.metrics import glue_score, task_score
from gpt1.tasks.readers import tasks_in

NAME = "reproduce"
TABLE_TASKS = tuple(dict.fromkeys([*(row.task for rows in TABLES.values() for row in rows), *GLUE]))


def reproduce(
    init: str | Path,
    out: str | Path,
    *,
    data: str | Path,
    training: FinetuningSettings,
    lstm: str | Path | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Make every table and figure of the paper for which there is data, and return what was found."""
    notebook = Notebook(watcher)
    runs = zeroshot.open_runs([init] if lstm is None else [init, lstm])
    start, other = runs[0], runs[1] if len(runs) > 1 else None
    arms = make_arms(start, other)
    tell_start(start, notebook)
    labelled = _read(Path(data), notebook)
    learned = {name: one for name, one in labelled.items() if name in TABLE_TASKS and one.train}
    check_learnable(learned)
    ablated = {name: one for name, one in learned.items() if name in ABLATED}
    asked = {name: task_subject(one, shots=0, seed=0) for name, one in labelled.items() if name in paper.SCALES}
    training = training.settled_by(start, Path(out))
    full = ablations.plan(arms[:1], learned, training)
    all_arms = ablations.plan(arms, ablated, training)
    transferred = {name: learned[name] for name in claims.TRANSFERRED if name in learned}
    layers = transfer.plan(start, transferred, training, None)
    questions = zeroshot.plan(runs, asked, device=training.device, watcher=notebook)

    def tabulate(done: Done) -> list[StudySection]:
        sections = [
            _tables(learned, full, done),
            glue_section(learned, _full(full, done)),
            zeroshot.tabulate(runs, asked, done),
            *ablations.tabulate(ablated, all_arms, done),
            transfer.tabulate(transferred, layers, done),
        ]
        return [_claims(sections, added_by_block(transferred, layers, done)), *sections]

    cells = _once([*full.values(), *questions, *all_arms.values(), *layers.values()])
    about: AskedOfStudy = {
        "init": str(start.path),
        "lstm": None if other is None else str(other.path),
        "data": str(data),
        "tasks": list(labelled),
        "changes": list(training.changes),
        "seeds": list(training.seed_numbers),
    }
    found = conduct(Path(out), NAME, about, cells, tabulate, notebook, part)
    if part is None:
        with whole_file(Path(out) / CLAIMS_FILE) as file:
            file.write(render(claims_page(found)).encode())
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


def _once(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells without those that stand there already; one name is one computation."""
    return list({cell.name: cell for cell in cells}.values())


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
