"""The garbage collector is held off, and comes back."""

from __future__ import annotations

import gc

import pytest

from gpt1.base.garbage import collector_paused


def test_garbage_is_collected_again_afterwards_if_it_was_before() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError), collector_paused():
            assert not gc.isenabled()
            _ = 1 / 0
        assert gc.isenabled() == enabled
    gc.enable()
