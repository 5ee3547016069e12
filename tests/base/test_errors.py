from __future__ import annotations

import pytest

from gpt1.base.errors import Gpt1Error, SettingError, did_you_mean, unknown


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
