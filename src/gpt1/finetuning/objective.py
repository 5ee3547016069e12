"""What fine-tuning learns: L3 = L2 + lambda L1 of the paper's section 3.2, the task and beside it the next token.

Where there are texts of a target domain, also which domain a text is from; see `domains.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpt1.finetuning.batches import DOMAIN, LM, R_DROP, TEACHER
from gpt1.model import Classifier, DropoutKey, Packing, WindowPacking, linear_cross_entropy
from gpt1.records.run import RecordedTeaching


class TaskLearning(nn.Module):
    """Sums of a micro-batch: each example's loss times its weight, and each sequence's mean loss of its next tokens."""

    def __init__(
        self,
        model: Classifier,
        *,
        lm_weight: float,
        tasks: Iterable[str],
        teaching: RecordedTeaching | None = None,
        r_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.weights = dict.fromkeys(tasks, 1.0 if teaching is None else 1 - teaching.weight)
        # A batch uses one head; an output matrix of its own serves the language model alone.
        # How windows count is learned only where a task has texts of several.
        self.leaves_weights_out = (
            len(self.weights) > 1 or len(model.attentions) > 0 or (not lm_weight and model.body.output is not None)
        )
        if lm_weight:
            self.weights[LM] = lm_weight
        if teaching is not None:
            self.weights[TEACHER], self._temperature = teaching.weight, teaching.temperature
        if r_drop:
            self.weights[R_DROP] = r_drop
        if model.domains is not None:
            self.weights[DOMAIN] = 1.0  # of its classifier; what the network makes of it is the reversal's

    def forward(
        self, tensors: dict[str, Tensor], noise: DropoutKey | None, *, task: str, longest: int, most_windows: int = 0
    ) -> dict[str, Tensor]:
        """Return all terms; those of tasks that have no examples here are zero."""
        packing = Packing(tensors["offsets"], tensors["sequence"], tensors["position"], longest)
        windows = WindowPacking(tensors["windows"], most_windows) if most_windows else None
        places = tensors["places"].long() if "places" in tensors else None
        logits_EA, hidden_NC, output_VC = self.model(
            tensors["ids"].long(), packing, task, noise, tensors["examples"], windows, places
        )
        if "partners" in tensors:
            logits_EA = self._mixed(logits_EA, tensors)
        sums = {name: logits_EA.new_zeros(()) for name in self.weights}
        sums[task] = self.model.tasks[task].loss(logits_EA, tensors["shares"], tensors["weights"])
        if TEACHER in self.weights:
            softer, taught, is_taught = logits_EA / self._temperature, tensors["taught"], tensors["is_taught"]
            sums[TEACHER] = self._temperature**2 * self.model.tasks[task].loss(softer, taught, is_taught)
        if LM in self.weights:
            sums[LM] = linear_cross_entropy(
                hidden_NC, output_VC, tensors["targets"].long(), tensors["token_weights"], self.model.body.vocab_size
            )
        if R_DROP in self.weights:
            apart_E = self.model.tasks[task].divergence(*logits_EA.chunk(2))
            sums[R_DROP] = apart_E @ tensors["is_real"]
        if DOMAIN in self.weights:
            sums[DOMAIN] = self._domain_loss(hidden_NC, tensors, task)
        return sums

    def _mixed(self, logits_EA: Tensor, tensors: dict[str, Tensor]) -> Tensor:
        """Return the logits of each pass's examples, mixed where examples are.

        A head is linear and shares add up to 1: mixing what it gives is mixing the vectors at extract that it is given.
        """
        passes = 2 if R_DROP in self.weights else 1
        partners, own_E1 = tensors["partners"].long(), tensors["mix_shares"].unsqueeze(1)
        each_PEA = logits_EA.unflatten(0, (passes, -1))
        mixed_PEA: Tensor = own_E1 * each_PEA[:, : len(partners)] + (1 - own_E1) * each_PEA[:, partners]
        return mixed_PEA.flatten(0, 1)

    def _domain_loss(self, hidden_NC: Tensor, tensors: dict[str, Tensor], task: str) -> Tensor:
        """Return the sum over the texts of both domains of how unlikely the right domain was found."""
        examples, sequences = len(tensors["examples"]), self.model.tasks[task].sequences
        source_ends = tensors["offsets"][1 : examples * sequences + 1].long() - 1
        x_EC = self.model.vectors(hidden_NC, torch.cat((source_ends, tensors["target_ends"])), task)
        logits_E = self.model.domain_logits(x_EC, tensors["reversal"])
        counts = tensors["has_domain"].to(logits_E.dtype)
        is_target = torch.cat((torch.zeros_like(counts), torch.ones_like(counts)))
        losses = functional.binary_cross_entropy_with_logits(logits_E, is_target, reduction="none")
        return losses @ counts.repeat(2)
