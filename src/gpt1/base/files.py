"""Files that are either whole or not there: temp, fsync, rename."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gpt1.base.errors import FormatError, InputError, did_you_mean
from gpt1.base.strict_json import to_json
from gpt1.base.wording import some

TEMPORARY_SUFFIX = ".tmp"
_TEMPORARY_NAME = re.compile(r".+\.\d+\.tmp")
_REPLACED_NAME = re.compile(r"(.+)\.replaced\.\d+\.tmp")


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that appears under `path` only when the block ends well."""
    if path.is_dir():  # told before anything dear is made for it
        raise InputError(f"cannot write {path}: it is a folder")
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):  # a read-only disk would refuse that too, and hide why
            temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a folder to fill that appears under `path` only when the block ends well; one that was there gives way.

    Its files may be read by whom the umask lets: some libraries write theirs for their owner alone.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        mode = temporary.stat().st_mode & 0o666
        for file in temporary.iterdir():
            file.chmod(mode)
            with file.open("rb+") as written:
                os.fsync(written.fileno())
        sync_folder(temporary)
        before = _move_aside(path, "replaced") if path.is_dir() else None
        temporary.replace(path)
        if before is not None:  # removed last; a kill before the new one has its name is undone by the next start
            _remove_tree(before)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder of ours so that a kill on the way never leaves half of it under its name."""
    _remove_tree(_move_aside(path, "removed"))


def _move_aside(path: Path, why: str) -> Path:
    """Give a folder a name by which `remove_temporaries` knows it."""
    aside = path.with_name(f"{path.name}.{why}.{os.getpid()}{TEMPORARY_SUFFIX}")
    path.replace(aside)
    return aside


def _remove_tree(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        shutil.rmtree(path)


def is_temporary(path: Path) -> bool:
    """Whether a file or folder has the name of one that is being written, or removed."""
    return _TEMPORARY_NAME.fullmatch(path.name) is not None


def remove_temporaries(folder: Path) -> None:
    """Remove what writers that were killed left in a folder of ours; what was about to be replaced comes back."""
    for path in sorted(folder.iterdir()):
        replaced = _REPLACED_NAME.fullmatch(path.name)
        if replaced and not (folder / replaced[1]).exists():
            path.replace(folder / replaced[1])
        elif is_temporary(path):
            _remove_tree(path)


def file_hash(path: Path) -> str:
    """Return the sha256 of a file, read once through."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reserve(path: Path, size: int) -> None:
    """Make a file of `size` bytes whose place on the disk is taken now: a full disk must not strike a memory map."""
    with whole_file(path) as file:
        if hasattr(os, "posix_fallocate") and size:
            os.posix_fallocate(file.fileno(), 0, size)
        file.truncate(size)


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` last through a power cut, where the system can."""
    if os.name == "nt":  # Windows cannot open a folder for syncing
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents, or say why that is impossible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder}: {error.strerror}") from error


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create `folder` if need be and hold it alone; a second process that wants it gets a clear error."""
    make_folder(folder)
    if os.name == "nt":  # no advisory locks there; two commands at once are the user's own risk
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another command is at work in {folder}; wait for it or choose another folder") from None
        yield
    finally:
        os.close(descriptor)


def require_own_folder(folder: Path, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a folder for results that holds anything but what `is_ours` knows: nobody's files are ever overwritten."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a new or empty folder for the result")
    foreign = sorted(entry.name for entry in folder.iterdir() if not is_ours(entry)) if folder.is_dir() else []
    if foreign:
        raise InputError(f"{folder} holds other files ({some(foreign)}); choose a new or empty folder for the result")


def missing(path: Path, problem: str = "does not exist") -> InputError:
    """Return the error for a file that is not there, naming the one nearest in name beside it."""
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return InputError(f"{path} {problem}{did_you_mean(path.name, beside)}")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically; a number that JSON does not have becomes null.

    Half a surrogate pair, as in a file name that is not UTF-8, becomes an escape that JSON readers give back.
    """
    with whole_file(path) as file:
        file.write((to_json(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace"))


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object of ours; `what` names it in the errors."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise missing(path, f"does not exist; expected {what} there") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected {what}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not {what}: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path} is not {what}: it holds a JSON {type(value).__name__}, not an object")
    return value


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with the numbers of their lines; a last line that is only begun is left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):  # a run that goes on is writing it, or was killed as it did
                    return
                raise FormatError(f"{path}, line {number}: not JSON ({error})") from None
            if not isinstance(value, dict):
                raise FormatError(f"{path}, line {number}: expected a JSON object, found {type(value).__name__}")
            yield number, value


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return for each path as many of its last parts as tell it from the others; a path named twice stays twice."""
    parts = [path.resolve().parts for path in paths]
    found = []
    for own in parts:
        count = 1
        while count < len(own) and sum(other[-count:] == own[-count:] for other in parts) > 1:
            count += 1
        found.append("/".join(own[-count:]))
    return found
