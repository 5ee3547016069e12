"""A default is the owner's: what help says of one is held against it, and the command line has none of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from gpt1.base.tables import ENCODING
from gpt1.cli.app import gpt1
from gpt1.corpus.prepare import Preparation, prepare
from gpt1.corpus.vocabularies import train_tokenizer
from gpt1.demo import tour as demo
from gpt1.demo.books_tour import BOOKS_FOLDER
from gpt1.exchange.importing import import_openai, import_transformers
from gpt1.exchange.rewording import Ways, reword_table
from gpt1.finetuning.drifting import find_drift
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run
from gpt1.inference.answer_files import answer_table
from gpt1.inference.blimp import read_pairs
from gpt1.inference.run import load_run
from gpt1.inference.sampling import SamplingParams
from gpt1.inference.zeroshot import zeroshot
from gpt1.inspection.doctor import examine
from gpt1.inspection.plan import RECIPE, plan
from gpt1.labelling.choosing import next_labels
from gpt1.labelling.suspects import suspect_labels
from gpt1.lessons.making import make_lessons
from gpt1.pretraining.distill import distill_text
from gpt1.pretraining.measure import SPLIT
from gpt1.pretraining.pretrain import pretrain
from gpt1.pruning.prune import prune
from gpt1.recipes.catalog import FINETUNE, PAPER
from gpt1.recipes.values import AUGMENTED
from gpt1.report import report
from gpt1.serve import listening
from gpt1.serve.limits import Limits
from gpt1.serve.settings import ServerSettings
from gpt1.starting.start import start
from gpt1.studies.ablations import study_ablations
from gpt1.studies.augmentation import STRENGTHS, study_augmentation
from gpt1.studies.domain import SHARES, study_domain
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.labels import USUAL, study_labels
from gpt1.studies.objectives import ToRead, study_objectives
from gpt1.studies.reproduce import Scope, reproduce
from gpt1.studies.transfer import study_transfer
from gpt1.studies.zeroshot import study_zeroshot
from gpt1.tasks.catalog import Task
from gpt1.tasks.checking import check_table
from gpt1.tasks.describe import check_task, show_task
from gpt1.tasks.preparing import prepare_task
from gpt1.tasks.splitting import ONE_IN
from gpt1.tuning.tune import tune

(DEV,) = Task.dev_splits
FINETUNED = {"lr": None, "epochs": None, "steps": FINETUNE.training.steps, "seed": FINETUNE.training.seed}
STUDY = (FINETUNED, FinetuningSettings, study_transfer, finetune)  # whose tables are read as those of a fine-tuning
STRONGER = ", ".join(f"{arm}: {value:g}" for arm, value in STRENGTHS.items() if value != AUGMENTED)
# Whose defaults the options of a verb are: values by the option's name, or what has it as a field or a parameter.
OWNERS: dict[str, tuple[Any, ...]] = {
    "demo": (
        demo.tour,
        {"out": f"{demo.FOLDER}; with --text: {demo.OWN_TEXT_FOLDER}; with --books: {BOOKS_FOLDER}"},
    ),
    "start": ({"out": "gpt1-NAME, by the name of the table"}, start, finetune),
    "tokenizer train": (train_tokenizer,),
    "tokenizer diff": ({"encoding": ENCODING},),
    "tokenizer encode": ({"encoding": ENCODING},),
    "prepare": (Preparation, prepare, prepare_task),
    "doctor": (examine,),
    "tasks": (show_task,),
    "check": (check_task, check_table, {"init": "the base of the package"}),
    "plan": ({"recipe": RECIPE}, plan),
    "pretrain": (pretrain, {"steps": PAPER.training.steps, "seed": PAPER.training.seed}),
    "distill": (
        distill_text,
        {"steps": PAPER.training.steps, "seed": PAPER.training.seed},
        {"dev": "a tenth of --train" if ONE_IN == 10 else f"1 in {ONE_IN}"},
        finetune,
    ),
    "lessons": (make_lessons,),
    "finetune": (
        {"layers": FINETUNE.finetuning.transfer_layers, **FINETUNED},
        {"init": None, "dev": "a tenth of --train" if ONE_IN == 10 else f"1 in {ONE_IN}"},
        finetune,
    ),
    "tune": (
        {"dev": "a tenth of --train" if ONE_IN == 10 else f"1 in {ONE_IN}", "seed": FINETUNE.training.seed},
        tune,
        finetune,
    ),
    "augment": (
        {"dev": "a tenth of TABLE" if ONE_IN == 10 else f"1 in {ONE_IN}"},
        Ways,
        reword_table,
        load_run,
        {"encoding": ENCODING},
    ),
    "prune": (prune,),
    "evaluate": (
        {"split": f"{SPLIT}; fine-tuned: {DEV}; --table: the file's name", "corpus": None},
        evaluate_run,
        load_run,
    ),
    "labels suspect": (suspect_labels, load_run),
    "labels next": (next_labels, load_run),
    "predict": ({"out": None}, answer_table, load_run),
    "drift": ({"reference": "the run's own for dev and test, where they still lie as they did"}, find_drift, load_run),
    "submit": (load_run,),
    "generate": (SamplingParams, load_run),
    "zeroshot": ({"split": DEV}, zeroshot, load_run),
    "blimp": (read_pairs, load_run),
    "study zeroshot": (study_zeroshot,),
    "study transfer": STUDY,
    "study ablations": (study_ablations, *STUDY),
    "study objectives": (ToRead, study_objectives, *STUDY),
    "study domain": ({"shares": ",".join(f"{share:g}" for share in SHARES)}, study_domain, *STUDY),
    "study labels": ({"arms": ",".join(USUAL)}, study_labels, *STUDY),
    "study augmentation": (
        {"arms": "all; synonyms with a list", "strengths": f"{AUGMENTED:g}; {STRONGER}"},
        study_augmentation,
        *STUDY,
    ),
    "reproduce": ({"counts": "none", "make": "all"}, Scope, reproduce, *STUDY),
    "report": (report,),
    "card": ({"out": None},),
    "serve": ({"port": listening.PORT, "token": None, "device": None, "reference": None}, Limits, ServerSettings),
    "import openai": (import_openai,),
    "import transformers": (import_transformers,),
    "export transformers": (load_run,),
    "export onnx": (load_run,),
    "export compact": (load_run,),
}
# What `None` means, where it is left to the owner.
LEFT_TO_THE_OWNER = {
    "a run's own for dev",
    "all",
    "all cores",
    "as many as fit",
    "as the recipe says",
    "auto; of the paper's size: finetune",
    "each number there is",
    "it is printed",
    "file for txt and md, field for tables",
    "JSON lines, printed",
    "that of the others",
    "the base of the package",
    "the best there is",
    "the fastest there is",
    "the names of the folders",
    "the one the run was trained on",
    "this machine",
    "what it was trained with",
    "$GPT1_TOKEN, or none",
}
# Below the command line a prompt that is to be continued twice is given twice.
OF_THE_COMMAND_LINE = {("generate", "--samples")}


def commands(group: click.Group = gpt1, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}".strip())
        elif command is not None:
            yield f"{name} {word}".strip(), command


def options() -> Iterator[tuple[str, click.Option]]:
    for name, command in commands():
        yield from ((name, option) for option in command.params if isinstance(option, click.Option))


def in_help(option: click.Option) -> str | None:
    """Return the default that help tells, which stands in brackets at its end."""
    found = re.search(r"\[([^\]]*)\]$", option.help or "")
    return found[1] if found else None


def owned(verb: str, name: str) -> Any:
    for owner in OWNERS.get(verb, ()):
        if isinstance(owner, dict):
            if name in owner:
                return owner[name]
        elif (found := inspect.signature(owner).parameters.get(name)) and found.default is not found.empty:
            return found.default
    raise AssertionError(f"gpt1 {verb}: whose default is that of '{name}'? Name its owner here")


def says(told: str, value: Any) -> bool:
    if value is None:
        return told in LEFT_TO_THE_OWNER
    if isinstance(value, int | float):
        return float(told.removesuffix(", as the paper")) == value
    return told == value


TOLD = [(verb, option) for verb, option in options() if in_help(option) is not None]


@pytest.mark.parametrize(("verb", "option"), TOLD, ids=lambda value: value if isinstance(value, str) else value.opts[0])
def test_a_default_in_help_is_its_owners(verb: str, option: click.Option) -> None:
    told = in_help(option)
    value = owned(verb, str(option.name))
    assert told is not None
    assert says(told, value), f"gpt1 {verb} {option.opts[0]}: help tells [{told}], its owner has {value!r}"


def test_the_command_line_has_no_defaults_of_its_own() -> None:
    own = {
        (verb, option.opts[0])
        for verb, option in options()
        if option.to_info_dict()["default"] not in (None, False, ())
    }
    assert own == OF_THE_COMMAND_LINE


def test_help_tells_what_share_of_the_tokens_is_left_out() -> None:
    augment = next(option for verb, option in options() if (verb, option.name) == ("finetune", "augment"))
    assert f"{AUGMENTED:.0%}" in str(augment.help)


def test_a_default_that_nobody_owns_is_noticed() -> None:
    with pytest.raises(AssertionError, match="whose default is that of 'colour'"):
        owned("prepare", "colour")
    assert not says("0.02", Preparation().valid)
