"""Folders made before records and lines had checksums are read as ever, and what goes on with them is sealed.

`tests/golden/before` was made by the version before: a tokenizer, a corpus, an encoded table, a pre-trained run, and
two seeds fine-tuned from it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gpt1.base.records import LINE_SEAL, SEAL
from gpt1.corpus.manifest import read_corpus
from gpt1.finetuning.results import results
from gpt1.finetuning.seeds import read_result
from gpt1.inference.run import load_run
from gpt1.pretraining.pretrain import pretrain
from gpt1.report.gather import gather
from gpt1.runs.folder import read_run
from gpt1.tasks.encoded import load
from gpt1.text.tokenizer import load_tokenizer

BEFORE = Path(__file__).parent / "golden" / "before"


def test_folders_made_before_are_read() -> None:
    assert load_tokenizer(BEFORE / "tokenizer.json").decode([5]) is not None
    assert read_corpus(BEFORE / "corpus").splits["train"].tokens > 1000
    assert load(BEFORE / "encoded").vocab_size == read_run(BEFORE / "books").vocab_size
    books, seeds = gather([BEFORE / "books", BEFORE / "seeds"])
    assert books.progress is not None
    assert books.progress.step == 6
    assert books.samples
    assert books.attention is not None
    assert books.log is not None
    assert books.log.notices[0].startswith("recipe tiny: 2,152 parameters")
    assert seeds.seeds is not None
    assert seeds.evaluations
    assert read_result(BEFORE / "seeds" / "seed-1")["reviews"]["dev"]["accuracy"] >= 0
    assert results(load_run(BEFORE / "seeds", device="cpu"))["seeds"]


def test_a_run_begun_before_goes_on_with_checksums(tmp_path: Path) -> None:
    run = Path(shutil.copytree(BEFORE / "books", tmp_path / "books"))
    pretrain(None, BEFORE / "corpus", run, resume=True, changes=["training.steps=8"], device="cpu")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    assert [line["step"] for line in lines if LINE_SEAL in line and "loss" in line] == [7, 8]
    assert {line["step"] for line in lines if LINE_SEAL not in line} == {1, 2, 3, 4, 5, 6}
    assert SEAL in json.loads((run / "run.json").read_bytes())
    (gathered,) = gather([run])
    assert gathered.log is not None
    assert any("going on from update 6 of 8" in line for line in gathered.log.notices)  # all in the one log it has
    assert gathered.log.notices[0].startswith("recipe tiny: 2,152 parameters")
