"""The folder of a command of several stages: whose it is, who is at work in it, what it keeps from call to call."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from gpt1.base.errors import Busy, FormatError, InputError, SettingError
from gpt1.base.files import (
    lock_folder,
    make_folder,
    read_record,
    remove_temporaries_below,
    require_own_folder,
    write_record,
)
from gpt1.base.progress import Progress

Kept = TypeVar("Kept", bound=Mapping[str, Any])  # what a file holds


def own_folder(out: str | Path, names: Sequence[str]) -> Path:
    """Make the folder, or refuse one that holds anything but what the command has under these names."""
    out = Path(out)
    require_own_folder(out, lambda entry: entry.name in names or entry.name.endswith(".tmp"))
    make_folder(out)
    return out


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder against another such command, and clear what one that was killed left in it."""
    with lock_folder(out):
        remove_temporaries_below(out)
        yield


def once(path: Path, shape: type[Kept], make: Callable[[], Kept], progress: Progress) -> Kept:
    """Return what a file holds, made and written where it is not there yet."""
    found = read_result(path, shape, progress)
    if found is None:
        found = make()
        write_record(path, found)
    return found


def read_result(path: Path, shape: type[Kept], progress: Progress) -> Kept | None:
    """Return what a file holds; None where it is not there, or damaged, which is told."""
    if not path.exists():
        return None
    try:
        return read_record(path, "a result of this command", shape)
    except FormatError as error:
        progress.say(f"made again: {error}")
        return None


@contextmanager
def or_begin_anew(out: str | Path) -> Iterator[None]:
    """Have an error about what the folder holds say how to get rid of it; none of them is one of usage.

    What another command is at work on is never to be got rid of.
    """
    try:
        yield
    except Busy:
        raise
    except (InputError, SettingError, FormatError) as error:
        kind = FormatError if isinstance(error, FormatError) else InputError
        anew = f"To begin anew, remove the folder (rm -r {shlex.quote(str(out))}) and give the same command"
        raise kind(f"{str(error).removesuffix('.')}.\n{anew}.") from error
