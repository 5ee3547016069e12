"""Whatever scikit-learn hands over is understood alike, and what cannot be used is named with its row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_matrix

from gpt1 import GPTClassifier, GPTRegressor
from gpt1.base.errors import InputError, SettingError
from gpt1.estimators.inputs import label_field, read_texts
from gpt1.inference.answering import task_of
from tests.estimators.tools import MOODS, PAIRS, SCORES, TEXTS, hasty

NOWHERE = "no run: rows are looked at first"


def pair_cells() -> np.ndarray[Any, Any]:
    cells = np.empty(len(PAIRS), dtype=object)
    cells[:] = PAIRS
    return cells


# ---- X ----


@pytest.mark.parametrize(
    "X",
    [
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS).reshape(-1, 1),
        pd.Series(TEXTS, index=range(100, 100 + len(TEXTS))),
        pd.Series(TEXTS, dtype="category"),
        pd.DataFrame({"review": TEXTS}),
        iter(TEXTS),
    ],
    ids=["tuple", "array", "objects", "column", "Series", "category", "DataFrame", "iterator"],
)
def test_texts_may_come_in_any_container(fitted: GPTClassifier, X: Any) -> None:
    assert (fitted.predict_proba(X) == fitted.predict_proba(TEXTS)).all()


@pytest.mark.parametrize(
    "X",
    [[list(pair) for pair in PAIRS], np.array(PAIRS), pd.DataFrame(PAIRS), pd.Series(PAIRS), pair_cells()],
    ids=["lists", "array", "DataFrame", "Series", "objects"],
)
def test_pairs_may_come_in_any_container(of_pairs: GPTClassifier, X: Any) -> None:
    assert (of_pairs.predict_proba(X) == of_pairs.predict_proba(PAIRS)).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", "X is a str; give a list of texts or of pairs, or a DataFrame"),
        ({"text": TEXTS}, "X is a dict; give a list"),
        (None, "X is a NoneType; give a list"),
        ([], "X has no rows"),
        (pd.DataFrame({"a": [], "b": []}), "X has no rows"),
        (["good", None], "X, row 2: 'text' is empty; fill it or take the row out"),
        (["good", math.nan], "X, row 2: 'text' is empty"),
        (pd.Series(["good", pd.NA], name="review"), "X, row 2: 'review' is empty"),
        (["good", " \n"], "X, row 2: 'text' is empty"),
        (["good", 3], "X, row 2: 'text' holds 3, expected text"),
        (["good", b"bad"], "X, row 2: 'text' holds b'bad', expected text"),
        (["good", "half a \ud83d"], "X, row 2: 'text': character 7 is a lone surrogate"),
        ([("a", "b"), ("a", None)], "X, row 2: 'b' is empty"),
        ([("a", "b"), ("a", "b", "c")], "X, row 2: 3 texts, expected 2 as in the first row"),
        ([("a", "b"), "a"], "X, row 2: 1 text, expected 2 as in the first row"),
        ([("a", "b", "c")], "X, row 1: 3 texts, expected one or two"),
        ([()], "X, row 1: 0 texts, expected one or two"),
        (np.zeros((2, 3)), r"X has the shape \(2, 3\); a row has one text or two: choose their columns"),
        (np.zeros((2, 1)), r"X, row 1: 'text' holds 0.0, expected text"),
    ],
)
def test_rows_that_are_no_texts_are_named(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hasty(NOWHERE).fit(X, [0, 1] if X is not None and len(X) > 1 else [0])


@pytest.mark.parametrize("make", [csr_matrix, coo_array])
def test_counts_of_words_are_not_taken_for_texts(make: Any) -> None:
    with pytest.raises(InputError, match="X is sparse, of numbers; give texts as they are"):
        hasty(NOWHERE).fit(make([[1, 0], [0, 1]]), [0, 1])


def test_other_rows_than_those_of_fit_are_refused(fitted: GPTClassifier, of_pairs: GPTClassifier) -> None:
    with pytest.raises(InputError, match="X has 2 texts a row, fit was given 1"):
        fitted.predict(PAIRS)
    with pytest.raises(InputError, match="X has 1 text a row, fit was given 2"):
        of_pairs.predict(TEXTS)


def test_columns_in_another_order_are_refused(trained: Path) -> None:
    frame = pd.DataFrame(PAIRS, columns=["claim", "fact"])
    estimator = hasty(trained).fit(frame, MOODS)
    assert list(estimator.feature_names_in_) == ["claim", "fact"]
    assert estimator.predict(frame).tolist() == estimator.predict(PAIRS).tolist()
    with pytest.raises(InputError, match="X has the columns fact, claim; fit was given claim, fact"):
        estimator.predict(frame[["fact", "claim"]])
    assert not hasattr(estimator.fit(PAIRS, MOODS), "feature_names_in_")


def test_texts_and_labels_keep_the_names_they_came_with(trained: Path) -> None:
    estimator = hasty(trained).fit(pd.Series(TEXTS, name="review"), pd.Series(MOODS, name="mood"))
    task = task_of(estimator.run_)
    assert (task.fields, task.label_field) == (("review",), "mood")


@pytest.mark.parametrize(
    ("X", "fields", "columns"),
    [
        (TEXTS, ("text",), None),
        (PAIRS, ("a", "b"), None),
        (pd.DataFrame(PAIRS, columns=["x", "x"]), ("a", "b"), ("x", "x")),
        (pd.DataFrame(PAIRS, columns=["x", 1]), ("a", "b"), None),
        (pd.Series(PAIRS, name="both"), ("a", "b"), None),
    ],
)
def test_texts_without_a_usable_name_get_ours(X: Any, fields: tuple[str, ...], columns: Any) -> None:
    texts = read_texts(X)
    assert (texts.fields, texts.columns) == (fields, columns)


def test_labels_are_never_called_as_a_text_is() -> None:
    assert label_field(MOODS, ("text",)) == "label"
    assert label_field(pd.Series(MOODS, name="text"), ("text",)) == "label"
    assert label_field(MOODS, ("label", "target")) == "answer"


def test_rows_are_not_changed(trained: Path) -> None:
    X, y = pd.DataFrame(PAIRS, columns=["a", "b"]), np.array(MOODS, dtype=object)
    before = X.copy(), y.copy()
    hasty(trained).fit(X, y).predict(X)
    pd.testing.assert_frame_equal(X, before[0])
    assert (y == before[1]).all()


# ---- y ----


@pytest.mark.parametrize(
    ("y", "classes", "dtype"),
    [
        (["yes", "no", "yes"], ["no", "yes"], "<U3"),
        ([10, 3, 10], [3, 10], "<i8"),
        ([True, False, True], [False, True], "|b1"),
        ([1.0, -1.0, 1.0], [-1, 1], "<f8"),
        (np.array([10, 3, 10], np.int16), [3, 10], "<i2"),
        (np.array(["yes", "no", "yes"], object), ["no", "yes"], "<U3"),
        (pd.Series([10, 3, 10], dtype="Int64"), [3, 10], "<i8"),
        (pd.Series([True, False, True], dtype="boolean"), [False, True], "|b1"),
        (pd.Series(["yes", "no", "yes"], dtype="category"), ["no", "yes"], "<U3"),
    ],
    ids=["strings", "numbers", "truth", "floats", "int16", "objects", "nullable", "nullable truth", "category"],
)
def test_classes_keep_their_kind_and_are_sorted(trained: Path, y: Any, classes: list[Any], dtype: str) -> None:
    estimator = hasty(trained).fit(TEXTS[:3], y)
    assert (estimator.classes_.tolist(), estimator.classes_.dtype.str) == (classes, dtype)
    found = estimator.predict(TEXTS)
    assert found.dtype == estimator.classes_.dtype
    assert (found == estimator.classes_[estimator.predict_proba(TEXTS).argmax(1)]).all()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "fit requires y to be passed, but the target y is None; give a label for each row of X"),
        (["a", "b"], "X has 3 rows, y has 2"),
        ([["a", "b"]] * 3, r"y has the shape \(3, 2\); give one label a row, or of several a matrix of 0 and 1"),
        (np.array([[0, 2], [1, 0], [1, 1]]), r"y has the shape \(3, 2\); give one label a row"),
        (np.array([[0, 1], [1, 0]]), "X has 3 rows, y has 2"),
        (np.array([[0, 1]] * 3), "y: all rows have the same labels"),
        (["a", None, "b"], "y, row 2: the label is empty; label the row or take it out"),
        (["a", math.nan, "b"], "y, row 2: the label is empty"),
        ([1.0, math.nan, 2.0], "y, row 2: the label is empty"),
        (pd.Series([1, None, 2], dtype="Int64"), "y, row 2: the label is empty"),
        (["a", "", "b"], "y, row 2: the label is empty"),
        (["a", 1, "b"], "y, row 2: the label is 1, the first is 'a'; give strings alone, or numbers alone"),
        (["a", "b ", "b"], "y: labels that differ only in the blanks around them: b"),
        (["a", "a", "a"], "y has one class: every row has the label 'a'; training needs at least two different ones"),
        ([0, 1, 0.5], "y, row 3: 0.5 is a continuous score, not a class; GPTRegressor learns scores"),
        ([0, 1, math.inf], "y, row 3: inf is a continuous score, not a class"),
        ([["a", "b"], ["a"], []], r"row 1: the label is \['a', 'b'\], several; give one a row, or of several a matrix"),
        (
            [[1], [1, 2], [2]],
            r"y, row 1: the label is \[1\], several; give one a row, or of several a matrix of 0 and 1",
        ),
        ([("a", "b"), "a", "b"], r"y, row 1: the label is \('a', 'b'\), several; give one a row"),
        (
            [np.array(["a", "b"]), np.array(["a"]), np.array(["b"])],
            r"y, row 1: the label is \['a', 'b'\], several; give",
        ),
        (
            [frozenset("a"), frozenset("ab"), frozenset("b")],
            r"the label is frozenset\({'a'}\), several; give one a row",
        ),
        ([list(range(1000)), [1], [2]], r"y, row 1: the label is \[0, 1, 2, [\d, ]{70}\.\.\., several; give one a row"),
        ([b"a", b"b", b"a"], "y has labels such as b'a'; expected strings, whole numbers or truth values"),
        (["a", "b", "x" * 2000], "y, row 3: 'y' holds 2,000 characters; a label is short"),
    ],
)
def test_labels_that_name_no_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        hasty(NOWHERE).fit(TEXTS[:3], y)
    assert "labels_sep" not in str(refused.value)  # which an estimator does not take


def test_labels_that_seem_to_be_several_are_told_with_what_an_estimator_takes(trained: Path) -> None:
    said = r"y: labels that seem to be several, parted by '\|': a\|b; each is learned as one; give a matrix"
    with pytest.warns(UserWarning, match=said):
        hasty(trained).fit(TEXTS[:3], ["a|b", "a", "b"])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, math.nan, 2.0], "y, row 2: label nan is not a number"),
        ([1.0, math.inf, 2.0], "y, row 2: label inf is not a number"),
        ([1.0, None, 2.0], "y, row 2: label None is not a number"),
        ([1.0, "much", 2.0], "y, row 2: label 'much' is not a number"),
        ([2, 2, 2], r"y of 3 samples: every row has the label '2.0'; training needs at least two different ones"),
        ([1.0, 2.0], "X has 3 rows, y has 2"),
    ],
)
def test_labels_that_are_no_scores_are_refused(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GPTRegressor(NOWHERE).fit(TEXTS[:3], y)


def test_scores_with_a_decimal_comma_are_told_as_what_they_are_read() -> None:
    said = r"y: 2 scores with a decimal comma, read as with a point: '3,5' is 3.5 \(rows 1, 3\)"
    with pytest.warns(UserWarning, match=said), pytest.raises(InputError, match="does not exist"):
        GPTRegressor(NOWHERE).fit(TEXTS[:3], ["3,5", "2", "1,0"])


def test_a_column_of_labels_is_taken_with_scikit_learns_warning(trained: Path) -> None:
    with pytest.warns(UserWarning, match="A column-vector y was passed"):
        estimator = hasty(trained).fit(TEXTS, np.array(MOODS).reshape(-1, 1))
    assert estimator.classes_.tolist() == ["glad", "sad"]


def test_order_matters_only_where_there_are_two_texts() -> None:
    with pytest.raises(SettingError, match="symmetric is for pairs of texts"):
        hasty(NOWHERE, symmetric=True).fit(TEXTS, MOODS)


def test_scores_may_be_whole_numbers(trained: Path) -> None:
    estimator = GPTRegressor(trained, settings={"training.steps": 1}, device="cpu").fit(TEXTS, [*range(len(TEXTS))])
    assert task_of(estimator.run_).score_range == (0.0, len(SCORES) - 1)
