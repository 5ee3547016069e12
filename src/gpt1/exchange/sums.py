"""`gpt1.json`, which an export to transformers holds besides what that reads: the sha256 of each of its files."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from gpt1.base.errors import FormatError
from gpt1.base.files import file_hash, read_record, write_record

SUMS_FILE = "gpt1.json"
_REMEDY = f"export the run again, or remove {SUMS_FILE} where the files were changed on purpose"


class _Sums(TypedDict):
    files: dict[str, str]


def write_sums(folder: Path) -> None:
    """Note the checksums of all files of an export."""
    files = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    write_record(folder / SUMS_FILE, {"format": "gpt1-export", "version": 1, "files": files})


def check_sums(folder: Path) -> None:
    """Refuse an export whose files are not as they were written; a folder without the sums is another program's."""
    if not (folder / SUMS_FILE).is_file():
        return
    sums = read_record(folder / SUMS_FILE, "the checksums of an export", _Sums, _REMEDY)["files"]
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name in sums and file_hash(path) != sums[path.name]:
            raise FormatError(f"{path} is damaged: its sha256 is not the one in {SUMS_FILE}; {_REMEDY}")
