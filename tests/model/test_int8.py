"""Matrices in bytes: what is rounded, what that changes, and what it does not."""

from __future__ import annotations

import pytest
import torch

from gpt1.base import devices, torch_internals
from gpt1.base.errors import SettingError
from gpt1.inference.generation import continue_ids
from gpt1.inference.sampling import SamplingParams
from gpt1.model import Model, quantize_int8
from gpt1.model.int8 import Int8Linear
from gpt1.recipes.values import Shape
from tests.model.tools import MODERN, PAPER, SHAPES, SMALL_LSTM, relative_error, shaken
from tests.reference.generation import kept


def by_hand(x, weight, bias):  # type: ignore[no-untyped-def]
    """Multiply by whole numbers, one output of one token after another."""
    found = []
    for row in x.tolist():
        scale = max(map(abs, row)) / 127
        outputs = []
        for column, add in zip(weight.tolist(), bias.tolist(), strict=True):
            step = max(map(abs, column)) / 127
            total = sum(round(a / scale) * round(b / step) for a, b in zip(row, column, strict=True))
            outputs.append(total * scale * step + add)
        found.append(outputs)
    return torch.tensor(found)


@pytest.mark.parametrize(("tokens", "inputs", "outputs"), [(1, 8, 5), (7, 33, 12), (40, 64, 3)])
def test_products_are_those_of_whole_numbers(tokens: int, inputs: int, outputs: int) -> None:
    draw = torch.Generator().manual_seed(tokens)
    x, weight = (torch.randn(size, inputs, generator=draw) for size in (tokens, outputs))
    bias = torch.randn(outputs, generator=draw)
    torch.testing.assert_close(Int8Linear(weight, bias)(x), by_hand(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_sums_of_the_largest_numbers_are_exact() -> None:
    ones = torch.ones(3, 4096)
    assert torch.equal(Int8Linear(ones, None)(-ones), torch.full((3, 3), -4096.0))
    assert torch.equal(Int8Linear(ones, None)(torch.zeros(2, 4096)), torch.zeros(2, 3))


def test_what_stands_beside_a_token_changes_nothing() -> None:
    layer, x = Int8Linear(torch.randn(16, 32), torch.randn(16)), torch.randn(9, 32)
    x[4] *= 1000
    assert torch.equal(torch.cat([layer(row.unsqueeze(0)) for row in x]), layer(x))
    assert torch.equal(layer(x.view(3, 3, 32)).flatten(0, 1), layer(x))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_network_in_bytes_is_nearly_the_same_and_leaves_the_other_alone(shape: Shape) -> None:
    model = shaken(shape, dtype=torch.float32)
    before = [parameter.clone() for parameter in model.parameters()]
    small = quantize_int8(model)
    ids = torch.arange(10).view(2, 5) % model.vocab_size
    wanted, output = model(ids)
    found, same = small(ids)
    assert 0 < relative_error({"x": found}, {"x": wanted}) < 0.1
    scores = small.logits(wanted[0], same), model.logits(wanted[0], output)
    assert 0 < relative_error({"x": scores[0]}, {"x": scores[1]}) < 0.02
    assert small.tokens is model.tokens
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def greedy(model: Model, prompt: list[int], new_tokens: int) -> list[int]:
    ids, written = kept(prompt, model.shape.context), []
    for _ in range(new_tokens):
        hidden, output = model(torch.tensor([ids]))
        written.append(int(model.logits(hidden[0, -1:], output)[0].argmax()))
        ids = kept([*ids, written[-1]], model.shape.context)
    return written


@pytest.mark.parametrize("shape", [PAPER, MODERN], ids=["paper", "modern"])
def test_with_a_memory_the_same_tokens_are_written(shape: Shape) -> None:
    small = quantize_int8(shaken(shape, dtype=torch.float32))
    prompts = [[3], [1, 2, 3, 4, 5], list(range(11))]
    with torch.no_grad():
        wanted = [greedy(small, prompt, 20) for prompt in prompts]
    assert continue_ids(small, prompts, SamplingParams(max_new_tokens=20, temperature=0)) == wanted


def test_what_cannot_be_in_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="int8 is for Transformers"):
        quantize_int8(shaken(SMALL_LSTM, dtype=torch.float32))
    with pytest.raises(SettingError, match="computes in fp32 besides"):
        quantize_int8(shaken(PAPER, dtype=torch.float64))
    with pytest.raises(SettingError, match="int8 is for CPUs"):
        devices.check_int8(torch.device("cuda"))
    monkeypatch.setattr(torch_internals, "cpu_has_vnni", lambda: False)
    with pytest.raises(SettingError, match="VNNI"):
        devices.check_int8(torch.device("cpu"))
