"""How weights start (section 4.1 of the paper): matrices and embeddings from N(0, 0.02), biases at 0, gains at 1.

A tensor's values come from the seed and its own name, never from the order in which things are made: a network with
another vocabulary, more layers or another kind of norm starts with the same values wherever names and sizes agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import torch
from torch import Tensor, nn

# The matrices that write to the residual stream.
WRITERS = "attention.out.weight", "feed_forward.down.weight"


@torch.no_grad()
def initialise(
    model: nn.Module, *, deviation: float, silent_branches: bool, seed: int, loaded: Collection[str] = ()
) -> None:
    """Fill every parameter but those that are `loaded` next; `silent_branches`: blocks begin by passing on their input.

    Drawing the weights of GPT-1 takes longer than reading them.
    """
    for name, parameter in model.named_parameters():
        if parameter.is_meta or name in loaded:
            continue
        if name.endswith("gain"):
            parameter.fill_(1)
        elif name.endswith("bias") or (silent_branches and name.endswith(WRITERS)):
            parameter.zero_()
        else:
            parameter.copy_(normal(name, parameter.shape, deviation=deviation, seed=seed))


def normal(name: str, size: torch.Size, *, deviation: float, seed: int) -> Tensor:
    """Draw a tensor of this name and size from N(0, deviation)."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    generator = torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return torch.randn(size, generator=generator, device="cpu") * deviation
