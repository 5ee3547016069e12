"""Texts for corpora that several processes make together, and how what they made is compared."""

from __future__ import annotations

import filecmp
import gzip
import json
from pathlib import Path
from typing import Any

from benchmarks.dumps import HEAD, warc_record, wiki_page
from gpt1.base.progress import Silent
from tests.conftest import make_text

# Of `write_texts`; small batches and lots, so that there are many of them, are set where they are cut.
SETTINGS: dict[str, Any] = {"field": "text", "valid": 0.1, "shard_tokens": 5_000, "workers": 1}
DROPPED = {"empty": 2, "exact duplicate": 4, "near duplicate": 1}
SMALL_BATCH, SMALL_LOT = 3_000, 8_000
# Of `write_pages`, with which settings, and what is dropped then.
DUMP, WET = "a.xml", "a.warc.wet.gz"
SIFTED: dict[str, Any] = {"quality": True, "on_error": "skip", "valid": 0.1, "shard_tokens": 5_000, "workers": 1}
LEFT_OUT = {
    DUMP: {"damaged": 1, "empty": 1, "few words": 4, "not an article": 1, "redirect": 25},
    WET: {"empty": 1, "exact duplicate": 1, "few words": 4, "undecodable": 1},
}


def write_texts(folder: Path) -> Path:
    """Write files of all sizes, one as large as the others together, with copies far from each other."""
    folder.mkdir()
    documents = [make_text(60, seed) for seed in range(30)]
    repeated = [documents[3], documents[20], documents[7].replace("Ann", "Eve", 2)]
    for number, group in enumerate([documents[:3], documents[3:8], [*repeated, "", " "], documents[8:]]):
        lines = [json.dumps({"text": text}) + "\n" for text in group]
        (folder / f"{number}.jsonl").write_text("".join(lines))
    for number in range(5):
        (folder / f"{number}.txt").write_text(make_text(40, 100 + number % 3))
    return folder


def write_pages(folder: Path, name: str) -> Path:
    """Write a dump of a wiki or a WET file, as its name says, with all that may become of a page, beside texts."""
    folder.mkdir()
    few = dict.fromkeys((3, 4, 17), "Too few words.")
    texts = [few.get(number) or make_text(60, number) for number in range(30)] + [make_text(60, 5)]
    if name == DUMP:
        pages = [wiki_page(number, f"Tale {number}", text) for number, text in enumerate(texts)]
        pages[5] = wiki_page(5, "Tale 30", texts[5])
        others = [wiki_page(100 + number, f"R{number}", "#REDIRECT", target="Tale 1") for number in range(25)]
        pages[10:10] = [*others, wiki_page(200, "Talk", "hm", namespace=1), wiki_page(201, "Nothing", "{{soon}}")]
        (folder / name).write_text(HEAD + "".join(pages)[:-200])  # cut short
    else:
        blocks = [text.encode() for text in texts]
        blocks[10:10] = [b"caf\xe9", b" "]
        members = [gzip.compress(warc_record("conversion", number, block)) for number, block in enumerate(blocks)]
        (folder / name).write_bytes(b"".join(members))
    for number in range(3):
        (folder / f"{number}.txt").write_text(make_text(40, 100 + number) if number else "Few.")
    return folder


def assert_same_folder(a: Path, b: Path) -> None:
    """Compare all files of two folders, byte by byte."""
    names = sorted(path.name for path in a.iterdir())
    assert names == sorted(path.name for path in b.iterdir())
    assert filecmp.cmpfiles(a, b, names, shallow=False) == (names, [], [])


class Said(Silent):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Remember a line."""
        self.lines.append(line)
