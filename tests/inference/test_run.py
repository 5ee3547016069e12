"""A run in use: which checkpoint, and what is said when there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.torch_internals import cpu_has_vnni
from gpt1.inference import run as own
from gpt1.inference.run import find_checkpoint, load_run
from gpt1.recipes.values import Logging
from gpt1.runs import checkpoints
from gpt1.runs.checkpoints import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    Checkpoint,
    list_checkpoints,
    load_checkpoint,
    remove_old,
    save_checkpoint,
)
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.inference.tools import make_run
from tests.records import facts_in, lines_in


def save(run: Path, step: int, valid_loss: float | None) -> None:
    save_checkpoint(run, step, {"w": torch.full((2,), float(step))}, {}, {"cost": valid_loss})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Checkpoints of which the one of step 20 is the best and that of step 40 the last."""
    for step, loss in ((10, 3.0), (20, 2.0), (30, 2.5), (40, None)):
        save(tmp_path, step, loss)
    return tmp_path


def damage(run: Path, step: int, name: str = MODEL_FILE) -> None:
    (run / "checkpoints" / f"step-{step:08}" / name).write_bytes(b"damaged")


@pytest.mark.parametrize(("step", "found"), [("best", 20), ("last", 40), (10, 10), (30, 30)])
def test_a_checkpoint_is_found_by_step_or_as_the_best_or_the_last(run: Path, step: int | str, found: int) -> None:
    checkpoint = find_checkpoint(run, step)
    assert checkpoint.step == found
    assert checkpoint.model["w"].tolist() == [found, found]
    assert checkpoint.optimizer is None


@pytest.mark.parametrize(("step", "found"), [("best", 50), ("last", 50)])
def test_beside_a_training_the_checkpoint_that_took_the_place_of_another_is_read(
    run: Path, step: str, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = checkpoints.load_checkpoint

    def rotated(path: Path, **settings: Any) -> Checkpoint:  # found, and now to be read
        if not (run / "checkpoints" / "step-00000050").exists():
            save(run, 50, 1.0)
            remove_old(run, 50, Logging(keep=1))
        return load(path, **settings)

    for module in (checkpoints, own):
        monkeypatch.setattr(module, "load_checkpoint", rotated)
    assert find_checkpoint(run, step, pytest.fail).step == found


def test_beside_a_training_a_step_that_is_removed_is_told_as_one_that_is_not_there(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = checkpoints.load_checkpoint

    def rotated(path: Path, **settings: Any) -> Checkpoint:
        remove_old(run, 40, Logging(keep=1))
        return load(path, **settings)

    monkeypatch.setattr(own, "load_checkpoint", rotated)
    with pytest.raises(SettingError, match="has no checkpoint of step 10; it has 20, 40"):
        find_checkpoint(run, 10)


def test_without_an_evaluation_the_best_is_the_last(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step, None)
    assert find_checkpoint(tmp_path, "best").step == 2


def test_the_last_is_the_last_that_is_whole(run: Path) -> None:
    damage(run, 40)
    damage(run, 30, STATE_FILE)
    damage(run, 20, OPTIMIZER_FILE)  # which is not needed
    refused: list[str] = []
    assert find_checkpoint(run, "last", refused.append).step == 20
    assert ["step-00000040" in refused[0], "step-00000030" in refused[1]] == [True, True]


def test_a_damaged_checkpoint_that_was_asked_for_is_refused_by_name(run: Path) -> None:
    damage(run, 20)
    for step in (20, "best"):
        with pytest.raises(FormatError, match=r"step-00000020 is damaged: model.safetensors does not match"):
            find_checkpoint(run, step)


@pytest.mark.parametrize("step", [11, "bset", ""])
def test_a_step_that_is_not_there_is_refused_with_those_there_are(run: Path, step: int | str) -> None:
    with pytest.raises(SettingError, match=f"has no checkpoint of step {step}; it has 10, 20, 30, 40"):
        find_checkpoint(run, step)


def test_a_run_without_a_whole_checkpoint_says_so_and_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no checkpoint to use$"):
        find_checkpoint(tmp_path, "best")
    with pytest.raises(SettingError, match="it has none"):
        find_checkpoint(tmp_path, 3)
    save(tmp_path, 1, None)
    damage(tmp_path, 1)
    with pytest.raises(InputError, match=r"has no checkpoint to use; .*step-00000001 is damaged"):
        find_checkpoint(tmp_path, "last")


@pytest.mark.parametrize("step", ["best", "last"])
def test_each_fault_of_a_run_without_a_whole_checkpoint_is_told_once_and_what_to_do(run: Path, step: str) -> None:
    for number in (10, 20, 30, 40):
        state = run / "checkpoints" / f"step-{number:08}" / STATE_FILE
        state.write_text(state.read_text().replace(f'"step": {number}', '"step": 7'))
    with pytest.raises(InputError, match=r"; bring it back from a copy, or train anew$") as told:
        find_checkpoint(run, step)
    assert [str(told.value).count(f"step-{number:08} is damaged") for number in (10, 20, 30, 40)] == [1] * 4


@pytest.mark.parametrize("change", ["damaged", "gone"])
def test_where_the_only_checkpoint_is_damaged_it_is_told_what_to_do(tmp_path: Path, change: str) -> None:
    save(tmp_path, 1, 2.0)
    damage(tmp_path, 1)
    if change == "gone":
        (tmp_path / "checkpoints" / "step-00000001" / MODEL_FILE).unlink()
    with pytest.raises(FormatError, match=r"model.safetensors .*; bring it back from a copy, or train anew$"):
        find_checkpoint(tmp_path, "best")


# ---- a run that was trained ----


def test_a_trained_run_gives_its_model_and_its_tokenizer(trained: Path) -> None:
    run = load_run(trained, device="cpu", step="last")
    assert run.checkpoint.step == 12
    assert not run.model.training
    weights = dict(run.model.named_parameters())
    assert weights.keys() == run.checkpoint.model.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in run.checkpoint.model.items())
    assert run.tokenizer.fingerprint == run.record.tokenizer
    assert repr(run) == f"Run({str(trained)!r}, pretraining, recipe 'tiny')"


def test_weights_that_go_straight_to_a_device_are_those_that_are_copied_on_the_host(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = load_run(trained, device="cpu")
    expected = copied.score(["Ann sold a hat."])
    monkeypatch.setattr(own, "HOST", torch.device("meta"))  # so that this machine passes for a device
    placed = load_run(trained, device="cpu")
    assert placed.score(["Ann sold a hat."]) == expected
    assert placed.model.tokens.data_ptr() == placed.checkpoint.model["tokens"].data_ptr()
    assert copied.model.tokens.data_ptr() != copied.checkpoint.model["tokens"].data_ptr()


def test_the_best_step_of_a_run_is_the_one_with_the_lowest_validation_loss(trained: Path) -> None:
    lines = lines_in(trained / "metrics.jsonl")
    losses = {line["valid_loss"]: line["step"] for line in lines if "valid_loss" in line}
    best = load_run(trained, device="cpu").checkpoint
    assert (best.step, best.progress["cost"]) == (losses[min(losses)], min(losses))


def test_opening_a_run_reads_no_weights(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    run = load_run(tmp_path / "run", device="cpu")
    assert run.recipe.shape.width == 32
    with pytest.raises(InputError, match="has no checkpoint to use"):
        run.model  # noqa: B018


def test_what_is_no_run_is_refused_when_it_is_opened(tmp_path: Path, trained: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_run(tmp_path / "absent", device="cpu")
    with pytest.raises(InputError, match=r"run.json does not exist; expected a run there"):
        load_run(tmp_path, device="cpu")
    with pytest.raises(InputError, match=r"tokenizer.json lies inside a run; name the run itself, "):
        load_run(trained / "tokenizer.json", device="cpu")
    with pytest.raises(SettingError, match="there is no device 'cpuu' here"):
        load_run(trained, device="cpuu")


def test_weights_that_are_not_those_of_the_recipe_are_refused_by_name(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    facts = facts_in(run / "run.json")
    for _, path in list_checkpoints(run):  # as an earlier version saved them
        found = load_checkpoint(path)
        save_checkpoint(run, found.step, found.model, found.optimizer, found.progress)
    for changed, message in (
        ({"layers": 1}, r"'blocks.1.attention.out.bias' has the shapes \(32,\) and none"),
        ({"layers": 10**9}, r"it holds [\d,]+ weights, and a network of [\d,]+ tokens .* has more"),
        ({"context": 10**15}, r"it holds [\d,]+ weights, and a network of [\d,]+ tokens .* has more"),
        ({"feed_forward": 63}, r"'blocks.0.feed_forward.down.weight' has the shapes \(32, 64\) and \(32, 63\)"),
        ({"positions": "rotary"}, r"'positions' has the shapes \(16, 32\) and none"),
    ):
        shape = {**facts["recipe"]["shape"], **changed}
        (run / "run.json").write_text(json.dumps({**facts, "recipe": {**facts["recipe"], "shape": shape}}))
        with pytest.raises(FormatError, match=f"does not fit the model: {message}"):
            load_run(run, device="cpu").model  # noqa: B018


# ---- a run at work ----


def test_a_run_writes_the_same_at_once_in_pieces_and_in_a_batch(trained: Path) -> None:
    run = load_run(trained, device="cpu")
    text = run.generate("Ann looked for", max_new_tokens=20, seed=4)
    assert text
    assert "".join(run.stream("Ann looked for", max_new_tokens=20, seed=4)) == text
    batch = run.generate_batch(["the cat", "Ann looked for"], max_new_tokens=20, seed=3)
    assert batch[1].text == text
    with pytest.raises(SettingError, match="did you mean 'max_new_tokens'"):
        run.generate("Ann", max_tokens=3)


def test_a_run_writes_with_old_names_and_tells_the_new_ones(trained: Path) -> None:
    run = load_run(trained, device="cpu")
    with pytest.warns(FutureWarning, match="tokens is called max_new_tokens now") as told:
        assert run.generate("Ann", tokens=5) == run.generate("Ann", max_new_tokens=5)
    assert [warning.filename for warning in told] == [__file__]
    (one,) = run.generate_batch(["Ann"], max_new_tokens=5)
    with pytest.warns(FutureWarning, match="ended is called finish_reason now"):
        assert one.ended == one.finish_reason == "length"


def test_a_run_scores_and_embeds_texts(trained: Path) -> None:
    run = load_run(trained, device="cpu")
    texts = ["Ann looked for a silver key.", "the cat"]
    scored = run.score(texts)
    assert [one.ids for one in scored] == run.tokenizer.encode_batch(texts)
    assert all(one.mean is not None and -8 < one.mean < 0 for one in scored)
    assert run.embed(["Ann", "the cat"]).shape == (2, 32)


def test_a_fine_tuned_run_answers_rows_and_writes_too(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    labels = ("glad", "sad")
    moods = Task(name="moods", title="moods", shape=SINGLE, labels=labels, metrics=("accuracy",), fields=("text",))
    run = load_run(make_run(tmp_path, words_tokenizer, moods), device="cpu")
    (answer,) = run.predict([{"text": "Ann lost a key"}])
    assert answer["prediction"] in labels
    assert "<" not in run.generate("Ann", max_new_tokens=30)


@pytest.mark.skipif(not cpu_has_vnni(), reason="this CPU has no VNNI")
def test_a_run_in_int8_answers_nearly_the_same(trained: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    plain, small = (load_run(trained, device="cpu", int8=int8) for int8 in (False, True))
    (wanted,), (found,) = (run.score(["Ann sold a silver key."]) for run in (plain, small))
    assert found.log_probabilities != wanted.log_probabilities
    assert found.mean == pytest.approx(wanted.mean, abs=0.05)
    assert small.generate("Ann", max_new_tokens=5, temperature=0)
    make_run(tmp_path / "taught", words_tokenizer, CATALOGUE["sst2"])
    rows = [{"text": "Ann lost a key"}, {"text": "the cat sold nothing"}]
    one, other = (list(load_run(tmp_path / "taught", device="cpu", int8=int8).predict(rows)) for int8 in (False, True))
    for row, near in zip(one, other, strict=True):
        assert near["probabilities"]["1"] == pytest.approx(row["probabilities"]["1"], abs=0.2)
