"""From lots of files to encoded batches: the first step of a preparation, by as many processes as there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpt1.base.errors import FormatError
from gpt1.base.files import make_folder
from gpt1.base.parallel import ordered_map
from gpt1.base.progress import Progress, stage
from gpt1.corpus.batches import Meter, begin_worker, check_batch, encode_batch, read_losses
from gpt1.corpus.documents import Fault, Item, TextReading, TextSource
from gpt1.corpus.lots import Lot, LotShare, ReadLot, find_read, note_read, read_lot, require_unchanged
from gpt1.text.tokenizer import Vocabulary

NOT_READ = TextSource("", "txt")  # in place of a source that is another process's


@dataclass(frozen=True)
class Encoding:
    """All that a process must know to encode any of the batches, wherever it runs."""

    sources: Sequence[TextSource]
    reading: TextReading
    vocabulary: Vocabulary
    sketching: bool  # near duplicates will be looked for
    careful: bool  # end at the first fault
    work: Path


def encode(
    encoding: Encoding,
    shares: Sequence[LotShare],
    *,
    workers: int,
    lessons: Path | None,
    done: Callable[[int], None],
    progress: Progress,
) -> Fault | None:
    """Encode those batches of some shares that are not there yet; a careful one ends at a fault, and returns it.

    Of each batch `done` hears how many bytes of text it held. The workers learn from each other by a folder for
    `lessons`.
    """
    known: list[Fault] = []
    if lessons:
        make_folder(lessons)
    with stage(progress, "encoding") as bar:
        meter = Meter(_own(encoding.sources, shares), bar)
        for text_bytes, faults in ordered_map(
            encode_batch,
            _missing(encoding, shares, known, meter, progress),
            workers=workers,
            initializer=begin_worker,
            initargs=(encoding.vocabulary, encoding.reading.sieve, encoding.sketching, lessons),
        ):
            meter.done(text_bytes)
            done(text_bytes)
            if encoding.careful and faults:
                return faults[0]
    return known[0] if known else None


def _own(sources: Sequence[TextSource], shares: Sequence[LotShare]) -> list[TextSource]:
    """Return the sources with those that are not read as if they were empty."""
    read = {index for share in shares for index in range(share.lot.begin, share.lot.end)}
    return [source if index in read else NOT_READ for index, source in enumerate(sources)]


def _missing(
    encoding: Encoding, shares: Sequence[LotShare], known: list[Fault], meter: Meter, progress: Progress
) -> Iterator[tuple[Path, list[Item]]]:
    """Yield the batches that are to be encoded, each with its file; a careful one ends where a fault is `known`.

    A lot that was read to its end, and of which nothing is missing, is not read again.
    """
    for share in shares:
        found = find_read(share.lot, encoding.work, progress)
        own = filter(share.has, range(found.batches)) if found else ()
        lacking = {number for number in own if not _is_there(encoding, share.lot, number, known, progress)}
        if (found is None or lacking) and not known:
            yield from _read(encoding, share, lacking if found else None, known, meter, progress)
        if known:
            return


def _read(
    encoding: Encoding,
    share: LotShare,
    lacking: set[int] | None,
    known: list[Fault],
    meter: Meter,
    progress: Progress,
) -> Iterator[tuple[Path, list[Item]]]:
    """Yield the batches of a share that are lacking, as far as that is known; keep how many there are in its lot."""
    lot, count = share.lot, 0
    require_unchanged(lot, encoding.sources)
    make_folder(lot.folder(encoding.work))
    for count, batch in enumerate(read_lot(lot, encoding.sources, encoding.reading), 1):
        meter.read(batch)
        number = count - 1
        is_lacking = share.has(number) and (
            not _is_there(encoding, lot, number, known, progress) if lacking is None else number in lacking
        )
        if known:
            return
        if is_lacking:
            yield lot.batch(encoding.work, number), batch
    note_read(lot, encoding.work, ReadLot(count, lot.bytes))


def _is_there(encoding: Encoding, lot: Lot, number: int, known: list[Fault], progress: Progress) -> bool:
    """Whether a batch was encoded before and is as it was written; tell of one that is not.

    Where it is to be careful, what of the batch could not be read is `known` then.
    """
    batch = lot.batch(encoding.work, number)
    try:
        if not (batch.exists() and check_batch(batch)):
            return False
    except FormatError as error:
        progress.say(f"{error}; it is encoded again")
        return False
    if encoding.careful:
        known += read_losses([batch])[1].faults
    return True
