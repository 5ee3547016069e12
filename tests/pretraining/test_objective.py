"""How well a model predicts text: against a literal computation, shared out over ranks, and in people's units."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gpt1.pretraining.objective import _turns, scores, text_loss
from gpt1.training.batches import NO_TARGET, Batch
from gpt1.training.distributed import World
from tests.model.tools import PAPER, SHAPES, VOCAB, shaken
from tests.reference import transformer as reference

CPU = torch.device("cpu")
SIZE = 4  # sequences at once


def text(batches: int) -> list[Batch]:
    """Return batches of random tokens, some without a target; the last one has fewer sequences."""
    draw = np.random.default_rng(3)
    made = []
    for number in range(batches):
        rows = SIZE if number < batches - 1 else SIZE - 1
        ids = draw.integers(0, VOCAB, (rows, PAPER.context), dtype=np.int32)
        targets = draw.integers(0, VOCAB, (rows, PAPER.context), dtype=np.int32)
        targets[draw.random(targets.shape) < 0.2] = NO_TARGET
        made.append(Batch({"ids": ids, "targets": targets}, {"lm": float((targets >= 0).sum())}))
    return made


def literal_loss(model: torch.nn.Module, batches: list[Batch]) -> tuple[float, int]:
    """Return the loss and the number of targets, sequence by sequence in double precision."""
    weights = {name: tensor.detach().double() for name, tensor in model.named_parameters()}
    total, count = 0.0, 0
    for batch in batches:
        ids, targets = (torch.from_numpy(batch.arrays[name]).long() for name in ("ids", "targets"))
        hidden, output = reference.forward(weights, ids, model.shape)  # type: ignore[no-untyped-call]
        ones = torch.ones(targets.shape, dtype=torch.float64)
        total += float(reference.loss(hidden, output, targets, ones))  # type: ignore[no-untyped-call]
        count += int((targets >= 0).sum())
    return total, count


@pytest.mark.parametrize("shape", ["paper", "modern"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_loss_of_a_text_is_that_of_a_literal_computation(shape: str, dtype: torch.dtype, tolerance: float) -> None:
    model, batches = shaken(SHAPES[shape], dtype=dtype), text(3)
    total, count = text_loss(model, batches, SIZE, CPU)
    wanted, targets = literal_loss(model, batches)
    assert total == pytest.approx(wanted, rel=tolerance)
    assert count == targets


def test_nothing_is_dropped_and_nothing_kept_for_a_gradient() -> None:
    model, batches = shaken(PAPER), text(2)
    model.train()
    assert text_loss(model, batches, SIZE, CPU) == text_loss(model, batches, SIZE, CPU)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_filling_up_to_one_shape_changes_nothing() -> None:
    model, batches = shaken(PAPER), text(3)
    total, count = text_loss(model, batches, SIZE, CPU)
    more, same_count = text_loss(model, batches, 3 * SIZE, CPU)
    assert more == pytest.approx(total, rel=1e-12)
    assert same_count == count


class Alone(World):
    """A rank whose sums are added up by hand."""

    def add_up(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("batches", [1, 3, 6])
def test_ranks_that_take_turns_add_up_to_the_whole(ranks: int, batches: int) -> None:
    model, made = shaken(PAPER), text(batches)
    parts = [text_loss(model, made, SIZE, CPU, Alone(rank, ranks)) for rank in range(ranks)]
    total, count = text_loss(model, made, SIZE, CPU)
    assert sum(part for part, _ in parts) == pytest.approx(total, rel=1e-12)
    assert sum(targets for _, targets in parts) == count


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("batches", [0, 1, 3, 6])
def test_every_batch_counts_once_and_all_ranks_keep_step(ranks: int, batches: int) -> None:
    made = text(batches)
    turns = [list(_turns(iter(made), World(rank, ranks))) for rank in range(ranks)]
    assert {len(own) for own in turns} == {math.ceil(batches / ranks)}
    counted = [id(batch) for own in turns for batch, counts in own if counts]
    assert sorted(counted) == sorted(map(id, made))


def test_scores_are_nats_a_token_perplexity_and_bits_a_byte() -> None:
    # eight tokens, each one of four that are as likely: two bits each, sixteen in all, over sixteen bytes of text
    assert scores(8 * math.log(4), 8, 16) == {
        "valid_loss": pytest.approx(math.log(4)),
        "perplexity": pytest.approx(4.0),
        "bits_per_byte": pytest.approx(1.0),
        "targets": 8.0,
    }


def test_a_hopeless_loss_has_a_perplexity_too() -> None:
    assert math.isfinite(scores(1e6, 1, 1)["perplexity"])
