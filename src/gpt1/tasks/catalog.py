"""Which tasks exist: the paper's twelve (section 4 and table 1), and two of ours, as plain values.

A task says how its rows look and what is asked of the model. It reads nothing, scores nothing and knows no results:
files belong to `readers.py`, layout to `shapes.py`. One's own task is the same value in one's own module,
named as `module:NAME`.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpt1.base.errors import SettingError, did_you_mean, unknown
from gpt1.base.modules import load_value
from gpt1.base.records import check_record
from gpt1.base.wording import some
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SHAPES, SINGLE, TOKENS, TOKENS_ONCE, WORD_SHAPES
from gpt1.tasks.tagging import SPAN_METRICS

CLASS_METRICS = ("accuracy", "f1", "matthews", "macro_f1")
TABLE_METRICS = ("accuracy", "macro_f1", "matthews")  # of which one may be chosen for a table of one label a row
SCORE_METRICS = ("pearson", "spearman")
MULTILABEL_METRICS = ("micro_f1", "macro_f1", "exact_match")

_FIELD_COUNTS = {SINGLE: (1,), PAIR: (2,), BOTH: (2,), CHOICES: (2, 3), TOKENS: (1,), TOKENS_ONCE: (1,)}
_FILE_NAME = re.compile(r"[^\W_][\w.-]*")  # names of tasks and splits become names of files


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a labelled task is: the shape of its rows, what their label means, and how answers are judged.

    Exactly one of `labels` (classes), `score_range` (a number to predict) and `choices` (how many answers a row
    offers; its label is the index of the right one) is given.
    """

    name: str
    title: str
    shape: str
    metrics: tuple[str, ...]  # the first one decides which epoch is kept
    fields: tuple[str, ...]  # text columns in the order of the shape's parts; of choices the last holds the answers
    labels: tuple[str, ...] = ()  # F1 is that of the second label
    score_range: tuple[float, float] | None = None
    choices: int = 0
    label_field: str = "label"
    group_field: str = ""  # a column that parts the rows for reporting, such as the level of RACE
    groups: tuple[str, ...] = ()
    dev_splits: tuple[str, ...] = ("dev",)
    test_splits: tuple[str, ...] = ("test",)  # the only ones whose rows may lack a label
    auxiliary_lm: bool = True  # whether the language model learns from its texts too: not from what nobody wrote
    labels_sep: str = ""  # what parts the labels of a row that may have several, or none; empty: each has one
    class_factors: bool = False  # each class has a factor, chosen for the first metric; else the likeliest is answered

    def __post_init__(self) -> None:
        problems = _wrong_types(self) or _contradictions(self)
        if problems:
            raise SettingError(f"task '{self.name}': {'; '.join(problems)}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits the task may have, which are also the names of its files."""
        return ("train", *self.dev_splits, *self.test_splits)

    @cached_property
    def label_places(self) -> dict[str, int]:
        """Where each label stands among `labels`."""
        return {name: place for place, name in enumerate(self.labels)}

    @property
    def is_multilabel(self) -> bool:
        """Whether a row may have several labels, or none; each is then answered with yes or no."""
        return bool(self.labels_sep)

    @property
    def labels_words(self) -> bool:
        """Whether each word of a text has a label."""
        return self.shape in WORD_SHAPES

    @property
    def has_thresholds(self) -> bool:
        """Whether what is answered is chosen from probabilities by numbers that a run keeps."""
        return self.is_multilabel or self.class_factors

    @property
    def texts(self) -> int:
        """How many texts an example has: a question is counted where the shape has room for one."""
        return {PAIR: 2, BOTH: 2, CHOICES: 2 + self.choices}.get(self.shape, 1)

    @property
    def sequences(self) -> int:
        """How many token sequences an example has."""
        return {BOTH: 2, CHOICES: self.choices}.get(self.shape, 1)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it: all but what earlier versions did not know, where it has its default.

        Tasks are told apart by this, and those of before are to stay what they were.
        """
        found = asdict(self)
        if self.auxiliary_lm:
            del found["auxiliary_lm"]
        if not self.labels_sep:
            del found["labels_sep"]
        if not self.class_factors:
            del found["class_factors"]
        return found

    def in_short(self) -> str:
        """Return a line that tells a person which columns are read, and as what."""
        low, high = self.score_range or (0, 0)
        scores = f"scores from {low:g} to {high:g}" if self.score_range else "choices"
        what = some(self.labels) if self.labels else scores
        if self.labels_words:
            how = "which stands twice" if self.shape == TOKENS else "read once"
            return f"{self.name}: words of a text, {how}; a label for each: {some(self.labels)}"
        label = (
            f"labels {self.label_field}, parted by '{self.labels_sep}'"
            if self.labels_sep
            else f"label {self.label_field}"
        )
        return f"{self.name}: {self.shape} of {', '.join(self.fields)}; {label}: {what}"


def _wrong_types(task: Task) -> list[str]:
    """Say which values are not of their kind; without this, a list or a bare string would fail much later."""
    problems = [
        f"{name} is {value!r}, expected a string"
        for name in ("name", "title", "shape", "label_field", "group_field", "labels_sep")
        if not isinstance(value := getattr(task, name), str)
    ]
    for name in ("metrics", "fields", "labels", "groups", "dev_splits", "test_splits"):
        value = getattr(task, name)
        if not isinstance(value, tuple) or not all(isinstance(item, str) and item for item in value):
            problems.append(f"{name} is {value!r}, expected a tuple of strings such as ('one', 'two')")
        elif len(set(value)) < len(value):
            problems.append(f"{name} repeats a name: {', '.join(value)}")
    for name in ("auxiliary_lm", "class_factors"):
        if not isinstance(value := getattr(task, name), bool):
            problems.append(f"{name} is {value!r}, expected True or False")
    if not isinstance(task.choices, int):
        problems.append(f"choices is {task.choices!r}, expected a whole number")
    span = task.score_range
    if span is not None and not (
        isinstance(span, tuple) and len(span) == 2 and all(isinstance(end, int | float) for end in span)
    ):
        problems.append(f"score_range is {span!r}, expected two numbers such as (0.0, 5.0)")
    return problems


def _contradictions(task: Task) -> list[str]:
    """Say which values, each right in its kind, do not fit together."""
    if task.shape not in SHAPES:
        return [f"unknown shape '{task.shape}'{did_you_mean(task.shape, SHAPES)} (known: {', '.join(SHAPES)})"]
    names = (task.name, *task.splits)
    columns = [*task.fields, task.label_field, *([task.group_field] if task.group_field else [])]
    metrics = MULTILABEL_METRICS if task.labels_sep else SCORE_METRICS if task.score_range else CLASS_METRICS
    metrics = SPAN_METRICS if task.labels_words else metrics
    low, high = task.score_range or (0.0, 1.0)
    faults = [
        (
            not all(_FILE_NAME.fullmatch(name) and name == name.lower() for name in names),
            f"names must be of small letters, digits and _ . -, found {', '.join(names)}",
        ),
        (len(set(task.splits)) < len(task.splits), f"two splits share a name: {', '.join(task.splits)}"),
        (not task.title.strip(), "title is empty"),
        (
            re.search("[\ud800-\udfff]", "".join((task.title, *columns, *task.labels, *task.groups))) is not None,
            "a title, column, label or group holds half a character, which cannot be stored",
        ),
        (
            bool(task.labels) + (task.score_range is not None) + (task.choices != 0) != 1,
            "give exactly one of labels, score_range and choices",
        ),
        ((task.shape == CHOICES) != (task.choices != 0), "shape 'choices' and a number of choices go together"),
        (
            task.labels_words and (not task.labels or bool(task.labels_sep)),
            f"shape '{task.shape}' has labels, one a word",
        ),
        (task.choices < 0 or task.choices == 1, f"choices is {task.choices}, at least 2 are needed"),
        (len(task.labels) == 1, "one label leaves nothing to decide"),
        (bool(task.labels_sep) and not task.labels, "labels_sep goes with labels"),
        (
            bool(task.labels_sep) and any(task.labels_sep in name or name != name.strip() for name in task.labels),
            f"labels hold '{task.labels_sep}', which parts them, or blanks at their ends: {some(task.labels)}",
        ),
        (
            not (low < high and math.isfinite(high - low)),
            f"score_range {task.score_range} is not a lower and a higher number",
        ),
        (not task.metrics, "no metric is named"),
        (not set(task.metrics) <= set(metrics), f"metrics must be of {', '.join(metrics)}, found {task.metrics}"),
        ("f1" in task.metrics and len(task.labels) != 2, "F1 needs exactly two labels"),
        ("macro_f1" in task.metrics and not task.labels, "macro F1 needs labels"),
        (
            task.class_factors and (not task.labels or bool(task.labels_sep) or task.metrics[:1] == ("accuracy",)),
            "class_factors are for one label a row, and a first metric other than accuracy",
        ),
        (
            len(task.fields) not in _FIELD_COUNTS[task.shape],
            f"shape '{task.shape}' does not take {len(task.fields)} text fields",
        ),
        (len(set(columns)) < len(columns) or "" in columns, f"each column needs one use: {', '.join(columns)}"),
        (bool(task.group_field) != bool(task.groups), "group_field and groups go together"),
    ]
    return [message for wrong, message in faults if wrong]


_TEXT = ("text",)
_A_B = ("a", "b")
_NLI = ("entailment", "neutral", "contradiction")
_BINARY_NLI = ("entailment", "not_entailment")
_NO_YES = ("0", "1")

CATALOGUE: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="cola",
            title="CoLA: is the sentence acceptable English?",
            shape=SINGLE,
            labels=_NO_YES,
            metrics=("matthews",),
            fields=_TEXT,
        ),
        Task(
            name="sst2",
            title="SST-2: is the film review positive?",
            shape=SINGLE,
            labels=_NO_YES,
            metrics=("accuracy",),
            fields=_TEXT,
        ),
        Task(
            name="mrpc",
            title="MRPC: do two news sentences say the same?",
            shape=BOTH,
            labels=_NO_YES,
            metrics=("f1", "accuracy"),
            fields=_A_B,
        ),
        Task(
            name="stsb",
            title="STS-B: how alike are two sentences, 0 to 5?",
            shape=BOTH,
            score_range=(0.0, 5.0),
            metrics=("pearson", "spearman"),
            fields=_A_B,
        ),
        Task(
            name="qqp",
            title="QQP: do two questions ask the same?",
            shape=BOTH,
            labels=_NO_YES,
            metrics=("f1", "accuracy"),
            fields=_A_B,
        ),
        Task(
            name="mnli",
            title="MNLI: does the premise entail the hypothesis, in many genres?",
            shape=PAIR,
            labels=_NLI,
            metrics=("accuracy",),
            fields=_A_B,
            dev_splits=("dev_matched", "dev_mismatched"),
            test_splits=("test_matched", "test_mismatched", "diagnostic"),  # the last: GLUE's own set of hard cases
        ),
        Task(
            name="qnli",
            title="QNLI (v2, not comparable with the paper's): does the sentence answer the question?",
            shape=PAIR,
            labels=_BINARY_NLI,
            metrics=("accuracy",),
            fields=_A_B,
        ),
        Task(
            name="rte",
            title="RTE: does the premise entail the hypothesis, in news?",
            shape=PAIR,
            labels=_BINARY_NLI,
            metrics=("accuracy",),
            fields=_A_B,
        ),
        Task(
            name="wnli",
            title="WNLI: does the sentence with its pronoun resolved follow? (not in the paper)",
            shape=PAIR,
            labels=_NO_YES,
            metrics=("accuracy",),
            fields=_A_B,
        ),
        Task(
            name="snli",
            title="SNLI: does the caption entail the hypothesis?",
            shape=PAIR,
            labels=_NLI,
            metrics=("accuracy",),
            fields=_A_B,
        ),
        Task(
            name="scitail",
            title="SciTail: does the sentence entail the science answer?",
            shape=PAIR,
            labels=("entails", "neutral"),
            metrics=("accuracy",),
            fields=_A_B,
        ),
        Task(
            name="race",
            title="RACE: which of four answers does the passage give?",
            shape=CHOICES,
            choices=4,
            metrics=("accuracy",),
            fields=("context", "question", "choices"),
            group_field="level",
            groups=("middle", "high"),
        ),
        Task(
            name="storycloze",
            title="Story Cloze: which of two endings belongs to the story?",
            shape=CHOICES,
            choices=2,
            metrics=("accuracy",),
            fields=("context", "choices"),
        ),
        Task(
            name="dpr",
            title="DPR: whom does the pronoun mean? (the paper's zero-shot Winograd task)",
            shape=CHOICES,
            choices=2,
            metrics=("accuracy",),
            fields=("text", "pronoun", "choices"),
        ),
    )
}

# The tasks whose mean is the score of GLUE, in the order of its table.
GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def find_task(name: str) -> Task:
    """Return the task of the catalogue with this name, or the one that `module:NAME` names."""
    if ":" in name:
        found = load_value(name, Task)
        if found.labels_words:
            raise SettingError(f"'{name}' labels words, and such a task is made of its file; name that with `train`")
        return found
    if name not in CATALOGUE:
        raise unknown("task", name, CATALOGUE)
    return CATALOGUE[name]


def task_from_json(value: Any, path: str | Path = "a task") -> Task:
    """Return the task that `Task.as_json` wrote; `path` is the file that it stands in."""
    return check_record(value, Task, path)


def refuse_words(task: Task, what: str) -> None:
    """Refuse a task that labels words where that is not known, and say where it is."""
    if task.labels_words:
        raise SettingError(
            f"'{task.name}' labels words, and {what} is for tasks of one answer a row; gpt1 check, finetune, evaluate, "
            "predict, report and serve know such runs"
        )
