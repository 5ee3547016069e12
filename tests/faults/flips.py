"""One bit of one file is turned over, and a reader of that file is asked: it must refuse by name, or find the same.

python -m tests.faults.flips --count 1000 --seed 1
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tests.faults.processes import Ending, Step, run, verb
from tests.faults.results import Tree, constant_text, differences, tree_of
from tests.faults.tables import Finding, Trial
from tests.faults.world import (
    CPU,
    ENCODE,
    FINETUNE,
    LABELS,
    LEARNING,
    PREPARE,
    PRETRAIN,
    TUNE,
    ZEROSHOT,
    World,
    settings,
)

# Refused with the file's name, or with that of its folder alone; told of on the way to an answer; as if undisturbed.
REFUSED, BY_FOLDER, TOLD, SAME, FOUND = "refused by name", "by folder", "told, went on", "same result", "findings"
OUTCOMES = (REFUSED, BY_FOLDER, TOLD, SAME, FOUND)


def ask_estimator() -> None:
    """Load the saved estimator and print what it answers."""
    from gpt1 import GPTClassifier

    classifier = GPTClassifier.load("estimator", device="cpu")
    print(classifier.predict(["Ann sold 3 apples", "Tom lost it"]), classifier.predict_proba(["Ann sold 3 apples"]))


def ask_base() -> None:
    """Open the base and print what it writes."""
    from gpt1 import load_base
    from gpt1.bases import catalog

    catalog.PACKAGED = Path("bases").resolve()
    print(load_base("small", device="cpu").generate("Ann sold", max_new_tokens=12, temperature=0))


READERS: dict[str, tuple[Step, ...]] = {
    "tokenizer encode": (verb("tokenizer", "encode", "lines.txt", "--tokenizer", "tokenizer.json"),),
    "prepare": (verb(*PREPARE, "--out", "new", "--workers", "1"),),
    "prepare again": (verb(*PREPARE, "--out", "corpus", "--workers", "1"),),
    "prepare goes on": (verb(*PREPARE, "--out", "half", "--workers", "1"),),
    "prepare goes on, two workers": (verb(*PREPARE, "--out", "half-of-two", "--workers", "2"),),
    "prepare --task": (verb(*ENCODE, "--out", "new"),),
    "prepare --task again": (verb(*ENCODE, "--out", "encoded"),),
    "pretrain": (verb(*PRETRAIN, "--out", "new"),),
    "pretrain --init": (
        verb("pretrain", "--init", "runs/books", "--corpus", "corpus", "--out", "new", "--steps", "2", *CPU),
    ),
    "pretrain --resume": (verb(*PRETRAIN, "--out", "runs/half-books", "--resume"),),
    "pretrain --resume, done": (verb(*PRETRAIN, "--out", "runs/books", "--resume"),),
    "evaluate text": (verb("evaluate", "runs/books", "--json", *CPU),),
    "evaluate --corpus": (verb("evaluate", "runs/books", "--corpus", "corpus", "--split", "train", "--json", *CPU),),
    "generate": (verb("generate", "runs/books", "Ann sold", "--max-new-tokens", "12", "--json", *CPU),),
    "generate, half": (verb("generate", "runs/half-books", "Ann sold", "--max-new-tokens", "12", "--json", *CPU),),
    "zeroshot": (verb("zeroshot", "runs/books", "--task", "sst2", "--data", "tasks", "--out", "new.jsonl", *CPU),),
    "export": (verb("export", "transformers", "runs/books", "--out", "new"),),
    "finetune": (verb(*FINETUNE, "--out", "new"),),
    "finetune --encoded": (
        verb(
            *("finetune", "--init", "runs/books", "--encoded", "encoded", "--out", "new", "--steps", "2"),
            *settings(LEARNING[:1] + LEARNING[2:]),
            *CPU,
        ),
    ),
    "finetune --resume": (verb(*FINETUNE, "--out", "runs/half-reviews", "--resume"),),
    "finetune --resume, done": (verb(*FINETUNE, "--out", "runs/reviews", "--resume"),),
    "finetune --seeds again": (verb(*FINETUNE, "--out", "runs/seeds", "--seeds", "2", "--resume"),),
    "finetune --seeds more": (verb(*FINETUNE, "--out", "runs/seeds", "--seeds", "3", "--resume"),),
    "tune again": (verb(*TUNE, "--out", "tuned"),),
    "predict": (verb("predict", "runs/reviews", "reviews.csv", *CPU),),
    "predict, seeds": (verb("predict", "runs/seeds", "reviews.csv", *CPU),),
    "predict, estimator": (verb("predict", "estimator", "reviews.csv", *CPU),),
    "evaluate answers": (verb("evaluate", "runs/reviews", "--json", *CPU),),
    "evaluate --encoded": (verb("evaluate", "runs/reviews", "--encoded", "encoded", "--json", *CPU),),
    "report, pre-trained": (verb("report", "runs/books", "--out", "new.html"),),
    "report, fine-tuned": (verb("report", "runs/reviews", "--out", "new.html"),),
    "report, seeds": (verb("report", "runs/seeds", "--out", "new.html"),),
    "report, studies": (verb("report", "studies/labels", "studies/zeroshot", "--out", "new.html"),),
    "study labels again": (verb(*LABELS, "--out", "studies/labels"),),
    "study labels goes on": (verb(*LABELS, "--out", "studies/half-labels"),),
    "study zeroshot again": (verb(*ZEROSHOT, "--out", "studies/zeroshot"),),
    "estimator load": (ask_estimator,),
    "base": (ask_base,),
    "import, generate": (
        verb("import", "transformers", "for-transformers", "--out", "new", *CPU),
        verb("generate", "new", "Ann sold", "--max-new-tokens", "12", "--json", *CPU),
    ),
}

# All that they read is in a small world.
SMALL = (
    *("tokenizer encode", "prepare again", "evaluate --corpus", "pretrain --resume, done", "generate", "predict"),
    *("evaluate answers", "report, pre-trained", "report, fine-tuned"),
)

OF_BOOKS = ("generate", "evaluate text", "finetune", "pretrain --init", "pretrain --resume, done", "zeroshot", "export")
OF_REVIEWS = ("predict", "evaluate answers", "finetune --resume, done")
OF_SEEDS = ("predict, seeds", "finetune --seeds again", "finetune --seeds more", "report, seeds")
OF_TRAIN = ("pretrain", "evaluate --corpus", "pretrain --resume", "prepare again")
OF_VALID = ("pretrain", "evaluate text", "pretrain --resume", "prepare again")
OF_HALF = ("pretrain --resume", "generate, half")
OF_LABELS = ("study labels again", "report, studies")


@dataclass(frozen=True)
class Kind:
    """A kind of file, where such files lie, and who reads them."""

    name: str
    patterns: tuple[str, ...]
    readers: tuple[str, ...]


KINDS = (
    Kind("tokenizer.json", ("tokenizer.json",), ("tokenizer encode", "prepare", "prepare --task")),
    Kind("tokenizer of a corpus", ("corpus/tokenizer.json",), ("pretrain", "prepare again", "evaluate --corpus")),
    Kind("corpus.json", ("corpus/corpus.json",), ("pretrain", "evaluate --corpus", "evaluate text", "prepare again")),
    Kind(
        "train shard", ("corpus/train*.tok",), ("pretrain", "evaluate --corpus", "pretrain --resume", "prepare again")
    ),
    Kind("valid shard", ("corpus/valid*.tok",), OF_VALID),
    Kind("prepare: batch", ("half/.gpt1-work/*/*.npz",), ("prepare goes on",)),
    Kind("prepare: lot", ("half/.gpt1-work/*/lot.json",), ("prepare goes on",)),
    Kind("prepare: log", ("half/.gpt1-work/at-work/*",), ("prepare goes on",)),
    Kind("prepare: plan", ("half/.gpt1-work/plan.json",), ("prepare goes on",)),
    Kind("prepare: sketches", ("half/.gpt1-work/sketches",), ("prepare goes on",)),
    Kind("prepare: lesson", ("half-of-two/.gpt1-work/lessons/*/*",), ("prepare goes on, two workers",)),
    Kind("prepare: unfinished", ("half/*.tok", "half/tokenizer.json"), ("prepare goes on",)),
    Kind("task.json", ("encoded/task.json",), ("finetune --encoded", "evaluate --encoded", "prepare --task again")),
    Kind("encoded split", ("encoded/*.encoded",), ("finetune --encoded", "evaluate --encoded", "prepare --task again")),
    Kind("run.json, pre-trained", ("runs/books/run.json",), (*OF_BOOKS, "report, pre-trained")),
    Kind("run.json, half", ("runs/half-books/run.json",), OF_HALF),
    Kind("run.json, fine-tuned", ("runs/reviews/run.json",), (*OF_REVIEWS, "report, fine-tuned")),
    Kind("run.json, half fine-tuned", ("runs/half-reviews/run.json",), ("finetune --resume",)),
    Kind("tokenizer, pre-trained", ("runs/books/tokenizer.json",), OF_BOOKS),
    Kind("tokenizer, half", ("runs/half-books/tokenizer.json",), OF_HALF),
    Kind("tokenizer, fine-tuned", ("runs/reviews/tokenizer.json",), OF_REVIEWS),
    Kind("tokenizer, half fine-tuned", ("runs/half-reviews/tokenizer.json",), ("finetune --resume",)),
    Kind("weights, pre-trained", ("runs/books/checkpoints/*/model.safetensors",), OF_BOOKS),
    Kind(
        "weights, half", ("runs/half-books/checkpoints/*/model.safetensors",), ("pretrain --resume", "generate, half")
    ),
    Kind("weights, fine-tuned", ("runs/reviews/checkpoints/*/model.safetensors",), OF_REVIEWS),
    Kind("weights, half fine-tuned", ("runs/half-reviews/checkpoints/*/model.safetensors",), ("finetune --resume",)),
    Kind("moments", ("runs/half-*/checkpoints/*/optimizer.safetensors",), ("pretrain --resume", "finetune --resume")),
    Kind("moments, done", ("runs/books/checkpoints/*/optimizer.safetensors",), ("pretrain --resume, done", "generate")),
    Kind("state.json, pre-trained", ("runs/books/checkpoints/*/state.json",), OF_BOOKS),
    Kind("state.json, half", ("runs/half-books/checkpoints/*/state.json",), OF_HALF),
    Kind("state.json, fine-tuned", ("runs/reviews/checkpoints/*/state.json",), OF_REVIEWS),
    Kind("metrics.jsonl", ("runs/books/metrics.jsonl",), ("report, pre-trained", "pretrain --resume, done")),
    Kind("metrics.jsonl, half", ("runs/half-books/metrics.jsonl",), ("pretrain --resume",)),
    Kind(
        "metrics.jsonl, fine-tuned", ("runs/reviews/metrics.jsonl",), ("report, fine-tuned", "finetune --resume, done")
    ),
    Kind("samples.jsonl", ("runs/books/samples.jsonl",), ("report, pre-trained",)),
    Kind("samples.jsonl, half", ("runs/half-books/samples.jsonl",), ("pretrain --resume",)),
    Kind("attention.json", ("runs/books/attention.json",), ("report, pre-trained",)),
    Kind("log.txt", ("runs/books/log.txt", "runs/reviews/log.txt"), ("report, pre-trained", "report, fine-tuned")),
    Kind("events.jsonl", ("runs/books/events.jsonl",), ("report, pre-trained", "pretrain --resume, done")),
    Kind("events.jsonl, half", ("runs/half-reviews/events.jsonl",), ("finetune --resume",)),
    Kind("ensemble.json", ("runs/reviews/ensemble.json",), (*OF_REVIEWS, "report, fine-tuned")),
    Kind("calibration.json", ("runs/reviews/calibration.json",), (*OF_REVIEWS, "report, fine-tuned")),
    Kind("counted words", ("runs/reviews/words-*.safetensors",), OF_REVIEWS),
    Kind("evaluation", ("runs/reviews/evaluation*.json",), ("report, fine-tuned", "evaluate answers")),
    Kind("predictions", ("runs/reviews/predictions*.jsonl",), ("report, fine-tuned", "evaluate answers")),
    Kind("result.json", ("runs/reviews/result.json",), ("report, fine-tuned", "finetune --resume, done")),
    Kind("seeds.json", ("runs/seeds/seeds.json",), OF_SEEDS),
    Kind("result.json of a seed", ("runs/seeds/*/result.json",), OF_SEEDS),
    Kind("run.json of a seed", ("runs/seeds/*/run.json",), OF_SEEDS),
    Kind("evaluation of a seed", ("runs/seeds/*/evaluation*", "runs/seeds/*/predictions*"), ("report, seeds",)),
    Kind("tuning.json", ("tuned/tuning.json",), ("tune again",)),
    Kind("study.json", ("studies/labels/study.json",), OF_LABELS),
    Kind("study.json, zero-shot", ("studies/zeroshot/study.json",), ("study zeroshot again", "report, studies")),
    Kind("cell.json", ("studies/labels/cells/*/cell.json",), OF_LABELS),
    Kind("cell.json, half", ("studies/half-labels/cells/*/cell.json",), ("study labels goes on",)),
    Kind("cell.json, zero-shot", ("studies/zeroshot/cells/*/cell.json",), ("study zeroshot again", "report, studies")),
    Kind("predictions of a cell", ("studies/*/cells/**/predictions*",), (*OF_LABELS, "study zeroshot again")),
    Kind("table of a study", ("studies/*/*.csv",), (*OF_LABELS, "study zeroshot again")),
    Kind("run of a cell", ("studies/half-labels/cells/*/run/**/*",), ("study labels goes on",)),
    Kind("estimator.json", ("estimator/estimator.json",), ("estimator load",)),
    Kind("run of an estimator", ("estimator/**/*",), ("estimator load", "predict, estimator")),
    Kind("base.json", ("bases/small/base.json",), ("base",)),
    Kind("base", ("bases/small/**/*",), ("base",)),
    Kind("for transformers", ("for-transformers/*",), ("import, generate",)),
)


@dataclass(frozen=True)
class Flip:
    """A bit of a file, and who is to read it."""

    kind: str
    reader: str
    file: str
    byte: int
    bit: int

    def __str__(self) -> str:
        return f"{self.file}, byte {self.byte}, bit {self.bit}"


def draw_flips(world: World, count: int, seed: int) -> list[Flip]:
    """Return flips that are spread evenly over kinds, and over the readers of each."""
    kinds = _small_kinds() if world.small else list(KINDS)
    random.Random(seed).shuffle(kinds)  # so that a few flips are not always of the first kinds
    return [_draw(world, kinds[number % len(kinds)], number // len(kinds), seed) for number in range(count)]


def _small_kinds() -> list[Kind]:
    """Return the kinds of a small world, with those of their readers for which it is enough."""
    kinds = [replace(kind, readers=tuple(reader for reader in kind.readers if reader in SMALL)) for kind in KINDS]
    return [kind for kind in kinds if kind.readers]


def _draw(world: World, kind: Kind, turn: int, seed: int) -> Flip:
    draw = random.Random(f"{seed} {kind.name} {turn}")
    file = draw.choice(world.files(*kind.patterns))
    reader = kind.readers[turn % len(kind.readers)]
    return Flip(kind.name, reader, file, draw.randrange(world.size(file)), draw.randrange(8))


def turn_over(flip: Flip, folder: Path) -> bytes:
    """Turn the bit over and return what the file holds now."""
    path = folder / flip.file
    content = bytearray(path.read_bytes())
    content[flip.byte] ^= 1 << flip.bit
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # a disk that forgets does not tell
    return bytes(content)


Undisturbed = Callable[[str], tuple[Ending, Tree]]


def undisturbed_readers(world: World) -> Undisturbed:
    """Return what tells how a reader ends in the world as it was built."""

    @lru_cache(None)
    def ask(reader: str) -> tuple[Ending, Tree]:
        world.renew()
        ending = run(world.scene, READERS[reader])
        assert ending.ended_well, f"{reader} fails undisturbed: {ending.err}"
        return ending, tree_of(world.scene)

    return ask


def judge(world: World, flip: Flip, undisturbed: Undisturbed) -> tuple[str, str]:
    """Let the reader read; return the outcome, and for a finding what happened."""
    wanted, wanted_tree = undisturbed(flip.reader)
    world.renew()
    flipped = turn_over(flip, world.scene)
    ending = run(world.scene, READERS[flip.reader])
    named = _is_named(Path(flip.file).name, ending, wanted)
    last = (ending.err.strip().splitlines() or [""])[-1][:300]
    if ending.hung:
        return FOUND, "hangs"
    if ending.code < 0:
        return FOUND, f"ended by signal {-ending.code}"
    if not ending.ended_well:
        if not ending.error.startswith("gpt1:"):
            return FOUND, f"another error, {ending.error}: {last}"
        if not named and _is_named(str(Path(flip.file).parent), ending, wanted):
            return BY_FOLDER, last
        return (REFUSED, "") if named else (FOUND, f"refused, but the file is not named: {last}")
    other = _differences(world, flip, flipped, wanted_tree)
    if constant_text(ending.out) != constant_text(wanted.out):
        other.insert(0, "the answer is other")
    if named:
        return TOLD, ""
    return (FOUND, f"silently other: {'; '.join(other[:6])}") if other else (SAME, "")


def _differences(world: World, flip: Flip, flipped: bytes, wanted: Tree) -> list[str]:
    """Return what is other than undisturbed, but for the bit itself where the file still holds it, longer or not."""
    path = world.scene / flip.file
    content = path.read_bytes() if path.is_file() else b""
    if content[: flip.byte + 1] == flipped[: flip.byte + 1]:
        turn_over(flip, world.scene)
    return differences(tree_of(world.scene), wanted)


def _is_named(name: str, ending: Ending, undisturbed: Ending) -> bool:
    """Whether a file or folder is named in a line that is not said without the damage."""
    usual = set(constant_text(undisturbed.err).splitlines())
    return any(name in line for line in constant_text(ending.err).splitlines() if line not in usual)


def try_flips(world: World, count: int, seed: int) -> Trial:
    """Turn bits over, of each kind of file in turn."""
    undisturbed = undisturbed_readers(world)
    trial = Trial("flips", OUTCOMES)
    for flip in draw_flips(world, count, seed):
        outcome, what = judge(world, flip, undisturbed)
        trial.count(flip.kind, outcome)
        if what:
            (trial.findings if outcome == FOUND else trial.notes).append(
                Finding(flip.kind, flip.reader, str(flip), what)
            )
    return trial
