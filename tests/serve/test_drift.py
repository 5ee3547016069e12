"""A server tells whether what it is asked has changed since its runs were judged, by figures alone."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.finetuning.finetune import finetune
from gpt1.serve.server import make_app
from gpt1.serve.settings import ServerSettings
from gpt1.tasks.drift_windows import WINDOW
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import make_run
from tests.serve.conftest import MOODS
from tests.serve.tools import Client, serving
from tests.waiting import eventually

KNOWN = 120  # rows
OF = 'model="run",task="train"'


def texts(first: int, count: int, sentences: int = 2) -> list[str]:
    return [make_text(sentences, seed).strip() for seed in range(first, first + count)]


def write(path: Path, rows: list[str], labels: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "label"], *zip(rows, labels, strict=True)])
    return path


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has rows for dev, which it did not learn."""
    folder = tmp_path_factory.mktemp("drift")
    train = write(folder / "train.csv", texts(0, 40), ["glad", "sad"] * 20)
    dev = write(folder / "dev.csv", texts(100, KNOWN), ["glad", "sad"] * (KNOWN // 2))
    finetune(trained, folder / "run", train=train, dev=dev, changes=["training.steps=4"], device="cpu")
    return folder / "run"


def ask(client: Client, rows: list[str], model: str = "run") -> None:
    for start in range(0, len(rows), 50):
        answer = client.post("/v1/classify", json={"model": model, "input": rows[start : start + 50]})
        assert answer.status_code == 200, answer.text


def is_watched(client: Client, of: str = OF) -> None:
    eventually(lambda: client.figures()[f"gpt1_drift_watched{{{of}}}"] == 1, "what rows are held against is known")


def noticed(client: Client, of: str = OF) -> set[str]:
    """Return the figures that are told to have changed."""
    told = {name: value for name, value in client.figures().items() if name.startswith("gpt1_drift_noticed")}
    assert set(told.values()) <= {0, 1}
    return {figure for figure in ("tokens", "unknown tokens", "answers", "sureness") if told[_named(figure, of)]}


def _named(figure: str, of: str, what: str = "gpt1_drift_noticed") -> str:
    return f'{what}{{figure="{figure}",{of}}}'


def test_other_rows_are_noticed_the_same_are_not_and_it_is_over_when_they_are_back(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(str(run)) as client:
        is_watched(client)
        ask(client, texts(1000, 3 * WINDOW))
        assert client.figures()[f"gpt1_drift_windows_total{{{OF}}}"] == 3
        assert noticed(client) == set()
        assert client.figures()[_named("tokens", OF, "gpt1_drift_distance")] < 0.2
        assert not caplog.messages
        ask(client, texts(5000, WINDOW, sentences=3))
        assert "tokens" in noticed(client)
        assert client.figures()[_named("tokens", OF, "gpt1_drift_distance")] > 0.3
        ask(client, texts(9000, WINDOW))
        assert noticed(client) == set()
    changed, over = caplog.messages
    assert "the run 'run', task 'train': what comes in has changed: texts are longer" in changed
    assert over.endswith("what comes in is as it was")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_window_is_of_rows_however_they_come_and_explained_ones_count_once(run: Path) -> None:
    with serving(str(run)) as client:
        is_watched(client)
        ask(client, texts(1000, WINDOW - 1))
        assert client.figures()[f"gpt1_drift_windows_total{{{OF}}}"] == 0
        asked = {"model": "run", "input": "Ann lost a key", "explain": True}
        assert client.post("/v1/classify", json=asked).status_code == 200
        assert client.figures()[f"gpt1_drift_windows_total{{{OF}}}"] == 1


@pytest.mark.parametrize("has_reference", [False, True])
def test_rows_that_repeat_what_the_run_learned_count_on_neither_side(
    run: Path, tmp_path: Path, has_reference: bool
) -> None:
    table = write(tmp_path / "known.csv", texts(0, 160), [""] * 160)
    with serving(str(run), reference=[str(table)] if has_reference else ()) as client:
        is_watched(client)
        ask(client, [text.upper() for text in texts(0, 40)] * 5)  # learned, but for case, which does not count
        assert client.figures()[f"gpt1_drift_windows_total{{{OF}}}"] == 0
        ask(client, [row for new in texts(1000, WINDOW) for row in (new, texts(0, 1)[0])])
        assert client.figures()[f"gpt1_drift_windows_total{{{OF}}}"] == 1
        assert noticed(client) == set()


def test_a_table_of_ones_own_may_be_what_rows_are_held_against(run: Path, tmp_path: Path) -> None:
    long = write(tmp_path / "long.csv", texts(2000, 60, sentences=4), [""] * 60)
    with serving(str(run), reference=[str(long)]) as client:
        is_watched(client)
        ask(client, texts(3000, WINDOW, sentences=4))
        assert noticed(client) == set()
        ask(client, texts(4000, WINDOW))
        assert "tokens" in noticed(client)


def test_where_nobody_knows_the_rows_that_is_told_and_a_table_can_be_named(
    words_tokenizer: Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_run(tmp_path / "made", words_tokenizer, MOODS)
    known = write(tmp_path / "known.csv", texts(0, 60), [""] * 60)
    of = 'model="made",task="moods"'
    with serving(str(folder)) as client:
        eventually(lambda: bool(caplog.messages), "it is told")
        assert client.figures()[f"gpt1_drift_watched{{{of}}}"] == 0
        ask(client, texts(0, WINDOW), model="made")
        assert client.figures()[f"gpt1_drift_windows_total{{{of}}}"] == 0
    assert "drift is not watched: " in caplog.text
    assert "name a table of rows as they were when it was well with `reference`" in caplog.text
    with serving(str(folder), reference=[f"made={known}"]) as client:
        is_watched(client, of)


def test_a_table_that_cannot_be_held_against_is_refused_at_the_start(
    words_tokenizer: Tokenizer, run: Path, tmp_path: Path
) -> None:
    several = make_run(tmp_path / "several", words_tokenizer, MOODS)
    few = write(tmp_path / "few.csv", texts(0, 3), ["glad", "sad", "glad"])

    def start(*runs: Path, reference: str) -> None:
        names = list(map(str, runs))
        make_app(ServerSettings(runs=names, host="127.0.0.1", port=0, device="cpu", reference=[reference]))

    with pytest.raises(InputError, match=r"few\.csv: drift is told of 30 rows and more .* learn, there are 3$"):
        start(run, reference=str(few))
    with pytest.raises(InputError, match=r"nothing\.csv"):
        start(run, reference=str(tmp_path / "nothing.csv"))
    with pytest.raises(SettingError, match="several runs are served; say whose it is: NAME="):
        start(run, several, reference=str(few))
    with pytest.raises(SettingError, match="unknown run 'rum'"):
        start(run, several, reference=f"rum={few}")
