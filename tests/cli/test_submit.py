"""`gpt1 submit` on official files."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.tasks.catalog import CATALOGUE, GLUE
from gpt1.tasks.submissions import GLUE_FILES
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.inference.tools import make_run


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RTE as GLUE publishes it, its test rows not in the order of their numbers; STS-B as JSON lines."""
    folder = tmp_path_factory.mktemp("glue")
    (folder / "RTE").mkdir()
    rows = ["Ann lost a key.\tAnn had a key.", "Tom sold a hat.\tTom lost a hat."]
    head = "index\tsentence1\tsentence2"
    (folder / "RTE" / "train.tsv").write_text(
        f"{head}\tlabel\n0\t{rows[0]}\tentailment\n1\t{rows[1]}\tnot_entailment\n"
    )
    (folder / "RTE" / "test.tsv").write_text(f"{head}\n1\t{rows[0]}\n0\t{rows[1]}\n")
    (folder / "stsb").mkdir()
    (folder / "stsb" / "test.jsonl").write_text(json.dumps({"a": "It rains.", "b": "It pours."}) + "\n")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """Runs that have learned tasks of GLUE, one that has learned none, and one whose table had the name of one."""
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "rte", words_tokenizer, CATALOGUE["rte"])
    make_run(folder / "both", words_tokenizer, CATALOGUE["rte"], CATALOGUE["stsb"], CATALOGUE["snli"])
    make_run(folder / "snli", words_tokenizer, CATALOGUE["snli"])
    make_run(folder / "table", words_tokenizer, replace(CATALOGUE["rte"], labels=("no", "yes")))
    return folder


def test_the_zip_has_the_answers_of_the_run_under_the_official_numbers(
    runs: Path, glue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "".join(
            json.dumps({"a": a, "b": b}) + "\n"
            for a, b in [("Ann lost a key.", "Ann had a key."), ("Tom sold a hat.", "Tom lost a hat.")]
        )
    )
    out = tmp_path / "glue.zip"
    named = ("--data", str(glue), "--out", str(out), "--device", "cpu")
    code, printed, said = run(capsys, "submit", str(runs / "both"), *named)
    assert code == 0
    assert f"{runs / 'both'} answered 2 rows of rte, test" in said
    assert f"{runs / 'both'} answered 1 row of stsb, test" in said
    first, second = (
        json.loads(line)["prediction"]
        for line in run(
            capsys, "predict", str(runs / "both"), str(tmp_path / "rows.jsonl"), "--task", "rte", "--device", "cpu"
        )[1].splitlines()
    )
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["STS-B.tsv", "RTE.tsv"]
        assert archive.read("RTE.tsv").decode() == f"index\tprediction\n1\t{first}\n0\t{second}\n"
        header, score, end = archive.read("STS-B.tsv").decode().split("\n")
    assert (header, end) == ("index\tprediction", "")
    assert 0 <= float(score.removeprefix("0\t")) <= 5
    assert printed.startswith(f"{out}: not to be sent yet\n")
    assert "CoLA.tsv is missing" in printed
    assert "RTE.tsv: 2 rows, expected 3,000" in printed


@pytest.mark.parametrize(
    ("named", "data", "code", "message"),
    [
        (["snli"], "glue", 2, "has learned snli, and no task of GLUE"),
        (["table"], "glue", 2, "has learned rte, and no task of GLUE"),
        (["rte", "both"], "glue", 2, "two runs have learned 'rte'"),
        (["rte"], "train", 1, "has no test rows of 'rte' (test); take GLUE's own files, which have them"),
    ],
)
def test_what_cannot_be_submitted_is_refused_and_nothing_is_written(
    runs: Path,
    glue: Path,
    tmp_path: Path,
    named: list[str],
    data: str,
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train" / "RTE").mkdir(parents=True)
    (tmp_path / "train" / "RTE" / "train.tsv").write_text((glue / "RTE" / "train.tsv").read_text())
    folder = glue if data == "glue" else tmp_path / data
    out = tmp_path / "glue.zip"
    found = run(
        capsys,
        "submit",
        *(str(runs / name) for name in named),
        *("--data", str(folder), "--out", str(out), "--device", "cpu"),
    )
    assert found[0] == code
    assert message in found[2]
    assert not out.exists()


def test_where_nothing_can_be_written_is_told_before_anything_is_answered(
    runs: Path, glue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("--data", str(glue), "--out", str(tmp_path / "absent" / "glue.zip"), "--device", "cpu")
    code, _, said = run(capsys, "submit", str(runs / "rte"), *named)
    assert code == 1
    assert "there is no folder" in said
    assert "answered" not in said


def test_a_file_that_is_there_is_told_before_anything_is_answered_and_replaced_only_when_asked(
    runs: Path, glue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "glue.zip"
    out.write_text("mine")
    asked = ("submit", str(runs / "rte"), "--data", str(glue), "--out", str(out), "--device", "cpu")
    code, _, said = run(capsys, *asked)
    assert (code, out.read_text()) == (1, "mine")
    assert "glue.zip is there already; choose another name, or replace it with --overwrite" in said
    assert "answered" not in said
    assert run(capsys, *asked, "--overwrite")[0] == 0
    assert zipfile.is_zipfile(out)


PAIR = "index\tsentence1\tsentence2"
TESTS = {  # the columns of GLUE's own test files that are read, none of which has a label
    "CoLA/test.tsv": "index\tsentence",
    "SST-2/test.tsv": "index\tsentence",
    "MRPC/test.tsv": "index\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "STS-B/test.tsv": PAIR,
    "QQP/test.tsv": "id\tquestion1\tquestion2",
    "MNLI/test_matched.tsv": PAIR,
    "MNLI/test_mismatched.tsv": PAIR,
    "QNLI/test.tsv": "index\tquestion\tsentence",
    "RTE/test.tsv": PAIR,
    "WNLI/test.tsv": PAIR,
    "diagnostic/diagnostic.tsv": PAIR,
}


def test_official_test_files_alone_are_enough_for_all_eleven_tables(
    tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, header in TESTS.items():
        path = tmp_path / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = header.split("\t")[1:]
        rows = ("\t".join([str(row), *(f"Ann lost {column}." for column in columns)]) for row in range(2))
        path.write_text("\n".join([header, *rows, ""]))
    make_run(tmp_path / "all", words_tokenizer, *(CATALOGUE[task] for task in GLUE))
    out = tmp_path / "glue.zip"
    named = ("--data", str(tmp_path / "glue"), "--out", str(out), "--device", "cpu")
    code, printed, said = run(capsys, "submit", str(tmp_path / "all"), *named)
    assert (code, said.count(" answered 2 rows of ")) == (0, 11)
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == [f"{name}.tsv" for name in GLUE_FILES]
    lacking = printed.splitlines()[1:]
    assert len(lacking) == 11
    assert all(": 2 rows, expected " in line for line in lacking)  # and nothing else is wrong
