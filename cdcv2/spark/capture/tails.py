"""The logs that a capture writes, and by what its next life knows them again: not by name and length alone.

A capture's memory has, of each log, a :class:`~cdcv2.capture.memory.LogTail`: how far it is stated, up to
where it was read, and *marks*, of a topic what Kafka calls it, of a directory digests of its files.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cdcv2.capture.memory import LogTail, missing_logs
from cdcv2.capture.memory_format import FORGET
from cdcv2.errors import ForeignStateError, MissingLogError, UsageError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.log import Log, Positions
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.log_identity import check_ends
from cdcv2.rows.row_type import RowType
from cdcv2.spark import file_digests


@dataclass(frozen=True)
class LogSpec:
    """Which log a table is written to: enough for an executor to open it.

    ``topic`` or ``folder`` is given; the rest is for Kafka: ``config_file`` as :class:`~cdcv2.logs.kafka.Client` takes
    it, ``partitions`` for a topic that is made, ``create`` whether it may be made. ``description`` is what the log
    states of itself.
    """

    table: str
    row_type: RowType
    folder: str | None = None
    topic: str | None = None
    bootstrap: str | None = None
    config_file: str | None = None
    partitions: int = 1
    description: LogDescription = LogDescription()
    create: bool = True

    @classmethod
    def of(
        cls, logs: LogAddress, table: str, row_type: RowType, options: argparse.Namespace,
        description: LogDescription = LogDescription(),
    ) -> LogSpec:
        """The log of a table among those at an address, with a job's options for Kafka. Raises UsageError."""
        address = logs.of(table)
        if not address.is_topic:
            return cls(table, row_type, folder=str(Path(address.name).absolute()), description=description)
        bootstrap = options.log_bootstrap or options.bootstrap
        if bootstrap is None:
            raise UsageError("logs in Kafka need --bootstrap HOST:PORT or --log-bootstrap HOST:PORT")
        return cls(
            table, row_type, topic=address.name, bootstrap=bootstrap, config_file=options.kafka_config,
            partitions=options.partitions, description=description, create=not options.no_create,
        )

    def open(self, *, create: bool = False, writing: bool = False) -> Log:
        """The log; with ``create`` it is made if it is not there, and may be; see KafkaLog.

        Raises UsageError unless it is a directory or a topic, and what opening raises.
        """
        if self.folder is not None:
            return DirectoryLog(self.folder, self.row_type, create=create, description=self.description)
        if self.topic is None or self.bootstrap is None:
            raise UsageError(f"the log of {self.table} is neither a directory nor a topic with a bootstrap address")
        from cdcv2.logs.kafka import KafkaLog

        return KafkaLog(
            self.topic, self.bootstrap, self.row_type, config_file=self.config_file, create=create and self.create,
            writing=writing, partitions=self.partitions, description=self.description,
        )

    def described(self, log_set: LogDescription) -> LogSpec:
        """The same log, of this timeline and log set."""
        whole = replace(self.description, timeline=log_set.timeline, log_set=log_set.log_set)
        return replace(self, description=whole)

    def topic_id(self) -> str | None:
        """What Kafka calls the topic; None for a directory."""
        if self.topic is None:
            return None
        from cdcv2.store.kafka_client import Client

        return Client(self.bootstrap, self.config_file).topic_id(self.topic)

    @property
    def name(self) -> str:
        """The log's name for the memory, and for people."""
        return str(self.folder) if self.topic is None else str(LogAddress("topic", self.topic))


def opened(specs: Mapping[str, LogSpec], tails: Mapping[str, LogTail]) -> dict[str, Log]:
    """The logs, by table. A missing log is made, unless it has a tail: a removed log must not come back as a new one.

    Raises ForeignStateError for a missing log with a tail, and what opening raises.
    """
    logs: dict[str, Log] = {}
    for table, spec in sorted(specs.items()):
        try:
            logs[table] = spec.open(create=table not in tails, writing=True)
        except MissingLogError as error:
            raise missing_logs(error) from error
    return logs


def recognized(
    specs: Mapping[str, LogSpec], logs: Mapping[str, Log], tails: Mapping[str, LogTail]
) -> dict[str, dict[str, str]]:
    """By what each log is known again after a restart, by table; see :func:`marked`. For a topic, that is its id.

    Raises ForeignStateError for a log that is not the one that its tail was read of.
    """
    found: dict[str, dict[str, str]] = {}
    for table, spec in specs.items():
        tail = tails.get(table)
        if tail is not None:
            check_ends(logs[table].name, tail.positions, logs[table].ends(), _REMEDY)
        known = dict(tail.marks) if tail else {}
        if spec.folder is not None:
            if tail is not None:
                file_digests.check(spec.folder, _files(known), None, _REMEDY)
            found[table] = known
            continue
        found[table] = {"topic": str(spec.topic_id())}
        if known and known != found[table]:
            raise ForeignStateError(
                f"the topic {spec.topic} was made again: the capture's memory is of another one of that name: {_REMEDY}"
            )
    return found


def marked(
    specs: Sequence[LogSpec], positions: Mapping[str, Positions], known: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """By what each log is known again after a restart, by table, now that it is read up to ``positions``.

    A log in a directory is known by digests of its files: number of the file -> digest (see :mod:`file_digests
    <cdcv2.spark.file_digests>`). Those in ``known``, of earlier calls, are kept, and those of files read since are
    taken. A log in a topic is known by the topic's id, as in ``known``. Raises UnavailableError where a file cannot be
    read.
    """
    found = {table: dict(of) for table, of in known.items()}
    for spec in specs:
        if spec.folder is not None:
            taken = file_digests.marks(spec.folder, positions[spec.table].get(0, 0), _files(known[spec.table]))
            found[spec.table] = {str(file): mark for file, mark in taken.items()}
    return found


def _files(known: Mapping[str, str]) -> dict[int, str]:
    return {int(file): mark for file, mark in known.items()}


_REMEDY = f"bring the log back, or {FORGET}"
