"""What a JSON file of ours must hold, told by type hints: what is not of its kind is refused by file and place.

A record's shape is a dataclass, which has no further keys, or a `RecordPart`, which passes them over (or a `TypedDict`,
where they stay as they are). What an earlier version did not write has a default (or is `NotRequired`).
"""

from __future__ import annotations

import hashlib
import json
import keyword
import types
import typing
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    runtime_checkable,
)

from gpt1.base.errors import FormatError, SettingError
from gpt1.base.strict_json import finite, to_json

DEEPEST = 64  # levels of brackets; ours have eight at most, and walking through thousands ends in a fault
SEAL, LINE_SEAL = "sha256", "crc32"  # under which a record, and a line of a log, keeps its checksum: its last entry
LARGEST = 2**63 - 1  # beyond it neither numpy nor a float of Python holds a whole number

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class AtLeast:
    """A bound of numbers, for `Annotated`."""

    least: float


@dataclass(frozen=True)
class ReadBy:
    """How a value is read that has its own way, for `Annotated`."""

    read: Callable[[Any], Any]


class RecordPart:
    """A record or a part of one, as a frozen dataclass: keys that it does not know are passed over.

    A field that has its default is not written. One whose name Python keeps for itself ends in _, and its key does not.
    """

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        shape: Any = self
        values = [(one, getattr(self, one.name)) for one in fields(shape)]
        return {_key(one.name): _as_json(value) for one, value in values if not self._is_left_out(one, value)}

    def _is_left_out(self, field: Any, value: Any) -> bool:
        default = field.default if field.default_factory is MISSING else field.default_factory()
        return bool(value is default or (value == default and type(value) is type(default)))


@runtime_checkable
class _WritesItself(Protocol):
    """A value that says how JSON holds it."""

    def as_json(self) -> dict[str, Any]: ...


def _as_json(value: Any) -> Any:
    if isinstance(value, _WritesItself):
        return value.as_json()
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _key(name: str) -> str:
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


Count = Annotated[int, AtLeast(0)]
Size = Annotated[int, AtLeast(1)]
Seconds = Annotated[float, AtLeast(0)]

_SHOWN = 60  # characters of a value
_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "null"}


class _Wrong(Exception):
    """A value that is not of its kind."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place or 'it'} {problem}")
        self.place = place


def parse_json(text: str | bytes, **how: Any) -> Any:
    """Return what a JSON text holds; a ValueError says why it cannot be read, brackets by the thousand included.

    `how` is what `json.loads` takes besides.
    """
    try:
        value = json.loads(text, **how)
    except RecursionError:
        raise ValueError(f"brackets are nested more than {DEEPEST} deep") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [item for holder in level for item in _items(holder) if isinstance(item, dict | list)]
        if not level:
            return value
    raise ValueError(f"brackets are nested more than {DEEPEST} deep")


def _items(holder: Any) -> Iterator[Any]:
    return iter(holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())


def check_record(value: Any, shape: type[Shape], path: str | Path, remedy: str = "") -> Shape:
    """Return a JSON value as one of this shape, or refuse it by file and place; `remedy` is what helps then."""
    try:
        found: Shape = _checked(value, shape, "")
    except (_Wrong, SettingError) as wrong:  # the latter from a value that refuses what does not go together
        raise FormatError(f"{path} is damaged: {wrong}" + (f"; {remedy}" if remedy else "")) from None
    except FormatError as error:  # of what has its own way of being read
        raise FormatError(f"{path}: {error}") from None
    return found


def _checked(value: Any, hint: Any, place: str) -> Any:
    """Return a value as its hint has it: lists as tuples and objects as dataclasses where those are wanted."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if is_typeddict(hint) or is_dataclass(hint):
        return _checked_object(value, hint, place)
    if origin is Annotated and isinstance(arguments[1], ReadBy):
        return arguments[1].read(value)
    if origin is Annotated:
        found = _checked(value, arguments[0], place)
        if isinstance(arguments[1], AtLeast) and not found >= arguments[1].least:
            raise _wrong(place, value, f"at least {arguments[1].least:g}")
        return found
    if origin in (types.UnionType, typing.Union):
        return _checked_union(value, arguments, place)
    if origin is Literal:
        if not any(value == known and type(value) is type(known) for known in arguments):
            raise _wrong(place, value, in_words(hint))
        return value
    if origin in (list, tuple):
        return _checked_list(value, hint, place)
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        return {name: _checked(item, arguments[1], _inside(place, name)) for name, item in value.items()}
    return _checked_plain(value, hint, place)


def _checked_plain(value: Any, kind: type, place: str) -> Any:
    is_kind = type(value) is kind or (kind is float and type(value) is int)  # 5 is how some write 5.0
    if not is_kind or (type(value) is int and abs(value) > LARGEST):
        raise _wrong(place, value, _WORDS[kind])
    return value


def _checked_object(value: Any, shape: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(place, value, "an object")
    hints = _hints(shape)
    found = {
        name: _checked(value[key], hint, _inside(place, key)) for name, (key, hint, _) in hints.items() if key in value
    }
    if absent := [key for name, (key, _, required) in hints.items() if required and name not in found]:
        raise _Wrong(_inside(place, absent[0]), "is missing")
    if not is_dataclass(shape):
        return value | found
    known = {key for key, _, _ in hints.values()}
    if (odd := [key for key in value if key not in known]) and not issubclass(cast(type, shape), RecordPart):
        raise _Wrong(_inside(place, odd[0]), "is not known to this version of gpt1")
    return cast(type[Any], shape)(**found)


def _checked_list(value: Any, hint: Any, place: str) -> list[Any] | tuple[Any, ...]:
    origin, arguments = get_origin(hint), get_args(hint)
    if not isinstance(value, list | tuple):
        raise _wrong(place, value, "a list")
    if origin is tuple and arguments[-1] is not Ellipsis and len(value) != len(arguments):
        raise _Wrong(place, f"has {len(value)} values, expected {len(arguments)}")
    hints = arguments if origin is tuple and arguments[-1] is not Ellipsis else arguments[:1] * len(value)
    if set(hints) == {str} and set(map(type, value)) == {str}:  # a vocabulary: too many to look at each by its place
        return tuple(value) if origin is tuple else list(value)
    items = [_checked(item, own, f"{place}[{at}]") for at, (item, own) in enumerate(zip(value, hints, strict=True))]
    return tuple(items) if origin is tuple else items


def _checked_union(value: Any, hints: tuple[Any, ...], place: str) -> Any:
    inside = []  # what is wrong in a value that is of the kind itself
    for hint in hints:
        try:
            return _checked(value, hint, place)
        except _Wrong as wrong:
            inside += [wrong] if wrong.place != place else []
    raise inside[0] if inside else _wrong(place, value, " or ".join(map(in_words, hints)))


@lru_cache
def _hints(shape: Any) -> dict[str, tuple[str, Any, bool]]:
    """Return for each name in a shape its key, its hint, and whether it must be there."""
    hints = get_type_hints(shape, include_extras=True)
    if is_dataclass(shape):
        free = {one.name for one in fields(shape) if (one.default, one.default_factory) != (MISSING, MISSING)}
        return {one.name: (_key(one.name), hints[one.name], one.name not in free) for one in fields(shape)}
    free = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    return {name: (name, get_args(hint)[0] if name in free else hint, name not in free) for name, hint in hints.items()}


def in_words(hint: Any) -> str:
    """Return what a hint asks for, as a person says it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return in_words(arguments[0])
    if origin is Literal:
        return " or ".join(json.dumps(known) for known in arguments)
    if origin in (list, tuple):
        return "a list"
    return _WORDS.get(hint, "an object")


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _wrong(place: str, value: Any, wanted: str) -> _Wrong:
    shown = (
        "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, dict) else json.dumps(value)
    )
    return _Wrong(place, f"is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}, expected {wanted}")


# ---- checksums ----


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the checksum of all that it holds."""
    strict = finite(dict(record))
    return {**strict, SEAL: checksum(strict)}


def unsealed(record: Mapping[str, Any], path: str | Path, remedy: str = "") -> dict[str, Any]:
    """Return a record without its checksum, which it must match; one that has none was written before they were."""
    return _opened(record, SEAL, checksum, path, remedy)


def checksum(record: Mapping[str, Any]) -> str:
    """Return the sha256 of a record as it will be read, whatever the order of its keys."""
    as_read = json.loads(json.dumps(record))  # where every key is a string, by which they are sorted
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def sealed_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of a log with a short checksum of its own."""
    return {**line, LINE_SEAL: _line_checksum(line)}


def unsealed_line(line: Mapping[str, Any], place: str, remedy: str = "") -> dict[str, Any]:
    """Return a line of a log without its checksum, which it must match; one that has none was written before."""
    return _opened(line, LINE_SEAL, _line_checksum, place, remedy)


def _line_checksum(line: Mapping[str, Any]) -> int:
    return zlib.crc32(to_json(line, default=str).encode())


def _opened(
    record: Mapping[str, Any], seal: str, sum_of: Callable[[Mapping[str, Any]], Any], place: str | Path, remedy: str
) -> dict[str, Any]:
    found = dict(record)
    name, value = (seal, found.pop(seal)) if seal in found else found.popitem() if found else ("", None)
    matches = value == sum_of(found)
    if matches != (name == seal):  # where the last entry is the checksum under another name, its name was damaged
        raise FormatError(f"{place} is damaged: it does not match its checksum" + (f"; {remedy}" if remedy else ""))
    return found if matches else dict(record)


def differing(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two JSON values differ, down to the last object, with both values; None stands for none."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            yield from differing(one.get(name), other.get(name), _inside(place, name))
    elif one != other:
        yield place, one, other
