"""`gpt1 check` tells all that is wrong with a table, or what a task of one's own was understood as."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpt1.bases import catalog
from gpt1.tasks import checking
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run

Capture = pytest.CaptureFixture[str]
GOOD = "".join(f"I liked film {n} and that was all,good\nThis was not film {n},bad\n" for n in range(30))


@pytest.fixture(autouse=True)
def short_tables_are_enough(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the short tables of these tests not be few, but where that is what is tested."""
    if "few" not in request.node.name:
        monkeypatch.setattr(checking, "LEAST_GAIN", 0.5)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.fixture
def good(tmp_path: Path) -> str:
    return write(tmp_path / "films.csv", f"text,label\n{GOOD}")


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    """Sixty good rows, and what a spreadsheet leaves below them."""
    return write(tmp_path / "films.csv", f"text,label\n{GOOD},\n ,good\nNo label,\nIt was fine,Good\n")


# ---- a table ----


def test_a_good_table_is_fit(good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")
    (tmp_path / "none").mkdir()
    code, out, err = run(capsys, "check", good)
    assert (code, err) == (0, "")
    first, *_, last = out.splitlines()
    assert first == f"{good}: fit to train on; nothing was found that is to be looked at"
    assert "'text' is the text, 'label' is the label" in out
    assert "2: good (50.0 %), bad (50.0 %)" in out
    assert last.startswith("Tokens were not counted, as there is no base; --init names the run")


def test_few_rows_are_told_and_still_fit(good: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, "check", good)
    assert code == 0
    told = "can be trained on, but has too few rows to tell what comes of it; 1 thing to look at"
    assert out.splitlines()[0] == f"{good}: {told}"
    assert "To look at: 60 rows are few: a score that they give is known to about ±13 points" in out


def test_all_faults_are_told_at_once_with_rows_and_what_helps(faulty: str, capsys: Capture) -> None:
    code, out, err = run(capsys, "check", faulty)
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == (
        f"{faulty}: cannot be trained on yet: 1 empty row, 1 row without a text, 1 row without a label; "
        "gpt1 finetune --skip-bad leaves such rows out"
    )
    for part in (
        "To be mended: 1 empty row (row 62)",
        "To be mended: 1 row without a text (row 63)",
        "To be mended: 1 row without a label (row 64)",
        "To look at: 1 label written in several ways: 'good' (30) and 'Good' (1), row 65",
        "or gpt1 finetune --fold-labels takes them for the commonest.",
    ):
        assert part in out


def test_a_table_is_judged_as_a_training_with_the_same_options_reads_it(faulty: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, "check", faulty, "--skip-bad", "--fold-labels")
    assert code == 0
    assert out.splitlines()[0].endswith("fit to train on, with 3 things to look at")
    assert "Such rows are left out." in out
    assert "2: good (50.8 %), bad (49.2 %)" in out


def test_programs_get_json_in_the_words_of_the_command(faulty: str, capsys: Capture) -> None:
    code, out, _ = run(capsys, "check", faulty, "--json")
    found = json.loads(out)
    assert (code, found["fit"], found["rows"], found["usable"]) == (1, False, 64, 61)
    assert found["columns"] == {"text": "text", "label": "label"}
    first = found["findings"][0]
    assert (first["key"], first["rows"], first["stops"]) == ("empty-row", [62], True)
    assert first["advice"] == "take such rows out; gpt1 finetune --skip-bad leaves such rows out"
    assert found["language"].keys() == {"scripts", "english"}


def test_the_run_that_is_to_learn_tells_lengths_and_what_it_does_not_know(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    korean = "".join(f"영화가 정말 재미있었다 {n},good\n다시는 보고 싶지 않다 {n},bad\n" for n in range(20))
    table = write(tmp_path / "films.csv", f"text,label\n{korean}{'word ' * 500},good\n")
    code, out, _ = run(capsys, "check", table, "--init", str(trained))
    assert code == 1  # most of it cannot be read
    assert f"{trained} reads" in " ".join(out.split())
    assert "To look at: 1 row longer than the " in out
    assert "tokens are not in the vocabulary (the commonest: " in out
    assert "Tokens were not counted" not in out


def test_columns_encoding_and_regression_are_those_of_a_training(tmp_path: Path, capsys: Capture) -> None:
    rows = "".join(f"café {n};{n / 2};x\n" for n in range(30))
    (tmp_path / "sheet.csv").write_bytes(f"words;points;other\r\n{rows}bon;high;x\n".encode("cp1252"))
    table = str(tmp_path / "sheet.csv")
    code, out, _ = run(capsys, "check", table)
    assert code == 1
    assert "30 rows in another encoding" in out
    words = ["--encoding", "cp1252", "--column", "text=words", "--column", "label=points", "--regression"]
    code, out, _ = run(capsys, "check", table, *words)
    assert code == 1
    assert "1 row that cannot be used (row 32)" in out
    assert "label 'high' is not a number" in out
    code, out, _ = run(capsys, "check", table, *words, "--skip-bad")
    assert code == 0
    assert "0 to 14.5" in out


def test_a_spreadsheets_export_with_a_mark_and_a_packed_file_are_read(tmp_path: Path, capsys: Capture) -> None:
    sheet = GOOD.replace(",", ";").replace("\n", "\r\n")
    (tmp_path / "sheet.csv").write_bytes(b"\xef\xbb\xbf" + f"Review;Sentiment\r\n{sheet}".encode())
    code, out, _ = run(capsys, "check", str(tmp_path / "sheet.csv"))
    assert code == 0
    assert "'Review' is the text, 'Sentiment' is the label" in out
    (tmp_path / "films.csv.gz").write_bytes(gzip.compress(f"text,label\n{GOOD}".encode())[:-20])
    code, out, _ = run(capsys, "check", str(tmp_path / "films.csv.gz"))
    assert code == 1
    assert "To be mended: the file cannot be read from " in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing argument 'TABLE|MODULE:TASK'"),
        (["absent.csv"], 1, "absent.csv does not exist"),
        (["book.txt"], 2, "is a text, not a table"),
        (["TABLE", "--data", "x"], 2, "is a table, and --data is the folder of a task"),
        (["TABLE", "--init", "absent"], 1, "absent does not exist"),
        (["TABLE", "--init", "x", "--tokenizer", "y"], 2, "--init has its own tokenizer and context"),
        (["TABLE", "--context", "64"], 2, "--context goes with --tokenizer"),
        (["TABLE", "--column", "text"], 2, "--column takes ROLE=NAME"),
        (["TABLE", "--column", "txt=text"], 2, "did you mean 'text'?"),
        (["TABLE", "--encoding", "utf-9"], 2, "unknown encoding 'utf-9'"),
        (["rte", "--init", "x"], 2, "--init is for a table, and 'rte' is not the name of one"),
        (["rte", "--column", "text=x"], 2, "--column is for a table"),
        (["rte", "--regression"], 2, "--regression is for a table"),
        (["rte", "--skip-bad"], 2, "--skip-bad is for a table"),
        (["rte", "--fold-labels"], 2, "--fold-labels is for a table"),
    ],
)
def test_errors_are_for_people(arguments: list[str], code: int, message: str, good: str, capsys: Capture) -> None:
    found, out, err = run(capsys, "check", *(good if word == "TABLE" else word for word in arguments))
    assert (found, out) == (code, "")
    assert message in err


# ---- a task of one's own ----

TASK = """
from gpt1.tasks.catalog import Task
MAIL = Task(
    name="mail", title="Is it a complaint?", shape="single", labels=("no", "yes"), metrics=("f1",), fields=("body",)
)
"""


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules and rows of a user; what is imported from it is forgotten afterwards."""
    (tmp_path / "checked_tasks.py").write_text(TASK)
    (tmp_path / "checked_wrong.py").write_text(TASK.replace('"single"', '"singel"').replace('("body",)', '"body"'))
    rows = [{"body": f"mail {n}", "label": "yes" if n % 4 == 0 else "no"} for n in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("checked_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("own_modules")
def test_a_task_is_told_as_it_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "checked_tasks:MAIL")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "task     mail",
        "title    Is it a complaint?",
        "shape    single: [start] body [extract]",
        "label    label: no, yes",
        "metrics  f1",
        "files    train.jsonl, dev.jsonl, test.jsonl",
    ]


@pytest.mark.usefixtures("own_modules")
def test_data_and_lengths_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    arguments = ["check", "checked_tasks:MAIL", "--data", ".", "--tokenizer", "tokenizer.json"]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "train: 17 examples; no 76.5 %, yes 23.5 %; tokens of a sequence: median" in out
    assert "there are no dev rows: 3 rows of the 20 in train kept for dev" in err
    report = json.loads(run(capsys, *arguments, "--json")[1])
    assert report["splits"]["dev"]["labels"] == {"no": 2, "yes": 1}
    assert len(report["notices"]) == 1


def test_of_a_folder_it_is_told_that_a_table_is_wanted_and_which_lie_in_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "check", str(tmp_path))
    assert (code, "is a folder, and a table is wanted" in err, "there is none in it" in err) == (1, True, True)
    for name in ("a.csv", "b.parquet.gz", "notes.txt"):
        (tmp_path / name).touch()
    code, _, err = run(capsys, "check", str(tmp_path))
    assert f"; check one of those in it: {tmp_path / 'a.csv'}, {tmp_path / 'b.parquet.gz'}\n" in err


@pytest.mark.usefixtures("own_modules")
def test_what_is_wrong_with_a_task_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "checked_wrong:MAIL")
    assert (code, out) == (1, "")
    assert "task 'mail': fields is 'body', expected a tuple of strings such as ('one', 'two')" in err
    code, _, err = run(capsys, "check", "checked_tasks:MIAL")
    assert code == 2
    assert "did you mean 'MAIL'" in err


@pytest.mark.usefixtures("own_modules")
def test_what_is_wrong_with_the_data_is_told_with_its_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('{"text": "mail", "label": "no"}\n')
    code, _, err = run(capsys, "check", "checked_tasks:MAIL", "--data", ".")
    assert code == 1
    assert "train.jsonl, row 21: no column 'body'" in err


@pytest.mark.usefixtures("own_modules")
def test_lengths_need_data(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", "checked_tasks:MAIL", "--tokenizer", "tokenizer.json")
    assert code == 2
    assert "--tokenizer goes with --data" in err
