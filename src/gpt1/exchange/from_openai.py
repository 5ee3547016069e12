"""OpenAI's release of GPT-1: `params_0.npy` ... and `params_shapes.json`, `encoder_bpe_40000.json`, `vocab_40000.bpe`.

The arrays are flat pieces of one long array, which the list of shapes cuts: positions, tokens, then the parts of each
block. How many heads there are the files do not say; each is 64 wide, as in the paper.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import missing, require_plain
from gpt1.base.records import parse_json
from gpt1.exchange.imported import check_target, write_run
from gpt1.exchange.names import PARTS, POSITIONS, TOKENS, WIDER, block_names, turned
from gpt1.inference.run import Run
from gpt1.recipes.catalog import PAPER
from gpt1.recipes.values import Shape
from gpt1.records.run import Imported
from gpt1.runs.checkpoints import Tensors
from gpt1.text.training import import_tokenizer

SHAPES_FILE, ARRAY_FILE = "params_shapes.json", "params_{}.npy"
VOCABULARY_FILE, MERGES_FILE = "encoder_bpe_40000.json", "vocab_40000.bpe"
HEAD_WIDTH = 64


def import_openai(folder: str | Path, out: str | Path, *, device: str | None = None) -> Run:
    """Make a run of the released weights and vocabulary in `folder`, and open it."""
    folder, out = Path(folder), Path(out)
    check_target(out)
    for name in (SHAPES_FILE, ARRAY_FILE.format(0), VOCABULARY_FILE, MERGES_FILE):
        if not (folder / name).is_file():
            raise missing(folder / name, "is not there; the release has it in its folder 'model'")
    tokenizer = import_tokenizer(folder / VOCABULARY_FILE, folder / MERGES_FILE)
    weights, shape = _read(folder)
    return write_run(out, Imported("openai", str(folder.resolve())), shape, weights, tokenizer, device=device)


def _read(folder: Path) -> tuple[Tensors, Shape]:
    shapes = _read_shapes(folder / SHAPES_FILE)
    layers = (len(shapes) - 2) // (2 * len(PARTS))
    names = [POSITIONS, TOKENS, *(ours for layer in range(layers) for ours, _ in block_names(layer))]
    if len(names) != len(shapes) or len(shapes[0]) != 2:
        raise FormatError(f"{folder / SHAPES_FILE} has {len(shapes)} shapes; GPT-1 has 2 and {2 * len(PARTS)} a block")
    pieces = [_read_array(path) for path in _arrays(folder)]
    flat = np.concatenate(pieces)
    wanted = sum(math.prod(shape) for shape in shapes)
    if len(flat) != wanted:
        raise FormatError(f"{folder}: the arrays hold {len(flat):,} numbers, the list of shapes wants {wanted:,}")
    cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    tensors = {
        # A matrix is stored with one more dimension in front, of size 1.
        name: torch.from_numpy(part).view([size for place, size in enumerate(shape) if place or size > 1])
        for name, shape, part in zip(names, shapes, np.split(flat, cuts), strict=True)
    }
    context, width = shapes[0]
    if width % HEAD_WIDTH:
        raise FormatError(f"{folder}: a width of {width} does not split into heads of {HEAD_WIDTH}, as the release has")
    shape = Shape(
        layers=layers,
        width=width,
        heads=width // HEAD_WIDTH,
        feed_forward=WIDER * width,
        context=context,
        dropout=PAPER.shape.dropout,
    )
    return turned(tensors), shape


def _read_shapes(path: Path) -> list[list[int]]:
    require_plain(path)
    try:
        shapes = parse_json(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"{path} is not a list of shapes: {error}") from None
    if not isinstance(shapes, list) or not all(
        isinstance(shape, list) and shape and all(isinstance(size, int) and size > 0 for size in shape)
        for shape in shapes
    ):
        raise FormatError(f"{path} is not a list of shapes, each a list of whole numbers")
    return shapes


def _arrays(folder: Path) -> list[Path]:
    """Return the files of arrays in the order of their numbers, which have no gap."""
    count = len(list(folder.glob(ARRAY_FILE.format("*"))))
    paths = [folder / ARRAY_FILE.format(number) for number in range(count)]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path} is not there, though a later one is; copy the whole release")
    return paths


def _read_array(path: Path) -> NDArray[np.float32]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} is not an array of numbers: {error}") from error
    if array.ndim != 1 or array.dtype.kind != "f":
        raise FormatError(f"{path} holds {array.dtype} of shape {array.shape}; expected one row of numbers")
    numbers: NDArray[np.float32] = array.astype(np.float32)
    return numbers
