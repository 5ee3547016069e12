"""`gpt1 serve`: runs behind an HTTP API."""

from __future__ import annotations

import os
from typing import Any

import click

from gpt1.base.errors import MissingDependency
from gpt1.cli import options, words

TOKEN_VARIABLE = "GPT1_TOKEN"


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--host", metavar="HOST", help="Where to listen; another one than this machine's own needs a token.")
@click.option("--port", type=options.WholeNumber(0, 65535), metavar="N", help="0: any free one.  [8000]")
@click.option(
    "--token", metavar="TEXT", help=f"What clients must send as a bearer token.  [${TOKEN_VARIABLE}, or none]"
)
@click.option("--workers", type=options.WholeNumber(1), metavar="N", help="Processes that answer, each alike.  [1]")
@click.option("--max-queue", type=options.WholeNumber(1), metavar="N", help="Requests of a run that may wait.  [256]")
@click.option("--max-tokens", type=options.WholeNumber(1), metavar="N", help="New tokens a text, at most.  [1024]")
@click.option("--characters", type=options.WholeNumber(1), metavar="N", help="Of a request, at most.  [100000]")
@click.option("--inputs", type=options.WholeNumber(1), metavar="N", help="Texts of a request, at most.  [128]")
@click.option(
    "--explained-tokens", type=options.WholeNumber(1), metavar="N", help="Read to explain, a request.  [100000]"
)
@click.option("--body-bytes", type=options.WholeNumber(1), metavar="N", help="Of a request, at most.  [1000000]")
@click.option("--request-timeout", type=options.Number(0), metavar="X", help="Seconds that a request may take.  [120]")
@click.option(
    "--arrival-seconds", type=options.Number(0), metavar="X", help="In which a request must have come in.  [10]"
)
@click.option("--max-batch", type=options.WholeNumber(1), metavar="N", help="Texts written side by side.  [32]")
@click.option("--connections", type=options.WholeNumber(1), metavar="N", help="At once, as files may be open.  [256]")
@click.option("--grace-seconds", type=options.Number(0), metavar="X", help="To end in, when told to.  [30]")
@click.option(
    "--reference",
    multiple=True,
    metavar="TABLE",
    help="Rows that what comes in is held against, or NAME=TABLE.  [a run's own for dev]",
)
@click.option("--json-logs", is_flag=True, help="A JSON object a line on standard error: each request, each fault.")
@options.formerly("--queue", "--max-queue", options.WholeNumber(1))
@options.formerly("--tokens", "--max-tokens", options.WholeNumber(1))
@options.formerly("--seconds", "--request-timeout", click.FLOAT)
@options.formerly("--rows", "--max-batch", options.WholeNumber(1))
@options.int8
@options.device
def command(
    runs: tuple[str, ...],
    host: str | None,
    port: int | None,
    token: str | None,
    workers: int | None,
    json_logs: bool,
    int8: bool,
    device: str | None,
    reference: tuple[str, ...],
    **limits: Any,
) -> None:
    """Serve runs over HTTP, the way OpenAI's clients speak; a RUN is a folder, or NAME=FOLDER.

    A page to try them is at the address itself. /v1/completions, /v1/embeddings, /v1/models, /v1/classify, /v1/score,
    /v1/attention, /healthz, /startupz, /readyz, /metrics, /openapi.json. Ctrl-C or SIGTERM ends it when what is in
    flight has been answered, within --grace-seconds. Limits hold for each of the --workers.

    \b
    Examples:
      gpt1 serve runs/tiny runs/reviews
      gpt1 serve chat=runs/tiny --port 9000 --token secret
    """
    try:
        from gpt1.serve import listening
    except ImportError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'gpt1[serve]'") from None
    from gpt1.serve.limits import Limits
    from gpt1.serve.settings import ServerSettings

    host, token = host or listening.HOST, token or os.environ.get(TOKEN_VARIABLE)
    if token is None and not listening.is_loopback(host):
        raise click.UsageError(f"at {host} others can reach the server: give a --token that they must send")
    given = {name: value for name, value in limits.items() if value is not None}
    settings = ServerSettings(
        runs=runs,
        host=host,
        port=listening.PORT if port is None else port,
        token=token,
        limits=listening.fitting(Limits(**given), notice=words.notice),
        device=device,
        int8=int8,
        reference=reference,
        json_logs=json_logs,
        workers=ServerSettings.workers if workers is None else workers,
        worded=_worded,
    )
    if settings.workers > 1:
        from gpt1.serve.workers import serve_by_workers

        serve_by_workers(settings, _started)
    else:
        from gpt1.serve.server import serve

        serve(settings, _started)


def _started(address: str) -> None:
    click.echo(f"serving at {address}")


def _worded(said: str) -> str:
    """Put a message into this verb's words, in any thread or process."""
    from gpt1.cli.app import gpt1

    return words.in_words_of(command, gpt1, said)
