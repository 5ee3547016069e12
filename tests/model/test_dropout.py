"""Masks are pure functions of their place, and look random."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpt1.model.dropout import (
    DropoutKey,
    Place,
    Site,
    column_words,
    drop_layer,
    drop_table,
    dropout,
    dropout_key,
    keep_mask,
    kept,
    layer_site,
    row_words,
    table_mask,
    threshold,
    token_words,
)
from gpt1.model.packing import pack

RATE = 0.1


def noise(step: int = 1, rows: int = 8, seed: int = 0) -> DropoutKey:
    return dropout_key(seed, step, torch.arange(rows))


def correlation(a: Tensor, b: Tensor) -> float:
    """Return the correlation of two masks, in standard errors of independent ones."""
    a, b = a.double().flatten(), b.double().flatten()
    a, b = a - a.mean(), b - b.mean()
    return ((a * b).mean() / (a.std() * b.std()) * a.numel() ** 0.5).item()


@pytest.mark.parametrize("rate", [0.0001, 0.1, 0.5, 0.9])
def test_the_kept_share_is_that_of_the_rate(rate: float) -> None:
    mask = keep_mask((256, 768), rate, noise(), 3)
    spread = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert mask.double().mean().item() == pytest.approx(1 - rate, abs=4 * spread)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.1, 0.37, 0.999, 1 - 2**-40])
def test_the_threshold_is_within_a_millionth_of_the_rate_and_a_word_of_32_bits(rate: float) -> None:
    assert -(2**31) <= threshold(rate) < 2**31
    assert (threshold(rate) + 2**31) / 2**32 == pytest.approx(rate, abs=1e-9)


def test_the_hash_spreads_words_evenly_enough_for_that_millionth() -> None:
    # The last step of the hash multiplies 31 well-mixed bits: take every 128th of their values.
    words = torch.arange(0, 2**31, 2**7, dtype=torch.int64) * 0x2C1B3C6D
    words = (words + 2**31) % 2**32 - 2**31
    for rate in (0.1, 0.37, 0.9):
        assert (words >= threshold(rate)).double().mean().item() == pytest.approx(1 - rate, abs=1e-6)


def test_kept_values_are_scaled_and_others_are_zero() -> None:
    x = torch.randn(8, 16, 32, dtype=torch.float64)
    y, mask = dropout(x, RATE, noise(), 3), keep_mask((16, 32), RATE, noise(), 3)
    torch.testing.assert_close(y[mask], x[mask] / 0.9)
    assert not y[~mask].any()


def test_nothing_is_dropped_without_noise_or_at_rate_0() -> None:
    x = torch.randn(8, 4)
    for same in (dropout(x, RATE, None, 3), dropout(x, 0.0, noise(), 3), drop_table(x, RATE, None, 3)):
        assert same is x


def test_the_gradient_is_dropped_like_the_value() -> None:
    x = torch.randn(8, 5, 7, dtype=torch.float64, requires_grad=True)
    dropout(x, RATE, noise(), 3).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, keep_mask((5, 7), RATE, noise(), 3).double() / 0.9)


def test_a_sequence_keeps_its_mask_wherever_it_stands_in_a_micro_batch() -> None:
    whole = keep_mask((6, 50), RATE, noise(), 3)
    word = noise().word
    assert torch.equal(keep_mask((6, 50), RATE, DropoutKey(word, torch.tensor([5, 2])), 3), whole[[5, 2]])


def test_an_element_keeps_its_mask_whatever_the_sizes_around_it() -> None:
    small, large = (keep_mask((2, size, size), RATE, noise(), 3) for size in (20, 33))
    assert torch.equal(large[:, :, :20, :20], small)
    small, large = (table_mask(size, size, RATE, noise(), 3) for size in (20, 33))
    assert torch.equal(large[:20, :20], small)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_layer_is_dropped_for_its_share_of_the_sequences_each_layer_for_others(rate: float) -> None:
    many = noise(rows=20_000)
    x, y = torch.zeros(20_000, 1, 1), torch.ones(20_000, 1, 1)
    one, other = (drop_layer(y, x, rate, many, layer, None) for layer in (0, 1))
    assert one.mean().item() == pytest.approx(1 - rate, abs=0.01)
    assert abs(correlation(one, other)) < 4
    assert abs(correlation(one, drop_layer(y, x, rate, noise(2, 20_000), 0, None))) < 4
    assert torch.equal(drop_layer(y, x, 0.0, many, 0, None), drop_layer(y, x, rate, None, 0, None))


def test_a_sequence_loses_the_same_layers_in_a_packed_row_and_in_a_micro_batch() -> None:
    x, y = torch.randn(2, 8, 5, 3)
    whole = drop_layer(y, x, 0.5, noise(), 2, None)
    assert torch.equal(drop_layer(y[4:], x[4:], 0.5, DropoutKey(noise().word, torch.arange(4, 8)), 2, None), whole[4:])
    packing = pack(torch.full((8,), 5))
    packed = drop_layer(y.flatten(0, 1), x.flatten(0, 1), 0.5, noise(), 2, packing)
    assert torch.equal(packed, whole.flatten(0, 1))
    assert 0 < sum(torch.equal(whole[row], x[row]) for row in range(8)) < 8


def test_a_table_has_one_mask_for_all_micro_batches() -> None:
    word = noise().word
    masks = [table_mask(40, 30, RATE, DropoutKey(word, torch.tensor(rows)), 3) for rows in ([0], [4, 5], [7])]
    assert all(torch.equal(mask, masks[0]) for mask in masks)
    table = torch.ones(40, 30)
    torch.testing.assert_close(drop_table(table, RATE, noise(), 3), masks[0] / 0.9)


def test_sites_of_layers_and_tables_never_meet() -> None:
    sites = [*Site, *(layer_site(layer, place) for layer in range(48) for place in Place)]
    assert len(set(sites)) == len(sites)


def test_the_same_place_has_the_same_mask_and_another_place_another() -> None:
    mask = keep_mask((64, 64), RATE, noise(), 3)
    assert torch.equal(mask, keep_mask((64, 64), RATE, noise(), 3))
    for other in (
        keep_mask((64, 64), RATE, noise(step=2), 3),
        keep_mask((64, 64), RATE, noise(seed=1), 3),
        keep_mask((64, 64), RATE, noise(), 4),
        mask.roll(1, 0),  # sequences
        mask.roll(1, 1),  # rows
        mask.roll(1, 2),  # columns
        mask.roll((1, 1), (1, 2)),
    ):
        assert abs(correlation(mask, other)) < 4


def test_no_pair_of_rows_columns_sequences_steps_or_sites_is_correlated() -> None:
    def masks(lines: list[Tensor]) -> Tensor:
        x = torch.stack([line.flatten() for line in lines]).double() - (1 - RATE)
        return (x @ x.T / (RATE * (1 - RATE) * x.shape[1] ** 0.5)).fill_diagonal_(0)

    square = keep_mask((400, 400), RATE, noise(rows=10), 3)
    families = {
        "rows": list(square.transpose(0, 1)),
        "columns": list(square.permute(2, 0, 1)),
        "sequences": list(keep_mask((10, 400), RATE, noise(rows=400), 3)),
        "steps": [keep_mask((10, 50), RATE, noise(step), 3) for step in range(400)],
        "seeds": [keep_mask((10, 50), RATE, noise(seed=seed), 3) for seed in range(400)],
        "sites": [keep_mask((10, 50), RATE, noise(), site) for site in range(400)],
    }
    for name, lines in families.items():
        z = masks(lines)
        # Of 79,800 independent pairs the largest is expected near 4.4 standard errors, and all together at 1.
        assert z.abs().max().item() < 6.5, name
        assert z.square().sum().item() / (400 * 399) == pytest.approx(1, abs=0.05), name


def test_kept_elements_do_not_cluster() -> None:
    # The variance of sums over rows, columns and tiles is that of independent draws.
    mask = keep_mask((512, 512), RATE, noise(), 3).double() - (1 - RATE)
    tiles = mask.view(8, 64, 8, 64, 8).sum((2, 4))
    for sums, size in ((mask.sum(2), 512), (mask.sum(1), 512), (tiles, 64), (mask.sum((1, 2)), 512 * 512)):
        spread = sums.square().mean().item() / (size * RATE * (1 - RATE))
        assert spread == pytest.approx(1, abs=6 * (2 / sums.numel()) ** 0.5)


def test_words_of_rows_and_columns_are_as_different_as_random_ones() -> None:
    rows = row_words(noise(), 3, [64, 128]).flatten()
    columns = column_words(noise(), 3, 4096)
    words = torch.cat((rows, columns))
    assert len(words.unique()) > len(words) - 10  # by chance one pair in 2**32 is equal
    bits = (words.unsqueeze(-1) >> torch.arange(32)) & 1
    assert (bits.double().mean(0) - 0.5).abs().max().item() < 4.5 * 0.5 / len(words) ** 0.5


def test_masks_are_what_they_have_always_been() -> None:
    # A resumed run must see the masks it would have seen: a change of these figures breaks every old run.
    found = dropout_key(seed=3, step=1000, rows=torch.tensor([0, 63]))
    mask = keep_mask((2, 512), RATE, found, layer_site(11, Place.BRANCH_2))
    assert int(found.word) == -706388179
    assert [(~row).flatten().nonzero().flatten()[:6].tolist() for row in mask] == [
        [3, 23, 27, 32, 49, 56],
        [42, 43, 63, 64, 84, 110],
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_kernel_drops_what_the_masks_say_forwards_and_backwards(dtype: torch.dtype) -> None:
    packing = pack(torch.tensor([3, 1, 0, 70], device="cuda"), 70)
    there = dropout_key(0, 1, torch.tensor([5, -1, 2, 9], device="cuda"))
    x = torch.ones(74, 100, device="cuda", dtype=dtype, requires_grad=True)
    masks = {
        "row": kept(token_words(there, 3, packing), column_words(there, 3, 100), RATE),
        "table": table_mask(74, 100, RATE, there, 3),
    }
    found = {"row": dropout(x, RATE, there, 3, packing), "table": drop_table(x, RATE, there, 3)}
    for name, mask in masks.items():
        wanted = mask / (1 - RATE)
        torch.testing.assert_close(found[name], wanted.to(dtype))
        (gradient,) = torch.autograd.grad(found[name].float().sum(), x)
        torch.testing.assert_close(gradient, wanted.to(dtype))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_has_the_masks_of_a_cpu() -> None:
    there = dropout_key(0, 1, torch.arange(8, device="cuda"))
    assert torch.equal(keep_mask((64, 96), RATE, there, 3).cpu(), keep_mask((64, 96), RATE, noise(), 3))
    assert torch.equal(table_mask(64, 96, RATE, there, 3).cpu(), table_mask(64, 96, RATE, noise(), 3))
