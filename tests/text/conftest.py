"""A small vocabulary with odd characters, the released one where it is there, and their judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, import_tokenizer, train_words
from tests.reference.words import ReferenceWords
from tests.text.tools import Words, made_text, reference_of


@pytest.fixture(scope="session")
def trained() -> Tokenizer:
    return train_words(WordCounter().count([made_text()]), merges=300)


@pytest.fixture(scope="session")
def released(data: Path) -> Tokenizer:
    return import_tokenizer(data / "openai" / "encoder_bpe_40000.json", data / "openai" / "vocab_40000.bpe")


@pytest.fixture(scope="session", params=["trained", "released"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """The tokenizer of a test of ids: the small vocabulary, and the released one where it is there."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def reference(tokenizer: Tokenizer) -> ReferenceWords:
    return reference_of(tokenizer)


@pytest.fixture(scope="session")
def words() -> Words:
    return Words()


@pytest.fixture(scope="session")
def judge() -> ReferenceWords:
    """The reference for words alone, before any vocabulary."""
    return ReferenceWords({}, [])
