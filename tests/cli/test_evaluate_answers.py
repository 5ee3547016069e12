"""`gpt1 evaluate` on a fine-tuned run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpt1.finetuning.data import identity, read_recorded
from gpt1.finetuning.measure import evaluation_file
from gpt1.records.run import RecordedSource
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.conftest import make_text
from tests.inference.tools import CONTEXT, STEP, make_run
from tests.records import facts_in

MOODS = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))


@pytest.fixture
def moods(tmp_path: Path, words_tokenizer: Tokenizer) -> Path:
    """A run that has learned to read moods."""
    return make_run(tmp_path / "run", words_tokenizer, MOODS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twenty labelled rows."""
    rows = [{"text": make_text(1, seed=row), "label": MOODS.labels[row % 2]} for row in range(20)]
    (tmp_path / "march.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "march.jsonl"


def test_a_table_gives_scores_confusion_calibration_and_mistakes(
    moods: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "evaluate", str(moods), "--table", str(table), "--device", "cpu")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert words.startswith("moods split examples accuracy commonest label ECE Brier log loss march 20 ")
    for part in (
        f"update {STEP} ",
        "95 % interval",
        "label, answered:",
        "precision",
        "(ECE)",
        "confidence",
        "The surest mistakes",
    ):
        assert part in words
    assert out.endswith(f"All of it: {moods / 'evaluation-moods-march.json'}\n")


def test_what_was_measured_on_another_table_of_the_name_is_not_overwritten(
    moods: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / table.name
    other.parent.mkdir()
    other.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    kept = evaluation_file(moods, "moods", "march")
    first, second = (("evaluate", str(moods), "--table", str(one), "--device", "cpu") for one in (table, other))
    for _ in range(2):  # the same table is measured as often as one likes
        assert run(capsys, *first)[0] == 0
    before = kept.read_bytes()
    code, _, err = run(capsys, *second)
    assert (code, kept.read_bytes()) == (1, before)
    assert f"is of another table, {table}; give this one a name of its own with --split, or replace it" in err
    assert run(capsys, *second, "--split", "april")[0] == 0
    assert run(capsys, *second, "--overwrite")[0] == 0
    assert kept.read_bytes() != before


def test_what_was_measured_on_the_runs_own_rows_is_not_overwritten_by_a_table(
    moods: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", str(moods), "--table", str(table), "--split", "dev", "--device", "cpu")
    assert run(capsys, *arguments)[0] == 0
    kept = evaluation_file(moods, "moods", "dev")
    before = _without_its_table(kept)
    code, _, err = run(capsys, *arguments)
    assert (code, kept.read_text()) == (1, before)
    assert "is of the run's own rows" in err


def _without_its_table(kept: Path) -> str:
    """Write an evaluation anew as it is written of a split, which no table is named in."""
    kept.write_text(json.dumps({name: value for name, value in facts_in(kept).items() if name != "table"}))
    return kept.read_text()


def test_what_was_measured_before_tables_were_told_apart_is_replaced(
    moods: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run(capsys, "evaluate", str(moods), "--table", str(table), "--device", "cpu")[0] == 0
        _without_its_table(evaluation_file(moods, "moods", "march"))


def test_json_is_what_is_kept_in_the_run(moods: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("evaluate", str(moods), "--table", str(table), "--split", "dev", "--json", "--device", "cpu")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    answer = json.loads(out)
    kept = facts_in(moods / "evaluation-moods-dev.json")
    assert answer == {"run": str(moods), "step": STEP, "evaluations": [kept]}
    assert len((moods / "predictions-moods-dev.jsonl").read_text().splitlines()) == 20


def test_a_folder_of_the_task_is_measured_on_dev(
    moods: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    for split, rows in (("train", 14), ("dev", 6)):
        lines = table.read_text().splitlines(keepends=True)
        (tmp_path / "data" / f"{split}.jsonl").write_text("".join(lines[:rows] if split == "train" else lines[-rows:]))
    arguments = ("evaluate", str(moods), "--data", str(tmp_path / "data"), "--device", "cpu")
    for more, told in (((), ["dev", "6"]), (("--split", "train"), ["train", "14"])):
        title, _, scores, below, *_ = run(capsys, *arguments, *more)[1].splitlines()
        assert (title, scores.split()[:2], below.split()[:2]) == ("moods", told, ["update", "5"])


def test_another_table_is_read_without_its_bad_rows_where_that_is_asked(
    moods: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "may.csv").write_text("text,label\nAnn is here,glad\n,sad\nTom is low,Sad\n")
    words = ["evaluate", str(moods), "--table", str(tmp_path / "may.csv"), "--device", "cpu"]
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "row 3: 'text' is empty; fill it or take the row out; --skip-bad leaves such rows out" in err
    code, _, err = run(capsys, *words, "--skip-bad")
    assert code == 0
    assert (
        "2 of 3 rows left out: 1 row without a text (row 3), 1 row with a label that train does not have (row 4)" in err
    )
    code, _, err = run(capsys, *words, "--skip-bad", "--fold-labels")
    assert code == 0
    assert "'Sad' (1 row) taken for 'sad'" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["RUN", "letter.txt", "--table", "x.csv"], 2, "--table is for labelled data, and this is text"),
        (["RUN", "--corpus", "c"], 1, "c is not a folder with a corpus"),
        (["PRETRAINED", "--table", "x.csv"], 2, "--table is for fine-tuned runs"),
        (["PRETRAINED", "--task", "moods"], 2, "--task is for fine-tuned runs"),
        (["PRETRAINED", "--column", "text=x"], 2, "--column is for fine-tuned runs"),
        (["PRETRAINED", "--skip-bad"], 2, "--skip-bad is for fine-tuned runs"),
        (["RUN", "--column", "text=x"], 2, "--column, --skip-bad and --fold-labels go with a --table"),
        (["RUN", "--table", "TABLE", "--column", "a=x"], 2, "unknown role of a column 'a' of 'moods'"),
        (["RUN", "--table", "TABLE", "--column", "text=txet"], 1, " has no column 'txet'; did you mean 'text'?"),
        (["RUN", "--table", "TABLE", "--column", "text=txet"], 1, "; name the one that is meant with --column text=CO"),
        (["RUN", "--table", "TABLE", "--column", "label=lbl"], 1, "; name the one that is meant with --column label=C"),
        (["RUN", "--table", "absent.csv"], 1, "absent.csv does not exist"),
        (["RUN", "--table", "x.csv", "--data", "d"], 2, "name one of --data, --table and --encoded, not several"),
        (["RUN", "--data", "absent"], 1, "error: absent does not exist"),
        (["RUN", "--encoded", "absent"], 1, "task.json does not exist"),
        (["RUN", "--table", "x.csv", "--task", "mods"], 2, "did you mean 'moods'?"),
    ],
)
def test_errors_are_for_people(
    arguments: list[str],
    code: int,
    message: str,
    moods: Path,
    table: Path,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"RUN": str(moods), "PRETRAINED": str(trained), "TABLE": str(table)}
    found, out, err = run(capsys, "evaluate", "--device", "cpu", *(places.get(name, name) for name in arguments))
    assert (found, out) == (code, "")
    assert message in err


# ---- what a run names is neither imported nor fetched ----


@pytest.fixture
def own(moods: Path, table: Path, tmp_path: Path) -> Path:
    """The run again, which says that it was trained on a folder with a task of somebody's module."""
    data = tmp_path / "data"
    data.mkdir()
    lines = table.read_text().splitlines(keepends=True)
    (data / "train.jsonl").write_text("".join(lines[:14]))
    (data / "dev.jsonl").write_text("".join(lines[14:]))
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    found, _ = read_recorded(_source(data=str(data)), [MOODS], moods, CONTEXT)
    _say(moods, source=_source(data=str(data)), identity=identity(found))
    return moods


def _source(**given: Any) -> RecordedSource:
    facts: dict[str, Any] = dict.fromkeys(("data", "train", "dev", "test"))
    facts |= {"tasks": ["evil:TASK"], "columns": {}, "regression": False, "symmetric": False}
    return RecordedSource(**{**facts, "encoding": "utf-8", "encoded": [], **given})


def _say(run: Path, **about: object) -> None:
    facts = facts_in(run / "run.json")
    (run / "run.json").write_text(json.dumps({**facts, **about}, default=asdict))


def test_a_task_of_a_module_is_measured_again_without_its_module(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "evaluate", str(own), "--device", "cpu")
    assert (code, err) == (0, "")
    title, _, scores, below, *_ = out.splitlines()
    assert (title, scores.split()[:2], below.split()[:2]) == ("moods", ["dev", "6"], ["update", f"{STEP}"])
    assert "evil" not in sys.modules


def test_data_of_the_hub_is_fetched_only_when_it_is_named_now(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # whose import would be an error of its own
    _say(own, source=_source(data="hub:evil/data"))
    code, out, err = run(capsys, "evaluate", str(own), "--device", "cpu")
    assert (code, out) == (1, "")
    assert "it was trained on hub:evil/data, and what a run names is never fetched by itself" in err
    assert "--data hub:evil/data fetches it" in err
    assert "needs the library datasets" in run(capsys, "evaluate", str(own), "--data", "hub:evil/data")[2]


@pytest.mark.parametrize("place", ["/dev/stdin", "/dev/zero", "PIPE", "https://example.org/rows.csv"])
@pytest.mark.parametrize("name", ["data", "train", "dev", "encoded"])
def test_devices_pipes_and_addresses_are_not_read_because_a_run_names_them(
    own: Path, table: Path, tmp_path: Path, name: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    place = str(tmp_path / "pipe.csv") if place == "PIPE" else place
    given = {"train": str(table)} if name == "dev" else {}
    _say(own, source=_source(tasks=[], **{**given, name: [place] if name == "encoded" else place}))
    if name == "data":
        _say(own, source=_source(data=place))
    code, out, err = run(capsys, "evaluate", str(own), "--device", "cpu")
    assert (code, out) == (1, "")
    assert f"{place} is not a file or folder" in err or f"{place} does not exist" in err


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this system has no folder in memory")
def test_rows_in_the_folder_that_lies_in_memory_are_read_again(
    own: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        rows = shutil.copy(table, folder)
        _say(own, source=_source(tasks=[], train=rows))
        err = run(capsys, "evaluate", str(own), "--device", "cpu")[2]
    assert "is not a file or folder" not in err
    assert "has changed since" in err  # they are others than it was trained on: so they were read
