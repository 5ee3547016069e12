"""The released vocabulary files, and files that only look like them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.text.importing import import_tokenizer
from gpt1.text.tokenizer import Tokenizer, load_tokenizer
from gpt1.text.words import layout

MERGES = [("t", "h"), ("th", "e</w>"), ("l", "o"), ("lo", "w</w>"), ("lo", "w")]
TOKENS = layout(list("etholw"), MERGES)


def write(folder: Path, vocabulary: Any, merges: str | bytes) -> tuple[Path, Path]:
    files = folder / "encoder.json", folder / "vocab.bpe"
    files[0].write_text(vocabulary if isinstance(vocabulary, str) else json.dumps(vocabulary))
    files[1].write_bytes(merges if isinstance(merges, bytes) else merges.encode())
    return files


def lines(merges: list[tuple[str, str]]) -> str:
    return "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)


GOOD = {token: id for id, token in enumerate(TOKENS)}


def test_tiny_files_of_the_released_form_give_the_ids_they_say(tmp_path: Path) -> None:
    shuffled = dict(sorted(GOOD.items()))
    tokenizer = import_tokenizer(*write(tmp_path, shuffled, lines(MERGES)))
    assert list(tokenizer.vocabulary.tokens) == TOKENS
    assert list(tokenizer.vocabulary.merges) == MERGES
    the, low, lo, w = GOOD["the</w>"], GOOD["low</w>"], GOOD["lo"], GOOD["w</w>"]
    assert tokenizer.encode("The low\nlolow lowlo lw z") == [
        *(the, low, GOOD["\n</w>"], lo, low, GOOD["low"], GOOD["l"], GOOD["o</w>"], GOOD["l"], w, 0),
    ]
    tokenizer.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json").fingerprint == tokenizer.fingerprint


def test_windows_line_ends_and_a_missing_last_one_are_the_same_file(tmp_path: Path) -> None:
    expected = import_tokenizer(*write(tmp_path, GOOD, lines(MERGES))).fingerprint
    for merges in lines(MERGES).replace("\n", "\r\n"), lines(MERGES).rstrip("\n"), lines(MERGES) + "\n":
        assert import_tokenizer(*write(tmp_path, GOOD, merges)).fingerprint == expected


@pytest.mark.parametrize(
    ("vocabulary", "merges", "said"),
    [
        ("", lines(MERGES), "not a vocabulary file"),
        ("[]", lines(MERGES), "not an object"),
        ("{}", lines([]), "begins with <unk>"),
        ('{"<unk>": 0', lines(MERGES), "is not a vocabulary file"),
        ({"version": "1.0", "truncation": None, "model": {}}, lines(MERGES), "ids are not 0 to 2, each once"),
        ({**GOOD, "x": 3}, lines(MERGES), "each once"),
        ({**GOOD, "x": 999}, lines(MERGES), "each once"),
        ({**GOOD, "x": len(GOOD) + 0.5}, lines(MERGES), "each once"),
        ({**GOOD, "x": [1]}, lines(MERGES), "each once"),
        ({"!": 0, '"': 1}, lines([]), "begins with <unk>"),
        ({"<unk>": 0, "a": 1}, lines([]), "holds '\\\\n</w>'"),
        (GOOD, "t h\n", "should begin with a line '#version"),
        (GOOD, "", "should begin with a line '#version"),
        (GOOD, "#version: 0.2\nt h\nt h e\n", "line 3: a merge is two pieces"),
        (GOOD, "#version: 0.2\nth\n", "line 2: a merge is two pieces"),
        (GOOD, b"#version: 0.2\n\xff \xfe\n", "byte 14 is not UTF-8"),
        (GOOD, lines([("t", "q")]), "merge 1, 't q', uses or makes a piece"),
        (GOOD, lines([("th", "e</w>"), ("t", "h")]), "merge 1, 'th e</w>', uses or makes"),
        (GOOD, lines([*MERGES, ("t", "h")]), "merge 6, 't h', makes a piece that an earlier merge made"),
    ],
)
def test_files_that_are_damaged_or_foreign_are_refused_by_name(
    tmp_path: Path, vocabulary: Any, merges: str | bytes, said: str
) -> None:
    with pytest.raises(FormatError, match=said) as caught:
        import_tokenizer(*write(tmp_path, vocabulary, merges))
    assert str(tmp_path) in str(caught.value)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    vocabulary, merges = write(tmp_path, GOOD, lines(MERGES))
    with pytest.raises(InputError, match=r"gone.json does not exist"):
        import_tokenizer(tmp_path / "gone.json", merges)
    with pytest.raises(InputError, match=r"gone.bpe"):
        import_tokenizer(vocabulary, tmp_path / "gone.bpe")
    with pytest.raises(InputError, match="folder"):
        import_tokenizer(tmp_path, merges)
    with pytest.raises(InputError, match="directory"):
        import_tokenizer(vocabulary, tmp_path)


def test_the_released_files_have_the_layout_of_the_paper(released: Tokenizer) -> None:
    tokens, merges = released.vocabulary.tokens, released.vocabulary.merges
    assert released.vocab_size == 40478
    assert len(merges) == 40_000
    assert list(tokens) == layout(tokens[1:239], merges)
    assert released.newline_id == 40477
    assert released.specials == {"start": 40478, "delimiter": 40479, "extract": 40480}


def test_the_released_vocabulary_gives_known_ids(released: Tokenizer) -> None:
    # Golden: noted once from the reference; a change must be noticed.
    assert released.encode("Hello,\n\nworld  it's 中") == [3570, 240, 40477, 1276, 507, 535, 0]
