"""A run out as ONNX: ids to logits, for any number of texts of any length up to the context.

A pre-trained run gives the scores of the next token at every position; a fine-tuned one the answers to one text or
pair, read at its extract token, so texts of different lengths may be filled up behind it with anything.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpt1.base.errors import InputError, MissingDependency
from gpt1.base.files import result_file
from gpt1.base.torch_internals import EXPORT_LOGGER
from gpt1.inference.answering import left_behind, network_temperature, task_of
from gpt1.inference.run import Run
from gpt1.model import Classifier, Model
from gpt1.model.classifier import head_name
from gpt1.recipes.values import LSTM
from gpt1.tasks.catalog import refuse_words

# B texts, T tokens, V tokens of the vocabulary, A answers.


class NextToken(nn.Module):
    """Scores of the next token at every position."""

    def __init__(self, body: Model) -> None:
        super().__init__()
        self.body = body

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits [B, T, V]."""
        hidden_BTC, output_VC = self.body(ids)
        logits: Tensor = hidden_BTC @ output_VC.T
        return logits


class Answer(nn.Module):
    """A fine-tuned run's answer."""

    def __init__(self, classifier: Classifier, task: str) -> None:
        super().__init__()
        self.body, self.head = classifier.body, classifier.heads[head_name(task)]

    def forward(self, ids: Tensor, extract: Tensor) -> Tensor:
        """Return the logits [B, A], given where the extract token of each text stands [B]."""
        hidden_BTC, _ = self.body(ids)
        place_B1C = extract[:, None, None].expand(-1, 1, hidden_BTC.shape[2])
        logits: Tensor = self.head(hidden_BTC.gather(1, place_B1C).squeeze(1))
        return logits


def export_onnx(run: Run, out: str | Path, *, task: str | None = None, overwrite: bool = False) -> list[str]:
    """Write a run as an ONNX file, computed in fp32; return what a person should know about it.

    A file that is there is replaced only to `overwrite` it.
    """
    out = Path(out)
    shape = run.recipe.shape
    if shape.kind == LSTM or (shape.window is not None and shape.window < shape.context):
        what = "an LSTM" if shape.kind == LSTM else "a network with a sliding window"
        raise InputError(f"{run.path} is {what}, which is not written as ONNX; serve it with gpt1 itself")
    if run.is_bidirectional:
        raise InputError(
            f"{run.path} looks both ways, so that what fills a text up behind its end would be read too; it is not "
            "written as ONNX; serve it with gpt1 itself"
        )
    network, inputs, said = _network(run, task)
    with result_file(
        out, overwrite=overwrite
    ) as file:  # opened first: what cannot be written is told before the export, which is slow
        file.write(_exported(network, inputs, shape.context).model_proto.SerializeToString())
    return said


def _network(run: Run, task: str | None) -> tuple[nn.Module, dict[str, Tensor], list[str]]:
    """Return what is exported, on the CPU and in fp32, and inputs to follow it with."""
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    if not run.has_tasks:
        body = deepcopy(run.model).cpu().float()
        body.compute_in(torch.float32)
        return NextToken(body), {"ids": ids}, ["input: ids [texts, tokens]; output: logits [texts, tokens, vocabulary]"]
    wanted = task_of(run, task)
    refuse_words(wanted, "an export to ONNX")
    if wanted.sequences != 1:
        raise InputError(
            f"task '{wanted.name}' is answered from {wanted.sequences} sequences; ONNX is for one text or pair"
        )
    classifier = deepcopy(run.classifier).cpu().float()
    classifier.body.compute_in(torch.float32)
    with torch.no_grad():
        for weight in classifier.heads[head_name(wanted.name)].parameters():
            weight.div_(network_temperature(run, wanted))
    specials = ", ".join(f"{name} {id}" for name, id in run.tokenizer.specials.items())
    said = [
        "inputs: ids [texts, tokens] and extract [texts], the place of the extract token in each; output: logits "
        f"[texts, answers], in the order {', '.join(wanted.labels) or 'of the bins'}",
        f"a text goes in between start and extract, a pair parted by delimiter: {specials}",
        *left_behind(run, wanted),
    ]
    return Answer(classifier, wanted.name), {"ids": ids, "extract": torch.tensor([2, 1])}, said


def _exported(network: nn.Module, inputs: dict[str, Tensor], context: int) -> Any:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingDependency("writing ONNX needs its libraries: pip install 'gpt1[export]'") from None
    texts, tokens = torch.export.Dim("texts", min=1), torch.export.Dim("tokens", min=1, max=context)
    shapes: dict[str, Any] = {"ids": {0: texts, 1: tokens}, "extract": {0: texts}}
    with _quiet():
        return torch.onnx.export(
            network.eval(),
            kwargs=inputs,
            input_names=list(inputs),
            output_names=["logits"],
            dynamic_shapes={name: shapes[name] for name in inputs},
            dynamo=True,
            verbose=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter warns of: its own parts, and each time a library that no run of ours needs."""

    def other(record: logging.LogRecord) -> bool:
        return "torchvision is not installed" not in record.getMessage()

    registering = logging.getLogger(EXPORT_LOGGER)
    registering.addFilter(other)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        registering.removeFilter(other)
