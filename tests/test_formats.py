"""What gpt1 writes, kept as it was: read by every later version, answered alike, and written again byte for byte.

`tests/golden/formats/world` is what the commands of `tests/faults/world.py` made on 2026-11-16 (`tuned` on 2026-11-19),
in fp32 on two cores; `said.json` is what was printed then when they were asked. What a processor rounds may differ in
the last places.

    python -m tests.test_formats    writes said.json anew: only where a change of what is printed is meant
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.record_files import Record
from gpt1.base.records import unsealed
from gpt1.bases import catalog
from gpt1.bases.catalog import BaseRecord
from gpt1.cli.app import main
from gpt1.corpus.manifest import CorpusManifest
from gpt1.estimators import GPTClassifier
from gpt1.estimators.folders import EstimatorRecord
from gpt1.exchange.names import ExportSums
from gpt1.recipes.changes import SECTIONS, todays_section
from gpt1.records.calibration import CalibrationRecord
from gpt1.records.ensemble import EnsembleRecord
from gpt1.records.evaluation import Evaluation
from gpt1.records.run import RunRecord
from gpt1.records.seeds import SeedResult, SeedsResult
from gpt1.records.study import CellRecord, StudyRecord
from gpt1.records.tuning import TuningRecord
from gpt1.runs.checkpoints import load_checkpoint, save_checkpoint
from gpt1.runs.folder import read_run
from tests.faults.world import CPU, ENCODE, FINETUNE, LABELS, PREPARE, PRETRAIN, TRAIN_TOKENIZER, ZEROSHOT
from tests.records import facts_in

FORMATS = Path(__file__).parent / "golden" / "formats"
SAID = FORMATS / "said.json"
VARY = {"seconds", "device", "devices"}  # from run to run, from machine to machine

RECORDS: dict[str, type[Record]] = {
    "run.json": RunRecord,
    "evaluation-*.json": Evaluation,
    "ensemble.json": EnsembleRecord,
    "calibration.json": CalibrationRecord,
    "result.json": SeedResult,
    "seeds.json": SeedsResult,
    "tuning.json": TuningRecord,
    "cell.json": CellRecord,
    "study.json": StudyRecord,
    "corpus.json": CorpusManifest,
    "estimator.json": EstimatorRecord,
    "gpt1.json": ExportSums,
    "base.json": BaseRecord,
}

ASKED: dict[str, tuple[str, ...]] = {
    "prepare --task": (*ENCODE, "--out", "encoded", "--json"),
    "pretrain": (*PRETRAIN, "--out", "runs/books", "--resume", "--json"),
    "evaluate text": ("evaluate", "runs/books", "--corpus", "corpus", "--split", "train", "--json", *CPU),
    "generate": ("generate", "runs/books", "Ann sold", "--max-new-tokens", "12", "--temperature", "0", "--json", *CPU),
    "zeroshot": ("zeroshot", "runs/books", "--task", "sst2", "--data", "tasks", "--json", *CPU),
    "finetune": (*FINETUNE, "--out", "runs/reviews", "--resume", "--json"),
    "finetune --seeds": (*FINETUNE, "--out", "runs/seeds", "--seeds", "2", "--resume", "--json"),
    "predict": ("predict", "runs/reviews", "reviews.csv", *CPU),
    "predict, seeds": ("predict", "runs/seeds", "reviews.csv", *CPU),
    "predict, together": ("predict", "runs/together", "reviews.csv", *CPU),
    "predict, sure": ("predict", "runs/sure", "reviews.csv", "--abstain", "0.15", *CPU),
    "predict, estimator": ("predict", "estimator", "reviews.csv", *CPU),
    "evaluate answers": ("evaluate", "runs/reviews", "--table", "reviews.csv", "--split", "all", "--json", *CPU),
    "study zeroshot": (*ZEROSHOT, "--out", "studies/zeroshot", "--json"),
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the world, where everything happens."""
    copied = Path(shutil.copytree(FORMATS / "world", tmp_path / "world"))
    monkeypatch.chdir(copied)
    return copied


def answer(words: Sequence[str]) -> list[Any]:
    """Return the JSON values that a command prints, one or one a line."""
    printed = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(printed, "utf-8", write_through=True)) as stream:
        assert exit_code(words) == 0
        text = printed.getvalue().decode().replace(f"{Path.cwd()}/", "")
        stream.detach()
    return [json.loads(text)] if text.startswith("{\n") else [json.loads(line) for line in text.splitlines()]


def exit_code(words: Sequence[str]) -> object:
    """Call a command and return what it ends with."""
    try:
        main(list(words))
    except SystemExit as ended:
        return ended.code
    return None


def likeness(value: Any) -> Any:
    """Return what a value must be like: numbers up to rounding, all else the same, and in the same order."""
    if isinstance(value, dict):
        return [(name, likeness(one)) for name, one in value.items() if name not in VARY]
    if isinstance(value, list):
        return [likeness(one) for one in value]
    return pytest.approx(value, rel=1e-3, abs=1e-5) if isinstance(value, float) else value


def in_order(value: Any) -> Any:
    """Return a value with its objects as lists, in which the order counts."""
    if isinstance(value, dict):
        return [(name, in_order(one)) for name, one in value.items() if name not in VARY]
    return [in_order(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ASKED)
def test_what_was_made_before_is_answered_from_as_then(name: str, world: Path) -> None:
    assert in_order(answer(ASKED[name])) == likeness(json.loads(SAID.read_text())[name])


def test_networks_whose_epoch_was_chosen_by_what_judges_are_not_mixed_with_those_of_today(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code((*LABELS, "--out", "studies/labels")) == 1
    assert "full-reviews-8-0 was made from other inputs: judged_by was null" in capsys.readouterr().err


def test_what_numbers_are_made_of_text_alone_is_written_again_byte_for_byte(world: Path) -> None:
    for words, made in (
        ((*TRAIN_TOKENIZER, "--out", "new.json"), "tokenizer.json"),
        ((*PREPARE, "--out", "new-corpus", "--workers", "1"), "corpus"),
        ((*ENCODE, "--out", "new-encoded"), "encoded"),
    ):
        assert exit_code(words) == 0
        assert content(world / words[words.index("--out") + 1]) == content(world / made)


@pytest.mark.parametrize("run", ["books", "reviews"])
def test_a_checkpoint_is_saved_again_byte_for_byte(run: str, world: Path) -> None:
    for path in sorted((world / "runs" / run / "checkpoints").iterdir()):
        found = load_checkpoint(path)
        parts = (found.model, found.optimizer, found.progress, found.made_for)
        assert content(save_checkpoint(Path("again"), found.step, *parts)) == content(path)


def test_settings_that_were_called_otherwise_then_are_read_without_a_word_and_written_as_today(world: Path) -> None:
    run = Path("runs/books")
    then, found = json.loads((run / "run.json").read_text())["recipe"], read_run(run).recipe
    assert found.logging.keep == then["watching"]["keep"]
    assert found.shape.init_std == then["shape"]["initial_deviation"]
    assert exit_code((*PRETRAIN, "--out", str(run), "--resume")) == 0
    now = json.loads((run / "run.json").read_text())["recipe"]
    later = {"keep_optimizer": True, "keep_weights": 25}  # of the recipe that was named
    assert (now["logging"], "watching" in now) == (then["watching"] | later, False)


def under_todays_names(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a run says of itself, its settings under the names they have now."""
    sections = {SECTIONS.get(name, name): value for name, value in facts["recipe"].items()}
    recipe = {
        name: todays_section(name, value) if isinstance(value, dict) else value for name, value in sections.items()
    }
    later: Sequence[tuple[str, str, object]] = (
        ("logging", "keep_optimizer", True),
        ("logging", "keep_weights", None),
        ("finetuning", "ensemble", False),
        ("finetuning", "calibrate", False),
        ("finetuning", "folds", 3),
    )
    for section, name, then in later:
        recipe[section].setdefault(name, then)  # which is as it was when nobody could choose
    return {**facts, "recipe": recipe}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_written_again_byte_for_byte(name: str, world: Path) -> None:
    found = sorted(world.rglob(name))
    assert found
    for path in found:
        before = path.read_bytes()
        RECORDS[name].read(path).write(path)
        if name == "run.json":  # whose recipe was given whole numbers for some that are not, and has them mended
            assert in_order(facts_in(path)) == in_order(under_todays_names(unsealed(json.loads(before), path)))
        else:
            assert path.read_bytes() == before


def test_a_report_shows_all_of_it(world: Path) -> None:
    names = ("runs/books", "runs/reviews", "runs/seeds", "studies/labels", "studies/zeroshot")
    assert exit_code(("report", *names, "--out", "report.html")) == 0


def test_a_base_is_opened_by_its_name(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PACKAGED", world / "bases")
    asked = ASKED["evaluate text"]
    (base,), (whole,) = answer(("evaluate", "small", *asked[2:])), answer(asked)
    assert (base["run"], base["step"]) == ("small", whole["step"])
    assert base["valid_loss"] == pytest.approx(whole["valid_loss"], rel=1e-2)  # its weights are rounded


def test_an_estimator_is_loaded(world: Path) -> None:
    assert set(GPTClassifier.load("estimator", device="cpu").predict(["Ann sold 3 apples"])) <= {"glad", "sad"}


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of each file of a folder by its name there."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): _lasting(file) for file in files}


def _lasting(file: Path) -> bytes:
    """Return what a file holds, but for when the texts that a corpus was made of were last changed."""
    if file.name != "corpus.json":
        return file.read_bytes()
    corpus = json.loads(file.read_bytes())
    return json.dumps({name: value for name, value in corpus.items() if name not in ("plan", "sha256")}).encode()


if __name__ == "__main__":
    said = {}
    for name, words in ASKED.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(shutil.copytree(FORMATS / "world", Path(folder) / "world"))
            said[name] = answer(words)
    SAID.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
