"""A run folder: all one needs to go on with a run, to fine-tune from it, to evaluate, to serve, to export.

`run.json` says what the run is (kind, whole recipe, seeds, versions, fingerprints, parent), beside it lie
`tokenizer.json`, `metrics.jsonl`, `samples.jsonl`, `attention.json`, `log.txt`, `events.jsonl` and `checkpoints/`.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt1 import __version__
from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import (
    is_of_format,
    is_temporary,
    make_folder,
    missing,
    read_json,
    remove_temporaries,
    require_plain,
    whole_file,
    write_record,
)
from gpt1.base.records import SEAL, differing
from gpt1.base.wording import some
from gpt1.bases.catalog import run_or_base
from gpt1.corpus.manifest import CorpusManifest
from gpt1.recipes.changes import todays_section
from gpt1.records.run import RunRecord
from gpt1.records.seeds import SEEDS_FILE, SeedsResult
from gpt1.records.study import StudyRecord
from gpt1.records.tuning import TUNING_FILE
from gpt1.tasks.encoded import FORMAT as ENCODED_TASK
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import FORMAT as TOKENIZER
from gpt1.text.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from gpt1.runs.checkpoints import Checkpoint

RUN_FILE, CHECKPOINTS = "run.json", "checkpoints"
STARTED, CLASSIFIER = "start.json", "classifier"  # what tells a folder of `gpt1 start`, and the run in it
TUNED_RUN = "run"  # in a folder of `gpt1 tune`
RUN_IN = {STARTED: CLASSIFIER, TUNING_FILE: TUNED_RUN}
_LONGEST_SHOWN = 80  # characters of a fact


def begin_run(folder: Path, record: RunRecord, tokenizer: Path) -> None:
    """Make a run folder; `run.json` is written last, so that a folder with it is a run."""
    make_folder(folder)
    remove_temporaries(folder)
    require_plain(tokenizer)
    try:
        content = tokenizer.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {tokenizer}: {error.strerror}") from error
    with whole_file(folder / TOKENIZER_FILE) as file:
        file.write(content)
    replace(record, made_with=_made_with()).write(folder / RUN_FILE)


def checkpoint_name(step: int) -> str:
    """Return what the folder of a step's checkpoint is called."""
    return f"step-{step:08}"


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / RUN_FILE).is_file()


def run_folder(given: str | Path) -> Path:
    """Return the folder of the run itself: of several seeds the best one's; of a base, a start, a search its own."""
    folder = run_or_base(given)
    if is_run(folder):
        return folder
    if (folder / SEEDS_FILE).is_file():
        return folder / SeedsResult.read(folder / SEEDS_FILE).best
    inside = (folder / run for of, run in RUN_IN.items() if (folder / of).is_file() and is_run(folder / run))
    return next(inside, folder)


def start_without_run(folder: Path) -> str | None:
    """Return what is told of a folder of `gpt1 start` in which nothing has been learned yet; None of any other."""
    if not (folder / STARTED).is_file() or is_run(folder / CLASSIFIER):
        return None
    return f"{folder} is of a start that has no classifier yet; the same `gpt1.start()` goes on"


def is_left_over(entry: Path, tokenizer: Path) -> bool:
    """Whether an entry of a folder is what a run that was killed while it began left there."""
    if entry.name == TOKENIZER_FILE:
        return entry.is_file() and tokenizer.is_file() and entry.read_bytes() == tokenizer.read_bytes()
    return is_temporary(entry) and entry.name.startswith((RUN_FILE, TOKENIZER_FILE))


def is_begun_copy(folder: Path, step: int, files: Collection[str]) -> bool:
    """Whether a folder holds but what a killed writer of one checkpoint, then files, and last `run.json` left."""
    entries = [*folder.glob("*"), *(folder / CHECKPOINTS).glob("*")]
    names = {str(entry.relative_to(folder)) for entry in entries if not is_temporary(entry)}
    own = {CHECKPOINTS, f"{CHECKPOINTS}/{checkpoint_name(step)}", *files} - {RUN_FILE}
    return (folder / CHECKPOINTS).is_dir() and names <= own


def read_run(folder: Path) -> RunRecord:
    """Return what a run says of itself."""
    if not is_run(folder) and (instead := _taken_for_a_run(folder)):
        raise InputError(instead)
    if folder.is_file():
        raise InputError(f"{folder} is a file; a run is a folder")
    if not folder.is_dir():
        raise missing(folder)
    return RunRecord.read(folder / RUN_FILE)


def update_run(folder: Path, **changes: Any) -> None:
    """Note what may have changed when a run goes on: its recipe, and such as where its data lies."""
    record = replace(read_run(folder), **changes)
    kept = read_json(folder / RUN_FILE, record.WHAT)  # with what this version does not know
    write_record(folder / RUN_FILE, {name: value for name, value in kept.items() if name != SEAL} | record.as_json())


# ---- what is taken for a run ----

# By the format of a record that tells what a folder is, {0} being the folder; a corpus has a tokenizer too.
_INSTEAD = {
    CorpusManifest.FORMAT: "{0} is a prepared corpus, not a run; `gpt1.pretrain(corpus={0!r})` makes one",
    ENCODED_TASK: "{0} is an encoded task, not a run; `gpt1.finetune(encoded={0!r})` teaches it to one",
    StudyRecord.FORMAT: "{0} is a study, not a run",
    TOKENIZER: "{0} is a tokenizer, not a run; `gpt1.pretrain()` makes one of a corpus that is prepared with it",
}


def _taken_for_a_run(place: Path) -> str | None:
    """Return what a file or folder is instead of a run, and which run may be meant; None where nobody knows."""
    if told := start_without_run(place):
        return told
    if place.exists() and (run := next(filter(is_run, place.parents), None)):
        return f"{place} lies inside a run; name the run itself, {run}"
    records = [place, *sorted(place.glob("*.json"))]
    for format, sentence in _INSTEAD.items():
        if any(is_of_format(record, format) for record in records):
            return sentence.format(str(place))
    if runs := [str(path.parent) for name in (RUN_FILE, SEEDS_FILE) for path in place.glob(f"*/{name}")]:
        return f"{place} holds runs: {some(sorted(runs))}; name one"
    return None


# ---- what belongs together ----


def made_for(record: RunRecord) -> dict[str, object]:
    """Return what of a run decides, with its weights, what it answers: each of its checkpoints remembers it."""
    facts = record.as_json()
    found = {name: facts.get(name) for name in ("kind", "vocab_size", "tokenizer", "seed", "tasks", "identity")}
    found |= {"shape": facts["recipe"]["shape"], "corpus": (facts.get("corpus") or {}).get("identity")}
    plain: dict[str, object] = json.loads(
        json.dumps({name: value for name, value in found.items() if value is not None})
    )
    return plain


def check_made_for(run: Path, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that was saved when `run.json` said otherwise; one that does not remember is taken."""
    if not checkpoint.made_for:
        return
    for place, then, now in differing(_under_todays_names(checkpoint), made_for(read_run(run))):
        if then is not None:  # else it is a fact that the version which saved it did not know
            raise FormatError(
                f"{run / RUN_FILE} and {checkpoint.path} do not belong together: {place} is {_shown(now)}, and was "
                f"{_shown(then)} when the weights were saved; bring back the file that belongs to the other"
            )


def _under_todays_names(checkpoint: Checkpoint) -> dict[str, Any]:
    remembered, shape = dict(checkpoint.made_for), checkpoint.made_for.get("shape")
    try:
        return {**remembered, "shape": todays_section("shape", shape)} if isinstance(shape, dict) else remembered
    except FormatError as error:
        raise FormatError(f"{checkpoint.path} is damaged: {error}; bring back its own files") from None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def run_tokenizer(place: Path) -> Tokenizer:
    """Return the tokenizer in a file or folder; that of a run must be the one that the run was trained with."""
    folder = place if place.is_dir() else place.parent
    file = place / TOKENIZER_FILE if place.is_dir() else place
    if is_run(folder) and not file.exists():
        raise missing(file, "does not exist; expected a gpt1 tokenizer there; bring back the run's own")
    tokenizer = load_tokenizer(place)
    if not is_run(folder):
        return tokenizer
    record = read_run(folder)
    if record.tokenizer not in (None, tokenizer.fingerprint):
        raise FormatError(
            f"{folder / TOKENIZER_FILE} is not the tokenizer that {folder} was trained with: its fingerprint is "
            f"{tokenizer.fingerprint[:12]}, {RUN_FILE} has {str(record.tokenizer)[:12]}; bring back the run's own"
        )
    if tokenizer.vocab_size != record.vocab_size:
        raise FormatError(
            f"{folder / TOKENIZER_FILE} has {tokenizer.vocab_size:,} tokens, the network of {folder} knows "
            f"{record.vocab_size:,}; bring back the run's own"
        )
    return tokenizer


def _made_with() -> dict[str, Any]:
    import torch

    return {
        "gpt1": __version__,
        "git": _git_revision(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "safetensors": metadata.version("safetensors"),
        "numpy": metadata.version("numpy"),
        "machine": platform.platform(),
        "command": sys.argv,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _git_revision() -> str | None:
    """Return the revision of the sources, where they are in a repository and git is there to ask."""
    ask = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
