"""Distillation of tasks: a small network learns labels, and beside them what larger runs answer, also where none are.

As DistilBERT (2019) and TinyBERT (2020) learned theirs, by soft labels on labelled and unlabelled texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpt1.base.devices import find_device
from gpt1.base.errors import SettingError
from gpt1.bases.catalog import default_base
from gpt1.finetuning.data import Source, read_labelled
from gpt1.finetuning.finetune import FinetuneRequest, FinetuneSession, chosen_recipe, read_tasks
from gpt1.finetuning.teaching import TaskTeaching, ask_teachers, learned_task, read_texts
from gpt1.inference.run import Run, load_run
from gpt1.inference.teaching import TEMPERATURE, WEIGHT, Teaching
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Listener
from gpt1.runs.folder import read_run, run_folder, run_tokenizer
from gpt1.tasks.catalog import refuse_words
from gpt1.tasks.encoded import EncodedTask
from gpt1.training.distributed import join_world
from gpt1.training.session import Conditions, require_no_run


def distill_task(
    teachers: Sequence[str | Path],
    init: str | Path | None,
    out: str | Path,
    *,
    source: Source,
    texts: str | Path | None = None,
    weight: float = WEIGHT,
    temperature: float = TEMPERATURE,
    recipe: Recipe | str | None = None,
    changes: Sequence[str] = (),
    resume: bool = False,
    device: str | None = None,
    minutes: float | None = None,
    curves: bool = False,
    listeners: Iterable[Listener] = (),
) -> Run:
    """Teach the network of `init` the rows of `source` and what `teachers` answer to them, and return its run.

    Teachers are fine-tuned runs that have learned the same task, of any size and vocabulary; they answer `texts` too, a
    table that needs no labels. `weight` is their share of the task's loss, `temperature` makes their answers softer.
    All else is as in `finetune`.
    """
    teaching = Teaching(tuple(teachers), weight, temperature)
    if source.encoded:
        raise SettingError("teachers read texts, and what is encoded has none; name the table itself with `train`")
    if not resume:
        require_no_run(Path(out))
    base = default_base().path if init is None else run_folder(init)
    chosen = chosen_recipe(recipe, read_run(base).recipe.shape, (Path(out),) if resume else ())
    asked = FinetuneRequest(base, run_tokenizer(base), source, chosen, changes)
    with join_world(find_device(device)) as (world, own_device):
        conditions = Conditions(Path(out), world, own_device, resume, minutes, curves, tuple(listeners))
        tasks, notices = read_tasks(asked)
        taught, told = _taught(teaching.opened(own_device), teaching, asked, tasks, texts)
        FinetuneSession(replace(asked, teaching=taught), conditions, tasks, [*notices, *told]).train()
    return load_run(out, device=device)


def _taught(
    runs: Sequence[Run],
    teaching: Teaching,
    asked: FinetuneRequest,
    tasks: Mapping[str, EncodedTask],
    texts: str | Path | None,
) -> tuple[TaskTeaching, list[str]]:
    """Return what teachers say of all rows to learn from, and what to tell of the texts."""
    source = asked.source
    rows = {labelled.task.name: labelled for labelled in read_labelled(source)}
    for labelled in rows.values():
        refuse_words(labelled.task, "learning from teachers")
    for run in runs:
        for encoded in tasks.values():
            learned_task(run, encoded.task)  # before the first of them has answered for minutes
    if texts is None:
        return ask_teachers(teaching, runs, rows, tasks, asked.tokenizer, None), []
    if len(rows) > 1:
        raise SettingError(f"`texts` are of one task, and there are {len(rows)}; learn one at a time")
    (labelled,) = rows.values()
    found, told = read_texts(Path(texts), labelled, source.encoding, skip_bad=source.skip_bad)
    return ask_teachers(teaching, runs, rows, tasks, asked.tokenizer, (Path(texts), found)), told
