"""Clients that keep a server waiting: they are waited for as long as there is time and room, and no longer.

Uvicorn waits for ever for a head, and for a client that does not read its answer; some thousand of them would take all
there is. Here a head must come in time, an answer must be taken, and where there are too many connections the one that
has kept the server waiting longest ends for the next. A connection on which a request comes before the last was
answered ends with that answer: one packet of a client that never reads would make work for seconds. The body that
follows a head is timed where it is counted, in `guards.py`; what still comes of one that was refused is thrown away,
for so long, because who is cut off while sending never sees the answer.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpt1.base.strict_json import to_json
from gpt1.serve.limits import Limits, no_room
from gpt1.serve.monitoring import Meters
from gpt1.serve.shares import MOMENT, ConnectionShare

LOG = logging.getLogger("gpt1.serve")
ACCEPTS, LOOKED_AT = 24, 256  # connections let in in a turn of the event loop, and those let in or refused
BRIEF = 1.0  # seconds in which no connection is ended for another, but for one that asks for health
HEALTH = ("/healthz", "/readyz", "/startupz")
HEALTH_LINES = tuple(f"{method} {path} ".encode() for method in ("GET", "HEAD") for path in HEALTH)
UNHEARD = 65_536  # bytes of a request that is refused, read away at most
BACKLOG = 4096  # connections that wait to be taken; the system may allow fewer
LONGEST_TURN = 1.0  # seconds that a run waits for the server's thread
REST = 1.0  # seconds in which none is taken, where the system has no room for one
BEGUN = "gpt1.begun"  # in the scope of a request that is being answered, and does not only wait for its turn
ANSWERING = 0.8  # of the time to end in, what is in flight may be answered; then it is cut off


_ERROR = to_json(no_room().body())
_LINES = ("503 Service Unavailable", "Connection: close", "Retry-After: 1", "Content-Type: application/json")
NO_ROOM = "\r\n".join((f"HTTP/1.1 {_LINES[0]}", *_LINES[1:], f"Content-Length: {len(_ERROR)}", "", _ERROR)).encode()


def impatient(limits: Limits, meters: Meters) -> type[asyncio.Protocol]:
    """Return uvicorn's way of speaking HTTP with so much patience and room."""

    class Impatient(H11Protocol):
        _arrival: asyncio.TimerHandle | None = None  # ends it where no head comes
        _taking: asyncio.TimerHandle | None = None  # ends it where the answer is not taken
        _waits_since = 0.0  # when it came, or had its last answer
        _unread_since: float | None = None  # when what was sent began to be too much for the client; None: it is not

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # so that `pause_writing` tells of every answer that is not taken
            self._waits_since = self.loop.time()
            self._wait_for_a_head()
            meters.connection_made()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            state = self.conn.their_state
            refused = self.conn.our_state is h11.DONE and state is h11.SEND_BODY
            if not refused and state is not h11.IDLE:
                _cancel(self._arrival)
                self._arrival = None
            elif self._arrival is None:
                self._wait_for_a_head()

        def on_response_complete(self) -> None:
            self._waits_since = self.loop.time()
            if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
                self.transport.close()
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread_since = self.loop.time()
            self._taking = self.loop.call_later(limits.arrival_seconds, self._check_taken, self._unsent())

        def resume_writing(self) -> None:
            super().resume_writing()
            _cancel(self._taking)
            self._unread_since = self._taking = None

        def connection_lost(self, exc: Exception | None) -> None:
            _cancel(self._arrival)
            _cancel(self._taking)
            super().connection_lost(exc)
            meters.connection_lost()

        def kept_waiting_since(self) -> float | None:
            """Return since when the server has waited for this client; None: its request is being answered."""
            if self._unread_since is not None:
                return self._unread_since
            is_coming = self.conn.their_state is h11.SEND_BODY
            works = self.cycle is not None and not self.cycle.response_complete and BEGUN in self.scope
            return None if works and not is_coming else self._waits_since

        def end(self, why: str) -> None:
            """End the connection, whatever is still to be sent."""
            meters.connection_ended(why)
            self.connections.discard(self)  # at once, since others are let in by their number
            self.transport.abort()

        def _wait_for_a_head(self) -> None:
            self._arrival = self.loop.call_later(limits.arrival_seconds, self.end, "silent")

        def _check_taken(self, unsent: int) -> None:
            """End the connection where nothing was taken since last time, or all in all it takes too long."""
            began = self.loop.time() if self._unread_since is None else self._unread_since
            if self._unsent() >= unsent or self.loop.time() >= began + limits.request_timeout:
                self.end("unread")
            else:
                self._taking = self.loop.call_later(limits.arrival_seconds, self._check_taken, self._unsent())

        def _unsent(self) -> int:
            return self.transport.get_write_buffer_size()

    return Impatient


class Drain:
    """Whether a server has been told to end, and only answers what is in flight.

    It is told by signals, one of which may interrupt the other, so there is no lock in it.
    """

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        """Note that it has been told."""
        self.has_begun = True


class BoundedServer(uvicorn.Server):
    """Uvicorn's server, which has so many connections at most and ends in the time it is given.

    It takes connections itself: asyncio takes any number at once, and only then is any of them known. None is taken
    before it is opened. Told to end it drains: what is in flight is answered, those who ask for more, or on a new
    connection, are told that it ends (`guards.py`), and then it ends.
    """

    def __init__(
        self, config: uvicorn.Config, limits: Limits, meters: Meters, drain: Drain, share: ConnectionShare
    ) -> None:
        super().__init__(config)
        self._limits, self._meters, self._drain, self._share = limits, meters, drain, share
        self._sockets: list[socket.socket] = []
        self._is_open = False
        self._cutting: asyncio.TimerHandle | None = None  # cuts off what is still in flight
        self._coming: set[asyncio.Task[None]] = set()  # connections that are let in and not made yet
        self._door: dict[socket.socket, asyncio.TimerHandle] = {}  # those of which it is not known what they ask for

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and to take connections if it is open."""
        self._loop = asyncio.get_running_loop()
        await super().startup([])  # whose sockets uvicorn would have asyncio take connections of
        for listening in sockets or ():
            listening.setblocking(False)
            listening.listen(BACKLOG)
        self._sockets = list(sockets or ())
        self._change_door()

    def open(self) -> None:
        """Take connections from now on; called in any thread."""
        self._is_open = True
        if self.started:
            self._loop.call_soon_threadsafe(self._change_door)

    def leave(self) -> None:
        """Take no more connections, which others may, and end when what is in flight is answered; in any thread."""
        self._is_open = False
        self._drain.begin()
        if self.started:
            self._loop.call_soon_threadsafe(self._change_door)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain when told to end by a signal; a second Ctrl-C waits for nobody."""
        if self._drain.has_begun and sig == signal.SIGINT:
            self.should_exit = self.force_exit = True
        self._drain.begin()

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether to end, and tell how many connections are left."""
        if self._is_open:
            self._share.has_fewest(self._connections())
        if self._drain.has_begun:
            self._cut_off_later()
            self.should_exit |= not self.server_state.tasks
        return await super().on_tick(counter)

    def _change_door(self) -> None:
        for listening in self._sockets:
            if self._is_open:
                self._share.has_fewest(self._connections())
                self._listen_to(listening)
            else:
                self._share.leave()
                self._loop.remove_reader(listening)

    def _listen_to(self, listening: socket.socket) -> None:
        if self._is_open and not self.should_exit:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Let a few of the connections in that wait; where there are enough, each in the place of another, or not."""
        crowd = cache(self._crowd)  # looked for once, since it takes longer than to refuse
        for _ in range(LOOKED_AT):
            if not self._share.has_fewest(self._connections()):
                self._loop.remove_reader(listening)
                self._loop.call_later(MOMENT, self._accept_after_all, listening)
                return
            if not self._accept_one(listening, crowd):
                return

    def _accept_after_all(self, listening: socket.socket) -> None:
        """Let one in that those who have fewer did not take, and look again."""
        if self._is_open:
            self._accept_one(listening, self._crowd)
            self._listen_to(listening)

    def _accept_one(self, listening: socket.socket, crowd: Callable[[], list[Any]]) -> bool:
        """Let one of the connections in that wait, if there is room in this turn; return whether one was there."""
        is_full = self._connections() >= self._limits.connections
        if len(self._coming) >= (2 * ACCEPTS if is_full else ACCEPTS):
            return False
        connection = self._next(listening)
        if connection is None:
            return False
        if is_full:
            self._decide(connection, crowd)
        else:
            self._let_in(connection)
        return True

    def _connections(self) -> int:
        return len(self.server_state.connections) + len(self._coming)

    def _next(self, listening: socket.socket) -> socket.socket | None:
        """Return the connection that has waited longest to be taken, if there is one and the system has room for it."""
        loop = asyncio.get_running_loop()
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            LOG.warning("no connection can be taken: %s", error.strerror)
            loop.remove_reader(listening)
            loop.call_later(REST, self._listen_to, listening)
            return None
        connection.setblocking(False)
        return connection

    def _decide(self, connection: socket.socket, crowd: Callable[[], list[Any]]) -> None:
        """Let a connection in where all are taken, in the place of another; or refuse it; or wait for what it asks."""
        try:
            came = connection.recv(64, socket.MSG_PEEK)
        except BlockingIOError:
            self._wait_at_the_door(connection)
            return
        except OSError:  # it has gone
            connection.close()
            return
        asks_for_health = came.startswith(HEALTH_LINES)
        if self._makes_room(0.0 if asks_for_health else BRIEF, crowd) or asks_for_health:
            self._let_in(connection)
        else:
            self._refuse(connection)

    def _makes_room(self, seconds: float, crowd: Callable[[], list[Any]]) -> bool:
        """End the connection that has been waited for longest, and so long; return whether there is one."""
        if len(self._coming) >= ACCEPTS:
            return False
        longest = crowd()
        if not longest or longest[-1][0] > asyncio.get_running_loop().time() - seconds:
            return False
        LOG.warning("all %d connections are taken: one that is waited for ends", self._limits.connections)
        longest.pop()[-1].end("crowded out")
        return True

    def _wait_at_the_door(self, connection: socket.socket) -> None:
        """Wait for what a connection asks for; of too many the first is refused."""
        loop = asyncio.get_running_loop()
        if len(self._door) >= ACCEPTS:
            self._turn_away(next(iter(self._door)))
        self._door[connection] = loop.call_later(self._limits.arrival_seconds, self._turn_away, connection)
        loop.add_reader(connection, self._has_spoken, connection)

    def _has_spoken(self, connection: socket.socket) -> None:
        self._leave_the_door(connection)
        self._decide(connection, self._crowd)

    def _turn_away(self, connection: socket.socket) -> None:
        self._leave_the_door(connection)
        self._refuse(connection)

    def _leave_the_door(self, connection: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self._door.pop(connection).cancel()

    def _let_in(self, connection: socket.socket) -> None:
        coming = asyncio.get_running_loop().create_task(self._take(connection))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)

    async def _take(self, connection: socket.socket) -> None:
        with suppress(OSError):  # it may have gone already
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    def _crowd(self) -> list[Any]:
        """Return the connections that keep the server waiting, with the time since when; the longest is the last."""
        connections: Any = self.server_state.connections
        waiting = [(since, id(one), one) for one in connections if (since := one.kept_waiting_since()) is not None]
        return sorted(waiting, reverse=True)

    def _refuse(self, connection: socket.socket) -> None:
        """Answer that there is no room, without looking at what is asked: it must cost next to nothing."""
        LOG.warning("all %d connections are taken: one is refused", self._limits.connections)
        self._meters.connection_ended("refused")
        with connection, suppress(OSError):
            with suppress(BlockingIOError):  # nothing has come
                connection.recv(UNHEARD)  # else the system takes back what is sent, by a reset, as the connection ends
            connection.send(NO_ROOM)
            connection.shutdown(socket.SHUT_WR)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End when what is in flight has been answered, or is cut off."""
        for connection in list(self._door):
            self._turn_away(connection)
        self._is_open = False
        self._change_door()
        self._cut_off_later()
        await super().shutdown(sockets)
        _cancel(self._cutting)

    def _cut_off_later(self) -> None:
        if self._cutting is None:
            self._cutting = self._loop.call_later(ANSWERING * self._limits.grace_seconds, self._cut_off)

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class Courtesy:
    """Lets the server's thread have a turn between two steps of a run's.

    Python runs one thread at a time, and whenever the server's has sent something a busy run's would go on instead: a
    turn of a hundred things to send would take as long as a hundred steps. Where it had its turn during the last step
    nobody waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._had_turn = threading.Event()
        self._had_turn.set()

    def __call__(self) -> None:
        """Wait, in a run's thread, until the server's has had the turn asked for last time; ask for another."""
        self._had_turn.wait(LONGEST_TURN)
        self._had_turn.clear()
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._had_turn.set)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
