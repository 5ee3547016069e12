"""`gpt1 predict`: a fine-tuned run answers the rows of a table, or a text."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpt1.base.files import missing
from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

if TYPE_CHECKING:
    from gpt1.inference.run import Run
    from gpt1.tasks.catalog import Task

STANDARD_INPUT = "-"
SHOWN = 10  # probabilities of a text, the likeliest first
# A word with a suffix or in a folder: hardly anybody's text, and easily a slip in the name of a table.
_FILE = re.compile(r"\S*\w\.\w{1,8}|\S*[/\\]\S*|.*\.(csv|tsv|jsonl|json|parquet)(\.\w{2,3})?", re.IGNORECASE)


@click.command()
@click.argument("run")
@click.argument("asked", nargs=-1, required=True, metavar="TABLE|TEXT...")
@click.option(
    "--out", metavar="FILE", help="Where the answers go: .csv, .tsv, .jsonl or .parquet.  [JSON lines, printed]"
)
@options.overwrite
@click.option("--resume", is_flag=True, help="Go on with the answers for --out (begin, if there are none).")
@click.option("--task", metavar="NAME", help="Which of the run's tasks, where it has learned several.")
@click.option(
    "--abstain",
    type=options.Share(),
    metavar="RISK",
    help="Answer only where at most this share of the answers is wrong, 0.05 for 5 %; with 95 % confidence.",
)
@click.option("--explain", is_flag=True, help="Tell which words speak for each answer, and how far.")
@click.option("--explain-label", metavar="LABEL", help="Tell which words speak for this label, given or not.")
@click.option("--skip-bad", is_flag=True, help="Write a row that cannot be used with the error, and go on.")
@options.columns
@options.encoding
@step_option
@options.int8
@options.device
@click.option("--json", "as_json", is_flag=True, help="Of a text: print the answer as JSON.")
def command(
    run: str,
    asked: tuple[str, ...],
    out: str | None,
    overwrite: bool,
    resume: bool,
    task: str | None,
    abstain: float | None,
    explain: bool,
    explain_label: str | None,
    skip_bad: bool,
    columns: tuple[str, ...],
    encoding: str | None,
    step: str | None,
    int8: bool,
    device: str | None,
    as_json: bool,
) -> None:
    """Answer the rows of a table with a fine-tuned run, or a TEXT (of a pair, two).

    TABLE is csv, tsv, jsonl or parquet, also compressed, with the text columns that the run was trained on; or - for
    JSON lines on standard input, with those columns as keys, answered as they arrive. Every row comes back with its
    columns, with `row`, where it stands in the file (the header is row 1), and with `prediction`, `confidence` and
    `probabilities`, or in a table of cells a column `p_LABEL` for each label. A label is not needed.

    Until --out is whole its answers grow beside it, in FILE.partial: killed, or stopped by Ctrl-C, the same command
    with --resume goes on, and the file is the same to the byte.

    With --abstain a row whose answer is not sure enough has an empty `prediction`, and `abstained` says so. The promise
    is of rows like those for dev, half of which were kept for it; choose RISK before you look at answers.

    \b
    Examples, of a run that learned from a column 'text':
      gpt1 predict runs/reviews new.csv --out answers.csv
      gpt1 predict runs/reviews new.csv --out sure.csv --abstain 0.05
      gpt1 predict runs/reviews "A quiet, lovely film." --explain
      echo '{"text": "A quiet, lovely film."}' | gpt1 predict runs/reviews -
    """
    for_tables = {
        "--out": out,
        "--resume": resume,
        "--skip-bad": skip_bad,
        "--column": columns,
        "--encoding": encoding,
    }
    if explain and explain_label is not None:
        raise click.UsageError("--explain is of the answer that is given, --explain-label of another; give one")
    why = explain if explain_label is None else explain_label
    how: dict[str, Any]
    file = _table(asked)
    if file is None:
        if given := [name for name, value in for_tables.items() if value]:
            raise click.UsageError(f"{given[0]} is for tables, and '{asked[0]}' is no file: it is answered as a text")
        how = {
            "task": task,
            "abstain": abstain,
            "explain": why,
            "with_gradients": as_json,
        }  # which a line does not tell
        _answer_text(open_run(run, step, device, int8), asked, as_json, how)
        return
    if as_json:
        raise click.UsageError("--json is for a text; rows of a table are JSON lines already, or go to --out")
    if file == STANDARD_INPUT and encoding is not None:
        raise click.UsageError("JSON lines on standard input are UTF-8; --encoding is for files")
    if resume and (out is None or file == STANDARD_INPUT):
        raise click.UsageError("--resume goes on with the --out of a table")
    how = {"task": task, "columns": options.roles_and_names(columns), "skip_bad": skip_bad}
    how |= {"abstain": abstain, "explain": why, "notice": words.notice} | (
        {} if encoding is None else {"encoding": encoding}
    )
    opened = open_run(run, step, device, int8)
    if out is None:
        _print_answers(opened, file, how)
    else:
        _write_answers(opened, file, Path(out), overwrite, resume, how)
    _tell_worth(opened, task)


def _tell_worth(run: Run, task: str | None) -> None:
    """Say in a line what the answers of a run are worth."""
    from gpt1.finetuning.results import run_worth
    from gpt1.inference.answering import task_of

    worth = run_worth(run, task_of(run, task).name)
    words.notice(" ".join(filter(None, [worth.sentence, worth.figures])))


def _table(asked: tuple[str, ...]) -> str | None:
    """Return the table that is meant, None where it is texts."""
    if len(asked) == 1 and (asked[0] == STANDARD_INPUT or _is_there(asked[0])):
        return asked[0]
    if len(asked) == 1 and _FILE.fullmatch(asked[0]):
        raise missing(Path(asked[0]))
    if there := [one for one in asked if len(asked) > 1 and _is_there(one)]:
        raise click.UsageError(f"{there[0]} is a file, and one table is answered at a time; give it alone")
    return None


def _is_there(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()  # an empty path would be the current folder
    except (OSError, ValueError):  # too long for a name, as texts are
        return False


def _answer_text(run: Run, texts: tuple[str, ...], as_json: bool, how: dict[str, Any]) -> None:
    from gpt1.base.wording import many
    from gpt1.finetuning.results import run_worth
    from gpt1.inference.answering import task_of
    from gpt1.inference.explaining import strongest
    from gpt1.inference.predicting import predict_texts

    found: dict[str, Any] = predict_texts(run, texts, **how, notice=words.notice)
    worth = run_worth(run, task_of(run, how["task"]).name)
    if as_json:
        click.echo(to_json({**found, "worth": words.reworded(worth.as_json())}, ensure_ascii=False, indent=1))
        return
    if task_of(run, how["task"]).labels_words:
        _show_stretches(found)
    elif isinstance(shares := found.get("probabilities"), dict):
        _show_shares(found, shares, task_of(run, how["task"]))
    else:
        unread = found.get("notice")
        click.echo(f"{found['prediction']:.3f}{f'  ({unread})' if unread else ''}")
    for one in found.get("explanation", ()):
        told = f"; {many(one['unread'], 'word')} at the end not read" if one["unread"] else ""
        click.echo(f"why {one['label'] or 'so'}: {strongest(one) or 'no word moves it'}{told}")
    words.notice(worth.sentence)


def _show_stretches(found: dict[str, Any]) -> None:
    """Print what was found among the words of a text: spans with their characters, or each word's label."""
    from gpt1.base.wording import aligned, x100

    if (unread := found.get("notice")) is not None:
        click.echo(f"({unread})")
    if not found["prediction"]:
        click.echo("nothing found: all words are outside of spans")
    lines = [
        (one["label"], one["text"], f"{one['start']}-{one['end']}", f"{x100(one['confidence']):.1f} % sure")
        for one in found["prediction"]
    ]
    for line in aligned(lines):
        click.echo(line)


def _show_shares(found: dict[str, Any], shares: dict[str, float], task: Task) -> None:
    """Print an answer with its probabilities: of one answer, or of several labels each for itself."""
    from gpt1.base.wording import aligned, x100

    unread = found.get("notice")
    if task.is_multilabel:
        click.echo(f"{found['prediction'] or 'no label'}{f'  ({unread})' if unread else ''}")
    else:
        answer = "no answer that is sure enough" if found["prediction"] is None else found["prediction"]
        sure = f"{x100(found['confidence']):.1f} % sure"
        click.echo(f"{answer}  ({'; '.join(filter(None, [sure, _why_not_likeliest(found, shares, task), unread]))})")
    likeliest = sorted(shares.items(), key=lambda one: -one[1])
    for line in aligned([(name, f"{share:.3f}") for name, share in likeliest[:SHOWN]]):
        click.echo(f"  {line}")
    if len(likeliest) > SHOWN:
        click.echo(f"  and {len(likeliest) - SHOWN:,} more, less likely")


def _why_not_likeliest(found: dict[str, Any], shares: dict[str, float], task: Task) -> str:
    """Return why another label is likelier than the answer, where one is: by factors, rare labels are given sooner."""
    from gpt1.documents.figures import metric_name

    answer, likeliest = found["prediction"], max(shares, key=shares.__getitem__)
    if not task.class_factors or answer is None or shares[likeliest] <= shares[answer]:
        return ""
    return f"'{likeliest}' is likelier, but for {metric_name(task.metrics[0])} this run gives '{answer}' sooner"


def _print_answers(run: Run, file: str, how: dict[str, Any]) -> None:
    from gpt1.inference.predicting import predict_file
    from gpt1.inference.sheets import json_line

    for row in predict_file(run, _source(file), **how):
        click.echo(json_line(row), nl=False)


def _write_answers(run: Run, file: str, out: Path, overwrite: bool, resume: bool, how: dict[str, Any]) -> None:
    from gpt1.base.wording import many
    from gpt1.inference.answer_files import answer_table
    from gpt1.inference.predicting import predict_file
    from gpt1.inference.sheets import check_target, has_cells, write_rows

    done = "answered" if how["abstain"] is None and not how["skip_bad"] else "written"
    if file == STANDARD_INPUT:
        check_target(out, overwrite=overwrite)
        answers = predict_file(run, _source(file), **how, spread=has_cells(out))
        write_rows(_told(answers, out, done), out, answers.added, overwrite=overwrite, notice=words.notice)
        return
    rows = answer_table(run, file, out, **how, resume=resume, overwrite=overwrite, progress=words.CommandTerminal())
    click.echo(f"{out}: {many(rows, 'row')} {done}", err=True)


def _source(file: str) -> Any:
    return sys.stdin.buffer if file == STANDARD_INPUT else file


def _told(rows: Iterator[dict[str, Any]], out: Path, done: str) -> Iterator[dict[str, Any]]:
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
