import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.tasks.tagging import (
    BIO,
    BIOES,
    IOB1,
    NO_WORD,
    SPAN_METRICS,
    count_spans,
    drawn_scores,
    kinds_of,
    loose,
    scheme_of,
    spans_of,
    spell_spans,
    word_scores,
)
from tests.reference import conlleval

NAMES = ("O", *(f"{sign}-{kind}" for sign in "BIES" for kind in ("LOC", "PER")))
SENTENCES = st.lists(st.lists(st.tuples(*[st.sampled_from(NAMES)] * 2), min_size=1, max_size=9), min_size=1, max_size=6)


def padded(sentences):
    found = np.full((len(sentences), max(map(len, sentences))), NO_WORD)
    for row, labels in zip(found, sentences, strict=True):
        row[: len(labels)] = [NAMES.index(label) for label in labels]
    return found


@given(SENTENCES)
def test_spans_are_counted_as_conlleval_counts_them(pairs):
    labels, answers = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    right, given_, there = conlleval.conlleval(labels, answers)
    found = count_spans(NAMES, padded(labels), padded(answers)).by_kind
    for place, kind in enumerate(kinds_of(NAMES)):
        assert [counts[place] for counts in found] == [right[kind], given_[kind], there[kind]]
    scores = word_scores(SPAN_METRICS, NAMES, padded(labels), padded(answers))
    assert scores["span_f1"] == pytest.approx(conlleval.f1(labels, answers))
    words = [own == theirs for sentence in pairs for own, theirs in sentence]
    assert scores["accuracy"] == pytest.approx(sum(words) / len(words))


@given(SENTENCES)
def test_a_span_that_is_told_is_one_that_is_counted(pairs):
    labels = [[label for label, _ in sentence] for sentence in pairs]
    told = [sum(one.kind == kind for own in labels for one in spans_of(own)) for kind in kinds_of(NAMES)]
    assert count_spans(NAMES, padded(labels), padded(labels)).by_kind[2].tolist() == told


def test_known_figures_of_conlleval():
    labels = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC", "I-LOC", "O"]]
    answers = [["B-PER", "O", "O", "B-LOC"], ["O", "B-LOC", "I-LOC", "O"]]  # the name is too short
    found = word_scores(SPAN_METRICS, NAMES, padded(labels), padded(answers))
    assert found == {"span_f1": 2 / 3, "span_precision": 2 / 3, "span_recall": 2 / 3, "accuracy": 7 / 8}


def test_words_without_a_label_do_not_count():
    labels, answers = np.array([[0, 1, NO_WORD]]), np.array([[0, 0, 1]])
    found = word_scores(SPAN_METRICS, ("B-A", "O"), labels, answers)
    assert (found["accuracy"], found["span_precision"], found["span_recall"]) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["B-A I-A O", "B-A B-A O"], BIO),
        (["I-A I-A O", "I-A B-A O"], IOB1),
        (["I-A O I-B", "O I-A"], IOB1),
        (["B-A I-A O", "O I-A O"], BIO),  # a fault of BIO, as a B begins a span behind O
        (["B-A E-A O", "S-A O"], BIOES),
        (["B-A L-A O", "U-A O"], BIOES),
    ],
)
def test_the_scheme_is_told_by_its_signs(labels, scheme):
    assert scheme_of([one.split() for one in labels]) == scheme


@pytest.mark.parametrize(
    ("labels", "scheme", "words"),
    [
        ("O I-A I-A O", BIO, [1]),
        ("B-A I-B O", BIO, [1]),
        ("B-A I-A B-A", BIO, []),
        ("I-A I-A O", IOB1, []),
        ("B-A I-A O", BIOES, [2]),
        ("B-A E-A S-A O", BIOES, []),
        ("O E-A", BIOES, [1]),
        ("O B-A", BIOES, [1]),
    ],
)
def test_labels_that_a_scheme_does_not_allow_are_found(labels, scheme, words):
    assert loose(labels.split(), scheme) == words


def test_parts_of_speech_spell_no_spans():
    assert not spell_spans(["NOUN", "VERB", "O"])
    assert not spell_spans(["O"])
    assert spell_spans(["O", "B-PER"])
    assert not spell_spans(["B-PER", "NOUN"])


def test_draws_of_sentences_score_what_is_drawn():
    labels = padded([["B-PER", "O"], ["O", "B-LOC"], ["O", "O"]])
    answers = padded([["B-PER", "O"], ["O", "O"], ["B-LOC", "O"]])
    draws = [[np.array(chosen)] for chosen in ([0, 0, 1], [2, 1, 1], [0, 1, 2])]
    found = drawn_scores(SPAN_METRICS, NAMES, labels, answers, iter(draws))
    assert found == [word_scores(SPAN_METRICS, NAMES, labels[chosen], answers[chosen]) for (chosen,) in draws]
