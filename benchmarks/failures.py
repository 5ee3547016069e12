"""How often to save, where machines fail: lost work simulated, and held against the formulas of Young and Daly.

    python -m benchmarks.failures                                  # 64 GPUs, 25 hours of work
    python -m benchmarks.failures --gpus 1024 --work-hours 100 --save-seconds 5
    python -m benchmarks.failures --gpu-hours 500 --repair-hours 1 # machines that are taken away

A job on nodes of several GPUs works, and saves after every interval: the work stands still for `--save-seconds`, and
what was saved is on the disk `--behind-seconds` later (a thread writes it beside the work). Failures come at random,
the more nodes the more often (exponentially, as the formulas assume); each takes all work since the last save on the
disk, and `--restart-seconds`. Then there are three ways to go on: `spare`, another node stands ready; `wait`, the job
stands still until the node is repaired; `elastic`, it goes on with the nodes there are, and takes the node back when it
is repaired, for which it saves and restarts once more.

Printed for each interval: what share of the hours until the work is done was in vain (lost, saving, restarting,
standing still, or fewer nodes at work), in the mean of many draws with its standard error, beside what the closed form
expects of `spare`; before that the best interval by Young (1974), sqrt(2 save mtbf), by Daly (2006), and by the closed
form.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from dataclasses import dataclass

import numpy as np

SPARE, WAIT, ELASTIC = "spare", "wait", "elastic"
WAYS = (SPARE, WAIT, ELASTIC)
HOUR = 3600.0
FACTORS = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the best interval


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work on machines that fail; all times in hours."""

    work: float  # with all nodes, if nothing ever failed and nothing were saved
    nodes: int
    node_mtbf: float  # mean time between failures of one node
    save: float  # for which the work stands still
    behind: float = 0.0  # until what was saved is on the disk
    restart: float
    repair: float = 0.0

    @property
    def mtbf(self) -> float:
        """The mean time between failures of any node."""
        return self.node_mtbf / self.nodes


def young(job: Job) -> float:
    """Return the interval between saves that is best to first order."""
    return math.sqrt(2 * job.save * job.mtbf)


def daly(job: Job) -> float:
    """Return the interval between saves that is best to higher order; saving longer than work lasts is hopeless."""
    share = job.save / (2 * job.mtbf)
    if share >= 1:
        return job.mtbf
    return young(job) * (1 + math.sqrt(share) / 3 + share / 9) - job.save


def expected_hours(job: Job, interval: float) -> float:
    """Return how long the work takes in the mean where a spare node stands ready and saves are on the disk at once."""
    cycles = job.work / interval
    return job.mtbf * math.exp(job.restart / job.mtbf) * math.expm1((interval + job.save) / job.mtbf) * cycles


def best_interval(job: Job) -> float:
    """Return the interval that the closed form likes best, to a thousandth."""
    intervals = young(job) * np.geomspace(0.05, 20, 6000)
    return float(min(intervals, key=lambda interval: expected_hours(job, interval)))


class Draw:
    """One history of a job: when what failed, and how long it took."""

    def __init__(self, job: Job, interval: float, way: str, random: np.random.Generator) -> None:
        self._job, self._interval, self._way, self._random = job, interval, way, random
        self._left, self._now, self._nodes = job.work, 0.0, job.nodes
        self._repaired: deque[float] = deque()  # when nodes come back
        self.failures = 0

    def hours(self) -> float:
        """Return how long the work takes."""
        while True:
            until_done = self._hours_for(self._left)
            until_failure = self._random.exponential(self._job.node_mtbf / self._nodes)
            until_back = self._repaired[0] - self._now if self._repaired else math.inf
            if until_done <= min(until_failure, until_back):
                return self._now + until_done
            if until_failure <= until_back:
                self._fail(until_failure)
            else:
                self._take_back(until_back)

    @property
    def _speed(self) -> float:
        return self._nodes / self._job.nodes

    def _hours_for(self, work: float) -> float:
        """Return how long so much work takes with the nodes there are, with a save after every interval and the end."""
        hours = work / self._speed
        return hours + self._job.save * math.ceil(hours / self._interval - 1e-9)

    def _fail(self, after: float) -> None:
        cycles = max(0, math.floor((after - self._job.behind) / (self._interval + self._job.save)))
        self._left -= cycles * self._interval * self._speed
        self._now += after
        self.failures += 1
        if self._way == WAIT:
            self._now += self._job.repair
        elif self._way == ELASTIC:
            self._nodes -= 1
            self._repaired.append(self._now + self._job.repair)
            if not self._nodes:
                self._now = self._repaired.popleft()
                self._nodes = 1
        self._restart()

    def _take_back(self, after: float) -> None:
        """Save what there is, and go on with one node more."""
        after = max(0.0, after)  # it may have come back during a restart
        cycle = self._interval + self._job.save
        worked = math.floor(after / cycle) * self._interval + min(after % cycle, self._interval)
        self._left -= worked * self._speed
        self._now += after + self._job.save
        self._repaired.popleft()
        self._nodes += 1
        self._restart()

    def _restart(self) -> None:
        """Begin anew, which a failure may interrupt."""
        while (until_failure := self._random.exponential(self._job.mtbf)) < self._job.restart:
            self._now += until_failure
        self._now += self._job.restart


def simulate(job: Job, interval: float, way: str, draws: int, seed: int) -> np.ndarray:
    """Return the hours of so many draws."""
    random = np.random.default_rng(seed)
    return np.array([Draw(job, interval, way, random).hours() for _ in range(draws)])


def in_vain(hours: np.ndarray, job: Job) -> str:
    """Return which share of the hours did no work that stayed, in words, with its standard error."""
    shares = 1 - job.work / hours
    return f"{100 * shares.mean():.2f} +- {100 * shares.std(ddof=1) / math.sqrt(len(shares)):.2f} %"


def told(hours: float) -> str:
    """Return a time as a person reads it."""
    seconds = hours * HOUR
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{hours:.1f} h"


def main() -> None:
    """Simulate one job and print what each interval costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--gpus-a-node", type=int, default=8)
    parser.add_argument("--gpu-hours", type=float, default=50_000, help="of one GPU between failures, with its node")
    parser.add_argument("--work-hours", type=float, default=25)
    parser.add_argument("--save-seconds", type=float, default=1)
    parser.add_argument("--behind-seconds", type=float, default=30)
    parser.add_argument("--restart-seconds", type=float, default=120)
    parser.add_argument("--repair-hours", type=float, default=4)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    job = Job(
        work=given.work_hours,
        nodes=max(1, given.gpus // given.gpus_a_node),
        node_mtbf=given.gpu_hours / given.gpus_a_node,
        save=given.save_seconds / HOUR,
        behind=given.behind_seconds / HOUR,
        restart=given.restart_seconds / HOUR,
        repair=given.repair_hours,
    )
    best = best_interval(job)
    print(f"{given.gpus} GPUs, {job.nodes} nodes: a failure every {told(job.mtbf)} in the mean")
    print(f"best interval: Young {told(young(job))}, Daly {told(daly(job))}, closed form {told(best)}")
    print(f"in vain of all hours ({given.draws} draws, seed {given.seed}):")
    print(f"{'interval':>10}  {'closed form':>11}  " + "  ".join(f"{way:>16}" for way in WAYS))
    for factor in FACTORS:
        interval = min(factor * best, job.work)
        found = [in_vain(simulate(job, interval, way, given.draws, given.seed), job) for way in WAYS]
        closed = f"{100 * (1 - job.work / expected_hours(job, interval)):.2f} %"
        print(f"{told(interval):>10}  {closed:>11}  " + "  ".join(f"{one:>16}" for one in found))


if __name__ == "__main__":
    main()
