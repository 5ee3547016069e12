"""Children of a process in which everything is imported: a verb in a hundredth of a second, killed or held where asked.

A moment of a child is counted in the changes that it makes to files (Python's audit events), so that the same number
finds the same moment again. Only a program of its own may fork so: it computes nothing and has one thread.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import eventually

DEADLINE = 900.0  # seconds; only bounds a hang, on a machine with much else to do too
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink")
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_SAID = ("out", "err")  # files for what a child prints and says

Step = Callable[[], None]


@dataclass(frozen=True)
class Moment:
    """The change to a file before which a child is stopped: one by number, or the first to a path that holds a word.

    `opened`: where it opens a file, right after that. Or when it has computed for so many seconds, wherever that is.
    """

    number: int | None = None
    path: str | None = None
    opened: bool = False
    computed: float | None = None

    def is_now(self, number: int, arguments: tuple[Any, ...]) -> bool:
        """Whether a change, told by its number and what the audit event says, is the one."""
        if self.path is not None:
            return any(isinstance(part, str) and self.path in part for part in arguments)
        return number == self.number


@dataclass(frozen=True)
class Ending:
    """How a child ended: its exit code, or minus the signal; the class of the error; what it printed and said."""

    code: int
    error: str
    out: str
    err: str
    changes: int
    computed: float  # seconds
    hung: bool = False

    @property
    def ended_well(self) -> bool:
        return self.code == 0

    @property
    def was_killed(self) -> bool:
        return self.code in (-signal.SIGKILL, -signal.SIGPROF)


def verb(*words: str) -> Step:
    """Return the step that calls the command `gpt1` with these words."""

    def call() -> None:
        from gpt1.cli.app import main

        main(list(words))

    return call


def preload(*, small: bool = False) -> None:
    """Import whatever a verb imports, with one thread, and let a small text be several batches and worth telling of.

    For a `small` world without what only studies, pages and estimators need.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["HF_HUB_OFFLINE"] = "1"
    import importlib

    import torch

    torch.set_num_threads(1)
    from gpt1.cli.app import VERBS

    for module, _ in VERBS.values():
        importlib.import_module(module)
    for module in _LATE if small else (*_LATE, *_OF_STUDIES_PAGES_AND_ESTIMATORS):
        importlib.import_module(module)
    from gpt1.corpus import batches
    from gpt1.text import chunks
    from gpt1.text.splitting import Splitter

    Splitter()  # for whose first one spaCy looks through its languages

    batches.BATCH_CHARACTERS = 2000
    chunks.WORTH_TELLING = 1


_LATE = (
    "gpt1.text.training",
    "gpt1.text.splitting",
    "gpt1.corpus.vocabularies",
    "gpt1.pretraining.pretrain",
    "gpt1.finetuning.finetune",
    "gpt1.finetuning.measure",
    "gpt1.inference.zeroshot",
    "gpt1.inference.predicting",
    "gpt1.inference.generation",
    "gpt1.exchange.to_transformers",
    "gpt1.exchange.to_compact",
    "gpt1.lessons.making",
    "gpt1.exchange.importing",
    "gpt1.cli.lines",
    "spacy.lang.en",
    "rensa",
    "tokenizers",
    "ftfy",
    "pandas",  # which pyarrow looks for
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "rich._emoji_codes",
)
_OF_STUDIES_PAGES_AND_ESTIMATORS = (
    "gpt1.studies",
    "gpt1.studies.labels",
    "gpt1.studies.transfer",
    "gpt1.studies.zeroshot",
    "gpt1.studies.ablations",
    "gpt1.studies.objectives",
    "gpt1.studies.reproduce",
    "gpt1.report",
    "gpt1.report.page",
    "gpt1.documents.plots",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "gpt1.estimators",
    "sklearn.linear_model",
    "sklearn.feature_extraction.text",
)


class Child:
    """A step in a process of its own; killed at a moment, or held there until it is let go."""

    def __init__(self, folder: Path, step: Step, *, kill: Moment | None = None, hold: Moment | None = None) -> None:
        self._notes = folder.with_name(f"{folder.name}.notes.{os.urandom(4).hex()}")
        self._notes.mkdir()
        for name in _SAID:  # here, because a child may be killed before it does anything
            (self._notes / name).touch()
        self._held, held = os.pipe()
        go, self._go = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._held)
            os.close(self._go)
            _be_child(folder, self._notes, step, kill, hold, held, go)
        os.close(held)
        os.close(go)
        self._status = 0
        self._computed = 0.0

    def wait_until_held(self) -> bool:
        """Wait until the child is held, or at its end; return whether it is held."""
        return os.read(self._held, 1) == b"h"

    def let_go(self) -> None:
        """Let a held child go on; one that has ended is beyond that."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"g")

    def end(self) -> Ending:
        """Wait for the end, of the child and of all that it started, and return how it was."""
        hung = not _comes(self._has_ended)
        if hung:
            os.kill(self.pid, signal.SIGKILL)
            self._wait(0)
        os.close(self._held)
        os.close(self._go)
        noted = self._notes / "ending.json"
        facts = json.loads(noted.read_text()) if noted.exists() else {}
        out, err = ((self._notes / name).read_text(errors="replace") for name in _SAID)
        shutil.rmtree(self._notes)
        code = os.waitstatus_to_exitcode(self._status)
        return Ending(code, facts.get("error", ""), out, err, facts.get("changes", 0), self._computed, hung)

    def _has_ended(self) -> bool:
        return self._wait(os.WNOHANG)

    def _wait(self, how: int) -> bool:
        pid, self._status, used = os.wait4(self.pid, how)
        self._computed = used.ru_utime + used.ru_stime
        return bool(pid)


def _comes(condition: Callable[[], bool]) -> bool:
    """Wait until something is so; return whether that came."""
    try:
        return eventually(condition, "an end", DEADLINE)
    except AssertionError:
        return False


def wait_for_helpers(pid: int) -> bool:
    """Wait until no process is left of the group that a child led; return whether that came."""
    if _comes(lambda: not _is_group(pid)):
        return True
    os.killpg(pid, signal.SIGKILL)
    return False


def _is_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run(folder: Path, steps: Sequence[Step]) -> Ending:
    """Do steps one after another, each in a child; return the ending of the last one, or of the first that failed."""
    printed = said = ""
    changes, computed = 0, 0.0
    for step in steps:
        ending = Child(folder, step).end()
        printed, said, changes = printed + ending.out, said + ending.err, changes + ending.changes
        computed += ending.computed
        if not ending.ended_well:
            break
    return Ending(ending.code, ending.error, printed, said, changes, computed, ending.hung)


# ---- inside a child ----


def _be_child(
    folder: Path, notes: Path, step: Step, kill: Moment | None, hold: Moment | None, held: int, go: int
) -> None:
    """Do a step and end; what went wrong is noted. Never returns."""
    error, code = "", 0
    try:
        os.setsid()
        os.chdir(folder)
        for name, descriptor in zip(_SAID, (1, 2), strict=True):
            os.dup2(os.open(notes / name, os.O_WRONLY), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if kill is not None and kill.computed is not None:
            signal.setitimer(signal.ITIMER_PROF, max(kill.computed, 0.001))  # whose signal nobody hears: it is the end
        counter = _Counter(folder, kill, hold, held, go)
        sys.addaudithook(counter)
        try:
            step()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            error = _class_of(ended.__context__) if code else ""
        except BaseException as problem:
            code, error = 1, _class_of(problem)
            print(f"error: {problem}" if error.startswith("gpt1:") else traceback.format_exc(), file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        counter.counting = False
        signal.setitimer(signal.ITIMER_PROF, 0)  # a kill in the midst of the note would leave half of it
        (notes / "ending.json").write_text(json.dumps({"error": error, "changes": counter.count}))
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        os._exit(code)


def _class_of(error: BaseException | None) -> str:
    """Return the name of an error's class, with `gpt1:` before those of the package, and click's for wrong usage."""
    from gpt1.base.errors import Gpt1Error

    return ("gpt1:" if isinstance(error, Gpt1Error) else "") + type(error).__name__


@dataclass
class _Counter:
    """Counts the changes to files in a folder, and stops the process before the one that is asked for."""

    folder: Path
    kill: Moment | None
    hold: Moment | None
    held: int
    go: int
    count: int = 0
    counting: bool = field(default=True)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.counting or not self._changes(event, arguments):
            return
        self.count += 1
        for moment, act in ((self.kill, self._kill), (self.hold, self._hold)):
            if moment is not None and moment.is_now(self.count, arguments):
                if moment.opened and event == "open":
                    self._open(arguments)
                act()

    def _changes(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            return bool(flags & OPENED_TO_WRITE) and self._inside(path)
        if event not in CHANGES:
            return False
        # By the descriptor of a folder, as whole trees are removed, nobody but the verb removes anything.
        return self._inside(arguments[0]) or (isinstance(arguments[-1], int) and arguments[-1] > 0)

    def _inside(self, path: Any) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and (self.folder / os.fsdecode(path)).is_relative_to(
            self.folder
        )

    def _open(self, arguments: tuple[Any, ...]) -> None:
        self.counting = False
        os.close(os.open(arguments[0], arguments[2], 0o666))

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    def _hold(self) -> None:
        os.write(self.held, b"h")
        os.read(self.go, 1)
