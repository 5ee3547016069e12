"""`gpt1 predict` on tables and on standard input."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.tables import read_rows
from gpt1.finetuning.measure import measure
from gpt1.inference import explaining
from gpt1.inference.run import load_run
from gpt1.records.thresholds import THRESHOLDS_FILE, TaskThresholds, ThresholdsRecord
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.conftest import make_text
from tests.finetuning.tools import make_examples, make_task
from tests.inference.tools import CONTEXT, STEP, make_run, sure_run
from tests.moments import changes_told, counted, signalled

MOODS = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))

UNKNOWN = "What it is worth is not known: its training is not at its end.\n"  # a run that was made, not trained


@pytest.fixture(scope="module")
def moods(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> str:
    """A run that has learned to read moods."""
    return str(make_run(tmp_path_factory.mktemp("moods"), words_tokenizer, MOODS))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table with a semicolon between its cells and a quoted line end."""
    (tmp_path / "new.csv").write_text('id;text\n1;Ann lost a key\n2;"Tom sold\na hat"\n')
    return str(tmp_path / "new.csv")


def test_answers_are_printed_as_json_lines(moods: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "predict", moods, table, "--device", "cpu")
    assert (code, err) == (0, UNKNOWN)
    first, second = map(json.loads, out.splitlines())
    assert (first["row"], second["row"]) == (2, 3)
    assert (first["id"], first["text"], second["text"]) == ("1", "Ann lost a key", "Tom sold\na hat")
    assert first["prediction"] in MOODS.labels
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=2e-6)
    assert first["confidence"] == first["probabilities"][first["prediction"]]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_or_written_to_a_file(
    moods: str, table: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = [json.loads(line) for line in run(capsys, "predict", moods, table, "--device", "cpu")[1].splitlines()]
    out = tmp_path / f"answers.{suffix}"
    wanted = (0, "", f"{out}: 2 rows answered\n{UNKNOWN}")
    assert run(capsys, "predict", moods, table, "--out", str(out), "--device", "cpu") == wanted
    rows = [row for _, row in read_rows(out)]
    if suffix != "jsonl":
        assert list(rows[0]) == ["row", "id", "text", "prediction", "confidence", "p_glad", "p_sad"]
        rows = [
            {name: float(cell) if name in ("row", "confidence") else cell for name, cell in one.items()}
            | {"probabilities": {label: float(one[f"p_{label}"]) for label in MOODS.labels}}
            for one in rows
        ]
        printed = [one | {f"p_{label}": str(one["probabilities"][label]) for label in MOODS.labels} for one in printed]
        if suffix == "parquet":
            rows = [{name: str(cell) if name[:2] == "p_" else cell for name, cell in one.items()} for one in rows]
    assert rows == printed
    before = out.read_bytes()
    code, _, err = run(capsys, "predict", moods, table, "--out", str(out), "--device", "cpu")
    assert (code, out.read_bytes()) == (1, before)
    assert f"answers.{suffix} is there already; choose another name, or replace it with --overwrite" in err
    assert run(capsys, "predict", moods, table, "--out", str(out), "--overwrite", "--device", "cpu") == wanted


def test_at_the_end_it_is_told_what_the_run_reached_where_it_was_judged(
    table: str, tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = measured_run(tmp_path / "judged", words_tokenizer)
    said = " ".join(run(capsys, "predict", str(made), table, "--device", "cpu")[2].split())
    assert said.startswith("Not of use yet: ")
    assert re.search(r"Accuracy \d+\.\d \(95 % interval \d+\.\d to \d+\.\d\), on 12 rows of test\.$", said)
    told = run(capsys, "predict", str(made), "Ann lost a key", "--device", "cpu")[2]
    assert said.startswith(told.strip())
    worth = json.loads(run(capsys, "predict", str(made), "Ann", "--json", "--device", "cpu")[1])["worth"]
    assert (worth["is_of_use"], f"{worth['told']} {worth['figures']}") == (False, said)


def measured_run(folder: Path, tokenizer: Tokenizer) -> Path:
    """Make a run of random weights that was measured on twelve rows."""
    made = load_run(make_run(folder, tokenizer, make_task()), device="cpu")
    rows = {"test": make_examples(make_task(), 12, seed=0)}
    measure(made, encode_task(make_task(), rows, tokenizer, CONTEXT), ("test",))
    return made.path


def test_standard_input_is_json_lines(
    moods: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b'{"text": "Ann lost a key", "n": 1}\n{"text": "Tom sold a hat", "n": 2}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, out, err = run(capsys, "predict", moods, "-", "--device", "cpu")
    assert (code, err) == (0, UNKNOWN)
    assert [json.loads(line)["n"] for line in out.splitlines()] == [1, 2]


def test_who_writes_a_line_and_waits_is_answered(moods: str) -> None:
    command = [sys.executable, "-m", "gpt1", "predict", moods, "-", "--device", "cpu"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("Ann lost a key", "Tom sold a hat"):
            process.stdin.write(json.dumps({"text": text}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        process.stdin.close()
        assert process.wait(600) == 0


def test_columns_may_be_called_otherwise(moods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.csv").write_text("words,n\nAnn lost a key,1\n")
    arguments = ("predict", moods, str(tmp_path / "new.csv"), "--device", "cpu")
    assert run(capsys, *arguments)[0] == 1
    code, out, _ = run(capsys, *arguments, "--column", "text=words")
    answer = json.loads(out)
    assert (code, answer["words"], answer["n"]) == (0, "Ann lost a key", "1")
    assert "prediction" in answer


def test_columns_that_are_not_there_are_told_at_once_though_bad_rows_are_skipped(
    tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = str(make_run(tmp_path / "pair", words_tokenizer, CATALOGUE["rte"]))
    (tmp_path / "new.csv").write_text("one,two\nAnn,Tom\n")
    for more in ([], ["--out", str(tmp_path / "out.csv")]):
        code, out, err = run(capsys, "predict", pair, str(tmp_path / "new.csv"), "--skip-bad", "--device", "cpu", *more)
        assert (code, out) == (1, "")
        assert "has none of the columns 'a', 'b' (columns: one, two); name those that are meant with --column a" in err
    assert not (tmp_path / "out.csv").exists()


def test_a_table_without_rows_is_told_so(moods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.csv").write_text("text,n\n")
    told = (1, "", f"error: {tmp_path / 'new.csv'} has no rows\n")
    assert run(capsys, "predict", moods, str(tmp_path / "new.csv"), "--device", "cpu") == told
    out = tmp_path / "out.csv"
    assert run(capsys, "predict", moods, str(tmp_path / "new.csv"), "--out", str(out), "--device", "cpu") == told
    assert not out.exists()


def test_bad_rows_stop_it_or_are_written_and_counted(
    moods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.csv").write_text("text,n\nAnn lost a key,1\n,2\nTom sold a hat,3,4\n")
    arguments = ("predict", moods, str(tmp_path / "new.csv"), "--device", "cpu")
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, *arguments, "--out", str(out))
    assert (code, printed, out.exists()) == (1, "", False)
    assert err == f"error: {tmp_path / 'new.csv'}, row 3: 'text' is empty; fill it or take the row out\n"
    code, printed, err = run(capsys, *arguments, "--out", str(out), "--skip-bad")
    told = f"2 of 3 rows could not be used: see 'error'\n{out}: 3 rows written\n{UNKNOWN}"
    assert (code, printed, err) == (0, "", told)
    first, second, third = (row for _, row in read_rows(out))
    assert (first["prediction"] != "", first["error"]) == (True, "")
    assert (second["n"], second["prediction"]) == ("2", "")
    assert "row 3: 'text' is empty" in second["error"]
    assert "row 4: 3 cells where the header has 2" in third["error"]


def test_columns_of_the_same_name_are_told_of(moods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.jsonl").write_text('{"text": "Ann", "prediction": "mine"}\n')
    code, out, err = run(capsys, "predict", moods, str(tmp_path / "new.jsonl"), "--device", "cpu")
    assert code == 0
    assert json.loads(out)["prediction"] == "mine"
    assert json.loads(out)["gpt1_prediction"] in MOODS.labels
    assert err.startswith("the table has prediction already; what is added is called gpt1_row, gpt1_prediction")


def test_one_of_several_tasks_is_named(
    tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    both = str(make_run(tmp_path / "run", words_tokenizer, MOODS, CATALOGUE["stsb"]))
    (tmp_path / "pairs.jsonl").write_text('{"a": "Ann", "b": "Tom"}\n')
    arguments = ("predict", both, str(tmp_path / "pairs.jsonl"), "--device", "cpu")
    code, _, err = run(capsys, *arguments)
    assert (code, "name one with --task: moods, stsb" in err) == (2, True)
    code, out, _ = run(capsys, *arguments, "--task", "stsb")
    assert code == 0
    assert 0 <= json.loads(out)["prediction"] <= 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["RUN"], 2, "Missing argument 'TABLE|TEXT...'"),
        (["RUN", "absent.csv"], 1, "absent.csv does not exist"),
        (["RUN", "TABLE", "--out", "answers.xlsx"], 2, "name that ends in .jsonl, .csv, .tsv, .parquet"),
        (["RUN", "TABLE", "--out", "TABLE"], 2, "is the table that is read"),
        (["RUN", "TABLE", "--out", "no/such/folder/answers.csv"], 1, "cannot write no/such/folder/answers.csv"),
        (["RUN", "TABLE", "--task", "mods"], 2, "did you mean 'moods'?"),
        (["RUN", "TABLE", "--step", "7"], 2, "has no checkpoint of step 7"),
        (["RUN", "TABLE", "--column", "text=txet"], 1, "no column 'txet'; did you mean 'text'?"),
        (["RUN", "TABLE", "--column", "text=body"], 1, "; name the one that is meant with --column text=COLUMN"),
        (["RUN", "TABLE", "--column", "a=text"], 2, "unknown role of a column 'a' of 'moods'"),
        (["RUN", "TABLE", "--column", "text"], 2, "--column takes ROLE=NAME"),
        (["RUN", "TABLE", "--abstain", "5"], 2, "5.0 is not in the range 0<x<1. For 5 % write 0.05."),
        (["RUN", "TABLE", "--abstain", "5%"], 2, "'5%' is not a valid number. For 5 % write 0.05."),
        (["RUN", "TABLE", "--abstain", "-1"], 2, "-1.0 is not in the range 0<x<1.\n"),
        (["RUN", "-", "--encoding", "cp1252"], 2, "standard input are UTF-8"),
        (["RUN", "book.txt"], 1, "book.txt does not exist"),
        (["absent", "TABLE"], 1, "absent does not exist"),
        (["RUN", "no/such/place"], 1, "no/such/place does not exist"),
        (["RUN", "my new reviews.csv"], 1, "my new reviews.csv does not exist"),
        (["RUN", "TABLE", "TABLE"], 2, "one table is answered at a time"),
        (["RUN", "one text", "and another"], 2, "'moods' has 1 text (text), not 2; give as many"),
        (["RUN", " "], 1, "the text, row 1: 'text' is empty"),
        (["RUN", "a text", "--out", "answers.csv"], 2, "--out is for tables, and 'a text' is no file"),
        (["RUN", "TABLE", "--json"], 2, "--json is for a text"),
        (["RUN", "TABLE", "--resume"], 2, "--resume goes on with the --out of a table"),
        (["PRETRAINED", "TABLE"], 2, "has learned no task yet; gpt1 finetune --init"),
    ],
)
def test_errors_are_for_people(
    arguments: list[str],
    code: int,
    message: str,
    moods: str,
    table: str,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"RUN": moods, "TABLE": table, "PRETRAINED": str(trained)}
    found, out, err = run(capsys, "predict", "--device", "cpu", *(places.get(name, name) for name in arguments))
    assert (found, out) == (code, "")
    assert message in err


def test_with_a_risk_only_sure_rows_are_answered_and_the_share_is_told(
    words_tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [make_text(1, seed).strip() for seed in range(20)]
    sure_run(tmp_path / "run", words_tokenizer, MOODS, texts)
    table, out = tmp_path / "new.jsonl", tmp_path / "answers.csv"
    table.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    asked = ("predict", str(tmp_path / "run"), str(table), "--device", "cpu")
    code, _, err = run(capsys, *asked, "--abstain", "0.1", "--out", str(out))
    rows = [row for _, row in read_rows(out)]
    answered = [row for row in rows if row["abstained"] == "False"]
    assert code == 0
    assert all(row["prediction"] in MOODS.labels for row in answered)
    assert all(row["prediction"] == "" for row in rows if row["abstained"] == "True")
    words = " ".join(err.split())
    assert words.startswith(
        f"{len(answered)} of 20 rows answered ({100 * len(answered) / 20:.1f} %): with 95 % confidence"
    )
    assert words.endswith(f"{out}: 20 rows written {UNKNOWN.strip()}")
    code, _, err = run(capsys, *asked, "--abstain", "0.01")
    assert (code, "takes 299 answers" in " ".join(err.split())) == (1, True)
    assert run(capsys, *asked, "--abstain", "5")[0] == 2


def test_a_text_is_answered_on_the_command_line(
    moods: str, tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "predict", moods, "Ann lost a key", "--device", "cpu")
    answer, *shares = out.splitlines()
    assert (code, err, len(shares)) == (0, UNKNOWN, 2)
    code, out, _ = run(capsys, "predict", moods, "Ann lost a key", "--json", "--device", "cpu")
    found = json.loads(out)
    assert answer == f"{found['prediction']}  ({100 * found['confidence']:.1f} % sure)"
    assert list(found) == ["prediction", "probabilities", "confidence", "unknown", "tokens", "truncated", "worth"]
    assert found["worth"] == {"told": UNKNOWN.strip()}
    long = " ".join(["Ann lost a key."] * 30)
    code, out, err = run(capsys, "predict", moods, long, "--json", "--device", "cpu")
    assert (code, json.loads(out)["truncated"]) == (0, True)
    assert "1 of 1 row had more text than the model's 32 tokens" in err
    pair = str(make_run(tmp_path / "pair", words_tokenizer, CATALOGUE["stsb"]))
    code, out, _ = run(capsys, "predict", pair, "Ann", "Tom", "--device", "cpu")
    assert (code, 0 <= float(out) <= 5) == (0, True)


def test_a_text_of_which_nothing_is_known_is_not_just_told_to_be_sure(
    moods: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "none of its 5 tokens is in the vocabulary, so that the answer tells nothing of the text"
    code, out, err = run(capsys, "predict", moods, "재미있었다", "--device", "cpu")
    assert code == 0
    assert f" % sure; {said})" in out.splitlines()[0]
    assert "5 of 5 tokens are not in the vocabulary" in err
    found = json.loads(run(capsys, "predict", moods, "재미있었다", "--json", "--device", "cpu")[1])
    assert (found["unknown"], found["tokens"], found["notice"]) == (5, 5, said)
    known = json.loads(run(capsys, "predict", moods, "Ann 재미있었다", "--json", "--device", "cpu")[1])
    assert "notice" not in known


@pytest.mark.parametrize(("thresholds", "answer"), [((0.0, 1.0, 0.0), "glad|calm"), ((1.0, 1.0, 1.0), "no label")])
def test_several_labels_of_a_text_are_told_without_how_sure(
    thresholds: tuple[float, ...],
    answer: str,
    tmp_path: Path,
    words_tokenizer: Tokenizer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    several = replace(MOODS, labels=("glad", "sad", "calm"), labels_sep="|", metrics=("micro_f1",))
    made = make_run(tmp_path / "run", words_tokenizer, several)
    chosen = TaskThresholds("because", dict(zip(several.labels, thresholds, strict=True)))
    ThresholdsRecord(STEP, {several.name: chosen}).write(made / THRESHOLDS_FILE)
    code, out, _ = run(capsys, "predict", str(made), "Ann lost a key", "--device", "cpu")
    first, *shares = out.splitlines()
    assert (code, first, len(shares)) == (0, answer, 3)


def test_an_answer_that_is_not_the_likeliest_says_why(
    tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    skewed = replace(MOODS, metrics=("macro_f1", "accuracy"), class_factors=True)
    made = make_run(tmp_path / "run", words_tokenizer, skewed)
    for rare, other in (("glad", "sad"), ("sad", "glad")):  # whichever of the two is likelier
        chosen = TaskThresholds("because", {rare: 1e6, other: 1.0})
        ThresholdsRecord(STEP, {skewed.name: chosen}).write(made / THRESHOLDS_FILE)
        code, out, _ = run(capsys, "predict", str(made), "Ann lost a key", "--device", "cpu")
        first, (likeliest, _) = out.splitlines()[0], out.splitlines()[1].split()
        why = f"'{other}' is likelier, but for macro F1 this run gives '{rare}' sooner)"
        assert (code, first.startswith(f"{rare}  (")) == (0, True)
        assert first.endswith(why if likeliest == other else " % sure)")


def test_a_killed_table_is_gone_on_with_and_ends_as_an_undisturbed_one(
    moods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("id,text\n" + "".join(f"{n},Ann lost {n} keys\n" for n in range(2500)))
    arguments = ["predict", moods, str(table), "--device", "cpu"]
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    assert run(capsys, *arguments, "--out", str(whole))[0] == 0
    folder = tmp_path / "other"
    folder.mkdir()
    out = folder / "out.csv"
    command = ["-m", "gpt1", *arguments, "--out", str(out)]
    changes = changes_told(subprocess.run(counted(folder, *command), capture_output=True, text=True).stderr)
    out.unlink()
    for moment in range(1, changes + 1):
        killed = subprocess.run(signalled(moment, folder, signal.SIGKILL, *command), capture_output=True)
        assert killed.returncode == -signal.SIGKILL
        code, _, err = run(capsys, *arguments, "--out", str(out), "--resume")
        assert (code, [path.name for path in folder.iterdir()]) == (0, ["out.csv"]), err
        assert out.read_bytes() == whole.read_bytes()
        out.unlink()


def test_it_tells_which_words_speak_for_an_answer(moods: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "predict", moods, "Ann lost a key", "--explain", "--device", "cpu")
    assert (code, err) == (0, UNKNOWN)
    answer, why = out.splitlines()[0].split()[0], out.splitlines()[-1]
    assert re.fullmatch(rf"why {answer}: (\w+ \([+-]\d+\.\d\d\)(; |$))+", why)
    out = run(capsys, "predict", moods, "Ann lost a key", "--explain-label", "sad", "--json", "--device", "cpu")[1]
    (found,) = json.loads(out)["explanation"]
    assert found["label"] == "sad"
    assert [(word["word"], word["start"]) for word in found["words"]] == [
        ("Ann", 0),
        ("lost", 4),
        ("a", 9),
        ("key", 11),
    ]
    assert all({"weight", "gradient"} <= word.keys() for word in found["words"])


def test_a_line_of_reasons_has_no_gradients_made(
    moods: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    making = explaining.integrated_gradients
    monkeypatch.setattr(
        explaining, "integrated_gradients", lambda *given, **more: (made.append(given), making(*given, **more))[1]
    )
    command = "predict", moods, "Ann lost a key", "--explain", "--device", "cpu"
    assert run(capsys, *command)[0] == 0
    assert made == []
    assert run(capsys, *command, "--json")[0] == 0
    assert len(made) == 1


def test_words_at_the_end_that_are_not_read_are_counted(moods: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Ann lost a key " * 20
    code, out, _ = run(capsys, "predict", moods, text, "--explain", "--device", "cpu")
    assert code == 0
    assert re.search(r"; \d\d words at the end not read$", out.splitlines()[-1])


def test_a_table_gets_a_column_of_reasons(
    moods: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.csv"
    assert run(capsys, "predict", moods, table, "--out", str(out), "--explain", "--device", "cpu")[0] == 0
    rows = [row for _, row in read_rows(out)]
    assert list(rows[0])[-1] == "explanation"
    assert all(re.match(r"\w+ \([+-]\d", str(row["explanation"])) for row in rows)
    printed = run(capsys, "predict", moods, table, "--explain", "--device", "cpu")[1]
    assert [len(json.loads(line)["explanation"]) for line in printed.splitlines()] == [1, 1]


@pytest.mark.parametrize("label", ["", "joyful"])
def test_a_label_that_cannot_be_explained_is_told_with_those_that_can(
    moods: str, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "predict", moods, "Ann", "--explain-label", label, "--device", "cpu")
    assert code == 2
    assert f"unknown label '{label}' of 'moods' to explain (known: glad, sad)" in err


def test_either_the_answer_or_a_label_is_explained(moods: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "predict", moods, "Ann", "--explain", "--explain-label", "sad")
    assert code == 2
    assert "give one" in err
