"""The folder of what is trained for answers: whose it is, what it was made for, and what is needed to begin."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import Run, load_run
from gpt1.labelling.suspects import suspect_labels
from gpt1.labelling.workings import MADE_FOR, WORKINGS, remove_workings
from gpt1.runs.events import Event, Stepped
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task

MOODS = make_task()


class Stopped(Exception):
    """What ends a call in the midst of a training."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "moods.csv")


@pytest.fixture
def run(tmp_path: Path, table: Path, bytes_tokenizer: Tokenizer) -> Run:
    """A run that has learned the table."""
    return learn(make_pretrained(tmp_path / "parent", bytes_tokenizer), table, tmp_path / "run")


def write(path: Path, seed: int = 0) -> Path:
    with path.open("w", newline="") as file:
        rows = [[row.texts[0], MOODS.labels[int(str(row.label))]] for row in make_examples(MOODS, 24, seed)]
        csv.writer(file).writerows([["text", "label"], *rows])
    return path


def learn(parent: Path, table: Path, out: Path, *changes: str) -> Run:
    return finetune(parent, out, train=table, changes=(*SETTINGS, *changes), recipe="finetune", device="cpu")


def quiet(said: str) -> None:
    pass


def suspect(run: Run, table: Path, out: Path) -> None:
    suspect_labels(run, table, out, notice=quiet)


def stopped(run: Run, table: Path, out: Path, at: int = 2) -> Path:
    """Return the folder of a call that was stopped in the training of this number."""
    firsts: list[int] = []

    def stop(event: Event) -> None:
        if isinstance(event, Stepped):
            firsts.extend([event.step] if event.step == 1 else [])
            if len(firsts) == at:
                raise Stopped

    with pytest.raises(Stopped):
        suspect_labels(run, table, out, listeners=[stop], notice=quiet)
    return out.with_name(out.name + WORKINGS)


@pytest.mark.parametrize("name", ["novel.txt", "part-0/novel.txt", "notes.tmp"])
def test_a_folder_of_somebody_else_is_refused_and_stays(name: str, run: Run, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    novel = tmp_path / f"out.csv{WORKINGS}" / name
    novel.parent.mkdir(parents=True)
    novel.write_text("mine")
    told: list[str] = []
    for asked in (table, write(tmp_path / "other.csv", seed=7)):  # learned, and not
        with pytest.raises(InputError, match="holds something else; choose another name with `out`") as refused:
            suspect_labels(run, asked, out, notice=told.append)
        assert "rm -r" not in str(refused.value)
    assert (novel.read_text(), out.exists(), told) == ("mine", False, [])


def test_what_somebody_lays_into_it_meanwhile_stays(run: Run, table: Path, tmp_path: Path) -> None:
    workings = stopped(run, table, tmp_path / "out.csv")
    novel = workings / "novel.txt"
    novel.write_text("mine")
    remove_workings(workings)
    assert novel.read_text() == "mine"
    novel.unlink()
    remove_workings(workings)
    assert not workings.exists()


def test_networks_of_something_else_are_refused_with_the_way_out(
    run: Run, table: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    out = tmp_path / "out.csv"
    workings = stopped(run, table, out)
    other = make_pretrained(tmp_path / "other", bytes_tokenizer, seed=1)
    both = tmp_path / "both.csv"
    both.write_text(table.read_text() + "one more,good\n")
    slower = learn(tmp_path / "parent", table, tmp_path / "slower", "optimizer.lr=1e-3")
    for own, asked, what in (
        (learn(other, table, tmp_path / "of-other"), table, "base"),
        (slower, table, "recipe"),
        (run, both, "table"),
        (slower, both, "recipe and another table"),
    ):
        with pytest.raises(InputError, match=rf"another {what}; choose another name(.|\n)*rm -r .*out\.csv\.workings"):
            suspect(own, asked, out)
    assert sorted(path.name for path in workings.iterdir()) == [MADE_FOR, "part-0", "part-1"]
    suspect(run, table, out)
    assert out.exists()
    assert not workings.exists()


def test_a_run_that_was_moved_goes_on(run: Run, table: Path, tmp_path: Path) -> None:
    stopped(run, table, tmp_path / "out.csv")
    run.path.rename(tmp_path / "moved")
    suspect(load_run(tmp_path / "moved", device="cpu"), table, tmp_path / "out.csv")


def test_a_damaged_record_of_it_is_told_with_the_way_out(run: Run, table: Path, tmp_path: Path) -> None:
    workings = stopped(run, table, tmp_path / "out.csv", at=1)
    record = workings / MADE_FOR
    record.write_text(record.read_text().replace('"base": "', '"base": "0'))
    with pytest.raises(FormatError, match=r"made-for\.json(.|\n)*rm -r"):
        suspect(run, table, tmp_path / "out.csv")


def test_a_base_that_has_moved_is_told_before_anything_is_made(run: Run, table: Path, tmp_path: Path) -> None:
    (tmp_path / "parent").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"was begun from .*parent, which is no run now.*bring it back to that place"):
        suspect(run, table, tmp_path / "out.csv")
    assert not (tmp_path / f"out.csv{WORKINGS}").exists()
    other = tmp_path / "other.csv"
    other.write_text("text,label\nnobody wept,bad\nnobody sang,good\n")
    suspect(run, other, tmp_path / "out.csv")  # which needs no base
    (tmp_path / "out.csv").unlink()
    shutil.move(tmp_path / "elsewhere", tmp_path / "parent")
    suspect(run, table, tmp_path / "out.csv")
