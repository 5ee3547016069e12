"""Opening files packed in every way, whole or damaged."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from gpt1.base.archives import open_bytes
from gpt1.base.errors import DamagedFile, InputError
from gpt1.base.tables import read_text_blocks
from tests.base.tools import ARCHIVES, PACK, TEXT, noise, read_until_fault, write


@pytest.mark.parametrize("suffix", PACK)
def test_an_archive_of_several_members_is_read_to_its_end(tmp_path: Path, suffix: str) -> None:
    data = TEXT.encode()
    path = write(tmp_path, f"a.txt{suffix}", PACK[suffix](data[:1001]) + PACK[suffix](data[1001:]))
    with open_bytes(path) as file:
        assert file.read() == data


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.6, 0.9, 0.999])
def test_an_archive_cut_short_anywhere_names_file_and_byte(tmp_path: Path, suffix: str, share: float) -> None:
    packed = PACK[suffix](noise(50_000) + TEXT.encode())
    path = write(tmp_path, f"cut.txt{suffix}", packed[: int(share * len(packed))])
    with open_bytes(path) as file, pytest.raises(DamagedFile, match=r"cut\.txt\.\w+, byte \d+( of .*)?: "):
        file.read()


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_bytes_changed_inside_an_archive_are_damage(tmp_path: Path, suffix: str) -> None:
    packed = bytearray(PACK[suffix](noise(300_000)))
    packed[150_000:150_100] = bytes(100)
    path = write(tmp_path, f"a.txt{suffix}", bytes(packed))
    with open_bytes(path) as file, pytest.raises(DamagedFile):
        file.read()


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_a_plain_file_named_like_an_archive_is_told_so(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, f"plain.txt{suffix}", "Not packed at all. " * 10)
    with open_bytes(path) as file, pytest.raises(DamagedFile, match=rf"byte 0: .* is no \{suffix} archive.*rename"):
        file.read()


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_all_text_before_the_damage_is_delivered(tmp_path: Path, suffix: str) -> None:
    text = noise(3_000_000).hex()
    packed = PACK[suffix](text.encode())
    path = write(tmp_path, f"a.txt{suffix}", packed[: len(packed) // 2])
    seen, fault = read_until_fault(path)
    assert isinstance(fault, DamagedFile)
    assert fault.position == f"byte {len(seen)} of the unpacked file"
    assert len(seen) > 0.2 * len(text)
    assert text.startswith(seen)


def test_a_missing_file_a_folder_and_a_closed_file_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.txt does not exist"):
        open_bytes(tmp_path / "no.txt")
    with pytest.raises(InputError, match="is a folder"):
        open_bytes(tmp_path)
    closed = write(tmp_path, "closed.txt", "x")
    closed.chmod(0)
    if not os.access(closed, os.R_OK):  # root may read anything
        with pytest.raises(InputError, match=r"cannot read .*closed\.txt: Permission denied"):
            open_bytes(closed)


def test_an_archive_that_asks_for_half_a_gigabyte_of_memory_is_refused(tmp_path: Path) -> None:
    fast = {"id": lzma.FILTER_LZMA2, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3, "nice_len": 3, "depth": 1}
    path = write(tmp_path, "t.txt.xz", lzma.compress(b"a" * 1000, filters=[{**fast, "dict_size": 1 << 29}]))
    with pytest.raises(DamagedFile, match=r"t\.txt\.xz, byte 0: .*Memory usage limit exceeded"):
        list(read_text_blocks(path))
    small = lzma.compress(b"b" * 1000)
    two = write(tmp_path, "two.txt.xz", small + bytes(8) + path.read_bytes())
    with pytest.raises(
        DamagedFile, match=r"two\.txt\.xz, byte 1000 of the unpacked file: .*Memory usage limit exceeded"
    ):
        list(read_text_blocks(two))
    assert "".join(read_text_blocks(write(tmp_path, "t.txt.xz", small + bytes(8) + small))) == "b" * 2000
    with pytest.raises(DamagedFile, match="byte 1000 of the unpacked file: the file is damaged"):
        list(read_text_blocks(write(tmp_path, "t.txt.xz", small + b"no archive")))
    largest = lzma.compress(b"a" * 1000, preset=9 | lzma.PRESET_EXTREME)
    assert "".join(read_text_blocks(write(tmp_path, "t.txt.xz", largest))) == "a" * 1000


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ARCHIVES)
def test_a_packed_gigabyte_is_unpacked_in_little_memory(tmp_path: Path, suffix: str) -> None:
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": zstandard.open}
    path = tmp_path / f"zeros.txt{suffix}"
    with openers[suffix](path, "wb") as file:
        for _ in range(1000):
            file.write(b"a" * 1_000_000)
    tracemalloc.start()
    try:
        assert sum(map(len, read_text_blocks(path))) == 1_000_000_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
