"""From folders of text to a corpus on disk: `gpt1 prepare`.

Two steps. All cores encode batches of text, each into a file of its own under `.gpt1-work/`; so may several machines
that share the folder, each a part. Then the batches are put together: duplicates are dropped, documents go to train or
valid, shards are written, and `corpus.json` last of all. Both steps are pure functions of their input, so a
preparation killed at any moment and started again ends with the same bytes, by however many processes it is made;
batches that are there are not encoded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from gpt1.base.errors import Busy, FormatError, InputError, SettingError, printable, unknown
from gpt1.base.files import (
    is_of_format,
    is_temporary,
    lock_folder,
    make_folder,
    read_record,
    remove_temporaries,
    remove_temporaries_below,
    require_own_folder,
    write_first_record,
    write_record,
)
from gpt1.base.parallel import cores
from gpt1.base.parts import Part, check_part
from gpt1.base.progress import Progress, Silent
from gpt1.base.stores import check_stored
from gpt1.base.wording import many
from gpt1.corpus.assembly import DROPPED_FILE, assemble
from gpt1.corpus.at_work import WHOLE, WorkLog, at_work, name_of, require_free, require_nobody
from gpt1.corpus.batches import announce, read_losses
from gpt1.corpus.documents import (
    TEXTS,
    DocumentPart,
    Fault,
    Found,
    Losses,
    Skipped,
    TextReading,
    TextSource,
    check_reading,
    find_sources,
    read_parts,
    read_sources,
)
from gpt1.corpus.encoding import Encoding, encode
from gpt1.corpus.lots import Lot, LotShare, all_batches, deal, in_lots
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE, WORK, CorpusManifest, read_corpus, shards_of, sums_of
from gpt1.corpus.on_ray import encode_on_ray, require_ray
from gpt1.corpus.pages import by_reason, in_words
from gpt1.corpus.quality import NO_SIEVE, Sieve
from gpt1.corpus.shards import shard_files, verify_shard, write_sums
from gpt1.corpus.unwrap import HARD_WRAPPED, looks_wrapped
from gpt1.corpus.uploading import upload_corpus
from gpt1.text.tokenizer import FILE_NAME, Tokenizer, load_tokenizer
from gpt1.text.unknowns import text_notice

PLAN_FILE = "plan.json"
LESSONS = "lessons"
LOCAL, RAY = ENGINES = ("local", "ray")
UNFINISHED = "an unfinished preparation"
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

    @property
    def reading(self) -> TextReading:
        """How the files are read."""
        return TextReading(self.document, self.field, self.encoding, self.unwrap, self.sieve)

    @property
    def sieve(self) -> Sieve:
        """Which documents pass."""
        return Sieve(self.language, self.quality)

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
    engine: str = LOCAL,
    upload: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Encode text files into token shards under `out` and return the corpus's description, `corpus.json`.

    The settings are those of `Preparation`. Killed and called again, it goes on; finished, it returns at once.
    `restart` throws away what `out` holds of an earlier preparation. `out` is a folder for the corpus alone; `upload`
    names one in a store (`s3://bucket/folder`) that the finished corpus is written to as well. The `engine` is `local`,
    for the cores of this machine, or `ray`, for those of a Ray cluster.
    """
    progress = progress or Silent()
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == RAY:
        require_ray()
    asked = _Asked.of(paths, tokenizer, out, settings, upload)
    with _stopping(progress), lock_folder(asked.out):
        return _whole(asked, workers or cores(), progress, restart=restart, engine=engine).as_json()


def prepare_part(
    paths: str | Path | Sequence[str | Path],
    tokenizer: Tokenizer | str | Path,
    out: str | Path,
    part: Part,
    *,
    workers: int | None = None,
    upload: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any] | None:
    """Do a part of a preparation, such as (2, 7), the second of seven, beside processes that do the others.

    They may run on any machines on which `out` and the texts have the same names. Who is done last puts the corpus
    together, the same as `prepare` makes alone, writes it to `upload`, and returns its description; the others return
    None. Called again, a part that was killed goes on. What was given may not differ from part to part.
    """
    progress = progress or Silent()
    number, count = check_part(part)
    asked = _Asked.of(paths, tokenizer, out, settings, upload)
    with _stopping(progress):
        if (asked.out / CORPUS_FILE).exists():
            return _made_before(asked, progress).as_json()
        _join(asked)
        lots, work = in_lots(asked.found.sources), asked.work
        if all_batches(lots, work) is None:
            with at_work(work, name_of(part), lots) as log:
                require_free(work, WHOLE)
                _announce(asked, progress)
                fault = _encode_here(asked, deal(lots, count)[number - 1], workers or cores(), log, progress)
                _refuse(fault, f"remove {work} when nobody is at work")
        if all_batches(lots, work) is None:
            progress.say(
                f"part {number}/{count} is done; others are not, of which the last one puts the corpus together"
            )
            return None
        try:
            with lock_folder(asked.out):
                return _whole(asked, workers or cores(), progress).as_json()
        except Busy as error:
            progress.say(f"part {number}/{count} is done; {str(error).split('; ')[0]}, which puts the corpus together")
            return None


@dataclass(frozen=True)
class _Asked:
    """A preparation that somebody wants: of which files, how, into which folder, and into which one of a store."""

    found: Found
    preparation: Preparation
    tokenizer: Tokenizer
    out: Path
    upload: str | None

    @classmethod
    def of(
        cls,
        paths: str | Path | Sequence[str | Path],
        tokenizer: Tokenizer | str | Path,
        out: str | Path,
        settings: dict[str, Any],
        upload: str | None,
    ) -> _Asked:
        """Look at what was given, and refuse what does not fit before anything is written."""
        preparation = _settings(settings)
        if not isinstance(tokenizer, Tokenizer):
            tokenizer = load_tokenizer(tokenizer)
        paths = [paths] if isinstance(paths, str | Path) else paths
        found = _outside(Path(out), find_sources([str(path) for path in paths], field=preparation.field))
        check_reading(found.sources, preparation.reading)
        if upload is not None:
            check_stored(upload)
        return cls(found, preparation, tokenizer, Path(out), upload)

    @property
    def work(self) -> Path:
        """Return where the batches lie until the corpus is made."""
        return self.out / WORK

    @cached_property
    def plan(self) -> dict[str, str]:
        """Return what tells this preparation from all others: settings, tokenizer, and the files as they are now.

        Not what happens on an error: one who was refused may go on with `skip`. Nor a sieve that lets all pass, which
        corpora do not have that were made before there were any.
        """
        settings = asdict(self.preparation)
        del settings["on_error"]
        if self.preparation.sieve == NO_SIEVE:
            del settings["language"], settings["quality"]
        plan = {
            "settings": settings,
            "tokenizer": self.tokenizer.fingerprint,
            "files": [asdict(source) for source in self.found.sources],
        }
        return {name: _fingerprint(part) for name, part in plan.items()}

    def require_same(self, plan: dict[str, str], what: str, remedy: str) -> None:
        """Refuse what the folder holds of another preparation, and name what differs."""
        if other := ", ".join(name for name, mark in self.plan.items() if plan.get(name) != mark):
            raise InputError(f"{self.out} holds {what} with other {other}; choose another folder, or {remedy}")

    def encoding(self) -> Encoding:
        """Return what encodes the batches."""
        return Encoding(
            self.found.sources,
            self.preparation.reading,
            self.tokenizer.vocabulary,
            sketching=self.preparation.duplicates == "near",
            careful=self.preparation.on_error == "refuse",
            work=self.work,
        )


def _fingerprint(part: object) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()


@contextmanager
def _stopping(progress: Progress) -> Iterator[None]:
    """Say, where a preparation is stopped, how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        progress.say("stopped; the same command goes on where it was")
        raise


def _whole(
    asked: _Asked, workers: int, progress: Progress, *, restart: bool = False, engine: str = LOCAL
) -> CorpusManifest:
    """Do all that is not done yet, in a folder that nobody else has."""
    if (asked.out / CORPUS_FILE).exists() and not restart:
        corpus = _finished(asked, progress)
    else:
        corpus = _made(asked, workers, progress, restart, engine)
    _upload(asked, corpus, progress)
    return corpus


def _made(asked: _Asked, workers: int, progress: Progress, restart: bool, engine: str) -> CorpusManifest:
    require_nobody(asked.work)
    _begin(asked, restart, progress)
    try:
        lots = in_lots(asked.found.sources)
        with at_work(asked.work, WHOLE, lots) as log:
            require_nobody(asked.work, but=WHOLE)
            corpus = _prepare(asked, lots, workers, engine, log, progress)
    except _Nothing:
        _clear(asked.out)
        raise
    shutil.rmtree(asked.work)
    return corpus


def _upload(asked: _Asked, corpus: CorpusManifest, progress: Progress) -> None:
    if asked.upload is not None:
        upload_corpus(asked.out, corpus, asked.upload, progress)


class _Nothing(InputError):
    """There is no document for a corpus."""


def _prepare(
    asked: _Asked, lots: Sequence[Lot], workers: int, engine: str, log: WorkLog, progress: Progress
) -> CorpusManifest:
    _announce(asked, progress)
    if engine == RAY:
        fault = encode_on_ray(asked.encoding(), lots, log.add, progress)
    else:
        fault = _encode_here(asked, deal(lots, 1)[0], workers, log, progress)
    _refuse(fault, "begin anew with `restart=True`")
    if (written := all_batches(lots, asked.work)) is None:
        raise InputError(f"not all that was written is to be seen in {asked.work} yet; the same command goes on")
    batches, losses = read_losses(written)
    if not batches:
        raise _Nothing(f"there is no document to read{_why(losses)}")
    corpus = assemble(
        batches,
        losses,
        asked.found.sources,
        asked.tokenizer,
        asked.out,
        duplicates=asked.preparation.duplicates,
        valid=asked.preparation.valid,
        shard_tokens=asked.preparation.shard_tokens,
        threads=workers,
        progress=progress,
    )
    if not any(split.documents for split in corpus.splits.values()):
        raise _Nothing(f"no document is left: {_dropped(corpus)}")
    if asked.preparation.valid and not corpus.splits["valid"].documents:
        progress.say(
            "validation gets nothing: there is no document small enough; add texts, or cut them finer with `document`"
        )
    replace(corpus, plan=asked.plan).write(asked.out / CORPUS_FILE)
    return read_corpus(asked.out)


def _encode_here(
    asked: _Asked, shares: Sequence[LotShare], workers: int, log: WorkLog, progress: Progress
) -> Fault | None:
    """Encode on this machine; its workers learn from each other alone."""
    lessons = asked.work / LESSONS / log.name if workers > 1 else None
    return encode(asked.encoding(), shares, workers=workers, lessons=lessons, done=log.add, progress=progress)


def _announce(asked: _Asked, progress: Progress) -> None:
    """Tell what will be read, and advise where it seems to be hard-wrapped."""
    announce(asked.found, progress)
    begun = next(read_sources(asked.found.sources, asked.preparation.reading), None)
    if isinstance(begun, DocumentPart) and not asked.preparation.unwrap and looks_wrapped(begun.text):
        progress.say(HARD_WRAPPED)


def _refuse(fault: Fault | None, anew: str) -> None:
    """End where something could not be read; `anew` is what helps when it is mended."""
    if fault:
        raise InputError(f"{fault.message}; mend it, or leave such documents out with `on_error='skip'`; then {anew}")


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


def _made_before(asked: _Asked, progress: Progress) -> CorpusManifest:
    """Return a corpus that was made before, as it is: many parts may ask for it at once."""
    corpus = read_corpus(asked.out)
    asked.require_same(corpus.plan, "a corpus", "replace it with `gpt1.prepare(restart=True)`")
    progress.say(f"{asked.out} was prepared before from the same files with the same settings")
    if asked.upload is not None:
        with lock_folder(asked.out):
            _upload(asked, corpus, progress)
    return corpus


def _finished(asked: _Asked, progress: Progress) -> CorpusManifest:
    """Return a corpus that was made before, all of it checked; what a kill left beside it is removed."""
    corpus, out = read_corpus(asked.out), asked.out
    asked.require_same(corpus.plan, "a corpus", "replace it with `restart=True`")
    sums = [verify_shard(path) for path in shards_of(out, corpus)]
    if not _has_sums(out, corpus):
        progress.say(f"the checksums of the blocks of its shards are written to {out / SUMS_FILE}")
        corpus = replace(corpus, blocks=write_sums(out / SUMS_FILE, sums))
        corpus.write(out / CORPUS_FILE)
    shutil.rmtree(asked.work, ignore_errors=True)
    remove_temporaries(out)
    progress.say(f"{out} was prepared before from the same files with the same settings")
    return corpus


def _has_sums(out: Path, corpus: CorpusManifest) -> bool:
    """Whether the sums of blocks are there and whole; corpora that were made before there were any have none."""
    try:
        return sums_of(out, corpus) is not None
    except FormatError:
        return False


def _begin(asked: _Asked, restart: bool, progress: Progress) -> None:
    """Make the folder ready for this preparation, or for going on with it; never touch what is not ours."""
    out, work = asked.out, asked.work
    _require_own(asked)
    if (work / PLAN_FILE).exists() and not restart:
        asked.require_same(_read_plan(work), UNFINISHED, CorpusManifest.REMEDY)
        progress.say(f"going on with the preparation in {out}")
    else:
        make_folder(work)  # first, so that a folder half cleared is known as ours
        _clear(out)
        make_folder(work)
        write_record(work / PLAN_FILE, asked.plan)
    asked.tokenizer.save(out / FILE_NAME, overwrite=True)  # one that is there is the same
    remove_temporaries(out)
    remove_temporaries_below(work)


def _join(asked: _Asked) -> None:
    """Make the folder ready for a part, beside others that may do so at the same time: nothing is removed."""
    work = asked.work
    _require_own(asked)
    make_folder(work)
    left = [entry.name for entry in work.iterdir() if not is_temporary(entry)]  # looked at before the plan
    if not (work / PLAN_FILE).exists():
        if left:
            raise InputError(
                f"{work} holds what is left of a preparation that was thrown away; remove it when nobody is at work"
            )
        write_first_record(work / PLAN_FILE, asked.plan)
    asked.require_same(_read_plan(work), UNFINISHED, f"remove {work} when nobody is at work")


def _require_own(asked: _Asked) -> None:
    """Refuse a folder of others; one with a corpus, or with what an unfinished preparation has, is ours."""

    def is_ours(entry: Path) -> bool:
        if entry.name == FILE_NAME:
            return load_tokenizer(entry).fingerprint == asked.tokenizer.fingerprint
        return entry == asked.work  # which another part may have made just now

    if not is_of_format(asked.out / CORPUS_FILE, CorpusManifest.FORMAT) and not asked.work.exists():
        require_own_folder(asked.out, is_ours)


def _read_plan(work: Path) -> dict[str, str]:
    return read_record(work / PLAN_FILE, "the plan of a preparation", dict[str, str], CorpusManifest.REMEDY)


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


# --- in words -----------------------------------------------------------------------------------------------


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
