"""`gpt1 recipes` lists, shows and compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.recipes.catalog import MODERN, PAPER, RECIPES, used_settings
from gpt1.recipes.changes import differences, settings
from tests.cli.tools import run


def test_all_recipes_are_listed_with_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "recipes")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(RECIPES)
    for line, known in zip(lines, RECIPES.values(), strict=True):
        assert line.split("  ")[0] == known.name
        assert line.endswith(known.about)


def test_a_recipe_is_shown_setting_by_setting(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recipes", "paper", "--set", "batch=32", "--set", "clip=none")
    assert code == 0
    shown = dict(line.split() for line in out.splitlines())
    assert shown.keys() == used_settings(PAPER).keys()
    assert (shown["training.batch"], shown["optimizer.clip"], shown["optimizer.lr"]) == ("32", "none", "0.00025")
    assert len({line.index(line.split()[1]) for line in out.splitlines() if line.split()[0] != line.split()[1]}) == 1


def test_what_is_shown_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "recipes", "modern")
    pasted = [word for line in out.splitlines() for word in ("--set", "=".join(line.split()))]
    assert json.loads(run(capsys, "recipes", "paper", *pasted, "--json")[1]) == settings(MODERN)


def test_an_old_name_works_and_the_new_one_is_told_once_beside_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--set", "watching.keep=4", "--set", "spike=3", "--set", "watching.keep=3")
    code, out, err = run(capsys, "recipes", "paper", *given, "--json")
    assert (code, json.loads(out)) == (0, settings(PAPER) | {"logging.keep": 3, "training.max_loss_spike": 3.0})
    assert err.splitlines() == ["watching.keep is called logging.keep now", "spike is called max_loss_spike now"]


def test_two_recipes_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "recipes", "--diff", "paper", "modern")
    assert code == 0
    header, *rows = [line.split() for line in out.splitlines()]
    assert header == ["setting", "paper", "modern"]
    assert {row[0] for row in rows} == differences(PAPER, MODERN).keys()
    assert ["optimizer.kind", "adam", "muon"] in rows


def test_what_a_recipe_derives_is_shown_as_that_until_it_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "recipes", "auto")[1].splitlines()
    assert [line.split(maxsplit=1) for line in shown if "derived" in line] == [
        ["optimizer.lr", "derived from the parameters of the base"],
        ["training.batch", "derived from the number of examples"],
        ["training.epochs", "derived from the number of examples"],
        ["finetuning.windows", "derived from how many texts do not fit the context"],
    ]
    set_now = json.loads(run(capsys, "recipes", "auto", "--set", "lr=1e-4", "--json")[1])
    assert (set_now["optimizer.lr"], set_now["training.batch"]) == (1e-4, "derived from the number of examples")
    compared = run(capsys, "recipes", "--diff", "finetune", "auto")[1].splitlines()
    assert ["training.batch", "32", "derived from the number of examples"] in [
        line.split(maxsplit=2) for line in compared
    ]


def test_json_is_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "recipes", "--json")[1]).keys() == RECIPES.keys()
    assert json.loads(run(capsys, "recipes", "paper", "--json")[1]) == settings(PAPER)
    found = json.loads(run(capsys, "recipes", "--diff", "paper", "modern", "--json")[1])
    assert found["optimizer.kind"] == ["adam", "muon"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["papr"], "unknown recipe 'papr'; did you mean 'paper'?"),
        (["--diff", "paper", "modrn"], "did you mean 'modern'?"),
        (["paper", "--set", "bacth=3"], "did you mean 'batch'?"),
        (["paper", "--set", "batch=none"], "training.batch takes int, not 'none'"),
        (["paper", "--set", "kind=muon"], "say which"),
        (["paper", "--set", "batch"], "a setting is changed as name=value"),
        (["paper", "--diff", "paper", "tiny"], "--diff takes two recipes and nothing else"),
        (["--diff", "paper", "tiny", "--set", "batch=3"], "--diff takes two recipes and nothing else"),
        (["--set", "batch=3"], "--set changes one recipe; name it"),
        (["absent:MINE"], "no module 'absent'"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "recipes", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_recipe_of_ones_own_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shown_recipes.py").write_text(
        "from dataclasses import replace\nfrom gpt1.recipes.catalog import TINY\nMINE = replace(TINY, name='mine')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "recipes", "--diff", "tiny", "shown_recipes:MINE")[1].split() == ["setting", "tiny", "mine"]
    (tmp_path / "broken_recipes.py").write_text("1 / 0")
    code, _, err = run(capsys, "recipes", "broken_recipes:MINE")
    assert code == 1
    assert "module 'broken_recipes' cannot be imported: ZeroDivisionError" in err
