"""A shuffle that is never stored: the place of any element is computed from a key, on its own.

A Feistel network over the two digits of an index in a mixed radix (Black and Rogaway, "Ciphers with Arbitrary Finite
Domains", 2002): a round adds to one digit a hash of the other, which can be undone, so the whole is a bijection. The
radices are near the root of n, so hardly an index leaves the range; one that does walks on until it is back. Integers
and our own hash alone: the order is the same on every machine and with every version of numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import isqrt

import numpy as np
import numpy.typing as npt

Key = int | tuple[int, ...]
Indices = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

ROUNDS = 16  # with these all orders of up to seven elements are equally likely to the eye; eight favour some


def permutation(n: int, key: Key) -> Callable[[npt.ArrayLike], Indices]:
    """Return a bijection of range(n), drawn by `key`, as a function of an array of indices."""
    root = isqrt(max(n - 1, 0)) + 1
    a = root + root % 2  # of two odd radices all permutations would be even ones
    b = max(-(-n // a), 1)
    upper_radix, lower_radix = np.uint64(a), np.uint64(b)
    round_keys = np.frombuffer(_digest(key, "permutation", 8 * ROUNDS), "<u8")

    def once(x: _Words) -> _Words:
        upper, lower = x // lower_radix, x % lower_radix
        for upper_key, lower_key in round_keys.reshape(-1, 2):
            upper = (upper + _mixed(lower + upper_key) % upper_radix) % upper_radix
            lower = (lower + _mixed(upper + lower_key) % lower_radix) % lower_radix
        return upper * lower_radix + lower

    def permuted(indices: npt.ArrayLike) -> Indices:
        wanted = np.asarray(indices, np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < n):
            raise IndexError(f"indices from {wanted.min()} to {wanted.max()} are not all in range({n})")
        flat = once(wanted.astype(np.uint64).ravel())
        while len(outside := np.flatnonzero(flat >= n)):
            flat[outside] = once(flat[outside])
        return flat.astype(np.int64).reshape(wanted.shape)

    return permuted


def draw(n: int, key: Key) -> int:
    """Return a number of range(n), each equally likely over the keys and unrelated to `permutation`'s."""
    return int.from_bytes(_digest(key, "draw", 16), "little") % n


def _digest(key: Key, purpose: str, size: int) -> bytes:
    """Return `size` bytes drawn by a key; the purpose keeps two uses of one key apart."""
    words = (key,) if isinstance(key, int) else key
    text = " ".join([purpose, *(str(int(word)) for word in words)])  # a numpy integer is the number it stands for
    return hashlib.shake_128(text.encode()).digest(size)


def _mixed(x: _Words) -> _Words:
    """Return words in which every bit depends on every bit of `x` (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
