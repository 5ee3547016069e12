"""How likely a network finds a text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError
from gpt1.inference import portions
from gpt1.inference.scoring import mean_log_probabilities, score_texts
from gpt1.model import Model, build_model
from gpt1.recipes.values import Shape
from gpt1.text.tokenizer import Tokenizer

VOCABULARY = 30


@pytest.fixture(scope="module", params=[{}, {"window": 3, "global_tokens": 1}], ids=["full", "global tokens"])
def model(request: pytest.FixtureRequest) -> Model:
    shape = Shape(layers=2, width=16, heads=2, feed_forward=32, context=12, init_std=0.5, **request.param)
    return build_model(shape, VOCABULARY, compute=torch.float64).double()


def by_hand(model: Model, ids: list[int], first: int) -> float:
    """Score one sequence alone, from its logits."""
    hidden, output = model(torch.tensor([ids]))
    chances = (hidden[0] @ output.T).log_softmax(-1)
    return float(np.mean([chances[place - 1, ids[place]].item() for place in range(first, len(ids))]))


def test_the_mean_is_that_of_each_sequence_alone(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    lengths = [2, 12, 5, 7, 3, 12, 9]
    sequences = [(draw.integers(0, VOCABULARY, length).tolist(), 1 + int(length) // 3) for length in lengths]
    wanted = [by_hand(model, ids, min(first, len(ids) - 1)) for ids, first in sequences]
    given = [(ids, min(first, len(ids) - 1)) for ids, first in sequences]
    np.testing.assert_allclose(mean_log_probabilities(model, given), wanted, rtol=1e-12)
    monkeypatch.setattr(portions, "CPU_TOKENS", 10)  # in portions, some of a single sequence
    np.testing.assert_allclose(mean_log_probabilities(model, given), wanted, rtol=1e-12)


def test_what_stands_before_counts_and_what_is_scored_alone_is_counted(model: Model) -> None:
    end = [3, 4, 5]
    one, other = mean_log_probabilities(model, [([1, 2, *end], 2), ([7, 2, *end], 2)])
    assert one != other
    (alone,) = mean_log_probabilities(model, [([1, 2, *end], 4)])
    assert alone == pytest.approx(by_hand(model, [1, 2, *end], 4))


@pytest.mark.parametrize("scored", [([1, 2], 0), ([1, 2], 2), ([1], 1)])
def test_the_first_token_and_an_empty_end_cannot_be_scored(model: Model, scored: tuple[list[int], int]) -> None:
    with pytest.raises(InputError, match="cannot be scored"):
        mean_log_probabilities(model, [scored])


def test_nothing_has_no_scores(model: Model) -> None:
    assert mean_log_probabilities(model, []).shape == (0,)


# ---- texts ----


@pytest.fixture(scope="module")
def reader(words_tokenizer: Tokenizer) -> Model:
    shape = Shape(layers=2, width=16, heads=2, feed_forward=32, context=8, init_std=0.5)
    return build_model(shape, words_tokenizer.vocab_size, compute=torch.float64).double()


def test_each_token_of_a_text_has_a_log_probability_but_the_first(reader: Model, words_tokenizer: Tokenizer) -> None:
    texts = ["Ann lost", "", "Ann", "Tom sold 3 apples"]
    scored = score_texts(reader, words_tokenizer, texts)
    assert [one.ids for one in scored] == words_tokenizer.encode_batch(texts)
    for one in scored:
        assert [value is None for value in one.log_probabilities] == [place == 0 for place in range(len(one.ids))]
    found = scored[3]
    assert len(found.ids) <= 8
    assert found.mean == pytest.approx(by_hand(reader, found.ids, 1))
    assert [scored[1].mean, scored[2].mean] == [None, None]


def test_a_text_longer_than_the_context_has_half_a_context_before_each_token(
    reader: Model, words_tokenizer: Tokenizer
) -> None:
    (scored,) = score_texts(reader, words_tokenizer, ["the old sailor sold her brother's hat and a silver key. " * 3])
    ids = scored.ids
    assert len(ids) > 30
    for place in range(1, len(ids)):
        # Windows of 8 tokens; from the second on, four of them are new.
        start = 0 if place < 8 else (place // 4 - 1) * 4
        wanted = by_hand(reader, ids[start : place + 1], place - start)
        assert scored.log_probabilities[place] == pytest.approx(wanted), place


@pytest.mark.parametrize("before", ["Ann", "Ann lost a key.", "the old sailor sold her brother's hat and a silver key"])
def test_a_text_is_scored_after_another_which_is_not(reader: Model, words_tokenizer: Tokenizer, before: str) -> None:
    text = " Tom sold 3 apples to the cat."
    (scored,) = score_texts(reader, words_tokenizer, [text], after=before)
    told = words_tokenizer.encode(before)
    assert scored.ids == words_tokenizer.encode(text)
    whole, context = [*told, *scored.ids], reader.shape.context
    start = 0 if len(told) < context else len(told) - context // 2
    wanted = by_hand(reader, whole[start : len(told) + 1], len(told) - start)
    assert scored.log_probabilities[0] == pytest.approx(wanted)
    assert None not in scored.log_probabilities
    assert scored.mean == pytest.approx(np.mean(scored.log_probabilities))
