"""A model card: what a run is, on what it was made, what it is worth and what it is not for, as Markdown.

It may be published, so that it names files and runs, never where they lay. A base has a card of its own, whose
words on what it has read are taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpt1.base.errors import InputError
from gpt1.base.files import make_folder, require_absent, result_file
from gpt1.base.wording import many, some, x100
from gpt1.bases.catalog import Base, base_in, base_names, find_base, is_packaged
from gpt1.documents.blocks import Block, Facts, Heading, Note
from gpt1.documents.evaluation import scores_table
from gpt1.documents.figures import figure, shown_text
from gpt1.documents.headline import decisive, headline, yardsticks
from gpt1.documents.markdown import plain, render
from gpt1.inference.abstaining import least_promise
from gpt1.model.costs import count_parameters
from gpt1.recipes.values import LSTM, NO_WINDOWS
from gpt1.records.run import RunRecord
from gpt1.report.gather import GatheredRun, gather
from gpt1.report.runs import made_of, reached, start_in_words
from gpt1.runs.folder import is_run, read_run, run_folder
from gpt1.tasks.catalog import Task
from gpt1.tasks.promises import Promise
from gpt1.tasks.windows import MOST_WINDOWS

MOST_PARENTS = 5  # that are followed from a run to its base
SHOWN_LABELS = 20
OWN_CARD = ("What it cannot do", "What came with its text")  # parts of a base's card that hold for all made of it


def make_card(run: str | Path) -> str:
    """Return the model card of a run; of a base, its own."""
    folder = run_folder(run)
    own = base_in(folder)
    if own is not None:
        return own.card()
    (found,) = gather([Path(run)])
    base = _base_of(found.record)
    blocks = [
        *_verdict(found),
        *_what(found),
        *_origin(found, base),
        *(_learned(found) if found.is_finetuned else ()),
        *_training(found),
        *(_scores(found) if found.is_finetuned else _read(found)),
        *(_sureness(found) if found.is_finetuned else ()),
    ]
    parts = [_front_matter(found), f"# {plain(found.name)}\n", render(blocks), _limits(found, base)]
    return "\n".join([*parts, _use(found), _licences(base)])


def write_card(run: str | Path, out: str | Path, *, overwrite: bool = False) -> Path:
    """Write the model card of a run, and return its path; a file that is there is replaced only to `overwrite` it."""
    out = Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder; name the card in it, such as {out / 'README.md'}")
    require_absent(out, overwrite)
    content = make_card(run).encode("utf-8", "backslashreplace")
    make_folder(out.parent)
    with result_file(out, overwrite=overwrite) as file:
        file.write(content)
    return out


# ---- where it comes from ----


def _base_of(record: RunRecord) -> Base | None:
    """Return the base that a run goes back to, where that is known: of the package, or in a folder that is there."""
    for _ in range(MOST_PARENTS):
        parent = record.parent
        if parent is None:
            return None
        if parent in base_names():
            return find_base(parent)
        if not is_run(Path(parent)):
            return None
        if (base := base_in(Path(parent))) is not None:
            return base
        record = read_run(Path(parent))
    return None


def _origin(run: GatheredRun, base: Base | None) -> Iterator[Block]:
    parent, imported = run.record.parent, run.record.imported
    if parent is None and imported is None:
        return
    yield Heading("What it starts from")
    if parent is not None and base is None:
        begun = read_run(Path(parent)) if is_run(Path(parent)) else None
        text = "What that has read is not known here."
        if begun is not None and begun.corpus is not None:
            name, tokens = Path(begun.corpus.path).name, begun.corpus.tokens
            text = f"It has read the text '{name}', {tokens:,} tokens{_mixed_in(begun)}."
        yield Note(f"The run '{Path(parent).name}'. {text}")
    if imported is not None:
        yield Note(f"Weights that were trained elsewhere, taken over from {imported.from_}.")
    if base is not None:
        is_parent = parent in (base.name, str(base.path))
        between = "" if is_parent else f", by way of the run '{Path(str(parent)).name}'"
        ours = " of gpt1" if is_packaged(base.path) else ""
        yield Note(f"The base '{base.name}'{ours}{between}: {base.record.about}")
        yield Note(f"{base.in_short()}.")


# ---- what it is ----


def _front_matter(run: GatheredRun) -> str:
    """Return what model hubs read; no language, as a run's own texts may be in another than those of its base."""
    lines = ["library_name: gpt1", f"pipeline_tag: text-{'classification' if run.is_finetuned else 'generation'}"]
    if metrics := sorted({metric for task in run.tasks.values() for metric in task.metrics}):
        lines += ["metrics:", *(f"- {metric}" for metric in metrics)]
    return "\n".join(["---", *lines, "tags:", "- gpt1", "---", ""])


def _verdict(run: GatheredRun) -> Iterator[Block]:
    for one in decisive(run.evaluations):
        worth = headline(one, run.decided)
        yield Note(worth if len(run.tasks) == 1 else f"{one.task}: {worth}")
    if run.is_finetuned and not run.evaluations:
        yield Note("It was not measured: nobody knows what it is worth.")


def _what(run: GatheredRun) -> Iterator[Block]:
    shape = run.recipe.shape
    network = f"LSTM of {shape.units:,} units" if shape.kind == LSTM else many(shape.layers, "layer")
    parameters = count_parameters(shape, run.record.vocab_size).total
    facts = [("task" if len(run.tasks) == 1 else f"task {name}", one.in_short()) for name, one in run.tasks.items()]
    facts += [] if run.ensemble is None else [("who answers", one.why) for one in run.ensemble.tasks.values()]
    heads = " without heads" if run.is_finetuned else ""
    facts.append(("network", f"{network} of width {shape.width:,}, {parameters:,} parameters{heads}"))
    facts.append(("context", many(shape.context, "token")))
    yield Heading("What it is")
    yield Facts(facts)


def _learned(run: GatheredRun) -> Iterator[Block]:
    source, facts = run.record.source, []
    for name, task in run.tasks.items():
        rows = run.record.examples.get(name, {})
        facts.append(("rows" if len(run.tasks) == 1 else f"rows of {name}", _counts(rows)))
        facts.append(("labels" if len(run.tasks) == 1 else f"labels of {name}", _labels(task)))
    if source is not None:
        files = [source.train, source.more, source.dev, source.test, *source.encoded]
        named = [Path(file).name for file in files if file]
        facts += [("from", some(named, len(named)))] if named else []
    yield Heading("What it learned from")
    yield Facts(facts)


def _counts(rows: dict[str, int]) -> str:
    return ", ".join(f"{count:,} for {split}" for split, count in rows.items())


def _labels(task: Task) -> str:
    if task.score_range is not None:
        low, high = task.score_range
        return f"scores from {low:g} to {high:g}"
    return some([shown_text(label) for label in task.labels], SHOWN_LABELS) or "the number of the right choice"


def _training(run: GatheredRun) -> Iterator[Block]:
    recipe, made = run.recipe, run.record.made_with
    facts = [("recipe", recipe.name)]
    facts += [("weights", start_in_words(recipe.finetuning))] if run.is_finetuned else []
    facts += made_of(run.record, paths=False)
    if run.progress is not None:
        of = "examples" if run.is_finetuned else "sequences"
        rate = f"learning rate {recipe.optimizer.lr:g}"
        facts.append(("updates", f"{run.progress.step:,} of {recipe.training.batch} {of}, {rate}"))
    if run.record.corpus is not None:
        name, tokens = Path(run.record.corpus.path).name, run.record.corpus.tokens
        facts.append(("text", f"{name}, {tokens:,} tokens{_mixed_in(run.record)}"))
    if run.record.trained_on is not None:
        facts.append(("on", f"{run.record.trained_on.device}, in {recipe.training.precision}"))
    facts += [] if run.record.seed is None else [("seed", str(run.record.seed))]
    facts += (
        [("made", f"{str(made['at'])[: len('2026-11-18')]}, by gpt1 {made.get('gpt1', '')}")] if "at" in made else []
    )
    yield Heading("How it was trained")
    yield Facts(facts)


def _mixed_in(record: RunRecord) -> str:
    mix = record.mixed
    return "" if mix is None else f", and '{Path(mix.path).name}' as a share of {mix.share:g} of what was read"


# ---- what it is worth ----


def _scores(run: GatheredRun) -> Iterator[Block]:
    if not run.evaluations:
        return
    yield Heading("How good it is")
    for one in decisive(run.evaluations):
        yield yardsticks(one, run.decided)
    for name in run.tasks:
        if own := [one for one in run.evaluations if one.task == name]:
            yield scores_table(own)


def _read(run: GatheredRun) -> Iterator[Block]:
    found = reached(run)
    yield Heading("How good it is")
    if found.loss is None:
        yield Note("It was not evaluated.")
        return
    bits = "" if found.bits_per_byte is None else f", {figure(found.bits_per_byte)} bits per byte"
    yield Note(f"Loss {figure(found.loss)} nats a token of its own validation text, at update {found.step:,}{bits}.")


def _sureness(run: GatheredRun) -> Iterator[Block]:
    yield Heading("How sure it is")
    if run.calibration is None:
        yield Note("Its probabilities are as they come: no temperature was fitted, and it cannot abstain.")
        return
    for name, one in run.calibration.tasks.items():
        yield Note(f"{name}: {one.why}.")
        task = run.tasks[name]
        if task.is_multilabel or task.score_range is not None:
            yield Note(
                f"It cannot abstain on {name}: only of one answer among several is it known whether it is right."
            )
        elif one.kept is None:
            yield Note(f"It cannot abstain with a promise on {name}: too few rows for dev were kept apart.")
        else:
            yield Note(_promised(name, len(one.kept), least_promise(run.calibration, name, run.folder)))
    for name, chosen in {} if run.thresholds is None else run.thresholds.tasks.items():
        yield Note(f"{name}: {chosen.why}.")


def _promised(task: str, kept: int, least: Promise | None) -> str:
    """Return whether a run can abstain with a promise, and what the least is that it can promise."""
    rows = f"{many(kept, 'row')} for dev that chose nothing"
    if least is None:
        return f"It cannot abstain with a promise on {task}: even its surest answers to the {rows} are wrong too often."
    return (
        f"On {task} it can abstain with a promise of how many answers are wrong: at the least {x100(least.risk):g} % "
        f"of those that are given (abstain={least.risk:g}), which are {least.answered:,} of the {rows}."
    )


# ---- what it is not for, how it is used ----


def _limits(run: GatheredRun, base: Base | None) -> str:
    context = many(run.recipe.shape.context, "token")
    forced = "" if all(task.is_multilabel for task in run.tasks.values()) else ", also where no label fits"
    in_windows = run.recipe.finetuning.windows != NO_WINDOWS
    long = f"is read in up to {MOST_WINDOWS} windows" if in_windows else "is cut"
    if run.tasks and all(task.labels_words for task in run.tasks.values()):
        long = "is read in windows of whole words"
    answers = (
        f"It answers with what it was taught and nothing else{forced}. A text of more than {context} {long}. "
        "Its scores hold for texts like those it learned from; of others nobody knows. Let it decide nothing about "
        "anybody alone."
        if run.is_finetuned
        else f"It goes on with a text; what it writes is likely, not true. It looks at {context} at a time."
    )
    parts = [f"## What it cannot do\n\n{answers}\n"]
    for title in OWN_CARD if base is not None else ():
        assert base is not None
        if words := _part_of(base.card(), title):
            parts.append(f"### Of the base '{base.name}': {title[:1].lower()}{title[1:]}\n\n{words}\n")
    return "\n".join(parts)


def _part_of(card: str, title: str) -> str:
    """Return what stands below a title of a card."""
    found = re.search(rf"^## {re.escape(title)}\n+(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _use(run: GatheredRun) -> str:
    name = re.sub(r"[^\w.-]+", "-", run.name).strip("-") or "run"
    called = (
        f'gpt1.load_run("{name}").predict(rows)'
        if run.is_finetuned
        else f'gpt1.finetune("{name}", "classifier", train="labels.csv")'
    )
    verbs = [f"gpt1 predict {name} new.csv", f"gpt1 serve {name}"] if run.is_finetuned else [f"gpt1 generate {name}"]
    lines = "\n".join(f"    {verb}" for verb in verbs)
    return f"## How to use it\n\n{lines}\n\nIn Python:\n\n    {called}\n"


def _licences(base: Base | None) -> str:
    if base is None:
        known = "Of the weights it starts from and of its text none is known here."
    else:
        known = f"The base: {base.record.weights_licence}; the text that it has read: {base.record.text_licence}."
    return f"## Licences\n\n{known} Of the labels: whoever made them says.\n"
