from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpt1 import load_tokenizer, train_tokenizer
from gpt1.base.errors import InputError, SettingError
from gpt1.corpus import batches, vocabularies
from gpt1.text.training import WordCounter, train_words
from tests.conftest import make_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(6):
        (tmp_path / f"{seed}.txt").write_text(make_text(300, seed))
    return tmp_path


def test_a_vocabulary_from_files_is_that_of_their_words(folder: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(6):
        counts.update(WordCounter().count([make_text(300, seed)]))
    trained = train_tokenizer([folder], "words", 100, folder / "t.json", workers=1)
    assert trained.fingerprint == train_words(counts, 100).fingerprint
    assert load_tokenizer(folder / "t.json").fingerprint == trained.fingerprint


def test_a_vocabulary_is_not_written_over_another_unless_that_is_asked_for(folder: Path) -> None:
    train_tokenizer([folder], "words", 100, folder / "t.json", workers=1)
    before = (folder / "t.json").read_bytes()
    with pytest.raises(InputError, match=r"t\.json is there already; .* `overwrite=True`"):
        train_tokenizer([folder], "words", 50, folder / "t.json", workers=1)
    assert (folder / "t.json").read_bytes() == before
    other = train_tokenizer([folder], "words", 50, folder / "t.json", workers=1, overwrite=True)
    assert load_tokenizer(folder / "t.json").fingerprint == other.fingerprint


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_batches_and_workers_do_not_change_a_vocabulary(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = train_tokenizer([folder], kind, 100, workers=1)
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", 10_000)
    assert train_tokenizer([folder], kind, 100, workers=2).fingerprint == one.fingerprint


def test_words_seen_once_are_forgotten_when_there_are_too_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Listener(vocabularies.Silent):
        def say(self, line: str) -> None:
            said.append(line)

    (folder / "rare.txt").write_text(" ".join(f"word{number}" for number in range(500)))
    monkeypatch.setattr(vocabularies, "MOST_WORDS", 200)
    train_tokenizer([folder], "words", 100, workers=1, progress=Listener())
    assert any(line.startswith("forgot 500 words seen once") for line in said)


def test_a_text_too_small_for_the_merges_asked_for_is_told(folder: Path) -> None:
    (folder / "small.txt").write_text("aa aa aa")
    tokenizer = train_tokenizer([folder / "small.txt"], "words", 100, workers=1)
    assert [*tokenizer.vocabulary.merges] == [("a", "a</w>")]


def test_what_cannot_be_learned_from_is_refused(folder: Path) -> None:
    (folder / "blank.txt").write_text(" \n ")
    (folder / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="no word to learn"):
        train_tokenizer([folder / "blank.txt"], workers=1)
    with pytest.raises(InputError, match=r"bad\.txt, byte 0"):
        train_tokenizer([folder / "bad.txt"], workers=1)
    with pytest.raises(SettingError, match="did you mean 'bytes'"):
        train_tokenizer([folder / "blank.txt"], "byte")
