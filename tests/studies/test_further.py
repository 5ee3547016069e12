"""What the paper says in words: arms of their own, held against others in pairs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.studies.reproduce import Scope, reproduce
from gpt1.text.tokenizer import Tokenizer
from tests.studies.test_reproduce import write_mnli
from tests.studies.tools import TRAINING, Remembers, make_start, write_tasks


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """MNLI, RTE and Story Cloze."""
    folder = write_mnli(tmp_path / "tasks")
    return write_tasks(folder, "rte", "storycloze")


def cell(out: Path, name: str) -> Any:
    return json.loads((out / "cells" / name / "cell.json").read_text())


def test_rte_is_learned_beside_mnli_whose_rows_choose_and_judge_nothing(
    tmp_path: Path, start: Path, data: Path
) -> None:
    out, scope = tmp_path / "out", Scope(["further", "tables"], ["rte"])
    found = reproduce(start, out, data=data, training=TRAINING, scope=scope)
    both, alone = cell(out, "multi-task-rte-0"), cell(out, "full-rte-0")
    assert both["inputs"]["beside"].keys() == {"mnli"}
    assert "beside" not in alone["inputs"]
    assert both["result"]["scores"].keys() == {"dev"}
    assert len(both["result"]["curve"]) == 2
    run = json.loads((out / "cells" / "multi-task-rte-0" / "run" / "run.json").read_text())
    assert run["examples"] == {"rte": {"train": 16, "dev": 9}, "mnli": {"train": 16}}
    (pair,) = found.sections["further"]["pairs"]
    assert (pair["task"], pair["arm"], pair["over"]) == ("rte", "multi-task", "full")
    scores = [one["result"]["scores"]["dev"]["accuracy"] for one in (both, alone)]
    assert pair["difference"] == pytest.approx(scores[0] - scores[1])


def test_contiguous_text_is_held_against_shuffled_and_embeddings_alone_against_nothing(
    tmp_path: Path, start: Path, data: Path, words_tokenizer: Tokenizer
) -> None:
    texts = {name: make_start(tmp_path / name, words_tokenizer) for name in ("contiguous", "shuffled")}
    out, watcher = tmp_path / "out", Remembers()
    training = replace(TRAINING, seeds=2)
    scope = Scope(["further", "ablations", "transfer"], ["storycloze", "mnli"])
    found = reproduce(start, out, data=data, training=training, texts=texts, scope=scope, watcher=watcher)
    assert watcher.made[:4] == [f"{name}-storycloze-{seed}" for seed in (0, 1) for name in texts]
    pairs = found.sections["further"]["pairs"]
    assert [(pair["task"], pair["arm"], pair["over"]) for pair in pairs] == [
        ("storycloze", "contiguous", "shuffled"),
        ("mnli", "layers-0", "scratch"),
        ("mnli", "layers-0", "scratch"),  # on both of its dev sets
    ]
    arms = found.sections["further"]["tasks"]["storycloze"]
    assert {name: len(figure["seeds"]) for name, figure in arms.items()} == {"contiguous": 2, "shuffled": 2}
    assert found.about["texts"] == {name: str(run) for name, run in texts.items()}


def test_texts_that_cannot_be_compared_are_refused(
    tmp_path: Path, start: Path, data: Path, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    def study(**texts: Path) -> None:
        reproduce(start, tmp_path / "out", data=data, training=TRAINING, texts=texts)

    with pytest.raises(SettingError, match="`texts` has no run that read shuffled text"):
        study(contiguous=start)
    with pytest.raises(SettingError, match="unknown text 'shuffle'; did you mean 'shuffled'"):
        study(contiguous=start, shuffle=start)
    narrow = make_start(tmp_path / "narrow", words_tokenizer, "shape.layers=1")
    with pytest.raises(SettingError, match="networks of different shapes"):
        study(contiguous=start, shuffled=narrow)
    other = make_start(tmp_path / "other", bytes_tokenizer)
    with pytest.raises(InputError, match="another tokenizer"):
        study(contiguous=other, shuffled=other)
    assert not (tmp_path / "out").exists()
