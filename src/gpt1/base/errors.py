"""The one small family of errors a user can meet, and the warnings that a name is another now, or chosen for them.

An error is for a person: what is wrong, where (file, row, byte), what to do. The command line
prints it without a traceback and exits with 1; a usage error exits with 2.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType


class Gpt1Error(Exception):
    """Something the user can understand and mend; every error of the package is one."""


class InputError(Gpt1Error, ValueError):
    """A file, row or string that was given cannot be used as it is; a `ValueError`, as scikit-learn expects."""


class Busy(InputError):
    """Another command is at work where this one is to write; what lies there is its own, and not to be removed."""


class NoRoom(InputError):
    """The disk is full; `problem` is what could not be written, `remedy` what to do."""

    def __init__(self, problem: str, remedy: str = "make room and give the command again") -> None:
        super().__init__(problem, remedy)  # by which it comes whole from another process
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class RuinedWeights(InputError):
    """A network gives what is no number: for some input, or, where its weights are ruined, for any."""


class FileError(InputError):
    """A fault at a known place of a file: `position` in words, `reason` as a short key for counting, and `message`."""

    reason = "unreadable"

    def __init__(self, path: str | Path, position: str, message: str) -> None:
        super().__init__(printable(f"{path}, {position}: {message}"))
        self.position, self.message = position, message
        self._given = (str(path), position, message)

    def __reduce__(self) -> tuple[type[FileError], tuple[str, str, str]]:  # told across processes
        return type(self), self._given


class DamagedFile(FileError):
    """An archive or table that is cut short, corrupt, or not what its name says."""

    reason = "damaged"


class SettingError(Gpt1Error, ValueError):
    """A name, option or value that was asked for does not exist or does not fit; a `ValueError` too."""


class MissingDependency(Gpt1Error):
    """A library that this action needs is not installed."""


class FormatError(Gpt1Error):
    """A file of ours is damaged, of another version, or not of ours at all."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to stop, and it did, with its state saved."""


def printable(text: str) -> str:
    """Return a text that UTF-8 can hold: half characters, as in names that are no text, become escapes."""
    return text.encode(errors="backslashreplace").decode()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name nearest to `name`, or an empty string."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, None where none is like it."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def unknown(what: str, name: str, known: Iterable[str], *, of: str = "") -> SettingError:
    """Return the error for a name that is not one of `known`, naming the nearest and all of them."""
    known = list(known)
    whose = f" of {of}" if of else ""
    return SettingError(f"unknown {what} '{name}'{whose}{did_you_mean(name, known)} (known: {', '.join(known)})")


class Renamed(FutureWarning):
    """A name was typed that is another now."""


def tell_renamed(old: str, new: str) -> None:
    """Warn that a name is another now, at the line of the user's own that gave it."""
    warnings.warn(f"{old} is called {new} now", Renamed, stacklevel=_level_outside())


class Chosen(UserWarning):
    """Something was taken that was not named, or whose name could mean another."""


def tell_chosen(text: str) -> None:
    """Tell what was taken, at the line of the user's own that left it open."""
    warnings.warn(text, Chosen, stacklevel=_level_outside())


def _level_outside() -> int:
    """Return how far above the function that tells the nearest caller is that is not of this package."""
    frame: FrameType | None = inspect.currentframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gpt1."):
        frame, level = frame.f_back, level + 1
    return level
