"""Tokens that are not in a vocabulary, in words: text of another script becomes one unknown token over and over."""

from __future__ import annotations

TOLD = 0.01  # of all tokens that are unknown: from here on a person is told


def is_told(unknown: int, of: int) -> bool:
    """Whether so many unknown tokens are too many to say nothing."""
    return unknown > 0 and unknown >= TOLD * of


def in_numbers(unknown: int, of: int) -> str:
    """Return how many tokens are unknown."""
    return f"{unknown:,} of {of:,} tokens are not in the vocabulary"


def text_notice(what: str, unknown: int, of: int) -> str | None:
    """Return what a person is told of a text, if anything."""
    if not is_told(unknown, of):
        return None
    return (
        f"{what}: {in_numbers(unknown, of)}; a network takes them all for the same, and what it is said to predict "
        "well may be nothing else: train a tokenizer on such text, or one of bytes, which knows every script"
    )
