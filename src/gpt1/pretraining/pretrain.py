"""`gpt1 pretrain`: a corpus and a recipe in, a run out; stopped at any moment, it goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gpt1.base.devices import device_name, find_device
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import require_own_folder
from gpt1.base.wording import many, some
from gpt1.bases.catalog import lasting_name, named_again
from gpt1.inference.run import BEST, DTYPES, Run, body_of, find_checkpoint, load_run, load_weights
from gpt1.inference.teaching import require_same_teaching, teachers_hashes
from gpt1.model import Model, build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.objective import LanguageModelling, scores, text_loss
from gpt1.pretraining.samples import sampler
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.recipes.catalog import FOR_TEXT, not_of_weights
from gpt1.recipes.changes import change, differences
from gpt1.recipes.derived import require_for_text, require_settled
from gpt1.recipes.values import Recipe
from gpt1.records.run import PRETRAINING, RecordedCorpus, RecordedTeaching, RunRecord
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.folder import is_left_over, is_run, read_run, run_folder, run_tokenizer
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import load_tokenizer
from gpt1.training.batches import share
from gpt1.training.config import Judgement, TrainerConfig
from gpt1.training.distributed import World, join_world
from gpt1.training.session import (
    Conditions,
    Looked,
    Notify,
    Session,
    as_recipe,
    begun_run,
    resumed,
    speed_up,
    why_no_kernels,
)


@dataclass(frozen=True)
class PretrainRequest:
    """What the caller of `pretrain` wants."""

    recipe: Recipe | str | None
    corpus: Path
    init: Path | None
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
    rank_timeout: float = 10.0,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Pre-train a model on a prepared corpus and return the run.

    `recipe` is a name, `module:NAME` or a value (None: that of `init` or of the run to resume); `changes` are settings
    such as `training.batch=32`; `init` is a run whose weights to begin with; `resume` goes on with the run in `out`;
    after `minutes` it stops, saved; `curves` writes for TensorBoard. A signal to stop ends in `Interrupted`, saved too.
    Of several processes one that the others wait for `rank_timeout` minutes is taken for lost, which ends them all.
    """
    asked = PretrainRequest(recipe, Path(corpus), None if init is None else run_folder(init), changes)
    with join_world(find_device(device), rank_timeout) as (world, own_device):
        conditions = Conditions(Path(out), world, own_device, resume, minutes, curves, tuple(listeners))
        PretrainSession(asked, conditions).train()
    return load_run(out, device=device)


class PretrainSession(Session[Model]):
    """The pre-training of a network on a corpus."""

    def __init__(self, asked: PretrainRequest, conditions: Conditions) -> None:
        self.asked, self.train_text, self.valid_text = (
            asked,
            TokenStream(asked.corpus, "train"),
            _validation(asked.corpus),
        )
        _check_tokenizer(asked.corpus, self.train_text)
        super().__init__(conditions, self.train_text.notices)

    @property
    def tokenizer(self) -> Path:
        """That of the corpus."""
        return self.asked.corpus / TOKENIZER_FILE

    def data(self) -> dict[str, str]:
        """Return hashes of the texts, of the tokenizer and of who teaches."""
        valid = "none" if self.valid_text is None else self.valid_text.identity
        train = self.train_text
        found = {"the text": train.identity, "the text for validation": valid, "the tokenizer": train.fingerprint}
        return found | teachers_hashes(self.taught)

    @property
    def taught(self) -> RecordedTeaching | None:
        """Who teaches besides the corpus, and how."""
        return None

    def look(self) -> Looked:
        """Return what is to be run, or refuse the folder."""
        require_own_folder(self.out, lambda entry: is_run(self.out) or is_left_over(entry, self.tokenizer))
        if not (self.conditions.resume and is_run(self.out)):
            recipe = self._new_recipe()
            require_for_text(recipe)
            return Looked(False, recipe, (), self.asked.init)
        recipe, notices = self._resumed_recipe()
        require_settled(recipe)
        return Looked(True, recipe, tuple(notices), self._first_weights())

    def _new_recipe(self) -> Recipe:
        asked = self.asked
        if is_run(self.out):
            raise InputError(
                f"{self.out} holds a run already; choose another folder, or go on with it by `resume=True`"
            )
        if asked.init is None:
            if asked.recipe is None:
                raise SettingError(f"name a recipe with `recipe`: {', '.join(FOR_TEXT)}")
            return change(as_recipe(asked.recipe), asked.changes)
        record = read_run(asked.init)
        if record.kind != PRETRAINING and asked.recipe is None:
            raise SettingError(
                f"{asked.init} was fine-tuned, with a recipe that is not for text; name one with `recipe`"
            )
        parent = record.recipe
        base = parent if asked.recipe is None else replace(as_recipe(asked.recipe), shape=parent.shape)
        recipe = change(base, asked.changes)
        for name in differences(replace(recipe, shape=parent.shape), recipe):
            if name not in not_of_weights(parent.shape):
                raise SettingError(f"{name} is decided by {asked.init}, whose weights are taken; it cannot be changed")
        return recipe

    def _resumed_recipe(self) -> tuple[Recipe, list[str]]:
        """Return the recipe of the run that goes on, and what changed; refuse where what decides its losses differs."""
        asked, out = self.asked, self.out
        begun = begun_run(out, PRETRAINING)
        if begun.tokenizer != self.train_text.fingerprint:
            raise InputError(f"{asked.corpus} was made with another tokenizer than the run {out}; it cannot go on")
        if begun.corpus is None or begun.corpus.identity != self.train_text.identity:
            raise InputError(
                f"{asked.corpus} holds other text than the run {out} was begun with; resume it on its own corpus, or "
                f"begin a new run with `init={str(out)!r}`"
            )
        if asked.init is not None and lasting_name(asked.init) != begun.parent:
            from_ = "from no run" if begun.parent is None else f"from {begun.parent}"
            raise SettingError(
                f"{out} was begun {from_}, not from {asked.init}: a run goes on with its own weights; leave `init` "
                "out, or begin a new run in another folder"
            )
        require_same_teaching(out, begun.taught, self.taught)
        shape = begun.recipe.shape  # as when it was begun: with a parent, the shape is the parent's
        keep = (lambda new: replace(new, shape=shape)) if asked.init else (lambda new: new)
        return resumed(out, begun.recipe, asked.recipe, asked.changes, keep, self._updates)

    def _first_weights(self) -> Path | None:
        """Return the run whose weights to begin with, of a run that ended before its first checkpoint."""
        parent = read_run(self.out).parent
        if parent is None or list_checkpoints(self.out):
            return None
        init = named_again(parent)
        if not is_run(init):
            raise InputError(
                f"{self.out} was begun from {parent}, which is no run now, and nothing was saved yet; bring it back, "
                "or begin anew in another folder"
            )
        return init

    def record(self, recipe: Recipe) -> RunRecord:
        """Return what the run will say of itself."""
        train, init = self.train_text, self.asked.init
        return RunRecord(
            PRETRAINING,
            recipe,
            seed=recipe.training.seed,
            tokenizer=train.fingerprint,
            vocab_size=train.vocab_size,
            corpus=RecordedCorpus(str(self.asked.corpus.resolve()), train.identity, len(train)),
            parent=None if init is None else lasting_name(init),
            taught=self.taught,
        )

    def make_model(self, recipe: Recipe, init: Path | None) -> Model:
        """Return the network, with fresh weights or those of another run."""
        train, training = self.train_text, recipe.training
        model = build_model(
            recipe.shape,
            train.vocab_size,
            compute=DTYPES[training.precision],
            seed=training.seed,
            checkpoint_activations=training.checkpoint_activations,
            fused=training.fused and why_no_kernels(recipe, self.device, self.world) is None,
        )
        if init is not None:
            if run_tokenizer(init).fingerprint != train.fingerprint:
                raise InputError(
                    f"the corpus was made with another tokenizer than {init}; whose words the weights know; make "
                    f"it with `gpt1.prepare(tokenizer={str(init)!r})`"
                )
            load_weights(model, body_of(find_checkpoint(init, BEST), train.vocab_size))
        return model.double() if training.precision == "fp64" else model

    def configure(self, model: Model, recipe: Recipe, notify: Notify) -> TrainerConfig:
        """Return what the loop needs."""
        train, valid, training = self.train_text, self.valid_text, recipe.training
        notify(speed_up(model, recipe, self.device, self.world))
        updates, init = self._updates(recipe), self.asked.init
        notify(_in_short(recipe, model, updates, self.device))
        notify(None if init is None else f"the network and its first weights are those of {init}{_left(init)}")
        notify(_on_warmup(recipe, updates))
        notify(None if valid else "the corpus has no text for validation: nothing is evaluated or sampled")
        return TrainerConfig(
            objective=LanguageModelling(model),
            batches=self._windows(recipe),
            updates=updates,
            recipe=recipe,
            tokens_per_step=training.batch * recipe.shape.context,
            flops_per_token=flops_per_token(recipe.shape, train.vocab_size),
            evaluate=None if valid is None else _evaluator(model, valid, recipe, self.device, self.world),
            sample=None if valid is None else sampler(model, valid, self.out, recipe, self.world),
            has_parent=init is not None,
        )

    def _updates(self, recipe: Recipe) -> int:
        return recipe.training.steps or self._windows(recipe).batches_in(recipe.training.epochs)

    def _windows(self, recipe: Recipe) -> Windows:
        training = recipe.training
        return Windows(self.train_text, context=recipe.shape.context, batch=training.batch, seed=training.seed)


def _check_tokenizer(corpus: Path, train: TokenStream) -> None:
    """Refuse a corpus whose tokenizer is another's: the run would take it over."""
    path = corpus / TOKENIZER_FILE
    own = load_tokenizer(path)
    if (own.fingerprint, own.vocab_size) != (train.fingerprint, train.vocab_size):
        raise FormatError(f"{path} is not the tokenizer with which {corpus} was prepared; bring it back")


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
        f"recipe {recipe.name}: {parameters:,} parameters, {many(updates, 'update')} of {tokens:,} tokens, "
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
) -> Callable[[], Judgement]:
    size = recipe.training.micro_batch or share(recipe.training.batch, world.size)

    def evaluate() -> Judgement:
        batches = validation_windows(
            valid, context=recipe.shape.context, batch=size, limit=recipe.logging.evaluate_tokens
        )
        total, targets = text_loss(model, batches, size, device, world)
        found = scores(total, targets, valid.bytes * targets / (len(valid) - 1))
        return Judgement(found, cost=found["valid_loss"])

    return evaluate


def _left(init: Path) -> str:
    """Tell what a fine-tuned run keeps to itself."""
    learned = list(read_run(init).tasks)
    return f", without its heads for {some(learned)} and its special tokens" if learned else ""
