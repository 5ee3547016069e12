from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.documents.drift import NOT_CHANGED, drift_blocks, verdict
from gpt1.documents.terminal import render
from gpt1.finetuning.drifting import FEWEST, MOST, find_drift
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import Run, load_run
from gpt1.tasks.drift import ANSWERS, BITS, LENGTH, SURENESS, UNKNOWN
from tests.conftest import make_text

DRAWS = 20


def row(seed: int, sentences: int = 2) -> str:
    return make_text(sentences, seed)


def write(path: Path, texts: list[str], labels: list[str] | None = None) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["text"] if labels is None else ["text", "label"])
        sheet.writerows([text] if labels is None else [text, labels[at]] for at, text in enumerate(texts))
    return path


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with 120 rows for dev; tests hold others against these."""
    folder = tmp_path_factory.mktemp("drift")
    labels = ["glad", "sad"] * 100
    train = write(folder / "train.csv", [row(seed) for seed in range(40)], labels)
    dev = write(folder / "dev.csv", [row(seed) for seed in range(100, 220)], labels)
    finetune(trained, folder / "run", train=train, dev=dev, changes=["training.steps=4"], device="cpu")
    return load_run(folder / "run", device="cpu")


def test_a_planted_shift_is_noticed_and_where_there_is_none_nothing_is(run: Run, tmp_path: Path) -> None:
    noticed = {"same": 0, "other words": 0, "longer": 0}
    for draw in range(DRAWS):
        seeds = range(1000 * (draw + 1), 1000 * (draw + 1) + 60)
        tables = {
            "same": [row(seed) for seed in seeds],
            "other words": [" ".join(word[::-1] for word in row(seed).split()) for seed in seeds],
            "longer": [row(seed, 4 if seed % 2 else 2) for seed in seeds],
        }
        for name, texts in tables.items():
            noticed[name] += find_drift(run, write(tmp_path / f"{name}-{draw}.csv", texts)).has_changed
    assert noticed == {"same": 0, "other words": DRAWS, "longer": DRAWS}


def test_what_has_changed_is_said_in_words_with_the_rows_that_changed_most(run: Run, tmp_path: Path) -> None:
    texts = [row(seed) for seed in range(500, 560)]
    texts[7] = "zqx zqx zqx zqx"
    report = find_drift(run, write(tmp_path / "odd.csv", texts + [row(seed, 9) for seed in range(60)]))
    assert report.moved[LENGTH].shift.is_noticed
    assert "texts are longer" in verdict(report)
    odd = {one.row: one for one in report.strangest}[9]  # the header is row 1
    assert odd.text == texts[7]
    assert BITS in odd.figures
    shown = render(drift_blocks(report), width=100, is_terminal=False, folds=False, worded=str)
    assert "row 9: " in shown
    assert "held against 120 rows" in shown
    assert json.loads(json.dumps(report.as_json()))["moved"][LENGTH]["is_noticed"] is True


def test_a_change_of_answers_is_told_as_shares(run: Run, tmp_path: Path) -> None:
    report = find_drift(run, write(tmp_path / "new.csv", [row(seed) for seed in range(600, 660)]))
    assert list(report.moved) == [LENGTH, UNKNOWN, BITS, ANSWERS, SURENESS]
    shares = report.moved[ANSWERS].after
    assert isinstance(shares, dict)
    assert sum(shares.values()) == pytest.approx(1)
    assert NOT_CHANGED in render(drift_blocks(report), width=400, is_terminal=False, folds=False, worded=str)


def test_rows_of_ones_own_may_be_what_is_held_against(run: Run, tmp_path: Path) -> None:
    long = [row(seed, 6) for seed in range(700, 760)]
    before = write(tmp_path / "before.csv", long)
    after = write(tmp_path / "after.csv", [row(seed, 6) for seed in range(800, 860)])
    assert find_drift(run, after).has_changed
    report = find_drift(run, after, reference=before)
    assert not report.has_changed
    assert report.known == f"60 rows of {before}"


def test_rows_that_the_run_learned_are_no_reference(run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    learned, new = [row(seed) for seed in range(40)], [row(seed) for seed in range(2000, 2000 + FEWEST)]
    mixed = write(tmp_path / "mixed.csv", [*learned, *new])
    after = write(tmp_path / "later.csv", [row(seed) for seed in range(3000, 3000 + FEWEST)])
    assert find_drift(run, after, reference=mixed, notice=told.append).known == f"{FEWEST} rows of {mixed}"
    assert told == [f"40 of 70 rows of {mixed} were learned, and are left out"]


def test_rows_that_the_run_learned_are_not_said_to_have_changed(run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    learned, same = [row(seed) for seed in range(40)], [row(seed) for seed in range(6000, 6040)]
    again, other = write(tmp_path / "again.csv", learned), write(tmp_path / "other.csv", same)
    with pytest.raises(InputError, match=r"again\.csv: drift is told of 30 rows and more that .* learn, there are 0$"):
        find_drift(run, again, notice=told.append)
    with pytest.raises(InputError, match=r"there are 0$"):
        find_drift(run, again, reference=other, notice=told.append)
    with pytest.raises(InputError, match=r"there are 0; name a table of rows as they were when it was well"):
        find_drift(run, other, reference=again, notice=told.append)
    assert told == [f"40 of 40 rows of {again} were learned, and are left out"] * 3
    mixed = write(tmp_path / "mixed.csv", [*learned, *same])
    report = find_drift(run, mixed, notice=told.append)
    assert (report.has_changed, report.rows, report.asked) == (False, 80, 40)


def test_of_many_rows_some_are_drawn_and_that_is_told(run: Run, tmp_path: Path) -> None:
    told: list[str] = []
    table = write(tmp_path / "many.csv", ["The cat saw Tom."] * (MOST + 5))
    assert find_drift(run, table, notice=told.append).asked == MOST
    assert told == [f"of 2,005 rows of {table}, 2,000 that are drawn at random are asked"]


def test_what_cannot_be_told_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    few = write(tmp_path / "few.csv", [row(seed) for seed in range(4000, 4000 + FEWEST - 1)])
    enough = write(tmp_path / "enough.csv", [row(seed) for seed in range(900, 900 + FEWEST)])
    with pytest.raises(
        InputError, match=r"few\.csv: drift is told of 30 rows and more that the run did not learn, there are 29$"
    ):
        find_drift(run, few)
    with pytest.raises(InputError, match=r"there are 29; name a table of rows .* `reference`"):
        find_drift(run, enough, reference=few)
    with pytest.raises(SettingError, match="held against itself"):
        find_drift(run, enough, reference=enough)
    holes = write(tmp_path / "holes.csv", ["", *(row(seed) for seed in range(5000, 5000 + FEWEST))])
    with pytest.raises(InputError, match=r"holes\.csv, row 2: "):
        find_drift(run, holes)
    assert find_drift(run, holes, skip_bad=True).bad == 1


def test_where_the_rows_for_dev_are_gone_a_table_is_asked_for(run: Run, tmp_path: Path) -> None:
    assert run.record.source is not None
    train = Path(str(run.record.source.train))
    table = write(tmp_path / "table.csv", [row(seed) for seed in range(FEWEST)])
    kept = train.read_bytes()
    try:
        train.unlink()
        with pytest.raises(InputError, match="name a table of rows as they were when it was well with `reference`"):
            find_drift(run, table)
    finally:
        train.write_bytes(kept)
