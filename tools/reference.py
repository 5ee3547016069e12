"""The reference of the site, made from the code: a page for each verb, and one for what Python offers.

What a verb takes is asked of the command line itself, what a function takes of its signature; the words are those of
`--help` and of the docstrings.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from types import FunctionType

import click

import gpt1
from gpt1.cli.app import VERBS
from gpt1.cli.app import gpt1 as command_line
from gpt1.corpus.prepare import Preparation
from gpt1.inference.run import Run
from gpt1.inference.sampling import SamplingParams
from gpt1.labelling.choosing import RowToLabel
from gpt1.labelling.suspects import Suspect
from gpt1.recipes.values import Recipe
from gpt1.starting.start import StartResult
from gpt1.text.tokenizer import Tokenizer

# What the public functions return, or take as values, and what of theirs is for people to call.
VALUES: dict[type, tuple[str, ...]] = {
    Run: ("predict", "generate", "generate_batch", "stream", "score", "embed", "attention", "tasks", "tokenizer"),
    Tokenizer: ("encode", "encode_batch", "decode", "save"),
    Recipe: (),
    Preparation: (),
    SamplingParams: (),
    StartResult: (),
    Suspect: (),
    RowToLabel: (),
}
WIDTH = 88  # of a signature on one line

_NOTE = re.compile(r"  \[([^\]]*)\]")  # behind the help of an option: its default, its bounds, that it is required
_BOUNDS = re.compile(r".*x[<>].*|.*[<>]=?x.*")
_OPTION = re.compile(r"(?<![\w-])(--[a-z0-9][a-z0-9-]*)")
_CODE = re.compile(r"(`[^`]+`)")
_EXAMPLE = re.compile(r"Examples?[^:]*:(?=\n| gpt1 )")
_MARK = re.compile(r"([\\*_<>\[\]|#$])")  # what Markdown would read as more than a sign
_NAME = re.compile(r"`([A-Z]\w+)`")


def plain(text: str) -> str:
    """Return text of a help as Markdown: options as code, no sign more than a sign."""

    def written(text: str) -> str:
        parts = enumerate(_OPTION.split(text))
        return "".join(f"`{part}`" if is_option % 2 else _MARK.sub(r"\\\1", part) for is_option, part in parts)

    return "".join(part if is_code % 2 else written(part) for is_code, part in enumerate(_CODE.split(text)))


def block(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"


def help_parts(text: str) -> Iterator[str]:
    """Yield the paragraphs of a verb's help; examples are blocks of code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.removeprefix("\b\n")
        if example := _EXAMPLE.match(lines):
            yield plain(example[0])
            # Blanks in place of the word, so that a command beside it stands as those below it do.
            commands = " " * example.end() + lines[example.end() :]
            yield block(textwrap.dedent(commands.lstrip(" \n") if "\n" not in commands else commands).strip("\n"))
        else:
            yield plain(lines)


def option_entry(option: click.Option, context: click.Context) -> str | None:
    """Return what an option means, and what holds without it; None for one that help does not show."""
    record = option.get_help_record(context)
    if record is None:
        return None
    names, help = record
    notes = [
        f"`{note}`" if _BOUNDS.fullmatch(note) else "required" if note == "required" else f"default: {plain(note)}"
        for note in _NOTE.findall(help)
    ]
    told = plain(_NOTE.sub("", help)) + (f" ({'; '.join(notes)})" if notes else "")
    return f":::{{option}} {names}\n{told}\n:::"


def verb_parts(words: list[str], command: click.Command, depth: int = 1) -> Iterator[str]:
    """Yield what there is to say of a verb, and of those below it."""
    context = click.Context(command, info_name=" ".join(words))
    yield f"{'#' * depth} {' '.join(words)}"
    yield f":::{{program}} {' '.join(words)}\n:::"
    yield block(" ".join([*words, *command.collect_usage_pieces(context)]))
    yield from help_parts(command.help or "")
    entries = [option_entry(option, context) for option in command.params if isinstance(option, click.Option)]
    yield from filter(None, entries)
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from verb_parts([*words, name], below, depth + 1)


def verb_pages(folder: str) -> dict[str, str]:
    """Return a page for each verb, by its place, and one that lists them."""
    context = click.Context(command_line)
    commands = {verb: command_line.get_command(context, verb) for verb in VERBS}
    pages = {f"{folder}/verbs/{verb}.md": page(verb_parts(["gpt1", verb], commands[verb])) for verb in commands}
    rows = [f"| [{verb}](verbs/{verb}.md) | {plain(line)} |" for verb, (_, line) in VERBS.items()]
    names = "\n".join(f"verbs/{verb}" for verb in VERBS)
    table = "\n".join(["| verb | what for |", "|---|---|", *rows])
    return {f"{folder}/verbs.md": page(["# Verbs", table, f"```{{toctree}}\n:hidden:\n\n{names}\n```"]), **pages}


def page(parts: Iterable[str]) -> str:
    """Return a page of its parts."""
    return "\n\n".join(parts) + "\n"


def signature(name: str, function: Callable[..., object]) -> str:
    """Return how something is called: on one line if that is short, else a line for each thing that it takes."""
    found = inspect.signature(function)
    taken: list[str] = []
    for one in found.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in taken and not any(part.startswith("*") for part in taken):
            taken.append("*")
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {one.annotation}"
        default = "" if one.default is one.empty else f" = {getattr(one.default, '__name__', repr(one.default))}"
        if one.name != "self":
            taken.append(mark + one.name + kind + default)
    returned = "" if found.return_annotation in (found.empty, "None") else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(taken)}){returned}"
    return line if len(line) <= WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in taken) + f"){returned}"


def fields_of(value: type) -> str:
    """Return the fields of a value as its class has them, with what is said beside them."""
    source = textwrap.dedent(inspect.getsource(value))
    (found,) = ast.parse(source).body
    assert isinstance(found, ast.ClassDef)
    fields = [node for node in found.body if isinstance(node, ast.AnnAssign)]
    lines = [line for node in fields for line in source.splitlines()[node.lineno - 1 : node.end_lineno]]
    return f"class {value.__name__}:\n" + "\n".join(lines)


def docstring(thing: object) -> str:
    """Return what a docstring says, the values that it names linked to what is said of them."""
    known = {value.__name__ for value in VALUES} | set(gpt1.__all__)
    return _NAME.sub(
        lambda found: f"[{found[0]}](#{found[1].lower()})" if found[1] in known else found[0],
        inspect.getdoc(thing) or "",
    )


def methods(of: type) -> dict[str, object]:
    """Return what is for people to call on a value or to read of it, by name."""
    ours = [vars(home) for home in reversed(of.__mro__) if home.__module__.startswith("gpt1.")]
    found = {name: member for home in ours for name, member in home.items()}
    if of in VALUES:
        return {name: found[name] for name in VALUES[of]}
    return {name: member for name, member in found.items() if name[0] != "_" and isinstance(member, FunctionType)}


def thing_parts(name: str, thing: object) -> Iterator[str]:
    """Yield what there is to say of a function or a class, and of the latter's methods."""
    yield f"## {name}"
    if not isinstance(thing, type):
        assert callable(thing)
        yield block(signature(f"gpt1.{name}", thing), "python")
        yield docstring(thing)
        return
    if is_dataclass(thing) and thing is not Run:
        yield block(fields_of(thing), "python")
    elif "__init__" in vars(thing) and thing not in VALUES:
        yield block(signature(name, thing), "python")
    yield docstring(thing)
    for method, member in methods(thing).items():
        yield f"### {name}.{method}"
        if isinstance(member, FunctionType):
            yield block(signature(method, member), "python")
        yield docstring(member)


def python_page() -> str:
    """Return the page of what Python offers: the public names, then what they return or take."""
    parts = [
        "# Python",
        "These names stay; all else may change without notice. Each is imported when it is first used.",
    ]
    for name in gpt1.__all__:
        parts += thing_parts(name, getattr(gpt1, name))
    parts += ["What they return or take:"]
    for value in VALUES:
        parts += thing_parts(value.__name__, value)
    return page(parts)
