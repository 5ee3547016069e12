"""One fine-tuning as a cell: what is trained, what is kept of it, and several seeds as one figure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TypeVar, cast

import numpy as np

from gpt1.base.errors import FormatError, SettingError
from gpt1.base.files import read_lines, remove_folder
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many
from gpt1.finetuning.data import truncation_notices
from gpt1.finetuning.finetune import chosen_recipe, finetune
from gpt1.finetuning.measure import predictions_file
from gpt1.finetuning.seeds import read_result, summarise
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run
from gpt1.recipes.catalog import AUTO, MASKING
from gpt1.recipes.changes import OF_DOMAINS, Setting, change, settings
from gpt1.recipes.derived import in_words, require_for_tasks, settled, wants_windows
from gpt1.recipes.values import AUGMENTATIONS, FOLDS, NO_WINDOWS, Recipe
from gpt1.records.study import ArmFigures, CellFigures, CurvePoint, PairedDifference, Summary, arm_name
from gpt1.runs.checkpoints import newest_checkpoint
from gpt1.runs.events import Listener, Noticed
from gpt1.runs.files import METRICS_FILE, has_saved
from gpt1.runs.folder import CHECKPOINTS, read_run
from gpt1.studies.cells import CELLS, Cell, CellResult, Compute, Watcher, cell_name
from gpt1.studies.comparison import Sheet, paired_difference, read_sheet, resampled_interval
from gpt1.studies.material import InitRun, TaskData
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, choose
from gpt1.tasks.metrics import scores as scores_of
from gpt1.text.synonyms import Synonyms
from gpt1.training.session import as_recipe

RUN = "run"  # the folder of a fine-tuning inside its cell
TRAIN_ROWS = 500  # by which it is told how well a network answers what it has learned
# Studies compare networks, whatever their recipe says, and choose their epochs by all rows for dev.
NETWORK_ALONE = ("finetuning.ensemble=false", "finetuning.calibrate=false")

Scores = Mapping[str, Mapping[str, float]]  # by split and metric


@dataclass(frozen=True)
class FinetuningSettings:
    """How the fine-tunings of a study are made, arms and seeds apart."""

    recipe: Recipe | str | None = None  # None: that of what was trained before, or the one for the base
    changes: Sequence[str] = ()
    device: str | None = None
    seeds: int = 1
    base: InitRun | None = None  # by which recipes are chosen and settled, for all arms alike; None: each arm's start

    def settled_by(self, base: InitRun, out: Path) -> FinetuningSettings:
        """Return the same with a recipe, for a study that lies in a folder and whose main arm starts from a run."""
        begun = sorted((out / CELLS).glob(f"*/{RUN}"))
        recipe = chosen_recipe(self.recipe, base.shape, begun)
        if wants_windows(change(recipe, self.changes)):
            raise SettingError(
                "studies read no windows: every arm reads of a long text what fits the context; leave "
                "`finetuning.windows` out"
            )
        return replace(self, recipe=recipe, base=base)

    @property
    def seed_numbers(self) -> range:
        """The seeds, from the first that was asked for."""
        first = change(as_recipe(self.recipe or AUTO), self.changes).training.seed
        return range(first, first + self.seeds)


@dataclass(frozen=True)
class Arm:
    """One of several ways to fine-tune that are held against each other."""

    name: str
    start: InitRun
    changes: Sequence[str] = ()
    synonyms: Synonyms | None = None

    @property
    def title(self) -> str:
        """What a person reads for it."""
        return arm_name(self.name)


def with_rate(arm: Arm, rate: float, watcher: Watcher) -> Arm:
    """Return an arm with a learning rate of its own, and tell of it."""
    watcher.say(f"{arm_name(arm.name)} the learning rate is {rate:g}, whatever that of the others")
    return replace(arm, changes=[*arm.changes, f"optimizer.lr={rate!r}"])


@dataclass(frozen=True)
class Rows:
    """The examples of a cell: of which task, what tells them from all others, and as networks read them."""

    task: str
    identity: str
    train: int  # how many there are to learn from
    encode: Callable[[], EncodedTask]  # when the cell is made: those of all cells may be too many to hold
    beside: tuple[Rows, ...] = ()  # of other tasks, which are learned with it and judge nothing


def all_rows(one: TaskData, start: InitRun) -> Rows:
    """Return all examples of a task, for what begins with a run."""
    return Rows(one.task.name, one.identity, len(one.train), partial(one.encoded_for, start))


def finetuning_cell(arm: Arm, rows: Rows, training: FinetuningSettings, seed: int, labels: int | None = None) -> Cell:
    """Return the cell of one arm, task and seed, of so many labels where a study asks for several counts."""
    asked = _asked(arm, rows, training, seed)
    inputs: dict[str, object] = {
        "init": arm.start.identity,
        "examples": rows.identity,
        "settings": _deciding(settings(change(asked.recipe, asked.changes))),
    }
    if arm.synonyms is not None:
        inputs["synonyms"] = arm.synonyms.identity
    if rows.beside:
        inputs["beside"] = {other.task: {"examples": other.identity} for other in rows.beside}
    return Cell(
        cell_name(arm.name, rows.task, *([] if labels is None else [labels]), seed),
        row=rows.task,
        column=arm.title,
        which=("" if labels is None else f"{many(labels, 'label')}, ") + f"seed {seed}",
        inputs=inputs,
        compute=_computation(arm, rows, asked, training.device),
        workings=(f"{RUN}/{CHECKPOINTS}",),  # a gigabyte of weights at the paper's size
    )


def _deciding(asked: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings that decide a result, as cells have them that were made before there were more."""
    later = {name for name in ("finetuning.ensemble", "finetuning.calibrate") if not asked[name]}
    later |= {"logging.keep_optimizer", "logging.keep_weights"}
    later |= {"finetuning.folds"} if asked["finetuning.folds"] == FOLDS else set()
    later |= {"finetuning.windows"} if asked["finetuning.windows"] == NO_WINDOWS else set()
    off = "shape.layer_drop", "shape.global_tokens", "finetuning.bidirectional", "training.fused"
    later |= {name for name in off if not asked[name]}
    later |= {*MASKING}  # of pre-training
    later |= {f"finetuning.{name}" for name in AUGMENTATIONS if not asked[f"finetuning.{name}"]}
    later |= {f"finetuning.{name}" for name in OF_DOMAINS}  # of which studies have one
    return {name: value for name, value in asked.items() if name not in later}


@dataclass(frozen=True)
class _Asked:
    """How one fine-tuning is made: what the recipe leaves open is decided by the changes."""

    recipe: Recipe
    changes: Sequence[str]
    derived: Sequence[str]  # what was, in words; at most one line


def _asked(arm: Arm, rows: Rows, training: FinetuningSettings, seed: int) -> _Asked:
    base, examples = training.base or arm.start, rows.train + sum(other.train for other in rows.beside)
    recipe = chosen_recipe(training.recipe, base.shape, ())
    changes = [*training.changes, *NETWORK_ALONE, *arm.changes, f"training.seed={seed}"]
    changed = change(recipe, changes)
    require_for_tasks(changed, arm.start.shape)
    if not changed.derived:
        return _Asked(recipe, changes, [])
    decided = settings(settled(changed, base.parameters, examples))
    told = in_words(changed, base.parameters, examples)
    return _Asked(recipe, [*changes, *(f"{name}={decided[name]}" for name in changed.derived)], [told] if told else [])


def _computation(arm: Arm, rows: Rows, asked: _Asked, device: str | None) -> Compute:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        run, encoded = folder / RUN, rows.encode()
        newest = newest_checkpoint(run, lambda _: None)
        if newest is None and has_saved(run):
            remove_folder(run)  # the cell was done, its weights let go, and then its file was lost
        earlier = None if newest is None else newest.seconds
        del newest  # its weights are read again
        for line in asked.derived:
            listener(Noticed(line))
        learned = finetune(
            arm.start.path,
            run,
            encoded=[encoded, *(_to_learn_alone(other.encode()) for other in rows.beside)],
            recipe=asked.recipe,
            changes=asked.changes,
            synonyms=arm.synonyms,
            resume=run.exists(),
            device=device,
            listeners=[listener],
        )
        scores = read_result(run)[encoded.task.name]
        hardware = read_run(run).trained_on
        found: CellFigures = {
            "score": headline(encoded.task, scores),
            "scores": scores,
            "train": score_on_train(learned, encoded),
            "curve": read_curve(run / METRICS_FILE, encoded.task),
            "losses": read_losses(run / METRICS_FILE, encoded.task),
        }
        if hardware is not None:
            found["device"] = hardware.device
        found["notes"] = [*asked.derived, *_cut_texts(encoded)]
        if earlier is not None:
            found["earlier_seconds"] = earlier
        return found

    return compute


def _to_learn_alone(encoded: EncodedTask) -> EncodedTask:
    """Return a task whose rows for dev choose no epoch, and which nothing is measured on."""
    task = replace(encoded.task, dev_splits=(), test_splits=())
    return replace(encoded, task=task, splits={"train": encoded.splits["train"]})


def _cut_texts(encoded: EncodedTask) -> list[str]:
    """Tell of texts that are judged by and did not fit; those to learn from are others in every draw of labels."""
    judged = {split: data for split, data in encoded.splits.items() if split != "train"}
    cut = truncation_notices({encoded.task.name: replace(encoded, splits=judged)})
    return [f"{one}; studies read no windows, and TF-IDF counts whole texts" for one in cut]


def judged_splits(task: Task, scores: Collection[str]) -> list[str]:
    """Return the splits by which arms are held against each other: those for the test where all have labels, else dev.

    The best epoch was chosen on dev, so its figures are a little too good.
    """
    if task.test_splits and all(split in scores for split in task.test_splits):
        return list(task.test_splits)
    return [split for split in task.dev_splits if split in scores]


def headline(task: Task, scores: Scores) -> float:
    """Return the mean of the first metric over the splits that count; MNLI has two."""
    return fmean(scores[split][task.metrics[0]] for split in judged_splits(task, scores))


def read_curve(metrics: Path, task: Task) -> list[dict[str, float]]:
    """Return the score on dev along the updates, as the run told it."""
    found = []
    names = [f"{split}_{task.metrics[0]}" for split in task.dev_splits]
    names += [f"{task.name}_{name}" for name in names]  # where others are learned beside it
    for _, facts in read_lines(metrics):
        if values := [facts[name] for name in names if name in facts]:
            found.append({"step": facts["step"], "score": fmean(values)})
    return found


def read_losses(metrics: Path, task: Task) -> list[dict[str, float]]:
    """Return the task's own loss along the updates, whatever is learned beside it."""
    return [
        {"step": facts["step"], "loss": facts["terms"][task.name]}
        for _, facts in read_lines(metrics)
        if task.name in facts.get("terms", {})
    ]


def score_on_train(run: Run, encoded: EncodedTask) -> float:
    """Return the first metric on training rows that a run has learned: on a draw of them, the same for all runs."""
    task, rows = encoded.task, encoded.splits["train"]
    drawn = choose(rows, permutation(len(rows), (0, len(rows)))(range(min(len(rows), TRAIN_ROWS))).tolist())
    metric = task.metrics[0]
    _, answers = answer_split(run, run.tasks[task.name], drawn)
    return float(scores_of(replace(task, metrics=(metric,)), drawn.labels, answers)[metric])


# ---- several seeds ----

Key = TypeVar("Key", bound=Hashable)  # of an arm, such as its name
Plan = dict[tuple[str, Key, int], Cell]  # the cells of a study by task, arm and seed


def whole_arms(planned: Plan[Key], done: Mapping[str, CellResult]) -> dict[str, dict[Key, dict[int, CellResult]]]:
    """Return the results by task, arm and seed, of all arms of which every seed is done."""
    found: dict[str, dict[Key, dict[int, CellResult | None]]] = {}
    for (task, arm, seed), cell in planned.items():
        found.setdefault(task, {}).setdefault(arm, {})[seed] = done.get(cell.name)
    return {
        task: {
            arm: {seed: kept for seed, kept in seeds.items() if kept is not None}
            for arm, seeds in arms.items()
            if None not in seeds.values()
        }
        for task, arms in found.items()
    }


def summary_of(values: Iterable[float]) -> Summary:
    """Return several results as one."""
    return cast(Summary, summarise([*values]))


def train_summary(seeds: Mapping[int, CellResult]) -> Summary | None:
    """Return what several seeds gave on rows that they learned; None where an earlier version made one of them."""
    each = [kept.result.get("train") for kept in seeds.values()]
    return None if None in each else summary_of(value for value in each if value is not None)


def figures(one: TaskData, seeds: Mapping[int, CellResult]) -> ArmFigures:
    """Return the headline of several seeds: on which examples, median, mean, deviation, worst, best, and each."""
    task = one.task
    each = {str(seed): float(kept.result["score"]) for seed, kept in seeds.items()}
    any_scores = next(iter(seeds.values())).result["scores"]
    splits = judged_splits(task, any_scores)
    return {
        "metric": task.metrics[0],
        "splits": splits,
        "examples": one.judged(splits),
        **summary_of(each.values()),
        "seeds": each,
    }


def mean_curve(seeds: Sequence[CellResult]) -> list[CurvePoint]:
    """Return the score on dev along the updates over several seeds: median, worst and best at each."""
    by_step: dict[int, list[float]] = {}
    for kept in seeds:
        for point in kept.result["curve"]:
            by_step.setdefault(int(point["step"]), []).append(point["score"])
    whole = {step: values for step, values in sorted(by_step.items()) if len(values) == len(seeds)}
    return [{"step": step, **summary_of(values)} for step, values in whole.items()]


def differences(task: Task, one: Sequence[CellResult], other: Sequence[CellResult]) -> list[PairedDifference]:
    """Return by how much one arm is better than another on each split that counts, with the 95 % interval, in pairs."""
    return [_difference(task, one, other, [split]) for split in judged_splits(task, one[0].result["scores"])]


def difference(task: Task, one: Sequence[CellResult], other: Sequence[CellResult]) -> PairedDifference:
    """Return the same of the headline: of several splits, of their mean."""
    return _difference(task, one, other, judged_splits(task, one[0].result["scores"]))


def _difference(
    task: Task, one: Sequence[CellResult], other: Sequence[CellResult], splits: Sequence[str]
) -> PairedDifference:
    metric = task.metrics[0]
    ours, theirs = zip(*(_sheets(one, other, task, split) for split in splits), strict=True)
    value, low, high = paired_difference(task, metric, ours, theirs)
    return {
        "split": " and ".join(splits),
        "metric": metric,
        "difference": value,
        "low": low,
        "high": high,
        "examples": sum(len(sheet.labels) for sheet in ours),
    }


def interval(task: Task, seeds: Sequence[CellResult], split: str) -> tuple[float, float]:
    """Return the 95 % interval of the median over seeds of a task's first metric on a split."""
    sheet, _ = _sheets(seeds, seeds, task, split)
    return resampled_interval(task, task.metrics[0], sheet)


def _sheets(one: Sequence[CellResult], other: Sequence[CellResult], task: Task, split: str) -> list[Sheet]:
    """Return the answers of two arms to the same examples; where some were lost, say which cell to make anew."""
    found = {kept.folder: _answers(kept, task, split) for kept in (*one, *other)}
    labels = max((sheet.labels for sheet in found.values()), key=len)
    for folder, sheet in found.items():
        if not np.array_equal(sheet.labels, labels):
            raise FormatError(f"{folder} lacks answers to some examples of {split}; {_remedy(folder)}")
    return [Sheet(labels, [found[kept.folder].answers[0] for kept in arm]) for arm in (one, other)]


def _answers(kept: CellResult, task: Task, split: str) -> Sheet:
    path = _predictions(kept, task, split)
    found = read_sheet([path], task, _remedy(kept.folder))
    if found is None:
        raise FormatError(f"{path} is not there, or holds no answer; {_remedy(kept.folder)}")
    return found


def _remedy(folder: Path) -> str:
    return f"remove {folder} to have it made anew"


def _predictions(kept: CellResult, task: Task, split: str) -> Path:
    """Return where the answers of a cell lie: in its run, or beside it where nothing was trained."""
    run = kept.folder / RUN
    return predictions_file(run if run.is_dir() else kept.folder, task.name, split)
