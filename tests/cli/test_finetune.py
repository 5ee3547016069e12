"""`gpt1 finetune` as a person uses it: what it prints, and what it says of tables that cannot be used as they are."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpt1.inference.run import load_run
from gpt1.runs.folder import read_run
from gpt1.tasks import unknowns
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.finetuning.tools import SETTINGS, encode, losses_of, make_examples, make_task, write_table
from tests.records import facts_in, lines_in

Capture = pytest.CaptureFixture[str]
MOODS = make_task()
KOREAN = ("영화가 정말 재미있었다", "다시는 보고 싶지 않다", "배우의 연기가 좋았다")  # sentences of ours
FAST = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Forty good rows."""
    return write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 40))


def finetune(capsys: Capture, init: Path, out: Path, *arguments: object) -> tuple[int, str, str]:
    words = ["finetune", "--init", init, "--out", out, "--device", "cpu", *FAST, *arguments]
    return run(capsys, *map(str, words))


# ---- what is printed ----


def test_a_table_is_learned_and_its_scores_are_printed(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    ensemble = ("--set", "finetuning.ensemble=true")
    code, out, err = finetune(capsys, trained, tmp_path / "run", "--train", table, *ensemble)
    assert code == 0
    assert "4 rows of the 40 in train kept for dev" in err
    assert "36 examples of moods" in err
    assert "dev accuracy" in err
    assert " ".join(out.split()).startswith(
        "moods split examples accuracy counting words commonest label ECE Brier log loss dev 4 "
    )
    # Single words decide here, so that no network is better than counting them.
    assert out.splitlines()[-1].startswith(f"{tmp_path / 'run'} is trained, and no better than counting words")


def test_a_table_may_be_named_without_train_and_once(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "run"
    assert finetune(capsys, trained, out, table, "--steps", "1")[0] == 0
    assert finetune(capsys, trained, out, "--train", table, "--steps", "1", "--resume")[0] == 0  # it is the same run
    code, _, err = finetune(capsys, trained, out, table, "--train", table)
    assert (code, "are one too many; rows to be judged by are --dev" in err) == (2, True)
    code, _, err = finetune(capsys, trained, out, trained)
    assert (code, "is a folder, and no table; a run to start from is named with --init" in err) == (2, True)


def test_programs_get_json(trained: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = finetune(
        capsys,
        trained,
        tmp_path / "run",
        "--train",
        table,
        "--steps",
        "2",
        "--set",
        "finetuning.ensemble=true",
        "--json",
    )
    assert code == 0
    answer = json.loads(out)
    assert answer["run"] == str(tmp_path / "run")
    dev = answer["tasks"]["moods"]["dev"]
    assert (dev["examples"], dev["words"].keys()) == (4, {"accuracy"})
    assert isinstance(dev["verdict"], str)
    assert isinstance(dev["is_of_use"], bool)
    assert (answer["is_done"], dev["commonest"]) == (True, 0.5)
    by = answer["decided"]["moods"]
    assert by["cross_validated"]
    assert by["scores"].keys() == {"network", "words", "together"}
    assert by.keys() >= {"weights", "why", "examples", "commonest"}


def test_seeds_are_summed_up(trained: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    more = ("--train", table, "--seeds", "2", "--seed", "7", "--steps", "2")
    code, out, err = finetune(capsys, trained, tmp_path / "run", *more, "--json")
    assert code == 0
    for part in ("seed 7 (1 of 2)", "seed 8 (2 of 2)", "is kept: the best on dev"):
        assert part in err
    answer = json.loads(out)
    assert answer["seeds"]["moods dev accuracy"].keys() == {"median", "mean", "sd", "worst", "best"}
    assert Path(answer["run"]).parent == tmp_path / "run"
    code, out, err = finetune(capsys, trained, tmp_path / "run", *more, "--resume")
    assert code == 0
    assert "seed 7 is trained already" in err
    median, mean = (f"{100 * answer['seeds']['moods dev accuracy'][name]:.1f}" for name in ("median", "mean"))
    assert f"score median mean deviation worst best each moods dev accuracy {median} {mean} " in " ".join(out.split())
    assert "2 seeds: seed-7, seed-8." in out


def test_options_are_settings(trained: Path, table: Path, tmp_path: Path, capsys: Capture) -> None:
    options: dict[str, tuple[str, Any]] = {
        "--epochs 0.5": ("training.epochs", 0.5),
        "--lr 1e-3": ("optimizer.lr", 1e-3),
        "--no-lm": ("finetuning.lm_weight", 0.0),
        "--layers 1": ("finetuning.transfer_layers", 1),
        "--class-weights": ("finetuning.class_weights", True),
        "--augment": ("finetuning.word_dropout", 0.1),
        f"--synonyms {table.parent}/synonyms.csv": ("finetuning.synonyms", 0.1),
        "--set finetuning.span_deletion=0.2": ("finetuning.span_deletion", 0.2),
        "--patience 4": ("training.patience", 4),
        "--seed 9": ("training.seed", 9),
        "--set shape.dropout=0": ("shape.dropout", 0.0),
    }
    (table.parent / "synonyms.csv").write_text("lamp,lantern\nlamp,girl\n")
    words = [word for option in options for word in option.split()]
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", table, *words)
    assert code == 0, err
    recipe = read_run(tmp_path / "run").recipe
    for name, value in options.values():
        part, field = name.split(".")
        assert getattr(getattr(recipe, part), field) == value
    assert finetune(capsys, trained, tmp_path / "new", "--train", table, "--scratch", "--steps", "1")[0] == 0
    assert read_run(tmp_path / "new").recipe.finetuning.scratch is True


def test_columns_dev_and_test_are_named(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    for name, rows in (("train", 30), ("dev", 8), ("test", 6)):
        path = write_table(tmp_path / f"{name}.csv", MOODS, make_examples(MOODS, rows, seed=rows))
        path.write_text(path.read_text().replace("text,label", "words,feeling"))
    more = ["--train", tmp_path / "train.csv", "--dev", tmp_path / "dev.csv", "--test", tmp_path / "test.csv"]
    columns = ["--column", "text=words", "--column", "label=feeling"]
    code, out, _ = finetune(capsys, trained, tmp_path / "run", *more, *columns, "--steps", "1")
    assert code == 0
    title, _, dev, _, test, *_ = out.splitlines()
    assert (title, dev.split()[:2], test.split()[:2]) == ("train", ["dev", "8"], ["test", "6"])
    assert load_run(tmp_path / "run", device="cpu").tasks["train"].label_field == "feeling"


def test_tasks_of_the_catalogue_are_learned_together(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    from gpt1.tasks.catalog import CATALOGUE

    for name in ("sst2", "stsb"):
        (tmp_path / name).mkdir()
        rows = make_examples(CATALOGUE[name], 24)
        write_table(tmp_path / name / "train.jsonl", CATALOGUE[name], rows[:16])
        write_table(tmp_path / name / "dev.jsonl", CATALOGUE[name], rows[16:])
    more = ["--task", "sst2", "--task", "stsb", "--data", tmp_path, "--steps", "4"]
    code, out, err = finetune(capsys, trained, tmp_path / "run", *more)
    assert code == 0
    assert "16 examples of sst2, 16 examples of stsb" in err
    words = " ".join(out.split())
    assert words.startswith("sst2 split examples accuracy commonest label ECE Brier log loss dev 8 ")
    assert " stsb split examples Pearson Spearman mean absolute error root mean squared error dev 8 " in words


def test_a_run_whose_time_is_up_is_saved_and_goes_on(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    more = ("--train", table, "--minutes", "0")
    code, _, err = finetune(capsys, trained, tmp_path / "run", *more)
    assert code == 0
    assert "stopped at update 1 of 10, saved; the same again with --resume goes on" in err
    code, out, err = finetune(capsys, trained, tmp_path / "run", *more[:2], "--resume")
    assert code == 0
    assert "going on from update 1 of 10" in err
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["moods", "split", "dev"]
    assert len(losses_of(tmp_path / "run")) == 10


def test_a_run_whose_time_is_up_is_not_called_ready(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    _, out, _ = finetune(capsys, trained, tmp_path / "run", "--train", table, "--minutes", "0")
    assert "is ready" not in out


# ---- tables that cannot be used as they are ----

GOOD = "".join(f"row {number},{number % 2}\n" for number in range(20))
PAIRS = "".join(f"row {number},other {number},{number % 2}\n" for number in range(20))


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


CHOICE = {"context": "Ann", "choices": ["one", "two"], "label": 0}
# Content of the table, further words, exit code, and what is said of it.
BAD: dict[str, tuple[str, str | bytes, list[str], int, list[str]]] = {
    "no such column": ("t.csv", f"text,label\n{GOOD}", ["--column", "text=txet"], 1, ["no column 'txet'", "'text'"]),
    "no text column": (
        "t.csv",
        f"x,label,y\n{PAIRS}",
        [],
        1,
        ["which column is the text?", "such as --column text=x --column label=label, or of two texts --column a=x"],
    ),
    "no label column": (
        "t.csv",
        f"text,x,y\n{PAIRS}",
        [],
        1,
        ["which column is the label?", "y (2 different: '0', '1'); name them", "--column label=y"],
    ),
    "two label columns": ("t.csv", f"text,class,stars\n{PAIRS}", [], 1, ["label, class or stars?"]),
    "no header": ("t.csv", "good film,1\nbad film,0\ngood film,1\n", [], 1, ["is the header missing?"]),
    "an unknown role": ("t.csv", f"text,label\n{GOOD}", ["--column", "txt=text"], 2, ["did you mean 'text'?"]),
    "no role": ("t.csv", f"text,label\n{GOOD}", ["--column", "text"], 2, ["--column takes ROLE=NAME"]),
    "half a pair": ("t.csv", f"a,b,label\n{PAIRS}", ["--column", "a=a"], 2, ["columns for a make no task"]),
    "an empty text": ("t.csv", f"text,label\n{GOOD} ,1\n", [], 1, ["row 22: 'text' is empty; fill it or take"]),
    "an empty label": ("t.csv", f"text,label\n{GOOD}x,\n", [], 1, ["row 22: the label in 'label' is empty"]),
    "a NaN for a label": ("t.csv", f"text,label\n{GOOD}x,NaN\n", [], 1, ["row 22: the label in 'label' is empty"]),
    "a null for a text": ("t.jsonl", lines({"text": "a", "label": 1}, {"text": None, "label": 0}), [], 1, ["row 2: "]),
    "a NaN for a text": (
        "t.jsonl",
        '{"text": "a", "label": 1}\n{"text": NaN, "label": 0}\n',
        [],
        1,
        ["'text' is empty"],
    ),
    "a number for a text": ("t.jsonl", lines({"text": "a", "label": 1}, {"text": 7, "label": 0}), [], 1, ["holds 7"]),
    "several labels": ("t.jsonl", lines({"text": "a", "label": ["x", "y"]}), [], 1, ["row 1: ", "several labels"]),
    "one label": ("t.csv", "text,label\na,1\nb,1\n", [], 1, ["every row has the label '1'", "at least two"]),
    "no labels": ("t.csv", "text,label\na,\nb,\n", [], 1, ["no row has a label"]),
    "a word for a score": (
        "t.csv",
        f"text,label\n{GOOD}x,high\n",
        ["--regression"],
        1,
        ["row 22: label 'high' is not a n"],
    ),
    "an infinite score": (
        "t.csv",
        f"text,label\n{GOOD}x,inf\n",
        ["--regression"],
        1,
        ["row 22: label 'inf' is not a number"],
    ),
    "one score": ("t.csv", "text,label\na,1\nb,1.0\n", ["--regression"], 1, ["every row has the label '1.0'"]),
    "symmetry of one text": (
        "t.csv",
        f"text,label\n{GOOD}",
        ["--symmetric"],
        2,
        ["--symmetric is for rows of two texts"],
    ),
    "too few choices": (
        "t.jsonl",
        lines(CHOICE, CHOICE | {"choices": ["one"]}),
        [],
        1,
        ["row 2: 'choices' has 1 answers"],
    ),
    "no such choice": ("t.jsonl", lines(CHOICE, CHOICE | {"label": 2}), [], 1, ["row 2: label 2 is not the index"]),
    "one choice": ("t.jsonl", lines(CHOICE | {"choices": ["one"]}), [], 1, ["a list of two answers or more"]),
    "too many cells": ("t.csv", f"text,label\n{GOOD}a,b,1\n", [], 1, ["row 22: 3 cells where the header has 2"]),
    "an open quote": ("t.csv", f'text,label\n{GOOD}"a,1\n', [], 1, ["row 22: the quotes do not match"]),
    "no JSON": ("t.jsonl", '{"text": "a", "label": 1}\n{"text"\n', [], 1, ["line 2, column ", "the line is not JSON"]),
    "no rows": ("t.csv", "text,label\n", [], 1, ["t.csv has no rows"]),
    "nothing at all": ("t.csv", "", [], 1, ["t.csv has no rows"]),
    "another encoding": (
        "t.csv",
        f"text,label\n{GOOD}café,1\n".encode("cp1252"),
        [],
        1,
        ["row 22: ", "0xe9 is not utf-8"],
    ),
    "no such encoding": ("t.csv", f"text,label\n{GOOD}", ["--encoding", "utf8x"], 2, ["unknown encoding 'utf8x'"]),
    "half an archive": (
        "t.csv.gz",
        gzip.compress(f"text,label\n{GOOD}".encode())[:60],
        [],
        1,
        ["is damaged or cut short"],
    ),
    "no parquet": ("t.parquet", "text,label\n", [], 1, ["t.parquet"]),
    "another format": ("t.docx", "x", [], 1, ["of the kind '.docx'", ".csv"]),
    "a spreadsheet": ("t.xlsx", "x", [], 1, ["is a spreadsheet", "CSV (UTF-8)"]),
    "a text": ("t.txt", "Ann sold a hat.\n", [], 2, ["is a text, not a table"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_table_that_cannot_be_used_is_named_with_its_row_and_what_to_do(
    name: str, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    file, content, more, wanted, messages = BAD[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = finetune(capsys, trained, tmp_path / "run", "--train", path, *more)
    assert (code, out) == (wanted, ""), err
    for message in messages:
        assert message in err
    if wanted == 1:
        assert file in err
    assert len(err.splitlines()) <= 4
    assert not (tmp_path / "run").exists()


def test_nan_and_null_in_a_parquet_file_have_their_rows(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    import pandas

    path = tmp_path / "t.parquet"
    for column, value, said in (
        ("text", None, "row 3: 'text' is empty"),
        ("label", float("nan"), "row 3: the label in 'label' is empty"),
    ):
        rows = pandas.DataFrame({"text": ["a", "b", "c", "d"], "label": [1.0, 0.0, 1.0, 0.0]})
        rows.loc[2, column] = value
        rows.to_parquet(path)
        code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", path)
        assert (code, said in err) == (1, True), err


def test_rows_of_dev_are_judged_by_the_labels_of_train(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\nAnn,good\nTom,bda\n")
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", table, "--dev", dev)
    assert code == 1
    assert f"{dev}, row 3: label 'bda' is none of bad, good; did you mean 'bad'?" in err
    dev.write_text("txt,label\nAnn,good\n")
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", table, "--dev", dev)
    assert code == 1
    assert f"{dev} has no column 'text'; did you mean 'txt'?" in err


def test_labels_seen_once_and_doubtful_rows_are_told_with_their_rows(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"text,label\n{GOOD}what,Maybe\nthis,5\nThis,1\n")
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", path, "--steps", "1")
    assert code == 0
    assert "labels seen once, too rare to learn: 'Maybe' (row 22), '5' (row 23)" in err
    assert "1 text with more than one label (rows 23 and 24)" in err
    assert "kept for dev" in err


def test_ten_megabytes_in_one_cell_are_cut_and_told(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"text,label\n{GOOD}{'Ann sold 3 apples. ' * 530_000},1\n")
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", path, "--steps", "1")
    assert code == 0
    said = " ".join(err.split())
    assert "very long texts, all but their beginning will be cut: row 22 with 10,070,000 characters" in said
    assert "longer than 16 tokens and lost" in said


def test_a_table_as_excel_writes_it_is_read(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    rows = "".join(f'"Zeile {n}; zweite\r\nHälfte";{"gut" if n % 2 else "schlecht"}\r\n' for n in range(20))
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + f"text;label\r\n{rows}".encode())
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", tmp_path / "t.csv", "--steps", "1")
    assert code == 0, err
    assert load_run(tmp_path / "run", device="cpu").tasks["t"].labels == ("gut", "schlecht")


# ---- other errors ----


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--train", "absent.csv"], 1, "absent.csv does not exist"),
        (["--train", "FOLDER.csv"], 1, "is a folder; expected a file"),
        ([], 2, "nothing to learn is named; name a table (gpt1 finetune TABLE --out DIR), a task and the"),
        (["--train", "TABLE", "--task", "rte", "--data", "d"], 2, "leave out all but one of --task and --train"),
        (["--encoded", "ENCODED", "--dev", "TABLE"], 2, "go with --train"),
        (["--task", "rte"], 2, "where is the data of 'rte'? Name its folder with --data"),
        (["--task", "ret", "--data", "d"], 2, "unknown task 'ret'; did you mean 'rte'?"),
        (["--task", "rte", "--data", "absent"], 1, "error: absent does not exist"),
        (["--task", "nowhere:TASK", "--data", "d"], 2, "nowhere"),
        (["--encoded", "absent"], 1, "task.json does not exist"),
        (["--encoded", "FAR"], 1, "encoded for a context of 40 tokens"),
        (["--encoded", "ENCODED", "--encoded", "ENCODED"], 2, "two tasks have one name: moods, moods"),
        (["--train", "TABLE", "--layers", "9"], 2, "9 blocks cannot be taken from"),
        (["--train", "TABLE", "--layers", "-1"], 2, "--layers"),
        (["--train", "TABLE", "--epochs", "0"], 2, "--epochs"),
        (["--train", "TABLE", "--seeds", "0"], 2, "--seeds"),
        (["--train", "TABLE", "--lr", "-1"], 2, "--lr"),
        (["--train", "TABLE", "--lr", "nan"], 2, "lr"),
        (["--train", "TABLE", "--patience", "0"], 2, "--patience"),
        (["--train", "TABLE", "--set", "shape.layers=3"], 2, "shape.layers is decided by"),
        (["--train", "TABLE", "--set", "traning.batch=3"], 2, "did you mean 'training.batch'?"),
        (["--train", "TABLE", "--set", "finetuning.word_dropout=1"], 2, "word_dropout is at least 0 and below 1"),
        (["--train", "TABLE", "--set", "finetuning.synonyms=0.1"], 2, "no list is named; name one, --synonyms FILE"),
        (
            ["--train", "TABLE", "--synonyms", "TABLE", "--set", "finetuning.synonyms=0"],
            2,
            "finetuning.synonyms is 0",
        ),
        (["--train", "TABLE", "--recipe", "papre"], 2, "did you mean 'paper'?"),
        (["--train", "TABLE", "--device", "cudda"], 2, "cudda"),
        (["--train", "TABLE", "--out", "INIT"], 1, "holds a run already"),
        (["--train", "TABLE", "--out", "INIT", "--resume"], 2, "is a run of another kind (pretraining)"),
        (["--train", "TABLE", "--out", "FOLDER.csv"], 1, "holds other files (notes.txt)"),
        (["--train", "TABLE", "--out", "TABLE"], 1, "is a file; choose a new or empty folder"),
        (["--train", "TABLE", "--init", "absent"], 1, "absent does not exist"),
        (["--train", "TABLE", "--target-texts", "absent.csv"], 1, "absent.csv does not exist"),
        (["--encoded", "ENCODED", "--target-texts", "x.csv"], 2, "--target-texts are read as the labelled rows are"),
        (["--train", "TABLE", "--init", "FOLDER.csv"], 1, "run.json does not exist; expected a run there"),
    ],
)
def test_errors_are_for_people(
    arguments: list[str],
    code: int,
    message: str,
    trained: Path,
    table: Path,
    words_tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    from gpt1.tasks.encoded import save

    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER.csv").mkdir()
    (tmp_path / "FOLDER.csv" / "notes.txt").touch()
    for name, context in (("ENCODED", 16), ("FAR", 40)):
        if name in arguments:
            save(encode(MOODS, words_tokenizer, 16, context=context), tmp_path / name)
    places = {"TABLE": str(table), "INIT": str(trained)}
    found, out, err = finetune(capsys, trained, tmp_path / "run", *(places.get(word, word) for word in arguments))
    assert (found, out) == (code, ""), err
    assert message in err
    assert "fault of gpt1" not in err
    assert not (tmp_path / "run").exists()


def test_out_is_asked_for(capsys: Capture) -> None:
    code, _, err = run(capsys, "finetune", "--init", "x", "--train", "t.csv")
    assert (code, "--out" in err) == (2, True)


# ---- what the vocabulary does not have ----


def test_text_that_the_vocabulary_can_hardly_spell_is_not_learned(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    rows = [f"{KOREAN[row % 3]} {row},{'bad' if row % 2 else 'good'}\n" for row in range(20)]
    (tmp_path / "korean.csv").write_text("text,label\n" + "".join(rows))
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", tmp_path / "korean.csv")
    assert code == 1
    assert re.search(
        r"korean train: \d+ of \d+ tokens are not in the vocabulary, and from so little nothing can be", err
    )
    assert "gpt1 tokenizer train --kind bytes" in err
    assert not (tmp_path / "run").exists()
    code, out, _ = run(capsys, "check", str(tmp_path / "korean.csv"), "--init", str(trained))
    assert code == 1
    assert "cannot be trained on yet" in out


def test_a_script_that_the_vocabulary_does_not_have_is_told_from_learning_to_answering(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(unknowns, "MOST_UNKNOWN", 1.0)  # as many runs were made before that was refused
    rows = [f"{KOREAN[row % 3]} {row},{'bad' if row % 2 else 'good'}\n" for row in range(20)]
    table = tmp_path / "korean.csv"
    table.write_text("text,label\n" + "".join(rows))
    folder = tmp_path / "run"
    code, _, err = finetune(capsys, trained, folder, "--train", table, "--steps", "2")
    assert code == 0
    assert "korean train: 1" in err
    told = "in 18 of 18 examples most of them; the network takes them all for the same"
    assert re.search(r"tokens are not in the vocabulary \(the commonest: \S( \S){4}\), in 18 of 18", err)
    assert told in err
    assert told in (folder / "log.txt").read_text()
    counts = read_run(folder).unknown["korean"]["train"]
    assert counts.examples == 18
    assert 0.9 * counts.of < counts.tokens <= counts.of

    _, out, _ = run(capsys, "evaluate", str(folder), "--device", "cpu")
    assert "tokens are not in the vocabulary, in 2 of 2 examples most of them" in out
    kept = facts_in(folder / "evaluation-korean-dev.json")
    assert kept["unknown"].keys() == {"tokens", "of", "examples"}

    _, _, err = run(capsys, "predict", str(folder), str(table), "--device", "cpu")
    assert re.search(r"tokens are not in the vocabulary \(the commonest: \S( \S){4}\), in 20 of 20 examples", err)

    run(capsys, "report", str(folder), "--out", str(tmp_path / "report.html"))
    assert "tokens are not in the vocabulary, in 2 of 2 examples" in (tmp_path / "report.html").read_text()

    del kept["unknown"]  # as it was kept before there was such a count
    (folder / "evaluation-korean-dev.json").write_text(json.dumps(kept))
    assert run(capsys, "report", str(folder), "--out", str(tmp_path / "before.html"))[0] == 0


def test_very_many_labels_are_learned_measured_answered_and_reported_in_little(
    trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    table = tmp_path / "many.csv"
    table.write_text("text,label\n" + "".join(f"Ann sold nothing {row},label {row % 250}\n" for row in range(500)))
    folder = tmp_path / "run"
    assert finetune(capsys, trained, folder, "--train", table, "--steps", "2")[0] == 0
    kept = facts_in(folder / "evaluation-many-dev.json")
    assert kept["confusion"].keys() == {"pairs", "other_pairs"}
    assert len(kept["classes"]) == 250
    lines = lines_in(folder / "predictions-many-dev.jsonl")
    assert {len(line["probabilities"]) for line in lines} == {100}
    assert all(next(iter(line["probabilities"])) == line["prediction"] for line in lines)
    _, out, _ = run(capsys, "evaluate", str(folder), "--device", "cpu")
    assert "What is mixed up most, of 250 labels." in out
    assert "and 180 more. How the 200 most frequent labels were answered." in out
    _, out, err = run(capsys, "predict", str(folder), str(table), "--device", "cpu")
    assert "of 250 labels, probabilities are told of the 100 likeliest of each row" in err
    assert len(json.loads(out.splitlines()[0])["probabilities"]) == 100
    assert run(capsys, "report", str(folder), "--out", str(tmp_path / "report.html"))[0] == 0
    page = (tmp_path / "report.html").read_text()
    assert "What is mixed up most, of 250 labels." in page
    assert "How the 200 most frequent labels were answered." in page


# ---- tables with faults ----

# What Excel leaves in a sheet, below forty good rows: an empty row, an empty text, an empty label, another spelling.
FAULTS = ",\n ,glad\nNo label.,\nAnn is merry.,Glad\nTom is low., SAD \n"


def faulty(table: Path) -> Path:
    """Return the table with faults in it, which has the labels glad and sad."""
    first, *others = MOODS.labels
    text = re.sub(rf",({re.escape(first)})\b", ",glad", table.read_text())
    for other in others:
        text = re.sub(rf",({re.escape(other)})\b", ",sad", text)
    table.write_text(text + FAULTS)
    return table


def test_a_table_with_faults_is_learned_without_them_goes_on_and_is_measured_the_same(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture
) -> None:
    more = ("--train", faulty(table), "--steps", "4")
    code, _, err = finetune(capsys, trained, tmp_path / "run", *more)
    assert code == 1
    assert "row 42: 'text' is empty; fill it or take the row out; --skip-bad leaves such rows out; gpt1 check " in err

    mending = ("--skip-bad", "--fold-labels")
    code, _, err = finetune(capsys, trained, tmp_path / "run", *more, *mending, "--minutes", "0")
    assert code == 0
    assert (
        "3 of 45 rows left out: 1 empty row (row 42), 1 row without a text (row 43), 1 row without a label (row 44)"
    ) in err
    assert "'Glad' (1 row) taken for 'glad', 'SAD' (1 row) taken for 'sad'" in err
    record = read_run(tmp_path / "run")
    assert record.source is not None
    assert (record.source.skip_bad, record.source.fold_labels) == (True, True)
    assert record.tasks["moods"].labels == ("glad", "sad")

    assert finetune(capsys, trained, tmp_path / "run", *more, "--skip-bad", "--resume")[0] == 1  # other labels
    code, _, err = finetune(capsys, trained, tmp_path / "run", *more, *mending, "--resume")
    assert code == 0, err
    code, _, err = run(capsys, "evaluate", str(tmp_path / "run"), "--device", "cpu")
    assert code == 0, err
    assert "3 of 45 rows left out" in err

    words = ["evaluate", str(tmp_path / "run"), "--table", str(table), "--device", "cpu"]
    code, _, err = run(capsys, *words)
    assert code == 0, err
    assert "3 of 45 rows left out" in err
    table.write_text(table.read_text().replace("text,label", "words,feeling"))
    code, _, err = run(capsys, *words, "--column", "text=words", "--column", "label=feeling", "--split", "again")
    assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoded", "x", "--skip-bad"], "--skip-bad and --fold-labels go with --train"),
        (
            ["--task", "rte", "--data", "x", "--fold-labels"],
            "--skip-bad and --fold-labels go with --train",
        ),
        (["--train", "TABLE", "--regression", "--fold-labels"], "--fold-labels is for labels that are names"),
    ],
)
def test_what_mends_tables_goes_with_tables(
    arguments: list[str], message: str, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "scores.csv").write_text("text,score\n" + "".join(f"text {n},{n}\n" for n in range(20)))
    words = [str(tmp_path / "scores.csv") if word == "TABLE" else word for word in arguments]
    code, _, err = finetune(capsys, trained, tmp_path / "run", *words)
    assert (code, message in err) == (2, True), err


# ---- several labels a row ----


def test_several_labels_a_row_are_learned_told_and_answered(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    table, labels = tmp_path / "tickets.csv", ("login", "billing|login", "billing", "")
    rows = [f"Ann sold {number} {label.replace('|', ' ')},{label}" for number in range(10) for label in labels]
    table.write_text("\n".join(["text,label", *rows]) + "\n")
    _, _, before = finetune(capsys, trained, tmp_path / "bad", "--train", table, "--skip-bad", "--steps", "1")
    assert "labels that seem to be several, parted by '|': 'billing|login'; --labels-sep '|' learns each" in before
    code, out, err = finetune(capsys, trained, tmp_path / "run", "--train", table, "--labels-sep", "|")
    assert code == 0
    assert "labels label, parted by '|': billing, login" in err
    assert "10 of 40 rows without any label, which is learned as such" in err
    assert "labels are given from the probability 0.5 on: no label stands in 10 of 4 rows for dev" in err
    assert "micro F1 macro F1 all labels right" in " ".join(out.split())
    _, out, _ = run(capsys, "evaluate", str(tmp_path / "run"), "--device", "cpu")
    assert "label precision recall F1 examples billing" in " ".join(out.split())
    _, out, _ = run(capsys, "predict", str(tmp_path / "run"), str(table), "--device", "cpu")
    first = json.loads(out.splitlines()[0])
    assert first.keys() == {"row", "text", "label", "prediction", "probabilities"}
    assert first["probabilities"].keys() == {"billing", "login"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--labels-sep", ";"), "no row has several labels parted by ';' in 'label'"),
        (("--labels-sep", "|", "--regression"), "--regression has one number a row, and --labels-sep several labels"),
        (("--labels-sep", ""), "--labels-sep is empty; name the sign between the labels of a row"),
    ],
)
def test_a_sign_that_parts_no_labels_is_refused_in_the_words_of_the_command(
    trained: Path, table: Path, tmp_path: Path, capsys: Capture, options: tuple[str, ...], said: str
) -> None:
    code, _, err = finetune(capsys, trained, tmp_path / "run", "--train", table, *options)
    assert code == (1 if ";" in options else 2)
    assert said in err
