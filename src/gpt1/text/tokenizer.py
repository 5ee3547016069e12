"""A tokenizer: one vocabulary, its rules, and the one file that holds them.

The file, `tokenizer.json`, records the kind, the version of the rules, the vocabulary and merges, the versions of
the libraries whose rules shape the ids, and a probe: a hash of the ids of awkward strings. Loading and decoding
need none of those libraries. At the first encoding their versions are compared; another version is used only
where the probe comes out the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, TypedDict

import numpy as np

from gpt1.base.errors import FormatError, InputError, MissingDependency, unknown
from gpt1.base.files import is_of_format, json_bytes, read_json, require_absent, result_file
from gpt1.base.records import check_record, sealed, unsealed
from gpt1.bases.catalog import run_or_base
from gpt1.text import bytes as byte_kind
from gpt1.text import words as word_kind
from gpt1.text.chunks import Ids, Offsets
from gpt1.text.cleaning import to_utf8
from gpt1.text.pieces import LIMIT, pieces
from gpt1.text.specials import special_ids

FORMAT = "gpt1-tokenizer"
FILE_NAME = "tokenizer.json"
MOST_UNKNOWN = 5  # characters that are told
KINDS: dict[str, ModuleType] = {"words": word_kind, "bytes": byte_kind}


class _TokenizerRecord(TypedDict):
    """What tokenizer.json holds."""

    rules: int
    vocabulary: list[str]
    merges: list[str]
    probe: str
    made_with: dict[str, str]


@dataclass(frozen=True)
class Vocabulary:
    """All that a tokenizer file says: tokens by id, merges by rank, and what made them."""

    kind: str
    rules: int
    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    probe: str = ""
    made_with: dict[str, str] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that shapes ids; not of version strings."""
        facts = [self.kind, self.rules, self.tokens, self.merges, self.probe]
        return hashlib.sha256(json.dumps(facts, ensure_ascii=True).encode()).hexdigest()


class Tokenizer:
    """Text to ids and back. Made by `load_tokenizer`, `new_tokenizer`, or by training.

    Processes that encode with the same vocabulary may be given a folder for `lessons`, to learn from each other.
    """

    def __init__(self, vocabulary: Vocabulary, lessons: Path | None = None) -> None:
        self.vocabulary = vocabulary
        self.kind = vocabulary.kind
        self.vocab_size = len(vocabulary.tokens)
        self.fingerprint = vocabulary.fingerprint
        self.specials = special_ids(self.vocab_size)
        self._rules = (
            word_kind.WordRules(vocabulary.tokens, vocabulary.merges, lessons)
            if self.kind == "words"
            else byte_kind.ByteRules(vocabulary.tokens, vocabulary.merges)
        )
        self.newline_id = self._rules.newline_id
        self.unknown_id = self._rules.unknown_id
        self._libraries_agree = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[Vocabulary]]:
        return Tokenizer, (self.vocabulary,)

    def __repr__(self) -> str:
        return f"<Tokenizer {self.kind}, {self.vocab_size:,} tokens, {self.fingerprint[:12]}>"

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`; a special token is never among them."""
        ids: list[int] = self.encode_flat([text])[0].tolist()
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; the same as `encode` one by one, but faster."""
        ids, ends = self.encode_flat(texts)
        return [part.tolist() for part in np.split(ids, ends[:-1])] if len(ends) else []

    def count_unknown(self, text: str) -> tuple[int, int]:
        """Return how many of a text's tokens are not in the vocabulary, and how many it has."""
        ids = self.encode(text)
        return self.unknown_among(ids), len(ids)

    def unknown_among(self, ids: Sequence[int]) -> int:
        """Return how many ids stand for what is not in the vocabulary."""
        return 0 if self.unknown_id is None else ids.count(self.unknown_id)

    def unknown_characters(self, counts: Counter[str]) -> list[str]:
        """Return which of the counted characters are not in the vocabulary: a few, the commonest first."""
        if self.unknown_id is None:
            return []
        lower: Counter[str] = Counter()
        for character, count in counts.items():
            lower[character.lower()] += count
        found = [character for character, _ in lower.most_common() if character.isprintable()]
        encoded = zip(found, self.encode_batch(found), strict=True)
        return [character for character, ids in encoded if self.unknown_among(ids)][:MOST_UNKNOWN]

    def encode_flat(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        """Return the ids of all texts one after the other, and where each text's ids end."""
        self._check_libraries()
        for number, given in enumerate(texts, 1):
            if not isinstance(given, str):
                raise InputError(f"text {number} is {type(given).__name__}, not a string")
        cut = [_cut(text) for text in texts]
        ids, ends = self._encode_pieces([piece for text in cut for piece in text])
        if len(ends) == len(cut):
            return ids, ends
        lengths = np.diff(ends, prepend=0)
        last = np.cumsum([len(text) for text in cut]) - 1
        before = np.zeros(len(ends), bool)  # a joint stands before these pieces
        for text, end in zip(cut, last + 1, strict=True):
            own = slice(end - len(text), end)
            before[own] = joints_before(lengths[own].tolist(), [self.joint(piece) is not None for piece in text])
        joint = np.array([self.newline_id], np.int32)
        stretches = np.split(ids, (ends - lengths)[before])  # few, and faster than `np.insert`
        with_joints = [part for stretch in stretches for part in (joint, stretch)][1:]
        return np.concatenate(with_joints), (ends + np.cumsum(before))[last]

    def _encode_pieces(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        with self._lock:  # the tables of remembered chunks are not made for two threads
            try:
                return self._rules.encode(texts)
            except ModuleNotFoundError as error:
                raise _missing(str(error.name)) from None

    def joint(self, piece: str) -> int | None:
        """Return the id that stands between `piece` and what `pieces` cut off after it, if any."""
        return self._rules.joint(piece)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`; special tokens show as `<start>`, `<delimiter>`, `<extract>`."""
        names = {id: f"<{name}>" for name, id in self.specials.items()}
        texts: list[str] = []
        run: list[int] = []
        for place, id in enumerate(ids):
            if not 0 <= id < self.vocab_size + len(names):
                raise InputError(f"id {id} at position {place} is not in this vocabulary of {self.vocab_size} tokens")
            if id in names:
                texts += [self._rules.decode(run), names[id]]
                run = []
            else:
                run.append(int(id))
        return "".join([*texts, self._rules.decode(run)])

    def context(self, before: Sequence[int]) -> str:
        """Return what of the text of `before` decides how the ids after it look: a few characters at most."""
        return self._rules.context(before)

    def decode_after(self, context: str, ids: Sequence[int]) -> tuple[str, int]:
        """Return the text that `ids` add to one with that context, and how many characters no further id can change.

        None of them is a special token. Where all of the text is settled, what follows does not depend on it.
        """
        return self._rules.decode_after(context, ids)

    def decode_each_after(self, before: Sequence[int], ids: Sequence[int]) -> list[str]:
        """Return each id's share of the text that `decode_after` returns; none of them is a special token."""
        return self._rules.decode_each_after(before, ids)

    def spell(self, id: int) -> str:
        """Return a token by itself, spelled as no other one is: with a blank behind it where it ends a word."""
        return self._rules.spell(id)

    def library_tokenizer(self) -> Any | None:
        """Return the same rules as a tokenizer of the library `tokenizers`, where it can follow them: for `bytes`."""
        return self._rules.library_tokenizer if isinstance(self._rules, byte_kind.ByteRules) else None

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the tokenizer file, atomically; a folder gets a `tokenizer.json`."""
        with result_file(tokenizer_target(path, overwrite=overwrite), overwrite=overwrite) as file:
            file.write(self.content())

    def content(self) -> bytes:
        """Return what a tokenizer file holds."""
        vocabulary = self.vocabulary
        facts = {
            "format": FORMAT,
            "kind": vocabulary.kind,
            "rules": vocabulary.rules,
            "made_with": vocabulary.made_with,
            "probe": vocabulary.probe,
            "vocabulary": vocabulary.tokens,
            "merges": [f"{left} {right}" for left, right in vocabulary.merges],
        }
        return json_bytes(sealed(facts))

    def _check_libraries(self) -> None:
        """Make sure, once, that the libraries installed here give the ids that the tokenizer's maker got."""
        if self._libraries_agree:
            return
        made_with = self.vocabulary.made_with
        here = {library: _version(library) for library in made_with}
        if here != made_with and self._probe() != self.vocabulary.probe:
            wanted = " ".join(f"{library}=={version}" for library, version in made_with.items())
            found = " ".join(f"{library}=={version}" for library, version in here.items())
            raise InputError(
                f"this tokenizer was made with {wanted}; here are {found}, whose rules give other ids.\n"
                f"Install the versions it was made with: pip install {wanted}"
            )
        self._libraries_agree = True

    def _probe(self) -> str:
        ids, ends = self._encode_pieces(probe_strings())
        return hashlib.sha256(ids.astype("<i4").tobytes() + ends.astype("<i8").tobytes()).hexdigest()


def _cut(text: str) -> list[str]:
    if len(text) <= LIMIT:
        return [text]
    to_utf8(text)  # an error then tells the place in the text, not in a piece of it
    return list(pieces([text]))


def joints_before(lengths: Sequence[int], joints: Sequence[bool]) -> list[bool]:
    """Say for each piece of a text whether a joint stands before it: between two pieces that both have ids.

    `lengths` are the pieces' numbers of ids, `joints` whether each was cut off with a joint after it.
    """
    result = []
    begun = pending = False
    for length, joint in zip(lengths, joints, strict=True):
        result.append(pending and length > 0)
        begun = begun or length > 0
        pending = begun and (joint or (pending and length == 0))
    return result


def tokenizer_target(path: str | Path, *, overwrite: bool) -> Path:
    """Return the file a tokenizer saved to `path` goes to; refuse one that is there, and always what is none."""
    path = Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to save a tokenizer in")
    if path.exists() and not is_of_format(path, FORMAT):
        raise InputError(f"{path} exists and is no tokenizer of ours; choose another name")
    require_absent(path, overwrite)
    return path


def new_tokenizer(kind: str, tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> Tokenizer:
    """Return a tokenizer with a fresh vocabulary, its probe taken with the libraries installed here."""
    module = KINDS[kind]
    made_with = {library: _version(library) for library in module.LIBRARIES}
    facts: dict[str, Any] = {"kind": kind, "rules": module.RULES_VERSION, "made_with": made_with}
    draft = Tokenizer(Vocabulary(tokens=tuple(tokens), merges=tuple(merges), **facts))
    return Tokenizer(Vocabulary(tokens=tuple(tokens), merges=tuple(merges), probe=draft._probe(), **facts))


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load a tokenizer from its file, from a folder that holds a `tokenizer.json`, or that of a base, by its name."""
    path = run_or_base(path)
    if path.is_dir():
        path = path / FILE_NAME
    data = read_json(path, "a gpt1 tokenizer")
    if data.get("format") != FORMAT:
        theirs = "something else"
        if isinstance(data.get("model"), dict):
            theirs = "a Hugging Face tokenizer file"
        elif all(isinstance(value, int) for value in data.values()):
            theirs = "a plain vocabulary"
        raise FormatError(
            f"{path} is {theirs}, not a gpt1 tokenizer. Make one with 'gpt1 tokenizer train', or from the released "
            "vocabulary and merges files with 'gpt1 tokenizer import'"
        )
    data = unsealed(data, path, "make it anew")
    kind = data.get("kind")
    if kind not in list(KINDS):  # a list, because a damaged kind may be unhashable
        raise FormatError(f"{path}: {unknown('kind of tokenizer', str(kind), KINDS)}")
    if data.get("rules") != KINDS[kind].RULES_VERSION:
        raise FormatError(
            f"{path} follows version {data.get('rules')} of the {kind} rules; this program knows "
            f"version {KINDS[kind].RULES_VERSION}: use the gpt1 that made it, or train a new one"
        )
    found = check_record(data, _TokenizerRecord, path, "make it anew")
    # A file may not name what a person is then told to install.
    made_with = {name: version for name, version in found["made_with"].items() if name in KINDS[kind].LIBRARIES}
    try:
        vocabulary = Vocabulary(
            kind=kind,
            rules=found["rules"],
            tokens=tuple(found["vocabulary"]),
            merges=tuple(_merge(line) for line in found["merges"]),
            probe=found["probe"],
            made_with=made_with,
        )
        return Tokenizer(vocabulary)
    except (ValueError, FormatError) as error:
        raise FormatError(f"{path} is damaged: {error}; make it anew") from error


def _merge(line: str) -> tuple[str, str]:
    left, right = line.split(" ")
    return left, right


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        raise _missing(library) from None


def _missing(library: str) -> MissingDependency:
    return MissingDependency(
        f"encoding with this tokenizer needs {library}, which is not installed: pip install {library}"
    )


# Awkward strings whose ids tell whether two installations tokenise alike. A tokenizer file keeps a hash of what they
# became when it was made: libraries move their rules a little from version to version.
_LITERAL = """\
Hello,\\n\\nworld  it's
a\\\\b C:\\\\temp\\\\new \\\\\\\\ \\\\+
x+y ++ z+++
http://a.b/c?d=e_f https://www.example.com/index.html#top
me@example.org, you.there@sub.example.co.uk.
I can't, won't, shan't've; you'd've; y'all'd; o'clock; 'tis 'twas 'em rock'n'roll
He said: "Mr. and Mrs. O'Neill (of St. John's, N.Y.) arrived at 10a.m. on Jan. 3rd, 1899."
cannot gonna gotta wanna lemme gimme dunno wed. im. id ill Cannot.
''Tis ' ''Tis '' ' "'" ''' ` `` ´
:) :-) ;) :( :-( :D =D <3 </3 ^_^ (-_-) (o: :-)) :))) 8-) ): (: : ) ; ) : (
$5.00 US$ 5 10% 50%-60% 1,000,000 3.14159 1/2 2x4 10km 5kg 20°C 6'2" #1 No.1
e.g. i.e. etc. vs. a.m. p.m. Ph.D. U.S.A. U.K. Inc. Ltd. Co. D.C.
well-known mother-in-law re-enter 1914-18 -- --- -word word- —dash— –en– ―bar― … ... .. . ....
~tilde~ *star* **two** _under_ __dunder__ [br] {br} <br> |pipe| a|b ?! !! !? ??? ;;
&amp; &lt;tag&gt; &eacute; &#39; &#x2019; AT&T R&D
x < y &amp; z
caf\\u00e9 na\\u00efve cafe\\u0301 \\u00c6sop \\u0152uvre \\ufb01nd \\u0132 \\u01c4
\\u00e2\\u20ac\\u2122 it\\u00e2\\u20ac\\u2122s \\u00c3\\u00a9t\\u00c3\\u00a9 \
\\u00e2\\u20ac\\u0153quoted\\u00e2\\u20ac\\u009d
\\u2018single\\u2019 \\u201cdouble\\u201d \\u201alow\\u201b \\u201elow\\u201f \\u00abguil\\u00bb \\u2039a\\u203a
\\u0130stanbul \\u0131 \\u00df \\u1e9e \\u03a3\\u03a3 \\u039f\\u0394\\u039f\\u03a3 \\u01c5
\\u4e2d\\u6587\\u5b57\\u7b26 \\u65e5\\u672c\\u8a9e\\u3067\\u3059\\u3002 \\ud55c\\uad6d\\uc5b4 \
\\uff21\\uff22\\uff23\\uff11\\u3000\\uff01
\\u0645\\u0631\\u062d\\u0628\\u0627 \\u05e9\\u05dc\\u05d5\\u05dd \\u202babc\\u202c \\u200fx\\u200e
\\U0001f600 \\U0001f469\\u200d\\U0001f4bb \\U0001f1e9\\U0001f1ea \\U0001f44d\\U0001f3fd \\u2764\\ufe0f
a\\u200bb a\\u200cb a\\u200db a\\u00adb \\ufeffbom a\\u2060b \\u00a0nbsp\\u00a0 thin\\u2009space \\u2003em
tab\\tseparated\\tvalues \\t\\t two
line\\r\\nline\\rline\\x0bline\\x0cline\\x85line\\u2028line\\u2029line
\\x00\\x01\\x02 bell\\x07 esc\\x1b[31mred\\x1b[0m del\\x7f \\x1c\\x1d\\x1e\\x1f c1\\x80\\x91\\x9f
\\n\\n leading and trailing \\n \\n
   \\n  a \\n \\n\\n b   c
\\u0e2a\\u0e27\\u0e31\\u0e2a\\u0e14\\u0e35 \\u0928\\u092e\\u0938\\u094d\\u0924\\u0947 \\u10d2\\u10d0 \\u13a3 \\u1200
\\u2460 \\u00bd \\u2167 \\u33a1 x\\u00b2 H\\u2082O \\u2103 \\u2122 \\u00a9 \\u00ae \\u00a7 \\u00b6
\\u20ac5 \\u00a35 \\u00a55 5\\u20ac \\u20b95 \\u20bf
"""

_WORDS = ("it's", "Mr.", "end.", "a.m.", "don't", "'em", "U.S.", "5km", "(so)", '"oh!"', "well-known")
_NEIGHBOURS = ("'", "''", ":", ")", "(", "d", ".", "=", "<3", "-", "\n", "\\", "$$$", "...", "—")


def probe_strings() -> list[str]:
    """Return about two hundred strings that show a change of rules, always the same."""
    literal = [line.encode("ascii", "backslashreplace").decode("unicode_escape") for line in _LITERAL.splitlines()]
    return literal + [f"{word} {sign}{word}" for word in _WORDS for sign in _NEIGHBOURS]
