"""Small batches of every shape, laid out by the literal reference, and a network small enough for literal formulas."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpt1.recipes.values import Shape
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example, Label
from tests.model.tools import shaken
from tests.reference.finetuning import BINS
from tests.reference.shapes import DELIMITER, EXTRACT, START, reference_layout

VOCABULARY = 23  # special tokens not counted
SPECIALS = {START: VOCABULARY, DELIMITER: VOCABULARY + 1, EXTRACT: VOCABULARY + 2}
NETWORK = Shape(layers=2, width=12, heads=2, feed_forward=48, context=15, dropout=0.2)

FIELDS = {"single": ("text",), "pair": ("a", "b"), "both": ("a", "b"), "choices": ("context", "question", "choices")}

Parts = list[list[int]]


@dataclass(frozen=True)
class Case:
    """A batch: the parts of its examples, their labels, and what the task asks for."""

    name: str
    shape: str
    parts: list[Parts]
    labels: Sequence[Label]
    classes: int  # logits an example
    score_range: tuple[float, float] | None = None
    has_several: bool = False  # labels an example

    @property
    def examples(self) -> list[list[list[int]]]:
        """The sequences of each example, as ids."""
        return [ids_of(self.shape, parts) for parts in self.parts]

    @property
    def outputs(self) -> int:
        """How many numbers the head gives for one vector."""
        return 1 if self.shape == "choices" else self.classes


def ids_of(shape: str, parts: Parts) -> list[list[int]]:
    """Return the sequences of an example with their special tokens."""
    sequences, _ = reference_layout(shape, parts, NETWORK.context)
    return [[SPECIALS.get(token, token) for token in sequence] for sequence in sequences]


def make_case(
    name: str,
    shape: str,
    lengths: Sequence[tuple[int, int]],
    classes: int,
    *,
    examples: int = 5,
    score_range: tuple[float, float] | None = None,
    has_several: bool = False,
) -> Case:
    """Draw a batch whose parts are from so long to so long; scores are drawn from the whole range, ends included."""
    draw = random.Random(name)
    parts = [
        [[draw.randrange(VOCABULARY) for _ in range(draw.randint(*span))] for span in lengths] for _ in range(examples)
    ]
    labels: list[Label] = draw.sample([number % classes for number in range(examples)], examples)
    if score_range is not None:
        labels = [*score_range, *(draw.uniform(*score_range) for _ in range(examples - 2))]
    if has_several:  # the first example has none, the second all
        drawn = (sorted(draw.sample(range(classes), draw.randint(0, classes))) for _ in range(examples - 2))
        labels = [(), tuple(range(classes)), *map(tuple, drawn)]
    return Case(name, shape, parts, labels, classes, score_range, has_several)


# Lengths differ within a batch; some parts are empty, some sequences fill the context and are cut.
CASES = {
    case.name: case
    for case in (
        make_case("single", "single", [(0, 13)], 3),
        make_case("pair", "pair", [(1, 9), (0, 7)], 3),
        make_case("both", "both", [(1, 9), (1, 5)], 2),
        make_case("choices", "choices", [(0, 6), (0, 4), *[(0, 6)] * 4], 4, examples=3),
        make_case("story", "choices", [(7, 9), (0, 0), (2, 4), (2, 4)], 2),
        make_case("scores", "both", [(1, 6), (1, 6)], BINS, score_range=(0.0, 5.0)),
        make_case("ratings", "single", [(1, 9)], BINS, score_range=(-1.0, 3.0)),
    )
}


# The same of examples that have several labels, or none.
SEVERAL = {
    case.name: case
    for case in (
        make_case("topics", "single", [(0, 13)], 4, has_several=True),
        make_case("traits", "both", [(1, 9), (1, 5)], 3, has_several=True),
    )
}


class Numbers:
    """A tokenizer whose words are ids."""

    fingerprint, vocab_size = "numbers", VOCABULARY

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[int(word) for word in text.split()] for text in texts]


def encoded(case: Case) -> EncodedTask:
    """Take a batch the way of every labelled row: texts, token sequences cut to the context, arrays."""
    chooses, scores = case.shape == "choices", case.score_range is not None
    task = Task(
        name=case.name,
        title=case.name,
        shape=case.shape,
        metrics=("micro_f1",) if case.has_several else ("pearson",) if scores else ("accuracy",),
        fields=FIELDS[case.shape],
        labels=() if chooses or scores else tuple(f"label {number}" for number in range(case.classes)),
        score_range=case.score_range,
        choices=case.classes if chooses else 0,
        labels_sep="|" if case.has_several else "",
    )
    texts = [tuple(" ".join(map(str, part)) for part in parts) for parts in case.parts]
    rows = [Example(texts, label, row) for row, (texts, label) in enumerate(zip(texts, case.labels, strict=True))]
    return encode_task(task, {"train": rows}, Numbers(), context=NETWORK.context)


def make_weights(case: Case, seed: int = 0) -> dict[str, Tensor]:
    """Return weights in double precision, none of them where training would begin."""
    body = shaken(NETWORK, vocab_size=VOCABULARY + len(SPECIALS), seed=seed)
    weights = {f"body.{name}": x.detach() for name, x in body.named_parameters()}
    generator = torch.Generator().manual_seed(seed + 1)
    for kind, size in (("weight", (case.outputs, NETWORK.width)), ("bias", (case.outputs,))):
        weights[f"heads.{case.name}.{kind}"] = torch.randn(size, generator=generator, dtype=torch.float64)
    return weights
