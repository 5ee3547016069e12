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
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpt1.serve.limits import Limits
from gpt1.serve.meters import Meters

LOG = logging.getLogger("gpt1.serve")
ACCEPTS = 16  # connections taken at once, before others have their turn, and before those that make room have gone
BACKLOG = 4096  # connections that wait to be taken; the system may allow fewer
ANSWERING = 0.9  # of the time to end in, what is in flight may be answered; then it is cut off


def impatient(limits: Limits, meters: Meters) -> type[asyncio.Protocol]:
    """Return uvicorn's way of speaking HTTP with so much patience and room."""

    class Impatient(H11Protocol):
        _arrival: asyncio.TimerHandle | None = None  # ends it where no head comes
        _taking: asyncio.TimerHandle | None = None  # ends it where the answer is not taken
        _waits_since: float | None = None  # when the client was to send something; None: it waits for its answer
        _unread_since: float | None = None  # when what was sent began to be too much for the client; None: it is not

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # so that `pause_writing` tells of every answer that is not taken
            self._waits_since = self.loop.time()
            self._wait_for_a_head()
            if len(self.connections) > limits.connections:
                self._make_room()
            meters.connection_made()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            state = self.conn.their_state
            if state not in (h11.IDLE, h11.SEND_BODY):
                self._waits_since = None
            refused = self.conn.our_state is h11.DONE and state is h11.SEND_BODY
            if not refused and state is not h11.IDLE:
                self._arrival = _cancelled(self._arrival)
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
            self._unread_since, self._taking = None, _cancelled(self._taking)

        def connection_lost(self, exc: Exception | None) -> None:
            self._arrival, self._taking = _cancelled(self._arrival), _cancelled(self._taking)
            super().connection_lost(exc)
            meters.connection_lost()

        def kept_waiting_since(self) -> float | None:
            """Return since when the server has waited for this client; None: it is the other way round."""
            return self._waits_since if self._unread_since is None else self._unread_since

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
            if self._unsent() >= unsent or self.loop.time() >= began + limits.seconds:
                self.end("unread")
            else:
                self._taking = self.loop.call_later(limits.arrival_seconds, self._check_taken, self._unsent())

        def _unsent(self) -> int:
            return self.transport.get_write_buffer_size()

        def _make_room(self) -> None:
            """End the connection that has kept the server waiting longest, this one at last."""
            others = (other for other in self.connections if other is not self and isinstance(other, Impatient))
            waiting = [(since, other) for other in others if (since := other.kept_waiting_since()) is not None]
            longest = min(waiting, key=lambda one: one[0])[1] if waiting else self
            LOG.warning("there are %d connections; the one that was waited for longest is ended", limits.connections)
            longest.end("crowded out")

    return Impatient


class BoundedServer(uvicorn.Server):
    """Uvicorn's server, which takes few connections at once and ends in the time it is given."""

    def __init__(self, config: uvicorn.Config, grace_seconds: float) -> None:
        super().__init__(config)
        self._grace_seconds = grace_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; asyncio takes as many connections at once as may wait, so more are allowed to wait afterwards."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End when what is in flight has been answered, or is cut off."""
        cutting = asyncio.get_running_loop().call_later(ANSWERING * self._grace_seconds, self._cut_off)
        await super().shutdown(sockets)
        cutting.cancel()

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
