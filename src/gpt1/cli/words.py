"""Messages of the package in the words of the command line.

Below this room a message names what can be set as Python does, in backticks: `restart=True`, `encoding='cp1252'`, and
of another function `gpt1.prepare(restart=True)`. It begins with what is wrong; what helps follows behind semicolons,
one way and another joined by `, or `. Here that becomes `--restart` and `gpt1 prepare --restart`, and a way that the
command at work does not have is left out.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from gpt1.base.errors import Chosen, Renamed
from gpt1.base.progress import Terminal

if TYPE_CHECKING:
    from gpt1.documents.blocks import Block

WIDEST = 100  # columns of what was found
NARROWEST = 20

_SETTING = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")
_CALL = re.compile(r"`gpt1\.(\w+)\(([^`]*)\)`")
_ARGUMENT = re.compile(r"(\w+)=('[^']*'|[^,]+)")
_OUTSIDE = "(?=(?:[^`]*`[^`]*`)*[^`]*$)"  # no setting, whose value may be a name with any sign
_VERB_OF = {
    "train_tokenizer": ("tokenizer", "train"),
    "recipe": ("recipes",),
}  # functions that are not called as their verbs are
ALONE = ("demo",)  # whose folders are its own: no other verb is to work on them
DOING = {"start": "finetune"}  # verbs that do what another does too: of what it has options for, no other is told


def command_of(root: click.Group, words: Iterable[str]) -> click.Command:
    """Return the command that the words of a command line call."""
    command: click.Command = root
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return command


def in_words_of(command: click.Command, root: click.Group, text: str) -> str:
    """Return a message of the package as a user of this command can act on it."""
    does = next((other for verb, other in DOING.items() if command is command_of(root, [verb])), None)

    def worded(way: str) -> str | None:
        """Return a way out, None where it needs what the command does not have."""
        lacking = False

        def setting(found: re.Match[str]) -> str:
            nonlocal lacking
            option = _option(command, *found.groups())
            lacking |= option is None
            return option or f"'{found[1]}'"

        def call(found: re.Match[str]) -> str:
            nonlocal lacking
            called = command_of(root, _VERB_OF.get(found[1], (found[1],)))
            arguments = _ARGUMENT.findall(found[2])
            if found[1] == does and arguments and all(_option(command, *argument) for argument in arguments):
                called = command
            options = [_option(called, *argument) for argument in arguments]
            lacking |= None in options or (called is not command and command is command_of(root, ALONE))
            words = [*filter(None, options)]
            is_own = called is command and all(word.startswith("-") for word in words)  # else it is another call of it
            return " ".join([*(() if is_own else ("gpt1", *_VERB_OF.get(found[1], (found[1],)))), *words])

        done = _SETTING.sub(setting, _CALL.sub(call, way))
        return None if lacking else done

    def line(text: str) -> str:
        cause, *remedies = re.split(f"; {_OUTSIDE}", text)
        kept = [", or ".join(filter(None, map(worded, re.split(f", or {_OUTSIDE}", remedy)))) for remedy in remedies]
        return "; ".join([worded(cause) or _SETTING.sub(r"'\1'", cause), *filter(None, kept)])

    return "\n".join(map(line, text.split("\n")))


def _option(command: click.Command, name: str, value: str | None) -> str | None:
    """Return a setting as an option of a command, or a value as its argument; None where it has neither."""
    option = next((one for one in command.params if one.name == name), None)
    if isinstance(option, click.Argument) and value is not None:
        return " ".join(_shown(value))
    if not isinstance(option, click.Option):
        return None
    word = max(option.opts, key=len)
    if value is None or option.is_flag:
        return word
    return " ".join(f"{word} {one}" for one in _shown(value))


def _shown(value: str) -> list[str]:
    try:
        found: Any = ast.literal_eval(value)
    except (SyntaxError, ValueError):  # a word that stands for a value, such as NAME
        return [value]
    if isinstance(found, dict):
        return [shlex.quote(f"{key}={one}") for key, one in found.items()]
    return list(found) if isinstance(found, list) else [shlex.quote(str(found))]


def command_line(verb: str, arguments: Mapping[str, object]) -> str:
    """Return a call of a verb as a person types it, told by the names of its parameters."""
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)
    parameters = {one.name: one for one in command_of(root, [verb]).params}
    line = ["gpt1", verb]
    for name, value in arguments.items():
        option = parameters[name]
        values = [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else value
        values = values if isinstance(values, list | tuple) else [values]
        if isinstance(option, click.Argument):
            line += map(str, values)
        elif isinstance(option, click.Option) and option.is_flag:
            line += [max(option.opts, key=len)] if value else []
        else:
            line += [word for one in values for word in (max(option.opts, key=len), str(one))]
    return shlex.join(line)


def in_own_words(text: str) -> str:
    """Return a message in the words of the command at work."""
    return words_of_command()(text)


def words_of_command() -> Callable[[str], str]:
    """Return what puts messages into the words of the command at work: in other threads too, where none is known."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(root := context.find_root().command, click.Group):
        return str
    return partial(in_words_of, context.command, root)


def reworded(value: Any) -> Any:
    """Return what the package found with all that it says in the words of the command at work."""
    if isinstance(value, dict):
        return {name: reworded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [reworded(one) for one in value]
    return in_own_words(value) if isinstance(value, str) and "`" in value else value


def notice(text: str) -> None:
    """Tell a person something beside the answer."""
    click.echo(_folded(in_own_words(text), sys.stderr), err=True)


@contextmanager
def renamings_told() -> Iterator[None]:
    """Tell a person, once and on a line of its own, of each name that is another now, and what was chosen for them."""
    told: set[str] = set()
    with warnings.catch_warnings():
        for told_here in (Renamed, Chosen):
            warnings.simplefilter("always", told_here)
        show_others = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            text = str(message)
            if not issubclass(category, Renamed | Chosen):
                show_others(message, category, *place, **more)
            elif text not in told and os.environ.get("RANK", "0") == "0":  # of several processes one speaks
                told.add(text)
                notice(text)

        warnings.showwarning = tell
        yield


def show(lines: Iterable[str]) -> None:
    """Print lines that the package made."""
    click.echo(in_own_words("\n".join(lines)))


def show_document(blocks: Sequence[Block]) -> None:
    """Print what was found, as wide as the terminal is and can be read; elsewhere without colours."""
    from gpt1.documents.terminal import render

    is_terminal, asked = sys.stdout.isatty(), _asked_width()
    width = min(shutil.get_terminal_size().columns, WIDEST) if is_terminal else asked or WIDEST
    folds = is_terminal or asked is not None
    click.echo(render(blocks, width=width, is_terminal=is_terminal, folds=folds, worded=in_own_words))


def _asked_width() -> int | None:
    """Return how many columns a person wants where no terminal says it, by the variable COLUMNS."""
    asked = os.environ.get("COLUMNS", "")
    return max(int(asked), NARROWEST) if asked.isdecimal() and int(asked) else None


def _folded(text: str, out: TextIO) -> str:
    """Return a text in lines as wide as was asked for; a terminal folds them itself, and no word is cut."""
    if out.isatty() or (width := _asked_width()) is None:
        return text
    lines = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(line) for line in lines)


class CommandTerminal(Terminal):
    """Reports to a person in the words of the command at work."""

    def say(self, line: str) -> None:
        """Print one fact on a line of its own."""
        super().say(in_own_words(line))
