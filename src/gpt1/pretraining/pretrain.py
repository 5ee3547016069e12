"""`gpt1 pretrain`: a corpus and a recipe in, a run out; stopped at any moment, it goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gpt1.base.devices import device_name, find_device
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import require_own_folder
from gpt1.base.wording import many, some
from gpt1.bases.catalog import lasting_name, named_again
from gpt1.inference.run import BEST, DTYPES, MASK, Run, body_of, find_checkpoint, load_run, load_weights
from gpt1.inference.teaching import require_same_teaching, teachers_hashes
from gpt1.model import Model, build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.masking import mask_validation, mixed, require_whole_windows
from gpt1.pretraining.mixing import Mix, MixedIn, MixedWindows, mix_in_words, mix_of, require_same_mix
from gpt1.pretraining.objective import LanguageModelling, MixedModelling, scores, text_loss
from gpt1.pretraining.samples import sampler
from gpt1.pretraining.stream import TokenStream, validation_text
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.recipes.catalog import FOR_TEXT, not_of_weights
from gpt1.recipes.changes import change, differences
from gpt1.recipes.derived import require_for_text, require_settled
from gpt1.recipes.values import Recipe
from gpt1.records.run import PRETRAINING, RecordedCorpus, RecordedMix, RecordedTeaching, RunRecord
from gpt1.runs.checkpoints import Checkpoint, list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.folder import is_left_over, is_run, read_run, run_folder, run_tokenizer
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import load_tokenizer
from gpt1.training.batches import share
from gpt1.training.config import Judgement, TrainerConfig
from gpt1.training.distributed import join_world
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
    mix: Mix | None = None


def pretrain(
    recipe: Recipe | str | None,
    corpus: str | Path,
    out: str | Path,
    *,
    init: str | Path | None = None,
    mix: Mapping[str, float] | Mapping[Path, float] | None = None,
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
    such as `training.batch=32`; `init` is a run whose weights to begin with; `mix={"old-corpus": 0.25}` makes a quarter
    of what is read old text, so that less of it is forgotten; `resume` goes on with the run in `out`;
    after `minutes` it stops, saved; `curves` writes for TensorBoard. A signal to stop ends in `Interrupted`, saved too.
    Of several processes one that the others wait for `rank_timeout` minutes is taken for lost, which ends them all.
    """
    asked = PretrainRequest(recipe, Path(corpus), None if init is None else run_folder(init), changes, mix_of(mix))
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
            validation_text(asked.corpus),
        )
        _check_tokenizer(asked.corpus, self.train_text)
        self.mixed = None if asked.mix is None else MixedIn(asked.mix, asked.corpus, self.train_text.fingerprint)
        told = self.train_text.notices if self.mixed is None else [*self.train_text.notices, *self.mixed.stream.notices]
        super().__init__(conditions, told)

    @property
    def tokenizer(self) -> Path:
        """That of the corpus."""
        return self.asked.corpus / TOKENIZER_FILE

    def data(self) -> dict[str, str]:
        """Return hashes of the texts, of the tokenizer and of who teaches."""
        valid = "none" if self.valid_text is None else self.valid_text.identity
        train = self.train_text
        found = {"the text": train.identity, "the text for validation": valid, "the tokenizer": train.fingerprint}
        if (mix := self._recorded_mix) is not None:
            found["the text mixed in, and its share"] = f"{mix.identity} {mix.share}"
        return found | teachers_hashes(self.taught)

    @property
    def _recorded_mix(self) -> RecordedMix | None:
        return None if self.mixed is None else self.mixed.recorded

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
            self._require_can_mask(recipe)
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
        require_same_mix(out, begun.mixed, self._recorded_mix)
        shape = begun.recipe.shape  # as when it was begun: with a parent, the shape is the parent's
        keep = (lambda new: replace(new, shape=shape)) if asked.init else (lambda new: new)
        return resumed(out, begun.recipe, asked.recipe, asked.changes, keep, self._updates)

    def _require_can_mask(self, recipe: Recipe) -> None:
        if recipe.training.masked_share:
            require_whole_windows(self.train_text, recipe.shape.context)

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
            mixed=self._recorded_mix,
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
            has_mask=training.masked_share > 0,
        )
        if init is not None:
            if run_tokenizer(init).fingerprint != train.fingerprint:
                raise InputError(
                    f"the corpus was made with another tokenizer than {init}; whose words the weights know; make "
                    f"it with `gpt1.prepare(tokenizer={str(init)!r})`"
                )
            load_weights(model, self._first_of(init, model))
        return model.double() if training.precision == "fp64" else model

    def _first_of(self, init: Path, model: Model) -> Checkpoint:
        """Return the weights of another run; what stands for a masked token is new where that one has none."""
        found = body_of(find_checkpoint(init, BEST, keeps_mask=model.mask is not None), self.train_text.vocab_size)
        if model.mask is None or MASK in found.model:
            return found
        return replace(found, model={**found.model, MASK: model.mask.detach()})

    def configure(self, model: Model, recipe: Recipe, notify: Notify) -> TrainerConfig:
        """Return what the loop needs."""
        train, valid, training = self.train_text, self.valid_text, recipe.training
        notify(speed_up(model, recipe, self.device, self.world))
        updates, init = self._updates(recipe), self.asked.init
        notify(_in_short(recipe, model, updates, self.device))
        notify(None if init is None else f"the network and its first weights are those of {init}{_left(init)}")
        notify(None if self.mixed is None else f"mixed in: {mix_in_words(self.mixed.recorded)}")
        notify(_on_warmup(recipe, updates))
        notify(None if valid else "the corpus has no text for validation: nothing is evaluated or sampled")
        is_mixed = training.masked_share > 0
        if is_mixed:
            notify(
                f"{100 * training.masked_share:g} % of the batches are read both ways, {100 * training.mask_rate:g} % "
                "of their tokens masked; attention there is the library's, since our own kernels look back alone"
            )
        return TrainerConfig(
            objective=MixedModelling(model) if is_mixed else LanguageModelling(model),
            batches=mixed(self._windows(recipe), recipe),
            updates=updates,
            recipe=recipe,
            tokens_per_step=training.batch * recipe.shape.context,
            flops_per_token=flops_per_token(recipe.shape, train.vocab_size),
            evaluate=None if valid is None else self._evaluator(model, valid, recipe),
            sample=None if valid is None else sampler(model, valid, self.out, recipe, self.world),
            has_parent=init is not None,
        )

    def _evaluator(self, model: Model, valid: TokenStream, recipe: Recipe) -> Callable[[], Judgement]:
        """Return a function that measures the model on text for validation, and on that of old text beside it."""
        size = recipe.training.micro_batch or share(recipe.training.batch, self.world.size)
        context, limit = recipe.shape.context, recipe.logging.evaluate_tokens

        def measured(text: TokenStream) -> dict[str, float]:
            batches = validation_windows(text, context=context, batch=size, limit=limit)
            total, targets = text_loss(model, batches, size, self.device, self.world)
            return scores(total, targets, text.bytes * targets / (len(text) - 1))

        def evaluate() -> Judgement:
            found = measured(valid)
            if recipe.training.masked_share:
                windows = validation_windows(valid, context=context, batch=size, limit=limit)
                masked = mask_validation(windows, recipe.training.mask_rate)
                total, targets = text_loss(model, masked, size, self.device, self.world)
                found |= {"masked_loss": total / targets} if targets else {}
            if self.mixed is not None and self.mixed.valid is not None:
                old = measured(self.mixed.valid)
                found |= {f"old_{name}": old[name] for name in ("valid_loss", "perplexity", "bits_per_byte")}
            return Judgement(found, cost=found["valid_loss"])

        return evaluate

    def _updates(self, recipe: Recipe) -> int:
        return recipe.training.steps or self._windows(recipe).batches_in(recipe.training.epochs)

    def _windows(self, recipe: Recipe) -> Windows | MixedWindows:
        training = recipe.training
        how = {"context": recipe.shape.context, "batch": training.batch, "seed": training.seed}
        return Windows(self.train_text, **how) if self.mixed is None else self.mixed.batches(self.train_text, **how)


def _check_tokenizer(corpus: Path, train: TokenStream) -> None:
    """Refuse a corpus whose tokenizer is another's: the run would take it over."""
    path = corpus / TOKENIZER_FILE
    own = load_tokenizer(path)
    if (own.fingerprint, own.vocab_size) != (train.fingerprint, train.vocab_size):
        raise FormatError(f"{path} is not the tokenizer with which {corpus} was prepared; bring it back")


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


def _left(init: Path) -> str:
    """Tell what a fine-tuned run keeps to itself."""
    learned = list(read_run(init).tasks)
    return f", without its heads for {some(learned)} and its special tokens" if learned else ""
