"""Make a table of several labels a row from books: `python tools/marks.py BOOKS --out marks`.

A row is a sentence of a novel in small letters and without its marks; its labels are what was taken away: is it spoken,
does it ask, exclaim, have a semicolon or a dash, does it name somebody? Who wrote the book labelled it. BOOKS is a
folder with the ten books that no base has read, as `NAME.txt.xz`; no book stands in two of `train.csv`, `dev.csv` and
`test.csv`. The same books give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from gpt1.base.files import make_folder, whole_file
from gpt1.corpus.documents import DocumentPart, find_sources, read_parts
from gpt1.demo.books import SPLIT_BOOKS
from gpt1.lessons.passages import sentences

ROWS = {"train": 2_000, "dev": 400, "test": 2_000}
FEWEST_WORDS, MOST_WORDS = 5, 30
LABELS = {
    "speech": re.compile(r"[\"“”]"),
    "question": re.compile(r"\?"),
    "exclamation": re.compile("!"),
    "semicolon": re.compile(";"),
    "dash": re.compile("—|--"),
    "name": re.compile(r"(?<=[a-z,;] )(?!I\b)[A-Z][a-z]+"),
}
_NO_WORD = re.compile(r"[^\w\s'’]|_")


def row_of(sentence: str) -> tuple[str, str]:
    """Return the bare words of a sentence, and its labels."""
    text = " ".join(_NO_WORD.sub(" ", sentence).replace("’", "'").lower().split())
    return text, "|".join(name for name, mark in LABELS.items() if mark.search(sentence))


def rows_of(book: Path) -> Iterator[tuple[str, str]]:
    """Yield the rows of a book."""
    parts = read_parts(find_sources([str(book)]).sources, unwrap=True)
    text = "".join(part.text for part in parts if isinstance(part, DocumentPart))
    for stretch in sentences(text):
        for sentence in stretch:
            if FEWEST_WORDS <= len(sentence.split()) <= MOST_WORDS:
                yield row_of(sentence)


def write(books: Path, out: Path) -> None:
    """Write the three tables, of each book about as many rows."""
    make_folder(out)
    for split, names in SPLIT_BOOKS.items():
        draw, rows = Random(split), []
        for name in names:
            own = sorted(dict(rows_of(books / f"{name}.txt.xz")).items())
            rows += draw.sample(own, ROWS[split] // len(names))
        draw.shuffle(rows)
        text = io.StringIO(newline="")
        csv.writer(text).writerows([("text", "labels"), *rows])
        with whole_file(out / f"{split}.csv") as file:
            file.write(text.getvalue().encode())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("books", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    write(given.books, given.out)


if __name__ == "__main__":
    main()
