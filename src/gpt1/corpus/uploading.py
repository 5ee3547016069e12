"""A finished corpus into a store: whole files, its description last, so that who finds that finds all of it."""

from __future__ import annotations

from pathlib import Path

from gpt1.base.errors import InputError
from gpt1.base.progress import Progress, stage
from gpt1.base.stores import read_stored, upload
from gpt1.corpus.assembly import DROPPED_FILE
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE, CorpusManifest, shards_of
from gpt1.text.tokenizer import FILE_NAME


def upload_corpus(folder: Path, corpus: CorpusManifest, place: str, progress: Progress) -> None:
    """Write the files of a corpus into a folder of a store; one that is there already is left as it is.

    Killed and called again, it writes all files again, as a store says of none of them who wrote it.
    """
    place = place.rstrip("/")
    description = folder / CORPUS_FILE
    there = read_stored(f"{place}/{CORPUS_FILE}")
    if there == description.read_bytes():
        progress.say(f"{place} holds this corpus already")
        return
    if there is not None:
        raise InputError(f"{place} holds another corpus; choose a new or empty folder of the store")
    names = (SUMS_FILE, DROPPED_FILE, FILE_NAME, CORPUS_FILE)
    files = [*shards_of(folder, corpus), *(folder / name for name in names if (folder / name).exists())]
    with stage(progress, f"uploading to {place}") as bar:
        for number, _ in enumerate(upload(files, place), 1):
            bar.update(number / len(files), 0)
