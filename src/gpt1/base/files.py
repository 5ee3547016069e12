"""Files that are either whole or not there: temp, fsync, rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from textwrap import shorten
from typing import IO, Any

from gpt1.base.errors import Busy, FormatError, InputError, NoRoom, did_you_mean, nearest
from gpt1.base.records import Shape, check_record, parse_json, sealed, sealed_line, unsealed, unsealed_line
from gpt1.base.strict_json import to_json
from gpt1.base.wording import some

TEMPORARY_SUFFIX = ".tmp"
PARTIAL_SUFFIX = ".partial"
MOST_OF_A_COMMAND = 100  # characters that are shown
_TEMPORARY_NAME = re.compile(r"(.+?)(\.(?:removed|replaced))?\.(?:\d+|writing)\.tmp")
_HAS_LOCKS = os.name != "nt"  # no advisory locks on Windows; two commands at once are the user's own risk there


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that appears under `path` only when the block ends well."""
    if path.is_dir():  # told before anything dear is made for it
        raise InputError(f"cannot write {path}: it is a folder")
    temporary = _temporary(path)
    with _told(path), temporary.open("wb") as file:
        _lock(file.fileno())  # by which others know that its writer lives
        with _as_a_whole(file, temporary, path):
            yield file


@contextmanager
def result_file(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Open the file of a result that somebody named, before it is made: whole or not there, by one writer at a time.

    One that is there is not written over unless that is asked for. What a killed writer left is written over.
    """
    require_absent(path, overwrite)
    temporary = path.with_name(f"{path.name}.writing{TEMPORARY_SUFFIX}") if _HAS_LOCKS else _temporary(path)
    with _told(path), _own_file(temporary, path) as file, _as_a_whole(file, temporary, path):
        require_absent(path, overwrite)  # the writer before this one may have ended meanwhile
        file.truncate()
        yield file
        # Which is another program's then. One that comes between this look and the renaming is lost: a hard link would
        # refuse it, but a kill after the link would leave two names of one file, and the next writer write into both.
        require_absent(path, overwrite)


@contextmanager
def partial_file(path: Path) -> Iterator[IO[bytes]]:
    """Open the file in which what a result is made of grows, for reading and writing, by one writer at a time.

    It has a name of its own beside the result (`partial_path`), and stays until somebody removes it.
    """
    with _told(path), _own_file(partial_path(path), path) as file:
        yield file


def partial_path(path: Path) -> Path:
    """Return where a result grows that is not whole yet."""
    return path.with_name(path.name + PARTIAL_SUFFIX)


def require_absent(path: Path, overwrite: bool) -> None:
    """Refuse a name for a result that is taken."""
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if (path.exists() or path.is_symlink()) and not overwrite:  # a link to what is not there now is somebody's too
        raise InputError(f"{path} is there already; choose another name, or replace it with `overwrite=True`")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell in words what the system refuses."""
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: Path, error: OSError) -> InputError:
    """Return the error for a file that the system does not let be written."""
    problem = f"cannot write {path}: {error.strerror or error}"
    return NoRoom(problem) if error.errno in (errno.ENOSPC, errno.EDQUOT) else InputError(problem)


@contextmanager
def _as_a_whole(file: IO[bytes], temporary: Path, path: Path) -> Iterator[None]:
    """Give a file its name when the block ends well and all is on the disk; else remove it."""
    try:
        yield
        file.flush()
        os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # a read-only disk would refuse that too, and hide why
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def _own_file(temporary: Path, path: Path) -> Iterator[IO[bytes]]:
    """Open a file that all writers of `path` share, for one of them at a time."""
    while True:
        with os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            if not _lock(file.fileno()):
                raise Busy(f"another command is writing {path}{_holder(file.fileno())}; wait for it")
            if _is_at(file.fileno(), temporary):  # else its last writer gave it its name, or removed it
                yield file
                return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def whole_folder(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Give a folder to fill that appears under `path` only when the block ends well.

    One that was there gives way, or is an error at the end where nothing is to be overwritten. The files may be read by
    whom the umask lets: some libraries write theirs for their owner alone.
    """
    temporary = _temporary(path)
    with _told(path):
        if not path.parent.exists():
            make_folder(path.parent)
        remove_temporaries(path.parent, of=path.name)
        temporary.mkdir()
        try:
            with _held(temporary):
                yield temporary
                mode = temporary.stat().st_mode & 0o666
                for file in temporary.iterdir():
                    file.chmod(mode)
                    sync_file(file)
                sync_folder(temporary)
                with _held(path) if overwrite and path.is_dir() else nullcontext():
                    before = _move_aside(path, "replaced") if overwrite and path.is_dir() else None
                    temporary.replace(path)
                    if before is not None:  # last; a kill before the new one has its name is undone by the next start
                        _remove_tree(before)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder of ours so that a kill on the way never leaves half of it under its name."""
    with _held(path):
        _remove_tree(_move_aside(path, "removed"))


def _temporary(path: Path, why: str = "") -> Path:
    """Return a name that nobody else takes: on another machine a process may have the same number."""
    return path.with_name(f"{path.name}{why}.{os.getpid()}{int.from_bytes(os.urandom(4)):010}{TEMPORARY_SUFFIX}")


def _move_aside(path: Path, why: str) -> Path:
    """Give a folder a name by which `remove_temporaries` knows it."""
    aside = _temporary(path, f".{why}")
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


def remove_temporaries(folder: Path, *, of: str | None = None) -> None:
    """Remove what writers that were killed left in a folder (`of` one name); what was about to be replaced comes back.

    What a writer that lives is at work on stays: it holds a lock on it.
    """
    for path in sorted(folder.iterdir()):
        found = _TEMPORARY_NAME.fullmatch(path.name)
        if found is None or of not in (None, found[1]):
            continue
        with _held(path) as free:
            if free and found[2] == ".replaced" and not (folder / found[1]).exists():
                path.replace(folder / found[1])
            elif free:
                _remove_tree(path)


def remove_temporaries_below(folder: Path) -> None:
    """Remove what killed writers left in a folder and in all folders in it."""
    inside = [path for path in sorted(folder.rglob("*")) if path.is_dir() and not path.is_symlink()]
    for one in [folder, *inside]:
        if one.is_dir():  # one of those removed may have held it
            remove_temporaries(one)


# ---- who is at work ----


def _lock(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed; False where another has. Without locks there is no other."""
    if not _HAS_LOCKS:
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that knows none
        return True
    return True


@contextmanager
def _held(path: Path) -> Iterator[bool]:
    """Lock a file or folder, by whatever name it goes; say whether nobody else has. One that is gone is nobody's."""
    if not _HAS_LOCKS or path.is_symlink():
        yield True
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for, for ever
    except OSError:  # gone, or not ours to open
        yield False
        return
    try:
        yield _lock(descriptor) and _is_at(descriptor, path)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Return such as ` (process 4711: gpt1 demo)` for who holds the lock of an open file, where the system tells."""
    about = os.fstat(descriptor)
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        process = next(words[4] for words in locks if words[1] == "FLOCK" and words[5] == place)
        called = Path(f"/proc/{int(process)}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, StopIteration, IndexError, ValueError):
        return ""
    typed = called[1:] if "python" in called[0] else called  # the interpreter is not what a person typed
    shown = shorten(" ".join([Path(typed[0]).name, *typed[1:]]), MOST_OF_A_COMMAND, placeholder=" ...")
    return f" (process {process}: {shown})"


def require_plain(path: Path, expected: str = "") -> None:
    """Refuse a pipe or a device, which would be waited for, for ever; `expected` is what the file should be."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path} is not a file" + (f"; expected {expected}" if expected else ""))


def file_hash(path: Path) -> str:
    """Return the sha256 of a file, read once through."""
    require_plain(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reserve(path: Path, size: int) -> None:
    """Make a file of `size` bytes whose place on the disk is taken now: a full disk must not strike a memory map."""
    with whole_file(path) as file:
        if hasattr(os, "posix_fallocate") and size:
            os.posix_fallocate(file.fileno(), 0, size)
        file.truncate(size)


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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
    """Create `folder` and its parents, so that they last through a power cut, or say why that is impossible."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in reversed(new):
            sync_folder(one.parent)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder}: {error.strerror}") from error


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create `folder` if need be and hold it alone; a second process that wants it is told who has it."""
    make_folder(folder)
    if not _HAS_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not _lock(descriptor):
            raise Busy(
                f"another command is at work in {folder}{_holder(descriptor)}; wait for it or choose another folder"
            )
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
    """Return the error for a file that is not there, naming the one nearest in name beside it.

    Endings do not count: all tables beside a table that is not there would be near by theirs.
    """
    beside = list(path.parent.iterdir()) if path.parent.is_dir() else []
    stem = nearest(path.stem, {entry.stem for entry in beside})
    alike = sorted(str(entry) for entry in beside if entry.stem == stem)
    return InputError(f"{path} {problem}{did_you_mean(str(path), alike)}")


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically; a number that JSON does not have becomes null."""
    with whole_file(path) as file:
        file.write(json_bytes(value))


def write_first_record(path: Path, value: Mapping[str, Any]) -> None:
    """Write a record of ours, atomically, unless one is there: of several processes at once, the first one's stays."""
    temporary = _temporary(path)
    with _told(path):
        try:
            write_record(temporary, value)
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def json_bytes(value: Any) -> bytes:
    """Return `value` as a file of readable JSON holds it.

    Half a surrogate pair, as in a file name that is not UTF-8, becomes an escape that JSON readers give back.
    """
    return (to_json(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")


def write_record(path: Path, value: Mapping[str, Any]) -> None:
    """Write a record of ours as readable JSON, atomically, with a checksum of all that it holds."""
    write_json(path, sealed(value))


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object of ours; `what` names it in the errors."""
    try:
        require_plain(path, what)
        value = parse_json(path.read_bytes())
    except InputError:  # a ValueError too, which says all already
        raise
    except FileNotFoundError:
        raise missing(path, f"does not exist; expected {what} there") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected {what}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"{path} is not {what}: it is not JSON ({error})") from None
    except ValueError as error:  # not UTF-8, a number of thousands of digits, brackets by the thousand
        raise FormatError(f"{path} is not {what}: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path} is not {what}: it holds a JSON {type(value).__name__}, not an object")
    return value


def read_sealed(path: Path, what: str, remedy: str = "", if_unreadable: str = "") -> dict[str, Any]:
    """Read a JSON object of ours, which must match its checksum; `remedy` is what helps where it is damaged.

    `if_unreadable` is what helps where nothing can be read of it, if that is not the same.
    """
    try:
        found = read_json(path, what)
    except FormatError as error:
        helps = if_unreadable or remedy
        raise FormatError(f"{error}; {helps}" if helps else str(error)) from None
    return unsealed(found, path, remedy)


def read_record(path: Path, what: str, shape: type[Shape], remedy: str = "") -> Shape:
    """Read a JSON object of ours that has this shape; `remedy` is what helps where it is damaged."""
    return check_record(read_sealed(path, what, remedy), shape, path, remedy)


def is_of_format(path: Path, format: str) -> bool:
    """Whether a file begins as a record of this format does, which one that is damaged further on does too."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return format.encode() in file.read(100)
    except OSError:
        return False


def line_bytes(line: Mapping[str, Any]) -> bytes:
    """Return a line of a JSONL file of ours, with a checksum of its own; what JSON cannot hold is written as text."""
    text = to_json(sealed_line(line), ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file of ours, atomically."""
    with whole_file(path) as file:
        file.writelines(map(line_bytes, lines))


def parse_line(line: bytes, path: Path, number: int, remedy: str = "") -> dict[str, Any] | None:
    """Return what a line of a JSONL file of ours holds; None for one that is only begun."""
    place = f"{path}, line {number}"
    try:
        value = parse_json(line)
    except ValueError as error:
        if _is_begun(line):
            return None
        raise FormatError(f"{place}: not JSON ({error})" + (f"; {remedy}" if remedy else "")) from None
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected a JSON object, found {type(value).__name__}")
    return unsealed_line(value, place, remedy)


def _is_begun(line: bytes) -> bool:
    """Whether a line is the first part of one, as a run writes it that goes on, or left it that was killed."""
    if line.endswith(b"\n"):
        return False
    try:
        json.JSONDecoder().raw_decode(line.decode("utf-8", "ignore"))
    except RecursionError:  # brackets by the thousand, which no line of ours begins with
        return False
    except ValueError:
        return True
    return False  # all of it is there, and something that is no line end


def read_lines(path: Path, remedy: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with the numbers of their lines; a last line that is only begun is left out."""
    require_plain(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if (value := parse_line(line, path, number, remedy)) is not None:
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
