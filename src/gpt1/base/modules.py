"""Values that live in the user's own module, named as `module:NAME`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from gpt1.base.errors import InputError, SettingError, did_you_mean

Value = TypeVar("Value")


def load_value(place: str, kind: type[Value]) -> Value:
    """Return the value of this kind that `module:NAME` names; modules of the current folder are found too."""
    module_name, _, name = place.partition(":")
    what = kind.__name__
    module = _import_module(module_name, place, what)
    found = getattr(module, name, None)
    if isinstance(found, kind):
        return found
    values = [known for known, value in vars(module).items() if isinstance(value, kind)]
    known = f"its {what.lower()}s: {', '.join(values)}" if values else f"it defines no {what}"
    if hasattr(module, name):
        raise SettingError(
            f"'{name}' of module '{module_name}' is not a {what} but of type {type(found).__name__}; {known}"
        )
    raise SettingError(f"module '{module_name}' has no '{name}'{did_you_mean(name, values)}; {known}")


def _import_module(name: str, place: str, what: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        module = f"my_{what.lower()}s"
        raise SettingError(
            f"'{place}' is not module:NAME; a {what.lower()} in {module}.py here is written {module}:NAME"
        )
    try:
        with _current_folder_first():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise InputError(f"module '{name}' needs a module that is not installed: '{error.name}'") from error
        hint = f"; without '.py': {place.replace('.py:', ':')}" if name.endswith(".py") else ""
        raise SettingError(f"no module '{name}' in {Path.cwd()} or among the installed ones{hint}") from None
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise InputError(f"module '{name}' cannot be imported: {type(error).__name__}: {error}") from error


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Let imports find modules of the current folder, which an installed command does not look into."""
    here = str(Path.cwd())
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
