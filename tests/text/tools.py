"""What several tests of this room share: the judge's view of words, text to learn from, and awkward strategies."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from gpt1.text.chunks import ChunkEncoder
from gpt1.text.splitting import Splitter
from gpt1.text.tokenizer import Tokenizer
from tests.reference.words import ReferenceWords


class Words:
    """The words that the package finds, spelled out: a vocabulary would hide characters it does not know."""

    def __init__(self) -> None:
        self.spellings = ["\n "]
        self.encoder = ChunkEncoder(Splitter(), self._number, (0,))

    def _number(self, words: list[str]) -> list[tuple[int, ...]]:
        self.spellings += words
        return [(len(self.spellings) - len(words) + place,) for place in range(len(words))]

    def __call__(self, text: str) -> list[str]:
        return [self.spellings[id] for id in self.encoder.encode([text])[0]]


def reference_of(tokenizer: Tokenizer) -> ReferenceWords:
    vocabulary = tokenizer.vocabulary
    return ReferenceWords({token: id for id, token in enumerate(vocabulary.tokens)}, list(vocabulary.merges))


STORY = """\
The old captain (he was sixty-three, or so they said) hadn't slept; "I'll not go," he'd muttered. "Can't you see?"
Mr. and Mrs. O'Neill came at 10 a.m. with $5.00 and the dog's collar... It wasn't theirs! We're lost, aren't we?
They'd been told: never, never open the red door; yet she opened it - and there stood the king's own brother.
Once upon a time there was a little tailor who lived by the sea; his daughter's name was Zoë, and she was naïve.
Élan, café, Ærøskøbing, straße, ŒUVRE, niño; 100% of x = y + z < 3 > 2, a_b, [sic], {so}, *star*, #1 @home ~ ^ ` | \\
Quickly, quietly, the boys jumped over the lazy fox's very wide wall, and the girls laughed: ha! ha! ha! 1234567890
中文 русский ελληνικά שלום
"""


def made_text(lines: int = 400, seed: int = 1) -> str:
    """Text to learn a small vocabulary from: the words of the story, shuffled."""
    rng = random.Random(seed)
    words = STORY.split()
    return STORY + "\n".join(" ".join(rng.choices(words, k=12)) for _ in range(lines))


# Signs that spaCy's emoticons and quotes are made of.
SIGNS = "':;)(=<3.-_8Do>*^"
BLANKS = [
    *" \n\t\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000",
    *("\r\n", "\n\u00a0\n", " \t ", "   "),
]
ENTITIES = [
    *("&amp;", "&lt;", "&gt;", "&#39;", "&eacute;", "&EACUTE;", "&amp;amp;", "&nbsp;", "&#x2019;", "&#0;", "&#13;"),
    *("&Atilde;&copy;", "&#xd800;", "&#38;lt;", "&bogus;", "&", ";", "#38;", "amp;", "&#65286;", "&shy;"),
]
TYPOGRAPHY = "‘’“”—–…´―"
ACCENTED = "éèÉñüÃÂâ€™œŒ©ØÙ×²à½ВГРСя"
AWKWARD = [
    *("\x00", "\x01", "\x07", "\x1b[31m", "\x1b", "\x7f", "\x80", "\x9d", "\u0301", "\u0327", "\u200b", "\u200c"),
    *("\u200d", "\u00ad", "\ufeff", "\u180e", "\u202b", "\u2060", "\ufffd", "\ufdd0", "\U0010ffff", "\U000f0000"),
    *("😀", "👩‍💻", "🇩🇪", "👍🏽", "❤️", "中", "日本語", "한국", "ש", "مر"),
    *("İ", "ı", "ß", "ẞ", "Σ", "ΟΔΟΣ", "ﬁ", "ＡＢ", "＆"),
    *("½", "Ⅷ", "°C.", "km", "$", "US$", "€5", "%", "§", "#", "@", "\\", "/", "|", "`", "~", "+", "[", "]", "{", "}"),
    *('"', "!", "?", ",", ".", "..", "...", "<unk>", "</w>", "<start>", "\n</w>", "ſ", "\u212a"),
]
WORDS = [
    *("a", "I", "can't", "cannot", "cannot.", "won't", "Mr.", "U.S.", "U.S.A.", "e.g.", "10a.m.", "5km", "10km²."),
    *("$5.00", "'tis", "''Tis", "o'clock", "y'all", "gonna", "http://a.b/c?d=e_f", "www.x.com", "me@x.org", "a.b"),
    *("a.B", "x=y", "a:b", "10:30", "1/2", "3.14", "1,000", "it's", "It'S", "dogs'", "rock'n'roll", "'em", "wed."),
    *("Co.", "id", "ill", "we're", "Ph.D.", "well-known", "o_o", "(^_^)", "¯\\_(ツ)_/¯", "<3", ":-)", "8-D"),
    *("ಠ_ಠ", "CC."),
]


def _joined(parts: st.SearchStrategy[str], least: int, most: int, between: list[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(parts, st.sampled_from(between))
    return st.lists(pairs, min_size=least, max_size=most).map(lambda found: "".join(a + b for a, b in found))


def special_cases(rules: list[str]) -> st.SearchStrategy[str]:
    """spaCy's special cases next to each other and to signs that change them."""
    rule, sign = st.sampled_from(rules), st.sampled_from([*SIGNS, ",", "'", "''"])
    part = st.one_of(rule, rule.map(str.upper), st.tuples(sign, rule).map("".join), st.tuples(rule, sign).map("".join))
    return _joined(part, 1, 5, [" ", " ", " ", "", "\n", "\u00a0", "-", "=", "/"])


# Characters of every class by which ftfy knows mojibake, and what its rules allow beside them.
MOJIBAKE = [
    *"\u00a0\u00ad\x80\x9d·´¦¨¬ƒ†\ufffdª¶§¢£€¡«¿©•®»™²±¼×µ÷òÖøŐ°ÃÂÀÑØÙĂĐŁŒœßàâêěžÞΑΩЁЯαωаџ│═█√≈‚ÄβΆĀāвЂВГРСў",
    *("ГўВЂВ", "Ã©", "â€™", "â€œ", "Ã ", "Â ", "ï¼†", "ØÙ", "×²"),
    *"aZ0 .,?!\t\r\n'<",
    *TYPOGRAPHY,
    *("word", " a ", "   ", "\u0301", "\u3000", "Ａ", "\x1b[m", "\x01", "&amp;"),
]
MOJIBAKE_LINES = _joined(st.sampled_from(MOJIBAKE), 0, 20, ["", "", "", " "])

SIGN_CHUNKS = st.lists(st.text(SIGNS, min_size=1, max_size=5), min_size=2, max_size=6).flatmap(
    lambda chunks: st.sampled_from([" ", "\n", "  "]).map(lambda between: between.join(chunks))
)
SIGNS_AND_BLANKS = st.text(SIGNS + "  \n", max_size=20)
LINES = _joined(st.sampled_from([*WORDS, *TYPOGRAPHY, *ACCENTED, *ENTITIES, "<", " ", " "]), 0, 25, ["", "", " ", "\n"])
MIXTURES = _joined(st.sampled_from([*BLANKS, *AWKWARD, *WORDS, *ENTITIES, *SIGNS, *TYPOGRAPHY]), 0, 12, ["", " ", "\n"])
ANY_TEXT = st.text(max_size=40)
_UNITS = [*SIGNS, *"$%=+\\#€°…1a", "'s", "km", "..", "''", "😀", "e\u0301", *WORDS]
RUNS = st.lists(st.tuples(st.sampled_from(_UNITS), st.integers(1, 90)), min_size=1, max_size=4).map(
    lambda runs: "".join(unit * count for unit, count in runs)
)
