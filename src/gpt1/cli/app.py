"""The command `gpt1`: its verbs, loaded only when called, and how errors reach a person."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from typing import Any

import click

from gpt1 import __version__
from gpt1.base.errors import Gpt1Error, SettingError, did_you_mean
from gpt1.cli.unknown_options import told
from gpt1.cli.words import command_of, in_words_of, renamings_told

# Verb -> (module, one line of help). The module has a `command`, or one for each of its verbs, such as
# `import_command`. The line stands here so that `gpt1 --help` need not import the verb.
VERBS = {
    "demo": ("gpt1.cli.demo", "Show the whole idea in five minutes, on stories that are made up here."),
    "start": ("gpt1.cli.start", "Make a classifier of a labelled table, and tell what it is worth: check to report."),
    "tokenizer": ("gpt1.cli.tokenizer", "Train or import a vocabulary; encode and decode text."),
    "prepare": ("gpt1.cli.prepare", "Turn text, or a labelled task, into training-ready token files."),
    "doctor": ("gpt1.cli.doctor", "Tell whether text is fit to train on."),
    "tasks": ("gpt1.cli.tasks", "List the labelled tasks, or show examples of one as tokens."),
    "check": ("gpt1.cli.check", "Tell all that is wrong with a labelled table, or what a task of your own is."),
    "recipes": ("gpt1.cli.recipes", "Show the recipes, one recipe, or how two differ."),
    "plan": ("gpt1.cli.plan", "Tell what a recipe would cost: parameters, memory, time; and advise."),
    "pretrain": ("gpt1.cli.pretrain", "Train a model on a prepared corpus."),
    "distill": ("gpt1.cli.distill", "Train a small model on what larger ones answer: on a corpus, or a table."),
    "lessons": ("gpt1.cli.lessons", "Make tasks of unlabelled text, to be learned before the real ones."),
    "bases": ("gpt1.cli.bases", "List the pre-trained runs that ship with gpt1, or show the card of one."),
    "finetune": ("gpt1.cli.finetune", "Teach a pre-trained run a task, from a catalogue or a labelled table."),
    "augment": ("gpt1.cli.augment", "Write rows of a labelled table in other words, by a model on this machine."),
    "tune": ("gpt1.cli.tune", "Search the settings by which a labelled table is best learned, within a time."),
    "prune": ("gpt1.cli.prune", "Make a run smaller: leave out layers and units that it can do without."),
    "evaluate": ("gpt1.cli.evaluate", "Measure how well a run predicts text, or answers its tasks."),
    "predict": ("gpt1.cli.predict", "Answer the rows of a table with a fine-tuned run."),
    "drift": ("gpt1.cli.drift", "Tell whether what comes in has changed since a run was judged."),
    "labels": ("gpt1.cli.labels", "Tell which labels are likely wrong, and which rows to label next."),
    "submit": ("gpt1.cli.submit", "Answer GLUE's test sets with fine-tuned runs, as a zip for its server."),
    "generate": ("gpt1.cli.generate", "Let a run continue a text."),
    "zeroshot": ("gpt1.cli.zeroshot", "Ask a language model about a task that it was never taught."),
    "blimp": ("gpt1.cli.zeroshot", "Ask a language model which of two sentences is English."),
    "study": (
        "gpt1.cli.study",
        "The paper's experiments: zero-shot, layers, ablations, few labels; and of later ideas.",
    ),
    "reproduce": ("gpt1.cli.study", "Make the paper's tables 2 to 5 and figure 2, as far as the data goes."),
    "report": ("gpt1.cli.report", "Show runs and studies on one HTML page: scores side by side, curves, mistakes."),
    "card": ("gpt1.cli.card", "Write the model card of a run: what it is, what it is worth, what it cannot do."),
    "serve": ("gpt1.cli.serve", "Serve runs over HTTP, the way OpenAI's clients speak."),
    "import": ("gpt1.cli.exchange", "Make a run of GPT-1's released weights, or of transformers' OpenAIGPT."),
    "export": ("gpt1.cli.exchange", "Write a run for transformers, as ONNX, or smaller."),
    "completion": ("gpt1.cli.app", "Print the shell completion script."),
}
EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
# How often a thread of a CPU's products looks for work before it sleeps. The library's 300,000 takes the core from
# whoever has the work where other programs run too: 20 updates beside two of them took 145 s, and so 47 (one run each).
SPINS = "5000"


class Verbs(click.Group):
    """A group that lists its verbs as they were written and suggests the nearest for a mistyped one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            ctx.fail(f"no such verb '{name}'{did_you_mean(name, known)} (verbs: {', '.join(known)})")
        return super().resolve_command(ctx, args)


class LazyVerbs(Verbs):
    """The verbs of `VERBS`, each imported when it is called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        home = importlib.import_module(VERBS[name][0])
        command: click.Command = getattr(home, f"{name}_command", None) or home.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, help) for name, (_, help) in VERBS.items()])


@click.group(cls=LazyVerbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="gpt1")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error; goes anywhere.")
def gpt1() -> None:
    """GPT-1 end to end: a model is pre-trained on unlabelled text, then learns tasks from few labels."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of SHELL.

    Example, for the running shell: eval "$(gpt1 completion bash)". Put that line into ~/.bashrc (or ~/.zshrc, with
    zsh) to have it always; for fish: gpt1 completion fish > ~/.config/fish/completions/gpt1.fish
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(gpt1, {}, "gpt1", "_GPT1_COMPLETE").source())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 well, 1 error, 2 wrong usage, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)  # a scheduler's way of saying Ctrl-C
    try:
        with renamings_told():
            result: Any = gpt1.main(arguments, prog_name="gpt1", standalone_mode=False)
        sys.exit(result if isinstance(result, int) else 0)
    except click.NoSuchOption as error:
        told(error, arguments).show()
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as interruption:
        # click turns an interruption into an Abort; what interrupted may have said more
        said = str(interruption.__cause__ or interruption) or "interrupted"
        print(in_words_of(command_of(gpt1, arguments), gpt1, said), file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_ERROR)
    except Exception as error:
        if debug:
            traceback.print_exc()
        said = in_words_of(command_of(gpt1, arguments), gpt1, _in_words(error))
        print(f"error: {said}".encode("utf-8", "replace").decode(), file=sys.stderr)
        sys.exit(EXIT_USAGE if isinstance(error, SettingError) else EXIT_ERROR)


def _stop(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _in_words(error: Exception) -> str:
    if isinstance(error, Gpt1Error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"this is a fault of gpt1 itself ({type(error).__name__}: {error}); --debug shows where"
