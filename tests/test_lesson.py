"""docs/lesson: every notebook has its exercises with answers, and fails where the code that it teaches is broken.

Jupyter is left to `make lesson`. Here the cells of the short notebooks run one after another in this process; those
that pre-train, or use what was pre-trained, are looked at and not run.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor

from gpt1.model.transformer import PreNormBlock

LESSON = Path(__file__).parent.parent / "docs" / "lesson"
NOTEBOOKS = sorted(LESSON.glob("*.py"))
EXERCISE, ANSWER = "exercise", "answer"
HOLE, WRONG = "...", "-1"
SHORT = [notebook for notebook in NOTEBOOKS if int(notebook.stem[0]) <= 4]  # from the fifth on they train for minutes


def cells(notebook: Path) -> list[Any]:
    return list(jupytext.read(notebook).cells)


def code(notebook: Path) -> list[tuple[str, str]]:
    """Return the cells of code of a notebook, each with what it is: an exercise, an answer, or nothing of both."""
    found = []
    for cell in cells(notebook):
        if cell.cell_type == "code":
            (tag,) = cell.metadata.get("tags", []) or [""]
            found.append((tag, cell.source))
    return found


def execute(notebook: Path) -> dict[str, Any]:
    """Run the cells of a notebook in this process, and return the names that they leave."""
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, (_, source) in enumerate(code(notebook), 1):
            exec(compile(source, f"{notebook.name}, cell {number}", "exec"), names)
    finally:
        pyplot.close("all")
    return names


def answer(exercise: str, answered: str, names: dict[str, Any]) -> None:
    """Run an exercise and its answer, with what has run before."""
    own = dict(names)
    exec(exercise, own)
    exec(answered, own)


@pytest.fixture(autouse=True)
def _nobody_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pictures are drawn and not shown, and what a notebook writes goes with the test."""
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_one_will_know_and_has_three_exercises_each_with_an_answer(notebook: Path) -> None:
    first = cells(notebook)[0]
    assert first.cell_type == "markdown"
    assert "Afterwards you will know" in " ".join(first.source.split())
    assert "section" in first.source
    tags = [tag for tag, _ in code(notebook) if tag]
    assert tags == [EXERCISE, ANSWER] * 3
    assert any("plt.show()" in source for _, source in code(notebook))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_a_hole_and_its_answer_checks_it_and_itself(notebook: Path) -> None:
    tagged = [(tag, source) for tag, source in code(notebook) if tag]
    for (_, exercise), (_, answer) in zip(tagged[::2], tagged[1::2], strict=True):
        assert any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(ast.parse(exercise)))
        nodes = list(ast.walk(ast.parse(answer)))
        claims = [node.test for node in nodes if isinstance(node, ast.Assert)]
        theirs = {name for name in names_in(ast.parse(exercise)) if name.startswith("my_")}
        assert theirs, exercise
        made = [node for node in nodes if isinstance(node, ast.Assign) and names_in(node.value) & theirs]
        theirs |= {name for node in made for target in node.targets for name in names_in(target)}
        of_theirs = [claim for claim in claims if names_in(claim) & theirs]
        assert of_theirs, f"nobody looks at what the reader wrote: {answer}"
        assert len(of_theirs) < len(claims), f"nobody checks the answer: {answer}"


def names_in(tree: ast.AST) -> set[str]:
    return {
        name
        for node in ast.walk(tree)
        for name in (getattr(node, "id", None), getattr(node, "name", None))
        if isinstance(name, str)
    }


@pytest.mark.parametrize("notebook", SHORT, ids=lambda path: path.stem)
def test_a_notebook_runs_and_a_wrong_answer_to_an_exercise_is_told(notebook: Path) -> None:
    names = execute(notebook)
    tagged = [source for tag, source in code(notebook) if tag]
    for exercise, answered in zip(tagged[::2], tagged[1::2], strict=True):
        answer(exercise, answered, names)
        with pytest.raises(AssertionError, match="not yet"):
            answer(exercise.replace(HOLE, WRONG), answered, names)


def without_gradient(hidden: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a network returns, its table as one that does not learn at the exit."""
    return hidden, output.detach()


# What each notebook teaches, broken: a name of the package, and what stands in for it.
BROKEN: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
    "1_text_to_ids": [
        ("gpt1.text.cleaning:clean", lambda real: lambda text: text.encode()),
        ("gpt1.text.splitting:Splitter.split_together", lambda real: lambda self, parts: (tuple(parts), 0, 0)),
        ("gpt1.text.training:train_words", lambda real: lambda counts, merges: real(dict.fromkeys(counts, 1), merges)),
        ("gpt1.text.tokenizer:Tokenizer.decode", lambda real: lambda self, ids: real(self, ids).upper()),
    ],
    "2_the_network_by_hand": [
        ("gpt1.model.attention:_weights", lambda real: lambda q, k, allowed: real(2 * q, k, allowed)),
        ("gpt1.model.attention:attend", lambda real: lambda q, k, v, **options: real(2 * q, k, v, **options)),
        ("gpt1.model.layers:gelu", lambda real: torch.relu),
        ("gpt1.model.layers:LAYER_EPSILON", lambda real: 1e-6),
        ("gpt1.model.transformer:Block.forward", lambda real: PreNormBlock.forward),
        ("gpt1.model.network:Model.logits", lambda real: lambda self, hidden, output: 2 * real(self, hidden, output)),
    ],
    "3_the_loss_and_its_gradient": [
        ("gpt1.model.loss:plain_cross_entropy_", lambda real: lambda *given: 2 * real(*given)),
        ("gpt1.model.loss:_chunks", lambda real: lambda hidden, output: [slice(0, len(hidden) - 1)]),
        ("gpt1.model.network:Model.forward", lambda real: lambda self, ids: without_gradient(*real(self, ids))),
    ],
    "4_the_optimiser_and_its_schedules": [
        (
            "gpt1.training.optimizers:adam_numbers",
            lambda real: lambda *given, **options: real(*given, **options)._replace(epsilon=1e-3),
        ),
        ("gpt1.training.optimizers:_group_of", lambda real: lambda kind, name, parameter: "decayed"),
        ("gpt1.training.schedules:cosine", lambda real: lambda x, w: real(x, 0)),
        ("gpt1.training.schedules:linear", lambda real: lambda x, w: 1 - x),
        ("gpt1.training.optimizers:Optimizers.gradient_norm", lambda real: lambda self: real(self).square()),
    ],
}


@pytest.mark.parametrize(
    ("notebook", "place", "broken"),
    [(name, place, broken) for name, changes in BROKEN.items() for place, broken in changes],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_notebook_fails_where_the_code_that_it_teaches_is_broken(
    notebook: str, place: str, broken: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module_name, _, path = place.partition(":")
    owner: Any = importlib.import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    with pytest.raises(AssertionError):
        execute(LESSON / f"{notebook}.py")


def test_every_short_notebook_is_broken_in_some_way() -> None:
    assert BROKEN.keys() == {notebook.stem for notebook in SHORT}
