"""`gpt1 finetune`: a pre-trained run and labelled examples in, a run that answers out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.recipes.values import AUGMENTED


@click.command()
@click.argument("table", required=False, metavar="[TABLE]")
@click.option("--init", metavar="RUN", help="The run to start from: a folder, or a base.  [the base of the package]")
@click.option("--out", required=True, metavar="RUN", help="Folder for the run.")
@click.option("--task", multiple=True, metavar="NAME", help="A task (see gpt1 tasks), or module:NAME; repeatable.")
@click.option("--data", metavar="DIR", help="--task: the folder of the tasks' files.")
@click.option("--train", metavar="TABLE", help="A labelled table: csv, tsv, jsonl or parquet, also compressed.")
@click.option("--dev", metavar="TABLE", help="--train: a table to choose the best epoch on.  [a tenth of --train]")
@click.option("--test", metavar="TABLE", help="--train: a table for the final test.")
@click.option("--more", metavar="TABLE", help="--train: rows that gpt1 augment made of it, to be learned too.")
@click.option(
    "--target-texts",
    metavar="FILE",
    help="Texts of another domain without labels, with the columns of --train, or one a line: adapt to it.",
)
@click.option("--encoded", multiple=True, metavar="DIR", help="What `gpt1 prepare --task` made; repeatable.")
@options.columns
@options.regression
@options.symmetric
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@options.shape
@click.option("--recipe", metavar="NAME", help="A recipe, or module:NAME.  [auto; of the paper's size: finetune]")
@click.option(
    "--epochs",
    type=options.Number(0, min_open=True),
    metavar="N",
    help="Times to see every example.  [as the recipe says]",
)
@options.lr
@click.option("--no-lm", is_flag=True, help="Leave out the auxiliary language-model loss.")
@click.option("--layers", type=options.WholeNumber(0), metavar="K", help="Take only the first K blocks over.  [all]")
@click.option("--scratch", is_flag=True, help="Take the shape and the words of --init, but none of its weights.")
@click.option("--class-weights", is_flag=True, help="Let rare labels count as much as frequent ones.")
@click.option(
    "--augment", is_flag=True, help=f"Leave out {AUGMENTED:.0%} of the tokens of each text, others each time."
)
@click.option(
    "--synonyms",
    metavar="FILE",
    help=f"Replace {AUGMENTED:.0%} of the words that a list has synonyms of by one of these.",
)
@click.option(
    "--patience", type=options.WholeNumber(1), metavar="N", help="Early stopping: after N epochs without a better."
)
@click.option("--seeds", type=options.WholeNumber(1), metavar="N", help="Train N seeds, keep the best.  [1]")
@click.option("--resume", is_flag=True, help="Go on with the run in --out (begin it, if there is none).")
@options.steps
@options.minutes
@options.seed
@options.device
@options.changes
@click.option("--tensorboard", is_flag=True, help="Write curves for TensorBoard into the run.")
@options.as_json
def command(
    table: str | None,
    init: str | None,
    out: str,
    as_json: bool,
    tensorboard: bool,
    changes: tuple[str, ...],
    **given: Any,
) -> None:
    """Teach a pre-trained run a task: the paper's, one's own, or that of a labelled TABLE (the same as --train TABLE).

    Whether a table is fit for it, gpt1 check TABLE tells. After each epoch it is scored on dev; the best epoch is kept,
    of equals the one with the lowest loss. Ctrl-C, SIGTERM or the end of --minutes stop it with its state saved, and
    the same command with --resume goes on, bit for bit.

    \b
    Examples:
      gpt1 finetune reviews.csv --out runs/reviews
      gpt1 finetune --init runs/books --train tickets.csv --labels-sep "|" --out runs/tickets
      gpt1 finetune --init runs/books --train faults.csv --metric macro-f1 --out runs/faults
      gpt1 finetune --train names.conll --shape tokens --out runs/names
      gpt1 finetune reviews.csv --target-texts tweets.csv --out runs/tweets
      gpt1 finetune --init runs/books --task rte --data glue_data --out runs/rte --seeds 3
      gpt1 finetune --init runs/books --encoded encoded/sst2 --out runs/sst2 --scratch
    """
    from gpt1.cli.lines import shown_training
    from gpt1.finetuning.finetune import finetune
    from gpt1.finetuning.results import results, results_blocks

    given["train"] = _the_table(table, given["train"])
    if not any(given[name] for name in ("train", "task", "encoded")):
        raise click.UsageError(
            "nothing to learn is named; name a table (gpt1 finetune TABLE --out DIR), a task and the folder of its "
            "data (--task NAME --data DIR), or what gpt1 prepare --task has made (--encoded DIR)"
        )
    told = [*changes, *_settings(given)]
    if given["synonyms"] is not None:
        told.insert(0, f"finetuning.synonyms={AUGMENTED}")  # which --set may change
    files = ("task", "data", "train", "dev", "test", "more", "encoded", "target_texts")
    sources = (
        *files,
        "regression",
        "symmetric",
        "encoding",
        "skip_bad",
        "fold_labels",
        "labels_sep",
        "metric",
        "shape",
    )
    asked = ("recipe", "synonyms", "seeds", "resume", "device", "minutes")
    named = {name: given[name] for name in sources if given[name] not in (None, (), False)}
    named |= {name: given[name] for name in asked if given[name] is not None}
    with shown_training() as lines:
        run = finetune(
            init,
            out,
            **named,
            columns=options.roles_and_names(given["columns"]),
            changes=told,
            curves=tensorboard,
            listeners=[lines],
        )
    if os.environ.get("RANK", "0") == "0":
        if as_json:
            click.echo(to_json(results(run), indent=1))
        else:
            words.show_document(results_blocks(run))


def _the_table(table: str | None, train: str | None) -> str | None:
    """Return the table that is named, with --train or without."""
    if table is not None and train is not None:
        raise click.UsageError(f"'{table}' and --train '{train}' are one too many; rows to be judged by are --dev")
    if table is not None and Path(table).is_dir():
        raise click.UsageError(f"'{table}' is a folder, and no table; a run to start from is named with --init")
    return table if train is None else train


def _settings(given: dict[str, Any]) -> list[str]:
    """Return the settings that have options of their own; they are worth more than a --set."""
    values = {
        "training.steps": given["steps"],
        "training.seed": given["seed"],
        "training.epochs": given["epochs"],
        "training.patience": given["patience"],
        "optimizer.lr": given["lr"],
        "finetuning.lm_weight": 0 if given["no_lm"] else None,
        "finetuning.transfer_layers": given["layers"],
        "finetuning.scratch": given["scratch"] or None,
        "finetuning.class_weights": given["class_weights"] or None,
        "finetuning.word_dropout": AUGMENTED if given["augment"] else None,
    }
    return [f"{name}={value}" for name, value in values.items() if value is not None]
