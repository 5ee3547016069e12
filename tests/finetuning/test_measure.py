"""A fine-tuned run measured on labelled examples: what is found, and what is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import Busy, InputError, SettingError
from gpt1.base.files import file_hash, result_file
from gpt1.finetuning import measure as measuring
from gpt1.finetuning.data import Source, identity, read_source
from gpt1.finetuning.measure import (
    TEXT_LENGTH,
    evaluate_run,
    evaluation_file,
    measure,
    measure_split,
    predictions_file,
    show,
)
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run, load_run
from gpt1.records.evaluation import InTrain
from gpt1.tasks.assessment import assess, hold_against
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import EncodedTask, encode_task, load, save
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import CONTEXT, STEP, make_run
from tests.records import facts_in, lines_in

MOODS = Task(
    name="moods",
    title="moods",
    shape=SINGLE,
    labels=("glad", "sad", "so-so"),
    metrics=("accuracy",),
    fields=("text",),
)
TASKS = {task.name: task for task in (MOODS, CATALOGUE["mrpc"], CATALOGUE["stsb"], CATALOGUE["race"])}


def sentence(seed: int) -> str:
    return " ".join(make_text(1, seed=seed).split())


def examples(task: Task, count: int, labelled: bool = True) -> list[Example]:
    """Return examples of a task, each fourth of them too long for the context."""
    found = []
    for row in range(count):
        texts = [sentence(row * 10 + part) for part in range(task.texts)]
        texts[0] = make_text(9, seed=row) if row % 4 == 3 else texts[0]
        label = row % 6 * 1.0 if task.score_range else row % (len(task.labels) or task.choices)
        found.append(Example(tuple(texts), label if labelled else None, row + 1, row % 2 if task.groups else None))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """A run of four tasks, not to be changed."""
    return make_run(tmp_path_factory.mktemp("made") / "run", words_tokenizer, *TASKS.values())


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    """The same run in a folder to write to."""
    import shutil

    return load_run(shutil.copytree(made, tmp_path / "run"), device="cpu")


def encode(run: Run, task: Task, **splits: list[Example]) -> EncodedTask:
    return encode_task(task, splits, run.tokenizer, CONTEXT)


def lines(path: Path) -> list[dict[str, Any]]:
    return lines_in(path)


# ---- what is found and kept ----


@pytest.mark.parametrize("name", TASKS)
def test_metrics_and_assessment_are_those_of_the_answers(run: Run, name: str) -> None:
    task = TASKS[name]
    encoded = encode(run, task, dev=examples(task, 24))
    metrics = measure(run, encoded, ["dev"])
    split = encoded.splits["dev"]
    shares, _ = answer_split(run, task, split)
    answered = hold_against(task, split.labels, shares)
    expected = assess(task, split.labels, answered, groups=split.groups if task.groups else None).as_json()
    kept = facts_in(evaluation_file(run.path, name, "dev"))
    assert metrics == {"dev": expected["metrics"]}
    for key in expected.keys() - {"mistakes"}:
        assert kept[key] == expected[key]
    assert [one["index"] for one in kept["mistakes"]] == [one["index"] for one in expected["mistakes"]]
    assert (kept["task"], kept["split"], kept["step"]) == (name, "dev", STEP)
    assert (kept["format"], kept["version"]) == ("gpt1-evaluation", 1)
    assert kept["context"] == CONTEXT
    assert kept["cut"]["examples"] == (split.cut > 0).sum() >= 6
    assert kept["cut"]["tokens"] == split.cut.sum()


@pytest.mark.parametrize("name", TASKS)
def test_every_answer_is_kept(run: Run, name: str) -> None:
    task = TASKS[name]
    encoded = encode(run, task, dev=examples(task, 10))
    measure(run, encoded, ["dev"])
    kept = lines(predictions_file(run.path, name, "dev"))
    shares, answers = answer_split(run, task, encoded.splits["dev"])
    assert [one["index"] for one in kept] == list(range(10))
    if task.score_range:
        assert [one["prediction"] for one in kept] == answers.tolist()
        assert kept[0].keys() == {"index", "label", "prediction"}
    else:
        names = task.labels or range(task.choices)
        assert [one["prediction"] for one in kept] == [names[answer] for answer in answers]
        assert [one["label"] for one in kept] == [names[label] for label in encoded.splits["dev"].labels]
        np.testing.assert_allclose([list(one["probabilities"].values()) for one in kept], shares, atol=1e-6)


def test_levels_are_measured_apart(run: Run) -> None:
    task = TASKS["race"]
    metrics = measure(run, encode(run, task, dev=examples(task, 12)), ["dev"])["dev"]
    assert list(metrics) == ["accuracy", "accuracy/middle", "accuracy/high"]
    assert metrics["accuracy"] == pytest.approx((metrics["accuracy/middle"] + metrics["accuracy/high"]) / 2)


def test_splits_without_labels_are_passed_over_and_single_labels_that_miss_are_counted(run: Run) -> None:
    some = [*examples(MOODS, 3, labelled=False), *examples(MOODS, 9)]
    encoded = encode(run, replace(MOODS, test_splits=("test", "blind")), test=some, blind=examples(MOODS, 5, False))
    assert list(measure(run, encoded, ["test", "blind"])) == ["test"]
    kept = facts_in(evaluation_file(run.path, "moods", "test"))
    assert (kept["examples"], kept["unlabelled"]) == (9, 3)
    assert not evaluation_file(run.path, "moods", "blind").exists()
    sheet = lines(predictions_file(run.path, "moods", "test"))
    assert [one["label"] for one in sheet] == [None, None, None, *(MOODS.labels[row % 3] for row in range(9))]
    for one in kept["mistakes"]:  # their places are those in the split, not among the labelled
        assert sheet[one["index"]]["label"] == one["label"] != sheet[one["index"]]["prediction"]
    with pytest.raises(InputError, match=r"split 'blind' of 'moods' has no labels to measure by; gpt1 predict"):
        measure_split(run, encoded, "blind")


def test_measuring_twice_gives_the_same_bytes(run: Run) -> None:
    encoded = encode(run, MOODS, dev=examples(MOODS, 20))
    files = evaluation_file(run.path, "moods", "dev"), predictions_file(run.path, "moods", "dev")
    written = []
    for _ in range(2):
        measure(run, encoded, ["dev"])
        written.append([path.read_bytes() for path in files])
    assert written[0] == written[1]
    assert list(run.path.glob("*.tmp")) == []


# ---- mistakes have texts ----


def test_a_mistake_shows_its_row_and_its_text_as_it_stands_there_or_decoded_where_rows_are_not_at_hand(
    run: Run,
) -> None:
    rows = [replace(example, texts=("Ann lost a  Silver key",)) for example in examples(MOODS, 3)]
    encoded = encode(run, MOODS, dev=rows)
    found = measure_split(run, encoded, "dev")
    assert len(found.mistakes) == 2
    assert {one.text for one in found.mistakes} == {"Ann lost a  Silver key"}
    assert [one.row for one in found.mistakes] == [rows[one.index].row for one in found.mistakes]
    bare = measure_split(run, replace(encoded, examples={}), "dev")
    assert {(one.text, one.row) for one in bare.mistakes} == {("[start] ann lost a silver key [extract]", None)}


def test_rows_that_stand_in_train_too_are_counted_and_the_score_without_them_is_kept(run: Run) -> None:
    read = [(one, encode(run, MOODS, dev=[one]).splits["dev"]) for one in examples(MOODS, 40)]
    dev = [one for one, split in read if not split.cut.any() and run.tokenizer.unknown_id not in split.ids]
    alone = measure_split(run, encode(run, MOODS, train=dev[:1], dev=dev[1:]), "dev")
    assert alone.in_train is None
    found = measure_split(run, encode(run, MOODS, train=dev[:1], dev=dev), "dev")
    assert found.in_train == InTrain(1, alone.metrics)
    all_of_them = measure_split(run, encode(run, MOODS, train=dev, dev=dev), "dev")
    assert all_of_them.in_train == InTrain(len(dev), {})


def test_a_pair_is_shown_in_its_own_order_and_a_choice_with_the_right_answer(run: Run) -> None:
    pair = Example(("Ann sold the map", "nothing was lost"), 0, 1)
    either = measure_split(run, encode(run, TASKS["mrpc"], dev=[pair, replace(pair, label=1)]), "dev").mistakes
    assert [one.text for one in either] == ["Ann sold the map | nothing was lost"]
    people = "Ann", "Tom", "Dr. Wu", "the cat"
    story = [Example(("Somebody sold the map", "Who?", *people), label, 1) for label in range(4)]
    wrong = measure_split(run, encode(run, TASKS["race"], dev=story), "dev").mistakes
    assert len(wrong) == 3
    for one in wrong:
        for text, answer in ((one.text, one.prediction), (one.right_text, one.label)):
            assert text == f"Somebody sold the map | Who? | {people[answer]}"


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_a_long_text_shows_its_beginning_and_its_end(
    kind: str, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    tokenizer = words_tokenizer if kind == "words" else bytes_tokenizer
    special = tokenizer.specials
    ids = [
        special["start"],
        *tokenizer.encode("Ann " * 200),
        special["delimiter"],
        *tokenizer.encode("Tom"),
        special["extract"],
    ]
    text = show(tokenizer, np.array(ids, np.uint16))
    assert len(text) == TEXT_LENGTH
    assert text.lower().startswith("[start] ann ann")
    assert text.lower().endswith("ann [delimiter] tom [extract]")
    assert " … " in text


def test_words_in_brackets_are_text_and_stay_it(bytes_tokenizer: Tokenizer) -> None:
    ids = [bytes_tokenizer.specials["start"], *bytes_tokenizer.encode("<start> [extract]")]
    assert show(bytes_tokenizer, ids) == "[start] <start> [extract]"


# ---- what does not fit ----


def test_examples_of_another_task_tokenizer_or_context_are_refused(run: Run, bytes_tokenizer: Tokenizer) -> None:
    rows = examples(MOODS, 4)
    with pytest.raises(SettingError, match=r"unknown task 'tempers' of .*"):
        measure(run, encode(run, replace(MOODS, name="tempers"), dev=rows), ["dev"])
    with pytest.raises(InputError, match=r"not of the task 'moods' .*: labels \('glad', 'sad', 'x'\), not"):
        measure(run, encode(run, replace(MOODS, labels=("glad", "sad", "x")), dev=rows), ["dev"])
    with pytest.raises(InputError, match="task 'moods' was encoded with another tokenizer"):
        measure(run, encode_task(MOODS, {"dev": rows}, bytes_tokenizer, CONTEXT), ["dev"])
    with pytest.raises(InputError, match=rf"encode it with `gpt1\.prepare\(context={CONTEXT}\)`"):
        measure(run, encode_task(MOODS, {"dev": rows}, run.tokenizer, CONTEXT + 1), ["dev"])
    assert list(run.path.glob("evaluation-*")) == []


# ---- with little installed ----

BARE = """
import sys

sys.modules.update(dict.fromkeys(sys.argv[3].split()))  # importing them fails, as if they were not installed
from pathlib import Path
from gpt1.finetuning.measure import measure
from gpt1.inference.run import load_run
from gpt1.tasks.encoded import load
print(measure(load_run(sys.argv[1], device="cpu"), load(Path(sys.argv[2])), ["dev"]))
"""


def test_encoded_examples_are_measured_where_only_torch_numpy_and_safetensors_are(run: Run, tmp_path: Path) -> None:
    save(encode(run, MOODS, dev=examples(MOODS, 12)), tmp_path / "encoded")
    encoded = load(tmp_path / "encoded")
    absent = "sklearn scipy rich click spacy ftfy tokenizers pyarrow zstandard rensa datasets huggingface_hub pandas"
    command = [sys.executable, "-c", BARE, str(run.path), str(tmp_path / "encoded"), absent]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bare = evaluation_file(run.path, "moods", "dev").read_text()
    assert str(measure(run, encoded, ["dev"])) == done.stdout.strip()
    assert "[start]" in bare
    assert bare == evaluation_file(run.path, "moods", "dev").read_text()


# ---- what to measure on, as a person names it ----


def write_task(folder: Path, splits: dict[str, int]) -> Path:
    folder.mkdir()
    for split, count in splits.items():
        rows = [{"text": sentence(row), "label": MOODS.labels[row % 3]} for row in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def with_source(run: Run, **named: Any) -> Run:
    """Return the run with a note of what it was trained on."""
    path = run.path / "run.json"
    facts = facts_in(path)
    there = [one for one in named["encoded"] if isinstance(one, EncodedTask) or one.exists()]
    encoded = [one if isinstance(one, EncodedTask) else load(one) for one in there]
    known = identity({one.task.name: one for one in encoded})
    path.write_text(json.dumps({**facts, "source": Source(**named).recorded().as_json(), "identity": known}))
    return load_run(run.path, device="cpu")


def quiet(text: str) -> None:
    """Take a notice that is not looked at."""


def test_other_data_is_a_folder_a_table_or_an_encoded_task(run: Run, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "data", {"train": 9, "dev": 6, "test": 12})
    (by_folder,) = evaluate_run(run, task="moods", data=folder, notice=quiet)
    assert (by_folder.split, by_folder.examples) == ("dev", 6)
    (by_split,) = evaluate_run(run, task="moods", data=folder, split="test", notice=quiet)
    assert (by_split.split, by_split.examples) == ("test", 12)
    (by_table,) = evaluate_run(run, task="moods", table=folder / "dev.jsonl")
    assert by_table.table is not None
    assert by_table.table.file.endswith("dev.jsonl")
    assert replace(by_table, table=None) == replace(
        by_folder, split="dev-table"
    )  # what was found on the run's own dev stays
    save(encode(run, MOODS, dev=examples(MOODS, 5)), tmp_path / "encoded")
    (by_code,) = evaluate_run(run, encoded=tmp_path / "encoded")
    assert (by_code.split, by_code.examples) == ("dev", 5)


def test_a_table_is_called_by_its_name_or_as_told(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "March 2024.new.csv"
    table.write_text("text,label\nAnn lost a key,glad\nTom sold a hat,sad\n")
    for split, name in ((None, "march-2024"), ("april", "april"), ("train", "train")):
        (found,) = evaluate_run(run, task="moods", table=table, split=split)
        assert found.split == name
        assert evaluation_file(run.path, "moods", name).is_file()


def test_rows_of_a_table_need_a_label_that_the_run_knows(run: Run, tmp_path: Path) -> None:
    for cell, message in (("", "row 2: the label in 'label' is empty"), ("gald", "label 'gald' is none of .*'glad'")):
        (tmp_path / "new.csv").write_text(f"text,label\nAnn lost a key,{cell}\n")
        with pytest.raises(InputError, match=message):
            evaluate_run(run, task="moods", table=tmp_path / "new.csv")


def test_without_other_data_it_is_what_the_run_was_trained_with(run: Run, tmp_path: Path) -> None:
    save(encode(run, MOODS, train=examples(MOODS, 8), dev=examples(MOODS, 4)), tmp_path / "moods")
    save(encode(run, TASKS["mrpc"], dev=examples(TASKS["mrpc"], 7)), tmp_path / "mrpc")
    run = with_source(run, encoded=[tmp_path / "moods", tmp_path / "mrpc"])
    found = evaluate_run(run)
    assert [(one.task, one.split, one.examples) for one in found] == [("moods", "dev", 4), ("mrpc", "dev", 7)]
    (only,) = evaluate_run(run, task="mrpc")
    assert only == found[1]
    (train,) = evaluate_run(run, task="moods", split="train")
    assert train.examples == 8
    with pytest.raises(SettingError, match="there are no rows of task 'moods' there, only of mrpc"):
        evaluate_run(run, task="moods", encoded=tmp_path / "mrpc")
    save(encode(run, MOODS, train=examples(MOODS, 9), dev=examples(MOODS, 4)), tmp_path / "moods", restart=True)
    with pytest.raises(InputError, match="was trained on has changed since: rows that it learned could pass for new"):
        evaluate_run(run)


def test_data_that_is_not_there_now_is_an_error_that_says_what_to_do(run: Run, tmp_path: Path) -> None:
    gone = with_source(run, encoded=[tmp_path / "gone"])
    with pytest.raises(InputError, match=r"cannot be read now \(.*gone.*\); name other data with `data`, `table` or"):
        evaluate_run(gone)
    save(encode(run, MOODS, train=examples(MOODS, 8)), tmp_path / "moods")
    values = with_source(run, encoded=[encode(run, MOODS, train=examples(MOODS, 8))])
    with pytest.raises(InputError, match="was trained on examples that no file holds"):
        evaluate_run(values)
    with pytest.raises(SettingError, match=r"'moods' comes without rows for dev; name one .* `split`: train"):
        evaluate_run(run, encoded=tmp_path / "moods")
    with pytest.raises(SettingError, match="unknown split 'tset' of 'moods'"):
        evaluate_run(run, encoded=tmp_path / "moods", split="tset")
    with pytest.raises(SettingError, match=r"unknown task 'modos' of .*; did you mean 'moods'"):
        evaluate_run(run, encoded=tmp_path / "moods", task="modos")
    with pytest.raises(SettingError, match="name one of `data`, `table` and `encoded`, not several"):
        evaluate_run(run, data=tmp_path, table=tmp_path / "x.csv")


# ---- a table beside what the run learned ----


@pytest.fixture
def films(tmp_path: Path, words_tokenizer: Tokenizer) -> tuple[Run, Path]:
    """A run and the table that it was trained on."""
    table = tmp_path / "films.csv"
    rows = [f"{sentence(row).replace(',', '')},{'good' if row % 2 else 'bad'}\n" for row in range(30)]
    table.write_text("text,label\n" + "".join(rows))
    source = Source(train=table)
    found, _ = read_source(source, words_tokenizer, CONTEXT)
    path = make_run(tmp_path / "run", words_tokenizer, *(one.task for one in found.values()))
    facts = facts_in(path / "run.json") | {"source": source.recorded().as_json(), "identity": identity(found)}
    (path / "run.json").write_text(json.dumps(facts))
    return load_run(path, device="cpu"), table


def test_rows_of_a_table_that_the_run_learned_from_are_counted(films: tuple[Run, Path], tmp_path: Path) -> None:
    run, table = films
    (found,) = evaluate_run(run, table=table)
    (kept_for_dev,) = evaluate_run(run, notice=quiet)
    assert found.examples == 30
    assert found.in_train == InTrain(30 - kept_for_dev.examples, kept_for_dev.metrics)
    other = tmp_path / "other.csv"
    other.write_text("text,label\nNobody has read this,good\nNor has anybody read that,bad\n")
    (found,) = evaluate_run(run, table=other)
    assert found.in_train is None
    (as_train,) = evaluate_run(run, table=table, split="train")
    assert as_train.in_train is None


def test_rows_of_a_folder_that_the_run_learned_from_are_counted(run: Run, tmp_path: Path) -> None:
    save(encode(run, MOODS, train=examples(MOODS, 9), dev=examples(MOODS, 4)), tmp_path / "moods")
    run = with_source(run, encoded=[tmp_path / "moods"])
    folder = write_task(tmp_path / "data", {"train": 9, "dev": 6, "test": 12})
    (found,) = evaluate_run(run, task="moods", data=folder, notice=quiet)
    assert found.in_train is not None
    assert found.in_train.examples == 1
    (as_train,) = evaluate_run(run, task="moods", data=folder, split="train", notice=quiet)
    assert as_train.in_train is None


def test_a_table_is_measured_where_what_the_run_learned_is_gone_or_another_and_that_is_told(
    films: tuple[Run, Path], tmp_path: Path
) -> None:
    run, table = films
    new = table.rename(tmp_path / "new.csv")
    for content, why in (
        (None, r"films.csv does not exist"),
        ("x", "cannot be read"),
        (new.read_text() + "a,good\n", "changed since"),
    ):
        if content is not None:
            table.write_text(content)
        told: list[str] = []
        (found,) = evaluate_run(run, table=new, notice=told.append)
        assert found.in_train is None
        (notice,) = told
        assert notice.startswith("whether some of these rows stand in train too is not known: what ")
        assert why in notice


# ---- two starts at once ----


def table_of(path: Path, labels: str) -> Path:
    rows = [{"text": sentence(row), "label": MOODS.labels[int(label)]} for row, label in enumerate(labels)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_of_two_tables_of_one_name_measured_at_once_the_second_to_end_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = table_of(tmp_path / "one.jsonl", "0120"), table_of(tmp_path / "other.jsonl", "211021")
    answer = measuring._answer

    def answer_while_another_ends(*given: Any) -> Any:
        monkeypatch.setattr(measuring, "_answer", answer)
        evaluate_run(run, task="moods", table=other, split="held")
        return answer(*given)

    monkeypatch.setattr(measuring, "_answer", answer_while_another_ends)
    with pytest.raises(InputError, match=rf"is of another table, {other}; give this one a name of its own"):
        evaluate_run(run, task="moods", table=one, split="held")
    assert facts_in(evaluation_file(run.path, "moods", "held"))["table"]["sha256"] == file_hash(other)
    assert len(lines(predictions_file(run.path, "moods", "held"))) == 6
    assert list(run.path.glob("*.tmp")) == []


def test_answers_are_not_written_while_another_start_writes_those_of_the_same_name(run: Run, tmp_path: Path) -> None:
    table = table_of(tmp_path / "one.jsonl", "0120")
    kept = evaluation_file(run.path, "moods", "held")
    with pytest.raises(ZeroDivisionError), result_file(kept, overwrite=True):
        with pytest.raises(Busy, match=r"another command is writing .*evaluation-moods-held\.json"):
            evaluate_run(run, task="moods", table=table, split="held")
        assert not predictions_file(run.path, "moods", "held").exists()
        evaluate_run(run, task="moods", table=table, split="another")  # of another name it may
        raise ZeroDivisionError
    evaluate_run(run, task="moods", table=table, split="held")
    assert len(lines(predictions_file(run.path, "moods", "held"))) == 4
