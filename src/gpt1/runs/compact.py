"""Weights in a byte each (int8 quantization for storage): a quarter of their size on disk, floats again when read.

A row of a matrix is cut into groups; a group has one scale, in bf16, and its weights are whole multiples of it between
-127 and 127. Vectors stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.base.errors import FormatError

GROUP = 64
SCALES = ".scales"  # behind the name of a matrix
_LARGEST = 127


def compact(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights with their matrices as bytes and scales."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim == 2:
            found[name], found[name + SCALES] = _quantized(tensor.float())
        else:
            found[name] = tensor
    return found


def expanded(weights: dict[str, Tensor], where: object) -> dict[str, Tensor]:
    """Return what `compact` was given, as near as bytes come to it; weights that are no bytes are left as they are."""
    found = {}
    for name, tensor in weights.items():
        if name.removesuffix(SCALES) in weights and name.endswith(SCALES):
            continue
        if tensor.dtype == torch.int8:
            scales = weights.get(name + SCALES)
            if scales is None or not _fit(scales, tensor):
                raise FormatError(f"{where} is damaged: '{name}' has no scales that fit it")
            tensor = tensor.float() * _spread(scales.float(), tensor.shape[1])
        found[name] = tensor
    return found


def _quantized(matrix: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = matrix.shape
    padded = F.pad(matrix, (0, _groups(columns) * GROUP - columns)).view(rows, -1, GROUP)
    scales = (padded.abs().amax(-1) / _LARGEST).bfloat16()
    steps = _spread(scales.float(), columns)
    whole = torch.where(steps > 0, matrix / steps, 0).round().clamp(-_LARGEST, _LARGEST)
    return whole.to(torch.int8), scales


def _fit(scales: Tensor, whole: Tensor) -> bool:
    is_matrix = whole.ndim == 2 and scales.shape == (len(whole), _groups(whole.shape[1]))
    return is_matrix and scales.is_floating_point()


def _groups(columns: int) -> int:
    return -(-columns // GROUP)


def _spread(scales: Tensor, columns: int) -> Tensor:
    """Return for each column of each row the scale of its group."""
    return scales.repeat_interleave(GROUP, dim=1)[:, :columns]
