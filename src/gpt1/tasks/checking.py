"""Is a labelled table fit to train on? All that is wrong with it in one go, with rows, and what to do about each thing.

What stops a training are faults of the file and of rows, and labels of which nothing can be learned. All else can be
learned from as it is, and is told to be looked at. Each look is one pass over the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gpt1.base.errors import FileError, InputError
from gpt1.base.tables import Undecodable
from gpt1.base.wording import many, some
from gpt1.tasks.assessment import wilson
from gpt1.tasks.columns import (
    Columns,
    NoLabelColumn,
    check_metric,
    check_row,
    check_separator,
    infer_columns,
    require_names,
)
from gpt1.tasks.data_warnings import (
    COMMON_SHARE,
    LONG_TEXT,
    commas_in_words,
    may_be_either,
    rows_with_commas,
    scores_advice,
    seem_scores,
    seem_several,
)
from gpt1.tasks.encoded import encode_examples
from gpt1.tasks.examples import (
    EMPTY_LABEL,
    EMPTY_ROW,
    EMPTY_TEXT,
    SEVERAL_LABELS,
    SHOWN,
    Example,
    Row,
    example_to_answer,
    label_name,
    same_texts,
    to_score,
)
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.sifting import Sifted, SkippedRow, by_reason, counted, read_into, row_numbers, sift
from gpt1.tasks.spellings import fold, label_key, variants
from gpt1.tasks.splitting import ONE_IN
from gpt1.tasks.unknowns import MOSTLY, count_unknown, unknown_by_example
from gpt1.tasks.windows import call_for_windows
from gpt1.text.language import Language, look_at_language
from gpt1.text.normal_form import TO_WHOLE, is_in_parts
from gpt1.text.tokenizer import Tokenizer

RARE = 10  # rows of a label, below which dev has one of them at most, and nobody sees whether it was learned
OWN_LABELS = 0.5  # labels a row, from which on they are hardly names of classes
FEWEST_ROWS = 20  # of which that is said
FEW_ROWS = "few-rows"
SEVERAL_IN_A_CELL = "several-labels-in-a-cell"

LEAST_GAIN = 0.1  # over always giving the commonest label: where rows cannot even show that, they are few

ENGLISH = "English"

_SKIPPING = "`gpt1.finetune(skip_bad=True)` leaves such rows out"
_ADVICE = {
    EMPTY_ROW: "take such rows out",
    EMPTY_TEXT: "fill the text in, or take the row out",
    EMPTY_LABEL: "label the row, or take it out",
    SEVERAL_LABELS: "write one label a row, or `gpt1.finetune(labels_sep='|')` takes lists as several labels",
}


@dataclass(frozen=True)
class TableFinding:
    """One thing that is wrong, or to be looked at: a stable key, what is so, in which rows, and what to do."""

    key: str
    what: str
    advice: str
    rows: list[int] = field(default_factory=list)
    where: str = ""  # the first rows in words, where their numbers alone do not say it
    stops: bool = False  # nothing can be trained on the table as it is
    may_be_skipped: bool = False  # it is of rows that a training can leave out

    def in_words(self) -> str:
        """Return what is so, and where the first of it is."""
        where = self.where or (row_numbers(self.rows) if self.rows else "")
        if not where:
            return self.what
        return f"{self.what}, {where}" if self.what.endswith(")") else f"{self.what} ({where})"


@dataclass(frozen=True)
class Learner:
    """Who is to learn from a table, as far as it matters: which tokens it knows, how many it reads, which language."""

    name: str
    tokenizer: Tokenizer
    context: int
    language: str = ""  # that it has read, where it is known
    windows: bool = False  # whether it reads texts that do not fit in several windows, where enough of them do not


@dataclass(frozen=True)
class Tokens:
    """How long the rows are for whoever is to learn from them."""

    learner: str
    context: int
    median: int
    longest: int
    cut_rows: int
    unknown: int
    of: int
    windows: int = 0  # that a row is read in at most, where rows are read in several
    long_rows: int = 0  # that are


@dataclass(frozen=True)
class TableReport:
    """What a table holds, and all that was found."""

    table: str
    rows: int
    usable: int
    shape: str | None = None
    columns: dict[str, str] = field(default_factory=dict)  # what each one that is read is
    labels: dict[str, int] = field(default_factory=dict)  # rows by label, the commonest first
    scores: tuple[float, float] | None = None
    characters: tuple[int, int] | None = None  # of the median text and of the longest
    language: Language | None = None
    tokens: Tokens | None = None
    words: tuple[int, int, int] | None = None  # where each has a label: all, those of the median row and of the longest
    scheme: str = ""  # of labels of words that spell spans, of which `labels` has the kinds
    told: list[str] = field(default_factory=list)  # how it was read, where columns do not say it
    findings: list[TableFinding] = field(default_factory=list)

    @property
    def is_fit(self) -> bool:
        """Whether it can be trained on as it is."""
        return not any(finding.stops for finding in self.findings)

    def verdict(self) -> str:
        """Return whether it can be trained on, in a sentence."""
        stops = [finding for finding in self.findings if finding.stops]
        if stops:
            way = f"; {_SKIPPING}" if all(one.may_be_skipped for one in stops) else ""
            return f"cannot be trained on yet: {some([finding.what for finding in stops])}{way}"
        if any(finding.key == FEW_ROWS for finding in self.findings):
            things = many(len(self.findings), "thing")
            return f"can be trained on, but has too few rows to tell what comes of it; {things} to look at"
        if not self.findings:
            return "fit to train on; nothing was found that is to be looked at"
        return f"fit to train on, with {many(len(self.findings), 'thing')} to look at"

    def as_json(self) -> dict[str, Any]:
        """Return all of it as a JSON object."""
        found = asdict(self)
        if self.language is not None:
            found["language"] = {"scripts": self.language.scripts, "english": self.language.is_english}
        return {"table": found.pop("table"), "fit": self.is_fit, "verdict": self.verdict(), **found}


@dataclass(frozen=True)
class _Look:
    """The rows that can be used, as the looks at them need them."""

    columns: Columns
    regression: bool
    examples: list[Example]
    names: list[tuple[str, ...]]  # of each row's labels; none where they are scores or numbers of answers
    labels_sep: str  # what parts the labels of a row; empty: each has one
    commas: list[Row]  # rows whose score has a decimal comma
    by_accuracy: bool = True  # are answers of one label a row to be judged

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(chain.from_iterable(self.names))


def check_table(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    fold_labels: bool = False,
    labels_sep: str | None = None,
    metric: str | None = None,
    learner: Learner | None = None,
) -> TableReport:
    """Return all that is wrong with a table, and what it was understood as; nothing but its absence is an error.

    `columns`, `regression` and `encoding` are those of a training; with `skip_bad`, `fold_labels`, `labels_sep` and
    `metric` the table is judged as a training with them reads it. A `learner` tells how many of its tokens the rows
    have, and which it does not know.
    """
    table, damage = _read(Path(path), encoding)
    found = list(damage)
    understood: Columns | None = None
    if not table.rows:
        found.append(_nothing(table))
    else:
        try:
            understood = infer_columns(
                table.rows, columns or {}, str(path), regression=regression, labels_sep=labels_sep
            )
        except NoLabelColumn as error:
            found.append(TableFinding("no-label", error.why, error.advice, stops=True))
        except InputError as error:
            what = "which columns are text and label cannot be told"
            found.append(TableFinding("columns", what, str(error).removeprefix(f"{path}: "), stops=True))
    total = len(table.rows) + len(table.left_out)
    if understood is None:
        return TableReport(str(path), total, len(table.rows), findings=[*_bad_rows(table.left_out, skip_bad), *found])
    if fold_labels:
        require_names(understood, regression, path)
    if labels_sep is not None:
        check_separator(labels_sep, understood, regression, path)
    if metric is not None:
        check_metric(metric, not (regression or labels_sep or understood.shape == CHOICES))
    separator = labels_sep or ""
    regression = regression and understood.shape != CHOICES  # as a training does not look at it then
    table = sift(table, partial(check_row, understood, regression=regression, labels_sep=separator))
    found = [*_bad_rows(table.left_out, skip_bad), *found, *([] if table.rows else [_nothing(table)])]
    found += [TableFinding(key, told.what, told.advice) for key, told in understood.told.items()]
    report = TableReport(str(path), total, len(table.rows), understood.shape, _roles(understood), findings=found)
    look = _used(table.rows, understood, regression, fold_labels, separator)
    return _look_at_all(report, replace(look, by_accuracy=metric in (None, "accuracy")), learner)


def _read(path: Path, encoding: str) -> tuple[Sifted[Row], list[TableFinding]]:
    """Return the rows up to where the file is damaged, and that damage."""
    found: Sifted[Row] = Sifted([])
    try:
        read_into(found, path, encoding)
    except FileError as fault:
        is_header = fault.position == "header"
        what = "the header cannot be read" if is_header else f"the file cannot be read from {fault.position} on"
        return found, [TableFinding(fault.reason, what, fault.message, stops=True)]
    return found, []


def _nothing(table: Sifted[Row]) -> TableFinding:
    if table.left_out:
        return TableFinding("no-rows", "no row can be used", "mend rows of at least two labels", stops=True)
    return TableFinding("no-rows", "it has no rows", "write a row for each text, below a header", stops=True)


def _roles(columns: Columns) -> dict[str, str]:
    return {**dict.fromkeys(columns.texts, "text"), columns.label: "label"}


def _bad_rows(skipped: Sequence[SkippedRow], skip_bad: bool) -> list[TableFinding]:
    """Return a finding for each reason why rows cannot be used."""
    found = []
    for reason, rows in by_reason(skipped).items():
        said = _ADVICE.get(reason) or "; ".join(_whys(skipped, reason))
        is_foreign = reason == Undecodable.reason  # which would leave out all rows with, say, an accent
        advice = "such rows are left out" if skip_bad else "; ".join([said, "" if is_foreign else _SKIPPING])
        found.append(
            TableFinding(
                reason,
                counted(len(rows), reason),
                advice.removesuffix("; "),
                rows,
                stops=not skip_bad,
                may_be_skipped=not is_foreign,
            )
        )
    return found


def _whys(skipped: Sequence[SkippedRow], reason: str) -> list[str]:
    """Return what is wrong with the first rows, each thing once; the encoding is that of all."""
    firsts: dict[str, int] = {}
    for one in skipped:
        if one.reason == reason:
            firsts.setdefault(one.why, one.row)
    most = 1 if reason == Undecodable.reason else 3
    return [f"row {row}: {why}" for why, row in list(firsts.items())[:most]]


def _used(rows: Sequence[Row], columns: Columns, regression: bool, fold_labels: bool, labels_sep: str) -> _Look:
    has_names = not regression and columns.shape != CHOICES
    read = fold({"train": rows}, columns.label, labels_sep=labels_sep).rows["train"] if fold_labels else rows
    examples = [example_to_answer(columns.draft, row) for row in read]
    if regression:
        scores = [to_score(row, row.label(columns.label)) for row in read]
        examples = [replace(one, label=score) for one, score in zip(examples, scores, strict=True)]
    names = [_names(row, columns.label, labels_sep) for row in read] if has_names else []
    commas = rows_with_commas(read, columns.label) if regression else []
    return _Look(columns, regression, examples, names, labels_sep, commas)


def _names(row: Row, column: str, labels_sep: str) -> tuple[str, ...]:
    return tuple(row.labels(column, labels_sep)) if labels_sep else (label_name(row.label(column)),)


def _look_at_all(report: TableReport, look: _Look, learner: Learner | None) -> TableReport:
    """Return the report with what the usable rows hold, and what is to be looked at in them."""
    if not look.examples:
        return report
    language = look_at_language(" ".join(example.texts) for example in look.examples)
    found = [*(_each_of_several(look) if look.labels_sep else [*_several_labels(look), *_labels(look)])]
    found += _few(look)
    found += [*_repeats(look), *_very_long(look)]
    tokens: Tokens | None = None
    if learner is not None:
        tokens, said = _tokens(look, learner)
        found += said
    found += [*_language(look, language, learner), *_in_parts(look)]
    lengths = [sum(map(len, example.texts)) for example in look.examples]
    scores = [float(label) for example in look.examples if isinstance(label := example.label, int | float)]
    return replace(
        report,
        labels=dict(look.counts.most_common()),
        scores=(min(scores), max(scores)) if look.regression else None,
        characters=(int(median(lengths)), max(lengths)),
        language=language,
        tokens=tokens,
        findings=_several_first([*report.findings, *found]),
    )


# ---- labels ----


def _labels(look: _Look) -> list[TableFinding]:
    """Tell of labels of which nothing or little can be learned, or that are probably not what they were taken for."""
    if look.columns.shape == CHOICES:
        return []
    values = {example.label for example in look.examples} if look.regression else set(look.counts)
    if len(values) < 2:
        what = f"every row has the {'score' if look.regression else 'label'} '{values.pop()}'"
        return [TableFinding("one-label", what, "training needs rows of at least two different ones", stops=True)]
    if look.regression:
        return _commas(look)
    found = _variants(look)
    if numbers := _numbers(look):
        return [*found, *numbers]
    if len(look.counts) > OWN_LABELS * len(look.names) and len(look.names) >= FEWEST_ROWS:
        what = f"nearly every row has a label of its own: {len(look.counts):,} labels in {len(look.names):,} rows"
        advice = f"is '{look.columns.label}' the label? `columns={{'label': 'COLUMN'}}` names another column"
        return [*found, TableFinding("own-labels", what, advice)]
    return [*found, *_rare(look), *_imbalance(look)]


def _few(look: _Look) -> list[TableFinding]:
    """Tell of so few rows that held out, each once, they could not show that anything was learned."""
    classes = look.counts if look.names and not look.labels_sep else Counter()
    chance = max(classes.values()) / len(look.names) if classes else 1 / 2
    if chance == 1:  # of one label alone nothing can be learned, however many rows there are
        return []
    rows, wanted = len(look.examples), _enough(chance)
    if rows >= wanted:
        return []
    judging = _judging(rows)
    low, high = wilson(round(judging / 2), judging)
    what = f"{many(rows, 'row')} are few: a score that they give is known to about ±{50 * (high - low):.0f} points"
    gain = f"{100 * LEAST_GAIN:.0f} points better than {'the commonest label' if classes else 'chance'}"
    gain = gain if chance + LEAST_GAIN <= 1 else "always right"
    return [TableFinding(FEW_ROWS, what, f"label more; from {wanted:,} rows on they can show what is {gain}")]


def _enough(chance: float) -> int:
    """Return how many rows it takes to tell a score from one by chance: its 95 % interval is above that."""
    rows = 2
    while wilson(round(min(1.0, chance + LEAST_GAIN) * _judging(rows)), _judging(rows))[0] <= chance:
        rows += 1
    return rows


def _judging(rows: int) -> int:
    """Return how many of so few rows answers are judged by: those that are cross-validated, all but a tenth for dev."""
    return rows - rows // ONE_IN


def _each_of_several(look: _Look) -> list[TableFinding]:
    """Tell the same of a table whose rows may have several labels, and whether they have."""
    label, sep = look.columns.label, look.labels_sep
    if len(look.counts) < 2:
        what = f"there is one label alone, '{next(iter(look.counts))}'" if look.counts else "no row has a label"
        return [TableFinding("one-label", what, "several labels need two or more: of one, write yes or no", stops=True)]
    if len({frozenset(names) for names in look.names}) < 2:
        what = "all rows have the same labels"
        return [TableFinding("one-label", what, "training needs rows that differ in them", stops=True)]
    if not any(len(names) > 1 for names in look.names):
        what = f"no row has several labels parted by '{sep}' in '{label}'"
        advice = "is another sign between them? Where each row has one label, leave `labels_sep` out"
        return [TableFinding("separator", what, advice, stops=True)]
    found = [*_variants(look), *_rare(look)]
    numbered = list(zip(look.examples, look.names, strict=True))
    if twice := [example.row for example, names in numbered if len(set(names)) < len(names)]:
        what = f"{many(len(twice), 'row')} with a label that stands there twice"
        found.append(TableFinding("repeated-labels", what, "it counts once", twice))
    if bare := [example.row for example, names in numbered if not names]:
        what = f"{many(len(bare), 'row')} without any label"
        advice = "that none applies is learned too; if they are not labelled yet, take them out"
        found.append(TableFinding("no-labels", what, advice, bare))
    return found


def _variants(look: _Look) -> list[TableFinding]:
    groups = variants(look.counts)
    if not groups:
        return []
    alike = [" and ".join(f"'{name}' ({look.counts[name]:,})" for name in group) for group in groups]
    common = {max(group, key=look.counts.__getitem__) for group in groups}
    others = {name for group in groups for name in group} - common
    what = f"{many(len(groups), 'label')} written in several ways: {some(alike, SHOWN)}"
    advice = (
        "they are learned as different labels; write them in one way, or `gpt1.finetune(fold_labels=True)` takes them "
        "for the commonest"
    )
    return [TableFinding("label-variants", what, advice, _rows_of(look, others))]


def _numbers(look: _Look) -> list[TableFinding]:
    if not (numbers := seem_scores(look.counts)):
        return []
    parted = (
        f", or several labels in a cell: '{either}' may be one or two" if (either := may_be_either(look.counts)) else ""
    )
    what = f"the labels are {numbers:,} different numbers{parted}"
    return [TableFinding("number-labels", what, scores_advice(look.counts))]


def _commas(look: _Look) -> list[TableFinding]:
    if not (rows := look.commas):
        return []
    what, advice = commas_in_words(rows, look.columns.label)
    return [TableFinding("decimal-commas", what, advice, [row.number for row in rows])]


def _rare(look: _Look) -> list[TableFinding]:
    together = Counter(dict.fromkeys(map(label_key, look.counts), 0))  # of all ways in which a label is written
    for name, count in look.counts.items():
        together[label_key(name)] += count
    rare = [name for name in look.counts if together[label_key(name)] < RARE]
    if not rare:
        return []
    named = [f"'{name}' ({look.counts[name]:,})" for name in sorted(rare, key=look.counts.__getitem__)]
    what = f"{many(len(rare), 'label')} with fewer than {RARE} rows: {some(named, SHOWN)}"
    advice = "hardly learned, and held-out rows cannot show whether; label more rows of them, or join kindred labels"
    return [TableFinding("rare-labels", what, advice, _rows_of(look, set(rare)))]


def _imbalance(look: _Look) -> list[TableFinding]:
    (name, count), *_ = look.counts.most_common(1)
    share = count / len(look.names)
    if share < COMMON_SHARE or not look.by_accuracy:
        return []
    what = f"{100 * share:.1f} % of the rows have the label '{name}'"
    advice = (
        "whoever always answers that is right as often, so accuracy says little; `gpt1.finetune(metric='macro-f1')` "
        "chooses and judges by all labels alike, and gives rare ones more often"
    )
    return [TableFinding("imbalance", what, advice)]


def _several_labels(look: _Look) -> list[TableFinding]:
    """Tell of cells that hold several labels: a sign parts them, and each part stands in other labels too."""
    if (found := seem_several(look.counts)) is None:
        return []
    separator, several = found
    rows = _rows_of(look, set(several))
    named = some([f"'{name}'" for name in several], 3)
    what = f"{many(len(rows), 'row')} seem to have several labels, parted by '{separator}': {named}"
    advice = (
        "each combination is learned as a label of its own; "
        f"`gpt1.finetune(labels_sep={separator!r})` learns each label by itself, and a row may have several"
    )
    return [TableFinding(SEVERAL_IN_A_CELL, what, advice, rows)]


def _several_first(findings: Sequence[TableFinding]) -> list[TableFinding]:
    """Return findings with several labels in a cell before empty cells, which are no fault where none may apply."""
    by_key = {one.key: one for one in findings}
    several, empty = by_key.get(SEVERAL_IN_A_CELL), by_key.get(EMPTY_LABEL)
    if several is None or empty is None:
        return list(findings)
    first = replace(several, advice=f"{several.advice}, and an empty cell says that none applies", stops=empty.stops)
    none_applies = replace(
        empty,
        what=f"{many(len(empty.rows), 'row')} with an empty label",
        advice=f"right where none of several labels applies; where each row has one, {empty.advice}",
    )
    return [first, *(none_applies if one is empty else one for one in findings if one is not several)]


def _rows_of(look: _Look, labels: set[str]) -> list[int]:
    return [example.row for example, own in zip(look.examples, look.names, strict=True) if labels & {*own}]


# ---- texts ----


def _repeats(look: _Look) -> list[TableFinding]:
    """Tell of texts that stand in several rows, with one label or with several."""
    firsts: dict[tuple[str, ...], dict[object, int]] = {}
    repeats: list[tuple[int, int]] = []
    labels: list[object] = [*look.names] or [example.label for example in look.examples]
    for texts, example, label in zip(same_texts(look.columns.draft, look.examples), look.examples, labels, strict=True):
        own = firsts.setdefault(texts, {})
        key = frozenset(map(label_key, label)) if look.names and isinstance(label, tuple) else label
        if key in own:
            repeats.append((example.row, own[key]))
        own.setdefault(key, example.row)
    found = []
    if repeats:
        where = some([f"row {row} is row {first}" for row, first in repeats])
        what = f"{many(len(repeats), 'row')} with text and label of an earlier one"
        advice = "such rows count twice, in training or in dev, never in both; take them out unless they are meant"
        found.append(TableFinding("duplicates", what, advice, [row for row, _ in repeats], where))
    torn = [list(own.values()) for own in firsts.values() if len(own) > 1] if look.columns.shape != CHOICES else []
    if torn:
        kind = "score" if look.regression else "set of labels" if look.labels_sep else "label"
        where = f"rows {some([' and '.join(map(str, rows)) for rows in torn])}"
        what = f"{many(len(torn), 'text')} with more than one {kind}"
        advice = f"one of them is wrong, or the text alone does not tell; decide which {kind} is right"
        found.append(TableFinding("two-labels", what, advice, [row for rows in torn for row in rows], where))
    return found


def _very_long(look: _Look) -> list[TableFinding]:
    sizes = ((example.row, max(map(len, example.texts))) for example in look.examples)
    long = [(row, size) for row, size in sizes if size > LONG_TEXT]
    if not long:
        return []
    where = some([f"row {row} with {size:,}" for row, size in long])
    what = f"{many(len(long), 'text')} of more than {LONG_TEXT:,} characters"
    advice = "all but the beginning is cut off; is a quote missing that ends a cell?"
    return [TableFinding("very-long", what, advice, [row for row, _ in long], where)]


def _tokens(look: _Look, learner: Learner) -> tuple[Tokens, list[TableFinding]]:
    """Return how long the rows are in tokens, and tell of those that are cut, or spelt with what is not known."""
    task, tokenizer = look.columns.draft, learner.tokenizer
    answers = [replace(example, label=None) for example in look.examples]
    split = encode_examples(task, answers, tokenizer, learner.context)
    longest = np.diff(split.offsets).reshape(len(split), task.sequences).max(1) + split.cut
    if learner.windows and call_for_windows({task.shape}, split.cut, learner.context):
        split = encode_examples(task, answers, tokenizer, learner.context, windows=True)
    windows = np.ones(1) if split.windows is None else split.windows
    by_example = unknown_by_example(task, split, tokenizer.unknown_id, tokenizer.vocab_size)
    unknown = count_unknown(by_example)
    cut = np.flatnonzero(split.cut)
    tokens = Tokens(
        learner.name,
        learner.context,
        int(np.median(longest)),
        int(longest.max()),
        len(cut),
        unknown.tokens,
        unknown.of,
        windows=int(windows.max()) if split.windows is not None else 0,
        long_rows=int((windows > 1).sum()),
    )
    found = []
    if len(cut):
        room = f"the {learner.context:,} tokens" if not tokens.windows else f"the {tokens.windows} windows"
        what = f"{many(len(cut), 'row')} longer than {room} that {learner.name} reads"
        may_have_windows = not tokens.windows and task.shape != CHOICES
        reading = "`gpt1.finetune(changes=['finetuning.windows=mean'])` reads it too, " if may_have_windows else ""
        advice = (
            f"what is over is not read (the longest has {tokens.longest:,}); {reading}put first what decides, cut "
            "texts into several rows, or start from a run with a longer context"
        )
        found.append(TableFinding("too-long", what, advice, [look.examples[place].row for place in cut]))
    characters: list[str] = []
    if unknown.tokens:
        signs = Counter(chain.from_iterable(text for example in answers for text in example.texts))
        characters = tokenizer.unknown_characters(signs)
    if (told := unknown.told(len(split), characters=characters)) is not None:
        what, advice = told
        mostly = (by_example[:, 0] > 0) & (by_example[:, 0] >= MOSTLY * by_example[:, 1])
        rows = [look.examples[place].row for place in np.flatnonzero(mostly)]
        found.append(TableFinding("unknown-tokens", what, advice, rows, stops=unknown.is_too_much))
    return tokens, found


def _language(look: _Look, language: Language, learner: Learner | None) -> list[TableFinding]:
    """Tell of texts in another language than a base has read, and of rows in another script than most."""
    found = []
    if language.is_english is False and (learner is None or learner.language == ENGLISH):
        base = "a base" if learner is None else f"{learner.name}, which has read English,"
        advice = (
            f"{base} knows little of a language that it has not read; pre-train one on text of that language, with a "
            "tokenizer of bytes for any script"
        )
        found.append(TableFinding("language", "the texts do not read like English", advice))
    if language.strays:
        rows = [look.examples[place].row for place in language.strays]
        what = f"{many(len(rows), 'row')} in other letters than {language.script}, in which most is written"
        found.append(TableFinding("scripts", what, "are they meant to be there? What is rare is hardly learned", rows))
    return found


def _in_parts(look: _Look) -> list[TableFinding]:
    """Tell of texts whose characters are written in parts."""
    rows = [example.row for example in look.examples if any(map(is_in_parts, example.texts))]
    what = f"{many(len(rows), 'row')} with characters in parts (Unicode's NFD)"
    return [TableFinding("in-parts", what, TO_WHOLE, rows)] if rows else []
