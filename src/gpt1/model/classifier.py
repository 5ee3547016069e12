"""What fine-tuning puts on top of a network (section 3.2 and figure 1 of the paper): a linear layer for each task.

A task reads the last block's output at the extract token, the last one of a sequence. The vectors of an example's
sequences are added up before the layer (one sequence is its own sum, and a pair read in both orders forgets its order);
only choices have their sequences scored one by one, by one output. The dropout before it has one mask for all the
sequences of an example, so that answers compete on equal terms.

A text that does not fit the context is read in several windows, each with a vector x_w as above. What they answer is

    mean         mean over w of (W x_w + b)
    max          the greatest over w of (W x_w + b), for each output by itself
    attention    W (sum over w of a_w x_w) + b, where a = softmax over w of q . x_w, and q is learned and begins at 0

so that one window answers as it would without the others.

Where each word of a text has a label, the layer looks at the token at which a word ends, in place of the extract token:
an answer is of a word then, and not of an example.

A network that is to forget which of two domains a text is from has a linear layer besides, which tells them apart by
the same vector; see `domain_logits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpt1.model.dropout import DropoutKey, Site, dropout
from gpt1.model.layers import Linear
from gpt1.model.network import Model, initialise
from gpt1.model.packing import Packing
from gpt1.model.reversal import reverse_gradient
from gpt1.recipes.values import ATTENTION, MAX, MEAN

# E examples, K sequences an example or a window, N tokens of all sequences, C width, A answers (classes, bins or
# choices); W windows of all examples, M windows of an example at most; R words that are read.


class WindowPacking(NamedTuple):
    """Which windows are of which example: their cells in a grid of [E, M]."""

    cells: Tensor  # [W]
    most: int

    @property
    def owners(self) -> Tensor:
        """The example of each window [W]."""
        return self.cells // self.most

    def to_grid(self, x_WD: Tensor, examples: int, filler: float) -> Tensor:
        """Return what windows have as a grid [E, M, D], filled up."""
        grid = x_WD.new_full((examples * self.most, x_WD.shape[1]), filler).index_copy(0, self.cells, x_WD)
        return grid.view(examples, self.most, -1)


@dataclass(frozen=True)
class HeadShape:
    """How a task is answered: with how many outputs, from how many sequences an example, scored apart or together."""

    outputs: int
    sequences: int
    scores_sequences: bool  # one output for each sequence: the choices of an example
    is_multilabel: bool = False  # each output says yes or no for itself, by a sigmoid; else one of all is right
    pooling: str = MEAN  # of an example's windows, where it has several

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

    def divergence(self, one_EA: Tensor, other_EA: Tensor) -> Tensor:
        """Return of each example (KL(p || q) + KL(q || p)) / 2 [E], p and q what two logits of it make of the answers.

        Where each answer is yes or no it is the mean over them.
        """
        p_EA, q_EA = self.probabilities(one_EA), self.probabilities(other_EA)
        if self.is_multilabel:  # log(p / (1 - p)) is the logit
            return 0.5 * ((p_EA - q_EA) * (one_EA - other_EA)).mean(-1)
        return 0.5 * ((p_EA - q_EA) * (one_EA.log_softmax(-1) - other_EA.log_softmax(-1))).sum(-1)


class WindowAttention(nn.Module):
    """What the windows of an example are together, by how much each counts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))  # at first the windows count alike

    def forward(self, x_WC: Tensor, windows: WindowPacking, examples: int) -> Tensor:
        """Return a vector for each example [E, C]."""
        score_W1 = (x_WC @ self.query).unsqueeze(1)
        share_EM1 = windows.to_grid(score_W1, examples, -torch.inf).softmax(1)
        return (share_EM1 * windows.to_grid(x_WC, examples, 0)).sum(1)


class Classifier(nn.Module):
    """A network with a head for each task."""

    def __init__(self, body: Model, tasks: Mapping[str, HeadShape], *, tells_domains: bool = False) -> None:
        super().__init__()
        self.body, self.tasks = body, dict(tasks)
        self.heads = nn.ModuleDict(
            {head_name(name): Linear(body.shape.width, head.outputs, bias=True) for name, head in tasks.items()}
        )
        attended = [name for name, head in tasks.items() if head.pooling == ATTENTION]
        self.attentions = nn.ModuleDict({head_name(name): WindowAttention(body.shape.width) for name in attended})
        self.domains = Linear(body.shape.width, 1, bias=True) if tells_domains else None

    def with_body(self, body: Model) -> Classifier:
        """Return these heads on another network of the same width."""
        other = Classifier(body, self.tasks)
        other.heads, other.attentions, other.domains = self.heads, self.attentions, self.domains
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
        windows: WindowPacking | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits [E, A] of a packed row's examples, the network's output [N, C] and its output matrix [V, C].

        Each example has its K sequences side by side, or its windows with K each. `examples_E` is the place of each
        example in the step's whole batch, which noise needs; sequences behind the last of these examples are left out
        of the answers. With `places`, tokens of the row, the logits [R, A] are of what is read there, and `examples_E`
        has a number for each of these.
        """
        hidden_NC, output_VC = self.body(ids_N, noise, packing)
        head = self.tasks[task]
        if places is not None:
            at_words = cast(Linear, self.heads[head_name(task)])
            x_R1C = hidden_NC[places].to(at_words.weight.dtype).unsqueeze(1)
            return at_words(self._drop(x_R1C, noise, examples_E)).squeeze(1), hidden_NC, output_VC
        if windows is not None:
            return self._pooled(hidden_NC, packing, task, noise, examples_E, windows), hidden_NC, output_VC
        examples = (len(packing.offsets) - 1) // head.sequences if examples_E is None else len(examples_E)
        last = packing.offsets[1 : examples * head.sequences + 1].long() - 1
        layer = self.heads[head_name(task)]
        x_EKC = hidden_NC[last].to(layer.weight.dtype).view(examples, head.sequences, -1)
        x_EKC = self._drop(x_EKC, noise, examples_E)
        logits_EA = layer(x_EKC).squeeze(-1) if head.scores_sequences else layer(x_EKC.sum(1))
        return logits_EA, hidden_NC, output_VC

    def vectors(self, hidden_NC: Tensor, last_S: Tensor, task: str) -> Tensor:
        """Return what is known of examples [E, C] before any head, given where their sequences end in a packed row."""
        head, layer = self.tasks[task], cast(Linear, self.heads[head_name(task)])
        x_SC = hidden_NC[last_S].to(layer.weight.dtype)
        return x_SC.view(-1, head.sequences, x_SC.shape[1]).sum(1)

    def domain_logits(self, x_EC: Tensor, reversal: Tensor) -> Tensor:
        """Return logits of the target domain [E]; the network learns `reversal` times the opposite of what they do."""
        assert self.domains is not None, "there is one domain"
        return cast(Tensor, self.domains(reverse_gradient(x_EC, reversal))).squeeze(-1)

    def _pooled(
        self,
        hidden_NC: Tensor,
        packing: Packing,
        task: str,
        noise: DropoutKey | None,
        examples_E: Tensor | None,
        windows: WindowPacking,
    ) -> Tensor:
        """Return the logits [E, A] of examples that are read in windows."""
        head, layer = self.tasks[task], cast(Linear, self.heads[head_name(task)])
        count, owners_W = len(windows.cells), windows.owners
        last = packing.offsets[1 : count * head.sequences + 1].long() - 1
        x_WKC = hidden_NC[last].to(layer.weight.dtype).view(count, head.sequences, -1)
        x_WC = self._drop(x_WKC, noise, None if examples_E is None else examples_E[owners_W]).sum(1)
        examples = int(owners_W[-1]) + 1 if examples_E is None else len(examples_E)
        if head.pooling == ATTENTION:
            x_EC: Tensor = self.attentions[head_name(task)](x_WC, windows, examples)
            return cast(Tensor, layer(x_EC))
        logits_WA: Tensor = layer(x_WC)
        if head.pooling == MAX:
            return windows.to_grid(logits_WA, examples, -torch.inf).amax(1)
        count_E1 = windows.to_grid(torch.ones_like(logits_WA[:, :1]), examples, 0).sum(1)
        return windows.to_grid(logits_WA, examples, 0).sum(1) / count_E1

    def _drop(self, x_EKC: Tensor, noise: DropoutKey | None, examples_E: Tensor | None) -> Tensor:
        if noise is None or self.body.shape.dropout == 0:
            return x_EKC
        assert examples_E is not None, "noise needs to know which examples these are"
        E, K, _ = x_EKC.shape
        numbers = examples_E.unsqueeze(1).expand(E, K).flatten()
        own = DropoutKey(noise.word, numbers)
        return dropout(x_EKC.flatten(0, 1), self.body.shape.dropout, own, Site.HEAD).view_as(x_EKC)


def head_name(task: str) -> str:
    """Return a task's name as a module may have it: without dots, and not one that modules use themselves."""
    name = task.replace(".", ":")  # which no task has in its name
    return f"{name}:" if hasattr(nn.ModuleDict(), name) else name


def build_classifier(
    body: Model, tasks: Mapping[str, HeadShape], *, seed: int, tells_domains: bool = False
) -> Classifier:
    """Return a network with new heads: weights from N(0, 0.02), biases 0."""
    model = Classifier(body, tasks, tells_domains=tells_domains)
    initialise(model.heads, deviation=0.02, silent_branches=False, seed=seed)
    if model.domains is not None:
        initialise(model.domains, deviation=0.02, silent_branches=False, seed=seed)
    return model
