"""Distillation of language models: a small network learns a corpus, and beside it what larger ones expect there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from gpt1.base.devices import find_device
from gpt1.base.errors import SettingError
from gpt1.inference.run import Run, load_run
from gpt1.inference.teaching import TEMPERATURE, WEIGHT, Teaching, taught_in_words
from gpt1.model import DropoutKey, Model, linear_cross_entropy, linear_divergence, require_causal
from gpt1.pretraining.pretrain import PretrainRequest, PretrainSession
from gpt1.recipes.values import Recipe
from gpt1.records.run import RecordedTeaching
from gpt1.runs.events import Listener
from gpt1.runs.folder import run_folder
from gpt1.training.batches import Batch, Batches
from gpt1.training.config import TrainerConfig
from gpt1.training.distributed import join_world
from gpt1.training.session import Conditions, Notify, speed_up

LM, TEACHER = "lm", "teacher"  # terms of the loss


def distill_text(
    teachers: Sequence[str | Path],
    corpus: str | Path,
    out: str | Path,
    *,
    recipe: Recipe | str | None = None,
    init: str | Path | None = None,
    weight: float = WEIGHT,
    temperature: float = TEMPERATURE,
    resume: bool = False,
    changes: Sequence[str] = (),
    device: str | None = None,
    minutes: float | None = None,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Pre-train a network on a prepared corpus and on what `teachers` expect there, and return its run.

    Teachers are runs of the corpus's vocabulary, of any size; `weight` is their share of the loss, `temperature` makes
    what they expect softer. All else is as in `pretrain`.
    """
    teaching = Teaching(tuple(teachers), weight, temperature)
    asked = PretrainRequest(recipe, Path(corpus), None if init is None else run_folder(init), changes)
    with join_world(find_device(device)) as (world, own_device):
        conditions = Conditions(Path(out), world, own_device, resume, minutes, curves, tuple(listeners))
        TextDistillation(asked, teaching, conditions).train()
    return load_run(out, device=device)


class TextDistillation(PretrainSession):
    """The pre-training of a network that has teachers."""

    def __init__(self, asked: PretrainRequest, teaching: Teaching, conditions: Conditions) -> None:
        super().__init__(asked, conditions)
        self._teaching, self._runs = teaching, teaching.opened(conditions.device)
        for run in self._runs:
            run.require_language_model()
            _require_vocabulary(run, self.train_text.fingerprint, asked.corpus)
        self._recorded = teaching.recorded(self._runs)

    @property
    def taught(self) -> RecordedTeaching:
        """By whom, and how."""
        return self._recorded

    def make_model(self, recipe: Recipe, init: Path | None) -> Model:
        """Return the network, once it is known that its teachers read as much at once."""
        if recipe.training.masked_share:
            raise SettingError(
                "teachers tell what they expect of a next token: beside them no batch is masked; leave "
                "`training.masked_share` out"
            )
        for run in self._runs:
            _require_context(run, recipe.shape.context)
        return super().make_model(recipe, init)

    def configure(self, model: Model, recipe: Recipe, notify: Notify) -> TrainerConfig:
        """Return what the loop needs."""
        config = super().configure(model, recipe, notify)
        notify(f"learning from {taught_in_words(self.taught)}")
        teachers = [run.network for run in self._runs]
        for teacher in teachers:
            speed_up(teacher, recipe, self.device, self.world)
        objective = TaughtModelling(model, teachers, self._teaching)
        return replace(config, objective=objective, batches=_CountedTwice(config.batches))


def _require_vocabulary(run: Run, fingerprint: str, corpus: Path) -> None:
    if run.tokenizer.fingerprint != fingerprint:
        raise SettingError(
            f"{run.path} has another vocabulary than {corpus}, so that what it expects of a next token cannot be "
            f"learned there; prepare the text with its own, `gpt1.prepare(tokenizer={str(run.path)!r})`"
        )


def _require_context(run: Run, context: int) -> None:
    if run.recipe.shape.context < context:
        raise SettingError(
            f"{run.path} reads {run.recipe.shape.context} tokens at once, and the student {context}; say "
            f"`changes=['shape.context={run.recipe.shape.context}']`"
        )


class TaughtModelling(nn.Module):
    """Sums of a micro-batch: the losses of its next tokens, and how far from the teachers' each expectation is."""

    def __init__(self, model: Model, teachers: Sequence[Model], teaching: Teaching) -> None:
        super().__init__()
        self.model = model
        self.weights = {LM: 1 - teaching.weight, TEACHER: teaching.weight}
        self._teachers, self._temperature = tuple(teachers), teaching.temperature  # no modules of this one: not learned

    def forward(self, tensors: dict[str, Tensor], noise: DropoutKey | None) -> dict[str, Tensor]:
        """Return the terms `lm` and `teacher`."""
        ids, targets = tensors["ids"].long(), tensors["targets"].flatten().long()
        hidden, output = self.model(ids, noise)
        hidden, vocab_size = hidden.flatten(0, 1), self.model.vocab_size
        ones = torch.ones_like(targets, dtype=torch.float32)
        expected = expectations(self._teachers, ids, temperature=self._temperature, vocab_size=vocab_size)
        return {
            LM: linear_cross_entropy(hidden, output, targets, ones, vocab_size),
            TEACHER: linear_divergence(
                hidden, output, expected, targets >= 0, temperature=self._temperature, vocab_size=vocab_size
            ),
        }


@torch.no_grad()
def expectations(
    teachers: Sequence[Model], ids: Tensor, *, temperature: float, vocab_size: int
) -> Callable[[slice], Tensor]:
    """Return what gives the probabilities that teachers expect of each next token, for some positions at a time.

    A teacher that was fine-tuned has special tokens behind the vocabulary, which no text holds.
    """
    for teacher in teachers:
        require_causal(teacher)
    read = [(teacher, *teacher(ids)) for teacher in teachers]

    @torch.no_grad()
    def expected(rows: slice) -> Tensor:
        shares = []
        for teacher, hidden, output in read:
            logits = teacher.logits(hidden.flatten(0, 1)[rows], output)[:, :vocab_size]
            wide = torch.promote_types(logits.dtype, torch.float32)
            shares.append((logits.to(wide) / temperature).softmax(-1))
        return torch.stack(shares).mean(0)

    return expected


class _CountedTwice:
    """Batches whose tokens count for both terms."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def batch(self, k: int) -> Batch:
        """Return batch `k`."""
        batch = self._batches.batch(k)
        assert isinstance(batch, Batch), "text comes in rows of equal length"
        return replace(batch, counts=dict.fromkeys((LM, TEACHER), batch.counts[LM]))
