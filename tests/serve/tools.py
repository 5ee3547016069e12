"""A server in a thread, as real as one in a process, whose parts a test can still lay hands on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from gpt1.serve.limits import Limits
from gpt1.serve.server import http_config, make_app


@contextmanager
def serving(*runs: str, token: str | None = None, host: str = "127.0.0.1", **limits: Any) -> Iterator[httpx.Client]:
    """Serve runs and give a client that talks to them."""
    app = make_app(runs, host=host, token=token, limits=Limits(**limits), device="cpu")
    config = http_config(app)
    config.host, config.port = "127.0.0.1", 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
            client.app = app  # type: ignore[attr-defined]
            while client.get("/readyz").status_code != 200:
                time.sleep(0.02)
            yield client
    finally:
        server.should_exit = True
        thread.join()


def error_of(response: httpx.Response) -> tuple[int, str | None, str]:
    """Return the status, code and message of an error, which has OpenAI's form and is not long."""
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(response.content) < 10_000
    return response.status_code, error["code"], error["message"]
