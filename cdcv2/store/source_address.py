"""Where a source is, as commands are given it: the environment, a service of libpq, or a file; never an argument."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cdcv2.errors import UsageError
from cdcv2.store.file_system import text_of


class SourceAddress(NamedTuple):
    """A connection string, and where it is from."""

    conninfo: str
    origin: str


def source_address(where: str) -> SourceAddress:
    """What --source names: ``env``, which is ``CDCV2_POSTGRES`` or libpq's own variables; ``service:NAME`` of libpq's
    service file; or a file that holds only a connection string, as ``file:FILE`` whatever it is called.

    >>> source_address("service:shop")
    SourceAddress(conninfo='service=shop', origin='the service shop')

    Raises as ``text_of`` does, and UsageError.
    """
    if where == "env":
        # Empty: libpq looks into its own variables.
        return SourceAddress(os.environ.get("CDCV2_POSTGRES", ""), "CDCV2_POSTGRES")
    if where.startswith("service:"):
        name = where.removeprefix("service:")
        return SourceAddress(f"service={name}", f"the service {name}")
    where = where.removeprefix("file:")
    if "=" in where or "://" in where:
        raise UsageError(
            "--source takes no connection string, as everybody on the machine can read arguments: put it into a file "
            "and name that, or into the environment (CDCV2_POSTGRES) and give --source env"
        )
    what = f"the file {where} with the source's connection string"
    return SourceAddress(text_of(Path(where).expanduser(), what).strip(), f"the file {where}")
