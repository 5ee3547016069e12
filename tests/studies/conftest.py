"""What tests of studies share: runs to start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from tests.studies.tools import LSTM, make_start


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """A Transformer of two blocks with two checkpoints, to be read and never changed."""
    return make_start(tmp_path_factory.mktemp("start") / "books", words_tokenizer, steps=(1, 3))


@pytest.fixture(scope="session")
def lstm(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """An LSTM of the same words."""
    return make_start(tmp_path_factory.mktemp("lstm") / "lstm", words_tokenizer, *LSTM)
