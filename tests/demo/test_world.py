"""The world and its stories: plain English, the same for the same seed, and true to the hidden state."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from gpt1.demo.stories import Page, meet_in_tests, some_hero, tell_meeting, tell_story
from gpt1.demo.world import ASPECTS, BAD, GIFTS, GOOD, MEETINGS, PAUSES, PEOPLE, SEEN_PEOPLE, TRADES, Trade, is_held_out

VOWELS = "aeiou"
THE_TRADE_OF = {word: trade for trade in TRADES for word in (*trade.things, trade.job, trade.doing, trade.where)}
FORMS = (*ASPECTS.values(), GIFTS, GOOD, BAD, PAUSES, MEETINGS)


def sentences_of(seed: int) -> list[str]:
    return tell_story(Random(seed)).sentences


def trades_in(sentence: str) -> list[Trade]:
    return [trade for word, trade in THE_TRADE_OF.items() if re.search(rf"\b{word}\b", sentence)]


def jobs_in(sentence: str) -> list[int]:
    """Return the trades whose people are named by their job, in order."""
    jobs = {trade.job: place for place, trade in enumerate(TRADES)}
    return [jobs[word] for word in re.findall(rf"\b[Tt]he ({'|'.join(jobs)})\b", sentence)]


def is_meeting(sentences: list[str]) -> bool:
    return len(jobs_in(sentences[0])) == 2


seeds = st.integers(0, 2**32)
seeds_of_heroes = seeds.filter(lambda seed: not is_meeting(sentences_of(seed)))
NAMED_BY_THE_JOB_ALONE = 26878  # "There was no better musician than Ben", and so on to the end


def test_every_noun_has_the_article_that_its_sound_asks_for() -> None:
    nouns = [noun for trade in TRADES for noun in (trade.a_job, *trade.things)]
    assert [noun for noun in nouns if noun.split()[0] != ("an" if noun.split()[1][0] in VOWELS else "a")] == []


def test_no_word_belongs_to_two_trades_and_no_name_to_two_people() -> None:
    assert len(THE_TRADE_OF) == sum(len(trade.things) + 3 for trade in TRADES)
    assert len({person.name for person in PEOPLE}) == len(PEOPLE)


def test_good_and_bad_moods_are_told_in_the_same_forms() -> None:
    for good, bad in zip(GOOD.all, BAD.all, strict=True):
        assert re.findall(r"{\w}", good) == re.findall(r"{\w}", bad)


def test_every_kind_of_sentence_has_common_and_rare_forms_and_none_is_both() -> None:
    assert all(forms.common and forms.rare and not set(forms.common) & set(forms.rare) for forms in FORMS)


def test_every_person_and_every_trade_has_the_same_share_held_out() -> None:
    pairs = [(p, t) for p in range(len(PEOPLE)) for t in range(len(TRADES)) if is_held_out(p, t)]
    assert set(Counter(person for person, _ in pairs).values()) == {2}
    assert len(set(Counter(trade for _, trade in pairs).values())) == 1


@given(seeds)
def test_a_story_is_a_function_of_its_seed(seed: int) -> None:
    assert sentences_of(seed) == sentences_of(seed)


@given(seeds)
def test_sentences_are_whole_and_have_no_gap_left(seed: int) -> None:
    for sentence in sentences_of(seed):
        assert re.fullmatch(r"[A-Z][A-Za-z' ,]+\.", sentence)
        assert "  " not in sentence


@given(seeds)
def test_a_story_never_uses_the_wrong_article(seed: int) -> None:
    assert re.findall(r"\ba [aeiou]|\ban [^aeiou]", " ".join(sentences_of(seed))) == []


@given(seeds_of_heroes)
def test_a_story_never_uses_the_wrong_pronoun(seed: int) -> None:
    story = " ".join(sentences_of(seed))
    people = [person for person in PEOPLE if re.search(rf"\b{person.name}\b", story)]
    pronouns = set(re.findall(r"\b(?:she|her|he|him|his)\b", story.lower()))
    assert pronouns <= {word for person in people for word in (person.he, person.him, person.his)}


@given(seeds)
def test_two_people_who_met_have_the_same_pronoun(seed: int) -> None:
    assert len(set(re.findall(r"\b(?:she|he)\b", " ".join(tell_meeting(Random(seed)))))) <= 1


@given(seeds_of_heroes)
def test_somebody_is_named_before_any_pronoun(seed: int) -> None:
    first = sentences_of(seed)[0]
    assert any(person.name in first for person in PEOPLE)


@given(seeds)
def test_what_is_told_of_one_of_two_people_who_met_fits_the_trade(seed: int) -> None:
    met, *later = tell_meeting(Random(seed))
    one, other = jobs_in(met)
    assert not meet_in_tests(one, other)
    assert len(later) >= 2
    for sentence in later:
        (told,) = {TRADES.index(trade) for trade in trades_in(sentence)}
        assert told in (one, other)
        assert jobs_in(sentence) in ([], [told])


@example(NAMED_BY_THE_JOB_ALONE)
@given(seeds_of_heroes)
def test_no_story_tells_of_a_person_with_a_trade_that_is_held_out(seed: int) -> None:
    days = Days(sentences_of(seed))
    (person,) = {place for place, p in enumerate(PEOPLE) if any(re.search(rf"\b{p.name}\b", s) for s in days.lives)}
    (own,) = {trade for sentence in days.lives for trade in trades_in(sentence)}
    assert not is_held_out(person, TRADES.index(own))


@example(NAMED_BY_THE_JOB_ALONE)
@given(seeds_of_heroes)
def test_a_gift_of_the_own_trade_is_followed_by_a_good_mood_and_another_by_a_bad_one(seed: int) -> None:
    days = Days(sentences_of(seed))
    (own,) = {trade for sentence in days.lives for trade in trades_in(sentence)}
    assert len(days.moods) == len(days.gifts) >= 3
    assert [gift is own for gift in days.gifts] == days.moods


class Days:
    """A hero's story sorted into what is told of the life, the trades of the gifts, and whether each was welcome."""

    def __init__(self, sentences: list[str]) -> None:
        self.lives: list[str] = []
        self.gifts: list[Trade] = []
        self.moods: list[bool] = []
        good, bad, gifts = (_pattern(forms.all) for forms in (GOOD, BAD, GIFTS))
        for sentence in sentences:
            if good.fullmatch(sentence) or bad.fullmatch(sentence):
                self.moods.append(good.fullmatch(sentence) is not None)
                assert len(self.moods) == len(self.gifts), "a mood follows its gift"
            elif gifts.fullmatch(sentence):
                self.gifts += trades_in(sentence)
            else:
                self.lives.append(sentence)


def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.sub(r"{\w}", r"[A-Za-z' ]+", form.replace(".", r"\.")) for form in forms))


def test_trades_are_equally_frequent_whoever_may_appear() -> None:
    draw = Random(0)
    counts = Counter(some_hero(draw, range(SEEN_PEOPLE), held_out=True)[1] for _ in range(5000))
    assert 400 < min(counts.values()) <= max(counts.values()) < 600


def test_a_page_tells_anew_what_would_repeat_a_run_of_words_that_is_kept_back() -> None:
    told = iter([["One two three four five six."], ["Seven eight."], ["Nine ten."]])
    page = Page(kept_back={("one", "two", "three", "four", "five", "six", "seven", "eight")})
    page.add(lambda: next(told))
    page.add(lambda: next(told))
    assert (page.sentences, page.redrawn) == (["One two three four five six.", "Nine ten."], 1)
