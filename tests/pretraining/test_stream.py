from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1 import prepare
from gpt1.base.errors import FormatError, Gpt1Error, InputError, SettingError
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE
from gpt1.corpus.shards import BLOCK_BYTES, HEADER_BYTES
from gpt1.pretraining import stream
from gpt1.pretraining.stream import TokenStream
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.pretraining.tools import FINGERPRINT, add_sums, write_corpus
from tests.properties import examples
from tests.records import facts_in


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    corpus = facts_in(folder / CORPUS_FILE)
    change(corpus)
    (folder / CORPUS_FILE).write_text(json.dumps(corpus))


@examples(80)
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
    with pytest.raises(InputError, match=r"gpt1\.prepare"):
        TokenStream(tmp_path / "absent", "train")
    with pytest.raises(InputError, match=r"is not a prepared corpus: it has no corpus\.json"):
        TokenStream(tmp_path, "train")


def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": [1, 2], "valid": [3]})
    with pytest.raises(SettingError, match=r"'validd' of the corpus .* mean 'valid'\? \(known: train, valid\)"):
        TokenStream(folder, "validd")


def test_an_empty_split_is_refused_with_advice(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, {"train": [1, 2], "valid": []})
    with pytest.raises(InputError, match=r"'valid' of the corpus .* is empty; make .*`gpt1.prepare.valid=SHARE"):
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
        (forget_bytes, r"corpus\.json is damaged: splits\.train\.bytes is missing; make it anew"),
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
    assert "make it anew with `gpt1.prepare(restart=True)`" in str(caught.value)


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


# ---- damage ----

IDS = 100_000  # a shard of four blocks and a bit, in two bytes each


def _flip(place: int) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        path = folder / "train-00000.tok"
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)

    return flip


def _noise(folder: Path) -> None:
    path = folder / "train-00001.tok"
    content = path.read_bytes()
    ids = np.random.default_rng(0).integers(0, 999, IDS).astype("<u2").tobytes()
    path.write_bytes(content[:HEADER_BYTES] + ids + content[HEADER_BYTES + len(ids) :])


def _zeros(folder: Path) -> None:
    path = folder / "train-00000.tok"
    content = path.read_bytes()
    path.write_bytes(content[:150_000] + bytes(4096) + content[150_000 + 4096 :])


def _cut(folder: Path) -> None:
    path = folder / "train-00001.tok"
    path.write_bytes(path.read_bytes()[:-1000])


def _swap_shards(folder: Path) -> None:
    first, second = ((folder / f"train-0000{number}.tok") for number in (0, 1))
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])


def _swap_contents(folder: Path) -> None:
    """Swap all but the headers of two shards of the same size."""
    paths = [folder / f"train-0000{number}.tok" for number in (0, 1)]
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(first[:HEADER_BYTES] + second[HEADER_BYTES : HEADER_BYTES + 2 * IDS] + first[-8:])
    paths[1].write_bytes(second[:HEADER_BYTES] + first[HEADER_BYTES : HEADER_BYTES + 2 * IDS])


def _swap_blocks(folder: Path) -> None:
    path = folder / "train-00000.tok"
    content = path.read_bytes()
    cuts = [HEADER_BYTES + number * BLOCK_BYTES for number in range(3)]
    first, second = content[cuts[0] : cuts[1]], content[cuts[1] : cuts[2]]
    path.write_bytes(content[: cuts[0]] + second + first + content[cuts[2] :])


def _remove(folder: Path) -> None:
    (folder / "train-00001.tok").unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{f"bit {place}": _flip(place) for place in (0, 9, 17, 25, 33, 65, 97, 127, 128, 65_663, 65_664, 200_127)},
    **{what.__name__: what for what in (_noise, _zeros, _cut, _swap_shards, _swap_contents, _swap_blocks, _remove)},
}


@pytest.fixture(params=["sums of blocks", "made before"])
def two_shards(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    ids = np.random.default_rng(1).integers(0, 999, 2 * IDS).tolist()
    folder = write_corpus(tmp_path, {"train": ids, "valid": ids[:100]}, shard_tokens=IDS)
    return add_sums(folder) if request.param == "sums of blocks" else folder


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_a_shard_is_named_before_a_token_of_it_is_given_out(
    two_shards: Path, damage: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not at_once:
        monkeypatch.setattr(stream, "AT_ONCE", 0)
    DAMAGES[damage](two_shards)
    with pytest.raises(FormatError, match=r"train-0000[01]\.tok.*(prepare|restart)"):
        TokenStream(two_shards, "train").read([0], 2 * IDS)


def test_of_a_large_split_a_block_is_compared_when_it_is_first_read_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "AT_ONCE", 0)
    ids = np.random.default_rng(1).integers(0, 999, IDS).tolist()
    folder = add_sums(write_corpus(tmp_path, {"train": ids, "valid": [1, 2]}))
    in_a_block = BLOCK_BYTES // 2
    tokens = TokenStream(folder, "train")
    assert tokens.read([0], 10).tolist() == [ids[:10]]
    _flip(HEADER_BYTES)(folder)  # in the first block, which was compared
    _flip(HEADER_BYTES + 2 * BLOCK_BYTES)(folder)  # in the third
    assert tokens.read([20], in_a_block).tolist() == [ids[20 : 20 + in_a_block]]
    with pytest.raises(FormatError, match=r"bytes 131,200 to 196,735 \(block 3 of 4\) do not match their checksum"):
        tokens.read([2 * in_a_block - 1], 2)
    assert tokens.read([3 * in_a_block], 10).tolist() == [ids[3 * in_a_block :][:10]]


def test_threads_read_a_stream_that_is_compared_on_the_way(two_shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TokenStream(two_shards, "train").read([0], 2 * IDS)[0]
    monkeypatch.setattr(stream, "AT_ONCE", 0)
    tokens = TokenStream(two_shards, "train")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda start: tokens.read([start], 1000)[0], range(0, 2 * IDS, 1000)))
    assert np.concatenate(found).tolist() == whole.tolist()


def test_only_of_a_large_corpus_that_was_made_before_is_anything_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_corpus(tmp_path, {"train": list(range(100)), "valid": [1, 2]})
    assert TokenStream(folder, "train").notices == []
    monkeypatch.setattr(stream, "AT_ONCE", 0)
    (notice,) = TokenStream(folder, "train").notices
    assert "made before blocks of shards had checksums" in notice
    assert TokenStream(add_sums(folder), "train").notices == []


@pytest.mark.parametrize("content", [None, b"", b"1234", bytes(8)])
def test_sums_that_are_lost_or_damaged_are_told_with_the_way_to_get_them_back(
    tmp_path: Path, content: bytes | None
) -> None:
    folder = add_sums(write_corpus(tmp_path, {"train": list(range(100)), "valid": [1, 2]}))
    if content is None:
        (folder / SUMS_FILE).unlink()
    else:
        (folder / SUMS_FILE).write_bytes(content)
    with pytest.raises(FormatError, match=r"blocks.crc32, the checksums .* 'gpt1 prepare' as before writes it anew"):
        TokenStream(folder, "train")
