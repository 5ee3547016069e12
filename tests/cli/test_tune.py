"""`gpt1 tune` as a person calls it: what is printed, that its command repeats the run, and what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.finetuning.tools import make_pretrained
from tests.tuning.test_tune import QUICK, tables

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def words(bytes_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words of a small search, but for its folder."""
    folder = tmp_path_factory.mktemp("tune")
    base, named = make_pretrained(folder / "base", bytes_tokenizer), tables(folder)
    where = [word for name, path in named.items() for word in (f"--{name}", str(path))]
    quick = [word for setting in QUICK for word in ("--set", setting)]
    return ["tune", "--init", str(base), *where, *quick, "--search", "epochs=1:2", "--trials", "2", "--device", "cpu"]


def test_what_was_gained_comes_first_and_the_command_it_names_makes_the_same_run(
    words: list[str], capsys: Capture, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, printed, said = run(capsys, *words, "--out", str(out), "--seed", "1")
    assert code == 0, said
    assert printed.startswith(("Gained ", "Nothing was gained: "))
    assert "flatters: it is the best of 2 trials" in printed
    assert "trial 1: recipe auto as it is" in said
    assert "trial 2: optimizer.lr=" in said
    code, told, _ = run(capsys, *words, "--out", str(out), "--seed", "1", "--json")
    found = json.loads(told)
    assert (found["run"], len(found["search"]["trials"])) == (str(out / "run"), 2)
    assert found["command"] in printed
    assert "--set training.seed=1" in found["command"]
    code, _, said = run(capsys, *shlex.split(found["command"].replace(str(out / "run"), str(tmp_path / "again")))[1:])
    assert code == 0, said
    names = [path.name for path in (out / "run").glob("evaluation-*.json")]
    assert len(names) == 2
    assert all((tmp_path / "again" / name).read_bytes() == (out / "run" / name).read_bytes() for name in names)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--minutes", "0"), 2, "--minutes"),
        (("--minutes", "0.000001"), 2, "minutes are too few: here a trial takes about"),
        (("--trials", "0"), 2, "--trials"),
        (("--search", "lr=1"), 2, "a range is NAME=LOW:HIGH"),
        (("--search", "batch=1:2"), 2, "unknown setting to search 'batch'"),
        (("--set", "lr=1e-3", "--search", "lr=1e-4:1e-3"), 2, "optimizer.lr is set, so it cannot be searched as well"),
        (("--set", "nonsense=1"), 2, "has no setting 'nonsense'"),
        (("--seed", "-1"), 2, "--seed"),
        (("--column", "text"), 2, "--column takes ROLE=NAME"),
        (("--column", "text=body"), 1, "no column 'body'"),
        (("--train", "none.csv"), 1, "none.csv does not exist"),
        (("--dev", "none.csv"), 1, "none.csv does not exist"),
        (("--test", "none.csv"), 1, "none.csv does not exist"),
        (("--init", "none"), 1, "none"),
        (("--metric", "speed"), 2, "speed"),
        (("--encoding", "no-such"), 2, "no-such"),
        (("--device", "abacus"), 2, "abacus"),
    ],
)
def test_what_cannot_be_done_is_told_in_options_and_writes_no_search(
    more: tuple[str, ...], code: int, told: str, words: list[str], capsys: Capture, tmp_path: Path
) -> None:
    ended, _, said = run(capsys, *words, "--out", str(tmp_path / "out"), *more)
    assert (ended, told in said) == (code, True), said
    assert not (tmp_path / "out" / "tuning.json").exists()


def test_too_little_time_names_an_option_and_another_verb(words: list[str], capsys: Capture, tmp_path: Path) -> None:
    _, _, said = run(capsys, *words, "--out", str(tmp_path / "out"), "--minutes", "0.000001")
    assert "--minutes " in said
    assert "gpt1 finetune --train " in said
