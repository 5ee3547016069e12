"""Thresholds of several labels a text, factors of classes: chosen, kept with the run, and answered wherever it is."""

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
from gpt1.estimators.estimators import GPTClassifier
from gpt1.estimators.folders import pack, unpack
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning import calibrating, counting, thresholding
from gpt1.finetuning.calibrating import deciding
from gpt1.finetuning.data import read_recorded
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run, evaluation_file, predictions_file
from gpt1.inference.abstaining import promise
from gpt1.inference.answering import (
    answer,
    answer_split,
    left_behind,
    plain_probabilities,
    temperature_of,
    thresholds_of,
)
from gpt1.inference.predicting import predict_file, predict_rows
from gpt1.inference.run import Run, load_run
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord
from gpt1.records.evaluation import Evaluation
from gpt1.records.thresholds import THRESHOLDS_FILE, ThresholdsRecord
from gpt1.report.gather import gather
from gpt1.tasks import thresholds
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import EncodedTask, choose, load, save
from gpt1.tasks.examples import Example
from gpt1.tasks.thresholds import fit_factors, fit_thresholds
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


# ---- classes with factors ----


def faults(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Return rows of which a third may be faults, and two in five of these are: none is likelier a fault than not."""
    found = []
    for number in range(count):
        place, is_odd = divmod(number, 3)
        label = "fault" if is_odd == 0 and place % 5 < 2 else "ok"
        found.append({"text": f"{'Ann sold' if is_odd == 0 else 'a cat'} {number} {seed}", "label": label})
    return found


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("faulty")
    sizes = {"train": 120, "dev": 300, "test": 60}
    return {name: write(folder / f"{name}.csv", faults(sizes[name], seed)) for seed, name in enumerate(sizes)}


@pytest.fixture(scope="module")
def weighed(parent: Path, faulty: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with everything whose classes have factors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrating, "ENOUGH", 10)
        folder = tmp_path_factory.mktemp("weighed") / "run"
        return learn(parent, folder, faulty, EVERYTHING, labels_sep=None, metric="macro-f1")


def dev_of(run: Run) -> EncodedTask:
    source = run.record.source
    assert source is not None
    tasks, _ = read_recorded(source, run.tasks.values(), run.path, run.recipe.shape.context)
    return tasks["train"]


def factors_in(run: Run) -> np.ndarray:
    assert run.thresholds is not None
    return np.array([run.thresholds.tasks["train"].labels[name] for name in run.tasks["train"].labels])


def test_factors_of_classes_are_chosen_by_the_half_of_dev_that_chooses_and_change_answers(
    weighed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "ENOUGH", 10)
    encoded = dev_of(weighed)
    task, chooses = encoded.task, deciding({"train": encoded})["train"].splits["dev"]
    assert (task, task.metrics) == (weighed.tasks["train"], ("macro_f1", "accuracy"))
    assert 10 < len(chooses) < len(encoded.splits["dev"])
    plain = plain_probabilities(weighed, task, chooses)
    np.testing.assert_allclose(factors_in(weighed), fit_factors(plain, chooses.labels, "macro_f1"))
    _, answers = answer_split(weighed, task, chooses)
    assert temperature_of(weighed, task) != 1
    np.testing.assert_array_equal(answers, (plain * factors_in(weighed)).argmax(1))
    assert (answers != plain.argmax(1)).any()
    judged = [f1_score(chooses.labels, some, average="macro") for some in (answers, plain.argmax(1))]
    assert judged[0] > judged[1]


def test_every_way_to_an_answer_has_the_factors(weighed: Run, faulty: dict[str, Path], tmp_path: Path) -> None:
    task = weighed.tasks["train"]
    texts = [row["text"] for row in faults(60, 2)]
    wanted = [str(line["prediction"]) for line in lines_in(predictions_file(weighed.path, "train", "test"))]
    assert len(set(wanted)) == 2
    told = list(predict_rows(weighed, texts))
    assert [row["prediction"] for row in told] == wanted
    assert all(row["confidence"] == row["probabilities"][row["prediction"]] for row in told)
    assert min(row["confidence"] for row in told) < 0.5  # what is given is not always the likeliest
    assert [row["prediction"] for row in predict_file(weighed, faulty["test"])] == wanted
    found = answer(weighed, task, [Example((text,), None, 1) for text in texts])
    assert [found.name(place) for place in range(len(found))] == wanted
    classifier = GPTClassifier.load(weighed.path, device="cpu")
    assert classifier.predict(texts).tolist() == wanted
    np.testing.assert_array_equal(classifier.predict_proba(texts), found.probabilities)
    copied = load_run(unpack(pack(weighed), tmp_path / "copied"), device="cpu")
    assert [row["prediction"] for row in copied.predict(texts)] == wanted
    export_compact(weighed, tmp_path / "small")
    small = load_run(tmp_path / "small", device="cpu")
    np.testing.assert_array_equal(factors_in(small), factors_in(weighed))


def test_what_is_measured_with_factors_is_what_scikit_learn_measures(weighed: Run) -> None:
    lines = lines_in(predictions_file(weighed.path, "train", "test"))
    right, given = ([str(line[field]) for line in lines] for field in ("label", "prediction"))
    found = Evaluation.read(evaluation_file(weighed.path, "train", "test"))
    assert list(found.metrics) == ["macro_f1", "accuracy"]
    assert found.metrics["macro_f1"] == pytest.approx(f1_score(right, given, average="macro"))
    low, high = found.intervals["macro_f1"]
    assert low <= found.metrics["macro_f1"] <= high
    assert found.words is not None
    assert found.words.keys() == found.metrics.keys()


def test_a_temperature_changes_no_answer_that_factors_gave(weighed: Run, tmp_path: Path) -> None:
    run = Path(shutil.copytree(weighed.path, tmp_path / "run"))
    record = CalibrationRecord.read(run / CALIBRATION_FILE)
    answers = []
    for temperature in (1.0, 0.4, 7.0):
        own = replace(record.tasks["train"], temperature=temperature)
        replace(record, tasks={"train": own}).write(run / CALIBRATION_FILE)
        answers.append(
            [row["prediction"] for row in load_run(run, device="cpu").predict([r["text"] for r in faults(60, 2)])]
        )
    assert answers[0] == answers[1] == answers[2]


def test_what_abstaining_promises_is_proven_by_the_answers_that_factors_give(
    weighed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "ENOUGH", 10)
    encoded = dev_of(weighed)
    dev, chooses = encoded.splits["dev"], deciding({"train": encoded})["train"].splits["dev"]
    known = {chooses.sequences(place)[0].tobytes() for place in range(len(chooses))}
    kept = choose(dev, [place for place in range(len(dev)) if dev.sequences(place)[0].tobytes() not in known])
    record = CalibrationRecord.read(weighed.path / CALIBRATION_FILE).tasks["train"]
    assert record.kept is not None
    weights = plain_probabilities(weighed, encoded.task, kept) * factors_in(weighed)
    sure, right = weights.max(1) / weights.sum(1), weights.argmax(1) == kept.labels
    assert record.kept.right == pytest.approx(sorted(sure[right], reverse=True))
    assert record.kept.wrong == pytest.approx(sorted(sure[~right], reverse=True))
    promised = promise(weighed, encoded.task, 0.5)
    rows = faults(60, 2)
    found = answer(weighed, encoded.task, [Example((row["text"],), None, 1) for row in rows])
    asked = list(predict_rows(weighed, [row["text"] for row in rows], abstain=0.5, notice=print))
    assert [row["abstained"] for row in asked] == (found.sure < promised.threshold).tolist()


def test_where_dev_has_few_rows_of_a_class_cross_validated_answers_choose_its_factor(
    parent: Path, faulty: dict[str, Path], tmp_path: Path
) -> None:
    whole = faults(210, 1)
    rare, common = ([row for row in whole if row["label"] == name] for name in ("fault", "ok"))
    dev = [*rare[:8], *common[:100]]
    tables = {**faulty, "dev": write(tmp_path / "dev.csv", dev)}
    changes = (*SETTINGS, "finetuning.ensemble=true", "finetuning.folds=1", "training.steps=8")
    run = learn(parent, tmp_path / "run", tables, changes, labels_sep=None, metric="matthews")
    decided = run.ensembles["train"].record
    assert decided.cross_validated
    assert run.thresholds is not None
    own = run.thresholds.tasks["train"]
    assert (own.labels, own.words) == (decided.factors, decided.words_factors)
    assert own.examples == decided.examples
    assert "on 40 rows held out once" in own.why


@pytest.mark.parametrize(("rows", "why"), [(2, "there are no rows for dev"), (60, "fewer than 10 of 6 rows for dev")])
def test_without_enough_rows_for_dev_the_likeliest_class_is_answered_and_it_is_said(
    parent: Path, tmp_path: Path, rows: int, why: str
) -> None:
    told = Told()
    table = write(tmp_path / "few.csv", faults(rows))
    run = learn(
        parent,
        tmp_path / "run",
        {"train": table},
        (*SETTINGS, "training.steps=1"),
        labels_sep=None,
        metric="macro_f1",
        listeners=[told],
    )
    assert run.thresholds is not None
    assert set(run.thresholds.tasks["few"].labels.values()) == {1.0}
    assert why in run.thresholds.tasks["few"].why
    assert "the likeliest class is answered" in told


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_factor_that_is_none_is_refused_by_name(weighed: Run, tmp_path: Path, factor: float) -> None:
    run = Path(shutil.copytree(weighed.path, tmp_path / "run"))
    record = ThresholdsRecord.read(run / THRESHOLDS_FILE)
    own = replace(record.tasks["train"], labels={"fault": factor, "ok": 1.0})
    replace(record, tasks={"train": own}).write(run / THRESHOLDS_FILE)
    with pytest.raises(FormatError, match=f"{THRESHOLDS_FILE} is damaged: the factor of 'fault' is {factor:g}"):
        load_run(run, device="cpu").thresholds  # noqa: B018


def test_what_goes_elsewhere_is_told_to_lack_the_factors(weighed: Run) -> None:
    task = weighed.tasks["train"]
    assert any("its likeliest class is not always the run's answer" in text for text in left_behind(weighed, task))


def test_a_run_of_a_catalogue_task_answers_with_the_likeliest_class_as_the_paper_does() -> None:
    assert not any(task.has_thresholds for task in CATALOGUE.values())


def test_a_run_that_goes_on_keeps_its_metric(weighed: Run, parent: Path, faulty: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"is chosen by macro F1, and accuracy is asked for; say `metric='macro_f1'`"):
        learn(parent, weighed.path, faulty, EVERYTHING, labels_sep=None, resume=True)
