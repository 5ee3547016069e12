"""`gpt1 tokenizer`: vocabularies, and text to ids and back."""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections.abc import Iterable, Iterator

import click

from gpt1.base.errors import InputError
from gpt1.cli import options, words
from gpt1.cli.app import Verbs

LINES_AT_ONCE = 10_000
STANDARD_INPUT = "-"
_input_file = click.argument("file", default=STANDARD_INPUT)


@click.group(cls=Verbs)
def command() -> None:
    """Train or import a vocabulary; encode and decode text.

    Example: gpt1 tokenizer train books/ --merges 8000 --out tokenizer.json
    """


@command.command("import", short_help="Import the released GPT-1 vocabulary.")
@click.argument("vocabulary")
@click.argument("merges")
@click.option("--out", required=True, metavar="FILE", help="Where the tokenizer goes.")
@options.overwrite
def import_(vocabulary: str, merges: str, out: str, overwrite: bool) -> None:
    """Import the released GPT-1 vocabulary: a VOCABULARY file (JSON) and a MERGES file.

    Example: gpt1 tokenizer import encoder_bpe_40000.json vocab_40000.bpe --out tokenizer.json
    """
    from gpt1.text.training import import_tokenizer

    tokenizer = import_tokenizer(vocabulary, merges)
    tokenizer.save(out, overwrite=overwrite)
    click.echo(f"{out}: words, {tokenizer.vocab_size:,} tokens, fingerprint {tokenizer.fingerprint[:12]}")


@command.command(short_help="Learn a vocabulary from text.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--kind", metavar="words|bytes", help="The paper's kind, or today's.  [words]")
@click.option("--merges", type=options.WholeNumber(1), metavar="N", help="Merges to learn.  [40000, as the paper]")
@click.option("--characters", type=options.WholeNumber(1), metavar="N", help="words: characters kept.  [1000]")
@click.option("--out", required=True, metavar="FILE", help="Where the tokenizer goes.")
@options.overwrite
@options.document
@options.field
@options.encoding
@options.unwrap
@options.workers
def train(paths: tuple[str, ...], out: str, **settings: object) -> None:
    """Learn a vocabulary from text: files, folders or globs, plain or compressed.

    Example: gpt1 tokenizer train books/ --kind words --merges 8000 --out tokenizer.json
    """
    from gpt1.corpus.vocabularies import train_tokenizer

    given = {name: value for name, value in settings.items() if value is not None}
    tokenizer = train_tokenizer(paths, out=out, progress=words.CommandTerminal(), **given)  # type: ignore[arg-type]
    size, merges = tokenizer.vocab_size, len(tokenizer.vocabulary.merges)
    click.echo(f"{out}: {tokenizer.kind}, {size:,} tokens, {merges:,} merges, fingerprint {tokenizer.fingerprint[:12]}")


@command.command(short_help="Print the ids of each line of text.")
@_input_file
@options.tokenizer
@options.encoding
def encode(file: str, tokenizer: str, encoding: str | None) -> None:
    """Print the ids of each line of FILE (or standard input), separated by blanks.

    FILE may be compressed; a text itself is piped in.

    Example: echo "Hello, world" | gpt1 tokenizer encode --tokenizer tokenizer.json
    """
    from gpt1.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    for lines in _by_many(_lines(file, encoding)):
        for ids in loaded.encode_batch(lines):
            click.echo(" ".join(map(str, ids)))


@command.command(short_help="Print the text of each line of ids.")
@_input_file
@options.tokenizer
def decode(file: str, tokenizer: str) -> None:
    """Print the text of each line of ids in FILE (or standard input).

    Example: echo "3570 240 1276" | gpt1 tokenizer decode --tokenizer tokenizer.json
    """
    from gpt1.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    for number, line in enumerate(_lines(file, None), 1):
        words = line.split()
        if wrong := [word for word in words if not word.isdecimal()]:
            raise InputError(f"line {number}: '{wrong[0]}' is not an id; ids are whole numbers with blanks between")
        try:
            click.echo(loaded.decode([int(word) for word in words]))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None


@command.command(short_help="Show where transformers gives a text other ids.")
@click.argument("text", default=STANDARD_INPUT, metavar="[FILE|TEXT]")
@options.tokenizer
@options.encoding
@options.as_json
def diff(text: str, tokenizer: str, encoding: str | None, as_json: bool) -> None:
    """Show where transformers' OpenAIGPTTokenizer gives a text other ids for the same vocabulary, and why.

    What is not the name of a file is the text itself; without either standard input is read. A FILE may be compressed.

    Example: gpt1 tokenizer diff "She didn't say so" --tokenizer tokenizer.json
    """
    from gpt1.base.errors import printable
    from gpt1.base.strict_json import to_json
    from gpt1.exchange.tokenizer_diff import compare_with_transformers, comparison_blocks
    from gpt1.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    # Unlike a path's, this `isfile` is false of a text that is too long to be a name.
    whole = "\n".join(_lines(text, encoding)) if text == STANDARD_INPUT or os.path.isfile(text) else text  # noqa: PTH113
    found = compare_with_transformers(loaded, whole)
    if as_json:
        click.echo(printable(to_json(found.as_json(loaded), ensure_ascii=False, indent=1)))
    else:
        words.show_document(comparison_blocks(found, loaded))


def _lines(file: str, encoding: str | None) -> Iterator[str]:
    """Yield the lines of a file, which may be compressed, or of standard input."""
    from gpt1.base.tables import ENCODING, LONGEST_RECORD, lines_of, too_long

    encoding = encoding or ENCODING
    if file == STANDARD_INPUT:
        stream = io.TextIOWrapper(sys.stdin.buffer, encoding)
        try:
            for number in itertools.count(1):
                line = stream.readline(LONGEST_RECORD + 1)
                if len(line) > LONGEST_RECORD:
                    raise too_long("standard input", f"line {number}")
                if not line:
                    return
                yield line.rstrip("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not {encoding} text ({error.reason})") from None
    else:
        for line in lines_of(file, encoding):
            yield line.rstrip("\r\n")


def _by_many(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while some := list(itertools.islice(iterator, LINES_AT_ONCE)):
        yield some
