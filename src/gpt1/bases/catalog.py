"""Bases: what one is on disk, which there are, and how a name becomes a folder.

A base is a folder beside this file: a run in a byte a weight (what `gpt1 export compact` writes), `card.md`, which is
for people, and `base.json`, which says what the base is and vouches for all other files. A base never changes under its
name: one that is made anew gets a new one. Nothing here reaches for the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpt1.base.errors import FormatError, InputError, SettingError, did_you_mean, tell_chosen
from gpt1.base.files import file_hash
from gpt1.base.record_files import Record
from gpt1.base.records import AtLeast, RecordPart, Size
from gpt1.base.wording import many, some

PACKAGED = Path(__file__).parent  # where the bases lie, a folder each
BASE_FILE, CARD_FILE = "base.json", "card.md"
_DOORS = (
    "pre-train a run of your own with `gpt1.pretrain()`, or make one of GPT-1's released weights with gpt1 import "
    "openai, or name the folder of another's run"
)
NO_BASE = f"this package has no base of its own; {_DOORS}"


@dataclass(frozen=True)
class TextRead(RecordPart):
    """What a base was pre-trained on."""

    kinds: str  # of text, such as "novels"
    language: str
    documents: Size
    bytes: Size
    tokens: Size

    def in_short(self) -> str:
        """Return it in a line."""
        amount = f"{many(self.documents, 'document')}, {self.bytes / 1e6:,.1f} MB, {many(self.tokens, 'token')}"
        return f"{self.kinds} ({self.language}): {amount}"


@dataclass(frozen=True)
class BaseRecord(Record):
    """What `base.json` holds."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-base", 1, "base", "the description of a base"
    REMEDY = "install gpt1 again"

    name: str
    about: str  # in a line
    text: TextRead
    parameters: Size
    weights_licence: str
    text_licence: str
    command: str  # that made it
    date: str  # when it was made, as 2026-11-16
    bits_per_byte: Annotated[float, AtLeast(0)] | None  # of its validation text, as it ships
    files: dict[str, str]  # sha256 by name within the folder


@dataclass(frozen=True)
class Base:
    """A base, in the package or in a folder of one's own."""

    path: Path
    record: BaseRecord

    @property
    def name(self) -> str:
        """By which it is found."""
        return self.record.name

    @property
    def size(self) -> int:
        """How many bytes it takes on the disk."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def card(self) -> str:
        """Return its model card."""
        return (self.path / CARD_FILE).read_text(encoding="utf-8", errors="replace")

    def in_short(self) -> str:
        """Return what it is and has read, in a line."""
        return f"{self.record.parameters:,} parameters; it has read {self.record.text.in_short()}"


def bases() -> list[Base]:
    """Return the bases of the package, each by what its `base.json` says; whoever uses one opens it by its name."""
    return [_open(PACKAGED / name) for name in base_names()]


def base_names() -> list[str]:
    """Return the names of all folders that are bases, or are meant to be."""
    folders = (entry for entry in PACKAGED.iterdir() if entry.is_dir())
    return sorted(entry.name for entry in folders if not _is_left_by_systems(entry.name))


def find_base(name: str) -> Base:
    """Return a base of the package, each of its files checked; one that is damaged is refused by name."""
    names = base_names()
    if name not in names:
        if not _is_bare(name):
            raise SettingError(f"'{name}' is no name of a base but a path; a run in a folder is opened by its path")
        raise SettingError(f"there is no base '{name}' in this package, which has {some(names) or 'none'}; {_DOORS}")
    base = _open(PACKAGED / name)
    _check_files(base)
    return base


def base_in(folder: Path) -> Base | None:
    """Return the base that lies in a folder, anybody's and under any name; None where it says nothing of being one.

    One of the package is checked. One elsewhere is its owner's, who may have measured it there or changed its card.
    """
    path = folder.resolve()
    if is_packaged(path):
        return find_base(path.name)
    if not (path / BASE_FILE).is_file():
        return None
    remedy = f"copy the base there again, or take {BASE_FILE} away, and it is a run as any other"
    base = Base(path, BaseRecord.read(path / BASE_FILE, remedy))
    if not (path / CARD_FILE).is_file():
        raise FormatError(f"{path} is damaged: {CARD_FILE} is missing; {remedy}")
    return base


def first_base() -> Base | None:
    """Return the base that is meant where none is named, each of its files checked; None where there is none."""
    names = base_names()
    return find_base(names[0]) if names else None


def default_base() -> Base:
    """Return the first base of the package, and tell that it was chosen."""
    base = first_base()
    if base is None:
        raise SettingError(f"which run to start from? {NO_BASE[0].upper()}{NO_BASE[1:]}, with `init`")
    tell_chosen(f"starting from the base '{base.name}': {base.in_short()}")
    return base


def run_or_base(given: str | Path) -> Path:
    """Return the folder, or file, that is meant by a path or by the name of a base.

    What lies under that name in the current folder comes before a base, and where there are both, that is told. A base
    is checked, by whichever way it is named.
    """
    path, names = Path(given), base_names() if _is_bare(given) else []
    if path.is_dir() and is_packaged(path):
        find_base(path.resolve().name)
        return path
    if path.exists():
        if path.name in names:
            tell_chosen(f"'{given}' is what lies in this folder, not the base of that name, {PACKAGED / path.name}")
        return path
    if path.name in names:
        return find_base(path.name).path
    if near := did_you_mean(path.name, names):
        raise InputError(f"{given} does not exist, and there is no base of that name{near}")
    return path


# ---- how a run is found again ----


def lasting_name(folder: Path) -> str:
    """Return what a record calls a run: a base by its name, wherever the package lies later; any other by its path."""
    path = folder.resolve()
    return path.name if is_packaged(path) else str(path)


def named_again(name: str) -> Path:
    """Return the folder of a run that a record calls so; a folder here that is called like a base is not meant."""
    return find_base(name).path if _is_bare(name) else Path(name)


def is_packaged(folder: Path) -> bool:
    """Whether a folder is that of a base of the package, which stays as it is."""
    return folder.resolve().parent == PACKAGED.resolve()


# ---- on the disk ----


def _is_bare(given: str | Path) -> bool:
    """Whether it can be a name: a path of one part, and not one that leads elsewhere."""
    text = str(given)
    return text == Path(text).name and text not in ("", "..")


def _open(folder: Path) -> Base:
    if not (folder / BASE_FILE).is_file():
        raise FormatError(f"{folder} is damaged: {BASE_FILE} is missing; {BaseRecord.REMEDY}")
    record = BaseRecord.read(folder / BASE_FILE)
    if record.name != folder.name:
        raise FormatError(f"{folder / BASE_FILE} is of another base, '{record.name}'; {record.REMEDY}")
    if CARD_FILE not in record.files:
        raise FormatError(f"{folder / BASE_FILE} is damaged: it does not vouch for {CARD_FILE}; {record.REMEDY}")
    return Base(folder, record)


def _check_files(base: Base) -> None:
    """Refuse a base of which a file is missing, not what it was, or none of its own, by the name of the file."""
    there = files_in(base.path)
    for name, wanted in base.record.files.items():
        if name not in there:
            raise FormatError(f"{base.path} is damaged: {name} is missing; {base.record.REMEDY}")
        if file_hash(there[name]) != wanted:
            raise FormatError(f"{base.path} is damaged: {name} does not match its checksum; {base.record.REMEDY}")
    if foreign := sorted(there.keys() - base.record.files.keys()):  # a further checkpoint would be taken for the newest
        raise FormatError(
            f"{base.path} is damaged: {BASE_FILE} does not vouch for {some(foreign)}; take that away, or "
            f"{base.record.REMEDY}"
        )


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a base that its record vouches for, by their names within the folder.

    A link to a folder is one of them, as nobody has looked behind it. What a system leaves anywhere (`__pycache__`,
    `.DS_Store`) is none.
    """
    entries = [path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink()]
    found = {path.relative_to(folder): path for path in entries}
    return {
        name.as_posix(): path
        for name, path in found.items()
        if name.as_posix() != BASE_FILE and not any(map(_is_left_by_systems, name.parts))
    }


def _is_left_by_systems(name: str) -> bool:
    return name.startswith(("_", "."))
