"""Runs to be served: one that writes, and one that has learned tasks of every shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.inference.tools import make_run
from tests.serve.tools import Client, serving

MOODS = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("served") / "taught"
    return make_run(folder, words_tokenizer, MOODS, CATALOGUE["rte"], CATALOGUE["mrpc"], CATALOGUE["race"])


@pytest.fixture(scope="module")
def client(trained: Path, taught: Path) -> Iterator[Client]:
    with serving(f"writer={trained}", str(taught)) as found:
        yield found
