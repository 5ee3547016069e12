"""Figure 2 right: how much of a task a language model knows before it is taught, along its pre-training.

Every checkpoint that a run has kept is asked about every task; a Transformer and an LSTM stand beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import cast

from gpt1.base.devices import device_name
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import short_names, write_lines
from gpt1.finetuning.data import Source
from gpt1.finetuning.measure import predictions_file
from gpt1.inference.prompts import examples_to_show, find_rule
from gpt1.inference.run import Run, load_run
from gpt1.inference.zeroshot import Questions, answer, make_questions
from gpt1.records.study import AskedOfStudy, AskedTask, CellFigures, CheckpointPoint, StudyRecord
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Compute, Notebook, Watcher, cell_name
from gpt1.studies.folder import Done, Part, StudySection, conduct
from gpt1.studies.material import InitRun, TaskData, open_start, read_tasks, tell_labels, weights_identity
from gpt1.studies.paper import SCALES, normalised
from gpt1.tasks.catalog import find_task

NAME = "zeroshot"


def study_zeroshot(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    tasks: Sequence[str],
    data: str | Path,
    shots: int = 0,
    seed: int = 0,
    device: str | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Ask all kept checkpoints of runs about tasks, into the folder of a study, and return what was found."""
    notebook = Notebook(watcher)
    starts = open_runs(runs)
    for start in starts:
        tell_labels(start, notebook)
    for name in tasks:
        find_rule(find_task(name))  # before minutes of reading
    labelled = read_tasks(Source(tasks=tasks, data=str(data)), notebook)
    for one in labelled.values():
        examples_to_show(one.labelled, find_rule(one.task), shots)  # before any cell
    if len({start.tokenizer for start in starts}) > 1:
        notebook.say("these runs have different tokenizers: likelihoods, and their means, are of different tokens")
    cells = plan(starts, labelled, shots=shots, seed=seed, device=device, watcher=notebook)
    about: AskedOfStudy = {
        "runs": {start.name: str(start.path) for start in starts},
        "tasks": list(labelled),
        "data": str(data),
        "shots": shots,
    }
    return conduct(Path(out), NAME, about, cells, lambda done: [tabulate(starts, labelled, done)], notebook, part)


def open_runs(runs: Sequence[str | Path]) -> list[InitRun]:
    """Open runs that are to stand side by side, each with a name of its own."""
    if not runs:
        raise SettingError("name at least one run")
    paths = [Path(run) for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise SettingError("a run is named twice")
    return [open_start(path, name) for path, name in zip(paths, short_names(paths), strict=True)]


def plan(
    starts: Sequence[InitRun],
    labelled: Mapping[str, TaskData],
    *,
    shots: int,
    seed: int,
    device: str | None,
    watcher: Notebook,
) -> list[Cell]:
    """Return a cell for each run, checkpoint and task."""
    cells = []
    for start in starts:
        ask = _asker(start, labelled, shots, seed, watcher)
        opened = _opener(start, device)
        for step, weights in _checkpoints(start, watcher):
            for name, one in labelled.items():
                inputs = {**weights, "tokenizer": start.tokenizer, "examples": one.identity}
                cells.append(
                    Cell(
                        _cell_name(start, name, step),
                        row=f"{name} (zero-shot)",
                        column=start.name,
                        which=f"update {step:,}",
                        inputs={**inputs, "shots": shots, "seed": seed},
                        compute=_computation(ask, opened, name, step),
                    )
                )
    return cells


def _cell_name(start: InitRun, task: str, step: int) -> str:
    return cell_name(NAME, start.name, task, step)


def _checkpoints(start: InitRun, watcher: Watcher) -> list[tuple[int, dict[str, object]]]:
    """Return the steps of a run's whole checkpoints, and what tells their weights from all others."""
    found = []
    for step, path in list_checkpoints(start.path):
        try:
            found.append((step, weights_identity(path)))
        except (FormatError, InputError) as error:
            watcher.say(f"{error}; it is left out")
    return found


def _asker(
    start: InitRun, labelled: Mapping[str, TaskData], shots: int, seed: int, watcher: Notebook
) -> Callable[[str], Questions]:
    """Return what makes the questions of a task: once, since they are the same for all checkpoints."""
    run = load_run(start.path, device="cpu")  # of which no weights are read

    @lru_cache
    def ask(task: str) -> Questions:
        questions = make_questions(labelled[task].labelled, run, shots=shots, seed=seed)
        for text in questions.asked.notices(start.shape.context):
            watcher.tell(f"{task}: {text}")  # kept with the cell, so that a sitting without it has it too
        return questions

    return ask


def _opener(start: InitRun, device: str | None) -> Callable[[int], Run]:
    """Return what opens a run at a step; the last one stays open for the next task."""

    @lru_cache(maxsize=1)
    def opened(step: int) -> Run:
        return load_run(start.path, device=device, step=step)

    return opened


def _computation(ask: Callable[[str], Questions], opened: Callable[[int], Run], task: str, step: int) -> Compute:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        run = opened(step)
        context = run.recipe.shape.context
        found = answer(run, ask(task))
        write_lines(predictions_file(folder, found.task, found.split), (line.as_json() for line in found.lines))
        asked = ask(task).asked
        notes = [f"{task}: {text}" for text in asked.notices(context)]
        facts = {name: value for name, value in asdict(found).items() if name != "lines"}
        where = {"device": device_name(run.device), "notes": notes}
        return cast(CellFigures, {"score": found.metrics[asked.task.metrics[0]], **facts, **where})

    return compute


def tabulate(starts: Sequence[InitRun], labelled: Mapping[str, TaskData], done: Done) -> StudySection:
    """Return the curves of all runs, by task."""
    content: dict[str, AskedTask] = {}
    rows: list[Mapping[str, object]] = []
    for name, one in labelled.items():
        scale, metric = SCALES.get(name), one.task.metrics[0]
        curves = {start.name: list(_points(start, name, done)) for start in starts}
        rows += [
            {"task": name, "run": start.name, "kind": start.shape.kind, **point}
            for start in starts
            for point in curves[start.name]
        ]
        content[name] = {
            "metric": metric,
            "scale": None if scale is None else {"chance": scale.chance, "best": scale.best, "remark": scale.remark},
            "runs": {run: [point for point in points if point["metric"] == metric] for run, points in curves.items()},
        }
    return StudySection(NAME, {"tasks": content, "kinds": {start.name: start.shape.kind for start in starts}}, rows)


def _points(start: InitRun, task: str, done: Done) -> Iterator[CheckpointPoint]:
    """Yield every metric of every checkpoint of a run that was asked about a task."""
    for step, _ in list_checkpoints(start.path):
        if (kept := done.get(_cell_name(start, task, step))) is None:
            continue
        for metric, value in kept.result["metrics"].items():
            yield {
                "step": step,
                "split": kept.result["split"],
                "examples": kept.result["examples"],
                "metric": metric,
                "score": value,
                "normalised": normalised(task, value),
            }
