"""`gpt1 study` and `gpt1 reproduce`."""

from __future__ import annotations

import json
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.progress import Terminal
from gpt1.cli.lines import StudyLines, table_of
from gpt1.runs.events import Noticed, RolledBack
from gpt1.studies.cells import Cell, CellResult
from gpt1.studies.reproduce import PARTS
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.conftest import SMALL_RUN
from tests.moments import changes_told, counted, signalled
from tests.processes import finish, start
from tests.studies.tools import TRAINING, make_start, write_tasks

AUGMENTED = ["study", "augmentation", "--init", "RUN", "--task", "sst2", "--data", "TASKS", "--out", "x"]
ASKED = ["study", "labels", "--init", "RUN", "--task", "sst2", "--data", "TASKS", "--out", "x"]
REPRODUCED = ["reproduce", "--init", "RUN", "--data", "TASKS", "--out", "x"]
OBJECTIVES = ["study", "objectives", "--task", "sst2", "--data", "TASKS", "--out", "x"]
DOMAIN = ["study", "domain", *ASKED[2:], "--corpus", "absent", "--old", "absent"]
SETTINGS = [word for setting in TRAINING.changes for word in ("--set", setting)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """A run and two tasks."""
    folder = tmp_path_factory.mktemp("study")
    make_start(folder / "books", words_tokenizer)
    write_tasks(folder / "tasks", "sst2", "storycloze")
    return folder


def test_zeroshot_tells_figures_and_where_all_of_it_is(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = str(place / "tasks"), str(tmp_path / "out")
    words = ("zeroshot", str(place / "books"), "--task", "sst2", "--data", data, "--out", out, "--device", "cpu")
    code, printed, said = run(capsys, "study", *words)
    assert code == 0
    title, header, *_ = printed.splitlines()
    assert title == "Without learning the task"
    assert " ".join(header.split()) == "task and run updates score best on the way normalised best normalised"
    assert printed.splitlines()[-1] == f"All of it: {out}/study.json and *.csv; gpt1 report {out} draws it"
    assert "1 cell" in said
    assert re.search(r"^sst2 \(zero-shot\), books, update 3: \d+\.\d in ", said, re.MULTILINE)
    code, printed, said = run(capsys, "study", *words, "--json")
    assert json.loads(printed)["kind"] == "zeroshot"
    assert "1 cell, 1 done already" in said


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        (["transfer", "--layers", "0,2"], ["layers-0-sst2-7", "full-sst2-7"]),
        (["ablations"], ["full-sst2-7", "scratch-sst2-7", "no-lm-sst2-7"]),
        (
            ["augmentation", "--counts", "4", "--arms", "swaps,mixup", "--strength", "swaps=0.3"],
            ["none-sst2-4-7", "swaps-sst2-4-7", "mixup-sst2-4-7"],
        ),
        (["labels", "--counts", "4"], ["full-sst2-4-7", "scratch-sst2-4-7", "tf-idf-sst2-4-7"]),
    ],
)
def test_studies_of_finetuning_take_the_options_of_training(
    place: Path, tmp_path: Path, words: list[str], cells: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--init", str(place / "books"), "--task", "sst2", "--data", str(place / "tasks")]
    options = [
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
        "--seed",
        "7",
        "--steps",
        "1",
        "--lr",
        "1e-4",
        *SETTINGS,
    ]
    code, _, said = run(capsys, "study", *words, *named, *options)
    assert code == 0, said
    assert sorted(path.name for path in (tmp_path / "out" / "cells").iterdir()) == sorted(cells)
    cell = json.loads((tmp_path / "out" / "cells" / cells[0] / "cell.json").read_text())
    names = ("training.seed", "training.steps", "optimizer.lr")
    assert [cell["inputs"]["settings"][name] for name in names] == [7, 1, 1e-4]


def test_the_networks_of_objectives_are_named_or_made_of_a_corpus(
    place: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words_tokenizer: Tokenizer
) -> None:
    make_start(tmp_path / "mixed", words_tokenizer, "training.masked_share=0.25")
    named = ["study", "objectives", "--task", "sst2", "--data", str(place / "tasks"), "--device", "cpu", *SETTINGS]
    given = ["--causal", str(place / "books"), "--mixed", str(tmp_path / "mixed"), "--out", str(tmp_path / "named")]
    code, printed, said = run(capsys, *named, *given)
    assert code == 0, said
    assert printed.splitlines()[0] == "Left to right, or both ways"
    assert "no arm has the auxiliary language model" in said
    small = [word for setting in (*SMALL_RUN, "training.steps=2") for word in ("--read-set", setting)]
    made = ["--corpus", str(corpus), "--bases", str(tmp_path / "bases"), "--read", "tiny", *small]
    code, printed, said = run(capsys, *named, *made, "--out", str(tmp_path / "made"))
    assert code == 0, said
    assert "masked loss" in said
    assert "loss of a masked token" in " ".join(printed.split())
    cells = ["both-ways-sst2-0", "causal-sst2-0", "mixed-sst2-0"]
    for out in ("named", "made"):
        assert sorted(path.name for path in (tmp_path / out / "cells").iterdir()) == cells


def test_a_study_reads_a_table_with_faults_as_a_training_does(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"text {n} {'yes' if n % 2 else 'no'},{'yes' if n % 2 else 'no'}\n" for n in range(20))
    (tmp_path / "faulty.csv").write_text(f"text,label\n{rows},yes\nx,Yes\n")
    words = ["labels", "--init", str(place / "books"), "--train", str(tmp_path / "faulty.csv"), "--counts", "4"]
    words += ["--arms", "tf-idf", "--out", str(tmp_path / "out")]
    assert run(capsys, "study", *words)[0] == 1
    code, _, said = run(capsys, "study", *words, "--skip-bad", "--fold-labels")
    assert code == 0, said
    assert "1 of 22 rows left out" in said


def test_a_new_domain_is_studied_with_settings_of_its_own_for_reading(
    place: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--init", str(place / "books"), "--task", "sst2", "--data", str(place / "tasks"), "--device", "cpu"]
    words = [*named, "--corpus", str(corpus), "--old", str(corpus), "--out", str(tmp_path / "out"), *SETTINGS]
    reading = ["--read", "training.steps=2", "--read", "optimizer.lr=1e-3", "--shares", "0.25", "--seed", "7"]
    code, printed, said = run(capsys, "study", "domain", *words, *reading)
    assert code == 0, said
    assert "2 cells" in said
    for part in ("A new domain", "without reading", "share 0.25", "Differences in pairs", "share 0.25 over without"):
        assert part in printed
    (cell,) = (tmp_path / "out" / "cells").glob("share-0.25-sst2-7/cell.json")
    asked = json.loads(cell.read_text())["inputs"]["reading"]
    assert (asked["share"], asked["settings"]["training.steps"], asked["settings"]["training.seed"]) == (0.25, 2, 7)
    assert asked["settings"]["optimizer.lr"] == 1e-3


def test_parts_make_their_cells_and_the_command_without_them_the_tables(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    named = ["--init", str(place / "books"), "--task", "sst2", "--data", str(place / "tasks"), "--out", str(out)]
    words = ["labels", "--counts", "4,all", "--arms", "tf-idf", "--seeds", "2", *named]
    for part in ("1/2", "2/2"):
        code, printed, said = run(capsys, "study", *words, "--part", part)
        assert (code, printed) == (0, f"Part {part[0]} of 2: 2 of 2 cells are done; without --part, the tables\n")
        assert "of 2 cells done" in said
        assert [path.name for path in out.iterdir()] == ["cells"]
    code, printed, said = run(capsys, "study", *words)
    assert code == 0
    assert "4 cells, 4 done already" in said
    assert "16 labels" in printed
    assert json.loads((out / "study.json").read_text())["about"]["counts"] == [4, "all"]


def test_reproduce_makes_what_there_is_data_for(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--init", str(place / "books"), "--data", str(place / "tasks"), "--out", str(tmp_path / "out")]
    code, printed, said = run(capsys, "reproduce", *named, "--device", "cpu", *SETTINGS)
    assert code == 0
    assert "not there, so left out: " in said
    for part in (
        "Table 3",
        "Table 4",
        "Without learning the task",
        "from scratch",
        "pre-trained over from scratch",
    ):
        assert part in printed


def test_reproduce_makes_one_row_and_tells_of_it(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--init", str(place / "books"), "--data", str(place / "tasks"), "--out", str(tmp_path / "out")]
    words = ["reproduce", *named, "--device", "cpu", *SETTINGS, "--arm-lr", "scratch=0.01", "--arm-lr", "no-lm=0.02"]
    code, printed, _ = run(capsys, *words, "--make", "ablations", "--task", "sst2")
    assert code == 0
    assert "What is lost" not in printed
    cells = tmp_path / "out" / "cells"
    found = {path.name: json.loads((path / "cell.json").read_text()) for path in cells.iterdir()}
    rates = {name: cell["inputs"]["settings"]["optimizer.lr"] for name, cell in found.items()}
    assert rates == {"full-sst2-0": 5e-3, "scratch-sst2-0": 0.01, "no-lm-sst2-0": 0.02}
    assert ", ".join(PARTS) in " ".join(run(capsys, "reproduce", "--help")[1].split())
    (tmp_path / "out" / "claims.md").unlink()
    assert run(capsys, *words, "--make", "nothing")[0] == 0
    assert "3 of 6 cells are done" in (tmp_path / "out" / "claims.md").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["study", "zeroshot", "RUN", "--out", "x"], 2, "say what to ask"),
        (["study", "zeroshott"], 2, "no such verb 'zeroshott'; did you mean 'zeroshot'?"),
        (["study", "transfer", "--init", "RUN", "--out", "x"], 2, "nothing to learn is named; "),
        (["study", "transfer", "--init", "RUN", "--task", "sst2", "--out", "x"], 2, "where is the data of 'sst2'?"),
        (["study", "transfer", "--init", "RUN", "--out", "x", "--layers", "a"], 2, "whole numbers between commas"),
        (["study", "objectives", "--out", "x"], 2, "say what to start from: --causal RUN --mixed RUN, or --corpus DIR"),
        ([*OBJECTIVES, "--causal", "RUN"], 2, "say what to start from"),
        (
            [*OBJECTIVES, "--causal", "RUN", "--mixed", "RUN"],
            2,
            "has read from left to right alone; gpt1 pretrain --set training.masked_share=0.5",
        ),
        (
            [*OBJECTIVES, "--causal", "RUN", "--mixed", "RUN", "--bases", "b"],
            2,
            "--bases, --read and --read-set are of",
        ),
        ([*OBJECTIVES, "--corpus", "c", "--mixed", "RUN"], 2, "--corpus makes both runs: leave --causal and --mixed"),
        ([*OBJECTIVES, "--corpus", "c"], 2, "--corpus wants --bases DIR, a folder for the two runs"),
        (["study", "labels", "--init", "RUN", "--out", "x", "--counts", "a"], 2, "commas, such as 50,200,all, not 'a'"),
        (["study", "labels", "--init", "RUN", "--out", "x"], 2, "Missing option '--counts'"),
        ([*ASKED, "--counts", "4", "--arms", "scratched"], 2, "unknown arm 'scratched'; did you mean 'scratch'?"),
        ([*ASKED, "--counts", "4", "--arms", "chosen", "--scratch-lr", "1"], 2, "--scratch-lr is the rate of the arm"),
        ([*AUGMENTED, "--counts", "4", "--arms", "swap"], 2, "unknown arm 'swap'; did you mean 'swaps'?"),
        ([*AUGMENTED, "--counts", "4", "--arms", "synonyms"], 2, "needs a list of them; name one with --synonyms"),
        (
            [*AUGMENTED, "--counts", "4", "--strength", "swaps"],
            2,
            "--strength takes ARM=NUMBER, such as mixup=0.4",
        ),
        ([*AUGMENTED, "--counts", "4", "--set", "finetuning.mixup=1"], 2, "say how strong an arm is with --strength"),
        ([*AUGMENTED, "--counts", "4", "--synonyms", "absent.tsv"], 1, "absent.tsv"),
        ([*DOMAIN, "--shares", "a"], 2, "--shares takes numbers between commas, such as 0,0.25, not 'a'"),
        ([*DOMAIN, "--shares", "0,1"], 2, "--shares of old text are at least 0 and below 1, not 1"),
        ([*DOMAIN, "--shares", "0"], 1, "absent is not a folder with a corpus"),
        ([*REPRODUCED, "--arm-lr", "scratch"], 2, "--arm-lr takes ARM=RATE, such as scratch=1e-3, not 'scratch'"),
        ([*REPRODUCED, "--arm-lr", "full=1e-3"], 2, "the rate of 'full' is that of all arms"),
        ([*REPRODUCED, "--make", "ablation"], 2, "unknown part 'ablation'; did you mean 'ablations'?"),
        ([*REPRODUCED, "--task", "race"], 1, "has no rows of race"),
        ([*REPRODUCED, "--shuffled", "RUN"], 2, "no run that read contiguous text"),
        ([*ASKED, "--counts", "4", "--skip-bad"], 2, "--skip-bad and --fold-labels go with --train"),
        ([*ASKED, "--counts", "4", "--part", "1of2"], 2, "--part takes such as 2/8, the second of eight parts"),
        ([*ASKED, "--counts", "4", "--part", "3/2"], 2, "--part is a number from 1 up and how many there are"),
        (
            ["study", "ablations", "--init", "absent", "--task", "sst2", "--data", "d", "--out", "x"],
            1,
            "absent does not",
        ),
        (["reproduce", "--init", "RUN", "--data", "absent", "--out", "x"], 1, "absent has none of the paper's tasks"),
    ],
)
def test_errors_are_for_people(
    words: list[str],
    code: int,
    message: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {"RUN": str(place / "books"), "TASKS": str(place / "tasks")}
    found, out, err = run(capsys, *(paths.get(word, word) for word in words))
    assert (found, out) == (code, "")
    assert message in err
    assert not (tmp_path / "x").exists()


def test_the_live_table_counts_cells_and_shows_medians(tmp_path: Path) -> None:
    def cell(name: str, row: str, column: str) -> Cell:
        return Cell(name, row, column, {}, lambda folder, listener: {})

    cells = [cell("a", "rte", "full"), cell("b", "rte", "full"), cell("c", "rte", "lstm"), cell("d", "cola", "full")]
    done = {name: CellResult(tmp_path, {"score": score}, 1.0) for name, score in (("a", 0.5), ("b", 0.6))}
    assert (cells[0].title, replace(cells[0], which="seed 3").title) == ("rte, full", "rte, full, seed 3")
    assert table_of(cells, done) == (["", "full", "lstm"], [["rte", "2/2  55.0", "0/1"], ["cola", "0/1", ""]])


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(4))
def test_a_study_that_is_killed_comes_to_the_same_figures(place: Path, tmp_path: Path, moment: int) -> None:
    data = ["--task", "sst2", "--data", str(place / "tasks")]
    settings = [*SETTINGS, "--set", "training.steps=12", "--set", "logging.save_every=3"]
    words = [sys.executable, "-m", "gpt1", "study", "ablations", "--init", str(place / "books"), *data, *settings]
    whole, killed = ([*words[1:], "--device", "cpu", "--out", str(tmp_path / name)] for name in ("whole", "killed"))
    _, errors = finish(start(counted(tmp_path / "whole", *whole)))
    number = changes_told(errors) * (moment + 1) // 5
    process = start(signalled(number, tmp_path / "killed", signal.SIGKILL, *killed))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    finish(start([sys.executable, *killed]))
    found = [json.loads((tmp_path / name / "study.json").read_text())["sections"] for name in ("whole", "killed")]
    assert found[0] == found[1]


def test_what_is_noticed_in_several_cells_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StudyLines(Terminal())
    back = RolledBack(step=9, batch=8, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=3)
    for event in (Noticed("line 3 is damaged"), back, Noticed("line 3 is damaged"), Noticed("line 4 is damaged")):
        lines.heard(event)
    first, second, third = capsys.readouterr().err.splitlines()
    assert (first, third) == ("line 3 is damaged", "line 4 is damaged")
    assert "batch 8 blew up" in second
