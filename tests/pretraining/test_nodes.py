"""Pre-training in processes that come and go: more of them, fewer, a machine that is lost and comes back."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import torch

import gpt1
from gpt1.base.devices import device_name
from gpt1.base.errors import Interrupted
from gpt1.base.files import write_json
from gpt1.corpus.prepare import prepare
from gpt1.pretraining.pretrain import pretrain
from gpt1.records.run import Hardware
from gpt1.runs.checkpoints import MODEL_FILE, list_checkpoints
from gpt1.runs.folder import read_run
from tests.pretraining import ranks
from tests.processes import finish, kill, start
from tests.records import lines_in
from tests.waiting import eventually

PATH = os.pathsep.join(map(str, (Path(gpt1.__file__).parents[1], Path(__file__).parents[2])))
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
    "logging.sample_every=none",
    "logging.save_every=3",
)
TO_ROUNDING = 2e-5  # relative


def losses_of(run: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines_in(run / "metrics.jsonl") if "loss" in line}


def sizes_of(run: Path) -> dict[int, int]:
    """Return how many processes made each update of a run, the last time that it was made."""
    return dict(tuple(map(int, line.split())) for line in (run / ranks.SIZES_FILE).read_text().splitlines())


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    pretrain("tiny", corpus, run, changes=SETTINGS, device="cpu")
    return losses_of(run)


def launch(options: list[str], corpus: Path, run: Path, *changes: str) -> subprocess.Popen[str]:
    """Start torchrun; what its processes wait for stands in a plan beside the run."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", *options, ranks.__file__]
    words = [*torchrun, str(corpus), str(run), str(plan_of(run)), *SETTINGS, *changes]
    return start(words, PYTHONPATH=PATH, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")


def plan_of(run: Path) -> Path:
    return run.with_suffix(".plan")


def test_a_run_goes_on_in_more_processes_and_in_fewer(
    corpus: Path, tmp_path: Path, undisturbed: dict[int, float]
) -> None:
    run = tmp_path / "run"
    write_json(plan_of(run), {"stop_at": 3})
    with pytest.raises(Interrupted):
        pretrain("tiny", corpus, run, changes=SETTINGS, device="cpu", listeners=[ranks.Plan(run, plan_of(run))])
    for size, how, stop_at in ((2, "ddp", 7), (4, "fsdp", 11), (3, "fsdp", 15)):
        write_json(plan_of(run), {"stop_at": stop_at})
        options, way = ["--standalone", f"--nproc-per-node={size}"], f"training.parallelism={how}"
        _, errors = launch(options, corpus, run, way).communicate()
        assert "saved; the same again with `resume=True` goes on" in errors
        step, newest = list_checkpoints(run)[-1]
        assert stop_at <= step == max(losses_of(run)) < 20
        assert (newest / MODEL_FILE).exists() == (how == "ddp")
        assert len(list(newest.glob("model*"))) == (size if how == "fsdp" else 1)
    write_json(plan_of(run), {})
    listeners = [ranks.Plan(run, plan_of(run))]
    pretrain("tiny", corpus, run, changes=SETTINGS, resume=True, device="cpu", listeners=listeners)
    assert losses_of(run) == {step: pytest.approx(loss, rel=TO_ROUNDING) for step, loss in undisturbed.items()}
    assert [size for size, _ in groupby(sizes_of(run).values())] == [1, 2, 4, 3, 1]
    assert read_run(run).trained_on == Hardware(device_name(torch.device("cpu")), 1, at_once=2)


def test_a_machine_that_is_lost_is_done_without_and_comes_back(
    corpus: Path, tmp_path: Path, undisturbed: dict[int, float]
) -> None:
    run = tmp_path / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def machine(*, is_host: bool) -> subprocess.Popen[str]:
        meeting = f"--rdzv-endpoint=127.0.0.1:{port}"
        how = f"--rdzv-conf=is_host={str(is_host).lower()},last_call_timeout=1"
        options = ["--rdzv-backend=c10d", meeting, how, "--local-addr=127.0.0.1", "--nnodes=1:2", "--max-restarts=9"]
        return launch(options, corpus, run)

    def wait_for(size: int, step: int) -> None:
        def made() -> bool:
            assert host.poll() is None, host.communicate()[1]
            return (run / ranks.SIZES_FILE).exists() and max(at for at, of in history() if of == size) >= step

        eventually(made, f"update {step} in {size} processes")

    def history() -> list[tuple[int, int]]:
        lines = (run / ranks.SIZES_FILE).read_text().splitlines()
        return [(0, 1), (0, 2), *(tuple(map(int, line.split())) for line in lines)]

    write_json(plan_of(run), {"alone_until": 3, "together_until": 7})
    host, other = machine(is_host=True), machine(is_host=False)
    wait_for(size=2, step=7)
    kill(other)
    write_json(plan_of(run), {"alone_until": 12})
    wait_for(size=1, step=12)
    other = machine(is_host=False)
    finish(host)
    finish(other)
    assert losses_of(run) == {step: pytest.approx(loss, rel=TO_ROUNDING) for step, loss in undisturbed.items()}
    sizes = sizes_of(run)
    assert (sizes[5], sizes[12], sizes[20]) == (2, 1, 2)


TWO_MINDS = """
import os, sys
from gpt1 import pretrain
rank, (one, other, out, *changes) = int(os.environ["RANK"]), sys.argv[1:]
pretrain("tiny", (one, other)[rank], out, changes=[*changes, f"seed={rank}"], device="cpu")
"""


def test_processes_that_do_not_agree_tell_each_difference_before_the_first_step(corpus: Path, tmp_path: Path) -> None:
    other, script = tmp_path / "other", tmp_path / "two_minds.py"
    shutil.copytree(corpus, other)
    prepare([corpus.parent / "texts" / "1.txt"], other, tmp_path / "corpus", workers=1)
    script.write_text(TWO_MINDS)
    options = ["--standalone", "--nproc-per-node=2", str(script), str(corpus), str(tmp_path / "corpus")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *options, str(tmp_path / "run"), *SETTINGS]
    process = start(torchrun)
    _, errors = process.communicate()
    assert process.returncode != 0
    for name in ("the text", "the text for validation", "training.seed"):
        assert re.search(
            rf"^(\[rank\d\]: )?- {name} is \w+…? in process 0 of 2 \(on .*\), and \w+…? in process 1 of 2 ",
            errors,
            re.M,
        ), name
    assert "the tokenizer is" not in errors
    assert not (tmp_path / "run").exists()


ONE_AFTER_ANOTHER = """
import sys
from gpt1 import pretrain
corpus, out, *changes = sys.argv[1:]
for number, how in enumerate(("ddp", "fsdp", "fsdp")):
    own = [*changes, f"parallelism={how}", "steps=3", f"seed={number}"]
    pretrain("tiny", corpus, f"{out}/{number}", changes=own, device="cpu", rank_timeout=10 + number)
"""


@pytest.mark.parametrize("shared", ["0", "1"], ids=["the store is torchrun's", "the store is the first process's"])
def test_the_same_processes_may_train_one_run_after_another(corpus: Path, tmp_path: Path, shared: str) -> None:
    script = tmp_path / "one_after_another.py"
    script.write_text(ONE_AFTER_ANOTHER)
    options = ["--standalone", "--nproc-per-node=2", str(script), str(corpus), str(tmp_path), *SETTINGS]
    finish(start([sys.executable, "-m", "torch.distributed.run", *options], TORCH_DISABLE_SHARE_RDZV_TCP_STORE=shared))
    assert [list_checkpoints(tmp_path / number)[-1][0] for number in "012"] == [3, 3, 3]
