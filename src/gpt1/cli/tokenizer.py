"""`gpt1 tokenizer`: vocabularies, and text to ids and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import IO

import click

from gpt1.base.errors import InputError
from gpt1.cli import options
from gpt1.cli.app import Verbs

LINES_AT_ONCE = 10_000
_input_file = click.argument("file", type=click.File("r", encoding="utf-8", errors="strict"), default="-")


@click.group(cls=Verbs)
def command() -> None:
    """Train or import a vocabulary; encode and decode text."""


@command.command("import")
@click.argument("vocabulary")
@click.argument("merges")
@click.option("--out", required=True, metavar="FILE", help="Where the tokenizer goes.")
def import_(vocabulary: str, merges: str, out: str) -> None:
    """Import the released GPT-1 vocabulary: a VOCABULARY file (JSON) and a MERGES file.

    Example: gpt1 tokenizer import encoder_bpe_40000.json vocab_40000.bpe --out tokenizer.json
    """
    from gpt1.text.importing import import_tokenizer

    tokenizer = import_tokenizer(vocabulary, merges)
    tokenizer.save(out)
    click.echo(f"{out}: words, {tokenizer.vocab_size:,} tokens, fingerprint {tokenizer.fingerprint[:12]}")


@command.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--kind", metavar="KIND", help="words (the paper's) or bytes.  [words]")
@click.option("--merges", type=click.IntRange(1), metavar="N", help="Merges to learn.  [40000, as the paper]")
@click.option("--characters", type=click.IntRange(1), metavar="N", help="words: characters kept.  [1000]")
@click.option("--out", required=True, metavar="FILE", help="Where the tokenizer goes.")
@options.document
@options.field
@options.encoding
@options.unwrap
@options.workers
def train(paths: tuple[str, ...], out: str, **settings: object) -> None:
    """Learn a vocabulary from text: files, folders or globs, plain or compressed.

    Example: gpt1 tokenizer train books/ --kind words --merges 8000 --out tokenizer.json
    """
    from gpt1.base.progress import Terminal
    from gpt1.corpus.vocabularies import train_tokenizer

    given = {name: value for name, value in settings.items() if value is not None}
    tokenizer = train_tokenizer(paths, out=out, progress=Terminal(), **given)  # type: ignore[arg-type]
    size, merges = tokenizer.vocab_size, len(tokenizer.vocabulary.merges)
    click.echo(f"{out}: {tokenizer.kind}, {size:,} tokens, {merges:,} merges, fingerprint {tokenizer.fingerprint[:12]}")


@command.command()
@_input_file
@options.tokenizer
def encode(file: IO[str], tokenizer: str) -> None:
    """Print the ids of each line of FILE (or standard input), separated by blanks.

    Example: echo "Hello, world" | gpt1 tokenizer encode --tokenizer tokenizer.json
    """
    from gpt1.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    for lines in _by_many(_checked_lines(file)):
        for ids in loaded.encode_batch(lines):
            click.echo(" ".join(map(str, ids)))


@command.command()
@_input_file
@options.tokenizer
def decode(file: IO[str], tokenizer: str) -> None:
    """Print the text of each line of ids in FILE (or standard input).

    Example: echo "3570 240 1276" | gpt1 tokenizer decode --tokenizer tokenizer.json
    """
    from gpt1.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    for number, line in enumerate(_checked_lines(file), 1):
        try:
            click.echo(loaded.decode([int(id) for id in line.split()]))
        except ValueError as error:
            raise InputError(f"line {number}: ids are whole numbers separated by blanks ({error})") from None
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None


def _checked_lines(file: IO[str]) -> Iterator[str]:
    try:
        for line in file:
            yield line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name} is not UTF-8 text ({error.reason} near byte {error.start} of a block)") from None


def _by_many(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while some := list(itertools.islice(iterator, LINES_AT_ONCE)):
        yield some
