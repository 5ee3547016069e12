"""Models that write text from text: opened from a folder alone, and never one that could run something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import FormatError, Gpt1Error
from gpt1.exchange.seq2seq import folder_identity, open_writer
from tests.exchange.writers import make_writer

pytest.importorskip("transformers")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_writer(tmp_path_factory.mktemp("writer") / "model")


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_what_is_written_is_what_the_library_writes_by_itself(made: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    writer = open_writer(made, CPU)
    texts = ["Ann sold the old lamp", "Tom saw a girl"]
    found = writer.write(texts, 3)
    tokenizer, model = AutoTokenizer.from_pretrained(made), AutoModelForSeq2SeqLM.from_pretrained(made).eval()
    for text, copies in zip(texts, found, strict=True):
        read = tokenizer(text, return_tensors="pt")
        room = 2 * len(tokenizer(texts[0])["input_ids"]) + 16
        written = model.generate(
            input_ids=read["input_ids"],
            attention_mask=read["attention_mask"],
            num_beams=4,
            num_return_sequences=3,
            max_new_tokens=min(32, room),
        )
        assert copies == [one.strip() for one in tokenizer.batch_decode(written, skip_special_tokens=True)]
    assert [writer.fits(text) for text in ("Ann " * 32, "Ann " * 33)] == [True, False]


def test_the_identity_is_that_of_the_files(made: Path, tmp_path: Path) -> None:
    assert folder_identity(copied(made, tmp_path / "same")) == folder_identity(made)
    assert folder_identity(make_writer(tmp_path / "other", seed=1)) != folder_identity(made)


def renamed(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_code(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | {"auto_map": {"A": "x.Y"}}))

    return change


def one_way(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (renamed, "holds pytorch_model.bin, which may be a pickle, and a pickle can run anything"),
        (lambda folder: (folder / "words.pkl").write_bytes(b""), "holds words.pkl, which may be a pickle"),
        (lambda folder: (folder / "modeling.py").write_text(""), r"brings code of its own \(modeling.py\)"),
        (with_code("config.json"), "config.json asks for code of its own"),
        (with_code("tokenizer_config.json"), "tokenizer_config.json asks for code of its own"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no weights in safetensors"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (one_way, "is no model that writes text from text"),
    ],
)
def test_a_folder_that_could_run_something_or_is_no_such_model_is_refused_by_name(
    change: Callable[[Path], object], said: str, made: Path, tmp_path: Path
) -> None:
    folder = copied(made, tmp_path / "model")
    change(folder)
    for use in (folder_identity, lambda path: open_writer(path, CPU)):
        with pytest.raises(Gpt1Error, match=said):
            use(folder)


def test_what_is_not_there_or_damaged_is_told(made: Path, tmp_path: Path) -> None:
    with pytest.raises(Gpt1Error, match="is no folder; name one with a model of transformers, nothing is fetched"):
        folder_identity(tmp_path / "google" / "t5")
    folder = copied(made, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="cannot be opened as a model that writes text from text"):
        open_writer(folder, CPU)
