"""One optimiser step, from gradients to weights.

`adam` is the released code's, with the settings of the paper's section 4.1: epsilon is added to the uncorrected root,
and the decay is multiplied by the rate with the bias correction in it. torch's AdamW is another function: `adamw`.
`muon` moves the matrices of the blocks by their orthogonalised momentum, and all else by `adamw`. Only what has more
than one dimension decays.

`adam_update` is the formula. Faster functions that stand in for it, torch's own and that of `model/kernels/adam.py`,
are judged by it. Nothing here waits for the device: whether an update happens at all is a tensor too.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from gpt1.base.errors import FormatError
from gpt1.recipes.values import Optimizer
from gpt1.training.storage import Flat, Sharded, Storage, norm_of, spread

# Jordan et al. 2024: the steepest start that stays bounded.
NEWTON_SCHULZ_STEPS, NEWTON_SCHULZ_COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)
SMALLEST_NORM = 1e-7

DECAYED, UNDECAYED, MUON = "decayed", "undecayed", "muon"


class AdamNumbers(NamedTuple):
    """What an update of Adam's multiplies and adds; the bias corrections are in them."""

    rate: float
    decay: float
    beta1: float
    beta2: float
    epsilon: float


def adam_numbers(settings: Optimizer, t: int, factor: float, *, decays: bool = True) -> AdamNumbers:
    """Return the numbers of update `t`, counted from 1.

    AdamW is the same update with other numbers: its epsilon is added to the corrected root, its decay is not corrected.
    """
    root = math.sqrt(1 - settings.beta2**t)
    correction = root / (1 - settings.beta1**t)
    rate, decay = settings.lr * correction * factor, settings.weight_decay if decays else 0.0
    if settings.kind == "adam":
        return AdamNumbers(rate, decay, settings.beta1, settings.beta2, settings.epsilon)
    return AdamNumbers(rate, decay / correction, settings.beta1, settings.beta2, settings.epsilon * root)


@torch.no_grad()
def adam_update(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    numbers: AdamNumbers,
    *,
    scale: Tensor,
    ok: Tensor,
    copy: Tensor | None = None,
) -> None:
    """Move weights `p` and moments `m`, `v` in place by gradients `g * scale`; where `ok` is false, nothing changes.

    A copy of the weights, in whatever type, becomes one of the new weights.
    """
    g = g * scale
    new_m = m.lerp(g, 1 - numbers.beta1)
    new_v = (v * numbers.beta2).addcmul_(g, g, value=1 - numbers.beta2)
    direction = (new_m / new_v.sqrt().add_(numbers.epsilon)).add_(p, alpha=numbers.decay)
    new_p = p.sub(direction, alpha=numbers.rate)
    for old, new in ((m, new_m), (v, new_v), (p, new_p)):
        torch.where(ok, new, old, out=old)  # a choice, not a product with 0: gradients that are not ok may hold NaN
    if copy is not None:
        copy.copy_(p)


@torch.no_grad()
def library_update(
    p: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    numbers: AdamNumbers,
    *,
    scale: Tensor,
    ok: Tensor,
    copy: Tensor | None = None,
) -> None:
    """Do what `adam_update` does in one pass of torch's fused AdamW: single precision, and `g` is used up.

    After infinitely many steps AdamW's bias corrections are 1, and what is left is the formula above.
    """
    steps = torch.full((), math.inf, device=p.device)
    adamw(
        *([p], [g], [m], [v], [], [steps]),
        fused=True,
        grad_scale=scale.reciprocal().float(),  # torch divides by it
        found_inf=(~ok).float(),
        amsgrad=False,
        maximize=False,
        lr=numbers.rate,
        weight_decay=numbers.decay,
        beta1=numbers.beta1,
        beta2=numbers.beta2,
        eps=numbers.epsilon,
    )
    if copy is not None:
        copy.copy_(p)


def _choose_update(storage: Storage) -> Callable[..., None]:
    """Return the fastest form of `adam_update` for what is stored."""
    weights = storage.pieces()[0][0]
    if weights.dtype != torch.float32 or weights.device.type not in ("cpu", "cuda"):
        return adam_update
    if weights.is_cuda and isinstance(storage, Flat):
        if importlib.util.find_spec("triton"):
            from gpt1.model.kernels.adam import fused_update

            return fused_update
        warnings.warn("triton is not installed: torch's own kernel updates the weights, a bit slower", stacklevel=2)
    return library_update


# N matrices of R rows and C columns
def orthogonalize(x_NRC: Tensor) -> Tensor:  # noqa: N803
    """Return matrices with their singular values brought near 1 by a Newton-Schulz iteration.

    In bf16 on a GPU, else in the precision given. The values end between about 0.7 and 1.2, which serves as well as 1.
    """
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    is_tall = x_NRC.shape[1] > x_NRC.shape[2]
    x = x_NRC.mT if is_tall else x_NRC  # so that the product with its transpose is the smaller one
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=SMALLEST_NORM)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(x_NRC.dtype)


def muon_directions(updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return where each named matrix goes: its update orthogonalised, times sqrt(max(1, rows / columns)).

    That factor is the original's, not the later one that gives updates the size of Adam's. Matrices of one shape are
    handled in one go; a projection to queries, keys and values is three matrices.
    """
    parts = {name: update.chunk(3) if name.endswith("qkv.weight") else (update,) for name, update in updates.items()}
    alike = defaultdict(list)
    for matrix in (matrix for several in parts.values() for matrix in several):
        alike[matrix.shape].append(matrix)
    done = {
        shape: iter((orthogonalize(torch.stack(matrices)) * max(1.0, shape[0] / shape[1]) ** 0.5).unbind())
        for shape, matrices in alike.items()
    }
    return {name: torch.cat([next(done[matrix.shape]) for matrix in several]) for name, several in parts.items()}


class AdamGroup:
    """Parameters that follow Adam, with decay or without."""

    slots = ("m", "v")

    def __init__(self, settings: Optimizer, storage: Storage, *, decays: bool) -> None:
        self.storage = storage
        self._settings, self._decays = settings, decays
        self._update = _choose_update(storage)

    def step(self, t: int, factor: float, scale: Tensor, ok: Tensor) -> None:
        """Make update `t`."""
        numbers = adam_numbers(self._settings, t, factor, decays=self._decays)
        for p, g, m, v in self.storage.pieces():
            self._update(p, g, m, v, numbers, scale=scale, ok=ok, copy=self.storage.copy)


class MuonGroup:
    """Matrices that follow their momentum, a step ahead of itself (Nesterov) and orthogonalised; decay is decoupled."""

    slots = ("momentum",)

    def __init__(self, settings: Optimizer, storage: Storage) -> None:
        self.storage = storage
        self._settings = settings

    def step(self, t: int, factor: float, scale: Tensor, ok: Tensor) -> None:
        """Make update `t`, whose number does not matter here."""
        rate, beta, decay = self._settings.matrix_lr * factor, self._settings.momentum, self._settings.weight_decay
        pieces = self.storage.pieces()
        updates = []
        for _, g, momentum in pieces:
            g = g * scale
            new = momentum.lerp(g, 1 - beta)
            updates.append(g.lerp(new, beta))
            torch.where(ok, new, momentum, out=momentum)
        directions = self.storage.scatter(muon_directions(self.storage.gather(updates)))
        for (p, *_), direction in zip(pieces, directions, strict=True):
            torch.where(ok, (p * (1 - rate * decay)).sub_(direction, alpha=rate), p, out=p)
        self.storage.renew_copy()


class Optimizers:
    """All parameters that learn, each in one group, and one step for all of them."""

    def __init__(self, groups: Mapping[str, Sequence[str]], rules: Sequence[AdamGroup | MuonGroup]) -> None:
        self.groups = groups  # the names in each
        self._rules = rules

    @torch.no_grad()
    def gradient_norm(self) -> Tensor:
        """Return the norm of all gradients together, which stays on the device."""
        return norm_of([rule.storage.gradient_norm() for rule in self._rules])

    @torch.no_grad()
    def step(self, t: int, factor: float, scale: Tensor, ok: Tensor) -> None:
        """Make update `t`, counted from 1, with gradients times `scale` and learning rates times `factor`.

        `scale` and `ok` are on the device; where `ok` is false nothing changes, whatever the gradients hold. Gradients
        are used up: what they hold afterwards means nothing.
        """
        for rule in self._rules:
            rule.step(t, factor, scale, ok)

    @torch.no_grad()
    def zero_grad(self, but: Collection[str] = ()) -> None:
        """Set all gradients to zero where they lie; `Module.zero_grad` would take them out of their buffers.

        But not those of parameters whose gradient is written anew as a whole.
        """
        for rule in self._rules:
            rule.storage.zero_gradients(but)

    def keep_copies(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return copies of all weights by name in another type, which every update brings up to date."""
        return {name: copy for rule in self._rules for name, copy in rule.storage.keep_copy(dtype).items()}

    @torch.no_grad()
    def renew_copies(self) -> None:
        """Bring the copies up to date after weights were changed by others."""
        for rule in self._rules:
            rule.storage.renew_copy()

    def state(self) -> dict[str, Tensor]:
        """Return the moments by name, as "m.tokens", in their parameters' shapes: the optimiser's own, not copies."""
        return {name: moment for rule in self._rules for name, moment in rule.storage.state.items()}

    @torch.no_grad()
    def reset(self) -> None:
        """Forget all moments, as before the first update."""
        for moment in self.state().values():
            moment.zero_()

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take the moments of a state over, whole or spread as the parameters are; all of them must fit."""
        own = self.state()
        for name in sorted(own.keys() ^ state.keys()):
            problem = "is missing" if name in own else "belongs to no parameter here"
            raise FormatError(f"the optimiser's state does not fit this model: '{name}' {problem}")
        for name, moment in own.items():
            if moment.shape != state[name].shape:
                raise FormatError(
                    f"the optimiser's state does not fit this model: '{name}' has shape {list(state[name].shape)}, "
                    f"here {list(moment.shape)}"
                )
        for name, moment in own.items():
            value = state[name]
            if isinstance(moment, DTensor) and not isinstance(value, DTensor):
                value = spread(value.to(moment.device, moment.dtype), moment)
            moment.copy_(value)


def _group_of(kind: str, name: str, parameter: nn.Parameter) -> str:
    if kind == "muon" and parameter.ndim == 2 and name.startswith(("blocks.", "body.blocks.")):
        return MUON
    return DECAYED if parameter.ndim > 1 else UNDECAYED


@torch.no_grad()
def build_optimizer(settings: Optimizer, named: Iterable[tuple[str, nn.Parameter]]) -> Optimizers:
    """Group a model's parameters, move them into flat buffers (unless sharded), and return their optimiser.

    To be called when the model is on its device and, under FSDP, sharded; it must not be moved or converted afterwards.
    A parameter with two names counts once, under the first; one that does not learn is left alone.
    """
    first_names: dict[nn.Parameter, str] = {}
    for name, parameter in named:
        if parameter.requires_grad:
            first_names.setdefault(parameter, name)
    groups: dict[str, dict[str, nn.Parameter]] = defaultdict(dict)
    for parameter, name in first_names.items():
        groups[_group_of(settings.kind, name, parameter)][name] = parameter
    rules: list[AdamGroup | MuonGroup] = []
    for group, parameters in groups.items():
        storage = Sharded if isinstance(next(iter(parameters.values())), DTensor) else Flat
        if group == MUON:
            rules.append(MuonGroup(settings, storage(parameters, MuonGroup.slots)))
        else:
            rules.append(AdamGroup(settings, storage(parameters, AdamGroup.slots), decays=group == DECAYED))
    return Optimizers({group: list(parameters) for group, parameters in groups.items()}, rules)
