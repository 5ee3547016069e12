"""Values of the user's own, named as module:NAME."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.modules import load_value


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder of one's own; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(name: str, text: str) -> None:
    Path(name).write_text(text)


def test_a_value_of_a_module_in_the_current_folder_is_found() -> None:
    write("mine.py", "from fractions import Fraction\nHALF = Fraction(1, 2)\n")
    assert load_value("mine:HALF", Fraction) == Fraction(1, 2)


def test_a_value_inside_a_package_is_found(here: Path) -> None:
    (here / "package").mkdir()
    write("package/__init__.py", "")
    write("package/part.py", "from fractions import Fraction\nTHIRD = Fraction(1, 3)\n")
    assert load_value("package.part:THIRD", Fraction) == Fraction(1, 3)


def test_an_installed_module_is_found_too() -> None:
    assert load_value("math:pi", float) > 3


def test_the_search_path_is_as_before_even_if_the_import_fails() -> None:
    before = list(sys.path)
    write("broken.py", "1 / 0\n")
    with pytest.raises(InputError):
        load_value("broken:X", Fraction)
    assert sys.path == before


def test_a_name_that_is_not_there_is_refused_with_the_nearest_and_all_there_are() -> None:
    write("mine.py", "from fractions import Fraction\nHALF = Fraction(1, 2)\nTHIRD = Fraction(1, 3)\n")
    with pytest.raises(SettingError) as refused:
        load_value("mine:HALFF", Fraction)
    assert str(refused.value) == "module 'mine' has no 'HALFF'; did you mean 'HALF'?; its fractions: HALF, THIRD"
    with pytest.raises(SettingError, match="module 'mine' has no ''"):
        load_value("mine:", Fraction)


def test_a_value_of_another_kind_is_refused() -> None:
    write("mine.py", "HALF = 0.5\n")
    with pytest.raises(SettingError, match="'HALF' of module 'mine' is not a Fraction but of type float; it"):
        load_value("mine:HALF", Fraction)


@pytest.mark.parametrize("place", ["my folder/mine:X", "a-b:X", ":X", "/tmp/mine:X"])
def test_what_is_no_module_name_is_refused_with_an_example(place: str) -> None:
    with pytest.raises(SettingError, match=r"is not module:NAME; a fraction in my_fractions.py here is written my"):
        load_value(place, Fraction)


def test_a_module_that_is_not_there_is_refused_naming_the_folder(here: Path) -> None:
    with pytest.raises(SettingError, match=r"no module 'absent' in .* or among the installed ones$"):
        load_value("absent:X", Fraction)


@pytest.mark.parametrize("exists", [True, False])
def test_the_suffix_py_is_too_much(exists: bool) -> None:
    if exists:
        write("mine.py", "X = 1\n")
    with pytest.raises(SettingError, match=r"no module 'mine.py' .*; without '.py': mine:X"):
        load_value("mine.py:X", Fraction)


def test_a_module_that_needs_another_one_names_that_one() -> None:
    write("mine.py", "import surely_not_installed\n")
    with pytest.raises(InputError, match="module 'mine' needs a module that is not installed: 'surely_not_installed'"):
        load_value("mine:X", Fraction)


@pytest.mark.parametrize(("text", "words"), [("1 / 0", "ZeroDivisionError"), ("x = (", "SyntaxError")])
def test_a_module_that_fails_says_how(text: str, words: str) -> None:
    write("mine.py", text)
    with pytest.raises(InputError, match=f"module 'mine' cannot be imported: {words}"):
        load_value("mine:X", Fraction)
