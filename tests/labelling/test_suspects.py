"""Likely wrong labels: planted ones are found, by answers of those who had not learned them, the same after a stop."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.tables import read_rows
from gpt1.documents.terminal import render
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import Run, load_run
from gpt1.labelling.confident import find_doubts
from gpt1.labelling.cross_validating import answers_of_others, cross_validated
from gpt1.labelling.shown import judge_of, suspect_blocks
from gpt1.labelling.suspects import Suspect, suspect_labels
from gpt1.labelling.workings import WORKINGS
from gpt1.linear.ensemble import pool
from gpt1.records.ensemble import NETWORK, WORDS
from gpt1.runs.events import Event, Stepped
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task

MOODS = make_task()


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("parent") / "run", bytes_tokenizer)


def write(path: Path, rows: Sequence[Example], labels: Sequence[str] = MOODS.labels) -> Path:
    with path.open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(["text", "label"])
        sheet.writerows([row.texts[0], labels[int(str(row.label))]] for row in rows)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("table") / "moods.csv", make_examples(MOODS, 30))


def learn(parent: Path, table: Path, out: Path, *changes: str, **more: object) -> Run:
    settings = {"recipe": "finetune", "device": "cpu", **more}
    return finetune(parent, out, train=table, changes=(*SETTINGS, *changes), **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(parent: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has learned the table."""
    return learn(parent, table, tmp_path_factory.mktemp("run") / "run")


def planted(run: Run, rows: int, seed: int, who: str, folder: Path) -> tuple[float, float]:
    """Return precision and recall of flags, where every tenth label was turned over."""
    (task,) = run.tasks.values()
    examples, draw = make_examples(MOODS, rows, seed), random.Random(seed)
    wrong = np.isin(np.arange(rows), draw.sample(range(rows), rows // 10))
    given = [
        Example(row.texts, int(str(row.label)) ^ int(bad), row.row) for row, bad in zip(examples, wrong, strict=True)
    ]
    encoded = encode_task(task, {"train": given}, run.tokenizer, run.recipe.shape.context)
    members = answers_of_others(run, encoded, (who,), folder / f"{seed}", lambda said: None, [])
    labels = encoded.splits["train"].labels
    flagged = find_doubts(members[who], labels).flagged
    assert ((members[who].argmax(1) == labels) != wrong).mean() >= 0.95  # it learns the task
    return float(wrong[flagged].mean()), float(flagged[wrong].mean())


DRAWS = 20
ALL_BUT_ONE = 0.95  # of the draws: a processor that rounds otherwise learns another network


@pytest.mark.parametrize("draws", [1, pytest.param(DRAWS, marks=pytest.mark.slow)])
def test_planted_errors_are_found_by_a_network(draws: int, parent: Path, table: Path, tmp_path: Path) -> None:
    run = learn(parent, table, tmp_path / "run", "training.epochs=12")
    found = [planted(run, 200, seed, NETWORK, tmp_path) for seed in range(draws)]
    held = sum(min(one) >= 0.8 for one in found)
    print(f"held in {held} of {draws} draws: {found}")
    assert held >= round(ALL_BUT_ONE * draws)


def test_planted_errors_are_found_by_counted_words(run: Run, tmp_path: Path) -> None:
    found = [planted(run, 400, seed, WORDS, tmp_path) for seed in range(DRAWS)]
    held = sum(min(one) >= 0.8 for one in found)
    print(f"held in {held} of {DRAWS} draws: {found}")
    assert held >= ALL_BUT_ONE * DRAWS
    assert not list(tmp_path.iterdir())  # nothing was trained


def test_what_the_run_is_answers(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", make_examples(MOODS, 30))
    both = learn(parent, rows, tmp_path / "run", "finetuning.ensemble=true", "optimizer.lr=1e-6")
    ensemble, (task,) = both.ensembles["rows"], both.tasks.values()
    assert set(ensemble.weights) == {NETWORK, WORDS}
    encoded = encode_task(task, {"train": make_examples(MOODS, 24)}, both.tokenizer, both.recipe.shape.context)
    found = cross_validated(both, encoded, tmp_path / "workings", lambda said: None, [])
    members = answers_of_others(both, encoded, ensemble.weights, tmp_path / "workings", lambda said: None, [])
    assert found == pytest.approx(pool(task, members, ensemble.weights))


def test_every_row_is_in_the_sheet_the_worst_first(run: Run, table: Path, tmp_path: Path) -> None:
    told: list[str] = []
    out = tmp_path / "suspects.csv"
    found = suspect_labels(run, table, out, notice=told.append)
    sheet = [row for _, row in read_rows(out)]
    assert list(sheet[0]) == ["row", "text", "label", "suggested", "p_label", "p_suggested", "flagged"]
    given = {str(number): row for number, row in read_rows(table)}
    assert {row["row"]: row["text"] for row in sheet} == {number: row["text"] for number, row in given.items()}
    assert all(row["label"] == given[str(row["row"])]["label"] for row in sheet)
    flags = [row["flagged"] == "True" for row in sheet]
    assert flags == sorted(flags, reverse=True)
    assert flags == [one.flagged for one in found]
    assert f"{run.record.examples['moods']['train']} of 30 rows were learned" in told[0]
    assert any("each of the 3 trainings takes about" in said for said in told)
    assert [path.name for path in tmp_path.iterdir()] == ["suspects.csv"]


def test_rows_that_were_not_learned_are_answered_by_the_run_itself(run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    other = write(tmp_path / "other.csv", make_examples(MOODS, 20, seed=7))
    found = suspect_labels(run, other, tmp_path / "out.jsonl", notice=told.append)
    answers = {row["row"]: row["probabilities"] for row in rows_answered(run, other)}
    assert {one.row: one.p_label for one in found} == pytest.approx(
        {one.row: answers[one.row][one.label] for one in found}, abs=2e-6
    )
    assert told == [f"none of the 20 rows was learned by {run.path}, so it answers them itself"]


def test_the_sheet_is_written_as_the_table_is_with_its_other_columns(run: Run, tmp_path: Path) -> None:
    lines = [["Größe", "label", "text"]]
    lines += [["groß", MOODS.labels[int(str(row.label))], row.texts[0]] for row in make_examples(MOODS, 12, seed=8)]
    other = tmp_path / "other.csv"
    other.write_bytes("".join(";".join(cells) + "\r\n" for cells in lines).encode("cp1252"))
    suspect_labels(run, other, tmp_path / "out.csv", encoding="cp1252", notice=lambda said: None)
    header, *rows = (tmp_path / "out.csv").read_bytes().decode("cp1252").splitlines()
    assert header == "row;Größe;label;text;suggested;p_label;p_suggested;flagged"
    assert sorted(";".join(row.split(";")[1:4]) for row in rows) == sorted(map(";".join, lines[1:]))


def rows_answered(run: Run, table: Path) -> list[dict[str, dict[object, float]]]:
    from gpt1.inference.predicting import predict_file

    return list(predict_file(run, table))  # type: ignore[arg-type]


def test_what_it_learned_from_cannot_be_read_so_that_rows_count_as_learned(
    parent: Path, table: Path, tmp_path: Path
) -> None:
    rows = write(tmp_path / "rows.csv", make_examples(MOODS, 30))
    own = learn(parent, rows, tmp_path / "run")
    rows.unlink()
    told: list[str] = []
    suspect_labels(own, table, tmp_path / "out.csv", notice=told.append)
    assert "rows may have been learned" in told[1]


class Stopped(Exception):
    """What ends a call in the midst of its second training."""


def test_a_call_that_was_stopped_goes_on_and_writes_the_same_bytes(run: Run, table: Path, tmp_path: Path) -> None:
    suspect_labels(run, table, tmp_path / "whole.csv", notice=lambda said: None)
    begun: list[int] = []

    def stop(event: Event) -> None:
        if isinstance(event, Stepped):
            begun.append(event.step)
            if begun.count(2) == 2:
                raise Stopped

    out = tmp_path / "stopped.csv"
    with pytest.raises(Stopped):
        suspect_labels(run, table, out, listeners=[stop], notice=lambda said: None)
    assert not out.exists()
    assert sorted(path.name for path in (tmp_path / f"stopped.csv{WORKINGS}").glob("part-*")) == ["part-0", "part-1"]
    again: list[int] = []
    suspect_labels(
        run,
        table,
        out,
        listeners=[lambda event: again.append(event.step) if isinstance(event, Stepped) else None],
        notice=lambda said: None,
    )
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len(again) < 3 * max(again)  # the first training was not made again
    with pytest.raises(InputError, match=r"stopped\.csv"):
        suspect_labels(run, table, out)


def test_a_table_that_changed_while_it_was_answered_gets_no_sheet_until_it_is_back(
    run: Run, table: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / "moods.csv", tmp_path / "out.csv"
    whole = table.read_bytes()
    path.write_bytes(whole)

    def turn(event: Event) -> None:
        header, *rows = whole.splitlines(keepends=True)
        path.write_bytes(b"".join([header, *reversed(rows)]))

    with pytest.raises(InputError, match=r"moods\.csv was changed while its rows were answered.*bring it back"):
        suspect_labels(run, path, out, listeners=[turn], notice=lambda said: None)
    assert not out.exists()
    path.write_bytes(whole)
    events: list[Event] = []
    suspect_labels(run, path, out, listeners=[events.append], notice=lambda said: None)
    assert not [one for one in events if isinstance(one, Stepped)]  # the trainings were kept
    suspect_labels(run, table, tmp_path / "whole.csv", notice=lambda said: None)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("kind", ["scores", "several"])
def test_scores_and_several_labels_are_refused(kind: str, parent: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    if kind == "scores":
        rows.write_text("text,label\n" + "".join(f"Ann sold {n},{n / 7}\n" for n in range(12)))
        own = learn(parent, rows, tmp_path / "run", "training.steps=1", regression=True)
    else:
        rows.write_text("text,label\n" + "".join(f"Ann sold {n},{'a|b' if n % 2 else 'a'}\n" for n in range(12)))
        own = learn(parent, rows, tmp_path / "run", "training.steps=1", labels_sep="|")
    said = {"scores": "has scores, and this is for labels", "several": "has several labels a row, and this is for one"}
    with pytest.raises(SettingError, match=said[kind]):
        suspect_labels(load_run(own.path), rows, tmp_path / "out.csv")


def test_too_few_rows_are_refused(run: Run, table: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("".join(line + "\n" for line in table.read_text().splitlines()[:4]))
    with pytest.raises(InputError, match="3 rows are too few"):
        suspect_labels(run, few, tmp_path / "out.csv", notice=lambda said: None)


def suspects(agreed: int, flagged: int, rows: int = 20) -> list[Suspect]:
    """Make rows of two labels, of which others say the same of so many."""
    labels = ["xy"[place % 2] for place in range(rows)]
    others = {"x": "y", "y": "x"}
    return [
        Suspect(place, {"text": "a"}, own, own if place < agreed else others[own], 0.4, 0.6, place >= rows - flagged)
        for place, own in enumerate(labels)
    ]


def shown(found: Sequence[Suspect]) -> str:
    return " ".join(render(suspect_blocks(found, "out.csv"), width=100, is_terminal=False).split())


def test_answers_that_are_worth_nothing_are_said_to_be_before_all_else() -> None:
    nothing, forced, good = suspects(11, 0), suspects(11, 3), suspects(18, 2)
    assert shown(nothing).startswith("No label is flagged: those who had not learned a row agree with 55.0 % of the")
    assert "`flag_anyway=True` flags all the same" in shown(nothing)
    assert shown(forced).startswith("Flags are chance here: ")
    assert "3 of 20 labels are flagged all the same (15.0 %)" in shown(forced)
    assert shown(good).startswith("2 of 20 labels are likely wrong (10.0 %). Those who had not learned a row agree")


def test_a_judge_that_knows_nothing_of_the_labels_flags_none_unless_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    labels = [str(number % 2) for number in range(40)]  # which no text tells
    table, draw = tmp_path / "coins.csv", random.Random(1)
    draw.shuffle(labels)
    rows = [
        Example(row.texts, int(label), row.row) for row, label in zip(make_examples(MOODS, 40, 5), labels, strict=True)
    ]
    write(table, rows)
    found = suspect_labels(run, table, tmp_path / "out.csv", notice=lambda said: None)
    assert judge_of(found).may_be_chance
    assert not any(one.flagged for one in found)
    assert [row["flagged"] for _, row in read_rows(tmp_path / "out.csv")] == ["False"] * 40
    gaps = [one.p_label - one.p_suggested for one in found]
    assert gaps == pytest.approx(sorted(gaps), abs=1e-5)
    asked = suspect_labels(run, table, tmp_path / "asked.csv", flag_anyway=True, notice=lambda said: None)
    assert any(one.flagged for one in asked)
