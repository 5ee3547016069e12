"""`GPTClassifier` and `GPTRegressor`: fine-tuning in the manners of scikit-learn.

Settings go to the constructor, data to `fit`, what is learned ends in `_`. Training is `finetune`, answers come from
`inference`; what was learned is a run folder, which is also how an estimator is saved: nothing is pickled to disk.
scikit-learn's checks hold where numbers are spelled as words for them (`tests/estimators/test_checks.py`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gpt1.base.errors import FormatError, InputError, Interrupted, SettingError
from gpt1.base.wording import many, some
from gpt1.estimators.folders import FILE, Packed, in_new_folder, pack, read_facts, unpack, write_facts
from gpt1.estimators.inputs import (
    AS_MATRIX,
    LABELS_SEP,
    Texts,
    label_field,
    make_examples,
    read_classes,
    read_indicators,
    read_scores,
    read_texts,
)
from gpt1.estimators.worth import Worth, worth_of
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.results import results
from gpt1.inference.answering import answer, reading_notices, task_of
from gpt1.inference.run import Run, load_run
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Evaluated, Event, Noticed, RolledBack, Stepped
from gpt1.runs.files import in_words
from gpt1.runs.folder import is_run
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import MULTILABEL_METRICS, Task, refuse_words
from gpt1.tasks.columns import judged_by
from gpt1.tasks.data_warnings import refuse_one_label, refuse_same_labels, seem_several
from gpt1.tasks.examples import Labelled, label_name
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE
from gpt1.tasks.splitting import with_dev

# Arguments that are settings of the recipe under another name.
_SETTINGS = {
    "epochs": "training.epochs",
    "lr": "optimizer.lr",
    "batch": "training.batch",
    "lm_weight": "finetuning.lm_weight",
    "layers": "finetuning.transfer_layers",
    "scratch": "finetuning.scratch",
    "class_weights": "finetuning.class_weights",
    "seed": "training.seed",
}
_PLACES = ("device", "out", "verbose")  # arguments that say where, and how loudly, not what; they are not saved


class _Target(NamedTuple):
    """What is to be learned."""

    labels: list[Any]  # of each row, as the task has them
    metrics: tuple[str, ...]
    names: tuple[str, ...] = ()  # of classes
    score_range: tuple[float, float] | None = None
    classes: NDArray[Any] | None = None  # as they were given
    labels_sep: str = ""  # where a row may have several labels


class ProgressLines:
    """Listens to a training, and to those of a cross-validation after it, and prints what a person waits for.

    That is a line for each tenth of the updates, fold by fold, for each look at dev, and for whatever is told in words.
    """

    def __init__(self) -> None:
        self._told = (0, 0)  # the fold, 0 for the training itself, and the tenth of its updates

    def __call__(self, event: Event) -> None:
        """Tell an event that a person waits for."""
        match event:
            case Stepped():
                self._step(event)
            case Evaluated():
                told = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in event.scores.items()]
                print(", ".join([f"update {event.step}", *told]), flush=True)
            case Noticed() | RolledBack():
                print(in_words(event), flush=True)

    def _step(self, event: Stepped) -> None:
        now = (0 if event.fold is None else event.fold.number, 10 * event.step // event.steps)
        if now > self._told:
            self._told = now
            print(f"{event.where}, loss {event.loss:.4f}", flush=True)


class _TextEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators do: read rows, train, answer, travel."""

    _kind: ClassVar[str]
    _learned: ClassVar[tuple[str, ...]] = ()  # what it learns besides what every estimator does
    run_: Run
    n_features_in_: int
    report_: Worth

    def __init__(
        self,
        init: str | Path | None = None,
        *,
        recipe: str | Recipe | None = None,
        epochs: float | None = None,
        lr: float | None = None,
        batch: int | None = None,
        lm_weight: float | None = None,
        layers: int | None = None,
        scratch: bool | None = None,
        seed: int | None = None,
        settings: Mapping[str, object] | None = None,
        symmetric: bool | None = None,
        dev: bool | None = None,
        device: str | None = None,
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.init = init
        self.recipe = recipe
        self.epochs = epochs
        self.lr = lr
        self.batch = batch
        self.lm_weight = lm_weight
        self.layers = layers
        self.scratch = scratch
        self.seed = seed
        self.settings = settings
        self.symmetric = symmetric
        self.dev = dev
        self.device = device
        self.out = out
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune the run `init` on texts, or pairs of texts, and their labels; whatever was learned before is gone.

        All rows are trained on and the last epoch is kept, unless `dev` is set. Errors count rows from 1.
        """
        texts = read_texts(X)
        target = self._target(y, len(texts.rows))
        run = self._train(self._labelled(texts, target, label_field(y, texts.fields)))
        for counts in run.record.unknown.values():
            for text in counts["train"].notice(len(texts.rows)):
                warnings.warn(text, stacklevel=2)
        learned: dict[str, object] = {} if target.classes is None else {"classes_": target.classes}
        learned["n_features_in_"] = texts.width
        if texts.columns is not None:
            learned["feature_names_in_"] = np.array(texts.columns, dtype=object)
        if self.dev:
            learned["dev_scores_"] = results(run)["tasks"][self._kind]["dev"]["metrics"]
        arguments = {name: value for name, value in self.get_params(deep=False).items() if name not in _PLACES}
        write_facts(run.path, self._kind, {**arguments, "init": run.record.parent}, learned)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._learn(run, learned)
        return self

    def _target(self, y: Any, count: int) -> _Target:
        raise NotImplementedError

    def _labelled(self, texts: Texts, target: _Target, field: str) -> Labelled:
        """Return the rows as a task and its examples."""
        if self.symmetric and texts.width == 1:
            raise SettingError("symmetric is for pairs of texts; these rows have one text each")
        task = Task(
            name=self._kind,
            title=f"rows given to {type(self).__name__}",
            shape=SINGLE if texts.width == 1 else BOTH if self.symmetric else PAIR,
            fields=texts.fields,
            label_field=field,
            labels=target.names,
            score_range=target.score_range,
            metrics=target.metrics,
            labels_sep=target.labels_sep,
        )
        task = judged_by(task, getattr(self, "metric", None))  # which only classes have
        examples = zip(make_examples(task, texts), target.labels, strict=True)
        labelled = Labelled(task, {"train": [replace(example, label=label) for example, label in examples]})
        if not self.dev:
            return labelled
        parted = with_dev(labelled)
        if len(parted.splits) == 1:
            raise InputError(f"dev: {parted.notices[-1]}")
        return parted

    def _train(self, labelled: Labelled) -> Run:
        changes = {**(self.settings or {})}
        for argument, name in _SETTINGS.items():
            if (value := getattr(self, argument, None)) is not None:
                changes[name] = value
        asked: dict[str, Any] = {} if self.recipe is None else {"recipe": self.recipe}
        asked |= {"examples": labelled, "device": self.device, "listeners": [ProgressLines()] if self.verbose else []}
        asked["changes"] = [f"{name}={value}" for name, value in changes.items()]

        def teach(folder: Path) -> Run:
            try:
                return finetune(self.init, folder, **asked)
            except Interrupted:  # which speaks of going on, and an estimator begins anew
                raise KeyboardInterrupt("fit was stopped before its end; nothing was learned") from None

        if self.out is None:
            return in_new_folder(teach)
        if is_run(Path(self.out)):
            raise InputError(f"{self.out} holds a run already; every fit needs an `out` of its own, or None")
        return teach(Path(self.out))

    def _learn(self, run: Run, learned: Mapping[str, object]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.run_, self.report_ = run, worth_of(run)  # now, as the folder may be gone when it is asked for

    def _answer(self, X: Any) -> tuple[Floats, NDArray[Any]]:
        """Return for each row the probabilities of classes or bins, and the index of the class or the score."""
        check_is_fitted(self, "run_")
        texts = read_texts(X)
        if texts.width != self.n_features_in_:
            raise InputError(f"X has {many(texts.width, 'text')} a row, fit was given {self.n_features_in_}")
        if texts.columns and hasattr(self, "feature_names_in_") and texts.columns != tuple(self.feature_names_in_):
            raise InputError(f"X has the columns {some(texts.columns)}; fit was given {some(self.feature_names_in_)}")
        task = task_of(self.run_)
        found = answer(self.run_, task, make_examples(task, texts))
        counts = np.stack((found.unknown, found.tokens), 1)
        cut, context = int((found.cut > 0).sum()), self.run_.recipe.shape.context
        for text in reading_notices(len(found), cut, counts, context, windows=self.run_.has_windows):
            warnings.warn(text, stacklevel=3)
        return found.probabilities, found.answers

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator to a new or empty folder: a run, without what only training needs."""
        check_is_fitted(self, "run_")
        unpack(pack(self.run_), Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Return the estimator that was saved to a folder, or fitted with `out` there; the folder stays its run.

        Any run that was fine-tuned on one task is one, such as `gpt1 finetune` makes: classes are strings then.
        """
        if not Path(folder, FILE).exists():
            return cls._of_run(load_run(folder, device=device), device)
        kind, arguments, learned = read_facts(Path(folder), cls.__name__)
        if kind != cls._kind:
            raise SettingError(f"{folder} holds an estimator for {kind}; {cls.__name__} is for {cls._kind}")
        try:
            if places := [name for name in _PLACES if name in arguments]:
                raise TypeError(f"{places[0]} is not what a file may decide")
            estimator = cls(**arguments, device=device)  # type: ignore[arg-type]  # which is a TypeError then
        except TypeError as error:
            raise FormatError(f"{folder} is no estimator of this version of gpt1: {error}") from None
        run = load_run(folder, device=device)
        if not cls._fits(task_of(run), learned):
            raise FormatError(f"{Path(folder, FILE)} is damaged: what it learned is not what its run has learned")
        estimator._learn(run, learned)
        return estimator

    @classmethod
    def _of_run(cls, run: Run, device: str | None) -> Self:
        """Return the estimator that a run would be of, had it been fitted here."""
        task = task_of(run)
        refuse_words(task, cls.__name__)
        kind = GPTClassifier._kind if task.score_range is None else GPTRegressor._kind
        if task.shape == CHOICES:
            raise SettingError(f"{run.path} chooses between answers, which no estimator does; gpt1 predict asks it")
        if kind != cls._kind:
            raise SettingError(f"{run.path} has learned {kind}; {cls.__name__} is for {cls._kind}")
        learned: dict[str, object] = {"n_features_in_": len(task.fields)}
        if task.score_range is None:
            learned["classes_"] = np.array(task.labels)
        asked: dict[str, Any] = {"metric": task.metrics[0]} if task.class_factors else {}
        estimator = cls(run.record.parent, symmetric=True if task.shape == BOTH else None, device=device, **asked)
        estimator._learn(run, learned)
        return estimator

    @classmethod
    def _fits(cls, task: Task, learned: Mapping[str, object]) -> bool:
        """Whether learned attributes that were read from a file are those of the task of the run beside it."""
        names = learned.get("feature_names_in_")
        return (
            learned.get("n_features_in_") == len(task.fields)
            and (names is None or (isinstance(names, np.ndarray) and names.shape == (len(task.fields),)))
            and isinstance(learned.get("dev_scores_", {}), dict)
            and learned.keys() <= {"n_features_in_", "feature_names_in_", "dev_scores_", *cls._learned}
        )

    def __getstate__(self) -> dict[str, object]:
        """Return what goes to another process or into a copy: with the weights, as the folder may be gone by then."""
        state = dict(super().__getstate__())
        return {**state, "run_": pack(self.run_)} if "run_" in state else state

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what came, and a folder of one's own for the run."""
        packed = state.get("run_")
        super().__setstate__({name: value for name, value in state.items() if name != "run_"})
        if isinstance(packed, Packed):
            self.run_ = in_new_folder(lambda folder: load_run(unpack(packed, folder), device=self.device))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that rows are texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        return tags


class GPTClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """A pre-trained run that learns to tell classes of texts, or of pairs of texts.

    `init` is the run to start from, a folder or the name of a base; without it the package's base is taken, if it has
    one. What else is None has the recipe's value: `recipe` (a name, `module:NAME` or a value; None: the one that suits
    `init`), `epochs`, `lr`, `batch`, `lm_weight` (of the language model's loss beside the task's), `layers` (blocks to
    take over), `scratch` (take no weights over), `class_weights` (let rare classes count as much as frequent ones),
    `seed`; `settings` has any other by its name, such as `{"optimizer.clip": 0.5}`. `metric` (macro-f1 or matthews, for
    skewed classes): what chooses in accuracy's place. `symmetric`: the order of a pair means nothing. `dev`: keep a
    tenth of the rows, drawn evenly, and of all epochs the one that is best on them. `out`:
    a new folder for the run; without it the run is removed with the estimator. `verbose`: print how it goes.

    Rows are a list, array or Series of strings or of pairs, or a DataFrame of one or two columns. Where a row may have
    several labels, or none, `y` is a matrix of 0 and 1 with a column for each, as `predict` returns it then. Fitted, it
    has `classes_`, `run_`, `report_` (what it is worth), `n_features_in_` (texts a row), `feature_names_in_` (of a
    DataFrame) and, with `dev`, `dev_scores_`.
    """

    _kind = "classification"
    _learned = ("classes_",)
    classes_: NDArray[Any]

    def __init__(
        self,
        init: str | Path | None = None,
        *,
        recipe: str | Recipe | None = None,
        epochs: float | None = None,
        lr: float | None = None,
        batch: int | None = None,
        lm_weight: float | None = None,
        layers: int | None = None,
        scratch: bool | None = None,
        class_weights: bool | None = None,
        metric: str | None = None,
        seed: int | None = None,
        settings: Mapping[str, object] | None = None,
        symmetric: bool | None = None,
        dev: bool | None = None,
        device: str | None = None,
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            init,
            recipe=recipe,
            epochs=epochs,
            lr=lr,
            batch=batch,
            lm_weight=lm_weight,
            layers=layers,
            scratch=scratch,
            seed=seed,
            settings=settings,
            symmetric=symmetric,
            dev=dev,
            device=device,
            out=out,
            verbose=verbose,
        )
        self.class_weights = class_weights
        self.metric = metric

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row: the likeliest, or with a `metric` by factors; of several, 0 and 1 for each."""
        _, indices = self._answer(X)
        return indices if task_of(self.run_).is_multilabel else np.asarray(self.classes_[indices])

    @classmethod
    def _fits(cls, task: Task, learned: Mapping[str, object]) -> bool:
        classes = learned.get("classes_")
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or not super()._fits(task, learned):
            return False
        if task.is_multilabel:
            return np.array_equal(classes, np.arange(len(task.labels)))
        return tuple(label_name(value) for value in classes.tolist()) == task.labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row, in the order of `classes_`; several have one each."""
        return self._answer(X)[0]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that rows may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _target(self, y: Any, count: int) -> _Target:
        if (several := read_indicators(y, count)) is not None:
            matrix, names = several
            labels = [tuple(np.flatnonzero(row).tolist()) for row in matrix]
            refuse_same_labels(labels, "y")
            every = np.arange(len(names))
            return _Target(labels, MULTILABEL_METRICS, names, classes=every, labels_sep=LABELS_SEP)
        classes, codes = read_classes(y, count)
        names = tuple(label_name(value) for value in classes.tolist())
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            raise InputError(f"y: labels that differ only in the blanks around them: {some(twice)}")
        refuse_one_label(names, "y has one class")
        if (found := seem_several(names)) is not None:
            separator, combined = found
            what = f"y: labels that seem to be several, parted by '{separator}': {some(combined)}"
            warnings.warn(f"{what}; each is learned as one; give {AS_MATRIX}", stacklevel=3)
        return _Target(codes.tolist(), ("accuracy",), names=names, classes=classes)


class GPTRegressor(RegressorMixin, _TextEstimator):  # type: ignore[misc]
    """A pre-trained run that learns to score texts, or pairs of texts.

    A score is learned as that of STS-B is: as six bins over the range of the scores that `fit` is given, so
    answers lie in that range. Arguments, rows and attributes are those of `GPTClassifier`, except those of classes.
    """

    _kind = "regression"

    def predict(self, X: Any) -> Floats:
        """Return the score of each row."""
        return self._answer(X)[1]

    def _target(self, y: Any, count: int) -> _Target:
        scores, notices = read_scores(y, count)
        refuse_one_label(scores, f"y of {many(count, 'sample')}")
        for text in notices:
            warnings.warn(text, stacklevel=3)
        return _Target(scores, ("pearson", "spearman"), score_range=(min(scores), max(scores)))
