"""Runs as a page for people. It reads what runs left, and their makers do not know of it."""

from gpt1.report.page import report

__all__ = ["report"]
