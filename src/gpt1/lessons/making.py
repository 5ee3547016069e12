"""`gpt1 lessons`: unlabelled text in, encoded tasks out, which `gpt1 finetune` teaches side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.files import lock_folder
from gpt1.base.parallel import cores
from gpt1.base.progress import Progress, Silent, stage
from gpt1.base.wording import many
from gpt1.bases.catalog import run_or_base
from gpt1.corpus.batches import announce
from gpt1.corpus.documents import find_sources, read_parts
from gpt1.corpus.unwrap import HARD_WRAPPED
from gpt1.lessons.examples import LONG, MAKERS, Material, make_examples
from gpt1.lessons.passages import SENTENCES, Passage, draw_passages, draw_stretches
from gpt1.runs.folder import is_run, read_run, run_tokenizer
from gpt1.tasks.encoded import EncodedTask, check_folder, encode_task, save
from gpt1.tasks.shapes import CONTEXT

# How many examples of each: what taught a network of 33 million parameters, in a hundred seconds of a GPU.
LESSONS = {"similar": 60_000, "damaged": 60_000, "follows": 30_000, "continues": 60_000, "mood": 30_000}
PASSAGES = 100_000
FEWEST_PASSAGES = 20
DEV_SHARE, MOST_DEV = 0.1, 500  # passages that are not learned from


def make_lessons(
    paths: str | Path | Sequence[str | Path],
    tokenizer: str | Path,
    out: str | Path,
    *,
    counts: Mapping[str, int] | None = None,
    passages: int = PASSAGES,
    seed: int = 0,
    document: str | None = None,
    field: str | None = None,
    encoding: str = "utf-8",
    unwrap: bool = False,
    restart: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, EncodedTask]:
    """Make labelled tasks of unlabelled text, each in a folder of its name in `out`, and return them.

    `tokenizer` is a file, or the run (a folder or a base) that is to learn them. `counts` says how many examples of
    which lesson (None: `LESSONS`). They are made of that many `passages`, drawn from all over the text; the same text
    and seed give the same lessons.
    """
    counts = LESSONS if counts is None else counts
    for name in counts:
        if name not in MAKERS:
            raise unknown("lesson", name, MAKERS)
    if passages < FEWEST_PASSAGES:
        raise SettingError(f"lessons are made of at least {FEWEST_PASSAGES} passages, not {passages}")
    folders = {name: Path(out, name) for name in counts}
    for folder in folders.values():
        check_folder(folder)  # before minutes of work
    place = run_or_base(tokenizer)
    words, context = run_tokenizer(place), _context(place)
    progress = progress or Silent()
    paths = [paths] if isinstance(paths, str | Path) else paths
    found = find_sources([str(path) for path in paths], field=field)
    announce(found, progress)
    workers = workers or cores()
    read = partial(
        read_parts, found.sources, document=document, field=field, encoding=encoding, unwrap=unwrap, workers=workers
    )
    drawn = draw_passages(read(), passages, seed, workers, wrapped=lambda: progress.say(HARD_WRAPPED))
    if len(drawn) < FEWEST_PASSAGES:
        raise InputError(
            f"the text has {many(len(drawn), 'passage')} of {SENTENCES} sentences in a row, which end in a full stop "
            f"and do not begin with a small letter; lessons are made of at least {FEWEST_PASSAGES}: give more text, "
            "and if its lines are broken at a margin, `unwrap=True`"
        )
    short, long = _Pool.of(drawn, seed), _Pool.of([], seed)
    if LONG & set(counts):
        long = _Pool.of(draw_stretches(read(), passages, seed, workers), seed)
    made = {}
    with stage(progress, "making lessons") as bar:
        for number, (name, count) in enumerate(counts.items()):
            bar.show(number / len(counts), name)
            task, _ = MAKERS[name]
            pool = long if name in LONG else short
            splits = {
                "train": make_examples(name, pool.train, pool.material, count, seed),
                "dev": make_examples(name, pool.dev, pool.material, len(pool.dev), seed + 1),
            }
            if not all(splits.values()):
                progress.say(f"no lesson '{name}': in this text there is nothing to make it of; more may have it")
                continue
            made[name] = encode_task(task, splits, words, context)
            with lock_folder(folders[name]):
                save(made[name], folders[name], restart=restart)
    return made


@dataclass(frozen=True)
class _Pool:
    """Passages that examples are made of, and those of them that are not learned from."""

    train: list[Passage]
    dev: list[Passage]
    material: Material

    @classmethod
    def of(cls, drawn: list[Passage], seed: int) -> _Pool:
        shuffled = [drawn[place] for place in np.random.default_rng(seed).permutation(len(drawn))]
        dev = min(MOST_DEV, int(DEV_SHARE * len(drawn)))
        return cls(shuffled[dev:], shuffled[:dev], Material(drawn))


def _context(place: Path) -> int:
    """Return how many tokens fit: those of the network, if there is one."""
    return read_run(place).recipe.shape.context if is_run(place) else CONTEXT
