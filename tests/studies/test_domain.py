"""Text of a new domain: every share of old text is read, measured and learned from, as by hand."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import FormatError, Gpt1Error, InputError, Interrupted, SettingError
from gpt1.corpus.prepare import prepare
from gpt1.documents.study import study_blocks
from gpt1.documents.terminal import render
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.seeds import read_result
from gpt1.inference.run import load_run
from gpt1.pretraining.measure import measure_corpus, window_losses
from gpt1.pretraining.pretrain import pretrain
from gpt1.pretraining.stream import TokenStream
from gpt1.records.study import StudyRecord
from gpt1.runs.folder import read_run
from gpt1.studies.domain import WindowLosses, study_domain
from gpt1.tasks.assessment import interval_of, resamples
from tests.studies.tools import TRAINING, Remembers, source, write_tasks

READ = ("training.steps=6", "optimizer.lr=1e-2", "schedule.warmup_share=0.1", "logging.save_every=2")
SHARES = (0.0, 0.5)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A corpus of the same words in another world: numbers and keys."""
    folder = tmp_path_factory.mktemp("strange")
    (folder / "text.txt").write_text("\n\n".join(f"{n} apples, {n + 1} apples, 10 silver keys." * 9 for n in range(40)))
    document = {"document": "blank", "duplicates": "keep", "workers": 1}
    prepare([folder / "text.txt"], corpus, folder / "corpus", valid=0.2, **document)  # type: ignore[arg-type]
    return folder / "corpus"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tasks(tmp_path_factory.mktemp("tasks") / "tasks", "sst2", "cola")


@pytest.fixture(scope="module")
def asked(trained: Path, corpus: Path, strange: Path, tasks: Path) -> dict[str, Any]:
    """How the study is asked for in these tests."""
    given = {"init": trained, "corpus": strange, "old": corpus, "source": source(tasks, "sst2")}
    return {**given, "training": TRAINING, "shares": SHARES, "reading": READ}


@pytest.fixture(scope="module")
def study(asked: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyRecord]:
    out = tmp_path_factory.mktemp("domain") / "out"
    return out, study_domain(out=out, **asked)


def test_each_arm_is_what_the_commands_give_by_hand(
    study: tuple[Path, StudyRecord], asked: dict[str, Any], trained: Path, corpus: Path, strange: Path, tmp_path: Path
) -> None:
    out, found = study
    section = found.sections["domain"]
    assert list(section["arms"]) == ["unread", "share-0", "share-0.5"]
    assert found.cells.done == found.cells.planned == 3
    for arm, share in (("unread", None), ("share-0", 0.0), ("share-0.5", 0.5)):
        ready = trained
        if share is not None:
            ready, mix = tmp_path / arm, {corpus: share} if share else None
            changes = [*READ, "logging.evaluate_every=none"]
            pretrain(None, strange, ready, init=trained, mix=mix, changes=changes, device="cpu")
        run, figures = load_run(ready, device="cpu"), section["arms"][arm]
        assert figures["share"] == share
        for name, text in (("new", strange), ("old", corpus)):
            wanted = measure_corpus(run, text)
            assert figures[name]["bits_per_byte"] == pytest.approx(wanted["bits_per_byte"], rel=1e-6)
            assert figures[name]["perplexity"] == pytest.approx(wanted["perplexity"], rel=1e-5)
            assert figures[name]["low"] < figures[name]["bits_per_byte"] < figures[name]["high"]
        data = asked["source"]
        own = {"task": data.tasks, "data": data.data, "device": "cpu", "recipe": "auto"}
        changes = [*TRAINING.changes, "finetuning.ensemble=false", "finetuning.calibrate=false"]
        tuned = finetune(ready, tmp_path / f"{arm}-tuned", changes=changes, **own)  # type: ignore[arg-type]
        assert figures["task"]["median"] == read_result(tuned.path)["sst2"]["dev"]["accuracy"]
    with (out / "domain.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["old_bits_per_byte"]) for row in rows] == [
        arm["old"]["bits_per_byte"] for arm in section["arms"].values()
    ]


def test_what_was_read_is_kept_of_each_cell_and_its_weights_are_not(
    study: tuple[Path, StudyRecord], trained: Path, corpus: Path
) -> None:
    out, _ = study
    alone, mixed = (read_run(out / "cells" / f"share-{share}-sst2-0" / "reading") for share in ("0", "0.5"))
    assert alone.parent == mixed.parent == str(trained.resolve())
    assert alone.mixed is None
    assert mixed.mixed is not None
    assert (mixed.mixed.path, mixed.mixed.share) == (str(corpus.resolve()), 0.5)
    assert not list(out.glob("cells/*/reading/checkpoints"))
    assert not (out / "cells" / "unread-sst2-0" / "reading").exists()


def test_less_is_forgotten_with_old_text_and_a_person_reads_so(study: tuple[Path, StudyRecord]) -> None:
    _, found = study
    section = found.sections["domain"]
    (mixed,) = [one for one in section["texts"] if one["text"] == "old" and one["over"] == "share-0"]
    assert mixed["arm"] == "share-0.5"
    assert mixed["high"] < 0
    gained = [one for one in section["texts"] if one["text"] == "new" and one["over"] == "unread"]
    assert all(one["high"] < 0 for one in gained)
    assert {(one["arm"], one["over"]) for one in section["scores"]} == {
        *(("share-0", "unread"), ("share-0.5", "unread"), ("share-0.5", "share-0"))
    }
    page = render(study_blocks(found), width=100, is_terminal=False, folds=False, worded=str)
    assert "new text alone" in page
    assert "share 0.5" in page
    assert "better, beyond chance" in page
    assert f"{section['arms']['share-0']['old']['bits_per_byte']:.3f}" in page


def test_a_stopped_study_goes_on_to_the_same_figures(
    study: tuple[Path, StudyRecord], asked: dict[str, Any], tmp_path: Path
) -> None:
    _, whole = study
    out = tmp_path / "out"
    for stop_after in (14, 9):  # in the midst of a reading, and of what follows
        with pytest.raises(Interrupted):
            study_domain(out=out, watcher=Remembers(stop_after), **asked)
    assert study_domain(out=out, **asked).sections == whole.sections
    again = Remembers()
    assert study_domain(out=out, watcher=again, **asked).sections == whole.sections
    assert again.made == []


def test_a_cell_is_not_taken_for_one_that_read_otherwise_and_lost_losses_are_told(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    out, few = tmp_path / "out", {**asked, "shares": [0.5]}
    study_domain(out=out, **few)
    with pytest.raises(InputError, match=r"reading.settings.training.steps was 6, is 5 now"):
        study_domain(out=out, **{**few, "reading": [*READ, "training.steps=5"]})
    (out / "cells" / "share-0.5-sst2-0" / "windows-old.jsonl").unlink()
    with pytest.raises(FormatError, match=r"windows-old.jsonl is not there; remove .*share-0.5-sst2-0 to have it"):
        study_domain(out=out, **few)


def test_without_a_length_all_make_as_many_updates_as_read_the_new_text_four_times(
    asked: dict[str, Any], strange: Path, tmp_path: Path
) -> None:
    watcher = Remembers(stop_after=1)
    reading = ("training.batch=32", "logging.save_every=2")
    with pytest.raises(Interrupted):
        study_domain(out=tmp_path / "out", watcher=watcher, **{**asked, "reading": reading})
    tokens = len(TokenStream(strange, "train")) - 1
    (told,) = [line for line in watcher.lines if "updates" in line]
    updates = int(told.split(" updates")[0].split()[-1])
    assert 4 * math.ceil(tokens / 16 / 32) <= updates <= 4 * math.ceil((tokens + 15) / 16 / 32)


def test_intervals_are_those_of_windows_drawn_together() -> None:
    draw = np.random.default_rng(0)
    targets = np.array([16.0] * 9 + [5.0])
    nats = {str(seed): draw.random(10) * targets for seed in range(3)}
    less = {seed: own * 0.9 for seed, own in nats.items()}
    one, other = WindowLosses("old", nats, targets, 0.4), WindowLosses("old", less, targets, 0.4)
    found = one.over(other, "a", "b")

    def literal(rows: Any) -> float:
        medians = []
        for losses in (nats, less):
            each = [sum(own[row] for row in rows) / sum(targets[row] for row in rows) for own in losses.values()]
            medians.append(sorted(each)[1])
        return 0.4 * (medians[0] - medians[1])

    assert found["difference"] == pytest.approx(literal(range(10)))
    wanted = interval_of([literal(rows) for (rows,) in resamples(10)])
    assert (found["low"], found["high"]) == pytest.approx(wanted)
    assert one.over(one, "a", "a")["low"] == one.over(one, "a", "a")["high"] == 0
    assert one.figures()["bits_per_byte"] == pytest.approx(
        0.4 * float(np.median([own.sum() / targets.sum() for own in nats.values()]))
    )


def test_losses_of_windows_add_up_to_that_of_the_text(trained: Path, strange: Path) -> None:
    run, stream = load_run(trained, device="cpu"), TokenStream(strange, "valid")
    nats, targets = window_losses(run, stream)
    assert targets.sum() == len(stream) - 1
    assert len(targets) == math.ceil((len(stream) - 1) / 16)
    assert nats.sum() / targets.sum() == pytest.approx(measure_corpus(run, strange)["valid_loss"], rel=1e-6)


def test_what_cannot_be_studied_is_refused(
    asked: dict[str, Any], trained: Path, tasks: Path, tmp_path: Path, corpus: Path
) -> None:
    (tmp_path / "text.txt").write_text("Ann sold nothing. " * 50)
    prepare([tmp_path / "text.txt"], corpus, tmp_path / "no-valid", valid=0, workers=1)
    tuned = finetune(
        trained, tmp_path / "tuned", task="sst2", data=tasks, changes=["training.steps=1"], device="cpu"
    ).path
    refused: list[tuple[dict[str, Any], type[Gpt1Error], str]] = [
        ({"shares": []}, SettingError, "name at least one of `shares`, such as 0, 0.1"),
        ({"shares": [0.5, 1.0]}, SettingError, "at least 0 and below 1, not 1"),
        ({"init": tuned}, SettingError, "tuned is fine-tuned, and its recipe is not for text"),
        ({"source": source(tasks, "sst2", "cola")}, SettingError, "one task of the new domain is learned at a time"),
        ({"corpus": tmp_path / "no-valid"}, InputError, "no-valid has no text for validation, on which reading is"),
        ({"old": tmp_path / "nowhere"}, InputError, "nowhere"),
        ({"reading": ["training.speed=3"]}, SettingError, "has no setting 'training.speed'"),
    ]
    for given, kind, message in refused:
        with pytest.raises(kind, match=message):
            study_domain(out=tmp_path / "out", **{**asked, **given})
        assert not (tmp_path / "out").exists()
