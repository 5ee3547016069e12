"""Adversarial adaptation: its loss and gradients by the formulas, its batches, its runs, and a shift that it helps."""

from __future__ import annotations

import csv
import math
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning.batches import DOMAIN, LM, PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.domains import DomainBatch, DomainBatches, reversal
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.target import TargetTexts
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import load_run
from gpt1.model import Classifier, build_classifier, build_model, dropout_key
from gpt1.pruning.prune import prune
from gpt1.recipes.values import Finetuning
from gpt1.records.run import RecordedAdaptation, RecordedTexts
from gpt1.report import report
from gpt1.report.card import make_card
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.batches import share_of
from tests.finetuning.reference_data import CASES, NETWORK, SEVERAL, VOCABULARY, Case, Numbers, encoded, make_weights
from tests.finetuning.test_parity import gradients_of, leaves_of, masks_of
from tests.finetuning.tools import (
    SETTINGS,
    Told,
    assert_same_run,
    command,
    lines_of,
    losses_of,
    make_examples,
    make_pretrained,
    make_task,
    write_table,
)
from tests.model.tools import relative_error
from tests.processes import kill_after, start
from tests.reference import finetuning as reference

SEED, STEP = 9, 4  # of the noise
LAMBDA = 0.7
NOT_OF_CHOICES = {name: case for name, case in (CASES | SEVERAL).items() if case.shape != "choices"}
MOODS = make_task()


# ---- by the formulas ----


def target_of(case: Case, texts: int) -> tuple[TargetTexts, list[list[list[int]]]]:
    """Return texts of another domain in the layout of a case, encoded and as literal sequences of ids."""
    task, draw = encoded(case).task, random.Random(f"target {case.name}")
    rows = []
    for row in range(texts):
        words = [[draw.randrange(VOCABULARY) for _ in range(draw.randint(1, 6))] for _ in task.fields]
        rows.append(Example(tuple(" ".join(map(str, ids)) for ids in words), None, row))
    split = encode_task(task, {"train": rows}, Numbers(), context=NETWORK.context).splits["train"]
    recorded = RecordedAdaptation(RecordedTexts("texts.csv", "", texts))
    return TargetTexts(case.name, split, recorded), [[ids.tolist() for ids in split.sequences(e)] for e in range(texts)]


def batch_of(case: Case, settings: Finetuning, *, block: int = 1, texts: int = 7) -> DomainBatch:
    """Return the first batch of a case and of texts beside it, all rows at once."""
    packing = PackingOptions(VOCABULARY, NETWORK.context, block=block, dtype=np.float64)
    lessons = {case.name: make_lesson(encoded(case), class_weights=False)}
    count = len(case.labels)
    source = TaskBatches(lessons, batch=count, seed=SEED, packing=packing)
    target, _ = target_of(case, texts)
    return DomainBatches(source, target, settings, batch=count, seed=SEED, updates=10).batch(0)


def network(case: Case) -> tuple[Classifier, dict[str, Tensor]]:
    """Return a network that tells domains in double precision, and its weights."""
    body = build_model(NETWORK, VOCABULARY + len(SPECIALS), compute=torch.float64)
    heads = head_shapes({case.name: encoded(case).task})
    model = build_classifier(body, heads, seed=0, tells_domains=True).double()
    generator = torch.Generator().manual_seed(3)
    weights = make_weights(case) | {
        "domains.weight": torch.randn(1, NETWORK.width, generator=generator, dtype=torch.float64),
        "domains.bias": torch.randn(1, generator=generator, dtype=torch.float64),
    }
    model.load_state_dict(weights)
    return model, weights


def ours(
    model: Classifier, batch: DomainBatch, key: tuple[int, int] | None, *, micro: int | None = None, size: int = 0
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the means of the terms and the gradients, cut as the loop would."""
    objective = TaskLearning(model, lm_weight=0.5, tasks=batch.source.tasks)
    parameters = dict(model.named_parameters())
    means = dict.fromkeys(objective.weights, 0.0)
    gradients = {name: torch.zeros_like(x) for name, x in parameters.items()}
    size = size or len(batch)
    for part in share_of(batch, size, micro or size, 0, 1):
        tensors = {name: torch.from_numpy(array.copy()) for name, array in part.arrays.items()}
        noise = None if key is None else dropout_key(*key, torch.from_numpy(part.sequences))
        sums = {name: x / batch.counts[name] for name, x in objective(tensors, noise, **part.facts).items()}  # type: ignore[arg-type]
        loss = torch.stack([weight * sums[name] for name, weight in objective.weights.items()]).sum()
        for name, gradient in gradients_of(loss, parameters).items():
            gradients[name] += gradient
        for name in means:
            means[name] += float(sums[name].detach())
    return means, gradients


def literal(
    case: Case, leaves: dict[str, Tensor], batch: DomainBatch, key: tuple[int, int] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the task's loss, the mean loss of next tokens over both domains, and that of the domains."""
    split = batch.source.lesson.split
    source = [[ids.tolist() for ids in split.sequences(int(e))] for e in batch.source.examples]
    target = [[ids.tolist() for ids in batch.target.lesson.split.sequences(int(e))] for e in batch.target.examples]
    labels = split.labels[batch.source.examples].tolist()
    given: dict[str, Any] = {}
    if key is not None:
        every = [*source, *target]
        length = max(len(ids) for sequences in every for ids in sequences)
        noise = dropout_key(*key, torch.arange(sum(map(len, every))))
        given = {"masks": masks_of(NETWORK, noise, len(every), length, VOCABULARY + 3), "rate": NETWORK.dropout}
    domain = reference.domain_loss(leaves, NETWORK, source, target, **given)
    given |= {"head_rate": given.get("rate", 0.0), "score_range": case.score_range}
    both = reference.objective(leaves, case.name, case.shape, NETWORK, [*source, *target], [*labels, *labels], **given)
    logits = both.logits[: len(labels)]
    if case.has_several:
        task = reference.several_loss(logits, labels, None)
    else:
        pairs = zip(logits, labels, strict=True)
        task = torch.stack([reference.task_loss(one, label, case.score_range) for one, label in pairs]).mean()
    return task, both.lm, domain


def turned(rest: Tensor, domain: Tensor, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of the domain classifier as it learns, of all other weights with the sign of that turned."""
    learned = torch.autograd.grad(domain, list(leaves.values()), allow_unused=True, retain_graph=True)
    others = gradients_of(rest - LAMBDA * domain, leaves)
    own = {name: gradient for name, gradient in zip(leaves, learned, strict=True) if gradient is not None}
    return {name: own[name] if name.startswith("domains.") else others[name] for name in leaves}


@pytest.mark.parametrize("key", [None, (SEED, STEP)], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("case", NOT_OF_CHOICES.values(), ids=NOT_OF_CHOICES)
def test_heads_and_network_have_the_gradients_of_the_formulas_the_networks_with_the_sign_of_the_domains_turned(
    case: Case, key: tuple[int, int] | None
) -> None:
    batch = batch_of(case, Finetuning(domain_weight=LAMBDA, domain_ramp=False))
    model, weights = network(case)
    leaves = leaves_of(weights)
    task, lm, domain = literal(case, leaves, batch, key)
    wanted = turned(task + 0.5 * lm, domain, leaves)
    means = {case.name: float(task.detach()), LM: float(lm.detach()), DOMAIN: float(domain.detach())}
    for micro, size, block in ((None, 0, 1), (2, 0, 1), (3, len(batch) + 3, 8)):
        cut = batch_of(case, Finetuning(domain_weight=LAMBDA, domain_ramp=False), block=block)
        found, gradients = ours(model, cut, key, micro=micro, size=size)
        assert found == pytest.approx(means, rel=1e-12), (micro, size, block)
        assert relative_error(gradients, wanted) < 1e-10, (micro, size, block)


def test_without_the_targets_next_tokens_the_language_model_learns_the_sources_alone() -> None:
    case = CASES["pair"]
    model, weights = network(case)
    settings = Finetuning(domain_weight=LAMBDA, domain_ramp=False, target_lm=False)
    batch = batch_of(case, settings)
    leaves = leaves_of(weights)
    task, _, domain = literal(case, leaves, batch, None)
    examples = [case.examples[e] for e in batch.source.examples]
    labels = [case.labels[e] for e in batch.source.examples]
    lm = reference.objective(leaves, case.name, case.shape, NETWORK, examples, labels).lm
    found, gradients = ours(model, batch, None, micro=2)
    assert found[LM] == pytest.approx(float(lm.detach()), rel=1e-12)
    wanted = turned(task + 0.5 * lm, domain, leaves)
    assert relative_error(gradients, wanted) < 1e-10


def test_lambda_rises_as_in_the_paper_or_stays() -> None:
    rising = [reversal(p, Finetuning(domain_weight=0.5)) for p in (0, 0.1, 0.5, 1, 1.7)]
    wanted = [0.5 * (2 / (1 + math.exp(-10 * min(p, 1))) - 1) for p in (0, 0.1, 0.5, 1, 1.7)]
    assert rising == pytest.approx(wanted, rel=1e-12)
    assert rising[0] == 0
    assert {reversal(p, Finetuning(domain_weight=0.5, domain_ramp=False)) for p in (0, 0.5, 1)} == {0.5}


# ---- batches ----


def test_batches_are_functions_of_their_number_and_read_all_texts_in_each_epoch() -> None:
    case = CASES["pair"]
    target, _ = target_of(case, 7)

    def fresh() -> DomainBatches:
        lessons = {case.name: make_lesson(encoded(case), class_weights=False)}
        source = TaskBatches(lessons, batch=2, seed=SEED, packing=PackingOptions(VOCABULARY, NETWORK.context))
        return DomainBatches(source, target, Finetuning(), batch=2, seed=SEED, updates=12)

    asked = fresh()
    for k in (5, 0, 11, 5, 3):
        one, other = asked.batch(k), fresh().batch(k)
        assert len(one) == len(one.source.examples) == len(one.target.examples)
        assert one.target.examples.tolist() == other.target.examples.tolist()
        assert one.reversal == reversal(k / 12, Finetuning())
    places = [text for k in range(100) for text in asked._texts(k, 2).tolist()]
    epochs = [places[begin : begin + 7] for begin in range(0, 196, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) > 20


# ---- runs ----


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled rows, and texts of a domain in which everything is shouted."""
    folder = tmp_path_factory.mktemp("domains")
    write_table(folder / "moods.csv", MOODS, make_examples(MOODS, 60))
    texts = [f"somebody lost nothing at 10 a.m. {number}" for number in range(30)]
    (folder / "target.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    (folder / "target.txt").write_text("\n\n".join(texts) + "\n")
    return folder


@pytest.fixture(scope="module")
def adapted(trained: Path, folder: Path) -> Path:
    given: dict[str, Any] = {"target_texts": folder / "target.csv", "changes": SETTINGS, "device": "cpu"}
    finetune(trained, folder / "adapted", train=folder / "moods.csv", **given)
    return folder / "adapted"


def test_a_run_that_was_adapted_is_a_run_like_any_other_and_says_what_it_was_adapted_to(
    adapted: Path, folder: Path, trained: Path, tmp_path: Path
) -> None:
    run = load_run(adapted, device="cpu")
    kept = run.record.adapted
    assert kept is not None
    assert (kept.texts.path, kept.texts.rows) == (str((folder / "target.csv").resolve()), 30)
    assert kept.apart_before is not None
    assert kept.apart is not None
    assert 0.75 < kept.apart_before <= 1  # other words, which random weights tell apart too
    assert 0 <= kept.apart <= 1
    steps = [line for line in lines_of(adapted) if "loss" in line]
    assert steps[0]["terms"].keys() == {"moods", "_lm", "_domain"}
    assert steps[0]["terms"]["_domain"] == pytest.approx(math.log(2), abs=0.2)
    assert len(list(run.predict(["Ann sold nothing"]))) == 1
    again = finetune(adapted, tmp_path / "more", train=folder / "moods.csv", changes=SETTINGS, device="cpu")
    assert again.record.adapted is None
    assert again.classifier.domains is None
    page = report([adapted], tmp_path / "report.html").read_text("utf-8")
    assert f"30 texts of {folder / 'target.csv'}" in page
    assert "told apart in" in page


def test_an_adapted_run_is_made_smaller_like_any_other(adapted: Path, tmp_path: Path) -> None:
    run = load_run(adapted, device="cpu")
    export_compact(run, tmp_path / "compact")
    pruned = prune(adapted, tmp_path / "pruned", layers=1, device="cpu").run
    for smaller in (load_run(tmp_path / "compact", device="cpu"), pruned):
        assert smaller.record.adapted is not None
        assert smaller.record.adapted.texts == run.record.adapted.texts  # type: ignore[union-attr]
        assert len(list(smaller.predict(["Ann sold nothing"]))) == 1
    assert pruned.record.adapted is not None
    assert pruned.record.adapted.apart is None
    assert "told apart" not in make_card(pruned.path)
    assert "adapted to" in make_card(pruned.path)


def test_lines_of_a_text_file_are_texts_too(adapted: Path, folder: Path, trained: Path, tmp_path: Path) -> None:
    told = Told()
    given: dict[str, Any] = {"target_texts": folder / "target.txt", "changes": SETTINGS, "device": "cpu"}
    finetune(trained, tmp_path / "run", train=folder / "moods.csv", listeners=[told], **given)
    assert losses_of(tmp_path / "run") == losses_of(adapted)
    assert f"adapting to a domain without labels: 30 texts of {folder / 'target.txt'}" in told
    assert "the two domains are told apart in" in told


def test_a_killed_adaptation_goes_on_bit_for_bit(adapted: Path, folder: Path, trained: Path, tmp_path: Path) -> None:
    words = ["--train", str(folder / "moods.csv"), "--target-texts", str(folder / "target.csv")]
    asked = command(trained, tmp_path / "run", *words)
    kill_after(start(asked), tmp_path / "run", 7)
    subprocess.run([*asked, "--resume"], check=True, capture_output=True)
    assert_same_run(adapted, tmp_path / "run")
    before, after = (load_run(run, device="cpu").record.adapted for run in (adapted, tmp_path / "run"))
    assert before == after


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_make_the_same_run(adapted: Path, folder: Path, trained: Path, tmp_path: Path, how: str) -> None:
    words = ["--train", str(folder / "moods.csv"), "--target-texts", str(folder / "target.csv")]
    words += ["--set", f"training.parallelism={how}"]
    subprocess.run(command(trained, tmp_path / "run", *words, ranks=2), check=True, capture_output=True)
    assert losses_of(tmp_path / "run") == pytest.approx(losses_of(adapted), rel=1e-3)


# ---- a shift that was planted ----


CUES = (("lost", "couldn't find"), ("sold", "carried"))  # by which nine of ten labels can be told, in both domains
WHO_ACTS = ("Ann", "somebody")  # by whom all can be told in the source domain; in the target it is always the second
SHIFTED = (
    "training.batch=16",
    "training.epochs=20",
    "training.precision=fp32",
    "optimizer.lr=2e-3",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
    "finetuning.lm_weight=0",
)


def sentences(count: int, seed: int, *, is_source: bool) -> Iterator[tuple[str, str]]:
    """Yield texts with labels."""
    draw = random.Random(seed)
    for number in range(count):
        label = number % 2
        cue = draw.choice(CUES[label if draw.random() < 0.9 else 1 - label])
        who = WHO_ACTS[label if is_source else 1]
        yield f"{who} {cue} {draw.choice(('3 apples', 'nothing', 'an umbrella'))} {number}", ("bad", "good")[label]


def write_sentences(path: Path, rows: Iterator[tuple[str, str]], *, labelled: bool = True) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"][: 1 + labelled])
        writer.writerows(row[: 1 + labelled] for row in rows)
    return path


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_where_a_word_of_the_source_alone_gives_the_label_away_adaptation_finds_the_one_that_both_have(
    tmp_path: Path, bytes_tokenizer: Tokenizer, seed: int
) -> None:
    train = write_sentences(tmp_path / "train.csv", sentences(160, 0, is_source=True))
    texts = write_sentences(tmp_path / "target.csv", sentences(160, 1, is_source=False), labelled=False)
    judged = write_sentences(tmp_path / "judged.csv", sentences(200, 2, is_source=False))
    base = make_pretrained(tmp_path / "base", bytes_tokenizer, "shape.context=32", seed=seed)
    changes, found = [*SHIFTED, f"training.seed={seed}"], {}
    for name, given in (("source", {}), ("adapted", {"target_texts": texts})):
        run = finetune(base, tmp_path / name, train=train, changes=changes, device="cpu", **given)  # type: ignore[arg-type]
        (measured,) = evaluate_run(run, table=judged)
        found[name] = measured.metrics["accuracy"]
        print(f"seed {seed}, {name}: {found[name]:.3f}")
        assert run.checkpoint.step == 20 * 9  # the last epoch, though all of them answer rows for dev as well
    assert found["source"] == pytest.approx(0.5, abs=0.05)
    assert found["adapted"] > 0.75
