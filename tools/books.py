"""Make the rows of `gpt1 demo --books`: `python tools/books.py BOOKS --out src/gpt1/demo/passages`.

BOOKS is a folder with the ten books that no base has read, as `NAME.txt.xz`. Every row is made of whole sentences of
one book, no sentence stands in two rows, and no book in two splits. The same books give the same bytes.

- finish: the first half of a sentence, its second half, and the second half of another sentence of the same book;
- exchange: a sentence as it was written, or with two neighbouring words exchanged.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from random import Random

from gpt1.base.files import make_folder, whole_file
from gpt1.base.strict_json import to_json
from gpt1.corpus.documents import DocumentPart, find_sources, read_parts
from gpt1.demo.books import COUNTS, EXCHANGE, FINISH, SPLIT_BOOKS, BookRow
from gpt1.lessons.passages import sentences

FEWEST_WORDS, MOST_WORDS = 12, 22  # of a sentence: few tokens, so that two cores learn hundreds in a minute
LIKELY = 20  # sentences among which the ending that is nearest in length is taken
SEED = 0


class Pool:
    """The sentences of a book in a drawn order, each to be taken once."""

    def __init__(self, book: Path, draw: Random) -> None:
        parts = read_parts(find_sources([str(book)]).sources, unwrap=True)
        text = "".join(part.text for part in parts if isinstance(part, DocumentPart))
        found = dict.fromkeys(one for stretch in sentences(text) for one in stretch if _is_fit(one))
        self._left = list(found)
        draw.shuffle(self._left)

    def take(self) -> str:
        """Take the next sentence."""
        return self._left.pop()

    def take_likest(self, ending: str) -> str:
        """Take the one of the next sentences whose second half is nearest in length to an ending."""
        likest = min(self._left[-LIKELY:], key=lambda one: abs(len(halves(one)[1]) - len(ending)))
        self._left.remove(likest)
        return likest


def _is_fit(sentence: str) -> bool:
    """Whether a sentence can be taken: a quotation mark that opens in one half would tell the other."""
    return FEWEST_WORDS <= len(sentence.split()) <= MOST_WORDS and not set('"“”()') & set(sentence)


def halves(sentence: str) -> tuple[str, str]:
    """Cut a sentence in the middle."""
    words = sentence.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def finish(pool: Pool, draw: Random, label: int) -> BookRow:
    """Make a beginning and two endings; the label is the place of its own."""
    context, own = halves(pool.take())
    other = halves(pool.take_likest(own))[1]
    return {"context": context, "choices": [other, own] if label else [own, other], "label": label}


def exchange(pool: Pool, draw: Random, label: int) -> BookRow:
    """Make a sentence as it was written (1), or with two neighbours exchanged (0)."""
    places: list[int] = []
    while not places:
        words = pool.take().split()
        places = [at for at in range(1, len(words) - 2) if _can_be_exchanged(*words[at : at + 2])]
    at = draw.choice(places)
    if not label:
        words[at : at + 2] = words[at + 1], words[at]
    return {"text": " ".join(words), "label": EXCHANGE.labels[label]}


def _can_be_exchanged(one: str, other: str) -> bool:
    """Whether two words have neither a capital nor a mark, which would tell that they stand elsewhere."""
    return one != other and all(word.isalpha() and word.islower() for word in (one, other))


MAKERS: dict[str, Callable[[Pool, Random, int], BookRow]] = {FINISH.name: finish, EXCHANGE.name: exchange}


def make(books: Path) -> Iterator[tuple[str, str, list[BookRow]]]:
    """Yield the rows of every task and split: as many of each book, and of each label."""
    for split, names in SPLIT_BOOKS.items():
        draw = Random(f"{SEED} {split}")
        pools = {name: Pool(books / f"{name}.txt.xz", draw) for name in names}
        for task, maker in MAKERS.items():
            rows = [
                {**maker(pools[name], draw, number // len(names) % 2), "book": name}
                for number, name in zip(range(COUNTS[split]), cycle(names), strict=False)
            ]
            draw.shuffle(rows)
            yield task, split, rows


def write(books: Path, out: Path) -> None:
    """Write a file for each task and split."""
    for task, split, rows in make(books):
        make_folder(out / task)
        with whole_file(out / task / f"{split}.jsonl") as file:
            file.writelines((to_json(row) + "\n").encode() for row in rows)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("books", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    write(given.books, given.out)


if __name__ == "__main__":
    main()
