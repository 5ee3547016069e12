"""Labelled examples as texts that a language model can judge without having learned the task (section 5 of the paper).

    cola        the sentence: how likely is it?
    sst2        text very [negative | positive]: which word comes next?
    choices     context question [answer]: which answer is likelier?
    pronouns    text with [candidate] in the pronoun's place: after which is the rest of the text likelier?

An example has one reading for each answer (the sentence of CoLA has one alone): what is read, and behind it what is
scored. Solved training examples may stand before it, each ended by a newline like a document of a corpus. What does not
fit the context loses its beginning, the same in all readings of an example; what is scored goes last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many
from gpt1.inference.scoring import Scored
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import TaskTokenizer, encode_texts
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.shapes import CHOICES, SINGLE
from gpt1.tasks.unknowns import Unknown, count_unknown

PRONOUN_FIELDS = ("text", "pronoun", "choices")
FEELINGS = (" negative", " positive")  # in the order of SST-2's labels
VERY = " very"


class PromptTokenizer(TaskTokenizer, Protocol):
    """What prompts need of a tokenizer."""

    @property
    def newline_id(self) -> int:
        """What ends a document."""

    @property
    def unknown_id(self) -> int | None:
        """What stands for text that the vocabulary cannot spell; none where it spells all."""


@dataclass(frozen=True)
class Reading:
    """Texts that are read, and texts behind them whose likelihood is asked for; parts are encoded apart."""

    before: tuple[str, ...]
    scored: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """All texts."""
        return (*self.before, *self.scored)


@dataclass(frozen=True)
class Rule:
    """How a task is asked: the readings of an example, and whether their mean or their whole likelihood decides."""

    name: str
    readings: Callable[[Example], list[Reading]]
    by_mean: bool = True


def _sentence(example: Example) -> list[Reading]:
    return [Reading((), (example.texts[0],))]


def _feelings(example: Example) -> list[Reading]:
    return [Reading((example.texts[0].strip(), VERY), (feeling,)) for feeling in FEELINGS]


def _answers(example: Example) -> list[Reading]:
    context, question, *answers = (text.strip() for text in example.texts)
    # A blank before a part keeps words apart in vocabularies where it belongs to the word; in others it means nothing.
    before = (context, *([f" {question}"] if question else []))
    return [Reading(before, (f" {answer}",)) for answer in answers]


def _candidates(example: Example) -> list[Reading]:
    text, pronoun, *candidates = example.texts
    found = re.search(rf"(?<!\w){re.escape(pronoun.strip())}(?!\w)", text)
    if found is None:
        raise InputError(f"the pronoun '{pronoun}' is no word of the text '{text}'")
    before, rest = text[: found.start()], text[found.end() :]
    blank = before[len(before.rstrip()) :]
    return [Reading((before.rstrip(), f"{blank}{candidate.strip()}"), (rest,)) for candidate in candidates]


SENTENCE = Rule("sentence", _sentence)
FEELING = Rule("feeling", _feelings, by_mean=False)  # two words, compared whole
ANSWER = Rule("answer", _answers)
PRONOUN = Rule("pronoun", _candidates)

_BY_NAME = {("cola", SINGLE): SENTENCE, ("sst2", SINGLE): FEELING}


def find_rule(task: Task) -> Rule:
    """Return how a task is asked: by its name in the catalogue, or by its shape."""
    if (task.name, task.shape) in _BY_NAME and not task.is_multilabel:
        return _BY_NAME[task.name, task.shape]
    if task.shape != CHOICES:
        names = ", ".join(name for name, _ in _BY_NAME)
        raise SettingError(
            f"no rule is known by which a model could answer '{task.name}' ({task.shape}) without learning it; there "
            f"are rules for {names}, and for all tasks of shape choices; gpt1 finetune teaches the others"
        )
    return PRONOUN if task.fields == PRONOUN_FIELDS else ANSWER


@dataclass(frozen=True, eq=False)
class Prompts:
    """The readings of a split as token sequences, as many an example as there are answers, and its labels."""

    task: Task
    split: str
    rule: Rule
    sequences: list[Scored]
    labels: NDArray[np.int64]  # -1 for none
    groups: NDArray[np.int64]
    cut: int  # examples that lost their beginning
    shots: int  # solved examples asked for
    short_of_shots: int  # examples before which fewer of them fit
    unknown: Unknown  # of what is read of the examples, and of the answers to choose from

    def notices(self, context: int) -> list[str]:
        """Return what a person should be told."""
        of = f"of {len(self.labels):,} examples"
        told = []
        if self.cut:
            told.append(f"{self.cut:,} {of} are longer than {context} tokens; their beginnings are not read")
        if self.short_of_shots:
            shots = many(self.shots, "solved example")
            told.append(f"before {self.short_of_shots:,} {of} fewer than {shots} fit into {context} tokens")
        return [*told, *self.unknown.notice(len(self.labels))]


def make_prompts(
    labelled: Labelled,
    split: str,
    tokenizer: PromptTokenizer,
    context: int,
    *,
    rule: Rule | None = None,
    shots: int = 0,
    seed: int = 0,
) -> Prompts:
    """Return the prompts of a split, by the task's own rule or another one.

    So many solved training examples, drawn by seed, stand before each.
    """
    task, rule = labelled.task, rule or find_rule(labelled.task)
    if split not in labelled.splits:
        raise unknown("split", split, labelled.splits, of=f"'{task.name}'")
    if shots and split == "train":
        raise SettingError("solved examples are drawn from train, so train itself cannot be asked with them")
    examples = labelled.splits[split]
    solved = _solved(labelled, rule, shots, seed)
    readings = [_readings(task, split, rule, example) for example in examples]
    texts = (part for listed in (*readings, solved) for reading in listed for part in reading.parts)
    ids_of = encode_texts(texts, tokenizer)
    before = [[*_ids(reading.parts, ids_of), tokenizer.newline_id] for reading in solved]
    sequences: list[Scored] = []
    unspelled: list[tuple[int, int]] = []
    cut = short = 0
    for example, own in zip(examples, readings, strict=True):
        parted = [_parted(task, split, example, reading, ids_of) for reading in own]
        longest = max(len(read) + len(scored) for read, scored in parted)
        fitting = sum(total <= context - longest for total in accumulate(map(len, before)))
        cut += longest > context
        ids = [id for read, scored in parted for id in (*read, *scored)]
        unspelled.append((0 if tokenizer.unknown_id is None else ids.count(tokenizer.unknown_id), len(ids)))
        short += fitting < len(before)
        shown = [id for shot in before[:fitting] for id in shot]
        sequences += [_fitted([*shown, *read], scored, longest, context) for read, scored in parted]
    return Prompts(
        task,
        split,
        rule,
        sequences,
        labels=np.array([-1 if example.label is None else example.label for example in examples], np.int64),
        groups=np.array([-1 if example.group is None else example.group for example in examples], np.int64),
        cut=cut,
        shots=shots,
        short_of_shots=short,
        unknown=count_unknown(np.array(unspelled).reshape(-1, 2)),
    )


def examples_to_show(labelled: Labelled, rule: Rule, shots: int) -> list[Example]:
    """Return the training examples that can be shown solved, of CoLA the right sentences; refuse where they are few."""
    train = labelled.splits.get("train", [])
    known = [example for example in train if rule is not SENTENCE or example.label == 1]
    if shots > len(known):
        raise SettingError(
            f"{shots} solved examples are asked for, and '{labelled.task.name}' has {len(known)} to show"
        )
    return known


def _solved(labelled: Labelled, rule: Rule, shots: int, seed: int) -> list[Reading]:
    """Return training examples with their answers in place."""
    known = examples_to_show(labelled, rule, shots)
    drawn = permutation(len(known), seed)(range(shots)).tolist()
    return [_right(_readings(labelled.task, "train", rule, known[place]), known[place]) for place in drawn]


def _readings(task: Task, split: str, rule: Rule, example: Example) -> list[Reading]:
    try:
        return rule.readings(example)
    except InputError as error:
        raise InputError(f"'{task.name}' {split}, row {example.row}: {error}") from None


def _right(readings: Sequence[Reading], example: Example) -> Reading:
    assert not isinstance(example.label, tuple)  # `find_rule` refuses several labels
    return readings[int(example.label or 0)] if len(readings) > 1 else readings[0]


def _ids(parts: Sequence[str], ids_of: Mapping[str, Any]) -> list[int]:
    return [id for part in parts for id in ids_of[part]]


def _parted(
    task: Task, split: str, example: Example, reading: Reading, ids_of: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """Return the ids that are read and those that are scored; the first of all has nothing before it, so it is read."""
    read, scored = _ids(reading.before, ids_of), _ids(reading.scored, ids_of)
    if not read:
        read, scored = scored[:1], scored[1:]
    if not scored:
        raise InputError(
            f"'{task.name}' {split}, row {example.row}: nothing of “{''.join(reading.parts)}” can be scored: "
            "it takes a token, and one before it"
        )
    return read, scored


def _fitted(read: list[int], scored: list[int], longest: int, context: int) -> Scored:
    """Return a reading without so much of its beginning that the longest one of the example fits the context."""
    kept = read[min(max(0, longest - context), len(read) - 1) :]
    ids = [*kept, *scored][:context]
    return ids, len(kept)
