"""Answers without a single label: the likelier of two texts, by a network that has only read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpt1.demo.tasks import CHOICE, ENDING, PRONOUN, Row
from gpt1.demo.world import PEOPLE
from gpt1.inference.run import Run
from gpt1.inference.scoring import Scored, mean_log_probabilities
from gpt1.text.tokenizer import Tokenizer

_NAME = re.compile(rf"\b({'|'.join(person.name for person in PEOPLE)})\b")


def zero_shot(run: Run, task: str, rows: Sequence[Row]) -> float:
    """Return the share of rows whose right answer the network finds the likelier one."""
    texts, right = ASKED[task]
    scored = [text for row in rows for text in texts(run.tokenizer, row)]
    answers = mean_log_probabilities(run.model, scored).reshape(len(rows), -1).argmax(1)
    return float((answers == np.array([right(row) for row in rows])).mean())


def _moods(tokenizer: Tokenizer, row: Row) -> list[Scored]:
    """Return the story with a sad and with a happy hero; the mood is scored."""
    (name, *_) = _NAME.findall(row["text"])
    told = tokenizer.encode(row["text"])
    return [([*told, *tokenizer.encode(f"{name} was {mood}.")], len(told)) for mood in ("sad", "happy")]


def _endings(tokenizer: Tokenizer, row: Row) -> list[Scored]:
    """Return the story with each ending, which is scored."""
    context = tokenizer.encode(row["context"])
    return [([*context, *tokenizer.encode(ending)], len(context)) for ending in row["choices"]]


def _people(tokenizer: Tokenizer, row: Row) -> list[Scored]:
    """Return the text with each person in the pronoun's place; what is behind it is scored."""
    before, _, behind = row["text"].rpartition(f" {row['pronoun']} ")
    begins = [tokenizer.encode(f"{before} {person}") for person in row["choices"]]
    return [([*begin, *tokenizer.encode(behind)], len(begin)) for begin in begins]


# How each task is asked, and which of its texts is right.
ASKED: dict[str, tuple[Callable[[Tokenizer, Row], list[Scored]], Callable[[Row], int]]] = {
    ENDING.name: (_moods, lambda row: ENDING.labels.index(row["label"])),
    CHOICE.name: (_endings, lambda row: int(row["label"])),
    PRONOUN.name: (_people, lambda row: int(row["label"])),
}
