"""Heads on a network: which vector they read, how sequences come together, what is dropped, and how they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gpt1.model import Classifier, DropoutKey, HeadShape, WindowPacking, build_classifier, build_model
from gpt1.model.classifier import head_name
from gpt1.model.layers import Linear
from gpt1.model.packing import Packing, pack
from gpt1.recipes.values import Shape
from gpt1.tasks.packed import window_cells
from tests.model.tools import MODERN, PAPER, SMALL_LSTM, VOCAB, noise_for, shaken

ONE = HeadShape(3, 1, scores_sequences=False)
BOTH = HeadShape(3, 2, scores_sequences=False)
CHOICES = HeadShape(1, 4, scores_sequences=True)
SHAPES = {"paper": PAPER, "modern": MODERN, "lstm": SMALL_LSTM}

Sequences = Sequence[Tensor]


def classifier(shape: Shape = PAPER, **heads: HeadShape) -> Classifier:
    """Return a network in double precision with weights away from where they begin, also the heads'."""
    model = build_classifier(shaken(shape), heads or {"t": ONE}, seed=0).double()
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    return model


def texts(count: int, seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, PAPER.context + 1, (count,), generator=draw).tolist()
    return [torch.randint(0, VOCAB, (length,), generator=draw) for length in lengths]


def answer(model: Classifier, sequences: Sequences, task: str = "t", noise: DropoutKey | None = None) -> Tensor:
    packing = pack(torch.tensor([len(ids) for ids in sequences]))
    examples = None if noise is None else torch.arange(len(sequences) // model.tasks[task].sequences)
    logits, *_ = model(torch.cat(list(sequences)), packing, task, noise, examples)
    return logits.detach()


# ---- what is read ----


def test_one_sequence_is_answered_from_its_last_token() -> None:
    model, sequences = classifier(), texts(5)
    head = model.heads["t"]
    for ids, found in zip(sequences, answer(model, sequences), strict=True):
        hidden, _ = model.body(ids.unsqueeze(0))
        torch.testing.assert_close(found, head(hidden[0, -1]).detach(), rtol=1e-12, atol=1e-12)


def test_two_orders_are_added_up_before_the_head() -> None:
    model, sequences = classifier(t=BOTH), texts(6)
    one = classifier(t=replace(BOTH, sequences=1))
    one.load_state_dict(model.state_dict())
    parts, bias = answer(one, sequences), model.heads["t"].bias
    torch.testing.assert_close(answer(model, sequences), parts[0::2] + parts[1::2] - bias.detach())


def test_choices_are_scored_one_by_one() -> None:
    model, sequences = classifier(t=CHOICES), texts(8)
    alone = classifier(t=replace(CHOICES, sequences=1))
    alone.load_state_dict(model.state_dict())
    found = answer(model, sequences)
    assert found.shape == (2, 4)
    torch.testing.assert_close(found.flatten(), answer(alone, sequences).flatten())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_neither_neighbours_nor_their_lengths_change_an_answer(shape: Shape) -> None:
    model, sequences = classifier(shape), texts(6)
    together = answer(model, sequences)
    for index, ids in enumerate(sequences):
        torch.testing.assert_close(answer(model, [ids])[0], together[index], rtol=1e-11, atol=1e-11)
    backwards = answer(model, sequences[::-1]).flip(0)
    torch.testing.assert_close(backwards, together, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_choices_in_another_order_have_the_same_logits_in_that_order(shape: Shape) -> None:
    model, sequences = classifier(shape, t=CHOICES), texts(8)
    order = [2, 0, 3, 1]
    permuted = [sequences[4 * example + choice] for example in range(2) for choice in order]
    torch.testing.assert_close(answer(model, permuted), answer(model, sequences)[:, order], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_pair_the_other_way_round_has_the_same_logits(shape: Shape) -> None:
    model, sequences = classifier(shape, t=BOTH), texts(6)
    swapped = [sequences[2 * example + order] for example in range(3) for order in (1, 0)]
    torch.testing.assert_close(answer(model, swapped), answer(model, sequences), rtol=1e-11, atol=1e-11)


def test_sequences_behind_the_last_example_are_left_out() -> None:
    model, sequences = classifier(t=CHOICES), texts(11)
    packing = pack(torch.tensor([len(ids) for ids in sequences]))
    logits, hidden, _ = model(torch.cat(sequences), packing, "t", None, torch.arange(2))
    torch.testing.assert_close(logits.detach(), answer(model, sequences[:8]), rtol=1e-11, atol=1e-11)
    assert len(hidden) == sum(map(len, sequences))


# ---- what is dropped ----


class Ones(nn.Module):
    """A body that finds all tokens alike, so that only the head's own dropout can tell sequences apart."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, ids: Tensor, noise: DropoutKey | None, packing: Packing) -> tuple[Tensor, Tensor]:
        return torch.ones(len(ids), self.shape.width), torch.ones(VOCAB, self.shape.width)


def dropping(head: HeadShape) -> Classifier:
    return build_classifier(Ones(replace(PAPER, width=64, heads=4)), {"t": head}, seed=0)


def test_all_sequences_of_an_example_share_one_mask_and_examples_have_their_own() -> None:
    found = answer(dropping(CHOICES), texts(12), noise=noise_for(12))
    assert torch.equal(found, found[:, :1].expand(3, 4))
    assert len(found[:, 0].unique()) == 3


def test_a_mask_belongs_to_the_example_wherever_it_is_computed() -> None:
    model, sequences, noise = dropping(CHOICES), texts(12), noise_for(12)
    whole = answer(model, sequences, noise=noise)
    packing = pack(torch.tensor([len(ids) for ids in sequences[4:]]))
    rest, *_ = model(torch.cat(sequences[4:]), packing, "t", noise_for(8, first=4), torch.tensor([1, 2]))
    torch.testing.assert_close(rest.detach(), whole[1:], rtol=1e-6, atol=1e-6)


def test_the_mask_keeps_the_expectation_and_drops_its_share() -> None:
    model = build_classifier(Ones(replace(PAPER, width=4000, heads=4, dropout=0.25)), {"t": ONE}, seed=0)
    with torch.no_grad():
        model.heads["t"].weight.fill_(1 / 4000)
    kept = answer(model, texts(20), noise=noise_for(20))[:, 0]
    assert kept.mean().item() == pytest.approx(1.0, abs=0.01)
    assert 0.001 < kept.std().item() < 0.03  # sqrt(0.25 / 0.75 / 4000) = 0.009


def test_without_dropout_noise_changes_nothing() -> None:
    model = classifier(replace(PAPER, dropout=0.0), t=CHOICES)
    assert torch.equal(answer(model, texts(4), noise=noise_for(4)), answer(model, texts(4)))


# ---- heads and their names ----


def test_new_heads_are_small_and_without_bias_and_depend_on_seed_and_name_alone() -> None:
    body = build_model(replace(PAPER, width=120), VOCAB)
    one = build_classifier(body, {"a": ONE}, seed=3)
    two = build_classifier(body, {"b": BOTH, "a": ONE}, seed=3)
    other = build_classifier(body, {"a": ONE}, seed=4)
    assert torch.equal(one.heads["a"].weight, two.heads["a"].weight)
    assert not torch.equal(one.heads["a"].weight, two.heads["b"].weight)
    assert not torch.equal(one.heads["a"].weight, other.heads["a"].weight)
    assert one.heads["a"].weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not one.heads["a"].bias.any()


def test_a_checkpoint_calls_heads_by_their_task() -> None:
    names = dict(classifier(moods=ONE, **{"story-cloze": CHOICES}).named_parameters())
    assert {"heads.moods.weight", "heads.moods.bias", "heads.story-cloze.weight", "body.tokens"} <= names.keys()


AWKWARD = ("train", "eval", "training", "type", "keys", "items", "values", "pop", "float", "to", "v1.2", "a.b", "größe")


@pytest.mark.parametrize("name", AWKWARD)
def test_a_task_may_be_called_as_modules_call_their_own_parts(name: str) -> None:
    model = classifier(**{name: ONE})
    assert answer(model, texts(2), name).shape == (2, 3)
    assert model.train().training
    (weight,) = [key for key in dict(model.named_parameters()) if key.startswith("heads.") and key.endswith("weight")]
    assert weight.count(".") == 2


def test_no_two_tasks_share_a_head() -> None:
    ordinary = [name for name in dir(nn.ModuleDict()) if name.islower() and not name.startswith("_")]
    assert len({head_name(name) for name in (*ordinary, *AWKWARD, "a-b", "a_b")}) == len(
        {*ordinary, *AWKWARD, "a-b", "a_b"}
    )


# ---- several windows ----

WINDOWS = [1, 3, 2, 1]  # of four examples


def windows_of(counts: Sequence[int]) -> WindowPacking:
    cells, most = window_cells(np.array(counts))
    return WindowPacking(torch.from_numpy(cells), most)


def pooled(model: Classifier, sequences: Sequences, noise: DropoutKey | None = None) -> Tensor:
    packing = pack(torch.tensor([len(ids) for ids in sequences]))
    examples = None if noise is None else torch.arange(len(WINDOWS))
    logits, *_ = model(torch.cat(list(sequences)), packing, "t", noise, examples, windows_of(WINDOWS))
    return cast(Tensor, logits)


def literally(model: Classifier, sequences: Sequences, pooling: str) -> Tensor:
    """Return what the formulas say, window by window and example by example."""
    head, orders = cast(Linear, model.heads["t"]), model.tasks["t"].sequences
    ends = [model.body(ids.unsqueeze(0))[0][0, -1] for ids in sequences]
    vectors = [sum(ends[at + 1 : at + orders], ends[at]) for at in range(0, len(ends), orders)]
    found, first = [], 0
    for count in WINDOWS:
        own = vectors[first : first + count]
        said = torch.stack([head.weight @ x + head.bias for x in own])
        if pooling == "mean":
            found.append(said.sum(0) / count)
        elif pooling == "max":
            found.append(torch.stack([max(row) for row in said.T]))
        else:
            query = model.attentions["t"].query
            powers = [torch.exp(query @ x) for x in own]
            x = sum((power * x for power, x in zip(powers, own, strict=True)), torch.zeros_like(own[0]))
            found.append(head.weight @ (x / torch.stack(powers).sum()) + head.bias)
        first += count
    return torch.stack(found)


@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
@pytest.mark.parametrize("orders", [1, 2])
def test_windows_answer_as_the_formulas_say_and_learn_so(orders: int, pooling: str) -> None:
    model, sequences = classifier(t=replace(ONE, sequences=orders, pooling=pooling)), texts(sum(WINDOWS) * orders)
    with torch.no_grad():
        for parameter in model.attentions.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) / 4
    ours, literal = pooled(model, sequences), literally(model, sequences, pooling)
    torch.testing.assert_close(ours, literal, rtol=1e-10, atol=1e-10)
    wanted = torch.randn(ours.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    parameters = list(model.parameters())
    for one, other in zip(
        torch.autograd.grad((ours * wanted).sum(), parameters, allow_unused=True),
        torch.autograd.grad((literal * wanted).sum(), parameters, allow_unused=True),
        strict=True,
    ):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
def test_one_window_answers_as_a_text_that_fits(pooling: str) -> None:
    model, sequences = classifier(t=replace(ONE, pooling=pooling)), texts(sum(WINDOWS))
    alone = answer(model, [sequences[0], sequences[-1]])
    torch.testing.assert_close(pooled(model, sequences)[[0, 3]].detach(), alone, rtol=1e-11, atol=1e-11)


def test_at_first_attention_is_the_mean() -> None:
    sequences = texts(sum(WINDOWS))
    mean, attention = (classifier(t=replace(ONE, pooling=pooling)) for pooling in ("mean", "attention"))
    attention.load_state_dict({**attention.state_dict(), **mean.state_dict()})
    torch.testing.assert_close(pooled(attention, sequences), pooled(mean, sequences), rtol=1e-11, atol=1e-11)


def test_the_windows_of_an_example_lose_the_same_before_the_head() -> None:
    body = Ones(replace(PAPER, width=4000, heads=4, dropout=0.25))
    model = build_classifier(body, {"t": replace(ONE, pooling="mean")}, seed=0).double()
    sequences = [torch.zeros(3, dtype=torch.long)] * sum(WINDOWS)
    one = build_classifier(body, {"t": ONE}, seed=0).double()
    apart = answer(one, sequences[: len(WINDOWS)], noise=noise_for(len(WINDOWS)))
    together = pooled(model, sequences, noise_for(sum(WINDOWS)))
    torch.testing.assert_close(together.detach(), apart, rtol=1e-11, atol=1e-11)  # each example's own mask, once
