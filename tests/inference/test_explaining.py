"""Which words speak for an answer: a word that decides is found, and a weight is what asking by hand gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from gpt1.base.errors import SettingError
from gpt1.inference import explaining
from gpt1.inference.answering import answer
from gpt1.inference.explaining import Explanation, explaining_tokens, in_a_line, strongest
from gpt1.inference.gradients import MOST_READINGS
from gpt1.inference.portions import on_device
from gpt1.inference.predicting import predict_rows
from gpt1.inference.run import Run, load_run
from gpt1.linear.files import Ensemble
from gpt1.linear.words import learn_words
from gpt1.records.calibration import TaskCalibration
from gpt1.records.ensemble import TaskEnsemble
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_examples
from gpt1.tasks.examples import Example
from gpt1.tasks.packed import pack_sequences
from gpt1.tasks.shapes import PAIR, SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.inference.tools import CONTEXT, make_calibrated, make_run, sure_run

PLANTED = {"glad": "lamp", "sad": "umbrella", "calm": "sailor"}
OTHERS = ("Ann", "Tom", "the", "key", "lost", "sold", "a", "was", "girl", "nothing", "map", "her", "hat")
MOODS = Task(
    name="moods", title="moods", shape=SINGLE, labels=(*PLANTED, "none"), metrics=("accuracy",), fields=("text",)
)
PAIRS = replace(MOODS, name="pairs", shape=PAIR, fields=("a", "b"))
MARKS = replace(MOODS, name="marks", metrics=("micro_f1",), labels_sep="|")


def planted(task: Task, count: int, seed: int) -> list[Example]:
    """Return examples whose label one word decides, wherever it stands; how long they are tells nothing."""
    draw, found = random.Random(seed), []
    for row in range(count):
        label = row % len(task.labels)
        parts = [[draw.choice(OTHERS) for _ in range(draw.randint(2, 5))] for _ in task.fields]
        if label < len(PLANTED):
            chosen = draw.choice(parts)
            chosen[draw.randrange(len(chosen))] = PLANTED[task.labels[label]]
        found.append(Example(tuple(map(" ".join, parts)), label, row + 1))
    return found


def taught(folder: Path, tokenizer: Tokenizer, task: Task, steps: int = 60) -> Run:
    """Make a run and teach its network such examples, new ones at each step."""
    run = load_run(make_run(folder, tokenizer, task), device="cpu")
    model = run.classifier.train()
    for weight in model.parameters():
        weight.data.div_(10 if weight.dim() > 1 and weight is not model.body.tokens else 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        split = encode_examples(task, planted(task, 32, seed=100 + step), tokenizer, CONTEXT)
        row = pack_sequences([ids for example in range(len(split)) for ids in split.sequences(example)])
        logits, *_ = model(*on_device(row, run.device), task.name)
        loss = functional.cross_entropy(logits, torch.from_numpy(split.labels.copy()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return run


@pytest.fixture(scope="module")
def glad(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Run:
    """A run that has learned which word decides."""
    return taught(tmp_path_factory.mktemp("glad") / "run", bytes_tokenizer, MOODS)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run of tasks of every sort, which has learned nothing."""
    tasks = MOODS, MARKS, CATALOGUE["mrpc"], CATALOGUE["stsb"], CATALOGUE["race"]
    return load_run(make_run(tmp_path_factory.mktemp("many") / "run", words_tokenizer, *tasks), device="cpu")


def quiet(message: str) -> None:
    """Take a notice that is not looked at."""


def explained(run: Run, row: dict[str, Any] | str, **given: Any) -> list[Explanation]:
    (found,) = predict_rows(run, [row], **{"explain": True, "notice": quiet, **given})
    return found["explanation"]  # type: ignore[return-value]


def rows_of(task: Task, examples: Sequence[Example]) -> list[dict[str, str]]:
    return [dict(zip(task.fields, example.texts, strict=True)) for example in examples]


def log_odds(run: Run, row: dict[str, Any], label: str, task: str) -> float:
    """Return what speaks for a label, asked by hand."""
    (found,) = run.predict([row], task=task)
    share = found["probabilities"][label]  # type: ignore[index]
    return float(np.log(share) - np.log(1 - share))


# ---- planted truth ----


@pytest.mark.parametrize("task", [MOODS, PAIRS], ids=["single", "pair"])
def test_the_word_that_decides_comes_first_by_either_method(
    task: Task, glad: Run, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    run = glad if task is MOODS else taught(tmp_path / "run", words_tokenizer, task)
    examples = [example for example in planted(task, 40, seed=1) if example.label != len(PLANTED)]
    found = list(run.predict(rows_of(task, examples), explain=True))
    first = {"weight": 0, "gradient": 0}
    for example, row in zip(examples, found, strict=True):
        word = PLANTED[task.labels[int(example.label)]]  # type: ignore[arg-type]
        (why,) = row["explanation"]  # type: ignore[misc,str-unpack]
        for method in first:
            best = max(why["words"], key=lambda one: one[method])  # type: ignore[index,call-overload]
            text = row[best["field"]]
            assert text[best["start"] : best["end"]] == best["word"]  # type: ignore[index]
            first[method] += best["word"] == word
    assert len(examples) == 30
    assert min(first.values()) >= 0.9 * len(examples), first


# ---- asked by hand ----


def test_a_weight_is_how_far_the_log_odds_fall_without_the_word(many: Run) -> None:
    row = {"text": "Ann lost the key!"}
    (why,) = explained(many, row, task="moods")
    label = str(why["label"])
    assert [word["word"] for word in why["words"]] == ["Ann", "lost", "the", "key", "!"]
    whole = log_odds(many, row, label, "moods")
    lacking = ["lost the key!", "Ann the key!", "Ann lost key!", "Ann lost the !", "Ann lost the key"]
    for word, text in zip(why["words"], lacking, strict=True):
        assert word["weight"] == pytest.approx(whole - log_odds(many, {"text": text}, label, "moods"), abs=1e-3)


def test_who_answers_is_asked_be_it_words_alone_or_both_at_a_temperature(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    calibration = TaskCalibration("because", temperature=2.0)
    run = load_run(make_calibrated(tmp_path / "run", words_tokenizer, MOODS, moods=calibration), device="cpu")
    examples = planted(MOODS, 80, seed=3)
    lower = [tuple(text.lower() for text in example.texts) for example in examples]
    words = learn_words(MOODS, lower, np.array([example.label for example in examples]))
    row = {"text": "Ann sold a lamp"}
    for weights in ({"words": 1.0}, {"network": 0.5, "words": 1.5}):
        run.ensembles = {"moods": Ensemble(weights, words, TaskEnsemble(weights, "because"))}
        (why,) = explained(run, row, explain="glad")
        lamp = why["words"][-1]
        wanted = log_odds(run, row, "glad", "moods") - log_odds(run, {"text": "Ann sold a"}, "glad", "moods")
        assert lamp["weight"] == pytest.approx(wanted, abs=1e-3)
        assert lamp["weight"] == max(word["weight"] for word in why["words"])
        assert ("gradient" in lamp) == ("network" in weights)  # counted words have none


def test_of_a_score_it_is_how_far_the_score_falls(many: Run) -> None:
    row = {"a": "Ann lost a key", "b": "somebody sold nothing"}
    (why,) = explained(many, row, task="stsb")
    assert why["label"] is None
    assert [word["field"] for word in why["words"]] == ["a"] * 4 + ["b"] * 3
    score, lacking = (
        next(many.predict([one], task="stsb"))["prediction"] for one in (row, {**row, "b": "somebody nothing"})
    )
    assert why["words"][5]["weight"] == pytest.approx(score - lacking, abs=1e-3)  # type: ignore[operator]


def test_of_choices_the_words_of_context_and_question_are_told(many: Run) -> None:
    row = {"context": "Ann lost a key.", "question": "What?", "choices": ["a key", "a hat", "a cat", "nothing"]}
    (why,) = explained(many, row, task="race")
    assert [word["word"] for word in why["words"]] == ["Ann", "lost", "a", "key", ".", "What", "?"]
    assert {word["field"] for word in why["words"]} == {"context", "question"}
    whole = log_odds(many, row, str(why["label"]), "race")
    lacking = log_odds(many, {**row, "question": "?"}, str(why["label"]), "race")
    assert why["words"][5]["weight"] == pytest.approx(whole - lacking, abs=1e-3)


def test_each_of_several_labels_that_is_given_is_explained_or_the_one_that_is_named(many: Run) -> None:
    (found,) = many.predict([{"text": "Ann lost a key"}], task="marks", explain=True)
    given = [name for name, share in found["probabilities"].items() if share >= 0.5]  # type: ignore[attr-defined]
    assert {one["label"] for one in found["explanation"]} == set(given)  # type: ignore[attr-defined]
    for label in MARKS.labels:
        (one,) = explained(many, {"text": "Ann lost a key"}, task="marks", explain=label)
        assert one["label"] == label


def test_another_answer_may_be_asked_for(glad: Run) -> None:
    row = {"text": "Ann sold the lamp"}
    (own,), (other,) = explained(glad, row), explained(glad, row, explain="sad")
    assert (own["label"], other["label"]) == ("glad", "sad")
    assert own["words"][-1]["weight"] > 0 > other["words"][-1]["weight"]


# ---- what is read ----


@pytest.mark.parametrize("task", ["moods", "stsb", "race"])
def test_what_the_context_has_no_room_for_has_no_weight_and_is_told(many: Run, task: str) -> None:
    long, short = " ".join(f"Ann lost key {number}" for number in range(20)), "Tom sold a hat"
    rows: dict[str, dict[str, Any]] = {
        "moods": {"text": long},
        "stsb": {"a": long, "b": short},
        "race": {"context": long, "question": "What?", "choices": ["a", "b", "c", "d"]},
    }
    (why,) = explained(many, rows[task], task=task)
    field = many.tasks[task].fields[0]
    read = [word for word in why["words"] if word["field"] == field]
    assert len(read) + why["unread"] == 80
    assert 0 < len(many.tokenizer.encode(long[: read[-1]["end"]])) <= CONTEXT
    assert why["unread"] > 40
    # Nothing else moves into the room that a word leaves.
    alone = {**rows[task], field: long[: read[-1]["end"]]}
    (again,) = explained(many, alone, task=task, explain=True if why["label"] is None else why["label"])
    assert [word["weight"] for word in again["words"]] == [word["weight"] for word in why["words"]]
    assert again["unread"] == 0


@pytest.mark.parametrize("run_name", ["glad", "many"])
def test_a_word_that_is_read_in_part_ends_where_reading_ended(
    run_name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = request.getfixturevalue(run_name)
    (why,) = explained(run, "a" * 3000, task="moods")
    (word,) = why["words"]
    assert (word["field"], word["start"], why["unread"]) == ("text", 0, 0)
    assert word["word"] == "a" * word["end"]
    assert CONTEXT - 2 <= word["end"] < 3000
    assert word["weight"] == pytest.approx(answered_less(run, "a" * 3000, "", str(why["label"])), abs=1e-3)
    text = "Ann lost " + "key" * 1000 + " to Tom"
    (why,) = explained(run, text, task="moods")
    assert [text[one["start"] : one["end"]] for one in why["words"]] == [one["word"] for one in why["words"]]
    assert [one["word"] for one in why["words"][:2]] == ["Ann", "lost"]
    assert why["words"][2]["word"].startswith("keykey")
    assert (len(why["words"]), why["unread"]) == (3, 2)
    # Without its beginning the word goes on no further than it did.
    seen: list[list[int]] = []
    answering = explaining.answer_split
    monkeypatch.setattr(
        explaining,
        "answer_split",
        lambda run, task, split: (
            seen.extend(split.sequences(place)[0].tolist() for place in range(len(split)))
            or answering(run, task, split)
        ),
    )
    explained(run, text, task="moods")
    whole, without_ann, _, without_last = seen
    assert whole == encode_examples(MOODS, [Example((text,), None, 1)], run.tokenizer, CONTEXT).sequences(0)[0].tolist()
    assert len(whole) == CONTEXT
    assert whole[-3:] == without_ann[-3:]
    assert len(without_ann) == 2 + len(run.tokenizer.encode(text[4:])) - (len(run.tokenizer.encode(text)) - 30)
    assert without_last[1:-1] == run.tokenizer.encode("Ann lost")


def answered_less(run: Run, text: str, lacking: str, label: str) -> float:
    """Return how far a label's log-odds fall from a text to another."""
    whole, rest = (answer(run, MOODS, [Example((one,), None, 1)]).probabilities[0] for one in (text, lacking))
    place = MOODS.labels.index(label)
    return float(np.log(whole[place] / (1 - whole[place])) - np.log(rest[place] / (1 - rest[place])))


def test_weights_of_one_text_are_made_beside_what_was_read_of_the_other(many: Run) -> None:
    task = many.tasks["stsb"]
    row = {"a": "x" * 300, "b": "somebody sold nothing"}
    (why,) = explained(many, row, task="stsb")
    assert [(one["field"], one["word"].strip("x")) for one in why["words"]] == [
        ("a", ""),
        ("b", "somebody"),
        ("b", "sold"),
        ("b", "nothing"),
    ]
    assert why["unread"] == 0
    read = why["words"][0]["end"]
    assert 0 < read < 300
    whole, alone, without_a = (
        float(answer(many, task, [Example(texts, None, 1)]).answers[0])
        for texts in ((row["a"], row["b"]), (row["a"], "somebody nothing"), ("", row["b"]))
    )
    assert why["words"][0]["weight"] == pytest.approx(whole - without_a, abs=1e-3)
    # Asked so by hand, what was not read of `a` moves into the room that the word of `b` has left.
    assert why["words"][2]["weight"] != pytest.approx(whole - alone, abs=1e-3)


def test_what_an_explanation_has_read_is_no_more_than_was_told_before(
    many: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    answering = explaining.answer_split
    monkeypatch.setattr(
        explaining,
        "answer_split",
        lambda run, task, split: (read.append(len(split.ids)), answering(run, task, split))[1],
    )
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("moods", ("Ann lost a silver key to Tom",)),
        ("stsb", ("Ann lost a key " * 30, "Tom sold a hat")),
        ("race", ("Ann lost a key.", "What?", "a", "b", "c", "d")),
    ]
    for name, texts in cases:
        task, example = many.tasks[name], Example(texts, None, 1)
        explaining.explain_answer(many, task, example, answer(many, task, [example]), 0, True)
        told = explaining_tokens(many, task, example, True)
        assert read[-1] <= told <= 1.5 * read[-1]
        whole = sum(map(len, encode_examples(task, [example], many.tokenizer, CONTEXT).sequences(0)))
        assert explaining_tokens(many, task, example, True, with_gradients=True) == told + MOST_READINGS * whole
    marked, example = many.tasks["marks"], Example(("Ann",), None, 1)
    one, every = (explaining_tokens(many, marked, example, why, with_gradients=True) for why in ("glad", True))
    assert every > (len(MARKS.labels) - 0.5) * one  # each label that may be given has gradients of its own
    # A word of which only the beginning is read is encoded all the same.
    long = Example(("a" * 30_000 + " b",), None, 1)
    assert explaining_tokens(many, MOODS, long, True) > len(many.tokenizer.encode(long.texts[0]))


def test_a_long_text_is_taken_by_stretches(many: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MOST_WORDS", 3)
    (why,) = explained(many, "Ann lost a silver key to Tom", task="moods")
    assert [word["word"] for word in why["words"]] == ["Ann lost a", "silver key to", "Tom"]
    assert all("gradient" in word for word in why["words"])


def test_words_stand_where_they_stood_in_the_persons_own_text(many: Run) -> None:
    text = "  ÉTÉ “Köln”\n\t👍🏽 &amp; don't…  "
    (why,) = explained(many, text, task="moods")
    assert [text[word["start"] : word["end"]] for word in why["words"]] == [word["word"] for word in why["words"]]
    assert {"ÉTÉ", "Köln", "👍🏽", "don't"} <= {word["word"] for word in why["words"]}


def test_a_text_of_one_word_can_be_explained(many: Run) -> None:
    (why,) = explained(many, "key", task="moods")
    assert len(why["words"]) == 1


# ---- what cannot be ----


@pytest.mark.parametrize("label", ["", "Glad", "nonsense"])
def test_a_label_that_there_is_not_is_refused_at_once(glad: Run, label: str) -> None:
    with pytest.raises(SettingError, match=rf"unknown label '{label}' of 'moods' to explain.*\(known: glad, sad"):
        glad.predict([{"text": "Ann"}], explain=label)


def test_a_score_has_no_label_to_name(many: Run) -> None:
    with pytest.raises(SettingError, match="answered with scores, and has no label to explain; give `explain=True`"):
        many.predict([{"a": "Ann", "b": "Tom"}], task="stsb", explain="5")
    with pytest.raises(SettingError, match="unknown label '4' of 'race'"):
        many.predict([], task="race", explain="4")


def test_an_answer_that_is_not_given_has_no_reasons_but_a_named_one_has(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    rows = [f"Ann lost {number} keys" for number in range(20)]
    two = replace(MOODS, labels=("glad", "sad"))
    sure_run(tmp_path / "run", words_tokenizer, two, rows)
    run = load_run(tmp_path / "run", device="cpu")
    found = list(predict_rows(run, rows, abstain=0.1, explain=True, notice=quiet))
    assert {bool(row["explanation"]) == (not row["abstained"]) for row in found} == {True}
    assert {row["abstained"] for row in found} == {True, False}
    assert all(row["explanation"] for row in predict_rows(run, rows, abstain=0.1, explain="sad", notice=quiet))


# ---- in a line ----


def test_the_strongest_words_are_told_in_a_line() -> None:
    weights = {"good": 1.918, "not": -0.711, "a": 0.004, "=SUM": 0.5, "x" * 60: 0.3, "b": 0.2, "c": 0.1}
    words: Any = [{"field": "a", "word": word, "start": 0, "end": 0, "weight": own} for word, own in weights.items()]
    one: Explanation = {"label": "glad", "words": words, "unread": 0}
    told = f"good (+1.92); not (-0.71); =SUM (+0.50); {'x' * 40}... (+0.30); b (+0.20)"
    assert in_a_line([one]) == strongest(one) == told
    other: Explanation = {"label": "sad", "words": [*words[:1], {**words[1], "field": "b"}], "unread": 0}
    assert in_a_line([one, other]) == f"[glad] {told} [sad] a: good (+1.92); b: not (-0.71)"
    assert in_a_line([]) == ""
