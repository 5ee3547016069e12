"""Where a server listens, and how many connections it may have; light, so that a supervisor stays small."""

from __future__ import annotations

import errno
import ipaddress
import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpt1.base.errors import InputError, SettingError
from gpt1.serve.guards import LOOPBACK
from gpt1.serve.limits import Limits
from gpt1.serve.patience import ACCEPTS

HOST, PORT = LOOPBACK[1], 8000
SPARE_FILES = 32 + 4 * ACCEPTS  # for weights that are read, and for connections that are just coming and going


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or say why there can be none."""
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


def address_of(listening: socket.socket, host: str) -> str:
    """Return the address at which clients find a server that listens."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


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
