"""Runs as a page for people, or as a model card. It reads what runs left, and their makers do not know of it."""

from gpt1.report.page import report

__all__ = ["report"]

# What other rooms may import of this one's modules.
OFFERS = {"card": ["make_card", "write_card"]}
