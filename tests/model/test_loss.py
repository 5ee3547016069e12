"""The loss that never holds all logits is the loss."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.model import linear_cross_entropy, linear_divergence, loss, token_losses
from tests.model.tools import relative_error

ROWS, WIDTH, VOCAB = 37, 12, 29


def inputs(dtype: torch.dtype = torch.float64, padding: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    output = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64)
    output = F.pad(output, (0, 0, 0, padding), value=1.5).to(dtype).requires_grad_()  # beyond it anything may stand
    targets = torch.randint(-3, VOCAB, (ROWS,), generator=generator)
    weights = torch.rand(ROWS, generator=generator, dtype=torch.float64)
    assert (targets < 0).any()
    return hidden, output, targets, weights


def plain(hidden: Tensor, output: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Compute the same by the library, all logits at once."""
    logits = hidden.double() @ output.double()[:VOCAB].T
    losses = F.cross_entropy(logits, targets.clamp(min=-1), ignore_index=-1, reduction="none")
    return (losses * weights).sum()


def gradients(value: Tensor, hidden: Tensor, output: Tensor) -> dict[str, Tensor]:
    return dict(zip(("hidden", "output"), torch.autograd.grad(value, (hidden, output)), strict=True))


@pytest.mark.parametrize("padding", [0, 7], ids=["no padding", "rows beyond the vocabulary"])
@pytest.mark.parametrize("rows", [1, 8, 32, 64])
def test_loss_and_gradients_are_exact_wherever_chunks_end(
    rows: int, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_LOGITS", rows * (VOCAB + padding))
    hidden, output, targets, weights = inputs(padding=padding)
    assert len(list(loss._chunks(hidden, output))) == -(-ROWS // rows)
    found = linear_cross_entropy(hidden, output, targets, weights, VOCAB)
    wanted = plain(hidden, output, targets, weights)
    assert found.dtype == torch.float64
    assert found.item() == pytest.approx(wanted.item(), rel=1e-12)
    found_gradients = gradients(3 * found, hidden, output)
    assert relative_error(found_gradients, gradients(3 * wanted, hidden, output)) < 1e-12
    assert not found_gradients["output"][VOCAB:].any()


def test_finite_differences_agree_with_the_gradients() -> None:
    hidden, output, targets, weights = inputs(padding=2)
    assert torch.autograd.gradcheck(lambda h, o: linear_cross_entropy(h, o, targets, weights, VOCAB), (hidden, output))


def test_the_inputs_are_left_as_they_were() -> None:
    given = inputs()
    copies = [x.detach().clone() for x in given]
    linear_cross_entropy(*given, VOCAB).backward()
    token_losses(*given[:3], VOCAB)
    assert all(torch.equal(x, copy) for x, copy in zip(given, copies, strict=True))


def test_only_the_gradient_that_is_asked_for_is_computed() -> None:
    hidden, output, targets, weights = inputs()
    both = gradients(linear_cross_entropy(hidden, output, targets, weights, VOCAB), hidden, output)
    alone = linear_cross_entropy(hidden, output.detach(), targets, weights, VOCAB)
    assert torch.equal(torch.autograd.grad(alone, hidden)[0], both["hidden"])
    alone = linear_cross_entropy(hidden.detach(), output, targets, weights, VOCAB)
    assert torch.equal(torch.autograd.grad(alone, output)[0], both["output"])


def test_without_gradient_the_loss_is_the_same_and_asks_for_none() -> None:
    hidden, output, targets, weights = inputs()
    wanted = linear_cross_entropy(hidden, output, targets, weights, VOCAB)
    with torch.no_grad():
        found = linear_cross_entropy(hidden, output, targets, weights, VOCAB)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert not found.requires_grad


@pytest.mark.parametrize("rows", [8, 64])
def test_token_losses_are_those_of_the_library_and_0_where_not_counted(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_LOGITS", rows * (VOCAB + 7))
    hidden, output, targets, _ = inputs(padding=7)
    found = token_losses(hidden, output, targets, VOCAB)
    logits = (hidden @ output[:VOCAB].T).detach()
    torch.testing.assert_close(found, F.cross_entropy(logits, targets.clamp(min=-1), ignore_index=-1, reduction="none"))
    assert (found[targets < 0] == 0).all()
    assert not found.requires_grad


def test_targets_may_be_of_32_bits() -> None:
    hidden, output, targets, weights = inputs()
    wide, narrow = (linear_cross_entropy(hidden, output, t, weights, VOCAB) for t in (targets, targets.int()))
    assert torch.equal(wide, narrow)


def test_a_batch_in_which_nothing_counts_has_loss_and_gradient_0() -> None:
    hidden, output, targets, weights = inputs()
    for t, w in ((torch.full_like(targets, -1), weights), (targets.clamp(min=0), torch.zeros_like(weights))):
        found = linear_cross_entropy(hidden, output, t, w, VOCAB)
        assert found.item() == 0
        assert not any(gradient.any() for gradient in gradients(found, hidden, output).values())


@pytest.mark.parametrize("large", [1e4, -1e4])
def test_huge_logits_overflow_nothing(large: float) -> None:
    hidden, output, targets, weights = inputs(torch.float32)
    hidden = (hidden * large).detach().requires_grad_()
    found = linear_cross_entropy(hidden, output, targets, weights, VOCAB)
    assert found.item() == pytest.approx(plain(hidden, output, targets, weights).item(), rel=1e-5)
    assert all(gradient.isfinite().all() for gradient in gradients(found, hidden, output).values())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [8, 64])
def test_sixteen_bits_sum_in_32_and_stay_near(dtype: torch.dtype, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "CPU_LOGITS", rows * (VOCAB + 7))
    hidden, output, targets, weights = inputs(dtype, padding=7)
    found = linear_cross_entropy(hidden, output, targets, weights.float(), VOCAB)
    assert found.dtype == torch.float32
    wanted = plain(hidden, output, targets, weights)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-2)
    found_gradients = gradients(found, hidden, output)
    assert {gradient.dtype for gradient in found_gradients.values()} == {dtype}
    assert relative_error(found_gradients, gradients(wanted, hidden, output)) < 2e-2


def test_light_weights_do_not_vanish_in_half_precision() -> None:
    # Weights of 1e-7 times probabilities of 1e-2 are nothing in fp16; scaled up before, they are what they should be.
    hidden, output, targets, weights = inputs(torch.float16)
    found = linear_cross_entropy(hidden, output, targets, 1e-7 * weights.float(), VOCAB)
    wanted = plain(hidden, output, targets, weights)
    scaled = gradients(found * 1e7, hidden, output)
    assert relative_error(scaled, gradients(wanted, hidden, output)) < 1e-2


def test_a_chunk_holds_about_the_logits_it_may() -> None:
    hidden, output = torch.empty(10_000, 1, device="meta"), torch.empty(8_000, 1, device="meta")
    sizes = [rows.stop - rows.start for rows in loss._chunks(hidden, output)]
    assert set(sizes) == {512}  # 2**22 / 8,000 = 524


def test_a_gpu_without_triton_is_announced_once_and_served_by_the_plain_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpt1.model.kernels.cross_entropy", None)
    loss._fused.cache_clear()
    with pytest.warns(UserWarning, match="Triton is not installed"):
        assert loss._fused() is loss.plain_cross_entropy_
    assert loss._fused() is loss.plain_cross_entropy_  # and no second warning, which would be an error here
    loss._fused.cache_clear()


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("padding", [0, 7], ids=["no padding", "rows beyond the vocabulary"])
def test_the_divergence_from_what_is_taught_and_its_gradients_are_the_librarys(
    padding: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_LOGITS", 8 * (VOCAB + padding))
    hidden, output, targets, _ = inputs(padding=padding)
    taught = torch.randn(ROWS, VOCAB, dtype=torch.float64).softmax(-1)
    taught[0], taught[0, 3] = 0, 1  # what is sure leaves the others no share at all
    found = linear_divergence(
        hidden, output, lambda rows: taught[rows], targets >= 0, temperature=temperature, vocab_size=VOCAB
    )
    own = (hidden @ output[:VOCAB].T / temperature).log_softmax(-1)
    wanted = temperature**2 * F.kl_div(own, taught, reduction="none").sum(-1)[targets >= 0].sum()
    assert found.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert relative_error(gradients(3 * found, hidden, output), gradients(3 * wanted, hidden, output)) < 1e-12


def test_who_says_what_is_taught_diverges_by_nothing_and_is_not_moved() -> None:
    hidden, output, targets, _ = inputs()
    same = (hidden.detach() @ output.detach().T / 2).softmax(-1)
    found = linear_divergence(hidden, output, lambda rows: same[rows], targets >= 0, temperature=2.0, vocab_size=VOCAB)
    assert found.item() == pytest.approx(0, abs=1e-12)
    assert all(gradient.abs().max() < 1e-12 for gradient in gradients(found, hidden, output).values())
