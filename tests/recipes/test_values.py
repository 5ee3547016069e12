"""Values are checked whole when they are made, and the defaults are the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from gpt1.base.errors import SettingError
from gpt1.recipes.values import LSTM, Logging, Optimizer, Recipe, Schedule, Shape, Training


def test_the_default_shape_is_that_of_the_paper() -> None:
    shape = Shape()
    assert (shape.layers, shape.width, shape.heads, shape.feed_forward, shape.context) == (12, 768, 12, 3072, 512)
    assert (shape.norm, shape.positions, shape.activation) == ("layer", "learned", "gelu")
    assert (shape.norm_first, shape.qk_norm, shape.bias, shape.tied, shape.window) == (False, False, True, True, None)
    assert shape.global_tokens == 0
    assert (shape.dropout, shape.layer_drop, shape.init_std, shape.units) == (0.1, 0.0, 0.02, 2048)


def test_the_default_optimizer_is_that_of_the_released_code() -> None:
    optimizer = Optimizer()
    assert (optimizer.kind, optimizer.lr, optimizer.clip) == ("adam", 2.5e-4, 1.0)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay) == (0.9, 0.999, 1e-8, 0.01)


def test_the_default_training_is_the_papers_100_epochs_of_64_sequences() -> None:
    assert (Training().batch, Training().epochs, Training().steps) == (64, 100, None)
    assert (Schedule().kind, Schedule().warmup_steps) == ("cosine", 2000)


@pytest.mark.parametrize(
    ("schedule", "updates", "share"),
    [
        (Schedule(), 1_000_000, 0.002),  # 2,000 updates
        (Schedule(), 100_000, 0.02),
        (Schedule(), 4250, 0.02),  # no more than a fiftieth of a short run
        (Schedule(warmup_steps=0), 1000, 0.0),
        (Schedule(warmup_steps=None, warmup_share=0.3), 1000, 0.3),
        (Schedule(), 0, 0.02),
    ],
)
def test_the_warm_up_is_of_2000_updates_and_at_most_its_share(schedule: Schedule, updates: int, share: float) -> None:
    assert schedule.warmup(updates) == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shape(width=100, heads=12), "width 100 does not split into 12 heads; the paper has 768 and 12"),
        (lambda: Shape(layers=0), "layers, width, heads, feed_forward and units are at least 1"),
        (lambda: Shape(heads=0), "are at least 1"),
        (lambda: Shape(units=-1), "are at least 1"),
        (lambda: Shape(context=1), "the context is at least 2 tokens, not 1"),
        (lambda: Shape(width=36, heads=12, positions="rotary"), "rotary positions need an even width per head, not 3"),
        (lambda: Shape(dropout=1.0), "dropout is at least 0 and below 1, not 1.0"),
        (lambda: Shape(dropout=-0.1), "dropout is at least 0 and below 1"),
        (lambda: Shape(layer_drop=1.0), "layer_drop is at least 0 and below 1, not 1.0"),
        (lambda: Shape(kind=LSTM, layers=1, layer_drop=0.1), "layer_drop is for Transformers"),
        (lambda: Shape(init_std=0.0), "init_std is above 0"),
        (lambda: Shape(window=0), "a window holds at least 1 token, not 0"),
        (lambda: Shape(window=8, global_tokens=-1), "global_tokens is between 0 and the context of 512, not -1"),
        (lambda: Shape(window=8, global_tokens=513), "global_tokens is between 0 and the context of 512, not 513"),
        (lambda: Shape(global_tokens=1), "global_tokens=1 has no meaning without a window: set window"),
        (lambda: Shape(kind=LSTM, layers=1, window=8, global_tokens=1), "global_tokens is for Transformers"),
        (lambda: Shape(kind=LSTM), "an LSTM has one layer here, not 12"),
        (lambda: Optimizer(lr=0.0), "lr is above 0, not 0.0"),
        (lambda: Optimizer(matrix_lr=-1.0), "matrix_lr is above 0"),
        (lambda: Optimizer(beta2=1.0), "beta1, beta2 and momentum are at least 0 and below 1"),
        (lambda: Optimizer(momentum=-0.1), "beta1, beta2 and momentum are at least 0 and below 1"),
        (lambda: Optimizer(epsilon=1e-50), "epsilon is at least 1e-30, not 1e-50: fp32 has nothing smaller"),
        (lambda: Optimizer(weight_decay=-0.1), "weight_decay is at least 0"),
        (lambda: Optimizer(clip=0.0), r"clip is above 0 \(or none\), not 0.0"),
        (lambda: Schedule(warmup_steps=-1), "warmup_steps is at least 0, not -1"),
        (lambda: Schedule(warmup_share=1.5), "warmup_share is between 0 and 1, not 1.5"),
        (lambda: Schedule(cooldown_share=-0.5), "cooldown_share is between 0 and 1"),
        (lambda: Training(batch=0), "batch is between 1 and a million, not 0"),
        (lambda: Training(micro_batch=0), "micro_batch is at least 1, not 0"),
        (lambda: Training(epochs=0), "epochs is above 0 and at most 100,000, not 0"),
        (lambda: Training(steps=0), "steps is at least 1, not 0"),
        (lambda: Training(seed=2**31), "seed is between 0 and"),
        (lambda: Training(max_loss_spike=0.0), r"max_loss_spike is above 0 \(or none\)"),
        (lambda: Logging(save_every=0), "save_every is at least 1, not 0"),
        (lambda: Logging(keep=0), "keep is at least 1, not 0"),
        (lambda: Logging(keep_weights=0), "keep_weights is at least 1, not 0"),
        (lambda: Logging(evaluate_tokens=1), "evaluate_tokens is at least 2"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "near"),
    [
        (lambda: Shape(kind="transfromer"), "unknown kind of network 'transfromer'; did you mean 'transformer'?"),
        (lambda: Shape(norm="layr"), "unknown norm 'layr'; did you mean 'layer'?"),
        (lambda: Shape(positions="rotery"), "unknown kind of positions 'rotery'; did you mean 'rotary'?"),
        (lambda: Shape(activation="relu"), "unknown activation 'relu'; did you mean 'relu2'?"),
        (lambda: Optimizer(kind="adamv"), "unknown optimiser 'adamv'; did you mean 'adam"),
        (lambda: Schedule(kind="cosin"), "unknown schedule 'cosin'; did you mean 'cosine'?"),
        (lambda: Training(precision="fp23"), "unknown precision 'fp23'; did you mean 'fp32'?"),
        (lambda: Training(parallelism="fdsp"), "unknown parallelism 'fdsp'; did you mean 'fsdp'?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_there_are(make: Callable[[], object], near: str) -> None:
    with pytest.raises(SettingError) as refused:
        make()
    assert str(refused.value).startswith(near)
    assert "(known: " in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        Shape(width=12, heads=12, dropout=0.0, context=2, window=1),
        Shape(kind=LSTM, layers=1),
        Optimizer(clip=None, weight_decay=0.0, beta1=0.0),
        Schedule(warmup_steps=0, warmup_share=0.0, cooldown_share=1.0),
        Training(seed=2**31 - 1, max_loss_spike=None, steps=1, epochs=0.01),
        Logging(evaluate_tokens=2, sample_every=None, keep_every=None),
    ],
)
def test_values_at_the_edge_are_taken(value: Any) -> None:
    assert value == type(value)(**vars(value))


def test_weights_are_kept_at_the_beginning_and_each_time_the_updates_have_doubled() -> None:
    kept = Logging(keep_weights=25)
    assert [step for step in range(1000) if kept.keeps_weights(step)] == [0, 25, 50, 100, 200, 400, 800]
    assert not any(Logging().keeps_weights(step) for step in range(10))


def test_a_recipe_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        Recipe(name="mine").training.batch = 3  # type: ignore[misc]
