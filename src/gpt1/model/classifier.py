"""What fine-tuning puts on top of a network (section 3.2 and figure 1 of the paper): a linear layer for each task.

A task reads the last block's output at the extract token, the last one of a sequence. The vectors of an example's
sequences are added up before the layer (one sequence is its own sum, and a pair read in both orders forgets its order);
only choices have their sequences scored one by one, by one output. The dropout before it has one mask for all the
sequences of an example, so that answers compete on equal terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from gpt1.model.dropout import DropoutKey, Site, drop_where, keep_mask
from gpt1.model.layers import Linear
from gpt1.model.network import Model, initialise
from gpt1.model.packing import Packing

# E examples, K sequences an example, N tokens of all sequences, C width, A answers (classes, bins or choices).


@dataclass(frozen=True)
class HeadShape:
    """How a task is answered: with how many outputs, from how many sequences an example, scored apart or together."""

    outputs: int
    sequences: int
    scores_sequences: bool  # one output for each sequence: the choices of an example
    is_multilabel: bool = False  # each output says yes or no for itself, by a sigmoid; else one of all is right

    def probabilities(self, logits_EA: Tensor) -> Tensor:
        """Return how likely each answer is: all of them together, or each for itself."""
        return logits_EA.sigmoid() if self.is_multilabel else logits_EA.softmax(-1)

    def loss(self, logits_EA: Tensor, shares_EA: Tensor, weights: Tensor) -> Tensor:
        """Return the sum of all examples' losses, cross-entropy with the shares that answers should have.

        `weights` are of the examples [E]; where each answer is yes or no, of each answer of each [E, A], over which an
        example's loss is the mean.
        """
        if self.is_multilabel:
            losses_EA = functional.binary_cross_entropy_with_logits(logits_EA, shares_EA, reduction="none")
            return (losses_EA * weights).mean(-1).sum()
        return -(shares_EA * logits_EA.log_softmax(-1)).sum(-1) @ weights


class Classifier(nn.Module):
    """A network with a head for each task."""

    def __init__(self, body: Model, tasks: Mapping[str, HeadShape]) -> None:
        super().__init__()
        self.body, self.tasks = body, dict(tasks)
        self.heads = nn.ModuleDict(
            {head_name(name): Linear(body.shape.width, head.outputs, bias=True) for name, head in tasks.items()}
        )

    def with_body(self, body: Model) -> Classifier:
        """Return these heads on another network of the same width."""
        other = Classifier(body, self.tasks)
        other.heads = self.heads
        return other

    @property
    def blocks(self) -> nn.ModuleList:
        """The network's blocks."""
        return self.body.blocks

    def forward(
        self,
        ids_N: Tensor,
        packing: Packing,
        task: str,
        noise: DropoutKey | None = None,
        examples_E: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits [E, A] of a packed row's examples, the network's output [N, C] and its output matrix [V, C].

        Each example has its K sequences side by side. `examples_E` is the place of each example in the step's whole
        batch, which noise needs; sequences behind the last of these examples are left out of the answers.
        """
        hidden_NC, output_VC = self.body(ids_N, noise, packing)
        head = self.tasks[task]
        examples = (len(packing.offsets) - 1) // head.sequences if examples_E is None else len(examples_E)
        last = packing.offsets[1 : examples * head.sequences + 1].long() - 1
        layer = self.heads[head_name(task)]
        x_EKC = hidden_NC[last].to(layer.weight.dtype).view(examples, head.sequences, -1)
        x_EKC = self._drop(x_EKC, noise, examples_E)
        logits_EA = layer(x_EKC).squeeze(-1) if head.scores_sequences else layer(x_EKC.sum(1))
        return logits_EA, hidden_NC, output_VC

    def _drop(self, x_EKC: Tensor, noise: DropoutKey | None, examples_E: Tensor | None) -> Tensor:
        if noise is None or self.body.shape.dropout == 0:
            return x_EKC
        assert examples_E is not None, "noise needs to know which examples these are"
        rate, own = self.body.shape.dropout, DropoutKey(noise.word, examples_E)
        return drop_where(x_EKC, keep_mask(x_EKC.shape[2:], rate, own, Site.HEAD).unsqueeze(1), rate)


def head_name(task: str) -> str:
    """Return a task's name as a module may have it: without dots, and not one that modules use themselves."""
    name = task.replace(".", ":")  # which no task has in its name
    return f"{name}:" if hasattr(nn.ModuleDict(), name) else name


def build_classifier(body: Model, tasks: Mapping[str, HeadShape], *, seed: int) -> Classifier:
    """Return a network with new heads: weights from N(0, 0.02), biases 0."""
    model = Classifier(body, tasks)
    initialise(model.heads, deviation=0.02, silent_branches=False, seed=seed)
    return model
