"""A search for settings: what it reads, what it keeps, what it says, and that it goes on after any end."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpt1
from gpt1.base.errors import Busy, FormatError, Gpt1Error, InputError, SettingError
from gpt1.base.files import lock_folder, write_record
from gpt1.documents.terminal import render
from gpt1.finetuning.data import Source
from gpt1.finetuning.results import results
from gpt1.inference.run import load_run
from gpt1.recipes.values import FOLDS
from gpt1.records.tuning import DIVERGED, DONE, PRUNED, TUNING_FILE, TrialRecord, TuningRecord
from gpt1.runs.events import Event, Noticed, Stepped
from gpt1.runs.folder import TUNED_RUN, read_run
from gpt1.text.tokenizer import Tokenizer
from gpt1.tuning.request import TuneRequest
from gpt1.tuning.shown import search_as_json, search_blocks
from gpt1.tuning.tune import TuneResult, best_of, tune
from tests.finetuning.tools import Told, make_examples, make_pretrained, make_task, write_table
from tests.moments import changes_told, counted, signalled
from tests.records import facts_in

QUICK = ("training.precision=fp32", "finetuning.ensemble=false", "finetuning.calibrate=false")
SEARCH = ("training.epochs=1:3", "optimizer.lr=1e-3:1e-2")
TASK = make_task()


@pytest.fixture(scope="module")
def base(bytes_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("tuning") / "base", bytes_tokenizer)


def tables(folder: Path, rest: int = 1) -> dict[str, Path]:
    """Write tables for training, dev and test; of another `rest` the last two have other rows."""
    folder.mkdir(exist_ok=True)
    rows = {
        "train": make_examples(TASK, 36),
        "dev": make_examples(TASK, 12, rest),
        "test": make_examples(TASK, 14, -rest),
    }
    return {name: write_table(folder / f"{name}.csv", TASK, own) for name, own in rows.items()}


def search(base: Path, out: Path, named: dict[str, Path], **given: Any) -> TuneResult:
    how: dict[str, Any] = {"trials": 3, "search": SEARCH, "changes": QUICK, "device": "cpu", **given}
    train, *others = named.values()
    return tune(train, out, **dict(zip(("dev", "test"), others, strict=False)), init=base, **how)


@pytest.fixture(scope="module")
def finished(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TuneResult]:
    folder = tmp_path_factory.mktemp("tune")
    return folder, search(base, folder / "out", tables(folder))


def without_times(record: TuningRecord) -> list[TrialRecord]:
    return [replace(one, seconds=0.0, updates=0) for one in record.trials]


def shown(found: TuneResult) -> str:
    return render(search_blocks(found), width=200, is_terminal=False)


# ---- what is found ----


def test_the_first_trial_is_the_recipe_as_it_is_and_the_winner_is_not_worse(
    finished: tuple[Path, TuneResult],
) -> None:
    _, found = finished
    first, *others = found.record.trials
    assert first.values == {}
    assert all(one.values["training.epochs"] in (1, 2, 3) for one in others)
    assert all(1e-3 <= one.values["optimizer.lr"] <= 1e-2 for one in others)
    assert found.record.trials[found.best].scores[-1] >= first.scores[-1]
    assert (len(found.record.trials), found.record.folds, found.record.rows) == (3, FOLDS, 36)


def test_the_winner_is_the_run_that_the_command_makes(finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    folder, found = finished
    assert found.run.path == folder / "out" / TUNED_RUN
    again = gpt1.finetune(**{**found.finetune, "out": tmp_path / "again"})  # type: ignore[arg-type]
    assert results(again)["tasks"] == results(found.run)["tasks"]
    won = found.record.trials[found.best].values
    assert read_run(found.run.path).recipe.optimizer.lr == won.get("optimizer.lr", found.usual["optimizer.lr"])


def test_trials_read_long_texts_as_the_winner_does(base: Path, tmp_path: Path) -> None:
    long = [replace(row, texts=(f"{row.texts[0]} {row.texts[0]}",)) for row in make_examples(TASK, 36)]
    named = {"train": write_table(tmp_path / "train.csv", TASK, long)}
    for changes, windows in ((QUICK, "mean"), ((*QUICK, "finetuning.windows=off"), "off")):
        asked = TuneRequest(str(base), named, SEARCH, changes, "cpu", Source(train=named["train"]), {}, ())
        assert asked.recipe.finetuning.windows == windows
        assert asked.task.has_windows == (windows == "mean")


def test_trials_leave_nothing_but_their_record(finished: tuple[Path, TuneResult]) -> None:
    folder, _ = finished
    assert sorted(entry.name for entry in (folder / "out").iterdir()) == [TUNED_RUN, TUNING_FILE]


def test_the_folder_is_the_run_s_for_all_who_open_one(finished: tuple[Path, TuneResult]) -> None:
    folder, found = finished
    assert load_run(folder / "out", device="cpu").path == found.run.path


def test_where_all_is_tried_the_search_ends(base: Path, tmp_path: Path) -> None:
    told = Told()
    fixed = (*QUICK, "optimizer.lr=1e-3", "shape.dropout=0", "finetuning.word_dropout=0")
    how = {"search": ["training.epochs=1:2"], "trials": None, "changes": fixed, "listeners": [told]}
    found = search(base, tmp_path / "out", tables(tmp_path), **how)
    assert len(found.record.trials) == 3
    assert "all that is searched has been tried: 3 trials made" in told


@pytest.mark.parametrize(
    ("labels", "reading", "metric"),
    [
        (("1.0", "2.5", "4.0"), {"regression": True}, "pearson"),
        (("login", "billing", "login|billing", ""), {"labels_sep": "|"}, "micro_f1"),
        (("rare", "often", "often"), {"metric": "macro-f1"}, "macro_f1"),
    ],
)
def test_every_kind_of_labels_is_judged_by_its_own_metric(
    labels: tuple[str, ...], reading: dict[str, Any], metric: str, base: Path, tmp_path: Path
) -> None:
    kinds = [(number, number % len(labels)) for number in range(36)]
    rows = "".join(f"letter {number} of kind {kind},{labels[kind]}\n" for number, kind in kinds)
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    found = search(base, tmp_path / "out", {"train": tmp_path / "rows.csv"}, trials=2, **reading)
    assert (found.record.metric, [one.end for one in found.record.trials]) == (metric, [DONE, DONE])


# ---- what trials may read ----


def test_rows_for_dev_and_test_reach_no_trial(base: Path, finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    _, found = finished
    other = search(base, tmp_path / "out", tables(tmp_path, rest=2))
    assert without_times(other.record) == without_times(found.record)
    assert read_run(other.run.path).identity != read_run(found.run.path).identity  # the winner has others for dev


def test_the_test_is_not_asked_before_the_winner_is_chosen(base: Path, tmp_path: Path) -> None:
    closed: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, Stepped) and event.fold is None:
            closed.append(facts_in(tmp_path / "out" / TUNING_FILE).get("closed", False))
        if isinstance(event, Stepped):
            files = [name for _, _, names in os.walk(tmp_path / "out") for name in names]  # while others are removed
            assert not [name for name in files if name.startswith("evaluation-")]

    search(base, tmp_path / "out", tables(tmp_path), listeners=[look], trials=2)
    assert closed
    assert all(closed)
    assert list((tmp_path / "out" / TUNED_RUN).glob("evaluation-*-test.json"))


def test_a_search_whose_winner_is_chosen_is_not_gone_on_with(
    base: Path, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    folder, found = finished
    told = Told()
    again = search(base, folder / "out", tables(folder), trials=9, listeners=[told])
    assert again.record == found.record
    assert "the winner of 3 trials is chosen: what has seen its test is not searched further" in told


# ---- going on ----


class Stop:
    """Interrupts at the first update of a fold of a trial."""

    def __init__(self, trial: int, fold: int) -> None:
        self._at, self._trial = (trial, fold), 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Noticed) and event.text.startswith(f"trial {self._trial + 1}: "):
            self._trial += 1
        if isinstance(event, Stepped) and event.fold and (self._trial, event.fold.number) == self._at:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("trial", "fold"), [(1, 1), (2, 3), (3, 1)])
def test_interrupted_in_any_trial_it_finds_the_same(
    trial: int, fold: int, base: Path, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    _, found = finished
    with pytest.raises(KeyboardInterrupt):
        search(base, tmp_path / "out", tables(tmp_path), listeners=[Stop(trial, fold)])
    assert len(TuningRecord.read(tmp_path / "out" / TUNING_FILE).trials) == trial - 1
    again = search(base, tmp_path / "out", tables(tmp_path))
    assert without_times(again.record) == without_times(found.record)
    assert results(again.run)["tasks"] == results(found.run)["tasks"]


def test_interrupted_while_the_winner_learns_it_goes_on_without_a_trial(
    base: Path, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.fold is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(base, tmp_path / "out", tables(tmp_path), listeners=[stop])
    events: list[Event] = []
    again = search(base, tmp_path / "out", tables(tmp_path), listeners=[events.append])
    assert not [one for one in events if isinstance(one, Stepped) and one.fold is not None]
    assert results(again.run)["tasks"] == results(finished[1].run)["tasks"]


@pytest.mark.slow
def test_killed_at_any_moment_it_finds_the_same(base: Path, finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    named, out = tables(tmp_path), tmp_path / "out"
    changed = [word for setting in QUICK for word in ("--set", setting)]
    searched = [word for one in SEARCH for word in ("--search", one)]
    where = [word for name, path in named.items() for word in (f"--{name}", str(path))]
    how = [*changed, *searched, "--trials", "3", "--device", "cpu", "--init", str(base), "--out", str(out)]
    words = ["-m", "gpt1", "tune", *where, *how]
    ended = subprocess.run(counted(out, *words), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    count = changes_told(ended.stderr)
    for number in range(1, count, count // 6):
        shutil.rmtree(out)
        killed = subprocess.run(signalled(number, out, signal.SIGKILL, *words), capture_output=True)
        assert killed.returncode == -signal.SIGKILL
        again = search(base, out, named)
        assert without_times(again.record) == without_times(finished[1].record)
        assert results(again.run)["tasks"] == results(finished[1].run)["tasks"]


# ---- time ----


def test_a_time_in_which_nothing_fits_is_refused_with_how_much_is_needed(base: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"minutes are too few: .*; say `minutes=\d+` or more, or `gpt1\.finetune"):
        search(base, tmp_path / "out", tables(tmp_path), minutes=1e-6)
    assert not (tmp_path / "out" / TUNING_FILE).exists()


def test_no_trial_is_begun_that_does_not_fit_beside_the_training_of_the_winner(
    base: Path, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    """The time is up, as the record has it: an earlier call has spent it."""
    folder, found = finished
    shutil.copytree(folder / "out", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / TUNED_RUN)
    first, second, _ = found.record.trials
    spent = replace(found.record, trials=[replace(first, seconds=3600.0, updates=0), second], closed=False)
    spent.write(tmp_path / "out" / TUNING_FILE)
    told = Told()
    again = search(base, tmp_path / "out", tables(folder), trials=3, listeners=[told])
    assert again.record == replace(spent, closed=True)
    assert "no other trial fits beside the training of the winner: 2 trials made" in told


# ---- what is refused ----


@pytest.mark.parametrize("name", ["train", "dev"])
def test_a_table_that_changed_while_it_was_searched_is_not_taught_to_the_winner(
    name: str, base: Path, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    named, out = tables(tmp_path), tmp_path / "out"
    whole = named[name].read_bytes()

    def cut(event: Event) -> None:
        if isinstance(event, Noticed) and event.text.startswith("trial 2: "):
            named[name].write_bytes(b"".join(whole.splitlines(keepends=True)[:8]))

    told = rf"{name}\.csv was changed while settings were searched on it; bring it back .* or search anew"
    with pytest.raises(InputError, match=told):
        search(base, out, named, listeners=[cut])
    assert not (out / TUNED_RUN).exists()
    named[name].write_bytes(whole)
    again = search(base, out, named)
    assert without_times(again.record) == without_times(finished[1].record)
    assert results(again.run)["tasks"] == results(finished[1].run)["tasks"]


def test_another_search_in_the_folder_is_refused(base: Path, finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    folder, _ = finished
    named = tables(folder)
    for other, given in {
        "ranges": {"search": ("training.epochs=1:4", SEARCH[1])},
        "settings": {"changes": (*QUICK, "training.seed=1")},
        "columns": {"skip_bad": True},
    }.items():
        with pytest.raises(InputError, match=rf"holds a search with other {other}.*; choose another folder"):
            search(base, folder / "out", named, **given)
    with pytest.raises(InputError, match="holds a search with other tables"):
        search(base, folder / "out", tables(tmp_path, rest=3))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"minutes": 0}, "a search needs some time, not 0 minutes"),
        ({"trials": 0}, "at least one trial is needed, not 0"),
        ({"search": ["lr=1"]}, "a range is NAME=LOW:HIGH"),
        ({"changes": ["training.nonsense=1"]}, "has no setting 'training.nonsense'"),
        ({"columns": {"text": "body"}}, "no column 'body'"),
        ({"metric": "speed"}, "speed"),
        ({"changes": ["training.masked_share=0.5"]}, "no text is masked while a task is learned"),
        ({"search": ["finetuning.r_drop=0:2", "shape.dropout=0:0.1"]}, "and shape.dropout is 0, so that they are"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    given: dict[str, Any], told: str, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(Gpt1Error, match=told):
        search(base, tmp_path / "out", tables(tmp_path), **given)
    assert not (tmp_path / "out").exists()


def test_mix_up_is_not_searched_where_labels_cannot_be_mixed(base: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"letter {n},{n / 8}\n" for n in range(36)))
    with pytest.raises(SettingError, match="and rows has scores, not classes; leave it out"):
        search(
            base, tmp_path / "out", {"train": tmp_path / "rows.csv"}, regression=True, search=["finetuning.mixup=0:1"]
        )


def test_too_few_rows_a_missing_table_and_a_foreign_folder_are_told(base: Path, tmp_path: Path) -> None:
    few = write_table(tmp_path / "few.csv", TASK, make_examples(TASK, 4))
    with pytest.raises(InputError, match="rows for training are too few to judge settings by"):
        search(base, tmp_path / "few", {"train": few})
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        search(base, tmp_path / "none", {"train": tmp_path / "none.csv"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"letter\.txt"):
        search(base, tmp_path / "mine", tables(tmp_path))


def test_a_folder_where_another_search_is_at_work_is_left_alone(base: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with lock_folder(tmp_path / "out"), pytest.raises(Busy):
        search(base, tmp_path / "out", tables(tmp_path))


def damage(change: Callable[[dict[str, Any]], None], folder: Path) -> Path:
    value = facts_in(folder / TUNING_FILE)
    change(value)
    write_record(folder / TUNING_FILE, value)
    return folder / TUNING_FILE


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda value: value["trials"][1].update(scores=[]), "a trial that is done has no score"),
        (lambda value: value["trials"].pop(0), "its first trial is not the recipe as it is"),
        (lambda value: value.update(trials=[]), "a winner is chosen, and there are no trials"),
        (lambda value: value.pop("made_for"), "made_for is missing"),
        (lambda value: value["trials"][1].update(end="odd"), 'end is "odd", expected "done" or "pruned"'),
    ],
)
def test_a_damaged_record_is_refused_by_name(
    change: Callable[[dict[str, Any]], None], told: str, finished: tuple[Path, TuneResult], tmp_path: Path
) -> None:
    shutil.copy(finished[0] / "out" / TUNING_FILE, tmp_path)
    with pytest.raises(FormatError, match=rf"tuning\.json is damaged: .*{told}"):
        TuningRecord.read(damage(change, tmp_path))


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize(
    "change",
    [
        lambda value, wrong: value.update(seconds_an_update=wrong),
        lambda value, wrong: value["trials"][1].update(loss=wrong),
        lambda value, wrong: value["trials"][1].update(interval=[0.1, wrong]),
        lambda value, wrong: value["trials"][1].update(seconds=wrong),
        lambda value, wrong: value["trials"][1].update(scores=[wrong]),
        lambda value, wrong: value["trials"][1]["values"].update({"optimizer.lr": wrong}),
    ],
)
def test_a_record_with_a_figure_that_is_no_number_is_refused(
    change: Callable[[dict[str, Any], float], None], value: float, finished: tuple[Path, TuneResult]
) -> None:
    path = finished[0] / "out" / TUNING_FILE
    facts = facts_in(path)
    change(facts, value)
    with pytest.raises(FormatError, match=r"tuning\.json is damaged"):
        TuningRecord.from_json(facts, path)


def test_a_record_of_other_settings_is_refused(base: Path, finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    shutil.copytree(finished[0] / "out", tmp_path / "out")
    damage(lambda value: value["trials"][1].update(values={"shape.width": 1.0}), tmp_path / "out")
    with pytest.raises(FormatError, match="a trial is of other settings than those that are searched"):
        search(base, tmp_path / "out", tables(finished[0]))


# ---- what blows up, is given up, is told ----


def test_a_trial_that_blows_up_is_kept_as_such_and_the_search_goes_on(base: Path, tmp_path: Path) -> None:
    told = Told()
    wild = ("optimizer.lr=1e15:1e18", "training.epochs=8:9")
    found = search(base, tmp_path / "out", tables(tmp_path), search=wild, trials=2, listeners=[told])
    assert [one.end for one in found.record.trials] == [DONE, DIVERGED]
    assert "trial 2: its loss blew up" in told
    assert "Nothing was gained: of 2 trials, no other was better" in shown(found)


def trial(score: float, loss: float, **given: Any) -> TrialRecord:
    return TrialRecord(DONE, given, [score], loss, 1.0, 1)


def test_the_best_has_the_highest_score_of_equals_the_lowest_loss_and_then_is_the_first() -> None:
    assert best_of([trial(0.5, 0.1), trial(0.6, 0.4), trial(0.6, 0.3), trial(0.6, 0.3)]) == 2
    assert best_of([trial(0.5, 0.1), trial(0.5, 0.1)]) == 0
    assert best_of([trial(0.5, 0.1), replace(trial(0.9, 0.1), end=PRUNED)]) == 0


def test_what_was_gained_and_that_it_flatters_is_said_first(finished: tuple[Path, TuneResult]) -> None:
    _, found = finished
    usual = dict.fromkeys(found.usual, 0.001)
    gained = replace(found, record=replace(found.record, trials=[trial(0.65, 0.5), trial(0.7, 0.5, **usual)]))
    lines = shown(gained).splitlines()
    assert lines[0].startswith("Gained 5.0 points by the search's own measure: accuracy 70.0 with trial 2, 65.0 with ")
    assert "On so few rows that may be chance." in lines[0]
    assert "flatters: it is the best of 2 trials, chosen by these very 36 rows" in shown(gained)
    assert "The run's test tells what it is worth: nobody had looked at it before." in shown(gained)
    untested = replace(gained, finetune={})
    assert "So does what cross-validation on the same rows tells of the run; rows that `test` names" in shown(untested)
    sure = replace(
        gained,
        record=replace(
            found.record, trials=[trial(0.65, 0.5), replace(trial(0.7, 0.5, **usual), interval=(0.66, 0.74))]
        ),
    )
    assert "may be chance" not in shown(sure)
    assert search_as_json(gained)["gained"] == pytest.approx(0.05)
    surer = replace(found, record=replace(found.record, trials=[trial(0.7, 0.5), trial(0.7, 0.4, **usual)]))
    assert "Nothing was gained: of 2 trials, trial 2, which is taken, is only surer of its answers" in shown(surer)


def test_epochs_are_shown_in_all_their_digits(finished: tuple[Path, TuneResult]) -> None:
    _, found = finished
    values = {**found.usual, "training.epochs": 1234.0}
    record = replace(found.record, trials=[found.record.trials[0], trial(0.7, 0.5, **values)])
    assert " 1234 " in shown(replace(found, record=record))


def test_a_trial_that_is_given_up_is_told(base: Path, finished: tuple[Path, TuneResult], tmp_path: Path) -> None:
    _, found = finished
    given_up = replace(found.record.trials[1], end=PRUNED, scores=[0.2])
    record = replace(found.record, trials=[found.record.trials[0], given_up])
    assert "given up" in shown(replace(found, record=record))
