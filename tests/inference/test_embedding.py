"""Texts as vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.embedding import embeddings
from gpt1.model import Model
from gpt1.text.tokenizer import Tokenizer
from tests.model.tools import PAPER, shaken

TEXTS = ["Ann", "the old sailor sold her brother's hat. " * 3, "3 apples"]


@pytest.fixture(scope="module")
def model(words_tokenizer: Tokenizer) -> Model:
    return shaken(PAPER, vocab_size=words_tokenizer.vocab_size)


def by_hand(model: Model, ids: list[int]) -> list[np.ndarray]:
    """Return the output at each token, in windows of a context."""
    with torch.no_grad():
        windows = [model(torch.tensor([ids[start : start + 11]]))[0][0] for start in range(0, len(ids), 11)]
    return list(torch.cat(windows).numpy())


@pytest.mark.parametrize("tokens_at_once", [12, 8192])
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_vector_is_the_mean_of_all_outputs_or_the_last_one(
    model: Model, words_tokenizer: Tokenizer, pooling: str, tokens_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.inference.portions.CPU_TOKENS", tokens_at_once)
    found = embeddings(model, words_tokenizer, TEXTS, pooling)
    assert found.dtype == np.float32
    for vector, ids in zip(found, words_tokenizer.encode_batch(TEXTS), strict=True):
        outputs = by_hand(model, ids)
        wanted = outputs[-1] if pooling == "last" else np.mean(outputs, axis=0)
        np.testing.assert_allclose(vector, wanted, rtol=1e-5, atol=1e-6)


def test_ids_are_read_as_they_are_and_must_be_in_the_vocabulary(model: Model, words_tokenizer: Tokenizer) -> None:
    parts = [id for letter in "the" for id in words_tokenizer.encode(letter)]
    assert parts != words_tokenizer.encode("the")
    found = embeddings(model, words_tokenizer, [parts, "the"], "mean")
    for vector, ids in zip(found, (parts, words_tokenizer.encode("the")), strict=True):
        np.testing.assert_allclose(vector, np.mean(by_hand(model, ids), axis=0), rtol=1e-5, atol=1e-6)
    for wrong in (-1, model.vocab_size):
        with pytest.raises(InputError, match=f"text 2 has the id {wrong}, the vocabulary has"):
            embeddings(model, words_tokenizer, ["the", [wrong]], "mean")


def test_no_texts_have_no_vectors(model: Model, words_tokenizer: Tokenizer) -> None:
    assert embeddings(model, words_tokenizer, [], "mean").shape == (0, PAPER.width)


def test_a_text_without_tokens_and_a_pooling_that_is_none_are_refused(model: Model, words_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="text 2 has no tokens"):
        embeddings(model, words_tokenizer, ["Ann", " \n"], "mean")
    with pytest.raises(SettingError, match="unknown pooling 'men'; did you mean 'mean'"):
        embeddings(model, words_tokenizer, ["Ann"], "men")
