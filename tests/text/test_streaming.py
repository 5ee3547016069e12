"""Text that grows token by token."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.text.streaming import TextStream
from gpt1.text.tokenizer import Tokenizer, new_tokenizer
from gpt1.text.words import WordRules, layout, tidy
from tests.properties import examples

# Every character that decides where a blank belongs, as pieces inside words and at their ends.
SIGNS = list("ab.,!?;:)]}(%[{$£'\"-nt")
TRICKY = new_tokenizer("words", layout(SIGNS, [("n", "'"), ("n'", "t</w>"), ("'", "a</w>")]), [])


ids_of_tricky = st.lists(st.integers(1, TRICKY.vocab_size - 1), max_size=14)


def pieces_of(tokenizer: Tokenizer, prompt: list[int], ids: list[int], stop: tuple[str, ...] = ()) -> list[str]:
    stream = TextStream(tokenizer, prompt, stop)
    pieces = []
    for id in ids:
        pieces.append(stream.push(id))
        if stream.stopped:
            return pieces
    return [*pieces, stream.end()]


@examples(1500)
@given(ids_of_tricky)
def test_of_words_the_pieces_are_the_whole_text(ids: list[int]) -> None:
    assert "".join(pieces_of(TRICKY, [], ids)) == TRICKY.decode(ids)


@examples(1500)
@given(ids_of_tricky, ids_of_tricky)
def test_of_words_prompt_and_text_hold_the_characters_of_both(prompt: list[int], ids: list[int]) -> None:
    whole, text = TRICKY.decode(prompt + ids), "".join(pieces_of(TRICKY, prompt, ids))
    assert whole.endswith(text)
    assert "".join(text.split(" ")) == "".join(TRICKY.decode(ids).split(" "))


@examples(1500)
@given(st.lists(st.integers(1, TRICKY.vocab_size - 1), max_size=24), ids_of_tricky)
def test_the_context_of_a_prompt_decides_as_much_as_all_its_words(prompt: list[int], ids: list[int]) -> None:
    assert isinstance(TRICKY._rules, WordRules)
    every_word = TRICKY._rules._words(prompt)
    for end in range(len(ids) + 1):
        assert TRICKY.decode_after(TRICKY.context(prompt), ids[:end]) == TRICKY.decode_after(every_word, ids[:end])


@examples(1500)
@given(ids_of_tricky, ids_of_tricky)
def test_after_a_finished_prompt_the_text_is_the_whole_without_the_prompt(prompt: list[int], ids: list[int]) -> None:
    prompt.append(TRICKY.newline_id)
    assert TRICKY.decode(prompt) + "".join(pieces_of(TRICKY, prompt, ids)) == TRICKY.decode(prompt + ids)


@examples(600)
@given(st.lists(st.integers(0, 255) | st.integers(0xE0, 0x1A0), max_size=12))
def test_of_bytes_the_pieces_are_the_whole_text(bytes_tokenizer: Tokenizer, ids: list[int]) -> None:
    assert "".join(pieces_of(bytes_tokenizer, [1, 2], ids)) == bytes_tokenizer.decode(ids)


def test_a_character_of_several_tokens_comes_whole(bytes_tokenizer: Tokenizer) -> None:
    ids = [*"aé€😀b".encode()]  # the first ids are the bytes
    assert pieces_of(bytes_tokenizer, [], ids) == ["a", "", "é", "", "", "€", "", "", "", "😀", "b", ""]


def test_a_character_that_never_ends_is_told_at_the_end(bytes_tokenizer: Tokenizer) -> None:
    assert pieces_of(bytes_tokenizer, [], [ord("a"), 0xE2, 0x82]) == ["a", "", "", "\ufffd"]


def test_words_come_as_soon_as_the_blanks_around_them_are_known(words_tokenizer: Tokenizer) -> None:
    ids = words_tokenizer.encode("the cat lost a key, so the girl sold a hat")
    pieces = pieces_of(words_tokenizer, [], ids)
    assert "".join(pieces) == "the cat lost a key, so the girl sold a hat"
    assert sum(map(bool, pieces)) >= 8


@pytest.mark.parametrize(
    ("prompt", "text", "wanted"),
    [
        ("Ann sold", "a hat", " a hat"),
        ("Ann sold a hat", ", so they say", ", so they say"),
        ("Ann sold a hat.\n", "Tom", "tom"),
        ('Ann said "', 'nothing"', 'nothing"'),
        ("", "Ann", "ann"),
    ],
)
def test_a_text_follows_its_prompt(words_tokenizer: Tokenizer, prompt: str, text: str, wanted: str) -> None:
    before = words_tokenizer.encode(prompt)
    if prompt.endswith("\n"):  # which encoding strips
        before.append(words_tokenizer.newline_id)
    assert "".join(pieces_of(words_tokenizer, before, words_tokenizer.encode(text))) == wanted


def test_nothing_of_a_stop_string_is_handed_out_and_what_only_began_like_one_is(bytes_tokenizer: Tokenizer) -> None:
    ids = [*b"one st stop two"]
    pieces = pieces_of(bytes_tokenizer, [], ids, ("stop", "wo"))
    assert "".join(pieces) == "one st "
    assert pieces[4:8] == ["", "", "st ", ""]  # held back until it is no stop string
    assert "".join(pieces_of(bytes_tokenizer, [], [*b"one sto"], ("stop",))) == "one sto"


def test_of_several_stop_strings_the_first_in_the_text_counts(bytes_tokenizer: Tokenizer) -> None:
    hat = bytes_tokenizer.encode(" hat")
    assert len(hat) == 1
    assert "".join(pieces_of(bytes_tokenizer, [], [*b"a", *hat], ("at", "h"))) == "a "


@examples(300)
@given(ids_of_tricky, st.lists(st.text('ab.,- \n"', min_size=1, max_size=3), min_size=1, max_size=2))
def test_stopping_cuts_what_would_have_been_handed_out(ids: list[int], stops: list[str]) -> None:
    stream, handed_out = TextStream(TRICKY, [], stops), ""
    for id in ids:
        handed_out += stream.push(id)
        assert not any(stop in handed_out for stop in stops)
        if stream.stopped:
            break
    handed_out += stream.end()
    assert handed_out == stream.whole()
    assert not any(stop in handed_out for stop in stops)


def test_time_grows_with_the_text_and_not_with_its_square(words_tokenizer: Tokenizer) -> None:
    draw = random.Random(0)
    stream = TextStream(words_tokenizer, [])
    longest = 0
    for _ in range(3000):
        stream.push(draw.choice([words_tokenizer.newline_id, *range(1, 100)]))
        longest = max(longest, len(stream._ids))
    assert longest < 1500  # a finished line is not decoded again


@pytest.mark.parametrize("piece", ["a", "a</w>", '"</w>', "-", "-</w>"])
def test_what_a_token_costs_does_not_grow_with_the_prompt(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def counting(text: str) -> str:
        looked_at.append(len(text))
        return tidy(text)

    monkeypatch.setattr("gpt1.text.words.tidy", counting)
    id, costs = TRICKY.vocabulary.tokens.index(piece), []
    for length in (100, 100_000):
        stream = TextStream(TRICKY, [id] * length)
        for own in range(1, TRICKY.vocab_size - 1):
            stream.push(own)
        costs.append(list(looked_at))
        looked_at.clear()
    assert costs[0] == costs[1]
    assert costs[0][0] < 20


# ---- each token's share ----


@examples(800)
@given(ids_of_tricky, ids_of_tricky)
def test_of_words_the_shares_of_tokens_are_the_whole_text(prompt: list[int], ids: list[int]) -> None:
    shares = TRICKY.decode_each_after(prompt, ids)
    assert len(shares) == len(ids)
    assert "".join(shares) == TRICKY.decode_after(TRICKY.context(prompt), ids)[0]
    inked = [TRICKY.spell(id).replace(" ", "") for id in ids]
    assert [share.strip(" ").replace(" ", "") for share in shares] == inked


@examples(400)
@given(st.lists(st.integers(0, 255) | st.integers(0xE0, 0x1A0), max_size=12))
def test_of_bytes_the_shares_of_tokens_are_the_whole_text(bytes_tokenizer: Tokenizer, ids: list[int]) -> None:
    shares = bytes_tokenizer.decode_each_after([1], ids)
    assert len(shares) == len(ids)
    assert "".join(shares) == bytes_tokenizer.decode(ids)


def test_no_two_tokens_are_spelled_alike(words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer) -> None:
    for tokenizer in (words_tokenizer, bytes_tokenizer):
        spelled = [tokenizer.spell(id) for id in range(tokenizer.vocab_size)]
        assert len(set(spelled)) == len(spelled)
    assert words_tokenizer.spell(words_tokenizer.encode("sold")[-1]).endswith(" ")
    assert words_tokenizer.spell(words_tokenizer.newline_id) == "\n"
    assert [bytes_tokenizer.spell(id) for id in (ord("a"), 0xE2)] == ["a", "bytes:\\xe2"]
