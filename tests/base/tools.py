"""Files to read, packed in every way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from gpt1.base.errors import FileError
from gpt1.base.tables import read_text_blocks

Pack = Callable[[bytes], bytes]
PACK: dict[str, Pack] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the zstd command does
}
ARCHIVES = [suffix for suffix in PACK if suffix]
noise = random.Random(0).randbytes
TEXT = "Café, naïve — 日本語\r\n" * 2000


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_until_fault(path: Path, **options: Any) -> tuple[str, FileError | None]:
    seen = ""
    try:
        for block in read_text_blocks(path, **options):
            seen += block
    except FileError as fault:
        return seen, fault
    return seen, None
