"""What the reader knows without a single label, by the paper's rules for tasks that were never taught."""

from __future__ import annotations

import re
from pathlib import Path

from gpt1.demo.tasks import CHOICE, ENDING, PRONOUN
from gpt1.demo.world import PEOPLE
from gpt1.inference.prompts import Reading, Rule, find_rule, make_prompts
from gpt1.inference.run import Run
from gpt1.inference.zeroshot import Questions, answer
from gpt1.tasks.examples import Example
from gpt1.tasks.readers import read_folder

MOODS = ("sad", "happy")  # in the order of the labels of `ENDING`
ROWS = 500  # of a test, asked at every checkpoint

_NAME = re.compile(rf"\b({'|'.join(person.name for person in PEOPLE)})\b")


def _moods(example: Example) -> list[Reading]:
    """Return the story with a sad hero and with a happy one."""
    (text,) = example.texts
    (name, *_) = _NAME.findall(text)
    return [Reading((text,), (f" {name} was {mood}.",)) for mood in MOODS]


RULES = {ENDING.name: Rule("mood", _moods), CHOICE.name: find_rule(CHOICE), PRONOUN.name: find_rule(PRONOUN)}


def make_questions(run: Run, data: Path) -> dict[str, Questions]:
    """Return what the checkpoints of a run are asked: the beginning of three tests."""
    found = {}
    for task in (ENDING, CHOICE, PRONOUN):
        labelled = read_folder(task, data)
        labelled.splits["test"] = labelled.splits["test"][:ROWS]
        context = run.recipe.shape.context
        found[task.name] = Questions(make_prompts(labelled, "test", run.tokenizer, context, rule=RULES[task.name]))
    return found


def share_right(run: Run, questions: Questions) -> float:
    """Return the share of questions that a run answers rightly."""
    return answer(run, questions).metrics["accuracy"]
