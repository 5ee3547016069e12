"""Every record on disk, changed at every place: it is read, or refused by name; it never ends in another error.

A changed record is one that a person edited, a program cut short, or a stranger made. Each value of each record gives
way to one of every other kind, to numbers beyond all bounds, to nothing, or stands there twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import Gpt1Error
from gpt1.base.files import write_json
from gpt1.base.records import LINE_SEAL, SEAL, check_record, checksum
from gpt1.base.strict_json import to_json
from gpt1.bases.catalog import bases, find_base
from gpt1.corpus.prepare import prepare
from gpt1.documents.terminal import render
from gpt1.estimators.estimators import GPTClassifier
from gpt1.estimators.folders import write_facts
from gpt1.exchange.importing import _read_release as read_release
from gpt1.exchange.importing import _read_shape
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import _read_own
from gpt1.finetuning.results import results, results_blocks
from gpt1.finetuning.seeds import read_result
from gpt1.inference.abstaining import promise
from gpt1.inference.run import find_checkpoint, load_run
from gpt1.pretraining.stream import TokenStream
from gpt1.records.tuning import TUNING_FILE, TrialRecord, TuningRecord
from gpt1.report.gather import gather, gather_studies
from gpt1.runs.checkpoints import best_step, list_checkpoints, load_checkpoint
from gpt1.runs.folder import check_made_for
from gpt1.studies.cells import Cell, Notebook, find_cells
from gpt1.studies.comparison import read_sheet
from gpt1.studies.folder import StudySection, conduct
from gpt1.tasks.encoded import load, save
from gpt1.text.tokenizer import Tokenizer, load_tokenizer
from gpt1.training.trainer import TrainerState
from gpt1.tuning.shown import search_as_json, search_blocks
from gpt1.tuning.space import RATE, Range
from gpt1.tuning.tune import TuneResult, read_search
from tests.exchange.tools import write_release
from tests.finetuning.tools import SETTINGS, encode, make_examples, make_pretrained, make_task, write_table
from tests.inference.tools import sure_run
from tests.records import facts_in

DELETED, TWICE = object(), object()
OTHERS: tuple[Any, ...] = (
    None, [], {}, [None], {"x": None}, "text", "../x", 7, -1, 10**30, -(10**400), 1.5, float("nan"), float("inf"), True,
    DELETED, TWICE,
)  # fmt: skip
DEEP = ("[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "[" * 900 + "]" * 900)
MOODS = make_task()


@dataclass(frozen=True)
class Record:
    """A file, how it is read, and how its checksum is made to fit again."""

    path: Path
    read: Callable[[], object]
    reseal: Callable[[dict[str, Any]], None] = lambda value: None
    lines: bool = False
    named: Path | None = None  # what an error may name in place of the file: the folder that a person knows
    within: str = ""  # a part of it, where the rest is another test's


def places(value: Any, inside: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value of a JSON value; of a long list to its first and its last item."""
    keys = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1}) if isinstance(value, list) else ()
    for key in keys if value else ():
        yield (*inside, key)
        yield from places(value[key], (*inside, key))


def changed(value: Any, place: tuple[Any, ...], other: Any) -> tuple[Any, str]:
    """Return a JSON value with another one at a place, and the same as text, where a key may stand twice."""
    value = json.loads(json.dumps(value))
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    key = place[-1]
    if other is DELETED:
        del holder[key]
    elif other is TWICE and isinstance(holder, dict):
        return value, json.dumps({**value}).replace(f'"{key}":', f'"{key}": [], "{key}":', 1)
    elif other is TWICE:
        holder.append(holder[key])
    else:
        holder[key] = other
    return value, json.dumps(value)


def faults(record: Record) -> list[str]:
    """Return what went wrong other than in a sentence that names the file."""
    whole = record.path.read_text()
    first, *rest = whole.splitlines(keepends=True) if record.lines else [whole]
    value = json.loads(first)
    if record.reseal is Record.reseal and isinstance(value, dict):  # else the checksum alone would refuse it
        for name in (SEAL, LINE_SEAL):
            value.pop(name, None)
    found: list[str] = []

    def attempt(text: str, what: str) -> None:
        record.path.parent.mkdir(exist_ok=True)  # what was read to the end may be removed
        record.path.write_text("".join([text, *(["\n"] if record.lines else []), *rest]))
        try:
            record.read()
        except Gpt1Error as error:
            if record.path.name not in str(error) and str(record.named or record.path.parent) not in str(error):
                found.append(f"{what}: does not name the file: {error}")
        except Exception as error:
            found.append(f"{what}: {type(error).__name__}: {error}")

    try:
        record.read()  # the whole one is fine
        for place in (place for place in places(value) if record.within in ("", place[0])):
            for other in OTHERS:
                other_value, text = changed(value, place, other)
                if record.reseal is not Record.reseal and other is not TWICE:
                    record.reseal(other_value)
                    text = json.dumps(other_value)
                attempt(text, f"{'.'.join(map(str, place))} <- {other!r:.40}")
        for deep in DEEP:
            attempt(deep, f"all of it <- {deep[:8]}...")
            first = next(places(value))
            attempt(json.dumps(changed(value, first, "@")[0]).replace('"@"', deep), f"{first} <- {deep[:8]}...")
    finally:
        record.path.parent.mkdir(exist_ok=True)
        record.path.write_text(whole)
    return found


def seal(name: str) -> Callable[[dict[str, Any]], None]:
    """Return what puts the right checksum of all else under a name."""

    def reseal(value: dict[str, Any]) -> None:
        if name in value:
            rest = {key: item for key, item in value.items() if key != name}
            value[name] = checksum(rest)

    return reseal


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """Two seeds of a fine-tuning on a table."""
    folder = tmp_path_factory.mktemp("tuned")
    init = make_pretrained(folder / "init", words_tokenizer)
    table = write_table(folder / "moods.csv", MOODS, make_examples(MOODS, 24))
    changes = [*SETTINGS, "training.epochs=1"]
    finetune(init, folder / "out", train=table, recipe="tiny", changes=changes, seeds=2, device="cpu")
    return folder / "out"


@pytest.fixture(scope="module")
def run(tuned: Path) -> Path:
    """The best seed's run."""
    return load_run(tuned, device="cpu").path


def test_a_fine_tuned_run(run: Path) -> None:
    found = find_checkpoint(run, "last")

    def read() -> None:
        check_made_for(run, found)  # which reads all of it

    assert faults(Record(run / "run.json", read)) == []


def test_where_the_data_of_a_run_lay(run: Path) -> None:
    def read() -> None:
        _read_own(load_run(run, device="cpu"), lambda text: None)

    record = Record(run / "run.json", read, within="source")
    assert faults(record) == []


def test_a_pretrained_run(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")

    found = find_checkpoint(tmp_path / "run", "last")

    def read() -> None:
        check_made_for(tmp_path / "run", found)

    assert faults(Record(tmp_path / "run" / "run.json", read)) == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [("attention.json", False), ("samples.jsonl", True), ("metrics.jsonl", True), ("events.jsonl", True)],
)
def test_what_grew_with_a_run(trained: Path, tmp_path: Path, name: str, lines: bool) -> None:
    shutil.copytree(trained, tmp_path / "run")
    assert faults(Record(tmp_path / "run" / name, lambda: gather([tmp_path / "run"]), lines=lines)) == []


def test_a_checkpoint(run: Path) -> None:
    _, path = list_checkpoints(run)[-1]

    def read() -> None:
        found = load_checkpoint(path)
        check_record(found.progress, TrainerState, path)
        best_step(run)

    assert faults(Record(path / "state.json", read, seal("sha256"))) == []


def test_several_seeds(tuned: Path) -> None:
    assert faults(Record(tuned / "seeds.json", lambda: (gather([tuned]), results(load_run(tuned))))) == []


def test_the_result_of_a_seed(run: Path) -> None:
    assert faults(Record(run / "result.json", lambda: read_result(run))) == []


def test_a_search_for_settings(tmp_path: Path) -> None:
    path, made_for, values = tmp_path / TUNING_FILE, {"base": "small"}, {RATE: 1e-4}
    trials = [
        TrialRecord("done", {}, [0.5, 0.6], 0.7, 2.0, 9, (0.4, 0.8)),
        TrialRecord("pruned", values, [0.4], 0.9, 1.0, 3),
        TrialRecord("diverged", values, [], None, 1.0, 0),
    ]
    TuningRecord(made_for, "accuracy", 30, 0.2, 3, trials, closed=True).write(path)

    def read() -> None:
        found = read_search(path, made_for, [Range(RATE, 1e-5, 1e-3)])
        result = TuneResult(None, found, "auto", values, {})  # type: ignore[arg-type]
        to_json(search_as_json(result))
        render(search_blocks(result), width=100, is_terminal=False)

    assert faults(Record(path, read)) == []


def test_an_evaluation(run: Path) -> None:
    path = next(run.glob("evaluation-*.json"))
    opened = load_run(run, device="cpu")
    assert faults(Record(path, lambda: (gather([run]), results(opened), results_blocks(opened)))) == []


def test_how_sure_answers_are(trained: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    sure_run(tmp_path / "run", words_tokenizer, MOODS, ["Ann", "the cat"], wrong=1)

    def read() -> None:
        found = load_run(tmp_path / "run", device="cpu")
        list(found.predict(["Ann"]))
        promise(found, MOODS, 0.1)
        gather([tmp_path / "run"])

    assert faults(Record(tmp_path / "run" / "calibration.json", read)) == []


def test_predictions(run: Path) -> None:
    path = next(run.glob("predictions-*.jsonl"))
    (task,) = load_run(run, device="cpu").tasks.values()
    assert faults(Record(path, lambda: read_sheet([path], task), lines=True)) == []


def test_an_encoded_task(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    save(encode(MOODS, words_tokenizer), tmp_path)
    assert faults(Record(tmp_path / "task.json", lambda: load(tmp_path), seal("checksum"))) == []


def test_an_estimator(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    classifier = GPTClassifier(str(run))
    arguments = {
        name: value for name, value in classifier.get_params().items() if name not in ("device", "out", "verbose")
    }
    write_facts(tmp_path / "run", "classification", arguments, {"classes_": _labels(run), "n_features_in_": 1})
    read = lambda: GPTClassifier.load(tmp_path / "run", device="cpu")  # noqa: E731
    assert faults(Record(tmp_path / "run" / "estimator.json", read)) == []


def test_a_base(small: Path) -> None:
    assert faults(Record(small / "base.json", lambda: (bases(), find_base("small").card()))) == []


def _labels(run: Path) -> Any:
    import numpy as np

    (task,) = load_run(run, device="cpu").tasks.values()
    return np.array(task.labels)


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_a_tokenizer(tmp_path: Path, kind: str, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer) -> None:
    {"words": words_tokenizer, "bytes": bytes_tokenizer}[kind].save(tmp_path / "tokenizer.json")
    assert faults(Record(tmp_path / "tokenizer.json", lambda: load_tokenizer(tmp_path))) == []


def test_a_corpus(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    read = lambda: TokenStream(tmp_path / "corpus", "train").read([0], 4)  # noqa: E731
    assert faults(Record(tmp_path / "corpus" / "corpus.json", read)) == []


def test_the_plan_of_a_preparation(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Ann sold hats.\n\nTom lost a key.\n")
    words_tokenizer.save(tmp_path / "tokenizer.json")
    made = tmp_path / "made"
    prepare([tmp_path / "text.txt"], tmp_path / "tokenizer.json", made, valid=0, workers=1)
    plan = facts_in(made / "corpus.json")["plan"]
    out = tmp_path / "out"

    def read() -> None:
        (out / "corpus.json").unlink(missing_ok=True)
        prepare([tmp_path / "text.txt"], tmp_path / "tokenizer.json", out, valid=0, workers=1)

    write_json(_made(out / ".gpt1-work") / "plan.json", plan)
    assert faults(Record(out / ".gpt1-work" / "plan.json", read, named=out)) == []


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_release_of_openai(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    write_release(tmp_path, words_tokenizer)
    assert faults(Record(tmp_path / "params_shapes.json", lambda: read_release(tmp_path))) == []


def test_the_configuration_of_transformers(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    sizes = {"n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 16, "resid_pdrop": 0.1}
    write_json(path, {"model_type": "openai-gpt", "afn": "gelu", "layer_norm_epsilon": 1e-5, **sizes})
    assert faults(Record(path, lambda: _read_shape(path))) == []


def test_a_study_and_its_cells(tmp_path: Path) -> None:
    cell = Cell("one", "sst2", "full", {"seed": 0}, lambda folder, listener: _result())
    watcher = Notebook(None)
    content = {"tasks": {"sst2": {"metric": "accuracy", "points": []}}}
    conduct(tmp_path, "transfer", {}, [cell], lambda done: [StudySection("transfer", content, [])], watcher)
    assert faults(Record(tmp_path / "study.json", lambda: gather_studies([tmp_path]))) == []
    path = tmp_path / "cells" / "one" / "cell.json"
    assert faults(Record(path, lambda: find_cells(tmp_path, [cell]))) == []
    assert faults(Record(path, lambda: find_cells(tmp_path, [cell]), seal("sha256"))) == []


def _result() -> dict[str, Any]:
    scores = {"dev": {"accuracy": 0.5}}
    return {"score": 0.5, "scores": scores, "curve": [{"step": 1, "score": 0.5}], "device": "abacus", "notes": ["odd"]}
