"""Several labels a text: learned, given from thresholds on that are kept with the run, and answered wherever it is."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.estimators.folders import pack, unpack
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning import calibrating, counting, thresholding
from gpt1.finetuning.calibrating import deciding
from gpt1.finetuning.data import read_recorded
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run, evaluation_file, predictions_file
from gpt1.inference.answering import plain_probabilities, temperature_of, thresholds_of
from gpt1.inference.predicting import predict_file, predict_rows
from gpt1.inference.run import Run, load_run
from gpt1.records.evaluation import Evaluation
from gpt1.records.thresholds import THRESHOLDS_FILE, ThresholdsRecord
from gpt1.report.gather import gather
from gpt1.tasks import thresholds
from gpt1.tasks.encoded import load, save
from gpt1.tasks.thresholds import fit_thresholds
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, Told, make_pretrained
from tests.records import facts_in, lines_in

SIGNS = {"person": "Ann", "animal": "cat", "money": "sold"}  # by which a label can be told
QUICK = (*SETTINGS, "training.epochs=12")
EVERYTHING = (*QUICK, "finetuning.ensemble=true", "finetuning.calibrate=true")


def rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Return texts with every combination of labels, none among them."""
    found = []
    for number in range(count):
        given = [name for place, name in enumerate(SIGNS) if (number + seed) >> place & 1]
        text = " ".join([SIGNS[name] for name in given] + [f"a lamp {number} {seed}"])
        found.append({"text": text, "label": "|".join(reversed(given))})
    return found


def write(path: Path, table: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("parent") / "run", bytes_tokenizer)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tables")
    return {name: write(folder / f"{name}.csv", rows(48, seed)) for seed, name in enumerate(("train", "dev", "test"))}


def learn(parent: Path, out: Path, tables: dict[str, Path], changes: tuple[str, ...] = QUICK, **more: Any) -> Run:
    settings: dict[str, Any] = {"labels_sep": "|", "changes": changes, "recipe": "finetune", "device": "cpu", **more}
    return finetune(parent, out, **tables, **settings)


@pytest.fixture(scope="module")
def taught(parent: Path, tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with everything: an ensemble, a temperature, thresholds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrating, "ENOUGH", 10)
        patch.setattr(counting, "ENOUGH", 10)
        return learn(parent, tmp_path_factory.mktemp("taught") / "run", tables, EVERYTHING)


def test_labels_are_learned_each_by_itself_in_a_fixed_order(parent: Path, tables: dict[str, Path], tmp_path: Path):
    run = learn(parent, tmp_path / "run", tables, (*SETTINGS, "training.epochs=40"))
    task = run.tasks["train"]
    assert (task.labels, task.labels_sep) == (("animal", "money", "person"), "|")
    assert task.metrics == ("micro_f1", "macro_f1", "exact_match")
    found = list(run.predict(["Ann cat a lamp 3 9", "a lamp 0 9"]))
    assert found[0].keys() == {"text", "prediction", "probabilities"}
    assert [row["prediction"] for row in found] == ["animal|person", ""]
    assert list(found[0]["probabilities"]) == ["animal", "money", "person"]
    measured = Evaluation.read(evaluation_file(run.path, "train", "test"))
    assert measured.metrics["micro_f1"] > 0.8
    assert (run.path / THRESHOLDS_FILE).is_file()


def test_what_is_measured_is_what_scikit_learn_measures(taught: Run) -> None:
    labels = taught.tasks["train"].labels
    lines = lines_in(predictions_file(taught.path, "train", "test"))

    def matrix(field: str) -> np.ndarray:
        return np.array([[name in line[field].split("|") for name in labels] for line in lines])

    right, given = matrix("label"), matrix("prediction")
    found = Evaluation.read(evaluation_file(taught.path, "train", "test"))
    assert found.metrics["micro_f1"] == pytest.approx(f1_score(right, given, average="micro"))
    assert found.metrics["macro_f1"] == pytest.approx(f1_score(right, given, average="macro"))
    assert found.metrics["exact_match"] == pytest.approx((right == given).all(1).mean())
    each = precision_recall_fscore_support(right, given, zero_division=0)
    rates = [(one.precision, one.recall, one.f1, one.support) for one in found.classes]
    np.testing.assert_allclose(np.array(rates).T, each)
    assert [one.label for one in found.classes] == list(labels)
    assert found.words is not None
    assert found.words.keys() == found.metrics.keys()


def test_thresholds_are_chosen_by_the_half_of_dev_that_chooses_and_before_the_temperature(
    taught: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "ENOUGH", 10)
    source = taught.record.source
    assert source is not None
    tasks, _ = read_recorded(source, taught.tasks.values(), taught.path, taught.recipe.shape.context)
    task, chooses = tasks["train"].task, deciding(tasks)["train"].splits["dev"]
    assert len(chooses) < len(tasks["train"].splits["dev"])
    assert temperature_of(taught, task) != 1
    plain = plain_probabilities(taught, task, chooses)
    wanted = (plain >= fit_thresholds(plain, chooses.labels)).tolist()
    found = [row["prediction"] for row in taught.predict([{"text": row["text"]} for row in rows(48, 1)])]
    by_text = {
        tasks["train"].splits["dev"].sequences(place)[0].tobytes(): name.split("|") for place, name in enumerate(found)
    }
    given = [by_text[chooses.sequences(place)[0].tobytes()] for place in range(len(chooses))]
    assert [[name in own for name in task.labels] for own in given] == wanted
    assert taught.thresholds is not None
    assert taught.thresholds.tasks["train"].examples == len(chooses)


def test_labels_of_few_rows_keep_one_half_and_it_is_said(
    parent: Path, tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (thresholds, thresholding):
        monkeypatch.setattr(room, "FEWEST", 1000)
    told = Told()
    run = learn(parent, tmp_path / "run", tables, ("training.steps=1", *SETTINGS[:1]), listeners=[told])
    assert run.thresholds is not None
    assert set(run.thresholds.tasks["train"].labels.values()) == {0.5}
    assert "labels are given from the probability 0.5 on: no label stands in 1000 of 48 rows for dev" in told


def test_without_rows_for_dev_every_label_has_one_half(parent: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "few.csv", rows(4))
    run = learn(parent, tmp_path / "run", {"train": table}, ("training.steps=1",))
    assert run.thresholds is not None
    assert "no rows for dev" in run.thresholds.tasks["few"].why


def test_copies_of_a_run_answer_with_its_thresholds(taught: Run, tmp_path: Path) -> None:
    asked = ["Ann sold a lamp", "a cat"]
    wanted = [row["prediction"] for row in taught.predict(asked)]
    copied = load_run(unpack(pack(taught), tmp_path / "copied"), device="cpu")
    assert [row["prediction"] for row in copied.predict(asked)] == wanted
    export_compact(taught, tmp_path / "small")
    small = load_run(tmp_path / "small", device="cpu")
    task = small.tasks["train"]
    np.testing.assert_array_equal(thresholds_of(small, task), thresholds_of(taught, taught.tasks["train"]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"labels": {"animal": 0.5}}, "is of other labels than"),
        ({"labels": {"animal": 0.5, "money": 1.5, "person": 0.5}}, "the threshold of 'money' is 1.5"),
        ({"words": {"animal": 0.5}}, "is of other labels than"),
    ],
)
def test_thresholds_that_are_not_of_the_run_are_refused_by_name(
    taught: Run, tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    run = Path(shutil.copytree(taught.path, tmp_path / "run"))
    record = ThresholdsRecord.read(run / THRESHOLDS_FILE)
    own = replace(record.tasks["train"], **change)
    replace(record, tasks={"train": own}).write(run / THRESHOLDS_FILE)
    with pytest.raises(FormatError, match=problem):
        load_run(run, device="cpu").thresholds  # noqa: B018
    with pytest.raises(FormatError, match=problem):
        gather([run])


def test_thresholds_of_other_weights_are_refused_and_lost_ones_too(taught: Run, tmp_path: Path) -> None:
    run = Path(shutil.copytree(taught.path, tmp_path / "run"))
    record = ThresholdsRecord.read(run / THRESHOLDS_FILE)
    replace(record, weights="0" * 64).write(run / THRESHOLDS_FILE)
    with pytest.raises(FormatError, match="is of other weights"):
        next(load_run(run, device="cpu").predict(["Ann"]))
    (run / THRESHOLDS_FILE).unlink()
    with pytest.raises(InputError, match=THRESHOLDS_FILE):
        next(load_run(run, device="cpu").predict(["Ann"]))


def test_another_checkpoint_than_the_best_gives_labels_from_one_half_on(taught: Run, tmp_path: Path) -> None:
    run = Path(shutil.copytree(taught.path, tmp_path / "run"))
    record = ThresholdsRecord.read(run / THRESHOLDS_FILE)
    replace(record, step=record.step + 1).write(run / THRESHOLDS_FILE)
    assert load_run(run, device="cpu").thresholds is None


def test_no_share_of_mistakes_is_promised_of_several_labels(taught: Run) -> None:
    with pytest.raises(SettingError, match="answered with several labels, each right or wrong by itself"):
        predict_rows(taught, ["Ann"], abstain=0.1)


def test_a_further_table_is_read_with_the_same_sign_between_labels(taught: Run, tmp_path: Path) -> None:
    table = write(
        tmp_path / "more.csv", [{"text": "Ann sold it", "label": "person | money"}, {"text": "x", "label": ""}]
    )
    (found,) = evaluate_run(taught, table=table)
    assert found.examples == 2
    other = write(tmp_path / "other.csv", [{"text": "Ann sold it", "label": "person|Money"}])
    with pytest.raises(InputError, match=r"row 2: label 'Money' is none of .*fold_labels=True"):
        evaluate_run(taught, table=other)
    told: list[str] = []
    (folded,) = evaluate_run(taught, table=other, fold_labels=True, notice=told.append)
    assert folded.examples == 1
    assert "'Money' (1 row) taken for 'money'" in told[0]


def test_what_predict_writes_can_be_learned_from_again(taught: Run, parent: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "new.csv", [{"text": row["text"]} for row in rows(16, 5)])
    answered = list(predict_file(taught, table))
    assert {row["prediction"] for row in answered} >= {"", "animal|person"}
    again = write(tmp_path / "again.csv", [{"text": row["text"], "label": row["prediction"]} for row in answered])
    assert learn(parent, tmp_path / "run", {"train": again}, ("training.steps=1",)).tasks["again"].labels_sep == "|"


def test_an_encoded_task_of_several_labels_comes_back_as_it_was(taught: Run, tmp_path: Path) -> None:
    source = taught.record.source
    assert source is not None
    tasks, _ = read_recorded(source, taught.tasks.values(), taught.path, taught.recipe.shape.context)
    save(tasks["train"], tmp_path / "encoded")
    found = load(tmp_path / "encoded")
    assert found.task == tasks["train"].task
    for name, split in found.splits.items():
        np.testing.assert_array_equal(split.labels, tasks["train"].splits[name].labels)
        assert split.labels.shape == (48, 3)


def test_the_run_says_with_which_sign_it_read_its_table(taught: Run) -> None:
    written = facts_in(taught.path / "run.json")
    assert written["source"]["labels_sep"] == "|"
    assert written["tasks"]["train"]["labels_sep"] == "|"
    assert json.loads((taught.path / THRESHOLDS_FILE).read_text())["sha256"]
