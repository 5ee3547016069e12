"""The zip for the GLUE server: official names, formats and counts, and a check that names what is wrong."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.submissions import GLUE_FILES, check_submission, write_submission

# As the server documents them: https://gluebenchmark.com/faq
OFFICIAL_NAMES = [
    "CoLA.tsv",
    "SST-2.tsv",
    "MRPC.tsv",
    "STS-B.tsv",
    "QQP.tsv",
    "MNLI-m.tsv",
    "MNLI-mm.tsv",
    "QNLI.tsv",
    "RTE.tsv",
    "WNLI.tsv",
    "AX.tsv",
]


def all_answers() -> dict[str, dict[str, np.ndarray]]:
    draw = np.random.default_rng(0)
    answers: dict[str, dict[str, np.ndarray]] = {}
    for file in GLUE_FILES.values():
        classes = len(CATALOGUE[file.task].labels)
        found = draw.integers(classes, size=file.rows) if classes else draw.uniform(-0.5, 5.5, file.rows)
        answers.setdefault(file.task, {})[file.split] = found
    return answers


def tables(path: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode().split("\n") for name in archive.namelist()}


def rewrite(path: Path, name: str, text: str | None) -> Path:
    """Replace or remove one table of a zip."""
    with zipfile.ZipFile(path) as archive:
        found = {entry: archive.read(entry) for entry in archive.namelist()}
    found.pop(name, None)
    if text is not None:
        found[name] = text.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in found.items():
            archive.writestr(entry, content)
    return path


@pytest.fixture
def small(tmp_path):
    """A zip with three answers of two tasks."""
    write_submission(tmp_path / "small.zip", {"rte": {"test": [0, 1]}, "stsb": {"test": [2.5]}})
    return tmp_path / "small.zip"


def test_a_whole_submission_has_the_official_names_and_passes_the_check(tmp_path):
    write_submission(tmp_path / "glue.zip", all_answers())
    assert list(tables(tmp_path / "glue.zip")) == OFFICIAL_NAMES
    assert check_submission(tmp_path / "glue.zip") == []


@pytest.mark.parametrize(
    ("task", "split", "answers", "lines"),
    [
        ("cola", "test", [1, 0], ["0\t1", "1\t0"]),
        ("wnli", "test", [1, 0], ["0\t1", "1\t0"]),
        ("rte", "test", [0, 1], ["0\tentailment", "1\tnot_entailment"]),
        ("qnli", "test", [1], ["0\tnot_entailment"]),
        ("mnli", "test_mismatched", [0, 1, 2], ["0\tentailment", "1\tneutral", "2\tcontradiction"]),
        ("mnli", "diagnostic", [2], ["0\tcontradiction"]),
        ("stsb", "test", [2.5, -0.1, 5.2, 3.14159], ["0\t2.500", "1\t0.000", "2\t5.000", "3\t3.142"]),
    ],
)
def test_predictions_are_written_as_the_server_wants_them(tmp_path, task, split, answers, lines):
    write_submission(tmp_path / "one.zip", {task: {split: np.array(answers)}})
    ((_, written),) = tables(tmp_path / "one.zip").items()
    assert written == ["index\tprediction", *lines, ""]


def test_rows_keep_the_index_of_the_official_file(tmp_path):
    write_submission(tmp_path / "one.zip", {"rte": {"test": [0, 1]}}, {"rte": {"test": [1, 0]}})
    assert tables(tmp_path / "one.zip")["RTE.tsv"][1:3] == ["1\tentailment", "0\tnot_entailment"]


def test_the_same_answers_give_the_same_bytes(tmp_path):
    answers = {"rte": {"test": [0, 1]}, "cola": {"test": [1]}}
    write_submission(tmp_path / "one.zip", answers)
    write_submission(tmp_path / "two.zip", dict(reversed(answers.items())))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("answers", "indices", "error", "message"),
    [
        ({"rte": {"dev": [0]}}, None, SettingError, "'dev' of task 'rte' is no test set of GLUE"),
        ({"snli": {"test": [0]}}, None, SettingError, "'test' of task 'snli' is no test set of GLUE"),
        ({"rte": {"test": [2]}}, None, InputError, "'rte': 2 is not the index of a label"),
        ({"rte": {"test": [-1]}}, None, InputError, "'rte': -1 is not the index of a label"),
        ({"stsb": {"test": [np.nan]}}, None, InputError, "'stsb': an answer is not a number"),
        ({"rte": {"test": [0, 1]}}, {"rte": {"test": [0]}}, InputError, "2 answers for 1 rows"),
    ],
)
def test_answers_that_no_file_can_hold_are_refused(tmp_path, answers, indices, error, message):
    with pytest.raises(error, match=message):
        write_submission(tmp_path / "glue.zip", answers, indices)
    assert not (tmp_path / "glue.zip").exists()


def test_the_check_names_what_is_missing_and_what_is_too_short(small):
    problems = check_submission(small)
    assert [problem for problem in problems if "missing" in problem] == [
        f"{name} is missing" for name in OFFICIAL_NAMES if name not in ("RTE.tsv", "STS-B.tsv")
    ]
    assert "RTE.tsv: 2 rows, expected 3,000" in problems
    assert "STS-B.tsv: 1 row, expected 1,379" in problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id\tlabel\n0\tentailment\n", r"RTE.tsv: the first line is 'id\tlabel', expected 'index\tprediction'"),
        (
            "index\tprediction\n0\tentailment\n1 entailment\n",
            "RTE.tsv: not an index, a tab and a prediction in 1 line (3)",
        ),
        (
            "index\tprediction\n1\tentailment\n2\tentailment\n",
            "RTE.tsv: the indices are not those from 0 to 1, each once",
        ),
        (
            "index\tprediction\n0\tentailment\n1\t1\n",
            "RTE.tsv: predictions that are not entailment or not_entailment: '1' in line 3",
        ),
        ("index\tprediction\n", "RTE.tsv: 0 rows, expected 3,000"),
    ],
)
def test_the_check_names_what_is_wrong_in_a_table(small, text, problem):
    assert problem.replace("\t", r"\t") in [
        found.replace("\t", r"\t") for found in check_submission(rewrite(small, "RTE.tsv", text))
    ]


def test_the_check_knows_the_range_of_scores_and_foreign_files(small):
    rewrite(small, "STS-B.tsv", "index\tprediction\n0\t5.1\n1\tmuch\n2\tnan\n")
    rewrite(small, "notes.txt", "hello")
    problems = check_submission(small)
    assert "notes.txt does not belong there" in problems
    odd = "'5.1' in line 2, 'much' in line 3, 'nan' in line 4"
    assert f"STS-B.tsv: predictions that are not numbers from 0.0 to 5.0: {odd}" in problems


def test_what_is_no_zip_is_told(tmp_path):
    (tmp_path / "glue.zip").write_text("hello")
    assert "no zip file" in check_submission(tmp_path / "glue.zip")[0]
    with pytest.raises(InputError, match="does not exist"):
        check_submission(tmp_path / "absent.zip")
