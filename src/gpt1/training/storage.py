"""Parameter storage: weights, gradients and moments in flat buffers, or sharded over ranks (FSDP).

Flat: the parameters of a group lie side by side in one buffer, and so do their gradients and each of their moments
("slots"), so that an update is one pass over a few long tensors. Sharded: FSDP has spread the parameters over the
ranks, and each rank sees its shards. Both answer to the same names; the optimisers' maths knows neither.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

ALIGNMENT = 64  # elements; every parameter starts at a multiple of it, as products and vector loads like it
NORM_BLOCK = 2**13  # elements; a CPU adds squares up in single precision, which drifts over longer runs


class Flat:
    """Parameters moved into one buffer, of which they become views, as do their gradients."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], slots: Sequence[str]) -> None:
        first, *others = parameters.values()
        assert all((p.dtype, p.device) == (first.dtype, first.device) for p in others), "one type, one device"
        self._places: dict[str, tuple[int, torch.Size]] = {}
        size = 0
        for name, parameter in parameters.items():
            self._places[name] = size, parameter.shape
            size += _aligned(parameter.shape)
        self._weights, self._gradients, *self._moments = (
            torch.zeros(size, dtype=first.dtype, device=first.device) for _ in range(2 + len(slots))
        )
        weights, gradients = self._views(self._weights), self._views(self._gradients)
        for name, parameter in parameters.items():
            parameter.data = weights[name].copy_(parameter.detach())
            parameter.grad = gradients[name]
        self.copy: Tensor | None = None  # of the weights in another type, where somebody wants it
        self._homes = [(parameter, gradients[name]) for name, parameter in parameters.items()]
        self.state = {
            f"{slot}.{name}": view
            for slot, moments in zip(slots, self._moments, strict=True)
            for name, view in self._views(moments).items()
        }

    def _views(self, buffer: Tensor) -> dict[str, Tensor]:
        return {name: buffer[at : at + shape.numel()].view(shape) for name, (at, shape) in self._places.items()}

    def pieces(self) -> list[tuple[Tensor, ...]]:
        """Return weights, gradients and moments as one piece; the gaps between parameters are zero and stay so."""
        # A gradient that was put elsewhere (by `zero_grad(set_to_none=True)`, say) would be lost without a word.
        assert all(parameter.grad is home for parameter, home in self._homes), "a gradient has left its buffer"
        return [(self._weights, self._gradients, *self._moments)]

    def keep_copy(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Have a copy of all weights in another type from now on, and return each parameter's part of it."""
        self.copy = self._weights.to(dtype)
        return self._views(self.copy)

    def zero_gradients(self, but: Collection[str] = ()) -> None:
        """Set all gradients to zero, but not those of some parameters."""
        begin = 0
        for at, shape in (place for name, place in self._places.items() if name in but):
            self._gradients[begin:at].zero_()
            begin = at + _aligned(shape)
        self._gradients[begin:].zero_()

    def renew_copy(self) -> None:
        """Copy the weights as they are now, where there is a copy."""
        if self.copy is not None:
            self.copy.copy_(self._weights)

    def gather(self, pieces: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return each parameter's tensor, from one that is laid out as the buffers are."""
        return self._views(pieces[0])

    def scatter(self, wholes: Mapping[str, Tensor]) -> list[Tensor]:
        """Undo `gather`."""
        piece = torch.zeros_like(self._weights)
        for name, view in self._views(piece).items():
            view.copy_(wholes[name])
        return [piece]

    def gradient_norm(self) -> Tensor:
        """Return the norm of all gradients together."""
        return norm_of(gradient for _, gradient, *_ in self.pieces())


class Sharded:
    """Parameters that FSDP has spread over the ranks; updates happen where the shards lie."""

    copy = None

    def __init__(self, parameters: Mapping[str, nn.Parameter], slots: Sequence[str]) -> None:
        self._parameters = {name: _as_spread(parameter) for name, parameter in parameters.items()}
        self._slots = slots
        self._mesh = next(iter(self._parameters.values())).device_mesh  # FSDP spreads all of them over one mesh
        self.state: dict[str, Tensor] = {
            f"{slot}.{name}": torch.zeros_like(parameter, requires_grad=False)
            for slot in slots
            for name, parameter in self._parameters.items()
        }

    def pieces(self) -> list[tuple[Tensor, ...]]:
        """Return this rank's shards of the weights, gradients and moments of each parameter."""
        pieces = []
        for name, parameter in self._parameters.items():
            if parameter.grad is None:  # as it is until the first backward pass
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
            moments = (self.state[f"{slot}.{name}"] for slot in self._slots)
            pieces.append(tuple(_as_spread(x).to_local() for x in (parameter, parameter.grad, *moments)))
        return pieces

    def keep_copy(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return no copies: FSDP makes its own."""
        return {}

    def zero_gradients(self, but: Collection[str] = ()) -> None:
        """Set all gradients to zero."""
        for _, gradient, *_ in self.pieces():
            gradient.zero_()

    def renew_copy(self) -> None:
        """Do nothing: there is no copy."""

    def gather(self, pieces: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return each parameter's whole tensor, from shards of all ranks that are laid out as the pieces are."""
        return {
            name: DTensor.from_local(
                piece, self._mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
            ).full_tensor()
            for (name, parameter), piece in zip(self._parameters.items(), pieces, strict=True)
        }

    def scatter(self, wholes: Mapping[str, Tensor]) -> list[Tensor]:
        """Undo `gather`."""
        return [spread(wholes[name], parameter).to_local() for name, parameter in self._parameters.items()]

    def gradient_norm(self) -> Tensor:
        """Return the norm of all gradients of all ranks together; what lies on several ranks counts once."""
        norms = []
        for parameter, (_, gradient, *_) in zip(self._parameters.values(), self.pieces(), strict=True):
            sizes = zip(self._mesh.shape, parameter.placements, strict=True)
            copies = math.prod(size for size, placement in sizes if placement.is_replicate())
            norms.append(norm_of([gradient]) / math.sqrt(copies))
        square = norm_of(norms).square()
        for dimension in range(self._mesh.ndim):
            dist.all_reduce(square, group=self._mesh.get_group(dimension))
        return square.sqrt()


Storage = Flat | Sharded


def _aligned(shape: torch.Size) -> int:
    """Return how many elements of a buffer a parameter of this shape takes up."""
    return -(-shape.numel() // ALIGNMENT) * ALIGNMENT


def norm_of(tensors: Iterable[Tensor]) -> Tensor:
    """Return the norm of all tensors together, a tensor itself."""
    return _norm(torch.cat([part for x in tensors for part in _norms(x)]))


def _norms(x: Tensor) -> list[Tensor]:
    """Return the norms of a tensor's parts: on a CPU those of all its blocks in one go, then that of what is left."""
    if not x.is_cpu:
        return [_norm(x).view(1)]
    blocks, rest = x.reshape(-1).tensor_split([x.numel() // NORM_BLOCK * NORM_BLOCK])
    return [torch.linalg.vector_norm(blocks.view(-1, NORM_BLOCK), dim=1), _norm(rest).view(1)]


def _norm(x: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(x)
    return norm


def spread(whole: Tensor, like: DTensor) -> DTensor:
    """Spread a tensor that every rank has over the ranks as another one is; nothing is sent."""
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def _as_spread(tensor: Tensor) -> DTensor:
    assert isinstance(tensor, DTensor), "FSDP shards all parameters of a group or none"
    return tensor
