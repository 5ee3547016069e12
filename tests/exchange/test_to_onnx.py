"""Runs as ONNX, judged by onnxruntime."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError
from gpt1.base.torch_internals import EXPORT_LOGGER
from gpt1.exchange.to_onnx import export_onnx
from gpt1.inference.run import load_run
from gpt1.recipes.values import LSTM
from gpt1.records.calibration import TaskCalibration
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.inference.tools import make_calibrated, make_run

TASK = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))


def answers(path: Path, **inputs: Any) -> np.ndarray:
    from onnxruntime import InferenceSession

    (found,) = InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    return np.asarray(found)


def test_logits_are_ours_for_any_number_and_length_of_texts(trained: Path, tmp_path: Path) -> None:
    run = load_run(trained, device="cpu")
    export_onnx(run, tmp_path / "model.onnx")
    for texts, tokens in ((1, 1), (1, 7), (3, 16), (2, 5)):
        ids = torch.randint(0, run.tokenizer.vocab_size, (texts, tokens))
        with torch.no_grad():
            hidden, output = run.model(ids)
            wanted = (hidden @ output.T).numpy()
        np.testing.assert_allclose(answers(tmp_path / "model.onnx", ids=ids.numpy()), wanted, atol=1e-4)


def test_a_fine_tuned_run_answers_wherever_its_extract_token_stands(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = load_run(make_run(tmp_path / "run", words_tokenizer, TASK), device="cpu")
    said = export_onnx(run, tmp_path / "model.onnx")
    assert "glad, sad" in said[0]
    for extract in ([4], [4, 8], [0, 2, 8]):
        ids = torch.randint(0, words_tokenizer.vocab_size, (len(extract), 9))
        rows = list(range(len(extract)))
        ids[rows, extract] = words_tokenizer.specials["extract"]
        found = answers(tmp_path / "model.onnx", ids=ids.numpy(), extract=np.array(extract))
        with torch.no_grad():
            hidden, _ = run.classifier.body(ids)
            wanted = run.classifier.heads["moods"](hidden[rows, extract])
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)


def test_a_temperature_goes_out_with_the_head(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    folder = make_calibrated(tmp_path / "run", words_tokenizer, TASK, moods=TaskCalibration("because", 2.5))
    run = load_run(folder, device="cpu")
    export_onnx(run, tmp_path / "model.onnx")
    ids = torch.randint(0, words_tokenizer.vocab_size, (2, 5))
    with torch.no_grad():
        wanted = run.classifier.heads["moods"](run.classifier.body(ids)[0][:, 3]) / 2.5
    found = answers(tmp_path / "model.onnx", ids=ids.numpy(), extract=np.array([3, 3]))
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)


def test_exporting_leaves_the_run_as_it_was(trained: Path, tmp_path: Path) -> None:
    run = load_run(trained, device="cpu")
    run.model.compute = torch.bfloat16
    export_onnx(run, tmp_path / "model.onnx")
    assert run.model.compute == torch.bfloat16


def test_where_nothing_can_be_written_nothing_is_exported(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.onnx, "export", lambda *given, **options: pytest.fail("exported in vain"))
    run = load_run(trained, device="cpu")
    for out in (tmp_path, tmp_path / "absent" / "model.onnx"):
        with pytest.raises(InputError, match="cannot write"):
            export_onnx(run, out)


def test_only_the_warnings_of_a_library_that_is_not_needed_are_kept_back(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    registering = logging.getLogger(EXPORT_LOGGER)
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: told.append(record.getMessage()))
    monkeypatch.setattr(registering, "handlers", [handler])

    def export(*given: Any, **options: Any) -> SimpleNamespace:
        for message in ("torchvision is not installed. Skipping torchvision::nms", "another matter"):
            registering.warning(message)
        return SimpleNamespace(model_proto=SimpleNamespace(SerializeToString=bytes))

    monkeypatch.setattr(torch.onnx, "export", export)
    export_onnx(load_run(trained, device="cpu"), tmp_path / "model.onnx")
    registering.warning("torchvision is not installed, and that is none of ours")
    assert told == ["another matter", "torchvision is not installed, and that is none of ours"]


def test_what_onnx_has_no_place_for_is_refused(trained: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = load_run(trained, device="cpu")
    shape = run.recipe.shape
    for change, message in (({"kind": LSTM, "layers": 1}, "an LSTM"), ({"window": 4}, "a sliding window")):
        run.recipe = replace(run.recipe, shape=replace(shape, **change))
        with pytest.raises(InputError, match=message):
            export_onnx(run, tmp_path / "model.onnx")
    pairs = load_run(make_run(tmp_path / "run", words_tokenizer, CATALOGUE["mrpc"]), device="cpu")
    with pytest.raises(InputError, match="is answered from 2 sequences"):
        export_onnx(pairs, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
