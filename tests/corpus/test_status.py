"""How far a preparation is can be told from its folder alone."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.corpus import lots
from gpt1.corpus.at_work import at_work, log_of
from gpt1.corpus.documents import find_sources
from gpt1.corpus.lots import ReadLot, in_lots, note_read
from gpt1.corpus.manifest import WORK
from gpt1.corpus.prepare import prepare_part
from gpt1.corpus.status import describe_status, read_status
from gpt1.text.tokenizer import Tokenizer
from tests.corpus.tools import SETTINGS, SMALL_LOT, write_texts


@pytest.fixture
def tokenizer(words_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_who_is_at_work_is_told_with_what_each_has_done_and_when_it_was_heard_of(tmp_path: Path) -> None:
    work, ticks = tmp_path / WORK, iter(range(1000, 2000, 10))
    found = in_lots(find_sources([str(write_texts(tmp_path / "texts"))], field="text").sources)
    (lot,) = found
    lot.folder(work).mkdir(parents=True)
    with at_work(work, "1-of-2", found, now=lambda: next(ticks)) as log:
        log.add(2_000_000)
    with at_work(work, "2-of-2", found, now=lambda: next(ticks)) as log:
        log.add(3_000_000)
        log.add(5_000_000)
        for number in range(3):
            lot.batch(work, number).touch()
        unread = read_status(tmp_path)
        assert unread is not None
        assert describe_status(unread)[0].startswith("3 of about 3 batches (100 %) done, 0 of 1 lots")
        note_read(lot, work, ReadLot(4, lot.bytes))
        status = read_status(tmp_path, now=lambda: 1050 + 185)
    assert status is not None
    node, process = platform.node(), str(os.getpid())
    head, *table = [line.split() for line in describe_status(status)]
    assert " ".join(head) == "3 of 4 batches (75 %) done, 1 of 1 lots of files read, 0.4 MB/s"
    assert table[1] == ["2/2", node, process, "2", "8.0", "MB", "0.4", "MB/s", "3:05", "ago"]
    assert table[2] == ["1/2", node, process, "1", "2.0", "MB", "0.1", "MB/s", "done"]


def test_how_many_batches_there_will_be_is_judged_by_the_files_that_were_read(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lots, "LOT_BYTES", SMALL_LOT)
    texts, out = write_texts(tmp_path / "texts"), tmp_path / "out"
    prepare_part(texts, tokenizer, out, (1, 3), **SETTINGS)
    status = read_status(out)
    assert status is not None
    assert 0 < status.batches < status.planned
    assert 0 < status.lots_read < status.lots
    assert " of about " in describe_status(status)[0]
    for number in (2, 3):
        prepare_part(texts, tokenizer, out, (number, 3), **SETTINGS)
    assert read_status(out) is None


def test_a_folder_without_a_preparation_and_a_damaged_log_are_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no preparation, whether begun or done"):
        read_status(tmp_path)
    with at_work(tmp_path / WORK, "1-of-2") as log:
        log.add(5)
    path = log_of(tmp_path / WORK, "1-of-2")
    path.write_bytes(path.read_bytes().replace(b'"bytes": 5', b'"bytes": 6', 1))
    with pytest.raises(FormatError, match=r"1-of-2\.partial, line 2 is damaged"):
        read_status(tmp_path)
