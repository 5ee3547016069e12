"""A language model (section 3.1 of the paper): tokens to vectors, blocks, and the matrix that makes logits of vectors.

The body ends at the last block's output and hands out the output matrix beside it: who wants logits multiplies, who
wants a loss asks `loss.py`, which never holds them all, and a classifier reads the vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gpt1.base.errors import InputError, SettingError
from gpt1.model.dropout import DropoutKey, Site, drop_layer, drop_table
from gpt1.model.fusing import fuses
from gpt1.model.global_tokens import GlobalTokens, find_global
from gpt1.model.kv_cache import CacheStep
from gpt1.model.layers import Learning, make_norm
from gpt1.model.lstm import LSTMBlock
from gpt1.model.packing import Packing, grid_packing
from gpt1.model.transformer import transformer_blocks
from gpt1.recipes.values import TRANSFORMER, Shape

# B sequences, T positions, C width, V vocabulary; in a packed row, N tokens for B and T.

MOST_TOKENS = 2**12  # of which a kernel looks for equal ones
CUDA_ROWS = 128  # a GPU multiplies by a table several times faster if it has a multiple of this many rows


class Model(Learning):
    """A network of any shape; weights are in full precision, arithmetic is in `compute`."""

    def __init__(
        self,
        shape: Shape,
        vocab_size: int,
        compute: torch.dtype,
        *,
        checkpoint_activations: bool = False,
        fused: bool = False,
        specials: int = 0,
        bidirectional: bool = False,
        has_mask: bool = False,
    ) -> None:
        super().__init__()
        self.shape, self.vocab_size, self.compute = shape, vocab_size, compute
        self.specials = specials  # the last so many tokens of the vocabulary are special ones
        self.checkpoint_activations = checkpoint_activations  # each block is computed twice, not kept for its gradient
        self.fused = fused  # blocks have kernels of our own, which know packed rows only
        self.bidirectional = bidirectional  # every position looks both ways, whatever is read
        transformer = shape.kind == TRANSFORMER
        learned = transformer and shape.positions == "learned"
        final = transformer and shape.norm_first  # nothing else would normalise the last sum
        self.tokens = nn.Parameter(torch.empty(vocab_size, shape.width))
        # What stands for a token that is masked: no row of the table, since no text holds it and nothing predicts it.
        self.mask = nn.Parameter(torch.empty(shape.width)) if has_mask else None
        self.positions = nn.Parameter(torch.empty(shape.context, shape.width)) if learned else None
        self.blocks = nn.ModuleList(
            transformer_blocks(shape, fused=fused) if transformer or fused else [LSTMBlock(shape)]
        )
        self.final_norm = make_norm(shape.norm, shape.width, shape.bias) if final else nn.Identity()
        self.output = None if shape.tied else nn.Parameter(torch.empty(vocab_size, shape.width))
        self.output_layer: nn.Module | None = None  # what makes logits in its place, in a network made ready for use

    def forward(
        self,
        ids_BT: Tensor,
        noise: DropoutKey | None = None,
        packing: Packing | None = None,
        reading: CacheStep | None = None,
        masked_BT: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the last block's output [B, T, C] and the output matrix [V, C]; without noise nothing is dropped.

        With a packing the ids are a packed row [N], and so is the output [N, C]; with the packing's reading they are
        read into a memory, or go on from what it holds (see `read`). Where `masked_BT` says which tokens are masked,
        the others are read both ways. Both results are in `compute`. The
        matrix is a working copy: dropped as a whole (tied, it is the very table the tokens were looked up in), and on a
        GPU filled up with rows of zeros, which the loss knows to leave out.
        """
        T = ids_BT.shape[1] if packing is None else packing.longest
        if self.shape.kind == TRANSFORMER and self.shape.context < T:
            raise InputError(f"a sequence of {T} tokens does not fit in a context of {self.shape.context}; shorten it")
        if reading is not None:
            require_causal(self)  # what was read before would have to be read anew for each token that comes
        ways = (True,) if self.bidirectional or masked_BT is not None else ()  # an LSTM has one, and is not asked
        if self.fused and reading is None and not ways:
            return self._by_kernels(ids_BT, noise, packing)
        tokens_VC = self.working(self.tokens, Site.TOKENS, noise)
        output_VC = tokens_VC if self.output is None else self.working(self.output, Site.OUTPUT, noise)
        x_BTC = self._looked_up(ids_BT, packing, tokens_VC, noise, masked_BT)
        looking = self._global_tokens(ids_BT, packing, reading), *ways
        return self.final_norm(self._through_blocks(x_BTC, noise, packing, reading, looking)), output_VC

    def _by_kernels(self, ids_BT: Tensor, noise: DropoutKey | None, packing: Packing | None) -> tuple[Tensor, Tensor]:
        """Do as `forward` does, by kernels that know packed rows, the paper's network and one way to look."""
        from gpt1.model.kernels.embedding import Tables, fused_embedding

        if packing is None:
            packing = grid_packing(ids_BT.shape[0], ids_BT.shape[1], ids_BT.device)
        assert self.positions is not None
        tables = Tables(
            self.tokens,
            self.positions,
            rate=self.shape.dropout,
            noise=noise,
            rows=self.vocab_size + self._fill(self.tokens),
            compute=self.compute,
            adds=self._adds(),
        )
        x_NC, output_VC = fused_embedding(ids_BT.flatten(), packing, tables)
        y_NC = self._through_blocks(x_NC, noise, packing)
        return self.final_norm(y_NC.view(*ids_BT.shape, -1)), output_VC

    def _through_blocks(
        self,
        x_BTC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None,
        reading: CacheStep | None = None,
        looking: Iterable[Any] = (),
    ) -> Tensor:
        for layer, block in enumerate(self.blocks):
            past = None if reading is None else reading.past(layer)
            if self.checkpoint_activations:
                y_BTC = checkpoint(block, x_BTC, noise, packing, past, *looking, use_reentrant=False)
            else:
                y_BTC = block(x_BTC, noise, packing, past, *looking)
            x_BTC = drop_layer(y_BTC, x_BTC, self.shape.layer_drop, noise, layer, packing)
        return x_BTC

    def _global_tokens(self, ids_BT: Tensor, packing: Packing | None, reading: CacheStep | None) -> GlobalTokens | None:
        """Return the tokens that are global, None where there are none or a memory knows them; tell it what begins."""
        if not self.shape.global_tokens or (reading is not None and reading.seen is not None):
            return None
        first_special = self.vocab_size - self.specials if self.specials else None
        found = find_global(ids_BT, packing, self.shape, first_special)
        if reading is not None:
            reading.keep_global(found)
        return found

    def can_add(self) -> bool:
        """Whether its tables have kernels for it."""
        tables = [table for table in (self.tokens, self.positions, self.output) if table is not None]
        has_kernels = self.fused or (self.shape.kind == TRANSFORMER and all(fuses(table) for table in tables))
        return has_kernels and all(table.requires_grad for table in tables)

    def _adds(self) -> bool:
        return self.additions is not None and torch.is_grad_enabled()

    def _looked_up(
        self,
        ids_BT: Tensor,
        packing: Packing | None,
        tokens_VC: Tensor,
        noise: DropoutKey | None,
        masked_BT: Tensor | None,
    ) -> Tensor:
        """Return the sum of what stands in the tables for each token."""
        positions_TC = None if self.positions is None else self.working(self.positions, Site.POSITIONS, noise)
        if self._adds() and packing is not None and masked_BT is None and len(ids_BT) <= MOST_TOKENS:
            from gpt1.model.kernels.tables import Dropping, Lookup, learning_rows

            lookups = [Lookup(self.tokens, tokens_VC, ids_BT, Dropping(self.shape.dropout, noise, Site.TOKENS))]
            if self.positions is not None and positions_TC is not None:
                dropping = Dropping(self.shape.dropout, noise, Site.POSITIONS)
                lookups.append(Lookup(self.positions, positions_TC, packing.position, dropping))
            return learning_rows(lookups)
        x_BTC = F.embedding(ids_BT, tokens_VC)
        if masked_BT is not None:
            assert self.mask is not None, "a network that learns of masked tokens is made with a mask"
            x_BTC = torch.where(masked_BT.unsqueeze(-1), self.mask.to(self.compute), x_BTC)
        if positions_TC is None:
            return x_BTC
        return x_BTC + (
            positions_TC[: ids_BT.shape[1]] if packing is None else F.embedding(packing.position, positions_TC)
        )

    def logits(self, hidden_NC: Tensor, output_VC: Tensor) -> Tensor:
        """Return the score of each token [N, V] at outputs of the last block, given the output matrix."""
        return hidden_NC @ output_VC.T if self.output_layer is None else self.output_layer(hidden_NC)

    def compute_in(self, compute: torch.dtype) -> None:
        """Do the arithmetic in another type from now on."""
        self.compute = compute

    def with_layers(self, kept: Sequence[int]) -> Model:
        """Return a network of some of the blocks, in this order, which shares its weights with this one."""
        other = deepcopy(self, {id(weight): weight for weight in self.parameters()})
        other.shape = replace(self.shape, layers=len(kept))
        other.blocks = nn.ModuleList([other.blocks[layer] for layer in kept])
        return other

    def copy_for_use(self, taken: dict[int, object], output_layer: Callable[[Tensor], nn.Module] | None) -> Model:
        """Return a copy that has what `taken` says in the place of its parts, which are named by their `id`.

        Logits are made by the layer that `output_layer` makes of the output matrix, if it is given.
        """
        ready = deepcopy(self, taken)  # which takes what it has seen before as it is
        if output_layer is not None:
            ready.output_layer = output_layer(ready.tokens if ready.output is None else ready.output)
        return ready

    def working(self, table: Tensor, site: Site, noise: DropoutKey | None) -> Tensor:
        """Return a table dropped as a whole, in `compute`, and on a GPU filled up with rows of zeros."""
        fill = self._fill(table)
        if self._adds():
            from gpt1.model.kernels.tables import Dropping, learning_table

            dropping = Dropping(self.shape.dropout, noise, site)
            return learning_table(cast(nn.Parameter, table), dropping, self.compute, len(table) + fill)
        working = drop_table(table, self.shape.dropout, noise, site).to(self.compute)
        return F.pad(working, (0, 0, 0, fill)) if fill else working

    def _fill(self, table: Tensor) -> int:
        return -len(table) % CUDA_ROWS if table.is_cuda else 0


def build_model(
    shape: Shape,
    vocab_size: int,
    *,
    compute: torch.dtype = torch.float32,
    seed: int = 0,
    checkpoint_activations: bool = False,
    fused: bool = False,
    specials: int = 0,
    bidirectional: bool = False,
    has_mask: bool = False,
    loaded: Collection[str] = (),
) -> Model:
    """Return a new network; on the meta device it has sizes and no values, nor has what is `loaded` next.

    `fused`: for learning on a GPU, its blocks have kernels of our own. `specials`: so many of the vocabulary's tokens,
    the last ones, are special tokens. A `bidirectional` one looks both ways at all that it reads; one that `has_mask`
    can be asked for tokens that are masked.
    """
    model = Model(
        *(shape, vocab_size, compute),
        checkpoint_activations=checkpoint_activations,
        fused=fused,
        specials=specials,
        bidirectional=bidirectional,
        has_mask=has_mask,
    )
    initialise(model, deviation=shape.init_std, silent_branches=shape.norm_first, seed=seed, loaded=loaded)
    return model


def require_causal(model: Model) -> None:
    """Refuse a network that looks both ways where a next token is asked for, which it has always been shown."""
    if model.bidirectional:
        raise SettingError(
            "this network was fine-tuned to look both ways (finetuning.bidirectional), so it can neither write a text "
            "nor tell how likely one is; ask the run that it was begun from"
        )


@torch.no_grad()
def read(model: Model, reading: CacheStep, ids_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return the last output of each sequence that a reading takes in [sequences, C], and the output matrix [V, C]."""
    hidden_NC, output_VC = model(ids_N, None, reading.packing, reading)
    return hidden_NC[reading.packing.offsets[1:].long() - 1], output_VC


@torch.no_grad()
def attention_weights(model: Model, ids_T: Tensor, layer: int) -> Tensor:
    """Return how much each token takes from each one before it, in each head of a layer (from 0) [H, T, T]."""
    attention: Any = model.blocks[layer].attention
    found: list[Tensor] = []
    # On the way, not afterwards: where weights are shared out, a block has them while it computes.
    with attention.register_forward_pre_hook(lambda module, given: found.append(module.weights(given[0], given[4])[0])):
        model(ids_T.unsqueeze(0))
    return found[0]


# The matrices that write to the residual stream.
WRITERS = "attention.out.weight", "feed_forward.down.weight"


@torch.no_grad()
def initialise(
    model: nn.Module, *, deviation: float, silent_branches: bool, seed: int, loaded: Collection[str] = ()
) -> None:
    """Fill every parameter: matrices and embeddings from N(0, deviation), biases with 0, gains with 1 (section 4.1).

    Those that are `loaded` next are left as they are: drawing takes longer than reading. With `silent_branches`, blocks
    begin by passing on what they are given. A tensor's values come from the seed and its own name, never from the order
    in which things are made: a network with another vocabulary, more layers or another kind of norm starts with the
    same values wherever names and sizes agree.
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
    return torch.randn(size, generator=generator, device="cpu").mul_(deviation)
