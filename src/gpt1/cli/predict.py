"""`gpt1 predict`: a fine-tuned run answers the rows of a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

STANDARD_INPUT = "-"


@click.command()
@click.argument("run")
@click.argument("file", metavar="TABLE")
@click.option("--out", metavar="FILE", help="Where the answers go: .jsonl, .csv or .tsv.  [JSON lines, printed]")
@options.overwrite
@click.option("--task", metavar="NAME", help="Which of the run's tasks, where it has learned several.")
@click.option(
    "--abstain",
    type=options.Number(0, min_open=True, max=1, max_open=True),
    metavar="RISK",
    help="Answer only where at most this share of the answers is wrong, 0.05 for 5 %; with 95 % confidence.",
)
@click.option("--skip-bad", is_flag=True, help="Write a row that cannot be used with the error, and go on.")
@options.columns
@options.encoding
@step_option
@options.int8
@options.device
def command(
    run: str,
    file: str,
    out: str | None,
    overwrite: bool,
    task: str | None,
    abstain: float | None,
    skip_bad: bool,
    columns: tuple[str, ...],
    encoding: str | None,
    step: str | None,
    int8: bool,
    device: str | None,
) -> None:
    """Answer the rows of a table with a fine-tuned run.

    TABLE is csv, tsv, jsonl or parquet, also compressed, with the text columns that the run was trained on; or - for
    JSON lines on standard input, with those columns as keys, answered as they arrive. Every row comes back with its
    columns and with `prediction`, `probabilities` and `confidence`. A label is not needed.

    With --abstain a row whose answer is not sure enough has an empty `prediction`, and `abstained` says so. The promise
    is of rows like those for dev, half of which were kept for it; choose RISK before you look at answers.

    \b
    Examples, of a run that learned from a column 'text':
      gpt1 predict runs/reviews new.csv --out answers.csv
      gpt1 predict runs/reviews new.csv --out sure.csv --abstain 0.05
      echo '{"text": "A quiet, lovely film."}' | gpt1 predict runs/reviews -
    """
    from gpt1.inference.predicting import predict_file
    from gpt1.inference.rows import check_target, json_line, write_rows

    if file == STANDARD_INPUT and encoding is not None:
        raise click.UsageError("JSON lines on standard input are UTF-8; --encoding is for files")
    if out is not None:
        if Path(out).exists() and file != STANDARD_INPUT and Path(file).exists() and Path(out).samefile(file):
            raise click.UsageError(f"{out} is the table that is read; write the answers to another file")
        check_target(Path(out), overwrite=overwrite)
    answers = predict_file(
        open_run(run, step, device, int8),
        sys.stdin.buffer if file == STANDARD_INPUT else file,  # type: ignore[arg-type]  # which can `read1`
        task=task,
        columns=options.roles_and_names(columns),
        **({} if encoding is None else {"encoding": encoding}),
        skip_bad=skip_bad,
        abstain=abstain,
        notice=words.notice,
    )
    if out is not None:
        done = "answered" if abstain is None else "written"
        write_rows(_told(answers, out, done), Path(out), answers.added, overwrite=overwrite)
    else:
        for row in answers:
            click.echo(json_line(row), nl=False)


def _told(rows: Iterator[dict[str, Any]], out: str, done: str) -> Iterator[dict[str, Any]]:
    """Say now and then, and at the end, how many rows are answered."""
    from gpt1.base.progress import PLAIN_SECONDS
    from gpt1.base.wording import many

    began = told = time.monotonic()
    count = 0
    for count, row in enumerate(rows, 1):
        yield row
        if (now := time.monotonic()) - told >= PLAIN_SECONDS:
            told = now
            click.echo(f"{many(count, 'row')} {done}, {count / (now - began):,.0f} a second", err=True)
    click.echo(f"{out}: {many(count, 'row')} {done}", err=True)
