"""The tour with books from end to end, with a base and in a size that show nothing but that every part is there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import Chosen, InputError, SettingError
from gpt1.base.progress import Silent
from gpt1.bases import catalog
from gpt1.bases.catalog import BASE_FILE, Base, BaseRecord
from gpt1.demo.books import BOOK_TASKS
from gpt1.demo.books_page import books_opening
from gpt1.demo.books_tour import (
    RESULT,
    ROWS,
    RUNS,
    WORDS,
    BooksResult,
    BookTaskResult,
    Measured,
    runs_of_books,
    tour_books,
)
from gpt1.demo.recipe import BOOK_RATES, BOOKS_LEARNING, PRETRAINED, BooksPlan
from gpt1.documents.terminal import render
from gpt1.recipes.catalog import AUTO
from gpt1.recipes.derived import settled
from gpt1.report import report
from gpt1.runs.events import Event, Saved, Stepped
from gpt1.runs.folder import read_run
from tests.demo.test_tour import Told
from tests.moments import signalled
from tests.records import facts_in

SMALL_BOOKS = BooksPlan(
    counts={"train": 24, "dev": 8, "test": 20},
    learning=replace(
        BOOKS_LEARNING,
        training=replace(BOOKS_LEARNING.training, epochs=2, precision="fp32"),
        logging=replace(BOOKS_LEARNING.logging, log_every=1),
    ),
)
Finished = tuple[Path, BooksResult, list[str]]


@contextmanager
def with_base(folder: Path) -> Iterator[None]:
    """Have the tour take a base that lies elsewhere than in the package, as its worker processes see it too."""
    base = Base(folder, BaseRecord.read(folder / BASE_FILE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpt1.demo.books_tour.bases", lambda: [base])
        patch.setattr("gpt1.demo.books_tour.default_base", lambda: base)
        yield


def small_tour(out: Path, base: Path, **given: Any) -> BooksResult:
    with with_base(base):
        return tour_books(out, **{"plan": SMALL_BOOKS, "progress": Silent(), **given})


@pytest.fixture(scope="module")
def finished(stand_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out, told = tmp_path_factory.mktemp("books") / "demo", Told()
    return out, small_tour(out, stand_in / "small", progress=told), told.lines


@pytest.fixture
def base(stand_in: Path) -> Path:
    return stand_in / "small"


def test_every_task_is_learned_by_the_base_from_scratch_and_by_words(finished: Finished) -> None:
    out, found, told = finished
    assert [row.task for row in found.tasks] == [task.name for task in BOOK_TASKS]
    for row in found.tasks:
        for reached in (row.words, row.scratch, row.pretrained):
            assert 0 <= reached.low <= reached.value <= reached.high <= 1
        assert row.over_words.value == pytest.approx(row.pretrained.value - row.words.value)
        assert row.over_scratch.value == pytest.approx(row.pretrained.value - row.scratch.value)
    assert len([line for line in told if line.startswith("learned: ")]) == 2 * len(BOOK_TASKS)
    assert facts_in(out / RESULT) == asdict(found)


def test_it_says_which_base_it_took_and_in_which_precision_it_computed(finished: Finished) -> None:
    _, found, _ = finished
    assert (found.base, found.precision) == ("small", "fp32")
    assert found.about.startswith("26,000 parameters; it has read tales of a small world")


def test_both_arms_have_the_same_recipe_and_shape_but_their_own_rates(finished: Finished) -> None:
    out, _, _ = finished
    pretrained, scratch = (read_run(run).recipe for run in runs_of_books(out, 1)[:2])
    assert (pretrained.finetuning.scratch, scratch.finetuning.scratch) == (False, True)
    assert scratch.optimizer.lr == BOOK_RATES["scratch"]
    rate = pretrained.optimizer.lr
    assert replace(scratch.optimizer, lr=rate) == pretrained.optimizer
    assert (scratch.shape, scratch.training) == (pretrained.shape, pretrained.training)


def test_the_base_learns_as_any_does_but_for_the_epochs_and_nobody_answers_for_it() -> None:
    assert BOOK_RATES[PRETRAINED] is None
    own, usual = (settled(recipe, 33_500_000, BooksPlan().counts["train"]) for recipe in (BOOKS_LEARNING, AUTO))
    assert own.training.epochs < usual.training.epochs
    assert replace(own.training, epochs=usual.training.epochs) == usual.training
    assert (own.optimizer, own.schedule, own.shape) == (usual.optimizer, usual.schedule, usual.shape)
    assert replace(own.finetuning, ensemble=True) == usual.finetuning


def test_run_again_it_does_nothing_again_and_finds_the_same(finished: Finished, base: Path) -> None:
    out, found, _ = finished
    events: list[Event] = []
    assert small_tour(out, base, listeners=[events.append]) == found
    assert not [event for event in events if isinstance(event, Stepped)]


def test_stopped_on_the_way_it_goes_on_and_finds_the_same(finished: Finished, base: Path, tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Saved):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_tour(tmp_path / "demo", base, listeners=[stop])
    assert not (tmp_path / "demo" / RESULT).exists()
    assert small_tour(tmp_path / "demo", base) == finished[1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent there as here")
@pytest.mark.parametrize(
    ("part", "change"),
    [(RUNS, 12), *(pytest.param(*moment, marks=pytest.mark.slow) for moment in ((ROWS, 5), (RUNS, 1), (RUNS, 40)))],
)
def test_killed_at_any_moment_it_goes_on_and_finds_the_same(
    finished: Finished, base: Path, tmp_path: Path, part: str, change: int
) -> None:
    out = tmp_path / "demo"
    told = f"from tests.demo.test_books_tour import *; small_tour(Path({str(out)!r}), Path({str(base)!r}))"
    killed = subprocess.run(
        signalled(change, out / part, signal.SIGKILL, "-c", told),
        capture_output=True,  # so that the processes of the crew, which end with it, are waited for too
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert small_tour(out, base) == finished[1]


def test_moved_and_damaged_it_makes_anew_what_it_can_and_finds_the_same(
    finished: Finished, base: Path, tmp_path: Path
) -> None:
    out, told = tmp_path / "moved", Told()
    shutil.copytree(finished[0], out)
    shutil.rmtree(out / ROWS)
    (out / WORDS).write_bytes((out / WORDS).read_bytes()[:-9])
    assert small_tour(out, base, progress=told) == finished[1]
    assert any(line.startswith("made again: ") and WORDS in line for line in told.lines)


def test_several_seeds_give_their_medians_and_answers_that_are_gone_are_told(base: Path, tmp_path: Path) -> None:
    found = small_tour(tmp_path / "demo", base, seeds=2)
    assert found.seeds == 2
    assert all((run / "seeds.json").is_file() for run in runs_of_books(tmp_path / "demo", 2))
    for row in found.tasks:
        values = facts_in(tmp_path / "demo" / RUNS / f"{row.task}-scratch-2-seeds" / "seeds.json")["summary"]
        assert row.scratch.value == pytest.approx(values[f"{row.task} test accuracy"]["median"])
    (tmp_path / "demo" / RUNS / "finish-scratch-2-seeds" / "seed-1" / "predictions-finish-test.jsonl").unlink()
    with pytest.raises(InputError, match=r"finish-scratch-2-seeds lacks answers to the test(.|\n)*rm -r"):
        small_tour(tmp_path / "demo", base, seeds=2)


# ---- what is refused ----


def test_a_package_without_a_base_says_so_and_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")
    with pytest.raises(SettingError, match="this package has no base of its own, and the tasks about books are lear"):
        tour_books(tmp_path / "demo", plan=SMALL_BOOKS, progress=Silent())
    assert not (tmp_path / "demo").exists()


def test_which_base_was_taken_is_told(small: Path, finished: Finished, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished[0], tmp_path / "demo"))
    with pytest.warns(Chosen, match="starting from the base 'small': 26,000 parameters; it has read tales of a small"):
        assert tour_books(out, plan=SMALL_BOOKS, progress=Silent()) == finished[1]


def test_a_demo_with_another_base_or_other_rows_is_refused(finished: Finished, base: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(base, tmp_path / "other"))
    replace(BaseRecord.read(other / BASE_FILE), name="other").write(other / BASE_FILE)
    with pytest.raises(InputError, match=r"or with another base \(small\); choose another folder with `out`"):
        small_tour(finished[0], other)
    with pytest.raises(InputError, match="holds a demo of another version"):
        small_tour(finished[0], base, plan=replace(SMALL_BOOKS, counts={**SMALL_BOOKS.counts, "test": 10}))


def test_a_folder_with_other_files_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"letter\.txt"):
        small_tour(tmp_path, base)


# ---- what is shown ----


def made_up(over_words: Measured) -> BooksResult:
    """Return a result in which the base is so far ahead of TF-IDF."""
    reached = (Measured(0.5, 0.45, 0.55), Measured(0.52, 0.47, 0.57), Measured(0.5 + over_words.value, 0.5, 0.9))
    task = BOOK_TASKS[0]
    row = BookTaskResult(task.name, task.title, task.shape, 0.5, *reached, over_words, Measured(0.2, 0.1, 0.3))
    return BooksResult(
        "small", "33,500,000 parameters; it has read novels", "bf16", 1, {"train": 300, "test": 400}, [row]
    )


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [
        (Measured(0.01, -0.03, 0.05), "could be chance"),
        (Measured(0.3, 0.25, 0.35), "better, beyond chance"),
        (Measured(-0.1, -0.15, -0.05), "worse, beyond chance"),
    ],
)
def test_whether_a_difference_is_more_than_chance_is_said_beside_it(ahead: Measured, verdict: str) -> None:
    shown = render(books_opening(made_up(ahead)).blocks, width=100, is_terminal=False)
    (line,) = [line for line in shown.splitlines() if line.startswith("over TF-IDF")]
    assert line.endswith(verdict)
    assert "bf16" in shown
    assert "it has read novels" in shown


def test_the_page_opens_with_the_table_of_the_tour(finished: Finished, tmp_path: Path) -> None:
    out, found, _ = finished
    page = report(runs_of_books(out, 1), tmp_path / "page.html", "A demo", [books_opening(found)]).read_text()
    assert page.index("What pre-training brings on real text") < page.index("finish-pretrained")
    shown = render(books_opening(found).blocks, width=100, is_terminal=False)
    assert all(task.title in shown for task in BOOK_TASKS)
    assert f"The base is 'small': {found.about}" in shown
