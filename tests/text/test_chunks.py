from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpt1.text import chunks
from gpt1.text.chunks import Lessons, SharedChunks
from gpt1.text.splitting import Splitter
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text


def lesson(*texts: str) -> SharedChunks:
    lengths = np.array([len(text) for text in texts], np.int32)
    ids = np.array([ord(sign) for text in texts for sign in text], np.int32)
    codes = np.arange(len(texts), dtype=np.int16)
    return SharedChunks(list(texts), lengths, ids, codes, codes + 10)


def facts(given: SharedChunks) -> tuple[list[str], list[int], list[int], list[int], list[int]]:
    return (given.chunks, *(column.tolist() for column in (given.lengths, given.ids, given.firsts, given.lasts)))


def test_each_lesson_is_heard_once_by_the_others_only(tmp_path: Path) -> None:
    teller, hearer = Lessons(tmp_path), Lessons(tmp_path)
    teller.tell(lesson("a", "", "déjà", "\x85"))
    assert [facts(heard) for heard in hearer.hear()] == [facts(lesson("a", "", "déjà", "\x85"))]
    teller.tell(lesson("later"))
    assert [heard.chunks for heard in hearer.hear()] == [["later"]]
    assert list(hearer.hear()) == list(teller.hear()) == []


def test_half_a_lesson_is_not_heard(tmp_path: Path) -> None:
    Lessons(tmp_path).tell(lesson("whole"))
    (told,) = tmp_path.iterdir()
    (tmp_path / "9-0.npz.9.tmp").write_bytes(told.read_bytes()[:-50])
    assert [heard.chunks for heard in Lessons(tmp_path).hear()] == [["whole"]]


def test_a_damaged_lesson_is_passed_over(tmp_path: Path) -> None:
    Lessons(tmp_path).tell(lesson("whole", "told"))
    (told,) = tmp_path.iterdir()
    content = told.read_bytes()
    for byte in range(0, len(content), 7):
        told.write_bytes(content[:byte] + bytes([content[byte] ^ 1]) + content[byte + 1 :])
        heard = [facts(one) for one in Lessons(tmp_path).hear()]
        assert heard in ([], [facts(lesson("whole", "told"))])


def test_a_lesson_less_what_is_known(tmp_path: Path) -> None:
    rest = lesson("ab", "c", "", "def").without({"c", "x"})
    assert facts(rest) == (["ab", "", "def"], [2, 0, 3], [97, 98, 100, 101, 102], [0, 2, 3], [10, 12, 13])


def test_what_others_told_is_not_learned_again_and_the_ids_are_the_same(
    words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "WORTH_TELLING", 1)
    monkeypatch.setattr(chunks, "LEARN_AT_ONCE", 7)
    # `: )` and its like are entries of the table together.
    text = make_text(200, 1) + " he said : ) and i.e. : -) a.m. \n \n can not : ("
    expected = words_tokenizer.encode(text)
    assert Tokenizer(words_tokenizer.vocabulary, tmp_path).encode(text) == expected
    hearer = Tokenizer(words_tokenizer.vocabulary, tmp_path)

    def learned(self: Splitter, parts: list[str]) -> None:
        raise AssertionError(parts)

    monkeypatch.setattr(Splitter, "cut", learned)
    assert hearer.encode(text) == expected


def test_sharing_ends_when_the_table_is_large(
    words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "WORTH_TELLING", 1)
    monkeypatch.setattr(chunks, "MOST_SHARED", 20)
    tokenizer = Tokenizer(words_tokenizer.vocabulary, tmp_path)
    for seed in range(5):
        assert tokenizer.encode(make_text(50, seed)) == words_tokenizer.encode(make_text(50, seed))
    assert len(list(tmp_path.iterdir())) == 1
