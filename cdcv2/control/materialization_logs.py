"""The logs of a materialization's file: named by the same words as on a command line, with the row types of topics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cdcv2.control.yaml_lines import YamlNode
from cdcv2.errors import MissingLogError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_names import named_after
from cdcv2.logs.named_logs import NamedLog, directory_logs, manifest_tables, missing_log
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.suggestions import meant


class FileLogs:
    """Opens the logs that the file names.

    Args:
        folder: that of the file.
        path: the path in a part of the file, of a file that is no log.
        types: the folder with the row types of topics, LOG.avsc, where the file names one.
        bootstrap: a broker of Kafka; ``config``: a file of settings.
    """

    def __init__(
        self, folder: Path, path: Callable[[YamlNode], Path], types: YamlNode | None, bootstrap: str | None,
        config: Path | None,
    ) -> None:
        self._folder, self._path, self._types = folder, path, types
        self._bootstrap, self._config = bootstrap, config

    def logs(self, part: YamlNode, bound: dict[YamlNode, str]) -> list[NamedLog]:
        """The logs that the bindings need; ``bound`` has the name of each binding's log."""
        if part.is_text:
            address = part.made_by(lambda: LogAddress.parse(part.text()))
            return self._topics(part, address, bound) if address.is_topic else self._captured(part, address, bound)
        given = dict(part.entries())
        for binding, name in bound.items():
            if name not in given:
                binding.fail(f"there is no log {name!r}; there are {', '.join(given)}{meant(name, given)}")
        for name, one in given.items():
            if name not in bound.values():
                one.fail(f"no binding keeps the log {name!r}: bind it, or leave it out")
            if not one.items():
                one.fail(f"the log {name!r} is an empty list: name a log, or copies of one")
        return [self._opened(name, copy) for name, one in given.items() for copy in one.items()]

    def _captured(self, part: YamlNode, address: LogAddress, bound: dict[YamlNode, str]) -> list[NamedLog]:
        """What a capture wrote into a directory."""
        into = self._folder / address.name
        found = {named_after(folder): folder for folder in _missing(part, lambda: directory_logs(into))}
        for binding, name in bound.items():
            if name not in found and name in manifest_tables(into):
                raise missing_log(into / name)
            if name not in found:
                there = f"there are {', '.join(found)}{meant(name, found)}"
                binding.fail(f"there is no log {name!r} in {part.text()}; {there}")
        return [_directory(name, found[name]) for name in dict.fromkeys(bound.values())]

    def _topics(self, part: YamlNode, address: LogAddress, bound: dict[YamlNode, str]) -> list[NamedLog]:
        """What a capture wrote into topics."""
        names = dict.fromkeys(bound.values())
        return [self._topic(name, part, part.made_by(lambda: address.of(name))) for name in names]

    def _opened(self, name: str, part: YamlNode) -> NamedLog:
        if part.is_text:
            address = part.made_by(lambda: LogAddress.parse(part.text()))
            if address.is_topic:
                part.made_by(address.demand_one)
                return self._topic(name, part, address)
            opened: NamedLog = _missing(part, lambda: _directory(name, self._folder / address.name))
            return opened
        fields = part.fields("kafka row")
        row_type = part.made_by(lambda: RowType.load(self._path(fields["row"])))
        topic = fields["kafka"].made_by(lambda: LogAddress.topic(fields["kafka"].text()))
        return self._topic(name, part, topic, row_type)

    def _topic(self, name: str, part: YamlNode, address: LogAddress, row_type: RowType | None = None) -> NamedLog:
        known = row_type or self._row_type(name, part, address)
        return NamedLog(name, _missing(part, lambda: self._kafka_log(address.name, known)), known)

    def _row_type(self, name: str, part: YamlNode, address: LogAddress) -> RowType:
        """What ``types`` states of a topic's rows."""
        if self._types is None:
            part.fail(
                f"the row type of {address} is not given, and Kafka does not know it: name a folder that has "
                f"{name}.avsc with types: DIR, or write {{kafka: {address.name}, row: FILE.avsc}}"
            )
        types, path = self._types, self._path(self._types) / f"{name}.avsc"
        return types.made_by(lambda: RowType.load(path))

    def _kafka_log(self, topic: str, row_type: RowType) -> Log:
        from cdcv2.logs.kafka import KafkaLog

        return KafkaLog(topic, self._bootstrap, row_type, config_file=self._config)


def _directory(name: str, folder: Path) -> NamedLog:
    log = DirectoryLog(folder)
    return NamedLog(name, log, log.row_type, log.times)


def _missing(part: YamlNode, make: Callable[[], Any]) -> Any:
    """What ``make`` returns; a log that is not there is an error with the line, and may be there later: no UsageError,
    after which a supervisor would not start the job again."""
    try:
        return part.made_by(make)
    except MissingLogError as cause:
        raise MissingLogError(part.place(cause)) from None
