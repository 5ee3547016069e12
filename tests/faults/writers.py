"""Every verb that writes, as a command of the small world, and how it is started again after a kill."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.processes import Step, verb
from tests.faults.world import (
    CPU,
    ENCODE,
    FINETUNE,
    LABELS,
    NETWORK,
    PREPARE,
    PRETRAIN,
    STUDY,
    TRAIN_TOKENIZER,
    TUNE,
    ZEROSHOT,
    save_estimator,
    settings,
)


@dataclass(frozen=True)
class Writer:
    """A verb, and how it goes on: with --resume where that is documented, else by the same command.

    `once`: what it has made is not made again, so that after its end the same command is refused.
    """

    name: str
    start: Step
    again: Step
    once: bool = False

    @property
    def small(self) -> bool:
        """Whether a small world has all that it reads, and it is done quickly."""
        return self.name in SMALL


def same(name: str, *words: str) -> Writer:
    """Return a writer that is started again by the same command."""
    return Writer(name, verb(*words), verb(*words))


def once(name: str, *words: str) -> Writer:
    """Return a writer of one result, which the same command makes after a kill, and leaves alone after its end."""
    return Writer(name, verb(*words), verb(*words), once=True)


def resumed(name: str, *words: str) -> Writer:
    """Return a writer that is started again with --resume."""
    return Writer(name, verb(*words), verb(*words, "--resume"))


MORE = ("pretrain", "--init", "runs/books", "--corpus", "corpus", "--out", "new", "--steps", "2", *CPU)
STUDENT = ("--recipe", "tiny", "--corpus", "corpus", "--steps", "4", *settings(NETWORK), *CPU)
TABLE = ("--train", "reviews.csv")
OBJECTIVES = ("study", "objectives", "--causal", "runs/books", "--mixed", "runs/mixed")
DOMAIN = ("study", "domain", "--init", "runs/books", "--corpus", "corpus", "--old", "corpus", "--shares", "0.5")
PREDICT = ("predict", "runs/reviews", "reviews.csv", "--out", "new.csv", *CPU)
SUSPECT = ("labels", "suspect", "runs/reviews", "reviews.csv", *CPU)
NEXT = ("labels", "next", "runs/reviews", "unlabelled.csv", "--count", "2", *CPU)

WRITERS = (
    once("tokenizer train", *TRAIN_TOKENIZER, "--out", "new.json"),
    same("prepare", *PREPARE, "--out", "new", "--workers", "1"),
    same("prepare, two workers", *PREPARE, "--out", "new", "--workers", "2"),
    same("prepare --part", *PREPARE, "--out", "new", "--workers", "1", "--part", "1/1"),
    same("prepare --task", *ENCODE, "--out", "new"),
    resumed("pretrain", *PRETRAIN, "--out", "new"),
    resumed("pretrain --init", *MORE),
    resumed("distill", "distill", "--teacher", "runs/books", *STUDENT, "--out", "new"),
    resumed("distill --train", "distill", "--teacher", "runs/reviews", *FINETUNE[1:], "--out", "new"),
    resumed("finetune", *FINETUNE, "--out", "new"),
    resumed("finetune --seeds", *FINETUNE, "--out", "new", "--seeds", "2"),
    same("tune", *TUNE, "--out", "new"),
    same("evaluate", "evaluate", "runs/reviews", *CPU),
    Writer("predict --out", verb(*PREDICT), verb(*PREDICT, "--resume"), once=True),
    once("zeroshot --out", "zeroshot", "runs/books", "--task", "sst2", "--data", "tasks", "--out", "new.jsonl", *CPU),
    once("labels suspect", *SUSPECT, "--out", "new.csv"),
    once("labels next", *NEXT, "--out", "new.csv"),
    same("study labels", *LABELS, "--out", "new"),
    same("study transfer", "study", "transfer", "--init", "runs/books", *TABLE, "--out", "new", *STUDY),
    same("study zeroshot", *ZEROSHOT, "--out", "new"),
    same("study ablations", "study", "ablations", "--init", "runs/books", *TABLE, "--out", "new", *STUDY),
    same("study objectives", *OBJECTIVES, *TABLE, "--out", "new", *STUDY),
    same("study augmentation", "study", "augmentation", *LABELS[2:], "--arms", "swaps,r-drop", "--out", "new"),
    same("study domain", *DOMAIN, "--read", "training.steps=2", *TABLE, "--out", "new", *STUDY),
    same("reproduce", "reproduce", "--init", "runs/books", "--data", "tasks", "--out", "new", *STUDY),
    once("report", "report", "runs/books", "runs/reviews", "studies/labels", "--out", "new.html"),
    once("card", "card", "runs/reviews", "--out", "new.md"),
    once("prune", "prune", "runs/reviews", "--feed-forward", "16", "--out", "new", *CPU),
    once("export transformers", "export", "transformers", "runs/books", "--out", "new"),
    once("export onnx", "export", "onnx", "runs/books", "--out", "new.onnx"),
    once("export compact", "export", "compact", "runs/reviews", "--out", "new"),
    same("lessons", "lessons", "prose.txt", "--tokenizer", "tokenizer.json", "--out", "new", "--workers", "1"),
    once("import transformers", "import", "transformers", "for-transformers", "--out", "new", *CPU),
    Writer("estimator save", lambda: save_estimator("new"), lambda: save_estimator("new"), once=True),
)
SMALL = ("tokenizer train", "prepare", "prepare --task", "pretrain", "predict --out", "export transformers")
