"""`gpt1 prune` tells what each part costs, and refuses before anything is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tools import run

Capture = pytest.CaptureFixture[str]


def test_a_run_is_pruned_and_what_it_lost_is_told(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = ("prune", str(trained), "--layers", "1", "--device", "cpu", "--out")
    code, out, err = run(capsys, *asked, str(tmp_path / "half"))
    assert code == 0
    assert err.startswith("loss ")
    assert "without layer" in err
    assert f"gpt1 pretrain --init {tmp_path / 'half'}" in out
    code, out, _ = run(capsys, *asked, str(tmp_path / "other"), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["of_layers"] == 2
    assert {*told["layers"], told["removed"][0]["layer"]} == {1, 2}
    assert told["loss_after"] == pytest.approx(told["removed"][0]["loss"])


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["absent", "--layers", "1"], 1, "absent does not exist"),
        (["RUN"], 2, "what is to be left? Say it with --layers, --feed-forward, or both"),
        (["RUN", "--layers", "0"], 2, "Invalid value for '--layers'"),
        (["RUN", "--layers", "3"], 2, "--layers is 3: the network has 2, and at least 1 is left"),
        (["RUN", "--layers", "2"], 2, "there is nothing to remove"),
        (["RUN", "--layers", "1", "--corpus", "absent"], 1, "absent is not a folder with a corpus"),
        (["RUN", "--layers", "1", "--table", "absent.csv"], 2, "has learned no task yet"),
        (["RUN", "--layers", "1", "--corpus", "a", "--table", "b"], 2, "name either a --corpus or a --table, not both"),
    ],
)
def test_errors_are_for_people_and_nothing_is_made(
    given: list[str], code: int, message: str, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = [str(trained) if word == "RUN" else word for word in given]
    found, out, err = run(capsys, "prune", *words, "--out", str(tmp_path / "half"), "--device", "cpu")
    assert (found, out) == (code, "")
    assert message in err
    assert not list(tmp_path.iterdir())
