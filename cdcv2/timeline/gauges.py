"""Gauges: the measures of how far sources are, how each begins, and how its times are written.

=========  ============================================  ====================================
kind       a time is                                     its frontier begins at
=========  ============================================  ====================================
int        a number that only grows                      ``{0}``
line       how many lines of a file come before          ``{0}``
lsn        a position in PostgreSQL's write-ahead log    ``{0}``
offsets    partition and offset of a Kafka topic         no partition has started
sources    the name of a source, and a time of its own   no source has started
=========  ============================================  ====================================

Several sources are bound together as the parts of one: ``frontier_of({"orders": offsets({0: 4}), "bank": lsn})`` is a
frontier over both, and a source that is added later has not started until then (see
:mod:`cdcv2.timeline.partitioned`). Times and frontiers of every gauge have a plain form that JSON can hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cdcv2.core import order
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, check_time
from cdcv2.errors import MalformedError
from cdcv2.timeline.partitioned import Partitioned

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\Z")


def lsn(text: str) -> int:
    """The position that PostgreSQL writes as two hexadecimal numbers.

    >>> lsn("16/B374D848") == 0x16B374D848
    True

    Raises MalformedError for any other text. Source: the type ``pg_lsn`` of PostgreSQL's documentation.
    """
    found = _LSN.match(text)
    if found is None:
        raise MalformedError(f"{text!r} is no LSN: PostgreSQL writes one as 16/B374D848")
    return check_time(int(found[1], 16) << 32 | int(found[2], 16))  # type: ignore[return-value]  # as it was an int


def lsn_text(position: int) -> str:
    """The position as PostgreSQL writes it.

    >>> lsn_text(0x16B374D848)
    '16/B374D848'
    """
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def to_plain(time: Time) -> Any:
    """A time as JSON can hold it: a number, a list of coordinates, or an object for parts.

    >>> to_plain(Partitioned.at("bank", 7)), to_plain(Partitioned.rest([1, 0]))
    ({'at': 'bank', 'time': 7}, {'rest': [0, 1]})

    Raises MalformedError for a time of another type. Cost: linear in the parts named.
    """
    if not isinstance(time, Partitioned):
        return order.to_plain(time)
    if time.time is not None:
        return {"at": time.part, "time": to_plain(time.time)}
    return {"rest" if time.all_but else "among": list(time.named)}


def from_plain(plain: object) -> Time:
    """The time that :func:`to_plain` made this of. Raises MalformedError for anything else.

    >>> from_plain({"at": 2, "time": [1, 2]})
    Partitioned.at(2, Product(1, 2))
    """
    match plain:
        case {"at": part, "time": time, **rest} if not rest:
            return Partitioned.at(part, from_plain(time))
        case {"rest": [*parts], **rest} if not rest:
            return Partitioned.rest(parts)
        case {"among": [*parts], **rest} if not rest:
            return Partitioned.among(parts)
    return order.from_plain(plain)


def frontier_to_plain(frontier: Antichain) -> list[Any]:
    """The elements of a frontier as JSON can hold them; as :func:`to_plain`.

    >>> frontier_to_plain(Antichain([Partitioned.at(0, 4), Partitioned.rest([0])]))
    [{'rest': [0]}, {'at': 0, 'time': 4}]
    """
    return [to_plain(time) for time in frontier]


def frontier_from_plain(plain: Iterable[object]) -> Antichain:
    """The frontier that :func:`frontier_to_plain` made this of. Raises MalformedError for anything else.

    >>> frontier_from_plain([7])
    Antichain([7])
    """
    if not isinstance(plain, (list, tuple)):
        raise MalformedError(f"{plain!r} is no frontier: a frontier is a list of times")
    return Antichain(map(from_plain, plain))
