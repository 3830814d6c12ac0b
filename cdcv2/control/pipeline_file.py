"""The YAML file of a pipeline, and how it is read: sources, captures and views, from a database to its copies.

::

    pipeline: shop                               its name; letters, digits, - and _
    state: shop.state                            the folder of what cdcv2 keeps of it
    kafka: {bootstrap: "localhost:9092"}
    rows: rows                                   the folder of the row types, TABLE.avsc
    sources:
      shop:
        postgres: {conninfo: "host=db dbname=shop user=cdc password=${PGPASSWORD}"}
        prefix: shop
        notifications: shop.notifications
        connector: {name: shop, url: "http://localhost:8083", owned: no}
        slot: {name: shop, owned: no}
        publication: {name: shop, owned: no}
    captures:
      shop: {source: shop, tables: [public.orders], into: logs, before: from-state}
    views:
      copy:
        capture: shop
        bindings:
          - {log: public.orders, target: orders, key: [id]}
        target: {driver: postgres, conninfo: "host=copy dbname=copy password=${COPY_PASSWORD}"}
    replays:
      history: {tables: [public.orders], output: history}
    timers:
      copies-are-equal: {compare: copy, every: 1h}
    instances:
      shop: {index: {public.orders: [id]}}

A capture has the options of ``cdcv2 capture`` by their long names, a view the keys of the file of ``cdcv2
materialize``; both, and a replay, may have ``spark:`` (:mod:`cdcv2.control.spark_fields`). Paths are from the
file's folder.

Each part names others, so all are judged together.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cdcv2.cli.options.capture_arguments import demand_directory
from cdcv2.cli.options.capture_options import COMMAND, fields_of_pipelines
from cdcv2.cli.options.capture_parser import add_command_options
from cdcv2.cli.options.parser import OptionParser
from cdcv2.connectors.debezium.config import READABLE_PUBLICATION
from cdcv2.control.instance_fields import InstanceFields, demand_own_places, instance_fields
from cdcv2.control.pipeline import (
    CaptureFields, ConnectorFields, OwnedObject, Pipeline, SourceFields, ViewFields, kafka_words,
)
from cdcv2.control.quarantine_field import QUARANTINE, quarantine_part
from cdcv2.control.replay_fields import ReplayFields, ReplayLogs, demand_outputs_apart, replay_fields
from cdcv2.control.spark_fields import capture_on_spark, view_on_spark
from cdcv2.control.timer_fields import TimerFields, timer_fields
from cdcv2.control.written_folders import written_folders
from cdcv2.control.yaml_lines import YamlNode, load
from cdcv2.errors import UsageError
from cdcv2.store.broker_addresses import demand_brokers
from cdcv2.store.connect_client import demand_connect_url
from cdcv2.suggestions import meant

#: What a name is made of: it becomes part of the names of files and of slots.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
#: What PostgreSQL allows as the name of a slot.
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
#: The options of ``cdcv2 capture`` that a capture may have here.
_OPTIONS = fields_of_pipelines(COMMAND)
#: What a view may have besides ``capture``.
_VIEW = "logs kafka recovery_log rows start timeline types quarantine"


def read_pipeline(path: str) -> Pipeline:
    """The pipeline in the file. Raises UsageError with the line, and UnavailableError for a file without access."""
    whole = load(path)
    if not is_pipeline(whole):
        whole.fail("this file is no pipeline: it has no 'pipeline: NAME'")
    return pipeline_of(whole, Path(path))


def is_pipeline(whole: YamlNode) -> bool:
    """Whether a file is that of a pipeline, and not of one materialization."""
    return "pipeline" in dict(whole.entries())


def pipeline_of(whole: YamlNode, path: Path) -> Pipeline:
    """The pipeline in a file that was loaded. Raises UsageError with the line."""
    return _PipelineReader(whole, path).pipeline()


class _PipelineReader:
    """Reads the parts in the order in which they name each other."""

    def __init__(self, whole: YamlNode, path: Path) -> None:
        # However the command was called: by a link to the folder, or with '..'. The file itself may be a link.
        self._whole, self._path, self._folder = whole, path, path.absolute().parent.resolve()
        self._fields = whole.fields("pipeline", "state kafka rows sources captures views replays timers instances")
        self._rows = self._fields.get("rows", whole.with_text("rows"))
        self._kafka = self._fields["kafka"].fields("", "bootstrap config") if "kafka" in self._fields else {}

    def pipeline(self) -> Pipeline:
        """All of it."""
        name = self._fields["pipeline"].text()
        _demand_name(self._fields["pipeline"], name)
        state = self._fields.get("state", self._whole.with_text(f"{name}.state"))
        sources = {name: self._source(name, part) for name, part in self._named("sources")}
        captures = {name: self._capture(name, part, sources) for name, part in self._named("captures")}
        if not captures and not any(map(self._named, ("views", "replays", "instances"))):
            self._whole.fail(
                "there is nothing to do: describe captures, or views, replays or instances of logs that are there"
            )
        _demand_apart(captures)
        views = {name: self._view(name, part, captures) for name, part in self._named("views")}
        on_remap = {name: one.arguments.remap is not None for name, one in captures.items()}
        timers = {name: timer_fields(name, part, on_remap, views) for name, part in self._named("timers")}
        instances = {name: self._instance(name, part, captures, state) for name, part in self._named("instances")}
        _demand_sources_of_markers(captures, instances.values())
        replays = {name: self._replay(name, part, captures) for name, part in self._named("replays")}
        demand_outputs_apart(replays, [
            (self._under(state), "cdcv2 up, as its state"),
            *((path, f"the view {name}") for name, one in views.items()
              for path in written_folders(one.fields, one.folder)),
        ], [
            (Path(one.arguments.into.name), f"the capture {name}") for name, one in captures.items()
            if not one.arguments.into.is_topic
        ])
        _demand_own_names(captures, views, timers, instances, replays)
        demand_own_places(instances.values())
        return Pipeline(
            name, self._path, self._under(state), self._address(), self._under(self._rows), sources, captures, views,
            self._whole, timers, instances, replays,
        )

    def _replay(self, name: str, part: YamlNode, captures: Mapping[str, CaptureFields]) -> ReplayFields:
        def logs_of(named: YamlNode | None) -> ReplayLogs:
            capture = self._capture_of(named, part, captures)
            into = capture.arguments.into
            reach = (*kafka_words(*self._address()), f"--rows={self._under(self._rows)}") if into.is_topic else None
            return ReplayLogs(capture.name, lambda table: str(into.of(table)), reach)

        return replay_fields(name, part, logs_of, self._under)

    def _instance(
        self, name: str, part: YamlNode, captures: Mapping[str, CaptureFields], state: YamlNode
    ) -> InstanceFields:
        def capture_of(named: YamlNode | None) -> str:
            return self._capture_of(named, part, captures).name

        return instance_fields(name, part, capture_of, self._under(state) / "instances", self._under)

    def _named(self, section: str) -> list[tuple[str, YamlNode]]:
        entries = self._fields[section].entries() if section in self._fields else []
        for name, part in entries:
            _demand_name(part, name)
        return entries

    def _under(self, part: YamlNode) -> Path:
        return part.path(self._folder)

    def _address(self) -> tuple[str | None, Path | None]:
        fields = self._kafka
        bootstrap = fields["bootstrap"].text_as(demand_brokers) if "bootstrap" in fields else None
        return bootstrap, self._under(fields["config"]) if "config" in fields else None

    def _source(self, name: str, part: YamlNode) -> SourceFields:
        fields = part.fields("", "postgres prefix notifications connector slot publication")
        connector = self._connector(name, fields["connector"]) if "connector" in fields else None
        owned = connector is not None and connector.owned
        texts = {one: fields[one].text() for one in ("prefix", "notifications") if one in fields}
        for one, text in texts.items():
            if not text.strip():
                fields[one].fail("the name is empty: write one, or leave it out")
        postgres = fields["postgres"].fields("conninfo")["conninfo"] if "postgres" in fields else None
        return SourceFields(
            name, texts.get("prefix", name), texts.get("notifications"), connector,
            _owned(fields.get("slot"), part, owned, _SLOT),
            _owned(fields.get("publication"), part, owned, READABLE_PUBLICATION), part,
            postgres,
        )

    def _connector(self, name: str, part: YamlNode) -> ConnectorFields:
        fields = part.fields("", "name url login owned config")
        owned = "owned" in fields and _flag(fields["owned"])
        url = fields["url"].text_as(demand_connect_url) if "url" in fields else None
        if owned and (url is None or "config" not in fields):
            part.fail("a connector of its own (owned: yes) needs url: that of Connect, and config: a JSON file")
        config = self._under(fields["config"]) if "config" in fields else None
        login = self._under(fields["login"]) if "login" in fields else None
        if login is not None and url is None:
            fields["login"].fail("a login is for the url of Connect, which is missing: write url:, or leave this out")
        return ConnectorFields(fields["name"].text() if "name" in fields else name, url, login, owned, config, part)

    def _capture(self, name: str, part: YamlNode, sources: Mapping[str, SourceFields]) -> CaptureFields:
        parser = OptionParser("cdcv2 capture", None)
        add_command_options(parser)
        actions = {word.removeprefix("--"): one for one in parser._actions for word in one.option_strings}
        known = [word for word in actions if word in _OPTIONS]
        options = part.fields("", " ".join(["source tables into from owned spark", *known]))
        on_spark = options.pop("spark", None)
        source = self._source_of(options, part, sources)
        into = options.get("into", part.with_text("logs"))
        words = self._reached(part, options) + self._of_source(source)
        if "tables" in options:
            words.append(f"--tables={','.join(options['tables'].texts())}")
        words += [f"--rows={self._under(self._rows)}", f"--into={self._place(into)}"]
        for word, value in options.items():
            if word in known:
                words += self._option(word, actions[word], value)
        made = CaptureFields(name, source, tuple(words), argparse.Namespace(), into, options, part)
        try:
            arguments = parser.parse_args(words)
            if on_spark is None:
                demand_directory(arguments)
            into.made_by(arguments.into.demand_several)
        except UsageError as error:
            made.fail(error)
        # What a capture names itself by where others read it.
        arguments.command_line = f"cdcv2 run {self._path}"
        owned = _flag(options["owned"]) if "owned" in options else None
        spark = None if on_spark is None else capture_on_spark(on_spark, words, self._under)
        return CaptureFields(name, source, tuple(words), arguments, into, options, part, owned, spark)

    def _reached(self, part: YamlNode, options: Mapping[str, YamlNode]) -> list[str]:
        """From where its records are read."""
        reach = kafka_words(*self._address())
        if "from" in options:
            there = [str(self._under(one)) for one in options["from"].items()]
            return there + (reach if options.get("into", part.with_text("")).text().startswith("kafka:") else [])
        if not reach:
            part.fail("a capture reads from Kafka, and the file names none: write kafka: {bootstrap: HOST:PORT}")
        return ["kafka", *reach]

    @staticmethod
    def _of_source(source: SourceFields | None) -> list[str]:
        if source is None:
            return []
        return [f"--prefix={source.prefix}"] + (
            [f"--notifications={source.notifications}"] if source.notifications is not None else []
        )

    @staticmethod
    def _source_of(
        options: Mapping[str, YamlNode], part: YamlNode, sources: Mapping[str, SourceFields]
    ) -> SourceFields | None:
        """The source that a capture names, or the only one; none where it captures topics without a database."""
        if "source" in options:
            name = options["source"].text()
            if name not in sources:
                there = ", ".join(sources) or "none"
                options["source"].fail(f"there is no source {name!r}; there are {there}{meant(name, sources)}")
            return sources[name]
        if "plain" in options or "stream" in options:
            return None
        if len(sources) != 1:
            there = ", ".join(sources) or "none"
            part.fail(f"which source? Write source: NAME; there are {there}")
        return next(iter(sources.values()))

    def _option(self, word: str, action: argparse.Action, value: YamlNode) -> list[str]:
        if action.nargs == 0:
            return [f"--{word}"] if _flag(value) else []
        texts = [self._place(one) if _OPTIONS[word].is_path else one.text() for one in value.items()]
        if isinstance(action, argparse._AppendAction):
            return [f"--{word}={text}" for text in texts]
        return [f"--{word}={','.join(texts)}"]

    def _place(self, part: YamlNode) -> str:
        """A topic, or a folder from that of the file."""
        text = part.text()
        return text if text.startswith("kafka:") else str(self._under(part))

    def _view(self, name: str, part: YamlNode, captures: Mapping[str, CaptureFields]) -> ViewFields:
        fields = part.fields("bindings target", f"capture owned spark {_VIEW}")
        owned = _flag(fields.pop("owned")) if "owned" in fields else None
        of, on_spark = fields.pop("capture", None), fields.pop("spark", None)
        if of is not None and "logs" in fields:
            of.fail("'capture' and 'logs' both name logs: leave one out")
        capture = None
        if "logs" not in fields:
            capture = self._capture_of(of, part, captures)
            fields["logs"] = capture.into
            if capture.into.text().startswith("kafka:"):
                # Topics do not know their row types.
                fields.setdefault("types", self._rows)
        if "kafka" in self._fields:
            fields.setdefault("kafka", self._fields["kafka"])
        if (quarantine := quarantine_part(fields, on_spark)) is not None:
            fields[QUARANTINE] = quarantine
        words = [str(self._path.absolute()), f"--view={name}"]
        spark = None if on_spark is None else view_on_spark(on_spark, words, self._under)
        capture_name = capture.name if capture is not None else None
        return ViewFields(name, part, fields, self._folder, capture_name, owned, spark)

    @staticmethod
    def _capture_of(
        of: YamlNode | None, part: YamlNode, captures: Mapping[str, CaptureFields]
    ) -> CaptureFields:
        there = f"there are {', '.join(captures) or 'none'}"
        if of is None:
            if len(captures) != 1:
                part.fail(f"which capture writes its logs? Write capture: NAME ({there}), or logs: FOLDER")
            return next(iter(captures.values()))
        name = of.text()
        if name not in captures:
            of.fail(f"there is no capture {name!r}; {there}{meant(name, captures)}")
        return captures[name]


def _owned(part: YamlNode | None, beside: YamlNode, owned: bool, allowed: re.Pattern[str]) -> OwnedObject:
    """What a file states of a slot or a publication; by default it is as its connector is."""
    if part is None:
        return OwnedObject(None, owned, beside)
    fields = part.fields("", "name owned")
    name = fields["name"].text() if "name" in fields else None
    if name is not None and not allowed.fullmatch(name):
        fields["name"].fail(
            f"{name!r} is no name here: up to 63 of a-z, 0-9 and _. Debezium does not quote the name of a publication: "
            "with others it would read by another one, or by none"
        )
    return OwnedObject(name, _flag(fields["owned"]) if "owned" in fields else owned, part)


def _flag(part: YamlNode) -> bool:
    return part.one_of("yes", "no", "true", "false") in ("yes", "true")


def _demand_name(part: YamlNode, name: str) -> None:
    if not _NAME.fullmatch(name):
        part.fail(f"{name!r} is no name: write letters, digits, - and _, up to 100 of them")


def _demand_own_names(
    captures: Mapping[str, CaptureFields], views: Mapping[str, ViewFields], timers: Mapping[str, TimerFields],
    instances: Mapping[str, InstanceFields], replays: Mapping[str, ReplayFields],
) -> None:
    """Each is a job, known by its name; a replica is one, too."""
    taken: dict[str, str] = {}
    parts: dict[str, Mapping[str, CaptureFields | ViewFields | TimerFields | InstanceFields | ReplayFields]]
    parts = {"captures": captures, "views": views, "timers": timers, "instances": instances, "replays": replays}
    for kind, named in parts.items():
        for name, part in named.items():
            for job in part.jobs if isinstance(part, InstanceFields) else (name,):
                if job in taken:
                    both = f"of {taken[job]} and of {kind}"
                    part.node.fail(f"two parts are called {job!r}, {both}: give each its own name")
                taken[job] = kind


def _demand_sources_of_markers(
    captures: Mapping[str, CaptureFields], instances: Iterable[InstanceFields]
) -> None:
    """A marker is committed where the file has the connection string, for times that are LSNs."""
    for part in instances:
        if not part.marker or part.capture is None:
            continue
        capture, node = captures[part.capture], dict(part.node.entries())["marker"]
        if capture.arguments.remap is not None or capture.arguments.stream:
            node.fail(f"the times of the capture {capture.name} are no LSNs: leave 'marker' out")
        if capture.source is None or capture.source.postgres is None:
            node.fail("a marker needs the database: write postgres: {conninfo: ...} to the source of its capture")


def _demand_apart(captures: Mapping[str, CaptureFields]) -> None:
    """By commit times each capture has a folder to itself; on a remap several may write the same logs."""
    taken: dict[str, CaptureFields] = {}
    for name, capture in captures.items():
        into = capture.arguments.into
        # A link leads to the same folder.
        place = str(into) if into.is_topic else str(Path(into.name).resolve())
        first = taken.setdefault(place, capture)
        remap = capture.arguments.remap
        if first is not capture and (remap is None or first.arguments.remap != remap):
            capture.into.fail(
                f"the captures {first.name} (line {first.into.line}) and {name} write the same logs: give each its own "
                "into; only captures on one remap may share them"
            )
