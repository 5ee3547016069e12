"""Memory by formula is that of the networks themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpt1.base.devices import GIB
from gpt1.base.errors import SettingError
from gpt1.inspection.sizes import (
    Disk,
    Execution,
    Memory,
    count_disk,
    count_memory,
    fitting,
    largest_micro_batch,
    saved_by_block,
)
from gpt1.model import build_model, dropout_key
from gpt1.recipes.catalog import MODERN, PAPER
from gpt1.recipes.changes import change
from gpt1.recipes.values import LSTM, Shape

VOCABULARY = 40_478
H200 = Execution(gpu=True, compiled=True, precision="bf16")
SMALL = {"width": 128, "heads": 2, "feed_forward": 512, "context": 32}
SHAPES = {
    "paper": Shape(**SMALL, layers=1),
    "no dropout": Shape(**SMALL, layers=1, dropout=0.0),
    "modern": replace(MODERN.shape, **SMALL, layers=1),
    "modern with dropout": replace(MODERN.shape, **SMALL, layers=1, dropout=0.1),
    "rotary": Shape(**SMALL, layers=1, positions="rotary"),
    "window": Shape(**SMALL, layers=1, window=8),
    "window without dropout": Shape(**SMALL, layers=1, window=8, dropout=0.0),
    "window and global tokens": Shape(**SMALL, layers=1, window=8, global_tokens=2),
    "window and global tokens without dropout": Shape(**SMALL, layers=1, window=8, global_tokens=2, dropout=0.0),
    "modern with a window and global tokens": replace(MODERN.shape, **SMALL, layers=1, window=8, global_tokens=2),
    "lstm": Shape(**SMALL, layers=1, kind=LSTM, units=256),
}


def saved_bytes(shape: Shape, precision: str, batch: int, compiled: bool) -> int:
    """Return the bytes torch keeps for the backward pass of a model."""
    torch._dynamo.reset()
    model = build_model(shape, 50, compute={"fp32": torch.float32, "bf16": torch.bfloat16}[precision])
    # The backend that cuts the graph in two as the real compiler does, and then compiles nothing.
    function = torch.compile(model, backend="aot_eager_decomp_partition") if compiled else model
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no other gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function(torch.zeros(batch, shape.context, dtype=torch.long), dropout_key(0, 1, torch.arange(batch)))
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def saved_a_token(shape: Shape, precision: str, compiled: bool) -> float:
    """Return the bytes that one block keeps for each token; differences leave out weights and what all blocks share."""

    def grown(layers: int) -> int:
        deep = replace(shape, layers=layers)
        few, many = (saved_bytes(deep, precision, batch, compiled) for batch in (2, 4))
        return many - few

    block = grown(1) if shape.kind == LSTM else grown(2) - grown(1)
    return block / (2 * shape.context)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_list_of_saved_tensors_is_what_torch_saves(shape: Shape, precision: str) -> None:
    place = Execution(gpu=False, compiled=False, precision=precision)
    listed = sum(saved.elements * saved.size for saved in saved_by_block(shape, place))
    found = saved_a_token(shape, precision, compiled=False)
    if shape.kind == LSTM and precision == "bf16" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        assert found < listed  # oneDNN has no bf16 on such a processor; torch's own steps keep less
    else:
        assert listed == pytest.approx(found, rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler, about its own parts
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "lstm"])  # which is never compiled
def test_the_list_of_saved_tensors_is_what_compiled_torch_saves(name: str, precision: str) -> None:
    place = Execution(gpu=False, compiled=True, precision=precision)
    listed = sum(saved.elements * saved.size for saved in saved_by_block(SHAPES[name], place))
    assert listed == pytest.approx(saved_a_token(SHAPES[name], precision, compiled=True), rel=0.1)


def test_the_prototypes_measured_peak_is_met() -> None:
    memory = count_memory(PAPER, VOCABULARY, 64, H200)
    # That prototype (compiled, 64 x 512, bf16, dropout) held all logits, of a vocabulary filled up to 40,576, at once.
    whole_logits = 64 * 512 * 40_576 * 2
    assert (memory.total + whole_logits) / GIB == pytest.approx(13.8, rel=0.05)


def test_weights_gradients_and_moments_are_four_times_the_parameters_in_fp32() -> None:
    memory = count_memory(PAPER, VOCABULARY, 64, H200)
    assert memory.weights + memory.gradients + memory.optimizer == 16 * 116_534_784
    assert memory.working_copies == 2 * 116_534_784
    assert count_memory(PAPER, VOCABULARY, 64, replace(H200, precision="fp32")).working_copies == 0
    assert count_memory(PAPER, VOCABULARY, 64, replace(H200, precision="fp64")).weights == 8 * 116_534_784


def test_muon_keeps_one_moment_for_matrices_of_blocks() -> None:
    adam, muon = (count_memory(change(PAPER, [f"optimizer.kind={kind}"]), 1000, 1, H200) for kind in ("adam", "muon"))
    assert adam.optimizer - muon.optimizer == 4 * 12 * 12 * 768**2
    assert replace(adam, optimizer=muon.optimizer) == muon


def test_more_at_once_needs_more_and_checkpointing_needs_less() -> None:
    def needed(micro_batch: int, *changes: str) -> int:
        return count_memory(change(PAPER, changes), VOCABULARY, micro_batch, H200).total

    totals = [needed(micro_batch) for micro_batch in (1, 2, 8, 64)]
    assert totals == sorted(set(totals))
    assert needed(64, "training.checkpoint_activations=true") < needed(64) / 2
    assert needed(64, "shape.layers=24") > needed(64)
    # Written out, attention weights grow with the square of the context; fused, they are never there.
    cpu = Execution(gpu=False, compiled=False, precision="bf16")
    growth = {}
    for place in (H200, cpu):
        short, long = (
            count_memory(change(PAPER, [f"context={context}"]), VOCABULARY, 8, place).activations
            for context in (1024, 2048)
        )
        growth[place] = long / short
    assert growth[H200] == 2
    assert growth[cpu] > 3


def test_the_largest_micro_batch_is_the_last_that_fits() -> None:
    memory = 8 * GIB
    most = largest_micro_batch(PAPER, VOCABULARY, H200, memory)
    assert 1 < most < 64
    assert count_memory(PAPER, VOCABULARY, most, H200).total <= memory
    assert count_memory(PAPER, VOCABULARY, most + 1, H200).total > memory
    assert largest_micro_batch(PAPER, VOCABULARY, H200, 100 * GIB) == 64
    assert largest_micro_batch(PAPER, VOCABULARY, H200, GIB) == 0


@pytest.mark.parametrize("gib", [2.3, 2.6, 3, 4, 8, 12])
def test_the_settings_that_should_make_it_fit_do(gib: float) -> None:
    memory = round(gib * GIB)
    settings = fitting(PAPER, VOCABULARY, H200, memory)
    fitted = change(PAPER, settings)
    micro_batch = fitted.training.micro_batch or 64
    assert 64 % micro_batch == 0
    assert count_memory(fitted, VOCABULARY, micro_batch, H200).total <= memory
    assert (settings == []) == (gib == 12)
    assert fitting(fitted, VOCABULARY, H200, memory) == []


def test_what_fits_no_way_is_refused() -> None:
    with pytest.raises(SettingError, match=r"recipe 'paper' with 40,478 tokens needs more than 1\.0 GiB"):
        fitting(PAPER, VOCABULARY, H200, GIB)


def test_checkpoints_take_three_times_their_weights_and_those_of_a_curve_once() -> None:
    weights = 4 * 116_534_784
    found = count_disk(PAPER, VOCABULARY, 3000, H200)
    assert found == Disk(3 * weights, 3, weights, 6)  # two and the best; after 0, 100, 200, 400, 800 and 1,600 updates
    assert found.total == 15 * weights
    kept = change(PAPER, ["logging.keep_every=1000", "logging.keep_weights=none", "logging.keep_optimizer=false"])
    assert count_disk(kept, VOCABULARY, 3000, H200) == Disk(weights, 7, weights, 0)


def test_the_total_is_the_sum_of_its_parts() -> None:
    assert Memory(1, 2, 4, 8, 16, 32).total == 63
