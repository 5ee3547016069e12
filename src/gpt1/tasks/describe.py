"""What a task was understood as, what its data holds, and its examples as a model meets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from gpt1.base.errors import unknown
from gpt1.base.wording import many, some
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import CATALOGUE, Task, find_task, task_from_json
from gpt1.tasks.encoded import EncodedSplit, TaskTokenizer, encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.official import expected_files
from gpt1.tasks.preparing import read_task
from gpt1.tasks.shapes import BOTH, CHOICES, CONTEXT, PAIR, SINGLE, lay_out, trim
from gpt1.text.specials import SPECIALS, special_ids
from gpt1.text.tokenizer import Tokenizer

_SHOWN = 8  # classes whose share is told


class LengthsFound(TypedDict):
    """How long the sequences of a split are, in tokens."""

    median: int
    percentile_95: int
    longest: int
    cut_examples: int
    context: int


class ScoresFound(TypedDict):
    """Which scores a split has."""

    lowest: float
    mean: float
    highest: float


class SplitFound(TypedDict):
    """What a split holds; of its labels nothing where there are none."""

    examples: int
    labelled: int
    scores: NotRequired[ScoresFound]
    labels: NotRequired[dict[str, int]]
    tokens: NotRequired[LengthsFound]


class TaskFound(TypedDict):
    """What a task was understood as and what its data holds, as `gpt1 check --json` prints it."""

    task: dict[str, object]
    splits: NotRequired[dict[str, SplitFound]]
    notices: NotRequired[list[str]]


def describe_catalogue() -> list[tuple[str, ...]]:
    """Return the names of columns, and below them a row for each task of the catalogue, without its labels' names."""
    return [
        ("task", "shape", "answers", "metrics", "what is asked"),
        *(
            (
                task.name,
                task.shape,
                many(len(task.labels), "label") if task.labels else labels_in_words(task),
                ", ".join(task.metrics),
                task.title,
            )
            for task in CATALOGUE.values()
        ),
    ]


def check_task(
    name: str,
    *,
    data: str | None = None,
    tokenizer: TaskTokenizer | None = None,
    context: int = CONTEXT,
    encoding: str = "utf-8",
) -> TaskFound:
    """Return what a task was understood as, and with `data` also what its splits hold, as a JSON object."""
    report: TaskFound = {"task": find_task(name).as_json()}
    if data is None:
        return report
    found = read_task(name, data=data, encoding=encoding)
    splits = {split: _counts(found.task, examples) for split, examples in found.splits.items()}
    if tokenizer is not None:
        encoded = encode_task(found.task, found.splits, tokenizer, context)
        for split, arrays in encoded.splits.items():
            splits[split]["tokens"] = _lengths(arrays, context)
    return {**report, "splits": splits, "notices": list(found.notices)}


def _counts(task: Task, examples: Sequence[Example]) -> SplitFound:
    labels = [example.label for example in examples if example.label is not None]
    counts: SplitFound = {"examples": len(examples), "labelled": len(labels)}
    if not labels:
        return counts
    if task.score_range is not None:
        scores = np.array(labels, np.float64)
        found: ScoresFound = {"lowest": scores.min(), "mean": float(scores.mean()), "highest": scores.max()}
        return {**counts, "scores": found}
    tally = Counter(place for label in labels for place in (label if isinstance(label, tuple) else (label,)))
    names = task.labels or [f"answer {place}" for place in range(task.choices)]
    return {**counts, "labels": {name: tally[place] for place, name in enumerate(names)}}


def _lengths(split: EncodedSplit, context: int) -> LengthsFound:
    lengths = np.diff(split.offsets)
    median, most = np.percentile(lengths, [50, 95], method="higher")
    return {
        "median": int(median),
        "percentile_95": int(most),
        "longest": int(lengths.max()),
        "cut_examples": int((split.cut > 0).sum()),
        "context": context,
    }


def describe_check(report: TaskFound) -> list[str]:
    """Return the lines that tell a person what `check_task` found."""
    task = task_from_json(report["task"])
    official = some(expected_files(task), 3)
    facts = {
        "task": task.name,
        "title": task.title,
        "shape": f"{task.shape}: {' and '.join(_sequences(task))}",
        "label": f"{task.label_field}: {labels_in_words(task)}",
        "metrics": ", ".join(task.metrics) + (f" ({task.metrics[0]} decides)" if len(task.metrics) > 1 else ""),
        "files": ", ".join(f"{split}.jsonl" for split in task.splits) + (f"; or {official}" if official else ""),
    }
    if task.groups:
        facts["groups"] = f"{task.group_field}: {', '.join(task.groups)}, scored apart too"
    lines = [f"{name:8} {fact}" for name, fact in facts.items()]
    for split, counts in report.get("splits", {}).items():
        lines.append(f"{split}: {'; '.join(_split_in_words(counts))}")
    return lines


def labels_in_words(task: Task) -> str:
    """Return what may be answered: names of classes, a range of scores, or how many choices there are."""
    if task.labels:
        return some(task.labels, _SHOWN)
    if task.score_range is not None:
        return f"{task.score_range[0]:g} to {task.score_range[1]:g}"
    return f"{task.choices} choices"


def _sequences(task: Task) -> Iterable[str]:
    """Return the sequences of an example, with the names of fields in the place of their texts."""
    if task.shape == SINGLE:
        return [f"[start] {task.fields[0]} [extract]"]
    if task.shape == CHOICES:
        *asked, answers = task.fields
        return [f"[start] {' '.join(asked)} [delimiter] each of {answers} [extract]"]
    a, b = task.fields
    orders = {PAIR: [(a, b)], BOTH: [(a, b), (b, a)]}[task.shape]
    return [f"[start] {first} [delimiter] {second} [extract]" for first, second in orders]


def _split_in_words(counts: SplitFound) -> Iterable[str]:
    yield f"{many(counts['examples'], 'example')}"
    if counts["labelled"] < counts["examples"]:
        yield f"{counts['examples'] - counts['labelled']:,} without a label"
    if "scores" in counts:
        scores = counts["scores"]
        yield f"scores {scores['lowest']:g} to {scores['highest']:g}, mean {scores['mean']:.3f}"
    if "labels" in counts:
        shares = [f"{name} {100 * count / counts['labelled']:.1f} %" for name, count in counts["labels"].items()]
        yield some(shares, _SHOWN)
    if "tokens" in counts:
        tokens = counts["tokens"]
        yield (
            f"tokens of a sequence: median {tokens['median']}, 95 % up to {tokens['percentile_95']}, "
            f"longest {tokens['longest']}; {tokens['cut_examples']:,} examples cut to {tokens['context']}"
        )


# Examples as a model meets them: token by token, with the special tokens in brackets and cuts marked.


@dataclass(frozen=True)
class Shown:
    """One example as it is shown: its row, its label in words, its sequences as tokens, and how many it lost."""

    row: int
    label: str | int | float | None
    sequences: list[list[str]]
    cut: int


def show_task(
    name: str,
    data: str,
    count: int,
    *,
    split: str = "train",
    tokenizer: Tokenizer | None = None,
    context: int = CONTEXT,
    encoding: str = "utf-8",
) -> tuple[list[Shown], tuple[str, ...]]:
    """Return the first examples of a split as tokens, and what a person should be told about the rows."""
    found = read_task(name, data=data, encoding=encoding)
    if split not in found.splits:
        raise unknown("split", split, found.splits)
    return show_examples(found.task, found.splits[split][:count], tokenizer, context), found.notices


def show_examples(
    task: Task, examples: Sequence[Example], tokenizer: Tokenizer | None, context: int = CONTEXT
) -> list[Shown]:
    """Return examples as tokens; without a tokenizer words between blanks stand for them."""
    spelling = _Spelling(tokenizer, [text for example in examples for text in example.texts])
    return [_show(task, example, spelling, context) for example in examples]


class _Spelling:
    """Texts to ids, and ids to what is printed for them."""

    def __init__(self, tokenizer: Tokenizer | None, texts: Sequence[str]) -> None:
        if tokenizer is not None:
            self.tokens: Sequence[str] = tokenizer.vocabulary.tokens
            self._ids: Mapping[str, Sequence[int]] = dict(zip(texts, tokenizer.encode_batch(texts), strict=True))
        else:
            self.tokens = sorted({word for text in texts for word in text.split()})
            number = {word: place for place, word in enumerate(self.tokens)}
            self._ids = {text: [number[word] for word in text.split()] for text in texts}
        self.names = {place: f"[{name}]" for name, place in special_ids(len(self.tokens)).items()}

    def ids(self, text: str) -> Sequence[int]:
        return self._ids[text]

    def token(self, place: int) -> str:
        return self.names[place] if place in self.names else _printable(self.tokens[place])


def _show(task: Task, example: Example, spelling: _Spelling, context: int) -> Shown:
    parts = [spelling.ids(text) for text in example.texts]
    kept = trim(task.shape, parts, context)
    # An id that is nobody's stands at the end of each part that was cut, and the layout carries it to its place.
    vocab_size = len(spelling.tokens)
    first = vocab_size + len(SPECIALS)
    lost = {first + place: len(part) - len(kept[place]) for place, part in enumerate(parts)}
    marked = [[*part, *([first + place] if lost[first + place] else [])] for place, part in enumerate(kept)]
    laid_out = lay_out(task.shape, marked, vocab_size=vocab_size, context=context + len(parts))
    return Shown(
        row=example.row,
        label=None if example.label is None else answer_name(task, example.label),
        sequences=[
            [f"[cut {many(lost[id], 'token')}]" if id >= first else spelling.token(id) for id in sequence]
            for sequence in laid_out.sequences
        ],
        cut=sum(lost.values()),
    )


def _printable(token: str) -> str:
    """Return a token on one line: a newline is a token too."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in token)


def in_lines(shown: Shown) -> list[str]:
    """Return the lines that show one example to a person."""
    label = "no label" if shown.label is None else f"label {shown.label}"
    return [f"row {shown.row}, {label}", *(f"  {' '.join(sequence)}" for sequence in shown.sequences)]
