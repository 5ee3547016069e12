"""Every command and snippet in README and docs runs."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.dumps import warc_record, wiki_page, write_multistream
from gpt1.base.progress import Silent
from gpt1.demo import write_world
from gpt1.demo.recipe import PRETRAINING, Plan
from gpt1.demo.tour import make_reader
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.exchange.tools import write_release, write_vocabulary
from tests.forks import commands as commands_begun_fast

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("**/*.md"))]
WITHOUT_COMMANDS = ("docs/README.md", "docs/architecture.md")
# Commands that set up, that run this very suite, that never end (`tests/serve/test_server.py` runs those), or that take
# minutes (`tests/demo` runs the demo in small).
NOT_RUN = (
    "make ",
    "pip install",
    "eval ",
    "python benchmarks/",
    "python -m benchmarks.",
    "python -m gpt1.demo.tuning",
    "gpt1 demo",
    "gpt1 serve",
)
A_GLANCE = Plan(
    pretraining=replace(PRETRAINING, training=replace(PRETRAINING.training, steps=2))
)  # of the demo's reader
NEEDS_GPU = "--recipe paper --corpus corpus --out"
COMMAND = re.compile(r"^(?: {4})?((?:gpt1|cp|echo|make|pip|eval|python|torchrun) .*)$", re.MULTILINE)
# Of tasks with labels 0 and 1: a row without its label.
TASK_ROWS = {
    "sst2": {"text": "A fine film"},
    "storycloze": {"context": "It rains.", "choices": ["It is wet.", "It is dry."]},
}


def commands(page: Path) -> list[str]:
    text = re.sub(r"^```\w.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^ {4}\S.*\n)+", text, re.MULTILINE)
    return [command for block in blocks + indented for command in COMMAND.findall(block)]


def snippets(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, words_tokenizer: Tokenizer) -> Path:
    """A folder with what the documents speak of: books, tables, tasks, and vocabulary files of the released form."""
    (tmp_path / "books").mkdir()
    for seed in range(5):
        (tmp_path / "books" / f"{seed}.txt").write_text(make_text(200, seed))
    (tmp_path / "archive").mkdir()
    for seed in range(5, 9):
        (tmp_path / "archive" / f"{seed}.txt").write_text(make_text(40, seed))
    (tmp_path / "books" / "INDEX.tsv").write_text("slug\ttitle\n0\tA book\n")
    rows = "".join(f"{word} one,{label}\n" for word, label in [("good", 1), ("bad", 0), ("fine", 1), ("poor", 0)])
    for name in ("reviews.csv", "more.csv"):
        (tmp_path / name).write_text("review,stars\n" + rows)
    (tmp_path / "unlabelled.csv").write_text("review\nvery good\nnot so bad\nrather poor\n")
    topics = ("billing", "login|billing", "login", "", "refund|login", "refund")
    tickets = "".join(f"ticket {number} of {label},{label}\n" for number, label in enumerate(topics * 4))
    (tmp_path / "tickets.csv").write_text("text,label\n" + tickets)
    letters = "".join(f"letter {number} is {word},{word}\n" for number, word in enumerate(("kind", "rude") * 6))
    (tmp_path / "letters.csv").write_text("text,label\n" + letters)
    named = [((name, "said", "so"), (label, "O", "O")) for name, label in (("Alice", "B-PER"), ("Paris", "B-LOC")) * 10]
    lines = ("".join(f"{word} {label}\n" for word, label in zip(*one, strict=True)) for one in named)
    (tmp_path / "names.conll").write_text("\n".join(lines))
    lists = (json.dumps({"tokens": words, "labels": labels}) + "\n" for words, labels in named)
    (tmp_path / "names.jsonl").write_text("".join(lists))
    (tmp_path / "texts.txt").write_text("Alice went to Paris.\nParis said so.\n")
    with (tmp_path / "simplewiki-latest-pages-articles-multistream.xml.bz2").open("wb") as file:
        write_multistream(file, [wiki_page(seed, f"Tale {seed}", make_text(20, seed)) for seed in range(8)])
    pages = [warc_record("conversion", seed, make_text(20, seed).encode()) for seed in range(8)]
    (tmp_path / "CC-MAIN-20261101000000-00000.warc.wet.gz").write_bytes(b"".join(map(gzip.compress, pages)))
    (tmp_path / "mails.csv").write_text("body,date\nHello there,1\nDear Sir,2\n")
    (tmp_path / "tasks" / "rte").mkdir(parents=True)
    for split in ("train", "dev"):
        lines = [{"a": "It rains.", "b": "It is wet.", "label": label} for label in ("entailment", "not_entailment")]
        (tmp_path / "tasks" / "rte" / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "tasks" / "rte" / "test.jsonl").write_text(json.dumps({"a": "It rains.", "b": "It is wet."}) + "\n")
    write_vocabulary(tmp_path, words_tokenizer, "encoder_bpe_40000.json", "vocab_40000.bpe")
    write_release(tmp_path / "finetune-transformer-lm" / "model", words_tokenizer)
    for task, row in TASK_ROWS.items():
        (tmp_path / "tasks" / task).mkdir()
        for split in ("train", "dev"):
            lines = [json.dumps({**row, "label": label}) for label in (0, 1)]
            (tmp_path / "tasks" / task / f"{split}.jsonl").write_text("\n".join(lines))
    pair = {"good": "It rains.", "bad": "Rains it it.", "paradigm": "order", "field": "syntax"}
    (tmp_path / "tasks" / "blimp").mkdir()
    (tmp_path / "tasks" / "blimp" / "dev.jsonl").write_text(json.dumps(pair) + "\n")
    words_tokenizer.save(tmp_path / "tokenizer.json")
    rows = {"train": 4, "dev": 4, "test": 4, "other": 4}
    write_world(tmp_path / "gpt1-demo" / "world", stories=40, seed=0, counts=rows)
    return tmp_path


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    """Where commands are looked for: those that are begun fast, then those that are installed."""
    with commands_begun_fast() as folder:
        yield os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])


def run(words: Sequence[str], folder: Path, path: str) -> None:
    done = subprocess.run(["env", *words], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, f"{words[-1]}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_runs(page: Path, folder: Path, path: str) -> None:
    found = commands(page)
    if any("gpt1-demo/reader" in command for command in found):
        make_reader(folder / "gpt1-demo", A_GLANCE, Silent(), [])
    assert found or page.relative_to(ROOT).as_posix() in WITHOUT_COMMANDS
    if any("--out tokenizer.json" in command for command in found):  # which is not there then, and not written over
        (folder / "tokenizer.json").unlink()
    for command in found:
        if not command.startswith(NOT_RUN) and NEEDS_GPU not in command:
            run(["bash", "-c", command], folder, path)
    for snippet in snippets(page, "python after the commands"):
        run(["snippet", snippet], folder, path)


def test_the_python_snippets_run(folder: Path, path: str) -> None:
    found = [snippet for page in PAGES for snippet in snippets(page, "python")]
    assert found
    for snippet in found:
        run(["snippet", snippet], folder, path)


def anchors(page: Path) -> set[str]:
    """Return what leads to the headings of a page, as GitHub and the site name it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("C*.md"), ROOT / "LOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text())
    for target, anchor in links:
        at = page.parent / target if target else page
        assert at.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(at), f"{page.name}: {target}#{anchor}"
