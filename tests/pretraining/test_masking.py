"""Masked next-token prediction: the loss written out, which tokens are masked, runs that go on, and what it teaches."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpt1.base.errors import SettingError
from gpt1.inference.run import load_run
from gpt1.model import build_model, dropout_key
from gpt1.pretraining.distill import distill_text
from gpt1.pretraining.masking import IS_MASKED, LM, MASKED, MixedBatches, is_masked, mask, mask_validation
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.objective import MixedModelling
from gpt1.pretraining.pretrain import pretrain
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint
from gpt1.training.batches import NO_TARGET, Batch, share_of
from tests.model.tools import SHAPES, VOCAB, gradients, relative_error, shaken
from tests.pretraining.test_pretrain import KILLED, SETTINGS, assert_same_run, command, losses_of
from tests.pretraining.tools import write_corpus
from tests.processes import finish, start
from tests.records import lines_in
from tests.reference import transformer as reference

MIXED = (*SETTINGS, "training.masked_share=0.5")


def rows(count: int = 4, length: int = 10, seed: int = 1) -> Batch:
    """Return a batch of whole windows, but for the last one, which is short."""
    tokens = np.random.default_rng(seed).integers(0, VOCAB, (count, length + 1), dtype=np.int32)
    ids, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    ids[-1, 6:], targets[-1, 6:] = 0, NO_TARGET
    return Batch({"ids": ids, "targets": targets}, {LM: float((targets >= 0).sum())})


def tensors_of(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


# ---- the loss ----


@pytest.mark.parametrize("name", ["paper", "modern", "pre-norm with layer norms and biases"])
def test_loss_and_gradients_are_those_of_the_mask_written_out(name: str) -> None:
    shape = SHAPES[name]
    model = shaken(shape, has_mask=True)
    batch = mask(rows(), rate=0.4, seed=3, k=5)
    ids, masked = batch.arrays["ids"], batch.arrays[IS_MASKED]
    found = MixedModelling(model)(tensors_of(batch.arrays), None)
    weights = dict(model.named_parameters())
    hidden, output = reference.forward(  # type: ignore[no-untyped-call]
        weights, torch.from_numpy(ids).long(), shape, bidirectional=True, masked_BT=masked
    )
    # By hand: each masked token is looked up in the probabilities at the position before it.
    wanted, asked = torch.zeros((), dtype=torch.float64), 0
    for row, place in np.argwhere(masked):
        wanted = wanted - (hidden[row, place - 1] @ output.T).log_softmax(-1)[int(ids[row, place])]
        asked += 1
    assert batch.counts == {LM: 0.0, MASKED: asked}
    assert asked > 5
    assert found[LM] == 0
    assert found[MASKED].item() == pytest.approx(wanted.item(), rel=1e-12)
    ours = gradients(found[MASKED], weights)
    assert relative_error(ours, gradients(wanted, weights)) < 1e-10
    assert ours["mask"].norm() > 0.1


def test_a_batch_that_is_not_masked_has_the_loss_of_a_next_token_and_no_use_for_the_mask() -> None:
    model = shaken(SHAPES["paper"], has_mask=True)
    batch = rows()
    found = MixedModelling(model)(tensors_of(batch.arrays), None)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    ids, targets = (torch.from_numpy(batch.arrays[name]).long() for name in ("ids", "targets"))
    hidden, output = reference.forward(weights, ids, model.shape)  # type: ignore[no-untyped-call]
    wanted = reference.loss(hidden, output, targets, torch.ones(targets.shape))  # type: ignore[no-untyped-call]
    assert found[LM].item() == pytest.approx(float(wanted), rel=1e-12)
    assert found[MASKED] == 0
    (of_the_mask,) = torch.autograd.grad(found[LM], [model.mask], allow_unused=True)  # type: ignore[list-item]
    assert of_the_mask is None


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize(("micro", "ranks"), [(1, 1), (2, 1), (3, 2), (1, 3)])
def test_parts_of_a_batch_add_up_to_the_whole_with_its_dropout(micro: int, ranks: int, checkpointed: bool) -> None:
    model = shaken(SHAPES["paper"], has_mask=True, checkpoint_activations=checkpointed)
    batch, weights = mask(rows(), rate=0.4, seed=3, k=5), dict(model.named_parameters())

    def found(size: int, of: int) -> tuple[float, dict[str, torch.Tensor]]:
        parts = [part for rank in range(of) for part in share_of(batch, 4, size, rank, of)]
        sums = [
            MixedModelling(model)(tensors_of(part.arrays), dropout_key(1, 5, torch.from_numpy(part.sequences)))[MASKED]
            for part in parts
        ]
        loss = torch.stack(sums).sum()
        return loss.item(), gradients(loss, weights)

    loss, whole = found(4, 1)
    other, parts = found(micro, ranks)
    assert other == pytest.approx(loss, rel=1e-12)
    assert relative_error(parts, whole) < 1e-12


# ---- which batches, which tokens ----


def test_about_the_rate_of_the_tokens_is_masked_never_the_first_nor_any_of_a_short_window() -> None:
    batch = rows(200, 50)
    masked = mask(batch, rate=0.15, seed=0, k=0).arrays[IS_MASKED]
    assert not masked[:, 0].any()
    assert not masked[-1].any()
    assert masked[:-1, 1:].mean() == pytest.approx(0.15, abs=0.01)  # of 9,751: a deviation is 0.0036
    assert masked[:-1, -1].any()


def test_targets_are_what_is_masked_one_place_before_it_and_nothing_else() -> None:
    batch = rows()
    found = mask(batch, rate=0.5, seed=2, k=1).arrays
    assert np.array_equal(found["ids"], batch.arrays["ids"])
    for row, place in np.ndindex(found["ids"].shape):
        asked = place + 1 < found["ids"].shape[1] and found[IS_MASKED][row, place + 1]
        assert found["targets"][row, place] == (found["ids"][row, place + 1] if asked else NO_TARGET)


def test_what_is_masked_is_a_function_of_seed_update_and_place_alone() -> None:
    batch = rows(6, 40)
    whole = mask(batch, rate=0.3, seed=7, k=11).arrays[IS_MASKED]
    again = mask(batch, rate=0.3, seed=7, k=11).arrays[IS_MASKED]
    assert np.array_equal(whole, again)
    some = Batch({name: array[2:5] for name, array in batch.arrays.items()}, batch.counts)
    assert np.array_equal(mask(some, rate=0.3, seed=7, k=11, first=2).arrays[IS_MASKED], whole[2:5])
    for other in ({"seed": 8, "k": 11}, {"seed": 7, "k": 12}):
        differs = mask(batch, rate=0.3, **other).arrays[IS_MASKED]
        # Another draw altogether, not the same one moved.
        for shift in range(-8, 9):
            moved = np.roll(whole[:-1, 8:-8], shift, axis=1)
            assert np.mean(moved == differs[:-1, 8:-8]) < 0.8


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_the_batches_is_masked_others_for_each_seed(share: float) -> None:
    chosen = np.array([[is_masked(k, share=share, seed=seed) for k in range(2000)] for seed in (0, 1)])
    assert chosen.mean(1) == pytest.approx([share, share], abs=0.04)
    assert (chosen[0] != chosen[1]).any()
    more = [is_masked(k, share=0.95, seed=0) for k in range(2000)]
    assert not (chosen[0] & ~np.array(more)).any()


def test_a_batch_in_which_nothing_can_be_masked_is_read_from_left_to_right(tmp_path: Path) -> None:
    stream = TokenStream(write_corpus(tmp_path, {"train": [*range(41)]}), "train")
    windows = Windows(stream, context=8, batch=1, seed=3)
    mixed = MixedBatches(windows, share=0.999, rate=0.9, seed=3)
    found = [mixed.batch(k) for k in range(12)]
    short = [bool((windows.batch(k).arrays["targets"] == NO_TARGET).any()) for k in range(12)]
    assert any(short)
    assert [LM for batch in found if batch.counts[LM]] == [LM] * sum(short)
    for batch, is_short, k in zip(found, short, range(12), strict=True):
        assert (batch.counts[MASKED] == 0) == is_short
        assert np.array_equal(batch.arrays["ids"], windows.batch(k).arrays["ids"])


def test_validation_masks_the_same_tokens_however_many_rows_are_read_at_once(tmp_path: Path) -> None:
    stream = TokenStream(write_corpus(tmp_path, {"valid": [*range(100)]}), "valid")

    def masked(batch: int) -> np.ndarray:
        found = mask_validation(validation_windows(stream, context=8, batch=batch), 0.3)
        return np.concatenate([one.arrays[IS_MASKED] for one in found])

    assert masked(3).any()
    assert all(np.array_equal(masked(3), masked(size)) for size in (1, 5, 100))


# ---- runs ----


@pytest.fixture(scope="module")
def mixed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "mixed"
    pretrain("tiny", corpus, run, changes=MIXED, device="cpu")
    return run


def test_each_update_tells_the_loss_that_it_has_and_validation_both(mixed: Path, corpus: Path) -> None:
    lines = lines_in(mixed / "metrics.jsonl")
    steps = [line for line in lines if "loss" in line]
    wanted = [MASKED if is_masked(line["batch"], share=0.5, seed=0) else LM for line in steps]
    assert [list(line["terms"]) for line in steps] == [[name] for name in wanted]
    assert set(wanted) == {LM, MASKED}
    assert all(line["loss"] == pytest.approx(line["terms"][name]) for line, name in zip(steps, wanted, strict=True))
    *_, last = [line for line in lines if "valid_loss" in line]
    run = load_run(mixed, device="cpu", step=20)
    assert last["bits_per_byte"] == pytest.approx(measure_corpus(run, corpus)["bits_per_byte"], rel=1e-6)
    assert 0 < last["masked_loss"] < 10


def test_the_masked_loss_of_validation_is_that_of_a_literal_computation(mixed: Path, corpus: Path) -> None:
    (_, newest), *_ = reversed(list_checkpoints(mixed))
    weights = {name: weight.double() for name, weight in load_checkpoint(newest).model.items()}
    shape = load_run(mixed, device="cpu").recipe.shape
    stream = TokenStream(corpus, "valid")
    total, count = 0.0, 0
    for batch in mask_validation(validation_windows(stream, context=shape.context, batch=8), 0.15):
        ids, targets = (torch.from_numpy(batch.arrays[name]).long() for name in ("ids", "targets"))
        hidden, output = reference.forward(  # type: ignore[no-untyped-call]
            weights, ids, shape, bidirectional=True, masked_BT=batch.arrays[IS_MASKED]
        )
        total += float(reference.loss(hidden, output, targets, torch.ones(targets.shape)))  # type: ignore[no-untyped-call]
        count += int((targets >= 0).sum())
    *_, last = [line for line in lines_in(mixed / "metrics.jsonl") if "valid_loss" in line]
    assert last["masked_loss"] == pytest.approx(total / count, rel=1e-5)


def test_a_killed_run_goes_on_bit_for_bit(mixed: Path, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(corpus), str(run), "6", *MIXED], check=False)
    assert killed.returncode == -signal.SIGKILL
    pretrain("tiny", corpus, run, changes=MIXED, resume=True, device="cpu")
    assert_same_run(mixed, run)


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_ranks_give_the_losses_of_one(mixed: Path, corpus: Path, tmp_path: Path, how: str) -> None:
    changes = (f"training.parallelism={how}", "training.masked_share=0.5", "training.micro_batch=3")
    finish(start(command(corpus, tmp_path / how, *changes, ranks=2)))
    losses, wanted = losses_of(tmp_path / how), losses_of(mixed)
    assert losses == {step: pytest.approx(loss, rel=2e-5) for step, loss in wanted.items()}
    told = [
        [line["masked_loss"] for line in lines_in(run / "metrics.jsonl") if "masked_loss" in line]
        for run in (tmp_path / how, mixed)
    ]
    assert told[0] == pytest.approx(told[1], rel=2e-5)


def test_what_stands_for_a_masked_token_is_learned_and_of_use_to_pretraining_alone(
    mixed: Path, corpus: Path, tmp_path: Path
) -> None:
    first, last = (
        load_checkpoint(path).model["mask"] for _, path in (list_checkpoints(mixed)[0], list_checkpoints(mixed)[-1])
    )
    assert not torch.equal(first, last)
    run = load_run(mixed, device="cpu")
    assert "mask" not in run.checkpoint.model
    assert "mask" not in dict(run.model.named_parameters())
    again = [*MIXED, "training.steps=1", "optimizer.lr=1e-30", "optimizer.weight_decay=0"]
    pretrain(
        "tiny",
        corpus,
        tmp_path / "again",
        init=mixed,
        changes=[c for c in again if not c.startswith("shape")],
        device="cpu",
    )
    kept = load_checkpoint(list_checkpoints(tmp_path / "again")[-1][1]).model
    assert all(torch.equal(kept[name], weight) for name, weight in load_checkpoint(run.checkpoint.path).model.items())


def test_a_network_that_never_saw_a_mask_can_learn_of_it(trained: Path, corpus: Path, tmp_path: Path) -> None:
    changes = ["training.steps=2", "training.masked_share=0.5", "training.batch=8", "training.precision=fp32"]
    pretrain("tiny", corpus, tmp_path / "run", init=trained, changes=changes, device="cpu")
    assert "mask" in load_checkpoint(list_checkpoints(tmp_path / "run")[-1][1]).model


# ---- what it teaches ----

CLASSES, WORDS = 4, 16  # a word's class stands before it: whoever sees the word knows the class


def planted(count: int, seed: int) -> list[int]:
    words = np.random.default_rng(seed).integers(0, WORDS, count)
    return [int(token) for word in words for token in (word % CLASSES, CLASSES + word)]


def test_where_the_token_after_decides_the_mixed_network_knows_and_the_causal_one_guesses(tmp_path: Path) -> None:
    vocab = CLASSES + WORDS
    texts = {"train": planted(4000, 0), "valid": planted(200, 1)}
    stream = TokenStream(write_corpus(tmp_path, texts, vocab_size=vocab), "train")
    shape = replace(SHAPES["modern"], width=32, heads=2, feed_forward=64, context=16, dropout=0.0, tied=True)
    shape = replace(shape, init_std=0.1, activation="gelu")

    def learned(share: float) -> torch.nn.Module:
        model = build_model(shape, vocab, seed=1, has_mask=True)
        objective, optimizer = MixedModelling(model), torch.optim.Adam(model.parameters(), lr=1e-2)
        batches = MixedBatches(Windows(stream, context=16, batch=16, seed=0), share=share, rate=0.15, seed=0)
        for k in range(600):
            batch = batches.batch(k)
            sums = objective(tensors_of(batch.arrays), None)
            loss = sum((sums[name] / count for name, count in batch.counts.items() if count), torch.zeros(()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model

    ids = torch.tensor(texts["valid"]).view(-1, 16)
    classes = torch.zeros(ids.shape, dtype=torch.bool)
    classes[:, 4::4] = True  # every other class is masked, and no word
    wanted = ids[classes]

    @torch.no_grad()
    def right(model: torch.nn.Module, masked: torch.Tensor | None) -> float:
        hidden, output = model(ids, None, masked_BT=masked)
        before = torch.zeros_like(classes)
        before[:, 3:-1:4] = True
        return float(((hidden[before] @ output[:CLASSES].T).argmax(-1) == wanted).float().mean())

    causal, mixed = learned(0.0), learned(0.5)
    assert right(mixed, classes) > 0.95
    assert right(causal, None) < 0.45  # a quarter by chance, of 75
    assert right(mixed, None) < 0.45


# ---- what is refused ----


def test_masking_is_refused_where_it_cannot_be(corpus: Path, tmp_path: Path, trained: Path) -> None:
    def refused(message: str, *changes: str, recipe: str = "tiny") -> None:
        with pytest.raises(SettingError, match=message):
            pretrain(recipe, corpus, tmp_path / "run", changes=changes, device="cpu")
        assert not (tmp_path / "run").exists()

    refused(r"masked_share is at least 0 and below 1, not 1.0: some batches", "training.masked_share=1")
    refused(r"masked_share is at least 0", "training.masked_share=-0.1")
    refused(r"mask_rate is above 0 and below 1, not 0.0", "training.mask_rate=0")
    refused(
        r"training.masked_share wants attention that looks both ways, and an LSTM has none",
        "training.masked_share=0.5",
        recipe="lstm",
    )
    refused(r"looks both ways, and a window \(shape.window=4\)", "training.masked_share=0.5", "shape.window=4")
    refused(r"more than two windows of shape.context=100000", "training.masked_share=0.5", "shape.context=100000")
    with pytest.raises(SettingError, match="beside them no batch is masked"):
        distill_text([trained], corpus, tmp_path / "run", recipe="tiny", changes=MIXED, device="cpu")


def test_a_run_keeps_its_share_when_it_goes_on(mixed: Path, corpus: Path) -> None:
    with pytest.raises(SettingError, match=r"training.masked_share is 0.5 in the run .* and 0.25 now"):
        pretrain(None, corpus, mixed, resume=True, changes=["training.masked_share=0.25"], device="cpu")
