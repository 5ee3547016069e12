"""A table is checked for the run or base that is to learn from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, SettingError
from gpt1.bases import catalog
from gpt1.inspection.table import examine_table
from gpt1.runs.folder import read_run
from gpt1.text.tokenizer import Tokenizer


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "films.csv"
    path.write_text("text,label\n" + "".join(f"Ann sold hat {n},{'yes' if n % 2 else 'no'}\n" for n in range(40)))
    return path


def test_without_a_base_tokens_are_not_counted(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path)
    assert examine_table(table).tokens is None


def test_a_run_tells_its_context_and_words(table: Path, trained: Path) -> None:
    tokens = examine_table(table, init=trained).tokens
    assert tokens is not None
    assert (tokens.learner, tokens.context) == (str(trained), read_run(trained).recipe.shape.context)


def test_the_base_of_the_package_is_taken_where_none_is_named(table: Path, small: Path) -> None:
    for init in (None, small.name):
        tokens = examine_table(table, init=init).tokens
        assert tokens is not None
        assert tokens.learner == f"the base '{small.name}'"


@pytest.mark.parametrize("name", ["card.md", "tokenizer.json", "run.json"])
def test_a_damaged_base_is_refused_by_the_name_of_its_file(name: str, table: Path, small: Path) -> None:
    (small / name).write_text((small / name).read_text() + " ")
    for init in (None, small.name, small):
        with pytest.raises(FormatError, match=f"small is damaged: {name} does not match its checksum; install gpt1"):
            examine_table(table, init=init)


def test_a_base_in_a_folder_of_ones_own_tells_which_language_it_has_read(stand_in: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(stand_in / "small", tmp_path / "own"))
    korean = tmp_path / "korean.csv"
    korean.write_text(
        "text,label\n" + "".join(f"영화가 정말 재미있었다 {n},{'yes' if n % 2 else 'no'}\n" for n in range(200))
    )
    (found,) = [one for one in examine_table(korean, init=own).findings if one.key == "language"]
    assert "has read English" in found.advice
    (own / "base.json").unlink()
    assert not [one for one in examine_table(korean, init=own).findings if one.key == "language"]


def test_a_tokenizer_stands_for_a_run_to_be_made(table: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    tokens = examine_table(table, tokenizer=tmp_path / "tokenizer.json", context=16).tokens
    assert tokens is not None
    assert tokens.context == 16
    with pytest.raises(SettingError, match="`init` has its own tokenizer"):
        examine_table(table, init="run", tokenizer="tokenizer.json")
