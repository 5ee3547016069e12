"""`gpt1 finetune`: a pre-trained run and labelled examples in, a run that answers out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from gpt1.base.devices import device_name, find_device
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import lock_folder, remove_folder, remove_temporaries_below, require_own_folder
from gpt1.base.wording import hundred, many
from gpt1.bases.catalog import default_base, lasting_name
from gpt1.documents.figures import metric_name
from gpt1.finetuning.augmenting import (
    TextChanges,
    check_augmentation,
    recorded_synonyms,
    require_same_synonyms,
    text_changes,
)
from gpt1.finetuning.batches import PackingOptions, TaskBatches, TrainSet, make_lesson
from gpt1.finetuning.calibrating import calibrate, deciding, parting_notices
from gpt1.finetuning.counting import CountedWords, parts_to_hold_out
from gpt1.finetuning.data import (
    Source,
    any_windows,
    check_fit,
    check_training,
    check_windows,
    identity,
    read_source,
    truncation_notices,
    unknown_tokens,
    window_notices,
)
from gpt1.finetuning.domains import DomainBatches
from gpt1.finetuning.ensembling import PARTS_FOLDER, make_ensembles, times_as_long
from gpt1.finetuning.forecasting import Forecast, in_fold
from gpt1.finetuning.measure import measure
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.seeds import (
    check_folder,
    folder_of,
    forget_result,
    found_seeds,
    is_done,
    read_result,
    report_seeds,
    write_result,
)
from gpt1.finetuning.target import (
    TargetTexts,
    apart_in_words,
    read_target,
    require_same_target,
    target_in_words,
    told_apart,
)
from gpt1.finetuning.teaching import TaskTeaching
from gpt1.finetuning.thresholding import choose_factors, choose_thresholds
from gpt1.finetuning.transfer import make_classifier
from gpt1.inference.classification import probabilities_by_portion
from gpt1.inference.run import BEST, LAST, Run, load_run
from gpt1.inference.teaching import require_same_teaching, taught_in_words, teachers_hashes
from gpt1.model import Classifier
from gpt1.model.costs import count_parameters, flops_per_token
from gpt1.recipes.catalog import NOT_OF_THE_BASE, RECIPES
from gpt1.recipes.changes import change, differences, with_settings
from gpt1.recipes.derived import in_words, recipe_for, require_for_tasks, settled, wants_windows, windows_of
from gpt1.recipes.values import AUGMENTATIONS, NO_WINDOWS, Finetuning, Recipe, Shape, Training
from gpt1.records.calibration import CALIBRATION_FILE
from gpt1.records.ensemble import ENSEMBLE_FILE
from gpt1.records.run import FINETUNING, RecordedAdaptation, RecordedTeaching, RunRecord
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Listener
from gpt1.runs.folder import is_left_over, is_run, read_run, run_folder, run_tokenizer, update_run
from gpt1.tasks.answers import log_likelihoods, predictions
from gpt1.tasks.encoded import EncodedTask
from gpt1.tasks.metrics import scores
from gpt1.text.synonyms import Synonyms, read_synonyms
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.config import Judgement, TrainerConfig
from gpt1.training.distributed import join_world
from gpt1.training.session import (
    LENGTHS,
    Conditions,
    Looked,
    Notify,
    Session,
    as_recipe,
    begun_run,
    notifier,
    require_no_run,
    resumed,
    speed_up,
)
from gpt1.training.trainer import Trainer

if TYPE_CHECKING:
    from gpt1.tasks.examples import Labelled

# Tokens; a packed row is filled up to a multiple, so that a device meets few different sizes. A CPU in 16 bits keeps
# code and memory for each: 3.6 GB after 80 updates of 33 M parameters, 2.0 GB with the block.
CUDA_BLOCK, CPU_BLOCK = 128, 64
TOKENS_AT_ONCE = 8192  # of texts in windows, which any network that is fine-tuned has room for
# Settings of a network that learns some of the rows as another learned all, and answers alone.
WINDOWS = "finetuning.windows"
FOR_A_PART = ("finetuning.ensemble=false", "finetuning.calibrate=false", "training.patience=none")


@dataclass(frozen=True)
class FinetuneRequest:
    """What the caller of `finetune` wants."""

    init: Path
    tokenizer: Tokenizer  # of `init`
    source: Source
    recipe: Recipe
    changes: Sequence[str]
    seeds: int = 1  # of which the best on dev is kept
    teaching: TaskTeaching | None = None
    synonyms: Synonyms | None = None
    target: TargetTexts | None = None


def finetune(
    init: str | Path | None,
    out: str | Path,
    *,
    task: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    more: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    symmetric: bool = False,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    fold_labels: bool = False,
    labels_sep: str | None = None,
    metric: str | None = None,
    shape: str | None = None,
    encoded: str | Path | EncodedTask | Sequence[str | Path | EncodedTask] | None = None,
    examples: Labelled | None = None,
    target_texts: str | Path | None = None,
    recipe: Recipe | str | None = None,
    changes: Sequence[str] = (),
    synonyms: str | Path | Synonyms | None = None,
    seeds: int = 1,
    resume: bool = False,
    device: str | None = None,
    minutes: float | None = None,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Teach the network of the run `init` one task or several, and return the run that has learned them.

    `init` is a folder, the name of a base, or None: the package's base, if it has one.
    What to learn is named in one of four ways: `task` (names of the catalogue, or `module:NAME`) with `data`, their
    folder; `train`, a labelled table, perhaps with `dev` and `test`, and with `more` rows that `gpt1 augment` made of
    it; `encoded`, what `gpt1 prepare --task` made; or `examples` as values. Of tables `skip_bad` leaves out the rows
    that cannot be used, and `fold_labels` takes labels that differ by case, blanks or Unicode's forms alone for the
    commonest of them; with `labels_sep` a row may have several labels, which that sign parts, or none, and `metric`
    (macro-f1 or matthews) is what a table of one label a row is judged by in place of accuracy; with the `shape`
    tokens each word of a text has a label. `target_texts` is a table or a text file with texts of another domain,
    without labels: the network is taught so that the two domains cannot be told apart by what it makes of a text.
    `recipe` is a name, `module:NAME` or a value (None: that of the run to
    resume, else `finetune` for a base of the paper's size and `auto` for others); `changes` are settings such as
    `finetuning.lm_weight=0`, and `synonyms` is the list by which `finetuning.synonyms` replaces words. With several
    `seeds` each is trained, and the best one on dev is kept. `resume` goes on with the run in `out`; after `minutes` it
    stops, saved.
    """
    source = Source(
        tasks=[task] if isinstance(task, str) else list(task or ()),
        data=None if data is None else str(data),
        train=None if train is None else Path(train),
        dev=None if dev is None else Path(dev),
        test=None if test is None else Path(test),
        more=None if more is None else Path(more),
        columns=columns or {},
        regression=regression,
        symmetric=symmetric,
        encoding=encoding,
        skip_bad=skip_bad,
        fold_labels=fold_labels,
        labels_sep=labels_sep,
        metric=metric,
        shape=shape,
        encoded=_several(encoded),
        examples=examples,
    )
    if seeds < 1:
        raise SettingError(f"at least one seed is needed, not {seeds}")
    base = default_base().path if init is None else run_folder(init)
    begun = (Path(out), *found_seeds(Path(out)).values()) if resume else ()
    chosen = chosen_recipe(recipe, read_run(base).recipe.shape, begun)
    asked = FinetuneRequest(base, run_tokenizer(base), source, chosen, changes)
    if synonyms is not None:
        listed = synonyms if isinstance(synonyms, Synonyms) else read_synonyms(synonyms)
        asked = replace(asked, synonyms=listed)
    with join_world(find_device(device)) as (world, own_device):
        conditions = Conditions(Path(out), world, own_device, resume, minutes, curves, tuple(listeners))
        tasks, notices = read_tasks(asked)
        asked = suited_to(asked, tasks)
        if target_texts is not None:
            target, told = read_target(target_texts, source, tasks, asked.tokenizer)
            asked, notices = for_target(asked, target), [*notices, *told]
        if seeds == 1:
            FinetuneSession(asked, conditions, tasks, notices).train()
            return load_run(out, device=device)
        return load_run(_train_several(asked, conditions, seeds, tasks, notices), device=device)


def for_target(asked: FinetuneRequest, target: TargetTexts) -> FinetuneRequest:
    """Return a request for a network that is adapted to a domain of which no label is known.

    Unless that is asked for by name, who answers is not decided by rows of the other domain: the network does.
    """
    found = replace(asked, target=target, changes=["finetuning.ensemble=false", *asked.changes])
    recipe = change(found.recipe, found.changes)
    if recipe.training.patience is not None:
        raise SettingError(
            "training.patience waits for a better epoch by rows for dev, which are of the domain that `target_texts` "
            "leave; leave it out"
        )
    for name in ("mixup", "r_drop"):
        if getattr(recipe.finetuning, name):
            raise SettingError(
                f"finetuning.{name} reads examples beside others or twice, which `target_texts` stand beside once; "
                "leave out one of the two"
            )
    return found


def chosen_recipe(recipe: Recipe | str | None, base: Shape, folders: Iterable[Path]) -> Recipe:
    """Return the recipe that is asked for; without one, that of what was begun in folders, else the one for the base.

    A folder without a run, or with one that cannot be read, says nothing; who needs that run tells.
    """
    if isinstance(recipe, Recipe):
        return recipe
    for folder in folders:
        with suppress(FormatError, InputError):
            begun = read_run(folder).recipe if is_run(folder) else None
            if begun is not None and begun.name in RECIPES and recipe in (None, begun.name):
                known, settings = RECIPES[begun.name], begun.finetuning
                if WINDOWS in known.derived:
                    known = with_settings(known, {WINDOWS: settings.windows})
                if settings.calibrate == known.finetuning.calibrate:
                    return known
                # A run that was begun before there was such a setting goes on without.
                return replace(known, finetuning=replace(known.finetuning, calibrate=settings.calibrate))
    return recipe_for(base) if recipe is None else as_recipe(recipe)


def is_cross_validated(tasks: Mapping[str, EncodedTask], recipe: Recipe) -> bool:
    """Whether the network is trained again without parts of the examples, to tell who answers."""
    settings = recipe.finetuning
    return settings.ensemble and bool(parts_to_hold_out(_deciding(tasks, recipe), settings.folds))


def counted_words(tasks: Mapping[str, EncodedTask], recipe: Recipe, tokenizer: Tokenizer) -> CountedWords:
    """Return the words of tasks, to be counted at the rows that decide who answers."""
    return CountedWords(_deciding(tasks, recipe), tokenizer)


def _deciding(tasks: Mapping[str, EncodedTask], recipe: Recipe) -> Mapping[str, EncodedTask]:
    """Return the tasks with the rows for dev by which the epoch and who answers are chosen."""
    return deciding(tasks) if recipe.finetuning.calibrate else tasks


def read_tasks(asked: FinetuneRequest) -> tuple[dict[str, EncodedTask], list[str]]:
    """Return what is to be learned, checked against the network that is to learn it, and what to tell of it."""
    context = read_run(asked.init).recipe.shape.context
    recipe = change(asked.recipe, asked.changes)
    windows = wants_windows(recipe)
    tasks, notices = read_source(asked.source, asked.tokenizer, context, windows=windows)
    check_fit(tasks, fingerprint=asked.tokenizer.fingerprint, context=context, init=asked.init)
    check_windows(tasks, any_windows(tasks) if windows is None else windows)
    check_training(tasks)
    pooling = windows_of(recipe, any_are_long=any_windows(tasks))
    return tasks, [*notices, *window_notices(tasks, pooling), *truncation_notices(tasks)]


def suited_to(asked: FinetuneRequest, tasks: Mapping[str, EncodedTask]) -> FinetuneRequest:
    """Return what was asked for without what labels of words do not know; where a person has asked for that, refuse."""
    if not any(encoded.task.labels_words for encoded in tasks.values()):
        return asked
    plain = with_settings(asked.recipe, {"finetuning.ensemble": False, "finetuning.calibrate": False})
    settings = change(plain, asked.changes).finetuning
    others = {
        "ensemble": settings.ensemble,
        "calibrate": settings.calibrate,
        "word_dropout": settings.word_dropout,
        "windows": settings.windows != NO_WINDOWS,
        **{name: getattr(settings, name) for name in AUGMENTATIONS},
    }
    if given := [name for name, is_on in others.items() if is_on]:
        raise SettingError(f"where each word has a label, `finetuning.{given[0]}` has no meaning; leave it out")
    return replace(asked, recipe=plain)


def _several(encoded: str | Path | EncodedTask | Sequence[str | Path | EncodedTask] | None) -> list[Path | EncodedTask]:
    if encoded is None:
        return []
    listed = [encoded] if isinstance(encoded, str | Path | EncodedTask) else encoded
    return [one if isinstance(one, EncodedTask) else Path(one) for one in listed]


def _train_several(
    asked: FinetuneRequest, conditions: Conditions, count: int, tasks: Mapping[str, EncodedTask], notices: list[str]
) -> Path:
    """Train one run a seed in folders of their own, keep the best one's weights, and return the run to look at."""
    out, world = conditions.out, conditions.world
    first = change(asked.recipe, asked.changes).training.seed
    seeds = range(first, first + count)
    check_folder(out, seeds)
    if not is_run(folder_of(out, first)):  # what the first one refuses is refused before there is a folder
        FinetuneSession(asked, replace(conditions, out=folder_of(out, first)), tasks, []).look()
    world.wait()  # every rank has looked before the first one makes the folder
    with lock_folder(out) if world.is_first else nullcontext():
        if world.is_first:
            check_folder(out, seeds)
            remove_temporaries_below(out)
        return _train_seeds(asked, conditions, seeds, tasks, notices)


def _train_seeds(
    asked: FinetuneRequest, conditions: Conditions, seeds: range, tasks: Mapping[str, EncodedTask], notices: list[str]
) -> Path:
    out, world, minutes = conditions.out, conditions.world, conditions.minutes
    notify = notifier(conditions.listeners if world.is_first else ())
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    words: CountedWords | None = None  # those of the first seed are all seeds'
    for seed in seeds:
        left = None if minutes is None else max(0.0, (end - time.monotonic()) / 60)
        own = replace(asked, changes=[*asked.changes, f"training.seed={seed}"], seeds=len(seeds))
        here = replace(conditions, out=folder_of(out, seed), minutes=left)
        session = FinetuneSession(own, here, tasks, notices if seed == seeds[0] else [], words)
        words = session.words
        if conditions.resume and is_done(here.out):
            session.check_done()
            notify(f"seed {seed} is trained already")
            continue
        notify(f"seed {seed} ({seeds.index(seed) + 1} of {len(seeds)})")
        if not session.train():
            notify(f"{seeds.index(seed)} of {len(seeds)} seeds are trained; the same again with `resume=True` goes on")
            return here.out
    if world.is_first:
        best = report_seeds(out, {name: encoded.task for name, encoded in tasks.items()})
        notify(f"{best} is kept: the best on dev, of equals the one with the lowest loss there")
    world.wait()
    return out


class FinetuneSession(Session[Classifier]):
    """The fine-tuning of a network on tasks; at its end it is measured."""

    def __init__(
        self,
        asked: FinetuneRequest,
        conditions: Conditions,
        tasks: Mapping[str, EncodedTask],
        notices: Sequence[str],
        words: CountedWords | None = None,
    ) -> None:
        self._forecast = Forecast(notifier(conditions.listeners))
        super().__init__(replace(conditions, listeners=(*conditions.listeners, self._forecast)), notices)
        self.asked, self.tasks = asked, tasks
        self.words = words or counted_words(tasks, change(asked.recipe, asked.changes), asked.tokenizer)
        recipe = change(asked.recipe, asked.changes)
        check_augmentation(recipe, tasks, asked.synonyms, is_taught=asked.teaching is not None)
        self._changes: dict[Finetuning, TextChanges | None] = {}
        self._began = time.monotonic()
        self._any_task = next(iter(tasks.values()))  # of all that they have in common

    @property
    def tokenizer(self) -> Path:
        """That of the pre-trained run."""
        return self.asked.init / TOKENIZER_FILE

    def data(self) -> dict[str, str]:
        """Return hashes of the labelled rows, of the tokenizer and of who teaches."""
        found = {"the labelled data": identity(self.tasks), "the tokenizer": self.asked.tokenizer.fingerprint}
        if self.asked.synonyms is not None:
            found["the list of synonyms"] = self.asked.synonyms.identity
        if self.asked.target is not None:
            found["the texts of the target domain"] = self.asked.target.recorded.texts.identity
        return found | teachers_hashes(self.taught)

    def look(self) -> Looked:
        """Return what is to be run, or refuse the folder."""
        out, init = self.out, self.asked.init
        require_own_folder(out, lambda entry: is_run(out) or is_left_over(entry, self.tokenizer))
        if not (self.conditions.resume and is_run(out)):
            require_no_run(out)
            recipe = change(self.asked.recipe, self.asked.changes)
            derived = in_words(recipe, *self._sizes)
            return Looked(False, self._settled(recipe), () if derived is None else (derived,), init)
        recipe, notices = self._resumed_recipe()
        if list_checkpoints(out):
            return Looked(True, recipe, tuple(notices), None)
        if lasting_name(init) != read_run(out).parent:
            raise SettingError(
                f"{out} was begun from {read_run(out).parent}, not from {init}, and nothing was saved yet; name that "
                "one, or begin anew in another folder"
            )
        return Looked(True, recipe, tuple(notices), init)

    @property
    def _sizes(self) -> tuple[int, int]:
        """The parameters of the base, and the examples of all tasks: what a recipe may leave things to."""
        base = read_run(self.asked.init)
        examples = sum(len(lesson.split) for lesson in self._lessons(class_weights=False).values())
        return count_parameters(base.recipe.shape, base.vocab_size).total, examples

    def _settled(self, recipe: Recipe) -> Recipe:
        """Return the recipe with nothing left open, and with the shape of the base; only what it drops is its own."""
        init, base = self.asked.init, self.asked.recipe
        require_for_tasks(recipe, read_run(init).recipe.shape)
        for name in differences(base, replace(base, shape=recipe.shape)):
            if name not in NOT_OF_THE_BASE:
                raise SettingError(f"{name} is decided by {init}, whose network is taken; it cannot be changed")
        own = recipe.shape
        shape = replace(read_run(init).recipe.shape, dropout=own.dropout, layer_drop=own.layer_drop)
        return replace(settled(recipe, *self._sizes, windows=any_windows(self.tasks)), shape=shape)

    def _resumed_recipe(self) -> tuple[Recipe, list[str]]:
        """Return the recipe of the run that goes on, and what changed; refuse where what decides its losses differs."""
        begun = begun_run(self.out, FINETUNING)
        self._require_same_metrics(begun)
        require_same_teaching(self.out, begun.taught, self.taught)
        require_same_synonyms(self.out, begun.synonyms, self.asked.synonyms)
        require_same_target(self.out, begun.adapted, None if self.asked.target is None else self.asked.target.recorded)
        if begun.identity != identity(self.tasks):
            raise InputError(
                f"the training examples are not those that the run {self.out} was begun with; resume it with its own, "
                "or begin a new run in another folder"
            )
        asked = self.asked
        found = resumed(self.out, begun.recipe, asked.recipe, asked.changes, self._settled, self._updates)
        before, now = begun.recipe.finetuning.folds, found[0].finetuning.folds
        if before != now and (self.out / ENSEMBLE_FILE).is_file():
            raise SettingError(
                f"finetuning.folds is {before} in the run {self.out} and {now} now, but it is decided there who "
                f"answers: a run that is decided keeps its folds; say `changes=['finetuning.folds={before}']`, or "
                "begin a new run in another folder"
            )
        return found

    def _require_same_metrics(self, begun: RunRecord) -> None:
        for name, task in begun.tasks.items():
            now = self.tasks[name].task if name in self.tasks else task
            may_be_chosen = task.class_factors or now.class_factors  # of other tasks no metric is asked for
            if may_be_chosen and now.labels == task.labels and now.metrics != task.metrics:
                raise InputError(
                    f"the run {self.out} is chosen by {metric_name(task.metrics[0])}, and "
                    f"{metric_name(now.metrics[0])} is asked for; say `metric={task.metrics[0]!r}`, or begin a new run "
                    "in another folder"
                )

    def check_done(self) -> None:
        """Refuse what a run that is done was not trained with, and a damaged result; it is not made longer either."""
        read_result(self.out)
        old, (new, _) = read_run(self.out).recipe.training, self._resumed_recipe()
        for name in LENGTHS:
            before, now = getattr(old, name), getattr(new.training, name)
            if before != now:
                raise SettingError(
                    f"training.{name} was {before} for the seed in {self.out}, which is done, and is {now} now: seeds "
                    "that are compared are trained alike; leave it, or choose another folder"
                )

    def record(self, recipe: Recipe) -> RunRecord:
        """Return what the run will say of itself."""
        tasks, init = self.tasks, self.asked.init
        return RunRecord(
            FINETUNING,
            recipe,
            seed=recipe.training.seed,
            tokenizer=self._any_task.tokenizer_fingerprint,
            vocab_size=self._any_task.vocab_size,
            tasks={name: encoded.task for name, encoded in tasks.items()},
            examples={name: {split: len(data) for split, data in e.splits.items()} for name, e in tasks.items()},
            unknown=unknown_tokens(tasks, self.asked.tokenizer.unknown_id),
            identity=identity(tasks),
            source=self.asked.source.recorded(),
            parent=lasting_name(init),
            taught=self.taught,
            synonyms=None if self.asked.synonyms is None else recorded_synonyms(self.asked.synonyms),
            adapted=None if self.asked.target is None else self.asked.target.recorded,
        )

    @property
    def taught(self) -> RecordedTeaching | None:
        """Who teaches besides the labels, and how."""
        return None if self.asked.teaching is None else self.asked.teaching.recorded

    def make_model(self, recipe: Recipe, init: Path | None) -> Classifier:
        """Return the network with a head for each task."""
        learned = {name: encoded.task for name, encoded in self.tasks.items()}
        tells_domains = self.asked.target is not None
        size = self._any_task.vocab_size
        return make_classifier(recipe, learned, size, init, self.device, tells_domains=tells_domains)

    def configure(self, model: Classifier, recipe: Recipe, notify: Notify) -> TrainerConfig:
        """Return what the loop needs."""
        settings = recipe.finetuning
        notify(speed_up(model.body, recipe, self.device, self.world, sizes_vary=True))
        labelled, updates = self._batches(recipe), self._updates(recipe)
        batches = self._with_target(labelled, recipe, updates, model, notify)
        epoch, logging = labelled.batches_an_epoch, recipe.logging
        logging = replace(
            logging, evaluate_every=logging.evaluate_every or epoch, save_every=logging.save_every or epoch
        )
        for name, encoded in self.tasks.items():
            if settings.class_weights and not encoded.task.labels:
                notify(f"'{name}' has no classes, so class weights change nothing there")
        notify(_in_short(recipe, self.tasks, updates, self.device))
        notify(_on_ways(recipe, self.asked.init))
        notify(None if self.taught is None else f"learning from {taught_in_words(self.taught)}")
        for text in parting_notices(self.tasks) if settings.calibrate else ():
            notify(text)
        self._tell_of_synonyms(recipe, notify)
        self._words_first(recipe, updates, notify)
        evaluate = _evaluator(model, _deciding(self.tasks, recipe), keeps_last=self.asked.target is not None)
        if evaluate is None:
            notify("there are no labelled rows for dev: the last update is kept, and patience has nothing to go by")
        is_alone = self.world.size == 1 and is_cross_validated(self.tasks, recipe)
        if is_alone and not self._folds(recipe):
            notify("some rows were made of others, so nothing is cross-validated: the rows for dev tell who answers")
        elif is_alone:
            self._forecast.expect(settings.folds)
        return TrainerConfig(
            objective=TaskLearning(
                model,
                lm_weight=settings.lm_weight,
                tasks=self.tasks,
                teaching=self.taught,
                r_drop=settings.r_drop,
            ),
            batches=batches,
            updates=updates,
            recipe=replace(recipe, logging=logging, training=self._at_once(recipe)),
            tokens_per_step=round(batches.tokens_a_batch),
            flops_per_token=flops_per_token(recipe.shape, model.body.vocab_size),
            evaluate=evaluate,
            has_parent=True,
        )

    def _with_target(
        self, batches: TaskBatches, recipe: Recipe, updates: int, model: Classifier, notify: Notify
    ) -> TaskBatches | DomainBatches:
        """Return batches with texts of the target domain, if there are any; note how far they are at the beginning."""
        target, training = self.asked.target, recipe.training
        if target is None:
            return batches
        notify(f"adapting to a domain without labels: {target_in_words(target.recorded)}")
        if self.world.is_first and not list_checkpoints(self.out):
            self._note_apart(model, at_the_end=False)
        settings = recipe.finetuning
        return DomainBatches(batches, target, settings, batch=training.batch, seed=training.seed, updates=updates)

    def _note_apart(self, model: Classifier, *, at_the_end: bool) -> RecordedAdaptation | None:
        """Keep how well the domains can be told apart by what the network makes of texts now, and return it."""
        target = self.asked.target
        adapted = read_run(self.out).adapted
        if target is None or adapted is None:
            return None
        found = told_apart(model, target.task, self.tasks[target.task].splits["train"], target.split)
        adapted = replace(adapted, apart=found) if at_the_end else replace(adapted, apart_before=found)
        update_run(self.out, adapted=adapted)
        return adapted

    def _text_changes(self, recipe: Recipe) -> TextChanges | None:
        """Return what is changed in texts, made once: a list may be long."""
        settings = recipe.finetuning
        if settings not in self._changes:
            self._changes[settings] = text_changes(settings, self.asked.tokenizer, self.asked.synonyms)
        return self._changes[settings]

    def _tell_of_synonyms(self, recipe: Recipe, notify: Notify) -> None:
        """Tell how many of the words to learn from a list has: one that has none of them changes nothing."""
        changes = self._text_changes(recipe)
        if changes is None or changes.listed is None:
            return
        for name, encoded in self.tasks.items():
            share = changes.listed_share(encoded.splits["train"], encoded.vocab_size)
            notify(f"{hundred(share)} % of the words of {name} to learn from are in the list of synonyms")

    def _at_once(self, recipe: Recipe) -> Training:
        """Return how much is worked on at once: of texts in windows as many tokens as a batch of whole contexts has."""
        training = recipe.training
        splits = [lesson.split for lesson in self._lessons(class_weights=False).values()]
        if all(split.windows is None for split in splits):
            return training
        longest = max(int(np.diff(split.offsets[split.begins]).max()) for split in splits)
        longest *= 2 if recipe.finetuning.r_drop else 1
        room = max(TOKENS_AT_ONCE, training.batch * recipe.shape.context)
        fitting = max(1, min(training.batch, room // longest))
        # Rows of so many windows as there are sizes would be recorded one by one.
        return replace(training, micro_batch=training.micro_batch or fitting, cuda_graphs=False)

    def _words_first(self, recipe: Recipe, updates: int, notify: Notify) -> None:
        """Tell what counting words reaches, before the network learns; where it is decided who answers, that stands."""
        if not recipe.finetuning.ensemble or not self.world.is_first or (self.out / ENSEMBLE_FILE).is_file():
            return
        for reached in self.words.reached(self._folds(recipe)):
            notify(reached.in_words(trains=updates > 1))

    def _folds(self, recipe: Recipe) -> int:
        """Return how many folds there are; several processes do not train again.

        Nor is it done with rows made of others: in another fold than its source such a row would give it away.
        """
        return recipe.finetuning.folds if self.world.size == 1 and self.asked.source.more is None else 0

    def _updates(self, recipe: Recipe) -> int:
        training = recipe.training
        return training.steps or max(1, round(self._batches(recipe).batches_an_epoch * training.epochs))

    def _batches(self, recipe: Recipe) -> TaskBatches:
        training, settings, context = recipe.training, recipe.finetuning, recipe.shape.context
        packing = PackingOptions(
            vocab_size=self._any_task.vocab_size,
            context=context,
            block=min(self._block(training.precision), context),
            word_dropout=settings.word_dropout,
            changes=self._text_changes(recipe),
            mixup=settings.mixup,
            passes=2 if settings.r_drop else 1,
            dtype=np.float64 if training.precision == "fp64" else np.float32,
        )
        lessons = self._lessons(class_weights=settings.class_weights)
        return TaskBatches(
            lessons, batch=training.batch, seed=training.seed, packing=packing, drop_last=settings.drop_last
        )

    def _lessons(self, *, class_weights: bool) -> dict[str, TrainSet]:
        teaching = self.asked.teaching
        return {
            name: make_lesson(one, class_weights=class_weights, teaching=teaching) for name, one in self.tasks.items()
        }

    def _block(self, precision: str) -> int:
        if self.device.type == "cuda":
            return CUDA_BLOCK
        return CPU_BLOCK if precision in ("bf16", "fp16") else 1

    def begin(self) -> None:
        """Note that the run is not at its end."""
        forget_result(self.out)

    def end(self, trainer: Trainer, notify: Notify) -> bool:
        """Decide who answers and how surely, measure the run on all it was not trained on, and note that it is over."""
        settings = read_run(self.out).recipe.finetuning
        has_thresholds = any(encoded.task.has_thresholds for encoded in self.tasks.values())
        if trainer.best is None or settings.ensemble or settings.calibrate or has_thresholds:
            trainer.wait_for_disk()  # what is decided of weights does not come there before them
        run = Run(self.out, device=self.device, step=BEST, checkpoint=trainer.best)
        if (adapted := self._note_apart(run.classifier, at_the_end=True)) is not None:
            notify(None if adapted.apart is None else f"the two domains are {apart_in_words(adapted)}")
        if settings.ensemble:
            (self.out / CALIBRATION_FILE).unlink(missing_ok=True)  # of who answered before
            folds, took = self._folds(run.recipe), trainer.progress.seconds
            retrain = partial(self._retrain, folds=folds, seconds_each=took * times_as_long(1))
            if not make_ensembles(run, self.words, retrain, notify, folds=folds, seconds=took):
                return False
            if (self.out / PARTS_FOLDER).is_dir():
                remove_folder(self.out / PARTS_FOLDER)
        factors = choose_factors(run, _deciding(self.tasks, run.recipe))
        if settings.calibrate:
            own = {name: one.own for name, one in factors.items()}
            calibrate(run, self.tasks, own, self.asked.seeds, notify)
        choose_thresholds(run, _deciding(self.tasks, run.recipe), factors, notify)
        measured = {
            name: measure(run, encoded, [split for split in encoded.splits if split != "train"])
            for name, encoded in self.tasks.items()
        }
        trainer.wait_for_disk()  # what was measured is there before it is said to be
        write_result(self.out, measured)
        return True

    def _retrain(self, part: int, tasks: Mapping[str, EncodedTask], *, folds: int, seconds_each: float) -> Run | None:
        """Return a run that has learned some of the examples as this one has learned all; None: the time was up."""
        # Parts are short, and begun anew after a kill: a checkpoint at the end is enough.
        changes = [
            *FOR_A_PART,
            "logging.save_every=1000000",
            "logging.keep_every=none",
            "logging.keep_weights=none",
        ]
        own = replace(self.asked, recipe=read_run(self.out).recipe, changes=changes)
        here = replace(
            self.conditions,
            out=self.out / PARTS_FOLDER / f"part-{part}",
            resume=True,
            minutes=self._minutes_left(),
            curves=False,
            listeners=tuple(in_fold(one, part, folds, lambda: seconds_each) for one in self.conditions.listeners),
        )
        session = FinetuneSession(own, here, tasks, [])
        return load_run(here.out, device=str(self.device), step=LAST) if session.train() else None

    def _minutes_left(self) -> float | None:
        minutes = self.conditions.minutes
        return None if minutes is None else max(0.0, minutes - (time.monotonic() - self._began) / 60)


def _in_short(recipe: Recipe, tasks: Mapping[str, EncodedTask], updates: int, device: torch.device) -> str:
    parameters = count_parameters(recipe.shape, next(iter(tasks.values())).vocab_size).total
    examples = ", ".join(
        f"{many(len(encoded.splits['train']), 'example')} of {name}" for name, encoded in tasks.items()
    )
    return (
        f"{examples}; {parameters:,} parameters without heads, {many(updates, 'update')} of {recipe.training.batch} "
        f"examples, {recipe.training.precision} on {device_name(device)}"
    )


def _on_ways(recipe: Recipe, init: Path) -> str | None:
    """Tell of a network that is to look both ways whether it has learned to."""
    if not recipe.finetuning.bidirectional:
        return None
    before = read_run(init).recipe
    has_learned = before.training.masked_share > 0 or before.finetuning.bidirectional or recipe.finetuning.scratch
    new = "" if has_learned else f", which {init} has not learned: it was trained without training.masked_share"
    return f"every token is read with those after it{new}"


# ---- looking at the model ----


def _evaluator(
    model: Classifier, tasks: Mapping[str, EncodedTask], *, keeps_last: bool
) -> Callable[[], Judgement] | None:
    """Return a function that scores the model on every dev split: the mean of their first metrics decides, then loss.

    Few rows give few different scores, so many epochs are equal by them though they are not equally sure. Of a network
    that is adapted to another domain the last epoch is kept, whatever its scores: rows for dev are of the domain that
    it leaves, and would choose the epoch that has left it least.
    """
    splits = [
        (name, split, encoded.splits[split])
        for name, encoded in tasks.items()
        for split in encoded.task.dev_splits
        if split in encoded.splits and encoded.splits[split].labelled.any()
    ]
    if not splits:
        return None

    def evaluate() -> Judgement:
        found: dict[str, float] = {}
        decisive, losses = [], []
        for name, split, data in splits:
            task, known = tasks[name].task, data.labelled
            answers, likelihood = np.zeros_like(data.labels), np.zeros(len(data))
            for examples, chances in probabilities_by_portion(model, name, data):
                answers[examples] = predictions(task, chances)
                likelihood[examples] = log_likelihoods(task, data.labels[examples], chances)
            own = scores(task, data.labels[known], answers[known])
            decisive.append(own[task.metrics[0]])
            prefix = f"{name}_{split}" if len(tasks) > 1 else split
            found |= {f"{prefix}_{metric}": value for metric, value in own.items()}
            found[f"{prefix}_loss"] = float(-likelihood[known].mean())
            losses.append(found[f"{prefix}_loss"])
        if keeps_last:
            return Judgement(found, cost=0.0)  # of equals the later one is better
        return Judgement(found, cost=1 - float(np.mean(decisive)), tiebreak=float(np.mean(losses)))

    return evaluate
