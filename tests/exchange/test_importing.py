"""OpenAI's release becomes a run; how transformers' does: `test_transformers.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpt1.base.errors import FormatError, Gpt1Error, InputError
from gpt1.exchange import importing
from gpt1.exchange.importing import import_openai
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import load_run
from gpt1.text.tokenizer import Tokenizer
from tests.exchange.tools import CONTEXT, LAYERS, WIDTH, openai_gpt, relative, write_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("openai") / "model"
    write_release(folder, words_tokenizer)
    return folder


def test_the_logits_are_those_of_transformers_with_the_same_arrays(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    arrays = write_release(tmp_path / "model", words_tokenizer, seed=3)
    run = import_openai(tmp_path / "model", tmp_path / "run", device="cpu")
    judge = openai_gpt(words_tokenizer)
    kinds = {"w": "weight", "b": "bias", "g": "weight"}
    body = judge.transformer
    with torch.no_grad():
        body.positions_embed.weight.copy_(torch.from_numpy(arrays.pop("we_positions")))
        body.tokens_embed.weight.copy_(torch.from_numpy(arrays.pop("we_tokens")))
        for name, array in arrays.items():
            layer, *path, kind = name.split("/")
            module = body.h[int(layer[1:])].get_submodule(".".join(path))
            getattr(module, kinds[kind]).copy_(torch.from_numpy(array[0] if array.ndim == 3 else array))
        ids = torch.randint(0, words_tokenizer.vocab_size, (3, CONTEXT))
        hidden, output = run.model(ids)
        assert relative(hidden @ output.T, judge(ids).logits) < 1e-5


def test_it_is_a_run_like_any_other(release: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    import_openai(release, tmp_path / "run", device="cpu")
    run = load_run(tmp_path / "run", device="cpu")
    assert run.tokenizer.fingerprint == words_tokenizer.fingerprint
    shape = run.recipe.shape
    assert (shape.layers, shape.width, shape.heads, shape.feed_forward) == (LAYERS, WIDTH, 2, 4 * WIDTH)
    assert run.generate("Ann", max_new_tokens=5)
    (tmp_path / "train.csv").write_text("text,label\n" + "good one,1\nbad one,0\n" * 4)
    changes = ["training.epochs=1", "training.precision=fp32"]
    taught = finetune(
        tmp_path / "run", tmp_path / "taught", train=tmp_path / "train.csv", changes=changes, device="cpu"
    )
    (answer,) = taught.predict([{"text": "good one"}])
    assert answer["prediction"] in ("0", "1")


def damaged(release: Path, folder: Path, name: str, content: bytes | None) -> Path:
    folder.mkdir()
    for file in release.iterdir():
        if file.name != name:
            (folder / file.name).write_bytes(file.read_bytes())
    if content is not None:
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("params_shapes.json", None, "params_shapes.json is not there"),
        ("params_shapes.json", b"{}", "is not a list of shapes"),
        ("params_shapes.json", b"[[1", "is not a list of shapes"),
        ("params_shapes.json", json.dumps([[CONTEXT, WIDTH]] * 5).encode(), "has 5 shapes; GPT-1 has 2 and 12 a block"),
        ("params_3.npy", None, r"params_3.npy is not there, though a later one is|params_9"),
        ("params_9.npy", None, "the arrays hold .* numbers, the list of shapes wants"),
        ("params_4.npy", b"garbage", "is not an array of numbers"),
        ("vocab_40000.bpe", None, "vocab_40000.bpe is not there"),
    ],
)
def test_what_is_missing_or_damaged_is_named(
    release: Path, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    with pytest.raises(Gpt1Error, match=message):
        import_openai(damaged(release, tmp_path / "model", name, content), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_pickle_in_disguise_is_not_opened(release: Path, tmp_path: Path) -> None:
    array = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "pickled.npy", array, allow_pickle=True)
    folder = damaged(release, tmp_path / "model", "params_0.npy", (tmp_path / "pickled.npy").read_bytes())
    with pytest.raises(FormatError, match="is not an array of numbers"):
        import_openai(folder, tmp_path / "run", device="cpu")


def test_another_vocabulary_than_that_of_the_weights_is_refused(
    release: Path, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    lines = (release / "vocab_40000.bpe").read_text().splitlines()
    ids = json.loads((release / "encoder_bpe_40000.json").read_text())
    newline = "\n</w>"
    ids = {token: id for token, id in ids.items() if token not in ("".join(lines[-1].split(" ")), newline)}
    folder = damaged(
        release, tmp_path / "model", "encoder_bpe_40000.json", json.dumps({**ids, newline: len(ids)}).encode()
    )
    (folder / "vocab_40000.bpe").write_text("\n".join(lines[:-1]) + "\n")
    size = words_tokenizer.vocab_size
    with pytest.raises(FormatError, match=f"has {size} token vectors, but its vocabulary has {size - 1} tokens"):
        import_openai(folder, tmp_path / "run", device="cpu")


def test_an_import_that_was_killed_can_be_made_again(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(importing, "begin_run", killed)
        import_openai(release, tmp_path / "run", device="cpu")
    (tmp_path / "run" / "checkpoints" / "step-00000000.123.tmp").mkdir()
    (tmp_path / "run" / "mine.txt").touch()
    with pytest.raises(InputError, match="is there already; choose a new or empty folder"):
        import_openai(release, tmp_path / "run", device="cpu")
    (tmp_path / "run" / "mine.txt").unlink()
    assert import_openai(release, tmp_path / "run", device="cpu").generate("Ann", max_new_tokens=2)
    assert list((tmp_path / "run").rglob("*.tmp")) == []


def test_nobodys_folder_is_written_to(release: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is there already; choose a new or empty folder"):
        import_openai(release, tmp_path / "run", device="cpu")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]
