"""Counting words: a baseline that is not made of straw, as arrays that can be kept."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from gpt1.linear import words
from gpt1.linear.words import Counted, WordModel, answer_by_words, encoded_texts, learn_words
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import make_examples, make_task


@pytest.mark.parametrize("shape", ["single", "choices"])
def test_words_that_tell_the_label_are_found(shape: str) -> None:
    task = make_task(shape=shape)
    rows = make_examples(task, 160)
    answers = answer_by_words(task, rows[:120], rows[120:])
    assert (answers == [row.label for row in rows[120:]]).mean() > 0.9


def test_two_texts_are_compared_and_not_only_read() -> None:
    words = [f"word{number}" for number in range(60)]
    rows = [Example((words[row % 60], words[(row if row % 2 else row + 7) % 60]), row % 2, row) for row in range(240)]
    answers = answer_by_words(make_task(shape="pair"), rows[:120], rows[120:])
    assert (answers == [row.label for row in rows[120:]]).mean() > 0.95


def test_scores_stay_in_their_range() -> None:
    task = make_task(shape="both", score_range=(0.0, 5.0))
    rows = make_examples(task, 60)
    answers = answer_by_words(task, rows[:30], rows[30:])
    assert answers.min() >= 0
    assert answers.max() <= 5
    assert np.corrcoef(answers, [float(row.label or 0) for row in rows[30:]])[0, 1] > 0.8


TEXTS = ["a fine, fine film", "a poor film", "what a film!", "fine but poor", "nothing", "a nothing of a film"]


def terms_of(text: str) -> list[str]:
    """Write out what is counted in a text: words, pairs of neighbours, and runs of characters inside words."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    pairs = [f"{one} {other}" for one, other in pairwise(words)]
    padded = [f" {word} " for word in text.lower().split()]
    runs = [word[k : k + n] for word in padded for n in (1, 2, 3, 4) for k in range(len(word) - n + 1)]
    return [*words, *pairs, *(f"run {run}" for run in runs)]


@pytest.mark.parametrize("labels", [(0, 1, 0, 1, 1, 0), (0, 1, 2, 0, 1, 2)])
def test_probabilities_are_those_of_a_regression_over_written_out_terms(labels: tuple[int, ...]) -> None:
    task = make_task(labels=tuple("abc"[: max(labels) + 1]))
    model = learn_words(task, [(text,) for text in TEXTS], np.array(labels))
    judge_of_terms = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True).fit(TEXTS)
    judge = LogisticRegression(max_iter=2000).fit(judge_of_terms.transform(TEXTS), labels)
    asked = ["a fine film", "never seen", "poor, poor", "Filming finely"]
    found = model.probabilities([(text,) for text in asked])
    np.testing.assert_allclose(found, judge.predict_proba(judge_of_terms.transform(asked)), atol=1e-6)


@pytest.mark.parametrize(
    ("counted", "how"),
    [
        ("words", {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b|[^\w\s]"}),
        ("characters", {"ngram_range": (1, 4), "analyzer": "char_wb"}),
    ],
)
def test_what_earlier_versions_counted_is_counted_as_they_did(counted: Counted, how: dict[str, Any]) -> None:
    model = learn_words(make_task(), [(text,) for text in TEXTS], np.array([0, 1, 0, 1, 1, 0]), counted)
    judge_of_terms = TfidfVectorizer(sublinear_tf=True, **how).fit(TEXTS)
    judge = LogisticRegression(max_iter=2000).fit(judge_of_terms.transform(TEXTS), [0, 1, 0, 1, 1, 0])
    found = model.probabilities([("a fine film",)])
    np.testing.assert_allclose(found, judge.predict_proba(judge_of_terms.transform(["a fine film"])), atol=1e-6)


def test_labels_that_nearly_every_row_has_for_itself_are_learned_without_a_word_of_a_library() -> None:
    names = tuple(f"label {number}" for number in range(30))
    model = learn_words(make_task(labels=names), [(f"word{row}",) for row in range(30)], np.arange(30))
    assert model.probabilities([("word7",)]).argmax() == 7


def test_what_was_learned_is_in_its_arrays_and_terms() -> None:
    task = make_task(shape="pair")
    rows = make_examples(task, 40)
    model = learn_words(task, [row.texts for row in rows], np.array([row.label for row in rows]))
    again = WordModel(task, list(model.terms), model.idf.copy(), model.weights.copy(), model.bias.copy())
    texts = [row.texts for row in make_examples(task, 10, seed=1)]
    np.testing.assert_array_equal(again.probabilities(texts), model.probabilities(texts))


def test_a_class_that_was_not_learned_is_hardly_ever_the_answer() -> None:
    task = make_task(labels=("a", "b", "c"))
    model = learn_words(task, [(text,) for text in TEXTS], np.array([0, 2, 0, 2, 2, 0]))
    found = model.probabilities([("a poor film",)])
    assert found.shape == (1, 3)
    assert found[0, 1] < 1e-9
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("shape", ["single", "pair", "both", "choices"])
def test_texts_are_read_back_from_encoded_examples(shape: str, bytes_tokenizer: Tokenizer) -> None:
    task = make_task(shape=shape)
    rows = make_examples(task, 6)
    split = encode_task(task, {"train": rows}, bytes_tokenizer, context=200).splits["train"]
    given = [row.texts[2:] if shape == "choices" else row.texts for row in rows]
    assert [tuple(map(str.strip, parts)) for parts in encoded_texts(task, split, bytes_tokenizer)] == given


def test_where_the_order_of_a_pair_means_nothing_both_orders_are_answered_alike() -> None:
    task = make_task(shape="both")
    rows = make_examples(task, 40)
    model = learn_words(task, [row.texts for row in rows], np.array([row.label for row in rows]))
    texts = [row.texts for row in make_examples(task, 10, seed=1)]
    np.testing.assert_allclose(model.probabilities(texts), model.probabilities([parts[::-1] for parts in texts]))


def test_each_of_several_labels_is_that_of_a_regression_of_its_own() -> None:
    task = make_task(labels=("a", "b", "never", "always"), labels_sep="|", metrics=("micro_f1",))
    draw = np.random.default_rng(0)
    labels = np.concatenate([draw.integers(2, size=(60, 2)), np.tile([0, 1], (60, 1))], 1)
    texts = [(f"{'one' if a else ''} {'two' if b else ''} word {draw.integers(9)}",) for a, b, *_ in labels]
    found = learn_words(task, texts, labels).probabilities(texts)
    features = TfidfVectorizer(analyzer=terms_of, sublinear_tf=True).fit_transform(text for (text,) in texts)
    for place in (0, 1):
        wanted = LogisticRegression(max_iter=words.STEPS).fit(features, labels[:, place]).predict_proba(features)
        np.testing.assert_allclose(found[:, place], wanted[:, 1], atol=1e-6)
    assert found[:, 2].max() < 1e-9
    assert found[:, 3].min() > 1 - 1e-9


# Nouns with the particles that Korean writes onto them, so that hardly a word is met twice in one form.
NOUNS = {"good": ("재미", "감동", "걸작", "최고"), "bad": ("지루", "졸작", "실망", "최악")}
PARTICLES = ("이", "가", "은", "는", "을", "를", "도", "만", "와", "의", "로", "에", "라", "야", "네", "요")


def korean_rows(start: int, stop: int) -> list[Example]:
    kinds = list(NOUNS.values())
    return [
        Example((f"{PARTICLES[row % 7]} {kinds[row % 2][row // 2 % 4]}{PARTICLES[row // 8]}",), row % 2, row)
        for row in range(start, stop)
    ]


def test_words_that_are_seldom_met_twice_in_one_form_are_known_by_their_characters() -> None:
    task, train, asked = make_task(), korean_rows(0, 64), korean_rows(64, 128)
    labels = np.array([row.label for row in train])
    answers = answer_by_words(task, train, asked)
    assert (answers == [row.label for row in asked]).all()
    plain = learn_words(task, [row.texts for row in train], labels, "words")
    missed = plain.probabilities([row.texts for row in asked]).argmax(1) != [row.label for row in asked]
    assert missed.mean() > 0.3


def test_shares_in_common_are_of_terms() -> None:
    task, texts = make_task(shape="pair"), [("a fine film", "a fine day"), ("nothing", "all of it")]
    vectorizer = words._new_vectorizer(words.ALL_TERMS).fit(text for parts in texts for text in parts)
    found = words._features(task, vectorizer, texts, words.ALL_TERMS).toarray()[:, -3:]
    for row, (one, other) in zip(found, texts, strict=True):
        left, right = set(terms_of(one)), set(terms_of(other))
        both = len(left & right)
        np.testing.assert_allclose(row, [both / len(left), both / len(right), both / len(left | right)])


def test_shares_of_earlier_versions_are_of_words_or_characters() -> None:
    assert words._shared(("영화는 좋다", "영화가 좋다"), "words") == [1 / 2, 1 / 2, 1 / 3]
    assert words._shared(("영화는 좋다", "영화가 좋다"), "characters") == [4 / 5, 4 / 5, 4 / 6]
