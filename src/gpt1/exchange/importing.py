"""Runs of weights that were trained elsewhere: OpenAI's release of GPT-1, and transformers' OpenAIGPT.

The release is `params_0.npy` ... and `params_shapes.json`, `encoder_bpe_40000.json`, `vocab_40000.bpe`. The arrays are
flat pieces of one long array, which the list of shapes cuts: positions, tokens, then the parts of each block. How many
heads there are the files do not say; each is 64 wide, as in the paper.

Of transformers' `config.json`, `model.safetensors` and the vocabulary are read, without the library. Weights come from
safetensors alone: a pickle can run anything when it is opened.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from gpt1.base.errors import FormatError, InputError, MissingDependency, SettingError
from gpt1.base.files import lock_folder, missing, read_json, require_plain
from gpt1.base.records import Size, check_record, parse_json
from gpt1.exchange.names import (
    CONFIG_FILE,
    EPSILON,
    FAST_FILE,
    MERGES_FILE,
    PARTS,
    POSITIONS,
    SUMS_FILE,
    TOKENS,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    WIDER,
    block_names,
    check_sums,
    to_ours,
    turned,
)
from gpt1.inference.run import Run, load_run
from gpt1.model import build_model
from gpt1.recipes.catalog import PAPER
from gpt1.recipes.values import Shape
from gpt1.records.run import PRETRAINING, Imported, RunRecord
from gpt1.runs.checkpoints import Tensors, clean_up, require_new_run, save_checkpoint
from gpt1.runs.folder import begin_run, made_for
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import Tokenizer, new_tokenizer
from gpt1.text.training import import_tokenizer

SHAPES_FILE, ARRAY_FILE = "params_shapes.json", "params_{}.npy"
OPENAI_VOCABULARY, OPENAI_MERGES = "encoder_bpe_40000.json", "vocab_40000.bpe"
HEAD_WIDTH = 64

# ---- OpenAI's release ----


def import_openai(folder: str | Path, out: str | Path, *, device: str | None = None) -> Run:
    """Make a run of the released weights and vocabulary in `folder`, and open it."""
    folder, out = Path(folder), Path(out)
    require_new_run(out)
    for name in (SHAPES_FILE, ARRAY_FILE.format(0), OPENAI_VOCABULARY, OPENAI_MERGES):
        if not (folder / name).is_file():
            raise missing(folder / name, "is not there; the release has it in its folder 'model'")
    tokenizer = import_tokenizer(folder / OPENAI_VOCABULARY, folder / OPENAI_MERGES)
    weights, shape = _read_release(folder)
    return _write_run(out, Imported("openai", str(folder.resolve())), shape, weights, tokenizer, device=device)


def _read_release(folder: Path) -> tuple[Tensors, Shape]:
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


# ---- transformers ----


class _Sizes(TypedDict):
    """What config.json says of the network's size."""

    n_layer: Size
    n_embd: Size
    n_head: Size
    n_positions: Size
    resid_pdrop: NotRequired[float]


class _Vocabulary(TypedDict):
    vocab: dict[str, int]
    merges: list[str | list[str]]


class _Fast(TypedDict):
    """What the library's own tokenizer file says of the vocabulary."""

    model: _Vocabulary


_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def import_transformers(source: str | Path, out: str | Path, *, device: str | None = None) -> Run:
    """Make a run of an OpenAIGPT in a folder, or on the hub under this name, and open it."""
    out = Path(out)
    require_new_run(out)
    folder = Path(source) if Path(source).is_dir() else _download(str(source))
    check_sums(folder)
    shape = _read_shape(folder / CONFIG_FILE)
    weights = to_ours(_read_weights(folder), shape.layers, str(folder / WEIGHTS_FILE))
    tokenizer = _read_tokenizer(folder)
    return _write_run(out, Imported("transformers", str(source)), shape, weights, tokenizer, device=device)


def _read_shape(path: Path) -> Shape:
    found = read_json(path, "the configuration of an OpenAIGPT")
    if found.get("model_type") != "openai-gpt":
        raise InputError(f"{path} is of a '{found.get('model_type')}', not of an openai-gpt; only that can be imported")
    if found.get("afn", "gelu") not in ("gelu", "gelu_new") or found.get("layer_norm_epsilon", EPSILON) != EPSILON:
        raise InputError(f"{path}: an activation or a norm that GPT-1 has not; this cannot be imported")
    sizes = check_record(found, _Sizes, path)
    try:
        return Shape(
            layers=sizes["n_layer"],
            width=sizes["n_embd"],
            heads=sizes["n_head"],
            feed_forward=WIDER * sizes["n_embd"],
            context=sizes["n_positions"],
            dropout=sizes.get("resid_pdrop", Shape().dropout),
        )
    except SettingError as error:
        raise FormatError(f"{path}: {error}") from None


def _read_weights(folder: Path) -> Tensors:
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        pickles = sorted(other.name for other in folder.glob("*.bin"))
        if pickles:
            raise InputError(
                f"{folder} has its weights in {pickles[0]}, a pickle, which can run anything when it is opened; save "
                f"the model again with transformers' save_pretrained, which writes {WEIGHTS_FILE}, and import that"
            )
        raise missing(path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from error


def _read_tokenizer(folder: Path) -> Tokenizer:
    """Return the vocabulary with the paper's rules: from the release's two files, or from the library's one."""
    if (folder / VOCABULARY_FILE).is_file() and (folder / MERGES_FILE).is_file():
        return import_tokenizer(folder / VOCABULARY_FILE, folder / MERGES_FILE)
    path = folder / FAST_FILE
    if not path.is_file():
        raise missing(folder / VOCABULARY_FILE, f"is not there with {MERGES_FILE}, nor is {FAST_FILE}")
    model = check_record(read_json(path, "a vocabulary"), _Fast, path)["model"]
    ids = model["vocab"]
    try:
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        return new_tokenizer("words", sorted(ids, key=ids.__getitem__), [(left, right) for left, right in pairs])
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path} is not the vocabulary of an OpenAIGPT: {error}") from None


def _download(name: str) -> Path:
    """Fetch what is needed of a model on the hub."""
    if not _HUB_NAME.fullmatch(name):
        raise missing(Path(name))
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingDependency(
            f"there is no folder {name}; to fetch a model of that name from the hub: pip install 'gpt1[hub]'"
        ) from None
    wanted = [CONFIG_FILE, WEIGHTS_FILE, VOCABULARY_FILE, MERGES_FILE, FAST_FILE, SUMS_FILE]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the library and those below it raise errors of many families
        raise InputError(
            f"there is no folder {name}, and the hub does not give a model of that name: {error}"
        ) from error


# ---- the run ----


def _write_run(
    out: Path, source: Imported, shape: Shape, weights: Tensors, tokenizer: Tokenizer, *, device: str | None
) -> Run:
    """Write a run of these weights, and open it; `source` says where they come from.

    Its arithmetic is in fp32, the precision the weights were published in.
    """
    _check_weights(weights, shape, tokenizer.vocab_size, source.path)
    recipe = replace(PAPER, shape=shape, training=replace(PAPER.training, precision="fp32"))
    record = RunRecord(
        PRETRAINING, recipe, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size, imported=source
    )
    with lock_folder(out):
        require_new_run(out)
        clean_up(out)
        save_checkpoint(out, 0, weights, {}, {}, made_for(record))
        tokenizer.save(out / TOKENIZER_FILE, overwrite=True)
        begin_run(out, record, out / TOKENIZER_FILE)  # which makes the folder a run
    return load_run(out, device=device)


def _check_weights(weights: Tensors, shape: Shape, vocab_size: int, where: str) -> None:
    """Refuse weights that are not those of the network that they were said to be."""
    if (rows := len(weights["tokens"])) != vocab_size:
        raise FormatError(f"{where} has {rows:,} token vectors, but its vocabulary has {vocab_size:,} tokens")
    with torch.device("meta"):
        wanted = {name: tuple(weight.shape) for name, weight in build_model(shape, vocab_size).named_parameters()}
    for name in sorted(wanted.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else None
        if found != wanted.get(name):
            raise FormatError(f"{where} does not fit its shape: {name} has {found}, expected {wanted.get(name)}")
        if not weights[name].isfinite().all():
            raise FormatError(f"{where} holds numbers in {name} that are none (NaN or infinite)")
