"""Integrated gradients of a fine-tuned network (Sundararajan et al., 2017): how far each token moves its answer.

From a text in which every token is the mean of all tokens of the vocabulary, special ones and places left as they are,
a straight path leads to the text; what is told of a token is its gradient along that path times how far it went. All of
them add up to what the answer has moved (completeness). The path is walked by Gauss-Legendre steps, twice as many until
they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from gpt1.inference.classification import pack_windows
from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Classifier
from gpt1.tasks.answers import Floats, answers, predictions
from gpt1.tasks.catalog import Task
from gpt1.tasks.packed import pack_sequences

FIRST, MOST = 16, 128  # steps
# How often an example is read at most: there and back, which costs twice as much, in all steps; and at both ends.
MOST_READINGS = 3 * (2 * MOST - FIRST) + 2
TOLERANCE = 0.02  # of how far the answer has moved, or of 1

_TOKENS = "body.tokens"  # the classifier's parameter that holds the vectors of tokens

# S steps, N tokens of all sequences of an example, C width, A answers.


@dataclass(frozen=True, eq=False)
class Gradients:
    """What each token of an example has moved the answer, and by how much their sum misses the whole."""

    tokens: Floats  # of all sequences, side by side
    gap: float


def integrated_gradients(
    model: Classifier,
    task: Task,
    sequences: Sequence[NDArray[Any]],
    target: int | None,
    *,
    specials: int,
    windows: int = 1,
    temperature: float = 1.0,
    pause: Pause = go_on,
) -> Gradients:
    """Return what the tokens of an example have moved an answer (None: the score), as `answer_moved` has it.

    Ids from `specials` on are special tokens; the sequences are of so many `windows`.
    """
    path = _Path(model, task, sequences, target, specials, windows, temperature, pause)
    first, last = path.values(np.array([0.0, 1.0]))
    steps = FIRST
    while True:
        tokens = path.walked(steps)
        gap = float(tokens.sum() - (last - first))
        if abs(gap) <= TOLERANCE * max(1.0, abs(last - first)) or steps == MOST:
            return Gradients(tokens, gap)
        steps *= 2


def answer_moved(task: Task, logits_EA: Tensor, target: int | None) -> Tensor:
    """Return what speaks for an answer of each example [E]: its log-odds; or the score, in its own units."""
    if target is None:
        bins_A = torch.from_numpy(predictions(task, np.eye(answers(task)))).to(logits_EA)
        return logits_EA.softmax(-1) @ bins_A
    if task.is_multilabel:
        return logits_EA[:, target]
    others_EA = torch.cat((logits_EA[:, :target], logits_EA[:, target + 1 :]), 1)
    return logits_EA[:, target] - others_EA.logsumexp(1)


class _Path:
    """The way from no text in particular to an example."""

    def __init__(
        self,
        model: Classifier,
        task: Task,
        sequences: Sequence[NDArray[Any]],
        target: int | None,
        specials: int,
        windows: int,
        temperature: float,
        pause: Pause,
    ) -> None:
        self._model, self._task, self._target, self._windows = model, task, target, windows
        self._sequences, self._temperature, self._pause = list(sequences), temperature, pause
        table_VC = model.body.tokens.detach()
        ids_N = torch.from_numpy(np.concatenate(self._sequences).astype(np.int64)).to(table_VC.device)
        is_text_N1 = (ids_N < specials).unsqueeze(1)
        self._end_NC = table_VC[ids_N]
        self._start_NC = torch.where(is_text_N1, table_VC[:specials].mean(0), self._end_NC)

    def values(self, places_S: Floats) -> list[float]:
        """Return what speaks for the answer at places of the path, 0 its start and 1 its end."""
        with torch.no_grad():
            found = [self._at(places_S[some])[1] for some in self._portions(len(places_S))]
        return [float(value) for values in found for value in values]

    def walked(self, steps: int) -> Floats:
        """Return what each token has moved the answer on the way, in so many steps."""
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        gradient_NC = torch.zeros_like(self._end_NC, dtype=torch.float64)
        for some in self._portions(steps):
            with torch.enable_grad():
                vectors_SNC, values_S = self._at((nodes[some] + 1) / 2)
                moved = values_S @ torch.from_numpy(weights[some] / 2).to(values_S)
                (gradient_SNC,) = torch.autograd.grad(moved, vectors_SNC)
            gradient_NC += gradient_SNC.double().sum(0)
        found: Floats = (gradient_NC * (self._end_NC - self._start_NC)).sum(1).cpu().numpy()
        return found

    def _portions(self, steps: int) -> Iterator[slice]:
        return portions([len(self._end_NC)] * steps, self._end_NC.device, self._pause)

    def _at(self, places_S: Floats) -> tuple[Tensor, Tensor]:
        """Return the vectors of tokens at places of the path [S, N, C], and what speaks for the answer there [S]."""
        places_S11 = torch.from_numpy(places_S).to(self._end_NC).view(-1, 1, 1)
        vectors_SNC = (self._start_NC + places_S11 * (self._end_NC - self._start_NC)).requires_grad_()
        row = pack_sequences(self._sequences * len(places_S))
        ids_M, packing = on_device(row, self._end_NC.device)
        # A vocabulary in which each token that is read has a row of its own, so that each has its own gradient.
        own = {_TOKENS: vectors_SNC.flatten(0, 1)}
        given = torch.arange(len(ids_M), device=ids_M.device), packing, self._task.name
        several = {}
        if self._windows > 1:
            several["windows"] = pack_windows(np.full(len(places_S), self._windows), ids_M.device)
        logits_SA, *_ = functional_call(self._model, own, given, several)
        return vectors_SNC, answer_moved(self._task, logits_SA.double() / self._temperature, self._target)
