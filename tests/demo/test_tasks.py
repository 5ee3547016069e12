"""The labelled tasks: balanced, apart from each other and from the text, and not to be had from words alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpt1.demo import TASKS, write_world
from gpt1.demo.stories import runs, words_of
from gpt1.demo.tasks import ENTAILMENT, LEARNED, OTHER, SIMILARITY, SPLITS, StoryRow, text_of, texts_of
from gpt1.demo.world import ASPECTS, GIFTS, PEOPLE, TRADES, is_held_out
from gpt1.demo.writing import COUNTS, make_tasks
from gpt1.inspection.doctor import examine
from gpt1.linear.words import answer_by_words
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Row as Cells
from gpt1.tasks.examples import make_example
from gpt1.tasks.readers import read_folder
from tests.records import facts_in

Rows = dict[str, dict[str, list[StoryRow]]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return make_tasks(seed=0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, stories=1200, seed=3)
    return folder


def words_in(row: StoryRow) -> str:
    return " ".join(texts_of(row))


def trades_in(text: str) -> set[int]:
    return {
        place
        for place, trade in enumerate(TRADES)
        if any(re.search(rf"\b{word}\b", text) for word in (trade.job, trade.doing, trade.where, *trade.things))
    }


def test_the_same_seed_gives_the_same_rows_and_another_seed_others(rows: Rows) -> None:
    assert make_tasks(seed=0) == rows
    assert make_tasks(seed=1) != rows


def test_every_test_has_five_hundred_rows_and_labels_are_equally_frequent(rows: Rows) -> None:
    assert COUNTS["test"] >= 500
    assert COUNTS[OTHER] >= 500
    for task in LEARNED:
        for split, own in rows[task.name].items():
            assert len(own) == COUNTS[split]
            assert set(Counter(row["label"] for row in own).values()) == {len(own) // 2}


def test_no_text_stands_in_two_splits(rows: Rows) -> None:
    for splits in rows.values():
        texts = [text_of(row) for own in splits.values() for row in own]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("task", LEARNED, ids=lambda task: task.name)
def test_labelled_training_never_tells_of_a_person_with_a_trade_of_the_tests(rows: Rows, task: Any) -> None:
    for split, own in rows[task.name].items():
        for row in own:
            (person,) = {place for place, p in enumerate(PEOPLE) if re.search(rf"\b{p.name}\b", words_in(row))}
            assert person in SPLITS[split].people
            told = trades_in(
                row.get("a") or re.split(r"\. (?=[^.]*\b(?:gave|got|found|brought|given|box)\b)", words_in(row))[0]
            )
            assert len(told) == 1
            assert is_held_out(person, min(told)) == (split != "train")


def test_the_set_other_has_people_and_forms_that_labelled_training_never_has(rows: Rows) -> None:
    things = "|".join(thing for trade in TRADES for thing in trade.things)
    filled = (
        dict.fromkeys("SsoPph", "[A-Za-z']+") | dict.fromkeys("gG", "[A-Za-z ]+") | dict.fromkeys("xy", f"({things})")
    )
    filled |= {
        gap: f"({'|'.join(getattr(trade, gap) for trade in TRADES)})" for gap in ("a_job", "job", "where", "doing")
    }
    common = [form.format(**filled) for forms in (*ASPECTS.values(), GIFTS) for form in forms.common]
    for task in LEARNED:
        seen = {name for row in rows[task.name]["train"] for name in re.findall(r"[A-Z][a-z]+", words_in(row))}
        for row in rows[task.name][OTHER]:
            named = {person.name for person in PEOPLE if re.search(rf"\b{person.name}\b", words_in(row))}
            assert not named & seen
            first = re.split(r"(?<=\.) ", texts_of(row)[0])[0]
            assert not any(re.fullmatch(pattern, first) for pattern in common)


def test_hypotheses_and_second_accounts_repeat_no_word_of_a_trade(rows: Rows) -> None:
    telling = {word for trade in TRADES for word in (trade.job, trade.doing, trade.where, *trade.things)}
    for task in (ENTAILMENT, SIMILARITY):
        for row in rows[task.name]["test"]:
            shared = [word for word in telling if all(re.search(rf"\b{word}\b", row[side]) for side in "ab")]
            assert shared == []
            label = trades_in(row["a"]) == trades_in(row["b"])
            assert row["label"] == task.labels[label]


# Runs of characters that both texts of a pair have in common (`drum` and `drummer`) tell a little.
BY_WORDS = {"ending": 0.55, "entailment": 0.7, "similarity": 0.8, "choice": 0.55}


@pytest.mark.parametrize("task", LEARNED, ids=lambda task: task.name)
def test_words_alone_tell_little_or_nothing(rows: Rows, task: Task) -> None:
    for split in ("test", OTHER):
        assert by_words(task, rows[task.name], split) <= BY_WORDS[task.name]


def test_words_alone_find_a_label_that_words_give_away(rows: Rows) -> None:
    given_away = {
        split: [row | {"text": f"{row['text']} {row['label']}"} for row in own] for split, own in rows["ending"].items()
    }
    assert by_words(TASKS["ending"], given_away, "test") > 0.95


def by_words(task: Task, rows: dict[str, list[StoryRow]], split: str) -> float:
    """Return how well counting words does on a split."""
    train, asked = ([make_example(task, Cells(row, "rows", 1), one) for row in rows[one]] for one in ("train", split))
    return float((answer_by_words(task, train, asked) == [example.label for example in asked]).mean())


def test_a_pronoun_could_mean_either_of_two_people_who_never_meet_in_the_text(rows: Rows, world: Path) -> None:
    corpus = "\n".join(path.read_text() for path in (world / "corpus").iterdir())
    met = {frozenset(pair) for pair in re.findall(r"The (\w+) (?:met|talked to|sat down next to) the (\w+)\.", corpus)}
    met |= {frozenset(pair) for pair in re.findall(r"One day the (\w+) helped the (\w+)\.", corpus)}
    assert met
    for row in rows["pronoun"]["test"]:
        people = [choice.removeprefix("the ") for choice in row["choices"]]
        assert all(f" {person}" in row["text"].partition(".")[0] for person in people)
        assert frozenset(people) not in met
        right = next(place for place, trade in enumerate(TRADES) if trade.job == people[row["label"]])
        assert trades_in(row["text"].partition(". ")[2]) == {right}


def test_a_world_on_disk_is_read_as_tasks_and_its_manifest_is_true(world: Path) -> None:
    manifest = facts_in(world / "manifest.json")
    for name, task in TASKS.items():
        found = read_folder(task, world / "tasks")
        assert {split: len(own) for split, own in found.splits.items()} == manifest["rows"][name]
    assert not set(manifest["heroes_of_the_text"]) & set(manifest["heroes_of_the_tests"])
    pairs = {f"{person.name}, {trade.job}": (p, t) for p, person in enumerate(PEOPLE) for t, trade in enumerate(TRADES)}
    assert all(is_held_out(*pairs[hero]) for hero in manifest["heroes_of_the_tests"])
    stories = [line for path in sorted((world / "corpus").iterdir()) for line in path.read_text().splitlines()]
    assert (len(stories), sum(len(story.split()) for story in stories)) == (manifest["stories"], manifest["words"])


def test_the_same_seed_writes_the_same_bytes(world: Path, tmp_path: Path) -> None:
    write_world(tmp_path, stories=1200, seed=3)
    files = sorted(path.relative_to(world) for path in world.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert all((world / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


def test_no_eight_words_in_a_row_of_a_test_stand_in_the_text(world: Path) -> None:
    read = {
        run
        for path in (world / "corpus").iterdir()
        for line in path.read_text().splitlines()
        for run in runs(words_of(line))
    }
    for name in TASKS:
        for split in ("test", OTHER):
            for line in (world / "tasks" / name / f"{split}.jsonl").read_text().splitlines():
                assert not any(run in read for text in texts_of(json.loads(line)) for run in runs(words_of(text)))


def test_the_doctor_finds_no_test_in_the_text(world: Path) -> None:
    tests = [str(path) for name in TASKS for path in (world / "tasks" / name).iterdir() if path.stem in ("test", OTHER)]
    report = examine([str(world / "corpus")], against=tests, document="line", workers=1)
    found = report["leakage"]["files"]
    assert len(found) == len(tests)
    assert [file["examples_sharing_run"] for file in found] == [0] * len(tests)
