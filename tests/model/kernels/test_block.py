"""A network of fused blocks against the plain one, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import SettingError
from gpt1.model import Model, build_model, linear_cross_entropy
from gpt1.model.dropout import DropoutKey
from gpt1.model.layers import adding_in_products
from gpt1.model.packing import Packing
from gpt1.recipes.values import Shape
from tests.model.kernels.tools import CAN_RUN, DEVICE, ON_GPU, WHY_NOT, noise_of, packed
from tests.model.tools import MODERN, SMALL_LSTM, gradients, relative_error
from tests.training.tools import TOY, Recorder, toy_trainer

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

SHAPE = Shape(layers=2, width=32, heads=2, feed_forward=48, context=13, dropout=0.2)
VOCAB = 23
DTYPE, ERROR = (torch.bfloat16, 5e-2) if ON_GPU else (torch.float32, 1e-4)


def loss_and_gradients(
    fused: bool, noise: DropoutKey | None, packing: Packing | None, shape: Shape = SHAPE, checkpointed: bool = False
) -> dict[str, torch.Tensor]:
    compute = DTYPE if fused else torch.float32
    model = build_model(shape, VOCAB, compute=compute, fused=fused, checkpoint_activations=checkpointed).to(DEVICE)
    shake(model)
    ids = torch.arange(22, device=DEVICE) % VOCAB
    torch.manual_seed(1)  # the library's masks, where all sequences are equally long on a GPU
    hidden, output = model(ids.view(2, 11) if packing is None else ids, noise, packing)
    weights = torch.linspace(0.5, 1.5, 22, device=DEVICE)
    loss = linear_cross_entropy(hidden.reshape(22, -1), output, ids.flip(0), weights, VOCAB)
    return {"loss": loss.detach(), **gradients(loss, dict(model.named_parameters()))}


def shake(model: Model) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator).to(DEVICE)


@pytest.mark.parametrize("packing", [None, packed(9, 2, 11)])
@pytest.mark.parametrize("noise", [None, noise_of(5, 3, 8)])
def test_loss_and_gradients_are_those_of_the_plain_network(noise: DropoutKey | None, packing: Packing | None) -> None:
    if ON_GPU and noise is not None and packing is not None:
        pytest.skip("there the plain network's attention drops by the library's masks")
    rows = noise if noise is None or packing is not None else noise._replace(rows=noise.rows[:2])
    assert relative_error(loss_and_gradients(True, rows, packing), loss_and_gradients(False, rows, packing)) < ERROR


def test_norms_of_another_kind_have_their_kernel_too() -> None:
    shape = replace(SHAPE, norm="rms")
    assert relative_error(*(loss_and_gradients(fused, None, None, shape) for fused in (True, False))) < ERROR


def test_activations_that_are_computed_twice_meet_the_same_masks() -> None:
    noise = noise_of(5, 3)
    once, twice = (loss_and_gradients(True, noise, None, checkpointed=again) for again in (False, True))
    assert relative_error(twice, once) < 1e-6


def test_both_ways_a_block_is_the_plain_one() -> None:
    ids, both = torch.arange(22, device=DEVICE) % VOCAB, []
    for fused in (True, False):
        model = build_model(SHAPE, VOCAB, compute=DTYPE if fused else torch.float32, fused=fused, bidirectional=True)
        shake(model.to(DEVICE))
        both += [model(ids, None, packed(9, 2, 11))[0], model(ids.view(2, 11))[0].flatten(0, 1)]
    assert relative_error({"y": both[0]}, {"y": both[2]}) < ERROR
    assert relative_error({"y": both[1]}, {"y": both[3]}) < ERROR


def test_a_micro_batch_has_the_masks_it_has_in_the_whole_batch() -> None:
    model = build_model(SHAPE, VOCAB, compute=DTYPE, fused=True).to(DEVICE)
    ids = torch.arange(33, device=DEVICE) % VOCAB
    with torch.no_grad():
        whole = model(ids, noise_of(5, 3, 8), packed(13, 9, 11))[0]
        part = model(ids[13:], noise_of(3, 8), packed(9, 11))[0]
    torch.testing.assert_close(whole[13:], part)


def test_a_training_has_the_losses_of_a_plain_one(tmp_path: Path) -> None:
    # On a GPU in 16 bits, where products add to the gradients themselves; attention drops by the same masks in both.
    steps, precision, batch = (20, "bf16", 8) if ON_GPU else (2, "fp32", 2)
    found = []
    for fused in (True, False):
        listener = Recorder()
        training = replace(TOY.training, steps=steps, precision=precision, batch=batch, fused=fused)
        recipe = replace(TOY, training=training, shape=replace(TOY.shape, layers=1, heads=1))
        run = tmp_path / str(fused)
        assert toy_trainer(run, recipe, listeners=[listener], device=torch.device(DEVICE)).train()
        found.append(list(listener.losses.values()))
    assert len(found[0]) == steps
    assert found[0] == pytest.approx(found[1], rel=1e-2 if ON_GPU else 1e-5)


def test_a_shape_without_kernels_is_refused() -> None:
    with pytest.raises(SettingError, match=r"blocks cannot be fused: .* \(norm_first\)"):
        build_model(MODERN, VOCAB, fused=True)
    with pytest.raises(SettingError, match="its heads are 8 wide"):
        build_model(replace(SHAPE, heads=4), VOCAB, fused=True)
    with pytest.raises(SettingError, match="an LSTM"):
        build_model(SMALL_LSTM, VOCAB, fused=True)


def test_gradients_are_added_to_those_that_are_there() -> None:
    wanted = {name: x for name, x in loss_and_gradients(True, noise_of(5, 3), None).items() if name != "loss"}
    model = build_model(SHAPE, VOCAB, compute=DTYPE, fused=True).to(DEVICE)
    shake(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    copies = {name: parameter.detach().to(DTYPE, copy=True) for name, parameter in model.named_parameters()}
    ids = torch.arange(22, device=DEVICE) % VOCAB
    torch.manual_seed(1)
    with adding_in_products(model, copies):
        hidden, output = model(ids.view(2, 11), noise_of(5, 3))
        weights = torch.linspace(0.5, 1.5, 22, device=DEVICE)
        linear_cross_entropy(hidden.reshape(22, -1), output, ids.flip(0), weights, VOCAB).backward()
    found = {name: parameter.grad - 1 for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert relative_error(found, wanted) < ERROR
