"""What examples are made of passages, and that their labels are true."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from gpt1.lessons.examples import (
    BLAME,
    LONG,
    MAKERS,
    PRAISE,
    Material,
    continues,
    damaged,
    follows,
    make_examples,
    mood,
    similar,
    stems,
)
from gpt1.lessons.passages import Passage
from tests.lessons.tools import library, passages, stretches

FOUND = passages()
MATERIAL = Material(FOUND)
LONG_FOUND = stretches(length=600)
LONG_MATERIAL = Material(LONG_FOUND)
ALL = {sentence for passage in FOUND for sentence in passage.sentences}


def pool(name: str) -> tuple[list[Passage], Material]:
    return (LONG_FOUND, LONG_MATERIAL) if name in LONG else (FOUND, MATERIAL)


def made(make, rounds: int = 4):  # type: ignore[no-untyped-def]
    found, material = pool(make.__name__)
    return [
        make(passage, material, np.random.default_rng([turn, at]))
        for turn in range(rounds)
        for at, passage in enumerate(found)
    ]


def cosine(one: str, other: str) -> float:
    """The formula, by scikit-learn."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=stems).fit(ALL)
    appears = (counter.transform(sorted(s for p in FOUND for s in p.sentences)) > 0).sum(0)
    total = sum(len(passage.sentences) for passage in FOUND)
    weights = np.log(total / np.asarray(appears, float)).ravel()
    a, b = (np.asarray(counter.transform([text]).todense()).ravel() * weights for text in (one, other))
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm else 0.0


def test_likeness_is_the_cosine_of_words_weighted_by_their_rarity() -> None:
    texts = sorted(ALL)[:6]
    for one in texts:
        for other in texts:
            assert MATERIAL.likeness(one, other) == pytest.approx(cosine(one, other), abs=1e-9)
    assert MATERIAL.likeness(texts[0], texts[0]) == pytest.approx(1.0)
    assert MATERIAL.likeness(texts[0], "Nothing shared here") == 0.0


def test_a_word_counts_by_its_beginning_which_is_shorter_where_signs_are_syllables() -> None:
    assert stems("The Fishermen's boats, 영화를 보았다") == ["the", "fishe", "boats", "영화", "보았"]


def test_similar_pairs_have_the_likeness_of_their_texts_and_cover_the_scale() -> None:
    scores = []
    for (one, other), score in made(similar):
        assert score == pytest.approx(5 * MATERIAL.likeness(one, other), abs=1e-3)
        assert one in ALL or other in ALL
        scores.append(score)
    assert min(scores) < 2
    assert max(scores) > 4.5
    assert len(set(scores)) > len(scores) / 4


def test_a_sentence_is_whole_exactly_where_it_is_so_called() -> None:
    labels = Counter()
    for at, sentence in enumerate(sorted(ALL)):
        (text,), label = damaged(Passage(0, (sentence,) * 6), MATERIAL, np.random.default_rng(at))
        assert (text == sentence) == (label == 1)
        labels[label] += 1
    assert 0.4 < labels[1] / labels.total() < 0.6


def test_sentences_are_damaged_in_all_ways() -> None:
    lengths = {len(sentence.split()) for sentence in ALL}
    (length,) = lengths
    broken = [text.split() for (text,), label in made(damaged) if label == 0]
    assert {len(words) for words in broken} == {length - 1, length, length + 1}  # lost, moved or bent, repeated
    known = {word for sentence in ALL for word in sentence.split()}
    moved = [words for words in broken if len(words) == length and any(sorted(words) == sorted(s.split()) for s in ALL)]
    bent = [words for words in broken if len(words) == length and words not in moved]
    assert moved
    assert bent
    assert {word for words in bent for word in words} <= known


def test_the_sentence_that_follows_is_the_one_that_does() -> None:
    places = Counter()
    for (context, question, *answers), place in made(follows):
        assert question == ""
        (passage,) = [one for one in FOUND if context in " ".join(one.sentences)]
        at = " ".join(passage.sentences).index(context) + len(context)
        assert " ".join(passage.sentences)[at:].strip().startswith(answers[place])
        assert answers[1 - place] not in passage.sentences
        assert answers[1 - place] in MATERIAL.documents[passage.document]
        places[place] += 1
    assert 0.4 < places[0] / places.total() < 0.6


def test_a_document_of_one_passage_has_nothing_that_could_follow_wrongly() -> None:
    alone = FOUND[0]
    assert follows(alone, Material([alone]), np.random.default_rng(0)) is None


def test_a_stretch_continues_exactly_where_it_is_so_called() -> None:
    labels = Counter()
    for (first, second), label in made(continues):
        (start,) = [stretch for stretch in LONG_FOUND if stretch.sentences[0] == first]
        assert (second == start.sentences[1]) == (label == 1)
        assert any(other.sentences[1] == second for other in LONG_MATERIAL.by_document[start.document])
        labels[label] += 1
    assert 0.4 < labels[1] / labels.total() < 0.6


def test_a_document_of_one_stretch_is_never_said_to_go_on_elsewhere() -> None:
    alone = LONG_FOUND[0]
    found = [continues(alone, Material([alone]), np.random.default_rng(seed)) for seed in range(20)]
    assert {one and one[1] for one in found} == {None, 1}


def test_a_language_model_learns_only_from_what_was_written() -> None:
    books = [part.text for part in (*library(), *library(length=600))]
    for name, (task, make) in MAKERS.items():
        texts = [text for example in made(make) if example for text in example[0]]
        written = all(any(text in book for book in books) for text in texts)
        assert task.auxiliary_lm == written, name


def test_the_word_that_is_left_out_decides_the_mood() -> None:
    for (text,), label in made(mood):
        whole = [
            set(sentence.split()) - set(text.split())
            for sentence in ALL
            if len(sentence.split()) == len(text.split()) + 1 and set(text.split()) < set(sentence.split())
        ]
        words = PRAISE if label == 1 else BLAME
        assert any(left <= words for left in whole)


@pytest.mark.parametrize("turned", ["She was not at all happy there.", "How happy they all were then!"])
def test_praise_that_is_turned_round_is_left_alone(turned: str) -> None:
    assert mood(Passage(0, (turned,) * 6), MATERIAL, np.random.default_rng(0)) is None
    assert not PRAISE & BLAME


@pytest.mark.parametrize("name", MAKERS)
def test_examples_are_different_as_many_as_wanted_and_the_same_every_time(name: str) -> None:
    task, _ = MAKERS[name]
    drawn, material = pool(name)
    found = make_examples(name, drawn, material, 60, seed=3)
    assert len(found) == 60
    assert len({example.texts for example in found}) == 60
    assert all(len(example.texts) == task.texts for example in found)
    assert found == make_examples(name, drawn, material, 60, seed=3)
    assert found != make_examples(name, drawn, material, 60, seed=4)
    assert all(math.isfinite(example.label) for example in found)
    assert len(make_examples(name, drawn[:3], material, 60, seed=3)) <= 12
