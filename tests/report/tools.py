"""Run folders as the trainings leave them, made in a moment, and a reader of pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change, recipe_as_json
from gpt1.records.evaluation import Cut, Evaluation
from gpt1.tasks.assessment import answer_name, assess, hold_against, share_names
from gpt1.tasks.catalog import Task

MOODS = Task(
    name="moods", title="how it was", shape="single", metrics=("accuracy",), fields=("text",), labels=("bad", "good")
)
LABELS = [0, 1, 0, 1, 0, 1, 0, 1]


# Two layers of two heads: one looks at the token before, one at the first, one at itself, one at all alike.
LOOKS = [
    [
        [[1.0], [1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
        [[1.0], [0.8, 0.2], [0.8, 0.1, 0.1], [0.8, 0.0, 0.1, 0.1]],
    ],
    [
        [[1.0], [0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]],
        [[1.0], [0.5, 0.5], [0.333, 0.333, 0.333], [0.25, 0.25, 0.25, 0.25]],
    ],
]


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_run(folder: Path, kind: str, changes: Sequence[str] = (), **about: Any) -> Path:
    """Write a run.json."""
    recipe = change(find_recipe("finetune" if kind == "finetuning" else "tiny"), changes)
    facts = {
        "format": "gpt1-run",
        "version": 1,
        "kind": kind,
        "recipe": recipe_as_json(recipe),
        "seed": 7,
        "tokenizer": "abc",
        "vocab_size": 100,
        "parent": None,
        "trained_on": {"device": "a fine GPU", "processes": 2},
        "made_with": {"gpt1": "0.1.0", "torch": "2.13", "command": ["gpt1", "x y"], "at": "2026-11-15T12:00:00+0000"},
        **about,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(facts))
    return folder


def write_pretrained(folder: Path, *, valid: Sequence[float] = (5.0, 4.5), text: str = "one") -> Path:
    """Write a pre-training run with curves, samples, attention and a log."""
    write_run(folder, "pretraining", corpus={"path": "books", "identity": text, "tokens": 10_000})
    steps = [
        {
            "step": step,
            "steps": 20,
            "batch": step,
            "loss": 6 - step / 20,
            "terms": {"lm": 6 - step / 20},
            "tokens_per_second": 1000.0 + step,
            "memory_bytes": 2**30,
            "utilisation": None,
        }
        for step in range(1, 21)
    ]
    measured = [
        {"step": 10 * number, "valid_loss": loss, "perplexity": float(np.exp(loss)), "bits_per_byte": loss / 3}
        for number, loss in enumerate(valid, 1)
    ]
    write_lines(folder / "metrics.jsonl", [*steps, *measured])
    write_lines(folder / "samples.jsonl", [{"step": 20, "prompt": "Once upon", "text": "a time & again"}])
    attention = {"step": 20, "tokens": ["Ann", " sold", " hats", "."], "weights": LOOKS}
    (folder / "attention.json").write_text(json.dumps(attention))
    (folder / "log.txt").write_text("2026-11-15 12:00:00  recipe tiny\n2026-11-15 12:00:01  step 20: saved x\n")
    return folder


def write_finetuned(
    folder: Path,
    answers: Mapping[str, Sequence[int]],
    *,
    task: Task = MOODS,
    labels: Sequence[int] = LABELS,
    texts: str = "It was what it was",
    changes: Sequence[str] = (),
) -> Path:
    """Write a fine-tuned run that gave these answers, in each split, to examples of these labels."""
    examples = {task.name: {"train": 30, **{split: len(labels) for split in answers}}}
    about = {"tasks": {task.name: task.as_json()}, "examples": examples, "parent": "runs/books"}
    write_run(folder, "finetuning", changes, **about)
    steps = [{"step": s, "steps": 4, "loss": 1.0, "terms": {task.name: 1 / s, "_lm": 3.0}} for s in range(1, 5)]
    scored = [{"step": 4, f"dev_{task.metrics[0]}": 0.5, "dev_loss": 0.7}]
    write_lines(folder / "metrics.jsonl", [*steps, *scored])
    (folder / "log.txt").write_text("2026-11-15 12:00:00  30 examples\n")
    for split, given in answers.items():
        write_answers(folder, task, split, labels, given, texts)
    return folder


def write_answers(
    folder: Path, task: Task, split: str, labels: Sequence[int], answers: Sequence[int], texts: str = "It was"
) -> None:
    """Write what an evaluation leaves: what was found, and every answer."""
    shares = np.full((len(labels), len(task.labels)), 0.2 / (len(task.labels) - 1))
    shares[np.arange(len(labels)), answers] = 0.8
    answered = hold_against(task, np.array(labels), shares)
    found = assess(task, np.array(labels), answered)
    mistakes = [replace(one, text=f"[start] {texts} [extract]") for one in found.mistakes]
    about = {"task": task.name, "split": split, "step": 4, "unlabelled": 0, "context": 16, "cut": Cut(0, 0)}
    evaluation = Evaluation(**{**vars(found), **about, "mistakes": mistakes})
    (folder / f"evaluation-{task.name}-{split}.json").write_text(json.dumps(evaluation.as_json()))
    lines = [
        {
            "index": index,
            "label": answer_name(task, label),
            "prediction": answer_name(task, answer),
            "probabilities": share_names(task, answered.likeliest[index], answered.shares[index]),
        }
        for index, (label, answer) in enumerate(zip(labels, answers, strict=True))
    ]
    write_lines(folder / f"predictions-{task.name}-{split}.jsonl", lines)


def write_seeds(folder: Path, answers: Sequence[Sequence[int]], task: Task = MOODS) -> Path:
    """Write a folder of several seeds, of which the first one is the best."""
    from gpt1.finetuning.seeds import summarise

    scores = {}
    for seed, given in enumerate(answers):
        write_finetuned(folder / f"seed-{seed}", {"dev": given}, task=task)
        right = sum(label == answer for label, answer in zip(LABELS, given, strict=True))
        scores[f"seed-{seed}"] = {f"{task.name} dev accuracy": right / len(LABELS)}
    name = f"{task.name} dev accuracy"
    summary = {name: summarise([one[name] for one in scores.values()])}
    facts = {"format": "gpt1-seeds", "version": 1, "best": "seed-0", "seeds": scores, "summary": summary}
    (folder / "seeds.json").write_text(json.dumps(facts))
    return folder


def with_labels(task: Task, *labels: str) -> Task:
    """Return a task with other labels."""
    return replace(task, labels=labels)


class PageReader(HTMLParser):
    """Takes a page apart: its elements with their attributes, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] != "style":
            self.pieces.append(data)

    @property
    def words(self) -> str:
        """All that a person reads, blanks made one."""
        return " ".join(" ".join(self.pieces).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]
