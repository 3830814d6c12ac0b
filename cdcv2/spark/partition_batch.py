"""The records of a micro-batch, partition by partition, and the report on a message that cannot be decoded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdcv2.errors import DecodeError
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress
from cdcv2.spark.codec import POSITION, RowCodec


@dataclass
class PartitionBatch:
    """What one partition brought: its range, how many messages of updates, the statements, the first odd message."""

    place: str
    part: int
    least: int
    end: int
    updates: int
    statements: list[Row]
    odd: Row | None
    # Directories only: the numbers of the files.
    files: set[int]


def statements(codec: RowCodec, one: PartitionBatch) -> list[tuple[Progress, Position]]:
    """The statements of a partition, decoded, in the order of their positions. Raises DecodeError."""
    found = []
    for offset, index, value, _ in sorted(one.statements, key=lambda row: (row["offset"], row["index"])):
        position = Position(one.place, one.part, offset, index)
        try:
            message = codec.codec.decode(bytes(value))
        except DecodeError as error:
            raise DecodeError(error.reason, position=position, raw=error.raw) from None
        if isinstance(message, Progress):
            found.append((message, position))
    return found


def wrong(codec: RowCodec, raw: DataFrame, found: Row | None) -> DecodeError:
    """The error about the message from which ``found`` (with its position) was made.

    Raises LookupError where the message is missing.
    """
    if found is None:
        raise LookupError("the message that cannot be decoded is missing")
    position = Position(*(found[name] for name in POSITION))
    same = reduce(lambda a, b: a & b, (F.col(name) == found[name] for name in POSITION))
    message = raw.where(same).select("value").first()
    value = b"" if message is None else bytes(message["value"])
    return DecodeError(codec.reason(value), position=position, raw=value)
