"""An engine between requests and a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError
from gpt1.inference.run import load_run
from gpt1.inference.sampling import Writing
from gpt1.serve.completions import Asked, Pieces, streamed
from gpt1.serve.engine import TOGETHER, Engine
from gpt1.serve.limits import ApiError, Limits
from gpt1.serve.schemas import CompletionRequest


@pytest.fixture
def passes() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def engine(trained: Path, passes: list[tuple[str, int]]) -> Iterator[Engine]:
    """An engine that is ready and not yet at work, so that what waits for it is known."""
    made = Engine(load_run(trained, device="cpu"), "run", Limits(rows=2), lambda *told: passes.append(told))
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
    assert [future.result(30) for future in asked] == [[2], [4, 6], []]
    assert other.result(30) == [10]
    assert passes == [("double", 3), ("double", 1)]


def test_more_than_fit_in_one_pass_are_answered_in_several(engine: Engine, passes: list[tuple[str, int]]) -> None:
    asked = [engine.ask(("double",), doubled, [at] * (TOGETHER // 2 + 1)) for at in range(3)]
    engine.start()
    assert [future.result(30)[0] for future in asked] == [0, 2, 4]
    assert len(passes) == 3


def test_a_question_that_cannot_be_answered_spoils_only_its_own_request(engine: Engine) -> None:
    good, bad, late = (engine.ask(("double",), doubled, items) for items in ([1], [-1], [4]))
    engine.start()
    assert (good.result(30), late.result(30)) == ([2], [8])
    with pytest.raises(InputError, match="cannot be doubled"):
        bad.result(30)


def test_between_the_portions_of_an_answer_texts_are_written_on(engine: Engine) -> None:
    written = engine.write([1], Writing(tokens=3))

    def by_portions(items: Sequence[int]) -> list[int]:
        for _ in range(4):
            engine.run.pause()
        return [int(written.done()) for _ in items]

    question = engine.ask(("portions",), by_portions, [1])
    engine.start()
    assert question.result(30) == [1]


def test_an_answer_that_is_no_longer_wanted_is_left_off_and_those_beside_it_begin_anew(engine: Engine) -> None:
    begun: list[list[int]] = []

    def by_portions(items: Sequence[int]) -> list[int]:
        begun.append(list(items))
        long.cancel()
        engine.run.pause()
        return doubled(items)

    long, short = (engine.ask(("portions",), by_portions, items) for items in ([1] * 9, [2]))
    engine.start()
    assert short.result(30) == [4]
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
    assert stays.result(30) == [4]
    assert begun[:2] == [2, 1]


def test_a_stream_that_is_not_read_ends_with_its_time(engine: Engine) -> None:
    limits = Limits(seconds=0.3)
    asked = CompletionRequest(model="run", prompt=[1], stream=True)
    wishes = [Asked([1], Writing(tokens=10**6), "")]

    async def read_once_and_wait() -> bytes:
        with ExitStack() as place:
            place.callback(left.append, True)
            pieces = Pieces(wishes, engine, place.pop_all())
        events = streamed(asked, wishes, pieces, limits)
        await anext(events)
        for _ in range(300):
            if left:
                break
            await asyncio.sleep(0.1)
        assert pieces.futures[0].cancelled()
        return [event async for event in events][-1]

    left: list[bool] = []
    engine.start()
    assert b'"code": "timeout"' in asyncio.run(read_once_and_wait())
    assert left


@pytest.mark.parametrize("kind", ["classify", "embed", "score"])
def test_long_work_of_every_kind_pauses_between_its_portions(taught: Path, kind: str) -> None:
    run = load_run(taught, device="cpu")
    texts = ["Ann sold a silver key to the old sailor"] * 64
    pauses: list[int] = []
    run.pause = lambda: pauses.append(1)
    if kind == "classify":
        list(run.predict([{"text": text} for text in texts], task="moods"))
    else:
        {"embed": run.embed, "score": run.score}[kind](texts)
    assert len(pauses) > 1


def test_more_texts_than_rows_wait_their_turn_and_a_cancelled_one_gives_its_up(engine: Engine) -> None:
    wanted = Writing(tokens=6, temperature=0)
    ids = engine.run.tokenizer.encode("Ann sold")
    futures = [engine.write(ids, wanted) for _ in range(5)]
    futures[1].cancel()
    engine.start()
    texts = [future.result(30).text for at, future in enumerate(futures) if at != 1]
    assert texts == [engine.run.generate("Ann sold", tokens=6, temperature=0)] * 4


def test_closing_finishes_what_was_asked(engine: Engine) -> None:
    engine.start()
    future = engine.write([1], Writing(tokens=40))
    question = engine.ask(("double",), doubled, [1])
    engine.close()
    assert future.done()
    assert question.done()


def test_nobody_enters_before_the_run_is_loaded(engine: Engine) -> None:
    with pytest.raises(ApiError, match="is not loaded yet"):
        engine.enter()


def test_when_the_run_fails_all_who_wait_and_all_who_come_are_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> None:
        raise InputError("the weights are ruined")

    monkeypatch.setattr("gpt1.inference.generation.Writer.step", fail)
    told = threading.Event()
    engine.on_failure = told.set
    futures = [engine.write([1], Writing(tokens=4)) for _ in range(3)]
    engine.start()
    assert told.wait(30)
    for future in (*futures, engine.write([1], Writing(tokens=4)), engine.ask(("double",), doubled, [1])):
        with pytest.raises(InputError, match="the weights are ruined"):
            future.result(30)
    with pytest.raises(ApiError, match="is not loaded"):
        engine.enter()
