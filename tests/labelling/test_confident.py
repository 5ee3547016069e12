"""Confident learning: the same flags and ranks as a literal transcription, and what the thresholds are for."""

from __future__ import annotations

import numpy as np

from gpt1.labelling.confident import find_doubts


def by_hand(shares: list[list[float]], labels: list[int]) -> tuple[set[int], list[float]]:
    """Return which rows are flagged, and the margin of each label, a row and a class at a time."""
    classes, rows = range(len(shares[0])), range(len(labels))
    thresholds: dict[int, float] = {}
    for j in classes:  # equation 2 of the paper
        own = [shares[row][j] for row in rows if labels[row] == j]
        if own:
            thresholds[j] = sum(own) / len(own)
    joint = [[0 for _ in classes] for _ in classes]  # equation 1
    for row in rows:
        confident = [j for j in classes if j in thresholds and shares[row][j] >= thresholds[j]]
        if confident:
            joint[labels[row]][max(confident, key=lambda j: (shares[row][j], j == labels[row]))] += 1
    flagged = set()
    for i in classes:  # section 3.2, method 4, with the counts of equation 3
        of_label = [row for row in rows if labels[row] == i]
        for j in classes:
            if i == j or not sum(joint[i]):
                continue
            wrong = round(joint[i][j] / sum(joint[i]) * len(of_label))
            doubtful = [row for row in of_label if shares[row][j] > shares[row][i]]
            doubtful.sort(key=lambda row: shares[row][i] - shares[row][j])
            flagged.update(doubtful[:wrong])
    others = [max(shares[row][j] for j in classes if j != labels[row]) for row in rows]
    return flagged, [shares[row][labels[row]] - others[row] for row in rows]


def test_flags_and_ranks_are_those_of_the_paper_taken_literally() -> None:
    for seed in range(30):
        draw = np.random.default_rng(seed)
        classes = 2 + seed % 4
        shares = draw.dirichlet(np.full(classes, 0.5), 40)
        labels = np.where(draw.random(40) < 0.3, draw.integers(0, classes, 40), shares.argmax(1))
        found = find_doubts(shares, labels)
        flagged, margins = by_hand(shares.tolist(), labels.tolist())
        assert set(np.flatnonzero(found.flagged).tolist()) == flagged
        assert flagged
        assert found.order.tolist() == sorted(range(40), key=lambda row: (row not in flagged, margins[row]))
        assert (found.suggested[found.flagged] != labels[found.flagged]).all()


def test_a_row_is_suggested_the_class_that_is_furthest_ahead() -> None:
    shares = np.array([[0.98, 0.01, 0.01]] * 8 + [[0.1, 0.2, 0.7], [0.1, 0.7, 0.2], [0, 1, 0], [0, 0, 1.0]])
    labels = np.array([0] * 10 + [1, 2])
    found = find_doubts(np.concatenate([shares, [[0, 0.4, 0.6], [0, 0.6, 0.4]]]), np.array([*labels, 1, 2]))
    assert found.suggested[8:10].tolist() == [2, 1]


def test_a_class_that_is_given_too_readily_is_held_to_its_own_measure() -> None:
    shares = np.array([[0.9, 0.1], [0.7, 0.3], [0.7, 0.3], [0.1, 0.9]])
    found = find_doubts(shares, np.array([0, 0, 1, 1]))
    assert found.flagged.tolist() == [False, False, False, False]  # 0.7 is less than class 0 has on average
    assert found.order[0] == 2


def test_a_class_that_no_row_has_is_never_suggested_as_a_flag() -> None:
    found = find_doubts(np.array([[0.2, 0.1, 0.7], [0.1, 0.2, 0.7]]), np.array([0, 1]))
    assert found.flagged.tolist() == [False, False]


def test_a_tie_is_never_a_flag() -> None:
    for classes in (2, 4):
        even = np.full((3 * classes, classes), 1 / classes)
        assert not find_doubts(even, np.arange(3 * classes) % classes).flagged.any()


def test_a_tie_with_the_label_says_nothing_against_other_rows_of_it() -> None:
    shares = np.array([[0.42, 0.3, 0.28]] * 2 + [[0.45, 0.45, 0.1]] * 3 + [[0.4, 0.35, 0.25]])
    assert not find_doubts(shares, np.array([0, 0, 1, 1, 1, 1])).flagged.any()
