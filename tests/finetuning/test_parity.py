"""Fine-tuning in double precision against the paper read literally, and packed rows against padded ones."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.finetuning.batches import LM, PackedBatch, PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.transfer import make_classifier
from gpt1.inference.classification import head_shapes, probabilities
from gpt1.model import Classifier, DropoutKey, build_classifier, build_model, dropout_key
from gpt1.model.dropout import Place, Site, keep_mask, layer_site, table_mask
from gpt1.recipes.values import Logging, Optimizer, Recipe, Schedule, Shape, Training
from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint
from gpt1.runs.events import Event, Stepped
from gpt1.runs.folder import read_run
from gpt1.tasks.answers import predictions
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.readers import read_folder
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import import_tokenizer
from gpt1.training.batches import share_of
from gpt1.training.distributed import World
from gpt1.training.trainer import Trainer, TrainerConfig
from tests.conftest import make_text
from tests.finetuning.reference_data import CASES, NETWORK, SEVERAL, VOCABULARY, Case, Numbers, encoded, make_weights
from tests.finetuning.tools import make_task
from tests.model.tools import MODERN, SMALL_LSTM, relative_error, shaken
from tests.reference import adam
from tests.reference import finetuning as reference

SEED, STEP = 9, 4  # of the noise
CONTEXT = NETWORK.context
EVERY = CASES | SEVERAL

Tensors = dict[str, Tensor]


def task_batches(
    tasks: Iterable[EncodedTask], batch: int, *, class_weights: bool = False, block: int = 1
) -> TaskBatches:
    found = {task.task.name: task for task in tasks}
    lessons = {name: make_lesson(task, class_weights=class_weights) for name, task in found.items()}
    ((vocab_size, context),) = {(task.vocab_size, task.context) for task in found.values()}
    packing = PackingOptions(vocab_size, context, block=block, dtype=np.float64)
    return TaskBatches(lessons, batch=batch, seed=SEED, packing=packing)


def classifier(cases: Sequence[Case], dropout: float = NETWORK.dropout) -> Classifier:
    """Return a network in double precision with the weights that the reference is given, a head for each batch."""
    shape = replace(NETWORK, dropout=dropout)
    body = build_model(shape, VOCABULARY + len(SPECIALS), compute=torch.float64)
    tasks = {case.name: encoded(case).task for case in cases}
    model = build_classifier(body, head_shapes(tasks), seed=0).double()
    model.load_state_dict({name: x for case in cases for name, x in make_weights(case).items()})
    return model


def masks_of(shape: Shape, noise: DropoutKey, examples: int, length: int, vocabulary: int) -> dict[object, Tensor]:
    """Write down what a network with this noise keeps, for the reference."""
    rate, width = shape.dropout, shape.width
    masks: dict[object, Tensor] = {
        "tokens": table_mask(vocabulary, width, rate, noise, Site.TOKENS),
        "positions": table_mask(shape.context, width, rate, noise, Site.POSITIONS),
        "head": keep_mask((width,), rate, DropoutKey(noise.word, torch.arange(examples)), Site.HEAD),
    }
    for layer in range(shape.layers):
        for name, place, size in (
            ("attention", Place.INSIDE, (shape.heads, length, length)),
            ("branch_1", Place.BRANCH_1, (length, width)),
            ("branch_2", Place.BRANCH_2, (length, width)),
        ):
            masks[name, layer] = keep_mask(size, rate, noise, layer_site(layer, place))
    return masks


def literal(
    weights: Tensors, batch: PackedBatch, shape: Shape, key: tuple[int, int] | None, **given: Any
) -> reference.Losses:
    """Return the reference's losses of a batch; `key` is the seed and step of what is dropped, None for nothing."""
    task, split = batch.lesson.task, batch.lesson.split
    examples = [[ids.tolist() for ids in split.sequences(int(example))] for example in batch.examples]
    if key is not None:
        length = max(len(ids) for sequences in examples for ids in sequences)
        noise = dropout_key(*key, torch.arange(sum(map(len, examples))))
        masks = masks_of(shape, noise, len(examples), length, len(weights["body.tokens"]))
        given |= {"masks": masks, "rate": shape.dropout, "head_rate": shape.dropout}
    labels = split.labels[batch.examples].tolist()
    return reference.objective(
        weights, task.name, task.shape, shape, examples, labels, score_range=task.score_range, **given
    )


def leaves_of(weights: Tensors) -> Tensors:
    return {name: x.detach().clone().requires_grad_() for name, x in weights.items()}


def gradients_of(loss: Tensor, leaves: Tensors) -> Tensors:
    """Return the gradient of every weight; of one that takes no part, such as another task's head, it is 0."""
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), found, strict=True)}


def ours(
    model: Classifier,
    batch: PackedBatch,
    key: tuple[int, int] | None,
    *,
    size: int | None = None,
    micro: int | None = None,
    lm_weight: float = 0.5,
) -> tuple[dict[str, float], Tensors]:
    """Return the means of the terms (and their weighted sum, `total`) and the gradients, cut as the loop would."""
    objective = TaskLearning(model, lm_weight=lm_weight, tasks=batch.tasks)
    parameters = dict(model.named_parameters())
    means = dict.fromkeys(objective.weights, 0.0)
    gradients = {name: torch.zeros_like(x) for name, x in parameters.items()}
    size = size or len(batch)
    for part in share_of(batch, size, micro or size, 0, 1):
        tensors = {name: torch.from_numpy(array.copy()) for name, array in part.arrays.items()}
        noise = None if key is None else dropout_key(*key, torch.from_numpy(part.sequences))
        sums = {name: x / batch.counts[name] for name, x in objective(tensors, noise, **part.facts).items()}
        loss = torch.stack([weight * sums[name] for name, weight in objective.weights.items()]).sum()
        for name, gradient in gradients_of(loss, parameters).items():
            gradients[name] += gradient
        for name in means:
            means[name] += float(sums[name].detach())
    return means | {"total": sum(objective.weights[name] * mean for name, mean in means.items())}, gradients


# Against the formulas


@pytest.mark.parametrize("key", [None, (SEED, STEP)], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_loss_and_gradients_are_those_of_the_formulas(case: Case, key: tuple[int, int] | None) -> None:
    model, leaves = classifier([case]), leaves_of(make_weights(case))
    batch = task_batches([encoded(case)], len(case.labels)).batch(0)
    assert sorted(batch.examples.tolist()) == list(range(len(case.labels)))
    laid_out = [[ids.tolist() for ids in batch.lesson.split.sequences(e)] for e in range(len(case.labels))]
    assert laid_out == case.examples

    wanted = literal(leaves, batch, NETWORK, key)
    found, gradients = ours(model, batch, key)
    assert found[case.name] == pytest.approx(float(wanted.task.detach()), rel=1e-12)
    assert found[LM] == pytest.approx(float(wanted.lm.detach()), rel=1e-12)
    assert found["total"] == pytest.approx(float(wanted.total.detach()), rel=1e-12)
    assert relative_error(gradients, gradients_of(wanted.total, leaves)) < 1e-10


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_probabilities_and_predictions_are_those_of_the_formulas(case: Case) -> None:
    task = encoded(case)
    split = task.splits["train"]
    batch = task_batches([task], len(case.labels)).batch(0)
    found = probabilities(classifier([case]), case.name, split)
    logits = literal(make_weights(case), batch, NETWORK, None).logits
    wanted = (torch.sigmoid(logits) if case.has_several else torch.exp(reference.log_softmax(logits))).numpy()
    np.testing.assert_allclose(found[batch.examples], wanted, atol=1e-6)  # logits are in single precision on the way
    if case.has_several:
        assert predictions(task.task, found)[batch.examples].tolist() == (wanted >= 0.5).astype(int).tolist()
        return
    if case.score_range is None:
        answers: Sequence[float] = wanted.argmax(-1).tolist()
    else:
        answers = [reference.expected_score(row, case.score_range) for row in logits]
    assert predictions(task.task, found)[batch.examples].tolist() == pytest.approx(answers, rel=1e-6)


def test_without_the_language_model_the_loss_is_the_tasks() -> None:
    case = CASES["pair"]
    leaves = leaves_of(make_weights(case))
    batch = task_batches([encoded(case)], len(case.labels)).batch(0)
    wanted = literal(leaves, batch, NETWORK, (SEED, STEP)).task
    found, gradients = ours(classifier([case]), batch, (SEED, STEP), lm_weight=0.0)
    assert found == pytest.approx({"pair": float(wanted.detach()), "total": float(wanted.detach())}, rel=1e-12)
    assert relative_error(gradients, gradients_of(wanted, leaves)) < 1e-10


def test_the_language_model_learns_nothing_from_texts_that_nobody_wrote() -> None:
    case = CASES["both"]
    task = encoded(case)
    made_up = replace(task, task=replace(task.task, auxiliary_lm=False))
    leaves = leaves_of(make_weights(case))
    batch = task_batches([made_up], len(case.labels)).batch(0)
    wanted = literal(leaves, batch, NETWORK, (SEED, STEP)).task
    found, gradients = ours(classifier([case]), batch, (SEED, STEP), micro=2)
    assert found == pytest.approx({"both": float(wanted.detach()), LM: 0.0, "total": float(wanted.detach())}, rel=1e-12)
    assert relative_error(gradients, gradients_of(wanted, leaves)) < 1e-10


@pytest.mark.parametrize("micro", [None, 2], ids=["whole", "in micro-batches"])
@pytest.mark.parametrize("name", SEVERAL)
def test_with_class_weights_yes_and_no_of_each_of_several_labels_count_the_same(name: str, micro: int | None) -> None:
    case = SEVERAL[name]
    leaves, rows = leaves_of(make_weights(case)), len(case.labels)
    batch = task_batches([encoded(case)], rows, class_weights=True).batch(0)
    yes = [sum(label in given for given in case.labels) for label in range(case.classes)]
    weights = [(rows / (2 * (rows - count)), rows / (2 * count)) for count in yes]
    wanted = literal(leaves, batch, NETWORK, (SEED, STEP), class_weights=weights)
    found, gradients = ours(classifier([case]), batch, (SEED, STEP), micro=micro)
    assert found[name] == pytest.approx(float(wanted.task.detach()), rel=1e-12)
    assert relative_error(gradients, gradients_of(wanted.total, leaves)) < 1e-10


@pytest.mark.parametrize("name", ["pair", "both"])
def test_class_weights_count_every_class_the_same(name: str) -> None:
    case = CASES[name]
    leaves = leaves_of(make_weights(case))
    batch = task_batches([encoded(case)], len(case.labels), class_weights=True).batch(0)
    weights = [len(case.labels) / (case.classes * case.labels.count(label)) for label in range(case.classes)]
    assert len(set(weights)) > 1
    wanted = literal(leaves, batch, NETWORK, (SEED, STEP), class_weights=weights)
    found, gradients = ours(classifier([case]), batch, (SEED, STEP), micro=2)
    assert found["total"] == pytest.approx(float(wanted.total.detach()), rel=1e-12)
    assert relative_error(gradients, gradients_of(wanted.total, leaves)) < 1e-10


@pytest.mark.parametrize("key", [None, (SEED, STEP)], ids=["without dropout", "with dropout"])
def test_a_batch_of_real_stories_has_the_loss_of_the_formulas(data: Path, key: tuple[int, int] | None) -> None:
    task = CATALOGUE["storycloze"]
    tokenizer = import_tokenizer(data / "openai" / "encoder_bpe_40000.json", data / "openai" / "vocab_40000.bpe")
    stories = read_folder(task, data / "tasks" / "storycloze").splits["train"][:3]
    stories = encode_task(task, {"train": stories}, tokenizer, context=96)
    shape = replace(NETWORK, context=96, layers=1)
    body = shaken(shape, vocab_size=tokenizer.vocab_size + len(SPECIALS))
    model = build_classifier(body, head_shapes({task.name: task}), seed=0).double()
    leaves = leaves_of(dict(model.named_parameters()))
    batch = task_batches([stories], 3).batch(0)
    wanted = literal(leaves, batch, shape, key)
    found, gradients = ours(model, batch, key)
    assert found["total"] == pytest.approx(float(wanted.total.detach()), rel=1e-10)
    assert relative_error(gradients, gradients_of(wanted.total, leaves)) < 1e-10


# What the released code's one table does to the loss


def test_position_rows_in_the_softmax_would_move_the_loss_of_a_small_vocabulary_much() -> None:
    case = CASES["story"]
    batch, weights = task_batches([encoded(case)], len(case.labels)).batch(0), make_weights(case)
    plain, with_rows = (literal(weights, batch, NETWORK, None, position_rows=rows) for rows in (False, True))
    found, _ = ours(classifier([case]), batch, None)
    assert found["total"] == pytest.approx(float(plain.total), rel=1e-12)
    moved = float(with_rows.total) - found["total"]
    longest = max(len(sequence) for sequences in case.examples for sequence in sequences)
    print(f"{longest} position rows beside {VOCABULARY + 3} tokens move the loss {found['total']:.4f} by {moved:.4f}")
    assert float(with_rows.task) == float(plain.task)
    assert 0 < moved < 0.5


def test_position_rows_in_the_softmax_would_move_the_loss_of_the_papers_vocabulary_little() -> None:
    vocabulary, case = 40_478, CASES["story"]
    body = build_model(NETWORK, vocabulary + len(SPECIALS))
    weights = {name: x for name, x in make_weights(case).items() if name.startswith("heads.")}
    weights |= {f"body.{name}": x.detach().double() for name, x in body.named_parameters()}
    examples = [
        [[token % VOCABULARY + vocabulary * (token >= VOCABULARY) for token in ids] for ids in e] for e in case.examples
    ]
    plain, with_rows = (
        reference.objective(weights, "story", "choices", NETWORK, examples, case.labels, position_rows=rows)
        for rows in (False, True)
    )
    moved = float(with_rows.total - plain.total)
    longest = max(len(sequence) for sequences in examples for sequence in sequences)
    print(
        f"{longest} position rows beside {vocabulary + 3} tokens move the loss {float(plain.total):.6f} by {moved:.6f}"
    )
    # An untrained network finds all rows about equally likely.
    assert moved == pytest.approx(0.5 * math.log1p(longest / (vocabulary + 3)), rel=0.05)


# However a batch is cut


@pytest.mark.parametrize("key", [None, (SEED, STEP)], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_micro_batches_and_filling_change_nothing_but_rounding(case: Case, key: tuple[int, int] | None) -> None:
    model, task = classifier([case]), encoded(case)
    count = len(case.labels)
    wanted, wanted_gradients = ours(model, task_batches([task], count).batch(0), key)
    for micro, size, block in ((1, count, 1), (2, count, 1), (3, count + 4, 1), (None, count, 8), (2, count + 2, 8)):
        found, gradients = ours(model, task_batches([task], count, block=block).batch(0), key, size=size, micro=micro)
        assert found == pytest.approx(wanted, rel=1e-12), (micro, size, block)
        assert relative_error(gradients, wanted_gradients) < 1e-10, (micro, size, block)


WINDOWS = {"single": [5, 40, 13, 24, 2], "pair": [3, 30, 14, 9, 22], "both": [3, 30, 14, 9, 22]}  # ids of an example


def in_windows(shape: str) -> EncodedTask:
    """Return five examples, some of which are read in several windows."""
    draw = random.Random(shape)
    task, rows = make_task("long", shape), []
    for number, length in enumerate(WINDOWS[shape]):
        texts = [" ".join(str(draw.randrange(VOCABULARY)) for _ in range(size)) for size in (length, 4)]
        rows.append(Example(tuple(texts[: task.texts]), number % 2, number))
    return encode_task(task, {"train": rows}, Numbers(), CONTEXT, windows=True)


def of_windows(task: EncodedTask, pooling: str) -> Classifier:
    body = build_model(NETWORK, VOCABULARY + len(SPECIALS), compute=torch.float64)
    model = build_classifier(body, head_shapes({"long": task.task}, pooling), seed=0).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) / 8
    return model


@pytest.mark.parametrize("key", [None, (SEED, STEP)], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
@pytest.mark.parametrize("shape", WINDOWS)
def test_windows_change_nothing_of_micro_batches_but_rounding(
    shape: str, pooling: str, key: tuple[int, int] | None
) -> None:
    task = in_windows(shape)
    model, windows = of_windows(task, pooling), task.splits["train"].windows
    assert windows is not None
    assert windows.max() > 2 > windows.min()
    wanted, wanted_gradients = ours(model, task_batches([task], 5).batch(0), key)
    for micro, size, block in ((1, 5, 1), (2, 5, 1), (3, 9, 1), (None, 5, 8), (2, 7, 8)):
        found, gradients = ours(model, task_batches([task], 5, block=block).batch(0), key, size=size, micro=micro)
        assert found == pytest.approx(wanted, rel=1e-12), (micro, size, block)
        assert relative_error(gradients, wanted_gradients) < 1e-10, (micro, size, block)


def test_the_loss_is_the_mean_over_examples_however_many_windows_they_have() -> None:
    task = in_windows("single")
    model, split = of_windows(task, "mean"), task.splits["train"]
    found, _ = ours(model, task_batches([task], 5).batch(0), None)
    chances = probabilities(model, "long", split)
    assert found["long"] == pytest.approx(-np.log(chances[range(5), split.labels]).mean(), rel=1e-9)
    by_window = [
        np.mean([float(reference_next(model, ids)) for ids in split.sequences(example)]) for example in range(5)
    ]
    assert found[LM] == pytest.approx(np.mean(by_window), rel=1e-9)


def reference_next(model: Classifier, ids: np.ndarray) -> Tensor:
    """Return the mean loss of a sequence's next tokens."""
    hidden, output = model.body(torch.from_numpy(ids.astype(np.int64)).unsqueeze(0))
    scores = hidden[0, :-1] @ output[: VOCABULARY + len(SPECIALS)].T
    return torch.nn.functional.cross_entropy(scores, torch.from_numpy(ids[1:].astype(np.int64))).detach()


# Packed and padded

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
Way = Callable[[Classifier, Case, torch.device], tuple[Tensor, Tensor]]
NETWORKS = {
    "paper": replace(NETWORK, dropout=0.0),
    "modern with a window": replace(MODERN, context=NETWORK.context, dropout=0.0, window=4),
    "lstm": replace(SMALL_LSTM, context=NETWORK.context, dropout=0.0),
}


def padded_loss(model: Classifier, case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return logits and loss from a padded grid, by the network's way for sequences of equal length."""
    grid, real = reference.padded(case.examples, VOCABULARY + len(SPECIALS))
    ids, real = grid[..., 0].flatten(0, 1).to(device), real.flatten(0, 1).to(device)
    hidden, output = model.body(ids)
    last = hidden[torch.arange(len(ids), device=device), real.sum(-1).long() - 1]
    head = model.heads[case.name]
    vectors = last.to(head.weight.dtype).view(len(case.labels), -1, last.shape[-1])
    logits = head(vectors)[..., 0] if case.shape == "choices" else head(vectors.sum(1))
    targets = torch.tensor(case.labels, device=device)
    if case.score_range is not None:
        bins = [reference.soft_bins(label, case.score_range) for label in case.labels]
        targets = torch.stack(bins).to(device, logits.dtype)
    all_logits = (hidden[:, :-1] @ output[: VOCABULARY + len(SPECIALS)].T).float()
    losses = F.cross_entropy(all_logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)
    means = (losses * real[:, 1:].float()).sum(-1) / real[:, 1:].float().sum(-1)
    return logits, F.cross_entropy(logits, targets) + 0.5 * means.mean()


def packed_loss(model: Classifier, case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return logits and loss from a packed row, by the objective that fine-tuning learns."""
    task = encoded(case)
    lesson = make_lesson(task, class_weights=False)
    order = np.arange(len(case.labels))
    batch = PackedBatch(lesson, order, (case.name,), PackingOptions(VOCABULARY, CONTEXT), (0, 0))
    part = batch.part(0, len(order), len(order))
    tensors = {name: torch.from_numpy(array).to(device) for name, array in part.arrays.items()}
    logits = []
    hook = model.register_forward_hook(lambda _, __, answer: logits.append(answer[0]))
    sums = TaskLearning(model, lm_weight=0.5, tasks=[case.name])(tensors, None, **part.facts)
    hook.remove()
    return logits[0], sums[case.name] / batch.counts[case.name] + 0.5 * sums[LM] / batch.counts[LM]


def answers_of(way: Way, case: Case, shape: Shape, device: str, compute: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the logits, and all gradients in one row."""
    body = shaken(shape, dtype=torch.float32, vocab_size=VOCABULARY + len(SPECIALS))
    body.compute = compute
    model = build_classifier(body, head_shapes({case.name: encoded(case).task}), seed=0)
    with torch.no_grad():
        model.heads[case.name].weight.mul_(10)  # so that the task moves the network too
    model = model.to(device)
    logits, loss = way(model, case, torch.device(device))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return logits.detach().cpu(), torch.cat([gradient.flatten().cpu() for gradient in gradients])


def apart(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> list[float]:
    """Return how far logits and gradients are from others, relative to the others' norm."""
    return [float((x - y).norm() / y.norm()) for x, y in zip(found, wanted, strict=True)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("shape", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_packed_and_padded_give_the_same_logits_and_gradients(case: Case, shape: Shape, device: str) -> None:
    packed, padded = (answers_of(way, case, shape, device, torch.float32) for way in (packed_loss, padded_loss))
    assert max(apart(packed, padded)) < (2e-6 if device == "cpu" else 1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_packed_rows_in_bfloat16_are_as_near_to_single_precision_as_padded_ones(case: Case, device: str) -> None:
    shape = replace(NETWORK, width=128, heads=2, feed_forward=256, dropout=0.0)  # fused kernels want wide heads
    exact = answers_of(padded_loss, case, shape, device, torch.float32)
    packed, padded = (answers_of(way, case, shape, device, torch.bfloat16) for way in (packed_loss, padded_loss))
    for found, rounding in zip(apart(packed, exact), apart(padded, exact), strict=True):
        assert found < 2 * rounding + 0.01


# Whole updates

UPDATES, BATCH = 6, 2
RECIPE = Recipe(
    name="toy",
    shape=NETWORK,
    optimizer=Optimizer(lr=3e-3),  # as in the released code, but faster: the toy is small
    schedule=Schedule(kind="linear", warmup_steps=None, warmup_share=0.2),
    training=Training(batch=BATCH, steps=UPDATES, precision="fp64", compile=False, seed=SEED, max_loss_spike=None),
    logging=Logging(log_every=1, evaluate_every=None, sample_every=None, save_every=None),
)


def literal_updates(
    weights: Tensors, batches: TaskBatches, recipe: Recipe, updates: int
) -> tuple[dict[int, Tensors], list[float]]:
    """Return weights and moments after each update, and the losses, with nothing of the package but masks and order."""
    p = {name: x.detach().clone() for name, x in weights.items()}
    m, v = ({name: torch.zeros_like(x) for name, x in p.items()} for _ in range(2))
    states, losses = {}, []
    for k in range(updates):
        leaves = leaves_of(p)
        loss = literal(leaves, batches.batch(k), recipe.shape, (recipe.training.seed, k)).total
        losses.append(float(loss.detach()))
        factor = reference.linear_factor(k / updates, recipe.schedule.warmup_share)
        adam.update(p, gradients_of(loss, leaves), m, v, lr=recipe.optimizer.lr, t=k + 1, s=factor)
        states[k + 1] = p | {f"m.{name}": x for name, x in m.items()} | {f"v.{name}": x for name, x in v.items()}
    return states, losses


@pytest.mark.parametrize("micro", [None, 1])
@pytest.mark.parametrize("names", [["single"], ["both"], ["story"], ["scores"], ["pair", "choices"]], ids="+".join)
def test_whole_updates_are_the_papers(tmp_path: Path, names: list[str], micro: int | None) -> None:
    cases = [CASES[name] for name in names]
    model = classifier(cases)
    batches = task_batches(map(encoded, cases), BATCH)
    states, losses = literal_updates(dict(model.named_parameters()), batches, RECIPE, UPDATES)
    found: dict[int, Tensors] = {}
    seen: list[float] = []

    def photograph(event: Event) -> None:
        if isinstance(event, Stepped):
            seen.append(event.loss)
            named = {**dict(trainer.model.named_parameters()), **trainer.optimizer.state()}
            found[event.step] = {name: x.detach().clone() for name, x in named.items()}

    trainer = Trainer(
        TrainerConfig(
            objective=TaskLearning(model, lm_weight=0.5, tasks=names),
            batches=batches,
            updates=UPDATES,
            recipe=replace(RECIPE, training=replace(RECIPE.training, micro_batch=micro)),
            tokens_per_step=1,
            flops_per_token=1.0,
        ),
        tmp_path,
        device=torch.device("cpu"),
        world=World(),
        listeners=[photograph],
    )
    assert trainer.train()
    assert seen == pytest.approx(losses, rel=1e-10)
    assert len({tuple(batches.batch(k).examples.tolist()) for k in range(UPDATES)}) > 2
    for step in (1, 3, UPDATES):
        assert relative_error(found[step], states[step]) < 1e-10, step


def test_a_fine_tuning_from_beginning_to_end_is_the_papers(
    tmp_path: Path, trained: Path, words_tokenizer: Tokenizer
) -> None:
    task = Task(name="t", title="t", shape="both", metrics=("accuracy",), fields=("a", "b"), labels=("no", "yes"))
    rows = [Example((make_text(1, seed=n), make_text(1, seed=n + 50)), n % 2, n) for n in range(5)]
    known = encode_task(task, {"train": rows, "dev": rows[:2]}, words_tokenizer, context=16)
    changes = ["precision=fp64", "batch=2", "steps=3", f"seed={SEED}"]
    changes = [*(f"training.{change}" for change in changes), "optimizer.lr=1e-3", "logging.save_every=1"]
    changes += ["logging.keep=4", "logging.keep_optimizer=true"]
    finetune(trained, tmp_path / "run", encoded=known, recipe="finetune", changes=changes, device="cpu")
    kept = {step: load_checkpoint(path) for step, path in list_checkpoints(tmp_path / "run")}
    recipe = read_run(tmp_path / "run").recipe
    assert (recipe.schedule.kind, recipe.schedule.warmup_share, recipe.shape.dropout) == ("linear", 0.002, 0.1)

    first = make_classifier(recipe, {"t": task}, words_tokenizer.vocab_size, trained)
    weights = {name: tensor.detach() for name, tensor in first.named_parameters()}
    states, losses = literal_updates(weights, task_batches([known], 2), recipe, 3)
    for step in (1, 3):
        assert relative_error(kept[step].model | kept[step].optimizer, states[step]) < 1e-10, step
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    seen = [line["loss"] for line in lines if "loss" in line]
    assert seen == pytest.approx([losses[0], losses[-1]], rel=1e-6)
