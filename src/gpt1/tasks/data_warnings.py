"""What a person should be told about labelled rows before anything is learnt from them.

Rows of one label are refused, as nothing can be learnt from them; all else is told, with row numbers, and left as is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gpt1.base.errors import InputError
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import SHOWN, Example, Labelled, same_texts
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.spellings import number, variants

LONG_TEXT = 1_000_000  # characters; encoding so long a text takes a while, and next to nothing of it fits a model

Texts = tuple[str, ...]

MANY_LABELS = 20  # different numbers, beyond which they are hardly names of classes


def look_at_rows(labelled: Labelled) -> tuple[str, ...]:
    """Tell of rows that stand in train and elsewhere, of texts with two labels, and of very long ones."""
    task, splits = labelled.task, labelled.splits
    train = splits.get("train", [])
    known: dict[Texts, int] = {}
    for texts, example in zip(same_texts(task, train), train, strict=True):
        known.setdefault(texts, example.row)
    found = []
    for split, examples in splits.items():
        keyed = list(zip(same_texts(task, examples), examples, strict=True))
        if split != "train":
            found.append(_shared(split, keyed, known))
        if task.score_range is None:
            found.append(_two_labels(split, keyed))
        found.append(_long_texts(split, examples))
    return tuple(notice for notice in found if notice)


def _shared(split: str, keyed: Sequence[tuple[Texts, Example]], known: dict[Texts, int]) -> str:
    both = [f"row {example.row} is {known[texts]} of train" for texts, example in keyed if texts in known]
    if not both:
        return ""
    return f"{split}: the texts of {many(len(both), 'row')} stand in train too, which flatters the score ({some(both)})"


def _two_labels(split: str, keyed: Sequence[tuple[Texts, Example]]) -> str:
    rows: dict[Texts, dict[int | float, int]] = {}
    for texts, example in keyed:
        if example.label is not None:
            rows.setdefault(texts, {}).setdefault(example.label, example.row)
    torn = [" and ".join(map(str, labels.values())) for labels in rows.values() if len(labels) > 1]
    return f"{split}: {many(len(torn), 'text')} with more than one label (rows {some(torn)})" if torn else ""


def _long_texts(split: str, examples: Sequence[Example]) -> str:
    sizes = ((example.row, max(map(len, example.texts))) for example in examples)
    long = [f"row {row} with {size:,} characters" for row, size in sizes if size > LONG_TEXT]
    return f"{split}: very long texts, all but their beginning will be cut: {some(long)}" if long else ""


def look_at_labels(task: Task, train: Sequence[Example], place: object) -> tuple[str, ...]:
    """Refuse training rows of one label only, and tell of labels that are seen once."""
    if task.shape == CHOICES:  # the right answer may stand first in every row: each answer is scored by itself
        return ()
    if task.score_range is not None:
        refuse_one_label((example.label for example in train), place)
        return ()
    named = [(task.labels[int(example.label)], example.row) for example in train if example.label is not None]
    counts = Counter(name for name, _ in named)
    refuse_one_label(counts, place)
    once = [f"'{name}' (row {row})" for name, row in named if counts[name] == 1]
    return (f"{place}: labels seen once, too rare to learn: {some(once, SHOWN)}",) if once else ()


def refuse_one_label(labels: Iterable[Any], place: object) -> None:
    """Stop where training could learn nothing but one answer."""
    if len(found := set(labels)) < 2:
        what = f"every row has the label '{found.pop()}'" if found else "no row has a label"
        raise InputError(f"{place}: {what}; training needs at least two different ones")


def doubtful_names(labels: Sequence[str], place: object) -> tuple[str, ...]:
    """Tell of labels that may be scores, or one label written in two ways."""
    notices = []
    if len(labels) > MANY_LABELS and all(number(name) is not None for name in labels):
        notices.append(f"{place}: the labels are {len(labels)} numbers; if they are scores, say `regression=True`")
    pairs = [" and ".join(f"'{name}'" for name in names) for names in variants(labels)]
    if pairs:
        said = f"labels taken for different ones though they look the same: {some(pairs, SHOWN)}"
        notices.append(f"{place}: {said}; `fold_labels=True` takes them for one")
    return tuple(notices)
