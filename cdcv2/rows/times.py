"""Times as Avro carries them: one ``long``, or, as our extension for partial orders, a record of longs.

A log has times of one kind, given as ``"int"`` or as the number of coordinates of its :class:`Product` times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.core.order import MAX_TIME, Product, Time
from cdcv2.errors import MalformedError, UsageError
from cdcv2.rows.varint import bad, long_bytes, read_long

#: ``"int"``, or how many coordinates the Product times of a log have.
Times: TypeAlias = Union[str, int]

#: The attribute that marks the record of a product time in a schema.
MARK = "cdcv2.times"


class TimeCodec(NamedTuple):
    """How times of one kind are read (from a place, to the time and the place behind it) and written."""

    read: Callable[[bytes, int], tuple[Time, int]]
    write: Callable[[Any], bytes]


def time_codec(times: Times) -> TimeCodec:
    """The functions for a kind. Raises UsageError for a kind that does not exist."""
    if check_times(times) == "int":
        return TimeCodec(_read_int, _write_int)
    width = int(times)

    def read(buf: bytes, at: int) -> tuple[Time, int]:
        coordinates = []
        for _ in range(width):
            coordinate, at = _read_int(buf, at)
            coordinates.append(coordinate)
        return Product(*coordinates), at

    def write(time: Any) -> bytes:
        if not isinstance(time, Product) or len(time) != width:
            raise MalformedError(f"the time {time!r} is no Product of {width} coordinates, as this log's times are")
        return b"".join(map(long_bytes, time))

    return TimeCodec(read, write)


def time_schema(times: Times) -> Any:
    """The Avro type of a time, where it is first used.

    >>> time_schema("int")
    'long'
    """
    if check_times(times) == "int":
        return "long"
    fields = [{"name": f"t{number}", "type": "long"} for number in range(int(times))]
    return {"type": "record", "name": "time", MARK: times, "fields": fields}


def check_times(times: object) -> Times:
    """Return the kind if there is such a kind, else raise UsageError.

    >>> check_times(2)
    2
    """
    if times == "int":
        return "int"
    if type(times) is not int or not 1 <= times <= 100:
        raise UsageError(f"times={times!r}: times are 'int' or the number of coordinates of Product times, 1 to 100")
    return times


def least_time(times: Times) -> Time:
    """The least time of a kind.

    >>> least_time("int"), least_time(2)
    (0, Product(0, 0))
    """
    return 0 if times == "int" else Product(*[0] * int(times))


def _read_int(buf: bytes, at: int) -> tuple[int, int]:
    time, at = read_long(buf, at)
    if time < 0:
        bad(f"the negative time {time}")
    return time, at


def _write_int(time: Any) -> bytes:
    if type(time) is not int or not 0 <= time <= MAX_TIME:
        raise MalformedError(f"the time {time!r} is no int from 0 to 2**63 - 1, as this log's times are")
    return long_bytes(time)


def check_kind(times: Times, time: Time) -> None:
    """Raise MalformedError for a time that is none of this kind.

    >>> check_kind("int", 3), check_kind(2, Product(1, 2))
    (None, None)
    """
    time_codec(times).write(time)
