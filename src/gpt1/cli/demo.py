"""`gpt1 demo`: the whole idea in minutes, on two cores."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

if TYPE_CHECKING:
    from gpt1.documents.blocks import Block, Section


@dataclass(frozen=True)
class DemoShown:
    """What a demo has made, as a person is shown it and as a program is told."""

    runs: Sequence[Path]
    told: Mapping[str, object]
    blocks: Sequence[Block]
    following: str  # what to do next
    title: str | None = None  # of the page
    openings: Sequence[Section] = ()


@click.command()
@click.option(
    "--out",
    metavar="DIR",
    help="Folder for all of it.  [gpt1-demo; with --text: gpt1-demo-text; with --books: gpt1-demo-books]",
)
@click.option("--text", multiple=True, metavar="PATH", help="Pre-train on your own text, not on stories; repeatable.")
@click.option("--books", is_flag=True, help="Teach the package's base tasks about novels that it has not read.")
@click.option(
    "--seeds", type=options.WholeNumber(1), metavar="N", help="Seeds of each fine-tuning; not with --text.  [1]"
)
@options.as_json
def command(out: str | None, text: tuple[str, ...], books: bool, seeds: int | None, as_json: bool) -> None:
    """Show the paper's idea: a small network is pre-trained on stories, then learns four tasks from few labels.

    About five minutes on two cores; with --books, on real text, at most eight. Stopped and called again, it goes on
    where it was.

    \b
    Examples:
      gpt1 demo
      gpt1 demo --seeds 3
      gpt1 demo --books
      gpt1 demo --text books/
    """
    from gpt1.base.errors import SettingError
    from gpt1.base.stages import or_begin_anew
    from gpt1.demo.books_tour import BOOKS_FOLDER
    from gpt1.demo.tour import FOLDER, OWN_TEXT_FOLDER, REPORT
    from gpt1.documents.html import require_libraries
    from gpt1.report import report

    if text and books:
        raise SettingError("--books is a demo of its own, on the package's novels; leave it out, or --text")
    if text and seeds is not None:
        raise SettingError("--seeds is for the tasks about the stories, and your own text has none; leave it out")
    require_libraries()  # of the page at the end: before the work, not after it
    out = out or (OWN_TEXT_FOLDER if text else BOOKS_FOLDER if books else FOLDER)
    named = {} if seeds is None else {"seeds": seeds}
    began = time.monotonic()
    terminal = words.CommandTerminal()
    try:
        shown = _own_text(out, text, terminal) if text else (_books if books else _stories)(out, named, terminal)
        with or_begin_anew(out):
            page = report(shown.runs, Path(out, REPORT), shown.title, shown.openings, overwrite=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on") from None
    finally:
        terminal.done()
    if as_json:
        click.echo(to_json({**shown.told, "report": str(page)}, indent=1))
        return
    click.echo()
    words.show_document(shown.blocks)
    click.echo("\n".join(["", f"{time.monotonic() - began:.0f} seconds. The report: {page}", shown.following]))


def _stories(out: str, named: dict[str, int], terminal: words.CommandTerminal) -> DemoShown:
    from gpt1.cli.lines import TrainingLines
    from gpt1.demo.page import TITLE, opening
    from gpt1.demo.recipe import Plan
    from gpt1.demo.tour import runs_of, tour

    found = tour(out, **named, plan=Plan(), progress=terminal, listeners=[TrainingLines(terminal)])
    section = opening(found)
    following = "Your own text and labels: gpt1 demo --text FOLDER, then gpt1 finetune --help"
    return DemoShown(runs_of(out, found.seeds), asdict(found), section.blocks, following, TITLE, [section])


def _books(out: str, named: dict[str, int], terminal: words.CommandTerminal) -> DemoShown:
    from gpt1.cli.lines import TrainingLines
    from gpt1.demo.books_page import BOOKS_TITLE, books_opening
    from gpt1.demo.books_tour import runs_of_books, tour_books
    from gpt1.demo.recipe import BooksPlan

    found = tour_books(out, **named, plan=BooksPlan(), progress=terminal, listeners=[TrainingLines(terminal)])
    section = books_opening(found)
    following = f"Your own labels: gpt1 finetune --init {found.base} --train labels.csv --out classifier"
    return DemoShown(runs_of_books(out, found.seeds), asdict(found), section.blocks, following, BOOKS_TITLE, [section])


def _own_text(out: str, text: Sequence[str], terminal: words.CommandTerminal) -> DemoShown:
    from gpt1.cli.lines import TrainingLines
    from gpt1.demo.recipe import Plan
    from gpt1.demo.tour import read_own_text
    from gpt1.documents.blocks import Note

    run = read_own_text(out, text, plan=Plan(), progress=terminal, listeners=[TrainingLines(terminal)])
    following = (
        f"Teach it your labels: gpt1 finetune --init {shlex.quote(str(run))} --train labels.csv --out classifier"
    )
    return DemoShown([run], {"run": str(run)}, [Note(f"The network is pre-trained on your text: {run}")], following)
