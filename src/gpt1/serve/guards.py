"""What stands before every request: whose host it names, whether it has the token, how large it is, and its count."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import time
import traceback
from collections import deque
from collections.abc import Iterable

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpt1.serve.limits import ApiError, Limits, ends
from gpt1.serve.monitoring import Meters
from gpt1.serve.page import PAGE
from gpt1.serve.patience import BEGUN, HEALTH, Drain

LOG = logging.getLogger("gpt1.serve")
LAST_PORT = 65535
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Asked by machines that have no token; the page, which asks for it; and what it links to, which tells nothing of a run.
OPEN = (*HEALTH, "/openapi.json", *PAGE)
A_TURN = 4  # requests
_GOODBYE = {"Connection": "close"}  # the rest of a body is not waited for
_HOST = re.compile(  # as it goes over the wire: in ASCII
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[0-9a-z._-]+))(?::(?P<port>[0-9]{1,5}))?", re.I | re.A
)
_JSON = re.compile(r"\s*application/([^\s;]+\+)?json\s*(;|$)", re.I)


def error_response(error: ApiError) -> JSONResponse:
    """Return an error as a response."""
    return JSONResponse(error.body(), error.status, error.headers)


def host_of(header: str) -> str | None:
    """Return whom a Host header names, without the port: a name, or an address, of IPv6 in brackets; None: nobody."""
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > LAST_PORT:
        return None
    if found["address"] is None:
        return found["name"].lower()
    try:
        return ipaddress.IPv6Address(found["address"]).compressed
    except ValueError:
        return None


class Guards:
    """Refuses what is not meant for the server before any of it is read."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Iterable[str] | None, limits: Limits, drain: Drain
    ) -> None:
        self.app, self.token, self.limits, self.drain = app, token, limits, drain
        self.hosts = None if hosts is None else set(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check(scope["method"], scope["path"], Headers(scope=scope))
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        if (
            self.hosts is not None and host_of(headers.get("host", "")) not in self.hosts
        ):  # a page elsewhere that sends its reader's browser here
            raise ApiError(421, "this server answers only to its own name", code="wrong_host")
        if self.token and path not in OPEN and not self._has_token(headers.get("authorization", "")):
            raise ApiError(
                401,
                "a token is needed: Authorization: Bearer ...",
                code="no_token",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.limits.body_bytes:
            raise self._too_large()
        if method == "POST" and self.drain.has_begun:  # what can be read of the server still is
            raise ends()
        # A page elsewhere may have its reader's browser send other kinds here without being asked for leave.
        if method == "POST" and not _JSON.match(headers.get("content-type", "")):
            raise ApiError(415, "send the body as JSON, with Content-Type: application/json", code="not_json")

    def _has_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), str(self.token).encode())
        return same and scheme.lower() == "bearer"

    def _counted(self, receive: Receive) -> Receive:
        """Count and time a body as it comes: it may say nothing of its length, or not the truth, or never end."""
        came, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self.limits.arrival_seconds

        async def counted() -> Message:
            nonlocal came, whole
            # HTTPException is the only kind that FastAPI passes on from here.
            try:
                async with asyncio.timeout_at(None if whole else deadline):  # then it waits for the client to leave
                    message = await receive()
            except TimeoutError:
                seconds = self.limits.arrival_seconds
                raise HTTPException(408, f"the request did not come in within {seconds:g} seconds", _GOODBYE) from None
            came, whole = came + len(message.get("body", b"")), not message.get("more_body", False)
            if came > self.limits.body_bytes:
                error = self._too_large()
                raise HTTPException(error.status, error.message)
            return message

        return counted

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the request is larger than {self.limits.body_bytes:,} bytes", code="too_large")


class Turns:
    """Lets few requests begin in a turn of the event loop, one after another, and those for health at once.

    Else what a thousand clients send at a time is all begun in one turn, and whoever comes then waits for all of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._begun = 0  # in this turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when its turn has come."""
        if scope["type"] == "http" and scope["path"] not in HEALTH:
            await self._turn()
        scope[BEGUN] = True
        await self.app(scope, receive, send)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next_turn)
        if self._begun < A_TURN:
            self._begun += 1
            return
        waits = loop.create_future()
        self._waiting.append(waits)
        await waits

    def _next_turn(self) -> None:
        waits = [self._waiting.popleft() for _ in range(min(A_TURN, len(self._waiting)))]
        for one in waits:
            if not one.done():  # else it was cancelled
                one.set_result(None)
        self._begun = len(waits)
        if waits:
            asyncio.get_running_loop().call_soon(self._next_turn)


class Watched:
    """Counts requests and their seconds by path and status, and answers where the server itself is at fault.

    Of what requests say nothing is kept: of a fault, its kind and its place in the code are logged.
    """

    def __init__(self, app: ASGIApp, *, meters: Meters, paths: Iterable[str]) -> None:
        self.app, self.meters, self.paths = app, meters, set(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except Exception as error:
            LOG.error("fault: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            if not status:  # else half an answer is on its way, and the connection ends with it
                fault = ApiError(500, f"a fault of the server itself ({type(error).__name__})", code="fault")
                await error_response(fault)(scope, receive, noting)
        finally:
            path = scope["path"] if scope["path"] in self.paths else getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - began
            self.meters.request(path, status, seconds)
            told = {"path": path, "status": status, "seconds": round(seconds, 4)}
            worked_on = (
                scope["method"] == "POST" and status < 400
            )  # others cost nothing, and anybody may send any number
            LOG.info("request", extra={"facts": told, "each": worked_on})
