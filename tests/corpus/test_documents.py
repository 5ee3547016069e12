"""From paths to documents: what is found, how it is split, and what a fault costs."""

from __future__ import annotations

import codecs
import gzip
import importlib.util
import io
import json
import lzma
import os
import random
import sys
import textwrap
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from gpt1.base import tables
from gpt1.base.errors import InputError, MissingDependency, SettingError
from gpt1.corpus import documents
from gpt1.corpus.documents import DocumentPart, Fault, Found, TextSource, find_sources, read_parts
from gpt1.corpus.unwrap import unwrap
from gpt1.text.pieces import LIMIT, pieces
from tests.properties import examples

PROSE = (
    "The house stood a little way back from the road, behind a row of limes that had been planted in the year "
    "of the old king's death, and nobody who passed it in the evening could have said whether it was lived in "
    "or not. There was a lamp, sometimes, in the upper window; there was smoke, sometimes, from the chimney."
)


def write(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(*paths: str, **options: Any) -> list[DocumentPart | Fault]:
    return list(read_parts(find_sources(paths).sources, **options))


def texts(items: list[DocumentPart | Fault]) -> list[str]:
    """Put documents together as a consumer does: a fault in an open document drops what came of it."""
    whole: list[str] = []
    open_parts: list[str] = []
    for item in items:
        if isinstance(item, Fault):
            open_parts = []
            continue
        assert item.first == (not open_parts)
        assert len(item.text) <= LIMIT
        open_parts.append(item.text)
        if item.last:
            whole.append("".join(open_parts))
            open_parts = []
    assert not open_parts
    return whole


def faults(items: list[DocumentPart | Fault]) -> list[Fault]:
    return [item for item in items if isinstance(item, Fault)]


def names(found: Found, folder: Path) -> list[str]:
    return [Path(source.name).relative_to(folder).as_posix() for source in found.sources]


# --- sources ---


def test_a_folder_is_read_whole_in_order_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md.gz", "a/b/c.JSONL", "notes.docx", ".hidden.txt", ".git/x.txt", "array.json", "a.csv"):
        write(tmp_path, name, "[1]")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.txt")
    found = find_sources([str(tmp_path)], field="text")
    assert names(found, tmp_path) == ["a.csv", "a/b/c.JSONL", "a/z.md.gz", "b.txt"]
    assert [source.format for source in found.sources] == ["csv", "jsonl", "md", "txt"]
    assert {Path(skipped.name).name: skipped.reason for skipped in found.skipped} == {
        ".git": "hidden",
        ".hidden.txt": "hidden",
        "array.json": "not a format that is read",
        "gone.txt": "a broken link",
        "loop": "a link to a folder",
        "notes.docx": "not a format that is read",
        "pipe.txt": "not a regular file",
    }


def test_a_damaged_archive_of_json_lines_in_a_folder_is_a_fault_and_not_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.json.gz", gzip.compress(b'{"text": "one"}\n')[:-12])
    write(tmp_path, "b.json.gz", "not packed")
    write(tmp_path, "c.jsonl", '{"text": "fine"}')
    assert find_sources([str(tmp_path)]).skipped == ()
    items = read(str(tmp_path))
    assert texts(items) == ["fine"]
    assert [(fault.source, fault.reason) for fault in faults(items)] == [(0, "damaged"), (1, "damaged")]


def test_what_is_said_of_files_whose_names_are_no_text_can_be_written_as_utf8(tmp_path: Path) -> None:
    try:
        gone = write(tmp_path, os.fsdecode(b"gone\xe9.txt"), "x")
    except OSError:
        pytest.skip("this file system takes no such names")
    write(tmp_path, os.fsdecode(b"scan\xe9.pdf"), "x")
    write(tmp_path, os.fsdecode(b"row\xe9.jsonl"), '{"\\ud83d": "a", "b": "c"}\n{"text": 7}')
    found = find_sources([str(tmp_path)], field="text")
    Path(gone).unlink()
    items = faults(list(read_parts(found.sources)))
    assert [fault.reason for fault in items] == ["unreadable", "no-field", "not-text"]
    assert "columns: \\ud83d, b" in items[1].message
    assert all([*(fault.message.encode() for fault in items), *(skipped.name.encode() for skipped in found.skipped)])


def test_files_folders_and_globs_keep_the_order_given_and_a_file_is_taken_once(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/b/2.txt", "c/3.txt", "c/3.pdf", "[odd].txt"):
        write(tmp_path, name, "x")
    paths = [str(tmp_path / "c"), str(tmp_path / "**" / "*.txt"), str(tmp_path / "a"), str(tmp_path / "a/../a/1.txt")]
    assert names(find_sources(paths), tmp_path) == ["c/3.txt", "[odd].txt", "a/1.txt", "a/b/2.txt"]
    assert names(find_sources([str(tmp_path / "[odd].txt")]), tmp_path) == ["[odd].txt"]
    found = find_sources([str(tmp_path / "c/*")])
    assert names(found, tmp_path) == ["c/3.txt"]
    assert [Path(skipped.name).name for skipped in found.skipped] == ["3.pdf"]


def test_relative_paths_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "books/a.txt", "x")
    monkeypatch.chdir(tmp_path)
    assert [source.name for source in find_sources(["books"]).sources] == [str(Path("books/a.txt"))]


def test_a_source_shows_when_its_file_changes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one")
    before = find_sources([path])
    assert find_sources([path]) == before
    assert before.sources[0].bytes == 3
    os.utime(path, ns=(1, 1))
    assert find_sources([path]) != before


def test_a_path_that_stands_for_nothing_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "books/dracula.txt", "x")
    write(tmp_path, "scans/page.pdf", "x")
    with pytest.raises(InputError, match=r"dracla\.txt does not exist; did you mean '.*dracula\.txt'\?"):
        find_sources([str(tmp_path / "books" / "dracla.txt")])
    with pytest.raises(InputError, match=r"no file matches .*\*\.md"):
        find_sources([str(tmp_path / "*.md")])
    with pytest.raises(InputError, match=r"scans holds no file .*left out: .*page\.pdf \(not a format that is read\)"):
        find_sources([str(tmp_path / "scans")])
    with pytest.raises(InputError, match=r"of the kind '\.pdf'"):
        find_sources([str(tmp_path / "scans" / "page.pdf")])


# --- whole files ---


def test_a_file_is_one_document_with_its_text_untouched(tmp_path: Path) -> None:
    a = write(tmp_path, "a.txt", codecs.BOM_UTF8 + "Äh\r\n\r\nja\n".encode())
    b = write(tmp_path, "b.md.gz", gzip.compress(b"# b\n"))
    assert read(a, b) == [
        DocumentPart("Äh\r\n\r\nja\n", True, True, 0, "", 10),
        DocumentPart("# b\n", True, True, 1, "", 4),
    ]


def test_an_empty_file_is_one_empty_part(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.txt", "")) == [DocumentPart("", True, True, 0, "", 0)]


def test_a_long_document_comes_in_the_pieces_that_encoding_would_cut(tmp_path: Path) -> None:
    text = "".join(f"line {n} of a long ü document\n" for n in range(120_000))
    parts = [item for item in read(write(tmp_path, "a.txt", text)) if isinstance(item, DocumentPart)]
    assert [part.text for part in parts] == list(pieces([text]))
    assert [(part.first, part.last) for part in parts] == [(True, False), *[(False, False)] * 2, (False, True)]
    assert sum(part.raw_bytes for part in parts) == len(text.encode())


def test_a_bad_byte_costs_the_file_and_the_next_one_is_read(tmp_path: Path) -> None:
    early = write(tmp_path, "early.txt", b"caf\xe9")
    late = write(tmp_path, "late.txt", b"x" * 2_500_000 + b"\xe9")
    good = write(tmp_path, "good.txt", "fine")
    items = read(early, late, good)
    assert texts(items) == ["fine"]
    assert [(fault.source, fault.position, fault.reason) for fault in faults(items)] == [
        (0, "byte 3", "undecodable"),
        (1, "byte 2500000", "undecodable"),
    ]
    assert texts(read(early, encoding="cp1252")) == ["café"]


def test_a_damaged_or_vanished_file_is_a_fault_and_the_next_one_is_read(tmp_path: Path) -> None:
    damaged = write(tmp_path, "a.txt.xz", lzma.compress(random.Random(0).randbytes(1_000_000).hex().encode())[:500_000])
    vanished = write(tmp_path, "b.txt", "x")
    good = write(tmp_path, "c.txt", "fine")
    sources = find_sources([damaged, vanished, good]).sources
    Path(vanished).unlink()
    items = list(read_parts(sources))
    assert texts(items) == ["fine"]
    assert [(fault.source, fault.reason) for fault in faults(items)] == [(0, "damaged"), (1, "unreadable")]
    assert "does not exist" in faults(items)[1].message


# --- lines and paragraphs ---


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_documents_and_blank_ones_are_not(tmp_path: Path, end: str) -> None:
    path = write(tmp_path, "a.txt", end.join(["one", "", "  two ", " \t", "", "drei ß"]))
    assert read(path, document="line") == [
        DocumentPart("one", True, True, 0, "line 1", 3),
        DocumentPart("  two ", True, True, 0, "line 3", 6),
        DocumentPart("drei ß", True, True, 0, "line 6", 7),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_stretches_between_blank_lines_are_documents(tmp_path: Path, end: str) -> None:
    path = write(tmp_path, "a.txt", end.join(["", "one", "two", "", " \t", "three", "", "four", "five", ""]))
    items = read(path, document="blank")
    assert texts(items) == [f"one{end}two", "three", f"four{end}five"]
    assert [item.position for item in items] == ["paragraph 1", "paragraph 2", "paragraph 3"]


def test_a_bad_byte_costs_only_its_line_or_paragraph(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\ncaf\xe9\nthree\n\nfour\n")
    items = read(path, document="line")
    assert texts(items) == ["one", "three", "four"]
    assert [(fault.position, fault.reason) for fault in faults(items)] == [("line 2", "undecodable")]
    assert "a.txt, line 2: the byte 0xe9 is not utf-8" in faults(items)[0].message
    items = read(path, document="blank")
    assert texts(items) == ["four"]
    assert [fault.position for fault in faults(items)] == ["paragraph 1"]


def test_a_bad_byte_late_in_a_long_line_drops_the_parts_before_it(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"one\n" + b"x" * 3_000_000 + b"\xe9\nthree\n")
    items = read(path, document="line")
    assert texts(items) == ["one", "three"]
    broken = [item for item in items if isinstance(item, DocumentPart) and item.position == "line 2"]
    assert [part.last for part in broken] == [False]


def test_in_utf16_a_bad_byte_costs_the_rest_of_the_file(tmp_path: Path) -> None:
    content = codecs.BOM_UTF16_LE + "one\ntwo ".encode("utf-16-le") + b"\x00\xdc" + "\nthree\n".encode("utf-16-le")
    items = read(write(tmp_path, "a.txt", content), document="line")
    assert texts(items) == ["one"]
    assert [fault.position for fault in faults(items)] == ["byte 18"]


@pytest.mark.parametrize(("document", "unwrapped"), [("line", False), ("blank", False), ("blank", True)])
def test_documents_before_the_damage_are_kept(tmp_path: Path, document: str, unwrapped: bool) -> None:
    separator = "\n" if document == "line" else "\n\n"
    rng = random.Random(1)
    whole = [f"{n} {rng.randbytes(100).hex()}" for n in range(20_000)]
    packed = gzip.compress(separator.join(whole).encode())
    path = write(tmp_path, "a.txt.gz", packed[: len(packed) // 2])
    items = read(path, document=document, unwrap=unwrapped)
    kept = texts(items)
    assert kept == whole[: len(kept)]
    assert len(kept) > 9_000
    assert [fault.reason for fault in faults(items)] == ["damaged"]
    at = int(faults(items)[0].position.removeprefix("byte ").removesuffix(" of the unpacked file"))
    broken = len(separator.join(kept)) + len(separator)
    assert broken <= at <= broken + len(whole[len(kept)]) + len(separator)


def test_damage_right_after_a_line_end_costs_no_line(tmp_path: Path) -> None:
    member = gzip.compress(b"one\ntwo\n")
    items = read(write(tmp_path, "a.txt.gz", member + b"not a member"), document="line")
    assert texts(items) == ["one", "two"]
    assert [fault.position for fault in faults(items)] == ["byte 8 of the unpacked file"]


LINES = st.lists(st.sampled_from(["\n", "\r\n", "\r", "a", "bc ", " ", "\t", "é", "\u2028", "日", "\x0c"]), max_size=40)


def reference(text: str, document: str, limit: int) -> list[str]:
    """Split a text at hand, all at once."""
    groups: list[list[str]] = [[]]
    for line in io.StringIO(text, newline=""):
        bare = line.rstrip("\r\n")
        if len(bare) <= limit and not bare.strip():
            groups.append([])
        elif document == "line":
            groups.append([bare])
        else:
            groups[-1].append(line)
    return ["".join(group[:-1]) + group[-1].rstrip("\r\n") for group in groups if group]


@given(LINES.map("".join), st.integers(1, 7), st.sampled_from([2, LIMIT]))
@examples(150)
def test_lines_and_paragraphs_are_those_of_the_whole_text_whatever_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block_bytes: int, longest: int
) -> None:
    path = write(tmp_path, "a.txt", text)

    def small_blocks(name: str, encoding: str, errors: str = "strict") -> Any:
        return tables.read_text_blocks(name, encoding, block_bytes, errors)

    for document in ("line", "blank"):
        with monkeypatch.context() as patch:
            patch.setattr(documents, "LIMIT", longest)
            items = read(path, document=document)
            assert texts(items) == reference(text, document, longest)
            patch.setattr(documents, "read_text_blocks", small_blocks)
            assert read(path, document=document) == items


# --- tables ---


def table(folder: Path, suffix: str, rows: list[dict[str, Any]]) -> str:
    path = folder / f"t{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        between = "\t" if suffix == ".tsv" else ";"
        lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
        path.write_text("".join(between.join(line) + "\r\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_the_text_column_of_a_table_holds_the_documents(tmp_path: Path, suffix: str) -> None:
    path = table(tmp_path, suffix, [{"id": 1, "text": "one", "note": "x"}, {"id": 2, "text": "zwölf", "note": "y"}])
    word, first = {".jsonl": ("line", 1), ".parquet": ("row", 1)}.get(suffix, ("row", 2))
    assert read(path) == [
        DocumentPart("one", True, True, 0, f"{word} {first}", 3),
        DocumentPart("zwölf", True, True, 0, f"{word} {first + 1}", 6),
    ]
    assert texts(read(path, field="note")) == ["x", "y"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_without_the_column_asked_for_is_one_fault_and_jsonl_one_a_row(tmp_path: Path, suffix: str) -> None:
    path = table(tmp_path, suffix, [{"id": "1", "text": "one", "note": "x"}, {"id": "2", "text": "two", "note": "y"}])
    items = read(path, write(tmp_path, "z.jsonl", '{"nota": "fine"}'), field="nota")
    assert texts(items) == ["fine"]
    places = ["line 1", "line 2"] if suffix == ".jsonl" else [""]
    assert [(fault.position, fault.reason) for fault in faults(items)] == [(place, "no-field") for place in places]
    said = f"{path}, line 1" if suffix == ".jsonl" else path
    columns = "; did you mean 'note'? (columns: id, text, note)"
    assert faults(items)[0].message == f"{said}: there is no column 'nota'{columns}"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_that_does_not_tell_its_text_column_is_a_fault_that_asks_for_it(tmp_path: Path, suffix: str) -> None:
    items = read(table(tmp_path, suffix, [{"title": "a", "body": "one"}]), write(tmp_path, "z.txt", "fine"))
    assert texts(items) == ["fine"]
    (fault,) = faults(items)
    assert fault.reason == "no-field"
    assert fault.message.endswith(
        ": no column is called 'text' (columns: title, body); call the one that holds the text so, or name it with "
        "`field`"
    )


def test_the_only_column_of_text_is_taken_from_the_first_row_that_tells_it(tmp_path: Path) -> None:
    assert texts(read(table(tmp_path, ".jsonl", [{"id": 1, "body": "one"}]))) == ["one"]
    assert texts(read(write(tmp_path, "u.csv", "body\none\n"))) == ["one"]
    items = read(write(tmp_path, "v.jsonl", '{}\n{"id": 1}\n{"id": 2, "body": "one"}\n{"body": "two", "note": "x"}\n'))
    assert texts(items) == ["one", "two"]
    assert [fault.position for fault in faults(items)] == ["line 1", "line 2"]
    assert "(columns: none)" in faults(items)[0].message


def test_other_columns_of_a_parquet_file_may_hold_what_python_cannot(tmp_path: Path) -> None:
    days = pa.array([10_000_000], pa.int32()).cast(pa.date32())  # after the year 9999
    parquet.write_table(pa.table({"day": days, "text": ["one"], "note": ["x"]}), tmp_path / "t.parquet")
    assert texts(read(str(tmp_path / "t.parquet"))) == ["one"]
    assert texts(read(str(tmp_path / "t.parquet"), field="note")) == ["x"]


def test_rows_without_text_are_faults_in_their_places(tmp_path: Path) -> None:
    rows = ['{"text": "one"}', '{"text": null}', '{"text": 7}', '{"txt": "a"}', "{oops", '{"text": "\\ud83d"}']
    path = write(tmp_path, "t.jsonl", "\n".join([*rows, '{"text": "last 😀"}', "[]"]))
    items = read(path)
    assert texts(items) == ["one", "last 😀"]
    assert [(item.position, item.reason if isinstance(item, Fault) else "") for item in items] == [
        ("line 1", ""),
        ("line 2", "not-text"),
        ("line 3", "not-text"),
        ("line 4", "no-field"),
        ("line 5, column 2", "bad-row"),
        ("line 6", "not-text"),
        ("line 7", ""),
        ("line 8", "bad-row"),
    ]
    messages = [fault.message for fault in faults(items)]
    assert "t.jsonl, line 2: the field 'text' holds nothing, not text" in messages[0]
    assert "did you mean 'txt'? (columns: txt)" in messages[2]
    assert "half a character (\\ud83d)" in messages[4]


def test_an_empty_cell_is_an_empty_document_and_a_long_one_comes_in_parts(tmp_path: Path) -> None:
    long = "word " * 500_000
    items = read(table(tmp_path, ".parquet", [{"text": ""}, {"text": long}]))
    assert texts(items) == ["", long]
    assert items[0] == DocumentPart("", True, True, 0, "row 1", 0)
    assert len(items) == 4


# --- choices ---


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.csv", {"document": "line"}, r"a document of .*a\.csv \(csv\) can be 'field', not 'line'"),
        ("a.txt", {"document": "field"}, r"can be 'file' or 'line' or 'blank', not 'field'"),
        ("a.txt", {"document": "lines"}, r"unknown kind of document 'lines'; did you mean 'line'\?"),
        ("a.txt", {"document": "line", "unwrap": True}, "unwrapping joins lines"),
        ("a.txt", {"field": "text"}, "texts have no columns"),
        ("a.txt", {"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
    ],
)
def test_choices_that_do_not_fit_are_refused_before_anything_is_read(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        read_parts([TextSource(name, Path(name).suffix[1:])], **options)


def test_unwrapping_joins_lines_of_files_paragraphs_and_fields_and_counts_raw_bytes(tmp_path: Path) -> None:
    wrapped = textwrap.fill(PROSE, 60)
    text = f"{wrapped}\r\n\r\n{wrapped}\r\n".replace("\n", "\r\n")
    path = write(tmp_path, "a.txt", text)
    (part,) = (item for item in read(path, unwrap=True) if isinstance(item, DocumentPart))
    assert part.text == "".join(unwrap([text]))
    assert part.text.count(PROSE) == 2
    assert part.raw_bytes == len(text)
    assert texts(read(path, unwrap=True, document="blank")) == [PROSE, PROSE]
    assert texts(read(table(tmp_path, ".jsonl", [{"text": wrapped}]), unwrap=True)) == [PROSE]


def test_a_short_paragraph_is_unwrapped_to_the_width_of_its_file(tmp_path: Path) -> None:
    short = PROSE[:99]
    text = f"{textwrap.fill(PROSE, 70)}\n\n{textwrap.fill(short, 70)}"
    assert texts(read(write(tmp_path, "a.txt", text), unwrap=True, document="blank")) == [PROSE, short]


def test_raw_bytes_of_an_unwrapped_file_do_not_hang_on_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (textwrap.fill(PROSE, 70) + "\n\n") * 8000
    path = write(tmp_path, "a.txt", text)
    items = read(path, unwrap=True)
    assert len(items) == 3
    assert sum(item.raw_bytes for item in items if isinstance(item, DocumentPart)) == len(text)
    monkeypatch.setattr(
        documents, "read_text_blocks", lambda name, encoding: tables.read_text_blocks(name, encoding, 999)
    )
    assert read(path, unwrap=True) == items


# --- the hub ---


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="needs the hub extra")
@pytest.mark.filterwarnings("ignore")  # those of the library are not ours
def test_a_hub_dataset_is_read_by_its_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    data = tmp_path / "data"
    write(data, "train.jsonl", '{"text": "one"}\n{"text": "two"}\n')
    write(data, "test.jsonl", '{"text": "three"}\n')
    found = find_sources([f"hub:{data}", f"hub:{data}@test", f"hub:{data}"])
    assert [source.format for source in found.sources] == ["hub", "hub"]
    items = list(read_parts(found.sources))
    assert texts(items) == ["one", "two", "three"]
    assert [(item.source, item.position) for item in items] == [(0, "row 1"), (0, "row 2"), (1, "row 1")]
    assert texts(read(f"hub:{data}:default@test")) == ["three"]
    with pytest.raises(InputError, match=r"cannot read hub:.*@nope"):
        read(f"hub:{data}@nope")


def test_without_the_library_a_hub_name_gets_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependency, match=r"pip install 'gpt1\[hub\]'"):
        read("hub:roneneldan/TinyStories")


# --- size ---


@pytest.mark.slow
@pytest.mark.parametrize(("document", "unwrapped"), [("file", False), ("file", True), ("line", False), ("blank", True)])
@pytest.mark.parametrize("unit", ["x", "é word ", " "], ids=repr)
def test_a_line_of_200_megabytes_passes_through_little_memory(
    tmp_path: Path, document: str, unwrapped: bool, unit: str
) -> None:
    path = tmp_path / "a.txt"
    block = unit.encode() * (1_000_000 // len(unit.encode()))
    with path.open("wb") as file:
        for _ in range(200):
            file.write(block)
    sources = find_sources([str(path)]).sources
    total = 0
    tracemalloc.start()
    try:
        for item in read_parts(sources, document=document, unwrap=unwrapped):
            assert isinstance(item, DocumentPart)
            total += item.raw_bytes
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 200 * len(block)
    assert peak < 40_000_000


def test_every_book_is_one_document_equal_to_its_file(data: Path) -> None:
    folder = data / "books"
    found = find_sources([str(folder / "*.txt.xz")])
    assert len(found.sources) == len(list(folder.glob("*.txt.xz")))
    some = found.sources[::20]
    expected = [lzma.decompress(Path(source.name).read_bytes()).decode() for source in some]
    assert texts(list(read_parts(some))) == expected


def test_a_table_beside_texts_is_left_out_unless_its_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("text")
    (tmp_path / "index.tsv").write_text("slug\ttitle\na\tb\n")
    found = find_sources([str(tmp_path)])
    assert names(found, tmp_path) == ["book.txt"]
    assert [skipped.reason for skipped in found.skipped] == ["a table beside texts; to read it, name it"]
    assert names(find_sources([str(tmp_path)], field="title"), tmp_path) == ["book.txt", "index.tsv"]
    assert names(find_sources([str(tmp_path / "index.tsv")]), tmp_path) == ["index.tsv"]
