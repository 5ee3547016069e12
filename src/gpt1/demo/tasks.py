"""Labelled tasks about the stories, one of each shape, and one for zero-shot.

Every label is a comparison of two things that are told: neither of them alone, nor any count of words, gives it away.
Hypotheses and alternatives name no word that the story has: a person who owns an oar worked at the harbour, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import TypedDict

from gpt1.demo.stories import (
    Choice,
    Teller,
    common_forms,
    hero_name,
    other_trade,
    rare_forms,
    say_later,
    say_meeting,
    some_hero,
    some_meeting,
)
from gpt1.demo.world import ASPECTS, PEOPLE, SEEN_PEOPLE, TRADES, WEATHER, is_held_out
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE

OTHER = "other"  # the set with people and sentence forms that labelled training never has
TESTS = ("test", OTHER)

ENDING = Task(
    name="ending",
    title="Does the story end well for its hero?",
    shape=SINGLE,
    labels=("badly", "well"),
    metrics=("accuracy",),
    fields=("text",),
    test_splits=TESTS,
)
ENTAILMENT = Task(
    name="entailment",
    title="Does the second sentence follow from the story?",
    shape=PAIR,
    labels=("no", "yes"),
    metrics=("accuracy",),
    fields=("a", "b"),
    test_splits=TESTS,
)
SIMILARITY = Task(
    name="similarity",
    title="Do two accounts say the same of the hero?",
    shape=BOTH,
    labels=("different", "same"),
    metrics=("accuracy",),
    fields=("a", "b"),
    test_splits=TESTS,
)
CHOICE = Task(
    name="choice",
    title="Which of two endings belongs to the story?",
    shape=CHOICES,
    choices=2,
    metrics=("accuracy",),
    fields=("context", "choices"),
    test_splits=TESTS,
)
PRONOUN = Task(
    name="pronoun",
    title="Whom does the pronoun mean? (for zero-shot)",
    shape=CHOICES,
    choices=2,
    metrics=("accuracy",),
    fields=("text", "pronoun", "choices"),
    dev_splits=(),
    test_splits=TESTS,
)


class StoryRow(TypedDict, total=False):
    """A row of a task, as its file holds it: the texts of its shape, and who is told of."""

    text: str
    pronoun: str
    context: str
    a: str
    b: str
    choices: list[str]
    hero: str
    label: str | int


@dataclass(frozen=True)
class Split:
    """Who may appear in a split, with trades that the text to read tells of them or with others, and how it is told."""

    people: tuple[int, ...]
    held_out: bool
    forms: Choice


SPLITS = {
    "train": Split(tuple(range(SEEN_PEOPLE)), False, common_forms),
    "dev": Split(tuple(person for person in range(SEEN_PEOPLE) if person % 4 < 2), True, common_forms),
    "test": Split(tuple(person for person in range(SEEN_PEOPLE) if person % 4 >= 2), True, common_forms),
    OTHER: Split(tuple(range(SEEN_PEOPLE, len(PEOPLE))), True, rare_forms),
}


def _ending(draw: Random, split: Split, label: int) -> StoryRow:
    person, trade = some_hero(draw, split.people, split.held_out)
    teller = Teller(draw, PEOPLE[person], split.forms)
    told = teller.portrait(TRADES[trade], draw.sample(list(ASPECTS), 2))
    told.append(teller.gift(TRADES[trade if label else other_trade(draw, trade)]))
    return {"text": " ".join(told), "hero": hero_name(person, trade)}


def _entailment(draw: Random, split: Split, label: int) -> StoryRow:
    person, trade = some_hero(draw, split.people, split.held_out)
    first, second, third = draw.sample(list(ASPECTS), 3)
    teller = Teller(draw, PEOPLE[person], split.forms)
    told = [*teller.portrait(TRADES[trade], (first, second)), draw.choice(draw.choice(WEATHER).told)]
    claimed = trade if label else _another(draw, split, person, trade)
    anew = replace(teller, introduced=False)  # by name: true and false sentences begin alike
    return {"a": " ".join(told), "b": anew.trade(TRADES[claimed], third), "hero": hero_name(person, trade)}


def _similarity(draw: Random, split: Split, label: int) -> StoryRow:
    person, trade = some_hero(draw, split.people, split.held_out)
    aspects = draw.sample(list(ASPECTS), 4)
    second = trade if label else _another(draw, split, person, trade)
    accounts = [
        " ".join(Teller(draw, PEOPLE[person], split.forms).portrait(TRADES[told], own))
        for told, own in ((trade, aspects[:2]), (second, aspects[2:]))
    ]
    return {"a": accounts[0], "b": accounts[1], "hero": hero_name(person, trade)}


def _choice(draw: Random, split: Split, label: int) -> StoryRow:
    person, trade = some_hero(draw, split.people, split.held_out)
    first, second, third = draw.sample(list(ASPECTS), 3)
    teller = Teller(draw, PEOPLE[person], split.forms)
    told = teller.portrait(TRADES[trade], (first, second))
    told.append(teller.gift(TRADES[other_trade(draw, trade)]))  # so that not every thing is the hero's
    endings = teller.trades([TRADES[trade], TRADES[_another(draw, split, person, trade)]], third)
    choices = endings[::-1] if label else endings
    return {"context": " ".join(told), "choices": choices, "hero": hero_name(person, trade)}


def _pronoun(draw: Random, split: Split, label: int) -> StoryRow:
    meeting = some_meeting(draw, held_out=True)
    right, wrong = draw.sample(meeting.trades, 2)
    text = f"{say_meeting(draw, meeting, split.forms)} {say_later(draw, right, meeting.pronoun, split.forms)}"
    people = [f"the {trade.job}" for trade in (right, wrong)]
    return {"text": text, "pronoun": meeting.pronoun, "choices": people[::-1] if label else people}


def _another(draw: Random, split: Split, person: int, trade: int) -> int:
    """Draw another trade for the same person, kept for tests or not as the first one is: neither is the likelier."""
    return draw.choice([t for t in range(len(TRADES)) if t != trade and is_held_out(person, t) == split.held_out])


_MAKERS: dict[str, Callable[[Random, Split, int], StoryRow]] = {
    ENDING.name: _ending,
    ENTAILMENT.name: _entailment,
    SIMILARITY.name: _similarity,
    CHOICE.name: _choice,
    PRONOUN.name: _pronoun,
}

LEARNED = (ENDING, ENTAILMENT, SIMILARITY, CHOICE)
TASKS = {task.name: task for task in (*LEARNED, PRONOUN)}


def make_rows(task: Task, split: str, count: int, *, seed: int, without: Iterable[str] = ()) -> list[StoryRow]:
    """Return `count` rows of a split, no two alike, no text among `without`, and labels equally frequent."""
    draw = Random(f"{seed} {task.name} {split}")
    rows: list[StoryRow] = []
    met = set(without)
    while len(rows) < count:
        label = len(rows) % 2
        row = _MAKERS[task.name](draw, SPLITS[split], label)
        if (text := text_of(row)) not in met:
            met.add(text)
            rows.append(row | {"label": TASKS[task.name].labels[label] if task.labels else label})
    draw.shuffle(rows)
    return rows


def text_of(row: StoryRow) -> str:
    """Return all that a row says, whatever the order of its answers."""
    return " | ".join([*_told(row), *sorted(row.get("choices", []))])


def texts_of(row: StoryRow) -> list[str]:
    """Return every text of a row by itself."""
    return [*_told(row), *row.get("choices", [])]


def _told(row: StoryRow) -> list[str]:
    told = (row.get("text"), row.get("context"), row.get("a"), row.get("b"))
    return [text for text in told if text is not None]
