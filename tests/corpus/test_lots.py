"""Lots hang on the files alone, and whatever the number of processes each batch is in one share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpt1.corpus import lots
from gpt1.corpus.documents import TextSource
from gpt1.corpus.lots import LOT_BYTES, Lot, ReadLot, all_batches, deal, find_read, in_lots, note_read
from tests.corpus.tools import Said


def sources(*sizes: int) -> list[TextSource]:
    return [TextSource(f"{number}.txt", "txt", size) for number, size in enumerate(sizes)]


def test_small_files_share_a_lot_and_a_large_one_has_its_own() -> None:
    small, large = LOT_BYTES // 2, LOT_BYTES * 9
    found = in_lots(sources(small, small, large, 1, 1))
    assert [(lot.number, lot.begin, lot.end, lot.bytes) for lot in found] == [
        (0, 0, 2, 2 * small),
        (1, 2, 3, large),
        (2, 3, 5, 2),
    ]


def test_a_data_set_on_the_hub_is_a_lot_of_its_own() -> None:
    hub = TextSource("hub:a/b", "hub")
    assert [(lot.begin, lot.end) for lot in in_lots([*sources(1), hub, hub, *sources(1)])] == [(0, 2), (2, 3), (3, 4)]


def test_very_many_files_do_not_make_very_many_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lots, "MOST_LOTS", 10)
    assert len(in_lots(sources(*[LOT_BYTES] * 1000))) == 10


@given(
    some.lists(some.sampled_from([0, 1, LOT_BYTES // 3, LOT_BYTES, LOT_BYTES * 50]), min_size=1, max_size=30),
    some.integers(1, 12),
)
def test_every_batch_of_every_lot_is_in_the_share_of_one_process(sizes: list[int], processes: int) -> None:
    found = in_lots(sources(*sizes))
    hands = deal(found, processes)
    assert len(hands) == processes
    who = Counter(
        (share.lot.number, batch) for hand in hands for share in hand for batch in range(24) if share.has(batch)
    )
    assert who == Counter((lot.number, batch) for lot in found for batch in range(24))
    assert all([share.lot.number for share in hand] == sorted(share.lot.number for share in hand) for hand in hands)


@given(some.lists(some.integers(1, LOT_BYTES * 50), min_size=1, max_size=30), some.integers(1, 12))
def test_no_process_has_more_than_twice_its_fair_share(sizes: list[int], processes: int) -> None:
    found = in_lots(sources(*sizes))
    loads = [sum(share.bytes for share in hand) for hand in deal(found, processes)]
    assert max(loads) <= 2 * sum(sizes) / processes + LOT_BYTES


def test_a_lot_is_known_when_it_was_read_to_its_end_and_a_damaged_note_is_told(tmp_path: Path) -> None:
    lot, said = Lot(3, 0, 1, 5), Said()
    assert find_read(lot, tmp_path, said) is None
    lot.folder(tmp_path).mkdir()
    note_read(lot, tmp_path, found := ReadLot(2, 57))
    assert find_read(lot, tmp_path, said) == found
    assert said.lines == []
    path = lot.folder(tmp_path) / "lot.json"
    path.write_text(path.read_text().replace("57", "58", 1))
    assert find_read(lot, tmp_path, said) is None
    (line,) = said.lines
    assert line == f"{path} is damaged: it does not match its checksum; it is read again"


def test_all_batches_are_there_only_when_every_lot_is_known_and_every_batch_in_its_place(tmp_path: Path) -> None:
    two = in_lots(sources(LOT_BYTES, LOT_BYTES))
    for lot in two:
        assert all_batches(two, tmp_path) is None
        lot.folder(tmp_path).mkdir()
        note_read(lot, tmp_path, ReadLot(1, 5))
        assert all_batches(two, tmp_path) is None
        lot.batch(tmp_path, 0).touch()
    assert all_batches(two, tmp_path) == [lot.batch(tmp_path, 0) for lot in two]
