"""`GPTEmbedder` has the manners of a transformer of scikit-learn."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_set_params,
    check_valid_tag_types,
)

from gpt1 import GPTEmbedder, load_run
from gpt1.base.errors import Chosen, InputError, SettingError
from tests.estimators.tools import MOODS, PAIRS, TEXTS


@pytest.fixture(scope="module")
def embedder(trained: Path) -> GPTEmbedder:
    return GPTEmbedder(trained, device="cpu").fit(TEXTS)


def test_vectors_are_those_of_the_run(embedder: GPTEmbedder, trained: Path) -> None:
    run = load_run(trained, device="cpu")
    assert (embedder.transform(TEXTS) == run.embed(TEXTS)).all()
    last = GPTEmbedder(trained, pooling="last", device="cpu").fit_transform(TEXTS)
    assert (last == run.embed(TEXTS, pooling="last")).all()
    assert last.shape == (len(TEXTS), run.recipe.shape.width)


@pytest.mark.parametrize("rows", [np.array(TEXTS), pd.Series(TEXTS), pd.DataFrame({"review": TEXTS}), tuple(TEXTS)])
def test_rows_come_in_any_form(embedder: GPTEmbedder, rows: Any) -> None:
    assert (embedder.transform(rows) == embedder.transform(TEXTS)).all()


def test_it_stands_before_any_classifier_in_a_pipeline(trained: Path) -> None:
    model = make_pipeline(GPTEmbedder(trained, device="cpu"), LogisticRegression(max_iter=1000)).fit(TEXTS, MOODS)
    assert model.score(TEXTS, MOODS) > 0.6
    names = model[:-1].get_feature_names_out()
    assert names[0] == "gptembedder0"


def test_without_a_run_the_base_of_the_package_is_taken(small: Path) -> None:
    with pytest.warns(Chosen, match="starting from the base 'small'"):
        found = GPTEmbedder(device="cpu").fit(TEXTS)
    assert found.run_.path == small


def test_copies_and_other_processes_give_the_same_vectors(embedder: GPTEmbedder) -> None:
    for twin in (pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder)):
        assert (twin.transform(TEXTS) == embedder.transform(TEXTS)).all()
    packed = pickle.dumps(embedder)
    assert len(packed) < 10_000  # the run stays where it is
    assert not hasattr(clone(embedder), "run_")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (PAIRS, "X has 2 texts a row; a vector is of one text"),
        (["good", ""], "X, row 2: 'text' is empty"),
        (["good", None], "X, row 2"),
        ([], "X has no rows"),
    ],
)
def test_rows_that_cannot_be_used_are_named(embedder: GPTEmbedder, rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        embedder.transform(rows)


def test_what_is_asked_wrongly_is_told(trained: Path) -> None:
    with pytest.raises(NotFittedError):
        GPTEmbedder(trained).transform(TEXTS)
    with pytest.raises(SettingError, match=r"unknown pooling 'men'; did you mean 'mean'\?"):
        GPTEmbedder(trained, pooling="men").fit(TEXTS)


@pytest.mark.parametrize(
    "check",
    [
        check_no_attributes_set_in_init,
        check_get_params_invariance,
        check_set_params,
        check_estimator_cloneable,
        check_estimator_repr,
        check_valid_tag_types,
    ],
)
def test_the_checks_of_scikit_learn_hold(check: Any) -> None:
    check("GPTEmbedder", GPTEmbedder("run"))


def test_scikit_learns_own_check_passes_as_far_as_it_goes_with_texts(trained: Path) -> None:
    with pytest.warns(SkipTestWarning, match="requires input  of type .*string=True"):
        check_estimator(GPTEmbedder(trained, device="cpu"))
