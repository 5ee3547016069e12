"""Clients that do not finish what they began: a connection whose request's head does not come in time is ended.

Uvicorn waits for a head for ever, and some thousand clients that send a byte a minute would take all there is. The body
that follows is timed where it is counted, in `guards.py`; what still comes of one that was refused is thrown away, for
so long, because who is cut off while sending never sees the answer.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's way of speaking HTTP with so much patience for a head, and for a body that was refused."""

    class Impatient(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._waiting = self.loop.call_later(seconds, self.transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            refused = self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY
            if not refused and self.conn.their_state is not h11.IDLE:
                self._wait_no_longer()
            elif self._waiting is None:
                self._waiting = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_longer()
            super().connection_lost(exc)

        def _wait_no_longer(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Impatient
