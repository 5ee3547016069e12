"""Text from a model, one token after another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from gpt1.inference.generation import continue_ids
from gpt1.model import Model
from tests.model.tools import MODERN, PAPER, SMALL_LSTM, VOCAB, shaken

COUNTED = 10


class Counter(nn.Module):
    """Thinks that the next number follows, a little that any other does; remembers what it was shown.

    Its output matrix has more rows than the vocabulary, and those would win.
    """

    def __init__(self, context: int, certainty: float = 50.0) -> None:
        super().__init__()
        self.shape, self.vocab_size = SimpleNamespace(context=context), COUNTED
        self.certainty = nn.Parameter(torch.tensor(certainty))
        self.shown: list[list[int]] = []

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        self.shown.append(ids[0].tolist())
        hidden = nn.functional.one_hot((ids + 1) % COUNTED, COUNTED) * self.certainty
        return hidden, torch.cat([torch.eye(COUNTED), torch.full((3, COUNTED), 9.0)])


def counted(model: Counter, prompt: list[int], new: int, **given: Any) -> list[int]:
    return continue_ids(cast(Model, model), prompt, new, **{"seed": 0, **given})


def test_what_comes_next_is_what_the_model_thinks() -> None:
    assert counted(Counter(context=30), [7], 5) == [8, 9, 0, 1, 2]


def test_rows_beyond_the_vocabulary_are_never_drawn() -> None:
    written = counted(Counter(context=1000, certainty=0.1), [0], 200)
    assert set(written) == set(range(COUNTED))


def test_when_the_context_is_full_its_last_half_is_read_anew() -> None:
    model = Counter(context=8)
    assert counted(model, [0, 1, 2, 3, 4], 8) == [5, 6, 7, 8, 9, 0, 1, 2]
    assert model.shown == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5, 6],
        [4, 5, 6, 7],
        [4, 5, 6, 7, 8],
        [4, 5, 6, 7, 8, 9],
        [4, 5, 6, 7, 8, 9, 0],
        [8, 9, 0, 1],
    ]


@pytest.mark.parametrize("context", [2, 3, 7, 8])
def test_the_model_is_never_shown_more_than_its_context_nor_nothing(context: int) -> None:
    model = Counter(context)
    prompt = [number % COUNTED for number in range(23)]
    assert counted(model, prompt, 20) == [number % COUNTED for number in range(23, 43)]
    assert {1 <= len(ids) <= context for ids in model.shown} == {True}


def test_a_prompt_stays_as_it_was() -> None:
    prompt = [1, 2, 3]
    counted(Counter(context=4), prompt, 5)
    assert prompt == [1, 2, 3]


def test_nothing_is_asked_for_and_nothing_written() -> None:
    model = Counter(context=8)
    assert counted(model, [1], 0) == []
    assert model.shown == []


@pytest.mark.parametrize("shape", [PAPER, MODERN, SMALL_LSTM], ids=["paper", "modern", "lstm"])
def test_a_seed_decides_the_text_and_ids_are_those_of_the_vocabulary(shape: Any) -> None:
    model = shaken(shape, dtype=torch.float32)
    one, same, other = (continue_ids(model, [3, 1], 40, seed=seed) for seed in (5, 5, 6))
    assert one == same != other
    assert len(one) == 40
    assert all(0 <= number < VOCAB for number in one)


def test_drawing_leaves_the_random_state_of_others_alone() -> None:
    before = torch.get_rng_state()
    continue_ids(shaken(PAPER, dtype=torch.float32), [3], 3, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_likeliest_of_one_is_the_greedy_text() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    ids = [3]
    for _ in range(PAPER.context - 2):
        with torch.no_grad():
            hidden, output = model(torch.tensor([ids]))
        ids.append(int((hidden[0, -1] @ output.T).argmax()))
    assert continue_ids(model, [3], PAPER.context - 2, seed=9, top_k=1) == ids[1:]
    assert continue_ids(model, [3], PAPER.context - 2, seed=9, temperature=1e-4) == ids[1:]


def test_only_the_likeliest_are_drawn() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    with torch.no_grad():
        hidden, output = model(torch.tensor([[3, 1]]))
    best = (hidden[0, -1] @ output.T).topk(3).indices.tolist()
    drawn = {continue_ids(model, [3, 1], 1, seed=seed, top_k=3, temperature=9.0)[0] for seed in range(60)}
    assert drawn == set(best)


def test_more_likeliest_than_there_are_tokens_are_all_of_them() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    assert continue_ids(model, [3], 30, seed=2, top_k=10**6) == continue_ids(model, [3], 30, seed=2)
