"""From folders of text to a corpus on disk: `gpt1 prepare`.

Two steps. All cores encode batches of text, each into a file of its own under `work/`. Then the batches are put
together: duplicates are dropped, documents go to train or valid, shards are written, and `corpus.json` last of all.
Both steps are pure functions of their input, so a preparation killed at any moment and started again ends with the
same bytes; batches that are there are not encoded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from gpt1.base.errors import FormatError, InputError, SettingError, printable, unknown
from gpt1.base.files import (
    is_of_format,
    lock_folder,
    make_folder,
    read_record,
    remove_temporaries,
    require_own_folder,
    write_record,
)
from gpt1.base.parallel import cores, ordered_map
from gpt1.base.progress import Progress, Silent, stage
from gpt1.base.stores import check_stored
from gpt1.base.wording import many
from gpt1.corpus.assembly import DROPPED_FILE, assemble
from gpt1.corpus.batches import Meter, announce, begin_worker, check_batch, encode_batch, in_batches
from gpt1.corpus.documents import (
    PAGES,
    TEXTS,
    DocumentPart,
    Found,
    Losses,
    Skipped,
    TextSource,
    find_sources,
    read_parts,
)
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE, WORK, CorpusManifest, read_corpus, shards_of, sums_of
from gpt1.corpus.pages import by_reason, in_words
from gpt1.corpus.quality import NO_SIEVE, Sieve
from gpt1.corpus.shards import shard_files, verify_shard, write_sums
from gpt1.corpus.unwrap import HARD_WRAPPED, looks_wrapped
from gpt1.corpus.uploading import upload_corpus
from gpt1.text.tokenizer import FILE_NAME, Tokenizer, load_tokenizer
from gpt1.text.unknowns import text_notice

PLAN_FILE = "plan.json"
LESSONS = "lessons"
DUPLICATES = ("keep", "exact", "near")
ON_ERROR = ("refuse", "skip")
VALID_OF_ONE = 0.05  # kept for validation of a text that is a single document: few of them are long
FEWEST_PARAGRAPHS = 20  # of which that can be done; with fewer, lines


@dataclass(frozen=True)
class Preparation:
    """How documents become a corpus; every default of `gpt1 prepare` is here."""

    document: str | None = None
    field: str | None = None
    encoding: str = "utf-8"
    unwrap: bool = False
    language: str | None = None
    quality: bool = False
    duplicates: str = "near"
    valid: float = 0.01
    on_error: str = "refuse"
    shard_tokens: int = 1 << 26

    def __post_init__(self) -> None:
        if self.duplicates not in DUPLICATES:
            raise unknown("way with duplicates", self.duplicates, DUPLICATES)
        if self.on_error not in ON_ERROR:
            raise unknown("way with errors", self.on_error, ON_ERROR)
        if not 0 <= self.valid < 1:
            raise SettingError(f"the share for validation is between 0 and 1, not {self.valid}")
        if self.shard_tokens < 1:
            raise SettingError(f"a shard holds at least one token, not {self.shard_tokens}")


def prepare(
    paths: str | Path | Sequence[str | Path],
    tokenizer: Tokenizer | str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    restart: bool = False,
    upload: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Encode text files into token shards under `out` and return the corpus's description, `corpus.json`.

    The settings are those of `Preparation`. Killed and called again, it goes on; finished, it returns at once.
    `restart` throws away what `out` holds of an earlier preparation. `out` is a folder for the corpus alone; `upload`
    names one in a store (`s3://bucket/folder`) that the finished corpus is written to as well.
    """
    progress = progress or Silent()
    preparation = _settings(settings)
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = load_tokenizer(tokenizer)
    if upload is not None:
        check_stored(upload)
    out = Path(out)
    paths = [paths] if isinstance(paths, str | Path) else paths
    found = _outside(out, find_sources([str(path) for path in paths], field=preparation.field))
    read_parts(found.sources, **_reading(preparation))  # refuses what does not fit before anything is written
    plan = _plan(preparation, tokenizer, found)
    try:
        with lock_folder(out):
            if (out / CORPUS_FILE).exists() and not restart:
                corpus = _finished(out, plan, progress)
            else:
                work = _begin(out, plan, tokenizer, restart, progress)
                corpus = _prepare(found, preparation, plan, tokenizer, out, work, workers or cores(), progress)
            if upload is not None:
                upload_corpus(out, corpus, upload, progress)
            return corpus.as_json()
    except KeyboardInterrupt:
        progress.say("stopped; the same command goes on where it was")
        raise


def _prepare(
    found: Found,
    preparation: Preparation,
    plan: dict[str, Any],
    tokenizer: Tokenizer,
    out: Path,
    work: Path,
    workers: int,
    progress: Progress,
) -> CorpusManifest:
    announce(found, progress)
    losses = Losses()
    batches = _encode(found, preparation, tokenizer, work, workers, losses, progress)
    if losses.faults and preparation.on_error == "refuse":
        raise InputError(
            f"{losses.faults[0].message}; mend it, or leave such documents out with `on_error='skip'`; then begin anew "
            "with `restart=True`"
        )
    if not batches:
        _clear(out)
        raise InputError(f"there is no document to read{_why(losses)}")
    corpus = assemble(
        batches,
        losses,
        found.sources,
        tokenizer,
        out,
        duplicates=preparation.duplicates,
        valid=preparation.valid,
        shard_tokens=preparation.shard_tokens,
        threads=workers,
        progress=progress,
    )
    if not any(split.documents for split in corpus.splits.values()):
        _clear(out)
        raise InputError(f"no document is left: {_dropped(corpus)}")
    if preparation.valid and not corpus.splits["valid"].documents:
        progress.say(
            "validation gets nothing: there is no document small enough; add texts, or cut them finer with `document`"
        )
    replace(corpus, plan=_fingerprints(plan)).write(out / CORPUS_FILE)
    shutil.rmtree(work)
    return read_corpus(out)


# --- how text becomes documents -----------------------------------------------------------------------------


def cutting_for(sources: Sequence[TextSource]) -> dict[str, Any]:
    """Return how text becomes documents; a single one is cut finer, so that there is some to be examined with."""
    if _has_documents(sources, None, 2) or any(source.format not in TEXTS for source in sources):
        return {}
    for kind, fewest in (("blank", FEWEST_PARAGRAPHS), ("line", 2)):
        if _has_documents(sources, kind, fewest):
            # Of one text nothing is dropped, though a line may come twice.
            return {"document": kind, "duplicates": "keep", "valid": VALID_OF_ONE}
    return {}


def _has_documents(sources: Sequence[TextSource], kind: str | None, fewest: int) -> bool:
    parts = read_parts(sources, document=kind)
    begun = (part for part in parts if isinstance(part, DocumentPart) and part.first and part.text.strip())
    return len(list(islice(begun, fewest))) == fewest


# --- one preparation, or another ----------------------------------------------------------------------------


def _settings(given: dict[str, Any]) -> Preparation:
    known = [field.name for field in fields(Preparation)]
    for name in given:
        if name not in known:
            raise unknown("setting", name, known)
    return Preparation(**given)


def _outside(out: Path, found: Found) -> Found:
    """Leave out what lies in the output folder: a corpus is not read again when it stands among its texts."""
    folder = out.resolve()
    inside = [source for source in found.sources if folder in Path(source.name).resolve().parents]
    skipped = tuple(Skipped(printable(source.name), "in the output folder") for source in inside)
    sources = tuple(source for source in found.sources if source not in inside)
    return Found(sources, found.skipped + skipped)


def _reading(preparation: Preparation) -> dict[str, Any]:
    reading = {name: getattr(preparation, name) for name in ("document", "field", "encoding", "unwrap")}
    return {**reading, "sieve": Sieve(preparation.language, preparation.quality)}


def _plan(preparation: Preparation, tokenizer: Tokenizer, found: Found) -> dict[str, Any]:
    """All that decides the result: settings, tokenizer, and the files as they are now.

    Not what happens on an error: one who was refused may go on with `skip`. Nor a sieve that lets all pass, which
    corpora do not have that were made before there were any.
    """
    settings = asdict(preparation)
    del settings["on_error"]
    if Sieve(preparation.language, preparation.quality) == NO_SIEVE:
        del settings["language"], settings["quality"]
    return {
        "settings": settings,
        "tokenizer": tokenizer.fingerprint,
        "files": [asdict(source) for source in found.sources],
    }


def _fingerprints(plan: dict[str, Any]) -> dict[str, str]:
    return {name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for name, part in plan.items()}


def _difference(plan: dict[str, Any], fingerprints: dict[str, str]) -> str:
    """Name the parts of a plan that are not as they were, or nothing."""
    return ", ".join(name for name, mark in _fingerprints(plan).items() if fingerprints.get(name) != mark)


def _finished(out: Path, plan: dict[str, Any], progress: Progress) -> CorpusManifest:
    corpus = read_corpus(out)
    if other := _difference(plan, corpus.plan):
        raise InputError(
            f"{out} holds a corpus with other {other}; choose another folder, or replace it with `restart=True`"
        )
    sums = [verify_shard(path) for path in shards_of(out, corpus)]
    if not _has_sums(out, corpus):
        progress.say(f"the checksums of the blocks of its shards are written to {out / SUMS_FILE}")
        corpus = replace(corpus, blocks=write_sums(out / SUMS_FILE, sums))
        corpus.write(out / CORPUS_FILE)
    shutil.rmtree(out / WORK, ignore_errors=True)
    remove_temporaries(out)
    progress.say(f"{out} was prepared before from the same files with the same settings")
    return corpus


def _has_sums(out: Path, corpus: CorpusManifest) -> bool:
    """Whether the sums of blocks are there and whole; corpora that were made before there were any have none."""
    try:
        return sums_of(out, corpus) is not None
    except FormatError:
        return False


def _begin(out: Path, plan: dict[str, Any], tokenizer: Tokenizer, restart: bool, progress: Progress) -> Path:
    """Make the folder ready for this preparation, or for going on with it; never touch what is not ours."""
    work = out / WORK
    own = is_of_format(out / CORPUS_FILE, CorpusManifest.FORMAT)
    if not own and not work.exists():
        require_own_folder(
            out, lambda entry: entry.name == FILE_NAME and load_tokenizer(entry).fingerprint == tokenizer.fingerprint
        )
    if (work / PLAN_FILE).exists() and not restart:
        begun = read_record(work / PLAN_FILE, "the plan of a preparation", dict[str, str], CorpusManifest.REMEDY)
        if other := _difference(plan, begun):
            raise InputError(
                f"{out} holds an unfinished preparation with other {other}; choose another folder, or "
                f"{CorpusManifest.REMEDY}"
            )
        progress.say(f"going on with the preparation in {out}")
    else:
        make_folder(work)  # first, so that a folder half cleared is known as ours
        _clear(out)
        make_folder(work)
        tokenizer.save(out / FILE_NAME, overwrite=True)  # one that is there is the same
        write_record(work / PLAN_FILE, _fingerprints(plan))
    for folder in (out, work):
        remove_temporaries(folder)
    return work


def _clear(out: Path) -> None:
    """Remove what an earlier preparation left, `work` last of all, by which the folder is known as ours."""
    for path in [
        out / CORPUS_FILE,
        *shard_files(out),
        out / SUMS_FILE,
        out / DROPPED_FILE,
    ]:  # the tokenizer may be the only copy
        path.unlink(missing_ok=True)
    remove_temporaries(out)
    (out / WORK / PLAN_FILE).unlink(missing_ok=True)  # batches without a plan are not trusted
    shutil.rmtree(out / WORK)


# --- encoding -----------------------------------------------------------------------------------------------


def _encode(
    found: Found,
    preparation: Preparation,
    tokenizer: Tokenizer,
    work: Path,
    workers: int,
    losses: Losses,
    progress: Progress,
) -> list[Path]:
    """Encode every batch that is not there yet; return the files of all of them, in order."""
    files: list[Path] = []
    lessons = work / LESSONS if workers > 1 else None
    if lessons:
        make_folder(lessons)
        remove_temporaries(lessons)
    with stage(progress, "encoding") as bar:
        meter = Meter(found.sources, bar)

        def missing() -> Iterator[tuple[Path, list[DocumentPart]]]:
            parts = read_parts(found.sources, **_reading(preparation), workers=workers, left_out=losses.left_out)
            for batch in in_batches(parts, losses.faults):
                if preparation.on_error == "refuse" and losses.faults:
                    return
                is_page = found.sources[batch[0].source].format in PAGES
                if not (files or preparation.unwrap or is_page) and looks_wrapped(batch[0].text):
                    progress.say(HARD_WRAPPED)
                files.append(work / f"{len(files):06}.npz")
                meter.read(batch)
                if not _is_whole(files[-1], progress):
                    yield files[-1], batch

        for text_bytes in ordered_map(
            encode_batch,
            missing(),
            workers=workers,
            initializer=begin_worker,
            initargs=(tokenizer.vocabulary, preparation.duplicates == "near", lessons),
        ):
            meter.done(text_bytes)
    return files


def _is_whole(batch: Path, progress: Progress) -> bool:
    """Whether a batch was encoded before and is as it was written; tell of one that is not."""
    try:
        return batch.exists() and check_batch(batch)
    except FormatError as error:
        progress.say(f"{error}; it is encoded again")
        return False


def describe(corpus: CorpusManifest) -> list[str]:
    """Return the lines that tell a person what a corpus holds."""
    lines, notices = [], []
    for name, split in corpus.splits.items():
        noun = "document" if split.documents == 1 else "documents"
        lines.append(f"{name:6} {split.documents:>12,} {noun:9} {split.tokens:>14,} tokens {split.bytes:>15,} bytes")
        notices.append(text_notice(name, split.unknown_tokens or 0, split.tokens))
    return [*lines, _dropped(corpus), *filter(None, notices)]


def _why(losses: Losses) -> str:
    if losses.faults:
        return f": {losses.faults[0].message}"
    return f"; left out: {in_words(by_reason(losses.left_out))}" if losses.left_out else ""


def _dropped(corpus: CorpusManifest) -> str:
    dropped = in_words(corpus.documents.dropped)
    return f"read {many(corpus.documents.read, 'document')}; dropped: {dropped or 'none'}"
