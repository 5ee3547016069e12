"""From the name of a task, or a table, to a folder of encoded splits and what a person is told of it."""

from __future__ import annotations

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.encoded import load
from gpt1.tasks.preparing import describe, prepare_task, read_task


@pytest.fixture
def table(tmp_path):
    """A table of the labels c0 to c7, each twice, in an encoding that is not UTF-8."""
    rows = "".join(f"caf\u00e9 {n},c{n % 8}\n" for n in range(16))
    (tmp_path / "cafes.csv").write_bytes(f"text,label\n{rows}".encode("cp1252"))
    return tmp_path / "cafes.csv"


def test_a_table_is_read_in_the_encoding_asked_for(table, tmp_path, bytes_tokenizer):
    encoded, notices = prepare_task(str(table), bytes_tokenizer, tmp_path / "out", encoding="cp1252")
    assert [split for split in notices if "kept for dev" not in split] == []
    assert {name: len(split) for name, split in load(tmp_path / "out").splits.items()} == {"train": 8, "dev": 8}
    assert len(encoded.splits["train"]) == 8
    with pytest.raises(InputError, match="0xe9 is not utf-8"):
        prepare_task(str(table), bytes_tokenizer, tmp_path / "out")


def test_a_folder_of_a_task_is_read_in_the_encoding_asked_for(tmp_path, bytes_tokenizer):
    rows = '{"text": "caf\u00e9", "label": 1}\n{"text": "bad", "label": 0}\n'
    (tmp_path / "train.jsonl").write_bytes(rows.encode("cp1252"))
    encoded, _ = prepare_task("sst2", bytes_tokenizer, tmp_path / "out", data=tmp_path, encoding="cp1252")
    assert len(encoded.splits["train"]) == 2


def test_a_table_without_dev_rows_gives_some_of_its_own(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(40)))
    found = read_task(str(tmp_path / "train.csv"))
    assert {split: len(examples) for split, examples in found.splits.items()} == {"train": 36, "dev": 4}
    how = "drawn evenly over the labels and always the same"
    assert found.notices == (f"there are no dev rows: 4 rows of the 40 in train kept for dev, {how}",)
    assert read_task(str(tmp_path / "train.csv")) == found


def test_tables_for_dev_and_test_are_compared_with_the_training_rows(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\ngood,1\nbad,0\nfine,1\nFINE,0\n")
    (tmp_path / "dev.csv").write_text("text,label\nbad,0\n")
    (tmp_path / "test.csv").write_text("text\ngood\n")
    found = read_task(str(tmp_path / "train.csv"), dev=tmp_path / "dev.csv", test=tmp_path / "test.csv")
    assert found.notices == (
        "train: 1 text with more than one label (rows 4 and 5)",
        "dev: the texts of 1 row stand in train too, which flatters the score (row 2 is 3 of train)",
        "test: the texts of 1 row stand in train too, which flatters the score (row 2 is 2 of train)",
    )


def test_the_files_of_a_folder_are_completed_in_the_same_way(tmp_path):
    rows = [f'{{"text": "row {n}", "label": "{n % 2}"}}\n' for n in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(rows))
    (tmp_path / "test.jsonl").write_text(rows[0])
    found = read_task("sst2", data=tmp_path)
    assert [len(found.splits[split]) for split in ("train", "dev", "test")] == [18, 2, 1]
    assert len(found.notices) == 2


def test_ten_megabytes_in_one_cell_are_cut_and_told(tmp_path, words_tokenizer):
    book = "Ann sold 3 apples. " * 530_000
    (tmp_path / "train.csv").write_text(f'text,label\ngood,1\nbad,0\n"{book}",1\n')
    (tmp_path / "dev.csv").write_text("text,label\nfine,1\n")
    out = tmp_path / "out"
    encoded, notices = prepare_task(str(tmp_path / "train.csv"), words_tokenizer, out, dev=tmp_path / "dev.csv")
    assert [len(sequence) for sequence in encoded.splits["train"].sequences(2)] == [512]
    assert encoded.splits["train"].cut[2] > 2_000_000
    said = "train: very long texts, all but their beginning will be cut: row 4 with 10,070,000 characters"
    assert said in notices


def test_a_symmetric_pair_is_read_in_both_orders(tmp_path, words_tokenizer):
    (tmp_path / "train.csv").write_text("a,b,label\nx,y,1\nu,v,0\n")
    encoded, _ = prepare_task(str(tmp_path / "train.csv"), words_tokenizer, tmp_path / "out", symmetric=True)
    assert encoded.task.shape == "both"
    one, other = encoded.splits["train"].sequences(0)
    assert sorted(one) == sorted(other)
    (tmp_path / "single.csv").write_text("text,label\nx,1\nu,0\n")
    with pytest.raises(SettingError, match=r"`symmetric` is for rows of two texts; .*single\.csv has text"):
        read_task(str(tmp_path / "single.csv"), symmetric=True)


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
        ("rows.csv", {"data": "folder"}, "is a table, so `data` has no meaning"),
        ("sst2", {"data": "folder", "regression": True}, "its own files and columns"),
        ("mrpc", {"data": "folder", "symmetric": True}, "its own files and columns"),
        ("sst2", {}, "where is the data of 'sst2'"),
    ],
)
def test_settings_that_do_not_fit_the_task_are_refused(tmp_path, bytes_tokenizer, task, settings, message):
    with pytest.raises(SettingError, match=message):
        prepare_task(task, bytes_tokenizer, tmp_path / "out", **settings)
