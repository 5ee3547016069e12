"""A small prepared corpus to train on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.corpus.prepare import prepare
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """Forty documents of a small world, one or two of them for validation."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = folder / "texts"
    texts.mkdir()
    for number in range(40):
        (texts / f"{number}.txt").write_text(make_text(40, seed=number))
    words_tokenizer.save(folder / "tokenizer.json")
    prepare([texts], folder / "tokenizer.json", folder / "corpus", valid=0.05, workers=1, duplicates="keep")
    return folder / "corpus"
