"""Augmentation against literal formulas in double precision, however a batch is cut; and runs that learn by it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpt1.base.errors import SettingError
from gpt1.finetuning.augmenting import Mixing, TextChanges, mixing
from gpt1.finetuning.batches import LM, R_DROP, PackedBatch, PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.objective import TaskLearning
from gpt1.model import Classifier, DropoutKey, dropout_key
from gpt1.model.dropout import Site, keep_mask
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example
from gpt1.text.synonyms import WordEdges
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.batches import share_of
from tests.finetuning.reference_data import CASES, NETWORK, SEVERAL, VOCABULARY, Case, Numbers, encoded, make_weights
from tests.finetuning.test_parity import SEED, STEP, classifier, gradients_of, masks_of
from tests.finetuning.tools import SETTINGS, Told, assert_same_run, encode, losses_of, make_task
from tests.reference import finetuning as reference

EVERY = CASES | SEVERAL
MIXED = {name: CASES[name] for name in ("single", "pair", "both")}
ALONE = WordEdges(np.ones(VOCABULARY, bool), np.ones(VOCABULARY, bool))  # each token is a word
KEY = (3, 8)

Tensors = dict[str, Tensor]


# ---- texts ----


def changed(text: Sequence[int], *, key: tuple[int, int] = KEY, place: int = 0, **given: Any) -> list[int]:
    return TextChanges(ALONE, **given).changed(np.array(text), key, place).tolist()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_span_deletion_leaves_one_stretch_out_and_the_rest_as_it_was(share: float) -> None:
    text, lost = list(range(20)), []
    for place in range(200):
        left = changed(text, place=place, span_deletion=share)
        missing = sorted(set(text) - set(left))
        assert missing == list(range(missing[0], missing[-1] + 1)) if missing else left == text
        assert left == [token for token in text if token not in missing]
        lost.append(len(missing))
    assert np.mean(lost) == pytest.approx(20 * share, abs=0.5)
    assert max(lost) - min(lost) <= 1


def test_a_stretch_stands_anywhere_and_something_is_left_of_the_shortest_text() -> None:
    begins = Counter(
        min({0, 1, 2, 3} - set(changed([0, 1, 2, 3], place=n, span_deletion=0.5)), default=-1) for n in range(300)
    )
    assert set(begins) == {0, 1, 2}
    assert changed([7], span_deletion=0.99) == [7]
    assert changed([], span_deletion=0.5) == []
    assert {len(changed([7, 8], place=n, span_deletion=0.99)) for n in range(50)} == {1}


def test_word_swaps_keep_all_words_and_move_about_two_for_each_swap() -> None:
    text, moved = list(range(20)), []
    for place in range(300):
        found = changed(text, place=place, word_swaps=0.05)  # once
        assert sorted(found) == text
        moved.append(sum(a != b for a, b in zip(found, text, strict=True)))
    assert set(moved) == {2}
    assert changed([4], word_swaps=0.9) == [4]
    assert sorted(changed([4, 5], word_swaps=0.9)) == [4, 5]
    often = [sum(a != b for a, b in zip(changed(text, place=n, word_swaps=0.5), text, strict=True)) for n in range(50)]
    assert 8 < np.mean(often) < 20


def test_words_of_several_tokens_move_and_go_as_one() -> None:
    begins = np.array([number % 2 == 0 for number in range(VOCABULARY)])
    edges = WordEdges(begins, np.zeros(VOCABULARY, bool))
    text = np.array([0, 1, 2, 4, 5, 6, 7, 7])  # 0 1 | 2 | 4 5 | 6 7 7
    words = {(0, 1), (2,), (4, 5), (6, 7, 7)}
    for place in range(40):
        swapped = TextChanges(edges, word_swaps=0.5).changed(text, KEY, place)
        shortened = TextChanges(edges, span_deletion=0.3).changed(text, KEY, place)
        for found in (swapped, shortened):
            pieces = {tuple(piece.tolist()) for piece in np.split(found, edges.starts(found)[1:])}
            assert pieces <= words
        assert len(swapped) == len(text)


def test_synonyms_replace_the_share_of_listed_words_and_no_others() -> None:
    listed = {(1,): ((11,), (12, 13)), (2,): ((14,),)}
    found = [changed([0, 1, 2, 3], place=n, synonyms=0.4, listed=listed) for n in range(2000)]
    assert all(one[0] == 0 and one[-1] == 3 for one in found)
    firsts = Counter(tuple(one[1:-2]) for one in found)
    assert set(firsts) == {(1,), (11,), (12, 13)}
    assert firsts[1,] / 2000 == pytest.approx(0.6, abs=0.04)
    assert firsts[11,] / 2000 == pytest.approx(0.2, abs=0.03)
    assert Counter(one[-2] for one in found)[14] / 2000 == pytest.approx(0.4, abs=0.04)
    assert changed([0, 1, 2, 3], synonyms=0.4, listed={}) == [0, 1, 2, 3]


def lesson_of(shape: str, count: int = 12, longest: int = 12) -> EncodedTask:
    draw, task = random.Random(shape), make_task("a", shape)
    rows = []
    for number in range(count):
        texts = [" ".join(str(draw.randrange(VOCABULARY)) for _ in range(draw.randint(2, longest)))] * task.texts
        texts = ["" if part == 1 and shape == "choices" else text for part, text in enumerate(texts)]
        rows.append(Example(tuple(texts), number % (task.choices or len(task.labels)), number))
    return encode_task(task, {"train": rows}, Numbers(), 64)


def batches_of(encoded_task: EncodedTask, *, batch: int = 12, seed: int = 0, **given: Any) -> TaskBatches:
    lessons = {encoded_task.task.name: make_lesson(encoded_task, class_weights=False)}
    packing = PackingOptions(encoded_task.vocab_size, encoded_task.context, **given)
    return TaskBatches(lessons, batch=batch, seed=seed, packing=packing)


def sequences_in(found: Any) -> list[list[int]]:
    return [found.arrays["ids"][a:b].tolist() for a, b in pairwise(found.arrays["offsets"].tolist())]


ALL_CHANGES = TextChanges(
    ALONE, span_deletion=0.2, word_swaps=0.2, synonyms=0.3, listed={(n,): ((n + 1, n + 2),) for n in range(8)}
)


@pytest.mark.parametrize("shape", ["single", "pair", "both", "choices"])
def test_texts_change_alike_however_a_batch_is_cut_and_otherwise_in_the_next_epoch(shape: str) -> None:
    task = lesson_of(shape)
    batch = batches_of(task, changes=ALL_CHANGES).batch(0)
    whole = sequences_in(batch.part(0, 12, 12))
    plain = [ids.tolist() for row in batch.examples for ids in batch.lesson.split.sequences(int(row))]
    assert whole != plain
    specials = [[token for token in ids if token >= VOCABULARY] for ids in whole]
    assert specials == [[token for token in ids if token >= VOCABULARY] for ids in plain]
    for micro in (1, 5):
        parts = [batch.part(first, min(micro, 12 - first), micro) for first in range(0, 12, micro)]
        assert [ids for part in parts for ids in sequences_in(part)][: len(whole)] == whole
    again = batches_of(task, changes=ALL_CHANGES)
    assert sequences_in(again.batch(0).part(0, 12, 12)) == whole
    later, other = again.batch(1), batches_of(task, changes=ALL_CHANGES, seed=1).batch(0)
    for one in (later, other):
        by_row = dict(zip(batch.examples.tolist(), whole[:: task.task.sequences], strict=True))
        now = dict(zip(one.examples.tolist(), sequences_in(one.part(0, 12, 12))[:: task.task.sequences], strict=True))
        assert sum(by_row[row] != now[row] for row in by_row) > 6


def test_both_orders_of_a_pair_change_alike() -> None:
    found = sequences_in(batches_of(lesson_of("both"), changes=ALL_CHANGES).batch(0).part(0, 12, 12))
    for one, other in zip(found[::2], found[1::2], strict=True):
        cut = one.index(VOCABULARY + 1)
        assert other == [VOCABULARY, *one[cut + 1 : -1], VOCABULARY + 1, *one[1:cut], VOCABULARY + 2]


def test_a_text_that_synonyms_would_make_too_long_keeps_its_words() -> None:
    task = encode_task(make_task("a"), {"train": [Example(("1 1 1 1",), 0, 0), Example(("2",), 1, 1)]}, Numbers(), 6)
    changes = TextChanges(ALONE, synonyms=0.999, listed={(1,): ((3, 3),), (2,): ((3, 3),)})
    found = sequences_in(batches_of(task, batch=2, changes=changes).batch(0).part(0, 2, 2))
    assert sorted(found) == [[VOCABULARY, 1, 1, 1, 1, VOCABULARY + 2], [VOCABULARY, 3, 3, VOCABULARY + 2]]


# ---- mix-up and R-Drop against the paper read literally ----


def ours(
    model: Classifier, batch: PackedBatch, *, size: int, micro: int, ranks: int = 1, r_drop: float = 0.0
) -> tuple[dict[str, float], Tensors]:
    """Return the terms' means and the gradients of their weighted sum, cut as the loop would."""
    objective = TaskLearning(model, lm_weight=0.5, tasks=batch.tasks, r_drop=r_drop)
    parameters = dict(model.named_parameters())
    means = dict.fromkeys(objective.weights, 0.0)
    gradients = {name: torch.zeros_like(x) for name, x in parameters.items()}
    for rank in range(ranks):
        for part in share_of(batch, size, micro, rank, ranks):
            tensors = {name: torch.from_numpy(array.copy()) for name, array in part.arrays.items()}
            noise = dropout_key(SEED, STEP, torch.from_numpy(part.sequences))
            sums = {name: x / batch.counts[name] for name, x in objective(tensors, noise, **part.facts).items()}
            loss = torch.stack([weight * sums[name] for name, weight in objective.weights.items()]).sum()
            for name, gradient in gradients_of(loss, parameters).items():
                gradients[name] += gradient
            for name in means:
                means[name] += float(sums[name].detach())
    return means, gradients


def literal_pass(weights: Tensors, case: Case, batch: PackedBatch, first: int) -> tuple[list[Tensor], Tensor]:
    """Return each example's logits and the mean loss of the language model; places of noise begin at `first`."""
    task, split = batch.lesson.task, batch.lesson.split
    examples = [[ids.tolist() for ids in split.sequences(int(row))] for row in batch.examples]
    length = max(len(ids) for sequences in examples for ids in sequences)
    count, each = sum(map(len, examples)), len(examples[0])
    noise = dropout_key(SEED, STEP, torch.arange(first * each, first * each + count))
    masks = masks_of(NETWORK, noise, len(examples), length, len(weights["body.tokens"]))
    heads = DropoutKey(noise.word, torch.arange(first, first + len(examples)))
    masks["head"] = keep_mask((NETWORK.width,), NETWORK.dropout, heads, Site.HEAD)
    found = reference.objective(
        weights,
        task.name,
        task.shape,
        NETWORK,
        examples,
        split.labels[batch.examples].tolist(),
        score_range=task.score_range,
        masks=masks,
        rate=NETWORK.dropout,
        head_rate=NETWORK.dropout,
    )
    return list(found.logits), found.lm


def literal_divergence(one: Tensor, other: Tensor, *, has_several: bool) -> Tensor:
    """Return (KL(p || q) + KL(q || p)) / 2, term by term; of several labels the mean over yes and no of each."""

    def kl(p: list[Tensor], q: list[Tensor]) -> Tensor:
        return torch.stack([a * torch.log(a / b) for a, b in zip(p, q, strict=True)]).sum()

    def distributions(logits: Tensor) -> list[list[Tensor]]:
        if has_several:
            return [[1 / (1 + torch.exp(-z)), 1 / (1 + torch.exp(z))] for z in logits]
        total = sum(torch.exp(z) for z in logits)
        return [[torch.exp(z) / total for z in logits]]

    both = [(kl(p, q) + kl(q, p)) / 2 for p, q in zip(distributions(one), distributions(other), strict=True)]
    return torch.stack(both).mean()


def own_loss(case: Case, logits: Tensor, label: Any) -> Tensor:
    if case.has_several:
        return reference.label_losses(logits, label).mean()
    return reference.task_loss(logits, label, case.score_range)


def assert_gradients(found: Tensors, wanted: Tensors) -> None:
    for name, gradient in wanted.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-11 + 1e-9 * scale, msg=name)


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_r_drop_is_two_passes_and_their_symmetric_divergence_however_a_batch_is_cut(case: Case) -> None:
    """(CE_1 + CE_2) / 2 + alpha (KL(p || q) + KL(q || p)) / 2, the language model's loss that of both on average."""
    alpha, model, task = 1.7, classifier([case]), encoded(case)
    batch = batches_of(task, batch=8, seed=SEED, passes=2, dtype=np.float64).batch(0)
    leaves = {name: x.clone().requires_grad_() for name, x in make_weights(case).items()}
    (first, lm_1), (second, lm_2) = (literal_pass(leaves, case, batch, n * len(batch)) for n in (0, 1))
    labels = batch.lesson.split.labels[batch.examples].tolist()
    losses = [
        (own_loss(case, one, label) + own_loss(case, two, label)) / 2
        for one, two, label in zip(first, second, labels, strict=True)
    ]
    apart = [literal_divergence(one, two, has_several=case.has_several) for one, two in zip(first, second, strict=True)]
    task_mean, apart_mean, lm = torch.stack(losses).mean(), torch.stack(apart).mean(), (lm_1 + lm_2) / 2
    assert float(apart_mean.detach()) > 1e-4
    wanted = gradients_of(task_mean + 0.5 * lm + alpha * apart_mean, leaves)
    for size, micro, ranks in ((len(batch), len(batch), 1), (8, 2, 1), (8, 3, 2)):
        means, gradients = ours(model, batch, size=size, micro=micro, ranks=ranks, r_drop=alpha)
        told = {case.name: task_mean, LM: lm, R_DROP: apart_mean}
        assert means == {name: pytest.approx(float(value.detach()), rel=1e-9) for name, value in told.items()}
        assert_gradients(gradients, wanted)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "class weights"])
@pytest.mark.parametrize("passes", [1, 2], ids=["one pass", "with R-Drop"])
@pytest.mark.parametrize("case", MIXED.values(), ids=MIXED)
def test_mix_up_mixes_vectors_at_extract_and_labels_however_a_batch_is_cut(
    case: Case, passes: int, weighted: bool
) -> None:
    """-(l w_i log p_i[y_i] + (1 - l) w_j log p_i[y_j]), p_i from l x_i + (1 - l) x_j, over the sum of these weights."""
    alpha, model, task = 0.9 * (passes - 1), classifier([case]), encoded(case)
    lesson = make_lesson(task, class_weights=weighted)
    packing = PackingOptions(task.vocab_size, task.context, mixup=0.6, passes=passes, dtype=np.float64)
    batch = TaskBatches({case.name: lesson}, batch=8, seed=SEED, packing=packing).batch(0)
    mixed = mixing(len(batch), 0.6, (SEED, 0))
    leaves = {name: x.clone().requires_grad_() for name, x in make_weights(case).items()}
    labels, own = batch.lesson.split.labels[batch.examples].tolist(), lesson.weights[batch.examples].tolist()
    each, lms = zip(*(literal_pass(leaves, case, batch, n * len(batch)) for n in range(passes)), strict=True)
    losses, weights, of_passes = [], [], []
    for i, (j, share) in enumerate(zip(mixed.partners.tolist(), mixed.shares.tolist(), strict=True)):
        both = [share * logits[i] + (1 - share) * logits[j] for logits in each]  # what is linear may come first
        of_passes.append(both)
        losses += [
            share * own[i] * reference.task_loss(z, labels[i], None) / passes
            + (1 - share) * own[j] * reference.task_loss(z, labels[j], None) / passes
            for z in both
        ]
        weights.append(share * own[i] + (1 - share) * own[j])
    task_mean, lm = torch.stack(losses).sum() / sum(weights), torch.stack(lms).mean()
    total = task_mean + 0.5 * lm
    told = {case.name: task_mean, LM: lm}
    if passes == 2:
        told[R_DROP] = torch.stack([literal_divergence(p, q, has_several=False) for p, q in of_passes]).mean()
        total = total + alpha * told[R_DROP]
    wanted = gradients_of(total, leaves)
    for size, micro, ranks in ((len(batch), len(batch), 1), (8, 2, 1), (8, 1, 1), (8, 3, 2)):
        means, gradients = ours(model, batch, size=size, micro=micro, ranks=ranks, r_drop=alpha)
        assert means == {name: pytest.approx(float(value.detach()), rel=1e-9) for name, value in told.items()}
        assert_gradients(gradients, wanted)


@pytest.mark.parametrize("case", [CASES["pair"], CASES["both"]], ids=["pair", "both"])
def test_rows_that_are_filled_up_give_the_same(case: Case) -> None:
    model, task, found = classifier([case]), encoded(case), {}
    for block in (1, 16):
        batch = batches_of(task, batch=8, seed=SEED, passes=2, mixup=0.6, block=block, dtype=np.float64).batch(0)
        found[block] = ours(model, batch, size=8, micro=3, r_drop=0.7)
    assert found[16][0] == pytest.approx(found[1][0], rel=1e-12)
    assert_gradients(found[16][1], found[1][1])


def test_texts_in_windows_are_read_twice_too_and_count_the_same_however_a_batch_is_cut() -> None:
    case = CASES["single"]
    long = [Example((" ".join(str(n % VOCABULARY) for n in range(9 * row + 3)),), row % 3, row) for row in range(5)]
    task = encode_task(encoded(case).task, {"train": long}, Numbers(), NETWORK.context, windows=True)
    assert task.splits["train"].windows is not None
    assert max(task.splits["train"].windows.tolist()) > 2
    batch = batches_of(task, batch=8, seed=SEED, passes=2, dtype=np.float64).batch(0)
    model = classifier([case])
    whole = ours(model, batch, size=5, micro=5, r_drop=1.3)
    assert whole[0][R_DROP] > 1e-4
    for micro, ranks in ((2, 1), (3, 2)):
        cut = ours(model, batch, size=8, micro=micro, ranks=ranks, r_drop=1.3)
        assert cut[0] == pytest.approx(whole[0], rel=1e-9)
        assert_gradients(cut[1], whole[1])


def test_examples_are_mixed_in_pairs_the_last_of_an_odd_number_with_the_one_before() -> None:
    assert mixing(5, 1.0, KEY).partners.tolist() == [1, 0, 3, 2, 3]
    assert mixing(4, 1.0, KEY).partners.tolist() == [1, 0, 3, 2]
    assert mixing(1, 1.0, KEY).partners.tolist() == [0]


@pytest.mark.parametrize("a", [0.2, 1.0, 4.0])
def test_the_shares_are_those_of_a_beta_distribution_and_others_each_time(a: float) -> None:
    shares = np.concatenate([mixing(50, a, (0, k)).shares for k in range(80)])
    assert shares.mean() == pytest.approx(0.5, abs=0.02)
    assert shares.var() == pytest.approx(1 / (4 * (2 * a + 1)), rel=0.06)  # of Beta(a, a)
    assert len(set(shares.tolist())) > 3900
    one, again = mixing(9, a, KEY), mixing(9, a, KEY)
    assert isinstance(one, Mixing)
    assert one.shares.tolist() == again.shares.tolist()
    assert mixing(5, a, KEY).shares.tolist() == one.shares.tolist()[:5]
    assert not math.isclose(one.shares[0], mixing(9, a, (4, 8)).shares[0])


# ---- runs ----


MOODS = make_task("moods")
WAYS = {
    "span deletion": ("finetuning.span_deletion=0.3",),
    "word swaps": ("finetuning.word_swaps=0.3",),
    "mix-up": ("finetuning.mixup=0.5",),
    "R-Drop": ("finetuning.r_drop=1",),
    "all of them": (
        "finetuning.word_dropout=0.1",
        "finetuning.span_deletion=0.2",
        "finetuning.word_swaps=0.2",
        "finetuning.synonyms=0.3",
        "finetuning.mixup=0.5",
        "finetuning.r_drop=1",
    ),
}


@pytest.fixture
def synonyms(tmp_path: Path) -> Path:
    path = tmp_path / "synonyms.tsv"
    path.write_text("Ann\tsomebody\nTom\tBrown\nlamp\told sailor\n")
    return path


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_stopped_goes_on_bit_for_bit_and_micro_batches_change_rounding_alone(
    way: str, trained: Path, words_tokenizer: Tokenizer, synonyms: Path, tmp_path: Path
) -> None:
    moods = encode(MOODS, words_tokenizer)
    given: dict[str, Any] = {"encoded": moods, "device": "cpu"}
    if "finetuning.synonyms=0.3" in WAYS[way]:
        given["synonyms"] = synonyms
    changes = [*SETTINGS, *WAYS[way]]
    finetune(trained, tmp_path / "whole", changes=changes, **given)
    finetune(trained, tmp_path / "plain", changes=SETTINGS, encoded=moods, device="cpu")
    whole = losses_of(tmp_path / "whole")
    assert whole.keys() == losses_of(tmp_path / "plain").keys()
    assert whole != losses_of(tmp_path / "plain")

    class Stop:
        def __call__(self, event: Any) -> None:
            if getattr(event, "step", 0) == 7:
                raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        finetune(trained, tmp_path / "halted", changes=changes, listeners=[Stop()], **given)
    finetune(trained, tmp_path / "halted", changes=changes, resume=True, **given)
    assert_same_run(tmp_path / "halted", tmp_path / "whole")
    finetune(trained, tmp_path / "micro", changes=[*changes, "training.micro_batch=3"], **given)
    micro = losses_of(tmp_path / "micro")
    assert {step: pytest.approx(loss, rel=1e-3) for step, loss in whole.items()} == micro


def test_another_list_of_synonyms_is_refused_when_a_run_goes_on(
    trained: Path, words_tokenizer: Tokenizer, synonyms: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": encode(MOODS, words_tokenizer), "device": "cpu"}
    changes = [*SETTINGS, "finetuning.synonyms=0.3", "training.epochs=1"]
    finetune(trained, tmp_path / "run", changes=changes, synonyms=synonyms, **given)
    moved = synonyms.rename(tmp_path / "moved.tsv")
    finetune(trained, tmp_path / "run", changes=changes, synonyms=moved, resume=True, **given)
    moved.write_text("Ann\tgirl\n")
    with pytest.raises(SettingError, match=r"with the synonyms of .*synonyms\.tsv, and those of .*moved\.tsv are oth"):
        finetune(trained, tmp_path / "run", changes=changes, synonyms=moved, resume=True, **given)
    with pytest.raises(SettingError, match="no list is named"):
        finetune(trained, tmp_path / "run", changes=changes, resume=True, **given)


SCORES = make_task("scores", score_range=(0.0, 5.0))
SEVERAL_LABELS = make_task("topics", labels_sep="|", metrics=("micro_f1",))


@pytest.mark.parametrize(
    ("task", "settings", "given", "said"),
    [
        (SCORES, ["finetuning.mixup=1"], {}, "mixes the labels of two examples, and scores has scores, not classes"),
        (make_task("ends", "choices"), ["finetuning.mixup=1"], {}, "and ends has choices, which are answered by"),
        (MOODS, ["finetuning.r_drop=1", "shape.dropout=0"], {}, "and shape.dropout is 0, so that they are the same"),
        (MOODS, ["finetuning.synonyms=0.1"], {}, "no list is named; name one, `synonyms=FILE`"),
        (MOODS, [], {"synonyms": True}, "finetuning.synonyms is 0, so that nothing would be replaced"),
        (MOODS, ["finetuning.span_deletion=1"], {}, "span_deletion is at least 0 and below 1, not 1.0"),
        (MOODS, ["finetuning.word_swaps=-0.1"], {}, "word_swaps is at least 0 and below 1, not -0.1"),
        (MOODS, ["finetuning.synonyms=2"], {}, "synonyms is at least 0 and below 1, not 2.0"),
        (MOODS, ["finetuning.mixup=-1"], {}, "mixup is at least 0, not -1.0"),
        (MOODS, ["finetuning.r_drop=-1"], {}, "r_drop is at least 0, not -1.0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence_before_a_folder_is_made(
    task: Any,
    settings: list[str],
    given: dict[str, Any],
    said: str,
    trained: Path,
    words_tokenizer: Tokenizer,
    synonyms: Path,
    tmp_path: Path,
) -> None:
    if given:
        given = {"synonyms": synonyms}
    with pytest.raises(SettingError, match=said):
        finetune(
            trained, tmp_path / "run", encoded=encode(task, words_tokenizer, context=16), changes=settings, **given
        )
    assert not (tmp_path / "run").exists()


def test_several_labels_a_row_are_not_mixed(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = [Example((f"Ann {n}",), ((), (0,), (0, 1))[n % 3], n) for n in range(12)]
    several = encode_task(SEVERAL_LABELS, {"train": rows}, words_tokenizer, 16)
    with pytest.raises(SettingError, match="and topics has several labels a row; leave it out"):
        finetune(trained, tmp_path / "run", encoded=several, changes=["finetuning.mixup=1"])


# ---- where it helps, by how it was planted ----


def test_span_deletion_helps_where_one_of_two_words_that_tell_the_label_is_missing_in_dev(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Each text to learn from ends with two telling words; in dev only the weaker one is left."""
    draw = random.Random(5)
    rows = []
    for number in range(160):
        label, filler = number % 2, " ".join(draw.choice(("the", "a", "old", "of")) for _ in range(3))
        strong, weak = ("lamp", "girl")[label], ("sailor", "cat")[draw.random() < 0.9 if label else draw.random() < 0.1]
        kept = f"{strong} {filler} {weak}" if number < 96 else f"{filler} {('sailor', 'cat')[label]}"
        rows.append(Example((kept,), label, number))
    task = encode_task(MOODS, {"train": rows[:96], "dev": rows[96:]}, words_tokenizer, 16)
    scores = {}
    for share in (0.0, 0.6):
        told, found = Told(), []
        for seed in range(3):
            changes = [*SETTINGS, "training.epochs=12", "shape.dropout=0", f"finetuning.span_deletion={share}"]
            run = tmp_path / f"{share} {seed}"
            finetune(
                trained, run, encoded=task, changes=[*changes, f"training.seed={seed}"], device="cpu", listeners=[told]
            )
            last = [event for event in told.events if hasattr(event, "scores")][-1]
            found.append(last.scores["dev_loss"])
        scores[share] = float(np.median(found))
    assert scores[0.6] < 0.75 * scores[0.0]
