"""`gpt1.json`, which an export to transformers holds besides what that reads: the sha256 of each of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpt1.base.errors import FormatError
from gpt1.base.files import file_hash
from gpt1.base.record_files import Record

SUMS_FILE = "gpt1.json"


@dataclass(frozen=True)
class ExportSums(Record):
    """The sha256 of each file of an export."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-export", 1, "export", "the checksums of an export"
    REMEDY = f"export the run again, or remove {SUMS_FILE} where the files were changed on purpose"

    files: dict[str, str]


def write_sums(folder: Path) -> None:
    """Note the checksums of all files of an export."""
    files = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    ExportSums(files).write(folder / SUMS_FILE)


def check_sums(folder: Path) -> None:
    """Refuse an export whose files are not as they were written; a folder without the sums is another program's."""
    if not (folder / SUMS_FILE).is_file():
        return
    sums = ExportSums.read(folder / SUMS_FILE).files
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name in sums and file_hash(path) != sums[path.name]:
            raise FormatError(f"{path} is damaged: its sha256 is not the one in {SUMS_FILE}; {ExportSums.REMEDY}")
