"""`gpt1 augment`: rows in other words, of the rows to learn from alone, looked at and then learned beside them."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import Gpt1Error, Interrupted
from gpt1.base.progress import Silent
from gpt1.exchange.rewording import AT_ONCE, Reworded, Ways, reword_table
from gpt1.exchange.seq2seq import open_writer
from gpt1.finetuning.finetune import finetune
from gpt1.runs.folder import read_run
from gpt1.tasks.preparing import read_table
from tests.exchange.writers import make_writer
from tests.finetuning.tools import SETTINGS, Told

pytest.importorskip("transformers")
PEOPLE, DEEDS, THINGS = ("Ann", "Tom", "girl", "sailor"), ("sold", "saw"), ("lamp", "cat", "film")
ROWS = [f"{who} {deed} the {thing}" for who, deed, thing in itertools.product(PEOPLE, DEEDS, THINGS)]  # 24


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_writer(tmp_path_factory.mktemp("writers") / "there")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(
        "id,text,label\n" + "".join(f"r{n},{text},{'good' if n % 2 else 'bad'}\n" for n, text in enumerate(ROWS))
    )
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def reword(table: Path, out: Path, model: Path, **given: Any) -> Reworded:
    own = {name: given.pop(name) for name in ("back", "prefix", "copies") if name in given}
    return reword_table(table, out, ways=Ways(model, **own), device="cpu", **{"notice": lambda _: None, **given})


def test_each_row_to_learn_from_is_written_anew_with_its_label_its_cells_and_its_source(
    table: Path, model: Path, tmp_path: Path
) -> None:
    found = reword(table, tmp_path / "more.csv", model)
    before = dict(enumerate(rows_of(table), 2))
    train = read_table(table).splits["train"]
    assert found.rows == len(train) == 22  # a tenth is held out
    made, writer = rows_of(tmp_path / "more.csv"), open_writer(model, torch.device("cpu"))
    assert len(made) == found.made == found.rows - sum(found.left.values()) > 10
    for row in made:
        source = before[int(row["source_row"])]
        assert int(row["source_row"]) in {example.row for example in train}
        assert (row["id"], row["label"], row["source_text"]) == (source["id"], source["label"], source["text"])
        assert row["text"] == writer.write([source["text"]], 1)[0][0] != source["text"]
    assert list(made[0]) == ["source_row", "id", "text", "label", "source_text"]
    assert not (tmp_path / "more.csv.partial").exists()


def test_there_and_back_is_what_the_second_makes_of_the_first(table: Path, model: Path, tmp_path: Path) -> None:
    back = make_writer(tmp_path / "back", seed=7)
    reword(table, tmp_path / "more.csv", model, back=back, copies=2, prefix="Tom ")
    first, second = (open_writer(folder, torch.device("cpu")) for folder in (model, back))
    made = rows_of(tmp_path / "more.csv")
    assert len(made) > 3  # random weights say few things
    for row in made:
        there = first.write([f"Tom {row['source_text']}"], 1)[0][0]
        assert row["text"] in second.write([there], 2)[0]


def test_rows_for_dev_and_test_and_what_stands_there_are_never_written(
    table: Path, model: Path, tmp_path: Path
) -> None:
    reword(table, tmp_path / "first.csv", model)
    stolen = rows_of(tmp_path / "first.csv")[0]["text"]
    (tmp_path / "dev.csv").write_text(f"text,label\n{stolen},good\nTom saw a girl,bad\n")
    found = reword(table, tmp_path / "more.csv", model, dev=tmp_path / "dev.csv")
    assert found.rows == 24  # all of the table are to learn from
    assert found.left["stand in dev or test"] >= 1
    assert stolen not in [row["text"] for row in rows_of(tmp_path / "more.csv")]


def test_pairs_are_written_anew_text_by_text_and_a_text_that_is_too_long_leaves_its_row_out(
    model: Path, tmp_path: Path
) -> None:
    long = "Ann " * 40
    lines = [f"{text},{long if n == 3 else ROWS[-n - 1]},{n % 2}\n" for n, text in enumerate(ROWS)]
    (tmp_path / "pairs.csv").write_text("a,b,label\n" + "".join(lines))
    found = reword(tmp_path / "pairs.csv", tmp_path / "more.csv", model)
    assert found.left["too long for the model, or nothing was written"] >= 1
    made = rows_of(tmp_path / "more.csv")
    assert {"source_row", "a", "b", "label", "source_a", "source_b"} == set(made[0])
    assert "5" not in {row["source_row"] for row in made}
    writer = open_writer(model, torch.device("cpu"))
    for row in made[:4]:
        assert [row["a"], row["b"]] == [copy[0] for copy in writer.write([row["source_a"], row["source_b"]], 1)]


class StopsAfter(Silent):
    """Progress that is interrupted when so many chunks are done."""

    def __init__(self, chunks: int) -> None:
        self.left = chunks

    def bar(self, label: str) -> StopsAfter:
        return self

    def show(self, share: float, line: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_a_start_that_was_stopped_goes_on_and_ends_with_the_same_bytes(
    table: Path, model: Path, tmp_path: Path
) -> None:
    reword(table, tmp_path / "whole.csv", model, copies=2)
    with pytest.raises(Interrupted, match=f"stopped after {2 * AT_ONCE} of 22 rows"):
        reword(table, tmp_path / "more.csv", model, copies=2, progress=StopsAfter(2))
    assert not (tmp_path / "more.csv").exists()
    with pytest.raises(Gpt1Error, match="holds answers of a start that did not end; go on with `resume=True`"):
        reword(table, tmp_path / "more.csv", model, copies=2)
    with pytest.raises(Gpt1Error, match="was begun with another `copies`"):
        reword(table, tmp_path / "more.csv", model, copies=3, resume=True)
    with (tmp_path / "more.csv.partial").open("ab") as file:  # a kill came while a line was written
        file.write(b'{"answers": [{"te')
    told: list[str] = []
    reword(table, tmp_path / "more.csv", model, copies=2, resume=True, notice=told.append)
    assert f"going on after {2 * AT_ONCE} rows" in told
    assert (tmp_path / "more.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    with pytest.raises(Gpt1Error, match="is there already"):
        reword(table, tmp_path / "more.csv", model)


def test_a_start_that_was_killed_when_its_file_was_whole_is_done(
    table: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(path: Path, missing_ok: bool = False) -> None:
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Path, "unlink", die)
        reword(table, tmp_path / "more.csv", model)
    assert (tmp_path / "more.csv.partial").exists()
    before, told = (tmp_path / "more.csv").read_bytes(), list[str]()
    found = reword(table, tmp_path / "more.csv", model, resume=True, notice=told.append)
    assert f"{tmp_path / 'more.csv'} is whole already" in told
    assert found.made == len(rows_of(tmp_path / "more.csv"))
    assert (tmp_path / "more.csv").read_bytes() == before
    assert not (tmp_path / "more.csv.partial").exists()


def test_what_cannot_be_written_anew_is_refused(table: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(Gpt1Error, match="between 1 and 16 copies are made of a row, not 0"):
        Ways(model, copies=0)
    with pytest.raises(Gpt1Error, match=r"how is .*more\.xyz to be written"):
        reword(table, tmp_path / "more.xyz", model)
    choices = "".join(
        f'{{"context": "{text}", "choices": ["a", "b"], "label": {n % 2}}}\n' for n, text in enumerate(ROWS)
    )
    (tmp_path / "choices.jsonl").write_text(choices)
    with pytest.raises(Gpt1Error, match="have choices, of which no others are made"):
        reword(tmp_path / "choices.jsonl", tmp_path / "more.csv", model)
    (tmp_path / "taken.csv").write_text(table.read_text().replace("id,", "source_row,"))
    with pytest.raises(Gpt1Error, match="has a column source_row already; rename it"):
        reword(tmp_path / "taken.csv", tmp_path / "more.csv", model)
    assert not (tmp_path / "more.csv").exists()


def test_made_rows_are_learned_beside_their_sources_and_nothing_is_cross_validated(
    table: Path, model: Path, trained: Path, tmp_path: Path
) -> None:
    made, told = reword(table, tmp_path / "more.csv", model).made, Told()
    changes = [*SETTINGS, "training.epochs=1", "finetuning.ensemble=true", "finetuning.folds=3"]
    given: dict[str, Any] = {"train": table, "more": tmp_path / "more.csv", "changes": changes, "device": "cpu"}
    finetune(trained, tmp_path / "run", listeners=[told], **given)
    record = read_run(tmp_path / "run")
    (counts,) = record.examples.values()
    assert (counts["train"], counts["dev"]) == (22 + made, 2)
    assert record.source is not None
    assert record.source.more == str(tmp_path / "more.csv")
    assert f"{made} rows made of others are learned too" in told
    assert "some rows were made of others, so nothing is cross-validated: the rows for dev tell who answers" in told
    assert not (tmp_path / "run" / "parts").exists()
    with pytest.raises(Gpt1Error, match="the training examples are not those"):
        finetune(trained, tmp_path / "run", resume=True, **{**given, "more": None})
