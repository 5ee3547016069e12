"""Which rows to label next: the unsure, different ones, some at random; none twice, labelled or learned."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.tables import read_rows
from gpt1.finetuning.finetune import finetune
from gpt1.inference.predicting import predict_file
from gpt1.inference.run import Run, load_run
from gpt1.labelling.choosing import DIFFERENT, RANDOM, UNSURE, next_labels
from gpt1.records.thresholds import THRESHOLDS_FILE, ThresholdsRecord
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task

MOODS = make_task()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Run:
    """A run that has learned a table."""
    folder = tmp_path_factory.mktemp("run")
    parent = make_pretrained(folder / "parent", bytes_tokenizer)
    rows = [[*row.texts, MOODS.labels[int(str(row.label))]] for row in make_examples(MOODS, 30)]
    write(folder / "moods.csv", rows, "text", "label")
    return finetune(
        parent, folder / "run", train=folder / "moods.csv", changes=SETTINGS, recipe="finetune", device="cpu"
    )


def write(path: Path, rows: list[list[str]], *names: str) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(names), *rows])
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write(tmp_path / "new.csv", [[row.texts[0]] for row in make_examples(MOODS, 120, seed=5)], "text")


def quiet(said: str) -> None:
    pass


def test_each_row_has_a_reason_and_a_place_for_its_label(run: Run, texts: Path, tmp_path: Path) -> None:
    found = next_labels(run, texts, tmp_path / "next.csv", count=20, notice=quiet)
    sheet = [row for _, row in read_rows(tmp_path / "next.csv")]
    assert list(sheet[0]) == ["row", "text", "label", "choose_from", "why"]
    assert {row["label"] for row in sheet} == {""}
    assert {row["choose_from"] for row in sheet} == {"bad, good"}
    given = {str(number): row["text"] for number, row in read_rows(texts)}
    assert all(given[str(row["row"])] == row["text"] for row in sheet)
    assert [int(str(row["row"])) for row in sheet] == sorted({one.row for one in found})
    assert Counter(row["why"] for row in sheet) == {RANDOM: 4, UNSURE: 8, DIFFERENT: 8}


def test_the_unsure_have_the_smallest_margins_of_those_that_are_no_copies(
    run: Run, texts: Path, tmp_path: Path
) -> None:
    found = next_labels(run, texts, tmp_path / "next.csv", count=20, random_share=0, notice=quiet)
    margins = {
        row["row"]: abs(2 * max(row["probabilities"].values()) - 1)  # type: ignore[attr-defined]
        for row in predict_file(run, texts)
    }
    assert all(one.margin == pytest.approx(margins[one.row], abs=5e-6) for one in found)
    assert min(found, key=lambda one: one.margin).why == UNSURE
    unsure = [one.margin for one in found if one.why == UNSURE]
    assert max(unsure) <= np.median(list(margins.values()))  # type: ignore[arg-type]


def test_rows_that_differ_in_a_number_alone_are_asked_for_once(run: Run, tmp_path: Path) -> None:
    rows = [[f"Ann lost ticket {number}"] for number in range(40)]
    rows += [[row.texts[0]] for row in make_examples(MOODS, 10, seed=3)]
    path = write(tmp_path / "new.csv", rows, "text")
    found = next_labels(run, path, tmp_path / "next.csv", count=6, random_share=0, notice=quiet)
    assert sum("ticket" in str(one.texts["text"]) for one in found if one.why == UNSURE) <= 1


def test_what_is_labelled_learned_or_there_twice_is_left_out(run: Run, tmp_path: Path) -> None:
    learned = make_examples(MOODS, 30)
    new = make_examples(MOODS, 6, seed=9)
    rows = [[row.texts[0], ""] for row in learned] + [[row.texts[0], ""] for row in new]
    rows += [[new[0].texts[0].upper(), ""], ["Ann gave up", "bad"]]
    path, told = write(tmp_path / "new.csv", rows, "text", "label"), list[str]()
    found = next_labels(run, path, tmp_path / "next.csv", count=50, notice=told.append)
    known = run.record.examples["moods"]["train"]  # others of them were held out
    assert f"left out of 38 rows: 1 with a label, {known} learned, 1 of a text that is there" in told[0]
    assert f"there are {36 - known} rows to choose from, fewer than 50: all are taken" in told[1]
    assert len(found) == 36 - known


def test_a_text_that_has_a_label_in_another_row_is_left_out(run: Run, tmp_path: Path) -> None:
    rows = [["Ann sold a kite", "good"], [" ann  sold a KITE", ""], ["Tom lost a drum", ""]]
    path, told = write(tmp_path / "new.csv", rows, "text", "label"), list[str]()
    found = next_labels(run, path, tmp_path / "next.csv", count=1, notice=told.append)
    assert [one.row for one in found] == [4]
    assert "left out of 3 rows: 1 with a label, 1 of a text that has one elsewhere" in told[0]


def test_unsure_is_near_where_the_answer_would_be_another(run: Run, texts: Path, tmp_path: Path) -> None:
    """Classes of a run that is judged by macro F1 have factors, by which it answers."""
    rows = [[*row.texts, MOODS.labels[int(str(row.label))]] for row in make_examples(MOODS, 30)]
    table = write(tmp_path / "moods.csv", rows, "text", "label")
    settings = {"recipe": "finetune", "device": "cpu", "metric": "macro-f1"}
    own = finetune(Path(str(run.record.parent)), tmp_path / "run", train=table, changes=SETTINGS, **settings)  # type: ignore[arg-type]
    record = ThresholdsRecord.read(own.path / THRESHOLDS_FILE)
    shares = {row["row"]: row["probabilities"]["good"] for row in predict_file(own, texts)}  # type: ignore[index]
    middle = sorted(shares.values())[len(shares) * 3 // 4]
    factors = {"bad": middle / (1 - middle), "good": 1.0}  # so that answers change there
    changed = {"moods": replace(record.tasks["moods"], labels=factors)}
    replace(record, tasks=changed).write(own.path / THRESHOLDS_FILE)
    found = next_labels(load_run(own.path, device="cpu"), texts, tmp_path / "next.csv", count=10, notice=quiet)

    def by_hand(good: float) -> float:
        bad = (1 - good) * factors["bad"]
        return float(abs(good - bad) / (good + bad))

    assert all(one.margin == pytest.approx(by_hand(shares[one.row]), abs=1e-4) for one in found)
    unsure = [by_hand(shares[one.row]) for one in found if one.why == UNSURE]
    assert max(unsure) <= np.median([by_hand(good) for good in shares.values()])


def test_the_same_call_writes_the_same_bytes(run: Run, texts: Path, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        next_labels(run, texts, tmp_path / name, count=10, notice=quiet)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_long_texts_that_differ_behind_their_first_window_are_different(run: Run, tmp_path: Path) -> None:
    head = "Ann and Tom had to wait for their letters, "
    rows = [[head + row.texts[0], MOODS.labels[int(str(row.label))]] for row in make_examples(MOODS, 30)]
    table = write(tmp_path / "moods.csv", rows, "text", "label")
    settings = {"changes": (*SETTINGS, "finetuning.windows=mean"), "recipe": "finetune", "device": "cpu"}
    own = finetune(Path(str(run.record.parent)), tmp_path / "run", train=table, **settings)  # type: ignore[arg-type]
    examples = make_examples(MOODS, 40, seed=5)
    long = [Example((head + row.texts[0],), -1, place + 2) for place, row in enumerate(examples)]
    path = write(tmp_path / "new.csv", [list(row.texts) for row in long], "text")
    found = next_labels(own, path, tmp_path / "next.csv", count=8, random_share=0, notice=quiet)

    encoded = encode_task(MOODS, {"test": long}, own.tokenizer, own.recipe.shape.context, windows=True).splits["test"]
    means = {row.row: own.embed(encoded.sequences(place)).mean(0) for place, row in enumerate(long)}  # type: ignore[arg-type]
    chosen = [one.row for one in found if one.why == UNSURE]
    left = set(means) - set(chosen)
    while len(chosen) < 8:
        chosen.append(max(left, key=lambda row: min(((means[row] - means[other]) ** 2).sum() for other in chosen)))
        left.remove(chosen[-1])
    assert [one.row for one in found] == sorted(chosen)
    assert min(encoded.windows) > 1  # type: ignore[type-var, arg-type]


def test_a_table_that_changed_while_it_was_answered_gets_no_sheet(run: Run, texts: Path, tmp_path: Path) -> None:
    twice = write(tmp_path / "twice.csv", [[row["text"]] for _, row in read_rows(texts)] * 2, "text")  # type: ignore[list-item]

    def turn(said: str) -> None:  # is told of the copies after the table is read
        twice.write_bytes(texts.read_bytes())

    with pytest.raises(InputError, match=r"twice\.csv was changed while its rows were answered"):
        next_labels(run, twice, tmp_path / "next.csv", count=10, notice=turn)
    assert not (tmp_path / "next.csv").exists()


def test_cells_that_would_be_formulas_are_made_harmless(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "new.csv", [["=HYPERLINK(1)"], ["Ann sold nothing"]], "text")
    next_labels(run, path, tmp_path / "next.csv", count=2, notice=quiet)
    assert "'=HYPERLINK" in (tmp_path / "next.csv").read_text()


def test_bad_input_is_told(run: Run, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="`count` is 0"):
        next_labels(run, texts, tmp_path / "next.csv", count=0)
    with pytest.raises(SettingError, match="`random_share` is 2"):
        next_labels(run, texts, tmp_path / "next.csv", random_share=2)
    labelled = write(tmp_path / "labelled.csv", [["Ann sold it", "bad"]], "text", "label")
    with pytest.raises(InputError, match="has no row to choose"):
        next_labels(run, labelled, tmp_path / "next.csv", notice=quiet)
    (tmp_path / "next.csv").write_text("mine")
    with pytest.raises(InputError, match=r"next\.csv"):
        next_labels(run, texts, tmp_path / "next.csv")
