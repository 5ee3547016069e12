"""Advice is sane for little and for much text, and can be pasted."""

from __future__ import annotations

import pytest

from gpt1.inspection.advice import (
    effective_tokens,
    judge,
    suggest,
    suitable_epochs,
    suitable_merges,
    suitable_parameters,
)
from gpt1.model.costs import count_parameters
from gpt1.recipes.catalog import MODERN, PAPER, PAPER_LSTM, RECIPES, TINY
from gpt1.recipes.changes import change
from gpt1.recipes.values import Recipe

MB, GB = 250_000, 250_000_000  # of English, in tokens
TEXTS = [10_000, MB, 5 * MB, 25 * MB, 100 * MB, GB, 4 * GB, 100 * GB]


def keys(recipe: Recipe, tokens: int, vocab_size: int, epochs: float, updates: int = 10_000) -> list[str]:
    findings = judge(
        recipe, tokens=tokens, text_bytes=4 * tokens, vocab_size=vocab_size, epochs=epochs, updates=updates
    )
    return [finding.key for finding in findings]


def test_a_reading_is_worth_less_than_the_one_before() -> None:
    assert effective_tokens(100, 0.5) == 50
    assert effective_tokens(100, 1) == 100
    assert 360 < effective_tokens(100, 4) < 400  # nearly as good as fresh
    assert 1600 < effective_tokens(100, 100) < 1650  # far from it


def test_more_text_wants_more_network_more_merges_and_fewer_readings() -> None:
    parameters = [suitable_parameters(tokens) for tokens in TEXTS]
    assert parameters == sorted(set(parameters))
    merges = [suitable_merges(4 * tokens) for tokens in TEXTS]
    assert merges == sorted(merges)
    epochs = [suitable_epochs(tokens) for tokens in TEXTS]
    assert epochs == sorted(epochs, reverse=True)
    assert (epochs[0], epochs[-1]) == (32, 4)


@pytest.mark.parametrize(
    ("tokens", "layers", "epochs", "merges"),
    [(MB, 2, 32, 1000), (25 * MB, 4, 16, 4000), (100 * MB, 5, 8, 8000), (4 * GB, 12, 4, 40_000)],
)
def test_a_text_gets_a_network_of_its_size(tokens: int, layers: int, epochs: int, merges: int) -> None:
    assert suitable_merges(4 * tokens) == merges
    advised = change(PAPER, suggest(PAPER, tokens, merges + 478))
    assert (advised.shape.layers, advised.shape.width) == (layers, 64 * layers)
    assert advised.training.epochs == epochs
    assert advised.shape.heads == layers
    assert advised.shape.feed_forward == 4 * advised.shape.width


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("tokens", TEXTS)
def test_advice_can_be_pasted_and_once_taken_there_is_no_more(recipe: Recipe, tokens: int) -> None:
    vocab_size = suitable_merges(4 * tokens)
    advised = change(recipe, suggest(recipe, tokens, vocab_size))
    more = suggest(advised, tokens, vocab_size)
    # At either end of the range no network is small or large enough, but the nearest is the nearest.
    assert more == []


def test_the_papers_network_suits_the_papers_text() -> None:
    assert suggest(PAPER, 1_100_000_000, 40_478) == ["training.epochs=4"]
    assert keys(PAPER, 1_100_000_000, 40_478, epochs=100) == ["many-epochs"]
    assert keys(PAPER, 1_100_000_000, 40_478, epochs=4) == []


def test_small_text_gets_more_updates_by_a_smaller_batch_and_dropout_against_learning_by_heart() -> None:
    advised = change(MODERN, suggest(MODERN, MB, 1000))
    assert advised.training.batch == 8
    assert advised.shape.dropout == 0.1
    assert advised.optimizer.lr == MODERN.optimizer.lr  # muon's does not follow the width
    assert change(PAPER, suggest(PAPER, MB, 1000)).optimizer.lr == pytest.approx(2.5e-4 * 768 / 128)


def test_an_lstm_keeps_its_shape() -> None:
    advised = change(PAPER_LSTM, suggest(PAPER_LSTM, MB, 1000))
    assert advised.shape == PAPER_LSTM.shape


def test_a_large_vocabulary_does_not_make_the_blocks_small() -> None:
    fit, silly = (change(PAPER, suggest(PAPER, 25 * MB, size)).shape for size in (4000, 40_478))
    assert fit == silly
    assert count_parameters(fit, 4000).layers > 1_000_000


def test_what_does_not_suit_is_said() -> None:
    assert keys(PAPER, 5 * MB, 40_478, epochs=100) == ["large", "many-epochs", "large-vocabulary"]
    assert keys(TINY, 4 * GB, 2000, epochs=1) == ["small", "small-vocabulary"]
    assert keys(PAPER, 4 * GB, 40_478, epochs=0.1, updates=100) == ["part-of-text", "few-updates"]
