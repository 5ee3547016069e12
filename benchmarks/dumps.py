"""Are dumps of any size read in bounded memory, and is every page counted? A file is made, and read as `prepare` reads.

    python -m benchmarks.dumps wikipedia|wet|warc --gigabytes 2 [--workers N] [--folder DIR]

The file is made as it is written, of words drawn at random, so it takes no memory either; unpacked it is as large as
said. The pages of a dump are articles, redirects and pages of another namespace; those of a crawl are texts.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape

from gpt1.base.parallel import cores
from gpt1.corpus.documents import DocumentPart, Fault, TextReading, find_sources, read_parts, read_sources
from gpt1.corpus.pages import LeftOutCounts, by_reason

WORDS = [f"{first}{second}" for first in ("sto", "ra", "ne", "wi", "la", "mo") for second in ("ne", "ver", "st", "d")]
NAMES = {
    "wikipedia": "dump-pages-articles-multistream.xml.bz2",
    "wet": "crawl-00000.warc.wet.gz",
    "warc": "crawl-00000.warc.gz",
}
TEXT = random.Random(0).choices(WORDS, k=100_000)
LEVEL = 1  # of packing: the quickest
STREAM_PAGES = 100  # of a multistream dump, as Wikipedia packs them
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
END = "</mediawiki>\n"


# --- Wikipedia ------------------------------------------------------------------------------------------------


def wiki_page(
    number: int, title: str, markup: str, *, namespace: int = 0, target: str = "", model: str = "wikitext"
) -> str:
    """Return a page as a dump has it; one with a `target` is a redirect to it."""
    redirect = f'    <redirect title="{escape(target)}" />\n' if target else ""
    return f"""  <page>
    <title>{escape(title)}</title>
    <ns>{namespace}</ns>
    <id>{number}</id>
{redirect}    <revision>
      <id>{number + 1_000_000}</id>
      <timestamp>2026-11-01T00:00:00Z</timestamp>
      <contributor>
        <username>A hand</username>
        <id>7</id>
      </contributor>
      <model>{model}</model>
      <format>text/x-wiki</format>
      <text bytes="{len(markup.encode())}" xml:space="preserve">{escape(markup)}</text>
      <sha1>0</sha1>
    </revision>
  </page>
"""


def random_wiki_pages(size: int, made: Counter[str]) -> Iterator[str]:
    """Yield pages of so many bytes in all, and count them by what becomes of them."""
    draw = random.Random(0)
    number = written = 0
    while written < size:
        number += 1
        kind = draw.choices(("page", "redirect", "not an article"), (6, 3, 1))[0]
        title = f"{_sentence(draw, 2)} {number}"
        if kind == "redirect":
            page = wiki_page(number, title, f"#REDIRECT [[{_sentence(draw, 2)}]]", target="x")
        elif kind == "page":
            page = wiki_page(number, title, _article(draw, title))
        else:
            page = wiki_page(number, f"Talk:{title}", _sentence(draw, 200), namespace=1)
        made[kind] += 1
        written += len(page)
        yield page


def _article(draw: random.Random, title: str) -> str:
    sections = "".join(
        f"== {_sentence(draw, 2)} ==\n[[Datei:a.jpg|mini|{_sentence(draw, 9)}]]\n"
        + "\n\n".join(f"{_sentence(draw, 60)}<ref>{{{{cite web|url=http://a.b/c|title=x}}}}</ref>" for _ in range(4))
        + f"\n* [[{_sentence(draw, 1)}]]\n* {_sentence(draw, 4)}\n"
        for _ in range(draw.randrange(1, 6))
    )
    box = f"{{{{Infobox|name={title}|area={{{{convert|5|km}}}}}}}}"
    return f"{box}\n'''{title}''' is [[{_sentence(draw, 2)}|this]].\n{sections}[[Kategorie:A]]"


def _sentence(draw: random.Random, words: int) -> str:
    """Return a stretch of one endless text that nobody wrote."""
    begin = draw.randrange(len(TEXT) - words)
    return " ".join(TEXT[begin : begin + words]).capitalize() + "."


def write_multistream(file: IO[bytes], pages: Iterable[str]) -> None:
    """Write a dump packed as Wikipedia's are: its head, then so many pages each in a bz2 stream of their own."""
    file.write(bz2.compress(HEAD.encode(), LEVEL))
    held: list[str] = []
    for page in pages:
        held.append(page)
        if len(held) == STREAM_PAGES:
            file.write(bz2.compress("".join(held).encode(), LEVEL))
            held = []
    file.write(bz2.compress("".join([*held, END]).encode(), LEVEL))


# --- the web ---------------------------------------------------------------------------------------------------


def warc_record(kind: str, number: int, block: bytes) -> bytes:
    """Return a record of a WARC or WET file, not packed."""
    content = "application/http; msgtype=response" if kind == "response" else "text/plain"
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a.example/{number}\r\n"
        f"WARC-Date: 2026-11-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"
        f"Content-Type: {content}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def answer(html: bytes, *, status: str = "200 OK", content: str = "text/html; charset=utf-8", more: str = "") -> bytes:
    """Return what a server answers, as the block of a record holds it."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {content}\r\n{more}\r\n".encode() + html


def random_records(kind: str, size: int, made: Counter[str]) -> Iterator[bytes]:
    """Yield records of so many bytes in all, each packed as a gzip member, and count the pages among them."""
    draw = random.Random(0)
    record = warc_record("warcinfo", 0, b"software: none")
    number = written = 0
    while written < size:
        yield gzip.compress(record, LEVEL)
        written += len(record)
        number += 1
        text = "\n".join(_sentence(draw, draw.randrange(5, 120)) for _ in range(draw.randrange(2, 40)))
        made["page"] += 1
        if kind == "wet":
            record = warc_record("conversion", number, text.encode())
        else:
            record = warc_record("response", number, answer(f"<p>{text.replace(chr(10), '<p>')}".encode()))
    yield gzip.compress(record, LEVEL)


# --- measuring ------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=NAMES)
    parser.add_argument("--gigabytes", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--folder", help="where the file is made, and stays")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(given.folder or temporary) / NAMES[given.kind]
        made: Counter[str] = Counter()
        began = time.perf_counter()
        with path.open("wb") as file:
            if given.kind == "wikipedia":
                write_multistream(file, random_wiki_pages(int(given.gigabytes * 1e9), made))
            else:
                file.writelines(random_records(given.kind, int(given.gigabytes * 1e9), made))
        print(f"made {path.stat().st_size:,} bytes in {time.perf_counter() - began:,.0f} s: {dict(made)}")
        began = time.process_time()
        pages = sum(1 for _ in read_sources(find_sources([str(path)]).sources, TextReading()))
        print(f"found {pages:,} pages in {time.process_time() - began:,.1f} CPU seconds, as each of several parts does")
        began = time.perf_counter()
        read, left_out = count(path, given.workers)
        seconds = time.perf_counter() - began
    peaks = [resource.getrusage(who).ru_maxrss / 1e3 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"read in {seconds:,.0f} s by {given.workers} processes, {1e3 * given.gigabytes / seconds:.1f} MB/s of it")
    print(f"  pages {read:,}; left out: {dict(by_reason(left_out))}")
    print(f"  memory at most: {peaks[0]:,.0f} MB, {peaks[1]:,.0f} MB in a process beside it")
    if {"page": read, **by_reason(left_out)} != made:
        sys.exit("not every page was counted")


def count(path: Path, workers: int) -> tuple[int, LeftOutCounts]:
    """Return how many documents a file has, and what was left out."""
    left_out: LeftOutCounts = Counter()
    documents = 0
    for item in read_parts(find_sources([str(path)]).sources, workers=workers, left_out=left_out):
        if isinstance(item, Fault):
            sys.exit(item.message)
        documents += isinstance(item, DocumentPart) and item.first and bool(item.text)
    return documents, left_out


if __name__ == "__main__":
    main()
