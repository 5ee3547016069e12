"""The tokens of a split as one long stream, whatever files they lie in (section 4.1 of the paper).

Opened, not read whole: the shards are memory-mapped, and a read copies what was asked for. What is read was compared
with its checksum: a small split when it is opened, of a large one each block when something in it is first read. Needs
numpy alone, so that a corpus prepared elsewhere trains on a machine without a tokenizer's libraries.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError, InputError, unknown
from gpt1.corpus.manifest import CORPUS_FILE, CorpusManifest, read_corpus, sums_of
from gpt1.corpus.shards import CheckedIds, Shard, open_shard
from gpt1.text.unknowns import text_notice

AT_ONCE = 1 << 28  # bytes of a split that are compared with their checksums when it is opened: a tenth of a second


class TokenStream:
    """All tokens of one split of a corpus, in order.

    `fingerprint` and `vocab_size` are the tokenizer's; `bytes` counts the raw documents, `unknown_tokens` what is not
    in the vocabulary; `identity` is a hash that changes with the tokens, by which a run that is resumed knows its data
    again; `notices` are what a person should know.
    """

    def __init__(self, folder: str | Path, split: str) -> None:
        folder = self._folder = Path(folder)
        corpus = read_corpus(folder)
        if split not in corpus.splits:
            raise unknown("split", split, corpus.splits, of=f"the corpus {folder}")
        shards = _open_shards(folder, corpus, split)
        sums = sums_of(folder, corpus)
        self.bytes = corpus.splits[split].bytes
        self.unknown_tokens = corpus.splits[split].unknown_tokens or 0
        self.fingerprint = corpus.tokenizer.fingerprint
        self.vocab_size = corpus.tokenizer.vocab_size
        self.identity = hashlib.sha256("".join(shard.checksum for shard in shards).encode()).hexdigest()
        self._shards = [CheckedIds(shard, None if sums is None else sums[shard.path.name]) for shard in shards]
        told = text_notice(f"{folder}, {split}", self.unknown_tokens, corpus.splits[split].tokens)
        self.notices = [] if told is None else [told]
        if sum(len(shard.content) for shard in shards) <= AT_ONCE:
            for checked in self._shards:
                checked.compare_all()
        elif sums is None:
            self.notices.append(
                f"{folder} was made before blocks of shards had checksums: each shard is read whole when it is first "
                "used, so that the first updates are slow; the 'gpt1 prepare' that made it, run again, adds them"
            )
        self._ends = np.cumsum([len(ids) for ids in self._shards], dtype=np.int64)
        if len(self) == 0:
            raise InputError(
                f"the split '{split}' of the corpus {folder} is empty; make the corpus anew with more text, or "
                "with another share for validation by `gpt1.prepare(valid=SHARE)`"
            )

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, starts: npt.ArrayLike, length: int) -> npt.NDArray[np.int32]:
        """Return the `length` tokens from each of `starts` on, a row for each."""
        starts = np.asarray(starts, np.int64)
        if starts.size and not (starts.min() >= 0 and starts.max() + length <= len(self)):
            raise IndexError(f"{length} tokens from {starts.min()} to {starts.max()} on are not all in {len(self)}")
        rows = np.empty((len(starts), length), np.int32)
        first_shards = np.searchsorted(self._ends, starts, side="right")
        for row, start, shard in zip(rows, starts.tolist(), first_shards.tolist(), strict=True):
            self._fill(row, start, shard)
        if rows.size and rows.max() >= self.vocab_size:
            raise FormatError(
                f"the corpus {self._folder} is damaged: it holds token {rows.max()} of {self.vocab_size}; prepare it "
                "anew"
            )
        return rows

    def _fill(self, row: npt.NDArray[np.int32], start: int, shard: int) -> None:
        """Copy the tokens from `start` on, which is in `shard`, and go on in the next shards as far as the row goes."""
        while len(row):
            before = int(self._ends[shard]) - len(self._shards[shard])
            here = self._shards[shard].read(start - before, start - before + len(row))
            row[: len(here)] = here
            row, start, shard = row[len(here) :], start + len(here), shard + 1


def validation_text(corpus: Path) -> TokenStream | None:
    """Return the text for validation, or None where a corpus has none, or too little of it to predict a token."""
    try:
        stream = TokenStream(corpus, "valid")
    except InputError:
        return None
    return stream if len(stream) > 1 else None


def _open_shards(folder: Path, corpus: CorpusManifest, split: str) -> list[Shard]:
    """Open the shards of a split; each must be of the tokenizer and of the length that corpus.json gives."""
    shards = []
    for recorded in corpus.splits[split].shards:
        shard = open_shard(folder / recorded.file)
        if shard.fingerprint != corpus.tokenizer.fingerprint:
            raise FormatError(
                f"{shard.path} was made with another tokenizer than {folder / CORPUS_FILE} names; "
                "make it anew with `gpt1.prepare(restart=True)`"
            )
        if len(shard.ids) != recorded.tokens:
            raise FormatError(
                f"{shard.path} holds {len(shard.ids):,} tokens, {folder / CORPUS_FILE} asks for {recorded.tokens:,}; "
                "make it anew with `gpt1.prepare(restart=True)`"
            )
        shards.append(shard)
    return shards
