"""From a table to a verdict: what is decided and said, and that it goes on after any end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpt1
from gpt1.base.errors import Chosen, InputError, MissingDependency, SettingError
from gpt1.base.files import write_record
from gpt1.bases import catalog
from gpt1.documents.terminal import render
from gpt1.finetuning.finetune import FinetuneSession
from gpt1.finetuning.results import results
from gpt1.inspection.plan import Speed
from gpt1.recipes.changes import change
from gpt1.report import report
from gpt1.report.card import make_card
from gpt1.runs.events import Event, Noticed, Stepped
from gpt1.runs.folder import CLASSIFIER, STARTED, read_run
from gpt1.starting import planning
from gpt1.starting.shown import start_blocks
from gpt1.starting.start import READER, REPORT, StartResult, folder_for, start
from tests.conftest import make_text
from tests.finetuning.tools import Told
from tests.moments import signalled
from tests.records import facts_in

GOOD = "".join(f"I liked film {n} and that was all,good\nThis was not film {n},bad\n" for n in range(30))

ANEW = "this stays as it was decided; with more time, begin anew in another folder (`out`)"

VERDICTS = ("Of use: ", "Not of use yet: ", "How good it is is not known: ", "No gain: ")


def write_table(folder: Path) -> Path:
    (folder / "films.csv").write_text(f"text,label\n{GOOD}")
    return folder / "films.csv"


def begin(table: Path, base: Path, out: Path, **given: Any) -> StartResult:
    """Start from a run, on the device that every machine has."""
    return start(table, out, init=base, device="cpu", **given)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


@pytest.fixture(scope="module")
def finished(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StartResult]:
    folder = tmp_path_factory.mktemp("start")
    return folder, begin(write_table(folder), trained, folder / "out")


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text of which a short reading suffices."""
    monkeypatch.setattr(planning, "LITTLE_TEXT", 10_000)
    monkeypatch.setattr(planning, "MOST_READINGS", 2)
    monkeypatch.setattr("gpt1.starting.start.training_speed", lambda *_: Speed(1e5))
    (tmp_path / "letters").mkdir()
    for number in range(4):
        (tmp_path / "letters" / f"{number}.txt").write_text(make_text(100, seed=100 + number))
    return tmp_path / "letters"


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def shown(found: StartResult) -> str:
    return render(start_blocks(found), width=100, is_terminal=False)


def test_a_table_becomes_a_run_with_a_verdict_and_a_page(finished: tuple[Path, StartResult]) -> None:
    folder, found = finished
    assert found.run == folder / "out" / CLASSIFIER
    assert (folder / "out" / REPORT).is_file()
    first = shown(found).splitlines()[0]
    assert first.startswith(VERDICTS)
    assert "counting words (TF-IDF)" in shown(found)
    assert [step.verb for step in found.steps] == ["check", "finetune", "report"]


def test_it_is_what_the_functions_of_the_verbs_make(finished: tuple[Path, StartResult], tmp_path: Path) -> None:
    _, found = finished
    (learned,) = (step.arguments for step in found.steps if step.verb == "finetune")
    again = gpt1.finetune(str(learned["init"]), tmp_path / "again", train=str(learned["train"]), device="cpu")
    assert found.run is not None
    assert results(again)["tasks"] == results(gpt1.load_run(found.run, device="cpu"))["tasks"]
    assert not [name for name in learned if name not in ("init", "train", "out", "device")]


def test_its_folder_is_the_run_s_for_all_who_open_one(finished: tuple[Path, StartResult], tmp_path: Path) -> None:
    folder, found = finished
    assert found.run is not None
    opened = gpt1.load_run(folder / "out", device="cpu")
    assert opened.path == found.run
    assert "gpt1 predict out new.csv" in make_card(folder / "out")
    report([folder / "out"], tmp_path / "page.html")
    assert gpt1.GPTClassifier.load(folder / "out", device="cpu").run_.path == found.run


def test_a_start_without_a_classifier_says_so(tmp_path: Path) -> None:
    write_record(tmp_path / STARTED, {"made_for": {}})
    for ask in (gpt1.load_run, make_card, lambda folder: report([folder], tmp_path / "page.html")):
        with pytest.raises(InputError, match=r"a start that has no classifier yet; the same `gpt1\.start\(\)` goes"):
            ask(tmp_path)


def test_where_words_leave_nothing_to_win_the_network_makes_one_update(
    trained: Path, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.starting.start.seconds_an_update", stopped)  # of which there is no need
    rows = "".join(f"I liked film {n} and that was all,good\nThis was not film {n},bad\n" for n in range(60))
    (tmp_path / "films.csv").write_text(f"text,label\n{rows}")
    told = Told()
    found = begin(tmp_path / "films.csv", trained, tmp_path / "out", text=[letters], listeners=[told])
    assert [step.verb for step in found.steps] == ["check", "finetune", "report"]
    assert found.run is not None
    assert read_run(found.run).recipe.training.steps == 1
    (first,) = [line for line in told.lines if "counting words (TF-IDF) reaches" in line]
    assert first.startswith("films: counting words (TF-IDF) reaches accuracy 100.0 (95 % interval 96.6 to 100.0)")
    assert found.decisions[0].startswith("counting words answers all 108 rows rightly, so the network makes but one")
    assert shown(found).startswith("No gain: ")
    again = begin(tmp_path / "films.csv", trained, tmp_path / "out", text=[letters], minutes=120)
    assert (again.decisions, results(gpt1.load_run(found.run, device="cpu"))) == (
        found.decisions,
        results(gpt1.load_run(again.run or "", device="cpu")),
    )


def test_an_unfit_table_is_not_learned_from_and_nothing_is_written(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(f"text,label\n{GOOD},good\n")
    found = begin(tmp_path / "films.csv", trained, tmp_path / "out")
    assert (found.run, found.table.is_fit) == (None, False)
    assert not (tmp_path / "out").exists()
    assert "To be mended: 1 row without a text (row 62)" in shown(found)
    found = begin(tmp_path / "films.csv", trained, tmp_path / "out", skip_bad=True)
    assert found.run is not None
    assert all(step.arguments["skip_bad"] for step in found.steps if step.verb in ("check", "finetune"))


def test_without_a_run_the_base_of_the_package_is_taken_and_told(small: Path, table: Path, tmp_path: Path) -> None:
    with pytest.warns(Chosen, match="starting from the base 'small'"):
        found = start(table, tmp_path / "out", device="cpu")
    assert found.run is not None
    assert read_run(found.run).parent == "small"
    assert all(step.arguments.get("init", "small") == "small" for step in found.steps)


def test_without_any_base_the_doors_to_one_are_told(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")
    with pytest.raises(SettingError, match="which run to start from"):
        start(table, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_the_libraries_of_its_page_it_says_so_before_the_work(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if the import had failed
    with pytest.raises(MissingDependency, match=r"a report needs jinja2: pip install 'gpt1\[report\]'"):
        begin(table, trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_folder_is_called_like_the_table_unless_one_is_named() -> None:
    assert folder_for("data/My Reviews_2.csv.gz") == "gpt1-my-reviews-2"
    assert folder_for("...csv") == "gpt1-start"


def test_no_time_at_all_is_refused(table: Path, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="needs some time, not 0 minutes"):
        begin(table, trained, tmp_path / "out", minutes=0)


# ---- the time ----


def slowly(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let an update seem to take so long."""
    monkeypatch.setattr("gpt1.starting.start.seconds_an_update", lambda *_, **__: seconds)


def test_what_does_not_fit_into_the_time_is_cut_down_and_said(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, 100)
    told = Told()
    found = begin(table, trained, tmp_path / "out", minutes=5, listeners=[told])
    (said,) = found.decisions
    before = f"{said}; what is begun {ANEW.removeprefix('this ')}"
    assert told.events.index(Noticed(before)) < next(
        place for place, event in enumerate(told.events) if isinstance(event, Stepped)
    )
    assert said.startswith("the labels are read 0.")
    assert "a third of the rows is held out once" in said
    (learned,) = (step.arguments for step in found.steps if step.verb == "finetune")
    recipe = read_run(tmp_path / "out" / CLASSIFIER).recipe
    assert change(recipe, learned["changes"]) == recipe  # type: ignore[arg-type]
    assert (recipe.training.epochs < 1, recipe.finetuning.folds) == (True, 1)
    assert found.decided["films"].examples < 54 / 2  # of the rows to learn from, of which all would be cross-validated
    assert shown(found).startswith(VERDICTS)
    assert "The labels are read 0." in shown(found)
    told = Told()
    again = begin(table, trained, tmp_path / "out", minutes=40, listeners=[told])
    assert again.decisions == [said, ANEW]
    assert told.lines[0].endswith(
        f" was cut down to the time that there was ({said}), and {ANEW.removeprefix('this ')}"
    )


def test_more_time_is_planned_with_while_nothing_is_begun(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, 100)
    monkeypatch.setattr("gpt1.starting.start.finetune", stopped)
    with pytest.raises(KeyboardInterrupt):
        begin(table, trained, tmp_path / "out", minutes=5)
    monkeypatch.undo()
    assert begin(table, trained, tmp_path / "out", minutes=60).decisions == []


def test_when_the_time_is_up_there_is_a_verdict_all_the_same(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, 0)  # so that nothing is cut down
    found = begin(table, trained, tmp_path / "out", minutes=1e-9)
    assert shown(found).startswith(VERDICTS)
    assert found.decisions == [
        "the time was up after 1 update, with which it ends; the rows for dev alone tell what it is worth"
    ]
    learned = [step.arguments for step in found.steps if step.verb == "finetune"]
    assert learned[1]["changes"] == ["training.steps=1", "finetuning.folds=0"]
    assert learned[1]["resume"]
    assert begin(table, trained, tmp_path / "out", minutes=1e-9) == found


def test_where_the_time_is_up_in_cross_validation_the_whole_training_is_kept(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FinetuneSession, "_minutes_left", lambda _: 1e-9)
    found = begin(table, trained, tmp_path / "out")
    assert found.decisions == [
        "the time was up before the cross-validation was done; the rows for dev alone tell what it is worth"
    ]
    assert shown(found).startswith(VERDICTS)
    assert not found.decided["films"].cross_validated
    learned = [step.arguments for step in found.steps if step.verb == "finetune"]
    assert learned[1]["changes"] == ["finetuning.folds=0"]


def test_a_setting_that_the_end_changes_is_told_once(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, 10)
    monkeypatch.setattr(FinetuneSession, "_minutes_left", lambda _: 1e-9)
    found = begin(table, trained, tmp_path / "out", minutes=5)
    first, second = (step.arguments["changes"] for step in found.steps if step.verb == "finetune")
    epochs = f"training.epochs={read_run(tmp_path / 'out' / CLASSIFIER).recipe.training.epochs:g}"
    assert (first, second) == ([epochs, "finetuning.folds=1"], [epochs, "finetuning.folds=0"])


def test_killed_while_it_ends_it_ends_so_and_says_what_more_time_would_need(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, 0)
    with monkeypatch.context() as killed:
        killed.setattr("gpt1.finetuning.finetune.write_result", stopped)
        with pytest.raises(KeyboardInterrupt):
            begin(table, trained, tmp_path / "out", minutes=1e-9)
    found = begin(table, trained, tmp_path / "out", minutes=60)
    assert found.decisions[0].startswith("the time was up after 1 update, with which it ends")
    assert found.decisions[1:] == [ANEW]


def test_where_words_are_not_counted_no_part_is_planned_to_be_held_out(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"film {n} was of kind {n % 220},kind {n % 220}\n" for n in range(440))
    (tmp_path / "kinds.csv").write_text(f"text,label\n{rows}")
    slowly(monkeypatch, 1)
    found = begin(tmp_path / "kinds.csv", trained, tmp_path / "out", minutes=0.25)
    assert "words were not counted: there are more than 200 labels" in found.decided["kinds"].why
    assert found.decisions[0].startswith("the labels are read ")
    assert "held out" not in found.decisions[0]
    (learned,) = (step.arguments["changes"] for step in found.steps if step.verb == "finetune")
    assert [setting.split("=")[0] for setting in learned] == ["training.epochs"]  # type: ignore[attr-defined]


# ---- text ----


def test_text_that_helps_is_read_first(table: Path, trained: Path, letters: Path, tmp_path: Path) -> None:
    found = begin(table, trained, tmp_path / "out", text=[letters])
    assert "the text is read first" in found.decisions[0]
    assert found.run is not None
    assert read_run(found.run).parent == str((tmp_path / "out" / READER).resolve())
    text = facts_in(tmp_path / "out" / STARTED)["text"]
    assert text["after"] < text["before"]
    verbs = [step.verb for step in found.steps]
    assert verbs == ["check", "prepare", "evaluate", "pretrain", "evaluate", "finetune", "report"]
    assert begin(table, trained, tmp_path / "out", text=[letters]).decisions == found.decisions


def test_text_that_does_not_help_is_left_out_and_that_is_said(
    table: Path, trained: Path, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = iter([3.0, 3.1])
    monkeypatch.setattr("gpt1.starting.start.measure_corpus", lambda *_: {"bits_per_byte": next(bits)})
    found = begin(table, trained, tmp_path / "out", text=[letters])
    assert "was read and is left out, as it did not help" in found.decisions[0]
    assert "3.000 before, 3.100 after" in found.decisions[0]
    assert found.run is not None
    assert read_run(found.run).parent == str(trained.resolve())


def test_too_little_text_is_not_read_and_that_is_said(table: Path, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Ann sold a hat.\n\n" * 30)
    found = begin(table, trained, tmp_path / "out", text=[tmp_path / "note.txt"])
    assert found.decisions[0].startswith("the text is not read: it has 0 kB")
    assert [step.verb for step in found.steps] == ["check", "prepare", "finetune", "report"]


# ---- going on ----


def test_called_again_it_does_nothing_again_and_finds_the_same(
    finished: tuple[Path, StartResult], trained: Path
) -> None:
    folder, found = finished
    events: list[Event] = []
    assert begin(folder / "films.csv", trained, folder / "out", listeners=[events.append]) == found
    assert not [event for event in events if isinstance(event, Stepped)]


@pytest.mark.parametrize("epochs", [None, 2.0])
def test_a_start_that_an_older_version_has_planned_goes_on_as_it_was(
    table: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: float | None
) -> None:
    path, changes = tmp_path / "out" / STARTED, [] if epochs is None else [f"training.epochs={epochs:g}"]
    slowly(monkeypatch, 0)
    with monkeypatch.context() as planned:
        planned.setattr("gpt1.starting.start.finetune", stopped)
        with pytest.raises(KeyboardInterrupt):
            begin(table, trained, tmp_path / "out", minutes=30)
    record = facts_in(path)
    del record["changes"]
    write_record(path, {**record, "epochs": epochs})
    monkeypatch.setattr("gpt1.starting.start.seconds_an_update", stopped)  # it is not planned anew
    found = begin(table, trained, tmp_path / "out", minutes=30)
    (learned,) = (step.arguments for step in found.steps if step.verb == "finetune")
    assert learned.get("changes", []) == changes
    assert begin(table, trained, tmp_path / "out", minutes=60) == found


def test_what_is_begun_is_never_planned_anew(finished: tuple[Path, StartResult], trained: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished[0] / "out", tmp_path / "out"))
    (out / STARTED).unlink()
    with pytest.raises(InputError, match=r"does not say how .*classifier was planned; choose another folder"):
        begin(finished[0] / "films.csv", trained, out)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent there as here")
@pytest.mark.parametrize(
    ("part", "number"), [(CLASSIFIER, 12), *(pytest.param(part, 2, marks=pytest.mark.slow) for part in ("", REPORT))]
)
def test_killed_at_any_moment_it_goes_on_and_finds_the_same(
    finished: tuple[Path, StartResult], trained: Path, table: Path, tmp_path: Path, part: str, number: int
) -> None:
    out = tmp_path / "out"
    places = ", ".join(f"Path({str(path)!r})" for path in (table, trained, out))
    told = f"from tests.starting.test_start import *; begin({places})"
    killed = subprocess.run(
        signalled(number, out / part, signal.SIGKILL, "-c", told),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    found = begin(table, trained, out)
    assert [one.metrics for one in found.evaluations] == [one.metrics for one in finished[1].evaluations]


def test_a_folder_of_another_table_is_refused_with_what_helps(
    finished: tuple[Path, StartResult], trained: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(finished[0] / "out", tmp_path / "out"))
    (tmp_path / "films.csv").write_text(f"text,label\n{GOOD}One more film,good\n")
    with pytest.raises(InputError, match=r"holds a start with another table; choose another folder(.|\n)*rm -r"):
        begin(tmp_path / "films.csv", trained, out)


def test_a_folder_with_other_files_is_refused(table: Path, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"films\.csv"):
        begin(table, trained, tmp_path)
