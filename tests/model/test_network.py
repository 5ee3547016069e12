"""The whole network against the literal formulas, against another implementation, and against itself."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gpt1.base.errors import InputError, SettingError
from gpt1.model import DropoutKey, build_model, linear_cross_entropy
from gpt1.model.dropout import Place, Site, drop_layer, keep_mask, layer_site, table_mask
from gpt1.recipes.catalog import MODERN as MODERN_RECIPE
from gpt1.recipes.catalog import PAPER as PAPER_RECIPE
from gpt1.recipes.values import Shape
from tests.model.tools import (
    MODERN,
    PAPER,
    SHAPES,
    SMALL_LSTM,
    VOCAB,
    batch,
    gradients,
    loss_and_gradients,
    noise_for,
    relative_error,
    shaken,
)
from tests.reference import transformer as reference

ALL_SHAPES = SHAPES | {"lstm": SMALL_LSTM}


def masks_of(shape: Shape, noise: DropoutKey, length: int) -> dict[object, Tensor]:
    """Write down what a network with this noise keeps, for the reference."""
    rate, width = shape.dropout, shape.width
    masks: dict[object, Tensor] = {
        "tokens": table_mask(VOCAB, width, rate, noise, Site.TOKENS),
        "output": table_mask(VOCAB, width, rate, noise, Site.OUTPUT),
        "positions": table_mask(shape.context, width, rate, noise, Site.POSITIONS),
    }
    for layer in range(shape.layers):
        for name, place, size in (
            ("attention", Place.INSIDE, (shape.heads, length, length)),
            ("branch_1", Place.BRANCH_1, (length, width)),
            ("branch_2", Place.BRANCH_2, (length, width)),
        ):
            masks[name, layer] = keep_mask(size, rate, noise, layer_site(layer, place))
    return masks


@pytest.mark.parametrize("shape", [PAPER, MODERN], ids=["paper", "modern"])
def test_with_layer_drop_a_sequence_is_read_by_the_layers_that_it_keeps(shape: Shape) -> None:
    shape = replace(shape, dropout=0.0, layer_drop=0.5, layers=3)
    model, ids = shaken(shape), torch.randint(0, VOCAB, (6, 5))
    noise = noise_for(6)
    read, _ = model(ids, noise)
    kept_by = set()
    for row in range(6):
        own = DropoutKey(noise.word, noise.rows[row : row + 1])
        ones, zeros = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
        kept = tuple(layer for layer in range(3) if drop_layer(ones, zeros, 0.5, own, layer, None).item())
        alone, _ = model.with_layers(kept)(ids[row : row + 1])
        torch.testing.assert_close(read[row : row + 1], alone)
        kept_by.add(kept)
    assert len(kept_by) > 1


def test_a_network_of_some_layers_shares_its_weights_and_leaves_the_whole_as_it_was() -> None:
    model = shaken(MODERN)
    some = model.with_layers([1])
    assert (some.shape.layers, model.shape.layers) == (1, MODERN.layers)
    assert some.tokens is model.tokens
    assert some.blocks[0].attention.qkv.weight is model.blocks[1].attention.qkv.weight


def test_the_paper_has_116_534_784_parameters() -> None:
    with torch.device("meta"):
        model = build_model(PAPER_RECIPE.shape, 40_478)
    assert sum(parameter.numel() for parameter in model.parameters()) == 116_534_784


def test_the_modern_recipe_has_147_128_064_parameters_since_its_output_matrix_is_its_own() -> None:
    with torch.device("meta"):
        model = build_model(MODERN_RECIPE.shape, 40_478)
    assert sum(parameter.numel() for parameter in model.parameters()) == 147_128_064


def test_parameters_have_the_names_that_files_know() -> None:
    block = ["attention.qkv", "attention.out", "feed_forward.up", "feed_forward.down"]
    paper = {f"blocks.{i}.{name}.{kind}" for i in range(2) for name in block for kind in ("weight", "bias")}
    paper |= {f"blocks.{i}.norm_{n}.{kind}" for i in range(2) for n in (1, 2) for kind in ("gain", "bias")}
    assert set(shaken(PAPER).state_dict()) == paper | {"tokens", "positions"}
    modern = {name for name in paper if not name.endswith("bias")}
    assert set(shaken(MODERN).state_dict()) == modern | {"tokens", "output", "final_norm.gain"}
    lstm = {"input.weight", "input.bias", "recurrent.weight", "out.weight", "out.bias"}
    assert set(shaken(SMALL_LSTM).state_dict()) == {"tokens"} | {f"blocks.0.{name}" for name in lstm}


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_outputs_loss_and_gradients_are_those_of_the_formulas(shape: Shape, dropping: bool) -> None:
    model, (ids, targets, weights) = shaken(shape), batch()
    noise = noise_for(len(ids), first=4) if dropping else None
    masks = masks_of(shape, noise, ids.shape[1]) if noise else None

    parameters = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    hidden, output = reference.forward(parameters, ids, shape, masks, shape.dropout)
    loss = reference.loss(hidden, output, targets, weights)

    found_hidden, found_output = model(ids, noise)
    assert relative_error({"h": found_hidden, "o": found_output}, {"h": hidden, "o": output}) < 1e-10
    found_loss, found_gradients = loss_and_gradients(model, noise)
    assert found_loss.item() == pytest.approx(loss.item(), rel=1e-10)
    assert relative_error(found_gradients, gradients(loss, parameters)) < 1e-10


def test_a_tied_network_looks_tokens_up_in_the_table_it_ends_with() -> None:
    model = shaken(replace(PAPER, layers=1))
    ids = torch.arange(VOCAB).view(-1, 1)
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    _, output = model(ids, noise_for(VOCAB))
    position = model.working(model.positions, Site.POSITIONS, noise_for(VOCAB))[0]
    assert torch.equal(seen[0][:, 0], output + position)
    assert (output == 0).double().mean().item() == pytest.approx(0.2, abs=0.06)


@pytest.mark.parametrize("copying", ["from ours to theirs", "from theirs to ours"])
def test_logits_are_those_of_transformers_with_the_same_weights(copying: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.OpenAIGPTConfig(vocab_size=VOCAB, n_positions=11, n_embd=24, n_layer=2, n_head=3, afn="gelu")
    theirs = transformers.OpenAIGPTLMHeadModel(config).double().eval()
    ours = shaken(replace(PAPER, feed_forward=4 * PAPER.width))
    names = {"tokens": "tokens_embed.weight", "positions": "positions_embed.weight"}
    parts = {"attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj"}
    parts |= {"feed_forward.up": "mlp.c_fc", "feed_forward.down": "mlp.c_proj", "norm_1": "ln_1", "norm_2": "ln_2"}
    for i in range(2):
        for our, their in parts.items():
            kinds = {"gain": "weight"} if our.startswith("norm") else {"weight": "weight"}
            for our_kind, their_kind in (kinds | {"bias": "bias"}).items():
                names[f"blocks.{i}.{our}.{our_kind}"] = f"h.{i}.{their}.{their_kind}"
    with torch.no_grad():
        theirs_by_name = dict(theirs.transformer.named_parameters())
        assert set(names.values()) == set(theirs_by_name)
        for our, parameter in ours.named_parameters():
            other = theirs_by_name[names[our]]
            other = other.T if our.startswith("blocks") and our.endswith("weight") else other  # they store in x out
            if copying == "from ours to theirs":
                other.copy_(parameter)
            else:
                parameter.copy_(other)
        ids, _, _ = batch()
        hidden, output = ours(ids)
        found, wanted = hidden @ output.T, theirs(ids).logits
    assert ((found - wanted).abs().max() / wanted.abs().max()).item() < 1e-12


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_a_token_changes_nothing_before_it_and_something_from_there_on(shape: Shape, dropping: bool) -> None:
    model, (ids, _, _) = shaken(shape), batch()
    noise = noise_for(len(ids)) if dropping else None
    changed = ids.clone()
    changed[:, 6] = (ids[:, 6] + 1) % VOCAB
    (before, _), (after, _) = model(ids, noise), model(changed, noise)
    assert torch.equal(before[:, :6], after[:, :6])
    assert (before[:, 6] != after[:, 6]).any(-1).all()
    reach = 10 if shape.window is None else 6 + shape.layers * (shape.window - 1)
    assert torch.equal(before[:, reach + 1 :], after[:, reach + 1 :])
    assert (before[:, min(reach, 9)] != after[:, min(reach, 9)]).any()


@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_cutting_a_batch_changes_neither_losses_nor_gradients_even_with_dropout(shape: Shape) -> None:
    model, (ids, targets, weights) = shaken(shape), batch()
    _, whole = loss_and_gradients(model, noise_for(3))
    parts = []
    for i in range(3):
        hidden, output = model(ids[i : i + 1], noise_for(1, first=i))
        parts.append(linear_cross_entropy(hidden[0], output, targets[i], weights[i], VOCAB))
    assert relative_error(gradients(sum(parts), dict(model.named_parameters())), whole) < 1e-12


@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_padding_at_the_end_changes_nothing_before_it_even_with_dropout(shape: Shape) -> None:
    model, (ids, _, _) = shaken(shape), batch()
    padded = torch.cat((ids, torch.zeros(3, 1, dtype=ids.dtype)), dim=1)
    short, long = model(ids, noise_for(3))[0], model(padded, noise_for(3))[0][:, :-1]
    assert relative_error({"h": long}, {"h": short}) < 1e-12


@pytest.mark.parametrize("shape", [PAPER, replace(MODERN, window=4), SMALL_LSTM], ids=["paper", "modern", "lstm"])
def test_checkpointing_activations_leaves_the_gradients_as_they_are(shape: Shape) -> None:
    loss, wanted = loss_and_gradients(shaken(shape), noise_for(3))
    passes = []
    model = shaken(shape, checkpoint_activations=True)
    model.blocks[0].register_forward_pre_hook(lambda *_: passes.append(1))
    found_loss, found = loss_and_gradients(model, noise_for(3))
    assert torch.equal(found_loss, loss)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert len(passes) == 2  # once more for the gradient


@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_sixteen_bits_stay_near_full_precision(shape: Shape) -> None:
    full = shaken(shape, dtype=torch.float32)
    half = build_model(shape, VOCAB, compute=torch.bfloat16)
    half.load_state_dict(full.state_dict())
    assert {parameter.dtype for parameter in half.parameters()} == {torch.float32}
    assert {x.dtype for x in half(batch()[0])} == {torch.bfloat16}
    (loss, wanted), (found_loss, found) = (loss_and_gradients(model, noise_for(3)) for model in (full, half))
    assert found_loss.dtype == torch.float32
    assert found_loss.item() == pytest.approx(loss.item(), rel=0.02)
    assert {gradient.dtype for gradient in found.values()} == {torch.float32}
    flat = [torch.cat([x.flatten() for x in gradient.values()]) for gradient in (found, wanted)]
    assert relative_error({"all": flat[0]}, {"all": flat[1]}) < 0.1


@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_single_precision_is_that_of_the_arithmetic(shape: Shape) -> None:
    full = shaken(shape)
    single = build_model(shape, VOCAB)
    single.load_state_dict(full.state_dict())
    wanted, found = full(batch()[0])[0], single(batch()[0])[0]
    assert relative_error({"h": found.double()}, {"h": wanted}) < 1e-5


def test_a_sequence_longer_than_the_context_is_refused_and_an_lstm_takes_any() -> None:
    ids, _, _ = batch(length=12)
    for shape in (PAPER, MODERN):
        with pytest.raises(InputError, match="12 tokens does not fit in a context of 11"):
            shaken(shape)(ids)
    assert shaken(SMALL_LSTM)(ids)[0].shape == (3, 12, 24)


def test_every_recipe_shape_can_be_built_and_run_on_the_meta_device() -> None:
    with torch.device("meta"):
        for recipe in (PAPER_RECIPE, MODERN_RECIPE):
            model = build_model(recipe.shape, 40_478, compute=torch.bfloat16)
            hidden, output = model(torch.zeros(2, 512, dtype=torch.int64))
            assert hidden.shape == (2, 512, 768)
            assert output.shape == (40_478, 768)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler's own
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")
@pytest.mark.parametrize(
    "shape",
    [PAPER, replace(MODERN, window=4), replace(PAPER, window=3, global_tokens=1)],
    ids=["paper", "modern with a window", "paper with global tokens"],
)
def test_a_compiled_network_is_the_network_and_compiled_once(shape: Shape) -> None:
    model, (ids, _, _) = shaken(shape, dtype=torch.float32), batch()
    compiled = torch.compile(model, fullgraph=True)
    for step in (1, 2):
        with torch.compiler.set_stance("default" if step == 1 else "fail_on_recompile"):
            found, wanted = (network(ids, noise_for(3, step=step))[0] for network in (compiled, model))
        assert relative_error({"h": found}, {"h": wanted}) < 1e-5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_a_gpu_gives_what_a_cpu_gives_and_fills_the_table_up(shape: Shape) -> None:
    shape = replace(shape, dropout=0.0)
    cpu = shaken(shape, dtype=torch.float32)
    gpu = build_model(shape, VOCAB).cuda()
    gpu.load_state_dict(cpu.state_dict())
    ids, targets, weights = (x.cuda() for x in batch())
    hidden, output = gpu(ids)
    assert output.shape[0] == 128
    assert not output[VOCAB:].any()
    found = linear_cross_entropy(hidden.flatten(0, 1), output, targets.flatten(), weights.flatten(), VOCAB)
    loss, wanted = loss_and_gradients(cpu)
    assert found.item() == pytest.approx(loss.item(), rel=1e-3)
    moved = {name: gradient.cpu() for name, gradient in gradients(found, dict(gpu.named_parameters())).items()}
    assert relative_error(moved, wanted) < 1e-2


WIDE = replace(PAPER, width=120, feed_forward=240)


@pytest.mark.parametrize("shape", [WIDE, replace(SMALL_LSTM, width=120, units=100)], ids=["transformer", "lstm"])
def test_matrices_are_normal_biases_zero_and_gains_one(shape: Shape) -> None:
    model = build_model(shape, 400)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        if name.endswith("gain"):
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            spread = 0.02 / parameter.numel() ** 0.5
            assert parameter.mean().item() == pytest.approx(0, abs=5 * spread), name
            assert parameter.std().item() == pytest.approx(0.02, abs=5 * spread), name
            assert 3 * 0.02 < parameter.abs().max().item() < 6 * 0.02, name


def test_the_deviation_is_the_shape_s() -> None:
    model = build_model(replace(WIDE, init_std=0.5), 400)
    assert model.tokens.std().item() == pytest.approx(0.5, rel=0.02)


def test_blocks_that_normalise_first_begin_by_passing_on_what_they_are_given() -> None:
    model = build_model(MODERN, 50)
    for block in model.blocks:
        assert not block.attention.out.weight.any()
        assert not block.feed_forward.down.weight.any()
        assert block.attention.qkv.weight.all()
    x = torch.randn(2, 5, MODERN.width)
    assert torch.equal(model.blocks[0](x, None), x)


def test_a_value_depends_on_seed_and_name_and_not_on_what_was_made_before() -> None:
    torch.manual_seed(1)
    one = build_model(PAPER, 50, seed=3).state_dict()
    torch.manual_seed(2)
    deeper = build_model(replace(PAPER, layers=3, norm="rms"), 60, seed=3).state_dict()
    same = [name for name in one if name in deeper and one[name].shape == deeper[name].shape]
    assert "blocks.1.feed_forward.down.weight" in same
    assert all(torch.equal(one[name], deeper[name]) for name in same)
    other = build_model(PAPER, 50, seed=4).state_dict()
    assert not torch.equal(one["tokens"], other["tokens"])
    values = [one[name] for name in one if name.endswith(("qkv.weight", "up.weight"))]
    assert len({float(value.flatten()[0]) for value in values}) == len(values)


def test_building_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    build_model(PAPER, 50)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_start_where_they_have_always_started() -> None:
    tokens = build_model(PAPER, 50, seed=0).tokens
    assert tokens[0, :3].tolist() == pytest.approx([0.00222024, -0.00141606, 0.00318080], abs=1e-8)


def test_fused_blocks_are_refused_where_their_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)  # as Python marks what cannot be imported
    with pytest.raises(SettingError, match="blocks cannot be fused: the package triton is not installed"):
        build_model(PAPER, VOCAB, fused=True)
