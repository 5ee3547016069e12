"""Which way of teaching lessons suits a network? `python tools/lessons.py BASE TASKS --blimp PAIRS --out judged`.

BASE is what `python tools/base.py ... --until pretrained` left, TASKS a folder of tasks. Each of `WAYS` is taught to
the same network, also averaged with it and after reading again, and all are judged by what the lessons cost the
language model (bits a byte on validation text, BLiMP) and by what they bring: nine tasks from 200 labels, two draws.
A tenth of the rows for training judges; those for dev are not looked at. The best is, of those that cost the language
model little, the one with the highest mean: its runs are put into BASE, and the last line has the options with which
`tools/base.py` makes a base of them. Given again, it goes on. Processes work side by side on one GPU, best under CUDA's
Multi-Process Service.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

from base import KEPT, PRETRAINED, REREAD, TAUGHT, average, read_again  # tools/base.py
from figures import TASKS, side_by_side  # tools/figures.py

from gpt1 import finetune, load_run
from gpt1.base.files import make_folder, read_json, whole_file
from gpt1.finetuning.data import Source
from gpt1.finetuning.seeds import is_done
from gpt1.inference.blimp import blimp, read_pairs
from gpt1.pretraining.measure import measure_corpus
from gpt1.runs.folder import is_run
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.labels import study_labels

WAYS = {
    "recipe": [],
    "light": ["finetuning.lm_weight=0.5"],
    "dropped": ["shape.dropout=0.1", "finetuning.lm_weight=4"],
}
KEEP = 0.5
READ = 500  # updates
LITTLE = 0.03  # bits a byte that lessons may cost
LABELS, DRAWS = 200, 2
MOST_TRAIN, FEWEST_JUDGING, MOST_JUDGING = 6_000, 300, 1_500  # rows


def tenths(
    tasks: Path,
    out: Path,
    names: Sequence[str] | None = None,
    *,
    most_train: int = MOST_TRAIN,
    most_judging: int = MOST_JUDGING,
) -> None:
    """Make tasks of the rows for training alone: a tenth of them stands where those for dev did."""
    for name in TASKS if names is None else names:
        ((_, rows),) = shuffled_rows(tasks / name, "train")
        judging = max(len(rows) // 10, min(FEWEST_JUDGING, len(rows) // 2))
        parts = {
            "train": rows[judging:][:most_train],
            "dev_matched" if name == "mnli" else "dev": rows[:judging][:most_judging],
        }
        make_folder(out / name)
        for split, some in parts.items():
            with whole_file(out / name / f"{split}.jsonl") as written:
                written.write("".join(some).encode())


def shuffled_rows(task: Path, split: str = "*") -> Iterator[tuple[str, list[str]]]:
    """Yield the splits of a task with their rows, which stand in another order than in the files, always the same."""
    for path in sorted([*task.glob(f"{split}.jsonl"), *task.glob(f"{split}.jsonl.xz")]):
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            rows = file.readlines()
        Random(0).shuffle(rows)
        yield path.name.partition(".")[0], rows


def teach(given: argparse.Namespace, way: str) -> None:
    """Teach the lessons in one way, unless that is done."""
    taught, kept, reread = given.out / way, given.out / f"{way}-{KEPT}", given.out / f"{way}-{REREAD}"
    lessons = sorted((given.base / "lessons").iterdir())
    if not is_done(taught):
        begun = is_run(taught)
        finetune(given.base / PRETRAINED, taught, encoded=lessons, recipe="lessons", resume=begun, changes=WAYS[way])
    if not is_run(kept):
        average(given.base / PRETRAINED, taught, kept, KEEP)
    if not is_run(reread):
        read_again(taught, given.base / "corpus", reread, [*given.pretraining, f"training.steps={READ}"])


def judge(given: argparse.Namespace, name: str) -> None:
    """Judge one network and write what was found."""
    run = load_run(place(given, name))
    found = {
        "bits a byte": measure_corpus(run, given.base / "corpus")["bits_per_byte"],
        "BLiMP": 100 * blimp(run, read_pairs(given.blimp)).accuracy,
    }
    cells = given.out / f"{name}-cells"
    study_labels(
        place(given, name),
        cells,
        source=Source(tasks=list(TASKS), data=str(given.out / "tasks")),
        training=FinetuningSettings(changes=["logging.save_every=1000000"], seeds=DRAWS),
        counts=[LABELS],
        arms=["pre-trained"],
    )
    scores: dict[str, list[float]] = {}
    for path in sorted(cells.glob("cells/*/cell.json")):
        task = path.parent.name.split("-")[1]
        scores.setdefault(task, []).append(100 * read_json(path, "a cell")["result"]["score"])
    found |= {task: fmean(scores[task]) for task in TASKS}
    found["mean"] = fmean(found[task] for task in TASKS)
    with whole_file(given.out / f"{name}.json") as file:
        file.write(json.dumps(found).encode())


def place(given: argparse.Namespace, name: str) -> Path:
    """Return where a network lies that is judged."""
    folder: Path = given.base / PRETRAINED if name == PRETRAINED else given.out / name
    return folder


def best_of(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the network with the highest mean of those that lost little; if none did, the one that lost least."""
    bits = {name: figures["bits a byte"] for name, figures in found.items() if name != PRETRAINED}
    fit = [name for name in bits if bits[name] <= found[PRETRAINED]["bits a byte"] + LITTLE]
    return max(fit, key=lambda name: found[name]["mean"]) if fit else min(bits, key=lambda name: bits[name])


def way_of(name: str) -> str:
    """Return in which way a network was taught."""
    return name.removesuffix(f"-{KEPT}").removesuffix(f"-{REREAD}")


def put_into_base(given: argparse.Namespace, name: str) -> None:
    """Copy the runs of a network to where `tools/base.py` would make them."""
    runs = {TAUGHT: way_of(name)} | {stage: name for stage in (KEPT, REREAD) if name.endswith(f"-{stage}")}
    for stage, run in runs.items():
        shutil.rmtree(given.base / stage, ignore_errors=True)  # of an earlier choice
        shutil.copytree(given.out / run, given.base / stage)


def options_for(name: str) -> str:
    """Return how `tools/base.py` makes a network of that name."""
    way = way_of(name)
    after = {way: [], f"{way}-{KEPT}": ["--keep", f"{KEEP:g}"], f"{way}-{REREAD}": ["--reread", str(READ)]}
    return " ".join([*(["--lessons", *WAYS[way]] if WAYS[way] else []), *after[name]])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--blimp", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pretraining", nargs="*", default=[], metavar="NAME=VALUE", help="as BASE was made with")
    parser.add_argument("--teach", metavar="WAY", help="this one alone")
    parser.add_argument("--judge", metavar="NAME", help="this one alone")
    given = parser.parse_args()
    if given.teach is not None:
        teach(given, given.teach)
        return
    if given.judge is not None:
        judge(given, given.judge)
        return
    tenths(given.tasks, given.out / "tasks")
    side_by_side([["--teach", way] for way in WAYS])
    names = [PRETRAINED, *WAYS, *(f"{way}-{after}" for way in WAYS for after in (KEPT, REREAD))]
    side_by_side([["--judge", name] for name in names])
    judged = {name: given.out / f"{name}.json" for name in names}
    found = {name: read_json(path, "what was found of a network") for name, path in judged.items() if path.exists()}
    columns = list(found[PRETRAINED])
    print(f"{'':20}", *(f"{column[:11]:>11}" for column in columns))
    for name, figures in found.items():
        print(f"{name:20}", *(f"{figures[column]:11.{4 if column == columns[0] else 1}f}" for column in columns))
    best = best_of(found)
    put_into_base(given, best)
    print(options_for(best))


if __name__ == "__main__":
    main()
