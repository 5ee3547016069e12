"""The command line: verbs parse, call one function of a room below, and print. No logic lives here."""

from gpt1.cli.app import main

__all__ = ["main"]
