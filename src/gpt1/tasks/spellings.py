"""One label written in several ways: 'Positive', 'positive ' and 'ＰＯＳＩＴＩＶＥ' look the same to a person."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain

from gpt1.base.wording import many, some
from gpt1.tasks.examples import SHOWN, Row, label_name

_CODE = re.compile(r"[+-]?0\d")  # "007" is no other way to write "7"
_INVISIBLE = "Cf"  # Unicode's category of what takes no place, such as a byte order mark inside a cell


def number(name: str) -> float | None:
    """Return the number that a label's name spells, if any."""
    try:
        value = float(name)
    except ValueError:
        return None
    return value if math.isfinite(value) else None  # a class may be called "inf"


Key = str | Decimal  # of labels that look the same


def label_key(name: str) -> Key:
    """Return what labels share that differ by case, blanks or Unicode's forms alone, or are one number ("1", "1.0")."""
    if number(name) is not None and not _CODE.match(name.strip()):
        return Decimal(name.strip())
    plain = unicodedata.normalize("NFKC", name)
    seen = "".join(sign for sign in plain if unicodedata.category(sign) != _INVISIBLE)
    return unicodedata.normalize("NFKC", " ".join(seen.casefold().split()))


def variants(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of two names or more that look the same, in the order in which they come."""
    alike: dict[Key, list[str]] = {}
    for name in names:
        alike.setdefault(label_key(name), []).append(name)
    return [group for group in alike.values() if len(group) > 1]


def commonest_spellings(counts: Mapping[str, int]) -> dict[Key, str]:
    """Return for each key of labels how it is written most often; of equals the one that comes first."""
    chosen: dict[Key, str] = {}
    for name, count in counts.items():
        key = label_key(name)
        if key not in chosen or count > counts[chosen[key]]:
            chosen[key] = name
    return chosen


@dataclass(frozen=True)
class Respelt:
    """Rows whose labels are written in one way each, and which were written in another, in how many rows."""

    rows: dict[str, list[Row]]
    changed: Mapping[tuple[str, str], int]  # by label, and how it was written

    def notices(self, place: object) -> list[str]:
        """Tell which labels were taken for which."""
        by_label: dict[str, list[str]] = {}
        for (label, name), count in self.changed.items():
            by_label.setdefault(label, []).append(f"'{name}' ({many(count, 'row')})")
        told = [f"{' and '.join(names)} taken for '{label}'" for label, names in by_label.items()]
        return [f"{place}: labels that look the same are one: {some(told, SHOWN)}"] if told else []


def fold(tables: Mapping[str, Sequence[Row]], column: str, known: Sequence[str] = (), labels_sep: str = "") -> Respelt:
    """Return the rows of tables with one way of writing each label: a `known` one, or the commonest in `train`.

    What is written as one that is known stays as it is, whatever else looks the same. With `labels_sep` a row may have
    several labels.
    """
    names = {split: [_names(row, column, labels_sep) for row in rows] for split, rows in tables.items()}
    chosen = commonest_spellings(dict.fromkeys(known, 1) if known else Counter(chain.from_iterable(names["train"])))
    written = chain.from_iterable(chain.from_iterable(names.values()))
    label_of = {name: chosen.get(label_key(name), name) for name in written}
    label_of |= {name: name for name in known}
    changed: Counter[tuple[str, str]] = Counter()
    found: dict[str, list[Row]] = {}
    for split, rows in tables.items():
        found[split] = []
        for row, own in zip(rows, names[split], strict=True):
            if other := [(label_of[name], name) for name in own if label_of[name] != name]:
                changed.update(other)
                row = replace(row, cells={**row.cells, column: labels_sep.join(label_of[name] for name in own)})
            found[split].append(row)
    return Respelt(found, changed)


def _names(row: Row, column: str, labels_sep: str) -> list[str]:
    if labels_sep:
        return row.labels(column, labels_sep) if column in row.cells else []
    value = row.label(column)
    return [] if value is None else [label_name(value)]
