"""An engine between requests and a run."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import InputError, RuinedWeights
from gpt1.inference.generation import BatchGenerator, generate
from gpt1.inference.run import load_run
from gpt1.inference.sampling import SamplingParams
from gpt1.serve.completions import AskedText, Pieces, streamed
from gpt1.serve.engine import FIRST, TOGETHER, Engine
from gpt1.serve.limits import ApiError, Limits
from gpt1.serve.schemas import CompletionRequest
from tests.inference.drawing import draw_several
from tests.serve.tools import LONG, SetForward


@pytest.fixture
def passes() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def engine(trained: Path, passes: list[tuple[str, int]]) -> Iterator[Engine]:
    """An engine that is ready and not yet at work, so that what waits for it is known."""
    made = Engine(load_run(trained, device="cpu"), "run", Limits(max_batch=2), lambda *told: passes.append(told))
    yield made
    if made._thread.is_alive():
        made.close()


def doubled(items: Sequence[int]) -> list[int]:
    if -1 in items:
        raise InputError("-1 cannot be doubled")
    return [2 * item for item in items]


def test_questions_of_one_kind_that_wait_are_answered_in_one_pass(
    engine: Engine, passes: list[tuple[str, int]]
) -> None:
    asked = [engine.ask(("double",), doubled, items) for items in ([1], [2, 3], [])]
    other = engine.ask(("double", "otherwise"), doubled, [5])
    engine.start()
    assert [future.result(600) for future in asked] == [[2], [4, 6], []]
    assert other.result(600) == [10]
    assert passes == [("double", 3), ("double", 1)]


def test_more_than_fit_in_one_pass_are_answered_in_several(engine: Engine, passes: list[tuple[str, int]]) -> None:
    asked = [engine.ask(("double",), doubled, [at] * (TOGETHER // 2 + 1)) for at in range(3)]
    engine.start()
    assert [future.result(600)[0] for future in asked] == [0, 2, 4]
    assert len(passes) == 3


class TakenMeanwhile:
    """An engine's lock, which its own thread had last: it took the texts that waited, and left a new list."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, engine._changed

    def __enter__(self) -> None:
        self._engine._wishes = []
        self._lock.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._lock.__exit__(*raised)

    def notify(self) -> None:
        self._lock.notify()


def test_a_text_that_comes_while_those_that_wait_are_taken_is_not_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_changed", TakenMeanwhile(engine))
        written = engine.write([1], SamplingParams(max_new_tokens=2))
    assert len(engine._wishes) == 1
    engine.start()
    assert len(written.result(600).ids) == 2


def test_a_question_that_cannot_be_answered_spoils_only_its_own_request(engine: Engine) -> None:
    good, bad, late = (engine.ask(("double",), doubled, items) for items in ([1], [-1], [4]))
    engine.start()
    assert (good.result(600), late.result(600)) == ([2], [8])
    with pytest.raises(InputError, match="cannot be doubled"):
        bad.result(600)


def test_between_the_portions_of_an_answer_texts_are_written_on(engine: Engine) -> None:
    written = engine.write([1], SamplingParams(max_new_tokens=3))

    def by_portions(items: Sequence[int]) -> list[int]:
        for _ in range(4):
            engine.run.pause()
        return [int(written.done()) for _ in items]

    question = engine.ask(("portions",), by_portions, [1])
    engine.start()
    assert question.result(600) == [1]


def test_an_answer_that_is_no_longer_wanted_is_left_off_and_those_beside_it_begin_anew(engine: Engine) -> None:
    begun: list[list[int]] = []

    def by_portions(items: Sequence[int]) -> list[int]:
        begun.append(list(items))
        long.cancel()
        engine.run.pause()
        return doubled(items)

    long, short = (engine.ask(("portions",), by_portions, items) for items in ([1] * 9, [2]))
    engine.start()
    assert short.result(600) == [4]
    assert begun == [[1] * 9 + [2], [2]]


def test_those_who_leave_do_not_keep_others_from_their_answer(engine: Engine) -> None:
    begun: list[int] = []
    leaving: list[Any] = []

    def by_portions(items: Sequence[int]) -> list[int]:
        begun.append(len(items))
        if len(begun) < 4:  # one leaves, and the next one comes
            leaving.pop().cancel()
            leaving.append(engine.ask(("portions",), by_portions, [1]))
        engine.run.pause()
        return doubled(items)

    leaving.append(engine.ask(("portions",), by_portions, [1]))
    stays = engine.ask(("portions",), by_portions, [2])
    engine.start()
    assert stays.result(600) == [4]
    assert begun[:2] == [2, 1]


def test_a_stream_that_is_not_read_ends_with_its_time(engine: Engine) -> None:
    limits = Limits(request_timeout=LONG)
    asked = CompletionRequest(model="run", prompt=[1], stream=True)
    wishes = [AskedText([1], 0, SamplingParams(max_new_tokens=10**6), "")]

    async def read_once_and_wait() -> bytes:
        with ExitStack() as place:
            place.callback(left.set)
            pieces = Pieces(wishes, engine, place.pop_all())
        events = streamed(asked, wishes, pieces, limits, loop.time() + LONG)
        await anext(events)
        await asyncio.to_thread(loop.set_forward, LONG)
        assert await asyncio.to_thread(left.wait, 600)
        assert pieces.futures[0].cancelled()
        return [event async for event in events][-1]

    loop, left = SetForward(), threading.Event()
    engine.start()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert b'"code": "timeout"' in runner.run(read_once_and_wait())


@pytest.mark.parametrize("kind", ["classify", "embed", "score"])
def test_long_work_of_every_kind_pauses_between_its_portions(taught: Path, kind: str) -> None:
    pauses: list[int] = []
    run = load_run(taught, device="cpu").with_pause(lambda: pauses.append(1))
    texts = ["Ann sold a silver key to the old sailor"] * 64
    if kind == "classify":
        list(run.predict([{"text": text} for text in texts], task="moods"))
    else:
        {"embed": run.embed, "score": run.score}[kind](texts)
    assert len(pauses) > 1


def test_more_texts_than_rows_wait_their_turn_and_a_cancelled_one_gives_its_up(engine: Engine) -> None:
    wanted = SamplingParams(max_new_tokens=6, temperature=0)
    ids = engine.run.tokenizer.encode("Ann sold")
    futures = [engine.write(ids, wanted) for _ in range(5)]
    futures[1].cancel()
    engine.start()
    texts = [future.result(600).text for at, future in enumerate(futures) if at != 1]
    assert texts == [engine.run.generate("Ann sold", max_new_tokens=6, temperature=0)] * 4


# ---- shares ----


def finished_after(engine: Engine, future: Future[Any], passes: list[tuple[str, int]]) -> list[int]:
    """Return a list that will tell how many steps there had been when a text was done."""
    steps: list[int] = []
    future.add_done_callback(lambda _: steps.append(sum(kind == "write" for kind, _ in passes)))
    return steps


def test_a_short_request_does_not_wait_for_the_many_texts_of_others(
    trained: Path, passes: list[tuple[str, int]]
) -> None:
    engine = Engine(load_run(trained, device="cpu"), "run", Limits(max_batch=8), lambda *told: passes.append(told))
    many = [
        engine.write([1], SamplingParams(max_new_tokens=64), request=request)
        for request in ("a", "b")
        for _ in range(32)
    ]
    short = engine.write([2], SamplingParams(max_new_tokens=2), request="c")
    steps = finished_after(engine, short, passes)
    engine.start()
    assert len(short.result(600).ids) == 2
    assert steps == [2]
    assert {len(future.result(600).ids) for future in many} == {64}
    engine.close()


def test_requests_share_the_rows_evenly_whatever_they_wish_for(trained: Path) -> None:
    engine = Engine(load_run(trained, device="cpu"), "run", Limits(max_batch=8), lambda *told: None)
    engine._load()
    for request, texts in (("a", 30), ("b", 30), ("c", 1), ("d", 2)):
        for _ in range(texts):
            engine.write([1], SamplingParams(max_new_tokens=9), request=request)
    engine._admit()
    at_work = Counter(wish.request for wish in engine._at_work)
    assert at_work == {"a": 3, "b": 2, "c": 1, "d": 2}


def test_with_more_requests_than_rows_a_short_one_waits_for_first_tokens_only(
    engine: Engine, passes: list[tuple[str, int]]
) -> None:
    long = [engine.write([1], SamplingParams(max_new_tokens=200, temperature=0)) for _ in range(3)]
    short = engine.write([2], SamplingParams(max_new_tokens=2))
    steps = finished_after(engine, short, passes)
    engine.start()
    short.result(600)
    assert steps == [FIRST + 2]  # of the two rows' texts; the third long text had the other row
    alone = engine.write([1], SamplingParams(max_new_tokens=200, temperature=0)).result(600)
    assert {tuple(future.result(600).ids) for future in long} == {tuple(alone.ids)}  # who made room goes on as if not


def test_of_a_request_that_is_given_up_nothing_is_left(engine: Engine) -> None:
    engine._load()
    futures = [engine.write([1], SamplingParams(max_new_tokens=9), request="a") for _ in range(6)]
    engine._admit()
    for future in futures:
        future.cancel()
    engine._step()
    engine._admit()
    assert (engine._requests, engine._begun, engine._at_work, engine._writer.texts) == ({}, {}, {}, [])


def test_closing_finishes_what_was_asked(engine: Engine) -> None:
    engine.start()
    future = engine.write([1], SamplingParams(max_new_tokens=40))
    question = engine.ask(("double",), doubled, [1])
    engine.close()
    assert future.done()
    assert question.done()


def test_nobody_enters_before_the_run_is_loaded(engine: Engine) -> None:
    with pytest.raises(ApiError, match="is not loaded yet"):
        engine.enter()


# ---- a run that fails ----


@pytest.mark.parametrize("asked", ["write", "score"])
def test_when_the_run_fails_all_who_wait_and_all_who_come_are_told(engine: Engine, asked: str) -> None:
    with torch.no_grad():
        for weights in engine.run.network.parameters():
            weights.fill_(torch.nan)
    futures: list[Any] = [engine.write([1], SamplingParams(max_new_tokens=4)) for _ in range(3)]
    if asked == "score":
        futures = [engine.ask(("score",), engine.run.score, ["Ann sold a hat"])]
    engine.start()
    for future in futures:
        with pytest.raises(ApiError, match="the run 'run' has failed and answers no more"):
            future.result(600)
    for future in (engine.write([1], SamplingParams(max_new_tokens=4)), engine.ask(("double",), doubled, [1])):
        with pytest.raises(ApiError, match="has failed"):
            future.result(600)
    with pytest.raises(ApiError, match="has failed") as told:
        engine.enter()
    assert (told.value.status, told.value.code, engine.status) == (500, "run_failed", "failed")
    engine.close()


def test_a_text_that_is_beyond_the_network_fails_alone(engine: Engine) -> None:
    with torch.no_grad():  # what stands at the sixth place overflows
        engine.run.network.positions[5] = 3e38
    wanted = SamplingParams(max_new_tokens=4, temperature=0)
    long, short = engine.write([1, 2, 3], wanted), engine.write([1], wanted)
    alone = engine.write([1], wanted)
    engine.start()
    with pytest.raises(RuinedWeights, match="scores are no numbers"):
        long.result(600)
    assert short.result(600).ids == alone.result(600).ids
    assert engine.status == "ready"


def test_several_tokens_of_a_step_are_shown_up_to_a_stop_and_none_is_too_many(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes = [SamplingParams(max_new_tokens=count, top_k=20, seed=count) for count in (1, 9, 23)]
    tokenizer = engine.run.tokenizer
    (whole,) = generate(engine.run.network, tokenizer, ["Ann"], wishes[2])
    wishes.append(replace(wishes[2], stop=(whole.text[len(whole.text) // 2 :][:2],)))
    alone = [generate(engine.run.network, tokenizer, ["Ann"], wish)[0] for wish in wishes]
    noted = draw_several(monkeypatch)
    shown: list[list[str]] = [[] for _ in wishes]
    engine.start()
    futures = [
        engine.write(tokenizer.encode("Ann"), wish, pieces.append) for wish, pieces in zip(wishes, shown, strict=True)
    ]
    for future, pieces, wanted in zip(futures, shown, alone, strict=True):
        found = future.result(60)
        assert (found.text, found.ids, found.finish_reason) == (wanted.text, wanted.ids, wanted.finish_reason)
        assert "".join(pieces) == wanted.text
    assert max(noted) > 1


def test_a_step_that_fails_fails_the_texts_that_were_in_it_and_the_next_are_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, failures = BatchGenerator.step, [MemoryError("no room")]

    def fail_once(self: BatchGenerator, most: int) -> int:
        if failures:
            raise failures.pop()
        return step(self, most)

    monkeypatch.setattr(BatchGenerator, "step", fail_once)
    first = [engine.write([1], SamplingParams(max_new_tokens=2)) for _ in range(3)]
    engine.start()
    for future in first[:2]:  # there are two rows
        with pytest.raises(MemoryError):
            future.result(600)
    assert len(first[2].result(600).ids) == 2
    assert engine.status == "ready"
