"""What a person should be told about labelled rows before anything is learnt from them.

Rows of one label are refused, as nothing can be learnt from them; all else is told, with row numbers, and left as is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from gpt1.base.errors import InputError
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import SHOWN, Example, Label, Labelled, Row, has_decimal_comma, same_texts, with_point
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.spellings import number, variants

LONG_TEXT = 1_000_000  # characters; encoding so long a text takes a while, and next to nothing of it fits a model

Texts = tuple[str, ...]

SEPARATORS = "|;,"
COMMON_SHARE = 0.8  # of the commonest label, from which on accuracy says little
MANY_LABELS = 20  # different numbers, beyond which they are hardly names of classes
NUMBERS_SHARE = 0.9  # of labels, from which on they are taken for numbers, some of them mistyped


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
            found.append(_two_labels(task, split, keyed))
        found.append(_long_texts(split, examples))
    return tuple(notice for notice in found if notice)


def _shared(split: str, keyed: Sequence[tuple[Texts, Example]], known: dict[Texts, int]) -> str:
    both = [f"row {example.row} is {known[texts]} of train" for texts, example in keyed if texts in known]
    if not both:
        return ""
    return f"{split}: the texts of {many(len(both), 'row')} stand in train too, which flatters the score ({some(both)})"


def _two_labels(task: Task, split: str, keyed: Sequence[tuple[Texts, Example]]) -> str:
    rows: dict[Texts, dict[Label, int]] = {}
    for texts, example in keyed:
        if example.label is not None:
            rows.setdefault(texts, {}).setdefault(example.label, example.row)
    torn = [" and ".join(map(str, labels.values())) for labels in rows.values() if len(labels) > 1]
    what = "with other labels elsewhere" if task.is_multilabel else "with more than one label"
    return f"{split}: {many(len(torn), 'text')} {what} (rows {some(torn)})" if torn else ""


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
    if task.is_multilabel:
        refuse_same_labels([example.label for example in train], place)
    known = ((example.label, example.row) for example in train if example.label is not None)
    each = ((label if isinstance(label, tuple) else (int(label),), row) for label, row in known)
    named = [(task.labels[one], row) for labels, row in each for one in labels]
    counts = Counter(name for name, _ in named)
    refuse_one_label(counts, place)
    once = [f"'{name}' (row {row})" for name, row in named if counts[name] == 1]
    seen_once = [f"{place}: labels seen once, too rare to learn: {some(once, SHOWN)}"] if once else []
    return (*seen_once, *_lopsided(task, counts, place))


def _lopsided(task: Task, counts: Counter[str], place: object) -> list[str]:
    """Tell where accuracy says little, for nearly all rows having one label."""
    (name, count), *_ = counts.most_common(1)
    if task.metrics[0] != "accuracy" or task.labels_words or count < COMMON_SHARE * counts.total():
        return []
    said = f"{100 * count / counts.total():.1f} % of the rows have the label '{name}', so accuracy says little"
    return [f"{place}: {said}; `metric='macro-f1'` chooses and judges by all labels alike"]


def refuse_one_label(labels: Iterable[Any], place: object) -> None:
    """Stop where training could learn nothing but one answer."""
    if len(found := set(labels)) < 2:
        what = f"every row has the label '{found.pop()}'" if found else "no row has a label"
        raise InputError(f"{place}: {what}; training needs at least two different ones")


def refuse_same_labels(labels: Sequence[object], place: object) -> None:
    """Stop where all rows have the very same labels, of several or none: there is nothing to tell apart."""
    if len(set(labels)) < 2:
        raise InputError(f"{place}: all rows have the same labels; training needs rows that differ in them")


def look_at_cells(rows: Sequence[Row], column: str, separator: str, place: object) -> tuple[str, ...]:
    """Refuse a separator that parts nothing; tell of labels that stand twice in a cell, and of cells with none."""
    cells = [(row, row.labels(column, separator)) for row in rows]
    if not any(len(names) > 1 for _, names in cells):
        raise InputError(
            f"{place}: no row has several labels parted by '{separator}' in '{column}'; is another sign between them? "
            "Where each row has one label, leave `labels_sep` out"
        )
    notices = []
    if twice := [str(row.number) for row, names in cells if len(set(names)) < len(names)]:
        said = f"{many(len(twice), 'row')} with a label that stands there twice, and counts once"
        notices.append(f"{place}: {said} (rows {some(twice)})")
    if bare := [str(row.number) for row, names in cells if not names]:
        said = f"{len(bare):,} of {many(len(cells), 'row')} without any label, which is learned as such"
        notices.append(f"{place}: {said} (rows {some(bare)})")
    return tuple(notices)


def rows_with_commas(rows: Iterable[Row], column: str) -> list[Row]:
    """Return the rows whose score has a decimal comma."""
    return [row for row in rows if has_decimal_comma(row.cells.get(column))]


def look_at_commas(rows: Iterable[Row], column: str, place: object) -> list[str]:
    """Tell of scores with a decimal comma as what they are read."""
    if not (found := rows_with_commas(rows, column)):
        return []
    where = f"(rows {some([str(row.number) for row in found])})"
    return [f"{place}: {', '.join(commas_in_words(found, column))} {where}"]


def commas_in_words(found: Sequence[Row], column: str) -> tuple[str, str]:
    """Return how many scores have a decimal comma, and as what they are read."""
    first = str(found[0].cells[column]).strip()
    return (
        f"{many(len(found), 'score')} with a decimal comma",
        f"read as with a point: '{first}' is {with_point(first)}",
    )


def seem_several(names: Iterable[str]) -> tuple[str, list[str]] | None:
    """Return labels that seem to be several in one cell, and what parts them: each part stands in other labels too."""
    names = list(names)
    for separator in SEPARATORS:
        is_decimal = separator == "," and seem_scores(names) and _are_decimal(names)
        parts = {name: {name} if is_decimal else _parts(name, separator) for name in names}
        seen = Counter(part for own in parts.values() for part in own)
        several = [name for name, own in parts.items() if len(own) > 1 and all(seen[part] > 1 for part in own)]
        if several:
            return separator, several
    return None


def seem_scores(names: Collection[str]) -> int:
    """Return how many labels are numbers, where they seem to be scores: nearly all, and many or with decimal commas."""
    numbers = sum(number(with_point(name)) is not None for name in names)
    is_many = numbers > MANY_LABELS or any(map(has_decimal_comma, names))
    return numbers if is_many and numbers >= NUMBERS_SHARE * len(names) else 0


def scores_advice(names: Collection[str]) -> str:
    """Return what helps where labels seem to be scores, and where their commas may part labels after all."""
    told = "if they are scores to predict, say `regression=True`"
    either = may_be_either(names)
    return f"{told}; if '{either}' is two labels, `labels_sep=','` parts them" if either else told


def may_be_either(names: Collection[str]) -> str:
    """Return a label whose comma may be a decimal one or part two labels, if there is one that is not decided."""
    commas = [name for name in names if has_decimal_comma(name)]
    if not commas or not _are_decimal(names):  # then it is told that they seem to be several
        return ""
    parts = {part for name in names for part in _parts(name, ",")}
    alone = [name for name in commas if _parts(name, ",") & {*names}]
    return (alone or [commas[0] if len(parts) <= len(names) else ""])[0]  # scores have more parts than there are scores


def _are_decimal(names: Iterable[str]) -> bool:
    """Whether commas are those of numbers and part no codes, which would all stand as labels of their own too."""
    names = list(names)
    parted = [name.strip().split(",") for name in names if has_decimal_comma(name)]
    are_halves = all(after == "5" for _, after in parted)  # from 0 to 5, as marks are given, 0,5 has such parts too
    return bool(parted) and (are_halves or not {*names}.issuperset(chain.from_iterable(parted)))


def _parts(name: str, separator: str) -> set[str]:
    return {part.strip().casefold() for part in name.split(separator) if part.strip()}


def doubtful_names(task: Task, place: object) -> tuple[str, ...]:
    """Tell of labels that may be scores, several labels in one, or one label written in two ways."""
    notices, labels = [], task.labels
    if not task.is_multilabel and (several := seem_several(labels)) is not None:
        separator, combined = several
        named = some([f"'{name}'" for name in combined], 3)
        said = f"labels that seem to be several, parted by '{separator}': {named}"
        helps = f"`labels_sep={separator!r}` learns each as a label of its own, and an empty cell as none of them"
        notices.append(f"{place}: {said}; {helps}")
    if not task.is_multilabel and (numbers := seem_scores(labels)):
        notices.append(f"{place}: the labels are {numbers} numbers; {scores_advice(labels)}")
    pairs = [" and ".join(f"'{name}'" for name in names) for names in variants(labels)]
    if pairs:
        said = f"labels taken for different ones though they look the same: {some(pairs, SHOWN)}"
        notices.append(f"{place}: {said}; `fold_labels=True` takes them for one")
    return tuple(notices)
