"""Putting a corpus together from its encoded batches: which documents stay, where they go, the shards, the report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.files import whole_file
from gpt1.base.progress import Progress, stage
from gpt1.base.strict_json import to_json
from gpt1.corpus.batches import read_batch, read_positions
from gpt1.corpus.documents import Losses, TextSource
from gpt1.corpus.duplicates import DIGEST_BYTES, SketchIndex, find_exact
from gpt1.corpus.manifest import SUMS_FILE, WORK, CorpusManifest, CorpusSplit, DocumentCounts, RecordedTokenizer
from gpt1.corpus.pages import by_reason
from gpt1.corpus.shards import BlockSums, RecordedShard, Stream, id_dtype, write_shards, write_sums
from gpt1.text.tokenizer import Tokenizer, joints_before

DROPPED_FILE = "dropped.jsonl"
SPLITS = ("train", "valid")
# What became of a document: it went to a split, or was dropped for a reason.
TRAIN, VALID, EMPTY, EXACT, NEAR, BROKEN = range(6)
REASONS = {EMPTY: "empty", EXACT: "exact duplicate", NEAR: "near duplicate"}
# A document larger than this share of the corpus is never taken for validation.
MOST_VALID = 0.5

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool]


@dataclass(frozen=True)
class Parts:
    """All parts of all batches in a row, one array a fact. A document is a run of parts from a first to a last."""

    first: Bools
    last: Bools
    tokens: Ints
    joint: Bools
    raw_bytes: Ints
    unknown: Ints
    digest: npt.NDArray[np.uint8]
    source: npt.NDArray[np.int32]

    @classmethod
    def read(cls, batches: Sequence[Path]) -> tuple[Parts, Ints]:
        """Read the parts of all batches, and where each batch begins among them."""
        names = list(cls.__dataclass_fields__)
        columns: list[list[npt.NDArray[Any]]] = [[] for _ in names]
        for batch in batches:
            for column, array in zip(columns, read_batch(batch, *names), strict=True):
                column.append(array)
        sizes = [len(array) for array in columns[0]]
        return cls(*map(np.concatenate, columns)), np.cumsum([0, *sizes])


@dataclass(frozen=True)
class Documents:
    """The documents that the parts make up, one array a fact; one that broke off is marked as such."""

    begins: Ints  # the part each begins with
    of_part: Ints  # the document each part belongs to
    tokens: Ints
    raw_bytes: Ints
    unknown: Ints
    broken: Bools
    digest: npt.NDArray[np.void]
    opens: Bools  # of parts: the document's first tokens are in this part
    joint_before: Bools  # of parts: a newline token stands before this part

    @classmethod
    def of(cls, parts: Parts) -> Documents:
        """Put parts together into documents."""
        begins = np.flatnonzero(parts.first)
        of_part = np.cumsum(parts.first) - 1
        broken = ~np.logical_or.reduceat(parts.last, begins)
        opens = parts.first.copy()
        joint_before = np.zeros(len(parts.first), bool)
        digest = parts.digest[begins]
        sizes = np.diff(begins, append=len(parts.first))
        for document in np.flatnonzero(sizes > 1):  # documents of over a million characters
            own = slice(begins[document], begins[document] + sizes[document])
            joint_before[own] = joints_before(parts.tokens[own].tolist(), parts.joint[own].tolist())
            opens[own] = False
            opens[own.start + np.argmax(parts.tokens[own] > 0)] = True
            whole = hashlib.blake2b(parts.digest[own].tobytes(), digest_size=DIGEST_BYTES).digest()
            digest[document] = np.frombuffer(whole, np.uint8)
        return cls(
            begins=begins,
            of_part=of_part,
            tokens=np.add.reduceat(parts.tokens + joint_before, begins),
            raw_bytes=np.add.reduceat(parts.raw_bytes, begins),
            unknown=np.add.reduceat(parts.unknown, begins),
            broken=broken,
            digest=np.ascontiguousarray(digest).view(f"V{DIGEST_BYTES}").ravel(),
            opens=opens,
            joint_before=joint_before,
        )


@dataclass(frozen=True)
class EncodedText:
    """Encoded batches, where each begins among the parts of all of them, and the documents that these make up."""

    batches: Sequence[Path]
    begins: Ints
    parts: Parts
    documents: Documents

    @classmethod
    def read(cls, batches: Sequence[Path]) -> EncodedText:
        """Read all but the ids."""
        parts, begins = Parts.read(batches)
        return cls(batches, begins, parts, Documents.of(parts))


def assemble(
    batches: Sequence[Path],
    losses: Losses,
    sources: Sequence[TextSource],
    tokenizer: Tokenizer,
    out: Path,
    *,
    duplicates: str,
    valid: float,
    shard_tokens: int,
    threads: int,
    progress: Progress,
) -> CorpusManifest:
    """Write the shards and the list of dropped documents; return the description of the corpus."""
    text = EncodedText.read(batches)
    fate, original = _decide(text, duplicates, out / WORK)
    _split(text.documents, fate, valid)
    dtype = id_dtype(tokenizer.vocab_size)
    shards: dict[str, list[RecordedShard]] = {split: [] for split in SPLITS}
    sums: list[BlockSums] = []
    for code, split in enumerate(SPLITS):
        stream = _stream(text, fate, code, tokenizer.newline_id)
        with stage(progress, f"writing {split}") as bar:
            for shard, own, share in write_shards(
                out, split, stream, dtype, tokenizer.fingerprint, shard_tokens, threads
            ):
                shards[split].append(shard)
                sums.append(own)
                bar.update(share, 0)
    _write_dropped(out / DROPPED_FILE, text, fate, original, losses, sources)
    corpus = _describe(text.documents, fate, losses, shards, tokenizer)
    return replace(corpus, blocks=write_sums(out / SUMS_FILE, sums))


def _decide(text: EncodedText, duplicates: str, work: Path) -> tuple[Ints, Ints]:
    """Return what becomes of each document, the split aside, and which one it repeats (-1: none)."""
    documents = text.documents
    fate = np.where(documents.broken, BROKEN, np.where(documents.tokens == 0, EMPTY, TRAIN))
    original = np.full(len(fate), -1, np.int64)
    if duplicates in ("exact", "near"):
        exact = find_exact(documents.digest, fate == TRAIN)
        fate[exact >= 0] = EXACT
        original = np.maximum(original, exact)
    if duplicates == "near":
        index = SketchIndex(work, len(fate))
        for batch, begin in zip(text.batches, text.begins, strict=False):
            (sketches,) = read_batch(batch, "sketch")
            index.add(documents.of_part[begin : begin + len(sketches)], sketches)
        near = index.find_near(fate == TRAIN)
        fate[near >= 0] = NEAR
        original = np.maximum(original, near)
    return fate, original


def _split(documents: Documents, fate: Ints, valid: float) -> None:
    """Give validation its share of the tokens: whole documents, in the order of their hashes, as far as they fit.

    Where none fits, the smallest document is taken, unless it is half of the corpus.
    """
    kept = np.flatnonzero(fate == TRAIN)
    total = int(documents.tokens[kept].sum())
    if not valid or not total:
        return
    ordered = kept[np.argsort(documents.digest[kept], kind="stable")]
    fitting = ordered[documents.tokens[ordered] <= valid * total]
    taken = fitting[np.cumsum(documents.tokens[fitting]) <= valid * total]
    if not len(taken):
        taken = ordered[[np.argmin(documents.tokens[ordered])]]
        if documents.tokens[taken[0]] > MOST_VALID * total:
            return
    fate[taken] = VALID


def _stream(text: EncodedText, fate: Ints, code: int, newline: int) -> Stream:
    """Return the tokens of a split, batch by batch: its documents, a newline after each."""
    parts, documents = text.parts, text.documents
    chosen = fate[documents.of_part] == code
    after = parts.last & (documents.tokens[documents.of_part] > 0)
    tokens = np.where(chosen, documents.joint_before + parts.tokens + after, 0)

    def stretch(number: int) -> tuple[npt.NDArray[Any], Ints]:
        own = slice(text.begins[number], text.begins[number + 1])
        (ids,) = read_batch(text.batches[number], "ids")
        ids, begins = lay_out(ids, parts.tokens[own], documents.joint_before[own], after[own], chosen[own], newline)
        return ids, begins[documents.opens[own][chosen[own]]]

    return Stream(np.add.reduceat(tokens, text.begins[:-1]), stretch)


def lay_out(
    ids: npt.NDArray[Any], tokens: Ints, before: Bools, after: Bools, chosen: Bools, newline: int
) -> tuple[npt.NDArray[Any], Ints]:
    """Return the ids of the chosen parts with newlines before and after them as marked, and where each part begins."""
    if not chosen.all():
        ids = ids[np.repeat(chosen, tokens)]
        tokens, before, after = tokens[chosen], before[chosen], after[chosen]
    ends = np.cumsum(before + tokens + after)
    begins = ends - (before + tokens + after)
    is_id = np.ones(int(ends[-1]), bool)
    is_id[begins[before]] = is_id[ends[after] - 1] = False
    result = np.full(len(is_id), newline, ids.dtype)
    result[is_id] = ids
    return result, begins


def _read_places(text: EncodedText, wanted: Ints, names: Sequence[str]) -> dict[int, dict[str, str]]:
    """Return where documents stand in the files the user gave, reading each batch once."""
    first_parts = text.documents.begins[wanted]
    batch_of = np.searchsorted(text.begins, first_parts, side="right") - 1
    places = {}
    for batch in np.unique(batch_of):
        positions = read_positions(text.batches[batch])
        for document, part in zip(wanted[batch_of == batch], first_parts[batch_of == batch], strict=True):
            places[int(document)] = _place(names[text.parts.source[part]], positions[part - text.begins[batch]])
    return places


def _place(source: str, position: str) -> dict[str, str]:
    return {"source": source, "position": position} if position else {"source": source}


def _write_dropped(
    path: Path,
    text: EncodedText,
    fate: Ints,
    original: Ints,
    losses: Losses,
    sources: Sequence[TextSource],
) -> None:
    """Write a line for every document that was dropped: where it stood, why, and what it repeats.

    What was left out, of which there may be millions, has a line for each source and reason.
    """
    names = [source.name for source in sources]
    dropped = np.flatnonzero(np.isin(fate, list(REASONS)))
    wanted = np.unique(np.concatenate([dropped, original[original >= 0]]))
    places = _read_places(text, wanted, names)
    with whole_file(path) as file:

        def write(row: Mapping[str, object]) -> None:
            file.write((to_json(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))

        for document in dropped.tolist():
            repeats = {"repeats": places[original[document]]} if original[document] >= 0 else {}
            write({**places[document], "reason": REASONS[fate[document]], **repeats})
        for fault in losses.faults:
            place = _place(names[fault.source], fault.position)
            write({**place, "reason": fault.reason, "message": fault.message})
        for (source, reason), count in sorted(losses.left_out.items()):
            write({"source": names[source], "reason": reason, "documents": count})


def _describe(
    documents: Documents,
    fate: Ints,
    losses: Losses,
    shards: dict[str, list[RecordedShard]],
    tokenizer: Tokenizer,
) -> CorpusManifest:
    dropped = Counter(fault.reason for fault in losses.faults) + by_reason(losses.left_out)
    dropped.update({reason: int((fate == code).sum()) for code, reason in REASONS.items()})
    splits = {}
    for code, split in enumerate(SPLITS):
        own = fate == code
        splits[split] = CorpusSplit(
            documents=int(own.sum()),
            tokens=int(documents.tokens[own].sum() + own.sum()),  # a newline ends each document
            bytes=int(documents.raw_bytes[own].sum()),
            unknown_tokens=int(documents.unknown[own].sum()),
            shards=shards[split],
        )
    return CorpusManifest(
        tokenizer=RecordedTokenizer(
            kind=tokenizer.kind,
            vocab_size=tokenizer.vocab_size,
            fingerprint=tokenizer.fingerprint,
            newline_id=tokenizer.newline_id,
        ),
        documents=DocumentCounts(
            int((fate != BROKEN).sum()) + len(losses.faults) + losses.left_out.total(),
            {reason: count for reason, count in sorted(dropped.items()) if count},
        ),
        splits=splits,
    )
