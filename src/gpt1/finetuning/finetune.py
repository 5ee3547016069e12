"""`gpt1 finetune`: a pre-trained run and labelled examples in, a run that answers out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from gpt1.base.devices import device_name, find_device, peak_flops, usable_precision
from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import lock_folder, remove_temporaries_below, require_own_folder
from gpt1.finetuning.batches import PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.data import (
    Source,
    check_fit,
    check_training,
    identity,
    read_source,
    truncation_notices,
    unknown_notices,
    unknown_tokens,
)
from gpt1.finetuning.measure import measure
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.seeds import (
    check_folder,
    folder_of,
    forget_result,
    is_done,
    read_result,
    report_seeds,
    write_result,
)
from gpt1.finetuning.transfer import make_classifier
from gpt1.inference.classification import probabilities_by_portion
from gpt1.inference.run import Run, load_run
from gpt1.model import Classifier
from gpt1.model.costs import flops_per_token
from gpt1.recipes.changes import change, differences
from gpt1.recipes.values import Recipe
from gpt1.records.run import FINETUNING, Hardware, RunRecord
from gpt1.runs.checkpoints import clean_up, list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.files import who_hears
from gpt1.runs.folder import begin_run, is_left_over, is_run, read_run, run_folder, run_tokenizer, update_run
from gpt1.tasks.answers import predictions, soft_targets
from gpt1.tasks.encoded import EncodedTask
from gpt1.tasks.metrics import scores
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import load_tokenizer
from gpt1.training.distributed import World, join_world
from gpt1.training.session import (
    Looked,
    as_recipe,
    begun_run,
    checkpoint_to_resume,
    conduct,
    hardware,
    notifier,
    require_as_found,
    resumed,
    speed_up,
)
from gpt1.training.trainer import Evaluation, Trainer

if TYPE_CHECKING:
    from gpt1.tasks.examples import Labelled

CUDA_BLOCK = 128  # tokens; a packed row is filled up to a multiple, so that a GPU meets few different sizes


@dataclass(frozen=True)
class FinetuneRequest:
    """What the caller of `finetune` wants."""

    init: Path
    source: Source
    recipe: Recipe | str
    changes: Sequence[str]
    resume: bool
    minutes: float | None
    curves: bool
    listeners: tuple[Listener, ...]


def finetune(
    init: str | Path,
    out: str | Path,
    *,
    task: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    symmetric: bool = False,
    encoding: str = "utf-8",
    encoded: str | Path | EncodedTask | Sequence[str | Path | EncodedTask] | None = None,
    examples: Labelled | None = None,
    recipe: Recipe | str = "finetune",
    changes: Sequence[str] = (),
    seeds: int = 1,
    resume: bool = False,
    device: str | None = None,
    minutes: float | None = None,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Teach the network of the run `init` one task or several, and return the run that has learned them.

    What to learn is named in one of four ways: `task` (names of the catalogue, or `module:NAME`) with `data`, their
    folder; `train`, a labelled table, perhaps with `dev` and `test`; `encoded`, what `gpt1 prepare --task` made; or
    `examples` as values. `changes` are settings such as `finetuning.lm_weight=0`. With several `seeds` each is trained,
    and the best one on dev is kept. `resume` goes on with the run in `out`; after `minutes` it stops, saved.
    """
    source = Source(
        tasks=[task] if isinstance(task, str) else list(task or ()),
        data=None if data is None else str(data),
        train=None if train is None else Path(train),
        dev=None if dev is None else Path(dev),
        test=None if test is None else Path(test),
        columns=columns or {},
        regression=regression,
        symmetric=symmetric,
        encoding=encoding,
        encoded=_several(encoded),
        examples=examples,
    )
    if seeds < 1:
        raise SettingError(f"at least one seed is needed, not {seeds}")
    asked = FinetuneRequest(run_folder(Path(init)), source, recipe, changes, resume, minutes, curves, tuple(listeners))
    out = Path(out)
    with join_world(find_device(device)) as (world, own_device):
        parent = read_run(asked.init)
        tasks, notices = read_source(source, asked.init, parent.recipe.shape.context)
        check_fit(
            tasks,
            fingerprint=run_tokenizer(asked.init).fingerprint,
            context=parent.recipe.shape.context,
            init=asked.init,
        )
        check_training(tasks)
        notices += truncation_notices(tasks)
        notices += unknown_notices(tasks, load_tokenizer(asked.init).unknown_id)
        if seeds == 1:
            _train_one(asked, out, tasks, notices, world, own_device)
        else:
            out = _train_several(asked, out, seeds, tasks, notices, world, own_device)
    return load_run(out, device=device)


def _several(encoded: str | Path | EncodedTask | Sequence[str | Path | EncodedTask] | None) -> list[Path | EncodedTask]:
    if encoded is None:
        return []
    listed = [encoded] if isinstance(encoded, str | Path | EncodedTask) else encoded
    return [one if isinstance(one, EncodedTask) else Path(one) for one in listed]


def _train_several(
    asked: FinetuneRequest,
    out: Path,
    seeds: int,
    tasks: Mapping[str, EncodedTask],
    notices: list[str],
    world: World,
    device: torch.device,
) -> Path:
    """Train one run a seed in folders of their own, keep the best one's weights, and return the run to look at."""
    first = change(as_recipe(asked.recipe), asked.changes).training.seed
    check_folder(out, range(first, first + seeds))
    world.wait()  # every rank has looked before the first one makes the folder
    with lock_folder(out) if world.is_first else nullcontext():
        if world.is_first:
            check_folder(out, range(first, first + seeds))
            remove_temporaries_below(out)
        return _train_seeds(asked, out, range(first, first + seeds), tasks, notices, world, device)


def _train_seeds(
    asked: FinetuneRequest,
    out: Path,
    seeds: range,
    tasks: Mapping[str, EncodedTask],
    notices: list[str],
    world: World,
    device: torch.device,
) -> Path:
    notify = notifier(asked.listeners if world.is_first else ())
    end = math.inf if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    for seed in seeds:
        folder = folder_of(out, seed)
        left = None if asked.minutes is None else max(0.0, (end - time.monotonic()) / 60)
        own = replace(asked, changes=[*asked.changes, f"training.seed={seed}"], minutes=left)
        if asked.resume and is_done(folder):
            _check_done(own, folder, tasks)
            notify(f"seed {seed} is trained already")
            continue
        notify(f"seed {seed} ({seeds.index(seed) + 1} of {len(seeds)})")
        if not _train_one(own, folder, tasks, notices if seed == seeds[0] else [], world, device):
            notify(f"{seeds.index(seed)} of {len(seeds)} seeds are trained; the same again with `resume=True` goes on")
            return folder
    if world.is_first:
        for line in report_seeds(out, {name: encoded.task for name, encoded in tasks.items()}):
            notify(line)
    world.wait()
    return out


def _check_done(asked: FinetuneRequest, folder: Path, tasks: Mapping[str, EncodedTask]) -> None:
    """Refuse what a seed that is done was not trained with, and a damaged result; it is not made longer either."""
    read_result(folder)
    old, (new, _) = read_run(folder).recipe.training, _resumed_recipe(asked, folder, tasks)
    for name in ("steps", "epochs", "patience"):
        before, now = getattr(old, name), getattr(new.training, name)
        if before != now:
            raise SettingError(
                f"training.{name} was {before} for the seed in {folder}, which is done, and is {now} now: seeds that "
                "are compared are trained alike; leave it, or choose another folder"
            )


def _train_one(
    asked: FinetuneRequest,
    out: Path,
    tasks: Mapping[str, EncodedTask],
    notices: list[str],
    world: World,
    device: torch.device,
) -> bool:
    """Train one run to its end, measure it and return True; or stop, saved, when the time is up."""
    looked = _look(asked, out, tasks)
    planned, going_on, init = looked.recipe, looked.going_on, looked.init
    precision, notice = usable_precision(device, planned.training.precision)
    notices = [*notices, *looked.notices, *([notice] if notice else [])]
    recipe = replace(planned, training=replace(planned.training, precision=precision))
    vocab_size = next(iter(tasks.values())).vocab_size
    learned = {name: encoded.task for name, encoded in tasks.items()}
    model = make_classifier(recipe, learned, vocab_size, init)
    world.wait()  # every rank has looked before the first one makes the folder
    with lock_folder(out) if world.is_first else nullcontext():
        listeners: list[Listener] = []
        if world.is_first:
            require_as_found(out, looked, lambda: _look(asked, out, tasks))
            _prepare_folder(asked, out, planned, tasks, vocab_size, going_on, hardware(device, world))
            listeners = who_hears(out, asked.listeners, curves=asked.curves)
        notify = notifier(listeners)
        for text in notices:
            notify(text)
        checkpoint = checkpoint_to_resume(out, notify) if going_on else None
        if world.is_first:
            forget_result(out)
        trainer = _make_trainer(asked, out, recipe, model, tasks, world, device, listeners)
        done = conduct(trainer, checkpoint, asked.resume, notify)
        if done and world.is_first:
            run = load_run(out, device=str(device))
            measured = {
                name: measure(run, encoded, [split for split in encoded.splits if split != "train"])
                for name, encoded in tasks.items()
            }
            write_result(out, measured)
        world.wait()
    return done


def _make_trainer(
    asked: FinetuneRequest,
    out: Path,
    recipe: Recipe,
    model: Classifier,
    tasks: Mapping[str, EncodedTask],
    world: World,
    device: torch.device,
    listeners: list[Listener],
) -> Trainer:
    training, settings = recipe.training, recipe.finetuning
    model.to(device)
    notify = notifier(listeners)
    notify(speed_up(model.body, recipe, device, world, sizes_vary=True))
    batches = TaskBatches(
        {name: make_lesson(encoded, class_weights=settings.class_weights) for name, encoded in tasks.items()},
        batch=training.batch,
        seed=training.seed,
        packing=PackingOptions(
            vocab_size=model.body.vocab_size - len(SPECIALS),
            context=recipe.shape.context,
            block=min(CUDA_BLOCK, recipe.shape.context) if device.type == "cuda" else 1,
            word_dropout=settings.word_dropout,
            dtype=np.float64 if training.precision == "fp64" else np.float32,
        ),
        drop_last=settings.drop_last,
    )
    epoch = batches.batches_an_epoch
    updates = training.steps or max(1, round(epoch * training.epochs))
    logging = recipe.logging
    logging = replace(logging, evaluate_every=logging.evaluate_every or epoch, save_every=logging.save_every or epoch)
    for name, encoded in tasks.items():
        if settings.class_weights and not encoded.task.labels:
            notify(f"'{name}' has no classes, so class weights change nothing there")
    recipe = replace(recipe, logging=logging)
    notify(_in_short(recipe, model, tasks, updates, device))
    evaluate = _evaluator(model, tasks)
    if evaluate is None:
        notify("there are no labelled rows for dev: the last update is kept, and patience has nothing to go by")
    return Trainer(
        TaskLearning(model, lm_weight=settings.lm_weight, tasks=tasks),
        batches,
        updates,
        recipe,
        out,
        device=device,
        world=world,
        listeners=listeners,
        tokens_per_step=round(batches.tokens_a_batch),
        flops_per_token=flops_per_token(recipe.shape, model.body.vocab_size),
        peak_flops=peak_flops(device_name(device), training.precision),
        evaluate=evaluate,
        minutes=asked.minutes,
    )


# ---- what would be run ----


def _look(asked: FinetuneRequest, out: Path, tasks: Mapping[str, EncodedTask]) -> Looked:
    """Return what is to be run, or refuse the folder."""
    tokenizer = asked.init / TOKENIZER_FILE
    require_own_folder(out, lambda entry: is_run(out) or is_left_over(entry, tokenizer))
    if not (asked.resume and is_run(out)):
        return Looked(False, _new_recipe(asked, out), (), asked.init)
    recipe, notices = _resumed_recipe(asked, out, tasks)
    init = None if list_checkpoints(out) else asked.init
    if init is not None and str(init.resolve()) != read_run(out).parent:
        raise SettingError(f"{out} was begun from {read_run(out).parent}, not from {init}; name that one")
    return Looked(True, recipe, tuple(notices), init)


def _new_recipe(asked: FinetuneRequest, out: Path) -> Recipe:
    if is_run(out):
        raise InputError(f"{out} holds a run already; choose another folder, or go on with it by `resume=True`")
    return _with_parents_shape(asked, change(as_recipe(asked.recipe), asked.changes))


def _with_parents_shape(asked: FinetuneRequest, recipe: Recipe) -> Recipe:
    """Return the recipe with the shape of the pre-trained network; only dropout is the fine-tuning's own."""
    parent = read_run(asked.init).recipe
    base = as_recipe(asked.recipe)
    for name in differences(base, replace(base, shape=recipe.shape)):
        if name != "shape.dropout":
            raise SettingError(f"{name} is decided by {asked.init}, whose network is taken; it cannot be changed")
    return replace(recipe, shape=replace(parent.shape, dropout=recipe.shape.dropout))


def _resumed_recipe(asked: FinetuneRequest, out: Path, tasks: Mapping[str, EncodedTask]) -> tuple[Recipe, list[str]]:
    """Return the recipe of the run that goes on, and what changed; refuse where what decides its losses differs."""
    begun = begun_run(out, FINETUNING)
    if begun.identity != identity(tasks):
        raise InputError(
            f"the training examples are not those that the run {out} was begun with; resume it with its own, or begin "
            "a new run in another folder"
        )
    return resumed(out, begun.recipe, asked.recipe, asked.changes, lambda new: _with_parents_shape(asked, new))


def _prepare_folder(
    asked: FinetuneRequest,
    out: Path,
    recipe: Recipe,
    tasks: Mapping[str, EncodedTask],
    vocab_size: int,
    going_on: bool,
    trained_on: Hardware,
) -> None:
    if going_on:
        clean_up(out)
        update_run(out, recipe=recipe, source=asked.source.recorded(), trained_on=trained_on)
        return
    record = RunRecord(
        FINETUNING,
        recipe,
        seed=recipe.training.seed,
        tokenizer=next(iter(tasks.values())).tokenizer_fingerprint,
        vocab_size=vocab_size,
        tasks={name: encoded.task for name, encoded in tasks.items()},
        examples={name: {split: len(data) for split, data in e.splits.items()} for name, e in tasks.items()},
        unknown=unknown_tokens(tasks, load_tokenizer(asked.init).unknown_id),
        identity=identity(tasks),
        source=asked.source.recorded(),
        parent=str(asked.init.resolve()),
        trained_on=trained_on,
    )
    begin_run(out, record, asked.init / TOKENIZER_FILE)


def _in_short(
    recipe: Recipe, model: Classifier, tasks: Mapping[str, EncodedTask], updates: int, device: torch.device
) -> str:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    examples = ", ".join(f"{len(encoded.splits['train']):,} examples of {name}" for name, encoded in tasks.items())
    return (
        f"{examples}; {parameters:,} parameters, {updates:,} updates of {recipe.training.batch} examples, "
        f"{recipe.training.precision} on {device_name(device)}"
    )


# ---- looking at the model ----


def _evaluator(model: Classifier, tasks: Mapping[str, EncodedTask]) -> Callable[[], Evaluation] | None:
    """Return a function that scores the model on every dev split; the mean of their first metrics decides."""
    splits = [
        (name, split, encoded.splits[split])
        for name, encoded in tasks.items()
        for split in encoded.task.dev_splits
        if split in encoded.splits and encoded.splits[split].labelled.any()
    ]
    if not splits:
        return None

    def evaluate() -> Evaluation:
        found: dict[str, float] = {}
        decisive = []
        for name, split, data in splits:
            task, known = tasks[name].task, data.labelled
            answers, likelihood = np.zeros_like(data.labels), np.zeros(len(data))
            for examples, chances in probabilities_by_portion(model, name, data):
                answers[examples] = predictions(task, chances)
                shares = soft_targets(task, data.labels[examples])
                likelihood[examples] = (shares * np.log(np.maximum(chances, 1e-30))).sum(1)
            own = scores(task, data.labels[known], answers[known])
            decisive.append(own[task.metrics[0]])
            prefix = f"{name}_{split}" if len(tasks) > 1 else split
            found |= {f"{prefix}_{metric}": value for metric, value in own.items()}
            found[f"{prefix}_loss"] = float(-likelihood[known].mean())
        return Evaluation(found, cost=1 - float(np.mean(decisive)))

    return evaluate
