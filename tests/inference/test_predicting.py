"""Answers for rows: the same as fine-tuning would give, in order, whatever the table's length and faults."""

from __future__ import annotations

import io
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpt1.base.errors import DamagedFile, InputError, SettingError
from gpt1.inference.classification import probabilities
from gpt1.inference.predicting import predict_file, predict_rows, task_of
from gpt1.inference.rows import EXPLAINED
from gpt1.inference.run import Run, load_run
from gpt1.tasks.answers import predictions
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import CONTEXT, make_run

MOODS = Task(
    name="moods",
    title="moods",
    shape=SINGLE,
    labels=("glad", "sad", "so-so"),
    metrics=("accuracy",),
    fields=("text",),
    label_field="mood",
    test_splits=(),
)
TASKS = (MOODS, CATALOGUE["mrpc"], CATALOGUE["stsb"], CATALOGUE["race"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run that has learned to read moods."""
    return load_run(make_run(tmp_path_factory.mktemp("moods"), words_tokenizer, MOODS), device="cpu")


@pytest.fixture(scope="module")
def many_tasks(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run that has learned a task of every shape but the pair."""
    return load_run(make_run(tmp_path_factory.mktemp("many"), words_tokenizer, *TASKS), device="cpu")


def texts(count: int) -> list[str]:
    return [make_text(1, seed=number).strip() for number in range(count)]


def quiet(message: str) -> None:
    """Take a notice that is not looked at."""


def expected(run: Run, task: Task, parts: list[tuple[str, ...]]) -> tuple[Any, Any]:
    """Return probabilities and answers as fine-tuning's own evaluation gets them, one example at a time."""
    rows = []
    for texts in parts:
        encoded = encode_task(task, {"train": [Example(texts, None, 1)]}, run.tokenizer, CONTEXT)
        rows.append(probabilities(run.classifier, task.name, encoded.splits["train"])[0])
    return np.array(rows), predictions(task, np.array(rows))


# ---- answers ----


def test_classes_are_answered_by_name_with_probabilities_and_the_columns_that_were_there(run: Run) -> None:
    rows = [{"id": number, "text": text} for number, text in enumerate(texts(40))]
    found = list(predict_rows(run, rows, notice=quiet))
    table, answers = expected(run, MOODS, [(row["text"],) for row in rows])
    assert len(set(answers)) > 1
    for row, given, shares, answer in zip(found, rows, table, answers, strict=True):
        assert list(row) == ["id", "text", "prediction", "probabilities", "confidence"]
        assert (row["id"], row["text"]) == (given["id"], given["text"])
        assert row["prediction"] == MOODS.labels[answer]
        assert list(row["probabilities"]) == list(MOODS.labels)
        assert list(row["probabilities"].values()) == pytest.approx(shares, abs=2e-6)
        assert row["confidence"] == max(row["probabilities"].values())


def test_where_a_task_has_one_text_a_row_may_be_that_text(run: Run, many_tasks: Run) -> None:
    (field,) = next(iter(run.tasks.values())).fields
    both = [list(run.predict(rows)) for rows in (texts(3), [{field: text} for text in texts(3)])]
    assert both[0] == both[1]
    with pytest.raises(InputError, match=r"rows, row 1: is a string; 'stsb' has several texts, as in \{'"):
        list(many_tasks.predict(["one text"], task="stsb"))


@pytest.mark.parametrize("rows", ["good", {"text": "good"}])
def test_one_row_in_place_of_several_is_refused_and_not_read_as_letters_or_names(run: Run, rows: Any) -> None:
    with pytest.raises(SettingError, match=r"`rows` is one row; expected several: `\[row\]`"):
        run.predict(rows)


def test_a_table_that_would_give_the_names_of_its_columns_is_refused(run: Run) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["good"]})
    with pytest.raises(SettingError, match=r"`rows` is a DataFrame; expected .*`table.to_dict\('records'\)`"):
        run.predict(table)
    assert len(list(run.predict(table.to_dict("records")))) == 1
    assert len(list(run.predict(pandas.Series(["good", "bad"])))) == 2


@pytest.mark.parametrize("row", [None, 3, b"good", ["text"]])
def test_what_is_neither_a_mapping_nor_a_text_is_told_by_its_type_and_number(run: Run, row: Any) -> None:
    with pytest.raises(InputError, match=f"rows, row 2: is a {type(row).__name__}; expected a mapping, or a text"):
        list(run.predict(["good", row]))
    if not isinstance(row, bytes | list):  # which have rows, if odd ones
        with pytest.raises(SettingError, match=f"`rows` is a {type(row).__name__}; expected"):
            run.predict(row)


def test_scores_are_answered_by_a_number_alone(many_tasks: Run) -> None:
    rows = [{"a": one, "b": "nothing was lost"} for one in texts(5)]
    found = list(predict_rows(many_tasks, rows, task="stsb", notice=quiet))
    _, answers = expected(many_tasks, CATALOGUE["stsb"], [(row["a"], row["b"]) for row in rows])
    assert [list(row) for row in found] == [["a", "b", "prediction"]] * 5
    assert [row["prediction"] for row in found] == pytest.approx(answers, abs=1e-5)


def test_choices_are_answered_by_the_index_of_the_answer(many_tasks: Run) -> None:
    rows = [{"context": one, "question": "Who?", "choices": ["Ann", "Tom", "Dr. Wu", "the cat"]} for one in texts(5)]
    found = list(predict_rows(many_tasks, rows, task="race", notice=quiet))
    shares, answers = expected(many_tasks, CATALOGUE["race"], [(r["context"], "Who?", *r["choices"]) for r in rows])
    assert [row["prediction"] for row in found] == answers.tolist()
    assert list(found[0]["probabilities"].values()) == pytest.approx(shares[0], abs=2e-6)
    assert list(found[0]["probabilities"]) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("label", ["glad", "no such mood", "", None, ["glad"]])
def test_a_label_is_neither_needed_nor_looked_at(run: Run, label: Any) -> None:
    with_label, without = predict_rows(run, [{"text": "Ann lost a key", "mood": label}, {"text": "Ann lost a key"}])
    assert with_label["mood"] == label
    assert with_label["prediction"] == without["prediction"]


def test_a_group_is_not_looked_at_either(many_tasks: Run) -> None:
    row = {"context": "Ann", "question": "Who?", "choices": list("abcd"), "level": "unheard of"}
    assert next(predict_rows(many_tasks, [row], task="race"))["level"] == "unheard of"


def test_texts_over_the_context_are_cut_and_counted(run: Run) -> None:
    told: list[str] = []
    found = list(predict_rows(run, [{"text": make_text(9, seed=1)}, {"text": "Ann"}], notice=told.append))
    assert len(found) == 2
    (cut,) = told
    assert cut.startswith("1 of 2 rows had more text than the model's 32 tokens; the ends were not read; a run of ")


def test_no_rows_are_no_answers(run: Run) -> None:
    assert list(predict_rows(run, [])) == []


# ---- tables and streams ----


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_a_table_is_answered_as_its_rows_are(run: Run, tmp_path: Path, name: str) -> None:
    import pandas

    rows = [{"text": text, "city": "Köln"} for text in texts(7)]
    frame = pandas.DataFrame(rows)
    path = tmp_path / name
    {
        "rows.csv": lambda: frame.to_csv(path, index=False),
        "rows.jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "rows.parquet": lambda: frame.to_parquet(path),
    }[name]()
    first = 2 if name == "rows.csv" else 1  # of which the header is row 1, as in a spreadsheet
    wanted = [{"row": number, **row} for number, row in enumerate(predict_rows(run, rows), first)]
    assert list(predict_file(run, path)) == wanted


def test_more_rows_than_a_chunk_come_back_in_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": text} for text in texts(23)]
    whole = list(predict_rows(run, rows, notice=quiet))
    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 4)
    parts = list(predict_rows(run, rows, notice=quiet))
    assert [row["text"] for row in parts] == [row["text"] for row in rows]
    assert [row["prediction"] for row in parts] == [row["prediction"] for row in whole]
    assert [row["confidence"] for row in parts] == pytest.approx([row["confidence"] for row in whole], abs=2e-6)


def test_no_more_than_a_few_chunks_are_ever_held(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Text(str):
        """A text that can be watched."""

    def source() -> Iterator[dict[str, Any]]:
        for number in range(100):
            text = Text(f"Ann lost {number} apples")
            weakref.finalize(text, gone.append, number)
            held.append(number + 1 - len(gone))
            yield {"text": text}

    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 8)
    gone: list[int] = []
    held: list[int] = []
    assert sum(1 for _ in predict_rows(run, source(), notice=quiet)) == 100
    assert 8 <= max(held) <= 3 * 8


class SlowStream:
    """Gives one block at a time and tells how many were asked for."""

    def __init__(self, *blocks: bytes) -> None:
        self.blocks = list(blocks)
        self.asked = 0

    def read1(self, size: int, /) -> bytes:
        self.asked += 1
        return self.blocks.pop(0) if self.blocks else b""


def test_a_stream_is_answered_as_it_arrives(run: Run) -> None:
    stream = SlowStream(b'{"text": "Ann"}\n{"text": ', b'"Tom"}\n', b'\n{"text": "Dr. Wu"}')
    answers = predict_file(run, stream)
    assert next(answers)["text"] == "Ann"
    assert stream.asked == 1
    assert next(answers)["text"] == "Tom"
    assert stream.asked == 2
    assert [row["text"] for row in answers] == ["Dr. Wu"]


def test_a_stream_and_a_table_of_the_same_lines_have_the_same_answers(run: Run, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": text}) + "\r\n" for text in texts(5)).encode("utf-8-sig")
    (tmp_path / "rows.jsonl").write_bytes(lines)
    assert list(predict_file(run, io.BytesIO(lines))) == list(predict_file(run, tmp_path / "rows.jsonl"))


# ---- rows that cannot be used ----

BAD = [
    ({"text": ""}, "rows, row 2: 'text' is empty; fill it or take the row out"),
    ({"text": "  \n"}, "rows, row 2: 'text' is empty"),
    ({"text": None}, "rows, row 2: 'text' is empty"),
    ({"text": float("nan")}, "rows, row 2: 'text' is empty"),
    ({"text": 7}, "rows, row 2: 'text' holds 7, expected text"),
    ({"txt": "Ann"}, "rows, row 2: no column 'text'; did you mean 'txt'?"),
    ({"text": "\ud800"}, "rows, row 2: 'text': "),
    ({"text": "Ann", "prediction": 1}, "rows, row 2: a column 'prediction' that the first rows do not have"),
]


@pytest.mark.parametrize(("row", "message"), BAD)
def test_a_row_that_cannot_be_used_is_an_error_that_names_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 1)
    answers = predict_rows(run, [{"text": "Ann"}, row, {"text": "Tom"}])
    next(answers)
    with pytest.raises(InputError) as caught:
        next(answers)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("row", "message"), BAD)
def test_with_skip_bad_it_comes_back_with_the_error_and_the_others_are_answered(
    run: Run, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 1)
    told: list[str] = []
    rows = [{"text": "Ann"}, row, {"text": "Tom"}]
    first, bad, last = predict_rows(run, rows, skip_bad=True, notice=told.append)
    assert bad.pop("error").startswith(message)
    assert json.dumps(bad) == json.dumps(row)
    assert (first["text"], last["text"]) == ("Ann", "Tom")
    assert "error" not in first
    assert "prediction" in last
    assert told == ["1 of 3 rows could not be used: see 'error'"]


def test_lines_that_cannot_be_read_are_named_in_their_place(run: Run, tmp_path: Path) -> None:
    lines = b'{"text": "Ann"}\n{"text": \n[1]\n{"text": "Tom"}\n\xff\n'
    (tmp_path / "rows.jsonl").write_bytes(lines)
    for file, place in ((tmp_path / "rows.jsonl", str(tmp_path / "rows.jsonl")), (io.BytesIO(lines), "standard input")):
        found = list(predict_file(run, file, skip_bad=True, notice=quiet))
        assert [row.get("text") for row in found] == ["Ann", None, None, "Tom", None]
        assert [list(row) == ["row", "error"] for row in found] == [False, True, True, False, True]
        assert [row["row"] for row in found] == [1, 2, 3, 4, 5]
        assert found[1]["error"].startswith(f"{place}, line 2")
        assert "holds no JSON object" in found[2]["error"]
    with pytest.raises(InputError, match="standard input, line 2, column 10: the line is not JSON"):
        list(predict_file(run, io.BytesIO(lines)))
    with pytest.raises(InputError, match=r"rows\.jsonl, line 2, column \d+: the line is not JSON"):
        list(predict_file(run, tmp_path / "rows.jsonl"))


@pytest.mark.parametrize("explain", [False, True])
def test_columns_may_be_named_behind_the_first_rows_that_are_explained_at_once(
    run: Run, tmp_path: Path, explain: bool
) -> None:
    late = EXPLAINED + 4
    lines = [*({"id": row} for row in range(late)), {"text": "Ann sold a map", "answer": "a column of theirs"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = list(predict_file(run, tmp_path / "rows.jsonl", skip_bad=True, explain=explain, notice=quiet))
    assert ["error" in row for row in found] == [True] * late + [False]
    assert found[-1]["answer"] == "a column of theirs"


def test_a_damaged_file_is_an_error_even_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(b"no archive")
    with pytest.raises(DamagedFile, match=r"is no \.gz archive"):
        predict_file(run, tmp_path / "rows.csv.gz", skip_bad=True)


# ---- columns of the same name ----


def test_columns_that_have_our_names_are_kept_and_ours_are_called_otherwise(run: Run) -> None:
    told: list[str] = []
    row = {"text": "Ann", "prediction": "mine", "confidence": 3}
    (found,) = predict_rows(run, [row], notice=told.append)
    assert {name: found[name] for name in row} == row
    assert list(found)[3:] == ["gpt1_prediction", "gpt1_probabilities", "gpt1_confidence"]
    (message,) = told
    assert message.startswith("the table has prediction, confidence already; what is added is called gpt1_prediction")
    (again,) = predict_rows(run, [found], notice=told.append)
    assert list(again)[6:] == ["gpt1_gpt1_prediction", "gpt1_gpt1_probabilities", "gpt1_gpt1_confidence"]


def test_a_column_called_error_is_in_the_way_only_where_errors_are_written(run: Run) -> None:
    row = {"text": "Ann", "error": 0}
    assert "prediction" in next(predict_rows(run, [row]))
    found = list(predict_rows(run, [row, {"text": "", "error": 1}], skip_bad=True, notice=quiet))
    assert "gpt1_prediction" in found[0]
    assert (found[1]["error"], "is empty" in found[1]["gpt1_error"]) == (1, True)


# ---- runs and tasks ----


def test_of_several_tasks_one_must_be_named(many_tasks: Run) -> None:
    with pytest.raises(SettingError, match="several tasks; name one with `task`: moods, mrpc, stsb, race"):
        predict_rows(many_tasks, [])
    with pytest.raises(SettingError, match=r"unknown task 'mprc' of .*; did you mean 'mrpc'\?"):
        predict_rows(many_tasks, [], task="mprc")
    assert task_of(many_tasks, "mrpc") == CATALOGUE["mrpc"]


def test_a_run_that_was_only_pretrained_answers_nothing(trained: Path) -> None:
    with pytest.raises(SettingError, match=r"has learned no task yet; `gpt1\.finetune\(init="):
        predict_rows(load_run(trained, device="cpu"), [])


def test_ruined_weights_are_no_answer(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = load_run(make_run(tmp_path, words_tokenizer, MOODS), device="cpu")
    with torch.no_grad():
        run.model.tokens.fill_(torch.nan)
    with pytest.raises(InputError, match="probabilities that are no numbers: its weights are ruined"):
        list(predict_rows(run, [{"text": "Ann"}]))


def test_rows_before_a_bad_one_are_answered(run: Run) -> None:
    rows = iter(predict_rows(run, [{"text": "Ann lost a key"}, {"text": "Tom sold a hat"}, {"text": ""}], task="moods"))
    assert [next(rows)["text"], next(rows)["text"]] == ["Ann lost a key", "Tom sold a hat"]
    with pytest.raises(InputError, match="row 3: 'text' is empty"):
        next(rows)
