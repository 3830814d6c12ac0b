"""What does it cost to make rows of a log's Avro bytes, and to replay them, beside decoding alone?

The baseline is a loop of fastavro's reader over the same bytes, which gives dictionaries, checks nothing and forgets
repeats and order. The input is a log of four-column rows, each fact twice, shuffled within 200 messages.
Two more cases ask what fastavro would cost in the place of our decoder: with its dictionaries made into rows, and with
what shows besides that the bytes are canonical, which is to write each message again and compare.
Expected: our decoder, which makes canonical rows and reads every message to its last byte, takes 1.1 times as long, and
``Iter`` on top 0.7 (docs/decisions/0360). Answer: ``results/avro_replay.csv``, from
``python -m benchmarks avro_replay``.
"""

from __future__ import annotations

import io
from random import Random
from typing import Any, NamedTuple

import fastavro

from benchmarks.harness import Case, Question
from cdcv2 import Iter, Progress, Updates, mangle
from cdcv2.logs.avro import MessageCodec
from cdcv2.protocol.messages import Message
from cdcv2.rows.row_type import RowType

UPDATES_PER_TIME = 10
TIMES_PER_STATEMENT = 20
ROWS = RowType(
    {
        "type": "record",
        "name": "payment",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "payer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "note", "type": ["null", "string"]},
        ],
    }
)


class Encoded(NamedTuple):
    """A mangled log as bytes, and what reads them."""

    values: list[bytes]
    codec: MessageCodec
    plain_schema: object
    updates: int


def encoded(seed: int, size: int) -> Encoded:
    """A log of ``size`` distinct updates, each fact twice."""
    random = Random(seed)
    codec = MessageCodec(ROWS)
    log: list[Message] = []
    upper = max(1, size // UPDATES_PER_TIME)
    for first in range(0, upper, TIMES_PER_STATEMENT):
        times = range(first, min(first + TIMES_PER_STATEMENT, upper))
        updates = [
            (ROWS.row((random.randrange(10**9), f"payer {random.randrange(10**5)}", random.random(), None)), time, 1)
            for time in times for _ in range(UPDATES_PER_TIME)
        ]
        log.append(Updates(updates))
        log.append(Progress([first], [times.stop], dict.fromkeys(times, UPDATES_PER_TIME)))
    log.append(Progress([upper], []))
    values = [codec.encode(message) for message in mangle(log, seed=seed, copies=2, window=200)]
    return Encoded(values, codec, fastavro.parse_schema(codec.schema), upper * UPDATES_PER_TIME)


def decoded_only(given: Encoded) -> dict[str, float]:
    """fastavro alone."""
    for value in given.values:
        fastavro.schemaless_reader(io.BytesIO(value), given.plain_schema)  # type: ignore[arg-type]
    return {"bytes per distinct update": sum(map(len, given.values)) / given.updates}


def _rows(message: Any) -> None:
    """An ``Updates`` message is an array, ``Progress`` a record."""
    if isinstance(message, list):
        [(ROWS.row(update["data"]), update["time"], update["diff"]) for update in message]


def into_rows(given: Encoded) -> None:
    """fastavro, and checked rows of its dictionaries."""
    for value in given.values:
        _rows(fastavro.schemaless_reader(io.BytesIO(value), given.plain_schema))  # type: ignore[arg-type]


def into_canonical_rows(given: Encoded) -> None:
    """The same, where each message is written again: other bytes are not canonical, or were passed by."""
    for value in given.values:
        message = fastavro.schemaless_reader(io.BytesIO(value), given.plain_schema)  # type: ignore[arg-type]
        again = io.BytesIO()
        fastavro.schemaless_writer(again, given.plain_schema, message)  # type: ignore[arg-type]
        if again.getvalue() != value:
            raise ValueError(f"{value!r} is not canonical")
        _rows(message)


def by_codec(given: Encoded) -> None:
    """Canonical rows, every byte accounted for."""
    for value in given.values:
        given.codec.decode(value)


def by_iter(given: Encoded) -> None:
    """Decoded and replayed."""
    reader = Iter(given.codec.decode(value) for value in given.values)
    released = sum(len(updates) for updates, _ in reader)
    if not reader.closed or released != given.updates:
        raise ValueError(f"{released} of {given.updates} updates came out, up to {reader.frontier}")


QUESTION = Question(
    prepare=encoded,
    baseline=Case("fastavro, decoding only", decoded_only),
    cases=[
        Case("MessageCodec", by_codec),
        Case("MessageCodec and Iter", by_iter),
        Case("fastavro, into rows", into_rows),
        Case("fastavro, into rows, written again", into_canonical_rows),
    ],
    size=100_000,
    unit="distinct updates",
    versions=("fastavro",),
)
