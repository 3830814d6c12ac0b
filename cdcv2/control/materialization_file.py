"""The content of a materialization's YAML file: logs, bindings, a target, a recovery log.

::

    materialization: shop
    logs:
      orders: logs/public.orders                   a directory; a list of several: copies
      items: kafka:items                           a topic; of the row type in types, or {kafka: items, row: FILE}
    kafka: {bootstrap: localhost:9092, config: kafka.properties}
    bindings:
      - {log: orders, target: orders, key: [order_id]}
      - {log: items, target: totals, key: [order_id], reduce: {n: count, total: {sum: price}}, deletes: soft}
    target: {driver: postgres, conninfo: "host=db dbname=copy password=${COPY_PASSWORD}"}
    recovery_log: shop-recovery
    rows: 100000
    types: rows
    quarantine: quarantine

``logs: logs``, or ``logs: kafka:NAME.{table}``, are those that a capture wrote. ``types``: a folder with row schemas,
LOG.avsc: the row types of topics, which state none, and the types that columns have in the source, in place of what the
logs' own schemas state. ``quarantine``: decisions about contradictions in the logs. Paths are from the file's folder.

The file is long because it is the form above, in code: each key is read, and its errors are named, in the order of
that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cdcv2.control.materialization_logs import FileLogs
from cdcv2.control.pipeline import ViewFields
from cdcv2.control.pipeline_file import is_pipeline, pipeline_of
from cdcv2.control.plan import MaterializationPlan, TargetContent
from cdcv2.control.quarantine_field import QUARANTINE, quarantine_folder
from cdcv2.control.yaml_lines import YamlNode, load
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import FIELD
from cdcv2.logs.named_logs import NamedLog, check_timeline, demand_ordered
from cdcv2.materialize import (
    Count, Driver, FileRecoveryLog, Last, Max, Min, RecoveryLog, SqliteRecoveryLog, Sum, ViewBinding,
)
from cdcv2.materialize.protocol.fence import Holding
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.delta.manifest import DeltaFolder
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.materialize.targets.manifests import Manifests
from cdcv2.rows.row_type import RowType
from cdcv2.store.broker_addresses import demand_brokers
from cdcv2.suggestions import meant
from cdcv2.views.reductions import Reduction

#: Driver -> its settings: those that it needs, and those that it may have.
DRIVERS = {
    "postgres": ("", "conninfo"),
    "lake": ("folder", "files"),
    "delta": ("folder", ""),
    "kafka": ("", "bootstrap config prefix partitions create"),
    "webhook": ("url", "headers batch batch_bytes attempts timeout"),
    "process": ("command", "config resource patience acknowledge_patience"),
}
#: Those whose checkpoint is in a recovery log.
LOGGED = ("lake", "delta", "kafka", "webhook", "process")
#: Those that make tables or topics in a system of others.
MAKING = ("postgres", "kafka")
#: Those that keep what a retraction needs, unless their settings state that there is none.
_FOLLOWING: dict[str, Callable[[str, bool], Reduction]] = {"min": Min, "max": Max, "last": Last}
_REDUCTIONS: dict[str, Callable[[str], Reduction]] = {"sum": Sum, "min": Min, "max": Max, "last": Last}


#: What a materialization has besides its name.
_NEEDED, _OPTIONAL = "logs bindings target", "kafka recovery_log rows start timeline types quarantine"


def read_plan(path: str, view: str | None = None, *, create: bool = True) -> MaterializationPlan:
    """The plan in the file: of a materialization, or of the ``view`` of a pipeline (None: the only one).

    ``create``: whether the driver makes tables and topics that are missing; only those of PostgreSQL and Kafka know
    otherwise. Raises UsageError with the line, MissingLogError and UnavailableError of its logs, and RefusedError for
    those of transactions that are not in the order of their commits.
    """
    return _plan_of(materialization_in(load(path), Path(path), view), create=create)


def materialization_in(whole: YamlNode, path: Path, view: str | None) -> ViewFields:
    """The fields of the materialization that a file is, or of the ``view`` of a pipeline. Raises UsageError."""
    if is_pipeline(whole):
        return pipeline_of(whole, path).view(view)
    if view is not None:
        raise UsageError(f"--view {view}: {path} is one materialization, and no pipeline: leave --view out")
    fields = whole.fields(f"materialization {_NEEDED}", _OPTIONAL)
    return ViewFields(fields["materialization"].text(), fields["materialization"], fields, path.absolute().parent)


def check_view(given: ViewFields, types: Mapping[str, RowType]) -> list[Table]:
    """The tables of a view. Raises UsageError with the line of what is wrong in it, as far as this shows before there
    are logs.

    ``types``: table -> the type of the rows that its log will have.
    """
    reader, bound = _Reader(given.folder, given.fields), _bound(given)
    for part in bound:
        name = _log_of(part)
        if name not in types:
            part.fail(f"no capture writes the log {name!r}; there are {', '.join(types)}{meant(name, types)}")
    return [binding.view().table for binding in _Parts(reader, given, bound, types).bindings]


def target_cluster(given: ViewFields) -> tuple[str | None, Path | None]:
    """How a view with the driver kafka reaches Kafka: a broker's address, and a file of settings. Raises UsageError."""
    return _Reader(given.folder, given.fields).reached(dict(given.fields["target"].entries()))


def _plan_of(given: ViewFields, *, create: bool) -> MaterializationPlan:
    fields, bound = given.fields, _bound(given)
    reader = _Reader(given.folder, fields, create=create)
    logs = reader.logs(fields, {part: _log_of(part) for part in bound})
    demand_ordered(logs, "a view of")
    timeline = fields["timeline"].text() if "timeline" in fields else None
    fields["logs"].made_by(lambda: check_timeline(logs, timeline, naming=FIELD))
    if "types" in fields:
        logs = reader.typed(fields["types"], logs)
    parts = _Parts(reader, given, bound, {named.table: named.row_type for named in logs})
    target = fields["target"]
    return MaterializationPlan(
        given.name, logs, parts.bindings, parts.driver, parts.view, parts.recovery,
        rows=parts.rows, start=parts.start, kafka=reader.kafka(), timeline=timeline, lines=parts.lines,
        staging=reader.staging(target), store=reader.store(target, given.name, [one.target for one in parts.bindings]),
        quarantine=parts.quarantine,
    )  # fmt: skip


def _bound(given: ViewFields) -> list[YamlNode]:
    bound = given.fields["bindings"].items()
    if not bound:
        given.fields["bindings"].fail("there is no binding: name a log and a target")
    return bound


class _Parts:
    """What of a materialization is known without its logs, whose ``types`` of rows are given."""

    def __init__(
        self, reader: _Reader, given: ViewFields, bound: list[YamlNode], types: Mapping[str, RowType]
    ) -> None:
        fields, target = given.fields, given.fields["target"]
        self.bindings = [_binding(part, types) for part in bound]
        _demand_deletes(target, bound, self.bindings)
        if not given.name.strip():
            given.node.fail("the name is empty: write one")
        self.start = fields["start"].number() if "start" in fields else 0
        self.rows = fields["rows"].number(1) if "rows" in fields else 100_000
        named = fields.get(QUARANTINE)
        self.quarantine = None if named is None else quarantine_folder(named, reader.path)
        self.driver = reader.driver(target)
        tables = [binding.view().table for binding in self.bindings]
        self.view = reader.view(target, given.name, tables, self.start)
        self.recovery = reader.recovery(given.name, target, fields.get("recovery_log"))
        targets = [binding.target for binding in self.bindings]
        for part, text in zip(bound, targets):
            if targets.count(text) > 1:
                part.fail(f"two bindings have the target {text!r}: each needs a table of its own")
        #: Binding (by its target), and the target (None), as they stand in the file.
        self.lines: dict[str | None, YamlNode] = {**dict(zip(targets, bound)), None: target}


class _Reader:
    """The parts that lead to files and servers."""

    def __init__(self, folder: Path, fields: Mapping[str, YamlNode], *, create: bool = True) -> None:
        self._folder, self._create = folder, create
        self._kafka = fields["kafka"].fields("", "bootstrap config") if "kafka" in fields else {}
        # The directories of the logs, and of the captures that wrote them.
        self._taken = set[Path]()

    def path(self, part: YamlNode) -> Path:
        """A path from the file's folder, or a ``file:`` URI."""
        return part.path(self._folder)

    def own_folder(self, part: YamlNode) -> Path:
        """A folder that is written: none in which the logs are, where one might be called as the other."""
        folder = self.path(part)
        if folder.resolve() in self._taken:
            part.fail(f"{part.text()} holds the logs that are read: give what is written a folder of its own")
        return folder

    def logs(self, fields: Mapping[str, YamlNode], bound: dict[YamlNode, str]) -> list[NamedLog]:
        """The logs that the bindings need."""
        reader = FileLogs(self._folder, self.path, fields.get("types"), *self.reached(self._kafka))
        logs = reader.logs(fields["logs"], bound)
        for named in logs:
            if isinstance(named.log, DirectoryLog):
                self._taken |= _around(named.log.path)
            if named.times != "int":
                fields["logs"].fail(f"{named.log.name} has Product times: a materialization is of integer times")
        return logs

    def typed(self, part: YamlNode, logs: list[NamedLog]) -> list[NamedLog]:
        """The logs, with the types of the source as the row schemas in a folder state them."""
        folder = self.path(part)
        given = {named.table: folder / f"{named.table}.avsc" for named in logs}
        there = {table: part.made_by(partial(RowType.load, path)) for table, path in given.items() if path.exists()}
        if not there:
            part.fail(f"{folder} has the row schema of no log: {', '.join(path.name for path in given.values())}")
        for named in logs:
            if there.setdefault(named.table, named.row_type) != named.row_type:
                part.fail(f"{given[named.table]} is of other rows than {named.log.name}: name the schema of its rows")
        return [replace(named, row_type=there[named.table]) for named in logs]

    def kafka(self) -> tuple[str | None, Path | None]:
        """How the logs' topics are reached."""
        return self.reached(self._kafka)

    def reached(self, fields: dict[str, YamlNode]) -> tuple[str | None, Path | None]:
        """How to reach Kafka; by default as the logs are."""
        fields = fields if {"bootstrap", "config"} & set(fields) else self._kafka
        bootstrap = fields["bootstrap"].text_as(demand_brokers) if "bootstrap" in fields else None
        return bootstrap, self.path(fields["config"]) if "config" in fields else None

    def driver(self, part: YamlNode) -> Callable[[], Driver]:
        """What makes the driver; its settings are read at once."""
        names = dict(part.entries())
        if "driver" not in names:
            part.fail(f"'driver' is missing: one of {', '.join(DRIVERS)}")
        kind = names["driver"].one_of(*DRIVERS)
        if not self._create and kind not in MAKING:
            part.fail(f"--no-create goes with tables and topics, and the driver {kind!r} has none: leave it out")
        needed, optional = DRIVERS[kind]
        fields = part.fields(f"driver {needed}", optional)
        settings = {
            "postgres": self._postgres, "lake": self._lake, "delta": self._delta, "kafka": self._to_kafka,
            "webhook": self._webhook, "process": self._process,
        }  # fmt: skip
        make = settings[kind](fields)
        return lambda: part.made_by(make)

    def _postgres(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.postgres.driver import PostgresDriver
        from cdcv2.store.postgres_session import demand_readable

        named = fields.get("conninfo")
        conninfo = "" if named is None else named.made_by(lambda: demand_readable(named.conninfo()))
        return lambda: PostgresDriver(conninfo, create=self._create)

    def _lake(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.lake.driver import LakeDriver

        folder, files = self.own_folder(fields["folder"]), fields["files"].number(1) if "files" in fields else 8
        return lambda: LakeDriver(folder, files=files)

    def _delta(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.delta.driver import DeltaDriver

        folder = self.own_folder(fields["folder"])
        return lambda: DeltaDriver(folder)

    def _to_kafka(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.kafka.driver import KafkaDriver

        bootstrap, config = self.reached(fields)
        prefix = fields["prefix"].text() if "prefix" in fields else ""
        partitions = fields["partitions"].number(1) if "partitions" in fields else 1
        create = self._create and (fields["create"].flag() if "create" in fields else True)
        return lambda: KafkaDriver(bootstrap, prefix=prefix, config_file=config, create=create, partitions=partitions)

    def _webhook(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.webhook.driver import WebhookDriver

        headers = {name: one.text() for name, one in fields["headers"].entries()} if "headers" in fields else {}
        names = ("batch", "batch_bytes", "attempts")
        limits: dict[str, Any] = {name: fields[name].number(1) for name in names if name in fields}
        url, timeout = fields["url"].text(), fields["timeout"].number(1) if "timeout" in fields else 30
        return lambda: WebhookDriver(url, headers=headers, timeout=float(timeout), **limits)

    def _process(self, fields: dict[str, YamlNode]) -> Callable[[], Driver]:
        from cdcv2.materialize.targets.process.driver import ProcessDriver

        command = list(fields["command"].texts())
        config, resource = (_settings(fields[name]) if name in fields else {} for name in ("config", "resource"))
        named = [name for name in ("patience", "acknowledge_patience") if name in fields]
        seconds: dict[str, Any] = {name: float(fields[name].number(1)) for name in named}

        def make() -> Driver:
            return ProcessDriver(command, config, resource=resource, folder=self._folder, **seconds)

        # Whether there is such a program is asked before anything is made.
        fields["command"].made_by(make)
        return make

    def view(self, part: YamlNode, name: str, tables: list[Table], start: int) -> Callable[[], TargetContent]:
        """The function that looks at the target. It raises UsageError for a target that shows nothing."""
        fields = dict(part.entries())
        kind = fields["driver"].text()
        conninfo = fields["conninfo"].conninfo() if "conninfo" in fields else ""

        def look() -> TargetContent:
            if kind == "postgres":
                from cdcv2.materialize.targets.postgres.view import PostgresView

                return PostgresView(conninfo, name, tables, Antichain([start]))
            if kind == "lake":
                from cdcv2.materialize.targets.lake.driver import open_lake

                return open_lake(self.path(fields["folder"]))
            if kind == "delta":
                from cdcv2.materialize.targets.delta.driver import open_delta

                return open_delta(self.path(fields["folder"]))
            what = "what a connector keeps" if kind == "process" else f"what was pushed to {kind!r}"
            part.fail(f"{what} cannot be looked at: compare what its reader has made of it")

        return look

    def staging(self, part: YamlNode) -> Callable[[], Manifests[Any]] | None:
        """What opens the folder of manifests and staged files, for those drivers that have one."""
        fields = dict(part.entries())
        kind = fields["driver"].text()
        if kind == "lake":
            return lambda: LakeFolder(self.path(fields["folder"]))
        return (lambda: DeltaFolder(self.path(fields["folder"]))) if kind == "delta" else None

    @staticmethod
    def store(part: YamlNode, name: str, targets: list[str]) -> Callable[[], list[Holding]]:
        """What looks at what a store has committed that keeps the checkpoint itself."""
        fields = dict(part.entries())
        if fields["driver"].text() in LOGGED:
            return list
        conninfo = fields["conninfo"].conninfo() if "conninfo" in fields else ""

        def look() -> list[Holding]:
            from cdcv2.materialize.targets.postgres.view import committed

            return committed(conninfo, name, targets)

        return look

    def recovery(self, name: str, target: YamlNode, part: YamlNode | None) -> Callable[[], RecoveryLog | None]:
        """What opens the recovery log."""
        kind = dict(target.entries())["driver"].text()
        if part is None:
            if kind in LOGGED:
                target.fail(f"the driver {kind!r} needs a recovery_log: a folder, or {{sqlite: FILE}}")
            return lambda: None
        if kind not in LOGGED:
            part.fail(f"the driver {kind!r} keeps the checkpoint in its store: leave recovery_log out")
        if part.is_text:
            folder = self.own_folder(part)
            return lambda: FileRecoveryLog(name, folder)
        file = self.path(part.fields("sqlite")["sqlite"])
        return lambda: SqliteRecoveryLog(name, file)


def _demand_deletes(target: YamlNode, bound: Iterable[YamlNode], bindings: Iterable[ViewBinding]) -> None:
    """Third-party programs keep deleted rows unless a setting has another value: so each key's fate is written."""
    driver = dict(target.entries()).get("driver")
    if driver is None or not driver.is_text or driver.text() != "process":
        return
    for part, binding in zip(bound, bindings):
        if binding.key and not binding.delta and "deletes" not in dict(part.entries()):
            part.fail(
                f"{binding.target}: many connectors keep rows that are deleted, so the file has to state what becomes "
                "of them: write deletes: hard (they are removed; the connector must do so), or deletes: soft (they "
                "stay, with cdcv2_deleted)"
            )


def _around(log: Path) -> set[Path]:
    """The directory of a log, and that of the capture that wrote it."""
    folder = log.resolve()
    return {folder, folder.parent} if manifest_of(folder.parent) else {folder}


def _settings(part: YamlNode) -> dict[str, Any]:
    return {name: one.plain() for name, one in part.entries()}


def _log_of(part: YamlNode) -> str:
    return _binding_fields(part)["log"].text()


def target_of(binding: YamlNode) -> YamlNode:
    """The part of a binding that names the table or topic. Raises UsageError."""
    return _binding_fields(binding)["target"]


def _binding_fields(part: YamlNode) -> dict[str, YamlNode]:
    return part.fields("log target", "key reduce deletes delta")


def _binding(part: YamlNode, types: Mapping[str, RowType]) -> ViewBinding:
    fields = _binding_fields(part)
    log, target = fields["log"].text(), fields["target"].text()
    if not target.strip():
        fields["target"].fail("the name of the target is empty: write one")
    key = _key(fields["key"], target) if "key" in fields else ()
    reduce = {name: _reduction(one) for name, one in fields["reduce"].entries()} if "reduce" in fields else {}
    deletes = fields["deletes"].one_of("hard", "soft") if "deletes" in fields else "hard"
    delta = fields["delta"].flag() if "delta" in fields else False
    return part.made_by(lambda: ViewBinding(log, types[log], target, key, reduce, deletes, delta))


def _key(part: YamlNode, target: str) -> tuple[str, ...]:
    """The key columns, each once. A repeated one is reported with its own line: a binding may have many."""
    names: list[str] = []
    for one in part.items():
        if one.text() in names:
            one.fail(f"{target}: the key names the column {one.text()!r} twice: name it once")
        names.append(one.text())
    return tuple(names)


def _reduction(part: YamlNode) -> Reduction:
    """``count``, ``{sum: COLUMN}`` and so on; ``{min: COLUMN, retractions: false}``."""
    if part.is_text:
        part.one_of("count")
        return Count()
    fields = part.fields("", " ".join([*_REDUCTIONS, "retractions"]))
    kinds = [name for name in fields if name in _REDUCTIONS]
    if len(kinds) != 1:
        part.fail(f"one of count, {', '.join(_REDUCTIONS)} is wanted here")
    column = fields[kinds[0]].text()
    if "retractions" in fields:
        if kinds[0] not in _FOLLOWING:
            fields["retractions"].fail(f"only {', '.join(_FOLLOWING)} can be declared to have no retractions")
        return _FOLLOWING[kinds[0]](column, fields["retractions"].flag())
    return _REDUCTIONS[kinds[0]](column)
