"""Rows for development, drawn from the training rows of a task that has none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.examples import Example, Label, Labelled
from gpt1.tasks.shapes import SINGLE
from gpt1.tasks.splitting import draw_dev, with_dev

COLOURS = Task(
    name="colours",
    title="Colours",
    shape=SINGLE,
    labels=("red", "green", "blue", "grey"),
    metrics=("accuracy",),
    fields=("text",),
)


def examples(labels: Sequence[Label], texts: list[str] | None = None) -> list[Example]:
    return [Example((texts[row] if texts else f"text {row}",), label, row + 1) for row, label in enumerate(labels)]


def sides(task: Task, train: list[Example]) -> tuple[list[Example], list[Example]]:
    found = with_dev(Labelled(task, {"train": train})).splits
    return found["train"], found.get("dev", [])


def test_every_class_gives_a_tenth():
    train, dev = sides(COLOURS, examples([0] * 100 + [1] * 50 + [2] * 10))
    assert Counter(example.label for example in dev) == {0: 10, 1: 5, 2: 1}
    assert len(train) == 160 - 16


def test_every_row_stays_on_one_side_and_in_its_order():
    rows = examples([place % 3 for place in range(200)])
    train, dev = sides(COLOURS, rows)
    assert sorted([*train, *dev], key=lambda example: example.row) == rows
    for side in (train, dev):
        assert side == sorted(side, key=lambda example: example.row)


def test_the_rows_are_drawn_and_not_the_first_or_last_ones():
    _, dev = sides(COLOURS, examples([0, 1] * 500))
    quarters = Counter(example.row // 250 for example in dev)
    assert len(quarters) >= 4
    assert max(quarters.values()) < len(dev) / 2


def test_the_draw_is_always_the_same():
    rows = examples([place % 4 for place in range(40)])
    assert [place + 1 for place in draw_dev(COLOURS, rows)] == [example.row for example in sides(COLOURS, rows)[1]]
    assert draw_dev(COLOURS, rows) == [4, 17, 26, 31]  # and is so on every machine


def test_a_class_of_two_rows_gives_one_and_a_label_seen_once_stays_in_training():
    train, dev = sides(COLOURS, examples([0] * 20 + [1] * 2 + [2]))
    assert Counter(example.label for example in dev) == {0: 2, 1: 1}
    assert Counter(example.label for example in train) == {0: 18, 1: 1, 2: 1}


def test_equal_texts_stay_together_whatever_their_case_and_blanks():
    texts = [f"Text {row // 4}" if row % 2 else f" text  {row // 4}" for row in range(200)]
    train, dev = sides(COLOURS, examples([row // 4 % 2 for row in range(200)], texts))
    assert len(dev) == 16  # of fours, never more than a tenth
    assert not {e.texts[0].lower().split()[1] for e in train} & {e.texts[0].lower().split()[1] for e in dev}


def test_a_text_repeated_over_and_over_does_not_make_up_the_dev_rows():
    texts = ["again"] * 50 + [f"text {row}" for row in range(50)]
    _, dev = sides(COLOURS, examples([0] * 100, texts))
    assert len(dev) == 10
    assert ("again",) not in [example.texts for example in dev]


def test_a_class_of_one_repeated_text_stays_in_training():
    train, dev = sides(COLOURS, examples([0] * 20 + [1] * 5, [*(f"text {row}" for row in range(20)), *["same"] * 5]))
    assert [example.label for example in dev] == [0, 0]
    assert len(train) == 23


def test_a_text_with_two_labels_stays_in_training():
    texts = [f"text {row // 2}" for row in range(40)]
    rows = examples([0, 1] * 20, texts)
    assert sides(COLOURS, rows) == (rows, [])


def test_both_orders_of_a_similar_pair_stay_together():
    rows = []
    for number in range(50):
        a, b = f"a {number}", f"b {number}"
        rows += [Example((a, b), number % 2, 2 * number + 1), Example((b, a), number % 2, 2 * number + 2)]
    train, dev = sides(CATALOGUE["mrpc"], rows)
    assert len(dev) == 8
    assert not {frozenset(e.texts) for e in train} & {frozenset(e.texts) for e in dev}


def test_scores_are_drawn_all_along_their_range():
    scores = [float(score) for score in range(100)]
    _, dev = sides(replace(COLOURS, labels=(), score_range=(0.0, 99.0), metrics=("pearson",)), examples(scores))
    assert [int(example.label // 10) for example in sorted(dev, key=lambda e: e.label)] == list(range(10))
    assert len({example.label % 10 for example in dev}) > 3


def test_questions_about_one_passage_stay_together_and_levels_keep_their_shares():
    rows = [
        Example((f"passage {row // 5}", f"question {row}", "w", "x", "y", "z"), row % 4, row + 1, row // 5 % 2)
        for row in range(500)
    ]
    train, dev = sides(CATALOGUE["race"], rows)
    assert Counter(example.group for example in dev) == {0: 25, 1: 25}
    assert not {example.texts[0] for example in train} & {example.texts[0] for example in dev}


def test_the_dev_rows_a_task_has_are_left_alone():
    rows = examples([0, 1] * 20)
    labelled = Labelled(COLOURS, {"train": rows, "dev": rows[:2]})
    assert with_dev(labelled) is labelled
    assert with_dev(only_test := Labelled(COLOURS, {"test": rows})) is only_test


def test_of_two_dev_splits_the_first_is_made():
    rows = [Example((f"a {row}", "b"), row % 3, row + 1) for row in range(60)]
    found = with_dev(Labelled(CATALOGUE["mnli"], {"train": rows, "test_matched": rows[:1]}, ("before",)))
    assert list(found.splits) == ["train", "dev_matched", "test_matched"]
    assert found.notices[0] == "before"


@pytest.mark.parametrize(
    ("task", "labels", "said"),
    [
        (
            COLOURS,
            [0, 1] * 10,
            "there are no dev rows: 2 rows of the 20 in train kept for dev, drawn evenly over the la",
        ),
        (replace(COLOURS, labels=(), score_range=(0, 9), metrics=("pearson",)), [1, 2, 3], "1 row of the 3 .* scores"),
        (COLOURS, [0, 1, 2], "no dev rows, and 3 training rows are too few to spare some"),
    ],
)
def test_the_split_is_told(task, labels, said):
    (notice,) = with_dev(Labelled(task, {"train": examples(labels)})).notices
    assert re.search(said, notice)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefghijklmnop")), max_size=60))
def test_training_never_loses_a_label_and_no_text_stands_on_both_sides(rows):
    train = examples([label for label, _ in rows], [text for _, text in rows])
    kept = set(draw_dev(COLOURS, train))
    left = [example for place, example in enumerate(train) if place not in kept]
    assert {example.label for example in left} == {example.label for example in train}
    assert not {train[place].texts for place in kept} & {example.texts for example in left}


# ---- several labels a row ----

TOPICS = replace(COLOURS, labels_sep="|", metrics=("micro_f1",))
SETS = st.lists(st.sets(st.integers(0, 3)).map(lambda own: tuple(sorted(own))), min_size=30, max_size=300)


@given(SETS)
def test_of_several_labels_each_gives_about_a_tenth(sets: list[tuple[int, ...]]):
    rows = examples(sets)
    train, dev = sides(TOPICS, rows)
    assert sorted([*train, *dev], key=lambda example: example.row) == rows
    there, given = (Counter(label for example in side for label in example.label) for side in (rows, dev))
    for label, count in there.items():
        assert abs(given[label] - count / 10) <= 3
        assert count < 2 or given[label] < count  # some stay to be learned
    assert abs(len(dev) - len(rows) / 10) <= 4


def test_rare_labels_and_rows_without_any_are_shared_out_too():
    common = [(0, 1), (0,), (1,), ()] * 100
    _, dev = sides(TOPICS, examples([*common, *[(0, 2)] * 20, *[(1, 3)] * 10]))
    given = Counter(label for example in dev for label in example.label)
    assert (given[2], given[3]) == (2, 1)
    assert 8 <= sum(not example.label for example in dev) <= 12


def test_of_a_text_with_two_sets_of_labels_nothing_goes_to_dev():
    texts = [f"text {row // 2}" for row in range(40)]
    _, dev = sides(TOPICS, examples([(0,), (1,)] * 20, texts))
    assert dev == []
