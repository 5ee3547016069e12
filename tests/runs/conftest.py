"""A run folder that has just been begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.recipes.catalog import TINY
from gpt1.records.run import RunRecord
from gpt1.runs.folder import begin_run

RECORD = RunRecord("pretraining", TINY, seed=3, vocab_size=5)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text('{"a": 1}')
    return tmp_path / "tokenizer.json"


@pytest.fixture
def run(tmp_path: Path, tokenizer: Path) -> Path:
    begin_run(tmp_path / "run", RECORD, tokenizer)
    return tmp_path / "run"
