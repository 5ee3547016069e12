"""A corpus of given ids, in the files that `prepare` writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.files import write_json
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE, CorpusManifest, read_corpus, shards_of
from gpt1.corpus.shards import HEADER, HEADER_BYTES, MAGIC, VERSION, id_dtype, verify_shard, write_sums

FINGERPRINT = "ab" * 32


def write_corpus(
    folder: Path,
    splits: Mapping[str, Sequence[int]],
    *,
    shard_tokens: int = 1 << 20,
    vocab_size: int = 1000,
    fingerprint: str = FINGERPRINT,
) -> Path:
    """Write each split as one document in shards of `shard_tokens` tokens, and return the folder.

    Without sums of blocks, which corpora that were made before do not have.
    """
    described = {}
    tokenizer = {"vocab_size": vocab_size, "fingerprint": fingerprint}
    for split, ids in splits.items():
        shards = [
            write_shard(folder / f"{split}-{number:05}.tok", ids[begin : begin + shard_tokens], begin == 0, **tokenizer)
            for number, begin in enumerate(range(0, max(len(ids), 1), shard_tokens))
        ]
        described[split] = {"documents": 1, "tokens": len(ids), "bytes": 5 * len(ids), "shards": shards}
    documents = {"read": len(splits), "dropped": {}}
    facts = {"format": CorpusManifest.FORMAT, "tokenizer": tokenizer, "documents": documents, "splits": described}
    write_json(folder / CORPUS_FILE, facts)
    return folder


def add_sums(folder: Path) -> Path:
    """Give a corpus the sums of blocks that `prepare` writes, and return the folder."""
    corpus = read_corpus(folder)
    blocks = write_sums(folder / SUMS_FILE, map(verify_shard, shards_of(folder, corpus)))
    write_json(folder / CORPUS_FILE, replace(corpus, blocks=blocks).as_json())
    return folder


def write_shard(
    path: Path, ids: Sequence[int], opens: bool, vocab_size: int, fingerprint: str = FINGERPRINT
) -> dict[str, Any]:
    """Write a shard, in which a document begins or not, and return what corpus.json says of it."""
    dtype = id_dtype(vocab_size)
    content = np.array(ids, dtype).tobytes()
    content += bytes(-len(content) % 8) + np.zeros(int(opens), "<u8").tobytes()
    checksum = hashlib.sha256(content)
    facts = (MAGIC, VERSION, dtype.itemsize, len(ids), int(opens), bytes.fromhex(fingerprint), checksum.digest())
    path.write_bytes(HEADER.pack(*facts).ljust(HEADER_BYTES, b"\0") + content)
    return {"file": path.name, "tokens": len(ids), "documents": int(opens), "sha256": checksum.hexdigest()}
