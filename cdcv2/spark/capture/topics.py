"""Where the source's records come from, behind one small seam: Kafka's topics, or files that topics were dumped to.

Capture asks a source for two things: a stream of what is new, from given positions on; and certain ranges of it once
more, when the rows in them are released. Both are frames of ``topic, partition, offset, key, value``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Record
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.capture.topics_check import check_dumped, check_meet
from cdcv2.connectors import kafka_topics
from cdcv2.connectors.dump_files import LINE_WITHOUT_VALUE, NEGATIVE, VALUE_NAMES, gap
from cdcv2.errors import MalformedError, MissingLogError
from cdcv2.protocol.log import Place, plain_places
from cdcv2.spark.capture.batch_facts import PartitionSpan
from cdcv2.spark.paths import nameable, readable, streamable
from cdcv2.spark.topics import describe, kafka_frame, reading, settings
from cdcv2.store.kafka_client import PATIENCE, Client

#: A line of a dump; of the names of a value, one is there.
_DUMPED = f"topic string, partition int, offset long, key string, {', '.join(f'{name} string' for name in VALUE_NAMES)}"
#: How Spark's Kafka source writes "from the start".
_EARLIEST = -2


class SparkTopics(Protocol):
    """The source of a capture. Called on the driver, by one thread."""

    def binding(self) -> str:
        """The identity of this source, for the capture's state."""

    def check(self, spark: SparkSession, positions: Mapping[Place, int]) -> dict[str, str]:
        """Raise unless everything from ``positions`` on (default: from the start) is there and will stay.

        Returns, for each existing topic, an identity that another one of its name would not have, if Kafka has one.
        Raises MissingLogError, UnsafeTopicError, UnavailableError.
        """

    def check_meet(self, spark: SparkSession, *, follow: bool, remark: Callable[[str], object]) -> bool:
        """Whether all is there that a capture must have; if not, one that follows waits for it.

        What lacks, and that the tables have no topic while others do, goes to ``remark``. Raises MissingLogError for
        one that does not follow; see :mod:`cdcv2.capture.topics_check`.
        """

    def missing(self, spark: SparkSession) -> list[str]:
        """The tables' topics that do not exist yet: the connector makes them at a table's first row."""

    def stream(self, spark: SparkSession, positions: Mapping[Place, int]) -> DataFrame:
        """Everything from ``positions`` on, as a stream; it may begin earlier."""

    def is_complete(self, counted: Mapping[Place, int], seen: Mapping[Place, PartitionSpan]) -> None:
        """Raise an error unless a micro-batch has all from ``counted`` on (none: from the start), each record once.

        Raises UnsafeTopicError for what lacks, MalformedError for what comes twice.
        """

    def ranges(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """The records in these ranges of offsets, both ends included."""

    def transactions(self, spark: SparkSession) -> Ranges:
        """The transaction topic, to be read by ranges of offsets on the driver."""

    def ends(self, spark: SparkSession) -> dict[Place, int]:
        """For each partition of the tables, the offset behind the last record that is there now."""


@dataclass(frozen=True)
class FileTopics:
    """Topics that were dumped to JSON lines (``connectors/dump_files.py`` has the format), in the files of a directory.

    The files are read in the order of their modification times, ``files`` of them at a time (None: all that are
    there), and the records of a partition must come in the order of their offsets.
    """

    folder: Path
    recipe: DatabaseConnector
    files: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a directory that Spark cannot read as a stream."""
        streamable(self.folder)

    def binding(self) -> str:
        """The directory."""
        return f"files in {self.folder}"

    def check(self, spark: SparkSession, positions: Mapping[Place, int]) -> dict[str, str]:
        """Raise MissingLogError unless the directory is there; it has no identities."""
        nameable(spark, self.folder)
        if not self.folder.is_dir():
            raise MissingLogError(f"there is no directory {self.folder} with dumped topics")
        return {}

    def check_meet(self, spark: SparkSession, *, follow: bool, remark: Callable[[str], object]) -> bool:
        """Of the topics that lines name; one that has no line yet is as good as empty. Cost: a scan of the files."""
        if self.folder.is_dir():
            there = [row["topic"] for row in dumped_topics(spark, self.folder).distinct().collect()]
            if not follow:
                check_dumped(self.recipe, there)
            check_meet(self.recipe, there, follow=follow, remark=remark)
        return True

    def missing(self, spark: SparkSession) -> list[str]:
        """None: what has no file yet is as good as empty."""
        return []

    def stream(self, spark: SparkSession, positions: Mapping[Place, int]) -> DataFrame:
        """All of it, as files know no positions; the tally passes over what was counted."""
        return dumped_stream(spark, self.folder, self.files)

    def is_complete(self, counted: Mapping[Place, int], seen: Mapping[Place, PartitionSpan]) -> None:
        """By the first offset, the last one and how many there are; topics without a use are not checked."""
        needed = set(self.recipe.topics())
        for place, span in sorted(seen.items()):
            if place[0] in needed:
                check_dumped_span(self.folder, place, counted.get(place, 0), span)

    def ranges(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """Reads all files: this source is for small things. What several files have is one record."""
        wanted = [_inside(place, low, high) for place, (low, high) in ranges.items()]
        frame = self._read(spark)
        return _records(frame.where(reduce(Column.__or__, wanted, F.lit(False)))).dropDuplicates()

    def transactions(self, spark: SparkSession) -> Ranges:
        """Of the files."""
        return _FileRanges(self, spark)

    def ends(self, spark: SparkSession) -> dict[Place, int]:
        """Behind the greatest offset in the files."""
        found = self._read(spark).groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect()
        return {(row["topic"], row["partition"]): row["last"] + 1 for row in found if self.recipe.table(row["topic"])}

    def _read(self, spark: SparkSession) -> DataFrame:
        return _dumped(spark.read.text(readable(self.folder)))


def dumped_topics(spark: SparkSession, folder: Path) -> DataFrame:
    """The ``topic`` of each line of a directory of dumps."""
    lines = spark.read.text(readable(folder))
    return lines.select(F.get_json_object("value", "$.topic").alias("topic")).where("topic IS NOT NULL")


def dumped_stream(spark: SparkSession, folder: Path, files: int | None = None) -> DataFrame:
    """All records of a directory of dumps, as a stream, of ``files`` files at a time (None: all that are there)."""
    # By default Spark overlooks a file that is a week older than the newest one.
    reader = spark.readStream.option("maxFileAge", "36500d")
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", str(files))
    return _records(_dumped(reader.text(streamable(folder))))


def check_dumped_span(folder: Path, place: Place, wanted: int, span: PartitionSpan) -> None:
    """Raise UnsafeTopicError if a dump lacks records of a partition, MalformedError if it has one twice."""
    low, high, records, offsets = span
    if low > wanted:
        raise gap(str(folder), place, f"{wanted}" if low == wanted + 1 else f"{wanted} to {low - 1}")
    # A record that is there twice must not stand for one that is missing.
    if offsets < high + 1 - low:
        raise gap(str(folder), place, f"{high + 1 - low - offsets} offsets between {low} and {high}")
    if records > offsets:
        raise MalformedError(
            f"in the dump {folder} the topic {place[0]!r} has offsets between {low} and {high} more than once in "
            f"partition {place[1]}: the dump is at fault; keep each record in one file only"
        )


class _FileRanges:
    """The transaction topic in dumped files."""

    def __init__(self, topics: FileTopics, spark: SparkSession) -> None:
        self._topics, self._spark = topics, spark
        self._place = topics.recipe.transaction_topic, 0

    def look(self) -> TopicExtents:
        """From the least offset in the files to the greatest."""
        own = self._topics._read(self._spark).where(F.col("topic") == self._place[0])
        found = own.agg(F.min("offset").alias("low"), F.max("offset").alias("high")).collect()[0]
        return TopicExtents({} if found["low"] is None else {self._place: (found["low"], found["high"] + 1)})

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The records, in order."""
        found = self._topics.ranges(self._spark, {place: (low, high - 1) for place, (low, high) in ranges.items()})
        columns = found.orderBy("offset").toArrow()
        for topic, part, offset, key, value in zip(*(column.to_pylist() for column in columns.columns)):
            yield Record(topic, part, offset, key, value)


def _inside(place: Place, low: int, high: int) -> Column:
    topic, part = place
    return (F.col("topic") == topic) & (F.col("partition") == part) & F.col("offset").between(low, high)


def _dumped(lines: DataFrame) -> DataFrame:
    """The records in the lines of a dump.

    The lines are read as text: a reader of JSON does not distinguish a value that is absent from one that is null.
    """
    line = F.col("value")
    names = F.json_object_keys(line)
    there = [F.array_contains(names, name) for name in VALUE_NAMES]
    place = F.concat(F.lit(": "), F.input_file_name(), F.lit(": "), F.substring(line, 1, 200))
    negative, lacks = (F.raise_error(F.concat(F.lit(why), place)) for why in (NEGATIVE, LINE_WITHOUT_VALUE))
    value = lacks.cast("string")
    for name, has in zip(reversed(VALUE_NAMES), reversed(there)):
        value = F.when(has, F.col(f"line.{name}")).otherwise(value)
    value = F.when(F.least("line.partition", "line.offset") < 0, negative.cast("string")).otherwise(value)
    record = F.from_json(line, _DUMPED, {"mode": "FAILFAST"}).alias("line")
    parsed = lines.where(F.trim(line) != "").select("value", record)
    return parsed.select("line.topic", "line.partition", "line.offset", "line.key", value.alias("value"))


def _records(frame: DataFrame) -> DataFrame:
    return frame.select(
        "topic", "partition", "offset", F.col("key").cast("binary").alias("key"),
        F.col("value").cast("binary").alias("value"),
    )


class SparkKafkaTopics:
    """The connector's topics in the cluster at ``bootstrap`` (None: as in the settings).

    ``config_file`` holds settings as Java's clients have them (TLS, SASL); they serve Spark, which reads the records,
    and the client of ``cdcv2.connectors``, which asks what is there and waits ``patience`` seconds for the answer.
    ``records`` limits a micro-batch (None: all that is there).

    Only committed records are read. With a transactional connector the end of a partition is a marker, which no
    reader sees: give such a capture a notification topic, or its snapshot is whole only with the first row after it.
    """

    def __init__(
        self, bootstrap: str | None, recipe: DatabaseConnector, *, config_file: str | None = None,
        records: int | None = None, patience: float = PATIENCE,
    ) -> None:
        self._java = settings(bootstrap, config_file)
        self._asked = kafka_topics.KafkaTopics(Client(bootstrap, config_file, patience=patience), recipe)
        self._recipe, self._records = recipe, records

    def binding(self) -> str:
        """A cluster may be reached by many addresses, and topics have identities: nothing more."""
        return "kafka"

    def check(self, spark: SparkSession, positions: Mapping[Place, int]) -> dict[str, str]:
        """Also that the transaction topic is there and has one partition, and that none is compacted."""
        names = sorted({topic for topic, _ in self._asked.check(positions)})
        return {topic.name: topic.identity for topic in describe(spark, self._java, names)}

    def check_meet(self, spark: SparkSession, *, follow: bool, remark: Callable[[str], object]) -> bool:
        """Whether the transaction topic is there."""
        listed = self._asked.topics()
        lacks = self._asked.lacks(listed)
        if lacks is not None and follow:
            remark(f"waiting: {lacks}")
            return False
        if lacks is None:
            check_meet(self._recipe, listed, follow=follow, remark=remark)
        return True

    def missing(self, spark: SparkSession) -> list[str]:
        """Topics that do not exist yet."""
        return self._asked.missing()

    def stream(self, spark: SparkSession, positions: Mapping[Place, int]) -> DataFrame:
        """Exactly what is behind the positions; topics and partitions that appear later, from their start."""
        start = plain_places({place: positions.get(place, _EARLIEST) for place in self._asked.ends()})
        # A pattern, as a list would have to name topics that exist; Spark looks for it anywhere in a name.
        pattern = f"^({'|'.join(re.escape(topic) for topic in self._recipe.topics())})$"
        reader = spark.readStream.format("kafka").options(**reading(self._java)).option("subscribePattern", pattern)
        if self._records is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self._records))
        return reader.option("startingOffsets", json.dumps(start)).load()

    def is_complete(self, counted: Mapping[Place, int], seen: Mapping[Place, PartitionSpan]) -> None:
        """Spark fails if an offset is missing; those of the markers of transactions never had a record."""

    def ranges(self, spark: SparkSession, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        """By offset, partition by partition."""
        behind = {place: (low, high + 1) for place, (low, high) in ranges.items()}
        return kafka_frame(spark, self._java, behind)

    def transactions(self, spark: SparkSession) -> Ranges:
        """By the client that asks."""
        return self._asked.ranges(self._recipe.transaction_topic)

    def ends(self, spark: SparkSession) -> dict[Place, int]:
        """Asked now."""
        return {place: end for place, end in self._asked.ends().items() if self._recipe.table(place[0])}
