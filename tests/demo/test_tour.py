"""The tour from end to end, in a size that shows nothing but that every part is there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpt1.base.errors import Busy, FormatError, InputError
from gpt1.base.files import lock_folder
from gpt1.base.progress import Silent
from gpt1.corpus.manifest import read_corpus
from gpt1.demo.page import opening
from gpt1.demo.recipe import LEARNING, NETWORK, PRETRAINING, Plan
from gpt1.demo.tasks import LEARNED
from gpt1.demo.tour import (
    BASELINE,
    READER,
    RESULT,
    TOKENS,
    WORLD,
    ZERO_SHOT,
    TourResult,
    read_own_text,
    runs_of,
    tour,
)
from gpt1.documents.blocks import Note
from gpt1.documents.terminal import render
from gpt1.recipes.catalog import PAPER
from gpt1.report import report
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Event, Saved, Stepped
from tests.conftest import make_text
from tests.moments import signalled
from tests.records import facts_in
from tests.waiting import eventually

SMALL = Plan(
    stories=120,
    counts={"train": 24, "dev": 12, "test": 20, "other": 20},
    pretraining=replace(
        PRETRAINING,
        training=replace(PRETRAINING.training, steps=6),
        logging=replace(PRETRAINING.logging, log_every=1, evaluate_every=3, evaluate_tokens=400, save_every=3),
    ),
    learning=replace(LEARNING, training=replace(LEARNING.training, epochs=1)),
)


class Told(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Remember a line."""
        self.lines.append(line)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TourResult, list[str]]:
    out = tmp_path_factory.mktemp("tour") / "demo"
    told = Told()
    return out, tour(out, plan=SMALL, progress=told), told.lines


def test_every_task_is_learned_pre_trained_and_from_scratch(finished: tuple[Path, TourResult, list[str]]) -> None:
    out, found, told = finished
    assert [row.task for row in found.tasks] == [task.name for task in LEARNED]
    for row in found.tasks:
        for shares in (row.words, row.scratch, row.pretrained):
            assert {"dev", "test", "other"} <= shares.keys()
            assert all(0 <= share <= 1 for share in shares.values())
    assert list(found.zero_shot) == ["0", "3", "6"]
    assert len([line for line in told if line.startswith("learned: ")]) == 2 * len(LEARNED)
    assert facts_in(out / RESULT) == asdict(found)


def test_run_again_it_does_nothing_again_and_finds_the_same(finished: tuple[Path, TourResult, list[str]]) -> None:
    out, found, _ = finished
    events: list[Event] = []
    assert tour(out, plan=SMALL, progress=Silent(), listeners=[events.append]) == found
    assert not [event for event in events if isinstance(event, Stepped)]


def test_stopped_on_the_way_it_goes_on_and_finds_the_same(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tour(tmp_path / "demo", plan=SMALL, progress=Silent(), listeners=[stop])
    assert tour(tmp_path / "demo", plan=SMALL, progress=Silent()) == finished[1]


def test_moved_and_damaged_it_makes_anew_what_it_can_and_finds_the_same(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    out = tmp_path / "moved"
    shutil.copytree(finished[0], out)
    shutil.rmtree(out / WORLD)
    for name in (f"{TOKENS}/train-00000.tok", f"{TOKENS}/corpus.json", BASELINE, ZERO_SHOT):
        (out / name).write_bytes((out / name).read_bytes()[:-9])
    told = Told()
    assert tour(out, plan=SMALL, progress=told) == finished[1]
    for name in (BASELINE, ZERO_SHOT):
        assert any(line.startswith("made again: ") and name in line for line in told.lines), told.lines


@pytest.mark.parametrize(("damaged", "error"), [(f"{READER}/run.json", FormatError), (None, InputError)])
def test_what_it_cannot_go_on_with_is_told_with_the_folder_to_remove(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path, damaged: str | None, error: type[Exception]
) -> None:
    out, plan = tmp_path / "a demo", SMALL
    shutil.copytree(finished[0], out)
    if damaged:
        (out / damaged).write_bytes((out / damaged).read_bytes()[:100])
    else:  # of another version
        plan = replace(
            SMALL, pretraining=replace(SMALL.pretraining, optimizer=replace(SMALL.pretraining.optimizer, lr=0.1))
        )
    with pytest.raises(error, match=rf"rm -r '{re.escape(str(out))}'"):
        tour(out, plan=plan, progress=Silent())


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent there as here")
@pytest.mark.parametrize(
    ("part", "change"),
    [
        (f"{READER}/checkpoints", 6),  # while other processes learn from scratch
        *(pytest.param(*moment, marks=pytest.mark.slow) for moment in ((TOKENS, 5), (READER, 1), (ZERO_SHOT, 2))),
    ],
)
def test_killed_at_any_moment_it_goes_on_and_finds_the_same(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path, part: str, change: int
) -> None:
    out = tmp_path / "demo"
    told = f"from tests.demo.test_tour import *; tour({str(out)!r}, plan=SMALL, progress=Silent())"
    killed = subprocess.run(
        signalled(change, out / part, signal.SIGKILL, "-c", told),
        capture_output=True,  # so that the processes of the crew, which end with it, are waited for too
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert tour(out, plan=SMALL, progress=Silent()) == finished[1]


def test_the_page_opens_with_the_table_of_the_tour(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    out, found, _ = finished
    page = report(runs_of(out, 1), tmp_path / "page.html", "A demo", [opening(found)]).read_text()
    assert page.index("What pre-training brings") < page.index("unseen names, forms") < page.rindex(READER)
    shown = render(opening(found).blocks, width=100, is_terminal=False)
    assert f"brings {found.gain:.1f} points" in shown
    assert all(task.title in shown for task in LEARNED)


def test_beside_the_figures_stands_how_their_network_differs_from_the_papers(
    finished: tuple[Path, TourResult, list[str]],
) -> None:
    _, found, _ = finished
    assert Note(NETWORK) in opening(found).blocks
    assert Note(NETWORK) in opening(found).blocks
    # What the sentence says, and besides only sizes and first weights.
    said = {"layers": 2, "width": 128, "norm_first": True, "positions": "rotary", "dropout": 0.0}
    size = {"heads": 8, "feed_forward": 512, "context": 64, "init_std": 0.08}
    assert PRETRAINING.shape == replace(PAPER.shape, **said, **size)
    assert LEARNING.shape.dropout == 0


def test_own_text_is_read_in_place_of_the_stories(tmp_path: Path) -> None:
    for name, ship in (("sloop", "boat"), ("brig", "ship")):
        (tmp_path / f"{name}.txt").write_text("".join(f"Number {n} went to sea in a {ship}.\n" for n in range(99)))
    run = read_own_text(tmp_path / "demo", [str(tmp_path / "*.txt")], plan=SMALL, progress=Silent())
    assert (run / "run.json").is_file()


@pytest.mark.parametrize("between", ["\n\n", "\n"])
def test_a_single_document_leaves_some_text_to_sample_from(tmp_path: Path, between: str) -> None:
    book = tmp_path / "book.txt"
    book.write_text(between.join(f"Number {n} went to sea in a boat with {n + 1} sails." for n in range(400)))
    (tmp_path / "empty.txt").touch()
    for _ in ("begun", "called again"):
        run = read_own_text(tmp_path / "demo", [str(tmp_path / "*.txt")], plan=SMALL, progress=Silent())
        assert (run / "samples.jsonl").is_file()
        assert (run / "attention.json").is_file()
    documents = {name: split.documents for name, split in read_corpus(tmp_path / "demo" / "tokens").splits.items()}
    assert documents == {"train": 380, "valid": 20}


def test_where_nothing_could_be_sampled_the_page_says_why(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("Number 5 went to sea in a boat. " * 50)
    run = read_own_text(tmp_path / "demo", [str(book)], plan=SMALL, progress=Silent())
    assert "a corpus of one document has none" in report([run], tmp_path / "page.html").read_text()


def test_very_little_text_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = tmp_path / "book.txt"
    book.write_text("\n".join(f"{n} went to sea." for n in range(100)))

    def warnings() -> list[str]:
        told = Told()
        read_own_text(tmp_path / "demo", [str(book)], plan=SMALL, progress=told)
        return [line for line in told.lines if "very little text" in line]

    assert len(warnings()) == 1
    monkeypatch.setattr("gpt1.demo.tour.LITTLE_TEXT", 1000)
    assert warnings() == []


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"letter\.txt"):
        tour(tmp_path, plan=SMALL, progress=Silent())


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent there as here")
@pytest.mark.parametrize(
    ("line", "file"),
    [("merges", "world/manifest.json"), ("without a single label", "runs/**/metrics.jsonl")],
    ids=["while merges are learned", "while all processes learn"],
)
def test_ctrl_c_ends_all_processes_in_a_few_words(tmp_path: Path, line: str, file: str) -> None:
    command = [sys.executable, "-m", "gpt1", "demo", "--out", str(tmp_path / "demo")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
    assert process.stderr is not None
    said = ""
    while line not in said:
        said += process.stderr.readline()
        assert process.poll() is None, said
    eventually(lambda: list((tmp_path / "demo").glob(file)), file)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    _, rest = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in said + rest
    assert rest.endswith("stopped; the same command goes on\n")
    assert not (tmp_path / "demo" / RESULT).exists()


def test_an_interruption_adds_no_place_to_the_curve(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tour(tmp_path / "demo", plan=SMALL, progress=Silent(), listeners=[interrupt])
    saved = {step for step, _ in list_checkpoints(tmp_path / "demo" / READER)}
    assert saved - {0, 3, 6}
    assert tour(tmp_path / "demo", plan=SMALL, progress=Silent()) == finished[1]


@pytest.mark.parametrize("own_text", [False, True])
def test_a_demo_in_a_folder_where_one_is_at_work_says_so_and_does_not_have_it_removed(
    tmp_path: Path, own_text: bool
) -> None:
    (tmp_path / "text.txt").write_text(make_text(300, 0))
    with lock_folder(tmp_path / "demo"), pytest.raises(Busy) as told:
        if own_text:
            read_own_text(tmp_path / "demo", [str(tmp_path / "text.txt")], plan=SMALL, progress=Silent())
        else:
            tour(tmp_path / "demo", plan=SMALL, progress=Silent())
    assert "another command is at work in" in str(told.value)
    assert f"(process {os.getpid()}:" in str(told.value)
    assert "rm -r" not in str(told.value)
    assert list((tmp_path / "demo").iterdir()) == []


def test_a_demo_clears_what_one_that_was_killed_left(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path / "demo")
    for place in (".", WORLD, TOKENS, READER, "runs"):
        (tmp_path / "demo" / place / "result.json.123.tmp").touch()
    tour(tmp_path / "demo", plan=SMALL, progress=Silent())
    assert list((tmp_path / "demo").rglob("*.tmp")) == []


def test_stories_of_another_version_and_text_of_the_users_are_kept_apart(
    finished: tuple[Path, TourResult, list[str]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="holds a demo of another version"):
        tour(finished[0], plan=replace(SMALL, stories=121), progress=Silent())
    with pytest.raises(InputError, match="choose another folder for your text with `out`"):
        read_own_text(finished[0], ["."], plan=SMALL, progress=Silent())
    (tmp_path / "tokenizer.json").touch()
    with pytest.raises(InputError, match="choose another folder for the stories with `out`"):
        tour(tmp_path, plan=SMALL, progress=Silent())
