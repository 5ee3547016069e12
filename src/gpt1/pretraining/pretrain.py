"""`gpt1 pretrain`: a corpus and a recipe in, a run out; stopped at any moment, it goes on where it was."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from gpt1.base.devices import device_name, find_device, peak_flops, usable_precision
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import lock_folder, require_own_folder
from gpt1.inference.evaluation import scores, text_loss
from gpt1.inference.generation import continue_ids
from gpt1.inference.run import BEST, DTYPES, Run, find_checkpoint, load_run, load_weights
from gpt1.model import Model, build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.objective import LanguageModelling
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change, differences
from gpt1.recipes.values import FSDP, LSTM, Recipe
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import load_tokenizer
from gpt1.training.checkpoints import clean_up, list_checkpoints, newest_checkpoint
from gpt1.training.distributed import World, join_world
from gpt1.training.events import Listener, Noticed
from gpt1.training.runs import (
    RunFiles,
    begin_run,
    forget_after,
    has_begun,
    is_left_over,
    is_run,
    read_run,
    tensorboard,
    update_run,
)
from gpt1.training.trainer import Trainer

KIND = "pretraining"
# A resumed run may be watched, laid out over devices and ended otherwise; its network, optimiser and batches stay.
FREE_ON_RESUME = (
    "watching.",
    "training.steps",
    "training.epochs",
    "training.micro_batch",
    "training.precision",
    "training.compile",
    "training.checkpoint_activations",
    "training.deterministic",
    "training.distribution",
    "training.spike",
)
SAMPLE_PROMPT, SAMPLE_TOKENS, SAMPLES = 16, 48, 2  # tokens, tokens, how many


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to stop, and it did, with its state saved."""


@dataclass(frozen=True)
class Asked:
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
    asked = Asked(recipe, Path(corpus), Path(out), None if init is None else Path(init), resume, changes)
    with join_world(find_device(device)) as (world, own_device):
        texts = TokenStream(asked.corpus, "train"), _validation(asked.corpus)
        tokenizer = asked.corpus / TOKENIZER_FILE
        require_own_folder(asked.out, lambda entry: is_run(asked.out) or is_left_over(entry, tokenizer))
        going_on = asked.resume and is_run(asked.out)
        planned, notices = _resumed_recipe(asked, texts[0]) if going_on else (_new_recipe(asked), [])
        precision, notice = usable_precision(own_device, planned.training.precision)
        planned_here = replace(planned, training=replace(planned.training, precision=precision))
        model = _make_model(planned_here, texts[0], _first_weights(asked, going_on))
        world.wait()  # every rank has looked before the first one makes the folder
        with lock_folder(asked.out) if world.is_first else nullcontext():
            ears: list[Listener] = []
            if world.is_first:
                _prepare_folder(asked, planned, texts[0], going_on)
                ears = [RunFiles(asked.out), *listeners, *([tensorboard(asked.out)] if curves else [])]
            notices += [notice] if notice else []
            _train(asked, planned_here, model, texts, world, own_device, minutes, ears, notices, going_on)
    return load_run(asked.out, device=device)


def _train(
    asked: Asked,
    recipe: Recipe,
    model: Model,
    texts: tuple[TokenStream, TokenStream | None],
    world: World,
    device: torch.device,
    minutes: float | None,
    ears: list[Listener],
    notices: list[str],
    going_on: bool,
) -> None:
    def tell(text: str | None) -> None:
        for listener in ears if text else ():
            listener(Noticed(cast(str, text)))

    train, valid = texts
    for notice in notices:
        tell(notice)
    checkpoint = newest_checkpoint(asked.out, tell) if going_on else None
    if going_on and checkpoint is None and has_begun(asked.out):
        raise InputError(
            f"{asked.out} has no whole checkpoint to go on from; bring one back into its folder 'checkpoints', or "
            "begin anew in another folder"
        )
    model.to(device)
    tell(_speed_up(model, recipe, device, world))
    windows = Windows(train, context=recipe.shape.context, batch=recipe.training.batch, seed=recipe.training.seed)
    updates = recipe.training.steps or windows.batches_in(recipe.training.epochs)
    tell(_in_short(recipe, model, updates, device))
    tell(None if asked.init is None else f"the network and its first weights are those of {asked.init}")
    tell(_on_warmup(recipe, updates))
    tell(None if valid else "the corpus has no text for validation: nothing is evaluated or sampled")
    trainer = Trainer(
        LanguageModelling(model),
        windows,
        updates,
        recipe,
        asked.out,
        device=device,
        world=world,
        listeners=ears,
        tokens_per_step=recipe.training.batch * recipe.shape.context,
        flops_per_token=flops_per_token(recipe.shape, train.vocab_size),
        peak_flops=peak_flops(device_name(device), recipe.training.precision),
        evaluate=None if valid is None else _evaluator(model, valid, recipe, device, world),
        sample=None if valid is None else _sampler(model, valid, asked.out, recipe.training.seed),
        minutes=minutes,
    )
    if checkpoint is not None:
        trainer.restore(checkpoint)
        done = checkpoint.step >= updates
        tell(
            f"all {updates} updates are made (step {checkpoint.step}); more --steps would go on"
            if done
            else f"going on from step {checkpoint.step} of {updates}"
        )
    elif asked.resume:
        tell(f"nothing to resume in {asked.out}: beginning with the first step")
    if world.is_first:
        forget_after(asked.out, trainer.progress.step)
    if not trainer.train():
        left = f"stopped at step {trainer.progress.step} of {updates}, saved; the same command with --resume goes on"
        if not trainer.out_of_time:
            raise Interrupted(left)
        tell(left)


# ---- what would be run ----


def _new_recipe(asked: Asked) -> Recipe:
    if is_run(asked.out):
        raise InputError(f"{asked.out} holds a run already; --resume goes on with it, or choose another folder")
    if asked.init is None:
        if asked.recipe is None:
            raise SettingError("name a recipe (gpt1 recipes lists them)")
        return change(_as_value(asked.recipe), asked.changes)
    parent = read_run(asked.init)["recipe"]
    base = parent if asked.recipe is None else replace(_as_value(asked.recipe), shape=parent.shape)
    recipe = change(base, asked.changes)
    for name in differences(replace(recipe, shape=parent.shape), recipe):
        if name != "shape.dropout":
            raise SettingError(f"{name} is decided by {asked.init}, whose weights are taken; it cannot be changed")
    return recipe


def _as_value(recipe: Recipe | str) -> Recipe:
    return find_recipe(recipe) if isinstance(recipe, str) else recipe


def _resumed_recipe(asked: Asked, train: TokenStream) -> tuple[Recipe, list[str]]:
    """Return the recipe of the run that goes on, and what changed; refuse where what decides its losses differs."""
    facts = read_run(asked.out)
    try:
        kind, tokenizer, identity = facts["kind"], facts["tokenizer"], facts["corpus"]["identity"]
    except (KeyError, TypeError) as error:
        raise FormatError(f"{asked.out}: run.json is damaged ({error!r})") from None
    if kind != KIND:
        raise SettingError(f"{asked.out} is a run of another kind ({kind})")
    if tokenizer != train.fingerprint:
        raise InputError(f"{asked.corpus} was made with another tokenizer than the run {asked.out}; it cannot go on")
    if identity != train.identity:
        raise InputError(
            f"{asked.corpus} holds other text than the run {asked.out} was begun with; resume it on its own corpus, or "
            f"begin a new run with --init {asked.out}"
        )
    old: Recipe = facts["recipe"]
    new = change(old if asked.recipe is None else _as_value(asked.recipe), asked.changes)
    if asked.init is not None:
        new = replace(new, shape=old.shape)  # as when it was begun: the shape is the parent's
    for name, (before, after) in differences(old, new).items():
        if not name.startswith(FREE_ON_RESUME):
            raise SettingError(
                f"{name} is {before} in the run {asked.out} and {after} now: a run goes on as it was begun; leave "
                f"it, or begin a new run with --init {asked.out}"
            )
    return new, [f"{name} was {before}, is {after} now" for name, (before, after) in differences(old, new).items()]


# ---- the folder and the weights ----


def _prepare_folder(asked: Asked, recipe: Recipe, train: TokenStream, going_on: bool) -> None:
    if going_on:
        clean_up(asked.out)
        update_run(asked.out, recipe, asked.corpus)
        return
    about: dict[str, Any] = {
        "seed": recipe.training.seed,
        "tokenizer": train.fingerprint,
        "vocab_size": train.vocab_size,
        "corpus": {"path": str(asked.corpus.resolve()), "identity": train.identity, "tokens": len(train)},
        "parent": None if asked.init is None else str(asked.init.resolve()),
    }
    begin_run(asked.out, KIND, recipe, asked.corpus / TOKENIZER_FILE, about)


def _first_weights(asked: Asked, going_on: bool) -> Path | None:
    """Return the run whose weights to begin with: also for a run that ended before its first checkpoint."""
    if not going_on:
        return asked.init
    parent = read_run(asked.out).get("parent")
    return None if parent is None or list_checkpoints(asked.out) else Path(parent)


def _make_model(recipe: Recipe, train: TokenStream, init: Path | None) -> Model:
    """Build the network, with fresh weights or those of another run."""
    training = recipe.training
    model = build_model(recipe.shape, train.vocab_size, compute=DTYPES[training.precision], seed=training.seed)
    model.checkpoint_activations = training.checkpoint_activations
    if init is not None:
        if read_run(init)["tokenizer"] != train.fingerprint:
            raise InputError(
                f"the corpus was made with another tokenizer than {init}; prepare it with --tokenizer {init}, whose "
                "words the weights know"
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


# ---- the device ----


def _speed_up(model: Model, recipe: Recipe, device: torch.device, world: World) -> str | None:
    """Set what makes the device fast (or repeatable), and say what is not available."""
    training = recipe.training
    if training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS picks its sums' order anew
        torch.use_deterministic_algorithms(True)
    if not training.compile or device.type != "cuda" or recipe.shape.kind == LSTM:
        return None
    if world.size > 1 and training.distribution == FSDP:
        return "not compiled: fsdp shares out the weights that compiled code would hold"
    if importlib.util.find_spec("triton") is None:
        return "not compiled: the package triton is not installed; training runs, but slower"
    model.compile()
    return None


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
) -> Callable[[], dict[str, float]]:
    size = recipe.training.micro_batch or -(-recipe.training.batch // world.size)

    def evaluate() -> dict[str, float]:
        batches = validation_windows(
            valid, context=recipe.shape.context, batch=size, limit=recipe.watching.evaluate_tokens
        )
        total, targets = text_loss(model, batches, size, device, world)
        return scores(total, targets, valid.bytes * targets / (len(valid) - 1))

    return evaluate


def _sampler(model: Model, valid: TokenStream, run: Path, seed: int) -> Callable[[int], list[dict[str, str]]]:
    """Let the model go on from places in the validation text, the same ones each time."""
    prompt_tokens = min(SAMPLE_PROMPT, len(valid), model.shape.context - 1)
    places = [index * (len(valid) - prompt_tokens) // SAMPLES for index in range(SAMPLES)]
    prompts = [row.tolist() for row in valid.read(places, prompt_tokens)]

    def sample(step: int) -> list[dict[str, str]]:
        tokenizer = load_tokenizer(run)
        samples = []
        for index, prompt in enumerate(prompts):
            ids = continue_ids(
                model, prompt, SAMPLE_TOKENS, seed=seed + step * SAMPLES + index, temperature=0.8, top_k=40
            )
            samples.append({"prompt": tokenizer.decode(prompt), "text": tokenizer.decode(ids)})
        return samples

    return sample
