"""`gpt1 prune`: a run in, one of fewer layers or narrower feed-forward parts out; a short training brings it back.

Attention heads are not removed: a network's shape has one width, and its heads share it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from gpt1.base.errors import SettingError
from gpt1.base.wording import many
from gpt1.bases.catalog import lasting_name
from gpt1.finetuning.measure import evaluate_run
from gpt1.finetuning.seeds import write_result
from gpt1.finetuning.thresholding import choose_factors, choose_thresholds
from gpt1.inference.run import BODY, Run, load_run
from gpt1.model import Model, build_model
from gpt1.pruning.choosing import Removal, remove_layers, strongest_units
from gpt1.pruning.held_out import HeldOutRows, Tell, find_held_out
from gpt1.recipes.values import TRANSFORMER, Shape
from gpt1.records.run import RecordedPruning, RunRecord
from gpt1.runs.checkpoints import require_new_run, write_run
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE


@dataclass(frozen=True)
class PrunedRun:
    """What was made, and what it lost."""

    run: Run
    removed: Sequence[Removal]
    pruning: RecordedPruning


def prune(
    run: str | Path,
    out: str | Path,
    *,
    layers: int | None = None,
    feed_forward: int | None = None,
    corpus: str | Path | None = None,
    table: str | Path | None = None,
    device: str | None = None,
    tell: Tell = lambda text: None,
) -> PrunedRun:
    """Make a run of `run` that has so many `layers`, or so many units in each feed-forward part, and return it.

    What goes is chosen by the loss on the `corpus`'s text for validation, or on the rows of a `table` of its task;
    without either on the run's own. Nothing is trained: `pretrain`, `finetune` and `distill` begin with it as `init`.
    """
    require_new_run(Path(out))  # before it is measured for minutes
    whole = load_run(run, device=device)
    own = whole.recipe.shape
    shape = pruned_shape(own, layers, feed_forward)
    held_out = find_held_out(whole, corpus, table, tell)
    before = held_out.loss(whole.model)
    tell(f"loss {before:.4f} with {_in_words(own)}, on {held_out.what}")
    removed = remove_layers(whole.model, held_out, shape.layers, lambda one: tell(_told(one)))
    kept = sorted(set(range(own.layers)) - {one.layer for one in removed})
    body, units = whole.model.with_layers(kept), None
    if shape.feed_forward < own.feed_forward:
        units = strongest_units(body, held_out, shape.feed_forward)
    weights = pruned_weights(whole.checkpoint.model, kept, units)
    after = held_out.loss(_network(body, shape, weights))
    tell(f"loss {after:.4f} with {_in_words(shape)}")
    pruning = RecordedPruning([layer + 1 for layer in kept], own.layers, own.feed_forward, before, after, held_out.what)
    write_run(Path(out), _record(whole, shape, pruning), whole.path / TOKENIZER_FILE, weights)
    made = load_run(out, device=device)
    if isinstance(held_out, HeldOutRows):
        _measure(made, held_out, table, tell)
    return PrunedRun(made, removed, pruning)


def pruned_shape(whole: Shape, layers: int | None, feed_forward: int | None) -> Shape:
    """Return the shape of a network without some of its parts; what is left of it is needed, and dropped no more."""
    if whole.kind != TRANSFORMER:
        raise SettingError("layers and units are removed from Transformers; an LSTM has one layer")
    if layers is None and feed_forward is None:
        raise SettingError("what is to be left? Say it with `layers`, `feed_forward`, or both")
    for name, wanted, there in (("layers", layers, whole.layers), ("feed_forward", feed_forward, whole.feed_forward)):
        if wanted is not None and not 1 <= wanted <= there:
            raise SettingError(f"`{name}` is {wanted}: the network has {there:,}, and at least 1 is left")
    shape = replace(whole, layers=layers or whole.layers, feed_forward=feed_forward or whole.feed_forward)
    if shape == whole:
        raise SettingError(f"the network has {_in_words(whole)} already: there is nothing to remove")
    return replace(shape, layer_drop=0.0)


def pruned_weights(
    weights: Mapping[str, Tensor], layers: Sequence[int], units: Sequence[Sequence[int]] | None
) -> dict[str, Tensor]:
    """Return a checkpoint's weights without those of other layers, and of other units of those that stay."""
    places = {str(layer): place for place, layer in enumerate(layers)}
    found = {}
    for name, weight in weights.items():
        before, blocks, inside = name.partition("blocks.")
        layer, _, part = inside.partition(".")
        if not blocks:
            found[name] = weight
        elif (place := places.get(layer)) is not None:
            own = weight if units is None else _of_units(part, weight, units[place])
            found[f"{before}blocks.{place}.{part}"] = own.contiguous()
    return found


def _of_units(part: str, weight: Tensor, units: Sequence[int]) -> Tensor:
    if part.startswith("feed_forward.up."):
        return weight[list(units)]
    return weight[:, list(units)] if part == "feed_forward.down.weight" else weight


def _network(whole: Model, shape: Shape, weights: Mapping[str, Tensor]) -> Model:
    """Return the network that is left, as it is used."""
    own = {name.removeprefix(BODY): weight for name, weight in weights.items()}
    model = build_model(
        *(shape, whole.vocab_size),
        compute=whole.compute,
        specials=whole.specials,
        bidirectional=whole.bidirectional,
        loaded=own,
    )
    model.load_state_dict({name: own[name] for name, _ in model.named_parameters()})
    return model.to(whole.tokens.device, whole.tokens.dtype).eval()


def _record(whole: Run, shape: Shape, pruning: RecordedPruning) -> RunRecord:
    """Return what the run will say of itself: it answers alone and as it comes, for what was decided is of others."""
    recipe = whole.recipe
    alone = replace(recipe.finetuning, ensemble=False, calibrate=False)
    recipe = replace(recipe, shape=shape, finetuning=alone)
    adapted = whole.record.adapted
    if adapted is not None:  # how well the whole network tells its domains apart
        adapted = replace(adapted, apart_before=None, apart=None)
    parent = lasting_name(whole.path)
    return replace(whole.record, recipe=recipe, parent=parent, pruned=pruning, taught=None, adapted=adapted)


def _measure(run: Run, held_out: HeldOutRows, table: str | Path | None, tell: Tell) -> None:
    """Choose from which probability on labels are given, measure the answers, and note that it is done."""
    factors = choose_factors(run, held_out.tasks)
    choose_thresholds(run, held_out.tasks, factors, lambda text: tell(text) if text else None)
    found = evaluate_run(run, table=table, notice=lambda text: None)  # of which all was told before
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for one in found:
        scores.setdefault(one.task, {})[one.split] = one.metrics
    write_result(run.path, scores)


def _told(removal: Removal) -> str:
    return f"loss {removal.loss:.4f} without layer {removal.layer + 1}"


def _in_words(shape: Shape) -> str:
    return f"{many(shape.layers, 'layer')} and {many(shape.feed_forward, 'unit')} in each feed-forward part"
