"""Where the API is served: an address of this machine alone, unless more is allowed; and how others find it."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cdcv2.control.kept_value import keep, kept_record
from cdcv2.control.owner import is_owned
from cdcv2.errors import UnavailableError, UsageError

#: The port where no other is named.
PORT = 8642
#: The address where no other is named.
DEFAULT = f"127.0.0.1:{PORT}"
#: The file in a state folder that has where the API is.
RECORD = "api.json"
#: So many connections wait until they are taken.
_BACKLOG = 64


class ApiRecord(NamedTuple):
    """Where the API of a state folder is served, the file with its token, and the process that serves it."""

    url: str
    token_file: str
    pid: int


def parse_address(text: str) -> tuple[str, int]:
    """Host and port. Raises UsageError.

    >>> parse_address("127.0.0.1:8642"), parse_address("[::1]:0")
    (('127.0.0.1', 8642), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is no address: write HOST:PORT, as {DEFAULT}; port 0 is any that is free")
    if ":" in host and not bracketed:
        raise UsageError(f"{text!r} is no address: write an IPv6 address in brackets, as [::1]:{PORT}")
    return host, int(port)


def listen(text: str, *, unencrypted: bool) -> socket.socket:
    """A socket that accepts connections at ``HOST:PORT``. ``unencrypted``: also where other machines reach it.

    Raises UsageError for an address that is none, or that other machines reach; UnavailableError for a port in use.
    """
    host, port = parse_address(text)
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UsageError(f"{host!r} is no address of this machine ({error.strerror or error}): see --listen") from None
    if not unencrypted and not ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback:
        raise UsageError(
            f"other machines reach {text}, and the API has no encryption: all who see the packets can read the token "
            f"and use it. Take {DEFAULT}, with a tunnel or a proxy with TLS before it; or add --unencrypted"
        )
    try:
        return socket.create_server(place[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UnavailableError(
            f"the API cannot be served at {text}: {error.strerror or error}. End the process that uses the port, or "
            "name another with --listen HOST:PORT. Nothing was started"
        ) from None


def url_of(listening: socket.socket) -> str:
    """The address of a socket, as a client writes it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def published(state: Path, url: str, token_file: Path) -> Iterator[None]:
    """Within the block, the state folder has where the API is. Raises OutputError."""
    keep(state / RECORD, ApiRecord(url, str(token_file.absolute()), os.getpid())._asdict())
    try:
        yield
    finally:
        (state / RECORD).unlink(missing_ok=True)


def api_of(state: Path) -> ApiRecord | None:
    """Where the API of a state folder is; None: there is none. Raises MalformedError for a damaged record.

    What a killed process left behind counts no longer than until another one owns the folder.
    """
    return kept_record(state / RECORD, ApiRecord) if is_owned(state) else None
