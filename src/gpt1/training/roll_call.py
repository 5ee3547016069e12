"""What the processes of a run tell each other beside their tensors: who is there, who is missing, who does otherwise.

Short texts lie in the store through which PyTorch's processes find each other. Nobody waits in it for ever: after the
time that a run gives, those who have not come are told by their ranks and machines.
"""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from gpt1.base.errors import Gpt1Error, SettingError
from gpt1.base.records import parse_json
from gpt1.base.strict_json import to_json
from gpt1.training.signals import StopRequests

RANK_TIMEOUT = 30.0  # minutes; what the first process does alone at the end of a fine-tuning may take some
GRACE = 5.0  # seconds in which those who are left find each other
GLANCE = timedelta(seconds=1)  # a wait in the store is deaf to signals, so none is longer
LONGEST_SHOWN = 20  # characters of a value
_GOES_ON = "up to the last checkpoint nothing is lost, and the same again with `resume=True` goes on"


class LostRank(Gpt1Error):
    """Another process of the run is gone, so this one cannot go on either."""


class RollCall:
    """The processes of one run, seen by one of them; all gather and agree in the same order."""

    def __init__(self, store: Store, rank: int, size: int, minutes: float = RANK_TIMEOUT) -> None:
        self.store, self.rank, self.size, self.minutes = store, rank, size, minutes
        self._calls = 0
        self._end = math.inf  # by the clock, of all waiting
        self._hosts: dict[int, str] = {}

    def begin(self) -> None:
        """Wait until all are there, and learn on which machines."""
        self._hosts = dict(enumerate(self.gather("here", platform.node())))

    def gather(self, what: str, own: object) -> list[Any]:
        """Return what each process has to tell, by rank."""
        self._calls += 1
        name = f"{self._calls}/{what}"
        self._tell(name, own)
        told = self._heard(name, time.monotonic() + 60 * self.minutes)
        if missing := sorted(set(range(self.size)) - told.keys()):
            late = f"did not come within {self.minutes:g} minutes to where the others wait ({what})"
            raise LostRank(f"process {self.rank} cannot go on: {self._fates(missing, late)}; {_GOES_ON}")
        return [told[rank] for rank in range(self.size)]

    def beside(self, name: str) -> RollCall:
        """Return the same processes for what threads of theirs tell each other meanwhile."""
        self._calls += 1
        own = self.store.clone()  # type: ignore[attr-defined] # a connection that waits for one thing at a time
        call = RollCall(PrefixStore(f"{self._calls}/{name}", own), self.rank, self.size, self.minutes)
        call._hosts = self._hosts
        return call

    def hurry(self, seconds: float) -> None:
        """Wait for nobody any longer than so many seconds from now."""
        self._end = time.monotonic() + seconds

    def agree(self, facts: Mapping[str, object]) -> None:
        """Refuse to go on where processes differ in what must be the same in all, telling each difference."""
        told = self.gather("what must be the same in all", {name: str(value) for name, value in facts.items()})
        names = dict.fromkeys(name for own in told for name in own)
        differences = [self._difference(name, [own.get(name, "not there") for own in told]) for name in names]
        if found := [difference for difference in differences if difference is not None]:
            raise SettingError("the processes of this run do not agree:\n" + "\n".join(found))

    def _difference(self, name: str, values: Sequence[str]) -> str | None:
        ranks: dict[str, list[int]] = {}
        for rank, value in enumerate(values):
            ranks.setdefault(value, []).append(rank)
        if len(ranks) == 1:
            return None
        return f"- {name} is " + ", and ".join(
            f"{_shown(value)} in {self._in_words(of)}" for value, of in ranks.items()
        )

    def leave(self, why: str) -> None:
        """Tell the others that this process ends, and why."""
        with suppress(dist.DistError):  # the process that kept the store may be gone
            self.store.set(f"left/{self.rank}", why)

    def lost(self, error: Exception) -> LostRank:
        """Return the error for those who are left, once they know who that is."""
        who = "another process of this run ended, and with it what they all could ask"
        with StopRequests(), suppress(dist.DistError):  # torchrun asks those who are left to stop: first they tell why
            self._tell("left over", True)
            present = self._heard("left over", time.monotonic() + GRACE)
            if missing := sorted(set(range(self.size)) - present.keys()):
                who = self._fates(missing, "is gone, or hangs")
            else:
                who = "the processes are all there, but cannot reach each other"
        return LostRank(f"process {self.rank} cannot go on: {who}; {_GOES_ON} ({_in_short(error)})")

    def _fates(self, missing: Sequence[int], silent: str) -> str:
        """Tell of those who are missing what they said last, and of the others that they are `silent`."""
        said = {rank: self.store.get(f"left/{rank}").decode() for rank in missing if self._has_left(rank)}
        ended = [f"{self._in_words([rank])} ended: {_first_line(text)}" for rank, text in said.items()]
        silently = [rank for rank in missing if rank not in said]
        return ", and ".join([*ended, *([f"{self._in_words(silently)} {silent}"] if silently else [])])

    def _has_left(self, rank: int) -> bool:
        return self.store.check([f"left/{rank}"])

    def _in_words(self, ranks: Sequence[int]) -> str:
        hosts = ", ".join(sorted({self._hosts[rank] for rank in ranks if rank in self._hosts}))
        which = "process" if len(ranks) == 1 else "processes"
        return f"{which} {_spans(ranks)} of {self.size}" + (f" (on {hosts})" if hosts else "")

    def _tell(self, name: str, value: object) -> None:
        self.store.set(f"{name}/{self.rank}", to_json(value))

    def _heard(self, name: str, deadline: float) -> dict[int, Any]:
        """Return what was told by each rank that did so until the deadline."""
        told = {}
        for rank in range(self.size):
            key = f"{name}/{rank}"
            while (
                not self.store.check([key]) and not self._has_left(rank) and time.monotonic() < min(deadline, self._end)
            ):
                with suppress(dist.DistStoreError):  # not yet
                    self.store.wait([key], GLANCE)
            if self.store.check([key]):
                told[rank] = parse_json(self.store.get(key))
        return told


def open_store(rank: int, minutes: float) -> Store:
    """Return what only this training of the processes that torchrun started writes and reads, in the store of all."""
    store = _connect(rank, minutes)
    # What those left behind who were there before torchrun started all again, or these same processes in a training
    # before this one, is not to be taken for theirs.
    store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if _is_kept_by_torchrun() else "", store)
    return PrefixStore(str(store.add(f"trainings/{rank}", 1)), store)


def _is_kept_by_torchrun() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


@cache  # as long as the process lives: in the store that the first one keeps others may be ahead of it
def _connect(rank: int, minutes: float) -> Store:
    """Return the store of all processes, kept by the first one or by torchrun."""
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    try:
        return TCPStore(
            host,
            int(port),
            is_master=rank == 0 and not _is_kept_by_torchrun(),
            wait_for_workers=False,
            multi_tenant=True,
            timeout=timedelta(minutes=minutes),
        )
    except dist.DistError as error:
        raise LostRank(
            f"process {rank}: nobody answered within {minutes:g} minutes at {host}:{port}, where all processes meet; "
            f"the first one keeps it ({_in_short(error)})"
        ) from error


def _in_short(error: Exception) -> str:
    """Return the first sentence of a library's error, without the place in its sources."""
    return re.sub(r"^\[[^\]]*\] ", "", _first_line(str(error))).split(". ")[0]


def _first_line(text: str) -> str:
    """Return the first line of a text, which may be empty."""
    return text.splitlines()[0] if text else ""


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _spans(numbers: Sequence[int]) -> str:
    """Return `0 to 2, 5` for 0, 1, 2, 5."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    words = [f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans]
    return ", ".join(words)
