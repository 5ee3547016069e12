"""Recorded passes do what passes do."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpt1.model import cuda_graphs
from tests.training.tools import TOY, Recorder, toy_trainer

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def losses(run: Path, *, cuda_graphs: bool) -> list[float]:
    training = replace(TOY.training, cuda_graphs=cuda_graphs, micro_batch=2)
    listener = Recorder()
    trainer = toy_trainer(run, replace(TOY, training=training), listeners=[listener], device=torch.device("cuda"))
    assert trainer.train()
    return list(listener.losses.values())


@GPU
def test_a_recorded_training_has_the_losses_of_a_plain_one(tmp_path: Path) -> None:
    assert losses(tmp_path / "a", cuda_graphs=True) == pytest.approx(
        losses(tmp_path / "b", cuda_graphs=False), rel=1e-4
    )


@GPU
def test_a_pass_is_called_once_for_a_shape_then_recorded_then_played() -> None:
    calls = []

    def double(inputs: dict[str, torch.Tensor], *, plus: int) -> torch.Tensor:
        calls.append(len(inputs["x"]))
        return 2 * inputs["x"] + plus

    recorder = cuda_graphs.Recorder(double)
    for size in (3, 5, 3, 3, 5, 3):
        x = torch.rand(size, device="cuda")
        assert torch.equal(recorder({"x": x}, plus=1), 2 * x + 1)
    assert calls == [3, 5, 3, 5]
    assert torch.equal(recorder({"x": x}, plus=2), 2 * x + 2)  # another fact is another pass


@GPU
def test_an_older_recording_that_is_garbage_does_not_spoil_a_new_one() -> None:
    def double(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        for _ in range(100):
            garbage: list[object] = []
            garbage.append(garbage)  # what is to be collected in the midst of it
        return 2 * inputs["x"]

    x, before = torch.rand(3, device="cuda"), gc.get_threshold()
    try:
        gc.set_threshold(1)
        for _ in range(5):
            recorder = cuda_graphs.Recorder(double)
            recorder.__dict__["itself"] = recorder
            for _ in range(3):
                assert torch.equal(recorder({"x": x}), 2 * x)
    finally:
        gc.set_threshold(*before)


@GPU
def test_large_passes_are_not_recorded() -> None:
    calls = []

    def same(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        calls.append(1)
        return inputs["x"].clone()

    recorder = cuda_graphs.Recorder(same)
    for _ in range(3):
        recorder({"x": torch.zeros(cuda_graphs.LARGEST + 1, device="cuda")})
    assert len(calls) == 3


def test_a_cpu_records_nothing(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path / "run", replace(TOY, training=replace(TOY.training, cuda_graphs=True)))
    assert not isinstance(trainer._pass, cuda_graphs.Recorder)
