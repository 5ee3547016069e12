"""Words that have a label each: learned by what stands anywhere in their sentence, and answered by people's files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from gpt1 import GPTClassifier
from gpt1.base.errors import InputError, SettingError
from gpt1.exchange.to_onnx import export_onnx
from gpt1.exchange.to_transformers import export_transformers
from gpt1.finetuning.batches import LM, PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.data import Source
from gpt1.finetuning.distill import distill_task
from gpt1.finetuning.drifting import find_drift
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run
from gpt1.finetuning.objective import TaskLearning
from gpt1.inference.answer_files import answer_table
from gpt1.inference.answering import answer
from gpt1.inference.classification import head_shapes
from gpt1.inference.predicting import predict_rows, predict_texts
from gpt1.inference.run import Run
from gpt1.labelling.suspects import suspect_labels
from gpt1.model import Packing, build_classifier, build_model
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change
from gpt1.recipes.values import Shape
from gpt1.records.evaluation import Evaluation
from gpt1.runs.events import Event, Saved
from gpt1.starting.start import start
from gpt1.tasks.catalog import Task, find_task
from gpt1.tasks.encoded import EncodedTask, encode_examples, encode_task, load, save
from gpt1.tasks.examples import Example
from gpt1.tasks.tagging import SPAN_METRICS
from gpt1.text.specials import special_ids
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.batches import NO_TARGET
from gpt1.tuning.tune import tune
from tests.conftest import SMALL_RUN
from tests.finetuning.tools import Told, assert_same_run, make_pretrained
from tests.reference import conlleval
from tests.serve.tools import serving

CONTEXT = 32
NAMES = ("Ann", "Tom", "Brown", "O'Neill")
BETWEEN = ("of the map", "with a lamp", "and the cat", "or somebody")
AS_PERSON, AS_PLACE = ("sold nothing", "dreamt"), ("was given", "was lost")
LABELS = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")

SETTINGS = (
    "training.epochs=12",
    "training.batch=8",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "shape.dropout=0",
    "logging.keep_optimizer=true",
)


def sentences(count: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Return sentences whose names are of people or of places by what is said at the end, and by nothing else."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        kind, ends = draw.choice((("PER", AS_PERSON), ("LOC", AS_PLACE)))
        names = [draw.choice(NAMES) for _ in range(draw.randint(1, 2))]
        rest = f"{draw.choice(BETWEEN)} {draw.choice(BETWEEN)} {draw.choice(ends)} .".split()
        labels = [f"B-{kind}", f"I-{kind}"][: len(names)] + ["O"] * len(rest)
        found.append(([*names, *rest], labels))
    return found


def write(path: Path, rows: list[tuple[list[str], list[str]]]) -> Path:
    """Write sentences as a column file, or as lists."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"tokens": words, "labels": labels}) + "\n" for words, labels in rows))
        return path
    lines = ("".join(f"{word}\t{label}\n" for word, label in zip(*row, strict=True)) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def make_task(shape: str = "tokens", labels: tuple[str, ...] = LABELS) -> Task:
    metrics = SPAN_METRICS if labels == LABELS else ("accuracy",)
    return Task(name="names", title="names", shape=shape, metrics=metrics, fields=("text",), labels=labels)


WORDS = make_task()


def make_example(words: list[str], labels: list[str] | None, row: int = 1) -> Example:
    places = None if labels is None else tuple(map(LABELS.index, labels))
    return Example((" ".join(words),), places, row, words=tuple(words))


@pytest.fixture(scope="module")
def base(words_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = ("shape.layers=2", "shape.width=32", "shape.feed_forward=128", f"shape.context={2 * CONTEXT}")
    return make_pretrained(tmp_path_factory.mktemp("base") / "base", words_tokenizer, *shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("words")
    write(found / "names.conll", sentences(240))
    write(found / "others.conll", sentences(80, seed=1))
    return found


def learn(base: Path, out: Path, train: Path, *changes: str, **given: Any) -> Run:
    return finetune(base, out, train=train, recipe="auto", changes=[*SETTINGS, *changes], device="cpu", **given)


@pytest.fixture(scope="module")
def run(base: Path, folder: Path) -> Run:
    return learn(base, folder / "run", folder / "names.conll", test=folder / "others.conll")


# ---- what is learned ----


def test_names_that_only_the_end_of_a_sentence_tells_are_learned_where_it_stands_twice(
    base: Path, folder: Path, run: Run
) -> None:
    (found,) = evaluate_run(run, split="test", notice=[].append)
    assert found.metrics["span_f1"] > 0.95
    once = learn(base, folder / "once", folder / "names.conll", test=folder / "others.conll", shape="tokens-once")
    (blind,) = evaluate_run(once, split="test", notice=[].append)
    assert blind.metrics["span_f1"] < 0.75  # which of the two it is stands behind the name
    assert blind.metrics["accuracy"] > 0.8  # where names are can be seen


def test_what_is_measured_is_what_conlleval_counts_of_what_is_answered(run: Run, folder: Path) -> None:
    (found,) = evaluate_run(run, split="dev", notice=[].append)
    lines = [json.loads(line) for line in (run.path / "predictions-names-dev.jsonl").read_text().splitlines()]
    labels, answers = ([line[side].split() for line in lines] for side in ("label", "prediction"))
    assert found.metrics["span_f1"] == pytest.approx(conlleval.f1(labels, answers))
    right, given, there = conlleval.conlleval(labels, answers)
    assert [one.support for one in found.classes] == [there["LOC"], there["PER"]]
    assert [one.precision for one in found.classes] == [right[kind] / given[kind] for kind in ("LOC", "PER")]
    low, high = found.intervals["span_f1"]
    assert low <= found.metrics["span_f1"] <= high
    assert found.examples == len(lines)


def test_a_linear_model_stands_beside_the_score_and_the_verdict_names_it(run: Run) -> None:
    found = Evaluation.read(run.path / "evaluation-names-test.json")
    assert found.yardstick == "a linear model of words"
    assert found.words is not None
    assert 0.3 < found.words["span_f1"] < found.metrics["span_f1"]  # what tells a name is beyond its neighbours


def test_parts_of_speech_are_judged_word_by_word(base: Path, tmp_path: Path) -> None:
    rows = [(words, ["NAME" if label != "O" else "OTHER" for label in labels]) for words, labels in sentences(60)]
    run = learn(base, tmp_path / "run", write(tmp_path / "tags.jsonl", rows), "training.epochs=3", shape="tokens")
    task = run.tasks["tags"]
    assert (task.metrics, task.labels) == (("accuracy",), ("NAME", "OTHER"))
    (found,) = evaluate_run(run, notice=[].append)
    assert found.confusion is not None
    assert sum(map(sum, found.confusion.counts)) == sum(one.support for one in found.classes)
    answers = list(run.predict(["Ann sold nothing."]))
    assert [one["label"] for one in answers[0]["prediction"]] == answers[0]["labels"]


# ---- the formula ----


def by_hand(model: Any, task: Task, encoded: EncodedTask, lm_weight: float) -> float:
    """Return the loss of all training examples, sequence by sequence and word by word."""
    split, (_, delimiter, _) = encoded.splits["train"], special_ids(encoded.vocab_size).values()
    of_words, of_tokens, words = 0.0, 0.0, 0
    for example in range(len(split)):
        sequences = [torch.tensor(ids.astype(np.int64)) for ids in split.sequences(example)]
        outputs = []
        for ids in sequences:
            lengths = torch.tensor([0, len(ids)], dtype=torch.int32)
            packing = Packing(lengths, torch.zeros_like(ids), torch.arange(len(ids)), len(ids))
            hidden, output = model.body(ids, None, packing)
            outputs.append(hidden)
            end = ids.tolist().index(delimiter) if task.shape == "tokens" else len(ids) - 1
            logits = hidden[:end] @ output[: encoded.vocab_size + 3].T
            of_tokens += float(functional.cross_entropy(logits, ids[1 : end + 1])) / len(sequences)
        rows = torch.cat(outputs)
        for place, label in zip(split.places[example], split.labels[example], strict=True):  # type: ignore[index]
            if place >= 0:
                logits = model.heads[task.name](rows[place])
                of_words -= float(logits.log_softmax(-1)[label])
                words += 1
    return of_words / words + lm_weight * of_tokens / len(split)


@torch.no_grad()
@pytest.mark.parametrize("shape", ["tokens", "tokens-once"])
@pytest.mark.parametrize("context", [CONTEXT, 16])  # in one window, and in several
def test_the_loss_is_the_mean_over_words_and_beside_it_the_text_once(
    words_tokenizer: Tokenizer, shape: str, context: int
) -> None:
    task = make_task(shape)
    rows = [make_example(words, labels) for words, labels in sentences(5)]
    encoded = encode_task(task, {"train": rows}, words_tokenizer, context)
    body = build_model(network_of(context), words_tokenizer.vocab_size + 3, compute=torch.float64, seed=1)
    model = build_classifier(body, head_shapes({"names": task}), seed=2).double()
    lesson = make_lesson(encoded, class_weights=False)
    packing = PackingOptions(words_tokenizer.vocab_size, context, block=8, dtype=np.float64)
    batch = TaskBatches({"names": lesson}, batch=5, seed=0, packing=packing).batch(0)
    learning = TaskLearning(model, lm_weight=0.5, tasks=["names"])
    for sizes in ([5], [2, 3], [1, 1, 1, 1, 1]):  # cut into micro-batches, the last one filled up
        sums = {"names": 0.0, LM: 0.0}
        first = 0
        for size in sizes:
            micro = batch.part(first, size, size + (first > 0))
            tensors = {name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in micro.arrays.items()}
            terms = learning(tensors, None, **micro.facts)
            sums = {name: total + float(terms[name]) for name, total in sums.items()}
            first += size
        found = sums["names"] / batch.counts["names"] + 0.5 * sums[LM] / batch.counts[LM]
        assert found == pytest.approx(by_hand(model, task, encoded, 0.5), abs=1e-10)


def network_of(context: int) -> Shape:
    """Return a small network."""
    return change(find_recipe("tiny"), [*SMALL_RUN, f"shape.context={context}", "shape.dropout=0"]).shape


def test_the_second_time_a_text_stands_there_is_not_learned_by_the_language_model(words_tokenizer: Tokenizer) -> None:
    rows = [make_example(words, labels) for words, labels in sentences(3)]
    encoded = encode_task(make_task(), {"train": rows}, words_tokenizer, CONTEXT * 2)
    packing = PackingOptions(words_tokenizer.vocab_size, CONTEXT * 2)
    batch = TaskBatches({"names": make_lesson(encoded, class_weights=False)}, batch=3, seed=0, packing=packing).batch(0)
    arrays = batch.part(0, 3, 3).arrays
    delimiter = special_ids(words_tokenizer.vocab_size)["delimiter"]
    for begin, end in zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True):
        ids, targets = arrays["ids"][begin:end], arrays["targets"][begin:end]
        middle = ids.tolist().index(delimiter)
        assert targets[:middle].tolist() == ids[1 : middle + 1].tolist()
        assert (targets[middle:] == NO_TARGET).all()


# ---- a word and its tokens ----

ODD = ["Ann", "O'Neill", "couldn't", "U.N.", "£5.50", "(torn)", "日本", "\u200b", "x" * 40, "don’t", "...", "New York"]


@pytest.mark.parametrize("kind", ["words_tokenizer", "bytes_tokenizer"])
@pytest.mark.parametrize("shape", ["tokens", "tokens-once"])
@pytest.mark.parametrize("context", [400, 24])
def test_each_word_is_read_at_its_last_token(
    kind: str, shape: str, context: int, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    room = (context - 3) // 2 if shape == "tokens" else context - 2
    draw = random.Random(0)
    rows = [make_example(draw.choices(ODD, k=draw.randint(1, 30)), None) for _ in range(30)]
    split = encode_examples(make_task(shape), rows, tokenizer, context)
    assert split.places is not None
    lost = 0
    for place, row in enumerate(rows):
        ids = np.concatenate(split.sequences(place))
        at = split.places[place][: len(row.words)]
        assert (np.diff(at) >= 0).all()
        alone = tokenizer.encode_batch([f" {word}" if number else word for number, word in enumerate(row.words)])
        for end, own in zip(at.tolist(), alone, strict=True):
            kept = own[:room]
            lost += len(own) - len(kept)
            if kept:  # behind what its last token is there stands no other of it
                assert ids[end + 1 - len(kept) : end + 1].tolist() == kept
        assert all(len(one) <= context for one in split.sequences(place))
        if shape == "tokens":  # all of a window has been read before the first label
            sizes = [len(one) for one in split.sequences(place)]
            begins = np.cumsum([0, *sizes])
            for begin, one in zip(begins, split.sequences(place), strict=False):
                own_places = at[(at >= begin) & (at < begin + len(one))] - begin
                assert (own_places >= one.tolist().index(special_ids(tokenizer.vocab_size)["delimiter"])).all()
    assert int(split.cut.sum()) == lost


def test_words_of_bytes_are_tokens_as_in_the_whole_text(bytes_tokenizer: Tokenizer) -> None:
    for words, _ in sentences(20):
        alone = bytes_tokenizer.encode_batch([f" {word}" if place else word for place, word in enumerate(words)])
        assert [token for one in alone for token in one] == bytes_tokenizer.encode(" ".join(words))


def test_a_sentence_in_several_windows_has_a_label_for_every_word_and_it_is_told(base: Path, tmp_path: Path) -> None:
    rows = [(words * 6, labels * 6) for words, labels in sentences(24)]
    told = Told()
    run = learn(base, tmp_path / "run", write(tmp_path / "long.conll", rows), "training.steps=2", listeners=[told])
    assert "sentences are read in up to" in told
    assert "every word is labelled" in told
    (answered,) = run.predict([{"words": rows[0][0]}])
    assert len(answered["labels"]) == len(rows[0][0])


# ---- going on, and what is kept ----


def test_a_run_that_was_cut_off_goes_on_bit_for_bit(base: Path, folder: Path, tmp_path: Path) -> None:
    changes = ("training.steps=8", "training.epochs=1", "shape.dropout=0.1", "training.micro_batch=3")
    changes += ("logging.save_every=2", "finetuning.class_weights=true")

    def crash(event: Event) -> None:
        if isinstance(event, Saved) and event.step >= 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        learn(base, tmp_path / "run", folder / "names.conll", *changes, listeners=[crash])
    learn(base, tmp_path / "whole", folder / "names.conll", *changes)
    learn(base, tmp_path / "run", folder / "names.conll", *changes, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_an_encoded_task_of_words_is_kept_and_learned_from(
    base: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [make_example(words, labels, row) for row, (words, labels) in enumerate(sentences(40))]
    encoded = encode_task(make_task(), {"train": rows[:30], "dev": rows[30:]}, words_tokenizer, CONTEXT)
    save(encoded, tmp_path / "encoded")
    again = load(tmp_path / "encoded")
    for split, data in encoded.splits.items():
        for name, found in data.arrays.items():
            assert np.array_equal(found, again.splits[split].arrays[name])
    run = finetune(base, tmp_path / "run", encoded=tmp_path / "encoded", changes=[*SETTINGS, "training.steps=1"])
    (found,) = evaluate_run(run, notice=[].append)
    assert found.words is None  # of ids nobody knows the words as they stood in the file


# ---- answers ----


def test_a_text_is_answered_by_spans_of_its_characters(run: Run) -> None:
    text = "Ann  Brown of the map, with a lamp sold nothing."
    (found,) = run.predict([text])
    assert found["tokens"] == ["Ann", "Brown", *["of", "the", "map", ",", "with", "a", "lamp", "sold", "nothing", "."]]
    assert found["labels"][:3] == ["B-PER", "I-PER", "O"]
    (span,) = found["prediction"]
    assert {name: span[name] for name in ("label", "text", "start", "end")} == {
        "label": "PER",
        "text": "Ann  Brown",
        "start": 0,
        "end": 10,
    }
    assert text[span["start"] : span["end"]] == span["text"]
    assert 0.5 < span["confidence"] <= 1
    assert predict_texts(run, [text])["prediction"] == [span]


def test_words_of_a_list_stay_as_they_are(run: Run) -> None:
    (found,) = predict_rows(run, [{"words": ["Tom", "O'Neill", "of", "the map", "was", "lost"]}])
    assert found["tokens"] == ["Tom", "O'Neill", "of", "the map", "was", "lost"]
    assert len(found["labels"]) == 6


def test_answers_are_those_of_each_text_by_itself(run: Run) -> None:
    rows = [make_example(words, None) for words, _ in sentences(20, seed=3)]
    together = answer(run, run.tasks["names"], rows)
    for place, row in enumerate(rows):
        alone = answer(run, run.tasks["names"], [row])
        assert together.name(place) == alone.name(0)


def test_a_text_file_becomes_a_column_file_that_can_be_scored(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = sentences(12, seed=5)
    (tmp_path / "texts.txt").write_text("\n\n".join(" ".join(words) for words, _ in rows))
    assert answer_table(run, tmp_path / "texts.txt", tmp_path / "answers.conll") == 12
    answered = [
        [line.split("\t") for line in one.splitlines()]
        for one in (tmp_path / "answers.conll").read_text().split("\n\n")
    ][:-1]
    assert [[word for word, _ in one] for one in answered] == [words for words, _ in rows]
    assert conlleval.f1([labels for _, labels in rows], [[label for _, label in one] for one in answered]) > 0.9


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.csv", "answers.parquet"])
def test_a_column_file_is_answered_into_tables_too(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    assert answer_table(run, folder / "others.conll", tmp_path / name) == 80
    assert (tmp_path / name).stat().st_size > 1000


def test_a_further_file_is_scored_and_labels_that_were_not_learned_are_refused(run: Run, tmp_path: Path) -> None:
    (found,) = evaluate_run(run, table=write(tmp_path / "more.conll", sentences(20, seed=9)), notice=[].append)
    assert (found.split, found.examples) == ("more", 20)
    bad = write(tmp_path / "bad.conll", [(["Ann", "sold"], ["B-PER", "B-ORG"])])
    with pytest.raises(InputError, match=r"bad.conll, line 2: label 'B-ORG' is none of B-LOC, B-PER"):
        evaluate_run(run, table=bad, notice=[].append)


# ---- what is refused ----


@pytest.mark.parametrize(
    "setting", ["ensemble=true", "calibrate=true", "word_dropout=0.1", "windows=mean", "word_swaps=0.1", "r_drop=1"]
)
def test_settings_that_mean_nothing_to_words_are_refused(
    base: Path, folder: Path, tmp_path: Path, setting: str
) -> None:
    with pytest.raises(SettingError, match=f"where each word has a label, `finetuning.{setting.split('=')[0]}` has no"):
        learn(base, tmp_path / "run", folder / "names.conll", f"finetuning.{setting}")


@pytest.mark.parametrize(
    "how", [{"regression": True}, {"labels_sep": "|"}, {"metric": "macro-f1"}, {"symmetric": True}]
)
def test_ways_to_read_tables_are_refused(base: Path, folder: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="is for tables of one answer a row, and here each word has a label"):
        learn(base, tmp_path / "run", folder / "names.conll", **how)


@pytest.mark.parametrize("how", [{"abstain": 0.05}, {"explain": True}, {"explain": "B-PER"}])
def test_what_words_are_not_asked_yet_is_refused(run: Run, how: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"'names' labels words, and .* is for tasks of one answer a row"):
        list(run.predict(["Ann sold nothing"], **how))


def test_words_are_read_from_files_that_are_named_and_not_from_folders_of_tasks(run: Run, folder: Path) -> None:
    with pytest.raises(SettingError, match=r"'names' labels words, whose files are named one by one"):
        evaluate_run(run, data=folder)
    with pytest.raises(SettingError, match=r"labels words, and such a task is made of its file"):
        find_task(f"{__name__}:WORDS")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": " "}, "'text' is empty"),
        ({"other": "x"}, "no column 'text'"),
        ({"words": []}, "'words' is empty"),
        ({"words": ["a", 3]}, "expected text"),
        ({"text": "a " * 5_001}, "'text' has 5,001 words, and at most 5,000 are labelled at once"),
    ],
)
def test_a_row_that_cannot_be_answered_is_told(run: Run, row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(run.predict([row]))


def test_what_is_for_one_answer_a_row_says_what_knows_such_runs(
    base: Path, run: Run, folder: Path, tmp_path: Path
) -> None:
    told = r"'names' labels words, and .* is for tasks of one answer a row; gpt1 check, finetune, evaluate, predict, "
    table = folder / "names.conll"
    doors = [
        lambda: export_onnx(run, tmp_path / "onnx"),
        lambda: export_transformers(run, tmp_path / "theirs"),
        lambda: find_drift(run, table),
        lambda: suspect_labels(run, table, tmp_path / "suspects.csv"),
        lambda: GPTClassifier.load(run.path),
        lambda: distill_task([run.path], base, tmp_path / "taught", source=Source(train=table)),
        lambda: tune(table, tmp_path / "tuned", init=base, trials=1),
    ]
    for door in doors:
        with pytest.raises(SettingError, match=told):
            door()
    with pytest.raises(SettingError, match=r"has a label for each word, which `gpt1\.finetune` learns"):
        start(table, out=tmp_path / "started", init=base)


def test_a_served_run_tells_words_labels_and_where_spans_stand(run: Run) -> None:
    text = "Ann Brown of the map with a lamp sold nothing."
    (expected,) = run.predict([text])
    with serving(str(run.path)) as client:
        found = client.post("/v1/classify", json={"model": "run", "input": [text]}).json()["data"][0]
        refused = client.post("/v1/classify", json={"model": "run", "input": text, "explain": True})
        listed = client.post("/v1/classify", json={"model": "run", "input": {"text": ["Ann", "sold"]}}).json()["data"][
            0
        ]
    assert (found["words"], found["labels"], found["spans"]) == (
        expected["tokens"],
        expected["labels"],
        expected["prediction"],
    )
    assert refused.status_code == 400
    assert (
        "labels words, and explaining an answer is for tasks of one answer a row" in refused.json()["error"]["message"]
    )
    assert listed["words"] == ["Ann", "sold"]
