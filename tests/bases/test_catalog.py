"""Bases: found by name, chosen where none is named, refused by name where they are damaged."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import gpt1
from gpt1 import GPTClassifier, finetune, load_base, load_run, load_tokenizer, prepare
from gpt1.base.errors import Chosen, FormatError, InputError, SettingError
from gpt1.base.files import file_hash, write_record
from gpt1.bases import catalog
from gpt1.bases.catalog import base_in, bases, default_base, find_base, lasting_name, named_again, run_or_base
from gpt1.inference.blimp import MinimalPair, blimp
from gpt1.lessons.making import make_lessons
from gpt1.model.costs import count_parameters
from gpt1.pretraining.pretrain import pretrain
from gpt1.runs.checkpoints import MODEL_FILE, list_checkpoints
from gpt1.runs.folder import read_run
from gpt1.studies.material import open_start
from gpt1.text.specials import SPECIALS
from tests.bases import tools
from tests.conftest import SMALL_RUN
from tests.lessons.tools import library
from tests.records import facts_in

ROOT = Path(__file__).parents[2]
FEW = ["training.steps=2", "training.precision=fp32"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("text,label\n" + "good day,1\nbad day,0\n" * 6)
    return tmp_path / "rows.csv"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


@pytest.fixture
def none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without bases."""
    (tmp_path / "none" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")


# ---- found by name ----


def test_a_base_is_opened_by_its_name(small: Path, trained: Path, elsewhere: Path) -> None:
    (found,) = bases()
    assert (found.name, found.path) == ("small", small)
    assert found.in_short() == (
        "26,000 parameters; it has read tales of a small world (English): 38 documents, 0.1 MB, 20,000 tokens"
    )
    run, whole = load_base("small", device="cpu"), load_run(trained, device="cpu")
    assert run.path == load_run("small", device="cpu").path == small
    assert run.tokenizer.fingerprint == whole.tokenizer.fingerprint == load_tokenizer("small").fingerprint
    assert run.generate("Ann sold", max_new_tokens=3, temperature=0)


def test_a_name_is_as_good_as_a_folder_wherever_a_run_is_named(small: Path, table: Path, elsewhere: Path) -> None:
    run = finetune("small", "run", train=table, changes=FEW, device="cpu")
    assert run.record.parent == "small"
    assert open_start("small").path == small
    Path("text.txt").write_text("Ann sold hats.\n\nTom lost a key.\n")
    prepare(["text.txt"], "small", "corpus", valid=0, workers=1)
    more = pretrain(None, "corpus", "more", init="small", changes=["training.steps=1"], device="cpu")
    assert (more.record.parent, more.record.tokenizer) == ("small", read_run(small).tokenizer)
    Path("story.txt").write_text("\n\n".join(part.text for part in library()))
    lesson = make_lessons("story.txt", "small", "lessons", counts={"damaged": 20}, passages=40, workers=1)["damaged"]
    assert lesson.tokenizer_fingerprint == run.record.tokenizer
    assert lesson.context == read_run(small).recipe.shape.context


def test_what_lies_here_comes_before_a_base_and_is_told(small: Path, trained: Path, elsewhere: Path) -> None:
    shutil.copytree(trained, "small")
    with pytest.warns(
        Chosen, match=r"'small' is what lies in this folder, not the base of that name, .*packaged/small"
    ):
        run = load_run("small", device="cpu")
    assert run.path == Path("small")
    assert load_base("small", device="cpu").path == small
    assert run_or_base(elsewhere / "small") == elsewhere / "small"  # a path leaves nothing open


def test_an_unknown_name_is_told_with_those_there_are(small: Path, elsewhere: Path) -> None:
    with pytest.raises(SettingError) as unknown:
        load_base("smal")
    assert str(unknown.value).startswith(
        "there is no base 'smal' in this package, which has small; pre-train a run of your own with "
        "`gpt1.pretrain()`, or make one of GPT-1's released weights with gpt1 import openai, or name the folder"
    )
    with pytest.raises(
        InputError, match="smal does not exist, and there is no base of that name; did you mean 'small'"
    ):
        load_run("smal")
    with pytest.raises(InputError, match="runs/other does not exist"):
        load_run("runs/other")


@pytest.mark.parametrize("name", ["../small", "small/", "/small", "..", ".", ""])
def test_a_name_of_a_base_leads_nowhere_else(name: str, small: Path, elsewhere: Path) -> None:
    with pytest.raises(SettingError, match=f"'{name}' is no name of a base but a path"):
        load_base(name)


# ---- chosen where none is named ----


def test_without_a_run_to_start_from_the_base_is_taken_and_told(small: Path, table: Path, elsewhere: Path) -> None:
    with pytest.warns(Chosen, match="starting from the base 'small': 26,000 parameters; it has read tales of a small"):
        run = finetune(None, "run", train=table, changes=FEW, device="cpu")
    assert (run.record.parent, run.record.tokenizer) == ("small", read_run(small).tokenizer)


def test_an_estimator_takes_it_too_and_remembers_its_name(small: Path, elsewhere: Path) -> None:
    texts, labels = ["good day", "bad day"] * 4, [1, 0] * 4
    with pytest.warns(Chosen, match="starting from the base 'small'"):
        model = GPTClassifier(settings={"training.steps": 2}, device="cpu").fit(texts, labels)
    model.save("model")
    assert facts_in(Path("model/estimator.json"))["arguments"]["init"] == "small"
    assert GPTClassifier.load("model", device="cpu").fit(texts, labels).run_.record.parent == "small"


def test_a_package_without_a_base_names_the_doors(none: None, table: Path, elsewhere: Path) -> None:
    assert bases() == []
    with pytest.raises(SettingError) as without:
        finetune(None, "run", train=table, device="cpu")
    assert str(without.value) == (
        "which run to start from? This package has no base of its own; pre-train a run of your own with "
        "`gpt1.pretrain()`, or make one of GPT-1's released weights with gpt1 import openai, or name the folder of "
        "another's run, with `init`"
    )
    with pytest.raises(SettingError, match="no base 'small' in this package, which has none; pre-train a run of your"):
        load_base("small")


# ---- found again ----


def moved(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move the bases elsewhere, as a package that is installed anew does, and return the base's folder."""
    folder = small.parent.rename(small.parent.with_name("moved"))
    monkeypatch.setattr(catalog, "PACKAGED", folder)
    return folder / "small"


def test_a_record_finds_a_base_wherever_the_package_is_then(
    small: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lasting_name(small) == "small"
    assert lasting_name(elsewhere) == str(elsewhere)
    Path("small").mkdir()
    assert named_again("small") == small
    assert named_again(str(elsewhere)) == elsewhere
    there = moved(small, monkeypatch)
    assert named_again("small") == there


def newest_weights(run: Path) -> str:
    return file_hash(list_checkpoints(run)[-1][1] / MODEL_FILE)


def test_trainings_go_on_before_their_first_checkpoint_after_the_package_moved(
    small: Path, table: Path, corpus: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = finetune("small", "tuned", train=table, changes=FEW, device="cpu")
    continued = pretrain(None, corpus, "more", init="small", changes=SMALL_RUN[5:], device="cpu")
    weights = [newest_weights(run.path) for run in (begun, continued)]
    for run in (begun, continued):
        for name in ("events.jsonl", "log.txt", "metrics.jsonl"):
            (run.path / name).unlink()
        shutil.rmtree(run.path / "checkpoints")
    moved(small, monkeypatch)
    tuned = finetune("small", "tuned", train=table, changes=FEW, resume=True, device="cpu")
    more = pretrain(None, corpus, "more", resume=True, changes=SMALL_RUN[5:], device="cpu")
    assert [newest_weights(run.path) for run in (tuned, more)] == weights


# ---- damage ----


def turn_over(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "run.json", "tokenizer.json", "card.md"])
def test_a_damaged_file_is_refused_by_name(name: str, small: Path, elsewhere: Path) -> None:
    (path,) = small.rglob(name)
    turn_over(path)
    damaged = rf"packaged/small is damaged: .*{name} does not match its checksum; install gpt1 again"
    for opening in (load_base, load_run, load_tokenizer, base_in):
        with pytest.raises(FormatError, match=damaged):
            opening("small" if opening != base_in else small)
    with pytest.raises(FormatError, match=damaged):
        load_run(small)  # its folder is as good as its name


def test_a_missing_file_is_refused_by_name(small: Path) -> None:
    (small / "card.md").unlink()
    with pytest.raises(FormatError, match=r"packaged/small is damaged: card\.md is missing; install gpt1 again"):
        load_base("small")
    tools.write_record(small)
    with pytest.raises(FormatError, match=r"base\.json is damaged: it does not vouch for card\.md"):
        bases()
    (small / "base.json").unlink()
    for opening in (load_base, load_run, lambda name: bases()):
        with pytest.raises(FormatError, match=r"packaged/small is damaged: base\.json is missing; install gpt1 again"):
            opening("small")


def test_a_further_checkpoint_is_refused_by_name(small: Path, elsewhere: Path) -> None:
    checkpoint = list_checkpoints(small)[-1][1]
    further = checkpoint.with_name("step-00009999")
    shutil.copytree(checkpoint, further)
    refused = r"packaged/small is damaged: base\.json does not vouch for checkpoints/step-00009999.*; take that away"
    with pytest.raises(FormatError, match=refused):
        load_run("small")
    further.rename(elsewhere / "further")
    further.symlink_to(elsewhere / "further")  # behind which the files are not seen
    with pytest.raises(FormatError, match=refused):
        load_run("small")


def test_what_a_system_leaves_in_any_folder_is_no_damage(small: Path) -> None:
    (small / "checkpoints" / "__pycache__").mkdir()
    for name in ("checkpoints/__pycache__/x.pyc", ".DS_Store"):
        (small / name).write_text("x")
    assert find_base("small").path == small


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "gpt1-run"}, r"base\.json is no base of this version of gpt1; install gpt1 again"),
        ({"version": 2}, r"base\.json is no base of this version of gpt1; install gpt1 again"),
        ({"name": "large"}, r"base\.json is of another base, 'large'; install gpt1 again"),
        ({"parameters": "many"}, r'base\.json is damaged: parameters is "many", expected a whole number'),
        ({"files": {"card.md": "", "../../rows.csv": ""}}, r"small is damaged: card\.md does not match its checksum"),
    ],
)
def test_what_is_no_description_of_a_base_is_refused(change: dict[str, object], problem: str, small: Path) -> None:
    write_record(small / "base.json", facts_in(small / "base.json") | change)
    with pytest.raises(FormatError, match=problem):
        find_base("small")


def test_a_name_in_a_description_never_leads_out_of_the_folder(small: Path) -> None:
    facts = facts_in(small / "base.json")
    (small.parent / "secret").write_text("x")
    write_record(small / "base.json", facts | {"files": facts["files"] | {"../secret": ""}})
    with pytest.raises(FormatError, match=r"small is damaged: \.\./secret is missing"):
        find_base("small")


def test_a_turned_bit_of_the_description_is_noticed(small: Path) -> None:
    text = (small / "base.json").read_text()
    (small / "base.json").write_text(text.replace("26000", "36000"))
    assert json.loads((small / "base.json").read_text())["parameters"] == 36_000
    with pytest.raises(FormatError, match=r"base\.json is damaged: it does not match its checksum; install gpt1 again"):
        default_base()


# ---- in the package ----


MOST_BYTES = 36_000_000  # of all bases together: they travel with every copy of the project
PAIRS = [
    ("The dogs were barking all night.", "The dogs was barking all night."),
    ("She has never seen anything like it.", "She has ever seen anything like it."),
    ("He told them about himself.", "He told them about herself."),
    ("The keys to the old house are lost.", "The keys to the old house is lost."),
    ("These men have worked for us.", "These man have worked for us."),
    ("Whom did you see there?", "Whom did you see him there?"),
    ("They had eaten before we came.", "They had eat before we came."),
    ("I do not know anybody here.", "I do not know nobody's here."),
]


def test_the_bases_that_ship_are_whole_and_of_a_size_to_travel() -> None:
    shipped = [find_base(base.name) for base in bases()]
    assert [base.name for base in shipped] == ["small"]
    assert sum(base.size for base in shipped) <= MOST_BYTES
    run = load_base("small", device="cpu")
    weights = sum(weight.numel() for name, weight in run.checkpoint.model.items() if not name.startswith("heads."))
    specials = len(SPECIALS) * run.recipe.shape.width
    counted = count_parameters(run.recipe.shape, run.record.vocab_size).total
    assert shipped[0].record.parameters == counted == weights - specials  # what each fine-tuning adds is not counted
    books = (shipped[0].path / "books.txt").read_text().splitlines()
    assert len(books) == len(set(books)) == shipped[0].record.text.documents + 14  # those for validation


def test_the_base_that_ships_knows_what_is_english() -> None:
    pairs = [MinimalPair(good, bad, "any", "any") for good, bad in PAIRS]
    assert blimp(load_base("small", device="cpu"), pairs).accuracy == 1.0


def test_all_files_of_a_base_are_in_what_is_installed(small: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src" / "gpt1").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    shutil.copy(ROOT / "src" / "gpt1" / "__init__.py", project / "src" / "gpt1")
    shutil.copytree(small, project / "src" / "gpt1" / "bases" / "small")
    (project / "src" / "gpt1" / "bases" / "__init__.py").touch()
    build = ["-c", "import setuptools; setuptools.setup()", "-q", "build_py", "--build-lib", "installed"]
    subprocess.run([sys.executable, *build], cwd=project, check=True, capture_output=True)
    assert (
        catalog.files_in(project / "installed" / "gpt1" / "bases" / "small").keys()
        == find_base("small").record.files.keys()
    )
    assert (project / "installed" / "gpt1" / "bases" / "small" / "base.json").is_file()


# ---- never the network ----


def test_a_base_is_opened_and_taught_without_the_network(
    small: Path, table: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise AssertionError("somebody reached for the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    run = finetune("small", "run", train=table, changes=FEW, device="cpu")
    assert list(gpt1.load_run(run.path, device="cpu").predict(["good day"]))
