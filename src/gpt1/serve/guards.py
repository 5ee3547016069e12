"""What stands before every request: whose host it names, whether it has the token, how large it is, and its count."""

from __future__ import annotations

import hmac
import logging
import re
import time
import traceback
from collections.abc import Iterable

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpt1.serve.limits import ApiError
from gpt1.serve.meters import Meters
from gpt1.serve.page import PAGE

LOG = logging.getLogger("gpt1.serve")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/healthz", "/readyz", *PAGE)  # asked by machines that have no token; and the page, which asks for it
_PORT = re.compile(r":\d+$")


def error_response(error: ApiError) -> JSONResponse:
    """Return an error as a response."""
    return JSONResponse(error.body(), error.status, error.headers)


class Guards:
    """Refuses what is not meant for the server before any of it is read."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Iterable[str] | None, body_bytes: int) -> None:
        self.app, self.token, self.body_bytes = app, token, body_bytes
        self.hosts = None if hosts is None else set(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check(scope["path"], Headers(scope=scope))
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    def _check(self, path: str, headers: Headers) -> None:
        host = _PORT.sub("", headers.get("host", "")).strip("[]").lower()
        if self.hosts is not None and host not in self.hosts:  # a page elsewhere that sends its reader's browser here
            raise ApiError(421, "this server answers only to its own name", code="wrong_host")
        given = headers.get("authorization", "").encode("latin-1", "replace")
        if self.token and path not in OPEN and not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
            raise ApiError(
                401,
                "a token is needed: Authorization: Bearer ...",
                code="no_token",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.body_bytes:
            raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        """Count a body as it comes: it may say nothing of its length, or not the truth."""
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self.body_bytes:
                error = self._too_large()
                raise HTTPException(error.status, error.message)  # the only kind that FastAPI passes on from here
            return message

        return counted

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the request is larger than {self.body_bytes:,} bytes", code="too_large")


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
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.meters.request(path, status, time.perf_counter() - began)
