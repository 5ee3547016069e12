"""How much memory putting a corpus together takes, by the number of documents.

    python -m benchmarks.assembly [--documents 1000000] [--near 0.3] [--folder DIR]

Batches of short documents are written as `gpt1 prepare` would encode them, from random numbers, a share of them nearly
repeating earlier ones; then they are put together as it does. Memory is what Python and numpy hold at the most; what is
mapped from disk, which the system may take back at any time, is not in it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpt1.base.progress import Silent
from gpt1.corpus.assembly import assemble
from gpt1.corpus.documents import TextSource
from gpt1.corpus.duplicates import NUMBERS
from gpt1.corpus.manifest import WORK
from gpt1.text.tokenizer import load_tokenizer

IN_A_BATCH = 50_000
TOKENS = 40  # of a document
AGREEING = 110  # of the numbers of a sketch, where a document nearly repeats another


def write_batches(work: Path, documents: int, near: float) -> Iterator[Path]:
    """Write batches, each of documents of its own and of near copies of those of the first batch."""
    draw = np.random.default_rng(0)
    originals = draw.integers(1 << 32, size=(IN_A_BATCH, NUMBERS), dtype=np.uint32)
    for number, first in enumerate(range(0, documents, IN_A_BATCH)):
        count = min(IN_A_BATCH, documents - first)
        sketches = draw.integers(1 << 32, size=(count, NUMBERS), dtype=np.uint32) if number else originals[:count]
        copies = np.flatnonzero(draw.random(count) < near) if number else np.empty(0, np.int64)
        sketches[copies, :AGREEING] = originals[draw.integers(min(IN_A_BATCH, documents), size=len(copies)), :AGREEING]
        whole, path = np.ones(count, bool), work / f"{number:06}.npz"
        np.savez(
            path,
            ids=draw.integers(300, size=count * TOKENS).astype(np.uint16),
            first=whole,
            last=whole,
            tokens=np.full(count, TOKENS),
            joint=~whole,
            raw_bytes=np.full(count, 5 * TOKENS),
            unknown=np.zeros(count, np.int64),
            source=np.zeros(count, np.int32),
            digest=draw.integers(256, size=(count, 16), dtype=np.uint8),
            sketch=sketches,
            positions=np.frombuffer(
                repr([f"line {first + one}" for one in range(count)]).replace("'", '"').encode(), np.uint8
            ),
        )
        yield path


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--near", type=float, default=0.3, help="share of near copies (default 0.3)")
    parser.add_argument("--duplicates", default="near")
    parser.add_argument("--folder", help="where there is room (default: the system's for temporary files)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpt1-assembly-", dir=arguments.folder) as folder:
        out = Path(folder)
        (out / WORK).mkdir()
        batches = list(write_batches(out / WORK, arguments.documents, arguments.near))
        tracemalloc.start()
        began = time.process_time()
        corpus = assemble(
            batches,
            [],
            [TextSource("texts.txt", "txt")],
            load_tokenizer("small"),
            out,
            duplicates=arguments.duplicates,
            valid=0.01,
            shard_tokens=1 << 26,
            threads=1,
            progress=Silent(),
        )
        seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    dropped = sum(corpus.documents.dropped.values())
    print(
        f"{arguments.documents:,} documents, {dropped:,} dropped: {peak / 1e6:,.0f} MB of memory, {seconds:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
