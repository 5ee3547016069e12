"""A run out as a smaller run: weights in a byte each, and nothing that only training needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from gpt1.base.files import json_bytes
from gpt1.base.records import sealed
from gpt1.inference.run import Run, load_run
from gpt1.linear.files import ensemble_files
from gpt1.records.calibration import CALIBRATION_FILE
from gpt1.records.thresholds import THRESHOLDS_FILE
from gpt1.runs.checkpoints import write_run
from gpt1.runs.compact import compact, expanded
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE


def export_compact(run: Run, out: str | Path) -> list[str]:
    """Write a run as one of a quarter of its size, for every verb but going on with it; return what to know of it."""
    out, weights, step = Path(out), run.checkpoint.model, run.checkpoint.step
    small, besides = compact(weights), {path.name: path.read_bytes() for path in ensemble_files(run.path)}
    if run.calibration is not None:
        besides[CALIBRATION_FILE] = json_bytes(sealed(run.calibration.without_promises().as_json()))
    if run.thresholds is not None:
        besides[THRESHOLDS_FILE] = json_bytes(sealed(replace(run.thresholds, weights="").as_json()))
    write_run(
        out,
        run.record,
        run.path / TOKENIZER_FILE,
        small,
        step=step,
        progress=run.checkpoint.progress,
        besides=besides,
    )
    load_run(out, device="cpu").checkpoint  # noqa: B018  read it as everybody will
    return [_told(weights, small), *_left_behind(run)]


def _left_behind(run: Run) -> list[str]:
    """Tell that what was proven of a network is not proven of one whose weights are rounded."""
    tasks = {} if run.calibration is None else run.calibration.tasks
    if all(one.kept is None for one in tasks.values()):
        return []
    return ["what can be promised of answers by abstaining is of the weights as they were, and stays behind"]


def _told(weights: dict[str, torch.Tensor], small: dict[str, torch.Tensor]) -> str:
    again = expanded(small, "the export")
    off = sum(float((again[name] - weights[name]).square().sum()) for name in weights)
    whole = sum(float(weights[name].float().square().sum()) for name in weights)
    sizes = [sum(tensor.nbytes for tensor in tensors.values()) / 1e6 for tensors in (weights, small)]
    moved = 100 * (off / whole) ** 0.5
    return (
        f"{sizes[0]:,.1f} MB of weights in {sizes[1]:,.1f} MB; rounding moved them by {moved:.2g} % (RMS): "
        "gpt1 evaluate tells what that costs"
    )
