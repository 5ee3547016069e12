"""Is this table fit to train on, with this base? What `gpt1 check TABLE` finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpt1.base.errors import SettingError
from gpt1.bases.catalog import Base, base_in, first_base, is_packaged, lasting_name
from gpt1.recipes.derived import recipe_for, wants_windows
from gpt1.runs.folder import read_run, run_folder, run_tokenizer
from gpt1.tasks.checking import Learner, TableReport, check_table
from gpt1.tasks.sentences import words_shape
from gpt1.tasks.shapes import CONTEXT
from gpt1.tasks.word_checking import check_words
from gpt1.tasks.word_tables import words_reading


def examine_table(
    table: str | Path,
    *,
    init: str | Path | None = None,
    tokenizer: str | Path | None = None,
    context: int = CONTEXT,
    shape: str | None = None,
    **reading: Any,
) -> TableReport:
    """Return all that is wrong with a table for whoever is to start from the run or base `init`.

    Without one it is the first base of the package, if there is any. A `tokenizer` with a `context` may stand for a run
    that is still to be made. How the table is read is said as to `check_table`; with a `shape` of labelled words, or a
    name of such a file, each word has a label.
    """
    if init is not None and tokenizer is not None:
        raise SettingError("`init` has its own tokenizer and context; name it, or a `tokenizer`")
    learner = _learner(init, tokenizer, context)
    if (own := words_shape(table, shape)) is not None:
        return check_words(Path(table), own, words_reading(**reading), learner)
    return check_table(table, learner=learner, **reading)


def _learner(init: str | Path | None, tokenizer: str | Path | None, context: int) -> Learner | None:
    if tokenizer is not None:
        return Learner(str(tokenizer), run_tokenizer(Path(tokenizer)), context)
    if init is not None:
        folder = run_folder(init)
        return _learner_in(folder, base_in(folder), str(init))
    first = first_base()
    return None if first is None else _learner_in(first.path, first, first.name)


def _learner_in(folder: Path, base: Base | None, called: str) -> Learner:
    name = f"the base '{lasting_name(folder)}'" if is_packaged(folder) else called
    language = "" if base is None else base.record.text.language
    shape = read_run(folder).recipe.shape
    windows = wants_windows(recipe_for(shape)) is not False
    return Learner(name, run_tokenizer(folder), shape.context, language, windows)
