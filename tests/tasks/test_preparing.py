"""From the name of a task, or a table, to a folder of encoded splits and what a person is told of it."""

from __future__ import annotations

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.encoded import load
from gpt1.tasks.preparing import describe, prepare_task


@pytest.fixture
def table(tmp_path):
    """A table of the labels c0 to c7, each twice, in an encoding that is not UTF-8."""
    rows = "".join(f"caf\u00e9 {n},c{n % 8}\n" for n in range(16))
    (tmp_path / "cafes.csv").write_bytes(f"text,label\n{rows}".encode("cp1252"))
    return tmp_path / "cafes.csv"


def test_a_table_is_read_in_the_encoding_asked_for(table, tmp_path, bytes_tokenizer):
    encoded, notices = prepare_task(str(table), bytes_tokenizer, tmp_path / "out", encoding="cp1252")
    assert notices == ()
    assert len(load(tmp_path / "out").splits["train"]) == len(encoded.splits["train"]) == 16
    with pytest.raises(InputError, match="0xe9 is not utf-8"):
        prepare_task(str(table), bytes_tokenizer, tmp_path / "out")


def test_a_folder_of_a_task_is_read_in_the_encoding_asked_for(tmp_path, bytes_tokenizer):
    rows = '{"text": "caf\u00e9", "label": 1}\n{"text": "bad", "label": 0}\n'
    (tmp_path / "train.jsonl").write_bytes(rows.encode("cp1252"))
    encoded, _ = prepare_task("sst2", bytes_tokenizer, tmp_path / "out", data=tmp_path, encoding="cp1252")
    assert len(encoded.splits["train"]) == 2


def test_many_labels_are_described_by_a_few(table, tmp_path, bytes_tokenizer):
    encoded, _ = prepare_task(str(table), bytes_tokenizer, tmp_path / "out", encoding="cp1252")
    assert describe(encoded)[0] == "cafes: single of text; label label: c0, c1, c2, c3, c4, 3 more"


def test_a_folder_with_other_files_is_refused_before_anything_is_read(tmp_path, bytes_tokenizer):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"holds other files \(notes\.txt\)"):
        prepare_task("nowhere.csv", bytes_tokenizer, tmp_path)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("rows.csv", {"data": "folder"}, "is a table, so --data has no meaning"),
        ("sst2", {"data": "folder", "regression": True}, "its own files and columns"),
        ("sst2", {}, "where is the data of 'sst2'"),
    ],
)
def test_settings_that_do_not_fit_the_task_are_refused(tmp_path, bytes_tokenizer, task, settings, message):
    with pytest.raises(SettingError, match=message):
        prepare_task(task, bytes_tokenizer, tmp_path / "out", **settings)
