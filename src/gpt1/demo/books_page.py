"""What the tour with books found: printed, and the opening of the report's page."""

from __future__ import annotations

from gpt1.base.wording import hundred
from gpt1.demo.books import SPLIT_BOOKS
from gpt1.demo.books_tour import BooksResult, BookTaskResult, Measured
from gpt1.documents.blocks import Block, Note, Section, Table, TableCell, TableRow
from gpt1.documents.figures import between, score
from gpt1.documents.study import judged_row, judged_table

BOOKS_TITLE = "A base that has read novels, and two tasks about others"
HEADER = ("chance", "TF-IDF", "from scratch", "the base")


def books_opening(found: BooksResult) -> Section:
    """Return the section with which the report of the tour begins."""
    labels, tested = found.rows["train"], found.rows["test"]
    seeds = "one seed" if found.seeds == 1 else f"medians of {found.seeds} seeds"
    caption = f"Accuracy x 100 on {tested:,} test rows, {seeds}; 95 % intervals below. {labels} labels a task."
    leads = [row for task in found.tasks for row in _leads(task)]
    blocks: list[Block] = [
        Table(caption, ["task", *HEADER], [_row(task) for task in found.tasks]),
        judged_table("The base against each of the others.", leads),
        *(Note(line) for line in _legend(found)),
    ]
    lead = (
        "The base of this package learned two tasks about novels that it had not read, each from a few hundred "
        "labels. The same network learned them from scratch beside it, and TF-IDF answered the same rows."
    )
    return Section("demo", "What pre-training brings on real text", lead, blocks)


def _row(task: BookTaskResult) -> TableRow:
    reached = (task.words, task.scratch, task.pretrained)
    best = max(one.value for one in reached)
    cells = [_cell(one, is_best=one.value == best) for one in reached]
    return TableRow(task.title, [TableCell(hundred(task.chance)), *cells], task.shape)


def _cell(measured: Measured, *, is_best: bool) -> TableCell:
    return TableCell(score(measured.value), note=between((measured.low, measured.high)), is_best=is_best)


def _leads(task: BookTaskResult) -> list[TableRow]:
    others = {"over TF-IDF": task.over_words, "over the same from scratch": task.over_scratch}
    return [judged_row(name, task.title, one.value, one.low, one.high) for name, one in others.items()]


def _legend(found: BooksResult) -> list[str]:
    books = {split: len(names) for split, names in SPLIT_BOOKS.items()}
    return [
        f"The base is '{found.base}': {found.about}. gpt1 bases {found.base} prints its model card.",
        f"The labels are of {books['train']} novels, the test is of {books['test']} others, and the base has read none "
        "of them. Its lessons asked kindred questions of the text that it did read.",
        f"TF-IDF: counted words and logistic regression. The networks computed in {found.precision}, on one thread; in "
        "another precision, or on a processor that adds in another order, figures are others.",
    ]
