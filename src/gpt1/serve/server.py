"""A server from runs and settings to its end: SIGTERM or Ctrl-C let what is in flight be answered first."""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.run import load_run
from gpt1.serve.app import Server, build_app
from gpt1.serve.engine import Engine
from gpt1.serve.guards import LOOPBACK
from gpt1.serve.limits import Limits
from gpt1.serve.logs import json_logging
from gpt1.serve.meters import Meters
from gpt1.serve.patience import impatient

HOST, PORT = LOOPBACK[1], 8000


def make_app(
    runs: Sequence[str], *, host: str, token: str | None, limits: Limits, device: str | None, int8: bool = False
) -> FastAPI:
    """Return the application for runs, each given as its folder or as NAME=FOLDER; they are loaded when it starts."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise SettingError("a token is of plain ASCII characters, without blanks at its ends")
    meters = Meters()
    engines: dict[str, Engine] = {}
    for given in runs:
        name, path = _named(given)
        if name in engines:
            raise SettingError(f"two runs are called '{name}'; give one another name: NAME={path}")
        engine = Engine(load_run(path, device=device, int8=int8), name, limits, meters.batched(name))
        meters.watch(name, lambda engine=engine: engine.open)  # type: ignore[misc]
        engines[name] = engine
    hosts = (*LOOPBACK, host) if is_loopback(host) else None
    return build_app(Server(engines, limits, meters), token=token, hosts=hosts)


def serve(app: FastAPI, *, host: str, port: int, started: Callable[[str], None], json_logs: bool = False) -> None:
    """Serve until told to stop; `started` is told the address."""
    listening = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    started(f"http://{address}:{listening.getsockname()[1]}")
    server = uvicorn.Server(http_config(app, json_logs))
    engines = list(app.state.server.engines.values())

    def stop() -> None:
        server.should_exit = True

    for engine in engines:
        engine.on_failure = stop
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        if not server.should_exit:  # else it has ended well, and passes on the signal that ended it
            raise
    for engine in engines:
        if engine.failure is not None:
            raise engine.failure


def http_config(app: FastAPI, json_logs: bool = False) -> uvicorn.Config:
    """Return how uvicorn is to serve the application."""
    limits: Limits = app.state.server.limits
    return uvicorn.Config(
        app,
        http=impatient(limits.arrival_seconds),
        log_config=json_logging() if json_logs else uvicorn.config.LOGGING_CONFIG,
        log_level="warning",
        access_log=False,
        lifespan="on",
        # Longer than any request takes: then only clients are left that do not read their answers.
        timeout_graceful_shutdown=math.ceil(limits.seconds + limits.arrival_seconds),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this host."""
    try:
        return host in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _named(given: str) -> tuple[str, str]:
    name, equals, path = given.partition("=")
    if not equals or Path(given).exists():
        return Path(given).resolve().name, given
    if not (name and path):
        raise SettingError(f"a run is given as its folder, or as NAME=FOLDER, not '{given}'")
    return name, path


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # now, because the address is told before uvicorn does it: who comes early waits
    except OSError as error:
        listening.close()
        elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        other = f"choose another {'--host' if elsewhere else '--port'}"
        raise InputError(f"cannot listen at {host}, port {port}: {error.strerror}; {other}") from error
    return listening
