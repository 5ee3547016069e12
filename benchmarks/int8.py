"""What int8 costs in accuracy and gains in speed, on the runs of a demo.

    gpt1 demo
    python benchmarks/int8.py gpt1-demo
    python benchmarks/int8.py RUN --rows dev.jsonl     # any fine-tuned run, and rows with its fields and `label`

For each fine-tuned run of a demo: accuracy on its test rows as it is and in int8, on how many rows the two differ, and
how much faster int8 is. For the run that has only read: perplexity of the tests' texts, which it has not read, the
matrix that makes logits in int8 too. Both ways in one process, taking turns; the fastest of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from gpt1.base.devices import device_name
from gpt1.base.tables import read_rows
from gpt1.inference.run import Run, load_run

Answer = TypeVar("Answer")


def both(folder: Path) -> dict[str, Run]:
    """Open a run as it is, and in int8."""
    return {"plain": load_run(folder, device="cpu"), "int8": load_run(folder, device="cpu", int8=True)}


def timed(runs: dict[str, Run], ask: Callable[[Run], Answer], rounds: int) -> dict[str, tuple[Answer, float]]:
    """Return what each run answers, and its best time."""
    found: dict[str, tuple[Answer, float]] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            answer = ask(run)
            seconds = time.perf_counter() - began
            found[name] = (answer, min(seconds, found[name][1] if name in found else seconds))
    return found


def perplexity(run: Run, texts: Sequence[str]) -> float:
    """Return the perplexity of texts, by the very scores that writing draws from."""
    total, count = 0.0, 0
    for ids in run.tokenizer.encode_batch(texts):
        ids_T = torch.tensor(ids[: run.recipe.shape.context])
        with torch.no_grad():
            hidden_1TC, output_VC = run.network(ids_T.unsqueeze(0))
            logs_TV = run.network.logits(hidden_1TC[0], output_VC).log_softmax(-1)
        total -= float(logs_TV[:-1].gather(1, ids_T[1:, None]).sum())
        count += len(ids_T) - 1
    return math.exp(total / count)


def accuracy(rows: Sequence[Mapping[str, Any]], answers: Sequence[dict[str, Any]]) -> float:
    """Return the share of rows that are answered rightly."""
    return sum(str(row["label"]) == str(one["prediction"]) for row, one in zip(rows, answers, strict=True)) / len(rows)


def compare(folder: Path, rows: Sequence[Mapping[str, Any]], rounds: int) -> None:
    """Have a fine-tuned run answer rows both ways, and print what it says."""
    runs = both(folder)
    (task,) = runs["plain"].tasks.values()
    asked = [{name: row[name] for name in task.fields} for row in rows]
    found = timed(runs, lambda run: list(run.predict(asked)), rounds)
    (plain, slow), (small, fast) = found["plain"], found["int8"]
    changed = sum(a["prediction"] != b["prediction"] for a, b in zip(plain, small, strict=True))
    row = {"task": task.name, "rows": len(rows), "as_it_is": str(runs["plain"].network.compute)}
    scores = {"accuracy": accuracy(rows, plain), "int8": accuracy(rows, small), "answers_changed": changed}
    print(json.dumps({**row, **scores, "times_faster": round(slow / fast, 2)}), flush=True)


def compare_demo(demo: Path, rounds: int) -> None:
    """Compare each fine-tuned run of a demo on its test, and the reader on the texts of all."""
    texts: list[str] = []
    for folder in sorted((demo / "runs").glob("*-pretrained")):
        (task,) = load_run(folder, device="cpu").tasks.values()
        rows = table(demo / "world" / "tasks" / task.name / "test.jsonl")
        texts += [str(row[task.fields[0]]) for row in rows]
        compare(folder, rows, rounds)
    reader = both(demo / "reader")
    told = {name: round(perplexity(run, texts), 4) for name, run in reader.items()}
    print(json.dumps({"perplexity": told, "texts": len(texts), "as_it_is": str(reader["plain"].network.compute)}))


def table(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a file."""
    return [cells for _, cells in read_rows(path)]


def main() -> None:
    """Ask a run, or the runs of a demo, and print what they say both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(device_name(torch.device("cpu")))
    if given.rows is None:
        compare_demo(given.folder, given.rounds)
    else:
        compare(given.folder, table(given.rows), given.rounds)


if __name__ == "__main__":
    main()
