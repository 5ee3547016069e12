"""The house keeps its order: floors, owners, public names, sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from importlinter.cli import lint_imports

import gpt1

SOURCE = Path(gpt1.__file__).parent
ROOT = SOURCE.parent.parent
LONG_FILE = 450
OFFERS_COMMENT = "# What other rooms may import of this one's modules."
GROUND_FLOOR = "base"  # which offers all it has to all

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
    r"lzma|bz2\.|zstandard|gzip\.": "base/archives.py",
    r"get_close_matches": "base/errors.py",
    r"os\.fsync": "base/files.py",
    r"gpt1-checkpoint": "runs/checkpoints.py",
    r"gpt1-base": "bases/catalog.py",
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
    "find_task": {"tasks/preparing.py", "tasks/describe.py", "inference/zeroshot.py", "studies/subjects.py"},
    "read_hub": {"tasks/preparing.py"},
}

# What can reach the network, and the files that import it; a base is opened without any of them.
NETWORK = {
    "datasets": {"corpus/documents.py", "tasks/hub.py"},
    "huggingface_hub": {"exchange/importing.py"},
    "ray": {"corpus/on_ray.py"},
    "socket": {
        "corpus/on_ray.py",
        "serve/listening.py",
        "serve/patience.py",
        "serve/server.py",
        "serve/workers.py",
    },
    **{name: set() for name in ("ftplib", "http", "httpx", "requests", "ssl", "urllib")},
}

# What other libraries have set on objects of theirs; all else is set in the file of the class that has it.
SET_ON_LIBRARIES = {
    "cli/words.py": {"warnings.showwarning"},  # as Python documents it
    "base/parallel.py": {"script.__file__", "script.__spec__"},  # Python's __main__, while workers begin
    "model/kernels/windows.py": {"ctx.settings"},  # torch's, as it documents for operations of one's own
    "corpus/wikipedia.py": {  # expat's handlers
        "self.parser.CharacterDataHandler",
        "self.parser.EndElementHandler",
        "self.parser.EntityDeclHandler",
        "self.parser.StartDoctypeDeclHandler",
        "self.parser.StartElementHandler",
        "self.parser.buffer_size",
        "self.parser.buffer_text",
    },
    "estimators/embedder.py": {
        "tags.input_tags.one_d_array",
        "tags.input_tags.string",
        "tags.input_tags.two_d_array",
        "tags.requires_fit",
        "tags.transformer_tags.preserves_dtype",
    },
    "estimators/estimators.py": {  # scikit-learn's tags
        "tags.classifier_tags.multi_label",
        "tags.input_tags.one_d_array",
        "tags.input_tags.string",
    },
    "linear/words.py": {"found.idf_"},  # scikit-learn's TF-IDF, as it documents it
    "model/accumulation.py": {"ctx.parameters"},  # torch's autograd
    "model/kernels/attention.py": {"ctx.masks"},
    "model/kernels/block.py": {"ctx.given"},
    "model/kernels/embedding.py": {"ctx.given"},
    "model/kernels/dropout.py": {"ctx.settings"},
    "model/kernels/learning.py": {"ctx.settings"},
    "model/kernels/norm.py": {"ctx.settings"},
    "model/kernels/tables.py": {"ctx.settings"},
    "model/loss.py": {"ctx.in_one", "ctx.output_dtype"},
    "serve/app.py": {"app.router.route_class", "app.state.server"},  # FastAPI
    "serve/monitoring.py": {"told.args", "told.exc_info", "told.facts", "told.msg"},  # a copy of logging's record
    "tasks/submissions.py": {"entry.create_system", "entry.external_attr"},  # zipfile
    "text/bytes.py": {"tokenizer.decoder", "tokenizer.pre_tokenizer"},  # tokenizers
    "text/splitting.py": {"affixes_only.url_match"},  # spaCy
    "text/training.py": {"library.pre_tokenizer"},  # tokenizers
    "training/storage.py": {"parameter.data", "parameter.grad"},  # torch
}

# Names that another library does not promise, and the one file of each library that may use them. A test of that file
# tells when one has moved; pyproject.toml says up to which version the library was looked at.
PRIVATE_NAMES = {
    "base/parallel.py": {"_Popen", "_processes"},  # Python's multiprocessing
    "base/torch_internals.py": {
        "_flash_attention_forward",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
        "_foreach_copy_",
        "_int_mm",
        "_is_amx_tile_supported",
        "_is_avx512_bf16_supported",
        "_is_mkldnn_bf16_supported",
        "_is_vnni_supported",
        "_linear_pointwise",
        "_reorder_linear_weight",
    },
}
PROMISED = {"_asdict", "_exit", "_replace"}  # of namedtuple and os, whatever they look like
UNDOCUMENTED = {"uvicorn.protocols": "serve/patience.py", "torch.onnx._internal": "base/torch_internals.py"}


# More parameters than anybody keeps apart are a value that is missing, but for these.
MOST_PARAMETERS = 10
MANY_PARAMETERS = {
    "corpus/vocabularies.py: train_tokenizer": "for users: one for each way to read text",
    "estimators/estimators.py: __init__": "scikit-learn wants the settings of an estimator spelt out",
    "exchange/rewording.py: reword_table": "for users: one for each way to read a table and to write it",
    "finetuning/finetune.py: finetune": "for users: one for each way to name what is learned",
    "finetuning/measure.py: evaluate_run": "for users: one for each way to name what is measured on",
    "finetuning/distill.py: distill_task": "for users: `finetune` with teachers",
    "inference/answer_files.py: answer_table": "for users: one for each way to read a table and to write it",
    "lessons/making.py: make_lessons": "for users: one for each way to read text",
    "labelling/choosing.py: next_labels": "for users: one for each way to read a table and to choose from it",
    "labelling/suspects.py: suspect_labels": "for users: one for each way to read a table",
    "model/kernels/adam.py: _adam": "a kernel has its pointers and sizes",
    "model/kernels/attention.py: _attend": "a kernel has its pointers and sizes",
    "model/kernels/attention.py: _attend_backward": "a kernel has its pointers and sizes",
    "model/kernels/windows.py: _attention": "an operation of the library has tensors and numbers",
    "model/kernels/windows.py: _attention_backward": "an operation of the library has tensors and numbers",
    "model/kernels/windows.py: _gather": "a kernel has its pointers and sizes",
    "model/kernels/windows.py: _attend": "a kernel has its pointers and sizes",
    "model/kernels/windows.py: _meet_queries": "a kernel has its pointers and sizes",
    "model/kernels/windows.py: _meet_keys": "a kernel has its pointers and sizes",
    "model/kernels/windows.py: _attend_backward": "a kernel has its pointers and sizes",
    "model/kernels/decode.py: _attend_next": "a kernel has its pointers and sizes",
    "model/kernels/decode.py: _project_rows": "a kernel has its pointers and sizes",
    "model/kernels/dropout.py: _drop": "a kernel has its pointers and sizes",
    "model/kernels/embedding.py: _gather": "a kernel has its pointers and sizes",
    "model/kernels/norm.py: _drop_add_norm": "a kernel has its pointers and sizes",
    "model/kernels/norm.py: _drop_add_norm_backward": "a kernel has its pointers and sizes",
    "model/kernels/queries.py: _prepare": "a kernel has its pointers and sizes",
    "model/kernels/queries.py: _prepare_backward": "a kernel has its pointers and sizes",
    "model/kernels/tables.py: _add_dropped": "a kernel has its pointers and sizes",
    "model/kernels/tables.py: _add_rows": "a kernel has its pointers and sizes",
    "model/kernels/tables.py: _drop_table": "a kernel has its pointers and sizes",
    "pretraining/distill.py: distill_text": "for users: `pretrain` with teachers",
    "pretraining/pretrain.py: pretrain": "for users: one for each way to begin a run and to end it",
    "tuning/tune.py: tune": "for users: one for each way to bound a search",
    "tasks/preparing.py: prepare_task": "for users: one for each way to name what is encoded",
}


# `dict[str, Any]` is JSON that was parsed just now, or is written next. All else has a type of its own.
AS_JSON = re.compile(r"(\w+_)?(as|from)_json|check_version")  # functions that are this very border
PARSERS = {
    "base/files.py": "reads and writes JSON",
    "base/records.py": "checks JSON against type hints",
    "corpus/prepare.py": "for users: `gpt1.prepare` returns `corpus.json`",
    "records/run.py": "`made_with` of `run.json` is free-form",
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def trees() -> dict[str, ast.Module]:
    """Return every file of the package as Python reads it."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in modules()}


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
        "studies/subjects.py",
        "text/tokenizer.py",
    }
    found = {str(path.relative_to(SOURCE)) for path in modules() if "json.dump" in path.read_text()}
    assert found == hashed


@pytest.mark.parametrize("name", DOORS)
def test_what_imports_or_fetches_is_asked_only_where_a_person_names_it(name: str) -> None:
    asking = re.compile(rf"^from gpt1\.[\w.]+ import .*\b{name}\b", re.MULTILINE)
    found = {str(path.relative_to(SOURCE)) for path in modules() if asking.search(path.read_text())}
    assert found <= DOORS[name]


@pytest.mark.parametrize("name", NETWORK)
def test_the_network_is_reached_from_few_files(name: str) -> None:
    assert {file for file, tree in trees().items() if name in imported(tree)} == NETWORK[name]


def imported(tree: ast.Module) -> set[str]:
    """Return the first parts of the names of all modules that a file imports."""
    whole = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    parts = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in whole | parts}


def test_public_names_are_the_stable_ones_and_all_can_be_imported() -> None:
    assert gpt1.__all__ == [
        "GPTClassifier",
        "GPTEmbedder",
        "GPTRegressor",
        "Gpt1Error",
        "InputError",
        "finetune",
        "load_base",
        "load_run",
        "load_tokenizer",
        "next_labels",
        "prepare",
        "pretrain",
        "recipe",
        "start",
        "suspect_labels",
        "train_tokenizer",
        "tune",
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


@pytest.mark.parametrize(
    ("rooms", "heavy"),
    [
        ("gpt1.inspection.table, gpt1.runs.folder", "torch"),  # a table is checked, a record is read
        ("gpt1.finetuning, gpt1.inference.run, gpt1.serve.app, gpt1.training.trainer", "torch._dynamo"),  # the compiler
    ],
)
def test_what_has_no_use_for_torch_or_its_compiler_does_not_load_it(rooms: str, heavy: str) -> None:
    code = f"import sys, {rooms}\nprint({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def attributes_of_classes(tree: ast.Module) -> set[str]:
    """Return what the classes of a file have: their fields, and what they set on themselves."""
    fields = {
        part.target.id
        for found in ast.walk(tree)
        if isinstance(found, ast.ClassDef)
        for part in found.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    return fields | {found.attr for found in set_attributes(tree) if ast.unparse(found.value) in ("self", "cls")}


def set_attributes(tree: ast.Module) -> list[ast.Attribute]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [node for node in found if isinstance(node.ctx, ast.Store | ast.Del)]


def set_from_outside(tree: ast.Module) -> set[str]:
    own = attributes_of_classes(tree)
    return {ast.unparse(found) for found in set_attributes(tree) if found.attr not in own}


def test_an_attribute_is_set_where_its_class_is() -> None:
    found = {name: set_from_outside(tree) for name, tree in trees().items()}
    assert {name: attributes for name, attributes in found.items() if attributes} == SET_ON_LIBRARIES


def test_an_attribute_that_is_set_from_outside_is_noticed() -> None:
    tree = ast.parse("class A:\n    x: int\n    def f(self, a, b):\n        self.y = a.x = b.z = 1\n        del b.w")
    assert set_from_outside(tree) == {"b.z", "b.w"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PROMISED


def own_names() -> set[str]:
    """Return what is defined, or set, anywhere in the package."""
    nodes = [node for tree in trees().values() for node in ast.walk(tree)]
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names - {"_Popen"}  # which is put in the place of multiprocessing's


def private_names(tree: ast.Module, own: set[str]) -> set[str]:
    """Return the private names of other libraries that a file uses or imports."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - own
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("gpt1"):
            found |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
        if isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
    return {name for name in found if is_private(name)}


def test_private_names_of_a_library_are_used_in_one_file() -> None:
    own = own_names()
    found = {name: private_names(tree, own) for name, tree in trees().items()}
    assert {name: names for name, names in found.items() if names} == PRIVATE_NAMES


@pytest.mark.parametrize(("name", "owner"), UNDOCUMENTED.items())
def test_undocumented_modules_of_a_library_are_named_in_one_file(name: str, owner: str) -> None:
    assert [str(path.relative_to(SOURCE)) for path in modules() if name in path.read_text()] == [owner]


def test_a_library_whose_private_names_are_used_has_an_upper_bound() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for library in ("torch", "uvicorn", "spacy"):
        assert re.search(rf'"{library}>=[\d.]+,<[\d.]+"', text), library


def test_a_private_name_of_a_library_is_noticed() -> None:
    tree = ast.parse("import a._b\nfrom c import _d\nx._own()\ny._other.z\nos._exit(1)\n__file__\n")
    assert private_names(tree, {"_own"}) == {"_b", "_d", "_other"}


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


@cache
def imports_between_rooms() -> dict[str, dict[str, set[str]]]:
    """Return by room what other rooms import: by module its names, under "" what the room itself has."""
    found: dict[str, dict[str, set[str]]] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("gpt1."):
                continue
            _, room, *inner = str(node.module).split(".")
            if room == path.split("/")[0] or not (SOURCE / room).is_dir():
                continue
            modules = found.setdefault(room, {})
            for alias in node.names:
                if (SOURCE.joinpath(room, *inner) / f"{alias.name}.py").exists():
                    modules.setdefault(alias.name, set()).update(used_of(tree, alias.asname or alias.name))
                else:
                    modules.setdefault(".".join(inner), set()).add(alias.name)
    return found


def imported_of(room: str) -> dict[str, list[str]]:
    """Return what other rooms import of a room's modules."""
    modules = imports_between_rooms().get(room, {})
    return {module: sorted(names) for module, names in sorted(modules.items()) if module}


def used_of(tree: ast.Module, module: str) -> set[str]:
    """Return the names of an imported module that a file uses."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == module}


def named_in(room: str, name: str) -> Any:
    """Return a constant of a room's `__init__`, None where it has none."""
    tree = ast.parse((SOURCE / room / "__init__.py").read_text())
    values = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name]
    return ast.literal_eval(values[0]) if values else None


ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_others_import_of_it(room: str) -> None:
    if room == GROUND_FLOOR:
        assert named_in(room, "OFFERS") is None
        return
    assert imports_between_rooms().get(room, {}).get("", set()) <= set(named_in(room, "__all__") or ())
    told = "is this to be offered? `python -m tests.test_architecture` writes all OFFERS anew"
    assert (named_in(room, "OFFERS") or {}) == imported_of(room), told


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters a function has, `self` apart."""
    found = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    return sum(one is not None and one.arg not in ("self", "cls") for one in found)


def test_a_function_has_few_parameters() -> None:
    many = {
        f"{name}: {node.name}"
        for name, tree in trees().items()
        if not name.startswith("cli/")  # there each option is one
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters(node) > MOST_PARAMETERS
    }
    assert many == MANY_PARAMETERS.keys()


def untyped_dicts(tree: ast.AST) -> Iterator[str]:
    """Yield the public functions, fields and aliases of a file that say `dict[str, Any]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            hints = {node.name: [one.annotation for one in every if one is not None] + [node.returns]}
        elif isinstance(node, ast.ClassDef):
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            hints = {f"{node.name}.{ast.unparse(field.target)}": [field.annotation] for field in fields}
            hints[node.name] = list(node.bases)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            hints = {ast.unparse(node.targets[0]): [node.value]}
        else:
            continue
        for name, found in hints.items():
            is_public = not is_private(name) and not AS_JSON.fullmatch(name)
            if is_public and any(one and re.search(r"(dict|Mapping)\[str, Any\]", ast.unparse(one)) for one in found):
                yield name


def test_what_is_handed_on_has_a_type_of_its_own() -> None:
    found = {name: places for name, tree in trees().items() if (places := sorted(untyped_dicts(tree)))}
    assert {name: places for name, places in found.items() if name not in PARSERS} == {}
    assert PARSERS.keys() - found.keys() == set()


def test_a_dict_of_anything_is_noticed() -> None:
    code = "A = list[dict[str, Any]]\ndef f(x: Mapping[str, Any] | None): ...\nclass B:\n    y: dict[str, Any]\n"
    fine = "def as_json() -> dict[str, Any]: ...\ndef _g(x: dict[str, Any]): ...\ndef h(**x: Any): ...\n"
    assert set(untyped_dicts(ast.parse(code))) == {"A", "f", "B.y"}
    assert list(untyped_dicts(ast.parse(fine))) == []


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


def write_offers() -> None:
    """Write what each room offers: all that others import of it now."""
    for room in ROOMS:
        path, offers = SOURCE / room / "__init__.py", {} if room == GROUND_FLOOR else imported_of(room)
        own = path.read_text().split(OFFERS_COMMENT)[0].rstrip("\n")
        path.write_text(f"{own}\n" + (f"\n{OFFERS_COMMENT}\nOFFERS = {offers!r}\n" if offers else ""))


if __name__ == "__main__":
    write_offers()
    subprocess.run(["ruff", "format", "-q", *(SOURCE.glob("*/__init__.py"))], check=True)
