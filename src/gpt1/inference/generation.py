"""Text from a model: one token after another, drawn from what it thinks comes next."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpt1.model import Model


@torch.no_grad()
def continue_ids(
    model: Model,
    prompt: Sequence[int],
    new_tokens: int,
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> list[int]:
    """Return `new_tokens` ids that continue a prompt of at least one id.

    When the context is full, its last half is kept and read anew from position 0.
    """
    device = next(model.parameters()).device
    draws = torch.Generator().manual_seed(seed)
    ids, written = list(prompt)[-model.shape.context :], []
    for _ in range(new_tokens):
        if len(ids) >= model.shape.context:
            ids = ids[-(model.shape.context // 2) :]
        hidden, output = model(torch.tensor([ids], device=device))
        logits = (hidden[0, -1] @ output[: model.vocab_size].T).float().cpu() / temperature
        if top_k is not None:
            logits[logits < logits.topk(min(top_k, len(logits))).values[-1]] = -torch.inf
        written.append(int(torch.multinomial(logits.softmax(0), 1, generator=draws)))
        ids.append(written[-1])
    return written
