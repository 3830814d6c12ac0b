"""A pipeline: its sources, captures and views, with the fields that its file states of each.

:mod:`cdcv2.control.pipeline_file` reads them. Timers, instances and replays have modules of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from cdcv2.control.instance_fields import InstanceFields
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.control.spark_fields import SparkFields
from cdcv2.control.timer_fields import TimerFields
from cdcv2.control.yaml_lines import LineError, YamlNode
from cdcv2.errors import UsageError
from cdcv2.store.connect_client import ConnectClient
from cdcv2.suggestions import meant


@dataclass(frozen=True)
class OwnedObject:
    """Something in a foreign system. ``owned``: it is made and removed by cdcv2, and not by somebody else.

    ``name`` is None where the file leaves it to the connector.
    """

    name: str | None
    owned: bool
    node: YamlNode = field(repr=False)


@dataclass(frozen=True)
class ConnectorFields:
    """A connector; ``url``: where Connect's REST interface is; ``login``: a file in the form of netrc with the login
    there; ``config``: a file with the connector's settings.
    """

    name: str
    url: str | None
    login: Path | None
    owned: bool
    config: Path | None
    node: YamlNode = field(repr=False)

    def client(self, *, patience: float) -> ConnectClient | None:
        """A client of its Kafka Connect; None: the file does not name it. Raises UsageError for its login."""
        return None if self.url is None else ConnectClient(self.url, self.login, patience=patience)


@dataclass(frozen=True)
class SourceFields:
    """A database, and the connector that writes its changes to topics."""

    name: str
    prefix: str
    notifications: str | None
    connector: ConnectorFields | None
    slot: OwnedObject
    publication: OwnedObject
    node: YamlNode = field(repr=False)
    postgres: YamlNode | None = field(repr=False)

    def conninfo(self) -> str | None:
        """The connection string, with its secrets; None: the file has none. Raises UsageError with the line."""
        return None if self.postgres is None else self.postgres.conninfo()


@dataclass(frozen=True)
class CaptureFields:
    """A capture, with its arguments as ``cdcv2 capture`` has them: as ``words`` of a command line, and read.

    ``owned``: whether cdcv2 up makes and removes its logs and its remap (True), or others do (False); None: the capture
    makes what is missing, and it stays.
    """

    name: str
    source: SourceFields | None
    words: tuple[str, ...]
    arguments: argparse.Namespace = field(repr=False)
    #: Where its logs go, as the file has it.
    into: YamlNode = field(repr=False)
    options: Mapping[str, YamlNode] = field(repr=False)
    node: YamlNode = field(repr=False)
    owned: bool | None = None
    #: How it runs on Spark; None: as a command.
    spark: SparkFields | None = None

    def following(self, follow: bool) -> argparse.Namespace:
        """The arguments of a run. Raises UsageError with the line where dumps are to be followed."""
        if follow and "from" in self.options:
            self.options["from"].fail("a dump does not grow: leave 'from' out, or --follow")
        return argparse.Namespace(**{**vars(self.arguments), "follow": follow})

    def fail(self, error: UsageError) -> NoReturn:
        """Raise the error with the line of the option that it names, or of the capture."""
        if isinstance(error, LineError):
            raise error
        named = [part for name, part in self.options.items() if f"--{name}" in str(error)]
        (named[0] if named else self.node).fail(error)


@dataclass(frozen=True)
class ViewFields:
    """A materialization: the fields of its file, by their names; paths are from the ``folder``.

    ``owned``: whether cdcv2 up makes and removes its tables or topics (True), or others do (False); None: the job makes
    what is missing, and it stays.
    """

    name: str
    node: YamlNode = field(repr=False)
    fields: Mapping[str, YamlNode] = field(repr=False)
    folder: Path
    capture: str | None = None
    owned: bool | None = None
    #: How it runs on Spark; None: as a command.
    spark: SparkFields | None = None


@dataclass(frozen=True)
class Pipeline:
    """The content of the file. ``kafka``: a broker's address, and a file of settings."""

    name: str
    path: Path
    state: Path
    kafka: tuple[str | None, Path | None]
    rows: Path
    sources: Mapping[str, SourceFields]
    captures: Mapping[str, CaptureFields]
    views: Mapping[str, ViewFields]
    node: YamlNode = field(repr=False)
    timers: Mapping[str, TimerFields] = field(default_factory=dict)
    instances: Mapping[str, InstanceFields] = field(default_factory=dict)
    replays: Mapping[str, ReplayFields] = field(default_factory=dict)

    @property
    def readers(self) -> dict[str, ViewFields | ReplayFields]:
        """What keeps tables elsewhere that logs have: its views and its replays."""
        return {**self.views, **self.replays}

    def view(self, name: str | None) -> ViewFields:
        """The view of this name; None: the only one. Raises UsageError."""
        if name is None and len(self.views) == 1:
            return next(iter(self.views.values()))
        there = f"the pipeline {self.name} has {', '.join(self.views) or 'no views'}"
        if name is None:
            raise UsageError(f"{self.path}: which view? {there}: name one with --view")
        if name not in self.views:
            raise UsageError(f"{self.path}: there is no view {name!r}: {there}{meant(name, self.views)}")
        return self.views[name]


def kafka_words(bootstrap: str | None, config: Path | str | None) -> list[str]:
    """How Kafka is reached, as the words of a command line."""
    words = [f"--bootstrap={bootstrap}"] if bootstrap else []
    return [*words, *([f"--kafka-config={config}"] if config else [])]
