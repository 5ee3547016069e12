"""In which letters texts are written, and whether they read like English."""

from __future__ import annotations

import pytest

from gpt1.text.language import look_at_language

ENGLISH = "I liked what they did with this film, but it was not the one that you would have seen before. "
GERMAN = "Der Film war sehr gut, aber das Ende ist zu lang, und was will man in so einem Kino noch mehr sehen? "
DUTCH = "De film was erg goed, maar het einde is te lang of misschien niet, en we weten het ook niet. "
KOREAN = "영화가 정말 재미있었다 다시는 보고 싶지 않다 "


@pytest.mark.parametrize(
    ("text", "is_english", "words"),
    [
        (ENGLISH * 20, True, "reads like English: "),
        (GERMAN * 20, False, "does not read like English: 0.0 % of its words are common ones of English"),
        (DUTCH * 20, False, "does not read like English: "),
        (KOREAN * 5, False, "not English: Hangul letters"),
        (ENGLISH, None, "Latin letters; 20 words are too few to tell the language"),
        ("login " * 970 + "the " * 30, None, "perhaps English: 3.0 % of its words are common ones of English"),
        ("1 2 3 !?", None, "too few letters to tell"),
        ("", None, "too few letters to tell"),
    ],
)
def test_texts_are_judged_by_letters_and_common_words(text: str, is_english: bool | None, words: str) -> None:
    found = look_at_language([text])
    assert found.is_english is is_english
    assert found.in_words().startswith(words)


def test_scripts_are_told_with_their_shares_and_rows_of_others_are_named() -> None:
    found = look_at_language([KOREAN * 10, "очень хороший фильм, правда", "12 !", KOREAN])
    assert list(found.scripts) == ["Hangul", "Cyrillic"]
    assert found.strays == [1]
    assert found.in_words().startswith("not English; letters: Hangul ")


def test_signs_of_one_script_have_one_name() -> None:
    assert list(look_at_language(["ひらがな カタカナ 漢字 " * 10]).scripts) == ["CJK"]
    assert list(look_at_language(["ｆｕｌｌ width é ß µ ª " * 10]).scripts) == ["Latin"]


@pytest.mark.parametrize("other", [GERMAN, KOREAN])
def test_one_very_long_text_does_not_decide_for_many(other: str) -> None:
    found = look_at_language([*[ENGLISH] * 30, other * 2000])
    assert found.is_english is True
    assert found.script == "Latin"
    assert look_at_language([*[other] * 30, ENGLISH * 2000]).is_english is not True


@pytest.mark.parametrize("other", [GERMAN, KOREAN])
def test_short_texts_do_not_decide_for_longer_ones_because_they_are_more(other: str) -> None:
    found = look_at_language([*[f"gut {number}" for number in range(110)], *[other] * 90])
    assert found.is_english is False


def test_words_are_told_as_many_as_there_are() -> None:
    beside_long = look_at_language([*["good"] * 60, GERMAN * 1500])
    assert beside_long.words == 60 + 1500 * len(GERMAN.split())
    assert beside_long.is_english is None
    assert beside_long.in_words() == "Latin letters; the words beside very long texts are too few to tell the language"
    assert look_at_language(["good"] * 60).in_words() == "Latin letters; 60 words are too few to tell the language"
