"""What the package says in Python's words, said in those of a command line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

import gpt1
from gpt1.cli.app import VERBS
from gpt1.cli.app import gpt1 as root
from gpt1.cli.words import command_of, in_words_of, reworded

SOURCE = Path(gpt1.__file__).parent
DOORS = {"cli", "__main__.py"}  # which speak the command line's language


def said(verb: str, text: str) -> str:
    return in_words_of(command_of(root, verb.split()), root, text)


@pytest.mark.parametrize(
    ("verb", "text", "words"),
    [
        ("prepare", "x; replace it with `restart=True`", "x; replace it with --restart"),
        ("prepare", "x; say `encoding='cp1252'`, or -be", "x; say --encoding cp1252, or -be"),
        ("prepare", "x; begin anew with `gpt1.prepare(restart=True)`", "x; begin anew with --restart"),
        (
            "pretrain",
            "x; make it anew with `gpt1.prepare(restart=True)`",
            "x; make it anew with gpt1 prepare --restart",
        ),
        ("pretrain", "x; begin with `init='my runs/a'`", "x; begin with --init 'my runs/a'"),
        (
            "doctor",
            "`gpt1.train_tokenizer(merges=500, kind='bytes')`",
            "gpt1 tokenizer train --merges 500 --kind bytes",
        ),
        ("finetune", "name it with `columns={'text': 'COLUMN'}`", "name it with --column text=COLUMN"),
        ("finetune", "no; `columns={'text': 'why; so, or not'}` does", "no; --column 'text=why; so, or not' does"),
        ("finetune", "more, by `changes=['training.steps=N']`", "more, by --set training.steps=N"),
        ("finetune", "`task` with `data`, or `train`", "--task with --data, or --train"),
        ("zeroshot", "teach it by `gpt1.finetune(task=NAME)`", "teach it by gpt1 finetune --task NAME"),
        ("pretrain", "x (`gpt1.recipe(name='tiny')` lists them)", "x (gpt1 recipes tiny lists them)"),
        ("recipes", "x (`gpt1.recipe(name='tiny')` lists them)", "x (gpt1 recipes tiny lists them)"),
        ("prepare", "no `option` of ours\nx; y", "no 'option' of ours\nx; y"),
        ("study labels", "x; `resume=True` goes on; y", "x; y"),
        ("demo", "x; choose another folder, or replace it with `restart=True`", "x; choose another folder"),
        ("start", "x; `gpt1.finetune(labels_sep='|')` parts them", "x; --labels-sep '|' parts them"),
        ("start", "x; `gpt1.finetune(resume=True)` goes on", "x; gpt1 finetune --resume goes on"),
        ("check", "x; `gpt1.finetune(skip_bad=True)` does", "x; gpt1 finetune --skip-bad does"),
        ("demo", "x; make it anew with `gpt1.prepare(restart=True)`", "x"),
    ],
)
def test_a_way_out_is_told_as_the_command_has_it_or_left_out(verb: str, text: str, words: str) -> None:
    assert said(verb, text) == words


def test_outside_a_command_nothing_is_reworded() -> None:
    assert reworded({"a": ["`b=True`", 3]}) == {"a": ["`b=True`", 3]}


def strings(path: Path) -> list[str]:
    """Return the texts of a module that are no documentation of it, the parts of those made of several as one."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


def test_no_room_below_speaks_the_language_of_the_command_line() -> None:
    no_message = {"runs/folder.py": ["--always", "--dirty"], "inspection/plan_page.py": ["--set "]}
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.split("/")[0] not in DOORS and (
            options := [text for text in strings(path) if re.search(r"(?<![\w(-])--[a-z]", text)]
        ):
            found[name] = options
    assert found == no_message


def test_what_is_named_in_messages_can_be_set() -> None:
    """Whatever stands in backticks below is an option of some verb, or a call of a public function."""
    options = {param.name for verb in commands() for param in verb.params}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] not in DOORS:
            for text in strings(path):
                for name in re.findall(r"`([a-z]\w*)(?:=[^`]*)?`", text):
                    assert name in options, f"{path}: `{name}`"
                for name in re.findall(r"`gpt1\.(\w+)\(", text):
                    assert name in gpt1.__all__, f"{path}: `gpt1.{name}`"


def commands() -> list[click.Command]:
    found = [command_of(root, [name]) for name in VERBS]
    return [*found, *(verb for group in found if isinstance(group, click.Group) for verb in group.commands.values())]
