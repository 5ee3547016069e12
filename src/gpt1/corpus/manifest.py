"""What `corpus.json` holds: a prepared corpus, written last of all, and which shards are its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError, Gpt1Error, InputError
from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart, Size
from gpt1.corpus.shards import RecordedShard, RecordedSums, blocks_in, is_shard_name, open_shard, read_sums

CORPUS_FILE, SUMS_FILE = "corpus.json", "blocks.crc32"
WORK = ".gpt1-work"  # what an unfinished preparation has


@dataclass(frozen=True, kw_only=True)
class RecordedTokenizer(RecordPart):
    """The tokenizer that a corpus was made with."""

    kind: str = ""
    vocab_size: Size
    fingerprint: str
    newline_id: Count | None = None


@dataclass(frozen=True)
class DocumentCounts(RecordPart):
    """How many documents were read, and for which reasons so many of them were dropped."""

    read: Count
    dropped: dict[str, Count]


@dataclass(frozen=True, kw_only=True)
class CorpusSplit(RecordPart):
    """What was kept for training, or for validation."""

    documents: Count
    tokens: Count
    bytes: Count
    unknown_tokens: Count | None = None
    shards: list[RecordedShard]


@dataclass(frozen=True, kw_only=True)
class CorpusManifest(Record):
    """A corpus."""

    FORMAT, NAME, WHAT = "gpt1-corpus", "corpus", "the description of a corpus"
    REMEDY = "make it anew with `gpt1.prepare(restart=True)`"

    plan: dict[str, str] = field(default_factory=dict)  # what tells this preparation from all others
    tokenizer: RecordedTokenizer
    documents: DocumentCounts
    splits: dict[str, CorpusSplit]
    blocks: RecordedSums | None = None  # of a corpus that was made before there were any: none

    @classmethod
    def check_version(cls, value: dict[str, Any], path: Path, remedy: str) -> None:
        """Refuse what is no corpus."""
        if value.get("format") != cls.FORMAT:
            raise InputError(f"{path} is not {cls.WHAT} of ours")


def read_corpus(folder: str | Path) -> CorpusManifest:
    """Return the description of a prepared corpus, its shards checked for presence and size."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with a corpus; make one with `gpt1.prepare()`")
    if not (folder / CORPUS_FILE).exists():
        if (folder / WORK).exists():
            raise InputError(f"{folder} holds an unfinished preparation; the same `gpt1.prepare()` again finishes it")
        raise InputError(
            f"{folder} is not a prepared corpus: it has no {CORPUS_FILE}; `gpt1.prepare()` makes a corpus of text"
        )
    corpus = CorpusManifest.read(folder / CORPUS_FILE)
    try:
        for split in corpus.splits.values():
            for shard in split.shards:
                if not is_shard_name(shard.file):
                    raise FormatError(f"{folder / CORPUS_FILE} is damaged: {shard.file!r} is no file of its folder")
                found = open_shard(folder / shard.file)
                if (found.checksum, len(found.starts)) != (shard.sha256, shard.documents):
                    raise FormatError(f"{shard.file} is not the shard that {folder / CORPUS_FILE} names")
    except Gpt1Error as error:
        raise FormatError(f"{error}; {corpus.REMEDY}") from error
    return corpus


def shards_of(folder: Path, corpus: CorpusManifest) -> list[Path]:
    """Return the shards of all splits of a corpus, in the order of the sums of their blocks."""
    return [folder / shard.file for split in corpus.splits.values() for shard in split.shards]


def sums_of(folder: Path, corpus: CorpusManifest) -> dict[str, npt.NDArray[np.uint32]] | None:
    """Return the sums of the blocks of each shard by the name of its file; None where the corpus was made without."""
    if corpus.blocks is None:
        return None
    shards = [open_shard(path) for path in shards_of(folder, corpus)]
    ends = np.cumsum([blocks_in(shard) for shard in shards])
    sums = read_sums(folder / SUMS_FILE, corpus.blocks, int(ends[-1]))
    return {shard.path.name: part for shard, part in zip(shards, np.split(sums, ends[:-1]), strict=True)}
