"""Texts of a target domain: how they are read, what is refused, and how well domains are told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import Gpt1Error, InputError, SettingError
from gpt1.finetuning.data import Source
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.target import FEWEST, TargetTexts, read_target, told_apart, vectors_of
from gpt1.inference.classification import probabilities
from gpt1.inference.run import load_run
from gpt1.tasks.encoded import EncodedSplit, encode_examples
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import (
    CONTEXT,
    SETTINGS,
    Told,
    encode,
    make_examples,
    make_task,
    write_table,
)

MOODS = make_task()
Read = Callable[..., tuple[TargetTexts, list[str]]]


@pytest.fixture
def read(tmp_path: Path, words_tokenizer: Tokenizer) -> Read:
    """A reader of texts for a task whose labelled rows lie in moods.csv."""
    rows = make_examples(MOODS, 20)
    write_table(tmp_path / "moods.csv", MOODS, rows)

    def found(name: str, content: str, **given: Any) -> tuple[TargetTexts, list[str]]:
        (tmp_path / name).write_text(content)
        tasks = {"moods": encode(replace(MOODS, name="moods"), words_tokenizer)}
        source = Source(**{"train": tmp_path / "moods.csv", **given})
        return read_target(tmp_path / name, source, tasks, words_tokenizer)

    return found


def decoded(split: EncodedSplit, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.decode(split.sequences(text)[0][1:-1].tolist()) for text in range(len(split))]


def test_texts_come_without_labels_each_once_and_none_that_is_labelled(
    read: Read, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    learned = (tmp_path / "moods.csv").read_text().splitlines()[1]
    found, told = read("target.csv", f"text,label\nAnn sold a lamp,good\n{learned}\nAnn sold a lamp,bad\nWu lost it,\n")
    assert decoded(found.split, words_tokenizer) == ["ann sold a lamp", "wu lost it"]
    assert not found.split.labelled.any()
    assert found.recorded.texts.rows == 2
    assert any("2 rows left out that stand there twice or among the labelled rows" in line for line in told)


def test_a_text_file_has_a_text_a_line_and_the_same_identity_as_a_table(read: Read, words_tokenizer: Tokenizer) -> None:
    lines, _ = read("target.txt", "Ann sold a lamp\n\n   Wu lost it  \n")
    table, _ = read("target.jsonl", '{"text": "Ann sold a lamp"}\n{"text": "Wu lost it"}\n')
    assert decoded(lines.split, words_tokenizer) == ["ann sold a lamp", "wu lost it"]
    assert lines.recorded.texts.identity == table.recorded.texts.identity
    other, _ = read("target.txt", "Ann sold a lamp\nWu lost nothing\n")
    assert other.recorded.texts.identity != table.recorded.texts.identity


def test_texts_that_lose_their_ends_are_counted(read: Read) -> None:
    found, told = read("target.txt", "Ann sold a lamp\n" + "Ann sold a lamp " * 20)
    assert np.diff(found.split.offsets).max() == CONTEXT
    assert any(line.endswith(f"1 text of 2 longer than {CONTEXT} tokens lost their ends") for line in told)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("target.csv", "body\nAnn\n", "its columns are to have the names that they have in the labelled table"),
        ("target.csv", "text\n", "has no rows"),
        ("target.txt", "\n\n", "has no text that is not among the labelled rows"),
    ],
)
def test_a_file_without_such_texts_is_refused(read: Read, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(name, content)


def test_what_cannot_be_adapted_is_refused_before_anything_is_made(
    trained: Path, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    (tmp_path / "target.txt").write_text("Ann sold a lamp\n" * 3)
    pair, choices = make_task("pairs", "pair"), make_task("endings", "choices")
    write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 20))
    write_table(tmp_path / "pairs.csv", pair, make_examples(pair, 20))
    write_table(tmp_path / "endings.jsonl", choices, make_examples(choices, 20))
    long = [Example(("Ann sold a lamp " * 9,), number % 2, number) for number in range(20)]
    write_table(tmp_path / "long.csv", MOODS, long)
    moods = {"train": tmp_path / "moods.csv"}
    refused: list[tuple[dict[str, Any], list[str], type[Gpt1Error], str]] = [
        ({"encoded": encode(MOODS, words_tokenizer)}, [], SettingError, "what is encoded has no columns; name the tab"),
        (
            {"train": tmp_path / "pairs.csv"},
            [],
            SettingError,
            "whose lines are texts, and rows of 'pairs' have 2; name",
        ),
        (
            {"train": tmp_path / "endings.jsonl"},
            [],
            SettingError,
            "'endings' has choices, whose answers are scored one",
        ),
        (
            {"train": tmp_path / "long.csv"},
            ["finetuning.windows=mean"],
            SettingError,
            "'long' are read in windows, and",
        ),
        (moods, ["training.patience=2"], SettingError, "patience waits for a better epoch by rows for dev, which are"),
        (moods, ["finetuning.r_drop=1"], SettingError, "finetuning.r_drop reads examples beside others or twice"),
        (moods, ["finetuning.domain_weight=-1"], SettingError, "domain_weight is at least 0, not -1"),
        ({**moods, "target_texts": tmp_path / "nowhere.csv"}, [], InputError, "nowhere.csv"),
    ]
    for given, changes, kind, message in refused:
        given = {"target_texts": tmp_path / "target.txt", **given}
        with pytest.raises(kind, match=message):
            finetune(trained, tmp_path / "run", changes=[*SETTINGS, *changes], device="cpu", **given)
        assert not (tmp_path / "run").exists()


def test_texts_of_two_tasks_at_once_are_refused(trained: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    both = {name: encode(make_task(name), words_tokenizer) for name in ("one", "other")}
    with pytest.raises(SettingError, match="are of one task, and there are 2; learn one at a time"):
        read_target(tmp_path / "texts.csv", Source(tasks=["one", "other"], data="x"), both, words_tokenizer)


def test_a_run_goes_on_with_its_own_texts_alone_and_the_network_answers_by_itself(
    trained: Path, tmp_path: Path
) -> None:
    write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 40))
    for name, word in (("target", "lamp"), ("other", "cat")):
        (tmp_path / f"{name}.txt").write_text("".join(f"Wu sold a {word} {number}\n" for number in range(10)))
    changes = [change for change in SETTINGS if "ensemble" not in change]
    given: dict[str, Any] = {"train": tmp_path / "moods.csv", "changes": changes, "device": "cpu", "recipe": "auto"}
    run = finetune(trained, tmp_path / "run", target_texts=tmp_path / "target.txt", **given)
    assert run.recipe.finetuning.ensemble is False
    for texts, message in (
        (None, r"begun with 10 texts of .*target.txt of a target domain, and is to go on with no texts"),
        (
            "other.txt",
            r"begun with 10 texts of .*target.txt of a target domain, and is to go on with 10 texts of .*oth",
        ),
    ):
        with pytest.raises(InputError, match=message):
            finetune(trained, run.path, resume=True, target_texts=texts and tmp_path / texts, **given)
    told = Told()
    (tmp_path / "target.txt").rename(tmp_path / "moved.txt")
    finetune(trained, run.path, resume=True, target_texts=tmp_path / "moved.txt", listeners=[told], **given)
    assert "are made" in told


# ---- told apart ----


def test_domains_of_other_words_are_told_apart_and_one_domain_is_not(
    trained: Path, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    run = load_run(
        finetune(
            trained, tmp_path / "run", encoded=encode(MOODS, words_tokenizer, train=60), changes=SETTINGS, device="cpu"
        ).path,
        device="cpu",
    )

    def texts(words: str, first: int, count: int = 60) -> EncodedSplit:
        rows = [Example((f"{words} {number * number % 97}",), None, number) for number in range(first, first + count)]
        return encode_examples(MOODS, rows, words_tokenizer, CONTEXT)

    here, there = texts("Ann sold nothing", 0), texts("the old sailor dreamt of 3 apples", 0)
    apart = told_apart(run.classifier, "moods", here, there)
    same = told_apart(run.classifier, "moods", here, texts("Ann sold nothing", 1000))
    assert apart == 1.0
    assert same is not None
    assert 0.3 < same < 0.7
    assert told_apart(run.classifier, "moods", here, texts("Wu", 0, FEWEST - 1)) is None


def test_the_vectors_are_those_that_the_head_is_given(
    trained: Path, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    for shape in ("pair", "both"):
        task = make_task(shape, shape)
        encoded = encode(task, words_tokenizer)
        run = finetune(trained, tmp_path / shape, encoded=encoded, changes=SETTINGS, device="cpu")
        split = encoded.splits["dev"]
        (head,) = run.classifier.heads.values()
        weight, bias = (tensor.detach().double().numpy() for tensor in head.parameters())
        logits = vectors_of(run.classifier, shape, split) @ weight.T + bias
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(shares, probabilities(run.classifier, shape, split), atol=1e-5)
