"""Work that several commands do side by side, each a part of it: which one, from 1, and of how many."""

from __future__ import annotations

from gpt1.base.errors import SettingError

Part = tuple[int, int]


def check_part(part: Part) -> Part:
    """Return a part, or refuse one that there is not."""
    number, count = part
    if not 1 <= number <= count:
        raise SettingError(f"`part` is a number from 1 up and how many there are, such as 2/8, not {number}/{count}")
    return part
