"""The tokenizer file, its fingerprint and probe, what loading and decoding need, and what is said of bad files."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import FormatError, Gpt1Error, InputError, MissingDependency
from gpt1.text import tokenizer as tokenizer_module
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer, load_tokenizer, new_tokenizer, probe_strings
from gpt1.text.words import WordRules, layout, tidy
from tests.properties import examples
from tests.records import facts_in
from tests.text.tools import made_text


@pytest.fixture(params=["words", "bytes"])
def either(request: pytest.FixtureRequest) -> Tokenizer:
    """A tokenizer of each kind."""
    found: Tokenizer = request.getfixturevalue(f"{request.param}_tokenizer")
    return found


# ------------------------------------------------------------------ the file


def test_a_saved_tokenizer_comes_back_whole(either: Tokenizer, tmp_path: Path) -> None:
    either.save(tmp_path / "t.json")
    back = load_tokenizer(tmp_path / "t.json")
    assert back.vocabulary == either.vocabulary
    assert (back.kind, back.vocab_size, back.fingerprint) == (either.kind, either.vocab_size, either.fingerprint)
    text = "It's the old sailor's £5.50 — so…\nÉlan 中"
    assert back.encode(text) == either.encode(text)
    assert back.decode(back.encode(text)) == either.decode(either.encode(text))


def test_a_folder_stands_for_the_tokenizer_file_in_it(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    words_tokenizer.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]
    assert load_tokenizer(str(tmp_path)).fingerprint == words_tokenizer.fingerprint


def test_the_file_is_readable_json_that_says_what_it_is(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    words_tokenizer.save(tmp_path)
    data = facts_in(tmp_path / "tokenizer.json")
    assert data["format"] == "gpt1-tokenizer"
    assert data["kind"] == "words"
    assert data["made_with"] == {name: metadata.version(name) for name in ("ftfy", "spacy")}
    assert data["vocabulary"][0] == "<unk>"


def test_saving_where_there_is_no_folder_is_an_error_for_a_person(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no folder .*such"):
        words_tokenizer.save(tmp_path / "no" / "such" / "t.json")


def test_saving_replaces_a_tokenizer_when_it_is_told_to_and_nothing_else(
    either: Tokenizer, trained: Tokenizer, tmp_path: Path
) -> None:
    trained.save(tmp_path)
    with pytest.raises(InputError, match=r"tokenizer\.json is there already; .* `overwrite=True`"):
        either.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint == trained.fingerprint
    either.save(tmp_path, overwrite=True)
    assert load_tokenizer(tmp_path).fingerprint == either.fingerprint
    for content in "", "precious notes", '{"model": {}}':
        (tmp_path / "other.json").write_text(content)
        with pytest.raises(InputError, match=r"other\.json exists and is no tokenizer of ours"):
            either.save(tmp_path / "other.json", overwrite=True)
        assert (tmp_path / "other.json").read_text() == content


def test_the_fingerprint_covers_what_shapes_ids_and_not_versions(either: Tokenizer) -> None:
    vocabulary = either.vocabulary
    same = replace(vocabulary, made_with={"ftfy": "0.0", "spacy": "0.0"})
    assert same.fingerprint == either.fingerprint
    assert replace(vocabulary).fingerprint == either.fingerprint
    first, second, *others = vocabulary.merges
    for change in (
        {"probe": "x"},
        {"rules": vocabulary.rules + 1},
        {"merges": (second, first, *others)},
        {"merges": vocabulary.merges[:-1]},
        {"tokens": (*vocabulary.tokens, "x")},
        {"tokens": (vocabulary.tokens[1], vocabulary.tokens[0], *vocabulary.tokens[2:])},
        {"kind": "other"},
    ):
        assert replace(vocabulary, **change).fingerprint != either.fingerprint  # type: ignore[arg-type]


def test_the_fingerprint_is_the_same_in_another_process(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    words_tokenizer.save(tmp_path)
    program = (
        "import sys; from gpt1.text.tokenizer import load_tokenizer; print(load_tokenizer(sys.argv[1]).fingerprint)"
    )
    assert _run(program, tmp_path).strip() == words_tokenizer.fingerprint


def test_the_fingerprint_does_not_change_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Golden: artefacts carry it; if it must change, so must the version of the rules. Versions are part of it.
    monkeypatch.setattr("gpt1.text.tokenizer._version", {"ftfy": "6.3.1", "spacy": "3.8.18"}.__getitem__)
    tokenizer = new_tokenizer("words", layout(list("abc"), [("a", "b</w>")]), [("a", "b</w>")])
    assert tokenizer.fingerprint[:16] == "45cc8d7ab1773ac3"
    assert len(probe_strings()) == 197


# ------------------------------------------------------------------ files that are not good


def test_a_hugging_face_file_gets_a_kind_answer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library
    from tokenizers.models import BPE

    Library(BPE()).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(FormatError, match=r"Hugging Face tokenizer file.*gpt1 tokenizer train") as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_hugging_face_refuses_ours_too(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library

    words_tokenizer.save(tmp_path)
    with pytest.raises(Exception, match=r"missing field|expected|unknown"):
        Library.from_file(str(tmp_path / "tokenizer.json"))


DELETED = object()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "something else"),
        ({"format": DELETED}, "something else"),
        ({"kind": "byte"}, "did you mean 'bytes'"),
        ({"kind": DELETED}, "unknown kind"),
        ({"kind": ["words"]}, "unknown kind"),
        ({"rules": 2}, "version 2 of the words rules; this program knows version 1"),
        ({"rules": DELETED}, "version None"),
        ({"vocabulary": DELETED}, "damaged.*vocabulary"),
        ({"merges": DELETED}, "damaged.*merges"),
        ({"probe": DELETED}, "damaged.*probe"),
        ({"made_with": DELETED}, "damaged.*made_with"),
        ({"made_with": ["ftfy"]}, "damaged"),
        ({"made_with": None}, "damaged"),
        ({"vocabulary": []}, "damaged.*begins with <unk>"),
        ({"vocabulary": {"<unk>": 0}}, "damaged.*expected a (list|string)"),
        ({"vocabulary": "abc"}, "damaged.*expected a (list|string)"),
        ({"vocabulary": [None, 1]}, "damaged.*expected a (list|string)"),
        ({"vocabulary": ["<unk>"]}, "damaged.*holds"),
        ({"merges": [1, 2]}, "damaged.*expected a (list|string)"),
        ({"merges": ["ab"]}, "damaged"),
        ({"merges": ["a b c"]}, "damaged"),
        ({"merges": ["q\u4e2d x"]}, "damaged.*merge 1"),
        ({"kind": "bytes"}, "damaged.*256 bytes"),
    ],
)
def test_a_changed_file_is_refused_by_name(
    words_tokenizer: Tokenizer, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tmp_path / "t.json"
    words_tokenizer.save(path)
    data = facts_in(path) | change
    path.write_text(json.dumps({name: value for name, value in data.items() if value is not DELETED}))
    with pytest.raises(FormatError, match=f"(?s){said}") as caught:
        load_tokenizer(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).count("\n") < 3


@given(st.floats(0, 0.999))
@examples(30)
def test_a_truncated_file_is_refused_wherever_it_was_cut(words_tokenizer: Tokenizer, share: float) -> None:
    whole = json.dumps({"format": "gpt1-tokenizer", "vocabulary": words_tokenizer.vocabulary.tokens})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: whole[: int(share * len(whole))].encode())
        with pytest.raises(FormatError, match=r"is not a gpt1 tokenizer: it is not JSON \("):
            load_tokenizer("t.json")


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"\xff\xfe", b"{", b'"text"', b"\x00\x00"])
def test_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(FormatError, match="is not a gpt1 tokenizer"):
        load_tokenizer(tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.json does not exist"):
        load_tokenizer(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match=r"tokenizer.json does not exist"):
        load_tokenizer(tmp_path)


# ------------------------------------------------------------------ the libraries


def test_other_versions_that_give_the_same_ids_will_do(words_tokenizer: Tokenizer) -> None:
    older = Tokenizer(replace(words_tokenizer.vocabulary, made_with={"ftfy": "6.0", "spacy": "3.0"}))
    assert older.encode("It's so.") == words_tokenizer.encode("It's so.")


def test_other_versions_that_give_other_ids_are_refused_with_the_install_line(words_tokenizer: Tokenizer) -> None:
    changed = replace(words_tokenizer.vocabulary, made_with={"ftfy": "6.0", "spacy": "3.0"}, probe="0" * 64)
    for _ in range(2):  # refused again, not only once
        with pytest.raises(InputError, match=r"pip install ftfy==6\.0 spacy==3\.0"):
            Tokenizer(changed).encode("It's so.")
    assert "sailor" in Tokenizer(changed).decode(words_tokenizer.encode("the old sailor"))


def test_with_the_same_versions_the_probe_is_not_computed_again(
    words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "_probe", lambda self: pytest.fail("the versions are the same"))
    assert Tokenizer(words_tokenizer.vocabulary).encode("so")


def test_the_probe_tells_rules_apart(words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "probe_strings", lambda: [text + " x" for text in probe_strings()])
    assert Tokenizer(words_tokenizer.vocabulary)._probe() != words_tokenizer.vocabulary.probe


@pytest.mark.parametrize("library", ["ftfy", "spacy"])
def test_a_library_that_is_not_installed_is_asked_for_only_to_encode(
    words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    found = metadata.version

    def version(name: str) -> str:
        if name == library:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)
    fresh = Tokenizer(words_tokenizer.vocabulary)
    with pytest.raises(MissingDependency, match=f"pip install {library}"):
        fresh.encode("so")
    assert fresh.decode([1]) is not None


def _run(program: str, *arguments: object, blocked: tuple[str, ...] = ()) -> str:
    """Run a program in a process of its own in which some modules cannot be imported."""
    block = f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", block + program, *map(str, arguments)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


HEAVY = ("ftfy", "spacy", "tokenizers", "pyarrow")


def test_loading_and_decoding_import_none_of_the_heavy_libraries(either: Tokenizer, tmp_path: Path) -> None:
    either.save(tmp_path)
    ids = either.encode("the old sailor sold nothing")
    program = f"""
import json
from gpt1.text.tokenizer import load_tokenizer
tokenizer = load_tokenizer(sys.argv[1])
print(tokenizer.decode({ids}))
assert not set(sys.modules) & {set(HEAVY)}, sorted(set(sys.modules) & {set(HEAVY)})
"""
    assert _run(program, tmp_path) == "the old sailor sold nothing\n"


@pytest.mark.parametrize("library", HEAVY)
def test_without_a_library_one_can_still_load_and_decode(either: Tokenizer, tmp_path: Path, library: str) -> None:
    either.save(tmp_path)
    ids = either.encode("the old sailor sold nothing")
    needed = library == "tokenizers" or either.kind == "words"
    program = f"""
from gpt1.base.errors import MissingDependency
from gpt1.text.tokenizer import load_tokenizer
tokenizer = load_tokenizer(sys.argv[1])
print(tokenizer.decode({ids}))
try:
    tokenizer.encode("the old sailor\\u00e9")
    print("encoded")
except MissingDependency as error:
    print(error)
"""
    decoded, said = _run(program, tmp_path, blocked=(library,)).splitlines()
    assert decoded == "the old sailor sold nothing"
    assert (f"pip install {library}" in said) if needed else said == "encoded"


# ------------------------------------------------------------------ decoding


def test_special_tokens_show_as_their_names(either: Tokenizer) -> None:
    start, delimiter, extract = (either.specials[name] for name in SPECIALS)
    one, two = either.encode("the old cat"), either.encode("sold nothing")
    assert (
        either.decode([start, *one, delimiter, *two, extract]) == "<start>the old cat<delimiter>sold nothing<extract>"
    )
    assert either.decode([]) == ""
    assert [start, delimiter, extract] == [either.vocab_size, either.vocab_size + 1, either.vocab_size + 2]


@pytest.mark.parametrize("beyond", [-1, 3, 1000])
def test_an_id_outside_the_vocabulary_is_an_error_that_tells_its_place(either: Tokenizer, beyond: int) -> None:
    id = beyond if beyond < 0 else either.vocab_size + beyond
    with pytest.raises(InputError, match=f"id {id} at position 2 "):
        either.decode([1, 2, id])


def test_every_id_of_the_vocabulary_decodes(either: Tokenizer) -> None:
    assert all(isinstance(either.decode([id]), str) for id in range(either.vocab_size + len(SPECIALS)))


def test_arrays_of_ids_decode_too(either: Tokenizer) -> None:
    ids = either.encode("the old cat")
    assert either.decode(np.array(ids, np.uint16)) == "the old cat"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("joined", "readable"),
    [
        ("hello , world !", "hello, world!"),
        ('" oh , no ! " he said . " why ? "', '"oh, no!" he said. "why?"'),
        ("it 's what they 'd said ; i ca n't", "it's what they'd said; i can't"),
        ("( so [ he ] said )", "(so [he] said)"),
        ("$ 5.00 and 10 %", "$5.00 and 10%"),
        ("wait ... what", "wait... what"),
        ("he said . . . and", "he said. . . and"),
        ("a well - known map -- so , -- and", "a well-known map--so,--and"),
        ('he said , " yes', 'he said, " yes'),
        ('never mind . " so ? "', 'never mind. "so?"'),
        ('never mind , " he said . " so ? "', 'never mind," he said. "so?"'),
        ('never mind ! "', 'never mind!"'),
        ('" so it goes on', '"so it goes on'),
        ('one " " two', 'one " " two'),
        ("one\n two .\n three", "one\ntwo.\nthree"),
        ("", ""),
    ],
)
def test_decoded_text_has_its_blanks_where_a_printer_has_them(joined: str, readable: str) -> None:
    assert tidy(joined) == readable


READABLE = [
    "the old sailor couldn't find her brother's hat.",
    '"so they say," said ann, "nothing!"',
    "tom o'neill sold the well-known map (torn); it was 10 a.m.",
    "dr. wu lost £5.50... wouldn't you?\nyes.",
]


TOKENS = ["the", "cat 's", "3", "they 'll", "could n't", "3 %", "$ 3", *'!?,.;:()[]-"', "--", "...", "\n"]


@given(st.lists(st.sampled_from(TOKENS), max_size=15))
@examples(1000)
def test_tidying_blanks_does_not_change_ids(trained: Tokenizer, tokens: list[str]) -> None:
    joined = " ".join(tokens)
    assert trained.encode(tidy(joined)) == trained.encode(joined)


def test_plain_text_reads_after_decoding_as_before(released: Tokenizer) -> None:
    for text in READABLE:
        assert released.decode(released.encode(text)) == text


# ------------------------------------------------------------------ the object


def test_a_tokenizer_can_be_pickled(either: Tokenizer) -> None:
    text = "the old sailor's cat"
    before = either.encode(text)
    back = pickle.loads(pickle.dumps(either))
    assert back.fingerprint == either.fingerprint
    assert back.encode(text) == before


def test_threads_that_encode_at_once_get_the_right_ids(either: Tokenizer) -> None:
    texts = [f"{text} {number} It's" for number, text in enumerate(made_text(200).split("\n"))]
    expected = Tokenizer(either.vocabulary).encode_batch(texts)
    shared = Tokenizer(either.vocabulary)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.encode, texts)) == expected


def test_an_unknown_kind_is_never_made() -> None:
    with pytest.raises((Gpt1Error, KeyError)):
        new_tokenizer("letters", ["<unk>", "\n</w>"], [])


def test_a_merge_that_spells_the_unknown_token_is_a_token_of_its_own() -> None:
    merges = [("<", "u"), ("<u", "n"), ("<un", "k"), ("<unk", ">")]
    tokens = layout(list("<unk>\\"), merges)
    rules = WordRules(tokens, merges)
    ids, _ = rules.encode(["\\<unk>\\ é"])
    backslash = tokens.index("\\")
    assert ids.tolist() == [backslash, len(tokens) - 2, tokens.index("\\</w>"), 0]


def test_characters_that_are_not_in_the_vocabulary_are_named_the_commonest_first(
    words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    text = Counter("Ann \u0416\u0436 lost \u0436 \u4e2d \u4e2d it \u03a9")
    assert words_tokenizer.unknown_characters(text) == ["\u0436", "\u4e2d", "\u03c9"]
    letters = "\u0430\u0431\u0432\u0433\u0434\u0435\u0436"
    assert words_tokenizer.unknown_characters(Counter(letters)) == list(letters[:5])
    assert words_tokenizer.unknown_characters(Counter("Ann lost it.")) == bytes_tokenizer.unknown_characters(text) == []
