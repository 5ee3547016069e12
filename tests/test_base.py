"""How the base is made, from books to its folder."""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from gpt1 import finetune, load_base, load_run
from gpt1.base.errors import FormatError
from gpt1.bases import catalog
from gpt1.bases.catalog import bases
from gpt1.corpus.manifest import read_corpus
from gpt1.pretraining.measure import measure_corpus
from tests.lessons.tools import library

TOOLS = Path(__file__).parent.parent / "tools"


def load_tool(name: str) -> ModuleType:
    """Import a script, which lies in no package."""
    spec = importlib.util.spec_from_file_location(f"{name}_tool", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its records look their types up
    spec.loader.exec_module(module)
    return module


TOOL = load_tool("base")
TINY = ["shape.layers=1", "shape.width=16", "shape.heads=2", "shape.feed_forward=32", "shape.context=32"]
FACTS = TOOL.Facts("a try", "tales of a small town", "English", "by nobody who lived", "nobody's", "MIT")
FEW = ["training.steps=3", "training.batch=4", "logging.evaluate_every=2", "logging.log_every=1"]


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for at, part in enumerate(library(documents=4, length=600)):
        (folder / f"book-{at}.txt").write_text(part.text)
    (tmp_path / "without.txt").write_text("book-3\n")
    return folder


def test_a_base_is_made_goes_on_where_it_was_and_is_fine_tuned_from(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = TOOL.books([str(books)], tmp_path / "without.txt")
    assert [Path(name).name for name in files] == ["book-0.txt", "book-1.txt", "book-2.txt"]
    settings = TOOL.Settings([*TINY, *FEW], FEW, passages=40, reread=2, keep=0.25)

    def make() -> None:
        TOOL.make(files, tmp_path / "base", settings)
        TOOL.describe(tmp_path / "base", FACTS, TOOL.Measured())

    make()
    assert "update 3: " in capsys.readouterr().out
    before = {path: path.read_bytes() for path in (tmp_path / "base" / "small").rglob("*") if path.is_file()}
    with monkeypatch.context() as patched:
        patched.delattr(TOOL, "make_lessons")  # they are there
        make()
    assert "all 3 updates are made" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before

    check_average(tmp_path / "base", "reread-reader", "taught", "reread", keep=1.0)
    check_average(tmp_path / "base", "pretrained", "reread", "kept", keep=0.25)
    check_shipped(tmp_path / "base", monkeypatch)

    base = load_base("small", device="cpu")
    assert set(base.tasks) == {"similar", "damaged", "follows", "continues", "mood"}
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    run = finetune("small", tmp_path / "run", train=tmp_path / "rows.csv", changes=["training.steps=1"], device="cpu")
    assert (list(run.tasks), run.record.parent) == (["rows"], "small")
    assert TOOL.check(files, tmp_path / "again", pretraining=settings.pretraining, updates=2) < 1e-3
    check_measured(tmp_path, settings.command())


def test_lessons_wait_where_the_making_ends_with_the_pre_training(books: Path, tmp_path: Path) -> None:
    files = TOOL.books([str(books)], None)
    lessons = TOOL.make_pretrained(files, tmp_path / "base", TOOL.Settings([*TINY, *FEW], FEW, passages=40))
    assert {path.name for path in lessons} == {"similar", "damaged", "follows", "continues", "mood"}
    assert not (tmp_path / "base" / "taught").exists()


def test_ways_to_teach_are_judged_by_what_they_cost_and_bring(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    ways = load_tool("lessons")
    monkeypatch.setattr(ways, "TASKS", ("sst2",))
    monkeypatch.setattr(ways, "WAYS", {"few": FEW})
    monkeypatch.setattr(ways, "LABELS", 8)
    monkeypatch.setattr(ways, "READ", 2)
    monkeypatch.setattr(ways, "FEWEST_JUDGING", 60)
    rows = [{"text": f"a {word} day", "label": label} for word in ("good", "fine") for label in (0, 1)] * 100
    (tmp_path / "tasks" / "sst2").mkdir(parents=True)
    with lzma.open(tmp_path / "tasks" / "sst2" / "train.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pairs.jsonl").write_text(
        '{"good": "She walks.", "bad": "She walk.", "paradigm": "agreement", "field": "morphology"}\n'
    )
    files = TOOL.books([str(books)], None)
    TOOL.make_pretrained(files, tmp_path / "base", TOOL.Settings([*TINY, *FEW], FEW, passages=40))
    given = argparse.Namespace(
        base=tmp_path / "base", blimp=tmp_path / "pairs.jsonl", out=tmp_path / "judged", pretraining=[*TINY, *FEW]
    )
    ways.tenths(tmp_path / "tasks", given.out / "tasks")
    parts = [(given.out / "tasks" / "sst2" / f"{name}.jsonl").read_text().splitlines() for name in ("train", "dev")]
    assert sorted(parts[0] + parts[1]) == sorted(map(json.dumps, rows))
    assert len(parts[1]) == ways.FEWEST_JUDGING
    ways.teach(given, "few")
    for name in ("pretrained", "few", "few-kept", "few-reread"):
        ways.judge(given, name)
        found = json.loads((given.out / f"{name}.json").read_text())
        assert list(found) == ["bits a byte", "BLiMP", "sst2", "mean"]
        assert 0 <= found["sst2"] == found["mean"] <= 100
        own = measure_corpus(load_run(ways.place(given, name), device="cpu"), tmp_path / "base" / "corpus")
        assert found["bits a byte"] == pytest.approx(own["bits_per_byte"])
    check_best(ways, given, files, "few-reread")


def test_settings_of_fine_tuning_are_tried_on_rows_for_training_alone(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    tool = load_tool("settings")
    monkeypatch.setattr(tool, "TASKS", ("sst2",))
    monkeypatch.setattr(tool, "TRIED", {"as it is": ["pre-trained", *FEW], "scratch 1e-3": ["scratch", *FEW]})
    monkeypatch.setattr(tool, "DRAWS", {8: 2, "all": 1})
    monkeypatch.setattr("lessons.TASKS", ("sst2",))
    monkeypatch.setattr("lessons.FEWEST_JUDGING", 8)
    rows = [json.dumps({"text": f"a {'good' if n % 2 else 'bad'} day {n}", "label": n % 2}) for n in range(30)]
    (tmp_path / "tasks" / "sst2").mkdir(parents=True)
    with lzma.open(tmp_path / "tasks" / "sst2" / "train.jsonl.xz", "wt") as file:
        file.writelines(f"{row}\n" for row in rows)
    (tmp_path / "tasks" / "sst2" / "dev.jsonl.xz").write_bytes(b"who opens this fails")
    tool.tenths(tmp_path / "tasks", tmp_path / "tried" / "tasks")
    made = sorted((tmp_path / "tried" / "tasks" / "sst2").iterdir())
    assert [path.name for path in made] == ["dev.jsonl", "train.jsonl"]
    judging, training = (path.read_text().splitlines() for path in made)
    assert (len(judging), len(training)) == (8, 22)
    assert sorted(judging + training) == sorted(rows)  # each row once, as no two are the same
    TOOL.make_pretrained(
        TOOL.books([str(books)], None), tmp_path / "base", TOOL.Settings([*TINY, *FEW], FEW, passages=40)
    )
    given = argparse.Namespace(init=tmp_path / "base" / "pretrained", out=tmp_path / "tried", device="cpu")
    for name in tool.TRIED:
        for part in range(1, tool.PARTS + 1):
            tool.try_out(given, name, part)
        found = tool.scores(given.out / tool.place(name))
        assert {which: list(of) for which, of in found.items()} == {"few": ["sst2"], "all": ["sst2"]}
        assert all(0 <= score <= 100 for of in found.values() for score in of.values())


def check_best(ways: ModuleType, given: argparse.Namespace, files: list[str], best: str) -> None:
    """Make a base of the best: what was taught and read is not done again."""
    ways.put_into_base(given, "few-kept")
    ways.put_into_base(given, best)  # given again, the choice is made anew
    TOOL.make(files, given.base, TOOL.Settings(given.pretraining, FEW, passages=40, reread=2))
    for name, judged in (("taught", "few"), ("reread", best)):
        weights = [
            load_run(path, device="cpu").checkpoint.weights_hash for path in (given.base / name, given.out / judged)
        ]
        assert weights[0] == weights[1]
    assert not (given.base / "reread-reader").exists()


def test_the_best_way_to_teach_is_the_one_that_brings_most_of_those_that_cost_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    ways = load_tool("lessons")
    figures = {"pretrained": (1.15, 60.0), "recipe": (1.46, 70.0), "lm": (1.17, 66.0), "lm-kept": (1.16, 68.0)}
    found = {name: {"bits a byte": bits, "mean": mean} for name, (bits, mean) in figures.items()}
    assert ways.best_of(found) == "lm-kept"
    monkeypatch.setattr(ways, "WAYS", {"recipe": [], "lm": ["finetuning.lm_weight=4"]})
    assert ways.options_for("lm-kept") == "--lessons finetuning.lm_weight=4 --keep 0.5"
    assert ways.options_for("recipe") == ""
    assert ways.options_for("lm-reread") == "--lessons finetuning.lm_weight=4 --reread 500"
    del found["lm"], found["lm-kept"]
    assert ways.best_of(found) == "recipe"


def check_average(made: Path, reader: str, taught: str, averaged: str, *, keep: float) -> None:
    """Hold averaged weights against those they are the mean of; those of the lessons alone are as they were."""
    read, after, mean = (load_run(made / name, device="cpu").checkpoint.model for name in (reader, taught, averaged))
    assert mean.keys() == after.keys()
    for name, weights in mean.items():
        other = read.get(name.removeprefix("body."))
        if other is None:
            assert torch.equal(weights, after[name])
        else:
            wanted = keep * other + (1 - keep) * after[name][: len(other)]
            torch.testing.assert_close(weights[: len(other)], wanted)
            assert torch.equal(weights[len(other) :], after[name][len(other) :])


def check_shipped(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put what was made into the package's place, alone, and hold what it says against where that came from."""
    shipped = made.parent / "packaged"
    shutil.copytree(made / "small", shipped / "small")
    monkeypatch.setattr(catalog, "PACKAGED", shipped)
    (base,) = bases()
    corpus, record = read_corpus(made / "corpus"), base.record
    read = corpus.splits["train"]
    assert (record.text.documents, record.text.bytes, record.text.tokens) == (read.documents, read.bytes, read.tokens)
    assert record.bits_per_byte == pytest.approx(
        measure_corpus(load_run(made / "small", device="cpu"), made / "corpus")["bits_per_byte"]
    )
    assert record.command.startswith(
        "python tools/base.py BOOKS --out BASE --facts FACTS --passages 40 --pretraining sh"
    )
    assert (shipped / "small" / "books.txt").read_text() == "book-0.txt\nbook-1.txt\nbook-2.txt\n"
    told = [path for path in (shipped / "small").rglob("*") if path.suffix in (".json", ".md", ".txt")]
    assert [path.name for path in told if str(made.parent) in path.read_text()] == []  # of where it was made


def check_measured(folder: Path, command: str) -> None:
    """Hold the card against the facts it was made of, then with what was measured of the base besides."""
    card = (folder / "base" / "small" / "card.md").read_text()
    pretrained = load_run(folder / "base" / "pretrained", device="cpu")
    for fact in (
        "tales of a small town",
        "by nobody who lived",
        "| found | 3, of which 0 were dropped; books.txt names their files |",
        f"    {command}\n",
        f"| pre-training | training loss | {TOOL.figures(pretrained)['loss']:.4f} |",
        f"| updates | {pretrained.checkpoint.step}, of 4 sequences each |",
        f"{pretrained.checkpoint.seconds:,.0f} s on",
        "| lesson 'damaged' | accuracy on dev |",
        "| in a byte a weight | bits a byte on validation text |",
        "Weights: MIT. Text: nobody's.",
    ):
        assert fact in card, fact
    assert "BLiMP" not in card
    for name in (
        "corpus",
        "pretrained",
        "taught",
        "reread",
        "kept",
        "lessons",
    ):  # the card can be written anew elsewhere
        shutil.rmtree(folder / "base" / name)
    blimp, scores, remarks = folder / "blimp.json", folder / "scores.json", folder / "remarks.md"
    blimp.write_text('{"accuracy": 0.759, "pairs": 29955}')
    scores.write_text('[{"task": "SST-2", "labels": 200, "accuracy": 66.0}]')
    remarks.write_text("No row of a task stands in its text.\n")
    TOOL.describe(folder / "base", FACTS, TOOL.Measured(blimp, scores, remarks))
    card = (folder / "base" / "small" / "card.md").read_text()
    assert "BLiMP: 75.9 of 100 on 29,955 minimal pairs; chance is 50." in card
    assert "| task | labels | accuracy |\n| --- | --- | --- |\n| SST-2 | 200 | 66.0 |\n" in card
    assert "\nNo row of a task stands in its text.\n" in card
    scores.write_text('[{"task": "SST-2"}, {"labels": 200}]')
    with pytest.raises(FormatError, match=r"scores\.json is no table: a JSON list of objects with the same keys"):
        TOOL.describe(folder / "base", FACTS, TOOL.Measured(None, scores))
