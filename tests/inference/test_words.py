import numpy as np

from gpt1.inference.words import answered_words, column_lines, stretches
from gpt1.tasks.catalog import Task
from gpt1.tasks.tagging import NO_WORD

NAMES = Task(
    name="n", title="n", shape="tokens", metrics=("span_f1",), fields=("text",), labels=("B-LOC", "I-LOC", "O")
)


def test_the_likeliest_label_of_each_word_is_given_and_none_behind_the_last() -> None:
    given, sure = answered_words(np.array([[[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0, 0, 0]]]))
    assert given.tolist() == [[1, 2, NO_WORD]]
    assert sure.tolist() == [[0.5, 0.8, 1.0]]


def test_spans_stand_where_their_words_do_and_are_as_sure_as_the_least_sure_of_them() -> None:
    text = "a New  York, York"
    found = stretches(
        NAMES, text, ["a", "New", "York", ",", "York"], np.array([2, 0, 1, 2, 0]), np.array([1, 0.9, 0.7, 1, 0.6])
    )
    assert found == [
        {"label": "LOC", "text": "New  York", "start": 2, "end": 11, "confidence": 0.7},
        {"label": "LOC", "text": "York", "start": 13, "end": 17, "confidence": 0.6},
    ]


def test_answers_become_lines_of_a_column_file_and_rows_without_any_are_left_out() -> None:
    rows = iter([{"tokens": ["a", "b"], "labels": ["O", "B-LOC"]}, {"error": "is empty"}])
    assert b"".join(column_lines(rows, "tokens", "labels")) == b"a\tO\nb\tB-LOC\n\n"
