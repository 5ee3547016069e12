"""`gpt1 prepare`: text to shards, labelled tasks to token sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

ONLY_TEXT = (
    "document",
    "field",
    "unwrap",
    "language",
    "quality",
    "duplicates",
    "valid",
    "on_error",
    "shard_tokens",
    "upload",
    "workers",
    "part",
    "engine",
)
ONLY_TASK = (
    "data",
    "dev",
    "test",
    "columns",
    "regression",
    "symmetric",
    "skip_bad",
    "fold_labels",
    "labels_sep",
    "metric",
    "shape",
    "context",
    "windows",
)


def _tell_status(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    """Tell how far a preparation is, and do nothing else."""
    if folder is None or context.resilient_parsing:
        return
    from gpt1.corpus.manifest import read_corpus
    from gpt1.corpus.prepare import describe
    from gpt1.corpus.status import describe_status, read_status

    status = read_status(folder)
    words.show([f"{folder} is done", *describe(read_corpus(folder))] if status is None else describe_status(status))
    context.exit()


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@options.tokenizer
@click.option("--out", required=True, metavar="DIR", help="Folder for the result.")
@options.as_json
@options.document
@options.field
@options.encoding
@options.unwrap
@click.option("--language", metavar="CODE", help="Keep documents in this language alone, such as en.")
@click.option("--quality", is_flag=True, default=None, help="Keep documents that read like prose: Gopher's rules.")
@click.option(
    "--duplicates", metavar="keep|exact|near", help="Keep all, drop exact repeats, or drop near ones too.  [near]"
)
@click.option(
    "--valid",
    type=options.Number(0, 1, max_open=True),
    metavar="SHARE",
    help="Share of the tokens kept for validation.  [0.01]",
)
@click.option("--on-error", metavar="refuse|skip", help="What to do with damaged input.  [refuse]")
@click.option("--shard-tokens", type=options.WholeNumber(1), metavar="N", help="Tokens in a shard.  [67108864]")
@click.option("--restart", is_flag=True, default=None, help="Throw away what an earlier preparation left in DIR.")
@click.option("--upload", metavar="URL", help="Write the finished corpus to a store too, such as s3://bucket/corpus.")
@options.workers
@click.option(
    "--part",
    metavar="I/N",
    help="Do the I-th of N shares of the work, beside commands that do the others, here or on other machines that "
    "have DIR and the texts under the same names; who is done last puts the corpus together.",
)
@click.option(
    "--status",
    metavar="DIR",
    is_eager=True,
    expose_value=False,
    callback=_tell_status,
    help="Tell how far the preparation in DIR is and who is at work on it, and end.",
)
@click.option(
    "--engine",
    metavar="local|ray",
    help="Encode on the cores of this machine, or of the Ray cluster that RAY_ADDRESS names, whose nodes have DIR and "
    "the texts under the same names.  [local]",
)
@click.option(
    "--task", metavar="TASK", help="Encode a labelled task: a name, module:NAME, or a table (csv, jsonl ...)."
)
@click.option("--data", metavar="DIR", help="--task: the folder of the task's files, or hub:NAME.")
@click.option("--dev", metavar="TABLE", help="--task TABLE: a table for development.")
@click.option("--test", metavar="TABLE", help="--task TABLE: a table for the final test.")
@options.columns
@options.regression
@options.symmetric
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@options.shape
@click.option("--context", type=options.WholeNumber(4), metavar="N", help="--task: longest sequence in tokens.  [512]")
@click.option("--windows", is_flag=True, default=None, help="--task: read longer texts in several windows.")
def command(paths: tuple[str, ...], tokenizer: str, out: str, as_json: bool, task: str | None, **given: Any) -> None:
    """Encode text into token shards, or a labelled task into token sequences.

    PATHs are files, folders or globs of txt, md, jsonl, csv, tsv, parquet, dumps of MediaWiki (xml) or pages of a
    crawl (warc, wet), each also gz, bz2, xz or zst, here or in a store (s3://bucket/folder), or
    hub:NAME[:CONFIG][@SPLIT]. Killed and run again, it goes on where it was.

    \b
    Examples:
      gpt1 prepare books/ --tokenizer tokenizer.json --out corpus
      gpt1 prepare mails.csv --field body --tokenizer tokenizer.json --out corpus
      gpt1 prepare --task reviews.csv --tokenizer tokenizer.json --out reviews
    """
    settings = {name: value for name, value in given.items() if value not in (None, ())}
    if task is None:
        if not paths:
            raise click.UsageError("name the text to prepare (files, folders, globs), or a --task")
        _only(settings, ONLY_TASK, "goes only with --task")
        _prepare_text(paths, tokenizer, out, as_json, settings)
    else:
        if paths:
            raise click.UsageError(f"a --task has its own files; '{paths[0]}' has no meaning here")
        _only(settings, ONLY_TEXT, "does not go with --task")
        _prepare_task(task, tokenizer, out, as_json, settings)


def _only(settings: dict[str, Any], names: tuple[str, ...], problem: str) -> None:
    for name in names:
        if name in settings:
            option = "column" if name == "columns" else name.replace("_", "-")
            raise click.UsageError(f"--{option} {problem}")


def _prepare_text(paths: tuple[str, ...], tokenizer: str, out: str, as_json: bool, settings: dict[str, Any]) -> None:
    from gpt1.corpus.manifest import read_corpus
    from gpt1.corpus.prepare import describe, prepare, prepare_part

    part, progress = options.part_of(settings.pop("part", None)), words.CommandTerminal()
    if part is None:
        corpus: dict[str, Any] | None = prepare(paths, tokenizer, out, progress=progress, **settings)
    elif {"restart", "engine"} & settings.keys():
        raise click.UsageError(
            "--part goes neither with --restart, which would throw away what others made, nor with --engine"
        )
    else:
        corpus = prepare_part(paths, tokenizer, out, part, progress=progress, **settings)
    if as_json:
        click.echo(to_json(corpus, indent=1))
    elif corpus is not None:
        words.show(describe(read_corpus(out)))


def _prepare_task(task: str, tokenizer: str, out: str, as_json: bool, settings: dict[str, Any]) -> None:
    from gpt1.base.files import read_json
    from gpt1.tasks.encoded import MANIFEST
    from gpt1.tasks.preparing import describe, prepare_task
    from gpt1.text.tokenizer import load_tokenizer

    settings["columns"] = options.roles_and_names(settings.get("columns", ()))
    encoded, notices = prepare_task(task, load_tokenizer(tokenizer), out, **settings)
    for notice in notices:
        words.notice(notice)
    manifest = read_json(Path(out, MANIFEST), "an encoded task")
    click.echo(to_json(manifest, indent=1) if as_json else "\n".join(describe(encoded)))
