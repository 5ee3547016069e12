"""What a network can do without is what it loses least by, measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
import torch
from torch import Tensor

from gpt1.model import Model, linear_cross_entropy
from gpt1.pruning.choosing import Removal, remove_layers, strongest_units, unit_counts
from gpt1.recipes.values import Shape
from tests.model.tools import VOCAB, shaken

SHAPE = Shape(layers=4, width=12, heads=2, feed_forward=10, context=8, dropout=0.0, norm_first=True)


class SomeText:
    """Random tokens as data to look at, in two portions."""

    what = "some text"

    def __init__(self) -> None:
        self.ids = torch.randint(0, VOCAB, (2, 3, 9), generator=torch.Generator().manual_seed(3))
        self.looked = 0

    def loss(self, body: Model) -> float:
        """Return the mean loss of a next token."""
        self.looked += 1
        with torch.no_grad():
            return sum(one.item() for one in self.losses(body)) / 48

    def losses(self, body: Model) -> Iterator[Tensor]:
        """Yield the losses of both portions."""
        for ids in self.ids:
            hidden, output = body(ids[:, :-1])
            targets, ones = ids[:, 1:].flatten(), torch.ones(24, dtype=torch.float64)
            yield linear_cross_entropy(hidden.flatten(0, 1), output, targets, ones, VOCAB)


def test_each_time_the_layer_goes_that_is_missed_least() -> None:
    body, text, told = shaken(SHAPE), SomeText(), []
    removed = remove_layers(body, text, 2, told.append)
    assert told == removed
    assert text.looked == 4 + 3
    losses = {layer: text.loss(body.with_layers([one for one in range(4) if one != layer])) for layer in range(4)}
    assert removed[0] == Removal(min(losses, key=losses.__getitem__), min(losses.values()))
    left = [layer for layer in range(4) if layer != removed[0].layer]
    pairs = {pair: text.loss(body.with_layers(pair)) for pair in combinations(left, 2)}
    kept = min(pairs, key=pairs.__getitem__)
    assert {one.layer for one in removed} == set(range(4)) - set(kept)
    assert removed[1].loss == pytest.approx(pairs[kept])
    assert remove_layers(body, text, 4, told.append) == []


def test_a_unit_counts_by_how_much_the_loss_would_change_if_it_grew() -> None:
    """|activation x gradient| of a position is what a factor of that unit there moves the loss by."""
    body, text = shaken(SHAPE), SomeText()
    (count, *_), step = unit_counts(body, text), 1e-6
    moved = 0.0
    for portion in range(2):
        for sequence in range(3):
            for position in range(8):

                def grown(_module: object, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                    found = given[0].clone()
                    found[sequence, position, 4] *= 1 + step  # noqa: B023 - called within the turn
                    return (found,)

                with torch.no_grad():
                    before = list(text.losses(body))[portion]
                    hook = body.blocks[0].feed_forward.down.register_forward_pre_hook(grown)  # type: ignore[union-attr]
                    after = list(text.losses(body))[portion]
                    hook.remove()
                moved += abs((after - before).item()) / step
    assert count[4].item() == pytest.approx(moved, rel=1e-3)


def test_silent_units_go_first() -> None:
    body = shaken(SHAPE)
    with torch.no_grad():
        for layer, block in enumerate(body.blocks):
            block.feed_forward.down.weight[:, [layer, 7]] = 0  # type: ignore[union-attr, index]
    kept = strongest_units(body, SomeText(), 8)
    assert kept == [[unit for unit in range(10) if unit not in (layer, 7)] for layer in range(4)]
    assert all(len(block._forward_pre_hooks) == 0 for block in body.modules())
