"""The judge is judged: the literal fine-tuning loss against values made by hand, torch, and another implementation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.finetuning.reference_data import CASES, NETWORK, SPECIALS, VOCABULARY, Case, make_weights
from tests.reference import finetuning as reference
from tests.reference import transformer
from tests.reference.shapes import reference_layout

START, DELIMITER, EXTRACT = SPECIALS.values()
ALL = VOCABULARY + 3


def losses_of(case: Case, weights: dict[str, Tensor] | None = None, **given: Any) -> reference.Losses:
    given = {"score_range": case.score_range, **given}
    weights = make_weights(case) if weights is None else weights
    return reference.objective(weights, case.name, case.shape, NETWORK, case.examples, case.labels, **given)


def hidden_of(weights: dict[str, Tensor], sequence: list[int]) -> Tensor:
    """Return the last block's output for one sequence, by the reference of the network alone."""
    body = {name.removeprefix("body."): x for name, x in weights.items()}
    return transformer.forward(body, torch.tensor([sequence]), NETWORK)[0][0]


def masks_for(case: Case, seed: int = 0) -> dict[object, Tensor]:
    """Draw masks of every place."""
    generator = torch.Generator().manual_seed(seed)
    examples = case.examples
    sequences, length = sum(map(len, examples)), max(len(s) for e in examples for s in e)
    sizes: dict[object, tuple[int, ...]] = {
        "tokens": (ALL, NETWORK.width),
        "positions": (NETWORK.context, NETWORK.width),
        "head": (len(examples), NETWORK.width),
    }
    for layer in range(NETWORK.layers):
        sizes["attention", layer] = (sequences, NETWORK.heads, length, length)
        sizes["branch_1", layer] = sizes["branch_2", layer] = (sequences, length, NETWORK.width)
    return {place: torch.rand(size, generator=generator) >= 0.2 for place, size in sizes.items()}


# The arrays


def test_sequences_are_padded_behind_and_positions_are_rows_behind_the_tokens() -> None:
    ids, real = reference.padded([[[9, 5, 11], [9, 11]], [[9, 6, 7, 11], [9, 11]]], 12)
    assert ids[0, :, :, 0].tolist() == [[9, 5, 11, 0], [9, 11, 0, 0]]
    assert ids[1, :, :, 0].tolist() == [[9, 6, 7, 11], [9, 11, 0, 0]]
    assert real[0].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert (ids[..., 1] == torch.tensor([12, 13, 14, 15])).all()


def test_the_batches_of_the_tests_hold_what_makes_padding_and_cutting_matter() -> None:
    for case in CASES.values():
        lengths = [len(sequence) for sequences in case.examples for sequence in sequences]
        assert len(set(lengths)) > 1, case.name
        assert all(s[0] == START and s[-1] == EXTRACT for sequences in case.examples for s in sequences)
        assert len(set(case.labels)) > 1, case.name
    parts = {case.name: case.parts for case in CASES.values() if case.name != "story"}  # which never has a question
    assert any([] in example for batch in parts.values() for example in batch)
    laid_out = [reference_layout(case.shape, p, NETWORK.context) for case in CASES.values() for p in case.parts]
    assert any(removed for _, removed in laid_out)
    first, second = CASES["both"].examples[0]
    cut = first.index(DELIMITER)
    assert second == [START, *first[cut + 1 : -1], DELIMITER, *first[1:cut], EXTRACT]


# The network


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_logits_and_losses_are_those_of_each_sequence_alone_without_pads(case: Case) -> None:
    weights, found = make_weights(case), losses_of(case)
    weight, bias = weights[f"heads.{case.name}.weight"], weights[f"heads.{case.name}.bias"]
    lm, task = [], []
    for example, logits, label in zip(case.examples, found.logits, case.labels, strict=True):
        vectors = []
        for sequence in example:
            hidden = hidden_of(weights, sequence)
            vectors.append(hidden[-1])
            lm.append(F.cross_entropy(hidden[:-1] @ weights["body.tokens"].T, torch.tensor(sequence[1:])))
        if case.shape == "choices":
            wanted = torch.stack([vector @ weight[0] + bias[0] for vector in vectors])
        else:
            wanted = F.linear(sum(vectors, torch.zeros(NETWORK.width)), weight, bias)
        torch.testing.assert_close(logits, wanted, rtol=1e-12, atol=1e-12)
        target = torch.tensor(label) if case.score_range is None else reference.soft_bins(label, case.score_range)
        task.append(F.cross_entropy(wanted, target))
    assert float(found.lm) == pytest.approx(float(torch.stack(lm).mean()), rel=1e-12)
    assert float(found.task) == pytest.approx(float(torch.stack(task).mean()), rel=1e-12)
    assert float(found.total) == pytest.approx(float(found.task) + 0.5 * float(found.lm), rel=1e-12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_example_keeps_its_logits_whatever_it_is_padded_to(case: Case) -> None:
    weights, together = make_weights(case), losses_of(case).logits
    for example, label, logits in zip(case.examples, case.labels, together, strict=True):
        alone = reference.objective(
            weights, case.name, case.shape, NETWORK, [example], [label], score_range=case.score_range
        )
        torch.testing.assert_close(alone.logits[0], logits, rtol=1e-12, atol=1e-12)


def test_both_heads_are_those_of_transformers_with_the_same_weights() -> None:
    transformers = pytest.importorskip("transformers")
    case = CASES["story"]
    weights, found = make_weights(case), losses_of(case)
    theirs = transformers.OpenAIGPTDoubleHeadsModel(
        transformers.OpenAIGPTConfig(
            vocab_size=ALL,
            n_positions=NETWORK.context,
            n_embd=NETWORK.width,
            n_layer=NETWORK.layers,
            n_head=NETWORK.heads,
            afn="gelu",
            num_labels=1,
        )
    )
    theirs = theirs.double().eval()
    names = {"ln_1.": "norm_1.", "ln_2.": "norm_2.", "attn.c_attn": "attention.qkv", "attn.c_proj": "attention.out"}
    names |= {"mlp.c_fc": "feed_forward.up", "mlp.c_proj": "feed_forward.down", "transformer.h.": "body.blocks."}
    names |= {"multiple_choice_head.summary": "heads.story", "transformer.tokens_embed.weight": "body.tokens"}
    names |= {"transformer.positions_embed.weight": "body.positions", "lm_head.weight": "body.tokens"}
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            ours = name
            for their_part, our_part in names.items():
                ours = ours.replace(their_part, our_part)
            ours = ours.replace("norm_1.weight", "norm_1.gain").replace("norm_2.weight", "norm_2.gain")
            value = weights[ours]
            parameter.copy_(value.T if ".c_" in name and value.ndim == 2 else value)
    ids, real = reference.padded(case.examples, ALL)
    with torch.no_grad():
        answer = theirs(ids[..., 0], mc_token_ids=(real.sum(-1) - 1).long())
    torch.testing.assert_close(found.logits, answer.mc_logits, rtol=1e-10, atol=1e-10)
    targets = torch.where(real > 0, ids[..., 0], -100)[..., 1:]
    losses = F.cross_entropy(answer.logits[..., :-1, :].flatten(0, 2), targets.flatten(), reduction="none")
    means = losses.view(targets.shape).sum(-1) / (targets >= 0).sum(-1)
    assert float(found.lm) == pytest.approx(float(means.mean()), rel=1e-10)


# The language model's loss


def test_the_first_token_is_never_a_target_and_the_extract_token_is_one() -> None:
    hidden = torch.tensor([[2.0], [1.0], [7.0]], dtype=torch.float64)
    rows = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    ids, real = torch.tensor([2, 1, 0]), torch.ones(3, dtype=torch.float64)
    first = 2.0 - math.log(1 + math.exp(2) + math.exp(4))  # token 1 after position 0
    second = 0.0 - math.log(1 + math.exp(1) + math.exp(2))  # token 0, the last, after position 1
    assert float(reference.lm_loss(hidden, rows, ids, real)) == pytest.approx(-(first + second) / 2)
    real[2] = 0
    assert float(reference.lm_loss(hidden, rows, ids, real)) == pytest.approx(-first)


def test_a_network_that_knows_nothing_finds_every_token_equally_likely() -> None:
    case = CASES["pair"]
    weights = {name: torch.zeros_like(x) for name, x in make_weights(case).items()}
    found = losses_of(case, weights)
    assert float(found.lm) == pytest.approx(math.log(ALL))
    assert float(found.task) == pytest.approx(math.log(case.classes))
    longest = max(len(sequence) for sequences in case.examples for sequence in sequences)
    with_positions = losses_of(case, weights, position_rows=True)
    assert float(with_positions.lm) == pytest.approx(math.log(ALL + longest))
    assert float(with_positions.task) == float(found.task)


def test_a_sequence_counts_as_much_as_another_however_long_it_is() -> None:
    weights = make_weights(CASES["single"])
    short, long = [START, EXTRACT], [START, *range(11), EXTRACT]
    means = [
        float(reference.objective(weights, "single", "single", NETWORK, [[sequence]], [0]).lm)
        for sequence in (short, long)
    ]
    both = reference.objective(weights, "single", "single", NETWORK, [[short], [long]], [0, 0])
    assert float(both.lm) == pytest.approx(sum(means) / 2, rel=1e-12)


# The task's loss


def test_the_classes_of_an_example_share_one_softmax() -> None:
    logits = torch.tensor([0.0, math.log(3.0)], dtype=torch.float64)
    assert float(reference.task_loss(logits, 1, None)) == pytest.approx(-math.log(3 / 4))
    assert float(reference.task_loss(logits, 0, None)) == pytest.approx(-math.log(1 / 4))


def test_a_choice_has_one_score_and_both_orders_are_added_before_the_bias() -> None:
    vectors = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    one = {"heads.x.weight": torch.tensor([[1.0, -1.0]]).double(), "heads.x.bias": torch.tensor([0.5]).double()}
    assert reference.logits_of(vectors, one, "x", "choices").tolist() == [-0.5, -1.5]
    two = {"heads.x.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double(), "heads.x.bias": torch.ones(2).double()}
    assert reference.logits_of(vectors, two, "x", "both").tolist() == [5.0, 8.0]


def test_swapping_both_texts_leaves_the_logits_and_permuting_the_answers_permutes_the_scores() -> None:
    case, weights = CASES["both"], make_weights(CASES["both"])
    swapped = [sequences[::-1] for sequences in case.examples]
    other = reference.objective(weights, "both", "both", NETWORK, swapped, case.labels)
    torch.testing.assert_close(other.logits, losses_of(case).logits, rtol=1e-12, atol=1e-12)
    case, weights = CASES["choices"], make_weights(CASES["choices"])
    turned = [sequences[::-1] for sequences in case.examples]
    other = reference.objective(weights, "choices", "choices", NETWORK, turned, [3 - label for label in case.labels])
    torch.testing.assert_close(other.logits.flip(-1), losses_of(case).logits, rtol=1e-12, atol=1e-12)
    assert float(other.task) == pytest.approx(float(losses_of(case).task), rel=1e-12)


@pytest.mark.parametrize(
    ("score", "span", "bins"),
    [
        (3.4, (0.0, 5.0), {3: 0.6, 4: 0.4}),
        (2.0, (0.0, 5.0), {2: 1.0}),
        (0.0, (0.0, 5.0), {0: 1.0}),
        (5.0, (0.0, 5.0), {5: 1.0}),
        (4.75, (0.0, 5.0), {4: 0.25, 5: 0.75}),
        (1.0, (-1.0, 3.0), {2: 0.5, 3: 0.5}),
        (3.0, (-1.0, 3.0), {5: 1.0}),
        (10.0, (1.0, 10.0), {5: 1.0}),
    ],
)
def test_a_score_is_shared_by_the_bins_around_it(score: float, span: tuple[float, float], bins: dict) -> None:
    shares = reference.soft_bins(score, span)
    assert shares.tolist() == pytest.approx([bins.get(b, 0.0) for b in range(6)])
    # Logits that are the shares' logarithms predict the score itself.
    assert reference.expected_score(torch.log(shares + 1e-300), span) == pytest.approx(score)


def test_the_loss_of_a_score_is_that_of_its_neighbours_by_their_shares() -> None:
    logits = torch.log(torch.tensor([1.0, 2.0, 4.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    wanted = -(0.75 * math.log(2 / 10) + 0.25 * math.log(4 / 10))
    assert float(reference.task_loss(logits, 1.25, (0.0, 5.0))) == pytest.approx(wanted)


def test_class_weights_divide_by_their_own_sum() -> None:
    case = CASES["pair"]
    each = [float(reference.task_loss(logits, label, None)) for logits, label in _answers(case)]
    weights = [0.5, 1.0, 4.0]
    of_examples = [weights[int(label)] for label in case.labels]
    assert len(set(of_examples)) > 1
    wanted = sum(w * loss for w, loss in zip(of_examples, each, strict=True)) / sum(of_examples)
    found = losses_of(case, class_weights=weights)
    assert float(found.task) == pytest.approx(wanted, rel=1e-12)
    assert float(found.lm) == float(losses_of(case).lm)
    assert float(losses_of(case, class_weights=[2.0] * 3).task) == pytest.approx(sum(each) / len(each), rel=1e-12)


def _answers(case: Case) -> list[tuple[Tensor, float]]:
    return list(zip(losses_of(case).logits, case.labels, strict=True))


# Dropout


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_masks_that_keep_everything_change_nothing_at_rate_0(case: Case) -> None:
    masks = {place: torch.ones_like(mask) for place, mask in masks_for(case).items()}
    found, wanted = losses_of(case, masks=masks), losses_of(case)
    assert (float(found.total), found.logits.tolist()) == (float(wanted.total), wanted.logits.tolist())


@pytest.mark.parametrize("place", masks_for(CASES["choices"]), ids=str)
def test_every_mask_matters_and_only_where_it_stands(place: object) -> None:
    case = CASES["choices"]
    found = losses_of(case, masks={place: masks_for(case)[place]}, rate=0.2, head_rate=0.2)
    wanted = losses_of(case)
    assert float(found.task) != pytest.approx(float(wanted.task), rel=1e-6)
    assert (float(found.lm) == float(wanted.lm)) == (place == "head")


def test_the_answers_of_an_example_lose_the_same_features_before_the_head() -> None:
    case, weights = CASES["choices"], make_weights(CASES["choices"])
    mask = masks_for(case)["head"]
    found = losses_of(case, masks={"head": mask}, head_rate=0.2).logits
    for e, example in enumerate(case.examples):
        scores = [
            (hidden_of(weights, sequence)[-1] * mask[e] / 0.8) @ weights["heads.choices.weight"][0]
            + weights["heads.choices.bias"][0]
            for sequence in example
        ]
        torch.testing.assert_close(found[e], torch.stack(scores), rtol=1e-12, atol=1e-12)


def test_input_and_output_see_the_same_dropped_table() -> None:
    case, weights = CASES["single"], make_weights(CASES["single"])
    masks = {place: mask for place, mask in masks_for(case).items() if place in ("tokens", "positions")}
    dropped = dict(weights)
    for name in ("tokens", "positions"):
        dropped[f"body.{name}"] = weights[f"body.{name}"] * masks[name] / 0.8
    for position_rows in (False, True):
        found = losses_of(case, masks=masks, rate=0.2, position_rows=position_rows)
        wanted = losses_of(case, dropped, position_rows=position_rows)
        assert float(found.total) == pytest.approx(float(wanted.total), rel=1e-12)


# Gradients and schedule


def test_gradients_are_those_of_small_steps() -> None:
    case = CASES["scores"]
    weights, masks = make_weights(case), masks_for(case)
    leaves = {name: x.clone().requires_grad_() for name, x in weights.items()}
    total = losses_of(case, leaves, masks=masks, rate=0.2, head_rate=0.2).total
    gradients = torch.autograd.grad(total, list(leaves.values()))
    generator = torch.Generator().manual_seed(3)
    direction = {name: torch.randn(x.shape, generator=generator).double() for name, x in weights.items()}
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction.values(), strict=True))
    ends = []
    for step in (-1e-5, 1e-5):
        moved = {name: x + step * direction[name] for name, x in weights.items()}
        ends.append(float(losses_of(case, moved, masks=masks, rate=0.2, head_rate=0.2).total))
    assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(slope, rel=1e-6)


def test_the_schedule_rises_and_falls_at_once() -> None:
    assert reference.linear_factor(0.0, 0.002) == 0
    assert reference.linear_factor(0.001, 0.002) == pytest.approx(0.5 * 0.999)
    assert reference.linear_factor(0.002, 0.002) == pytest.approx(0.998)
    assert reference.linear_factor(0.5, 0.002) == 0.5
    assert reference.linear_factor(0.0, 0.0) == 1
    assert reference.linear_factor(1.0, 0.0) == 0
