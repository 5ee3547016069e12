"""Texts that do not fit the context: read in windows they are learned by what stands anywhere in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gpt1.finetuning.finetune import finetune
from gpt1.inference.answering import answer
from gpt1.inference.run import Run
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example, Labelled
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, THINGS
from tests.finetuning.tools import make_pretrained, make_task

MOODS, PAIRS, STORIES = make_task(), make_task("pairs", "both"), make_task("stories", "choices")
WHO = ("Ann", "somebody")  # who tells the label, behind what the context has room for
SETTINGS = (
    "training.epochs=6",
    "training.batch=8",
    "training.micro_batch=8",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "logging.keep_optimizer=true",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
)
SHORT = (*SETTINGS, "training.steps=4", "training.micro_batch=none")


def long_text(draw: random.Random, who: str, things: int = 8) -> str:
    """Return a text that says who did something only where a context of 16 tokens is over."""
    before = " ".join(draw.choice(THINGS) for _ in range(things))
    return f"{before} {who} {draw.choice(DEEDS)} {draw.choice(THINGS)}"


def long_rows(task: Task, count: int, seed: int = 0, things: int = 8) -> list[Example]:
    """Return rows whose label is told at their ends alone; of pairs by the end of one of both texts."""
    draw = random.Random(seed)
    found = []
    for row in range(count):
        label = row % 2
        texts = [long_text(draw, WHO[label], things)]
        if task.texts == 2:
            texts.append(draw.choice(THINGS))
            draw.shuffle(texts)
        found.append(Example(tuple(texts), label, row + 1))
    return found


@pytest.fixture(scope="module")
def base(words_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pretrained(
        tmp_path_factory.mktemp("base") / "base", words_tokenizer, "shape.width=32", "shape.feed_forward=64"
    )


@pytest.fixture(scope="module")
def taught(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Runs that have learned long texts in one way or another, each made once."""
    made: dict[tuple[str, str], Run] = {}
    folder = tmp_path_factory.mktemp("taught")

    def get(windows: str, task: Task = MOODS) -> Run:
        key = (windows, task.name)
        if key not in made:
            rows = long_rows(task, 200)
            labelled = Labelled(task, {"train": rows[:140], "dev": rows[140:]})
            out, changes = folder / "-".join(key), [*SETTINGS, f"finetuning.windows={windows}"]
            made[key] = finetune(base, out, examples=labelled, recipe="auto", changes=changes, device="cpu")
        return made[key]

    return get


def accuracy(run: Run, task: Task = MOODS) -> float:
    rows = long_rows(task, 100, seed=1)
    return float((answer(run, task, rows).answers == [row.label for row in rows]).mean())


# ---- what is learned ----


def test_a_text_that_loses_its_end_is_answered_by_chance(taught: Callable[..., Run]) -> None:
    assert accuracy(taught("off")) < 0.65


@pytest.mark.parametrize("windows", ["mean", "max", "attention"])
def test_what_stands_behind_the_context_is_learned_in_windows(taught: Callable[..., Run], windows: str) -> None:
    assert accuracy(taught(windows)) > 0.9


def test_pairs_are_read_in_windows_too_in_both_orders(taught: Callable[..., Run]) -> None:
    assert accuracy(taught("off", PAIRS), PAIRS) < 0.65
    assert accuracy(taught("max", PAIRS), PAIRS) > 0.9
