"""`GPTEmbedder`: a run, or a base, as a transformer of scikit-learn: texts in, vectors out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpt1.base.errors import InputError, unknown
from gpt1.bases.catalog import default_base
from gpt1.estimators.inputs import FIELDS, make_examples, read_texts
from gpt1.inference.embedding import MEAN, POOLINGS
from gpt1.inference.run import Run, load_run
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import SINGLE

# As what rows are checked: there is nothing to answer.
_READ = Task(
    name="texts", title="texts to read", shape=SINGLE, fields=FIELDS[1], labels=("no", "yes"), metrics=("accuracy",)
)


class GPTEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The vectors of a run: the last block's output, for each text.

    `init` is a run, a folder or the name of a base; without it the package's base is taken, if it has one. `pooling` is
    the `mean` over all tokens of a text, or what stands at the `last` one, which has read all others. Rows are a list,
    array or Series of strings, or a DataFrame of one column. Nothing is learned from them: `fit` opens the run. Fitted,
    it has `run_` and `n_features_in_`.
    """

    run_: Run
    n_features_in_: int

    def __init__(self, init: str | Path | None = None, *, pooling: str = MEAN, device: str | None = None) -> None:
        self.init = init
        self.pooling = pooling
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Open the run, and look at the rows; they change nothing."""
        if self.pooling not in POOLINGS:
            raise unknown("pooling", self.pooling, POOLINGS)
        _texts(X)
        self.run_ = self._open()
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the vector of each row [rows, width of the network]."""
        check_is_fitted(self, "run_")
        return self.run_.embed(_texts(X), pooling=self.pooling)

    def _open(self) -> Run:
        return load_run(default_base().path if self.init is None else self.init, device=self.device)

    @property
    def _n_features_out(self) -> int:
        return self.run_.recipe.shape.width

    def __getstate__(self) -> dict[str, object]:
        """Return what goes to another process or into a copy: the run stays where it is, and is opened there anew."""
        return {name: value for name, value in super().__getstate__().items() if name != "run_"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what came, and open the run again."""
        super().__setstate__(state)
        if "n_features_in_" in state:
            self.run_ = self._open()

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that rows are texts, and that nothing is learned from them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


def _texts(X: Any) -> list[str]:
    """Return rows as texts, each checked; errors count them from 1."""
    found = read_texts(X)
    if found.width != 1:
        raise InputError(f"X has {found.width} texts a row; a vector is of one text: join them, or take one column")
    return [example.texts[0] for example in make_examples(_READ, found)]
