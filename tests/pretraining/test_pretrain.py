"""`pretrain` from end to end: what it writes, how it goes on, what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gpt1.base.devices import device_name
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.corpus.prepare import prepare
from gpt1.corpus.shards import HEADER, HEADER_BYTES, open_shard
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import load_run
from gpt1.pretraining import pretrain as module
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.records.run import Hardware
from gpt1.runs.checkpoints import MODEL_FILE, list_checkpoints, newest_checkpoint
from gpt1.runs.events import Event, Noticed
from gpt1.text.tokenizer import Tokenizer, load_tokenizer
from gpt1.training.trainer import Diverged
from tests.conftest import make_text
from tests.finetuning.tools import Told, make_pretrained
from tests.moments import changes_told, counted, signalled
from tests.pretraining.tools import add_sums, write_corpus
from tests.processes import finish, kill_after, start, wait_for_metrics
from tests.records import facts_in, lines_in

SETTINGS = (
    "shape.layers=2",
    "shape.width=32",
    "shape.heads=2",
    "shape.feed_forward=64",
    "shape.context=16",
    "shape.dropout=0.1",
    "training.batch=8",
    "training.steps=20",
    "training.precision=fp32",
    "logging.log_every=1",
    "logging.evaluate_every=10",
    "logging.sample_every=10",
    "logging.save_every=3",
    "logging.keep=3",
)


def losses_of(run: Path) -> dict[int, float]:
    lines = lines_in(run / "metrics.jsonl")
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    _, newest = list_checkpoints(run)[-1]
    return {name: tensor for file in newest.glob("*.safetensors") for name, tensor in load_file(file).items()}


def assert_same_run(one: Path, other: Path) -> None:
    assert losses_of(one) == losses_of(other)
    left, right = weights_of(one), weights_of(other)
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    for file in ("samples.jsonl", "attention.json"):
        assert (one / file).read_bytes() == (other / file).read_bytes()


@pytest.fixture(scope="module")
def unbroken(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "unbroken"
    pretrain("tiny", corpus, run, changes=SETTINGS, device="cpu")
    return run


def test_a_run_folder_holds_all_one_needs(unbroken: Path, corpus: Path) -> None:
    run = load_run(unbroken, device="cpu")
    assert run.record.kind == "pretraining"
    assert run.recipe.name == "tiny"
    assert run.recipe.shape.width == 32
    assert run.record.trained_on == Hardware(device_name(torch.device("cpu")), 1, at_once=8)
    logs = {"metrics.jsonl", "samples.jsonl", "attention.json", "events.jsonl", "log.txt"}
    files = {"tokenizer.json", "run.json", *logs, "checkpoints"}
    assert {path.name for path in unbroken.iterdir()} == files
    assert list(losses_of(unbroken)) == list(range(1, 21))
    assert losses_of(unbroken)[20] < losses_of(unbroken)[1] - 0.3
    samples = lines_in(unbroken / "samples.jsonl")
    assert [sample["step"] for sample in samples] == [10, 10, 20, 20]
    assert all(sample["prompt"] and sample["text"] for sample in samples)
    assert run.tokenizer.fingerprint == run.record.tokenizer
    assert run.checkpoint.step == 20  # evaluated after 10 and 20 updates, and better by then


def test_the_same_command_gives_the_same_run(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    pretrain("tiny", corpus, tmp_path / "again", changes=SETTINGS, device="cpu")
    assert_same_run(unbroken, tmp_path / "again")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "state"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_it_is_used(
    unbroken: Path, corpus: Path, tmp_path: Path, damage: str
) -> None:
    run = tmp_path / "run"
    _copy(unbroken, run)
    step, newest = list_checkpoints(run)[-1]
    before = list_checkpoints(run)[-2][0]
    file = newest / ("state.json" if damage == "state" else MODEL_FILE)
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[:-100])
    else:
        content[content.index(b"progress") if damage == "state" else len(content) // 2] ^= 4
        file.write_bytes(content)
    said: list[str] = []
    pretrain(None, corpus, run, resume=True, device="cpu", listeners=[lambda event: _note(event, said)])
    (told,) = [line for line in said if f"step-{step:08}" in line]
    assert "is damaged" in told
    assert told.endswith("the checkpoint before it")
    assert any(f"going on from update {before} of 20" in line for line in said)
    assert_same_run(unbroken, run)


def _note(event: Event, said: list[str]) -> None:
    if isinstance(event, Noticed):
        said.append(event.text)


def _copy(run: Path, to: Path) -> None:
    subprocess.run(["cp", "-r", str(run), str(to)], check=True)


def test_a_finished_run_resumed_is_left_as_it_is(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    _copy(unbroken, tmp_path / "run")
    pretrain(None, corpus, tmp_path / "run", resume=True, device="cpu")
    assert_same_run(unbroken, tmp_path / "run")


def test_a_run_can_be_made_longer(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    _copy(unbroken, tmp_path / "run")
    pretrain(None, corpus, tmp_path / "run", resume=True, changes=["training.steps=24"], device="cpu")
    assert list_checkpoints(tmp_path / "run")[-1][0] == 24


def test_resume_refuses_another_text_another_tokenizer_and_another_network(
    unbroken: Path, corpus: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(make_text(200, seed=99))
    prepare([other], corpus, tmp_path / "other", valid=0.0, workers=1)
    with pytest.raises(InputError, match="holds other text than the run"):
        pretrain(None, tmp_path / "other", unbroken, resume=True, device="cpu")
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    prepare([other], tmp_path / "tokenizer.json", tmp_path / "bytes", valid=0.0, workers=1)
    with pytest.raises(InputError, match="another tokenizer"):
        pretrain(None, tmp_path / "bytes", unbroken, resume=True, device="cpu")
    with pytest.raises(SettingError, match=r"shape.width is 32 in the run .* and 64 now"):
        pretrain(None, corpus, unbroken, resume=True, changes=["shape.width=64"], device="cpu")
    with pytest.raises(SettingError, match=r"training.batch is 8"):
        pretrain(None, corpus, unbroken, resume=True, changes=["batch=4"], device="cpu")


def test_a_folder_with_a_run_is_not_overwritten(unbroken: Path, corpus: Path) -> None:
    with pytest.raises(InputError, match=r"holds a run already; .*go on with it by `resume=True`"):
        pretrain("tiny", corpus, unbroken, changes=SETTINGS, device="cpu")


def test_a_run_that_came_to_be_while_another_began_is_not_overwritten(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, make_model = tmp_path / "run", module.PretrainSession.make_model

    def meanwhile(*given: Any) -> Any:  # between looking at the folder and holding it
        monkeypatch.setattr(module.PretrainSession, "make_model", make_model)
        pretrain("tiny", corpus, run, changes=SETTINGS, device="cpu")
        before.update(contents(run))
        return make_model(*given)

    before: dict[str, bytes] = {}
    monkeypatch.setattr(module.PretrainSession, "make_model", meanwhile)
    with pytest.raises(InputError, match=r"holds a run already; .*go on with it by `resume=True`"):
        pretrain("tiny", corpus, run, changes=SETTINGS, device="cpu")
    assert contents(run) == before


def test_a_run_that_went_on_while_another_began_is_not_overwritten(
    unbroken: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, make_model = tmp_path / "run", module.PretrainSession.make_model
    shutil.copytree(unbroken, run)

    def meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(module.PretrainSession, "make_model", make_model)
        pretrain(None, corpus, run, resume=True, changes=["training.steps=22"], device="cpu")
        before.update(contents(run))
        return make_model(*given)

    before: dict[str, bytes] = {}
    monkeypatch.setattr(module.PretrainSession, "make_model", meanwhile)
    with pytest.raises(InputError, match=r"another command was at work in .* while this one began"):
        pretrain(None, corpus, run, resume=True, changes=["training.steps=25"], device="cpu")
    assert contents(run) == before


def test_what_a_kill_after_a_save_left_is_removed_when_the_finished_run_is_resumed(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(unbroken, run)
    steps = [step for step, _ in list_checkpoints(run)]
    shutil.copytree(list_checkpoints(run)[0][1], run / "checkpoints" / "step-00000001")  # as if not yet rotated away
    (run / "checkpoints.removed.123.tmp").mkdir()
    (run / "checkpoints" / "step-00000002.123.tmp").mkdir()
    pretrain(None, corpus, run, resume=True, device="cpu")
    assert [step for step, _ in list_checkpoints(run)] == steps
    assert list(run.rglob("*.tmp")) == []


def test_nothing_is_made_where_the_corpus_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        pretrain("tiny", tmp_path / "nowhere", tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_training_can_begin_with_another_runs_weights(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    run = pretrain(
        None, corpus, tmp_path / "adapted", init=unbroken, changes=["steps=3", "optimizer.lr=1e-4"], device="cpu"
    )
    assert run.record.parent == str(unbroken.resolve())
    assert losses_of(tmp_path / "adapted")[1] < losses_of(unbroken)[1] - 0.3
    with pytest.raises(SettingError, match=r"shape.layers is decided by"):
        pretrain("tiny", corpus, tmp_path / "no", init=unbroken, changes=["layers=3"], device="cpu")


def test_a_base_with_rotary_positions_goes_on_reading_farther_than_it_did(
    corpus: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    near = make_pretrained(tmp_path / "near", words_tokenizer, "shape.positions=rotary")
    far = ["shape.context=64", "shape.window=8", "shape.global_tokens=1"]
    steps = ["steps=2", "batch=4", "precision=fp32"]
    run = pretrain(None, corpus, tmp_path / "far", init=near, changes=[*steps, *far], device="cpu")
    shape = run.recipe.shape
    assert (shape.context, shape.window, shape.global_tokens) == (64, 8, 1)
    again = pretrain(None, corpus, tmp_path / "far", resume=True, changes=["steps=3"], device="cpu")
    assert again.recipe.shape == shape
    text = " ".join(["a silver key"] * 10)
    (tmp_path / "rows.csv").write_text("text,label\n" + f"{text},1\nan umbrella,0\n" * 4)
    learning = ["training.steps=1", "finetuning.windows=off"]
    tuned = finetune(run.path, tmp_path / "tuned", train=tmp_path / "rows.csv", changes=learning, device="cpu")
    assert tuned.recipe.shape.global_tokens == 1
    assert tuned.classifier.body.specials == 3
    assert len(list(tuned.predict([{"text": text}]))) == 1


def test_a_base_with_learned_positions_may_look_less_far_but_reads_no_more_at_once(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    changes = ["steps=1", "window=4"]
    assert pretrain(None, corpus, tmp_path / "run", init=unbroken, changes=changes, device="cpu").recipe.shape.window
    with pytest.raises(SettingError, match=r"shape.context is decided by"):
        pretrain(None, corpus, tmp_path / "no", init=unbroken, changes=["context=64"], device="cpu")


def test_a_fine_tuned_run_goes_on_reading_without_its_heads(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "good day,1\nbad day,0\n" * 2)
    settings = ["training.steps=1", "optimizer.lr=1e-30"]
    tuned = finetune(unbroken, tmp_path / "a", train=tmp_path / "rows.csv", changes=settings, device="cpu").path
    with pytest.raises(SettingError, match=r"a was fine-tuned, with a recipe .* name one with `recipe`"):
        pretrain(None, corpus, tmp_path / "no", init=tuned, device="cpu")
    assert not (tmp_path / "no").exists()
    told = Told()
    more = ["steps=3", "batch=8", "precision=fp32", "logging.log_every=1"]
    for init, name in ((unbroken, "own"), (tuned, "tuned")):
        pretrain("tiny", corpus, tmp_path / name, init=init, changes=more, device="cpu", listeners=[told])
    assert losses_of(tmp_path / "tuned") == pytest.approx(losses_of(tmp_path / "own"), abs=1e-5)
    assert "without its heads for rows and its special tokens" in told


def test_a_run_whose_parent_is_gone_before_anything_was_saved_says_what_helps(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("killed while it began")

    parent, run = shutil.copytree(unbroken, tmp_path / "parent"), tmp_path / "run"
    with pytest.raises(RuntimeError):
        pretrain(None, corpus, run, init=parent, changes=["steps=3"], device="cpu", listeners=[fail])
    parent.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"was begun from .*parent, which is no run now, and nothing was saved yet"):
        pretrain(None, corpus, run, resume=True, device="cpu")
    (tmp_path / "moved").rename(parent)
    assert pretrain(None, corpus, run, resume=True, device="cpu").checkpoint.step == 3


def test_a_full_disk_is_a_clear_error_and_the_checkpoints_before_it_stay(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    """A limit on the size of files stands in for the full disk: the same system call fails, for real."""
    run = tmp_path / "run"
    _copy(unbroken, run)
    before = list_checkpoints(run)
    size = max(file.stat().st_size for file in before[-1][1].iterdir())
    script = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2}, {size // 2}));"
        f"from gpt1.cli import main; main(['pretrain', '--corpus', {str(corpus)!r}, '--out', {str(run)!r}, '--resume',"
        "'--steps', '30', '--device', 'cpu'])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "cannot write" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list_checkpoints(run) == before
    assert newest_checkpoint(run, pytest.fail) is not None
    pretrain(None, corpus, run, resume=True, changes=["training.steps=30"], device="cpu")


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_killed_while_it_began_can_be_begun_again(corpus: Path, tmp_path: Path, resume: bool) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copyfile(corpus / "tokenizer.json", run / "tokenizer.json")
    (run / "run.json.77.tmp").write_text("{")
    pretrain("tiny", corpus, run, changes=[*SETTINGS, "steps=1"], resume=resume, device="cpu")
    assert not list(run.glob("*.tmp"))
    assert list(losses_of(run)) == [1]


def test_a_folder_with_another_tokenizer_is_not_written_to(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(tokenizer.json\)"):
        pretrain("tiny", corpus, tmp_path, changes=SETTINGS, device="cpu")
    assert (tmp_path / "tokenizer.json").read_text() == "mine"


def test_a_run_without_a_whole_checkpoint_is_refused_and_keeps_what_it_told(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    _copy(unbroken, run)
    for _, path in list_checkpoints(run):
        (path / MODEL_FILE).write_bytes(b"")
    before = (run / "metrics.jsonl").read_text()
    said: list[str] = []
    with pytest.raises(InputError, match="has no whole checkpoint to go on from"):
        pretrain(None, corpus, run, resume=True, device="cpu", listeners=[lambda event: _note(event, said)])
    assert "there is none before it" in said[-1]
    assert (run / "metrics.jsonl").read_text() == before


def test_spoilt_lines_of_the_metrics_do_not_stop_a_run(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    _copy(unbroken, tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(b'garbage\n[]\n{}\n{"step": "x"}\n\0\0\0\n{"step": 20, "lo')
    pretrain(None, corpus, tmp_path / "run", resume=True, device="cpu")
    assert_same_run(unbroken, tmp_path / "run")


def test_a_start_that_fails_leaves_the_folder_free(
    unbroken: Path, corpus: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    (tmp_path / "other.txt").write_text(make_text(200, seed=99))
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    prepare([tmp_path / "other.txt"], tmp_path / "tokenizer.json", tmp_path / "bytes", valid=0.0, workers=1)
    with pytest.raises(InputError, match="another tokenizer"):
        pretrain(None, tmp_path / "bytes", tmp_path / "run", init=unbroken, changes=["steps=2"], device="cpu")
    pretrain(None, corpus, tmp_path / "run", init=unbroken, changes=["steps=2"], device="cpu")


def test_an_update_that_ruins_the_weights_is_never_saved(corpus: Path, tmp_path: Path) -> None:
    ruin = ("optimizer.lr=1e38", "schedule.kind=constant", "warmup_share=0", "steps=3")
    with pytest.raises(Diverged):
        pretrain("tiny", corpus, tmp_path / "run", changes=[*SETTINGS, *ruin], device="cpu")
    saved = newest_checkpoint(tmp_path / "run", pytest.fail)
    assert saved is not None
    assert all(torch.isfinite(tensor).all() for tensor in saved.model.values())


def test_a_corpus_with_ids_beyond_the_vocabulary_is_damaged(corpus: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(corpus), str(tmp_path / "corpus")], check=True)
    shard = next((tmp_path / "corpus").glob("train-*.tok"))
    content = bytearray(shard.read_bytes())
    content[200:4200] = b"\xff" * 4000
    shard.write_bytes(content)
    rewrite_checksums(tmp_path / "corpus")
    with pytest.raises(FormatError, match=r"the corpus .* is damaged: it holds token 65535 of"):
        pretrain("tiny", tmp_path / "corpus", tmp_path / "run", changes=SETTINGS, device="cpu")


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_shard_of_noise_is_named_before_anything_is_trained_or_measured(
    unbroken: Path, corpus: Path, tmp_path: Path, split: str
) -> None:
    damaged, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(corpus, damaged)
    shutil.copytree(unbroken, run)
    shard = damaged / f"{split}-00000.tok"
    content = shard.read_bytes()
    tokens = len(open_shard(shard).ids)
    noise = np.random.default_rng(0).integers(0, 200, tokens).astype("<u2").tobytes()
    shard.write_bytes(content[:HEADER_BYTES] + noise + content[HEADER_BYTES + len(noise) :])
    told = pytest.raises(FormatError, match=rf"{split}-00000\.tok is damaged: bytes 128 to .* do not match")
    with told:
        pretrain("tiny", damaged, tmp_path / "new", changes=SETTINGS, device="cpu")
    assert not (tmp_path / "new").exists()
    before = contents(run)
    with told:
        pretrain(None, damaged, run, resume=True, changes=["training.steps=25"], device="cpu")
    with told:
        measure_corpus(load_run(run, device="cpu"), damaged, split)
    assert contents(run) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rewrite_checksums(corpus: Path) -> None:
    """Make a corpus whole again after its shards were changed."""
    described = facts_in(corpus / "corpus.json")
    for split in described["splits"].values():
        for shard in split["shards"]:
            path = corpus / shard["file"]
            content = path.read_bytes()
            digest = hashlib.sha256(content[HEADER_BYTES:])
            path.write_bytes(content[: HEADER.size - 32] + digest.digest() + content[HEADER.size :])
            shard["sha256"] = digest.hexdigest()
    (corpus / "corpus.json").write_text(json.dumps(described))
    add_sums(corpus)


def test_nobody_listening_any_more_does_not_end_a_training(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = " ".join(f"'{word}'" for word in command(corpus, run))
    ended = subprocess.run(["bash", "-c", f"{arguments} 2>&1 >/dev/null | head -1"], check=False, capture_output=True)
    assert ended.stdout
    assert list_checkpoints(run)[-1][0] == 20


def test_a_run_with_anothers_weights_killed_before_its_first_checkpoint_still_begins_with_them(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    adapted, again = tmp_path / "adapted", tmp_path / "again"
    pretrain(None, corpus, adapted, init=unbroken, changes=["steps=2"], device="cpu")
    again.mkdir()
    for name in ("run.json", "tokenizer.json"):
        shutil.copyfile(adapted / name, again / name)
    pretrain(None, corpus, again, resume=True, device="cpu")
    assert_same_run(adapted, again)


def test_a_run_goes_on_only_with_the_parent_that_it_was_begun_from(
    unbroken: Path, corpus: Path, tmp_path: Path
) -> None:
    adapted = tmp_path / "adapted"
    pretrain(None, corpus, adapted, init=unbroken, changes=["steps=1"], device="cpu")
    other = shutil.copytree(unbroken, tmp_path / "other")
    with pytest.raises(SettingError, match=r"adapted was begun from .*, not from .*other: .*; leave `init` out, or"):
        pretrain(None, corpus, adapted, init=other, resume=True, changes=["steps=2"], device="cpu")
    with pytest.raises(SettingError, match=r"other was begun from no run, not from .*adapted"):
        pretrain(None, corpus, other, init=adapted, resume=True, device="cpu")
    pretrain(None, corpus, adapted, init=unbroken, resume=True, changes=["steps=2"], device="cpu")
    assert list_checkpoints(adapted)[-1][0] == 2


def test_a_validation_text_of_one_token_is_none(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    shutil.copyfile(corpus / "tokenizer.json", folder / "tokenizer.json")
    own = load_tokenizer(folder)
    splits = {"train": [1, 2, 3] * 50, "valid": [1]}
    write_corpus(folder, splits, vocab_size=own.vocab_size, fingerprint=own.fingerprint)
    pretrain("tiny", folder, tmp_path / "run", changes=[*SETTINGS, "steps=10"], device="cpu")
    assert "valid_loss" not in (tmp_path / "run" / "metrics.jsonl").read_text()


# ---- processes ----


def command(corpus: Path, run: Path, *more: str, ranks: int = 1) -> list[str]:
    start = [sys.executable, "-m", "gpt1"]
    if ranks > 1:
        start = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
            "-m",
            "gpt1",
        ]
    settings = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
    return [
        *start,
        "pretrain",
        "--recipe",
        "tiny",
        "--corpus",
        str(corpus),
        "--out",
        str(run),
        *settings,
        "--device",
        "cpu",
    ]


def test_two_ranks_give_the_losses_of_one_sharded_or_not(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    for how in ("ddp", "fsdp"):
        finish(start(command(corpus, tmp_path / how, f"training.parallelism={how}", ranks=2)))
        losses, wanted = losses_of(tmp_path / how), losses_of(unbroken)
        assert losses == {step: pytest.approx(loss, rel=2e-5) for step, loss in wanted.items()}
        assert load_run(tmp_path / how, device="cpu").model.tokens.shape == (load_run(unbroken).record.vocab_size, 32)
        looks, alone = (json.loads((run / "attention.json").read_bytes()) for run in (tmp_path / how, unbroken))
        assert looks["tokens"] == alone["tokens"]
        np.testing.assert_allclose(_flat(looks["weights"]), _flat(alone["weights"]), atol=2e-3)


def _flat(weights: list[list[list[list[float]]]]) -> list[float]:
    return [share for layer in weights for head in layer for row in head for share in row]


def test_a_run_begun_on_two_ranks_goes_on_on_one(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    finish(start(command(corpus, tmp_path / "run", "training.parallelism=fsdp", "training.steps=9", ranks=2)))
    pretrain(None, corpus, tmp_path / "run", resume=True, changes=["training.steps=20"], device="cpu")
    assert list_checkpoints(tmp_path / "run")[-1][0] == 20


KILLED = """
import os, signal, sys
from gpt1 import pretrain
from gpt1.records.run import Hardware
from gpt1.runs.events import Saved

corpus, out, step, *changes = sys.argv[1:]

def kill(event):
    if isinstance(event, Saved) and event.step == int(step):
        os.kill(os.getpid(), signal.SIGKILL)

pretrain("tiny", corpus, out, changes=changes, device="cpu", listeners=[kill])
"""


def test_a_run_is_not_made_shorter_than_it_is(unbroken: Path, corpus: Path) -> None:
    before = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    for fewer in (["training.steps=7"], ["training.steps=none", "training.epochs=0.01"]):
        with pytest.raises(
            SettingError, match=rf"has made 20 updates; {fewer[-1]} makes \d, which is fewer; name a greater"
        ):
            pretrain("tiny", corpus, unbroken, changes=[*SETTINGS, *fewer], resume=True, device="cpu")
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before


def test_a_killed_run_goes_on_bit_for_bit(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(corpus), str(run), "6", *SETTINGS], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list_checkpoints(run)[-1][0] >= 6
    pretrain("tiny", corpus, run, changes=SETTINGS, resume=True, device="cpu")
    assert_same_run(unbroken, run)


def test_a_killed_run_keeps_the_same_weights_for_its_curve(corpus: Path, tmp_path: Path) -> None:
    settings = [*SETTINGS, "logging.keep=1", "logging.keep_weights=3"]
    pretrain("tiny", corpus, tmp_path / "whole", changes=settings, device="cpu")
    run = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(corpus), str(run), "12", *settings], check=False)
    assert killed.returncode == -signal.SIGKILL
    pretrain("tiny", corpus, run, changes=settings, resume=True, device="cpu")
    assert_same_run(tmp_path / "whole", run)
    curves = [weights_along(path) for path in (tmp_path / "whole", run)]
    assert list(curves[0]) == [0, 3, 6, 12, 20]
    assert curves[0] == curves[1]
    assert not any((path / "optimizer.safetensors").exists() for _, path in list_checkpoints(run)[:-1])


def weights_along(run: Path) -> dict[int, bytes]:
    return {step: (path / "model.safetensors").read_bytes() for step, path in list_checkpoints(run)}


def test_a_lost_rank_ends_the_job_with_a_clear_message_and_it_can_go_on(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(command(corpus, run, "training.steps=100000", ranks=2))
    wait_for_metrics(process, run)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "process 0 cannot go on: process 1 of 2 (on " in errors
    assert "--resume" in errors
    assert newest_checkpoint(run, lambda text: None) is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_command_saved_and_it_says_how_to_go_on(
    unbroken: Path, corpus: Path, tmp_path: Path, number: int
) -> None:
    run = tmp_path / "run"
    process = start(command(corpus, run, "training.steps=100000"))
    wait_for_metrics(process, run)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "saved; the same again with --resume goes on" in errors
    assert list_checkpoints(run)[-1][0] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "ranks"), [((), 1), (("training.micro_batch=3",), 1), ((), 2)], ids=["whole", "accumulated", "two ranks"]
)
def test_runs_killed_at_ten_random_moments_go_on_bit_for_bit(
    corpus: Path, tmp_path: Path, more: tuple[str, ...], ranks: int
) -> None:
    whole = tmp_path / "whole"
    words = command(corpus, whole, *more, ranks=ranks)
    _, errors = finish(start(words if ranks > 1 else counted(whole, *words[1:])))
    draw = random.Random(ranks)
    for point in range(10):
        run = tmp_path / f"run{point}"
        words = command(corpus, run, *more, ranks=ranks)
        if ranks > 1:
            kill_after(start(words), run, draw.randint(0, 19))
        else:
            killed = start(signalled(draw.randint(1, changes_told(errors)), run, signal.SIGKILL, *words[1:]))
            killed.communicate()
            assert killed.returncode == -signal.SIGKILL
        finish(start([*words, "--resume"]))
        assert_same_run(whole, run)


def test_a_recipe_of_ones_own_is_found(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_recipes.py").write_text(
        "from dataclasses import replace\nfrom gpt1.recipes.catalog import TINY\nMINE = replace(TINY, name='mine')\n"
    )
    monkeypatch.chdir(tmp_path)
    run = pretrain("my_recipes:MINE", corpus, tmp_path / "run", changes=[*SETTINGS, "steps=2"], device="cpu")
    assert run.recipe.name == "mine"


def test_a_state_of_another_shape_is_refused(unbroken: Path, corpus: Path, tmp_path: Path) -> None:
    _copy(unbroken, tmp_path / "run")
    facts = facts_in(tmp_path / "run" / "run.json")
    facts["recipe"]["shape"]["width"] = 64
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    with pytest.raises(FormatError, match=r"do not belong together: shape\.width is 64, and was 32"):
        load_run(tmp_path / "run", device="cpu").model  # noqa: B018
