"""What a fine-tuning takes over from a run, and what is new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gpt1.base.errors import FormatError, SettingError
from gpt1.finetuning import transfer
from gpt1.finetuning.transfer import make_classifier
from gpt1.inference.run import find_checkpoint
from gpt1.model import Classifier
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.values import Recipe
from gpt1.runs.checkpoints import save_checkpoint
from gpt1.runs.folder import read_run
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import make_pretrained, make_task
from tests.inference.tools import make_run

TASKS = {"moods": make_task()}
MODERN = (
    "shape.norm=rms",
    "shape.norm_first=true",
    "shape.positions=rotary",
    "shape.activation=relu2",
    "shape.qk_norm=true",
    "shape.bias=false",
    "shape.tied=false",
)
LSTM = ("shape.kind=lstm", "shape.layers=1", "shape.units=20")


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> dict[str, Path]:
    """Runs of every kind of network, none of them to be changed."""
    folder = tmp_path_factory.mktemp("parents")
    kinds = {"paper": ("shape.layers=3",), "modern": (*MODERN, "shape.layers=3"), "lstm": LSTM}
    return {name: make_pretrained(folder / name, words_tokenizer, *changes, seed=77) for name, changes in kinds.items()}


def recipe_for(init: Path, **finetuning: object) -> Recipe:
    recipe = find_recipe("finetune")
    return replace(
        recipe,
        shape=read_run(init).recipe.shape,
        training=replace(recipe.training, precision="fp32", seed=5),
        finetuning=replace(recipe.finetuning, **finetuning),  # type: ignore[arg-type]
    )


def build(init: Path, **finetuning: object) -> Classifier:
    return make_classifier(recipe_for(init, **finetuning), TASKS, read_run(init).vocab_size, init)


def fresh(init: Path) -> dict[str, Tensor]:
    return dict(build(init, scratch=True).body.named_parameters())


def taken(init: Path, **finetuning: object) -> tuple[set[str], set[str]]:
    """Return which tensors of the network are the parent's, and which are those a new one would have."""
    old, new = find_checkpoint(init, "best").model, fresh(init)
    same, own = set(), set()
    for name, parameter in build(init, **finetuning).body.named_parameters():
        head, rest = parameter[: len(old[name])], parameter[len(old[name]) :]
        if torch.equal(head, old[name]) and torch.equal(rest, new[name][len(old[name]) :]):
            same.add(name)
        if torch.equal(parameter, new[name]):
            own.add(name)
    return same, own


@pytest.mark.parametrize("kind", ["paper", "modern", "lstm"])
def test_all_weights_are_taken_and_the_special_tokens_are_new(parents: dict[str, Path], kind: str) -> None:
    same, _ = taken(parents[kind])
    assert same == set(find_checkpoint(parents[kind], "best").model)
    body = build(parents[kind]).body
    vocabulary = read_run(parents[kind]).vocab_size
    assert body.tokens[vocabulary:].shape[0] == 3
    assert len({tuple(row.tolist()) for row in body.tokens[vocabulary:]}) == 3


@pytest.mark.parametrize("kind", ["paper", "modern"])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_of_the_blocks_only_the_first_few_are_taken(parents: dict[str, Path], kind: str, layers: int) -> None:
    same, own = taken(parents[kind], transfer_layers=layers)
    names = set(find_checkpoint(parents[kind], "best").model)
    matrices = {name for name in names if name.endswith("weight") and "out.w" not in name and "down.w" not in name}
    for layer in range(3):
        inside = {name for name in matrices if name.startswith(f"blocks.{layer}.")}
        assert inside
        assert inside <= (same if layer < layers else own - same)
    tables = {"tokens", "output"} if kind == "modern" else {"tokens", "positions"}
    assert tables <= same  # the embeddings come along, as in figure 2 of the paper
    assert not tables & own


def test_as_many_layers_as_there_are_is_everything_and_more_are_refused(parents: dict[str, Path]) -> None:
    init = parents["modern"]
    assert taken(init, transfer_layers=3) == taken(init)
    with pytest.raises(SettingError, match=r"4 blocks cannot be taken from .*modern, which has 3"):
        build(init, transfer_layers=4)


def test_the_last_norm_belongs_to_the_last_block(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    init = make_pretrained(tmp_path / "run", words_tokenizer, *MODERN)
    checkpoint = find_checkpoint(init, "best")
    weights = {name: x + (name == "final_norm.gain") for name, x in checkpoint.model.items()}
    save_checkpoint(init, 9, weights, {}, {"cost": 0.1})
    assert build(init).body.final_norm.gain.unique().tolist() == [2.0]
    assert build(init, transfer_layers=1).body.final_norm.gain.unique().tolist() == [1.0]


@pytest.mark.parametrize("kind", ["paper", "modern", "lstm"])
def test_from_scratch_nothing_is_taken_but_the_shape(parents: dict[str, Path], kind: str) -> None:
    same, own = taken(parents[kind], scratch=True)
    assert own == set(find_checkpoint(parents[kind], "best").model)
    assert not {name for name in same if name.endswith("weight") and "out.w" not in name and "down.w" not in name}
    model = build(parents[kind], scratch=True)
    assert model.body.shape == read_run(parents[kind]).recipe.shape


@pytest.mark.parametrize("layers", [None, 1])
@pytest.mark.parametrize("kind", ["paper", "modern"])
def test_what_goes_straight_to_a_device_is_what_is_copied_on_the_host(
    parents: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str, layers: int | None
) -> None:
    copied = build(parents[kind], transfer_layers=layers).state_dict()
    monkeypatch.setattr(transfer, "HOST", torch.device("meta"))  # so that this machine passes for a device
    placed = build(parents[kind], transfer_layers=layers)
    assert all(parameter.requires_grad for parameter in placed.parameters())
    assert copied.keys() == placed.state_dict().keys()
    assert [name for name, tensor in placed.state_dict().items() if not torch.equal(tensor, copied[name])] == []


def test_of_a_run_with_several_checkpoints_the_best_is_taken(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    init = make_pretrained(tmp_path / "run", words_tokenizer)
    weights = find_checkpoint(init, "best").model
    save_checkpoint(init, 5, {name: x + 1 for name, x in weights.items()}, {}, {"cost": 0.1})
    save_checkpoint(init, 7, {name: x + 2 for name, x in weights.items()}, {}, {"cost": 0.9})
    assert torch.equal(build(init).body.positions, weights["positions"] + 1)


def test_a_fine_tuned_run_gives_its_special_tokens_along_but_no_head(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    init = make_run(tmp_path / "run", words_tokenizer, TASKS["moods"])
    model, weights = build(init), find_checkpoint(init, "best").model
    assert torch.equal(model.body.tokens, weights["body.tokens"])
    assert torch.equal(model.body.blocks[1].attention.qkv.weight, weights["body.blocks.1.attention.qkv.weight"])
    assert not torch.equal(model.heads["moods"].weight, weights["heads.moods.weight"])


def test_weights_do_not_depend_on_the_seed_but_what_is_new_does(parents: dict[str, Path]) -> None:
    init = parents["paper"]
    recipe = recipe_for(init)
    other = replace(recipe, training=replace(recipe.training, seed=6))
    one, two = (make_classifier(r, TASKS, read_run(init).vocab_size, init) for r in (recipe, other))
    vocabulary = read_run(init).vocab_size
    assert torch.equal(one.body.tokens[:vocabulary], two.body.tokens[:vocabulary])
    assert not torch.equal(one.body.tokens[vocabulary:], two.body.tokens[vocabulary:])
    assert not torch.equal(one.heads["moods"].weight, two.heads["moods"].weight)


def test_weights_of_another_shape_are_refused(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    init = make_pretrained(tmp_path / "run", words_tokenizer)
    weights = find_checkpoint(init, "best").model
    missing = {name: x for name, x in weights.items() if name != "blocks.1.norm_1.gain"}
    save_checkpoint(init, 9, missing, {}, {"cost": 0.1})
    with pytest.raises(FormatError, match=r"does not fit the network: 'blocks.1.norm_1.gain' is missing or of another"):
        build(init)
    save_checkpoint(init, 9, weights | {"positions": weights["positions"][:-1]}, {}, {"cost": 0.1})
    with pytest.raises(FormatError, match="'positions' is missing or of another shape"):
        build(init)


def test_a_table_of_a_larger_vocabulary_is_refused_too(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    init = make_pretrained(tmp_path / "run", words_tokenizer)
    weights = find_checkpoint(init, "best").model
    save_checkpoint(init, 9, weights | {"tokens": weights["tokens"].repeat(2, 1)}, {}, {"cost": 0.1})
    with pytest.raises(FormatError, match="'tokens' is missing or of another shape"):
        build(init)


def test_in_double_precision_everything_is_double(parents: dict[str, Path]) -> None:
    recipe = recipe_for(parents["paper"])
    recipe = replace(recipe, training=replace(recipe.training, precision="fp64"))
    model = make_classifier(recipe, TASKS, read_run(parents["paper"]).vocab_size, parents["paper"])
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
