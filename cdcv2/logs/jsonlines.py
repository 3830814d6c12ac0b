"""Messages as JSON, one object a line, without loss: for people, `jq`, and tools that have no Avro.

::

    {"updates": [{"data": {"id": 5, "price": 10}, "time": 6, "diff": -1}]}
    {"progress": {"lower": [3], "upper": [10], "counts": [{"time": 4, "count": 1}]}}

A Product time is a list of its coordinates. With a row type, data is an object by column (:mod:`cdcv2.rows.plain`).
Without one it is any JSON value; tuples are arrays, and what JSON has no value for is an object with one key:
``{"$int": "9007199254740992"}``, ``{"$float": "NaN"}``, ``{"$bytes": "AP8="}``.
"""

from __future__ import annotations

import json
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.core.order import Product, Time, from_plain, to_plain
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.plain import (
    SAFE, bytes_from_plain, float_from_plain, int_from_plain, plain_bytes, plain_float, plain_int,
)
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import shown
from cdcv2.rows.values import NAN


class JsonLines:
    """Messages of one log to lines and back; ``row_type`` is optional.

    >>> lines = JsonLines()
    >>> lines.encode(Updates([(("a", 1), 3, -1)]))
    '{"updates": [{"data": ["a", 1], "time": 3, "diff": -1}]}'
    >>> lines.decode('{"progress": {"lower": [0], "upper": [], "counts": []}}').upper
    Antichain([])
    """

    def __init__(self, row_type: RowType | None = None) -> None:
        self.row_type = row_type

    def plain(self, message: Message) -> dict[str, Any]:
        """The message as a JSON object. Raises MalformedError for data or times that JSON cannot hold here."""
        if isinstance(message, Updates):
            return {"updates": [
                {"data": self._data(data), "time": plain_time(time), "diff": plain_int(diff)}
                for data, time, diff in message.updates
            ]}
        if isinstance(message, Progress):
            return {"progress": {
                "lower": [plain_time(time) for time in message.lower],
                "upper": [plain_time(time) for time in message.upper],
                "counts": [{"time": plain_time(time), "count": plain_int(count)} for time, count in message.counts],
            }}
        raise MalformedError(f"{message!r} is no message: a message is Updates or Progress")

    def encode(self, message: Message) -> str:
        """The line of a message, without its end. Raises MalformedError as :meth:`plain` does."""
        return json.dumps(self.plain(message), ensure_ascii=False, allow_nan=False)

    def decode(self, line: str | bytes) -> Message:
        """The message of a line. Raises DecodeError, with the reason, for anything else."""
        try:
            plain = parse_json(line, object_pairs_hook=_once, parse_constant=_no_constant)
            return self.message(plain)
        except DecodeError:
            raise
        except MalformedError as cause:
            raise DecodeError(str(cause)) from None
        except UnicodeDecodeError as cause:
            raise DecodeError(f"a line that is not UTF-8: {cause.reason}") from None
        except ValueError as cause:
            # Bad syntax, or a number of more digits than Python turns into one.
            raise DecodeError(f"a line that is no JSON: {cause}") from None
        except RecursionError:
            raise DecodeError("data that is nested too deep") from None

    def message(self, plain: Any) -> Message:
        """The message of a parsed JSON object. Raises MalformedError for anything else."""
        if not isinstance(plain, dict) or len(plain) != 1 or not plain.keys() <= {"updates", "progress"}:
            raise MalformedError(f"{shown(plain)} is no message: an object with the one key updates or progress")
        if "updates" in plain:
            return Updates([
                (self._data_from(data), time_from_plain(time), int_from_plain(diff))
                for data, time, diff in _objects(plain["updates"], ("data", "time", "diff"))
            ])
        bounds = _object(plain["progress"], ("lower", "upper", "counts"))
        lower, upper = ([time_from_plain(time) for time in _list(bound)] for bound in bounds[:2])
        counts = [
            (time_from_plain(time), int_from_plain(count)) for time, count in _objects(bounds[2], ("time", "count"))
        ]
        return Progress(lower, upper, counts)

    def _data(self, data: Any) -> Any:
        return _untyped(data) if self.row_type is None else self.row_type.to_plain(data)

    def _data_from(self, plain: Any) -> Any:
        return _untyped_from(plain) if self.row_type is None else self.row_type.from_plain(plain)


def plain_time(time: Time) -> Any:
    """A time as JSON carries it safely: an int (beyond 2**53 - 1 a string), or a list of such."""
    plain = to_plain(time)
    return [plain_int(part) for part in plain] if isinstance(plain, list) else plain_int(plain)


def plain_frontier(frontier: Antichain) -> list[Any]:
    """The elements of a frontier, each as :func:`plain_time` has it."""
    return [plain_time(time) for time in frontier]


def time_from_plain(plain: Any) -> Time:
    """The time that :func:`plain_time` made this of. Raises MalformedError for anything else."""
    if isinstance(plain, list):
        return Product(*[int_from_plain(part) for part in plain])
    return from_plain(int_from_plain(plain))


def _untyped(data: Any) -> Any:
    """Data without a row type. A bool is an int in Python, so it comes first."""
    if data is None or isinstance(data, (bool, str)):
        return data
    if isinstance(data, int):
        return int(data) if -SAFE <= data <= SAFE else {"$int": str(int(data))}
    if isinstance(data, float):
        plain = plain_float(float(data))
        return plain if isinstance(plain, float) else {"$float": plain}
    if isinstance(data, bytes):
        return {"$bytes": plain_bytes(data)}
    if isinstance(data, tuple):
        return [_untyped(item) for item in data]
    raise MalformedError(f"the data {shown(data)} has no form in JSON without a row type: give its row type")


_MARKS = {"$int": (int_from_plain, int), "$float": (float_from_plain, float), "$bytes": (bytes_from_plain, bytes)}


def _untyped_from(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple([_untyped_from(item) for item in plain])
    if not isinstance(plain, dict):
        return plain
    ((mark, held),) = plain.items() if len(plain) == 1 else [("", None)]
    undo, kind = _MARKS.get(mark, (None, None))
    data = undo(held) if undo else None
    if kind is None or type(data) is not kind:
        raise MalformedError(f"the data {shown(plain)} is an object, which only a row type gives a meaning")
    return NAN if data != data else data


def _object(plain: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    if not isinstance(plain, dict) or plain.keys() != set(keys):
        raise MalformedError(f"{shown(plain)} is no object with the keys {', '.join(keys)}")
    return tuple(plain[key] for key in keys)


def _objects(plain: Any, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [_object(item, keys) for item in _list(plain)]


def _list(plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise MalformedError(f"{shown(plain)} stands where a list belongs")
    return plain


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) != len(pairs):
        raise DecodeError(f"an object with a key twice: {shown([key for key, _ in pairs])}")
    return held


def _no_constant(name: str) -> Any:
    raise DecodeError(f"{name} is no JSON: write it as a string")
