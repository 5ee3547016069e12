from __future__ import annotations

import os
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import FormatError, InputError
from gpt1.corpus.shards import (
    BLOCK_BYTES,
    HEADER_BYTES,
    BlockSums,
    RecordedShard,
    RecordedSums,
    Stream,
    id_dtype,
    open_shard,
    read_sums,
    shard_files,
    verify_shard,
    write_shards,
)
from tests.properties import examples

FINGERPRINT = "ab" * 32


def write(folder: Path, documents: list[list[int]], shard_tokens: int, vocab_size: int = 101) -> list[RecordedShard]:
    stream = Stream(
        np.array([len(ids) for ids in documents], np.int64),
        lambda number: (np.array(documents[number], np.int32), np.array([0])),
    )
    written = list(write_shards(folder, "train", stream, id_dtype(vocab_size), FINGERPRINT, shard_tokens, threads=2))
    assert written[-1][2] == 1
    return [shard for shard, _, _ in written]


@examples(60)
@given(
    documents=st.lists(st.lists(st.integers(0, 100_000), min_size=1, max_size=30), max_size=12),
    shard_tokens=st.integers(1, 40),
)
def test_the_stream_and_its_document_starts_come_back_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], shard_tokens: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    described = write(folder, documents, shard_tokens, vocab_size=100_001)
    stream: list[int] = []
    starts: list[int] = []
    for path, facts in zip(shard_files(folder), described, strict=True):
        verify_shard(path)
        shard = open_shard(path)
        assert (path.name, len(shard.ids), len(shard.starts)) == (facts.file, facts.tokens, facts.documents)
        assert (shard.fingerprint, shard.checksum) == (FINGERPRINT, facts.sha256)
        starts += [len(stream) + int(start) for start in shard.starts]
        stream += shard.ids.tolist()
    assert stream == [id for ids in documents for id in ids]
    assert starts == np.cumsum([0, *map(len, documents)])[:-1].tolist()
    assert all(facts.tokens == shard_tokens for facts in described[:-1])


def test_ids_take_two_bytes_up_to_65536_tokens_and_four_beyond() -> None:
    assert id_dtype(65536).itemsize == 2
    assert id_dtype(65537).itemsize == 4


def test_a_writer_that_fails_leaves_no_shard(tmp_path: Path) -> None:
    stream = Stream(np.array([5, 5]), lambda number: (np.arange(5 // (1 - number)), np.array([0])))
    with pytest.raises(ZeroDivisionError):
        list(write_shards(tmp_path, "train", stream, id_dtype(9), FINGERPRINT, 10))
    assert list(tmp_path.iterdir()) == []


@examples(20)
@given(cuts=st.lists(st.integers(0, 2 * BLOCK_BYTES + 1000), max_size=6))
def test_the_sums_of_blocks_are_the_same_however_the_bytes_come(cuts: list[int]) -> None:
    content = np.random.default_rng(0).bytes(2 * BLOCK_BYTES + 1000)
    sums = BlockSums()
    for low, high in pairwise([0, *sorted(cuts), len(content)]):
        sums.update(content[low:high])
    literal = [zlib.crc32(content[low : low + BLOCK_BYTES]) for low in range(0, len(content), BLOCK_BYTES)]
    assert sums.tobytes() == np.array(literal, "<u4").tobytes()


@pytest.mark.parametrize("place", [HEADER_BYTES, HEADER_BYTES + 3, -1])
def test_a_flipped_bit_is_found_by_the_checksum(tmp_path: Path, place: int) -> None:
    write(tmp_path, [[1, 2, 3], [4]], 100)
    path = next(shard_files(tmp_path))
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"train-00000\.tok is damaged"):
        verify_shard(path)


def test_damage_is_named_when_a_shard_is_opened(tmp_path: Path) -> None:
    write(tmp_path, [[1, 2, 3]], 100)
    path = next(shard_files(tmp_path))
    whole = path.read_bytes()
    for content, message in [
        (whole[:-1], "damaged: it has"),
        (b"", "not a token shard"),
        (b"x" * 500, "not a token shard"),
        (whole[:8] + b"\x09" + whole[9:], "version 9"),
    ]:
        path.write_bytes(content)
        with pytest.raises(FormatError, match=message):
            open_shard(path)
    with pytest.raises(InputError, match="No such file"):
        open_shard(tmp_path / "absent.tok")


@pytest.mark.parametrize("name", ["shard.tok", "blocks.crc32"])
def test_a_pipe_is_refused_by_name_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name} is not a file"):
        if name == "shard.tok":
            open_shard(tmp_path / name)
        else:
            read_sums(tmp_path / name, RecordedSums(block_bytes=BLOCK_BYTES, sha256=""), 1)
