"""The folder of the networks that answer rows they have not learned: whose it is, and what they were trained for.

It lies beside the result until all have answered, and is then removed: so nobody else's may ever be taken for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from gpt1.base.errors import InputError
from gpt1.base.files import is_temporary, read_record, remove_folder, remove_temporaries, write_record
from gpt1.base.records import checksum
from gpt1.base.stages import alone, or_begin_anew
from gpt1.bases.catalog import named_again
from gpt1.inference.run import BEST, Run, find_checkpoint
from gpt1.recipes.changes import recipe_as_json
from gpt1.recipes.values import FOLDS
from gpt1.runs.checkpoints import weights_hash
from gpt1.runs.folder import is_run
from gpt1.tasks.encoded import EncodedTask

WORKINGS = ".workings"  # behind the name of the result
PARTS = tuple(f"part-{number}" for number in range(FOLDS))
MADE_FOR = "made-for.json"
WHAT = "what networks were trained for"


class MadeFor(TypedDict):
    """What tells the networks of a folder from all others; what it holds are checksums."""

    base: str
    recipe: str
    table: str


def made_for(run: Run, base: Path, encoded: EncodedTask, notice: Callable[[str], None]) -> MadeFor:
    """Return what networks are trained for: from which weights, how, and on what."""
    weights = weights_hash(find_checkpoint(base, BEST, notice).path)
    rows = hashlib.sha256(f"{checksum(encoded.task.as_json())} {encoded.tokenizer_fingerprint}".encode())
    split = encoded.splits["train"]
    for array in (split.ids, split.offsets, split.labels):
        rows.update(array.tobytes())
    return {"base": weights, "recipe": checksum(recipe_as_json(run.recipe)), "table": rows.hexdigest()}


def base_of(run: Run) -> Path:
    """Return what a run was begun from, which has to be there still."""
    parent = run.record.parent
    if parent is not None and is_run(base := named_again(parent)):
        return base
    raise InputError(
        f"{run.path} was begun from {parent or 'a run that it does not name'}, which is no run now, and rows that it "
        "may have learned are answered by networks that are trained from there; bring it back to that place, or name a "
        "table that the run has not learned"
    )


@contextmanager
def at_work_in(workings: Path, what: MadeFor) -> Iterator[None]:
    """Hold the folder, made for this or begun now; one that holds networks of something else is refused."""
    refuse_foreign(workings)  # before anybody is told how to remove it
    with or_begin_anew(workings), alone(workings):
        _check(workings, what)
        yield


def _check(workings: Path, what: MadeFor) -> None:
    path = workings / MADE_FOR
    if not path.exists():
        write_record(path, what)
        return
    found = read_record(path, WHAT, MadeFor)
    then: dict[str, object] = {**found}
    if other := [name for name, value in what.items() if then[name] != value]:
        raise InputError(
            f"{workings} holds networks of another {' and another '.join(other)}; choose another name with `out`"
        )


def refuse_foreign(workings: Path) -> None:
    """Refuse a folder that is somebody else's."""
    if not _is_ours(workings):
        raise InputError(
            f"{workings} is where networks would lie until they have answered, and holds something else; choose "
            "another name with `out`"
        )


def remove_workings(workings: Path) -> None:
    """Remove the folder; what somebody has laid into it meanwhile stays, and so all of it."""
    remove_temporaries(workings.parent, of=workings.name)
    if workings.is_dir() and _is_ours(workings):
        remove_folder(workings)


def _is_ours(workings: Path) -> bool:
    """Whether a folder can be taken: one of ours says what it was made for, and has nothing but networks beside."""
    if not workings.is_dir():
        return not workings.exists()
    names = {entry.name for entry in workings.iterdir() if not is_temporary(entry)}
    return not names or (MADE_FOR in names and names <= {MADE_FOR, *PARTS})
