"""Two tasks about ten novels that no base has read, and their rows, which lie in the package.

Both ask what a reader of English knows and no count of words tells. `tools/books.py` makes the rows; splits have no
book in common, so whatever is tested is asked of books that neither the base nor the labels have shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TypedDict

from gpt1.base.errors import FormatError
from gpt1.base.files import make_folder, whole_file
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import CHOICES, SINGLE

PASSAGES = Path(__file__).parent / "passages"
COUNTS = {"train": 300, "dev": 100, "test": 400}
SPLIT_BOOKS = {
    "train": (
        "arthur-conan-doyle-the-hound-of-the-baskervilles",
        "bram-stoker-the-jewel-of-seven-stars",
        "jack-london-the-sea-wolf",
        "jerome-k-jerome-three-men-on-the-bummel",
        "louisa-may-alcott-eight-cousins",
    ),
    "dev": ("h-g-wells-the-invisible-man",),
    "test": (
        "jane-austen-persuasion",
        "l-frank-baum-the-emerald-city-of-oz",
        "robert-louis-stevenson-treasure-island",
        "thomas-hardy-far-from-the-madding-crowd",
    ),
}

FINISH = Task(
    name="finish",
    title="Which of two endings finishes the sentence?",
    shape=CHOICES,
    choices=2,
    metrics=("accuracy",),
    fields=("context", "choices"),
)
EXCHANGE = Task(
    name="exchange",
    title="Were two neighbouring words exchanged?",
    shape=SINGLE,
    labels=("exchanged", "as written"),
    metrics=("accuracy",),
    fields=("text",),
)
BOOK_TASKS = (FINISH, EXCHANGE)


class BookRow(TypedDict, total=False):
    """A row of a task, as its file holds it: the texts of its shape, and the book they stand in."""

    context: str
    choices: list[str]
    text: str
    label: str | int
    book: str


def write_rows(folder: Path, counts: Mapping[str, int]) -> None:
    """Write the first so many rows of every split to a folder, as every verb reads them."""
    for task in BOOK_TASKS:
        make_folder(folder / task.name)
        for split, count in counts.items():
            name = f"{task.name}/{split}.jsonl"
            with (PASSAGES / name).open("rb") as packaged:
                rows = [row for row in islice(packaged, count) if row.endswith(b"\n")]
            if len(rows) < count:
                raise FormatError(
                    f"{PASSAGES / name} is damaged: it holds {len(rows):,} of {count:,} rows; install gpt1 again"
                )
            with whole_file(folder / name) as file:
                file.writelines(rows)
