"""Figure 2 right: how much of a task a language model knows before it is taught, along its pre-training.

Every checkpoint that a run has kept is asked about every task, and about BLiMP's pairs; a Transformer and an LSTM stand
beside each other.
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
from gpt1.base.parts import Part
from gpt1.base.wording import many
from gpt1.finetuning.measure import predictions_file
from gpt1.inference.run import Run, load_run
from gpt1.records.study import AskedOfStudy, AskedTask, CellFigures, CheckpointPoint, ScaleFacts, StudyRecord
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Compute, Notebook, Watcher, cell_name
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import InitRun, open_start, tell_labels, weights_identity
from gpt1.studies.paper import SCALES, normalised
from gpt1.studies.subjects import Asked, Subject, read_subjects

NAME = "zeroshot"
CURVE = 3  # checkpoints, from which on they show a course


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
    subjects = read_subjects(tasks, data, shots=shots, seed=seed, watcher=notebook)
    if len({start.tokenizer for start in starts}) > 1:
        notebook.say("these runs have different tokenizers: likelihoods, and their means, are of different tokens")
    cells = plan(starts, subjects, device=device, watcher=notebook)
    about: AskedOfStudy = {
        "runs": {start.name: str(start.path) for start in starts},
        "tasks": list(subjects),
        "data": str(data),
        "shots": shots,
    }
    return conduct(Path(out), NAME, about, cells, lambda done: [tabulate(starts, subjects, done)], notebook, part)


def open_runs(runs: Sequence[str | Path]) -> list[InitRun]:
    """Open runs that are to stand side by side, each with a name of its own."""
    if not runs:
        raise SettingError("name at least one run")
    paths = [Path(run) for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise SettingError("a run is named twice")
    return [open_start(path, name) for path, name in zip(paths, short_names(paths), strict=True)]


def plan(
    starts: Sequence[InitRun], subjects: Mapping[str, Subject], *, device: str | None, watcher: Notebook
) -> list[Cell]:
    """Return a cell for each run, checkpoint and subject."""
    cells = []
    for start in starts:
        ask = _asker(start, subjects, watcher)
        opened = _opener(start, device)
        for step, weights in _checkpoints(start, watcher):
            for name, subject in subjects.items():
                cells.append(
                    Cell(
                        _cell_name(start, name, step),
                        row=row_of(name),
                        column=start.name,
                        which=f"update {step:,}",
                        inputs={**weights, "tokenizer": start.tokenizer, **subject.inputs},
                        compute=_computation(ask, opened, name, step),
                    )
                )
    return cells


def row_of(subject: str) -> str:
    """Return in which row of the table that a person watches the cells of a subject stand."""
    return f"{subject} (zero-shot)"


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
    if len(found) < CURVE:
        watcher.say(
            f"{start.path} has {many(len(found), 'checkpoint')}, too few for a curve; gpt1 pretrain keeps the weights "
            "after N, 2N, 4N, ... updates with the setting logging.keep_weights=N"
        )
    return found


def _asker(start: InitRun, subjects: Mapping[str, Subject], watcher: Notebook) -> Callable[[str], Asked]:
    """Return what lays a subject out for a run: once, since it is the same for all checkpoints."""
    run = load_run(start.path, device="cpu")  # of which no weights are read

    @lru_cache
    def ask(name: str) -> Asked:
        asked = subjects[name].lay_out(run)
        for text in asked.notices:
            watcher.tell(f"{name}: {text}")  # kept with the cell, so that a sitting without it has it too
        return asked

    return ask


def _opener(start: InitRun, device: str | None) -> Callable[[int], Run]:
    """Return what opens a run at a step; the last one stays open for the next task."""

    @lru_cache(maxsize=1)
    def opened(step: int) -> Run:
        return load_run(start.path, device=device, step=step)

    return opened


def _computation(ask: Callable[[str], Asked], opened: Callable[[int], Run], name: str, step: int) -> Compute:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        run, asked = opened(step), ask(name)
        found = asked.answer(run)
        write_lines(predictions_file(folder, name, found.figures["split"]), (line.as_json() for line in found.lines))
        notes = [f"{name}: {text}" for text in asked.notices]
        return {**found.figures, "device": device_name(run.device), "notes": notes}

    return compute


def tabulate(starts: Sequence[InitRun], subjects: Mapping[str, Subject], done: Done) -> StudySection:
    """Return the curves of all runs, by task."""
    content: dict[str, AskedTask] = {}
    rows: list[Mapping[str, object]] = []
    for name, subject in subjects.items():
        curves = {start.name: list(_points(start, name, done)) for start in starts}
        rows += [
            {"task": name, "run": start.name, "kind": start.shape.kind, **point}
            for start in starts
            for point in curves[start.name]
        ]
        content[name] = _asked_task(name, subject.metric, curves)
    return StudySection(NAME, {"tasks": content, "kinds": {start.name: start.shape.kind for start in starts}}, rows)


def _asked_task(name: str, metric: str, curves: Mapping[str, Sequence[CheckpointPoint]]) -> AskedTask:
    """Return the curves of a task: of its first metric, and where its examples are of several groups, of each group."""
    scale = SCALES.get(name)
    found: AskedTask = {
        "metric": metric,
        "scale": None if scale is None else cast(ScaleFacts, asdict(scale)),
        "runs": {run: [point for point in points if point["metric"] == metric] for run, points in curves.items()},
    }
    groups = {run: [point for point in points if "/" in point["metric"]] for run, points in curves.items()}
    return {**found, "groups": groups} if any(groups.values()) else found


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
