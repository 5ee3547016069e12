"""Continuous batching: one run at work in a thread of its own, for requests that join and leave between steps.

Texts are written side by side: a request's text joins between two steps and leaves when it ends. Rows are shared out by
request: each has one before any has a second, and a text that has just begun goes before those that have had their
first tokens; who must make room is read anew when its turn comes. Questions of one kind that wait (rows to classify,
texts to embed or to score) are answered together, by portions, between which texts are written on and what nobody waits
for any more is given up. What fails fails its own request; where the run itself can no longer be used, the run.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from gpt1.base.errors import Gpt1Error, RuinedWeights
from gpt1.inference.generation import LENGTH, STOP, BatchGenerator, GeneratedSequence, RuinedScores, continue_ids
from gpt1.inference.run import Run
from gpt1.inference.sampling import SamplingParams, Weighed
from gpt1.records.ensemble import WORDS
from gpt1.serve.limits import ApiError, Limits, busy, failed
from gpt1.text.streaming import TextStream

LOG = logging.getLogger("gpt1.serve")
TOGETHER = 256  # questions at most
FIRST = 32  # tokens of a text, before which it need not wait for texts that have had as many
LOADING, READY, FAILED = "loading", "ready", "failed"

Answering = Callable[[Sequence[Any]], Sequence[Any]]
Piece = Callable[[str], None]
Encoded = TypeVar("Encoded")


@dataclass(eq=False)
class BatchRequest:
    """Items to be answered by a function; those with equal keys may be answered by one call."""

    key: tuple[str, ...]
    answering: Answering
    items: Sequence[Any]
    future: Future[list[Any]] = field(default_factory=Future)


@dataclass(frozen=True)
class Completion:
    """A wish that was fulfilled: its text, its tokens, why it ended, and what the network thought of each token."""

    text: str
    ids: list[int]
    finish_reason: str
    weighed: list[Weighed]


@dataclass(eq=False)
class GenerateRequest:
    """A text to be written; `on_piece` is told of it piece by piece, in the engine's thread."""

    prompt: list[int]
    wanted: SamplingParams
    on_piece: Piece | None
    request: Hashable  # those of one request share its rows
    future: Future[Completion] = field(default_factory=Future)


@dataclass(eq=False)
class ActiveRequest:
    """A wish that has been begun, at work or not."""

    text: GeneratedSequence
    stream: TextStream
    streamed: int = 0  # tokens


class Unwanted(Exception):
    """Nobody waits any more for half of what is being answered, or more."""


class RunEnds(BaseException):
    """The run can no longer be used; not an Exception, which would be taken for the fault of some question."""


class Engine:
    """A run and the requests it works on."""

    def __init__(self, run: Run, name: str, limits: Limits, batched: Callable[[str, int], None]) -> None:
        self.run, self.name, self.limits = run.with_pause(self._give_way), name, limits
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        self.loaded = False
        self._told_of_status: list[Callable[[str], None]] = []
        self._give_others_a_turn: Callable[[], None] = lambda: None
        self._batched = batched  # told of each pass: its kind, and of how many it was
        self._changed = threading.Condition()
        self._questions: list[BatchRequest] = []
        self._answering: list[BatchRequest] = []
        self._wishes: list[GenerateRequest] = []  # that have come since the last step
        self._requests: dict[
            Hashable, list[GenerateRequest]
        ] = {}  # what they still wish for, in the order in which they came
        self._begun: dict[GenerateRequest, ActiveRequest] = {}
        self._at_work: dict[GenerateRequest, ActiveRequest] = {}
        self._open = 0  # requests that were let in and have not left
        self._closing = False
        self._thread = threading.Thread(target=self._live, name=f"run {name}", daemon=True)
        # One, of its own: a vocabulary encodes one text at a time, and long ones must not take the threads of others.
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix=f"texts of {name}")

    # ---- what the server's thread calls ----

    def start(self, give_others_a_turn: Callable[[], None] | None = None) -> None:
        """Load the run and begin to work, in a thread, which gives others a turn before each step and portion."""
        self._give_others_a_turn = give_others_a_turn or self._give_others_a_turn
        self._thread.start()

    def tell_of_status(self, told: Callable[[str], None]) -> None:
        """Have it told, in the run's thread, when the run is ready or has failed; to be said before the start."""
        self._told_of_status.append(told)

    def close(self, seconds: float | None = None) -> None:
        """Finish what was asked for and end; wait so long for it at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._encoder.shutdown(wait=False, cancel_futures=True)
        self._thread.join(seconds)

    def enter(self) -> None:
        """Let a request in, or refuse it because the run does not work or too many are."""
        with self._changed:
            if self.failure is not None:
                raise failed(self.name)
            if not self.ready.is_set():
                raise ApiError(503, f"the run '{self.name}' is not loaded yet", code="loading")
            if self._open >= self.limits.max_queue:
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

    @property
    def status(self) -> str:
        """Whether the run is loading, ready, or has failed."""
        return FAILED if self.failure is not None else READY if self.ready.is_set() else LOADING

    def encode(self, encoding: Callable[..., Encoded], *given: Any) -> Future[Encoded]:
        """Have texts made ids, when those of others that came before have been; cancelled, it is never begun."""
        return self._encoder.submit(encoding, *given)

    def ask(self, key: tuple[str, ...], answering: Answering, items: Sequence[Any]) -> Future[list[Any]]:
        """Have items answered, together with those of other requests that have the same key."""
        question = BatchRequest(key, answering, items)
        self._hand_over(question)
        return question.future

    def write(
        self, prompt: list[int], wanted: SamplingParams, on_piece: Piece | None = None, *, request: Hashable = None
    ) -> Future[Completion]:
        """Have a text written, one of a request's; it is given up when its future is cancelled."""
        wish = GenerateRequest(prompt, wanted, on_piece, object() if request is None else request)
        self._hand_over(wish)
        return wish.future

    def _hand_over(self, job: BatchRequest | GenerateRequest) -> None:
        with self._changed:
            if self.failure is not None:  # since the request was let in
                _fail(job.future, failed(self.name))
            elif isinstance(job, BatchRequest):
                self._questions.append(job)
            else:
                self._wishes.append(job)  # looked up under the lock: the run's thread puts a new list in its place
            self._changed.notify()

    # ---- what the engine's own thread does ----

    def _live(self) -> None:
        try:
            self._load()
            while self._wait():
                self._give_others_a_turn()
                self._answer()
                self._admit()
                self._step()
        except BaseException as error:
            self._give_up(error)
            self._tell_status()

    def _load(self) -> None:
        model, tokenizer = self.run.network, self.run.tokenizer
        tokenizer.encode("ready")  # loads what encoding needs
        for ensemble in self.run.ensembles.values():
            if ensemble.words is not None and WORDS in ensemble.weights:
                ensemble.words.make_ready()
        if self.run.has_tasks:
            self.run.calibration, self.run.thresholds  # noqa: B018  what is wrong is told before anybody asks
        self._writer = BatchGenerator(model, tokenizer.vocab_size, self.limits.max_batch)
        self.loaded = True
        self.ready.set()
        self._tell_status()

    def _tell_status(self) -> None:
        for told in self._told_of_status:
            told(self.status)

    def _wait(self) -> bool:
        """Wait for something to do; return whether to go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions or self._wishes or self._requests or self._closing)
            return bool(self._questions or self._wishes or self._requests)

    def _answer(self) -> None:
        """Answer the first question, and with it those that have the same key."""
        with self._changed:
            together: list[BatchRequest] = []
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

    def _answer_together(self, together: list[BatchRequest]) -> None:
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

    def _answer_alone(self, question: BatchRequest) -> None:
        try:
            _settle(question.future, self._answers([question]))
        except Unwanted:
            pass
        except Exception as error:  # which the request is answered with
            if isinstance(error, RuinedWeights) or not isinstance(error, Gpt1Error):
                self._check_run(error)
            _fail(question.future, error)

    def _answers(self, together: list[BatchRequest]) -> list[Any]:
        self._answering = together
        return list(together[0].answering([item for question in together for item in question.items]))

    def _give_way(self) -> None:
        """Let texts be written on between two portions of an answer, which is left off where it is not wanted."""
        unwanted = sum(len(question.items) for question in self._answering if question.future.cancelled())
        if unwanted and 2 * unwanted >= sum(len(question.items) for question in self._answering):
            raise Unwanted
        self._give_others_a_turn()
        self._admit()
        self._step()

    def _admit(self) -> None:
        """Give each request its share of the rows; those who have more make room."""
        with self._changed:
            come, self._wishes = self._wishes, []
        for wish in come:
            self._requests.setdefault(wish.request, []).append(wish)
        while True:
            shares = self._shares()
            for wish in [wish for wish in self._at_work if wish not in shares]:
                self._writer.leave(self._at_work.pop(wish).text)
            for wish in shares:
                if wish not in self._at_work:
                    self._join(wish)
            if not self._finish_done():  # one that wants no token, or was given up; then there is room for another
                return

    def _shares(self) -> dict[GenerateRequest, None]:
        """Return the wishes to work on: one of each request, a second of each ... as far as there are rows."""
        shares: dict[GenerateRequest, None] = {}
        requests = list(self._requests.values())
        for rank in range(self.limits.max_batch):
            requests = [wishes for wishes in requests if self._has(wishes, rank)]
            for wishes in sorted(requests, key=lambda wishes: self._had_first(wishes[rank])):
                shares[wishes[rank]] = None
                if len(shares) == self.limits.max_batch:
                    return shares
        return shares

    def _has(self, wishes: list[GenerateRequest], rank: int) -> bool:
        """Whether a request wishes for so many texts; those that it has given up while they waited are dropped."""
        while rank < len(wishes) and wishes[rank].future.cancelled() and wishes[rank] not in self._at_work:
            self._drop(wishes[rank])
        return rank < len(wishes)

    def _had_first(self, wish: GenerateRequest) -> bool:
        return wish in self._begun and len(self._begun[wish].text.written) >= FIRST

    def _join(self, wish: GenerateRequest) -> None:
        if wish in self._begun:
            self._writer.rejoin(self._begun[wish].text)
        else:
            stream = TextStream(self.run.tokenizer, wish.prompt, wish.wanted.stop)
            self._begun[wish] = ActiveRequest(self._writer.join(wish.prompt, wish.wanted, wish.wanted.seed), stream)
        self._at_work[wish] = self._begun[wish]

    def _drop(self, wish: GenerateRequest) -> None:
        """Forget a wish, with its request where it was the last."""
        self._begun.pop(wish, None)
        if writes := self._at_work.pop(wish, None):
            self._writer.leave(writes.text)
        self._requests[wish.request].remove(wish)
        if not self._requests[wish.request]:
            del self._requests[wish.request]

    def _step(self) -> None:
        if not self._at_work:
            return
        self._batched("write", len(self._at_work))
        try:
            self._writer.step(min(_left(wish, writes) for wish, writes in self._at_work.items()))
        except Exception as error:
            self._spoil(error)
        for wish, writes in self._at_work.items():
            for piece in writes.text.hand_on(writes.stream, len(writes.text.written) - writes.streamed):
                self._show(wish, piece)
            writes.streamed = len(writes.text.written)
        self._finish_done()

    def _spoil(self, error: Exception) -> None:
        """Fail the texts that a step failed for, all where none is known, and have the others read anew."""
        self._check_run(error)
        ruined = error.texts if isinstance(error, RuinedScores) else ()
        self._writer.begin_anew()
        for wish, writes in list(self._at_work.items()):
            if not ruined or writes.text in ruined:
                self._drop(wish)
                _fail(wish.future, error)

    def _check_run(self, error: Exception) -> None:
        """End the run where not only a request was at fault: it no longer continues or reads the simplest text."""
        try:
            if not self._weights_are_numbers:
                raise error
            newline = self.run.tokenizer.newline_id
            if self.run.is_bidirectional:
                self.run.embed([[newline]])
                return
            continue_ids(self.run.network, [[newline]], SamplingParams(max_new_tokens=1), self.run.tokenizer.vocab_size)
        except Exception:
            raise RunEnds from error

    @cached_property
    def _weights_are_numbers(self) -> bool:
        network = self.run.classifier if self.run.has_tasks else self.run.model
        return all(bool(weights.isfinite().all()) for weights in network.parameters())

    def _show(self, wish: GenerateRequest, piece: str) -> None:
        if piece and wish.on_piece is not None:
            wish.on_piece(piece)

    def _finish_done(self) -> bool:
        """Take out the texts that are done, or that nobody wants any more; return whether there were any."""
        done = [
            (wish, writes)
            for wish, writes in self._at_work.items()
            if writes.stream.stopped or _left(wish, writes) <= 0 or wish.future.cancelled()
        ]
        for wish, writes in done:
            self._drop(wish)
            self._show(wish, writes.stream.end())
            reason = STOP if writes.stream.stopped else LENGTH
            text = writes.text
            _settle(wish.future, Completion(writes.stream.whole(), text.written, reason, text.weighed))
        return bool(done)

    def _give_up(self, error: BaseException) -> None:
        """Tell all who wait, or come, that the run has failed."""
        cause = error.__cause__ if isinstance(error, RunEnds) and error.__cause__ else error
        with self._changed:
            self.failure = cause
            self.ready.clear()
            futures: list[Future[Any]] = [question.future for question in (*self._answering, *self._questions)]
            futures += [wish.future for wish in self._wishes]
            futures += [wish.future for wishes in self._requests.values() for wish in wishes]
        for future in futures:
            _fail(future, failed(self.name))
        if self.loaded:
            place = "".join(traceback.format_tb(cause.__traceback__))
            said = f": {cause}" if isinstance(cause, RuinedWeights) else ""  # others may quote what was asked
            kind = type(cause).__name__ + said
            LOG.error("the run '%s' has failed and answers no more: %s\n%s", self.name, kind, place)


def _left(wish: GenerateRequest, writes: ActiveRequest) -> int:
    """Return how many tokens a text still wants."""
    return wish.wanted.max_new_tokens - len(writes.text.written)


# A future may be cancelled at any moment by who asked, or be settled already.


def _settle(future: Future[Any], result: Any) -> None:
    with suppress(InvalidStateError):
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)
