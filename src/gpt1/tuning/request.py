"""What a search is asked: on which tables, from which base, by what recipe, and what tells it from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import file_hash
from gpt1.base.records import checksum
from gpt1.base.wording import some
from gpt1.bases.catalog import lasting_name
from gpt1.finetuning.augmenting import check_augmentation
from gpt1.finetuning.data import Source, check_training, read_source
from gpt1.finetuning.finetune import chosen_recipe
from gpt1.model.costs import count_parameters
from gpt1.recipes.changes import change, recipe_as_json
from gpt1.recipes.derived import require_for_tasks, settled, wants_windows
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Listener
from gpt1.runs.folder import read_run, run_folder, run_tokenizer
from gpt1.tasks.catalog import refuse_words
from gpt1.tasks.encoded import EncodedTask
from gpt1.tuning.space import DROPOUT, Range, Values, as_changes, search_space, usual_values


@dataclass(frozen=True)
class TuneRequest:
    """What is to be searched, and on what."""

    base: str
    tables: Mapping[str, Path]
    search: tuple[str, ...]
    changes: tuple[str, ...]
    device: str | None
    source: Source  # the tables, and how they are read
    reading: Mapping[str, object]  # the latter, as it was said
    listeners: tuple[Listener, ...]

    @cached_property
    def task(self) -> EncodedTask:
        """The table as a fine-tuning of the base has it."""
        if self.source.more is not None:
            raise SettingError(
                "a search parts rows, and rows made of others would tell of their sources; leave out `more`"
            )
        base = run_folder(self.base)
        context, windows = read_run(base).recipe.shape.context, wants_windows(self._open_recipe)
        tasks, _ = read_source(self.source, run_tokenizer(base), context, windows=windows)
        check_training(tasks)
        (found,) = tasks.values()
        refuse_words(found.task, "a search for settings")
        return found

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe as it is, settled for all rows."""
        base, task = read_run(run_folder(self.base)), self.task
        require_for_tasks(self._open_recipe, base.recipe.shape)
        parameters = count_parameters(base.recipe.shape, base.vocab_size).total
        return settled(self._open_recipe, parameters, len(task.splits["train"]), windows=task.has_windows)

    @property
    def _open_recipe(self) -> Recipe:
        """The recipe with what it leaves to base and rows."""
        return change(chosen_recipe(None, read_run(run_folder(self.base)).recipe.shape, ()), self.changes)

    @cached_property
    def space(self) -> list[Range]:
        """What is searched; of what a person has set, nothing, and nothing that makes no sense for the task."""
        found = search_space(self.recipe, self.search, self.changes)
        values = {one.name: one.low if one.name == DROPOUT else one.high for one in found}
        tried = change(self.recipe, as_changes(values))
        check_augmentation(tried, {self.task.task.name: self.task}, None, is_taught=False)
        return found

    @property
    def usual(self) -> dict[str, float]:
        """What the recipe has for what is searched."""
        return usual_values(self.recipe, self.space)

    def made_for(self) -> dict[str, str]:
        """Return what tells this search from another in the same folder."""
        tables = ", ".join(self._hashes_before.values())
        return {
            "base": lasting_name(run_folder(self.base)),
            "ranges": ", ".join(one.in_words() for one in self.space),
            "settings": checksum(recipe_as_json(self.recipe)),
            "columns": repr(sorted((name, str(value)) for name, value in self.reading.items())),
            "tables": tables,
        }

    def require_same_tables(self, made_for: Mapping[str, str]) -> None:
        """Refuse tables that are others now than those that were searched, for whose rows the settings are."""
        before, now = made_for["tables"].split(", "), self._hashes()
        if changed := [str(path) for name, path in self.tables.items() if now.get(name) not in before]:
            raise InputError(
                f"{some(changed)} was changed while settings were searched on it; bring it back as it was, and the "
                "same again goes on, or search anew in another folder"
            )

    @cached_property
    def _hashes_before(self) -> dict[str, str]:
        """What the tables hold before they are read, so that no change is missed."""
        return self._hashes()

    def _hashes(self) -> dict[str, str]:
        """Return which tables hold what now, but for those that are gone."""
        return {name: f"{name} {file_hash(path)}" for name, path in self.tables.items() if path.is_file()}

    def winner(self, out: Path, values: Values) -> dict[str, object]:
        """Return what teaches the winner, as `gpt1.finetune` and its verb take it."""
        changes = [*self.changes, *as_changes(values)]
        told: dict[str, object] = {"init": self.base, **{name: str(path) for name, path in self.tables.items()}}
        told |= {"out": str(out), **self.reading}
        told |= {"changes": changes} if changes else {}
        return told | ({} if self.device is None else {"device": self.device})
