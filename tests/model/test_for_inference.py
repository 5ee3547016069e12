"""Networks made ready for use, cast and arranged once or in bytes: what that changes, and what it does not."""

from __future__ import annotations

import pytest
import torch

from gpt1.base import devices, torch_internals
from gpt1.base.errors import SettingError
from gpt1.inference.generation import continue_ids
from gpt1.inference.sampling import SamplingParams
from gpt1.model import Model, prepare_for_inference, quantize_int8
from gpt1.model.for_inference import Int8Linear, PrepackedLinear, filled_up
from gpt1.model.layers import Linear
from gpt1.recipes.values import Shape
from tests.model.tools import MODERN, PAPER, SHAPES, SMALL_LSTM, relative_error, shaken
from tests.reference.generation import greedy, kept

CPU = torch.device("cpu")
needs_arranging = pytest.mark.skipif(
    not devices.arranges_matrices(CPU, torch.float32), reason="this machine has no oneDNN for x86"
)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that reads matrices as they are stored."""
    monkeypatch.setattr(devices.platform, "machine", lambda: "riscv64")


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("shape", [PAPER, MODERN, SMALL_LSTM], ids=["paper", "modern", "lstm"])
def test_a_network_cast_once_says_the_same_to_the_bit(shape: Shape) -> None:
    model = shaken(shape, dtype=torch.float32)
    model.compute = torch.bfloat16
    ready = prepare_for_inference(model)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        for found, wanted in zip(ready(ids), model(ids), strict=True):
            assert torch.equal(found, wanted)
    kept = {name for name, weight in ready.named_parameters() if weight.dtype == torch.float32}
    assert kept == {name for name, _ in model.named_parameters() if "norm" in name}
    assert all(weight.dtype == torch.float32 for weight in model.parameters())


@pytest.mark.usefixtures("plain")
def test_weights_that_need_no_cast_are_not_copied() -> None:
    model = shaken(MODERN, dtype=torch.float32)
    ready = prepare_for_inference(model)
    own = dict(model.named_parameters())
    assert all(weight.data_ptr() == own[name].data_ptr() for name, weight in ready.named_parameters())


def kinds(model: Model) -> set[type]:
    return {type(module) for module in model.modules()} & {Linear, PrepackedLinear}


@needs_arranging
@pytest.mark.parametrize("shape", [*SHAPES.values(), SMALL_LSTM], ids=[*SHAPES, "lstm"])
def test_an_arranged_network_says_the_same_and_leaves_the_other_alone(shape: Shape) -> None:
    model = shaken(shape, dtype=torch.float32)
    before = [parameter.clone() for parameter in model.parameters()]
    ready = prepare_for_inference(model)
    ids = torch.arange(10).view(2, 5) % model.vocab_size
    with torch.no_grad():
        (wanted, output), (found, same) = model(ids), ready(ids)
        assert relative_error({"x": found}, {"x": wanted}) < 1e-5
        scores = ready.logits(wanted[0], same), model.logits(wanted[0], output)
    assert relative_error({"x": scores[0]}, {"x": scores[1]}) < 1e-6
    assert isinstance(ready.output_layer, PrepackedLinear)
    assert kinds(ready) == ({Linear, PrepackedLinear} if shape is SMALL_LSTM else {PrepackedLinear})
    assert kinds(model) == {Linear}
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


@needs_arranging
@pytest.mark.parametrize("rows", [1, 2, 64, 65, 130])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_arranged_matrix_multiplies_any_number_of_tokens(rows: int, dtype: torch.dtype) -> None:
    if not devices.arranges_matrices(CPU, dtype):
        pytest.skip("this CPU has no bf16")
    draw = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(size, 48, generator=draw).to(dtype) for size in (rows, 37))
    bias = torch.randn(37, generator=draw).to(dtype)
    wanted = x.double() @ weight.double().T
    close = {"rtol": 0.02, "atol": 0.05} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(PrepackedLinear(weight, None)(x).double(), wanted, **close)
    found = PrepackedLinear(weight, bias)(x.view(1, rows, 48))
    torch.testing.assert_close(found[0].double(), wanted + bias.double(), **close)


def test_tokens_are_filled_up_to_few_numbers_and_by_little() -> None:
    found = [filled_up(tokens) for tokens in range(1, 513)]
    assert found[:16] == list(range(1, 17))
    assert all(tokens <= number <= 1.125 * tokens for tokens, number in enumerate(found, 1))
    assert len(set(found)) <= 57


@needs_arranging
@pytest.mark.parametrize("shape", [PAPER, MODERN], ids=["paper", "modern"])
def test_an_arranged_network_writes_the_same_tokens_with_a_memory(shape: Shape) -> None:
    ready = prepare_for_inference(shaken(shape, dtype=torch.float32))
    prompts = [[3], [1, 2, 3, 4, 5], list(range(11))]
    wanted = [greedy(ready, prompt, 20) for prompt in prompts]
    assert continue_ids(ready, prompts, SamplingParams(max_new_tokens=20, temperature=0)) == wanted


def test_only_a_cpu_of_the_x86_family_has_its_matrices_arranged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert devices.arranges_matrices(CPU, torch.float32)
    assert not devices.arranges_matrices(CPU, torch.float64)
    assert not devices.arranges_matrices(torch.device("cuda"), torch.float32)
    monkeypatch.setattr(torch_internals, "onednn_has_bf16", lambda: False)
    assert not devices.arranges_matrices(CPU, torch.bfloat16)
    monkeypatch.setattr(devices.platform, "machine", lambda: "arm64")
    assert not devices.arranges_matrices(CPU, torch.float32)


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


def greedy_by_logits(model: Model, prompt: list[int], new_tokens: int) -> list[int]:
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
        wanted = [greedy_by_logits(small, prompt, 20) for prompt in prompts]
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
