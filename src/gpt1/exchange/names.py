"""What OpenAI's release and transformers call the parts of the paper's network, how they store them, in which files.

Both store a matrix input x output and in the same order; ours are output x input. Only the paper's network has a place
there: another shape is refused with what differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import file_hash
from gpt1.base.record_files import Record
from gpt1.model.layers import LAYER_EPSILON
from gpt1.recipes.values import TRANSFORMER, Shape
from gpt1.runs.checkpoints import Tensors

# Ours -> theirs, in the order of the release; in each part a matrix (or gain), then a bias.
PARTS = {
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "norm_1": "ln_1",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
    "norm_2": "ln_2",
}
TOKENS, POSITIONS = "tokens", "positions"
# What transformers calls the rest, and its files.
THEIR_TOKENS, THEIR_POSITIONS, THEIR_OUTPUT = "tokens_embed.weight", "positions_embed.weight", "lm_head.weight"
PREFIX = "transformer."
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
VOCABULARY_FILE, MERGES_FILE, FAST_FILE = "vocab.json", "merges.txt", "tokenizer.json"
_DERIVED = re.compile(r"h\.\d+\.attn\.bias|position_ids")  # tables that older files hold and anybody can make
WIDER = 4  # times the width: what the feed-forward part has there
EPSILON = LAYER_EPSILON  # which both share with us


def block_names(layer: int) -> list[tuple[str, str]]:
    """Return our name and theirs of each tensor of a block, in the order of the release."""
    return [
        (f"blocks.{layer}.{ours}.{kind}", f"h.{layer}.{theirs}.{theirs_kind}")
        for ours, theirs in PARTS.items()
        for kind, theirs_kind in (("gain" if ours.startswith("norm") else "weight", "weight"), ("bias", "bias"))
    ]


def turned(tensors: Tensors) -> Tensors:
    """Return the tensors of blocks with their matrices turned over, from our order to theirs or back."""
    return {
        name: tensor.mT.contiguous() if tensor.dim() == 2 and name not in (TOKENS, POSITIONS) else tensor
        for name, tensor in tensors.items()
    }


def to_ours(theirs: Tensors, layers: int, where: str) -> Tensors:
    """Return an OpenAIGPT's tensors under our names."""
    theirs = {name.removeprefix(PREFIX): tensor.float() for name, tensor in theirs.items()}
    theirs = {name: tensor for name, tensor in theirs.items() if not _DERIVED.fullmatch(name)}
    output = theirs.pop(THEIR_OUTPUT, None)
    if output is not None and not output.equal(theirs.get(THEIR_TOKENS, output)):
        raise InputError(f"{where}: its output matrix is not its token table; GPT-1's is, so this cannot be imported")
    if layers > len(theirs):
        raise FormatError(f"{where} has {len(theirs)} tensors; it does not hold an OpenAIGPT of {layers:,} layers")
    names = _names(layers)
    if absent := [name for name in names.values() if name not in theirs]:
        raise FormatError(f"{where} has no tensor '{absent[0]}'; it does not hold an OpenAIGPT of {layers} layers")
    if more := sorted(theirs.keys() - set(names.values())):
        raise InputError(f"{where} has a tensor '{more[0]}' that GPT-1 has not; only language models can be imported")
    return turned({ours: theirs[name] for ours, name in names.items()})


def to_theirs(ours: Tensors, layers: int) -> Tensors:
    """Return our tensors under an OpenAIGPT's names, in full precision."""
    ours = turned(ours)
    return {PREFIX + theirs: ours[name].float().contiguous() for name, theirs in _names(layers).items()}


def _names(layers: int) -> dict[str, str]:
    blocks = [pair for layer in range(layers) for pair in block_names(layer)]
    return {TOKENS: THEIR_TOKENS, POSITIONS: THEIR_POSITIONS, **dict(blocks)}


def check_shape(shape: Shape, what: str) -> None:
    """Refuse a network that is not of the paper's form, naming what differs."""
    differs = {
        f"it is an {shape.kind.upper()}": shape.kind != TRANSFORMER,
        f"its norms are {shape.norm} norms": shape.norm != "layer",
        "it normalises before each branch": shape.norm_first,
        f"its positions are {shape.positions}": shape.positions != "learned",
        f"its activation is {shape.activation}": shape.activation != "gelu",
        "it normalises queries and keys": shape.qk_norm,
        "it has no biases": not shape.bias,
        "its output matrix is its own": not shape.tied,
        f"it looks back {shape.window} tokens": shape.window is not None and shape.window < shape.context,
        f"its feed-forward part is {shape.feed_forward} wide, not {WIDER} x {shape.width}": shape.feed_forward
        != WIDER * shape.width,
    }
    if found := [sentence for sentence, holds in differs.items() if holds]:
        raise InputError(f"{what} is not of the paper's form, the only one OpenAIGPT has: {', '.join(found)}")


# ---- gpt1.json, which an export holds besides what transformers reads: the sha256 of each of its files ----

SUMS_FILE = "gpt1.json"


@dataclass(frozen=True)
class ExportSums(Record):
    """The sha256 of each file of an export."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-export", 1, "export", "the checksums of an export"
    REMEDY = f"export the run again, or remove {SUMS_FILE} where the files were changed on purpose"

    files: dict[str, str]


def write_sums(folder: Path) -> None:
    """Note the checksums of all files of an export."""
    files = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    ExportSums(files).write(folder / SUMS_FILE)


def check_sums(folder: Path) -> None:
    """Refuse an export whose files are not as they were written; a folder without the sums is another program's."""
    if not (folder / SUMS_FILE).is_file():
        return
    sums = ExportSums.read(folder / SUMS_FILE).files
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name in sums and file_hash(path) != sums[path.name]:
            raise FormatError(f"{path} is damaged: its sha256 is not the one in {SUMS_FILE}; {ExportSums.REMEDY}")
