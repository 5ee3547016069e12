"""Text from a model, one token after another."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.inference import generation
from gpt1.inference.generation import (
    LENGTH,
    STOP,
    BatchGenerator,
    RuinedScores,
    continue_ids,
    generate,
    prompt_tokens,
    stream,
)
from gpt1.inference.sampling import SamplingParams
from gpt1.model import Model
from gpt1.recipes.values import Shape
from gpt1.text.tokenizer import Tokenizer
from tests.inference.drawing import draw_several
from tests.model.tools import MODERN, PAPER, SHAPES, SMALL_LSTM, VOCAB, shaken
from tests.reference.generation import allowed, greedy, kept, next_logits

ALL_SHAPES = {**SHAPES, "lstm": SMALL_LSTM}
GREEDY = SamplingParams(max_new_tokens=30, temperature=0)
PROMPTS = [[3], [1, 2, 3, 4, 5], list(range(11)), list(range(12)), [number % VOCAB for number in range(40)]]


@pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)
def test_what_is_remembered_changes_no_token_within_the_context_nor_past_it(shape: Shape) -> None:
    model = shaken(shape, dtype=torch.float32)
    assert PAPER.context == 11  # so that the prompts are shorter, just as long, and longer
    wanted = [greedy(model, prompt, 30) for prompt in PROMPTS]
    assert continue_ids(model, PROMPTS, GREEDY) == wanted
    assert [continue_ids(model, [prompt], GREEDY)[0] for prompt in PROMPTS] == wanted


@pytest.mark.parametrize("context", [2, 3])
def test_the_smallest_contexts_go_on_too(context: int) -> None:
    model = shaken(replace(PAPER, context=context), dtype=torch.float32)
    assert continue_ids(model, [[3], [1, 2, 3]], GREEDY) == [greedy(model, prompt, 30) for prompt in ([3], [1, 2, 3])]


def test_texts_join_and_leave_while_others_go_on() -> None:
    model = shaken(MODERN, dtype=torch.float32)
    writer = BatchGenerator(model, VOCAB, rows=3)
    first, second = (writer.join(prompt, GREEDY, 0) for prompt in PROMPTS[:2])
    for _ in range(4):
        writer.step()
    third, never = writer.join(PROMPTS[3], GREEDY, 0), writer.join([1], GREEDY, 0)
    writer.leave(first)
    writer.leave(never)
    for _ in range(20):
        writer.step()
    writer.leave(second)
    for _ in range(3):
        writer.step()
    assert first.written == greedy(model, PROMPTS[0], 4)
    assert second.written == greedy(model, PROMPTS[1], 24)
    assert third.written == greedy(model, PROMPTS[3], 23)
    assert never.written == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_steps_as_they_are_recorded_write_the_same(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shaken(shape, dtype=torch.float32)
    writer = BatchGenerator(model, VOCAB, rows=6)
    monkeypatch.setattr(writer.memory, "_whole", 4)
    sizes = []

    def step(inputs: dict[str, torch.Tensor], **seen: int) -> torch.Tensor:
        sizes.append((len(inputs["ids"]), *seen.values()))
        return generation._next_logits(model, writer.memory, inputs, **seen)

    monkeypatch.setattr(writer, "_recorder", step)
    texts = [writer.join(prompt, GREEDY, 0) for prompt in PROMPTS]
    for text in reversed(texts):
        for _ in range(8):
            writer.step()
        writer.leave(text)
    assert [text.written for text in texts] == [
        greedy(model, prompt, 8 * (5 - place)) for place, prompt in enumerate(PROMPTS)
    ]
    counts, firsts, ends = map(set, zip(*sizes, strict=True))
    assert counts == {1, 2, 4, 6}  # 1 to 5 texts, filled up to what there is room for
    assert firsts == ({0} if shape.window is None else {0, 4, 8} if shape.window < 4 else {0, 4})
    assert ends == {8, 11}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_recorded_steps_write_the_same_on_a_gpu(shape: Shape) -> None:
    model = shaken(shape, dtype=torch.float32)
    wanted = [greedy(model, prompt, 30) for prompt in PROMPTS]
    assert continue_ids(model.cuda(), PROMPTS, GREEDY) == wanted
    assert [continue_ids(model, [prompt], GREEDY)[0] for prompt in PROMPTS] == wanted


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return draw_several(monkeypatch)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_several_tokens_at_once_are_those_of_one_at_a_time(shape: Shape, several: list[int]) -> None:
    model = shaken(shape, dtype=torch.float32)
    assert continue_ids(model, PROMPTS, GREEDY) == [greedy(model, prompt, 30) for prompt in PROMPTS]
    assert max(several) > 1


WAYS = {
    "all of few": {"temperature": 1.3, "top_k": 5},
    "most of few": {"temperature": 0.7, "top_k": 9, "top_p": 0.8},
    "greedy": {"temperature": 0.0},
    "of all": {"temperature": 1.0, "top_k": None},
    "with a penalty": {"top_k": 9, "repetition_penalty": 1.5},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_several_at_once_are_drawn_by_the_same_points(
    way: dict[str, Any], several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shaken(replace(PAPER, context=40), dtype=torch.float32)
    drawing = SamplingParams(max_new_tokens=60, seed=3, **way)
    found = continue_ids(model, PROMPTS, drawing)
    assert bool(several) == (way not in (WAYS["of all"], WAYS["with a penalty"])), "those want the host"
    monkeypatch.setattr(generation, "AT_ONCE", 1)
    several.clear()
    assert continue_ids(model, PROMPTS, drawing) == found
    assert several == []


def test_texts_that_are_drawn_in_different_ways_are_drawn_at_once_together(several: list[int]) -> None:
    model = shaken(replace(PAPER, context=40), dtype=torch.float32)
    ways = [SamplingParams(**WAYS[name]) for name in ("all of few", "greedy", "most of few")]
    writer = BatchGenerator(model, VOCAB, rows=3)
    texts = [writer.join([1, 2, 3], way, seed) for seed, way in enumerate(ways)]
    assert writer.step(9) == 1, "they are read first"
    assert writer.step(9) == 9
    assert [text.written for text in texts] == [
        continue_ids(model, [[1, 2, 3]], replace(way, max_new_tokens=10, seed=seed))[0] for seed, way in enumerate(ways)
    ]


def test_a_text_without_scores_is_told_and_the_others_draw_as_before(several: list[int]) -> None:
    model = shaken(replace(PAPER, context=40), dtype=torch.float32)
    drawing = SamplingParams(**WAYS["all of few"])
    wanted = continue_ids(model, [[1, 2]], replace(drawing, max_new_tokens=12, seed=7))[0]
    writer = BatchGenerator(model, VOCAB, rows=2)
    sound, ruined = writer.join([1, 2], drawing, seed=7), writer.join([3], drawing, seed=8)
    writer.step()
    writer.memory.first[0][1] = torch.nan  # of the second row
    with pytest.raises(RuinedScores) as found:
        writer.step(8)
    assert found.value.texts == [ruined]
    writer.begin_anew()
    writer.leave(ruined)
    while len(sound.written) < 12:
        writer.step(12 - len(sound.written))
    assert sound.written == wanted
    assert 8 in several


def test_what_was_drawn_past_a_stop_is_taken_back(
    words_tokenizer: Tokenizer, several: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, wanted = lively(words_tokenizer), SamplingParams(max_new_tokens=60, temperature=1.2, top_k=20, seed=3)
    (free,) = generate(model, words_tokenizer, ["Ann"], wanted)
    stopping = replace(wanted, stop=(free.text[len(free.text) // 2 :][:3],))
    (found,) = generate(model, words_tokenizer, ["Ann"], stopping)
    assert (found.finish_reason, found.ids) == (STOP, free.ids[: len(found.ids)])
    assert len(found.ids) < len(free.ids)
    assert "".join(stream(model, words_tokenizer, "Ann", stopping)) == found.text
    assert several
    monkeypatch.setattr(generation, "AT_ONCE", 1)
    assert generate(model, words_tokenizer, ["Ann"], stopping) == [found]


def test_a_writer_is_freed_at_once() -> None:
    writer = BatchGenerator(shaken(PAPER, dtype=torch.float32), VOCAB, rows=1)
    writer.join([1, 2], GREEDY, 0)
    writer.step()
    memory = weakref.ref(writer.memory)
    del writer
    assert memory() is None  # without waiting for garbage to be collected, which a recording forbids


@pytest.mark.parametrize("shape", [PAPER, MODERN, SMALL_LSTM], ids=["paper", "modern", "lstm"])
def test_a_seed_decides_the_text_and_what_is_written_beside_it_does_not(shape: Any) -> None:
    model = shaken(shape, dtype=torch.float32)
    drawing = SamplingParams(max_new_tokens=40, temperature=1.5, top_k=None, seed=5)
    one, two = continue_ids(model, [[3, 1], [3, 1]], drawing)
    assert one != two
    assert [one] == continue_ids(model, [[3, 1]], drawing)
    assert [two] == continue_ids(model, [[3, 1]], replace(drawing, seed=6))
    assert set(one) <= set(range(VOCAB))


def test_drawing_leaves_the_random_state_of_others_alone() -> None:
    before = torch.get_rng_state()
    continue_ids(shaken(PAPER, dtype=torch.float32), [[3]], SamplingParams(max_new_tokens=3))
    assert torch.equal(torch.get_rng_state(), before)


def test_what_lies_beyond_the_vocabulary_is_never_drawn() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    drawing = SamplingParams(max_new_tokens=100, temperature=100, top_k=None)
    (written,) = continue_ids(model, [[0]], drawing, vocabulary=5)
    assert set(written) == set(range(5))


def test_what_was_said_is_said_less_also_what_no_longer_fits() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    prompt = list(range(15))
    (written,) = continue_ids(model, [prompt], replace(GREEDY, repetition_penalty=30))
    for place, found in enumerate(written):
        before = prompt + written[:place]
        window = prompt
        for id in [None, *written[:place]]:
            window = kept(window if id is None else [*window, id], PAPER.context)
        wanted = allowed(next_logits(model, window), before, temperature=1, top_k=1, top_p=None, repetition_penalty=30)
        assert wanted[found] == 1
    assert written != continue_ids(model, [prompt], GREEDY)[0]


def test_a_prompt_stays_as_it_was_and_nothing_asked_for_is_nothing_written() -> None:
    prompt = [1, 2, 3]
    assert continue_ids(shaken(PAPER, dtype=torch.float32), [prompt], SamplingParams(max_new_tokens=0)) == [[]]
    continue_ids(shaken(PAPER, dtype=torch.float32), [prompt], GREEDY)
    assert prompt == [1, 2, 3]


def test_ruined_weights_are_told() -> None:
    model = shaken(PAPER, dtype=torch.float32)
    with torch.no_grad():
        model.tokens *= torch.nan
    with pytest.raises(InputError, match="its weights are ruined"):
        continue_ids(model, [[1]], GREEDY)


# ---- as text ----


@pytest.fixture(params=["words", "bytes"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    found: Tokenizer = request.getfixturevalue(f"{request.param}_tokenizer")
    return found


def lively(tokenizer: Tokenizer) -> Model:
    return shaken(PAPER, dtype=torch.float32, vocab_size=tokenizer.vocab_size)


def test_the_pieces_of_a_stream_are_the_text(tokenizer: Tokenizer) -> None:
    model = lively(tokenizer)
    for seed in range(8):
        wanted = SamplingParams(max_new_tokens=60, temperature=1.5, top_k=None, seed=seed)
        (found,) = generate(model, tokenizer, ["Ann looked"], wanted)
        assert "".join(stream(model, tokenizer, "Ann looked", wanted)) == found.text
        assert (len(found.ids), found.finish_reason) == (60, LENGTH)


def test_a_text_ends_before_the_first_stop_string(tokenizer: Tokenizer) -> None:
    model, wanted = lively(tokenizer), SamplingParams(max_new_tokens=60, temperature=1.2, seed=3)
    (free,) = generate(model, tokenizer, ["Ann"], wanted)
    middle = len(free.text) // 2
    stop = free.text[middle : middle + 3]
    stopping = replace(wanted, stop=("never to be met", stop))
    (found,) = generate(model, tokenizer, ["Ann"], stopping)
    assert found.text == free.text[: free.text.index(stop)]
    assert found.finish_reason == STOP
    assert len(found.ids) < 60
    assert found.ids == free.ids[: len(found.ids)]
    assert "".join(stream(model, tokenizer, "Ann", stopping)) == found.text


def test_those_that_end_leave_the_others_as_they_were(tokenizer: Tokenizer) -> None:
    model, wanted = lively(tokenizer), SamplingParams(max_new_tokens=30, temperature=1.2, stop=("e", "a"))
    prompts = ["Ann", "the old sailor sold", "3 apples", "Dr. Wu", "nothing"]
    together = generate(model, tokenizer, prompts, wanted)
    assert {one.finish_reason for one in together} == {STOP}
    alone = [generate(model, tokenizer, [one], replace(wanted, seed=at))[0] for at, one in enumerate(prompts)]
    assert together == alone


def test_more_prompts_than_fit_at_once_are_all_answered(
    words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, wanted = lively(words_tokenizer), SamplingParams(max_new_tokens=4)
    prompts = ["Ann", "the cat", "nothing", "her hat", "a lamp"]
    together = generate(model, words_tokenizer, prompts, wanted)
    monkeypatch.setattr("gpt1.inference.generation.ROWS", 2)
    assert generate(model, words_tokenizer, prompts, wanted) == together
    assert generate(model, words_tokenizer, [], wanted) == []


def test_a_prompt_without_words_begins_a_document(tokenizer: Tokenizer) -> None:
    assert prompt_tokens(tokenizer, "") == [tokenizer.newline_id]
    assert generate(lively(tokenizer), tokenizer, [""], SamplingParams(max_new_tokens=5))[0].ids


def test_special_tokens_are_never_written(words_tokenizer: Tokenizer) -> None:
    model = shaken(PAPER, dtype=torch.float32, vocab_size=words_tokenizer.vocab_size + 3)
    with torch.no_grad():
        model.tokens[-3:] *= 100
    (found,) = generate(model, words_tokenizer, ["Ann"], SamplingParams(max_new_tokens=40, temperature=2, top_k=None))
    assert max(found.ids) < words_tokenizer.vocab_size


def test_of_each_token_is_told_how_likely_it_was_and_what_was_likeliest() -> None:
    model = shaken(replace(PAPER, context=40), dtype=torch.float32)
    prompt, drawing = (
        [3, 1],
        SamplingParams(max_new_tokens=6, temperature=1.7, repetition_penalty=1.5, top_k=9, top_logprobs=4),
    )
    writer = BatchGenerator(model, VOCAB, rows=1)
    text = writer.join(prompt, drawing, seed=2)
    for _ in range(6):
        writer.step()
    for place, told in enumerate(text.weighed):
        # As the network has it: neither the temperature nor the penalty changes what is told.
        logs = next_logits(model, prompt + text.written[:place]).log_softmax(0)
        assert told.log_probability == pytest.approx(float(logs[text.written[place]]), abs=1e-4)
        likeliest = sorted(range(VOCAB), key=lambda id: -float(logs[id]))[:4]
        assert [id for id, _ in told.likeliest] == likeliest
        assert [value for _, value in told.likeliest] == pytest.approx([float(logs[id]) for id in likeliest], abs=1e-4)
    assert SamplingParams().top_logprobs is None
    with pytest.raises(SettingError, match="top_logprobs is at least 0"):
        SamplingParams(top_logprobs=-1)
