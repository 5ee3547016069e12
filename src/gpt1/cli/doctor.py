"""`gpt1 doctor`: is this text fit to train on?"""

from __future__ import annotations

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--tokenizer", metavar="FILE", help="Count tokens too, with this tokenizer.json or the one in this folder."
)
@click.option(
    "--against",
    multiple=True,
    metavar="PATH",
    help="A file or folder of a task: look for its texts in this text. May be given several times.",
)
@options.document
@options.field
@options.encoding
@options.workers
@options.as_json
def command(paths: tuple[str, ...], as_json: bool, **settings: object) -> None:
    """Tell whether text is fit to train on: sizes, damage, duplicates, and task texts that leaked into it.

    PATHs are what 'gpt1 prepare' reads. Nothing is changed or written.

    \b
    Example: gpt1 doctor books/ --tokenizer tokenizer.json --against tasks/rte
    """
    from gpt1.base.errors import printable
    from gpt1.inspection.doctor import examine
    from gpt1.inspection.page import draw_page

    given = {name: value for name, value in settings.items() if value is not None}
    report = words.reworded(examine(paths, progress=words.CommandTerminal(), **given))  # type: ignore[arg-type]
    if as_json:
        click.echo(printable(to_json(report, ensure_ascii=False, indent=1)))
    else:
        words.show([printable(draw_page(report))])
