"""Who answers a run's tasks: decided on examples that nobody learned, kept with the run, the same after a kill."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.estimators.folders import pack, unpack
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning import counting, ensembling
from gpt1.finetuning.counting import CountedWords
from gpt1.finetuning.finetune import finetune
from gpt1.inference.answering import answer_split, left_behind
from gpt1.inference.run import Run, load_run
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import ENSEMBLE_FILE, EnsembleRecord, TaskEnsemble
from gpt1.runs.checkpoints import STATE_FILE, list_checkpoints
from gpt1.tasks.encoded import EncodedTask, encode_task, save
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import CONTEXT, SETTINGS, Told, command, encode, make_examples, make_pretrained, make_task
from tests.moments import changes_told, counted, signalled
from tests.processes import finish, start

MOODS, STORIES = make_task(), make_task("stories", "choices")
CHANGES = (*SETTINGS, "finetuning.ensemble=true")
SLOW = (*CHANGES, "optimizer.lr=1e-6")  # a network that learns nothing


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("parent") / "run", bytes_tokenizer)


def learn(parent: Path, out: Path, encoded: EncodedTask, changes: tuple[str, ...] = CHANGES, **more: object) -> Run:
    return finetune(parent, out, encoded=encoded, changes=changes, device="cpu", recipe="finetune", **more)


def ensemble_of(run: Path, task: str = "moods") -> TaskEnsemble:
    return EnsembleRecord.read(run / ENSEMBLE_FILE).tasks[task]


def test_where_the_network_learned_nothing_words_answer(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    told = Told()
    encoded = encode(MOODS, bytes_tokenizer, 60, 20)
    run = learn(parent, tmp_path / "run", encoded, SLOW, listeners=[told])
    found = ensemble_of(run.path)
    assert found.scores["words"] > 0.7 > found.scores["network"]
    assert "words" in found.weights
    assert "60 rows cross-validated" in told
    assert (answer_split(run, MOODS, encoded.splits["dev"])[1] == encoded.splits["dev"].labels).mean() > 0.7
    assert not (run.path / ensembling.PARTS_FOLDER).exists()


def test_enough_rows_for_dev_decide_and_nothing_is_trained_again(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "ENOUGH", 20)
    told = Told()
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 48, 20), SLOW, listeners=[told])
    assert "on 20 dev rows" in told
    assert ensemble_of(run.path).examples == 20


def test_rows_for_dev_that_stand_in_train_do_not_decide(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "ENOUGH", 20)
    rows = make_examples(MOODS, 90)
    encoded = encode_task(MOODS, {"train": rows[:60], "dev": rows[50:]}, bytes_tokenizer, CONTEXT)
    new = {row.texts for row in rows[60:]} - {row.texts for row in rows[:60]}
    run = learn(parent, tmp_path / "run", encoded, SLOW)
    assert ensemble_of(run.path).examples == sum(row.texts in new for row in rows[50:]) < 40


def test_what_decides_was_learned_by_nobody(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 30, 0)
    run = learn(parent, tmp_path / "run", encoded, SETTINGS)
    taught: list[set[bytes]] = []

    def retrain(part: int, tasks: Mapping[str, EncodedTask]) -> Run:
        train = tasks["moods"].splits["train"]
        taught.append({train.sequences(example)[0].tobytes() for example in range(len(train))})
        return run

    asked: list[set[bytes]] = []

    def answer(run: Run, task: object, split: object) -> object:
        asked.append({split.sequences(example)[0].tobytes() for example in range(len(split))})  # type: ignore[attr-defined]
        return answer_split(run, task, split)  # type: ignore[arg-type]

    monkeypatch.setattr(ensembling, "answer_split", answer)
    told: list[str] = []
    words = CountedWords({"moods": encoded}, run.tokenizer)
    assert ensembling.make_ensembles(run, words, retrain, told.append, seconds=20.0)
    assert told[0].startswith("cross-validation follows: the network is fine-tuned 3 more times, on two thirds of the")
    assert told[0].endswith("; about 40 s by the speed so far")
    kept = ensemble_of(run.path)
    assert (kept.cross_validated, kept.commonest) == (True, 0.5)
    train = encoded.splits["train"]
    everything = {train.sequences(example)[0].tobytes() for example in range(len(train))}
    assert len(taught) == FOLDS
    assert [known & new for known, new in zip(taught, asked, strict=True)] == [set()] * FOLDS
    assert set.union(*asked) == everything
    assert sum(map(len, asked)) == len(everything)


def test_one_fold_holds_out_a_third_and_none_leaves_it_to_dev(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 60, 20)
    told = Told()
    run = learn(parent, tmp_path / "one", encoded, (*SLOW, "finetuning.folds=1"), listeners=[told])
    assert (ensemble_of(run.path).examples, ensemble_of(run.path).cross_validated) == (20, True)
    assert ensemble_of(run.path).is_held_out_once
    assert "a third of the rows is held out: the network is fine-tuned once more, on the other two thirds" in told
    assert "and one more after it, on two thirds of the rows" in told
    assert "on 20 rows held out once" in told
    assert "cross-validation" not in told
    run = learn(parent, tmp_path / "none", encoded, (*SLOW, "finetuning.folds=0"))
    assert (ensemble_of(run.path).examples, ensemble_of(run.path).cross_validated) == (20, False)
    few = encode(MOODS, bytes_tokenizer, 60, 19)
    run = learn(parent, tmp_path / "few", few, (*SLOW, "finetuning.folds=0"))
    assert ensemble_of(run.path).why.startswith("the network answers: there are fewer than 20 rows to hold it against")


def test_a_task_of_choices_has_words_too(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    run = learn(parent, tmp_path / "run", encode(STORIES, bytes_tokenizer, 40, 10), SLOW)
    assert ensemble_of(run.path, "stories").scores["words"] > 0.8


def test_killed_at_any_moment_it_goes_on_to_the_same_ensemble(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    save(encode(MOODS, bytes_tokenizer, 24, 8), tmp_path / "moods")
    files = (ENSEMBLE_FILE, "words-moods.safetensors", "predictions-moods-dev.jsonl")

    def words(out: Path, *last: str) -> list[str]:
        return command(parent, out, "--encoded", str(tmp_path / "moods"), *last, settings=SLOW)[1:]

    whole = tmp_path / "whole"
    _, errors = finish(start(counted(whole, *words(whole))))
    last = changes_told(errors)
    for moment in (last - 4, last - 12, last - 30, last * 2 // 3):  # most of them after the last update
        run = tmp_path / f"run{moment}"
        killed = start(signalled(moment, run, signal.SIGKILL, *words(run)))
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        finish(start([sys.executable, *words(run, "--resume")]))
        assert [(run / file).read_bytes() for file in files] == [(whole / file).read_bytes() for file in files]
        assert not (run / ensembling.PARTS_FOLDER).exists()


def test_a_lost_or_damaged_file_of_it_is_named(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 24, 8)
    run = learn(parent, tmp_path / "run", encoded, SLOW).path
    words = run / "words-moods.safetensors"
    damaged = bytearray(words.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    for name, content, error in (
        (words.name, bytes(damaged), FormatError),
        (words.name, None, InputError),
        (ENSEMBLE_FILE, None, InputError),
    ):
        copy = shutil.copytree(run, tmp_path / "copy")
        (copy / name).unlink()
        if content is not None:
            (copy / name).write_bytes(content)
        with pytest.raises(error, match=name):
            answer_split(load_run(copy, device="cpu"), MOODS, encoded.splits["dev"])
        shutil.rmtree(copy)


def test_it_travels_with_a_compact_run_and_with_an_estimator(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 24, 8)
    run = learn(parent, tmp_path / "run", encoded, SLOW)
    assert run.ensembles["moods"].weights != {"network": 1.0}
    export_compact(run, tmp_path / "compact")
    unpack(pack(run), tmp_path / "unpacked")
    for folder in ("compact", "unpacked"):
        found, _ = answer_split(load_run(tmp_path / folder, device="cpu"), MOODS, encoded.splits["dev"])
        np.testing.assert_allclose(found, answer_split(run, MOODS, encoded.splits["dev"])[0], atol=0.05)
        assert load_run(tmp_path / folder, device="cpu").ensembles["moods"].weights == run.ensembles["moods"].weights


def test_who_takes_the_network_elsewhere_is_told_that_words_stay_behind(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 24, 8), SLOW)
    (told,) = left_behind(run, MOODS)
    why = run.ensembles["moods"].record.why
    assert why in told
    figures = re.search(r": accuracy (.+) on .*\(the network (.+), counted words (.+), together (.+)\)$", why)
    assert figures is not None
    answered, network, words, together = map(float, figures.groups())
    assert answered == max(words, together) > network


def test_a_best_checkpoint_that_is_damaged_is_told_before_another_answers(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 24, 8)
    run = learn(parent, tmp_path / "run", encoded)
    kept = list_checkpoints(run.path)
    assert len(kept) > 1
    state = kept[0][1] / STATE_FILE
    state.write_bytes(state.read_bytes().replace(b":", b"\x1a", 1))
    told = Told()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who opens the run hears it too, where the checkpoint stays
        learn(parent, run.path, encoded, resume=True, listeners=[told])
    assert f"{state} is" in told
    assert "though it may have been the best" in told
