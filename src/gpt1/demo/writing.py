"""Writing the world to disk: the text to read, the labelled tasks, and a manifest that proves them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypedDict

from gpt1.base.files import make_folder, whole_file, write_record
from gpt1.base.strict_json import to_json
from gpt1.demo.stories import RUN, Run, runs, tell_story, words_of
from gpt1.demo.tasks import OTHER, TASKS, TESTS, StoryRow, make_rows, text_of, texts_of

CORPUS, LABELLED, MANIFEST = "corpus", "tasks", "manifest.json"
COUNTS = {"train": 600, "dev": 300, "test": 1000, OTHER: 1000}
FILE_STORIES = 500  # so that a share for validation is a few whole files


@dataclass
class Told:
    """What the text to read has, counted while it is written."""

    words: int = 0
    anew: int = 0
    heroes: set[str] = field(default_factory=set)


class KeptBack(TypedDict):
    """What of the tests the text to read has not."""

    words_in_a_row: int
    runs: int
    told_anew: int


class WorldManifest(TypedDict):
    """What manifest.json holds."""

    seed: int
    stories: int
    words: int
    kept_back: KeptBack
    heroes_of_the_text: list[str]
    heroes_of_the_tests: list[str]
    rows: dict[str, dict[str, int]]  # by task and split


def write_world(folder: str | Path, *, stories: int, seed: int, counts: Mapping[str, int] = COUNTS) -> WorldManifest:
    """Write `stories` stories and the labelled tasks to `folder`, and return the manifest that is written with them.

    No story shares a run of eight words with a test (what would is told anew), and nobody has a trade in the text that
    he has in a test: the manifest lists who has which.
    """
    folder = Path(folder)
    tasks = make_tasks(seed, counts)
    for name, splits in tasks.items():
        make_folder(folder / LABELLED / name)
        for split, rows in splits.items():
            with whole_file(folder / LABELLED / name / f"{split}.jsonl") as file:
                file.writelines((to_json(row) + "\n").encode() for row in rows)
    kept_back = runs_of_tests(tasks)
    make_folder(folder / CORPUS)
    told = Told()
    for number, first in enumerate(range(0, stories, FILE_STORIES)):
        path, count = folder / CORPUS / f"stories-{number:04}.txt", min(FILE_STORIES, stories - first)
        _write_stories(path, Random(f"{seed} stories from {first}"), count, kept_back, told)
    tested = {row["hero"] for splits in tasks.values() for split in TESTS for row in splits[split] if "hero" in row}
    assert not told.heroes & tested, "a person with a trade of the tests is told of in the text"
    manifest: WorldManifest = {
        "seed": seed,
        "stories": stories,
        "words": told.words,
        "kept_back": {"words_in_a_row": RUN, "runs": len(kept_back), "told_anew": told.anew},
        "heroes_of_the_text": sorted(told.heroes),
        "heroes_of_the_tests": sorted(tested),
        "rows": {name: {split: len(rows) for split, rows in splits.items()} for name, splits in tasks.items()},
    }
    write_record(folder / MANIFEST, {**manifest})
    return manifest


def make_tasks(seed: int, counts: Mapping[str, int] = COUNTS) -> dict[str, dict[str, list[StoryRow]]]:
    """Return the rows of every task and split; no text stands in two splits."""
    found: dict[str, dict[str, list[StoryRow]]] = {}
    for task in TASKS.values():
        met: set[str] = set()
        found[task.name] = {}
        for split in task.splits if task.dev_splits else task.test_splits:
            found[task.name][split] = make_rows(task, split, counts[split], seed=seed, without=met)
            met.update(map(text_of, found[task.name][split]))
    return found


def runs_of_tests(tasks: Mapping[str, Mapping[str, list[StoryRow]]]) -> frozenset[Run]:
    """Return every run of eight words in a text of a test."""
    rows = (row for splits in tasks.values() for split in TESTS for row in splits[split])
    return frozenset(run for row in rows for text in texts_of(row) for run in runs(words_of(text)))


def _write_stories(path: Path, draw: Random, count: int, kept_back: frozenset[Run], told: Told) -> None:
    """Write some stories, a line each."""
    with whole_file(path) as file:
        for _ in range(count):
            page = tell_story(draw, kept_back)
            told.words += sum(len(sentence.split()) for sentence in page.sentences)
            told.anew += page.redrawn
            told.heroes |= {page.hero} if page.hero else set()
            file.write(f"{' '.join(page.sentences)}\n".encode())
