"""What a client asks an instance, and what it is answered: JSON, a line each, and a connection for each request.

::

    {"peek": {"uuid": "u1", "keys": {"orders": [[42]]}, "at": null, "least": 0, "lsn": false}}
    {"tail": {"uuid": "u2", "table": "orders", "after": [0], "since": null, "log": "log-1"}}
    {"status": {}}

``at`` is a time, or null for the last finished one, which is then not before ``least``. ``lsn`` states that the time
was written as an LSN. ``after`` is the upper that the client has; the least frontier: nothing. ``since`` is the time at
which a tail from the beginning has what happened before; null: the last finished one. ``log`` is the identity of the
log that ``after`` is of, which ``{"begun": ...}`` stated: over another log the tail is refused. Without it: any log.
With the empty frontier, behind which nothing follows, it ends at once. ``seen`` is the last time that the
client of a peek was answered at, and ``logs`` are the identities that the answer had: a time that was seen of other
logs is not waited for.

A batch of a tail is ``{"batch": ...}`` with its upper; of a large one parts come before, ``{"part": [CHANGE, ...]}``,
which count for nothing without it.

It is the same whether the instance is alone or has replicas. Answers are objects, too: ``fault`` for a request that can
never be answered, ``refused`` for one that cannot be answered here, or now.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import LEAST, PlainKey, demand_time
from cdcv2.instances.wire import demand_list, demand_text

#: The longest request that an instance reads, in bytes.
LONGEST = 1_000_000


@dataclass(frozen=True)
class PeekRequest:
    """What is at these keys, at one time in all tables? ``at`` None: at the last finished time from ``least`` on."""

    uuid: str
    keys: Mapping[str, tuple[PlainKey, ...]] = field(hash=False)
    at: int | None = None
    least: int = 0
    lsn: bool = False
    seen: int = 0
    logs: tuple[str, ...] = ()

    def to_line(self) -> bytes:
        """As it is sent."""
        plain = {"uuid": self.uuid, "keys": self.keys, "at": self.at, "least": self.least, "lsn": self.lsn}
        return _line("peek", {**plain, "seen": self.seen, "logs": self.logs} if self.seen else plain)

    def least_over(self, logs: Collection[str]) -> int:
        """The least time of an answer over these logs: what was seen counts if one of them is the same.

        >>> request = PeekRequest("u1", {}, least=5, seen=9, logs=("orders-1", "items-1"))
        >>> request.least_over(["orders-1", "items-2"]), request.least_over(["orders-2"])
        (9, 5)
        """
        return self.least if set(self.logs).isdisjoint(logs) else max(self.least, self.seen)


@dataclass(frozen=True)
class TailRequest:
    """What changes in a table beyond ``after``?"""

    uuid: str
    table: str
    after: Antichain = LEAST
    since: int | None = None
    log: str | None = None

    def to_line(self) -> bytes:
        """As it is sent."""
        plain = {"uuid": self.uuid, "table": self.table, "after": self.after.to_plain(), "since": self.since}
        return _line("tail", plain if self.log is None else {**plain, "log": self.log})


@dataclass(frozen=True)
class StatusRequest:
    """How far is the instance, and from which time on can it be asked?"""

    def to_line(self) -> bytes:
        """As it is sent."""
        return _line("status", {})


#: What a client may ask.
Request: TypeAlias = Union[PeekRequest, TailRequest, StatusRequest]


def request_of(line: bytes) -> Request:
    """The request that a line has.

    >>> request_of(TailRequest("u2", "orders", Antichain([7])).to_line())
    TailRequest(uuid='u2', table='orders', after=Antichain([7]), since=None, log=None)

    Raises MalformedError for anything else. Cost: linear.
    """
    if not line.endswith(b"\n"):
        raise MalformedError(f"the request is no whole line of up to {LONGEST} bytes: ask for fewer keys at once")
    try:
        [(kind, plain)] = parse_json(line).items()
        request: Request = _READERS[kind](**plain)
        return request
    except MalformedError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError):
        raise MalformedError("the request is not of a form that this version knows: use its own client") from None


def _peek(
    *, uuid: Any, keys: Any, at: Any, least: Any, lsn: Any, seen: Any = 0, logs: Any = (),
) -> PeekRequest:
    wanted = {
        demand_text(table): tuple(tuple(demand_list(key)) for key in demand_list(given))
        for table, given in keys.items()
    }
    if type(lsn) is not bool:
        raise TypeError("lsn")
    known = tuple(map(demand_text, logs and demand_list(logs)))
    time = None if at is None else demand_time(at)
    return PeekRequest(demand_text(uuid), wanted, time, demand_time(least), lsn, demand_time(seen), known)


def _tail(*, uuid: Any, table: Any, after: Any, since: Any, log: Any = None) -> TailRequest:
    if len(demand_list(after)) > 1:
        raise TypeError("after")
    frontier = Antichain(map(demand_time, after))
    begin = None if since is None else demand_time(since)
    named = None if log is None else demand_text(log)
    return TailRequest(demand_text(uuid), demand_text(table), frontier, begin, named)


def _line(kind: str, plain: Mapping[str, Any]) -> bytes:
    return json.dumps({kind: plain}, ensure_ascii=False).encode() + b"\n"


_READERS: dict[str, Any] = {"peek": _peek, "tail": _tail, "status": StatusRequest}
