"""One run at work in a thread of its own, for many requests at a time.

Texts are written side by side: a request's text joins between two steps and leaves when it ends. Questions of one kind
that wait (rows to classify, texts to embed or to score) are answered together, by portions, between which texts are
written on and what nobody waits for any more is given up. A question that cannot be answered spoils only its own
request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpt1.inference.generation import LENGTH, STOP, Text, Writer
from gpt1.inference.run import Run
from gpt1.inference.sampling import Weighed, Writing
from gpt1.serve.limits import ApiError, Limits, busy
from gpt1.text.streaming import TextStream

TOGETHER = 256  # questions at most

Answering = Callable[[Sequence[Any]], Sequence[Any]]
Piece = Callable[[str], None]


@dataclass(eq=False)
class Question:
    """Items to be answered by a function; those with equal keys may be answered by one call."""

    key: tuple[str, ...]
    answering: Answering
    items: Sequence[Any]
    future: Future[list[Any]] = field(default_factory=Future)


@dataclass(frozen=True)
class Written:
    """A wish that was fulfilled: its text, its tokens, why it ended, and what the network thought of each token."""

    text: str
    ids: list[int]
    ended: str
    weighed: list[Weighed]


@dataclass(eq=False)
class Wish:
    """A text to be written; `on_piece` is told of it piece by piece, in the engine's thread."""

    prompt: list[int]
    wanted: Writing
    on_piece: Piece | None
    future: Future[Written] = field(default_factory=Future)


@dataclass(frozen=True, eq=False)
class Writes:
    """A wish at work."""

    wish: Wish
    text: Text
    stream: TextStream


class Unwanted(Exception):
    """Nobody waits any more for half of what is being answered, or more."""


class Engine:
    """A run and the requests it works on."""

    def __init__(self, run: Run, name: str, limits: Limits, batched: Callable[[str, int], None]) -> None:
        self.run, self.name, self.limits = run, name, limits
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._batched = batched  # told of each pass: its kind, and of how many it was
        self._changed = threading.Condition()
        self._questions: list[Question] = []
        self._answering: list[Question] = []
        self._wishes: list[Wish] = []
        self._at_work: list[Writes] = []
        self._open = 0  # requests that were let in and have not left
        self._closing = False
        self._thread = threading.Thread(target=self._live, name=f"run {name}", daemon=True)

    # ---- what the server's thread calls ----

    def start(self) -> None:
        """Load the run and begin to work, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Finish what was asked for and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def enter(self) -> None:
        """Let a request in, or refuse it because too many are."""
        with self._changed:
            if not self.ready.is_set():
                raise ApiError(503, f"the run '{self.name}' is not loaded yet", code="loading")
            if self._open >= self.limits.queue:
                raise busy()
            self._open += 1

    def leave(self) -> None:
        """Note that a request has its answer, or no longer wants it."""
        with self._changed:
            self._open -= 1

    @property
    def open(self) -> int:
        """How many requests wait or are at work."""
        return self._open

    def ask(self, key: tuple[str, ...], answering: Answering, items: Sequence[Any]) -> Future[list[Any]]:
        """Have items answered, together with those of other requests that have the same key."""
        question = Question(key, answering, items)
        self._hand_over(self._questions, question)
        return question.future

    def write(self, prompt: list[int], wanted: Writing, on_piece: Piece | None = None) -> Future[Written]:
        """Have a text written; it is given up when its future is cancelled."""
        wish = Wish(prompt, wanted, on_piece)
        self._hand_over(self._wishes, wish)
        return wish.future

    def _hand_over(self, waiting: list[Any], job: Question | Wish) -> None:
        with self._changed:
            if self.failure is not None:  # since the request was let in
                _fail(job.future, self.failure)
                return
            waiting.append(job)
            self._changed.notify()

    # ---- what the engine's own thread does ----

    def _live(self) -> None:
        try:
            model, tokenizer = self.run.network, self.run.tokenizer
            tokenizer.encode("ready")  # loads what encoding needs
            self.run.pause = self._give_way
            self._writer = Writer(model, tokenizer.vocab_size, self.limits.rows)
            self.ready.set()
            while self._wait():
                self._answer()
                self._admit()
                self._step()
        except BaseException as error:
            self._give_up(error)
            self.on_failure()

    def _wait(self) -> bool:
        """Wait for something to do; return whether to go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions or self._wishes or self._at_work or self._closing)
            return bool(self._questions or self._wishes or self._at_work)

    def _answer(self) -> None:
        """Answer the first question, and with it those that have the same key."""
        with self._changed:
            together: list[Question] = []
            size = 0
            for question in list(self._questions):
                same = not together or question.key == together[0].key
                if same and (not together or size + len(question.items) <= TOGETHER):
                    together.append(question)
                    size += len(question.items)
                    self._questions.remove(question)
        # Each time at most half of it is left, and nobody joins: who stays has an answer soon, whoever leaves.
        while together := [question for question in together if not question.future.cancelled()]:
            with suppress(Unwanted):
                return self._answer_together(together)

    def _answer_together(self, together: list[Question]) -> None:
        self._batched(together[0].key[0], sum(len(question.items) for question in together))
        try:
            found = self._answers(together)
        except Unwanted:
            raise
        except Exception:  # one of them cannot be answered; the others can
            for question in together:
                self._answer_alone(question)
            return
        for question in together:
            _settle(question.future, found[: len(question.items)])
            found = found[len(question.items) :]

    def _answer_alone(self, question: Question) -> None:
        try:
            _settle(question.future, self._answers([question]))
        except Exception as error:  # which the request is answered with
            _fail(question.future, error)

    def _answers(self, together: list[Question]) -> list[Any]:
        self._answering = together
        return list(together[0].answering([item for question in together for item in question.items]))

    def _give_way(self) -> None:
        """Let texts be written on between two portions of an answer, which is left off where it is not wanted."""
        unwanted = sum(len(question.items) for question in self._answering if question.future.cancelled())
        if unwanted and 2 * unwanted >= sum(len(question.items) for question in self._answering):
            raise Unwanted
        self._admit()
        self._step()

    def _admit(self) -> None:
        """Let wishes join the texts that are written, while there is room."""
        while len(self._at_work) < self.limits.rows:
            with self._changed:
                if not self._wishes:
                    return
                wish = self._wishes.pop(0)
            stream = TextStream(self.run.tokenizer, wish.prompt, wish.wanted.stop)
            text = self._writer.join(wish.prompt, wish.wanted, wish.wanted.seed)
            self._at_work.append(Writes(wish, text, stream))
            self._finish_done()  # it may want no token, or have been given up

    def _step(self) -> None:
        if not self._at_work:
            return
        self._batched("write", len(self._at_work))
        self._writer.step()
        for writes in self._at_work:
            self._show(writes, writes.stream.push(writes.text.written[-1]))
        self._finish_done()

    def _show(self, writes: Writes, piece: str) -> None:
        if piece and writes.wish.on_piece is not None:
            writes.wish.on_piece(piece)

    def _finish_done(self) -> None:
        """Take out the texts that are done, or that nobody wants any more."""
        for writes in list(self._at_work):
            wish, text, stream = writes.wish, writes.text, writes.stream
            if stream.stopped or len(text.written) >= wish.wanted.tokens or wish.future.cancelled():
                self._at_work.remove(writes)
                self._writer.leave(text)
                self._show(writes, stream.end())
                ended = STOP if stream.stopped else LENGTH
                _settle(wish.future, Written(stream.whole(), text.written, ended, text.weighed))

    def _give_up(self, error: BaseException) -> None:
        """Tell all who wait, or come, that the run has failed."""
        with self._changed:
            self.failure = error
            self.ready.clear()
            futures: list[Future[Any]] = [question.future for question in self._questions]
            futures += [wish.future for wish in self._wishes] + [writes.wish.future for writes in self._at_work]
        for future in futures:
            _fail(future, error)


# A future may be cancelled at any moment by who asked, who then wants to hear no more.


def _settle(future: Future[Any], result: Any) -> None:
    with suppress(InvalidStateError):
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)
