"""What a server is asked to be, as a value that goes to each of its processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpt1.serve.limits import Limits

Worded = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Which runs are served, where, and within which limits.

    `runs` are given each as its folder or as NAME=FOLDER, `reference` are tables of rows that what comes in is held
    against, each given as its file or as NAME=FILE, of runs whose own for dev are not. `worded` puts what the log tells
    into other words. Only who has `token` is answered, where there is one.
    """

    runs: Sequence[str]
    host: str
    port: int
    token: str | None = None
    limits: Limits = field(default_factory=Limits)
    device: str | None = None
    int8: bool = False
    reference: Sequence[str] = ()
    json_logs: bool = False
    workers: int = 1  # processes that answer
    worded: Worded = str
