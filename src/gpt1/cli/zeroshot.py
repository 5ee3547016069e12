"""`gpt1 zeroshot`: what a language model knows of a task that it was never taught; `gpt1 blimp`: and of grammar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

if TYPE_CHECKING:
    from gpt1.inference.blimp import Blimp
    from gpt1.inference.zeroshot import ZeroShot


@click.command("zeroshot")
@click.argument("run")
@click.option("--task", required=True, metavar="NAME", help="cola, sst2, race, dpr, storycloze; or module:NAME.")
@click.option("--data", required=True, metavar="DIR", help="The folder of the task's files.")
@click.option("--split", metavar="NAME", help="Which part.  [dev]")
@click.option("--shots", type=options.WholeNumber(0), metavar="K", help="Solved examples before each text.  [0]")
@click.option("--out", metavar="FILE", help="Where the answer to each example goes: .jsonl, .csv or .tsv.")
@options.overwrite
@options.encoding
@options.seed
@step_option
@options.device
@options.as_json
def zeroshot_command(
    run: str,
    task: str,
    out: str | None,
    overwrite: bool,
    step: str | None,
    device: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask a language model about a task that it was never taught, by the paper's rules.

    CoLA: is the sentence likelier than half of them? SST-2: after "very", is "positive" likelier than "negative"?
    Choices: which answer has the likelier words? Pronouns (DPR): with which candidate in its place is the rest of the
    text likelier? One's own task (module:NAME) is asked so if its shape is choices. BLiMP's pairs: gpt1 blimp.

    \b
    Examples:
      gpt1 zeroshot runs/books --task sst2 --data tasks/
      gpt1 zeroshot runs/books --task storycloze --data tasks/ --shots 2 --out answers.jsonl
    """
    from gpt1.inference.sheets import check_target, write_rows
    from gpt1.inference.zeroshot import zeroshot

    if out is not None:
        check_target(Path(out), overwrite=overwrite)
    asked = {name: value for name, value in given.items() if value is not None}
    found = zeroshot(open_run(run, step, device), task, **asked, notice=words.notice)
    if out is not None:
        write_rows((line.as_json() for line in found.lines), Path(out), (), overwrite=overwrite, notice=words.notice)
    click.echo(_as_json(run, found) if as_json else "\n".join(_in_words(run, found)))


def _as_json(run: str, found: ZeroShot) -> str:
    from gpt1.studies.paper import normalised

    facts = {name: value for name, value in asdict(found).items() if name != "lines"}
    scaled = {name: normalised(found.task, value) for name, value in found.metrics.items()}
    return to_json({"run": run, **facts, "normalised": scaled}, indent=1)


def _in_words(run: str, found: ZeroShot) -> list[str]:
    from gpt1.base.wording import hundred, many
    from gpt1.studies.paper import SCALES, normalised

    lines = [f"{run}, update {found.step}: {found.task} {found.split}, {many(found.examples, 'example')}"]
    for name, value in found.metrics.items():
        scaled = normalised(found.task, value)
        beside = "" if scaled is None else f"; normalised, from 0 to 1: {scaled:.2f}"
        lines.append(f"  {name} {hundred(value)}{beside}")
    if not found.metrics:
        lines.append("  no label is known, so there is nothing to score; --out keeps the answers")
    if scale := SCALES.get(found.task) if found.metrics else None:
        remark = f"; {scale.remark}" if scale.remark else ""
        lines.append(f"  normalised: 0 is a guess ({scale.chance:g}), 1 the best of the time ({scale.best:g}{remark})")
    return lines


@click.command("blimp")
@click.argument("run")
@click.option("--data", required=True, metavar="PATH", help="A file of minimal pairs, or a folder of such files.")
@options.encoding
@step_option
@options.device
@options.int8
@options.as_json
def blimp_command(
    run: str, data: str, encoding: str | None, step: str, device: str | None, int8: bool, as_json: bool
) -> None:
    """Ask a language model which of two sentences is English: BLiMP's minimal pairs.

    The good sentence of a pair is to be likelier than the bad one. Files are those of BLiMP (.jsonl, one for each
    paradigm), or tables with the columns good, bad, paradigm and field. Chance is 50.

    \b
    Examples:
      gpt1 blimp runs/books --data blimp/data
      gpt1 blimp runs/books --data tasks/blimp/dev.jsonl.xz --json

    Along a pre-training: gpt1 study zeroshot RUN --task blimp.
    """
    from gpt1.inference.blimp import blimp, read_pairs

    pairs = read_pairs(Path(data), **({} if encoding is None else {"encoding": encoding}))
    opened = open_run(run, step, device, int8)
    found = blimp(opened, pairs)
    click.echo(
        to_json({"run": run, **found.as_json()}, indent=1) if as_json else "\n".join(_blimp_in_words(run, found))
    )
    characters = opened.tokenizer.unknown_characters(Counter("".join(pair.good + pair.bad for pair in pairs)))
    for text in found.unknown.notice(2 * found.pairs, characters=characters):
        words.notice(text)


def _blimp_in_words(run: str, found: Blimp) -> Iterator[str]:
    from gpt1.base.wording import hundred
    from gpt1.inference.blimp import CHANCE, PUBLISHED

    yield f"{run}, update {found.step}: BLiMP, {found.pairs:,} pairs of {len(found.paradigms)} paradigms"
    interval = " to ".join(map(hundred, found.interval))
    yield f"  {hundred(found.accuracy):>5}  mean over paradigms, 95 % interval {interval}; chance is {hundred(CHANCE)}"
    yield ""
    yield from _listed(found.fields)
    yield ""
    yield from _listed(found.paradigms)
    yield ""
    yield "Left-to-right models of BabyLM after 10 and 100 million words of text:"
    yield from (f"  {few:5.1f} {more:5.1f}  {name}" for name, (few, more) in PUBLISHED.items())


def _listed(shares: dict[str, float]) -> Iterator[str]:
    """Yield a line for each name, what is known best first."""
    from gpt1.base.wording import hundred

    for name, share in sorted(shares.items(), key=lambda one: -one[1]):
        yield f"  {hundred(share):>5}  {name}"
