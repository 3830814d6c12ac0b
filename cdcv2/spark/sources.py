"""Logs as streaming DataFrames: Kafka topics, and directories of files, in one shape (``codec.RAW``).

A *place* is a topic or a directory; a table has one or more of them (copies of one log, in any overlap). Positions are
exact: topic, partition, offset; or directory, 0, file number, ordinal in the file. Spark's own record of what it has
read decides only what a micro-batch brings. What has been *absorbed* is decided by the reader's manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import ClassVar, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdcv2.errors import DecodeError, UsageError
from cdcv2.logs import log_json
from cdcv2.logs.container import Origin, unpack
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog, file_name, missing_file
from cdcv2.logs.kafka_topics import Topic
from cdcv2.logs.log_names import check_table, named_after
from cdcv2.logs.stops import Stop, in_headers
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times
from cdcv2.spark.codec import ARROW, RAW
from cdcv2.spark.paths import readable, streamable
from cdcv2.spark.topics import kafka_frame, reading

# What a directory log calls its files; nothing else in the directory is part of the log.
_NAMES = "[0-9]" * 20 + ".avro"
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
#: About so many bytes of messages go into one Arrow batch.
_BATCH = 4 << 20


@dataclass(frozen=True)
class LogPlace:
    """Where a copy of a table's log lies: ``kind`` is ``"topic"`` or ``"directory"``."""

    table: str
    kind: str
    name: str
    #: What Spark reads: no Products.
    times: ClassVar[Times] = "int"

    @classmethod
    def of(cls, address: LogAddress) -> LogPlace:
        """From the address of one log; without ``TABLE=`` it is called as the log is.

        Raises UsageError for a table that cannot be, and a directory that Spark cannot read as a stream.
        """
        name = address.name if address.is_topic else str(Path(address.name).absolute())
        table = check_table(address.table or (name if address.is_topic else named_after(name)))
        if not address.is_topic:
            streamable(name)
        return cls(table, address.kind, name)


@dataclass(frozen=True)
class LogSources:
    """All places that one query reads, and how much of them a micro-batch may bring.

    ``kafka`` are the settings of the Kafka clients as Java has them (``bootstrap.servers`` among them); ``messages``
    limits the Kafka messages of a batch, ``files`` the files of each directory.
    """

    places: Sequence[LogPlace]
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    messages: int | None = None
    files: int | None = None

    @property
    def topics(self) -> list[str]:
        """The topics among the places, sorted."""
        return sorted({place.name for place in self.places if place.kind == "topic"})

    @property
    def directories(self) -> list[str]:
        """The directories among the places, sorted."""
        return sorted({place.name for place in self.places if place.kind == "directory"})

    def stream(self, spark: SparkSession) -> DataFrame:
        """All of them as one streaming DataFrame of RAW."""
        frames = [self._directory(spark, name) for name in self.directories]
        if self.topics:
            frames.append(self._topics(spark))
        return reduce(DataFrame.unionByName, frames)

    def _topics(self, spark: SparkSession) -> DataFrame:
        options = reading(self.kafka)
        if self.messages is not None:
            options["maxOffsetsPerTrigger"] = str(self.messages)
        frame = (
            spark.readStream.format("kafka").options(**options).option("subscribe", ",".join(self.topics))
            .option("startingOffsets", "earliest").load()
        )
        return _from_kafka(frame)

    def _directory(self, spark: SparkSession, name: str) -> DataFrame:
        reader = spark.readStream.format("binaryFile").schema(_FILES).option("pathGlobFilter", _NAMES)
        # By default Spark overlooks a file that is a week older than the newest one.
        reader = reader.option("maxFileAge", "36500d")
        if self.files is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.files))
        return _from_files(reader.load(streamable(name)), name)


def row_type_of(directory: Path) -> RowType:
    """The row type that a directory log states. Raises MissingLogError; UsageError for times of another kind."""
    log = DirectoryLog(directory)
    if log.times != "int":
        raise UsageError(f"the times of {directory} have {log.times} coordinates: this job takes integer times only")
    return log.row_type


def read_files(spark: SparkSession, directory: str, numbers: Iterable[int]) -> DataFrame:
    """Some files of a directory log, by number, as RAW. Raises UnsafeTopicError if one is missing."""
    paths = {number: Path(directory) / file_name(number) for number in numbers}
    for number, path in paths.items():
        if not path.exists():
            raise missing_file(directory, number)
    return _from_files(spark.read.format("binaryFile").load([readable(path) for path in paths.values()]), directory)


def read_offsets(
    spark: SparkSession, kafka: Mapping[str, str], topic: str, part: int, first: int, end: int
) -> DataFrame:
    """The messages of a partition from offset ``first`` to before ``end``, as RAW."""
    return _from_kafka(kafka_frame(spark, kafka, {(topic, part): (first, end)}))


class LogFacts(NamedTuple):
    """What a log states of itself, and the stops that it keeps."""

    description: LogDescription
    stops: tuple[Stop, ...] = ()


def stated(spark: SparkSession, kafka: Mapping[str, str], topics: Iterable[Topic]) -> dict[str, LogFacts]:
    """What topics state of their logs, by the last message of each partition; those without a message are left out.

    Raises ForeignStateError where messages of one topic disagree, RefusedError for a stop that cannot be read.
    """
    found: dict[str, LogFacts] = {}
    for topic in topics:
        lasts = {(topic.name, part): (high - 1, high) for part, (low, high) in topic.spans.items() if low < high}
        if not lasts:
            continue
        frame = kafka_frame(spark, kafka, lasts, headers=True)
        description, stops = LogDescription(), list[Stop]()
        for row in frame.select("headers").collect():
            headers = tuple((one["key"], bytes(one["value"] or b"")) for one in row["headers"] or ())
            description = LogDescription.from_headers(headers).joined(description, topic.name)
            stops += in_headers(headers)
        found[topic.name] = LogFacts(description, tuple(stops))
    return found


def _from_kafka(frame: DataFrame) -> DataFrame:
    return frame.select(
        F.col("topic").alias("place"), F.col("partition").alias("part"), "offset", F.lit(0).alias("index"), "value",
        F.lit(None).cast("string").alias("fault"),
    )


def _from_files(frame: DataFrame, directory: str) -> DataFrame:
    stated = log_json.read(Path(directory)).description
    place = Origin(stated.identity, stated.timeline, None)
    return frame.select("path", "content").mapInArrow(_unpacker(directory, place), RAW)


def _unpacker(directory: str, place: Origin) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch.column("path").to_pylist(), batch.column("content").to_pylist()):
                yield from _messages(directory, place, path, content)

    return unpack


def _messages(directory: str, place: Origin, path: str, content: bytes) -> Iterator[pa.RecordBatch]:
    """The messages in a file, as Arrow batches of RAW; a fault where the file breaks off, or is another log's."""
    number = int(path[-len(file_name(0)):-len(".avro")])
    values: list[bytes | None] = []
    first = size = 0
    fault = None
    try:
        for value in unpack(content, place._replace(number=number)):
            values.append(value)
            size += len(value)
            if size > _BATCH:
                yield _batch(directory, number, first, values, None)
                first, size, values = first + len(values), 0, []
    except DecodeError as error:
        fault = error.reason
        values.append(None)
    if values:
        yield _batch(directory, number, first, values, fault)


def _batch(directory: str, number: int, first: int, values: list[bytes | None], fault: str | None) -> pa.RecordBatch:
    size = len(values)
    faults = [None] * size if fault is None else [*[None] * (size - 1), fault]
    return pa.RecordBatch.from_pydict(
        {
            "place": [directory] * size, "part": [0] * size, "offset": [number] * size,
            "index": list(range(first, first + size)), "value": values, "fault": faults,
        },
        schema=ARROW,
    )
