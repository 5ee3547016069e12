"""A table answered into a file: it leads back to the sheet, is whole or not there, and goes on where it was."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError, InputError, Interrupted, SettingError
from gpt1.base.tables import read_rows
from gpt1.inference import answer_files
from gpt1.inference.answer_files import answer_table, rows_line
from gpt1.inference.run import Run, load_run
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.records.ensemble import ENSEMBLE_FILE
from gpt1.records.thresholds import THRESHOLDS_FILE
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.inference.tools import STEP, make_calibrated, make_run

MOODS = Task(
    name="moods", title="moods", shape=SINGLE, labels=("glad", "triste ō"), metrics=("accuracy",), fields=("text",)
)


@pytest.fixture(scope="module")
def moods(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run that has learned to read moods."""
    return load_run(make_run(tmp_path_factory.mktemp("moods"), words_tokenizer, MOODS), device="cpu")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer two rows at a time."""
    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 2)
    monkeypatch.setattr("gpt1.inference.rows.EXPLAINED", 2)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def back(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(path)]


def stopping(after: int, error: type[BaseException]) -> Callable[..., Any]:
    """Return a network that stops at a chunk."""
    calls = []
    original = answer_files.Answering.answer

    def answer(self: Any, chunk: Any) -> Any:
        calls.append(1)
        if len(calls) > after:
            raise error
        return original(self, chunk)

    return answer


TABLE = "id,text\n1,Ann lost a key\n2,Tom sold a hat\n\n3,Dr. Wu ran\n4,A dog\n5,It rains\n"


def test_separator_byte_order_mark_rows_and_cells_are_those_of_the_table(moods: Run, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", codecs.BOM_UTF8 + 'id;text\r\n007;"Köln; ""so"""\r\n\r\n-5;=1+1\r\n'.encode())
    told: list[str] = []
    assert answer_table(moods, table, tmp_path / "out.csv", notice=told.append) == 2
    content = (tmp_path / "out.csv").read_bytes()
    assert content.startswith(codecs.BOM_UTF8 + b"row;id;text;prediction;confidence;p_glad;p_triste")
    first, second = back(tmp_path / "out.csv")
    assert (first["row"], first["id"], first["text"]) == ("2", "007", 'Köln; "so"')
    assert (second["row"], second["id"], second["text"]) == ("4", "-5", "'=1+1")
    assert sum("1 cell would be a formula" in one for one in told) == 1
    assert float(first["p_glad"]) + float(first["p_triste ō"]) == pytest.approx(1, abs=2e-6)


def test_an_encoding_is_kept_or_told_where_it_cannot_hold_a_label(moods: Run, tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", codecs.BOM_UTF16_LE + "text\nKöln\n".encode("utf-16-le"))
    told: list[str] = []
    answer_table(moods, wide, tmp_path / "wide-out.csv", notice=told.append)
    assert (tmp_path / "wide-out.csv").read_bytes().startswith(codecs.BOM_UTF16_LE)
    assert back(tmp_path / "wide-out.csv")[0]["text"] == "Köln"
    old = write(tmp_path / "old.csv", "text\nKöln\n".encode("cp1252"))
    told.clear()
    answer_table(moods, old, tmp_path / "out.csv", encoding="cp1252", notice=told.append)
    assert (tmp_path / "out.csv").read_bytes().startswith(codecs.BOM_UTF8)
    assert back(tmp_path / "out.csv")[0]["text"] == "Köln"
    assert told[:1] == [
        f"{old} is cp1252, and {tmp_path / 'out.csv'} is UTF-8 with a byte order mark: cp1252 lacks 'ō'"
    ]


def test_rows_that_cannot_be_used_keep_their_place_with_a_reason(
    moods: Run, tmp_path: Path, small_chunks: None
) -> None:
    table = write(tmp_path / "new.csv", "id,text\n1,Ann\n2,\n3,a,b\n4,Tom\n")
    answer_table(moods, table, tmp_path / "out.csv", skip_bad=True, notice=lambda text: None)
    rows = back(tmp_path / "out.csv")
    assert [row["row"] for row in rows] == ["2", "3", "4", "5"]
    assert [bool(row["prediction"]) for row in rows] == [True, False, False, True]
    assert "row 3: 'text' is empty" in rows[1]["error"]
    assert "row 4: 3 cells where the header has 2" in rows[2]["error"]


def test_without_skip_bad_the_first_such_row_is_told_before_any_is_answered(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_files.Answering, "answer", stopping(0, AssertionError))
    table = write(tmp_path / "new.csv", TABLE + "6,\n")
    with pytest.raises(InputError, match="row 8: 'text' is empty"):
        answer_table(moods, table, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_columns_that_have_our_names_stay_and_ours_are_called_otherwise(moods: Run, tmp_path: Path) -> None:
    table = write(tmp_path / "new.jsonl", '{"text": "Ann"}\n{"text": "Tom", "row": 7, "p_glad": "mine"}\n')
    told: list[str] = []
    answer_table(moods, table, tmp_path / "out.csv", notice=told.append)
    first, second = back(tmp_path / "out.csv")
    assert (first["gpt1_row"], first["row"], second["row"], second["p_glad"]) == ("1", "", "7", "mine")
    assert told[0].startswith("the table has row, p_glad already; what is added is called gpt1_row, gpt1_prediction")


def test_parquet_to_parquet_keeps_the_types(moods: Run, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    small = pyarrow.table({"n": pyarrow.array([1, None], pyarrow.int8()), "text": ["Ann", "Tom"]})
    parquet.write_table(small, tmp_path / "new.parquet")
    answer_table(moods, tmp_path / "new.parquet", tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.select(["n", "text"]).equals(small)
    assert found.column_names[:1] + found.column_names[3:5] == ["row", "prediction", "confidence"]
    assert (found.schema.field("row").type, found.schema.field("p_glad").type) == (pyarrow.int64(), pyarrow.float64())


def test_of_very_many_labels_there_are_no_columns_and_that_is_told(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    many = Task(
        name="many",
        title="many",
        shape=SINGLE,
        labels=tuple(f"label {n}" for n in range(101)),
        metrics=("accuracy",),
        fields=("text",),
    )
    run = load_run(make_run(tmp_path / "run", words_tokenizer, many), device="cpu")
    told: list[str] = []
    answer_table(run, write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv", notice=told.append)
    assert list(back(tmp_path / "out.csv")[0]) == ["row", "id", "text", "prediction", "confidence"]
    assert told == ["101 labels are too many for a column each; .jsonl has the likeliest of each row"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("torn", [b"", b'{"answers": [{"row": 6'])
def test_what_was_stopped_goes_on_and_ends_with_the_same_bytes_and_words(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch, suffix: str, torn: bytes
) -> None:
    table = write(tmp_path / "new.csv", TABLE + "6,\n")
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    told: list[str] = []
    answer_table(moods, table, whole, skip_bad=True, notice=told.append)
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(
            Interrupted, match=r"stopped after 2 of 6 rows, kept in .*partial; the same again with `res"
        ):
            answer_table(moods, table, out, skip_bad=True, notice=told.append)
    assert not out.exists()
    partial = tmp_path / f"out.{suffix}.partial"
    partial.write_bytes(partial.read_bytes() + torn)
    with pytest.raises(InputError, match=r"a start that did not end; go on with `resume=True`, or begin anew"):
        answer_table(moods, table, out, skip_bad=True)
    again: list[str] = []
    answer_table(moods, table, out, skip_bad=True, resume=True, notice=again.append)
    assert again[0] == "going on after 2 rows"
    assert again[1:] == told == ["1 of 6 rows could not be used: see 'error'"]
    assert out.read_bytes() == whole.read_bytes()
    assert not partial.exists()


def test_another_table_or_setting_is_not_gone_on_with(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            answer_table(moods, table, out)
    with pytest.raises(InputError, match="was begun with another `skip_bad`; give the same again, or begin anew"):
        answer_table(moods, table, out, resume=True, skip_bad=True)
    write(table, TABLE.replace("dog", "cat"))
    with pytest.raises(InputError, match="was begun with another table"):
        answer_table(moods, table, out, resume=True)
    write(table, TABLE)
    partial = tmp_path / "out.csv.partial"
    partial.write_bytes(partial.read_bytes().replace(b"confidence", b"confid3nce"))
    with pytest.raises(FormatError, match="begin anew with `overwrite=True`"):
        answer_table(moods, table, out, resume=True)
    answer_table(moods, table, out, overwrite=True)
    assert len(back(out)) == 5


def test_answers_of_two_calibrations_are_not_mixed(
    tmp_path: Path, words_tokenizer: Tokenizer, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_calibrated(tmp_path / "run", words_tokenizer, MOODS)
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            answer_table(load_run(folder, device="cpu"), table, out)
    warmer = {MOODS.name: TaskCalibration("because", temperature=2.0)}
    CalibrationRecord(STEP, warmer).write(folder / CALIBRATION_FILE)
    with pytest.raises(InputError, match=r"was begun with another calibration\.json; give the same again"):
        answer_table(load_run(folder, device="cpu"), table, out, resume=True)


@pytest.mark.parametrize("name", [ENSEMBLE_FILE, THRESHOLDS_FILE])
def test_nor_those_of_others_who_answer_or_of_other_thresholds(
    tmp_path: Path, words_tokenizer: Tokenizer, small_chunks: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = load_run(make_run(tmp_path / "run", words_tokenizer, MOODS), device="cpu")
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            answer_table(run, table, out)
    write(run.path / name, "{}")
    with pytest.raises(InputError, match=f"was begun with another {name}"):
        answer_table(run, table, out, resume=True)


def test_a_line_that_lost_its_end_alone_is_answered_again(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, whole, out = write(tmp_path / "new.csv", TABLE), tmp_path / "whole.csv", tmp_path / "out.csv"
    answer_table(moods, table, whole)
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(2, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            answer_table(moods, table, out)
    partial = tmp_path / "out.csv.partial"
    partial.write_bytes(partial.read_bytes().removesuffix(b"\n"))
    told: list[str] = []
    answer_table(moods, table, out, resume=True, notice=told.append)
    assert told == ["going on after 2 rows"]
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("damaged", [b"no JSON\n", b"[]\n"])
def test_what_is_damaged_is_begun_anew_where_that_is_asked_for(moods: Run, tmp_path: Path, damaged: bytes) -> None:
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    write(tmp_path / "out.csv.partial", damaged)
    assert answer_table(moods, table, out, overwrite=True) == 5
    assert len(back(out)) == 5
    assert not (tmp_path / "out.csv.partial").exists()


def test_a_table_is_never_replaced_by_its_answers(moods: Run, tmp_path: Path) -> None:
    table, link = write(tmp_path / "new.csv", TABLE), tmp_path / "link.csv"
    link.hardlink_to(table)
    for out in (table, link):
        with pytest.raises(SettingError, match="is the table that is read; write the answers to another file"):
            answer_table(moods, table, out, overwrite=True)
    assert table.read_text() == TABLE


def test_integers_of_any_length_go_to_parquet(moods: Run, tmp_path: Path, small_chunks: None) -> None:
    rows = [{"text": "Ann", "id": 1}, {"text": "Tom", "id": 2}, {"text": "Wu", "id": 2**64}]
    table = write(tmp_path / "new.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    answer_table(moods, table, tmp_path / "out.parquet")
    assert [row["id"] for row in back(tmp_path / "out.parquet")] == ["1", "2", str(2**64)]


def killed_when_whole(run: Run, table: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer a table, and leave what would have been tidied up."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        answer_table(run, table, out)


def test_a_start_that_was_killed_when_its_file_was_whole_is_done(
    moods: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    killed_when_whole(moods, table, out, monkeypatch)
    before, told = out.read_bytes(), list[str]()
    assert (tmp_path / "out.csv.partial").exists()
    assert answer_table(moods, table, out, resume=True, notice=told.append) == 5
    assert (out.read_bytes(), told) == (before, [f"{out} is whole already"])
    assert not (tmp_path / "out.csv.partial").exists()
    with pytest.raises(InputError, match="is there already"):
        answer_table(moods, table, out, resume=True)


def test_but_not_for_another_table_or_run(
    moods: Run, tmp_path: Path, words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = write(tmp_path / "new.csv", TABLE), tmp_path / "out.csv"
    killed_when_whole(moods, table, out, monkeypatch)
    before = out.read_bytes()
    other = write(tmp_path / "other.csv", TABLE.replace("dog", "cat"))
    with pytest.raises(InputError, match="was begun with another table; give the same again"):
        answer_table(moods, other, out, resume=True)
    stranger = load_run(make_run(tmp_path / "run", words_tokenizer, MOODS, seed=1), device="cpu")
    with pytest.raises(InputError, match="was begun with another run; give the same again"):
        answer_table(stranger, table, out, resume=True)
    assert out.read_bytes() == before
    assert (tmp_path / "out.csv.partial").exists()


def test_a_table_that_changes_meanwhile_is_not_written_with_the_wrong_answers(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write(tmp_path / "new.csv", TABLE)
    original = answer_files._answer_rest

    def answer_rest(*given: Any) -> None:
        original(*given)
        write(table, TABLE.replace("dog", "cat"))

    monkeypatch.setattr(answer_files, "_answer_rest", answer_rest)
    with pytest.raises(InputError, match="was changed while it was answered"):
        answer_table(moods, table, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_how_far_it_is_and_how_long_it_takes_is_told() -> None:
    assert rows_line(2048, 9000, 1024, 2.0) == "2,048 of 9,000 rows  512 a second  0:14 left"
    assert rows_line(9000, 9000, 9000, 2.0) == "9,000 of 9,000 rows  4,500 a second"
    assert rows_line(2, 90, 2, 4.0) == "2 of 90 rows  0.5 a second  2:56 left"


def test_json_lines_have_probabilities_as_an_object(moods: Run, tmp_path: Path) -> None:
    answer_table(moods, write(tmp_path / "new.csv", TABLE), tmp_path / "out.jsonl")
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert list(first) == ["row", "id", "text", "prediction", "probabilities", "confidence"]
    assert list(first["probabilities"]) == list(MOODS.labels)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_reasons_are_kept_too_when_it_goes_on(
    moods: Run, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    table = write(tmp_path / "new.csv", "id,text\n1,= Ann lost a key\n2,Tom sold a hat\n3,=\n4,A dog\n5,It rains\n")
    told: list[str] = []
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    answer_table(moods, table, whole, explain=True, notice=told.append)
    with monkeypatch.context() as patch:
        patch.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(Interrupted):
            answer_table(moods, table, out, explain=True, notice=told.append)
    for other in (False, "glad"):
        with pytest.raises(InputError, match="was begun with another `explain`"):
            answer_table(moods, table, out, explain=other, resume=True, notice=told.append)
    answer_table(moods, table, out, explain=True, resume=True, notice=told.append)
    assert out.read_bytes() == whole.read_bytes()
    first, *_ = back(out)
    if suffix == "jsonl":
        (why,) = first["explanation"]
        assert [word["word"] for word in why["words"]] == ["=", "Ann", "lost", "a", "key"]
        assert set(why["words"][0]) == {"field", "word", "start", "end", "weight"}
    else:
        assert all(f"{word} (" in first["explanation"] for word in ("Ann", "lost", "key"))


def test_a_reason_that_would_be_a_formula_is_made_harmless(moods: Run, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", "text\n=\n")
    told: list[str] = []
    answer_table(moods, table, tmp_path / "out.csv", explain=True, notice=told.append)
    (row,) = back(tmp_path / "out.csv")
    assert row["explanation"].startswith("'= (")
    assert any("2 cells would be a formula" in one for one in told)


def test_explained_rows_are_kept_a_few_at_a_time_for_each_takes_long(
    moods: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write(tmp_path / "new.csv", "text\n" + "".join(f"Ann lost {number} keys\n" for number in range(20)))
    given: dict[str, Any] = {"explain": True, "notice": lambda text: None}
    answer_table(moods, table, tmp_path / "whole.csv", **given)
    with monkeypatch.context() as patched:
        patched.setattr(answer_files.Answering, "answer", stopping(1, KeyboardInterrupt))
        with pytest.raises(Interrupted, match="stopped after 16 of 20 rows"):
            answer_table(moods, table, tmp_path / "out.csv", **given)
    answer_table(moods, table, tmp_path / "out.csv", resume=True, **given)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
