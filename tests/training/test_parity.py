"""The whole loop in double precision against the paper read literally: network, loss, clipping, schedule, optimiser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gpt1.model import dropout_key
from gpt1.model.dropout import DropoutKey, Place, Site, keep_mask, layer_site, table_mask
from gpt1.recipes.values import Optimizer, Schedule, Shape
from gpt1.runs.events import Event, Stepped
from tests.reference import adam, transformer
from tests.training.tools import CONTEXT, TOY, VOCABULARY, Recorder, ToyBatches, toy_trainer, weights_of, with_training

SEQUENCES, UPDATES, WARMUP = 6, 10, 0.3
RECIPE = with_training(
    replace(
        TOY,
        shape=Shape(layers=2, width=8, heads=2, feed_forward=16, context=CONTEXT, dropout=0.1, init_std=0.15),
        optimizer=Optimizer(lr=3e-3),  # as in the released code, but faster: the toy is small
        schedule=Schedule(kind="cosine", warmup_steps=None, warmup_share=WARMUP),
    ),
    batch=SEQUENCES,
    steps=UPDATES,
    precision="fp64",
    seed=11,
    max_loss_spike=None,
)
ROWS = 5  # as in the last batch of an epoch, which is smaller than the others

Tensors = dict[str, Tensor]


def masks_of(shape: Shape, noise: DropoutKey) -> dict[object, Tensor]:
    """Write down what a network with this noise keeps, for the reference."""
    rate, width = shape.dropout, shape.width
    masks: dict[object, Tensor] = {
        "tokens": table_mask(VOCABULARY, width, rate, noise, Site.TOKENS),
        "positions": table_mask(shape.context, width, rate, noise, Site.POSITIONS),
    }
    for layer in range(shape.layers):
        for name, place, size in (
            ("attention", Place.INSIDE, (shape.heads, CONTEXT, CONTEXT)),
            ("branch_1", Place.BRANCH_1, (CONTEXT, width)),
            ("branch_2", Place.BRANCH_2, (CONTEXT, width)),
        ):
            masks[name, layer] = keep_mask(size, rate, noise, layer_site(layer, place))
    return masks


class Reference:
    """The same training, whole batches at once, with nothing of the package but its masks."""

    def __init__(self, weights: Tensors) -> None:
        self.p = {name: x.detach().clone() for name, x in weights.items()}
        self.m = {name: torch.zeros_like(x) for name, x in self.p.items()}
        self.v = {name: torch.zeros_like(x) for name, x in self.p.items()}
        self.losses: list[float] = []
        self.norms: list[float] = []

    def update(self, k: int, ids_BT: Tensor, targets_BT: Tensor) -> None:
        """Make the update of batch `k`, counted from 0."""
        shape = RECIPE.shape
        masks = masks_of(shape, dropout_key(RECIPE.training.seed, k, torch.arange(len(ids_BT))))
        leaves = {name: x.clone().requires_grad_() for name, x in self.p.items()}
        hidden, output = transformer.forward(leaves, ids_BT, shape, masks, shape.dropout)
        total = transformer.loss(hidden, output, targets_BT, torch.ones(targets_BT.shape, dtype=torch.float64))
        loss = total / int((targets_BT >= 0).sum())
        gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        self.losses.append(float(loss.detach()))
        self.norms.append(adam.norm_of(gradients))
        factor = adam.cosine(k / UPDATES, WARMUP)
        adam.update(self.p, gradients, self.m, self.v, lr=RECIPE.optimizer.lr, t=k + 1, s=factor)

    def state(self) -> Tensors:
        """Return weights and moments under the names a trainer gives them."""
        moments = {"m": self.m, "v": self.v}
        return self.p | {f"{slot}.{name}": x for slot, named in moments.items() for name, x in named.items()}


def relative_errors(found: Tensors, wanted: Tensors) -> dict[str, float]:
    assert found.keys() == wanted.keys()
    floor = 1e-6 * float(torch.stack([x.norm() for x in wanted.values()]).norm())
    return {name: float((found[name] - x).norm()) / max(float(x.norm()), floor) for name, x in wanted.items()}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, Tensors], Reference]:
    """The literal training: its state after some updates, and its losses."""
    trainer = toy_trainer(tmp_path_factory.mktemp("fresh"), RECIPE)
    reference, states = Reference(dict(trainer.model.named_parameters())), {}
    batches = ToyBatches(ROWS)
    for k in range(UPDATES):
        arrays = batches.batch(k).arrays
        reference.update(k, *(torch.from_numpy(arrays[name].copy()).long() for name in ("ids", "targets")))
        states[k + 1] = reference.state()
    return states, reference


@pytest.mark.parametrize("micro", [None, 1, 4])
def test_the_loop_is_the_paper(tmp_path: Path, wanted: tuple[dict[int, Tensors], Reference], micro: int | None) -> None:
    states, reference = wanted
    assert min(reference.norms) < 1 < max(reference.norms), "some updates must be clipped and some not"
    record, found = Recorder(), {}

    def photograph(event: Event) -> None:
        if isinstance(event, Stepped):
            found[event.step] = weights_of(trainer)

    trainer = toy_trainer(
        tmp_path / "run", with_training(RECIPE, micro_batch=micro), ToyBatches(ROWS), listeners=[record, photograph]
    )
    assert trainer.train()
    assert list(record.losses.values()) == pytest.approx(reference.losses, rel=1e-12)
    norms = [event.gradient_norm for event in record.events if isinstance(event, Stepped)]
    assert norms == pytest.approx(reference.norms, rel=1e-10)
    for step in (1, UPDATES):
        errors = relative_errors(found[step], states[step])
        assert max(errors.values()) < 1e-10, (step, errors)


def test_the_first_update_of_a_warm_up_moves_nothing_but_the_moments(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path / "run", with_training(RECIPE, steps=1))
    before = weights_of(trainer)
    assert trainer.train()
    after = weights_of(trainer)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.startswith(("m.", "v."))}
