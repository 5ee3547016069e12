"""Lists of synonyms: both kinds of files, what is refused in them, and which tokens stand for a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError
from gpt1.text.synonyms import read_synonyms, word_edges
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import train_bytes

# As the files of WordNet 3.0 are written; the meanings are made up.
WORDNET = """  1 This software and database is being provided to you, the LICENSEE, by
  2 Princeton University under the following license.
00001740 03 n 03 lamp 0 lantern 0 oil_lamp 1 001 ~ 00001930 n 0000 | what gives light
00002098 00 a 02 able(p) 0 capable 0 002 = 05200169 n 0000 ! 00002312 a 0101 | having the means
00002312 00 a 01 unable 0 001 ! 00002098 a 0101 | not having them
"""


def test_a_plain_list_says_one_way_and_a_word_may_have_several(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text("lamp\tlantern\n\nlamp\toil lamp\ngood\tgood\nship\tboat\n")
    assert read_synonyms(path).words == {"lamp": ("lantern", "oil lamp"), "ship": ("boat",)}
    path.with_suffix(".csv").write_text("lamp,lantern\nlamp,oil lamp\nship,boat\n")
    assert read_synonyms(path.with_suffix(".csv")).identity == read_synonyms(path).identity


def test_words_of_one_meaning_in_wordnet_stand_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "data.noun"
    path.write_text(WORDNET)
    with_lamps = {"lamp": ("lantern", "oil lamp"), "lantern": ("lamp", "oil lamp"), "oil lamp": ("lamp", "lantern")}
    assert read_synonyms(path).words == with_lamps | {"able": ("capable",), "capable": ("able",)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no synonyms; a list has a word and a synonym of it on each line"),
        ("same\tsame\n", "has no synonyms"),
        ("a\tb\nlamp\n", "list.tsv, line 2: 'lamp' is no word and one synonym"),
        ("a\tb\tc\n", "line 1: 'a\tb\tc' is no word and one synonym"),
        ("lamp\t\n", "line 1: 'lamp' is no word and one synonym"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "list.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_synonyms(path)


def test_a_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((InputError, OSError), match="nowhere"):
        read_synonyms(tmp_path / "nowhere.tsv")


@pytest.mark.parametrize("kind", ["words", "bytes"])
def test_in_tokens_a_word_is_replaced_wherever_it_stands_and_reads_as_the_text_with_the_other_word(
    kind: str, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer = words_tokenizer if kind == "words" else train_bytes(["the old lamp and the girl"] * 9, 300)
    (path := tmp_path / "list.tsv").write_text("lamp\told lamp\ngirl\tlamp\n")
    listed, edges = read_synonyms(path).in_tokens(tokenizer), word_edges(tokenizer)
    for text, wanted in (("the girl sold", "the lamp sold"), ("lamp and girl", "old lamp and lamp")):
        ids = np.array(tokenizer.encode(text))
        words = [tuple(word.tolist()) for word in np.split(ids, edges.starts(ids)[1:])]
        assert len(words) == 3
        new = [token for word in words for token in listed.get(word, (word,))[0]]
        assert new == tokenizer.encode(wanted)


def test_a_synonym_that_the_vocabulary_cannot_spell_is_left_out(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    (path := tmp_path / "list.tsv").write_text("lamp\t電灯\nlamp\tgirl\nsailor\t海員\n")
    listed = read_synonyms(path).in_tokens(words_tokenizer)
    assert listed == {tuple(words_tokenizer.encode("lamp")): (tuple(words_tokenizer.encode("girl")),)}
