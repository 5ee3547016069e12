from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt1 import prepare
from gpt1.base.errors import FormatError, Gpt1Error, InputError, SettingError
from gpt1.corpus.prepare import CORPUS_FILE
from gpt1.pretraining.stream import TokenStream
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.pretraining.tools import FINGERPRINT, write_corpus


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    corpus = json.loads((folder / CORPUS_FILE).read_text())
    change(corpus)
    (folder / CORPUS_FILE).write_text(json.dumps(corpus))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    tokens=st.integers(1, 60),
    shard_tokens=st.integers(1, 20),
    vocab_size=st.sampled_from([50_000, 100_000]),
    data=st.data(),
)
def test_a_read_gives_the_tokens_of_the_stream_whatever_shards_they_lie_in(
    tmp_path_factory: pytest.TempPathFactory, tokens: int, shard_tokens: int, vocab_size: int, data: st.DataObject
) -> None:
    ids = np.random.default_rng(tokens).integers(0, vocab_size, tokens)
    folder = write_corpus(
        tmp_path_factory.mktemp("corpus"), {"train": ids.tolist()}, shard_tokens=shard_tokens, vocab_size=vocab_size
    )
    stream = TokenStream(folder, "train")
    length = data.draw(st.integers(0, tokens))
    starts = data.draw(st.lists(st.integers(0, tokens - length), max_size=6))
    read = stream.read(starts, length)
    assert len(stream) == tokens
    assert (read.dtype, read.shape) == (np.int32, (len(starts), length))
    assert read.tolist() == [ids[start : start + length].tolist() for start in starts]


@pytest.mark.parametrize(("starts", "length"), [([0, 8], 3), ([-1], 2), ([0], 11)])
def test_a_read_beyond_the_stream_is_refused(tmp_path: Path, starts: list[int], length: int) -> None:
    stream = TokenStream(write_corpus(tmp_path, {"train": range(10)}), "train")
    with pytest.raises(IndexError, match="are not all in 10"):
        stream.read(starts, length)


def test_a_prepared_corpus_reads_as_its_documents_with_a_newline_after_each(
    tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    texts = [make_text(20, seed) for seed in range(1, 5)]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, newline="")
    prepare(tmp_path / "0.txt", bytes_tokenizer, tmp_path / "one", workers=1, valid=0)
    prepare(tmp_path.glob("*.txt"), bytes_tokenizer, tmp_path / "all", workers=1, valid=0, shard_tokens=100)
    one, whole = TokenStream(tmp_path / "one", "train"), TokenStream(tmp_path / "all", "train")
    expected = [[*bytes_tokenizer.encode(text), bytes_tokenizer.newline_id] for text in texts]
    assert one.read([0], len(one))[0].tolist() == expected[0]
    assert sorted(whole.read([0], len(whole))[0].tolist()) == sorted(id for ids in expected for id in ids)
    assert whole.bytes == sum(len(text.encode()) for text in texts)
    assert (whole.fingerprint, whole.vocab_size) == (bytes_tokenizer.fingerprint, bytes_tokenizer.vocab_size)


def test_a_split_is_its_own_stream_with_its_own_facts(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": range(10), "valid": [7, 8, 9]})
    valid = TokenStream(folder, "valid")
    assert valid.read([0], 3).tolist() == [[7, 8, 9]]
    assert (valid.bytes, valid.fingerprint, valid.vocab_size) == (15, FINGERPRINT, 1000)


def test_the_identity_changes_with_the_tokens_and_with_nothing_else(tmp_path: Path) -> None:
    def identity(name: str, ids: list[int]) -> str:
        (tmp_path / name).mkdir()
        folder = write_corpus(tmp_path / name, {"train": ids, "valid": [1]}, shard_tokens=3)
        return TokenStream(folder, "train").identity

    first = identity("a", [1, 2, 3, 4])
    assert first == identity("b", [1, 2, 3, 4])
    assert len({first, identity("c", [1, 2, 3, 5]), identity("d", [4, 2, 3, 1]), identity("e", [1, 2, 3])}) == 4


def test_a_folder_that_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gpt1 prepare"):
        TokenStream(tmp_path / "absent", "train")
    with pytest.raises(InputError, match=r"corpus\.json does not exist"):
        TokenStream(tmp_path, "train")


def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": [1, 2], "valid": [3]})
    with pytest.raises(SettingError, match=r"'validd'; did you mean 'valid'\? \(known: train, valid\)"):
        TokenStream(folder, "validd")


def test_an_empty_split_is_refused_with_advice(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": [1, 2], "valid": []})
    with pytest.raises(InputError, match=r"'valid' of the corpus .* is empty; prepare .*--valid"):
        TokenStream(folder, "valid")
    edit(folder, lambda corpus: corpus["splits"]["valid"].update(shards=[]))
    with pytest.raises(InputError, match="is empty"):
        TokenStream(folder, "valid")


def lose(folder: Path) -> None:
    (folder / "train-00001.tok").unlink()


def cut_short(folder: Path) -> None:
    path = folder / "train-00001.tok"
    path.write_bytes(path.read_bytes()[:-8])


def take_from_elsewhere(folder: Path) -> None:
    (folder / "train-00000.tok").write_bytes((folder / "train-00001.tok").read_bytes())


def change_tokenizer(folder: Path) -> None:
    edit(folder, lambda corpus: corpus["tokenizer"].update(fingerprint="cd" * 32))


def change_count(folder: Path) -> None:
    edit(folder, lambda corpus: corpus["splits"]["train"]["shards"][0].update(tokens=4))


def forget_bytes(folder: Path) -> None:
    edit(folder, lambda corpus: corpus["splits"]["train"].pop("bytes"))


def misspell_size(folder: Path) -> None:
    edit(folder, lambda corpus: corpus["tokenizer"].update(vocab_size="many"))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lose, r"train-00001\.tok: No such file"),
        (cut_short, r"train-00001\.tok is damaged"),
        (take_from_elsewhere, r"train-00000\.tok is not the shard that .*corpus\.json names"),
        (change_tokenizer, r"train-00000\.tok was made with another tokenizer than .*corpus\.json names"),
        (change_count, r"train-00000\.tok holds 3 tokens, .*corpus\.json asks for 4"),
        (forget_bytes, r"corpus\.json is damaged: splits\.train\.bytes is missing; prepare anew"),
        (misspell_size, r"corpus\.json is damaged: tokenizer\.vocab_size is .*, expected a whole number"),
    ],
)
def test_shards_that_do_not_fit_the_description_are_refused(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    folder = write_corpus(tmp_path, {"train": range(8)}, shard_tokens=3)
    harm(folder)
    with pytest.raises(FormatError, match=message) as caught:
        TokenStream(folder, "train")
    assert isinstance(caught.value, Gpt1Error)
    assert "prepare anew with --restart" in str(caught.value)


def test_a_stream_and_its_windows_need_numpy_and_torch_alone(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": range(20)}, shard_tokens=7)
    absent = ("spacy", "ftfy", "rich", "click", "tokenizers", "pyarrow", "rensa", "zstandard", "sklearn", "scipy")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "from gpt1.pretraining.stream import TokenStream\n"
        "from gpt1.pretraining.windows import Windows\n"
        "windows = Windows(TokenStream(sys.argv[1], 'train'), context=4, batch=2, seed=0)\n"
        "print(windows.batch(0).arrays['ids'].shape)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("(2, 4)", 0), done.stderr
