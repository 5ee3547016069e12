"""How fast is the way from text to tokens? One table, every contender on the same real text in the same run.

    python -m benchmarks.text [--rounds 3] [--only encode|train|prepare] [--copies 12]

Real text is found through GPT1_DATA (books/*.txt.xz, openai/). Each measurement is a fresh process, so caches are cold
unless the row says warm; contenders take turns, forwards and backwards, and medians are shown. The slow contenders read
every tenth book and their rate stands for the whole.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT, interleave, measured, tell

BOOKS, OPENAI = "books/*.txt.xz", ("openai/encoder_bpe_40000.json", "openai/vocab_40000.bpe")


def data() -> Path:
    folder = Path(os.environ.get("GPT1_DATA") or "absent")
    if not (folder / "books").is_dir():
        sys.exit("no real text: set GPT1_DATA to a folder with books/*.txt.xz and openai/")
    return folder


def books(every: int = 1) -> list[str]:
    return [lzma.open(path, "rt", newline="").read() for path in sorted(data().glob(BOOKS))[::every]]


def megabytes(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


# --- one measurement: what a fresh process does ----------------------------------------------------------------


def timed(texts: list[str], work: Callable[[], object]) -> dict[str, float]:
    began = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - began, "megabytes": megabytes(texts)}


def measure_reference() -> dict[str, float]:
    from gpt1.text.pieces import pieces
    from tests.reference.words import ReferenceWords

    vocabulary = json.loads((data() / OPENAI[0]).read_text())
    merges = [tuple(line.split()) for line in (data() / OPENAI[1]).read_text().split("\n")[1:-1]]
    reference = ReferenceWords(vocabulary, merges)  # type: ignore[arg-type]
    texts = books(every=10)
    return timed(texts, lambda: [reference.encode(piece) for text in texts for piece in pieces([text])])


def measure_transformers() -> dict[str, float]:
    from transformers import OpenAIGPTTokenizer

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.json").write_bytes((data() / OPENAI[0]).read_bytes())
        Path(folder, "merges.txt").write_bytes((data() / OPENAI[1]).read_bytes())
        tokenizer = OpenAIGPTTokenizer.from_pretrained(folder)
    texts = books(every=10)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return timed(texts, lambda: [tokenizer(text)["input_ids"] for text in texts])


def ours() -> Any:
    from gpt1.text.tokenizer import Tokenizer
    from gpt1.text.training import import_tokenizer

    # Importing takes a probe, which warms nothing of what is measured: a new tokenizer starts cold.
    return Tokenizer(import_tokenizer(data() / OPENAI[0], data() / OPENAI[1]).vocabulary)


def measure_ours_cold() -> dict[str, float]:
    tokenizer, texts = ours(), books()
    return timed(texts, lambda: tokenizer.encode_flat(texts))


def measure_ours_warm() -> dict[str, float]:
    tokenizer, texts = ours(), books()
    tokenizer.encode_flat(texts)
    return timed(texts, lambda: tokenizer.encode_flat(texts))


_tokenizer: Any = None


def _begin() -> None:
    global _tokenizer
    _tokenizer = ours()


def _encode(texts: list[str]) -> int:
    return len(_tokenizer.encode_flat(texts)[0])


def measure_ours_all_cores() -> dict[str, float]:
    from benchmarks.text import _begin, _encode  # workers import what they run; they do not run this script
    from gpt1.base.parallel import cores, ordered_map

    texts = books()
    batches = [texts[start : start + 8] for start in range(0, len(texts), 8)]
    return timed(texts, lambda: sum(ordered_map(_encode, batches, workers=cores(), initializer=_begin, initargs=())))


def measure_train() -> dict[str, Any]:
    from gpt1 import train_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        texts = books()
        texts = [*texts, *texts, *texts[: int(0.4 * len(texts))]]  # 200 MB: the books 2.4 times
        for number, text in enumerate(texts):
            Path(folder, f"{number:04}.txt").write_text(text, newline="")
        began = time.perf_counter()
        tokenizer = train_tokenizer([folder], "words", 40_000)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "megabytes": megabytes(texts), "fingerprint": tokenizer.fingerprint}


def measure_prepare(source: str, workers: str) -> dict[str, float]:
    from gpt1 import prepare

    with tempfile.TemporaryDirectory(dir=Path(source).parent) as out:
        tokenizer = ours()
        began, cpu_before = time.perf_counter(), cpu_seconds()
        corpus = prepare([source], tokenizer, out, workers=int(workers), duplicates="keep")
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu_before
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    text_bytes = sum(split["bytes"] for split in corpus["splits"].values())
    return {"seconds": seconds, "cpu": cpu, "megabytes": text_bytes / 1e6, "peak_megabytes": largest / 1024}


def cpu_seconds() -> float:
    """Return what this process and its finished children took: less at the mercy of what else runs than the clock."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


# --- the tables ------------------------------------------------------------------------------------------------


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.text", "--measure", name, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"a measurement failed: {process.args}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def table_encode(rounds: int, file: Path | None) -> None:
    contenders = {
        "gpt1, cold": "ours_cold",
        "gpt1, warm": "ours_warm",
        "gpt1, all cores, start included": "ours_all_cores",
        "our literal reference": "reference",
        "transformers (other ids)": "transformers",
    }

    def rate(name: str) -> float:
        result = finish(start(name))
        return float(result["megabytes"] / result["seconds"])

    found = interleave({title: partial(rate, name) for title, name in contenders.items()}, rounds)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    tell(measured("the paper's tokenizer, one process", "MB/s", machine, found), file)


def table_train(rounds: int) -> None:
    results = [finish(start("train")) for _ in range(max(2, rounds))]
    same = len({result["fingerprint"] for result in results}) == 1
    seconds = statistics.median(result["seconds"] for result in results)
    print(f"\n40,000 merges from {results[0]['megabytes']:.0f} MB: {seconds:.1f} s; identical every time: {same}")


def table_prepare(rounds: int, copies: int) -> None:
    from gpt1.base.parallel import cores

    workers = cores()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text")
        source.mkdir()
        for copy in range(copies):
            for number, text in enumerate(books()):
                (source / f"{copy}-{number:04}.txt").write_text(text, newline="")
        alone, side_by_side, together, peak = [], [], [], 0.0
        cpu: dict[int, list[float]] = {1: [], workers: []}
        for _ in range(rounds):
            result = finish(start("prepare", str(source), "1"))
            alone.append(result["seconds"])
            cpu[1].append(result["cpu"])
            pair = [start("prepare", str(source), "1") for _ in range(workers)]
            side_by_side.append(max(finish(process)["seconds"] for process in pair))
            result = finish(start("prepare", str(source), str(workers)))
            together.append(result["seconds"])
            cpu[workers].append(result["cpu"])
            peak = max(peak, result["peak_megabytes"])
    one, many = statistics.median(alone), statistics.median(together)
    machine = workers * one / statistics.median(side_by_side)
    print(f"\nprepare, {result['megabytes']:.0f} MB of plain text end to end")
    for count, seconds in ((1, one), (workers, many)):
        rate, spent = result["megabytes"] / seconds, statistics.median(cpu[count])
        print(f"{count} worker(s) {seconds:7.1f} s {rate:7.1f} MB/s, {one / seconds:.2f}x, {spent:.1f} CPU s")
    share = one / many / machine
    print(f"{workers} independent processes get {machine:.2f}x from this machine; prepare reaches {share:.0%} of that")
    print(f"largest process: {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["encode", "train", "prepare"])
    parser.add_argument("--copies", type=int, default=12, help="prepare: how often the books are read (default 12)")
    parser.add_argument("--json", type=Path, default=None, help="add what was found of encoding to this file")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        name, *rest = arguments.measure
        print(json.dumps(globals()[f"measure_{name}"](*rest)))
        return
    data()
    if arguments.only in (None, "encode"):
        table_encode(arguments.rounds, arguments.json)
    if arguments.only in (None, "train"):
        table_train(arguments.rounds)
    if arguments.only in (None, "prepare"):
        table_prepare(arguments.rounds, arguments.copies)


if __name__ == "__main__":
    main()
