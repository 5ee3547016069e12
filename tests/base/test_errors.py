"""What an error tells; names that are others now."""

from __future__ import annotations

import pytest

import gpt1
from gpt1.base.errors import Gpt1Error, Renamed, SettingError, did_you_mean, tell_renamed, unknown


@pytest.mark.parametrize(
    ("name", "answer"), [("trian", "; did you mean 'train'?"), ("TRAIN", ""), ("qqq", ""), ("", "")]
)
def test_only_a_near_name_is_suggested(name: str, answer: str) -> None:
    assert did_you_mean(name, ["train", "valid"]) == answer


def test_an_unknown_name_is_answered_with_all_known_ones() -> None:
    error = unknown("kind", "wrods", iter(["words", "bytes"]))
    assert isinstance(error, SettingError)
    assert isinstance(error, Gpt1Error)
    assert str(error) == "unknown kind 'wrods'; did you mean 'words'? (known: words, bytes)"


def test_the_new_name_is_told() -> None:
    with pytest.warns(Renamed, match="^a is called b now$"):
        tell_renamed("a", "b")


def test_the_line_that_is_shown_is_the_users_own() -> None:
    with pytest.warns(Renamed) as told:
        gpt1.recipe("tiny", spike=3)
    assert [warning.filename for warning in told] == [__file__]
