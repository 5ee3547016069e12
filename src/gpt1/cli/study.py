"""`gpt1 study`: the paper's experiments, each in a folder of its own; `gpt1 reproduce`: all of them in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.app import Verbs

if TYPE_CHECKING:
    from gpt1.records.study import StudyRecord
    from gpt1.studies.cells import Watcher
    from gpt1.studies.finetuned import FinetuningSettings

_PARTS, _NOTHING = ("tables", "zeroshot", "ablations", "transfer", "labels", "further"), "nothing"
_out_option = click.option("--out", required=True, metavar="DIR", help="Folder for the study; named again, it goes on.")
_init_option = click.option("--init", required=True, metavar="RUN", help="The run to start from: a folder, or a base.")
_lstm_option = click.option("--lstm", metavar="RUN", help="A pre-trained LSTM with the same tokenizer, for its arm.")
_seeds_option = click.option(
    "--seeds", type=options.WholeNumber(1), metavar="N", help="Seeds of each fine-tuning.  [1]"
)
_task_option = click.option("--task", multiple=True, metavar="NAME", help="A task, or module:NAME; repeatable.")
_data_option = click.option("--data", metavar="DIR", help="--task: the folder of the tasks' files.")
_part_option = click.option(
    "--part", metavar="I/N", help="Make every N-th cell alone, beside other commands; then without it the tables."
)
_rates_option = click.option(
    "--arm-lr",
    "rates",
    multiple=True,
    metavar="ARM=RATE",
    help="Learning rate of scratch, no-lm or lstm; repeatable.  [that of the others]",
)
_recipe_option = click.option(
    "--recipe", metavar="NAME", help="Of fine-tuning: a recipe, or module:NAME.  [auto; of the paper's size: finetune]"
)


def _training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how fine-tunings are made."""
    for option in (
        _part_option,
        options.changes,
        options.device,
        options.seed,
        options.steps,
        options.lr,
        _recipe_option,
        _seeds_option,
    ):
        command = option(command)
    return command


def _table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name labelled data: tasks, or tables."""
    tables = (
        click.option("--train", metavar="TABLE", help="A labelled table: csv, tsv, jsonl or parquet."),
        click.option("--dev", metavar="TABLE", help="--train: a table to choose the best epoch on."),
        click.option("--test", metavar="TABLE", help="--train: a table for the final test."),
    )
    found = (_task_option, _data_option, *tables, options.columns, options.regression, options.symmetric)
    for option in reversed((*found, options.encoding, options.skip_bad, options.fold_labels)):
        command = option(command)
    return command


@click.group(cls=Verbs)
def command() -> None:
    """The paper's experiments. Each is made of cells that are kept as they are done: killed, it goes on.

    \b
    Example: gpt1 study labels --init runs/books --train reviews.csv --counts 50,200,1000 --out labels --seeds 3
    """


@command.command("zeroshot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_task_option
@_data_option
@_out_option
@click.option("--shots", type=options.WholeNumber(0), metavar="K", help="Solved examples before each text.  [0]")
@options.seed
@options.device
@_part_option
@options.as_json
def zeroshot_command(
    runs: tuple[str, ...],
    task: tuple[str, ...],
    data: str | None,
    out: str,
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Figure 2 right: ask all kept checkpoints of runs about tasks that they were never taught.

    Tasks are those of gpt1 zeroshot, and blimp: grammar, by minimal pairs, which lie in the folder blimp of --data. A
    pre-training keeps its weights after 100, 200, 400, ... updates (logging.keep_weights of its recipe).

    \b
    Examples:
      gpt1 study zeroshot runs/books runs/lstm --task sst2 --task storycloze --data tasks/ --out zeroshot
      gpt1 study zeroshot runs/books --task blimp --data tasks/ --out grammar
    """
    from gpt1.studies.zeroshot import study_zeroshot

    if not task or data is None:
        raise click.UsageError("say what to ask: --task NAME (repeatable) with --data DIR")
    asked = {name: value for name, value in given.items() if value is not None}
    own = options.part_of(part)
    _watched(
        lambda watcher: study_zeroshot(runs, out, tasks=task, data=data, part=own, watcher=watcher, **asked),
        out,
        as_json,
        own,
    )


@command.command("transfer")
@_init_option
@_table_options
@_out_option
@click.option("--layers", metavar="0,1,..", help="How many blocks to take over.  [each number there is]")
@_training_options
@options.as_json
def transfer_command(init: str, out: str, layers: str | None, part: str | None, as_json: bool, **given: Any) -> None:
    """Figure 2 left: fine-tune with the embeddings alone, then with more and more pre-trained blocks.

    \b
    Example: gpt1 study transfer --init runs/books --task mnli --data tasks/ --out transfer --seeds 3
    """
    from gpt1.studies.transfer import study_transfer

    counts = None if layers is None else _numbers("--layers", layers, "0,1,2")
    source, training, own = options.source_of(**given), _training_of(given), options.part_of(part)
    _watched(
        lambda watcher: study_transfer(
            init, out, source=source, training=training, layers=counts, part=own, watcher=watcher
        ),
        out,
        as_json,
        own,
    )


@command.command("ablations")
@_init_option
@_lstm_option
@_table_options
@_out_option
@_rates_option
@_training_options
@options.as_json
def ablations_command(
    init: str, lstm: str | None, out: str, rates: tuple[str, ...], part: str | None, as_json: bool, **given: Any
) -> None:
    """Table 5: pre-trained, from scratch, without auxiliary LM, and an LSTM.

    \b
    Example: gpt1 study ablations --init runs/books --lstm runs/lstm --task rte --task cola --data tasks/
             --out ablations --seeds 3
    """
    from gpt1.studies.ablations import study_ablations

    source, training, own, of_arms = (
        options.source_of(**given),
        _training_of(given),
        options.part_of(part),
        _rates(rates),
    )
    _watched(
        lambda watcher: study_ablations(
            init, out, source=source, training=training, lstm=lstm, rates=of_arms, part=own, watcher=watcher
        ),
        out,
        as_json,
        own,
    )


@command.command("objectives")
@click.option("--causal", metavar="RUN", help="Beside --mixed: a run that read from left to right alone.")
@click.option("--mixed", metavar="RUN", help="A run that read the same with training.masked_share.")
@click.option("--corpus", metavar="DIR", help="In their place: pre-train both on this corpus, in --bases.")
@click.option("--bases", metavar="DIR", help="--corpus: folder for the two runs; named again, they go on.")
@click.option("--read", "reading", metavar="NAME", help="--corpus: the recipe of the pre-training.  [small]")
@click.option(
    "--read-set", "read_changes", multiple=True, metavar="NAME=VALUE", help="--corpus: change a setting of it."
)
@_table_options
@_out_option
@_training_options
@options.as_json
def objectives_command(
    causal: str | None,
    mixed: str | None,
    corpus: str | None,
    bases: str | None,
    reading: str | None,
    read_changes: tuple[str, ...],
    out: str,
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Is it worth it to look both ways? Masked next-token prediction mixed in, and fine-tuning left to right or not.

    Half of the batches of --corpus are masked for the second run; --read-set training.masked_share sets another share.

    \b
    Example: gpt1 study objectives --causal runs/causal --mixed runs/mixed --task rte --data tasks/ --out both-ways
             --seeds 3
    """
    from gpt1.studies.objectives import ToRead, study_objectives

    found: tuple[str, str] | ToRead
    if corpus is None:
        if causal is None or mixed is None:
            raise click.UsageError("say what to start from: --causal RUN --mixed RUN, or --corpus DIR --bases DIR")
        if bases is not None or reading is not None or read_changes:
            raise click.UsageError("--bases, --read and --read-set are of runs that are made: they want --corpus")
        found = causal, mixed
    else:
        if causal is not None or mixed is not None:
            raise click.UsageError("--corpus makes both runs: leave --causal and --mixed out")
        if bases is None:
            raise click.UsageError("--corpus wants --bases DIR, a folder for the two runs")
        found = ToRead(corpus, **({} if reading is None else {"reading": reading}), changes=read_changes)
    source, training, own = options.source_of(**given), _training_of(given), options.part_of(part)
    _watched(
        lambda watcher: study_objectives(
            found, out, source=source, training=training, folder=bases, part=own, watcher=watcher
        ),
        out,
        as_json,
        own,
    )


@command.command("labels")
@_init_option
@_table_options
@_out_option
@click.option("--counts", required=True, metavar="50,200,all", help="How many labels to learn from.")
@click.option(
    "--arms", metavar="NAMES", help="Of pre-trained, scratch, no-lm, tf-idf, chosen.  [pre-trained,scratch,tf-idf]"
)
@click.option(
    "--scratch-lr",
    type=options.Number(0, min_open=True),
    metavar="RATE",
    help="Learning rate from scratch.  [that of the others]",
)
@_training_options
@options.as_json
def labels_command(
    init: str,
    out: str,
    counts: str,
    arms: str | None,
    scratch_lr: float | None,
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Learn from few labels: pre-trained, from scratch, and by counting words (TF-IDF and a linear model).

    A further arm, chosen, is what gpt1 finetune --set finetuning.ensemble=true makes of them: the network, counted
    words, or both.

    \b
    Example: gpt1 study labels --init runs/books --train reviews.csv --counts 50,200,1000 --out labels --seeds 3
    """
    from gpt1.studies.labels import study_labels

    wanted = _counts(counts)
    asked: dict[str, Any] = {} if arms is None else {"arms": [name.strip() for name in arms.split(",")]}
    source, training, own = options.source_of(**given), _training_of(given), options.part_of(part)
    _watched(
        lambda watcher: study_labels(
            init,
            out,
            source=source,
            training=training,
            counts=wanted,
            scratch_lr=scratch_lr,
            part=own,
            watcher=watcher,
            **asked,
        ),
        out,
        as_json,
        own,
    )


@command.command("augmentation")
@_init_option
@_table_options
@_out_option
@click.option("--counts", required=True, metavar="200,1000", help="How many labels to learn from, or all.")
@click.option(
    "--arms",
    metavar="NAMES",
    help="Of word-dropout, span-deletion, swaps, synonyms, mixup, r-drop.  [all; synonyms with a list]",
)
@click.option(
    "--strength",
    "strengths",
    multiple=True,
    metavar="ARM=NUMBER",
    help="How strong an arm is; repeatable.  [0.1; mixup: 0.2, r-drop: 1]",
)
@click.option("--synonyms", metavar="FILE", help="A list: a word and a synonym on each line, or a file of WordNet.")
@_training_options
@options.as_json
def augmentation_command(
    init: str,
    out: str,
    counts: str,
    arms: str | None,
    strengths: tuple[str, ...],
    synonyms: str | None,
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Does augmentation help? Learn the same few labels without any, and with one way at a time.

    It says what helps and what hurts beyond chance, in pairs on the same rows.

    \b
    Example: gpt1 study augmentation --init runs/books --train reviews.csv --counts 200,1000 --out words --seeds 5
    """
    from gpt1.studies.augmentation import study_augmentation

    wanted = _counts(counts)
    names = None if arms is None else [name.strip() for name in arms.split(",")]
    source, training, own = options.source_of(**given), _training_of(given), options.part_of(part)
    strong = _rates(strengths, "--strength", "mixup=0.4")
    _watched(
        lambda watcher: study_augmentation(
            init,
            out,
            source=source,
            training=training,
            counts=wanted,
            arms=names,
            strengths=strong,
            synonyms=synonyms,
            part=own,
            watcher=watcher,
        ),
        out,
        as_json,
        own,
    )


@command.command("domain")
@_init_option
@click.option("--corpus", required=True, metavar="DIR", help="Text of the new domain: a prepared corpus.")
@click.option("--old", required=True, metavar="DIR", help="Text of the old domain: a prepared corpus.")
@_table_options
@_out_option
@click.option("--shares", metavar="0,0.25,..", help="Shares of old text in what is read.  [0,0.1,0.25,0.5]")
@click.option(
    "--read",
    "reading",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting of the reading, such as training.steps=500; repeatable.",
)
@_training_options
@options.as_json
def domain_command(
    init: str,
    corpus: str,
    old: str,
    out: str,
    shares: str | None,
    reading: tuple[str, ...],
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Go on with text of a new domain: what is learned, what is forgotten, and what mixing in old text saves.

    A run reads the new text with each share of old text among it, and nothing at all; each is measured on text for
    validation of both domains, and learns a task of the new one. All that read make as many updates.

    \b
    Example: gpt1 study domain --init runs/books --corpus mails --old corpus --train tickets.csv --out domain --seeds 3
    """
    from gpt1.studies.domain import study_domain

    asked: dict[str, Any] = {} if shares is None else {"shares": _shares(shares)}
    source, training, own = options.source_of(**given), _training_of(given), options.part_of(part)
    _watched(
        lambda watcher: study_domain(
            init,
            out,
            corpus=corpus,
            old=old,
            source=source,
            training=training,
            reading=reading,
            part=own,
            watcher=watcher,
            **asked,
        ),
        out,
        as_json,
        own,
    )


@click.command("reproduce")
@_init_option
@_lstm_option
@click.option("--data", required=True, metavar="DIR", help="A folder with the tasks, each in one of its name.")
@_out_option
@click.option(
    "--contiguous",
    metavar="RUN",
    help="Beside --shuffled: a run that read the same text as it is, as long as that one.",
)
@click.option("--shuffled", metavar="RUN", help="A run that read text whose sentences were shuffled.")
@click.option(
    "--counts", metavar="500,all", help="From how many labels to learn with and without auxiliary LM.  [none]"
)
@click.option("--make", metavar="PARTS", help=f"Of {', '.join(_PARTS)}: make these alone, or nothing.  [all]")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Make cells of this task alone; repeatable.")
@_rates_option
@_training_options
@options.as_json
def reproduce_command(
    init: str,
    lstm: str | None,
    data: str,
    out: str,
    contiguous: str | None,
    shuffled: str | None,
    counts: str | None,
    make: str | None,
    tasks: tuple[str, ...],
    rates: tuple[str, ...],
    part: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make the paper's tables 2 to 5 and figure 2, as far as the data goes, with the paper's figures beside ours.

    Every task found in --data is learned; a table of what is done and left is shown on the way. What is done is kept:
    killed and called again, it goes on. claims.md of the folder says which claims of the paper hold; with --make
    nothing it is written of what is done.

    \b
    Example: gpt1 reproduce --init runs/paper --lstm runs/lstm --data tasks/ --out reproduction --seeds 3
    """
    from gpt1.studies.reproduce import Scope, reproduce

    training, own, of_arms = _training_of(given), options.part_of(part), _rates(rates)
    texts = {name: run for name, run in (("contiguous", contiguous), ("shuffled", shuffled)) if run is not None}
    numbers = [] if counts is None else _counts(counts)
    parts = _PARTS if make is None else tuple(name.strip() for name in make.split(",") if make != _NOTHING)
    scope = Scope(parts, tasks or None, own)
    _watched(
        lambda watcher: reproduce(
            init,
            out,
            data=data,
            training=training,
            lstm=lstm,
            rates=of_arms,
            counts=numbers,
            texts=texts,
            scope=scope,
            watcher=watcher,
        ),
        out,
        as_json,
        own,
    )


def _rates(pairs: tuple[str, ...], option: str = "--arm-lr", example: str = "scratch=1e-3") -> dict[str, float]:
    """Return what `--arm-lr ARM=RATE`, or an option like it, said, given any number of times."""
    found = {}
    for pair in pairs:
        arm, _, rate = pair.partition("=")
        try:
            found[arm] = float(rate)
        except ValueError:
            raise click.UsageError(
                f"{option} takes ARM={'RATE' if option == '--arm-lr' else 'NUMBER'}, such as {example}, not '{pair}'"
            ) from None
    return found


def _numbers(option: str, text: str, example: str) -> list[int]:
    """Return whole numbers that stand between commas."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise click.UsageError(
            f"{option} takes whole numbers between commas, such as {example}, not '{text}'"
        ) from None


def _shares(text: str) -> list[float]:
    """Return shares that stand between commas."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--shares takes numbers between commas, such as 0,0.25, not '{text}'") from None


def _counts(text: str) -> list[int | Literal["all"]]:
    """Return numbers of labels that stand between commas, of which one may be all there are."""
    try:
        return ["all" if word.strip() == "all" else int(word) for word in text.split(",")]
    except ValueError:
        raise click.UsageError(
            f"--counts takes whole numbers and all between commas, such as 50,200,all, not '{text}'"
        ) from None


def _training_of(given: dict[str, Any]) -> FinetuningSettings:
    """Return how fine-tunings are made, as options say."""
    from gpt1.studies.finetuned import FinetuningSettings

    own = {"training.steps": given["steps"], "training.seed": given["seed"], "optimizer.lr": given["lr"]}
    changes = [*given["changes"], *(f"{name}={value}" for name, value in own.items() if value is not None)]
    named = {name: given[name] for name in ("recipe", "device", "seeds") if given[name] is not None}
    return FinetuningSettings(changes=changes, **named)


def _watched(study: Callable[[Watcher], StudyRecord], out: str, as_json: bool, part: tuple[int, int] | None) -> None:
    """Run a study, or a part of it, before a person's eyes, and print what it found."""
    from gpt1.cli.lines import StudyLines

    terminal = words.CommandTerminal()
    try:
        found = study(StudyLines(terminal))
    finally:
        terminal.done()
    if as_json:
        click.echo(to_json(found.as_json(), indent=1))
        return
    if part is not None:
        done, planned = found.cells.done, found.cells.planned
        click.echo(f"Part {part[0]} of {part[1]}: {done:,} of {planned:,} cells are done; without --part, the tables")
        return
    from gpt1.documents.study import study_blocks

    words.show_document(study_blocks(found))
    click.echo(f"\nAll of it: {out}/study.json and *.csv; gpt1 report {out} draws it")
