"""`gpt1 export compact`: a smaller run that does all but go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gpt1 import finetune, load_run, pretrain
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.exchange.to_compact import export_compact
from gpt1.runs.checkpoints import MODEL_FILE, list_checkpoints


def size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.rglob("*.safetensors"))


def test_a_compact_run_is_smaller_and_nearly_the_same(trained: Path, tmp_path: Path) -> None:
    whole = load_run(trained, device="cpu")
    (told,) = export_compact(whole, tmp_path / "small")
    small = load_run(tmp_path / "small", device="cpu")
    assert "MB of weights in" in told
    weights = list_checkpoints(whole.path)[-1][1] / MODEL_FILE
    assert size(tmp_path / "small") < 0.5 * weights.stat().st_size  # of so small a network much is names and vectors
    assert small.record.as_json() | {"made_with": 0} == whole.record.as_json() | {"made_with": 0}
    assert small.tokenizer.fingerprint == whole.tokenizer.fingerprint
    for name, tensor in whole.checkpoint.model.items():
        off = (small.checkpoint.model[name] - tensor).norm() / tensor.norm().clamp(min=1e-9)
        assert off < 0.01, name
    scores = [run.score(["one two three"])[0].log_probabilities[1:] for run in (whole, small)]
    np.testing.assert_allclose(np.array(scores[0], float), np.array(scores[1], float), atol=0.05)
    assert isinstance(small.generate("one", max_new_tokens=3), str)


def test_a_fine_tuned_run_answers_from_its_bytes_and_can_be_taught_more(trained: Path, tmp_path: Path) -> None:
    rows = [f"{word} day,{label}" for word in ("good", "fine", "dull") for label in (0, 1)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows, ""]))
    run = finetune(trained, tmp_path / "run", train=tmp_path / "rows.csv", changes=["training.steps=2"], device="cpu")
    export_compact(run, tmp_path / "small")
    answers = [
        np.array([list(row["probabilities"].values()) for row in one.predict([{"text": "good day"}])])
        for one in (run, load_run(tmp_path / "small", device="cpu"))
    ]
    np.testing.assert_allclose(*answers, atol=0.02)
    further = finetune(
        tmp_path / "small",
        tmp_path / "further",
        train=tmp_path / "rows.csv",
        changes=["training.steps=1"],
        device="cpu",
    )
    assert all(tensor.dtype == torch.float32 for tensor in further.checkpoint.model.values())


def test_it_cannot_be_gone_on_with_and_replaces_nothing(trained: Path, corpus: Path, tmp_path: Path) -> None:
    whole = load_run(trained, device="cpu")
    export_compact(whole, tmp_path / "small")
    with pytest.raises(InputError, match="small is there already; choose a new or empty folder"):
        export_compact(whole, tmp_path / "small")
    with pytest.raises(SettingError, match="kept without the optimiser's moments"):
        pretrain(None, corpus, tmp_path / "small", resume=True, changes=["training.steps=99"], device="cpu")


def test_a_damaged_one_is_refused_by_name(trained: Path, tmp_path: Path) -> None:
    export_compact(load_run(trained, device="cpu"), tmp_path / "small")
    ((_, path),) = list_checkpoints(tmp_path / "small")
    content = bytearray((path / MODEL_FILE).read_bytes())
    content[-1] ^= 1
    (path / MODEL_FILE).write_bytes(content)
    with pytest.raises(FormatError, match=r"step-\d+ is damaged: model.safetensors does not match its checksum"):
        _ = load_run(tmp_path / "small", device="cpu", step="best").checkpoint
