"""A server under load: many clients, each sending its next text as soon as the last one is answered.

    python -m benchmarks.serving                      # 200 clients, 60 s, then the same with one text a pass
    python -m benchmarks.serving --seconds 20 --clients 50 --threads 1 --ask classify
    python -m benchmarks.serving --device cuda --tokenizer bytes      # where there is a GPU, and perhaps no spaCy

A fine-tuned run of 6 x 384 with random weights is made, served by `gpt1 serve` in one process and asked by clients in
another one over loopback: to classify texts of 64 tokens, or to continue them by 16. Printed: how many requests were
answered and how, how long they took, how large the server's process was before and after. Then the same server lets one
request at a time through the network, and the network alone is timed with one text and with many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def served(run: Path, together: bool, threads: int, device: str, int8: bool) -> Iterator[tuple[int, str]]:
    """Serve a run in a process of its own; give its id and address."""
    start = ["-m", "gpt1", "serve"] if together else ["-m", "benchmarks.serving", SERVE, "--max-batch", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    call = [sys.executable, *start, f"run={run}", "--port", "0", "--device", device, *(["--int8"] if int8 else [])]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        while httpx.get(f"{address}/readyz").status_code != 200:
            time.sleep(0.1)
        yield process.pid, address
        process.terminate()


class Client:
    """One connection that is never idle; it speaks HTTP by hand, so as to leave the cores to the server."""

    def __init__(self, address: str, path: str, bodies: list[bytes], first: int) -> None:
        host, port = address.removeprefix("http://").split(":")
        self.host, self.port, self.path, self.bodies, self.place = host, int(port), path, bodies, first
        self.answers: list[tuple[int, float]] = []  # status and seconds

    async def run(self, until: float) -> None:
        """Ask until then; what is asked by then is waited for."""
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


def resident_mb(process: int) -> float:
    """Return how much memory a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def passes(address: str, kind: str) -> float:
    """Return how many texts a pass has read, in the mean."""
    text = httpx.get(f"{address}/metrics").text
    total, count = (
        float(re.findall(rf'gpt1_batch_size_{what}{{kind="{kind}",model="run"}} (\S+)', text)[0])
        for what in ("sum", "count")
    )
    return total / count


def measure(run: Path, texts: list[str], kind: str, together: bool, given: argparse.Namespace) -> dict[str, Any]:
    """Load one server and return its figures."""
    path, asked = ASKED[kind]
    bodies = [json.dumps({"model": "run", **asked(text)}).encode() for text in texts]
    with served(run, together, given.threads, given.device, given.int8) as (process, address):
        clients = [[Client(address, path, bodies, first) for first in range(given.clients)] for _ in range(2)]
        asyncio.run(load(clients[0], min(5, given.seconds)))  # to warm it
        before = resident_mb(process)
        answers, took = asyncio.run(load(clients[1], given.seconds))
        statuses = Counter(status for status, _ in answers)
        times = np.array([seconds for _, seconds in answers])
        return {
            "asked": kind,
            "server": "many a pass" if together else "one a pass",
            "requests": len(answers),
            "answered_200": round(statuses[200] / len(answers), 5),
            "others": {str(status): count for status, count in statuses.items() if status != 200},
            "requests_per_second": round(len(answers) / took, 1),
            "p50_ms": round(1000 * float(np.percentile(times, 50))),
            "p99_ms": round(1000 * float(np.percentile(times, 99))),
            "texts_a_pass": round(passes(address, kind), 1),
            "rss_mb_before": round(before),
            "rss_mb_after": round(resident_mb(process)),
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
    found: dict[bool, list[float]] = {True: [], False: []}
    for round_ in range(given.rounds):
        for together in (True, False) if round_ % 2 == 0 else (False, True):
            row = measure(run, texts, kind, together, given)
            found[together].append(row["requests_per_second"])
            print(json.dumps(row), flush=True)
    opened = load_run(run, device=given.device, int8=given.int8)
    single, many = alone(opened, texts[:100], kind, 1), alone(opened, texts, kind, 200)
    gains = {
        "asked": kind,
        "gain_of_many_a_pass": round(float(np.median(found[True]) / np.median(found[False])), 2),
        "without_a_server": round(many / single, 2),
        "texts_per_second_without_a_server": [round(single, 1), round(many, 1)],
    }
    print(json.dumps(gains), flush=True)
    path, rates = ASKED[kind][0], {"gpt1": found[True], "one text a pass": found[False]}
    machine = device_name(torch.device(given.device))
    tell(measured(f"serving {path} to {given.clients} clients", "requests/s", machine, rates), given.json)


def main() -> None:
    """Make a run, load its servers in turn, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
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
            compare(run, texts, kind, given)


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        from gpt1.cli import main as gpt1

        engine.TOGETHER = 1
        gpt1(["serve", *sys.argv[2:]])
    else:
        main()
