"""A kind of JSON file of ours, as a value: read, written, versions, checksums, damage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from gpt1.base.errors import FormatError
from gpt1.base.files import read_sealed, write_record
from gpt1.base.records import RecordPart, check_record


@dataclass(frozen=True)
class Record(RecordPart):
    """What a file holds; what it is called, and what helps where it is damaged, stands with its class."""

    FORMAT: ClassVar[str] = ""  # none where the file does not say
    VERSION: ClassVar[int | None] = None
    NAME: ClassVar[str]
    WHAT: ClassVar[str]  # it is, in a sentence
    REMEDY: ClassVar[str] = ""
    IF_UNREADABLE: ClassVar[str] = ""  # what helps where nothing can be read of it, if that is not the same

    @classmethod
    def read(cls, path: Path, remedy: str = "") -> Self:
        """Read a file, or refuse it by name; `remedy` is what helps with this one where it is damaged."""
        return cls.from_json(read_sealed(path, cls.WHAT, remedy or cls.REMEDY, cls.IF_UNREADABLE), path, remedy)

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path, remedy: str = "") -> Self:
        """Return what a file holds as a value."""
        cls.check_version(value, path, remedy or cls.REMEDY)
        return check_record(value, cls, path, remedy or cls.REMEDY)

    @classmethod
    def check_version(cls, value: dict[str, Any], path: Path, remedy: str) -> None:
        """Refuse what is no such file, or one of another version."""
        if cls.FORMAT and (value.get("format"), value.get("version")) != (cls.FORMAT, cls.VERSION):
            helps = f"; {remedy}" if remedy else ""
            raise FormatError(f"{path} is no {cls.NAME} of this version of gpt1{helps}")

    def as_json(self) -> dict[str, Any]:
        """Return what the file holds, but for its checksum."""
        head = {"format": self.FORMAT, "version": self.VERSION}
        return {name: value for name, value in head.items() if value} | super().as_json()

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_record(path, self.as_json())
