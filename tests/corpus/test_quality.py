"""Which documents pass: by their language, by each rule of quality at its bound; the counts of those that do not."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from gpt1 import prepare
from gpt1.base.errors import InputError, MissingDependency, SettingError
from gpt1.corpus.documents import (
    DocumentPart,
    TextReading,
    counted,
    find_sources,
    in_portions,
    read_sources,
    with_texts,
)
from gpt1.corpus.pages import LeftOutCounts
from gpt1.corpus.quality import ENGLISH_RULES, OTHER_LANGUAGE, RULES, Sieve
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text

ROOT = Path(__file__).parent.parent.parent
ENGLISH = "The house stood a little way back from the road, and nobody who passed it knew that it was lived in."
GERMAN = "Das Haus stand ein wenig abseits der Straße, und niemand, der vorbeiging, wusste, dass es bewohnt war."


def lines(count: int, words: int = 10) -> list[str]:
    """Return lines that differ, of words of five letters."""
    return [" ".join(f"w{chr(97 + line % 26)}{chr(97 + line // 26)}rd" for _ in range(words)) for line in range(count)]


def reason(text: str) -> str | None:
    return Sieve(quality=True).reason(text)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("few words", lines(5), [*lines(4), "w x y z u v w x y"]),
        ("word length", ["abc"] * 4 + lines(6), ["ab " * 100]),
        ("word length", ["abcdefghij " * 100], ["abcdefghijk " * 100]),
        ("few letters", [*lines(8), "12345 " * 20], [*lines(8), "12345 " * 21]),
        ("symbols", [*lines(9), "# " * 10], [*lines(9), "#" * 12]),
        ("symbols", [*lines(9), "one... " * 10], [*lines(9), "one… " * 12]),
        ("bullets", [f"- {line}" for line in lines(9)] + lines(1, 5), [f"• {line}" for line in lines(10)]),
        ("broken-off lines", [f"{line}..." for line in lines(3)] + lines(20)[3:10], [f"{x}…" for x in lines(8)]),
        ("repeated lines", [*lines(40), *["no"] * 18], [*lines(40), *["no"] * 20]),
        ("repeated text", [*lines(10), *lines(2)], [*lines(10), *lines(3)]),
        ("filler", lines(10), [*lines(10), "Lorem ipsum dolor"]),
    ],
)
def test_a_rule_is_broken_beyond_its_bound(name: str, good: list[str], bad: list[str]) -> None:
    assert reason("\n".join(good)) is None
    assert reason("\n".join(bad)) == name


def test_english_has_stop_words_and_other_languages_are_not_asked_for_them() -> None:
    pytest.importorskip("py3langid", reason="languages are told by the extra `crawl`")
    house = "House garden street window kitchen river mountain. " * 10
    assert Sieve("en", quality=True).reason(f"{house} {ENGLISH}") is None
    assert ENGLISH_RULES[0].reason == "no stop words"
    assert Sieve("de", quality=True).reason("\n".join(f"{number} {GERMAN}" for number in range(9))) is None
    assert reason("\n".join(f"{number} {GERMAN}" for number in range(9))) is None


def test_the_first_rule_that_is_broken_is_the_reason() -> None:
    assert reason("") == "few words"
    assert reason("lorem ipsum") == "few words"


def test_the_table_in_the_documents_has_the_rules_and_their_bounds() -> None:
    page = (ROOT / "docs" / "corpora.md").read_text()
    table = dict(re.findall(r"^\| `([a-z -]+)` \| .* \| (.*) \|$", page, re.MULTILINE))
    assert list(table) == [name for rule in (*RULES, *ENGLISH_RULES) if (name := rule.reason)]
    for rule in (*RULES, *ENGLISH_RULES):
        told = [f"under {rule.least:g}"] * bool(rule.least) + [f"over {rule.most:g}"] * (0 < rule.most < 1e9)
        assert table[rule.reason] == (" or ".join(told) or "there at all")


def test_a_language_is_told_from_others() -> None:
    pytest.importorskip("py3langid", reason="languages are told by the extra `crawl`")
    assert Sieve("en").reason(ENGLISH) is None
    assert Sieve("de").reason(GERMAN) is None
    assert Sieve("en").reason(GERMAN) == OTHER_LANGUAGE
    assert Sieve("en").reason(ENGLISH * 100 + GERMAN * 1000) is None  # what comes late is not looked at


def test_languages_that_nobody_knows_are_refused_before_anything_is_read(
    words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    pytest.importorskip("py3langid", reason="languages are told by the extra `crawl`")
    (tmp_path / "a.txt").write_text(ENGLISH)
    with pytest.raises(SettingError, match=r"unknown language 'english' \(known: ace, af,"):
        prepare(tmp_path / "a.txt", words_tokenizer, tmp_path / "out", language="english")
    assert not (tmp_path / "out").exists()


def test_without_the_library_it_is_said_how_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    monkeypatch.setattr("gpt1.corpus.quality._identifier", sys.modules["gpt1.corpus.quality"]._identifier.__wrapped__)
    with pytest.raises(MissingDependency, match=r"'gpt1\[crawl\]'"):
        Sieve("en").check()


# --- in use ---


def write(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_what_does_not_pass_is_counted_by_reason_for_any_number_of_processes(
    words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.corpus.batches.BATCH_CHARACTERS", 5_000)
    good = [make_text(20, number) for number in range(20)]
    source = write(tmp_path / "a.jsonl", *good[:10], "", "Too few.", "lorem ipsum " + good[0], *good[10:], "Few.")
    one, three = (
        prepare(source, words_tokenizer, tmp_path / str(workers), quality=True, workers=workers) for workers in (1, 3)
    )
    assert one == three
    assert one["documents"] == {"read": 24, "dropped": {"empty": 1, "few words": 2, "filler": 1}}
    for file in (tmp_path / "1").iterdir():
        assert file.read_bytes() == (tmp_path / "3" / file.name).read_bytes()
    dropped = [json.loads(line) for line in (tmp_path / "1" / "dropped.jsonl").read_text().splitlines()]
    counts = [(line["reason"], line.get("documents", 1)) for line in dropped]
    assert counts == [("empty", 1), ("few words", 2), ("filler", 1)]


def test_a_preparation_without_a_sieve_is_the_one_it_was_and_with_one_another(
    words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    source = write(tmp_path / "a.jsonl", *(make_text(20, number) for number in range(5)))
    plain = prepare(source, words_tokenizer, tmp_path / "out", workers=1)
    assert prepare(source, words_tokenizer, tmp_path / "out", workers=1, quality=False) == plain
    with pytest.raises(InputError, match="a corpus with other settings"):
        prepare(source, words_tokenizer, tmp_path / "out", workers=1, quality=True)


def test_a_long_document_that_does_not_pass_goes_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1234 5678\n" * 300_000)
    (tmp_path / "b.txt").write_text(make_text(30, 1))
    (tmp_path / "c.txt").write_bytes(b"1234 5678\n" * 300_000 + b"\xff")
    left_out: LeftOutCounts = Counter()
    sieve = Sieve(quality=True)
    portions = in_portions(read_sources(find_sources([str(tmp_path)]).sources, TextReading(sieve=sieve)), 1)
    found = [item for portion in portions for item in counted(with_texts(portion, sieve), left_out)]
    assert [item.source for item in found if isinstance(item, DocumentPart)] == [1]
    assert [item.source for item in found if not isinstance(item, DocumentPart)] == [2]
    assert left_out == {(0, "few letters"): 1, (2, "few letters"): 1}
