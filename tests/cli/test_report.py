"""`gpt1 report`: from a pre-trained run and what was taught to it, to a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpt1.finetuning.finetune import finetune
from tests.cli.tools import run
from tests.finetuning.tools import SETTINGS, make_examples, make_task, write_table
from tests.report.tools import PageReader, write_run


@pytest.fixture(scope="module")
def runs(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What is truly left by a pre-training, a fine-tuning of it, one from scratch and one of two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    task = make_task()
    table = write_table(folder / "moods.csv", task, make_examples(task, 64))
    settings = [*SETTINGS, "training.steps=6"]
    read = finetune(trained, folder / "read", train=table, test=table, changes=settings, device="cpu")
    scratch = [*settings, "finetuning.scratch=true"]
    finetune(trained, folder / "scratch", train=table, test=table, changes=scratch, device="cpu")
    finetune(trained, folder / "seeds", train=table, changes=settings, seeds=2, device="cpu")
    return [trained, read.path, folder / "scratch", folder / "seeds"]


def test_runs_as_they_are_left_make_a_page(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    code, printed, _ = run(capsys, "report", *map(str, runs), "--out", str(out), "--title", "What pre-training brings")
    assert code == 0
    assert printed == f"{out} is written; open it in a browser\n"
    found = PageReader(out.read_text("utf-8"))
    titles = ["Results", "run", "read", "scratch", "seeds"]
    assert [tag for tag, _ in found.elements].count("section") == len(titles)
    for fact in (
        "What pre-training brings",
        *titles,
        "from scratch",
        "median of 2 seeds",
        "seed-0, seed-1",
        "update 12",
    ):
        assert fact in found.words
    assert " over " in found.words  # a difference, judged in pairs


def test_the_page_is_called_report_unless_told(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "report", str(runs[0]))[0] == 0
    assert (tmp_path / "report.html").is_file()


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "books", "pretraining")
    code, _, said = run(capsys, "report", str(tmp_path / "book"), "--out", str(tmp_path / "page.html"))
    assert code == 1
    assert f"did you mean '{tmp_path / 'books'}'?" in said
    assert not (tmp_path / "page.html").exists()


def test_what_is_no_run_and_no_study_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "lost" / "cells" / "one").mkdir(parents=True)
    (tmp_path / "lost" / "cells" / "one" / "cell.json").touch()
    for name, message in (
        ("file", "file is a file; a run is a folder"),
        ("empty", "empty is neither a run nor a study"),
        ("lost", "lost has cells of a study and no study.json; the study's command writes it anew"),
    ):
        code, _, said = run(capsys, "report", str(tmp_path / name), "--out", str(tmp_path / "page.html"))
        assert (code, message in said) == (1, True), said


def test_no_run_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(capsys, "report")
    assert code == 2
    assert "RUN|STUDY..." in said


def test_asking_for_help_draws_nothing() -> None:
    code = "import sys, gpt1.cli\ntry: gpt1.cli.main(['report', '--help'])\nexcept SystemExit: pass\n"
    code += "print([name for name in ('matplotlib', 'jinja2', 'torch') if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gpt1 report runs/books" in done.stdout
    assert done.stderr.strip() == "[]"
