"""Calling a verb as a person does."""

from __future__ import annotations

import pytest

from gpt1.cli.app import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, what was printed and what was said."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    assert "Traceback" not in err
    return ended.value.code, out, err
