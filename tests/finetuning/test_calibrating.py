"""How sure a run's answers are: fitted on rows that nobody learned, kept with the run, the same wherever it answers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.estimators.folders import pack, unpack
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning import calibrating, counting, ensembling
from gpt1.finetuning.calibrating import deciding
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluation_file
from gpt1.inference.answering import answer_split, plain_probabilities, temperature_of
from gpt1.inference.classification import probabilities
from gpt1.inference.run import Run, load_run
from gpt1.linear.ensemble import pool
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.records.ensemble import NETWORK, WORDS, TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.tasks.encoded import EncodedTask, choose
from gpt1.tasks.temperature import fit_temperature, soften
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, Told, encode, make_pretrained, make_task

MOODS = make_task()
SCORES = make_task("scores", "both", score_range=(0.0, 5.0))
CHANGES = (*SETTINGS, "finetuning.calibrate=true")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows be enough."""
    monkeypatch.setattr(calibrating, "ENOUGH", 10)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("parent") / "run", bytes_tokenizer)


def learn(parent: Path, out: Path, encoded: EncodedTask, changes: tuple[str, ...] = CHANGES, **more: object) -> Run:
    return finetune(parent, out, encoded=encoded, changes=changes, device="cpu", recipe="finetune", **more)


def found_of(run: Run, task: str = "moods") -> TaskCalibration:
    return CalibrationRecord.read(run.path / CALIBRATION_FILE).tasks[task]


def rows_of(encoded: EncodedTask) -> set[bytes]:
    dev = encoded.splits["dev"]
    return {dev.sequences(row)[0].tobytes() for row in range(len(dev))}


def test_half_of_dev_decides_and_the_other_is_kept_for_what_is_promised(bytes_tokenizer: Tokenizer) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 8, 41)
    (half,) = deciding({"moods": encoded}).values()
    assert len(half.splits["dev"]) == 21
    assert rows_of(half) < rows_of(encoded)
    assert half.splits["train"] is encoded.splits["train"]
    few = encode(MOODS, bytes_tokenizer, 8, 19)
    assert deciding({"moods": few})["moods"].splits["dev"] is few.splits["dev"]
    scores = encode(SCORES, bytes_tokenizer, 8, 40)
    assert deciding({"scores": scores})["scores"].splits["dev"] is scores.splits["dev"]


def test_a_text_that_was_learned_proves_nothing_and_one_that_comes_again_proves_it_once(
    bytes_tokenizer: Tokenizer,
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 8, 40)
    dev = encoded.splits["dev"]
    learned = replace(encoded, splits={"train": dev, "dev": dev})
    assert deciding({"moods": learned})["moods"].splits["dev"] is dev  # nothing is left to be kept
    twice = replace(encoded, splits={**encoded.splits, "dev": choose(dev, [*range(40), *range(40)])})
    ((some, kept),) = calibrating._halves(twice).values()
    texts = [[half.sequences(row)[0].tobytes() for row in range(len(half))] for half in (some, kept)]
    assert not set(texts[0]) & set(texts[1])
    assert len(set(texts[1])) == len(texts[1]) == 20


def test_it_is_of_its_own_weights_though_another_run_has_the_same_step(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 48, 40)
    run = learn(parent, tmp_path / "run", encoded)
    theirs = replace(CalibrationRecord.read(run.path / CALIBRATION_FILE), weights="0" * 64)
    theirs.write(run.path / CALIBRATION_FILE)
    with pytest.raises(FormatError, match=r"calibration\.json is of other weights than those of"):
        answer_split(load_run(run.path, device="cpu"), MOODS, encoded.splits["dev"])


def test_epoch_and_members_are_chosen_by_that_half_alone(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "ENOUGH", 10)
    encoded, told = encode(MOODS, bytes_tokenizer, 48, 40), Told()
    with_words = (*CHANGES, "finetuning.ensemble=true")
    run = learn(parent, tmp_path / "run", encoded, with_words, listeners=[told])
    assert "20 rows for dev choose the epoch; 20 others say how sure answers are to be" in told
    assert "on 20 dev rows" in told
    found = found_of(run)
    assert (found.examples, len(found.seen or ()), len(found.kept or ())) == (20, 20, 20)
    asked = Evaluation.read(evaluation_file(run.path, "moods", "dev"))
    assert asked.examples == 40  # it is measured on all


def test_where_dev_has_few_rows_the_answers_of_cross_validation_say_how_sure_answers_are(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets, decide = [], ensembling._decide

    def noting(task: Any, sheet: Any, words: str) -> Any:
        sheets.append(sheet)
        return decide(task, sheet, words)

    monkeypatch.setattr(ensembling, "_decide", noting)
    encoded = encode(MOODS, bytes_tokenizer, 60, 8)
    run = learn(parent, tmp_path / "run", encoded, (*CHANGES, "finetuning.ensemble=true", "optimizer.lr=1e-6"))
    ensemble = run.ensembles["moods"]
    (sheet,) = sheets
    assert len(ensemble.weights) == 1, "counted words alone, as the network learns nothing at this rate"
    wanted = fit_temperature(pool(MOODS, sheet.members, ensemble.weights), sheet.labels)
    assert (ensemble.record.temperature, temperature_of(run, MOODS)) == (wanted, wanted)
    assert found_of(run).examples == 60
    assert f"temperature {wanted:.2f}, fitted on the answers of cross-validation to 60 rows" in found_of(run).why
    shares, _ = answer_split(run, MOODS, encoded.splits["dev"])
    softened = soften(plain_probabilities(run, MOODS, encoded.splits["dev"]), wanted)
    np.testing.assert_allclose(shares, softened)


def test_weights_that_were_fitted_by_cross_validation_have_a_temperature_too(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    with_words = (*CHANGES, "finetuning.ensemble=true")
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 48, 8), with_words)
    ensemble = run.ensembles["moods"]
    assert list(ensemble.weights.values()) != [1.0]
    assert temperature_of(run, MOODS) == ensemble.record.temperature
    assert (
        f"{ensemble.record.temperature:.2f}, fitted on the answers of cross-validation to 48 rows" in found_of(run).why
    )


def test_answers_that_are_right_and_unsure_are_made_sure_though_a_weight_is_at_its_bound() -> None:
    labels = np.arange(200) % 2
    right = np.eye(2)[np.where(np.arange(200) % 10 == 0, 1 - labels, labels)]  # nine of ten
    members = {NETWORK: np.full((200, 2), 0.5), WORDS: 0.4 + 0.2 * right}
    sheet = counting.AnswerSheet(labels, members, "200 rows cross-validated", cross_validated=True)
    found = ensembling._decide(MOODS, sheet, "")
    shares = soften(pool(MOODS, members, found.weights), found.temperature or 0)
    np.testing.assert_allclose(shares.max(1), 0.9, atol=0.01)


def test_an_ensemble_that_was_made_before_has_no_temperature_by_cross_validation() -> None:
    assert TaskEnsemble({WORDS: 1.0}, "", examples=300, cross_validated=True).temperature is None


def test_the_temperature_is_that_of_the_rows_that_chose_nothing_and_every_answer_has_it(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 48, 40)
    run = learn(parent, tmp_path / "run", encoded)
    choosing, dev = rows_of(deciding({"moods": encoded})["moods"]), encoded.splits["dev"]
    before = probabilities(run.ready_classifier, "moods", dev)
    kept = [row for row in range(len(dev)) if dev.sequences(row)[0].tobytes() not in choosing]
    temperature = temperature_of(run, MOODS)
    assert len(kept) == 20
    assert temperature == pytest.approx(fit_temperature(before[kept], dev.labels[kept]), abs=1e-5) != 1
    assert f"temperature {temperature:.2f}, fitted on 20 rows for dev that chose nothing" in found_of(run).why
    right = before[kept].argmax(1) == dev.labels[kept]
    assert found_of(run).kept.right[::-1] == pytest.approx(np.sort(before[kept].max(1)[right]))  # type: ignore[union-attr]
    shares, answers = answer_split(run, MOODS, dev)
    np.testing.assert_allclose(shares, soften(before, temperature))
    assert (answers == before.argmax(1)).all()
    evaluation = Evaluation.read(evaluation_file(run.path, "moods", "dev"))
    assert evaluation.tempered is not None
    assert evaluation.tempered.temperature == temperature
    assert evaluation.calibration is not None
    assert evaluation.tempered.ece_before != evaluation.calibration.ece


def test_the_paper_s_recipe_scores_and_few_rows_have_no_temperature(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    plain = learn(parent, tmp_path / "plain", encode(MOODS, bytes_tokenizer, 48, 40), SETTINGS)
    assert plain.calibration is None
    assert not (plain.path / CALIBRATION_FILE).exists()
    few = learn(parent, tmp_path / "few", encode(MOODS, bytes_tokenizer, 48, 8))
    assert temperature_of(few, MOODS) == 1
    assert "there are 8 rows" in found_of(few).why
    none = learn(parent, tmp_path / "none", encode(MOODS, bytes_tokenizer, 48, 0))
    assert temperature_of(none, MOODS) == 1
    scores = learn(parent, tmp_path / "scores", encode(SCORES, bytes_tokenizer, 48, 40))
    assert temperature_of(scores, SCORES) == 1
    assert Evaluation.read(evaluation_file(few.path, "moods", "dev")).tempered is None


def test_where_both_answer_together_their_weights_are_the_temperature_of_the_same_rows(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = ensembling.TaskEnsemble({"network": 0.5, "words": 0.7}, "because", words="")

    def decide(task: object, sheet: object, words: str) -> ensembling.TaskEnsemble:
        return replace(together, words=words)

    monkeypatch.setattr(ensembling, "_decide", decide)
    monkeypatch.setattr(counting, "ENOUGH", 10)
    changes = (*CHANGES, "finetuning.ensemble=true")
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 48, 16), changes)
    assert (found_of(run).temperature, found_of(run).kept) == (1, None)
    assert "the weights of the network and of counted words" in found_of(run).why
    more = learn(parent, tmp_path / "more", encode(MOODS, bytes_tokenizer, 48, 40), changes)
    assert "that chose nothing" in found_of(more).why  # other rows than those of the weights
    assert len(found_of(more).kept or ()) == 20


def test_it_is_of_the_best_weights_and_of_no_others(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 48, 40))
    step = run.checkpoint.step
    (other,) = {found for found, _ in list_checkpoints(run.path)[-1:]} - {step} or {
        found for found, _ in list_checkpoints(run.path)[:1]
    }
    assert other != step
    assert load_run(run.path, step=step, device="cpu").calibration is not None
    assert temperature_of(load_run(run.path, step=other, device="cpu"), MOODS) == 1


def test_a_lost_or_damaged_file_of_it_is_named(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 48, 40)
    run = learn(parent, tmp_path / "run", encoded)
    whole = CalibrationRecord.read(run.path / CALIBRATION_FILE)
    for damage, error in (
        (lambda path: path.unlink(), InputError),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"temperature", b"temperaturf", 1)), FormatError),
        (lambda path: CalibrationRecord(whole.step, {"moods": TaskCalibration("", -2.0)}).write(path), FormatError),
        (lambda path: CalibrationRecord(whole.step, {"others": TaskCalibration("")}).write(path), FormatError),
    ):
        copy = shutil.copytree(run.path, tmp_path / "copy")
        damage(copy / CALIBRATION_FILE)
        with pytest.raises(error, match=CALIBRATION_FILE):
            answer_split(load_run(copy, device="cpu"), MOODS, encoded.splits["dev"])
        shutil.rmtree(copy)


def test_a_run_that_was_begun_without_goes_on_without_and_a_second_end_is_the_same(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 48, 40)
    asked = [change for change in SETTINGS if "calibrate" not in change]
    begun = finetune(parent, tmp_path / "old", encoded=encoded, changes=SETTINGS, device="cpu", recipe="auto")
    again = finetune(parent, tmp_path / "old", encoded=encoded, changes=asked, device="cpu", resume=True)
    assert not again.recipe.finetuning.calibrate
    assert begun.recipe == again.recipe
    named = finetune(parent, tmp_path / "old", encoded=encoded, changes=asked, device="cpu", resume=True, recipe="auto")
    assert named.recipe == begun.recipe  # the very command that began it
    run = learn(parent, tmp_path / "run", encoded)
    before = (run.path / CALIBRATION_FILE).read_bytes()
    learn(parent, tmp_path / "run", encoded, resume=True)
    assert (run.path / CALIBRATION_FILE).read_bytes() == before


def test_it_travels_with_an_estimator_and_its_temperature_with_a_compact_run(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 48, 40)
    run = learn(parent, tmp_path / "run", encoded)
    unpack(pack(run), tmp_path / "unpacked")
    assert load_run(tmp_path / "unpacked", device="cpu").calibration == run.calibration
    told = export_compact(run, tmp_path / "compact")
    compact = load_run(tmp_path / "compact", device="cpu")
    assert temperature_of(compact, MOODS) == temperature_of(run, MOODS)
    assert found_of(compact).kept is None
    assert any("promise" in text for text in told)
    np.testing.assert_allclose(
        answer_split(compact, MOODS, encoded.splits["dev"])[0],
        answer_split(run, MOODS, encoded.splits["dev"])[0],
        atol=0.05,
    )


def test_of_several_seeds_it_is_noted_how_many_there_were(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 16, 24), seeds=2)
    assert run.calibration is not None
    assert run.calibration.seeds == 2
