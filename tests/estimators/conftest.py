"""Estimators that have learned, to be asked and never changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1 import GPTClassifier, GPTRegressor
from tests.estimators.tools import ENOUGH, MOODS, PAIRS, SCORES, TEXTS


@pytest.fixture(scope="session")
def fitted(trained: Path) -> GPTClassifier:
    """A classifier of moods."""
    return GPTClassifier(trained, **ENOUGH).fit(TEXTS, MOODS)


@pytest.fixture(scope="session")
def of_pairs(trained: Path) -> GPTClassifier:
    """A classifier of pairs whose order means something."""
    return GPTClassifier(trained, **ENOUGH).fit(PAIRS, MOODS)


@pytest.fixture(scope="session")
def scorer(trained: Path) -> GPTRegressor:
    """A regressor."""
    return GPTRegressor(trained, **{**ENOUGH, "epochs": 25}).fit(TEXTS, SCORES)
