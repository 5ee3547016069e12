"""`gpt1 pretrain` says little while it works, and at the end what came of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import SafetensorError

from gpt1.base.progress import Silent
from gpt1.cli.lines import TrainingLines, score_line, step_line
from gpt1.runs import checkpoints
from gpt1.runs.events import Evaluated, Fold, Noticed, RolledBack, Sampled, Saved, Stepped
from tests.cli.tools import run
from tests.conftest import SMALL_RUN, make_text

SETTINGS = [word for setting in SMALL_RUN for word in ("--set", setting)]


def arguments(corpus: Path, out: Path, *more: str) -> list[str]:
    return [
        *("pretrain", "--recipe", "tiny", "--corpus", str(corpus), "--out", str(out), "--device", "cpu"),
        *SETTINGS,
        *more,
    ]


def test_a_training_tells_what_came_of_it_and_goes_on_when_asked(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments(corpus, tmp_path / "run", "--steps", "4"))
    assert code == 0
    scores = r"validation loss \d+\.\d{4}, perplexity \d+\.\d\d, \d+\.\d{3} bits per byte"
    assert re.fullmatch(re.escape(f"{tmp_path / 'run'}: ") + f"update 4, {scores}\n", out)
    assert re.search(f"^update 4: {scores}$", err, re.MULTILINE)
    assert "\x1b" not in err  # not a terminal: plain lines

    code, out, err = run(capsys, *arguments(corpus, tmp_path / "run", "--steps", "8", "--resume", "--json"))
    assert code == 0
    assert "going on from update 4 of 8" in err
    told = json.loads(out)
    assert told.keys() == {"run", "step", "evaluated_step", "valid_loss", "perplexity", "bits_per_byte", "targets"}
    assert (told["run"], told["step"]) == (str(tmp_path / "run"), 8)


def test_a_training_that_a_full_disk_ends_is_told_to_go_on_when_there_is_room(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    asked = arguments(corpus, tmp_path / "run", "--steps", "1")
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "save_file", refused)
        code, _, err = run(capsys, *asked)
    assert code == 1
    assert err.rstrip().endswith("(os error 28); make room, then the same again with --resume goes on")
    assert run(capsys, *asked, "--resume")[0] == 0


def test_without_validation_text_a_run_is_trained_and_not_evaluated(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(make_text(3, seed=1))  # also less than a batch
    prepared = ("--tokenizer", str(corpus), "--out", str(tmp_path / "corpus"), "--valid", "0", "--workers", "1")
    assert run(capsys, "prepare", str(tmp_path / "a.txt"), *prepared)[0] == 0
    code, out, err = run(capsys, *arguments(tmp_path / "corpus", tmp_path / "run", "--steps", "3"))
    assert (code, out) == (0, f"{tmp_path / 'run'}: update 3, not evaluated\n"), err
    code, out, _ = run(capsys, *arguments(tmp_path / "corpus", tmp_path / "run", "--steps", "3", "--resume", "--json"))
    assert (code, json.loads(out)) == (0, {"run": str(tmp_path / "run"), "step": 3})


def test_the_end_of_the_time_is_no_error(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments(corpus, tmp_path / "run", "--minutes", "0"))
    assert code == 0
    assert re.search(r"stopped at update \d of 12, saved; the same again with --resume goes on", err)
    assert out.startswith(f"{tmp_path / 'run'}: update 1, not evaluated")


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["--recipe", "auto"], 2, "recipe 'auto' is for fine-tuning; for text there are paper, modern, small, tiny"),
        (["--recipe", "finetune"], 2, "recipe 'finetune' is for fine-tuning; for text there are paper, modern"),
        (["--recipe", "tinny"], 2, "unknown recipe 'tinny'; did you mean 'tiny'?"),
        ([], 2, "name a recipe with --recipe: paper, modern, small, tiny, lstm"),
        (["--recipe", "tiny", "--set", "bacth=3"], 2, "did you mean 'batch'? (gpt1 recipes tiny lists them)"),
        (["--recipe", "tiny", "--steps", "0"], 2, "Invalid value for '--steps'"),
        (["--recipe", "tiny", "--recpie", "x"], 2, "--recipe"),
        (["--recipe", "tiny", "--device", "gpu9"], 2, "there is no device 'gpu9' here"),
        (["--recipe", "tiny", "--corpus", "absent"], 1, "absent is not a folder with a corpus"),
        (["--recipe", "tiny", "--out", "TAKEN"], 1, "holds other files (letters.txt); choose a new or empty folder"),
        (["--init", "absent"], 1, "absent does not exist"),
        (["--recipe", "tiny", "--mix", "corpus"], 2, "--mix takes CORPUS=SHARE, such as corpus=0.25, not 'corpus'"),
        (["--recipe", "tiny", "--mix", "a=half"], 2, "--mix takes CORPUS=SHARE, such as corpus=0.25, not 'a=half'"),
        (["--recipe", "tiny", "--mix", "old=25"], 2, "share of old in what is read is above 0 and below 1, not 25"),
        (["--recipe", "tiny", "--mix", "absent=0.5"], 1, "absent is not a folder with a corpus"),
    ],
)
def test_errors_are_for_people_and_nothing_is_made(
    given: list[str], code: int, message: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letters.txt").write_text("mine")
    words = [str(tmp_path / "taken") if word == "TAKEN" else word for word in given]
    options = ("--corpus", str(corpus), "--out", str(tmp_path / "run"), "--device", "cpu")
    found, out, err = run(capsys, "pretrain", *options, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "letters.txt"]


def test_old_text_is_mixed_in_and_measured_beside_the_new(
    trained: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--init", str(trained), "--corpus", str(corpus), "--mix", f"{corpus}=0.5", "--out", str(tmp_path / "run")]
    code, out, err = run(capsys, "pretrain", *words, "--steps", "2", "--device", "cpu")
    assert code == 0
    assert f"mixed in: a share of 0.5 of {corpus} (" in err
    assert "bits per byte; of the old text " in out
    code, _, err = run(capsys, "pretrain", *words[:4], *words[6:], "--resume", "--device", "cpu")
    assert code == 2
    assert "is to go on with no old text: a run goes on as it was begun; give --mix as it was, or begin" in err


def test_a_run_is_not_begun_twice(trained: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *arguments(corpus, trained))
    assert code == 1
    assert "holds a run already; choose another folder, or go on with it by --resume" in err


# ---- lines ----

STEPPED = Stepped(120, 1000, 119, 4.31214, {"lm": 4.31214}, 2.4e-4, 0.8, 31_234.0, 80.0, 3 * 2**30, None)


class Listener(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown: list[tuple[float, str]] = []
        self.bars: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def bar(self, label: str) -> Listener:
        self.bars.append(label)
        return self

    def show(self, share: float, line: str) -> None:
        self.shown.append((share, line))


def test_a_step_is_one_line() -> None:
    line = "update 120/1000  loss 4.3121  lr 2.4e-04  31.2k tokens/s  3.0 GiB  1:20 left"
    assert step_line(STEPPED) == line
    known = Stepped(**{**vars(STEPPED), "utilisation": 0.412})
    assert step_line(known) == line.replace("tokens/s", "tokens/s  MFU 41 %")


def test_a_fold_has_a_bar_of_its_own_and_says_how_long_all_take() -> None:
    person = Listener()
    tell = TrainingLines(person)
    second = replace(STEPPED, fold=Fold(2, 3, 200.0))
    for event in (STEPPED, second, second, replace(STEPPED, fold=Fold(3, 3, 80.0))):
        tell(event)
    assert person.bars == ["training", "cross-validation", "cross-validation"]
    told = [line for _, line in person.shown]
    assert told[1].startswith("fold 2 of 3, update 120/1000  loss")
    assert told[1].endswith("1:20 left, 3:20 with the folds after it")
    assert told[3].endswith("  1:20 left")


def test_scores_are_told_in_words() -> None:
    scores = {"valid_loss": 2.91237, "perplexity": 18.4, "bits_per_byte": 1.0214, "targets": 5.0}
    of_task = {"dev_accuracy": 0.6, "dev_loss": 0.6931, "cola_dev_matthews": -0.0333}
    assert score_line(of_task) == "dev accuracy 60.0, dev loss 0.6931, cola dev matthews -3.3"
    assert score_line(scores) == "validation loss 2.9124, perplexity 18.40, 1.021 bits per byte"


def test_a_person_is_told_of_each_thing_that_happens_and_not_of_what_should(tmp_path: Path) -> None:
    person = Listener()
    tell = TrainingLines(person)
    assert person.bars == []
    for event in (
        STEPPED,
        STEPPED,
        Evaluated(4, {"valid_loss": 1.0, "perplexity": 2.7, "bits_per_byte": 0.5}),
        Sampled(4, [{"prompt": "Once\n upon", "text": " a  time\n"}]),
        RolledBack(11, 10, 99.0, 5.0, 3.0, 8),
        Noticed("mind the gap"),
        Saved(4, tmp_path),
    ):
        tell(event)
    assert person.bars == ["training"]
    assert person.shown == [(0.12, step_line(STEPPED))] * 2
    assert person.said[0] == "update 4: validation loss 1.0000, perplexity 2.70, 0.500 bits per byte"
    assert person.said[1] == "update 4: “Once upon” … a time"
    assert person.said[2].startswith("update 11: batch 10 blew up")
    assert person.said[3:] == ["mind the gap"]
