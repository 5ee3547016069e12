"""Lots: which files are read together, which process encodes which of their batches, and which were read to their end.

A lot (the field's input split) is a run of files of a few megabytes, or one larger file. Lots and their batches hang on
the files alone, so that any number of processes, on any machines, make the same ones, each a file of its own:

    WORK/000012/000003.npz    the fourth batch of the thirteenth lot
    WORK/000012/lot.json      its number of batches; there when it was read to its end
"""

from __future__ import annotations

import heapq
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpt1.base.errors import FormatError, InputError, printable
from gpt1.base.files import read_record, write_record
from gpt1.base.progress import Progress, Silent
from gpt1.base.records import Count, RecordPart
from gpt1.corpus.batches import in_batches
from gpt1.corpus.documents import Item, TextReading, TextSource, is_unchanged, read_sources

LOT_FILE = "lot.json"
LOT_BYTES = 4_000_000  # on the disk
MOST_LOTS = 10_000  # of small files; each has a folder


@dataclass(frozen=True)
class Lot:
    """A run of sources, from `begin` to before `end`; of a data set on the hub the size is not known, and is 0."""

    number: int
    begin: int
    end: int
    bytes: int

    def folder(self, work: Path) -> Path:
        """Return where its batches lie."""
        return work / f"{self.number:06}"

    def batch(self, work: Path, number: int) -> Path:
        """Return where one of its batches lies."""
        return self.folder(work) / f"{number:06}.npz"


@dataclass(frozen=True)
class LotShare:
    """Every `of`-th batch of a lot, from `number` on, which one process encodes: of a lot that is not large, all."""

    lot: Lot
    number: int = 0
    of: int = 1

    @property
    def bytes(self) -> float:
        """How large it is, on the disk."""
        return self.lot.bytes / self.of

    def has(self, batch: int) -> bool:
        """Whether a batch of the lot, told by its number, is in this share."""
        return batch % self.of == self.number


@dataclass(frozen=True)
class ReadLot(RecordPart):
    """What is known of a lot that was read to its end."""

    batches: Count
    disk_bytes: Count


def in_lots(sources: Sequence[TextSource]) -> list[Lot]:
    """Cut the sources into lots; of very many files they are larger, so that there are not too many of them."""
    enough = max(LOT_BYTES, sum(source.bytes for source in sources) // MOST_LOTS)
    lots: list[Lot] = []
    begin = size = 0
    for end, source in enumerate(sources, 1):
        size += source.bytes
        if size >= enough or source.format == "hub" or end == len(sources):
            lots.append(Lot(len(lots), begin, end, size))
            begin, size = end, 0
    return lots


# --- who encodes what ---------------------------------------------------------------------------------------


def shares_of(lots: Sequence[Lot], processes: int) -> list[LotShare]:
    """Cut lots that are larger than what a process would have to do into several shares, for all of which it is read.

    Of data sets on the hub, whose sizes are not known, each is as large as all.
    """
    known = sum(lot.bytes for lot in lots)
    shares = []
    for lot in lots:
        size = lot.bytes or known or 1
        count = min(processes, -(-size * processes // max(known, 1)))
        shares += [LotShare(lot, number, count) for number in range(count)]
    return shares


def deal(lots: Sequence[Lot], processes: int) -> list[list[LotShare]]:
    """Deal the lots to so many processes: the largest share first, each to who has least, then in the lots' order."""
    hands: list[list[LotShare]] = [[] for _ in range(processes)]
    least = [(0.0, number) for number in range(processes)]
    for share in sorted(shares_of(lots, processes), key=lambda share: -share.bytes):
        size, number = heapq.heappop(least)
        hands[number].append(share)
        heapq.heappush(least, (size + max(1, share.bytes), number))
    return [sorted(hand, key=lambda share: (share.lot.number, share.number)) for hand in hands]


# --- reading ------------------------------------------------------------------------------------------------


def read_lot(lot: Lot, sources: Sequence[TextSource], reading: TextReading) -> Iterator[list[Item]]:
    """Yield the batches of a lot."""
    return in_batches(read_sources(sources, reading, lot.begin, lot.end))


def require_unchanged(lot: Lot, sources: Sequence[TextSource]) -> None:
    """Refuse files that are no longer those that were looked at, or that another machine does not have."""
    for source in sources[lot.begin : lot.end]:
        if not is_unchanged(source):
            raise InputError(
                f"{printable(source.name)} on {platform.node()} is not the file that was found at first; what is read "
                "may not change meanwhile, and is the same on all machines"
            )


def note_read(lot: Lot, work: Path, found: ReadLot) -> None:
    """Keep what reading a lot to its end found."""
    write_record(lot.folder(work) / LOT_FILE, found.as_json())


def find_read(lot: Lot, work: Path, progress: Progress) -> ReadLot | None:
    """Return what is known of a lot; None where nobody has read it to its end, or that is damaged, which is told."""
    path = lot.folder(work) / LOT_FILE
    if not path.exists():
        return None
    try:
        return read_record(path, "what was found in a lot of files", ReadLot)
    except FormatError as error:
        progress.say(f"{error}; it is read again")
        return None


def all_batches(lots: Sequence[Lot], work: Path) -> list[Path] | None:
    """Return the batches of all lots in order; None while any of them is not there."""
    batches: list[Path] = []
    for lot in lots:
        found = find_read(lot, work, Silent())
        own = [lot.batch(work, number) for number in range(found.batches)] if found else []
        if found is None or not all(batch.exists() for batch in own):
            return None
        batches += own
    return batches
