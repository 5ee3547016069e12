"""The house keeps its order: floors, owners, public names, sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import gpt1

SOURCE = Path(gpt1.__file__).parent
ROOT = SOURCE.parent.parent
LONG_FILE = 450

# A fact and the one file that may spell it out.
OWNERS = {
    r'"start", "delimiter", "extract"': "text/specials.py",
    r"ftfy\.": "text/cleaning.py",
    r"spacy\.blank": "text/splitting.py",
    r"LIMIT = 1_000_000": "text/pieces.py",
    r"gpt1-tokenizer": "text/tokenizer.py",
    r"gpt1tok": "corpus/shards.py",
    r"gpt1enc": "tasks/encoded.py",
    r"RMinHash": "corpus/duplicates.py",
    r"lzma|bz2\.|zstandard|gzip\.": "base/tables.py",
    r"difflib": "base/errors.py",
    r"os\.fsync": "base/files.py",
    r"gpt1-checkpoint": "runs/checkpoints.py",
    r"gpt1-run": "records/run.py",
    r"2\.5e-4": "recipes/values.py",
    r"init_process_group": "training/distributed.py",
    r"\.backward\(\)": "training/trainer.py",
    r"0\.044715": "model/layers.py",
}


# What imports a module or reaches the network, and who may ask for it: those to whom a person names it in the call.
# Who reads a record of a run, a study or an estimator is not among them.
DOORS = {
    "load_value": {"tasks/catalog.py", "recipes/catalog.py"},
    "find_task": {"tasks/preparing.py", "tasks/describe.py", "inference/zeroshot.py", "studies/zeroshot.py"},
    "read_hub": {"tasks/preparing.py", "finetuning/evaluate.py"},
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_a_room_imports_only_from_lower_floors(capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize("room", ["inference", "serve", "exchange", "estimators", "report"])
def test_who_uses_a_run_imports_nothing_of_the_loop(room: str) -> None:
    assert [str(path) for path in (SOURCE / room).rglob("*.py") if "gpt1.training" in path.read_text()] == []


def test_every_room_is_on_a_floor() -> None:
    layers = (ROOT / "pyproject.toml").read_text().split("layers = [")[1].split("]")[0]
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {room for room in rooms if f"gpt1.{room}" not in layers} == set()


@pytest.mark.parametrize(("fact", "owner"), OWNERS.items())
def test_one_file_owns_each_fact(fact: str, owner: str) -> None:
    spelled = [str(path.relative_to(SOURCE)) for path in modules() if re.search(fact, path.read_text())]
    assert spelled == [owner]


def test_json_that_is_written_or_printed_is_strict() -> None:
    """What is only hashed, compared or read back at once may be as Python writes it."""
    hashed = {
        "base/records.py",
        "base/strict_json.py",
        "corpus/batches.py",
        "corpus/prepare.py",
        "finetuning/data.py",
        "inspection/survey.py",
        "runs/folder.py",
        "studies/cells.py",
        "studies/material.py",
        "text/tokenizer.py",
    }
    found = {str(path.relative_to(SOURCE)) for path in modules() if "json.dump" in path.read_text()}
    assert found == hashed


@pytest.mark.parametrize("name", DOORS)
def test_what_imports_or_fetches_is_asked_only_where_a_person_names_it(name: str) -> None:
    asking = re.compile(rf"^from gpt1\.[\w.]+ import .*\b{name}\b", re.MULTILINE)
    found = {str(path.relative_to(SOURCE)) for path in modules() if asking.search(path.read_text())}
    assert found <= DOORS[name]


def test_public_names_are_the_stable_ones_and_all_can_be_imported() -> None:
    assert gpt1.__all__ == [
        "GPTClassifier",
        "GPTRegressor",
        "Gpt1Error",
        "finetune",
        "load_run",
        "load_tokenizer",
        "prepare",
        "pretrain",
        "recipe",
        "train_tokenizer",
    ]
    assert all(getattr(gpt1, name).__doc__ for name in gpt1.__all__)
    with pytest.raises(AttributeError, match="no attribute 'load_tokeniser'"):
        gpt1.load_tokeniser  # noqa: B018


def test_importing_gpt1_and_asking_for_help_imports_nothing_heavy() -> None:
    heavy = "numpy", "spacy", "ftfy", "tokenizers", "pyarrow", "rich", "torch", "datasets"
    code = "import sys, gpt1, gpt1.cli\n"
    code += "try: gpt1.cli.main(['--help'])\nexcept SystemExit: pass\n"
    code += f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def undocumented(node: ast.AST, inside: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            if not ast.get_docstring(child):
                yield f"{inside}: {child.name}"
            if isinstance(child, ast.ClassDef):
                yield from undocumented(child, f"{inside}: {child.name}")


def test_every_module_and_public_function_says_what_it_is() -> None:
    missing = []
    for path in modules():
        tree = ast.parse(path.read_text())
        name = str(path.relative_to(SOURCE))
        missing += [name] if ast.get_docstring(tree) is None else []
        if not name.startswith("cli/"):  # there a docstring is the help of a verb
            missing += undocumented(tree, name)
    assert missing == []


def test_file_sizes_are_told(record_property: pytest.RecordProperty) -> None:
    sizes = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in modules()}
    long = {name: lines for name, lines in sizes.items() if lines > LONG_FILE}
    record_property("long_files", long)
    assert max(sizes.values()) < 2 * LONG_FILE, f"two ideas in one file? {long}"
