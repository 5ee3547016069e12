"""A stand-in for the base that ships with the package."""

from __future__ import annotations

from pathlib import Path

from gpt1 import load_run
from gpt1.base.files import file_hash
from gpt1.bases.catalog import BASE_FILE, CARD_FILE, BaseRecord, TextRead, files_in
from gpt1.exchange.to_compact import export_compact


def write_base(folder: Path, run: Path) -> None:
    """Write a run as a base into a new folder, under its name."""
    export_compact(load_run(run, device="cpu"), folder)
    (folder / CARD_FILE).write_text(f"# {folder.name}\n\nIt has read of Ann and the old sailor.\n")
    write_record(folder)


def write_record(folder: Path) -> None:
    """Write what vouches for the files of a base as they are now."""
    BaseRecord(
        name=folder.name,
        about="a network of a test",
        text=TextRead("tales of a small world", "English", documents=38, bytes=60_000, tokens=20_000),
        parameters=26_000,
        weights_licence="MIT",
        text_licence="public domain",
        command="pytest",
        date="2026-11-16",
        bits_per_byte=3.5,
        files={name: file_hash(path) for name, path in files_in(folder).items()},
    ).write(folder / BASE_FILE)
