"""The recipes there are: the paper's own numbers, and what the others take from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import SettingError
from gpt1.recipes.catalog import FINETUNE, MODERN, PAPER, PAPER_LSTM, RECIPES, TINY, find_recipe, recipe, used_settings
from gpt1.recipes.changes import differences, settings
from gpt1.recipes.values import LSTM

# Section 4.1 of the paper, and its released code where the paper is silent.
OF_THE_PAPER = {
    "shape.kind": "transformer",
    "shape.layers": 12,
    "shape.width": 768,
    "shape.heads": 12,
    "shape.feed_forward": 3072,
    "shape.context": 512,
    "shape.norm": "layer",
    "shape.norm_first": False,
    "shape.positions": "learned",
    "shape.activation": "gelu",
    "shape.bias": True,
    "shape.tied": True,
    "shape.window": None,
    "shape.dropout": 0.1,
    "shape.init_std": 0.02,
    "optimizer.kind": "adam",
    "optimizer.lr": 2.5e-4,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.epsilon": 1e-8,
    "optimizer.weight_decay": 0.01,
    "optimizer.clip": 1.0,
    "schedule.kind": "cosine",
    "schedule.warmup_steps": 2000,
    "training.batch": 64,
    "training.epochs": 100,
    "training.precision": "bf16",
}


def test_the_recipe_paper_is_the_paper() -> None:
    found = settings(PAPER)
    assert {name: found[name] for name in OF_THE_PAPER} == OF_THE_PAPER


def test_the_modern_recipe_has_the_papers_layers_and_width_on_the_papers_batches() -> None:
    changed = differences(PAPER, MODERN)
    same = {"shape.layers", "shape.width", "shape.heads", "shape.feed_forward", "shape.context", "training.batch"}
    assert same & changed.keys() == set()
    assert not any(name.startswith("logging.") for name in changed)
    assert MODERN.training.epochs < PAPER.training.epochs


def test_the_tiny_recipe_has_the_papers_network_and_optimiser_in_small() -> None:
    changed = differences(PAPER, TINY)
    of_the_shape = {name for name in changed if name.startswith("shape.")}
    sizes = {"layers", "width", "heads", "feed_forward", "context", "dropout", "init_std"}
    assert of_the_shape <= {f"shape.{size}" for size in sizes}
    assert {name for name in changed if name.startswith("optimizer.")} <= {"optimizer.lr"}
    assert TINY.schedule.kind == PAPER.schedule.kind
    assert not TINY.training.compile


def test_the_lstm_differs_from_the_paper_in_its_blocks_alone() -> None:
    assert differences(PAPER, PAPER_LSTM) == {
        "shape.kind": ("transformer", LSTM),
        "shape.layers": (12, 1),
    }
    assert PAPER_LSTM.shape.units == 2048


def test_derived_recipes_share_what_they_do_not_change() -> None:
    assert MODERN.logging is PAPER.logging
    assert PAPER_LSTM.optimizer is PAPER.optimizer
    assert PAPER_LSTM.schedule is PAPER.schedule
    assert PAPER_LSTM.training is PAPER.training


def test_every_recipe_has_its_own_name_and_says_what_it_is() -> None:
    assert list(RECIPES) == ["paper", "modern", "small", "tiny", "lstm", "finetune", "auto", "lessons"]
    assert len({known.about for known in RECIPES.values()} - {""}) == len(RECIPES)


def test_a_recipe_is_found_by_name_and_a_typo_names_the_nearest() -> None:
    assert find_recipe("paper") is PAPER
    with pytest.raises(SettingError, match=r"unknown recipe 'papr'; did you mean 'paper'\? \(known: paper, modern"):
        find_recipe("papr")


def test_a_recipe_with_changes_is_asked_for_in_one_call() -> None:
    assert recipe("tiny") == TINY
    found = recipe("tiny", batch=8, **{"optimizer.lr": 1e-3})
    assert found == replace(TINY, training=replace(TINY.training, batch=8), optimizer=replace(TINY.optimizer, lr=1e-3))
    assert TINY.training.batch != 8
    assert recipe("tiny", lr="3e-4").optimizer.lr == 3e-4
    with pytest.raises(SettingError, match="did you mean 'batch'"):
        recipe("tiny", bacth=8)
    with pytest.raises(SettingError, match="width 100 does not split into"):
        recipe("paper", width=100)


def test_a_recipe_of_ones_own_lies_in_a_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes_of_mine.py").write_text(
        "from dataclasses import replace\n"
        "from gpt1.recipes.catalog import TINY\n"
        "NIGHTLY = replace(TINY, name='nightly')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert find_recipe("recipes_of_mine:NIGHTLY") == replace(TINY, name="nightly")
    assert recipe("recipes_of_mine:NIGHTLY", batch=3).training.batch == 3
    with pytest.raises(SettingError, match="has no 'NIGHTY'; did you mean 'NIGHTLY'"):
        find_recipe("recipes_of_mine:NIGHTY")


def test_no_setting_is_shown_that_a_recipe_does_not_use() -> None:
    paper, modern, lstm, finetune = map(used_settings, (PAPER, MODERN, PAPER_LSTM, FINETUNE))
    for name in ("shape.units", "optimizer.matrix_lr", "optimizer.momentum", "schedule.cooldown_share"):
        assert name not in paper
    assert {"optimizer.matrix_lr", "optimizer.momentum", "schedule.cooldown_share"} < modern.keys()
    assert "shape.units" in lstm
    assert not {"shape.heads", "shape.feed_forward", "shape.positions", "shape.layer_drop"} & lstm.keys()
    assert "shape.global_tokens" not in lstm
    assert not any(name.startswith("finetuning.") for name in (*paper, *modern, *lstm))
    assert [name for name in finetune if name.startswith("shape.")] == ["shape.dropout", "shape.layer_drop"]
    assert "finetuning.lm_weight" in finetune
    own = used_settings(replace(PAPER, name="mine"))  # which may be used for both
    assert {"finetuning.lm_weight", "shape.width"} < own.keys()
