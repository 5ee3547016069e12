"""The page on upgrading names every format that is read, in the version that is read; a run that was moved answers."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpt1
from gpt1.base.record_files import Record
from gpt1.cli.app import main
from gpt1.corpus import shards
from gpt1.inference import answer_files
from gpt1.runs import checkpoints
from gpt1.tasks import encoded

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "upgrading.md"
WORLD = ROOT / "tests" / "golden" / "formats" / "world"
ROW = re.compile(r"^\| .+? \| (gpt1[\w-]*) (\d+) \| .+? \| .*? ?\|$", re.MULTILINE)


def kinds(kind: type[Record]) -> Iterator[type[Record]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds(one)


def formats() -> dict[str, int]:
    """Return every format and its version; one that says none is of the first."""
    for module in pkgutil.walk_packages(gpt1.__path__, "gpt1."):
        if not module.name.startswith("gpt1.model.kernels.") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    own = [one for one in kinds(Record) if one.FORMAT and one.__module__.startswith("gpt1.")]
    found = {one.FORMAT: one.VERSION or 1 for one in own}
    for files in (checkpoints, encoded, answer_files):
        found[files.FORMAT] = files.VERSION
    return {**found, shards.MAGIC.decode().strip(): shards.VERSION}


def test_every_format_stands_on_the_page_in_its_version() -> None:
    told = {name: int(version) for name, version in ROW.findall(PAGE.read_text())}
    assert told == formats()


def test_a_run_answers_wherever_it_lies_without_what_training_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for folder in (WORLD / "runs" / "seeds", WORLD / "runs" / "seeds" / "seed-0"):
        moved = Path(shutil.copytree(folder, tmp_path / f"moved-{folder.name}"))
        for moments in moved.glob("**/optimizer.safetensors"):
            moments.unlink()
        with pytest.raises(SystemExit, match="0"):
            main(["predict", str(moved), str(WORLD / "reviews.csv"), "--device", "cpu"])
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert answers[0].count("\n") == 30
