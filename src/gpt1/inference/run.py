"""A trained run in use: its model and its tokenizer, loaded when they are first needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gpt1.base.devices import check_int8, find_device, usable_precision
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.bases.catalog import find_base
from gpt1.inference.attention_maps import Looks, looks
from gpt1.inference.classification import head_shapes
from gpt1.inference.embedding import MEAN, embeddings
from gpt1.inference.generation import Generated, generate, stream
from gpt1.inference.portions import Pause, go_on
from gpt1.inference.sampling import sampling_params
from gpt1.inference.scoring import ScoredText, score_texts
from gpt1.linear.files import Ensemble, read_ensembles
from gpt1.model import Classifier, Model, build_classifier, build_model, prepare_for_inference, quantize_int8
from gpt1.model.costs import product_weights
from gpt1.recipes.values import NO_WINDOWS, Shape
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord
from gpt1.records.ensemble import ENSEMBLE_FILE
from gpt1.records.run import FINETUNING
from gpt1.records.seeds import RESULT_FILE, SEEDS_FILE
from gpt1.records.thresholds import THRESHOLDS_FILE, ThresholdsRecord
from gpt1.runs.checkpoints import (
    HOST,
    Checkpoint,
    Damaged,
    beside_a_writer,
    best_step,
    check_numbers,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    require_there,
)
from gpt1.runs.folder import check_made_for, read_run, run_folder, run_tokenizer
from gpt1.tasks.catalog import Task
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gpt1.inference.predicting import Answers

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}
BEST, LAST = "best", "last"
_ANEW = "bring it back from a copy, or train anew"
BODY = "body."  # what the network's weights are called in a fine-tuned run
MASK = "mask"  # what stands for a masked token, of a network that learns of such
TABLES = {"tokens", "output"}  # weights with a row for each token of the vocabulary, special ones last


Network = TypeVar("Network", Model, Classifier)


class Run:
    """What a training left: `path`, `record` (run.json), `recipe`; loaded when asked for: `model` and `tokenizer`.

    Of a fine-tuned run also `tasks` and `classifier`; its `model` is the network without its heads.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: torch.device,
        step: int | str,
        refused: Callable[[str], None] = warnings.warn,
        int8: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.path = run_folder(path)
        self.device, self.int8 = device, int8
        self.pause: Pause = go_on  # see `with_pause`
        if int8:
            check_int8(device)
        self.record = read_run(self.path)
        self.recipe = self.record.recipe
        self._step = step
        self._refused = refused
        if checkpoint is not None:  # which is in memory, and was found sound there
            self.checkpoint = checkpoint

    def with_pause(self, pause: Pause) -> Run:
        """Return the run with a pause made between the portions of what is classified, embedded or scored."""
        run = copy(self)
        run.pause = pause
        return run

    def look_again(self) -> None:
        """Read anew, when it is next asked for, who answers and how sure answers are to be; the weights stay."""
        for name in ("ensembles", "calibration", "thresholds"):
            self.__dict__.pop(name, None)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The weights in use."""
        return find_checkpoint(self.path, self._step, self._refused, self.device)

    @cached_property
    def model(self) -> Model:
        """The network with those weights, on the run's device, in the precision it was trained in if that can be."""
        if self.has_tasks:
            return self.classifier.body
        return self._loaded(self._body(specials=0))

    @property
    def has_tasks(self) -> bool:
        """Whether it is a fine-tuned run."""
        return self.record.kind == FINETUNING

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that a fine-tuned run has learned, by name."""
        if not self.has_tasks:
            raise SettingError(
                f"{self.path} has learned no task yet; `gpt1.finetune(init={str(self.path)!r})` teaches it one"
            )
        return self.record.tasks

    @property
    def has_windows(self) -> bool:
        """Whether texts that do not fit the context are read in windows."""
        return self.recipe.finetuning.windows != NO_WINDOWS

    @property
    def is_bidirectional(self) -> bool:
        """Whether it was fine-tuned to look both ways, and is no language model any more."""
        return self.has_tasks and self.recipe.finetuning.bidirectional

    def require_language_model(self) -> None:
        """Refuse a run that looks both ways where a next token is asked for, which it has always been shown."""
        if self.is_bidirectional:
            raise SettingError(
                f"{self.path} was fine-tuned to look both ways (finetuning.bidirectional), so it can neither write a "
                f"text nor tell how likely one is; ask the run that it was begun from, {self.record.parent}"
            )

    @cached_property
    def classifier(self) -> Classifier:
        """The network of a fine-tuned run with its heads."""
        heads = head_shapes(self.tasks, self.recipe.finetuning.windows)
        body, tells_domains = self._body(len(SPECIALS)), self.record.adapted is not None
        return self._loaded(build_classifier(body, heads, seed=0, tells_domains=tells_domains))

    @cached_property
    def ensembles(self) -> dict[str, Ensemble]:
        """Who answers each task, where it is not simply the network; nobody else does before a training is over."""
        asked = self.has_tasks and self.recipe.finetuning.ensemble
        if not asked or not ((self.path / ENSEMBLE_FILE).exists() or (self.path / RESULT_FILE).exists()):
            return {}
        return read_ensembles(self.path, self.tasks)

    @cached_property
    def calibration(self) -> CalibrationRecord | None:
        """How sure answers are to be, where that was found for the weights in use; not before a training is over."""
        asked, path = self.has_tasks and self.recipe.finetuning.calibrate, self.path / CALIBRATION_FILE
        if not asked or not (path.exists() or (self.path / RESULT_FILE).exists()):
            return None
        found = CalibrationRecord.read(path)
        if found.tasks.keys() != self.tasks.keys():
            raise FormatError(f"{path} is of other tasks than {self.path}; {found.REMEDY}")
        if found.step != self.checkpoint.step:
            return None
        if found.weights not in ("", self.checkpoint.weights_hash):
            raise FormatError(f"{path} is of other weights than those of {self.path}; {found.REMEDY}")
        return found

    @cached_property
    def thresholds(self) -> ThresholdsRecord | None:
        """From which probability on labels are given, or their factors, where chosen for the weights in use."""
        path = self.path / THRESHOLDS_FILE
        asked = self.has_tasks and any(task.has_thresholds for task in self.tasks.values())
        if not asked or not (path.exists() or (self.path / RESULT_FILE).exists()):
            return None
        found = ThresholdsRecord.read(path)
        found.check(path, self.tasks)
        if found.step != self.checkpoint.step:
            return None
        if found.weights not in ("", self.checkpoint.weights_hash):
            raise FormatError(f"{path} is of other weights than those of {self.path}; {found.REMEDY}")
        return found

    @cached_property
    def ready_classifier(self) -> Classifier:
        """The classifier around `network`, for use and not for training."""
        return self.classifier.with_body(self.network).eval()

    @property
    def _precision(self) -> str:
        return "fp32" if self.int8 else usable_precision(self.device, self.recipe.training.precision)[0]

    def _body(self, specials: int) -> Model:
        shape, vocab_size = self.recipe.shape, self.record.vocab_size + specials
        check_size(shape, vocab_size, self.checkpoint)
        loaded = {name.removeprefix(BODY) for name in self.checkpoint.model}
        return build_model(
            *(shape, vocab_size),
            compute=DTYPES[self._precision],
            bidirectional=self.is_bidirectional,
            specials=specials,
            loaded=loaded,
        )

    def _loaded(self, model: Network) -> Network:
        model = model.double() if self._precision == "fp64" else model
        load_weights(model, self.checkpoint, self.device)
        return model.to(self.device).eval()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer the run was trained with."""
        return run_tokenizer(self.path)

    @cached_property
    def network(self) -> Model:
        """The model with its matrices in the type it computes in, or in int8, for use and not for training."""
        return quantize_int8(self.model) if self.int8 else prepare_for_inference(self.model)

    def generate(self, prompt: str, **settings: Any) -> str:
        """Return the text that continues a prompt; settings are of `SamplingParams`, such as `max_new_tokens=50`."""
        return self.generate_batch([prompt], **settings)[0].text

    def generate_batch(self, prompts: Sequence[str], **settings: Any) -> list[Generated]:
        """Continue prompts side by side; the seeds of prompts follow each other."""
        self.require_language_model()
        return generate(self.network, self.tokenizer, prompts, sampling_params(**settings))

    def stream(self, prompt: str, **settings: Any) -> Iterator[str]:
        """Yield what `generate` gives piece by piece, as it is written."""
        self.require_language_model()
        return stream(self.network, self.tokenizer, prompt, sampling_params(**settings))

    def score(self, texts: Sequence[str], *, after: str = "") -> list[ScoredText]:
        """Return the log-probability of each token of each text, given those before it and a text before them all."""
        self.require_language_model()
        return score_texts(self.network, self.tokenizer, texts, after, self.pause)

    def attention(self, text: str, *, layer: int) -> Looks:
        """Return how much each token of a text takes from each one before it, in each head of a layer (from 1)."""
        return looks(self.network, self.tokenizer, text, layer)

    def embed(self, texts: Sequence[str | Sequence[int]], *, pooling: str = MEAN) -> NDArray[np.float32]:
        """Return a vector for each text [texts, width]: the last block's output, its mean or at the last token.

        A text may be given as ids, which are read as they are.
        """
        return embeddings(self.network, self.tokenizer, texts, pooling, self.pause)

    def predict(
        self,
        rows: Iterable[Mapping[str, object] | str],
        *,
        task: str | None = None,
        abstain: float | None = None,
        explain: bool | str = False,
    ) -> Answers:
        """Answer rows with a fine-tuned run: each comes back with `prediction` and `probabilities`.

        With `abstain` only so many are answered that at most this share of the answers is wrong; see `predict_rows`.
        With `explain` each has an `explanation`: which words speak for its answer, or for the label of this name.
        """
        from gpt1.inference.predicting import predict_rows  # which knows what a run is

        return predict_rows(self, rows, task=task, abstain=abstain, explain=explain)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.record.kind}, recipe {self.recipe.name!r})"


def load_run(
    path: str | Path,
    *,
    device: str | None = None,
    step: int | str = BEST,
    refused: Callable[[str], None] = warnings.warn,
    int8: bool = False,
) -> Run:
    """Open a run, by its folder or as a base by its name.

    `step` is a checkpoint's step, `best` (lowest validation loss) or `last`. `refused` is told of damaged checkpoints
    that were passed over. With `int8` a CPU uses the network's matrices rounded to bytes: faster and smaller, and
    nearly the same.
    """
    return Run(path, device=find_device(device), step=step, refused=refused, int8=int8)


def load_base(name: str, *, device: str | None = None, int8: bool = False) -> Run:
    """Open a base that ships with gpt1, by its name; it comes from the package alone, never from the network."""
    return load_run(find_base(name).path, device=device, int8=int8)


def find_checkpoint(
    run: Path,
    step: int | str,
    refused: Callable[[str], None] = warnings.warn,
    device: torch.device = HOST,
    *,
    keeps_mask: bool = False,
) -> Checkpoint:
    """Return a run's checkpoint on a device, without the optimiser's part: of a step, the best, or the last whole one.

    `refused` is told of damaged ones that were passed over. What stands for a masked token is of use only where more of
    them are learned, and left out elsewhere.
    """
    problems: list[str] = []

    def look() -> Checkpoint | None:
        problems.clear()
        best = best_step(run, problems.append) if step == BEST else step
        if best is None or best == LAST:
            return newest_checkpoint(run, problems.append, with_optimizer=False, device=device)
        return _of_step(run, best, device)

    found = beside_a_writer(look)
    problems = _each_once(problems)
    if found is None:
        problems += [_ANEW] if problems else []
        if (run.parent / SEEDS_FILE).is_file():
            problems.append(f"of several seeds the best one's are kept: use {run.parent}")
        raise InputError("; ".join([f"{run} has no checkpoint to use", *problems]))
    for problem in problems:
        refused(problem)
    check_made_for(run, found)
    check_numbers(found)
    if MASK in found.model and not keeps_mask:
        found = replace(found, model={name: tensor for name, tensor in found.model.items() if name != MASK})
    return found


def _each_once(problems: Iterable[str]) -> list[str]:
    """Leave out what is said a second time of one fault: who looks for the best and who looks for the last tell it."""
    return list({problem.rpartition("; ")[0]: problem for problem in problems}.values())


def _of_step(run: Path, step: int | str, device: torch.device) -> Checkpoint:
    steps = dict(list_checkpoints(run))
    if not isinstance(step, int) or step not in steps:
        raise SettingError(f"{run} has no checkpoint of step {step}; it has {', '.join(map(str, steps)) or 'none'}")
    try:
        return load_checkpoint(steps[step], with_optimizer=False, device=device)
    except (FormatError, InputError) as error:
        require_there(steps[step])
        if isinstance(error, Damaged) and len(steps) == 1:
            raise Damaged(f"{error}; {_ANEW}") from None
        raise


def check_size(shape: Shape, vocab_size: int, checkpoint: Checkpoint) -> None:
    """Refuse a network larger than the weights there are, before memory is asked for: a damaged size asks for any."""
    there = sum(tensor.numel() for tensor in checkpoint.model.values())
    if max(product_weights(shape, vocab_size), shape.context) > there:
        raise FormatError(
            f"{checkpoint.path} does not fit the model: it holds {there:,} weights, and a network of {vocab_size:,} "
            f"tokens and {shape} has more"
        )


def body_of(checkpoint: Checkpoint, vocab_size: int) -> Checkpoint:
    """Return a checkpoint as one of a language model: that of a fine-tuned run without heads and special tokens."""
    bodies = {name: tensor for name, tensor in checkpoint.model.items() if name.startswith(BODY)}
    if not bodies:
        return checkpoint
    names = {name.removeprefix(BODY): tensor for name, tensor in bodies.items()}
    model = {name: tensor[:vocab_size] if name in TABLES else tensor for name, tensor in names.items()}
    return replace(checkpoint, model=model)


def load_weights(model: nn.Module, checkpoint: Checkpoint, device: torch.device = HOST) -> None:
    """Give a model a checkpoint's weights, which must be of its shapes: copies on the host, elsewhere the very ones."""
    own = dict(model.named_parameters())
    for name in sorted(own.keys() | checkpoint.model.keys()):
        found, wanted = checkpoint.model.get(name), own.get(name)
        if found is None or wanted is None or found.shape != wanted.shape:
            shapes = " and ".join("none" if x is None else str(tuple(x.shape)) for x in (found, wanted))
            raise FormatError(f"{checkpoint.path} does not fit the model: '{name}' has the shapes {shapes}")
    if device.type == HOST.type:  # where they lie in the file, as the system has mapped it
        with torch.no_grad():
            for name, tensor in checkpoint.model.items():
                own[name].copy_(tensor)
    else:  # the model's own place for them is never touched, which would take as long as reading
        placed = {name: tensor.to(device, own[name].dtype) for name, tensor in checkpoint.model.items()}
        model.load_state_dict(placed, strict=False, assign=True)
