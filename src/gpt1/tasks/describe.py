"""What a task was understood as, and what its data holds: counts, shares of labels, lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

import numpy as np

from gpt1.base.wording import aligned, some
from gpt1.tasks.catalog import CATALOGUE, Task, find_task, task_as_json, task_from_json
from gpt1.tasks.encoded import EncodedSplit, TaskTokenizer, encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.official import expected_files
from gpt1.tasks.preparing import read_task
from gpt1.tasks.shapes import BOTH, CHOICES, CONTEXT, PAIR, SINGLE

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


def describe_catalogue() -> list[str]:
    """Return a line for each task of the catalogue: name, shape, labels, metrics, title."""
    return aligned(
        [
            (task.name, task.shape, labels_in_words(task), ", ".join(task.metrics), task.title)
            for task in CATALOGUE.values()
        ]
    )


def check_task(
    name: str,
    *,
    data: str | None = None,
    tokenizer: TaskTokenizer | None = None,
    context: int = CONTEXT,
    encoding: str = "utf-8",
) -> TaskFound:
    """Return what a task was understood as, and with `data` also what its splits hold, as a JSON object."""
    report: TaskFound = {"task": task_as_json(find_task(name))}
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
        return {**counts, "scores": {"lowest": min(labels), "mean": float(np.mean(labels)), "highest": max(labels)}}
    tally = Counter(labels)
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
    yield f"{counts['examples']:,} examples"
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
