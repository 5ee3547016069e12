"""Encoded tasks: what the arrays hold, and that a folder is read back to the bit or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import EncodedTask, choose, encode_task, join, load, save, text_key
from gpt1.tasks.examples import Example
from gpt1.tasks.readers import read_folder
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.unknowns import unknown_by_example
from gpt1.tasks.windows import MOST_WINDOWS
from tests.reference.shapes import reference_layout

ARRAYS = ("ids", "offsets", "labels", "groups", "cut")


class ToyTokenizer:
    """A word's id is the number at its end, and 0 without one; remembers what it was asked."""

    fingerprint = "toy"

    def __init__(self, vocab_size: int = 100) -> None:
        self.vocab_size = vocab_size
        self.asked: list[str] = []

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        self.asked += texts
        return [[int("".join(filter(str.isdigit, word)) or 0) for word in text.split()] for text in texts]


def words(*ids: int) -> str:
    return " ".join(f"w{number}" for number in ids)


def pairs(*examples: Example) -> EncodedTask:
    return encode_task(CATALOGUE["rte"], {"train": examples}, ToyTokenizer(), context=12)


def assert_same(one: EncodedTask, other: EncodedTask) -> None:
    assert (one.task, one.context, one.tokenizer_fingerprint, one.vocab_size) == (
        (other.task, other.context, other.tokenizer_fingerprint, other.vocab_size)
    )
    assert list(one.splits) == list(other.splits)
    for split in one.splits:
        for name in ARRAYS:
            ours, theirs = getattr(one.splits[split], name), getattr(other.splits[split], name)
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()


# What the arrays hold


def test_sequences_lie_one_after_another_and_offsets_part_them():
    split = pairs(Example((words(1, 2), words(3)), 1, 1), Example((words(4), words(5)), 0, 2)).splits["train"]
    assert split.ids.tolist() == [100, 1, 2, 101, 3, 102, 100, 4, 101, 5, 102]
    assert split.offsets.tolist() == [0, 6, 11]
    assert split.labels.tolist() == [1, 0]
    assert split.sequences(1)[0].tolist() == [100, 4, 101, 5, 102]
    assert len(split) == 2


def test_tokens_lost_to_the_context_are_counted_by_example():
    split = pairs(Example((words(*range(9)), words(1, 2)), 1, 1), Example(("w1", "w2"), 0, 2)).splits["train"]
    assert split.cut.tolist() == [2, 0]


def test_every_distinct_text_is_encoded_once():
    tokenizer = ToyTokenizer()
    race = Example(("w1 w2", "w3", "w4", "w5", "w6", "w1 w2"), 0, 1)
    encode_task(CATALOGUE["race"], {"train": [race, race], "dev": [race]}, tokenizer)
    assert sorted(tokenizer.asked) == ["w1 w2", "w3", "w4", "w5", "w6"]


def test_more_texts_than_a_batch_are_all_encoded(monkeypatch):
    monkeypatch.setattr("gpt1.tasks.encoded._BATCH", 2)
    split = pairs(Example(("w1", "w2"), 1, 1), Example(("w3", "w4"), 0, 2), Example(("w5", "w1"), 0, 3)).splits["train"]
    assert [int(token) for token in split.ids if token < 100] == [1, 2, 3, 4, 5, 1]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(40_478, "<u2"), (65_533, "<u2"), (65_534, "<u4")])
def test_ids_take_two_bytes_while_vocabulary_and_specials_fit(vocab_size, dtype):
    encoded = encode_task(CATALOGUE["sst2"], {"dev": [Example(("w1",), 0, 1)]}, ToyTokenizer(vocab_size))
    ids = encoded.splits["dev"].ids
    assert ids.dtype == np.dtype(dtype)
    assert ids.tolist() == [vocab_size, 1, vocab_size + 2]


def test_an_example_without_a_label_is_marked_as_such():
    examples = [Example(("w1",), None, 1), Example(("w1",), 0, 2)]
    split = encode_task(CATALOGUE["sst2"], {"test": examples}, ToyTokenizer()).splits["test"]
    assert split.labels.dtype == np.int64
    assert split.labelled.tolist() == [False, True]


def test_scores_stay_floats_and_a_missing_one_is_no_score():
    examples = [Example(("w1", "w2"), 4.75, 1), Example(("w1", "w2"), None, 2)]
    split = encode_task(CATALOGUE["stsb"], {"test": examples}, ToyTokenizer()).splits["test"]
    assert split.labels.dtype == np.float64
    assert split.labels[0] == 4.75
    assert split.labelled.tolist() == [True, False]


def test_levels_of_race_are_kept():
    texts = ("w1", "w2", "w3", "w4", "w5", "w6")
    examples = [Example(texts, 0, 1, group=1), Example(texts, 0, 2, group=None)]
    assert encode_task(CATALOGUE["race"], {"dev": examples}, ToyTokenizer()).splits["dev"].groups.tolist() == [1, -1]


def test_arrays_cannot_be_written_to(tmp_path):
    encoded = pairs(Example(("w1", "w2"), 1, 1))
    save(encoded, tmp_path)
    for found in (encoded, load(tmp_path)):
        with pytest.raises(ValueError, match="read-only"):
            found.splits["train"].ids[0] = 0


def test_an_example_with_too_few_texts_is_refused():
    with pytest.raises(InputError, match="train, row 7: 1 texts, expected 2"):
        pairs(Example(("w1",), 1, 7))


def test_a_split_the_task_does_not_have_is_refused():
    with pytest.raises(SettingError, match="unknown split 'valid'"):
        encode_task(CATALOGUE["rte"], {"valid": []}, ToyTokenizer())


@given(
    st.sampled_from(["sst2", "rte", "mrpc", "dpr"]),
    st.lists(st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=4, max_size=4), max_size=5),
    st.integers(4, 20),
)
def test_arrays_hold_what_the_reference_lays_out(name, rows, context):
    task = CATALOGUE[name]
    parts = [row[: task.texts] for row in rows]
    examples = [Example(tuple(words(*part) for part in row), 0, 1) for row in parts]
    split = encode_task(task, {"train": examples}, ToyTokenizer(), context).splits["train"]
    expected = [reference_layout(task.shape, row, context) for row in parts]
    names = {100: "S", 101: "D", 102: "E"}
    found = [[[names.get(int(i), int(i)) for i in s] for s in split.sequences(e)] for e in range(len(split))]
    assert found == [sequences for sequences, _ in expected]
    assert split.cut.tolist() == [cut for _, cut in expected]
    assert len(split.offsets) == len(rows) * task.sequences + 1


# Every task of the catalogue, from rows to disk and back


def tiny_rows(task: Task, count: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        if task.shape == CHOICES:
            row: dict[str, Any] = {field: f"{field} w{number}" for field in task.fields[:-1]}
            row |= {task.fields[-1]: [f"answer w{k}" for k in range(task.choices)], "label": number % task.choices}
        else:
            row = {field: f"{field} w{number}" for field in task.fields}
            row["label"] = task.labels[number % len(task.labels)] if task.labels else number * 5 / count
        if task.groups:
            row[task.group_field] = task.groups[number % len(task.groups)]
        rows.append(row)
    return rows


@pytest.mark.parametrize("task", CATALOGUE.values(), ids=lambda task: task.name)
def test_every_task_keeps_the_contract(task, tmp_path):
    sizes = {split: 8 + index for index, split in enumerate(task.splits)}
    for split, size in sizes.items():
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, tiny_rows(task, size))))
    labelled = read_folder(task, tmp_path)
    encoded = encode_task(task, labelled.splits, ToyTokenizer(), context=16)
    save(encoded, tmp_path / "encoded")
    found = load(tmp_path / "encoded")
    assert_same(found, encoded)
    assert {split: len(data) for split, data in found.splits.items()} == sizes
    highest = task.score_range[1] if task.score_range else (task.choices or len(task.labels)) - 1
    for data in found.splits.values():
        assert len(data.offsets) == len(data) * task.sequences + 1
        assert data.labelled.all()
        assert data.labels.min() == 0
        assert data.labels.max() <= highest
        starts = data.ids[data.offsets[:-1]]
        extracts = data.ids[data.offsets[1:] - 1]
        assert (starts == 100).all()
        assert (extracts == 102).all()
        assert set(data.groups.tolist()) == ({0, 1} if task.groups else {-1})


# On disk


@pytest.fixture
def saved(tmp_path):
    example = Example((words(1, 2), words(3)), 1, 1)
    splits = {"train": [example] * 3, "dev": [example]}
    save(encode_task(CATALOGUE["rte"], splits, ToyTokenizer()), tmp_path)
    return tmp_path


def edit_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps(manifest | changes))


def test_the_same_task_gives_the_same_bytes(saved, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    save(load(saved), again)
    names = ["dev.encoded", "task.json", "train.encoded"]
    assert sorted(path.name for path in again.iterdir()) == names
    assert [(again / name).read_bytes() for name in names] == [(saved / name).read_bytes() for name in names]


def test_the_bytes_of_an_encoded_task_do_not_change_from_version_to_version(saved):
    data = (saved / "dev.encoded").read_bytes()
    numbers = [0, 6, 1, -1, 0]  # offsets, label, group, tokens cut
    expected = b"gpt1enc\n" + np.array(numbers, "<i8").tobytes() + np.array([100, 1, 2, 101, 3, 102], "<u2").tobytes()
    assert data == expected


def test_an_encoded_task_replaces_another_only_when_it_is_told_to(saved):
    encoded, before = pairs(Example(("w1", "w2"), 0, 1)), load(saved)
    with pytest.raises(InputError, match=r"holds another task; choose another folder, or replace it with `restart"):
        save(encoded, saved)
    assert_same(load(saved), before)
    save(before, saved)  # the same once more does no harm
    save(encoded, saved, restart=True)
    assert_same(load(saved), encoded)


def test_a_damaged_task_gives_way_to_the_one_that_is_prepared_again(saved):
    before = load(saved)
    (saved / "dev.encoded").write_bytes(b"")
    save(before, saved)
    assert_same(load(saved), before)


def test_a_preparation_that_fails_leaves_the_task_before_it(saved, monkeypatch):
    def fail(*_: Any) -> None:
        raise InputError("disk full")

    before = load(saved)
    monkeypatch.setattr("gpt1.tasks.encoded._save_split", fail)
    with pytest.raises(InputError, match="disk full"):
        save(pairs(Example(("w1", "w2"), 0, 1)), saved, restart=True)
    assert_same(load(saved), before)


@pytest.mark.parametrize("after", ["0", "1"], ids=["before the manifest", "after the manifest"])
@pytest.mark.parametrize("new", [True, False], ids=["new folder", "over a task"])
def test_a_preparation_that_was_killed_is_not_loaded_and_gives_way(saved, tmp_path_factory, new, after):
    encoded = load(saved)
    out = tmp_path_factory.mktemp("out") if new else saved
    program = (
        "import os, sys; from pathlib import Path; from gpt1.tasks import encoded\n"
        "source, out, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]); write = encoded.write_json\n"
        "encoded.write_json = lambda *given: (write(*given) if after else None, os.kill(os.getpid(), 9))\n"
        "encoded.save(encoded.load(source), out, restart=True)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(saved), str(out), after]).returncode == -9
    with pytest.raises((FormatError, InputError), match=r"is missing|task\.json does not exist"):
        load(out)
    save(encoded, out)
    assert_same(load(out), encoded)
    assert sorted(path.name for path in out.iterdir()) == ["dev.encoded", "task.json", "train.encoded"]


@pytest.mark.parametrize("kind", ["no task", "a task", "a damaged task"])
def test_a_file_that_no_task_names_is_refused_and_stays(saved, kind):
    if kind == "no task":
        for path in saved.iterdir():
            path.unlink()
    if kind == "a damaged task":
        (saved / "task.json").write_bytes((saved / "task.json").read_bytes()[:150])
    (saved / "thesis.encoded").write_text("mine")
    before = sorted(saved.iterdir())
    with pytest.raises(InputError, match=r"holds other files \(thesis\.encoded\); choose a new or empty folder"):
        save(pairs(Example(("w1", "w2"), 0, 1)), saved, restart=True)
    assert sorted(saved.iterdir()) == before
    assert (saved / "thesis.encoded").read_text() == "mine"


def test_a_task_whose_manifest_cannot_be_read_gives_way(saved):
    (saved / "task.json").write_bytes((saved / "task.json").read_bytes()[:150])
    save(encoded := pairs(Example(("w1", "w2"), 0, 1)), saved)
    assert_same(load(saved), encoded)
    assert sorted(path.name for path in saved.iterdir()) == ["task.json", "train.encoded"]


def test_a_new_task_leaves_nothing_of_the_one_before(saved):
    (saved / "dev.encoded.123.tmp").touch()  # a kill leaves such a file
    save(pairs(Example(("w1", "w2"), 0, 1)), saved, restart=True)
    assert sorted(path.name for path in saved.iterdir()) == ["task.json", "train.encoded"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "mine"),
        ("draft.tmp", "mine"),
        ("task.json", '{"format": "another"}'),
        ("task.json", "not JSON"),
        ("dev.encoded", None),
    ],
)
def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(saved, name, content):
    (saved / name).unlink(missing_ok=True)
    (saved / name).mkdir() if content is None else (saved / name).write_text(content)
    before = sorted(saved.iterdir())
    with pytest.raises(InputError, match=rf"holds other files \(.*{name}.*\); choose a new or empty folder"):
        save(pairs(Example(("w1", "w2"), 0, 1)), saved)
    assert sorted(saved.iterdir()) == before
    assert content is None or (saved / name).read_text() == content


@pytest.mark.parametrize("position", [0, 3, 8, 20, -1])
def test_a_changed_byte_is_noticed_wherever_it_stands(saved, position):
    data = bytearray((saved / "train.encoded").read_bytes())
    data[position] ^= 1
    (saved / "train.encoded").write_bytes(data)
    with pytest.raises(FormatError, match=r"train\.encoded is damaged"):
        load(saved)


def test_a_file_cut_short_is_told_with_both_sizes(saved):
    data = (saved / "dev.encoded").read_bytes()
    (saved / "dev.encoded").write_bytes(data[:-1])
    with pytest.raises(FormatError, match=rf"dev\.encoded has {len(data) - 1} bytes, task\.json says {len(data)}"):
        load(saved)


def test_a_missing_split_is_named(saved):
    (saved / "dev.encoded").unlink()
    with pytest.raises(FormatError, match=r"dev\.encoded is missing"):
        load(saved)


@pytest.mark.parametrize("name", ["task.json", "dev.encoded"])
def test_a_pipe_in_place_of_a_file_is_refused_by_name(saved, name):
    (saved / name).unlink()
    os.mkfifo(saved / name)
    with pytest.raises(InputError, match=f"{name} is not a file"):
        load(saved)
    with pytest.raises(InputError, match=rf"holds other files \(.*{name}"):
        save(pairs(Example(("w1", "w2"), 0, 1)), saved, restart=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "gpt1-tokenizer"}, "is not the manifest of an encoded task: its format is 'gpt1-tokenizer'"),
        ({"version": 4}, "has version 4, this gpt1 reads 1 to 3"),
        ({"context": 9}, r"task\.json is damaged"),
        ({"checksum": None}, r"task\.json is damaged"),
    ],
)
def test_a_manifest_that_is_not_as_written_is_refused(saved, changes, message):
    edit_manifest(saved, **changes)
    with pytest.raises(FormatError, match=message):
        load(saved)


def test_loading_needs_neither_spacy_nor_any_other_heavy_library(saved):
    program = (
        "import sys; from pathlib import Path; from gpt1.tasks.encoded import load\n"
        "assert len(load(Path(sys.argv[1])).splits['train']) == 3\n"
        "heavy = {'spacy', 'ftfy', 'pyarrow', 'click', 'rich', 'tokenizers', 'zstandard', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(saved)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_some_examples_are_chosen_with_all_that_is_theirs():
    task, tokenizer = CATALOGUE["mrpc"], ToyTokenizer()
    examples = [Example((words(*range(row)), words(row)), row % 2, row) for row in range(1, 8)]
    split = encode_task(task, {"train": examples}, tokenizer, context=9).splits["train"]
    found = choose(split, [5, 0, 2])
    wanted = encode_task(task, {"train": [examples[5], examples[0], examples[2]]}, tokenizer, context=9).splits["train"]
    for name in ARRAYS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())
        assert not one.flags.writeable


# ---- windows ----


def long_rows(task: Task) -> list[Example]:
    """Return rows of which some do not fit a context of twelve tokens, and one not even the most windows."""
    lengths = (4, 25, 10, 40, 9, 9 + 10 * MOST_WINDOWS)
    texts = [words(*(number % 90 for number in range(row, row + length))) for row, length in enumerate(lengths)]
    rows = [(text, words(91, 92, 93)) for text in texts]
    return [Example(tuple(pair[: task.texts]), row % 2, row) for row, pair in enumerate(rows)]


@pytest.fixture(params=["sst2", "rte", "mrpc"])
def long(request: pytest.FixtureRequest) -> EncodedTask:
    """A task of single texts, pairs, and pairs in both orders, read in windows."""
    task = CATALOGUE[request.param]
    return encode_task(task, {"train": long_rows(task)}, ToyTokenizer(), context=12, windows=True)


def test_each_part_of_what_is_read_in_windows_is_found_again(long: EncodedTask) -> None:
    split = long.splits["train"]
    assert split.windows is not None
    assert split.windows[[0, -1]].tolist() == [1, MOST_WINDOWS]
    assert (split.cut > 0).tolist() == [False] * 5 + [True]
    for place, row in enumerate(long_rows(long.task)):
        parts = [ids.tolist() for ids in split.parts(place, 100)]
        (whole,) = ToyTokenizer().encode_batch([row.texts[0]])
        assert parts[0] == whole[: len(whole) - split.cut[place]]
        assert len(parts) == long.task.texts
        assert parts[1:] == [[91, 92, 93]] * (long.task.texts - 1)


def test_windows_are_kept_on_disk_and_chosen_with_their_examples(long: EncodedTask, tmp_path: Path) -> None:
    save(long, tmp_path)
    manifest, again = json.loads((tmp_path / "task.json").read_text()), load(tmp_path)
    assert manifest["version"] == 2
    one, other = long.splits["train"], again.splits["train"]
    assert one.arrays.keys() == other.arrays.keys() == {*ARRAYS, "windows", "again"}
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])
    some = choose(other, [3, 0])
    assert some.windows.tolist() == one.windows[[3, 0]].tolist()
    assert [ids.tolist() for ids in some.parts(0, 100)] == [ids.tolist() for ids in one.parts(3, 100)]
    assert [ids.tolist() for ids in some.sequences(1)] == [ids.tolist() for ids in one.sequences(0)]


def test_where_all_fits_windows_change_no_byte(tmp_path: Path) -> None:
    task = CATALOGUE["rte"]
    rows = [Example((words(1, 2, 3), words(4, 5)), 0, 0)]
    for name, windows in (("one", False), ("other", True)):
        save(encode_task(task, {"train": rows}, ToyTokenizer(), context=12, windows=windows), tmp_path / name)
    assert (tmp_path / "one/task.json").read_bytes() == (tmp_path / "other/task.json").read_bytes()
    assert (tmp_path / "one/train.encoded").read_bytes() == (tmp_path / "other/train.encoded").read_bytes()


@pytest.mark.parametrize(("name", "place", "value"), [("windows", 0, 2), ("windows", 1, 0), ("again", 2, -1)])
def test_windows_that_are_not_those_of_the_sequences_are_refused(
    long: EncodedTask, tmp_path: Path, name: str, place: int, value: int
) -> None:
    array = long.splits["train"].arrays[name].copy()
    array[place] = value
    split = replace(long.splits["train"], **{name: array})
    save(replace(long, splits={"train": split}), tmp_path)
    with pytest.raises(FormatError, match="its arrays are not those of"):
        load(tmp_path)


def test_choices_are_not_encoded_in_windows() -> None:
    task = CATALOGUE["storycloze"]
    row = Example((words(*range(9)), "", words(1), words(2)), 0, 0)
    with pytest.raises(SettingError, match="not read in windows where there are answers to choose from"):
        encode_task(task, {"dev": [row]}, ToyTokenizer(), context=12, windows=True)


def test_what_windows_have_again_is_counted_once(long: EncodedTask) -> None:
    split = long.splits["train"]
    counts = unknown_by_example(long.task, split, 3, 100)
    for place in range(len(split)):
        read = np.concatenate(split.parts(place, 100))
        assert counts[place].tolist() == [np.count_nonzero(read == 3), len(read)]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_splits_are_joined_as_if_their_rows_had_been_encoded_together(long: EncodedTask, first: int) -> None:
    """Whether both, one or none of them has texts in windows."""
    rows, (task, whole) = long_rows(long.task), (long.task, long.splits["train"])
    short = [place for place in range(len(whole)) if whole.windows is not None and whole.windows[place] == 1]
    longer = [place for place in range(len(whole)) if place not in short]
    parts = [(short, longer), (longer, short), (longer[:1], longer[1:])][first]
    one, other = (
        encode_task(task, {"train": [rows[place] for place in part]}, ToyTokenizer(), context=12, windows=True)
        for part in parts
    )
    found = join(one.splits["train"], other.splits["train"])
    together = [rows[place] for part in parts for place in part]
    wanted = encode_task(task, {"train": together}, ToyTokenizer(), context=12, windows=True).splits["train"]
    assert found.arrays.keys() == wanted.arrays.keys()
    for name, array in wanted.arrays.items():
        assert np.array_equal(getattr(found, name), array)
        assert getattr(found, name).dtype == array.dtype


def test_the_key_of_a_text_is_equal_where_the_whole_text_is(long: EncodedTask) -> None:
    split = long.splits["train"]
    keys = [text_key(split, example) for example in range(len(split))]
    texts = [row.texts for row in long_rows(long.task)]
    assert len(set(keys)) == len(set(texts))
    assert text_key(choose(split, [2]), 0) == keys[2]
