"""What belongs together in a run's folder, and is noticed when it does not: weights, run.json, tokenizer, labels."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import FormatError
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.transfer import find_source
from gpt1.inference.run import find_checkpoint, load_run
from gpt1.records.seeds import SeedsResult
from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from gpt1.runs.folder import made_for, read_run, run_tokenizer
from gpt1.studies.material import open_start
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, train_words
from gpt1.training.session import checkpoint_to_resume
from tests.conftest import make_text
from tests.finetuning.tools import encode, make_pretrained, make_task
from tests.inference.tools import make_run
from tests.records import facts_in

MOODS = make_task(labels=("bad", "good"))


@pytest.fixture
def run(tmp_path: Path, words_tokenizer: Tokenizer) -> Path:
    """A fine-tuned run whose checkpoint remembers what it was made for."""
    return remembering(make_run(tmp_path / "run", words_tokenizer, MOODS))


def remembering(run: Path) -> Path:
    for _, path in list_checkpoints(run):
        found = load_checkpoint(path)
        save_checkpoint(run, found.step, found.model, {}, found.progress, made_for(read_run(run)))
    return run


def edit(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    facts = facts_in(run / "run.json")
    change(facts)
    (run / "run.json").write_text(json.dumps(facts))


def other_words(tokens: int, seed: int) -> Tokenizer:
    counter = WordCounter()
    return train_words(counter.count([make_text(2000, seed=seed) + " zebra quartz " * 50]), merges=tokens)


def answer(run: Path) -> object:
    return list(load_run(run, device="cpu").predict([{"text": "Ann sold hats"}]))


USES: dict[str, Callable[[Path], object]] = {
    "predict": answer,
    "generate": lambda run: load_run(run, device="cpu").generate("Ann", max_new_tokens=1),
    "score": lambda run: load_run(run, device="cpu").score(["Ann"]),
    "embed": lambda run: load_run(run, device="cpu").embed(["Ann"]),
    "study": lambda run: open_start(run),
    "data": run_tokenizer,
}


@pytest.mark.parametrize("use", USES)
def test_a_tokenizer_of_another_run_is_refused_by_every_use(run: Path, use: str) -> None:
    USES[use](run)
    other_words(100, seed=9).save(run / "tokenizer.json", overwrite=True)
    with pytest.raises(FormatError, match=r"tokenizer\.json is not the tokenizer that .*run was trained with"):
        USES[use](run)


def test_a_fine_tuning_does_not_start_from_a_run_with_another_tokenizer(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    init = make_pretrained(tmp_path / "init", words_tokenizer)
    other_words(100, seed=9).save(init / "tokenizer.json", overwrite=True)
    with pytest.raises(FormatError, match="is not the tokenizer that"):
        finetune(init, tmp_path / "out", encoded=encode(MOODS, words_tokenizer), device="cpu")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_with_more_words_than_the_network_is_refused_in_a_run_without_fingerprint(run: Path) -> None:
    edit(run, lambda facts: facts.pop("tokenizer"))
    larger = other_words(600, seed=0)
    larger.save(run / "tokenizer.json", overwrite=True)
    wanted = read_run(run).vocab_size
    with pytest.raises(FormatError, match=f"has {larger.vocab_size:,} tokens, the network of .* knows {wanted:,}"):
        answer(run)


def test_a_run_of_before_which_remembers_nothing_is_used(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = make_run(tmp_path / "run", words_tokenizer, MOODS)
    edit(run, lambda facts: facts.pop("tokenizer"))
    assert answer(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts["tasks"]["moods"]["labels"].reverse(), r'tasks\.moods\.labels is \["good", "bad"\]'),
        (lambda facts: facts["tasks"]["moods"].update(labels=["bad", "fine"]), r"tasks\.moods\.labels"),
        (lambda facts: facts["tasks"].update(other=facts["tasks"].pop("moods")), r"tasks\.moods"),
        (lambda facts: facts["recipe"]["shape"].update(activation="relu2"), r"shape\.activation is \"relu2\""),
        (lambda facts: facts.update(tokenizer="0" * 64), r"tokenizer is"),
    ],
)
def test_facts_that_were_changed_by_hand_do_not_go_with_the_weights(
    run: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    edit(run, change)
    for use in (lambda: find_checkpoint(run, "best"), lambda: checkpoint_to_resume(run, lambda text: None)):
        with pytest.raises(FormatError, match=f"do not belong together: {message}"):
            use()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, run: Path, words_tokenizer: Tokenizer) -> None:
    turned = make_task(labels=("good", "bad"))
    other = remembering(make_run(tmp_path / "other", words_tokenizer, turned, seed=1))
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    with pytest.raises(FormatError, match="do not belong together"):
        answer(run)


def test_training_makes_checkpoints_remember_their_run(trained: Path) -> None:
    for _, path in list_checkpoints(trained):
        assert load_checkpoint(path).made_for == made_for(read_run(trained))


def with_shape(run: Path, **shape: object) -> None:
    """Let each checkpoint remember a shape of these settings besides, None for none of that name."""
    for step, path in list_checkpoints(run):
        found = load_checkpoint(path)
        new = {name: value for name, value in {**found.made_for["shape"], **shape}.items() if value is not None}
        save_checkpoint(run, step, found.model, {}, found.progress, {**found.made_for, "shape": new})


def test_what_a_checkpoint_remembers_under_an_old_name_is_compared_under_the_new_one(run: Path) -> None:
    kept = read_run(run).recipe.shape.init_std
    with_shape(run, init_std=None, initial_deviation=kept)
    assert answer(run)
    with_shape(run, init_std=None, initial_deviation=2 * kept)
    with pytest.raises(FormatError, match=r"do not belong together: shape\.init_std is"):
        answer(run)


def test_a_checkpoint_that_remembers_both_names_of_a_setting_is_damaged(run: Path) -> None:
    with_shape(run, initial_deviation=0.02)
    with pytest.raises(FormatError, match=r"step-\d+ is damaged: .*initial_deviation.* are two names of one setting"):
        answer(run)


# ---- weights ----


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_refused_before_anything_is_computed(run: Path, value: float) -> None:
    ((step, path),) = list_checkpoints(run)
    found = load_checkpoint(path)
    found.model["body.final_norm.weight" if "body.final_norm.weight" in found.model else "body.tokens"].view(-1)[-1] = (
        value
    )
    save_checkpoint(run, step, found.model, {}, found.progress, found.made_for)
    shape = read_run(run).recipe.shape
    for use in (
        lambda: load_run(run, device="cpu").network,
        lambda: find_source(run, shape, None),
        lambda: answer(run),
    ):
        with pytest.raises(FormatError, match=r"step-\d+ cannot be used: 'body\..*' holds weights that are no numbers"):
            use()


@pytest.mark.parametrize("content", [b"", b"text", b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}", b"{}" * 40])
def test_a_file_that_holds_no_tensors_is_refused_though_its_checksum_matches(run: Path, content: bytes) -> None:
    import hashlib

    ((_, path),) = list_checkpoints(run)
    (path / "model.safetensors").write_bytes(content)
    state = json.loads((path / "state.json").read_text())
    del state["sha256"]
    state["files"]["model.safetensors"] = hashlib.sha256(content).hexdigest()
    state["sha256"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(FormatError, match=r"is damaged: model\.safetensors holds no tensors"):
        load_checkpoint(path)


# ---- ways out of the folder ----


@pytest.mark.parametrize("best", ["../elsewhere", "/tmp", "", ".", None, ["seed-0"], "seed-0/../.."])
def test_the_best_seed_is_a_folder_of_its_own(tmp_path: Path, best: object) -> None:
    (tmp_path / "seeds.json").write_text(json.dumps({**SeedsResult("", {}, {}).as_json(), "best": best}))
    with pytest.raises(FormatError, match=r"seeds\.json is damaged: best is"):
        load_run(tmp_path, device="cpu")


def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(run: Path) -> None:
    (run / "tokenizer.json").unlink()
    os.mkfifo(run / "tokenizer.json")
    with pytest.raises(Exception, match=r"tokenizer\.json is not a file"):
        answer(run)
