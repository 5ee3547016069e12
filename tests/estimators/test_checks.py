"""scikit-learn's own checks of estimators, unchanged, of `GPTClassifier` and `GPTRegressor`.

They feed numbers, so a tiny subclass spells these as words before it reads them; all else is what users have.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_classifier_multioutput,
    check_classifiers_train,
    estimator_checks_generator,
)

from gpt1 import GPTClassifier, GPTRegressor
from tests.conftest import PEOPLE


def spelled(X: Any) -> Any:
    """Return rows of numbers as texts, those of two numbers as pairs; what is no table of numbers stays as it is."""
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return X
    if table.ndim != 2:
        return X
    places = np.clip(np.floor(2 * np.nan_to_num(table)), -4, 3).astype(int) + 4
    words = [[PEOPLE[place] for place in row] for row in places]
    return words if table.shape[1] == 2 else [", ".join(row) for row in words]


class _OfNumbers:
    """Reads numbers as texts, and learns too little of them to be held to a score."""

    def fit(self, X: Any, y: Any) -> Self:
        super().fit(spelled(X), y)  # type: ignore[misc]
        return self

    def _answer(self, X: Any) -> Any:
        return super()._answer(spelled(X))  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array = False
        for own in filter(None, (tags.classifier_tags, tags.regressor_tags)):
            own.poor_score = True
        return tags


class OfNumbers(_OfNumbers, GPTClassifier):
    """A classifier."""


class Scorer(_OfNumbers, GPTRegressor):
    """A regressor."""


class Learner(OfNumbers):
    """A classifier that is held to a score."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = False
        return tags


# One update, in double precision: some checks hold answers of different batches against each other, digit by digit.
HASTY: dict[str, Any] = {"recipe": "finetune", "epochs": 0.1, "device": "cpu"}
HASTY |= {"settings": {"training.precision": "fp64"}}

_OF_TEXTS = "what is wrong with a text is told in other words than what is wrong with a number"
_OF_WIDTHS = "a feature is a text of the row, of which there are one or two"
NOT_HELD = {
    "check_complex_data": _OF_TEXTS,
    "check_estimators_nan_inf": _OF_TEXTS,
    "check_estimators_empty_data_messages": _OF_WIDTHS,
    "check_n_features_in_after_fitting": _OF_WIDTHS,
    "check_fit2d_predict1d": "one dimension is right for rows of one text",
    "check_classifiers_multilabel_output_format_decision_function": "there is no decision_function",
    "check_array_api_input": "it is of arrays on other devices, and runs only where SCIPY_ARRAY_API is set",
}


def name_of(check: Any) -> str:
    """Return what scikit-learn calls a check, whatever arguments it is given."""
    return name_of(check.func) if isinstance(check, partial) else str(check.__name__)


# All that scikit-learn has for a classifier, and what it asks of several labels a row where a tag says more than ours;
# of a regressor, which is the same but for its labels, what it has for such alone.
OF_CLASSIFIER = [check for _, check in estimator_checks_generator(OfNumbers())]
NAMES = {name_of(check) for check in OF_CLASSIFIER}
CHECKS = [
    *((OfNumbers, check) for check in OF_CLASSIFIER),
    (OfNumbers, partial(check_classifier_multioutput, "OfNumbers")),
    *((Scorer, check) for _, check in estimator_checks_generator(Scorer()) if name_of(check) not in NAMES),
]


def parameters(*, held: bool) -> list[Any]:
    """Return the checks that hold, or those that cannot."""
    chosen = [(kind, check) for kind, check in CHECKS if (name_of(check) not in NOT_HELD) == held]
    return [
        # With other keywords it is the same again, of other arrays.
        pytest.param(
            kind, check, id=f"{kind.__name__}-{name_of(check)}", marks=[pytest.mark.slow] * bool(check.keywords)
        )
        for kind, check in chosen
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "check"), parameters(held=True))
def test_a_check_of_scikit_learn_holds(trained: Path, kind: Any, check: Any) -> None:
    check(kind(str(trained), **HASTY))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_so_does_the_check_that_asks_for_a_score(trained: Path) -> None:
    learner = Learner(str(trained), **{**HASTY, "epochs": 4, "lr": 1e-2, "batch": 10})
    check_classifiers_train("Learner", learner)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "check"), parameters(held=False))
def test_what_is_listed_as_not_held_does_not_hold(trained: Path, kind: Any, check: Any) -> None:
    with pytest.raises((AssertionError, SkipTest)):
        check(kind(str(trained), **HASTY))


def test_none_that_is_listed_is_unknown_to_scikit_learn() -> None:
    assert NOT_HELD.keys() <= {name_of(check) for _, check in CHECKS}
