"""What the user names, turned into encoded tasks: raw or prepared, the same; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.records import check_record
from gpt1.finetuning.data import (
    Source,
    check_fit,
    check_training,
    identity,
    read_source,
    truncation_notices,
)
from gpt1.records.run import RecordedSource
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import EncodedTask, encode_task, save
from gpt1.tasks.examples import Labelled
from gpt1.tasks.preparing import prepare_task
from gpt1.text.tokenizer import Tokenizer, load_tokenizer
from tests.finetuning.tools import CONTEXT, encode, make_examples, make_task, write_table

MOODS = make_task()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 40))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three tasks of the catalogue in the JSONL layout."""
    for name in ("sst2", "mrpc", "storycloze"):
        task = CATALOGUE[name]
        (tmp_path / name).mkdir()
        rows = make_examples(task, 20)
        write_table(tmp_path / name / "train.jsonl", task, rows[:14])
        write_table(tmp_path / name / "dev.jsonl", task, rows[14:])
    return tmp_path


def assert_same(one: EncodedTask, other: EncodedTask) -> None:
    assert (one.task, one.context, one.vocab_size) == (other.task, other.context, other.vocab_size)
    assert one.tokenizer_fingerprint == other.tokenizer_fingerprint
    assert list(one.splits) == list(other.splits)
    for split, data in one.splits.items():
        for name, array in data.arrays.items():
            found = other.splits[split].arrays[name]
            np.testing.assert_array_equal(array, found)
            assert array.dtype == found.dtype


# ---- reading ----


def test_a_table_read_now_or_prepared_before_is_the_same_to_the_bit(table: Path, trained: Path, tmp_path: Path) -> None:
    raw, notices = read_source(Source(train=table), load_tokenizer(trained), CONTEXT)
    prepare_task(str(table), load_tokenizer(trained), tmp_path / "encoded", context=CONTEXT)
    kept, silence = read_source(Source(encoded=[tmp_path / "encoded"]), load_tokenizer(trained), CONTEXT)
    assert_same(raw["moods"], kept["moods"])
    assert identity(raw) == identity(kept)
    assert any("kept for dev" in notice for notice in notices)
    assert all("not in the vocabulary" in text for text in silence)


def test_tasks_of_the_catalogue_are_read_in_the_order_they_are_named(folder: Path, trained: Path) -> None:
    found, _ = read_source(Source(tasks=["storycloze", "sst2"], data=str(folder)), load_tokenizer(trained), CONTEXT)
    assert list(found) == ["storycloze", "sst2"]
    assert {split: len(data) for split, data in found["sst2"].splits.items()} == {"train": 14, "dev": 6}
    other, _ = read_source(Source(tasks=["sst2", "storycloze"], data=str(folder)), load_tokenizer(trained), CONTEXT)
    assert identity(found) != identity(other)  # batches would come in another order


def test_a_task_of_ones_own_is_found_by_module_and_name(
    folder: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_tasks.py").write_text(
        "from dataclasses import replace\nfrom gpt1.tasks.catalog import CATALOGUE\n"
        "MINE = replace(CATALOGUE['sst2'], name='mine.v2')\n"
    )
    monkeypatch.chdir(tmp_path)
    found, _ = read_source(Source(tasks=["my_tasks:MINE"], data=str(folder / "sst2")), load_tokenizer(trained), CONTEXT)
    assert list(found) == ["mine.v2"]


def test_examples_may_be_values_of_the_callers(trained: Path, words_tokenizer: Tokenizer) -> None:
    rows = make_examples(MOODS, 20)
    labelled = Labelled(MOODS, {"train": rows[:16], "dev": rows[16:]}, ("take care",))
    found, notices = read_source(Source(examples=labelled), load_tokenizer(trained), CONTEXT)
    assert_same(found["moods"], encode_task(MOODS, labelled.splits, words_tokenizer, CONTEXT))
    assert notices[0] == "take care"
    assert all("not in the vocabulary (the commonest: " in text for text in notices[1:])


def test_encoded_tasks_may_be_values_or_folders(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    one, other = encode(MOODS, words_tokenizer), encode(make_task("pairs", "pair"), words_tokenizer)
    save(other, tmp_path / "pairs")
    found, _ = read_source(Source(encoded=[one, tmp_path / "pairs"]), load_tokenizer(trained), CONTEXT)
    assert list(found) == ["moods", "pairs"]
    assert found["moods"] is one
    assert_same(found["pairs"], other)


def test_two_tasks_of_one_name_are_refused(trained: Path, words_tokenizer: Tokenizer) -> None:
    one = encode(MOODS, words_tokenizer)
    with pytest.raises(SettingError, match="two tasks have one name: moods, moods"):
        read_source(Source(encoded=[one, one]), load_tokenizer(trained), CONTEXT)


# ---- what is named ----


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to learn is named; name a table, `train=TABLE`, or a task and the folder of its data, `task="),
        ({"tasks": ["sst2"], "data": "d", "train": "t.csv"}, "leave out all but one of `task` and `train`"),
        ({"train": "t.csv", "encoded": ["e"]}, "leave out all but one of `train` and `encoded`"),
        ({"tasks": ["sst2"]}, "where is the data of 'sst2'"),
        ({"tasks": ["sst2"], "data": "d", "dev": "d.csv"}, "go with `train`"),
        ({"encoded": ["e"], "test": "t.csv"}, "go with `train`"),
        ({"encoded": ["e"], "columns": {"text": "x"}}, "go with `train`"),
        ({"tasks": ["sst2"], "data": "d", "regression": True}, "go with `train`"),
        ({"encoded": ["e"], "symmetric": True}, "go with `train`"),
    ],
)
def test_what_cannot_go_together_is_refused_before_anything_is_read(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Source(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("given", [{"train": Path("t.csv")}, {"encoded": [Path("e")]}], ids=["train", "encoded"])
def test_a_folder_of_tasks_beside_something_else_to_learn_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="`data`"):
        Source(**given, data="folder")


@pytest.mark.parametrize("name", ["reviews", "sst2"])
def test_a_table_without_a_suffix_is_said_to_be_one(table: Path, trained: Path, name: str) -> None:
    with pytest.raises(InputError, match="is a file without a suffix; read are"):
        read_source(Source(train=table.rename(table.with_name(name))), load_tokenizer(trained), CONTEXT)


def test_a_source_can_be_written_down_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (
        Source(
            train=Path("a.csv"),
            dev=Path("b.csv"),
            columns={"text": "x"},
            regression=True,
            encoding="cp1252",
        ),
        Source(tasks=["sst2", "mine:TASK"], data="glue"),
        Source(encoded=[Path("one"), Path("two")]),
    ):
        kept = check_record(json.loads(json.dumps(source.recorded().as_json())), RecordedSource, "run.json")
        for name in ("train", "dev", "test"):
            path = getattr(source, name)
            assert getattr(kept, name) == (None if path is None else str(tmp_path / path))
        assert kept.data == (None if source.data is None else str(tmp_path / source.data))
        how = source.columns, source.regression, source.encoding
        assert (kept.columns, kept.regression, kept.encoding) == how
        assert kept.tasks == list(source.tasks)
        assert kept.encoded == [str(tmp_path / str(path)) for path in source.encoded]


def test_a_data_set_of_the_hub_keeps_its_name() -> None:
    source = Source(tasks=["rte"], data="hub:nyu-mll/glue")
    assert source.recorded().data == "hub:nyu-mll/glue"


# ---- what is refused ----


def test_examples_of_another_tokenizer_or_a_longer_context_are_refused(
    words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    fits = {"fingerprint": words_tokenizer.fingerprint, "context": CONTEXT, "init": Path("runs/base")}
    check_fit({"moods": encode(MOODS, words_tokenizer)}, **fits)
    check_fit({"moods": encode(MOODS, words_tokenizer, context=CONTEXT - 1)}, **fits)
    with pytest.raises(
        InputError, match=r"another tokenizer than that of runs/base; encode it with `gpt1\.prepare\(tok"
    ):
        check_fit({"moods": encode(MOODS, bytes_tokenizer)}, **fits)
    with pytest.raises(
        InputError, match=r"a context of 17 tokens, runs/base has 16; encode it with `gpt1\.prepare\(cont"
    ):
        check_fit({"moods": encode(MOODS, words_tokenizer, context=CONTEXT + 1)}, **fits)


def test_a_task_without_training_examples_or_with_unlabelled_ones_is_refused(words_tokenizer: Tokenizer) -> None:
    rows = make_examples(MOODS, 6)
    for splits in ({"dev": rows}, {"train": [], "dev": rows}):
        with pytest.raises(InputError, match="task 'moods' has no training examples; it can only be evaluated"):
            check_training({"moods": encode_task(MOODS, splits, words_tokenizer, CONTEXT)})
    rows[4] = replace(rows[4], label=None)
    with pytest.raises(InputError, match="task 'moods': training example 5 has no label"):
        check_training({"moods": encode_task(MOODS, {"train": rows}, words_tokenizer, CONTEXT)})


# ---- what tells examples apart ----


def test_the_identity_is_that_of_tasks_and_rows_to_learn_from_and_choose_by(words_tokenizer: Tokenizer) -> None:
    rows = make_examples(MOODS, 20)

    def known(task: Any = MOODS, train: Any = rows[:16], dev: Any = rows[16:]) -> str:
        splits = {"train": train, "dev": dev}
        return identity({task.name: encode_task(task, splits, words_tokenizer, CONTEXT)})

    other = [replace(rows[0], label=1 - int(rows[0].label or 0)), *rows[1:16]]
    assert known() == known()
    found = [
        known(),
        known(dev=rows[17:]),
        known(train=rows[:15]),
        known(train=rows[1:16] + rows[:1]),
        known(train=other),
        known(task=make_task("moods", labels=("bad", "fine"))),
        known(task=make_task("feelings")),
    ]
    assert len(set(found)) == len(found)


# ---- what is told ----


def test_texts_over_the_context_are_counted_by_split(words_tokenizer: Tokenizer) -> None:
    rows = make_examples(MOODS, 10)
    long = [
        replace(row, texts=(row.texts[0] + " and so on" * times,)) for row, times in zip(rows, [9, 5, 0], strict=False)
    ]
    task = encode_task(MOODS, {"train": rows[3:], "dev": long}, words_tokenizer, context=CONTEXT)
    cut = task.splits["dev"].cut
    assert (cut > 0).tolist() == [True, True, False]
    told = truncation_notices({"moods": task})
    lost = f"{cut.sum():,} in all, at most {cut.max():,} each"
    assert told == [f"moods dev: 2 of 3 examples are longer than 16 tokens and lost {lost}"]
