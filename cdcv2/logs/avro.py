"""Messages in the one published encoding: Avro binary of a union of *array of updates* and *progress*.

::

    ["array" of com.materialize.cdc.update   {data, time, diff},
     com.materialize.cdc.progress            {lower, upper, counts: array of {time, count}}]

``data`` is the row record. Names do not show in the bytes, so a schema with plain names describes the same ones.
What is written is canonical: each array in one block, rows as :mod:`cdcv2.rows.row_type` has them. What is read may
be any Avro binary of the schema, to the last byte. With Confluent's framing a zero byte and a four-byte schema id
come first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from cdcv2.core.order import Time
from cdcv2.errors import DecodeError, MalformedError, UsageError
from cdcv2.logs.formats import format_of
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.binary import guarded
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import NAMESPACE
from cdcv2.rows.times import MARK, Times, check_times, time_codec, time_schema
from cdcv2.rows.varint import bad, long_bytes, read_long, read_longs

_FRAME = struct.Struct(">bI")
_UPDATES, _PROGRESS = 0, 1


class MessageCodec:
    """Messages of one log to bytes and back.

    >>> codec = MessageCodec(RowType({"type": "record", "name": "data", "fields": [
    ...     {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "int"]}]}))
    >>> raw = codec.encode(Updates([((5, 10), 6, -1)]))
    >>> raw.hex(" ")
    '00 02 0a 02 14 0c 01 00'
    >>> codec.decode(raw).updates
    ((Row(id=5, price=10), 6, -1),)

    ``times`` is ``"int"`` or the number of coordinates of Product times. With ``confluent_schema_id`` messages are
    written with Confluent's framing, and read only with it. Raises UsageError for other values of these.
    """

    def __init__(self, row_type: RowType, times: Times = "int", confluent_schema_id: int | None = None) -> None:
        if confluent_schema_id is not None and not 0 <= confluent_schema_id < 2**32:
            raise UsageError(f"confluent_schema_id={confluent_schema_id!r}: a schema id is a number of 32 bits")
        self.row_type = row_type
        self.times = check_times(times)
        self.confluent_schema_id = confluent_schema_id
        self._read_time, self._write_time = time_codec(times)
        self._read_updates, self._write_updates = row_type.codec.read_updates, row_type.codec.write_updates
        self._frame = b"" if confluent_schema_id is None else _FRAME.pack(0, confluent_schema_id)

    @classmethod
    def from_schema(cls, schema: object) -> MessageCodec:
        """The codec for a whole message schema (parsed JSON), with or without the namespace.

        Raises MalformedError where the schema is not of this format.
        """
        row_schema, times = _split(schema)
        return cls(RowType(row_schema), times)

    @property
    def schema(self) -> list[Any]:
        """The message schema, as published and as a registry takes it."""
        return message_schema(self.row_type, self.times, NAMESPACE)

    def encode(self, message: Message) -> bytes:
        """The bytes of a message. Rows may be given as anything that :meth:`RowType.row` takes.

        Raises MalformedError for a row that is not of the row type, a time of another kind, a diff or count beyond
        64 bits. Cost: linear.
        """
        out = bytearray(self._frame)
        if isinstance(message, Updates):
            out.append(_UPDATES << 1)
            self._write_updates(out, message.updates, self._write_time)
        elif isinstance(message, Progress):
            out.append(_PROGRESS << 1)
            for bound in (message.lower, message.upper):
                _write_array(out, [self._write_time(time) for time in bound])
            _write_array(out, [self._write_time(time) + long_bytes(count) for time, count in message.counts])
        else:
            raise MalformedError(f"{message!r} is no message: a message is Updates or Progress")
        return bytes(out)

    def decode(self, raw: bytes) -> Message:
        """The message of these bytes, its rows canonical.

        Raises DecodeError, with the reason and the bytes, for anything else: bytes that end early or are left over,
        no such branch, negative times, what the messages' constructors refuse. Cost: linear in the bytes, valid or not.
        """
        try:
            message: Message = guarded(self._decode, raw)
        except DecodeError as cause:
            raise DecodeError(self._why(raw, cause.reason), raw=raw) from None
        return message

    def _why(self, raw: bytes, reason: str) -> str:
        """What bytes are that are no message, where that can be seen; else the reason."""
        other = format_of(raw) if self.confluent_schema_id is None else None
        if other is None:
            return reason
        return f"these are {other}, not messages of a log ({reason}): a connector's own topic is captured first"

    def _decode(self, raw: bytes) -> Message:
        if not raw.startswith(self._frame):
            bad(f"it does not begin with {self._frame.hex(' ')}, the framing of schema id {self.confluent_schema_id}")
        branch, at = read_long(raw, len(self._frame))
        message: Message
        if branch == _UPDATES:
            updates, at = self._read_updates(raw, at, len(raw), self._read_time)
            message = Updates.trusted(tuple(updates))
        elif branch == _PROGRESS:
            message, at = self._read_progress(raw, at)
        else:
            bad(f"branch {branch} of a union of two: neither updates nor progress")
        if at != len(raw):
            bad(f"{len(raw) - at} bytes are left over behind the message")
        return message

    def _read_progress(self, raw: bytes, at: int) -> tuple[Progress, int]:
        lower, at = _read_array(raw, at, self._read_times)
        upper, at = _read_array(raw, at, self._read_times)
        counts, at = _read_array(raw, at, self._read_counts)
        return Progress(lower, upper, counts), at

    # Whether numbers are times, the statement judges that is made of them.

    def _read_times(self, raw: bytes, at: int, number: int) -> tuple[list[Time], int]:
        if self.times == "int":
            numbers, at = read_longs(raw, at, number)
            return [*numbers], at
        times: list[Time] = []
        for _ in range(number):
            time, at = self._read_time(raw, at)
            times.append(time)
        return times, at

    def _read_counts(self, raw: bytes, at: int, number: int) -> tuple[list[tuple[Time, int]], int]:
        if self.times == "int":
            numbers, at = read_longs(raw, at, 2 * number)
            return [*zip(numbers[::2], numbers[1::2])], at
        counts: list[tuple[Time, int]] = []
        for _ in range(number):
            time, at = self._read_time(raw, at)
            count, at = read_long(raw, at)
            counts.append((time, count))
        return counts, at


def message_schema(row_type: RowType, times: Times, namespace: str) -> list[Any]:
    """The message schema of a row type, its own names in ``namespace`` (empty: plain)."""
    space = {"namespace": namespace} if namespace else {}
    time = time_schema(times)
    # The first use defines the record of a product time, the others name it.
    again = time if isinstance(time, str) else f"{namespace}.time" if namespace else "time"
    row = row_type.schema
    if not namespace:
        del row["namespace"]
    return [
        {"type": "array", "items": {"type": "record", "name": "update", **space, "fields": [
            {"name": "data", "type": row}, {"name": "time", "type": time}, {"name": "diff", "type": "long"}]}},
        {"type": "record", "name": "progress", **space, "fields": [
            {"name": "lower", "type": {"type": "array", "items": again}},
            {"name": "upper", "type": {"type": "array", "items": again}},
            {"name": "counts", "type": {"type": "array", "items": {"type": "record", "name": "counts", "fields": [
                {"name": "time", "type": again}, {"name": "count", "type": "long"}]}}}]},
    ]


def _write_array(out: bytearray, items: list[bytes]) -> None:
    if items:
        out += long_bytes(len(items))
        out += b"".join(items)
    out.append(0)


def _read_array(raw: bytes, at: int, read: Callable[[bytes, int, int], tuple[list[Any], int]]) -> tuple[list[Any], int]:
    items: list[Any] = []
    while True:
        count, at = read_long(raw, at)
        if not count:
            return items, at
        stop = None
        if count < 0:
            size, at = read_long(raw, at)
            if not 0 <= size <= len(raw) - at:
                bad(f"a block of {size} bytes where {len(raw) - at} are left")
            count, stop = -count, at + size
        if count > len(raw) - at:
            bad(f"{count} items are stated to follow in {len(raw) - at} bytes")
        some, at = read(raw, at, count)
        items += some
        if stop is not None and at != stop:
            bad("a block that is not as long as it states")


def _split(schema: object) -> tuple[Any, Times]:
    """The row schema and the kind of times in a message schema. Raises MalformedError where it is none."""
    if not isinstance(schema, list) or len(schema) != 2 or not all(isinstance(branch, dict) for branch in schema):
        raise MalformedError("a message schema is a union of two: an array of updates, and progress")
    update = _fields(schema[0].get("items"), "update", ("data", "time", "diff"))
    progress = _fields(schema[1], "progress", ("lower", "upper", "counts"))
    counts = progress["counts"]
    count = _fields(counts.get("items") if isinstance(counts, dict) else None, "counts", ("time", "count"))
    time, row = update["time"], update["data"]
    if not isinstance(row, dict):
        raise MalformedError("the data of the update record in a message schema is no record")
    if isinstance(time, dict) and time.get("type") == "record":
        names = [field.get("name") for field in time.get("fields", []) if _long(field.get("type"))]
        if time.get(MARK) != len(names) or len(names) != len(time["fields"]):
            raise MalformedError(f"the record of a product time holds longs only, and their number as {MARK!r}")
        return row, check_times(len(names))
    if not _long(time) or not _long(update["diff"]) or not _long(count["count"]):
        raise MalformedError("time, diff and count in a message schema are of type long")
    return row, "int"


def _long(schema: Any) -> bool:
    # An int has the bytes of a long.
    return (schema.get("type") if isinstance(schema, dict) else schema) in ("long", "int")


def _fields(schema: Any, name: str, wanted: tuple[str, ...]) -> dict[str, Any]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or [field.get("name") for field in fields] != list(wanted):
        raise MalformedError(f"a message schema has a record {name!r} of the fields {', '.join(wanted)}, in that order")
    if str(schema.get("name")).rpartition(".")[2] != name:
        raise MalformedError(f"the record with the fields {', '.join(wanted)} is called {name!r} in a message schema")
    return {field["name"]: field["type"] for field in fields}
