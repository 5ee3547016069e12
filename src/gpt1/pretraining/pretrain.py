"""`gpt1 pretrain`: a corpus and a recipe in, a run out; stopped at any moment, it goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gpt1.base.devices import device_name, find_device, peak_flops, usable_precision
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import lock_folder, require_own_folder
from gpt1.inference.run import BEST, DTYPES, Run, find_checkpoint, load_run, load_weights
from gpt1.model import Model, build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.evaluation import scores, text_loss
from gpt1.pretraining.objective import LanguageModelling
from gpt1.pretraining.samples import sampler
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.recipes.changes import change, differences
from gpt1.recipes.values import Recipe
from gpt1.records.run import PRETRAINING, Hardware, RecordedCorpus, RunRecord
from gpt1.runs.checkpoints import clean_up, list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.files import who_hears
from gpt1.runs.folder import begin_run, is_left_over, is_run, read_run, run_tokenizer, update_run
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


@dataclass(frozen=True)
class PretrainRequest:
    """What the caller of `pretrain` wants."""

    recipe: Recipe | str | None
    corpus: Path
    out: Path
    init: Path | None
    resume: bool
    changes: Sequence[str]


def pretrain(
    recipe: Recipe | str | None,
    corpus: str | Path,
    out: str | Path,
    *,
    init: str | Path | None = None,
    resume: bool = False,
    changes: Sequence[str] = (),
    device: str | None = None,
    minutes: float | None = None,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Pre-train a model on a prepared corpus and return the run.

    `recipe` is a name, `module:NAME` or a value (None: that of `init` or of the run to resume); `changes` are settings
    such as `training.batch=32`; `init` is a run whose weights to begin with; `resume` goes on with the run in `out`;
    after `minutes` it stops, saved; `curves` writes for TensorBoard. A signal to stop ends in `Interrupted`, saved too.
    """
    asked = PretrainRequest(recipe, Path(corpus), Path(out), None if init is None else Path(init), resume, changes)
    with join_world(find_device(device)) as (world, own_device):
        texts = TokenStream(asked.corpus, "train"), _validation(asked.corpus)
        _check_tokenizer(asked.corpus, texts[0])
        looked = _look(asked, texts[0])
        planned, notices, going_on, init = looked.recipe, list(looked.notices), looked.going_on, looked.init
        precision, notice = usable_precision(own_device, planned.training.precision)
        planned_here = replace(planned, training=replace(planned.training, precision=precision))
        model = _make_model(planned_here, texts[0], init)
        world.wait()  # every rank has looked before the first one makes the folder
        with lock_folder(asked.out) if world.is_first else nullcontext():
            all_listeners: list[Listener] = []
            if world.is_first:
                require_as_found(asked.out, looked, lambda: _look(asked, texts[0]))
                _prepare_folder(asked, planned, texts[0], going_on, hardware(own_device, world))
                all_listeners = who_hears(asked.out, listeners, curves=curves)
            notices += [notice] if notice else []
            _train(asked, planned_here, model, texts, world, own_device, minutes, all_listeners, notices, going_on)
    return load_run(asked.out, device=device)


def _train(
    asked: PretrainRequest,
    recipe: Recipe,
    model: Model,
    texts: tuple[TokenStream, TokenStream | None],
    world: World,
    device: torch.device,
    minutes: float | None,
    listeners: list[Listener],
    notices: list[str],
    going_on: bool,
) -> None:
    notify = notifier(listeners)
    train, valid = texts
    for notice in (*notices, *train.notices):
        notify(notice)
    checkpoint = checkpoint_to_resume(asked.out, notify) if going_on else None
    model.to(device)
    notify(speed_up(model, recipe, device, world))
    windows = Windows(train, context=recipe.shape.context, batch=recipe.training.batch, seed=recipe.training.seed)
    updates = recipe.training.steps or windows.batches_in(recipe.training.epochs)
    notify(_in_short(recipe, model, updates, device))
    notify(None if asked.init is None else f"the network and its first weights are those of {asked.init}")
    notify(_on_warmup(recipe, updates))
    notify(None if valid else "the corpus has no text for validation: nothing is evaluated or sampled")
    trainer = Trainer(
        LanguageModelling(model),
        windows,
        updates,
        recipe,
        asked.out,
        device=device,
        world=world,
        listeners=listeners,
        tokens_per_step=recipe.training.batch * recipe.shape.context,
        flops_per_token=flops_per_token(recipe.shape, train.vocab_size),
        peak_flops=peak_flops(device_name(device), recipe.training.precision),
        evaluate=None if valid is None else _evaluator(model, valid, recipe, device, world),
        sample=None if valid is None else sampler(model, valid, asked.out, recipe, world),
        minutes=minutes,
    )
    conduct(trainer, checkpoint, asked.resume, notify)


# ---- what would be run ----


def _check_tokenizer(corpus: Path, train: TokenStream) -> None:
    """Refuse a corpus whose tokenizer is another's: the run would take it over."""
    path = corpus / TOKENIZER_FILE
    own = load_tokenizer(path)
    if (own.fingerprint, own.vocab_size) != (train.fingerprint, train.vocab_size):
        raise FormatError(f"{path} is not the tokenizer with which {corpus} was prepared; bring it back")


def _look(asked: PretrainRequest, train: TokenStream) -> Looked:
    """Return what is to be run, or refuse the folder."""
    tokenizer = asked.corpus / TOKENIZER_FILE
    require_own_folder(asked.out, lambda entry: is_run(asked.out) or is_left_over(entry, tokenizer))
    going_on = asked.resume and is_run(asked.out)
    recipe, notices = _resumed_recipe(asked, train) if going_on else (_new_recipe(asked), [])
    return Looked(going_on, recipe, tuple(notices), _first_weights(asked, going_on))


def _new_recipe(asked: PretrainRequest) -> Recipe:
    if is_run(asked.out):
        raise InputError(f"{asked.out} holds a run already; choose another folder, or go on with it by `resume=True`")
    if asked.init is None:
        if asked.recipe is None:
            raise SettingError("name a recipe (gpt1 recipes lists them)")
        return change(as_recipe(asked.recipe), asked.changes)
    parent = read_run(asked.init).recipe
    base = parent if asked.recipe is None else replace(as_recipe(asked.recipe), shape=parent.shape)
    recipe = change(base, asked.changes)
    for name in differences(replace(recipe, shape=parent.shape), recipe):
        if name != "shape.dropout":
            raise SettingError(f"{name} is decided by {asked.init}, whose weights are taken; it cannot be changed")
    return recipe


def _resumed_recipe(asked: PretrainRequest, train: TokenStream) -> tuple[Recipe, list[str]]:
    """Return the recipe of the run that goes on, and what changed; refuse where what decides its losses differs."""
    begun = begun_run(asked.out, PRETRAINING)
    if begun.tokenizer != train.fingerprint:
        raise InputError(f"{asked.corpus} was made with another tokenizer than the run {asked.out}; it cannot go on")
    if begun.corpus is None or begun.corpus.identity != train.identity:
        raise InputError(
            f"{asked.corpus} holds other text than the run {asked.out} was begun with; resume it on its own corpus, or "
            f"begin a new run with `init={str(asked.out)!r}`"
        )
    old = begun.recipe
    # As when it was begun: with a parent, the shape is the parent's.
    return resumed(
        asked.out, old, asked.recipe, asked.changes, lambda new: replace(new, shape=old.shape) if asked.init else new
    )


# ---- the folder and the weights ----


def _prepare_folder(
    asked: PretrainRequest, recipe: Recipe, train: TokenStream, going_on: bool, trained_on: Hardware
) -> None:
    corpus = RecordedCorpus(str(asked.corpus.resolve()), train.identity, len(train))
    if going_on:
        clean_up(asked.out)
        update_run(asked.out, recipe=recipe, corpus=corpus, trained_on=trained_on)
        return
    record = RunRecord(
        PRETRAINING,
        recipe,
        seed=recipe.training.seed,
        tokenizer=train.fingerprint,
        vocab_size=train.vocab_size,
        corpus=corpus,
        parent=None if asked.init is None else str(asked.init.resolve()),
        trained_on=trained_on,
    )
    begin_run(asked.out, record, asked.corpus / TOKENIZER_FILE)


def _first_weights(asked: PretrainRequest, going_on: bool) -> Path | None:
    """Return the run whose weights to begin with: also for a run that ended before its first checkpoint."""
    if not going_on:
        return asked.init
    parent = read_run(asked.out).parent
    return None if parent is None or list_checkpoints(asked.out) else Path(parent)


def _make_model(recipe: Recipe, train: TokenStream, init: Path | None) -> Model:
    """Build the network, with fresh weights or those of another run."""
    training = recipe.training
    model = build_model(
        recipe.shape,
        train.vocab_size,
        compute=DTYPES[training.precision],
        seed=training.seed,
        checkpoint_activations=training.checkpoint_activations,
    )
    if init is not None:
        if run_tokenizer(init).fingerprint != train.fingerprint:
            raise InputError(
                f"the corpus was made with another tokenizer than {init}; whose words the weights know; make "
                f"it with `gpt1.prepare(tokenizer={str(init)!r})`"
            )
        load_weights(model, find_checkpoint(init, BEST))
    return model.double() if training.precision == "fp64" else model


def _validation(corpus: Path) -> TokenStream | None:
    """Return the validation text, or None where the corpus was prepared without any, or with too little to predict."""
    try:
        stream = TokenStream(corpus, "valid")
    except InputError:
        return None
    return stream if len(stream) > 1 else None


def _in_short(recipe: Recipe, model: Model, updates: int, device: torch.device) -> str:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tokens = recipe.training.batch * recipe.shape.context
    return (
        f"recipe {recipe.name}: {parameters:,} parameters, {updates:,} updates of {tokens:,} tokens, "
        f"{recipe.training.precision} on {device_name(device)}"
    )


def _on_warmup(recipe: Recipe, updates: int) -> str | None:
    wanted, used = recipe.schedule.warmup_steps, round(recipe.schedule.warmup(updates) * updates)
    if wanted is None or used >= wanted:
        return None
    return f"the learning rate warms up over {used:,} updates, not {wanted:,}: there are {updates:,} in all"


# ---- looking at the model ----


def _evaluator(
    model: Model, valid: TokenStream, recipe: Recipe, device: torch.device, world: World
) -> Callable[[], Evaluation]:
    size = recipe.training.micro_batch or -(-recipe.training.batch // world.size)

    def evaluate() -> Evaluation:
        batches = validation_windows(
            valid, context=recipe.shape.context, batch=size, limit=recipe.logging.evaluate_tokens
        )
        total, targets = text_loss(model, batches, size, device, world)
        found = scores(total, targets, valid.bytes * targets / (len(valid) - 1))
        return Evaluation(found, cost=found["valid_loss"])

    return evaluate
