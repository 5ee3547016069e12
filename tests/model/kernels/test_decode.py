"""The next token by kernels against the network's own way, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from gpt1.base import devices
from gpt1.model import KVCache, Model, build_model, prepare_for_inference, quantize_int8, read
from gpt1.recipes.values import Shape
from tests.model.kernels.tools import CAN_RUN, DEVICE, ON_GPU, WHY_NOT, assert_near, normal
from tests.model.tools import PAPER, SHAPES, SMALL_LSTM, VOCAB, shaken

pytest.importorskip("triton", reason="the kernels need Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.decode import FEW, PART, PIECE, POSITIONS, Decoder, next_state, why_not

SIXTEEN_BITS = torch.bfloat16 if ON_GPU else torch.float16  # which the interpreter multiplies too
ERROR = 1e-5
KNOWN = {name: shape for name, shape in SHAPES.items() if not shape.global_tokens}


def memories(model: Model, lengths: list[int], rows: int) -> list[KVCache]:
    """Return two memories that have read the same texts of these lengths."""
    found = []
    for _ in range(2):
        memory = KVCache(model.shape, rows, dtype=model.compute, device=torch.device(DEVICE))
        ids_N = torch.arange(sum(lengths), device=DEVICE) % VOCAB
        read(model, memory.begin(range(len(lengths)), lengths), ids_N)
        found.append(memory)
    return found


def hold_to_the_network(model: Model, lengths: list[int], error: float) -> None:
    plain, own = memories(model, lengths, len(lengths) + 1)
    decoder, ids_R = Decoder(model, own), torch.arange(len(lengths), device=DEVICE) % VOCAB
    for _ in range(2):
        position_R = torch.tensor(plain.lengths, device=DEVICE)
        wanted = model.logits(*read(model, plain.go_on(range(len(lengths))), ids_R))
        found = decoder(ids_R, position_R)
        assert_near(
            [found[:, :VOCAB], *own.first, *own.second], [wanted[:, :VOCAB], *plain.first, *plain.second], error
        )
        ids_R = wanted[:, :VOCAB].argmax(1)


@pytest.fixture(autouse=True)
def as_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that reads matrices as they are stored, as a GPU does."""
    monkeypatch.setattr(devices.platform, "machine", lambda: "riscv64")


def ready(shape: Shape, compute: torch.dtype = torch.float32) -> Model:
    model = shaken(shape, dtype=torch.float32).to(DEVICE)
    model.compute_in(compute)
    return prepare_for_inference(model)


@pytest.mark.parametrize("texts", [1, 3, FEW + 3], ids=["one text", "a few", "many"])
@pytest.mark.parametrize("shape", KNOWN.values(), ids=KNOWN)
def test_scores_and_memory_are_those_of_the_network(shape: Shape, texts: int) -> None:
    hold_to_the_network(ready(shape), [1 + place % 7 for place in range(texts)], ERROR)


@pytest.mark.parametrize("texts", [1, FEW + 1], ids=["one text", "many"])
def test_in_sixteen_bits_they_are_as_near_as_rounding_lets_them(texts: int) -> None:
    hold_to_the_network(ready(PAPER, SIXTEEN_BITS), [2] * texts, 2e-2)


@pytest.mark.filterwarnings("ignore:overflow")  # where an activation is 0
def test_rows_that_do_not_divide() -> None:
    wide = replace(PAPER, width=2 * (PIECE + 6), heads=2, feed_forward=3 * PIECE + 1, layers=1)
    hold_to_the_network(ready(wide), [1], ERROR)


def test_texts_longer_than_what_is_looked_at_in_one_go() -> None:
    long = replace(PAPER, context=2 * POSITIONS + 5, layers=1)
    hold_to_the_network(ready(long), [2 * POSITIONS + 1, 3], ERROR)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: ready(SMALL_LSTM), "LSTM"),
        (lambda: ready(replace(PAPER, window=3, global_tokens=1)), "global tokens"),
        (lambda: shaken(PAPER), "float64"),
        (lambda: ready(replace(PAPER, heads=8)), "odd width"),
        (lambda: build_model(PAPER, VOCAB, compute=torch.bfloat16), "not in the type it computes in"),
        (lambda: quantize_int8(shaken(PAPER, dtype=torch.float32)), "output is of another kind"),
    ],
    ids=["an LSTM", "global tokens", "fp64", "heads of an odd width", "not made ready", "int8"],
)
def test_what_cannot_be_decoded_so_is_told(model: Callable[[], Model], reason: str) -> None:
    assert reason in (why_not(model().to(DEVICE)) or "")
    assert why_not(ready(PAPER)) is None


def test_weights_that_are_not_all_here_are_told() -> None:
    class Spread(torch.Tensor):
        pass

    model = ready(PAPER)
    model.positions = torch.nn.Parameter(model.positions.detach().as_subclass(Spread))  # as FSDP has them
    assert "spread over several devices" in (why_not(model) or "")


def test_the_likeliest_token_and_no_token_where_scores_are_no_numbers() -> None:
    scores_RV = normal(5, 3 * PART, dtype=SIXTEEN_BITS)
    vocabulary = 2 * PART + 7
    scores_RV[:, vocabulary:] = 100
    scores_RV[1, 5] = scores_RV[1, PART + 3] = 50  # the first one of equals
    scores_RV[2, PART] = torch.nan
    scores_RV[3, 1] = -torch.inf
    state = torch.tensor([[1, 2, 3, 4, -1], [7, 8, 9, 10, 11]], device=DEVICE)
    found = next_state(scores_RV, vocabulary, state)
    likeliest = int(scores_RV[0, :vocabulary].float().argmax())
    assert found.tolist() == [[likeliest, 5, -1, -1, -1], [8, 9, 10, 11, 12]]
