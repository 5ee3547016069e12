"""transformers' OpenAIGPT in: `config.json`, `model.safetensors` and the vocabulary, read without the library itself.

Weights come from safetensors alone: a pickle can run anything when it is opened.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NotRequired, TypedDict

from safetensors import SafetensorError
from safetensors.torch import load_file

from gpt1.base.errors import FormatError, InputError, MissingDependency, SettingError
from gpt1.base.files import missing, read_json
from gpt1.base.records import Size, check_record
from gpt1.exchange.imported import check_target, write_run
from gpt1.exchange.names import (
    CONFIG_FILE,
    EPSILON,
    FAST_FILE,
    MERGES_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    WIDER,
    to_ours,
)
from gpt1.exchange.sums import SUMS_FILE, check_sums
from gpt1.inference.run import Run
from gpt1.recipes.values import Shape
from gpt1.records.run import Imported
from gpt1.runs.checkpoints import Tensors
from gpt1.text.tokenizer import Tokenizer, new_tokenizer
from gpt1.text.training import import_tokenizer


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
    check_target(out)
    folder = Path(source) if Path(source).is_dir() else _download(str(source))
    check_sums(folder)
    shape = _read_shape(folder / CONFIG_FILE)
    weights = to_ours(_read_weights(folder), shape.layers, str(folder / WEIGHTS_FILE))
    tokenizer = _read_tokenizer(folder)
    return write_run(out, Imported("transformers", str(source)), shape, weights, tokenizer, device=device)


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
