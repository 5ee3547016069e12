"""`gpt1 evaluate`: how well a run predicts text, or answers its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

if TYPE_CHECKING:
    from gpt1.inference.run import Run

step_option = click.option("--step", metavar="N|best|last", help="Which checkpoint.  [best]")


@click.command()
@click.argument("run")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--corpus", metavar="DIR", help="A corpus that `gpt1 prepare` made.  [the one the run was trained on]")
@click.option("--task", metavar="NAME", help="Fine-tuned: which of its tasks.  [all]")
@click.option("--data", metavar="DIR", help="Fine-tuned: the folder of its tasks.  [what it was trained with]")
@click.option("--table", metavar="TABLE", help="Fine-tuned: a labelled table with the columns of its task.")
@click.option("--encoded", metavar="DIR", help="Fine-tuned: what `gpt1 prepare --task` made.")
@click.option("--split", metavar="NAME", help="Which part.  [valid; fine-tuned: dev; --table: the file's name]")
@click.option("--overwrite", is_flag=True, help="--table: replace what was measured on another of the same name.")
@options.columns
@options.encoding
@options.skip_bad
@options.fold_labels
@step_option
@options.device
@options.as_json
def command(
    run: str,
    paths: tuple[str, ...],
    corpus: str | None,
    overwrite: bool,
    step: str | None,
    device: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure how well a run predicts text, or how well a fine-tuned run answers.

    Text is measured by loss, perplexity and bits per byte: PATHs in any form `gpt1 prepare` reads, or a split of a
    prepared corpus. Answers are measured by the metrics of the task with their 95 % intervals, confusion, calibration
    and the worst mistakes; all of it is kept in the run's folder.

    \b
    Examples:
      gpt1 evaluate runs/tiny
      gpt1 evaluate runs/tiny --corpus other-corpus --split train
      gpt1 evaluate runs/tiny letters/*.txt
      gpt1 evaluate runs/reviews --table march.csv
    """

    if paths and corpus is not None:
        raise click.UsageError("name either texts or a --corpus, not both")
    opened = open_run(run, step, device)
    if opened.has_tasks and not paths and corpus is None:
        _evaluate_answers(opened, run, as_json, overwrite, given)
    else:
        for name in ("task", "data", "table", "encoded", "columns", "encoding", "skip_bad", "fold_labels"):
            if given[name] not in (None, ()):
                option = "column" if name == "columns" else name.replace("_", "-")
                what = "labelled data, and this is text" if opened.has_tasks else f"fine-tuned runs, and {run} is none"
                raise click.UsageError(f"--{option} is for {what}")
        _evaluate_text(opened, run, paths, corpus, given["split"], as_json)


def open_run(run: str, step: str | None, device: str | None, int8: bool = False) -> Run:
    """Open a run as the options of a verb say."""
    from gpt1.inference.run import load_run

    named: dict[str, Any] = {} if step is None else {"step": int(step) if step.isdecimal() else step}
    return load_run(run, device=device, refused=words.notice, int8=int8, **named)


def _evaluate_text(
    opened: Run, run: str, paths: tuple[str, ...], corpus: str | None, split: str | None, as_json: bool
) -> None:
    from gpt1.base.wording import some
    from gpt1.cli.lines import score_line
    from gpt1.pretraining.measure import SPLIT, corpus_of, measure_corpus, measure_text
    from gpt1.text.unknowns import text_notice

    split = split or SPLIT
    scores = measure_text(opened, paths) if paths else measure_corpus(opened, corpus, split)
    what = some(paths) if paths else f"split {split} of {corpus or corpus_of(opened)}"
    if as_json:
        click.echo(to_json({"run": run, "step": opened.checkpoint.step, **scores}, indent=1))
    else:
        click.echo(f"{run}, update {opened.checkpoint.step}, {what}: {score_line(scores, 'loss')}")
        click.echo(f"{scores['targets']:,.0f} tokens were predicted")
    if told := text_notice(what, int(scores["unknown_tokens"]), int(scores["targets"])):
        words.notice(told)


def _evaluate_answers(opened: Run, run: str, as_json: bool, overwrite: bool, given: dict[str, Any]) -> None:
    from gpt1.documents.evaluation import evaluation_blocks, task_scores
    from gpt1.finetuning.measure import evaluate_run, evaluation_file
    from gpt1.finetuning.results import decisions

    named = {name: value for name, value in given.items() if value not in (None, ())}
    if "columns" in named:
        named["columns"] = options.roles_and_names(named["columns"])
    found = evaluate_run(opened, **named, overwrite=overwrite, notice=words.notice)
    if as_json:
        evaluations = [one.as_json() for one in found]
        click.echo(to_json({"run": run, "step": opened.checkpoint.step, "evaluations": evaluations}, indent=1))
        return
    words.show_document(
        [*task_scores(found, decisions(opened)), *(block for one in found for block in evaluation_blocks(one))]
    )
    files = [evaluation_file(opened.path, one.task, one.split) for one in found]
    words.show(["", *(f"All of it: {file}" for file in files)])
