"""A name that is another now is told where it was typed."""

from __future__ import annotations

import pytest

import gpt1
from gpt1.base.renamed import Renamed, tell_renamed


def test_the_new_name_is_told() -> None:
    with pytest.warns(Renamed, match="^a is called b now$"):
        tell_renamed("a", "b")


def test_the_line_that_is_shown_is_the_users_own() -> None:
    with pytest.warns(Renamed) as told:
        gpt1.recipe("tiny", spike=3)
    assert [warning.filename for warning in told] == [__file__]
