"""WARC and WET files: which records are pages, what their text is, and what damage costs."""

from __future__ import annotations

import bz2
import gzip
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.dumps import answer, random_records, warc_record
from gpt1 import prepare
from gpt1.base.errors import InputError, MissingDependency
from gpt1.corpus import crawl
from gpt1.corpus.crawl import WebPage
from gpt1.corpus.documents import DocumentPart, Fault, find_sources, read_parts
from gpt1.corpus.pages import LeftOutCounts, NoDocument, by_reason
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.properties import examples

PAGE = "<html><head><title>T</title><script>no()</script></head><body><p>A page of {} words.</p></body></html>"


def wet(number: int) -> bytes:
    return warc_record("conversion", number, f"Page {number}\nwith text é\n".encode())


def warc(number: int, html: str = PAGE, encoding: str = "utf-8", **options: str) -> bytes:
    return warc_record("response", number, answer(html.format("fünf").encode(encoding), **options))


def packed(*records: bytes) -> list[bytes]:
    return [gzip.compress(record) for record in records]


def read(path: Path, *parts: bytes) -> tuple[list[str], list[str], Counter[str]]:
    """Return the texts of a file of these parts, where and why something could not be read, and what was left out."""
    path.write_bytes(b"".join(parts))
    left_out: LeftOutCounts = Counter()
    texts, faults = [], []
    for item in read_parts(find_sources([str(path)]).sources, left_out=left_out):
        if isinstance(item, Fault):
            assert item.message.startswith(f"{path}, {item.position}: ")
            faults.append(f"{item.position} {item.reason}")
        else:
            texts.append(item.text)
    return texts, faults, by_reason(left_out)


def pages(*numbers: int) -> list[str]:
    return [f"Page {number}\nwith text é" for number in numbers]


# --- records ---


@pytest.mark.parametrize("name", ["a.wet", "CC-MAIN-00000.warc.wet.gz", "a.wet.bz2"])
def test_a_wet_file_is_its_pages_however_it_is_packed(name: str, tmp_path: Path) -> None:
    records = [warc_record("warcinfo", 0, b"software: x"), *map(wet, range(3)), warc_record("metadata", 9, b"a: b")]
    whole = b"".join(records)
    parts = {".gz": packed(*records), ".bz2": [bz2.compress(whole)], ".wet": [whole]}
    assert read(tmp_path / name, *parts[Path(name).suffix]) == (pages(0, 1, 2), [], {})


def test_the_place_of_a_record_is_the_one_that_indexes_give(tmp_path: Path) -> None:
    members = packed(wet(0), wet(1))
    (tmp_path / "a.wet.gz").write_bytes(b"".join(members))
    (tmp_path / "b.wet").write_bytes(wet(0) + wet(1))
    (tmp_path / "c.wet.gz").write_bytes(gzip.compress(wet(0) + wet(1)))
    places = [item.position for item in read_parts(find_sources([str(tmp_path)]).sources)]
    second = f"byte {len(wet(0))}"
    assert places == ["byte 0", f"byte {len(members[0])}", "byte 0", second, "byte 0", f"{second} of the unpacked file"]


@pytest.mark.parametrize("at", [0, 1, 30, -6])
def test_a_damaged_record_of_a_packed_file_costs_itself_alone(at: int, tmp_path: Path) -> None:
    members = packed(*map(wet, range(4)))
    torn = bytearray(members[1])
    torn[at] ^= 0xFF
    place = f"byte {len(members[0])} damaged"
    assert read(tmp_path / "a.wet.gz", members[0], bytes(torn), *members[2:]) == (pages(0, 2, 3), [place], {})


def test_a_file_that_is_cut_short_gives_what_came_before(tmp_path: Path) -> None:
    members, records = packed(*map(wet, range(3))), [wet(number) for number in range(3)]
    last = sum(map(len, members[:2]))
    assert read(tmp_path / "a.wet.gz", *members[:2], members[2][:-9]) == (pages(0, 1), [f"byte {last} damaged"], {})
    last = sum(map(len, records[:2]))
    assert read(tmp_path / "a.wet", *records[:2], records[2][:-9]) == (pages(0, 1), [f"byte {last} damaged"], {})
    assert read(tmp_path / "a.wet.bz2", bz2.compress(b"".join(records))[:-5])[1:] == (
        [f"byte {sum(map(len, records))} of the unpacked file damaged"],
        {},
    )
    assert read(tmp_path / "b.wet.gz") == ([], ["byte 0 damaged"], {})
    assert read(tmp_path / "b.wet") == ([], [], {})


def test_a_record_that_says_a_wrong_length_costs_what_it_takes_with_it(tmp_path: Path) -> None:
    records = [wet(number) for number in range(4)]
    size = len("Page 1\nwith text é\n".encode())
    none = records[1].replace(b"Content-Length", b"Content-Width")
    assert read(tmp_path / "a.wet", records[0], none, *records[2:]) == (
        pages(0, 2, 3),
        [f"byte {len(records[0])} damaged"],
        {},
    )
    less = records[1].replace(b"Length: %d" % size, b"Length: %d" % (size - 8))
    texts, faults, _ = read(tmp_path / "a.wet", records[0], less, *records[2:])
    assert texts == [pages(0)[0], "Page 1\nwith", *pages(2, 3)]
    assert len(faults) == 1
    more = records[1].replace(b"Length: %d" % size, b"Length: 99999")
    assert read(tmp_path / "a.wet", records[0], more, *records[2:])[:2] == (
        pages(0),
        [f"byte {len(records[0])} damaged"],
    )


def test_what_is_no_such_file_is_one_fault(tmp_path: Path) -> None:
    assert read(tmp_path / "a.warc.wet", b"hello\nworld\n" * 9)[:2] == ([], ["byte 0 damaged"])
    assert read(tmp_path / "a.wet.gz", b"hello world" * 9)[:2] == ([], ["byte 0 damaged"])
    assert read(tmp_path / "b.wet.gz", gzip.compress(b"x" * 200_000))[:2] == ([], ["byte 0 damaged"])


def test_a_text_that_is_not_utf8_or_too_long_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl, "LONGEST_RECORD", 1000)
    bad = [warc_record("conversion", 7, b"caf\xe9"), warc_record("conversion", 8, b"x" * 1001)]
    texts, faults, _ = read(tmp_path / "a.wet", wet(0), *bad, wet(1))
    assert texts == pages(0, 1)
    assert [fault.split()[-1] for fault in faults] == ["undecodable", "bad-row"]


@given(st.binary(max_size=200), st.integers(0, 1200), st.booleans())
@examples(100)
def test_whatever_stands_in_the_midst_of_a_file_its_beginning_is_read(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, is_packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / f"noise.wet{'.gz' if is_packed else ''}"
    records = [wet(number) for number in range(4)]
    whole = b"".join(packed(*records) if is_packed else records)
    before = len(packed(records[0])[0] if is_packed else records[0])
    texts, faults, _ = read(path, whole[: before + at], noise, whole[before + at :])
    assert texts[:1] == pages(0)
    assert len(texts) + len(faults) <= 4 + len(noise)


# --- HTML ---


@pytest.fixture
def extractor() -> None:
    pytest.importorskip("resiliparse", reason="text is taken out of HTML by the extra `crawl`")


@pytest.mark.usefixtures("extractor")
@pytest.mark.parametrize(
    ("encoding", "options", "html"),
    [
        ("utf-8", {}, PAGE),
        ("latin-1", {"content": "text/html; charset=ISO-8859-1"}, PAGE),
        ("cp1252", {"content": "text/html; charset=nonsense"}, PAGE),
        ("cp1252", {"content": "TEXT/HTML"}, PAGE.replace("<title>", "<meta charset=windows-1252><title>")),
    ],
)
def test_of_html_the_text_is_taken_in_its_encoding(
    encoding: str, options: dict[str, str], html: str, tmp_path: Path
) -> None:
    texts = ["A page of fünf words."]
    assert read(tmp_path / "a.warc.gz", *packed(warc(1, html, encoding, **options))) == (texts, [], {})


@pytest.mark.usefixtures("extractor")
def test_answers_that_are_no_pages_are_left_out_and_counted(tmp_path: Path) -> None:
    records = [
        warc(1, status="404 Not Found"),
        warc(2, content="application/pdf"),
        warc(3, more="Content-Encoding: gzip\r\n"),
        warc(4, more="Transfer-Encoding: chunked\r\n"),
        warc(5).replace(b"application/http; msgtype=response", b"text/dns"),
        warc_record("request", 6, b"GET / HTTP/1.1\r\n\r\n"),
        warc(7),
    ]
    assert read(tmp_path / "a.warc", *records) == (
        ["A page of fünf words."],
        [],
        {"no answer of the status 200": 1, "not HTML": 1, "an answer that cannot be read": 3},
    )


@pytest.mark.usefixtures("extractor")
def test_packed_and_chunked_answers_are_unpacked_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = gzip.compress(b"<p>" + b"word " * 400)
    more = "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"
    record = warc_record("response", 1, answer(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), more=more))
    assert read(tmp_path / "a.warc", record)[0] == [("word " * 400).strip()]
    monkeypatch.setattr(crawl, "LONGEST_RECORD", 1000)
    assert read(tmp_path / "a.warc", record)[:2] == ([], ["byte 0 bad-row"])


@pytest.mark.usefixtures("extractor")
@given(st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=9)), max_size=9))
@examples(100)
def test_whatever_a_server_answered_is_text_or_left_out(changes: list[tuple[int, bytes]]) -> None:
    record = warc(1, content="text/html; charset=latin-1")
    for at, noise in changes:
        record = record[:at] + noise + record[at + len(noise) :]
    assert isinstance(WebPage("a.warc", "byte 0", record).text(), str | NoDocument)


# --- in use ---


def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    made: Counter[str] = Counter()
    with (tmp_path / "a.wet.gz").open("wb") as file:
        file.writelines(random_records("wet", 30_000_000, made))
    documents = 0
    tracemalloc.start()
    try:
        for item in read_parts(find_sources([str(tmp_path)]).sources):
            assert isinstance(item, DocumentPart)
            documents += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert documents == made["page"]
    assert peak < 15_000_000


def test_a_corpus_is_made_of_what_a_damaged_file_has(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    texts = [make_text(20, number) for number in range(9)]
    members = packed(*(warc_record("conversion", number, text.encode()) for number, text in enumerate(texts)))
    (tmp_path / "a.warc.wet.gz").write_bytes(b"".join([*members[:3], members[3][:40], *members[4:]]))
    place = rf"a\.warc\.wet\.gz, byte {sum(map(len, members[:3]))}: .*`on_error='skip'`"
    with pytest.raises(InputError, match=place):
        prepare(tmp_path / "a.warc.wet.gz", words_tokenizer, tmp_path / "out", workers=1)
    corpus = prepare(tmp_path / "a.warc.wet.gz", words_tokenizer, tmp_path / "out", on_error="skip", workers=2)
    assert corpus["documents"] == {"read": 9, "dropped": {"damaged": 1}}


def test_without_the_library_it_is_said_how_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resiliparse", None)
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(warc(1)))
    with pytest.raises(MissingDependency, match=r"a\.warc\.gz needs the library.*'gpt1\[crawl\]'"):
        read_parts(find_sources([str(tmp_path / "a.warc.gz")]).sources)
