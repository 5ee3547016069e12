"""Texts that do not fit the context: read in windows they are learned by what stands anywhere in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpt1 import GPTClassifier
from gpt1.base.errors import InputError, SettingError
from gpt1.exchange.to_transformers import export_transformers
from gpt1.finetuning.data import window_notices
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run, measure_split
from gpt1.inference.answering import answer, left_behind
from gpt1.inference.explaining import explain_answer
from gpt1.inference.predicting import predict_rows
from gpt1.inference.run import Run
from gpt1.runs.events import Event, Saved
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import encode_task, save
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.windows import MOST_WINDOWS
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, THINGS
from tests.finetuning.tools import CONTEXT, Told, assert_same_run, make_pretrained, make_task, write_table
from tests.serve.tools import serving

MOODS, PAIRS, STORIES = make_task(), make_task("pairs", "both"), make_task("stories", "choices")
WHO = ("Ann", "somebody")  # who tells the label, behind what the context has room for
SETTINGS = (
    "training.epochs=10",
    "training.batch=8",
    "training.micro_batch=8",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "logging.keep_optimizer=true",
    "shape.dropout=0",
    "finetuning.lm_weight=0",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
)
SHORT = (
    *SETTINGS,
    "training.steps=4",
    "training.micro_batch=none",
    "shape.dropout=0.1",
    "finetuning.lm_weight=0.5",
)


def long_text(draw: random.Random, who: str, things: int = 8) -> str:
    """Return a text that says who did something only where a context of 16 tokens is over."""
    before = " ".join(draw.choice(THINGS) for _ in range(things))
    return f"{before} {who} {draw.choice(DEEDS)} {draw.choice(THINGS)}"


def long_rows(task: Task, count: int, seed: int = 0, things: int = 8) -> list[Example]:
    """Return rows whose label is told at their ends alone; of pairs by the end of one of both texts."""
    draw = random.Random(seed)
    found = []
    for row in range(count):
        label = row % 2
        texts = [long_text(draw, WHO[label], things)]
        if task.texts == 2:
            texts.append(draw.choice(THINGS))
            draw.shuffle(texts)
        found.append(Example(tuple(texts), label, row + 1))
    return found


@pytest.fixture(scope="module")
def base(words_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = ("shape.layers=1", "shape.width=32", "shape.feed_forward=128")
    return make_pretrained(tmp_path_factory.mktemp("base") / "base", words_tokenizer, *shape)


@pytest.fixture(scope="module")
def taught(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Runs that have learned long texts in one way or another, each made once."""
    made: dict[tuple[str, str], Run] = {}
    folder = tmp_path_factory.mktemp("taught")

    def get(windows: str, task: Task = MOODS) -> Run:
        key = (windows, task.name)
        if key not in made:
            rows = long_rows(task, 200)
            labelled = Labelled(task, {"train": rows[:140], "dev": rows[140:]})
            out, changes = folder / "-".join(key), [*SETTINGS, f"finetuning.windows={windows}"]
            made[key] = finetune(base, out, examples=labelled, recipe="auto", changes=changes, device="cpu")
        return made[key]

    return get


def accuracy(run: Run, task: Task = MOODS) -> float:
    rows = long_rows(task, 100, seed=1)
    return float((answer(run, task, rows).answers == [row.label for row in rows]).mean())


# ---- what is learned ----


def test_a_text_that_loses_its_end_is_answered_by_chance(taught: Callable[..., Run]) -> None:
    assert accuracy(taught("off")) < 0.65


@pytest.mark.parametrize("windows", ["mean", "max", "attention"])
def test_what_stands_behind_the_context_is_learned_in_windows(taught: Callable[..., Run], windows: str) -> None:
    assert accuracy(taught(windows)) > 0.9


def test_pairs_are_read_in_windows_too_in_both_orders(taught: Callable[..., Run]) -> None:
    assert accuracy(taught("off", PAIRS), PAIRS) < 0.65
    assert accuracy(taught("max", PAIRS), PAIRS) > 0.9


# ---- what decides it ----


def finetuned(base: Path, out: Path, rows: list[Example], *changes: str, task: Task = MOODS, **given: Any) -> Run:
    """Return a run that has made a few updates."""
    labelled = Labelled(task, {"train": rows[:-8], "dev": rows[-8:]})
    arguments: dict[str, Any] = {"examples": labelled, "recipe": "auto", "changes": [*SHORT, *changes], "device": "cpu"}
    return finetune(base, out, **{**arguments, **given})


def test_enough_long_texts_are_read_in_windows_by_themselves_and_it_is_told(base: Path, tmp_path: Path) -> None:
    short = [Example((f"{WHO[row % 2]} {DEEDS[0]}",), row % 2, row) for row in range(40)]
    told = Told()
    run = finetuned(base, tmp_path / "long", [*long_rows(MOODS, 4), *short], listeners=[told])  # 4 of 36
    assert (run.recipe.finetuning.windows, run.has_windows) == ("mean", True)
    (line,) = [line for line in told.lines if "windows" in line]
    assert line.startswith("moods: of 36 texts to learn from, 4 are longer than the 16 tokens that are read at once: ")
    assert "windows, and the mean of what those say is answered; that is " in line
    assert line.endswith(" times as much to read; `changes=['finetuning.windows=off']` cuts texts to 16")
    assert not [line for line in told.lines if "lost" in line]
    told = Told()
    run = finetuned(base, tmp_path / "short", [*long_rows(MOODS, 3), *short], listeners=[told])  # 3 of 35
    assert run.recipe.finetuning.windows == "off"
    assert "windows" not in told
    assert "moods train: 3 of 35 examples are longer than 16 tokens and lost" in told


@pytest.mark.parametrize(("task", "orders"), [(MOODS, 1), (PAIRS, 2)])
def test_what_windows_cost_is_told_in_tokens(words_tokenizer: Tokenizer, task: Task, orders: int) -> None:
    rows = long_rows(task, 10, things=40)
    encoded = encode_task(task, {"train": rows}, words_tokenizer, CONTEXT, windows=True)
    split = encoded.splits["train"]
    (line,) = window_notices({task.name: encoded}, "mean")
    whole = sum(len(ids) for place in range(10) for ids in split.sequences(place))
    first = sum(len(ids) for place in range(10) for ids in split.sequences(place)[:orders])
    cost = f"that is {whole / 10:.0f} tokens a text in place of {first / 10:.0f}, {whole / first:.1f} times as much"
    assert cost in line
    assert whole > 2 * first


def test_the_papers_recipe_reads_no_windows(base: Path, tmp_path: Path) -> None:
    changes = ["training.steps=1", "training.precision=fp32"]
    run = finetuned(base, tmp_path / "run", long_rows(MOODS, 24), recipe="finetune", changes=changes)
    assert not run.has_windows
    assert "attentions" not in " ".join(run.checkpoint.model)


def test_a_run_in_windows_that_was_cut_off_goes_on_bit_for_bit(base: Path, tmp_path: Path) -> None:
    rows = long_rows(MOODS, 32)
    changes = ["finetuning.windows=attention", "finetuning.word_dropout=0.1", "training.batch=4", "training.steps=8"]
    changes += ["logging.save_every=2"]

    def crash(event: Event) -> None:
        if isinstance(event, Saved) and event.step >= 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        finetuned(base, tmp_path / "run", rows, *changes, listeners=[crash])
    finetuned(base, tmp_path / "whole", rows, *changes)
    run = finetuned(base, tmp_path / "run", rows, *changes, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    assert "attentions.moods.query" in run.checkpoint.model
    assert run.checkpoint.model["attentions.moods.query"].any()
    with pytest.raises((SettingError, InputError), match=r"windows is attention in the run .* and max now"):
        finetuned(base, tmp_path / "run", rows, *changes, "finetuning.windows=max", resume=True)


def test_a_run_that_decided_for_windows_itself_goes_on_so(base: Path, tmp_path: Path) -> None:
    rows = long_rows(MOODS, 24)
    finetuned(base, tmp_path / "run", rows)
    run = finetuned(base, tmp_path / "run", rows, resume=True)
    assert run.recipe.finetuning.windows == "mean"


def test_what_was_encoded_in_windows_is_learned_as_rows_are(
    base: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = long_rows(MOODS, 32)
    splits = {"train": rows[:-8], "dev": rows[-8:]}
    for name, windows in (("windows", True), ("cut", False)):
        save(encode_task(MOODS, splits, words_tokenizer, CONTEXT, windows=windows), tmp_path / name)
    one = finetuned(base, tmp_path / "one", rows)
    other = finetuned(base, tmp_path / "other", rows, examples=None, encoded=tmp_path / "windows")
    assert one.recipe.finetuning == other.recipe.finetuning
    assert_same_run(one.path, other.path)
    cut = finetuned(base, tmp_path / "third", rows, examples=None, encoded=tmp_path / "cut")
    assert not cut.has_windows
    with pytest.raises(SettingError, match=r"without windows, and texts lost their ends.*`gpt1\.prepare\(windows=True"):
        finetuned(base, tmp_path / "no", rows, "finetuning.windows=max", examples=None, encoded=tmp_path / "cut")
    with pytest.raises(SettingError, match=r"encoded with windows, which `finetuning\.windows` leaves off"):
        finetuned(base, tmp_path / "no", rows, "finetuning.windows=off", examples=None, encoded=tmp_path / "windows")


def test_rows_that_are_encoded_otherwise_than_a_run_reads_are_not_measured(
    taught: Callable[..., Run], words_tokenizer: Tokenizer
) -> None:
    one, other = (
        encode_task(MOODS, {"dev": long_rows(MOODS, 8)}, words_tokenizer, CONTEXT, windows=windows)
        for windows in (True, False)
    )
    with pytest.raises(InputError, match=r"was encoded with windows, and .* reads none"):
        measure_split(taught("off"), one, "dev")
    with pytest.raises(InputError, match=r"was encoded without the windows in which .* reads long texts"):
        measure_split(taught("max"), other, "dev")


def test_choices_lose_their_ends_by_themselves_and_windows_are_refused(base: Path, tmp_path: Path) -> None:
    draw = random.Random(0)
    texts = [(long_text(draw, WHO[0]), "", *("sold nothing", "3 apples", "her hat")) for _ in range(24)]
    rows = [Example(text, row % 3, row) for row, text in enumerate(texts)]
    assert not finetuned(base, tmp_path / "run", rows, task=STORIES).has_windows
    with pytest.raises(SettingError, match="not read in windows where there are answers to choose from"):
        finetuned(base, tmp_path / "no", rows, "finetuning.windows=mean", task=STORIES)


# ---- everything that answers ----


def test_nothing_of_a_long_text_is_cut_and_of_too_long_a_one_it_is_told(taught: Callable[..., Run]) -> None:
    run, notices = taught("mean"), list[str]()
    rows = [row.texts[0] for row in long_rows(MOODS, 4, seed=2)]
    reading = predict_rows(run, rows, notice=notices.append)
    assert len(list(reading)) == 4
    assert (reading.truncated, notices) == (0, [])
    assert reading.tokens.tolist() == [len(run.tokenizer.encode(text)) for text in rows]
    endless = " ".join(rows * 40)
    reading = predict_rows(run, [*rows, endless], notice=notices.append)
    list(reading)
    assert reading.truncated == 1
    assert notices == [
        f"1 of 5 rows had more text than {MOST_WINDOWS} windows of the model's 16 tokens; the ends were not read"
    ]
    assert [next(run.predict([text]))["prediction"] for text in rows] == [MOODS.labels[row % 2] for row in range(4)]


def test_a_run_is_measured_in_windows_on_its_own_rows_and_on_a_table(
    taught: Callable[..., Run], base: Path, tmp_path: Path
) -> None:
    rows = long_rows(MOODS, 40, seed=3)
    table = write_table(tmp_path / "rows.csv", MOODS, rows)
    run = finetuned(base, tmp_path / "run", rows, examples=None, train=table)
    evaluation = json.loads((run.path / "evaluation-rows-dev.json").read_text())
    assert (evaluation["cut"], evaluation["windows"]) == ({"examples": 0, "tokens": 0}, MOST_WINDOWS)
    (again,) = evaluate_run(run, split="dev", notice=lambda text: None)
    assert again.metrics["accuracy"] == evaluation["metrics"]["accuracy"]
    (other,) = evaluate_run(taught("max"), table=table, split="all", notice=lambda text: None)
    assert (other.cut.examples, other.examples) == (0, 40)
    assert other.metrics["accuracy"] > 0.9


@pytest.mark.parametrize("windows", ["mean", "max", "attention"])
def test_the_word_that_decides_is_the_one_that_speaks_most_wherever_it_stands(
    taught: Callable[..., Run], windows: str
) -> None:
    run, strongest = taught(windows), []
    for row in long_rows(MOODS, 2, seed=5):
        found = answer(run, MOODS, [row])
        (told,) = explain_answer(run, MOODS, row, found, 0, True, with_gradients=True)
        assert told["unread"] == 0
        assert "".join(word["word"] for word in told["words"]).replace(" ", "") == row.texts[0].replace(" ", "")
        assert abs(told["gap"]) < 0.2
        strongest.append(max(told["words"], key=lambda word: word["weight"]))
    # One of the two labels may be what is answered unless the other's word stands there.
    speaks = [who in word["word"] and word["weight"] > 1 for who, word in zip(WHO, strongest, strict=True)]
    assert any(speaks)


def test_pairs_are_explained_in_windows(taught: Callable[..., Run]) -> None:
    run, strongest = taught("max", PAIRS), []
    for row in long_rows(PAIRS, 2, seed=5):
        (told,) = explain_answer(run, PAIRS, row, answer(run, PAIRS, [row]), 0, True)
        assert {word["field"] for word in told["words"]} == {"a", "b"}
        strongest.append(max(told["words"], key=lambda word: word["weight"])["word"])
    assert any(who in word for who, word in zip(WHO, strongest, strict=True))


def test_words_are_counted_in_all_windows_and_who_answers_is_decided(base: Path, tmp_path: Path) -> None:
    rows = long_rows(MOODS, 60, seed=6)
    run = finetuned(base, tmp_path / "run", rows, "finetuning.ensemble=true", "finetuning.calibrate=true")
    ensemble = run.ensembles["moods"]
    assert ensemble.words is not None
    assert accuracy(run) > 0.9  # by words, which see the ends too; the network has made four updates


@pytest.mark.parametrize("given", [{"labels_sep": ";", "metrics": ("micro_f1",)}, {"score_range": (0.0, 5.0)}])
def test_several_labels_and_scores_are_answered_in_windows(base: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    task = replace(MOODS, **given) if "labels_sep" in given else make_task(**given)
    rows = [
        replace(row, label=(int(row.label or 0),) if task.is_multilabel else 5.0 * float(row.label or 0))
        for row in long_rows(MOODS, 24)
    ]
    run = finetuned(base, tmp_path / "run", rows, "finetuning.windows=max", task=task)
    found = answer(run, task, rows)
    assert np.isfinite(found.probabilities).all()
    assert not found.cut.any()


def test_a_server_answers_in_windows(taught: Callable[..., Run]) -> None:
    run = taught("mean")
    rows = [row.texts[0] for row in long_rows(MOODS, 6, seed=7)]
    with serving(str(run.path)) as client:
        found = client.post("/v1/classify", json={"model": run.path.name, "input": rows}).json()
    assert [one["label"] for one in found["data"]] == [MOODS.labels[row % 2] for row in range(6)]
    assert found["truncated"] == 0


def test_an_estimator_learns_in_windows(base: Path) -> None:
    rows = long_rows(MOODS, 40)
    settings = {"training.steps": 2, "finetuning.calibrate": False, "finetuning.ensemble": False}
    own = GPTClassifier(base, recipe="auto", settings=settings, device="cpu")
    own.fit([row.texts[0] for row in rows], [MOODS.labels[int(row.label or 0)] for row in rows])
    assert own.run_.has_windows
    assert len(own.predict([row.texts[0] for row in rows])) == 40  # with no warning of texts that are cut


def test_an_export_says_that_it_reads_one_window(taught: Callable[..., Run], tmp_path: Path) -> None:
    said = export_transformers(taught("attention"), tmp_path / "out")
    (line,) = [line for line in said if "window" in line]
    assert line.startswith("the run reads a text of more than 16 tokens in windows; what goes out reads one window")
    assert not [line for line in left_behind(taught("off"), MOODS) if "window" in line]


def test_a_run_in_windows_trains_alike_in_any_micro_batches(base: Path, tmp_path: Path) -> None:
    rows = long_rows(MOODS, 24)
    changes = ["training.precision=fp64", "finetuning.windows=attention", "training.batch=8"]
    one, other = (
        finetuned(base, tmp_path / micro, rows, *changes, f"training.micro_batch={micro}") for micro in ("8", "3")
    )
    for name, weights in one.checkpoint.model.items():
        torch.testing.assert_close(other.checkpoint.model[name], weights, rtol=1e-7, atol=1e-9)
