"""A MediaWiki dump: which of its pages are documents, what is left of their markup, and what damage costs."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.dumps import END, HEAD, random_wiki_pages, wiki_page, write_multistream
from gpt1 import prepare, train_tokenizer
from gpt1.base.errors import InputError, MissingDependency
from gpt1.corpus import wikipedia
from gpt1.corpus.documents import DocumentPart, Fault, find_sources, read_parts
from gpt1.corpus.pages import LeftOutCounts, by_reason
from gpt1.corpus.wikipedia import plain_text
from gpt1.inspection.doctor import examine
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.properties import examples

pytest.importorskip("mwparserfromhell", reason="markup is taken off by the extra `wikipedia`")

UNSEEN = frozenset({"file", "datei", "category"})


def write(path: Path, *pages: str) -> str:
    path.write_text(HEAD + "".join(pages) + END)
    return str(path)


def read(path: str | Path, workers: int = 1) -> tuple[list[DocumentPart | Fault], Counter[str]]:
    left_out: LeftOutCounts = Counter()
    found = list(read_parts(find_sources([str(path)]).sources, workers=workers, left_out=left_out))
    return found, by_reason(left_out)


def texts(path: str | Path) -> list[str]:
    return [item.text for item in read(path)[0] if isinstance(item, DocumentPart)]


# --- markup ---


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''Bold''', ''italic'' and <b>more</b>.", "Bold, italic and more."),
        ("A [[town]] in [[France|the ''French'' Republic]].", "A town in the French Republic."),
        ("See [http://a.b here], [http://a.b] or http://a.b now.", "See here, or http://a.b now."),
        ("Seen<ref name='x'>{{cite|a}}</ref> once.<ref name='x'/>", "Seen once."),
        ("It is {{convert|5|km}} wide{{efn|note}}, and {{age|a|{{b}}}} old.", "It is wide, and old."),
        ("Anna ({{IPA|x}}; {{lang|de|y}}) wrote ({{born|1}}; a poet) f().", "Anna wrote (a poet) f()."),
        ("[[File:A.jpg|thumb|A [[caption]]]]\nText. [[datei:b.png]] [[Category:C]]", "Text."),
        ("[[:Category:Shown|shown]] [[:Category:Bare]]", "shown Category:Bare"),
        ("One\n{| class=w\n! a\n|-\n| 1 || 2\n|}\nTwo<table><tr><td>x</td></tr></table>", "One\n\nTwo"),
        ("* one\n** two\n# three\n; term : what", "one\ntwo\nthree\nterm what"),
        ("a<br/>b<gallery>\nA.jpg|c\n</gallery><math>x</math> <nowiki>[[raw]]</nowiki>", "a\nb [[raw]]"),
        ("5&nbsp;km &ndash; x&#1;y <!-- no -->&amp;", "5\xa0km – xy &"),
        ("a<!-- <ref> -->b<ref name='x/y' />c<REF\nname=z>{{d}}</Ref >e <references/>f", "abce f"),
        ("a <ref>b", "a <ref>b"),
        ("a<ref name=1>b</ref> c<ref>d <!-- e", "a c<ref>d <!-- e"),
        ("__NOTOC__\n\n\n\nText.", "Text."),
        ("== History ==\nLong.\n=== Early ''years'' ===\nShort.", "History\n\nLong.\n\nEarly years\n\nShort."),
        ("Text.\n== Notes ==\n{{Reflist}}\n== Links ==\n=== None ===\n== End ==\nfin", "Text.\n\nEnd\n\nfin"),
        ("Text.\n==A==\n===B===\n====C====\nx\n===D===", "Text.\n\nA\n\nB\n\nC\n\nx"),
        ("{{x", "{{x"),
        ("", ""),
    ],
)
def test_of_markup_the_running_text_is_left(markup: str, text: str) -> None:
    assert plain_text(markup, UNSEEN) == text


@given(st.lists(st.sampled_from([*"[]{}|='<>!-*:;\n a(\x01\0&", "ref", "{{", "[[", "{|", "|}", "==", "<b>", "&#0;"])))
@examples(200)
def test_any_markup_comes_to_some_text_without_marks(pieces: list[str]) -> None:
    text = plain_text("".join(piece for piece in pieces if piece not in ("\x01", "\0")), UNSEEN)
    assert text == text.strip()
    assert not {"\x01", "\0"} & set(text)


# --- pages ---


def test_articles_alone_are_documents_and_the_rest_is_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.xml",
        wiki_page(12, "Foo & <Bar>", "It is '''so'''.\n[[Datei:x.jpg|mini]][[Kategorie:Y]]"),
        wiki_page(13, "Talk:Foo", "hm", namespace=1),
        wiki_page(14, "Fo", "#REDIRECT [[Foo]]", target="Foo"),
        wiki_page(15, "Foo.json", "{}", model="json"),
        wiki_page(16, "Nothing", "{{soon}}"),
    )
    found, left_out = read(path)
    assert [(item.text, item.position) for item in found if isinstance(item, DocumentPart)] == [
        ("Foo & <Bar>\n\nIt is so.", "page 12"),
        ("", "page 16"),
    ]
    assert left_out == {"not an article": 1, "redirect": 1, "not wikitext": 1}


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz", "a.xml.bz2", "enwiki-20260901-pages-articles1.xml-p1p41242.bz2"])
def test_however_it_is_packed_a_dump_is_the_same(name: str, tmp_path: Path) -> None:
    pages = [wiki_page(number, f"Page {number}", f"Text {number}.") for number in range(250)]
    plain = (HEAD + "".join(pages) + END).encode()
    multistream = io.BytesIO()
    write_multistream(multistream, pages)
    assert bz2.decompress(multistream.getvalue()) == plain
    packed = {".gz": gzip.compress(plain), ".bz2": multistream.getvalue()}
    path = tmp_path / name
    path.write_bytes(packed.get(path.suffix, plain))
    assert texts(path) == [f"Page {number}\n\nText {number}." for number in range(250)]


def test_the_last_of_several_revisions_is_read(tmp_path: Path) -> None:
    page = wiki_page(1, "A", "old")
    start, end = page.index("    <revision>"), page.index("  </page>")
    path = write(tmp_path / "a.xml", page[:end] + page[start:end].replace(">old<", ">new<") + page[end:])
    assert texts(path) == ["A\n\nnew"]


def test_a_dump_beside_texts_in_a_folder_is_read_with_them(tmp_path: Path) -> None:
    write(tmp_path / "a.xml", wiki_page(1, "A", "x"))
    (tmp_path / "b.txt").write_text("book")
    (tmp_path / "a-multistream-index.txt").write_text("597:10:A\n")
    assert texts(tmp_path) == ["A\n\nx", "book"]
    (skipped,) = find_sources([str(tmp_path)]).skipped
    assert skipped.reason == "an index of a dump"


# --- damage ---


def broken(tmp_path: Path, text: str) -> tuple[list[str], str]:
    """Return what is read of a damaged dump, and what is said of the damage."""
    (tmp_path / "a.xml").write_text(text)
    found, _ = read(tmp_path / "a.xml")
    *whole, fault = found
    assert isinstance(fault, Fault)
    assert fault.reason == "damaged"
    return [item.text for item in whole if isinstance(item, DocumentPart)], fault.message


def test_a_dump_that_is_cut_short_gives_what_came_before(tmp_path: Path) -> None:
    pages = [wiki_page(number, f"P{number}", "x") for number in range(3)]
    cut = (HEAD + "".join(pages))[:-200]
    assert broken(tmp_path, cut) == (
        ["P0\n\nx", "P1\n\nx"],
        f"{tmp_path / 'a.xml'}, byte {len(cut)}: the dump is damaged or cut short (no element found); fetch it again",
    )
    assert broken(tmp_path, HEAD + pages[0] + "<page><title>a</page>" + END)[0] == ["P0\n\nx"]
    (tmp_path / "b.xml.bz2").write_bytes(bz2.compress((HEAD + pages[0] + END).encode())[:-9])
    *_, fault = read(tmp_path / "b.xml.bz2")[0]
    assert isinstance(fault, Fault)
    assert fault.reason == "damaged"


def test_entities_and_document_types_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    found, message = broken(tmp_path, f'<?xml version="1.0"?>{bomb}{HEAD}{wiki_page(1, "A", "x")}{END}')
    assert found == []
    assert "declares a document type" in message
    page = wiki_page(1, "A", "x").replace(">x<", ">&b;<")
    assert "undefined entity" in broken(tmp_path, HEAD + page + END)[1]


def test_what_is_no_dump_is_named_as_such(tmp_path: Path) -> None:
    assert "its outermost tag is <rss>" in broken(tmp_path, "<rss><channel/></rss>")[1]
    assert "more than 50 tags in one another" in broken(tmp_path, HEAD + "<page>" * 60)[1]
    with pytest.raises(InputError, match=r"of the kind '.xlm'.*\.xml of MediaWiki"):
        (tmp_path / "a.xlm").touch()
        find_sources([str(tmp_path / "a.xlm")])


def test_a_page_or_a_tag_longer_than_any_costs_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikipedia, "LONGEST_RECORD", 1000)
    path = write(tmp_path / "b.xml", wiki_page(1, "A", "x" * 1001), wiki_page(2, "B", "x" * 1000))
    fault, page = read(path)[0]
    assert isinstance(fault, Fault)
    assert (fault.position, fault.reason) == ("page 1", "bad-row")
    assert isinstance(page, DocumentPart)
    monkeypatch.setattr(wikipedia, "BLOCK_BYTES", 100)
    assert "a tag of more than 1,000 bytes" in broken(tmp_path, HEAD + f'<page title="{"x" * 2000}" />')[1]


def test_a_large_dump_is_read_in_little_memory(tmp_path: Path) -> None:
    made: Counter[str] = Counter()
    with (tmp_path / "a.xml.bz2").open("wb") as file:
        write_multistream(file, random_wiki_pages(4_000_000, made))
    documents = 0
    left_out: LeftOutCounts = Counter()
    tracemalloc.start()
    try:
        for item in read_parts(find_sources([str(tmp_path / "a.xml.bz2")]).sources, left_out=left_out):
            assert isinstance(item, DocumentPart)
            documents += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert {"page": documents, **by_reason(left_out)} == made
    assert peak < 25_000_000


# --- in use ---


def dump_of_text(path: Path) -> str:
    articles = [wiki_page(number, f"Tale {number}", make_text(30, number)) for number in range(40)]
    others = [wiki_page(100 + number, f"R{number}", "#REDIRECT", target="Tale 1") for number in range(7)]
    return write(path, *articles, *others)


def test_a_corpus_of_a_dump_is_the_same_for_any_number_of_processes(
    words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.corpus.batches.BATCH_CHARACTERS", 10_000)
    path = dump_of_text(tmp_path / "a.xml")
    one, three = (prepare(path, words_tokenizer, tmp_path / str(workers), workers=workers) for workers in (1, 3))
    assert one == three
    assert one["documents"] == {"read": 47, "dropped": {"redirect": 7}}
    for file in (tmp_path / "1").iterdir():
        assert file.read_bytes() == (tmp_path / "3" / file.name).read_bytes()
    (line,) = (tmp_path / "1" / "dropped.jsonl").read_text().splitlines()
    assert json.loads(line) == {"source": path, "reason": "redirect", "documents": 7}


def test_a_dump_without_an_article_is_no_text(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", wiki_page(1, "A", "#REDIRECT", target="B"))
    with pytest.raises(InputError, match="no document to read; left out: 1 redirect"):
        prepare(path, words_tokenizer, tmp_path / "out")


def test_the_doctor_and_the_vocabulary_read_dumps_too(tmp_path: Path) -> None:
    path = dump_of_text(tmp_path / "a.xml")
    text = examine([path], workers=1)["text"]
    assert (text["documents"], text["left_out_documents"]) == (40, {"redirect": 7})
    assert len(train_tokenizer(path, merges=20, workers=1).vocabulary.merges) == 20


def test_without_the_library_it_is_said_how_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    path = write(tmp_path / "a.xml", wiki_page(1, "A", "x"))
    with pytest.raises(MissingDependency, match=r"a\.xml needs the library.*'gpt1\[wikipedia\]'"):
        read_parts(find_sources([path]).sources)
