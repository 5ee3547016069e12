"""Training a vocabulary on files: `gpt1 tokenizer train`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpt1.base.errors import InputError, unknown
from gpt1.base.files import result_file
from gpt1.base.parallel import cores, ordered_map
from gpt1.base.progress import Progress, Silent, stage
from gpt1.corpus.batches import Meter, announce, in_batches
from gpt1.corpus.documents import DocumentPart, Fault, Found, find_sources, read_parts
from gpt1.corpus.pages import LeftOutCounts, by_reason, in_words
from gpt1.text.tokenizer import KINDS, Tokenizer, tokenizer_target
from gpt1.text.training import CHARACTERS, WordCounter, train_bytes, train_words

MERGES = 40_000  # the paper's
MOST_WORDS = 5_000_000  # beyond these, words seen once are forgotten


def train_tokenizer(
    paths: str | Path | Sequence[str | Path],
    kind: str = "words",
    merges: int = MERGES,
    out: str | Path | None = None,
    *,
    characters: int = CHARACTERS,
    document: str | None = None,
    field: str | None = None,
    encoding: str = "utf-8",
    unwrap: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Tokenizer:
    """Learn a vocabulary of `kind` from text files, save it to `out` if that is given, and return it.

    Memory stays bounded whatever the size of the text, and the same text gives the same vocabulary. A tokenizer that
    `out` holds is replaced only to `overwrite` it.
    """
    progress = progress or Silent()
    if kind not in KINDS:
        raise unknown("kind of tokenizer", kind, KINDS)
    target = None if out is None else tokenizer_target(out, overwrite=overwrite)
    paths = [paths] if isinstance(paths, str | Path) else paths
    found = find_sources([str(path) for path in paths], field=field)  # before there is a file of ours among them
    workers = workers or cores()
    left_out: LeftOutCounts = Counter()
    parts = read_parts(
        found.sources,
        document=document,
        field=field,
        encoding=encoding,
        unwrap=unwrap,
        workers=workers,
        left_out=left_out,
    )
    if target is None:
        return _train(found, parts, kind, merges, characters, workers, progress, left_out)
    with result_file(target, overwrite=overwrite) as file:  # what is being written is told before the work
        tokenizer = _train(found, parts, kind, merges, characters, workers, progress, left_out)
        file.write(tokenizer.content())
    return tokenizer


def _train(
    found: Found,
    parts: Iterator[DocumentPart | Fault],
    kind: str,
    merges: int,
    characters: int,
    workers: int,
    progress: Progress,
    left_out: LeftOutCounts,
) -> Tokenizer:
    announce(found, progress)
    with stage(progress, "reading") as bar:
        meter = Meter(found.sources, bar)
        if kind == "bytes":
            tokenizer = train_bytes(_texts(parts, meter), merges)
        else:
            counts = _count_words(parts, meter, workers, progress)
    if left_out:
        progress.say(f"left out: {in_words(by_reason(left_out))}")
    if kind == "words":
        progress.say(f"learning {merges:,} merges from {len(counts):,} distinct words")
        tokenizer = train_words(counts, merges, characters)
    learned = len(tokenizer.vocabulary.merges)
    if learned < merges:
        progress.say(f"the text has pairs for {learned:,} merges only, not {merges:,}")
    return tokenizer


def _batches(parts: Iterator[DocumentPart | Fault], meter: Meter) -> Iterator[list[DocumentPart]]:
    for batch in in_batches(map(_sound, parts)):
        meter.read(batch)
        yield batch


def _sound(part: DocumentPart | Fault) -> DocumentPart:
    if isinstance(part, Fault):
        raise InputError(part.message)
    return part


def _texts(parts: Iterator[DocumentPart | Fault], meter: Meter) -> Iterator[str]:
    for batch in _batches(parts, meter):
        for part in batch:
            yield part.text
        meter.done(sum(part.raw_bytes for part in batch))


def _count_words(parts: Iterator[DocumentPart | Fault], meter: Meter, workers: int, progress: Progress) -> Counter[str]:
    counts: Counter[str] = Counter()
    forgotten = 0
    for batch_counts, text_bytes in ordered_map(
        _count_batch, _batches(parts, meter), workers=workers, initializer=_begin_worker, initargs=()
    ):
        counts.update(batch_counts)
        meter.done(text_bytes)
        if len(counts) > MOST_WORDS:
            before = len(counts)
            counts = Counter({word: count for word, count in counts.items() if count > 1})
            forgotten += before - len(counts)
    if forgotten:
        progress.say(f"forgot {forgotten:,} words seen once, to keep memory bounded")
    return counts


_counter: WordCounter | None = None


def _begin_worker() -> None:
    global _counter
    _counter = WordCounter()


def _count_batch(batch: list[DocumentPart]) -> tuple[dict[str, int], int]:
    assert _counter is not None
    return _counter.count([part.text for part in batch]), sum(part.raw_bytes for part in batch)
