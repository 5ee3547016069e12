"""What reading text of a new domain is worth, and what of the old one is forgotten, with more or less of that mixed in.

Each cell reads (or does not), is measured on text of both domains that it has not read, and learns a task of the new
one. All that read make the same number of updates, so that with more old text less of the new one is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import read_lines, remove_folder, write_lines
from gpt1.base.parts import Part
from gpt1.finetuning.data import Source
from gpt1.inference.run import load_run
from gpt1.pretraining.measure import window_losses
from gpt1.pretraining.pretrain import pretrain
from gpt1.pretraining.stream import TokenStream, validation_text
from gpt1.pretraining.windows import Windows
from gpt1.recipes.changes import change, settings
from gpt1.recipes.derived import gentler
from gpt1.recipes.values import Recipe
from gpt1.records.run import PRETRAINING
from gpt1.records.study import (
    AskedOfStudy,
    CellFigures,
    DomainArm,
    DomainText,
    StudyRecord,
    TaskDifference,
    TextDifference,
)
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.files import has_saved
from gpt1.runs.folder import CHECKPOINTS, read_run
from gpt1.studies.cells import Cell, CellResult, Notebook, Watcher
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    Rows,
    all_rows,
    difference,
    figures,
    finetuning_cell,
    whole_arms,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import InitRun, TaskData, check_learnable, open_start, read_tasks, tell_start
from gpt1.tasks.assessment import interval_of, resamples

NAME = "domain"
SHARES = (0.0, 0.1, 0.25, 0.5)
READINGS = 4.0  # of the new text by who reads nothing else; further ones teach little (`inspection/advice.py`)
UNREAD = "unread"  # the arm that reads nothing
NEW, OLD = "new", "old"
READING = "reading"  # the folder of a pre-training inside its cell
_DECIDING = ("shape.", "optimizer.", "schedule.", "training.")  # settings of a reading that decide its weights

Nats = NDArray[np.float64]


@dataclass(frozen=True)
class TwoTexts:
    """Texts of two domains, and how they are read."""

    new: Path
    old: Path
    recipe: Recipe  # of the run to start from
    changes: Sequence[str]

    @cached_property
    def train(self) -> dict[str, TokenStream]:
        """The texts that are read."""
        return {NEW: TokenStream(self.new, "train"), OLD: TokenStream(self.old, "train")}

    @cached_property
    def valid(self) -> dict[str, TokenStream]:
        """The texts that are measured on."""
        found = {}
        for name, corpus in ((NEW, self.new), (OLD, self.old)):
            text = validation_text(corpus)
            if text is None:
                raise InputError(
                    f"{corpus} has no text for validation, on which reading is judged; prepare it with a share for it, "
                    "`gpt1.prepare(valid=SHARE)`"
                )
            found[name] = text
        return found

    def updates(self) -> int:
        """Return how many updates read the new text alone as often as it is worth."""
        asked = change(self.recipe, self.changes)
        context, batch = asked.shape.context, asked.training.batch
        windows = Windows(self.train[NEW], context=context, batch=batch, seed=asked.training.seed)
        return windows.batches_in(READINGS)

    def inputs(self, share: float | None, seed: int) -> dict[str, object]:
        """Return what decides what reading a share of old text comes to."""
        judged = {name: text.identity for name, text in self.valid.items()}
        if share is None:
            return {"judged_by": judged}
        asked = settings(change(self.recipe, [*self.changes, f"training.seed={seed}"]))
        return {
            "judged_by": judged,
            "share": share,
            "texts": {name: text.identity for name, text in self.train.items() if share or name == NEW},
            "settings": {name: value for name, value in asked.items() if name.startswith(_DECIDING)},
        }


def study_domain(
    init: str | Path,
    out: str | Path,
    *,
    corpus: str | Path,
    old: str | Path,
    source: Source,
    training: FinetuningSettings,
    shares: Sequence[float] = SHARES,
    reading: Sequence[str] = (),
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Go on with a run on a new text, with each of several shares of old text among it, and return what was found.

    `corpus` is the new text and `old` the old one, both with text for validation; `source` is a task of the new domain;
    `reading` changes settings of the reading, as `changes` of `training` do those of the fine-tuning.
    """
    notebook = Notebook(watcher)
    chosen = check_shares(shares)
    start = open_start(init)
    tell_start(start, notebook)
    how = open_reading(start, Path(corpus), Path(old), reading, notebook)
    labelled = read_tasks(source, notebook)
    if len(labelled) > 1:
        raise SettingError(f"one task of the new domain is learned at a time, not {len(labelled)}; study them apart")
    check_learnable(labelled)
    training = training.settled_by(start, Path(out))
    ((name, one),) = labelled.items()
    rows = all_rows(one, start)
    planned: Plan[str] = {
        (name, arm_of(share), seed): _cell(share, start, how, rows, training, seed)
        for share in (None, *chosen)
        for seed in training.seed_numbers
    }
    about: AskedOfStudy = {
        "init": str(start.path),
        "texts": {NEW: str(corpus), OLD: str(old)},
        "shares": list(chosen),
        "reading": list(how.changes),
        "source": source.recorded(),
        "changes": list(training.changes),
        "seeds": list(training.seed_numbers),
    }

    def tabulated(done: Done) -> list[StudySection]:
        return [tabulate(one, chosen, how, planned, done)]

    return conduct(Path(out), NAME, about, list(planned.values()), tabulated, notebook, part)


def check_shares(shares: Sequence[float]) -> list[float]:
    """Return the shares of old text that were asked for in their order, or refuse them."""
    if not shares:
        raise SettingError(f"name at least one of `shares`, such as {', '.join(f'{share:g}' for share in SHARES)}")
    for share in shares:
        if not 0 <= share < 1:
            raise SettingError(f"`shares` of old text are at least 0 and below 1, not {share:g}")
    return sorted(set(shares))


def open_reading(start: InitRun, new: Path, old: Path, changes: Sequence[str], watcher: Watcher) -> TwoTexts:
    """Return how texts are read by a run, with all that the changes leave open settled, or refuse them."""
    record = read_run(start.path)
    if record.kind != PRETRAINING:
        raise SettingError(f"{start.path} is fine-tuned, and its recipe is not for text; start from one that is not")
    found = TwoTexts(new, old, record.recipe, [*gentler(record.recipe), *changes])
    for name, text in found.train.items():
        if text.fingerprint != start.tokenizer:
            corpus = new if name == NEW else old
            raise InputError(
                f"{corpus} was made with another tokenizer than {start.path}; make it with "
                f"`gpt1.prepare(tokenizer={str(start.path)!r})`"
            )
    _ = found.valid  # or refuse them, before anything is read
    if {name.partition("=")[0].rpartition(".")[2].strip() for name in changes} & {"steps", "epochs"}:
        return found
    updates = found.updates()
    watcher.say(f"all that read make {updates:,} updates: without old text the new one is read {READINGS:g} times")
    return replace(found, changes=[*found.changes, f"training.steps={updates}"])


def arm_of(share: float | None) -> str:
    """Return the name of the arm that reads so much old text; None: it reads nothing."""
    return UNREAD if share is None else f"share-{share:g}"


def _cell(
    share: float | None, start: InitRun, how: TwoTexts, rows: Rows, training: FinetuningSettings, seed: int
) -> Cell:
    learning = finetuning_cell(Arm(arm_of(share), start), rows, training, seed)

    def compute(folder: Path, listener: Listener) -> CellFigures:
        ready = start
        if share is not None:
            ready = open_start(_read(folder / READING, share, start, how, training.device, seed, listener), start.name)
        run = load_run(ready.path, device=training.device)
        text: dict[str, dict[str, float]] = {}
        for name, stream in how.valid.items():
            nats, targets = window_losses(run, stream)
            lines = ({"nats": a, "targets": b} for a, b in zip(nats.tolist(), targets.tolist(), strict=True))
            write_lines(_losses_file(folder, name), lines)
            text[name] = {"nats": float(nats.sum()), "targets": float(targets.sum())}
        del run
        found = finetuning_cell(Arm(arm_of(share), ready), rows, training, seed).compute(folder, listener)
        return {**found, "text": text}

    return replace(
        learning,
        inputs={**learning.inputs, "reading": how.inputs(share, seed)},
        compute=compute,
        workings=(*learning.workings, f"{READING}/{CHECKPOINTS}"),
    )


def _read(
    out: Path, share: float, start: InitRun, how: TwoTexts, device: str | None, seed: int, listener: Listener
) -> Path:
    """Return a run that has gone on with the new text, and so much old text among it."""
    if has_saved(out) and not list_checkpoints(out):
        remove_folder(out)  # the cell was done, its weights let go, and then its file was lost
    # Looked at after the last update alone: each arm is judged by what it has become.
    quiet = ["logging.evaluate_every=none", "logging.sample_every=none", "logging.keep_weights=none"]
    pretrain(
        None,
        how.new,
        out,
        init=start.path,
        mix={how.old: share} if share else None,
        resume=out.exists(),
        changes=[*quiet, *how.changes, f"training.seed={seed}"],
        device=device,
        listeners=[listener],
    )
    return out


def _losses_file(folder: Path, name: str) -> Path:
    return folder / f"windows-{name}.jsonl"


# ---- what it comes to ----


def tabulate(one: TaskData, shares: Sequence[float], how: TwoTexts, planned: Plan[str], done: Done) -> StudySection:
    """Return what each arm knows of both texts and of the task, and by how much reading and mixing change it, in pairs.

    An arm is held against the one that reads nothing, and one that mixes also against the one with the next smaller
    share.
    """
    task = one.task
    arms = whole_arms(planned, done).get(task.name, {})
    found: dict[str, DomainArm] = {}
    rows: list[Mapping[str, object]] = []
    losses = {arm: {name: _text(seeds, name, how) for name in (NEW, OLD)} for arm, seeds in arms.items()}
    for arm, seeds in arms.items():
        share = None if arm == UNREAD else next(share for share in shares if arm_of(share) == arm)
        new, old = (losses[arm][name].figures() for name in (NEW, OLD))
        scored = figures(one, seeds)
        found[arm] = {"share": share, "new": new, "old": old, "task": scored}
        flat = {f"{name}_{key}": value for name, text in ((NEW, new), (OLD, old)) for key, value in text.items()}
        rows.append({"arm": arm, "share": share, **flat, "task": task.name, **scored})
    texts: list[TextDifference] = []
    scores: list[TaskDifference] = []
    for arm, over in _pairs([UNREAD, *map(arm_of, shares)]):
        if arm in arms and over in arms:
            pair = {"arm": arm, "over": over}
            texts += [losses[arm][name].over(losses[over][name], arm, over) for name in (NEW, OLD)]
            apart = difference(task, [*arms[arm].values()], [*arms[over].values()])
            scores.append(cast(TaskDifference, {"task": task.name, **pair, **apart}))
    content = {"task": task.name, "metric": task.metrics[0], "arms": found, "texts": texts, "scores": scores}
    return StudySection(NAME, content, rows)


def _pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Return which arms are held against which."""
    unread, *readers = arms
    return [*((arm, unread) for arm in readers), *((arm, over) for over, arm in pairwise(readers))]


@dataclass(frozen=True)
class WindowLosses:
    """What the seeds of an arm lost on the windows of a text."""

    name: str
    nats: Mapping[str, Nats]  # by seed
    targets: Nats  # in each window
    bits: float  # per byte in a nat per token

    def _figure(self, places: NDArray[np.int64] | slice) -> float:
        """Return the median over seeds of the nats a token, on some windows."""
        targets = float(self.targets[places].sum())
        return float(np.median([own[places].sum() / targets for own in self.nats.values()]))

    def figures(self) -> DomainText:
        """Return the median over seeds with its interval over other windows, and what each seed has."""
        loss = self._figure(slice(None))
        low, high = interval_of([self._figure(drawn) for (drawn,) in resamples(len(self.targets))])
        each = {seed: self.bits * float(own.sum() / self.targets.sum()) for seed, own in self.nats.items()}
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_byte": median(each.values()),
            "low": self.bits * low,
            "high": self.bits * high,
            "windows": len(self.targets),
            "seeds": each,
        }

    def over(self, other: WindowLosses, arm: str, over: str) -> TextDifference:
        """Return by how many bits per byte this is above another, with the interval, the same windows for both."""
        value = self._figure(slice(None)) - other._figure(slice(None))
        drawn = [self._figure(one) - other._figure(one) for (one,) in resamples(len(self.targets))]
        low, high = interval_of(drawn)
        return {
            "text": self.name,
            "arm": arm,
            "over": over,
            "difference": self.bits * value,
            "low": self.bits * low,
            "high": self.bits * high,
            "windows": len(self.targets),
        }


def _text(seeds: Mapping[int, CellResult], name: str, how: TwoTexts) -> WindowLosses:
    """Return what an arm lost on a text, read from its cells."""
    nats, targets = {}, np.zeros(0)
    stream = how.valid[name]
    for seed, kept in seeds.items():
        path, remedy = _losses_file(kept.folder, name), f"remove {kept.folder} to have it made anew"
        if not path.is_file():
            raise FormatError(f"{path} is not there; {remedy}")
        rows = np.array([(row["nats"], row["targets"]) for _, row in read_lines(path, remedy)]).reshape(-1, 2)
        if rows[:, 1].sum() != len(stream) - 1:
            raise FormatError(f"{path} lacks windows of the text for validation; {remedy}")
        nats[str(seed)], targets = rows[:, 0], rows[:, 1]
    return WindowLosses(name, nats, targets, (len(stream) - 1) / math.log(2) / stream.bytes)
