"""`gpt1 evaluate` on a corpus and on raw files."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
import torch

from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from tests.cli.tools import run
from tests.conftest import make_text

LINE = r"update (\d+), .+: loss [\d.]+, perplexity [\d.]+, [\d.]+ bits per byte\n[\d,]+ tokens were predicted\n"


def test_without_a_text_it_is_the_one_kept_for_validation(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "evaluate", str(trained), "--device", "cpu")
    assert (code, err) == (0, "")
    assert re.fullmatch(re.escape(f"{trained}, ") + LINE, out)


def test_json_has_the_scores_of_the_step_asked_for(
    trained: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", str(trained), "--corpus", str(corpus), "--split", "train", "--device", "cpu", "--json")
    code, out, _ = run(capsys, *arguments, "--step", "8")
    assert code == 0
    early, late = json.loads(out), json.loads(run(capsys, *arguments, "--step", "last")[1])
    assert early.keys() == {"run", "step", "valid_loss", "perplexity", "bits_per_byte", "targets", "unknown_tokens"}
    assert (early["step"], late["step"]) == (8, 12)
    assert late["valid_loss"] < early["valid_loss"]


def test_files_are_measured_as_they_are(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text(make_text(20, seed=77))
    (tmp_path / "note.txt").write_text("Ann lost a silver key.")
    arguments = ("evaluate", str(trained), str(tmp_path / "letter.txt"), str(tmp_path / "note.txt"), "--device", "cpu")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert re.search(LINE, out)
    assert json.loads(run(capsys, *arguments, "--json")[1])["targets"] > 100


def test_a_loss_that_is_no_number_is_null_in_json(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ruined = tmp_path / "ruined"
    shutil.copytree(trained, ruined)
    old = load_checkpoint(list_checkpoints(ruined)[-1][1])
    weights = {name: torch.full_like(tensor, 3e38) for name, tensor in old.model.items()}
    save_checkpoint(ruined, old.step, weights, old.optimizer, old.progress | {"cost": math.nan})
    arguments = ("evaluate", str(ruined), "--step", "last", "--device", "cpu")
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    assert "NaN" not in out
    found = json.loads(out)
    assert (found["valid_loss"], found["bits_per_byte"]) == (None, None)
    assert "loss nan" in run(capsys, *arguments)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["RUN", "x.txt", "--corpus", "c"], 2, "name either texts or a --corpus, not both"),
        (["RUN", "--split", "vaild"], 2, "did you mean 'valid'?"),
        (["RUN", "--step", "7"], 2, "has no checkpoint of step 7; it has "),
        (["RUN", "--step", "bset"], 2, "has no checkpoint of step bset"),
        (["RUN", "--step", "²"], 2, "has no checkpoint of step ²"),
        (["RUN", "--device", "gpu9"], 2, "there is no device 'gpu9' here"),
        (["RUN", "--corpus", "absent"], 1, "absent is not a folder with a corpus; make one with 'gpt1 prepare'"),
        (["RUN", "absent.txt"], 1, "absent.txt does not exist"),
        (["absent"], 1, "absent does not exist"),
        ([], 2, "Missing argument 'RUN'"),
    ],
)
def test_errors_are_for_people(
    arguments: list[str], code: int, message: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(trained) if argument == "RUN" else argument for argument in arguments]
    found, out, err = run(capsys, "evaluate", "--device", "cpu", *given)
    assert (found, out) == (code, "")
    assert message in err


def test_a_damaged_run_is_an_error_that_names_the_file(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text((trained / "run.json").read_text()[:-40])
    code, _, err = run(capsys, "evaluate", str(tmp_path), "--device", "cpu")
    assert code == 1
    assert "run.json is not a run" in err
