"""A server under load: many clients, each sending its next text as soon as the last one is answered.

    python -m benchmarks.serving                      # 200 clients, 60 s, then the same with one text a pass
    python -m benchmarks.serving --seconds 20 --clients 50 --threads 1 --ask classify
    python -m benchmarks.serving --device cuda --tokenizer bytes      # where there is a GPU, and perhaps no spaCy
    python -m benchmarks.serving --workers 2 --rounds 3               # one process against two
    python -m benchmarks.serving --workers 2 --kill                   # one of two is killed in the midst of it

A fine-tuned run of 6 x 384 with random weights is made, served by `gpt1 serve` in one process and asked by clients in
another one over loopback: to classify texts of 64 tokens, or to continue them by 16. Printed: how many requests were
answered and how, how long they took, how large the server's process was before and after. Then the same server lets one
request at a time through the network, and the network alone is timed with one text and with many.

With `--workers` one process on all threads, and one on a single thread, take turns with so many that share the threads.
With `--kill` those processes alone are loaded, and one of them is killed when half of the time is over: the requests
that were lost are told with status 0, and who lost one connects anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from benchmarks.results import measured, tell
from gpt1.base.devices import device_name
from gpt1.inference.run import Run, load_run
from gpt1.serve import engine
from gpt1.tasks.catalog import CATALOGUE
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, train_bytes, train_words
from tests.conftest import make_text
from tests.inference.tools import make_run

TASK = CATALOGUE["sst2"]
SHAPE = ("layers=6", "width=384", "heads=6", "feed_forward=1536", "context=128")
TOKENS, NEW = 64, 16  # of a text, and behind it
SERVE = "serve-one-at-a-time"  # said to this file, it serves
# What is asked, by the name that the server counts it under.
ASKED: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "classify": ("/v1/classify", lambda text: {"input": text}),
    "write": ("/v1/completions", lambda text: {"prompt": text, "max_tokens": NEW}),
}


def texts_of(tokenizer: Tokenizer, count: int) -> list[str]:
    """Return texts of exactly so many tokens, none like another."""
    found = []
    for seed in range(count):
        words = make_text(30, seed).split()
        while len(tokenizer.encode(" ".join(words))) > TOKENS:
            words.pop()
        missing = TOKENS - len(tokenizer.encode(" ".join(words)))
        found.append(" ".join(words + ["."] * missing))
    return found


@dataclass(frozen=True)
class Served:
    """How a run is served."""

    name: str
    threads: int  # of each process
    workers: int = 1
    start: tuple[str, ...] = ("-m", "gpt1", "serve")


@contextmanager
def served(run: Path, how: Served, device: str, int8: bool) -> Iterator[tuple[list[int], str]]:
    """Serve a run in processes of its own; give the ids of those that answer, and the address."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(how.threads)}
    call = [sys.executable, *how.start, f"run={run}", "--port", "0", "--device", device, *(["--int8"] if int8 else [])]
    call += ["--workers", str(how.workers)] if how.workers > 1 else []
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        while figure(address, "gpt1_workers") < how.workers:
            time.sleep(0.1)
        yield children(process.pid) if how.workers > 1 else [process.pid], address
        process.terminate()


def children(process: int) -> list[int]:
    """Return the workers of a supervisor."""
    call = ["pgrep", "-P", str(process), "-f", "spawn_main"]
    return [int(number) for number in subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()]


def figure(address: str, name: str) -> float:
    """Return a figure of a server."""
    told = httpx.get(f"{address}/metrics", timeout=60).text
    return float(re.findall(rf"^{re.escape(name)} (\S+)$", told, re.MULTILINE)[0])


class Client:
    """One connection that is never idle; it speaks HTTP by hand, so as to leave the cores to the server."""

    def __init__(self, address: str, path: str, bodies: list[bytes], first: int) -> None:
        host, port = address.removeprefix("http://").split(":")
        self.host, self.port, self.path, self.bodies, self.place = host, int(port), path, bodies, first
        self.answers: list[tuple[int, float]] = []  # status and seconds

    async def run(self, until: float) -> None:
        """Ask until then; what is asked by then is waited for. Of a connection that is lost the status is 0."""
        while time.perf_counter() < until:
            try:
                await self._ask(until)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.answers.append((0, float("nan")))

    async def _ask(self, until: float) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\nContent-Length: "
        while time.perf_counter() < until:
            body = self.bodies[self.place % len(self.bodies)]
            self.place += 1
            began = time.perf_counter()
            writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", answer, re.IGNORECASE)
            assert length, answer
            await reader.readexactly(int(length[1]))
            self.answers.append((int(answer.split()[1]), time.perf_counter() - began))
        writer.close()


async def load(made: Sequence[Client], seconds: float) -> tuple[list[tuple[int, float]], float]:
    """Return status and seconds of every request, and how long it all took."""
    began = time.perf_counter()
    await asyncio.gather(*(client.run(began + seconds) for client in made))
    return [answer for client in made for answer in client.answers], time.perf_counter() - began


async def load_and_kill(made: Sequence[Client], seconds: float, process: int) -> tuple[list[tuple[int, float]], float]:
    """Load a server as `load` does, and kill a process of it when half of the time is over."""
    asyncio.get_running_loop().call_later(seconds / 2, os.kill, process, signal.SIGKILL)
    return await load(made, seconds)


def memory_mb(processes: Sequence[int]) -> float:
    """Return how much memory processes hold; what they share is counted once (PSS)."""
    maps = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in processes]
    return sum(int(re.findall(r"^Pss:\s+(\d+)", one, re.MULTILINE)[0]) for one in maps) / 1024


def passes(address: str, kind: str) -> float:
    """Return how many texts a pass has read, in the mean."""
    total, count = (
        figure(address, f'gpt1_batch_size_{what}{{kind="{kind}",model="run"}}') for what in ("sum", "count")
    )
    return total / count


def measure(run: Path, texts: list[str], kind: str, how: Served, given: argparse.Namespace) -> dict[str, Any]:
    """Load one server and return its figures."""
    path, asked = ASKED[kind]
    bodies = [json.dumps({"model": "run", **asked(text)}).encode() for text in texts]
    with served(run, how, given.device, given.int8) as (processes, address):
        clients = [[Client(address, path, bodies, first) for first in range(given.clients)] for _ in range(2)]
        asyncio.run(load(clients[0], min(5, given.seconds)))  # to warm it
        before = memory_mb(processes)
        if given.kill:
            answers, took = asyncio.run(load_and_kill(clients[1], given.seconds, processes.pop()))
        else:
            answers, took = asyncio.run(load(clients[1], given.seconds))
        statuses = Counter(status for status, _ in answers)
        times = np.array([seconds for status, seconds in answers if status])
        return {
            "asked": kind,
            "server": how.name,
            "requests": len(answers),
            "answered_200": round(statuses[200] / len(answers), 5),
            "others": {str(status): count for status, count in statuses.items() if status != 200},
            "requests_per_second": round(len(answers) / took, 1),
            "p50_ms": round(1000 * float(np.percentile(times, 50))),
            "p95_ms": round(1000 * float(np.percentile(times, 95))),
            "p99_ms": round(1000 * float(np.percentile(times, 99))),
            "texts_a_pass": round(passes(address, kind), 1),
            "mb_before": round(before),
            "mb_after": round(memory_mb(processes)),
        }


def alone(run: Run, texts: list[str], kind: str, size: int) -> float:
    """Return how many texts a second the run answers in this process, so many at a time."""

    def answer(portion: Sequence[str]) -> None:
        if kind == "classify":
            list(run.predict({TASK.fields[0]: text} for text in portion))
        else:
            run.generate_batch(portion, max_new_tokens=NEW)

    answer(texts[:size])
    began = time.perf_counter()
    for start in range(0, len(texts), size):
        answer(texts[start : start + size])
    return len(texts) / (time.perf_counter() - began)


def compare(run: Path, texts: list[str], kind: str, given: argparse.Namespace) -> None:
    """Load both servers in turn, time the network alone, and print what it gains to read many texts a pass."""
    one_a_pass = ("-m", "benchmarks.serving", SERVE, "--max-batch", "1")
    servers = Served("gpt1", given.threads), Served("one text a pass", given.threads, start=one_a_pass)
    found = in_turn(run, texts, kind, servers, given)
    opened = load_run(run, device=given.device, int8=given.int8)
    single, many = alone(opened, texts[:100], kind, 1), alone(opened, texts, kind, 200)
    gains = {
        "asked": kind,
        "gain_of_many_a_pass": round(float(np.median(found["gpt1"]) / np.median(found["one text a pass"])), 2),
        "without_a_server": round(many / single, 2),
        "texts_per_second_without_a_server": [round(single, 1), round(many, 1)],
    }
    print(json.dumps(gains), flush=True)
    machine = device_name(torch.device(given.device))
    tell(measured(f"serving {ASKED[kind][0]} to {given.clients} clients", "requests/s", machine, found), given.json)


def compare_workers(run: Path, texts: list[str], kind: str, given: argparse.Namespace) -> None:
    """Load one process and several in turn, or several of which one is killed, and print what each answers."""
    share = max(1, given.threads // given.workers)
    several = Served(f"{given.workers} processes, threads {share} each", share, given.workers)
    ones = [Served(f"one process, threads {threads}", threads) for threads in dict.fromkeys((given.threads, 1))]
    found = in_turn(run, texts, kind, [several] if given.kill else [*ones, several], given)
    print(json.dumps({"asked": kind, **{name: round(float(np.median(rates)), 1) for name, rates in found.items()}}))


def in_turn(
    run: Path, texts: list[str], kind: str, servers: Sequence[Served], given: argparse.Namespace
) -> dict[str, list[float]]:
    """Load servers in turn, every other round from the last to the first; return requests a second of each."""
    found: dict[str, list[float]] = {how.name: [] for how in servers}
    for round_ in range(given.rounds):
        for how in servers if round_ % 2 == 0 else servers[::-1]:
            row = measure(run, texts, kind, how, given)
            found[how.name].append(row["requests_per_second"])
            print(json.dumps(row), flush=True)
    return found


def main() -> None:
    """Make a run, load its servers in turn, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="compare one process with so many")
    parser.add_argument("--kill", action="store_true", help="of several processes, kill one")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokenizer", choices=("words", "bytes"), default="words")
    parser.add_argument("--json", type=Path, default=None, help="add what was found to this file")
    parser.add_argument("--ask", nargs="*", choices=list(ASKED), default=list(ASKED))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    text = make_text(3000, seed=0)
    words = given.tokenizer == "words"
    tokenizer = train_words(WordCounter().count([text]), merges=300) if words else train_bytes([text], merges=300)
    texts = texts_of(tokenizer, 400)
    with tempfile.TemporaryDirectory() as folder:
        changes = [f"shape.{size}" for size in SHAPE] + [f"training.precision={given.precision}"]
        run = make_run(Path(folder) / "run", tokenizer, TASK, changes=changes)
        device, numbers = device_name(torch.device(given.device)), "int8" if given.int8 else given.precision
        print(f"{device}, {numbers}, {given.clients} clients, load of the machine {os.getloadavg()[0]:.1f}")
        for kind in given.ask:
            (compare_workers if given.workers > 1 else compare)(run, texts, kind, given)


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        from gpt1.cli import main as gpt1

        engine.TOGETHER = 1
        gpt1(["serve", *sys.argv[2:]])
    else:
        main()
