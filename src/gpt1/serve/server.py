"""A server from runs and settings to its end: SIGTERM or Ctrl-C let what is in flight be answered first."""

from __future__ import annotations

import errno
import ipaddress
import math
import resource
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.garbage import never_looked_through_again
from gpt1.finetuning.drifting import ENCODING, FEWEST, read_unlabelled, too_few
from gpt1.inference.answering import task_of
from gpt1.inference.run import load_run
from gpt1.serve.app import Server, build_app
from gpt1.serve.drift import DriftWatch, Worded
from gpt1.serve.engine import Engine
from gpt1.serve.guards import LOOPBACK, host_of
from gpt1.serve.limits import Limits
from gpt1.serve.monitoring import Meters, logging_settings
from gpt1.serve.patience import ACCEPTS, BoundedServer, impatient

HOST, PORT = LOOPBACK[1], 8000
TURN_SECONDS = 0.0001  # a run's thread may keep the server's from going on, after each thing it sends; Python: 0.005
SPARE_FILES = 32 + 4 * ACCEPTS  # for weights that are read, and for connections that are just coming and going


def make_app(
    runs: Sequence[str],
    *,
    host: str,
    token: str | None,
    limits: Limits,
    device: str | None,
    int8: bool = False,
    reference: Sequence[str] = (),
    worded: Worded = str,
) -> FastAPI:
    """Return the application for runs, each given as its folder or as NAME=FOLDER; they are loaded when it starts.

    `reference` has tables of rows that what comes in is held against, each given as its file or as NAME=FILE, of runs
    whose own for dev are not; `worded` puts what the log tells into other words.
    """
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise SettingError("a token is of plain ASCII characters, without blanks at its ends")
    meters = Meters()
    engines: dict[str, Engine] = {}
    for given in runs:
        name, path = _named(given)
        if name in engines:
            raise SettingError(f"two runs are called '{name}'; give one another name: NAME={path}")
        engine = Engine(load_run(path, device=device, int8=int8), name, limits, meters.batched(name))
        meters.watch(name, lambda engine=engine: engine.open, lambda engine=engine: engine.ready.is_set())  # type: ignore[misc]
        engines[name] = engine
    tables = dict(_reference(given, engines) for given in reference)
    watches = {name: DriftWatch(engine, meters, tables.get(name), worded) for name, engine in engines.items()}
    own = host_of(f"[{host}]" if ":" in host else host)
    hosts = (*LOOPBACK, own or host) if is_loopback(host) else None
    return build_app(Server(engines, limits, meters, watches), token=token, hosts=hosts)


def serve(app: FastAPI, *, host: str, port: int, started: Callable[[str], None], json_logs: bool = False) -> None:
    """Serve until told to stop; `started` is told the address."""
    listening = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    started(f"http://{address}:{listening.getsockname()[1]}")
    sys.setswitchinterval(TURN_SECONDS)
    never_looked_through_again()
    server = bounded_server(app, logging_settings(as_json=json_logs))
    engines = list(app.state.server.engines.values())

    def stop() -> None:
        server.should_exit = True

    for engine in engines:
        engine.tell_of_no_start(stop)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        if not server.should_exit:  # else it has ended well, and passes on the signal that ended it
            raise
    for engine in engines:
        if engine.failure is not None and not engine.loaded:
            raise engine.failure


def bounded_server(app: FastAPI, log_config: dict[str, object] | None) -> BoundedServer:
    """Return what serves the application within its limits."""
    served: Server = app.state.server
    config = uvicorn.Config(
        app,
        http=impatient(served.limits, served.meters),
        log_config=log_config,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=math.ceil(served.limits.grace_seconds),
    )
    return BoundedServer(config, served.limits, served.meters)


def fitting(limits: Limits, notice: Callable[[str], None]) -> Limits:
    """Return limits with no more connections than there may be open files; `notice` is told where they are fewer."""
    most, used = resource.getrlimit(resource.RLIMIT_NOFILE)[0], _open_files()
    if most == resource.RLIM_INFINITY or (room := most - used - SPARE_FILES) >= limits.connections:
        return limits
    if room < 1:
        raise SettingError(f"only {most} files may be open at once, which leaves none for clients; raise ulimit -n")
    notice(f"at most {room} connections at once, not {limits.connections}: only {most} files may be open (ulimit -n)")
    return replace(limits, connections=room)


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


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


def _reference(given: str, engines: dict[str, Engine]) -> tuple[str, Path]:
    """Return the run that a table of known rows is for, and the table, which was looked at."""
    name, equals, path = given.partition("=")
    if not equals or Path(given).exists():
        if len(engines) > 1:
            raise SettingError(f"`reference` {given}: several runs are served; say whose it is: NAME={given}")
        name, path = next(iter(engines)), given
    if name not in engines:
        raise unknown("run", name, engines, of="those that are served")
    task = task_of(engines[name].run)
    rows, _, _ = read_unlabelled(path, task, ENCODING, skip_bad=False)
    if len(rows) < FEWEST:
        raise too_few(rows, path, helps="")
    return name, Path(path)


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
        other = f"choose another {'`host`' if elsewhere else '`port`'}"
        raise InputError(f"cannot listen at {host}, port {port}: {error.strerror}; {other}") from error
    return listening
