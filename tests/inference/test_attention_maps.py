"""Where a network looks, against the weights of attention written out token by token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.attention_maps import as_rows, looks, looks_everywhere
from gpt1.model import attention_weights, build_model
from gpt1.recipes.values import Shape
from gpt1.text.tokenizer import Tokenizer
from tests.model.tools import SHAPES, SMALL_LSTM, shaken
from tests.reference import transformer as reference


def by_hand(model, ids_T, layer, monkeypatch):  # type: ignore[no-untyped-def]
    """Return the weights [H, T, T] that the literal network multiplies its values by in a layer."""
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(reference, "kept", lambda x, mask, rate: (seen.append(x), x)[1])
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    reference.forward(weights, ids_T.unsqueeze(0), model.shape)
    T = len(ids_T)
    shares = [x for x in seen if x.shape == (T, T)]
    return torch.stack(shares[layer * model.shape.heads : (layer + 1) * model.shape.heads])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_head_of_every_layer_is_told_for_every_shape(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shaken(shape, dtype=torch.float64)
    ids_T = torch.arange(7) * 3 % model.vocab_size
    for layer in range(shape.layers):
        found = attention_weights(model, ids_T, layer)
        torch.testing.assert_close(found, by_hand(model, ids_T, layer, monkeypatch).float(), rtol=1e-5, atol=1e-6)


def test_a_row_adds_up_to_one_and_takes_nothing_from_what_comes_later(words_tokenizer: Tokenizer) -> None:
    shape = Shape(layers=2, width=16, heads=4, feed_forward=32, context=12, init_std=0.5)
    model = build_model(shape, words_tokenizer.vocab_size, compute=torch.bfloat16)
    found = looks(model, words_tokenizer, "Ann sold a hat", layer=2)
    assert found.ids == words_tokenizer.encode("Ann sold a hat")
    assert found.weights.shape == (4, len(found.ids), len(found.ids))
    np.testing.assert_allclose(found.weights.sum(-1), 1, rtol=1e-5)
    assert (np.triu(found.weights, 1) == 0).all()


def test_all_layers_together_are_those_seen_one_by_one(words_tokenizer: Tokenizer) -> None:
    shape = Shape(layers=3, width=16, heads=2, feed_forward=32, context=12, init_std=0.5)
    model = build_model(shape, words_tokenizer.vocab_size)
    each = [looks(model, words_tokenizer, "Ann sold a hat", layer) for layer in (1, 2, 3)]
    for one, layer in zip(each, looks_everywhere(model, each[0].ids), strict=True):
        np.testing.assert_array_equal(layer, one.weights)


def test_plain_numbers_leave_out_what_lies_behind_a_token() -> None:
    head = np.array([[1, 0], [1 / 3, 2 / 3]], np.float32)
    assert as_rows(head[np.newaxis], 3) == [[[1.0], [0.333, 0.667]]]


def test_what_cannot_be_shown_is_told(words_tokenizer: Tokenizer) -> None:
    shape = Shape(layers=2, width=16, heads=4, feed_forward=32, context=4)
    model = build_model(shape, words_tokenizer.vocab_size)
    for layer in (0, 3):
        with pytest.raises(SettingError, match=f"there are layers 1 to 2, not {layer}"):
            looks(model, words_tokenizer, "Ann", layer)
    for text in ("", "Ann lost 3 apples, so they say"):
        with pytest.raises(InputError, match="attention is shown of 1 to 4"):
            looks(model, words_tokenizer, text, 1)
    with pytest.raises(SettingError, match="an LSTM has no attention"):
        looks(build_model(SMALL_LSTM, words_tokenizer.vocab_size), words_tokenizer, "Ann", 1)
