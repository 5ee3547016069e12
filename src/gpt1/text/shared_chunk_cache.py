"""What one process learned of chunks, told to the others that encode with the same tokenizer.

A lesson is a file in a folder that the processes share, there whole or not at all, so a process killed while it tells
leaves nothing half said. Hearing a chunk costs a tenth of learning it. Nothing hangs on who hears what: a chunk has the
same ids whoever learned it.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpt1.base.files import require_plain, whole_file


@dataclass(frozen=True)
class SharedChunks:
    """Chunks (none holds a newline), and one array a fact about them: their ids are those of all, one after the other.

    `firsts` and `lasts` are the codes of a chunk's outermost tokens in the risky pairs, see `splitting`.
    """

    chunks: list[str]
    lengths: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int16]
    lasts: npt.NDArray[np.int16]

    def without(self, known: Container[str]) -> SharedChunks:
        """Return the lesson less the chunks that are known."""
        new = np.array([chunk not in known for chunk in self.chunks], bool)
        return SharedChunks(
            [chunk for chunk, wanted in zip(self.chunks, new.tolist(), strict=True) if wanted],
            self.lengths[new],
            self.ids[np.repeat(new, self.lengths)],
            self.firsts[new],
            self.lasts[new],
        )


class Lessons:
    """The lessons in a folder: each is heard once, one's own never."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heard: set[str] = set()

    def tell(self, lesson: SharedChunks) -> None:
        """Let the other processes know."""
        path = self._folder / f"{os.getpid()}-{len(self._heard)}.npz"
        self._heard.add(path.name)
        with whole_file(path) as file:
            np.savez(
                file,
                chunks=np.frombuffer("\n".join(lesson.chunks).encode(), np.uint8),
                lengths=lesson.lengths,
                ids=lesson.ids,
                firsts=lesson.firsts,
                lasts=lesson.lasts,
            )

    def hear(self) -> Iterator[SharedChunks]:
        """Yield what was told since the last time."""
        for path in self._folder.glob("*.npz"):
            if path.name not in self._heard:
                self._heard.add(path.name)
                if (lesson := _read(path)) is not None:
                    yield lesson


def _read(path: Path) -> SharedChunks | None:
    """Return a lesson; a damaged one is none, and its chunks are learned anew."""
    try:
        require_plain(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            chunks = stored["chunks"].tobytes().decode().split("\n")
            return SharedChunks(chunks, stored["lengths"], stored["ids"], stored["firsts"], stored["lasts"])
    except Exception:  # the libraries that open such files raise errors of many families
        return None
