"""From lots of files to encoded batches: the first step of a preparation, by as many processes as there are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpt1.base.errors import FormatError
from gpt1.base.files import make_folder
from gpt1.base.parallel import ordered_map
from gpt1.base.progress import Progress, stage
from gpt1.corpus.batches import Meter, begin_worker, check_batch, encode_batch
from gpt1.corpus.documents import DocumentPart, Fault, TextReading, TextSource
from gpt1.corpus.lots import LotShare, ReadLot, find_read, note_read, read_lot, require_unchanged
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
) -> list[Fault]:
    """Encode those batches of some shares that are not there yet; return what could not be read.

    Of each batch `done` hears how many bytes of text it held. The workers learn from each other by a folder for
    `lessons`.
    """
    faults: list[Fault] = []
    if lessons:
        make_folder(lessons)
    with stage(progress, "encoding") as bar:
        meter = Meter(_own(encoding.sources, shares), bar)
        for text_bytes in ordered_map(
            encode_batch,
            _missing(encoding, shares, faults, meter, progress),
            workers=workers,
            initializer=begin_worker,
            initargs=(encoding.vocabulary, encoding.sketching, lessons),
        ):
            meter.done(text_bytes)
            done(text_bytes)
    return faults


def _own(sources: Sequence[TextSource], shares: Sequence[LotShare]) -> list[TextSource]:
    """Return the sources with those that are not read as if they were empty."""
    read = {index for share in shares for index in range(share.lot.begin, share.lot.end)}
    return [source if index in read else NOT_READ for index, source in enumerate(sources)]


def _missing(
    encoding: Encoding, shares: Sequence[LotShare], faults: list[Fault], meter: Meter, progress: Progress
) -> Iterator[tuple[Path, list[DocumentPart]]]:
    """Yield the batches that are to be encoded, each with its file; put what cannot be read with the `faults`.

    A lot that was read to its end, and of which nothing is missing, is not read again.
    """
    for share in shares:
        found, lacking = _found(encoding.work, share, progress)
        if found is None or lacking:
            found = yield from _read(encoding, share, lacking, meter, progress)
        faults += found.faults
        if encoding.careful and faults:
            return


def _found(work: Path, share: LotShare, progress: Progress) -> tuple[ReadLot | None, set[int] | None]:
    """Return what is known of a lot, and which batches of the share are not there; None and None where nothing is."""
    found = find_read(share.lot, work, progress)
    if found is None:
        return None, None
    own = filter(share.has, range(found.batches))
    return found, {number for number in own if not _is_whole(share.lot.batch(work, number), progress)}


def _read(
    encoding: Encoding, share: LotShare, lacking: set[int] | None, meter: Meter, progress: Progress
) -> Generator[tuple[Path, list[DocumentPart]], None, ReadLot]:
    """Yield the batches of a share that are lacking, as far as that is known; return what was found in its lot."""
    lot, faults, count = share.lot, list[Fault](), 0
    require_unchanged(lot, encoding.sources)
    make_folder(lot.folder(encoding.work))
    for batch in read_lot(lot, encoding.sources, encoding.reading, faults):
        if encoding.careful and faults:
            return ReadLot(count, lot.bytes, faults)
        meter.read(batch)
        path = lot.batch(encoding.work, count)
        if share.has(count) and (not _is_whole(path, progress) if lacking is None else count in lacking):
            yield path, batch
        count += 1
    found = ReadLot(count, lot.bytes, faults)
    note_read(lot, encoding.work, found)
    return found


def _is_whole(batch: Path, progress: Progress) -> bool:
    """Whether a batch was encoded before and is as it was written; tell of one that is not."""
    try:
        return batch.exists() and check_batch(batch)
    except FormatError as error:
        progress.say(f"{error}; it is encoded again")
        return False
