"""The released vocabulary of GPT-1: `encoder_bpe_40000.json` and `vocab_40000.bpe`, or files of that form."""

from __future__ import annotations

from pathlib import Path

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import read_json
from gpt1.text.tokenizer import Tokenizer, new_tokenizer


def import_tokenizer(vocabulary_file: str | Path, merges_file: str | Path) -> Tokenizer:
    """Return the `words` tokenizer of a vocabulary file (token to id) and a merges file (one merge a line)."""
    tokens = _read_vocabulary(Path(vocabulary_file))
    merges = _read_merges(Path(merges_file))
    try:
        return new_tokenizer("words", tokens, merges)
    except FormatError as error:
        raise FormatError(f"{vocabulary_file} and {merges_file} do not fit together: {error}") from error


def _read_vocabulary(path: Path) -> list[str]:
    if path.is_file() and path.read_bytes().startswith(b"#version"):
        raise FormatError(f"{path} is a merges file; name the vocabulary first, then the merges")
    ids = read_json(path, "a vocabulary file (a JSON object of token to id)")
    tokens = {id: token for token, id in ids.items() if isinstance(id, int)}
    if tokens.keys() != set(range(len(ids))):
        raise FormatError(f"{path} is not a vocabulary file: its ids are not 0 to {len(ids) - 1}, each once")
    return [tokens[id] for id in range(len(ids))]


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"cannot read the merges file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a merges file: byte {error.start} is not UTF-8") from None
    if not lines[0].startswith("#version"):
        raise FormatError(f"{path} is not a merges file: it should begin with a line '#version: 0.2'")
    merges = []
    for number, line in enumerate(lines[1:], 2):
        parts = line.split(" ")
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
        elif line:
            raise FormatError(f"{path}, line {number}: a merge is two pieces with a blank between, not {line!r}")
    return merges
