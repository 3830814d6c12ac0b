"""Where a source is, as commands are given it: the environment, a service of libpq, or a file; never an argument."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cdcv2.store.file_system import text_of


class SourceAddress(NamedTuple):
    """A connection string, and where it is from."""

    conninfo: str
    origin: str


def from_environment() -> SourceAddress:
    """``CDCV2_POSTGRES``, or libpq's own variables."""
    # Empty: libpq looks into its own variables.
    return SourceAddress(os.environ.get("CDCV2_POSTGRES", ""), "CDCV2_POSTGRES")


def from_service(name: str) -> SourceAddress:
    """A service of libpq's service file.

    >>> from_service("shop")
    SourceAddress(conninfo='service=shop', origin='the service shop')
    """
    return SourceAddress(f"service={name}", f"the service {name}")


def from_file(name: str, holds: str) -> SourceAddress:
    """A file with only a connection string; ``holds``: what it is, in errors. Raises as ``text_of`` does."""
    return SourceAddress(text_of(Path(name).expanduser(), f"the file {name} with {holds}").strip(), f"the file {name}")
