"""Two commands on one folder: one of them goes on, the other says why not, and nothing is destroyed.

The first runs in a process of its own and is stopped at one of its accesses to the folder, counted from its beginning;
then the second runs to its end, here; then the first goes on. So every order of the two can be made to happen.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gpt1.base.errors import Gpt1Error
from tests.conftest import SMALL_RUN, make_text

OFFSETS = 50
REFUSALS = (
    r"another command is at work in .*\(process \d+: .*\); wait for it or choose another folder",
    r"another command is writing .*\(process \d+: .*\); wait for it",
    r"is there already; choose another name, or replace it with `overwrite=True`",
    r"holds a run already; choose another folder, or go on with it by `resume=True`",
)
ACCESSES = ("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir")
FIRST = f"""
import json, os, sys
import tests.test_two_starts as own
from pathlib import Path
from gpt1.base.errors import Gpt1Error

verb, given, gate = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
count = 0

def stop_at_the_gate(event, arguments):
    global count
    if event in {ACCESSES} and arguments and str(given / "out") in str(arguments[0]):
        count += 1
        if count == gate:
            print("at the gate", flush=True)
            os.read(0, 1)

sys.addaudithook(stop_at_the_gate)
try:
    own.VERBS[verb].start(given)
    print(json.dumps(["done", count]))
except Gpt1Error as error:
    print(json.dumps([str(error), count]))
"""


@dataclass(frozen=True)
class Verb:
    """A command that reads what lies in a folder and writes `out` there."""

    start: Callable[[Path], None]
    again: bool  # whether a second one that finds what the first made ends well


# Each imports what it needs alone: a process that makes a tokenizer needs no torch.


def _prepare(given: Path) -> None:
    from gpt1.corpus.prepare import prepare

    prepare(given / "texts", given / "tokenizer.json", given / "out", workers=1)


def _train_tokenizer(given: Path) -> None:
    from gpt1.corpus.vocabularies import train_tokenizer

    train_tokenizer(given / "texts", "words", 50, given / "out", workers=1)


def _prepare_task(given: Path) -> None:
    from gpt1.tasks.preparing import prepare_task
    from gpt1.text.tokenizer import load_tokenizer

    prepare_task(str(given / "moods.csv"), load_tokenizer(given / "tokenizer.json"), given / "out")


def _pretrain(given: Path) -> None:
    from gpt1.pretraining.pretrain import pretrain

    pretrain("tiny", given / "corpus", given / "out", changes=[*SMALL_RUN, "training.steps=3"], device="cpu")


def _finetune(given: Path, seeds: int = 1) -> None:
    from gpt1.finetuning.finetune import finetune

    changes = ["training.steps=2", "training.precision=fp32"]
    finetune(given / "run", given / "out", train=given / "moods.csv", changes=changes, seeds=seeds, device="cpu")


def _finetune_seeds(given: Path) -> None:
    _finetune(given, seeds=2)


def _study(given: Path) -> None:
    from gpt1.finetuning.data import Source
    from gpt1.studies.finetuned import FinetuningSettings
    from gpt1.studies.labels import study_labels

    training = FinetuningSettings("finetune", ["training.steps=2", "training.precision=fp32"], "cpu", 1)
    study_labels(given / "run", given / "out", source=Source(train=given / "moods.csv"), training=training, counts=[4])


VERBS = {
    "prepare": Verb(_prepare, again=True),
    "tokenizer": Verb(_train_tokenizer, again=False),
    "task": Verb(_prepare_task, again=True),
    "pretrain": Verb(_pretrain, again=False),
    "finetune": Verb(_finetune, again=False),
    "seeds": Verb(_finetune_seeds, again=False),
    "study": Verb(_study, again=True),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, corpus: Path, trained: Path) -> Path:
    """All that the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "texts").mkdir()
    for seed in range(3):
        (folder / "texts" / f"{seed}.txt").write_text(make_text(30, seed))
    (folder / "tokenizer.json").write_bytes((corpus / "tokenizer.json").read_bytes())
    rows = [(f"It was {word} number {number}.", word) for number in range(8) for word in ("good", "bad")]
    (folder / "moods.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    (folder / "corpus").symlink_to(corpus)
    (folder / "run").symlink_to(trained)
    return folder


@pytest.fixture(scope="module")
def alone(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[int, dict[str, bytes]]]:
    """What tells the accesses of a command that is alone, and what it makes."""

    @cache
    def run(verb: str) -> tuple[int, dict[str, bytes]]:
        given = with_inputs(tmp_path_factory.mktemp(verb), inputs)
        how, count = end(first(verb, given, 0))
        assert how == "done"
        return count, contents(given / "out")

    return run


def with_inputs(folder: Path, inputs: Path) -> Path:
    for path in inputs.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


def first(verb: str, given: Path, gate: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "ignore", "-c", FIRST, verb, str(given), str(gate)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Let the first command go on, and return how it ended and how many accesses it made."""
    said, _ = process.communicate("x")
    assert process.returncode == 0
    how, count = json.loads(said.splitlines()[-1])
    return how, count


def contents(out: Path) -> dict[str, bytes]:
    """Return what was made, less what tells of times and places."""
    files = [out] if out.is_file() else [path for path in sorted(out.rglob("*")) if path.is_file()]
    same = (".safetensors", ".tok", ".crc32", ".encoded")
    kept = [path for path in files if path.suffix in same or path.name.startswith("predictions")]
    return {str(path.relative_to(out.parent)): path.read_bytes() for path in kept or files}


def assert_one_goes_on(verb: str, given: Path, gate: int, wanted: dict[str, bytes]) -> None:
    process = first(verb, given, gate)
    assert process.stdout is not None
    assert process.stdout.readline() == "at the gate\n"
    try:
        VERBS[verb].start(given)
        second = "done"
    except Gpt1Error as error:
        second = str(error)
    ends = [end(process)[0], second]
    refused = [how for how in ends if how != "done"]
    assert len(refused) == 1 or (VERBS[verb].again and not refused), ends
    assert all(any(re.search(refusal, how) for refusal in REFUSALS) for how in refused), ends
    assert contents(given / "out") == wanted
    assert [path.name for path in given.rglob("*.tmp")] == []


@pytest.mark.parametrize("offset", [2, 40])  # before the folder is held, and while it is
@pytest.mark.parametrize("verb", ["prepare", "tokenizer"])
def test_of_two_commands_on_one_folder_one_goes_on(
    tmp_path: Path, inputs: Path, alone: Callable[[str], tuple[int, dict[str, bytes]]], verb: str, offset: int
) -> None:
    count, wanted = alone(verb)
    assert_one_goes_on(verb, with_inputs(tmp_path, inputs), 1 + offset * (count - 1) // OFFSETS, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(OFFSETS))
@pytest.mark.parametrize("verb", VERBS)
def test_of_two_commands_on_one_folder_one_goes_on_whenever_the_second_begins(
    tmp_path: Path, inputs: Path, alone: Callable[[str], tuple[int, dict[str, bytes]]], verb: str, offset: int
) -> None:
    count, wanted = alone(verb)
    assert_one_goes_on(verb, with_inputs(tmp_path, inputs), 1 + offset * (count - 1) // OFFSETS, wanted)
