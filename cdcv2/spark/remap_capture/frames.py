"""The records of exact ranges of offsets, as a frame: those of a binding, no more and no less.

The driver itself asks how far topics are, and which of their records are missing
(:class:`~cdcv2.capture.topics.Ranges`); this module only reads the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdcv2.capture.topics import Ranges
from cdcv2.protocol.log import Place
from cdcv2.spark.topics import kafka_frame, settings


class Frames(Protocol):
    """Where the records come from. Called on the driver, by one thread."""

    def frame(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """``topic, partition, offset, key, value`` from each range's first offset up to, not including, the second.

        No range is empty. A missing record is an error, when the frame is made or when it is read.
        """


class KafkaFrames:
    """Topics of a cluster, read by the executors; ``config_file`` has settings as Java's clients have them."""

    def __init__(self, bootstrap: str | None, config_file: str | None = None) -> None:
        self._java = settings(bootstrap, config_file)

    def frame(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """See :class:`Frames`."""
        return kafka_frame(spark, self._java, ranges, tasks=spark.sparkContext.defaultParallelism)


class MemoryFrames:
    """Records that the driver can read, as those of dumps, which it holds in memory: for small things."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def frame(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """See :class:`Frames`."""
        records = list(self._ranges.read(ranges))
        kinds = [pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.binary()]
        columns: list[tuple[object, ...]] = list(zip(*records)) or [()] * 5
        names = ("topic", "partition", "offset", "key", "value")
        return spark.createDataFrame(
            pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds)})
        )
