"""What each job of a pipeline needs in other systems, made of its file: it decides only, and asks no server.

A capture needs its source's publication, slot and connector, with the topics of a connector of ours; its logs and its
remap. A view needs the tables or topics that it writes. What nothing states the owner of is made by the job itself, and
is none of these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.cli.options.remap_arguments import capture_request, written_places
from cdcv2.connectors.debezium.config import (
    NO_MESSAGES, READABLE_PUBLICATION, exact_pattern, heartbeat_topic, in_value_form, seeing_all, slot_name,
)
from cdcv2.connectors.debezium.left_out import (
    exact_list, omissions, reads_all_tables, takes_snapshot, unread_tables, unsent_tables,
)
from cdcv2.control.entries import THIS_MACHINE, CatalogueEntry, EntryState, Kind
from cdcv2.control.folder_paths import by_path
from cdcv2.control.intents import DesiredState, matching
from cdcv2.control.past_knowledge import Feeds
from cdcv2.control.pipeline import CaptureFields, ConnectorFields, Pipeline, SourceFields, ViewFields
from cdcv2.control.pipeline_check import row_types
from cdcv2.control.pipeline_servers import DatabaseServer, KafkaCluster, PipelineServers, url_of
from cdcv2.control.unread_topics import OF_SOURCES
from cdcv2.logs.kafka_topics import KEEPING
from cdcv2.logs.remap_kafka import SUMMARIES
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.postgres.tables import made_columns
from cdcv2.protocol.log_address import LogAddress

#: What of a source is stated to be ours for itself.
_PARTS = {Kind.CONNECTOR: "connector", Kind.SLOT: "slot", Kind.PUBLICATION: "publication"}
#: What the slot of a connector is read with.
_PLUGIN = "pgoutput"


@dataclass(frozen=True)
class PipelineNeeds:
    """What the file states an owner of, and what of it is ours.

    ``stated``: what jobs need. ``ours``: each job, with the parts that are stated to be ours: ``connector``, ``slot``,
    ``publication``, or ``own`` for its logs, tables and topics. ``feeds``: each capture, with the topics that it
    reads, and their tables.
    """

    stated: list[DesiredState]
    ours: Mapping[str, frozenset[str]]
    feeds: Mapping[str, Feeds]

    def desired(self, entries: Iterable[CatalogueEntry]) -> list[DesiredState]:
        """What is desired. What we made for a part that is not stated to be ours any more stays, and is of others.

        So nothing is removed because a word was deleted; only because a capture or a view was, or another thing is
        named in its place.
        """
        live = [entry for entry in by_path(entries, self.stated) if entry.is_live]
        matched = {one.nonce for one in (matching(live, wish) for wish in self.stated) if one is not None}
        named = {(wish.kind, wish.user) for wish in self.stated}
        of_connectors = {nonce for entry in live if entry.kind is Kind.CONNECTOR for nonce in entry.needs}
        return [*self.stated, *(
            DesiredState(
                entry.kind, entry.name, entry.address, entry.settings, False, user,
                feeds=self.feeds.get(user, {}) if entry.kind in OF_SOURCES else {},
            ) for entry in live if entry.nonce not in matched and (entry.owned or entry.attempted is not None)
            for user in self._let_go(entry, of_connectors) if not _is_past(entry, user, named)
        )]

    def _let_go(self, entry: CatalogueEntry, of_connectors: set[str]) -> list[str]:
        """The jobs that are there still, where none of them states that it is ours."""
        part = _PARTS.get(entry.kind, "own")
        if entry.kind is Kind.TOPIC and entry.nonce in of_connectors:
            part = "connector"
        users = [user for user in entry.users if user in self.ours]
        return [] if any(part in self.ours[user] for user in users) else users


def _is_past(entry: CatalogueEntry, user: str, named: Collection[tuple[Kind, str]]) -> bool:
    """Whether what was let go means nothing to the job any more: the file names another one in its place, or it is
    lost, and was where the job itself finds and makes what it needs.
    """
    if entry.owned:
        return False
    if entry.kind in OF_SOURCES:
        return (entry.kind, user) in named
    return entry.state is EntryState.LOST


def needs_of(
    pipeline: Pipeline, servers: PipelineServers, recipes: Mapping[str, list[DatabaseConnector]],
    tables: Mapping[str, list[Table]],
) -> PipelineNeeds:
    """What all its jobs need. ``recipes``: capture -> of its databases. ``tables``: view -> those that it writes.

    Raises UsageError, with the line, for what cannot be owned as the file has it.
    """
    stated = list[DesiredState]()
    feeds = {name: _feeds(recipes[name]) for name in pipeline.captures}
    for source in pipeline.sources.values():
        users = [one for one in pipeline.captures.values() if one.source is source]
        for part in _SourceNeeds(source, servers, [recipe for one in users for recipe in recipes[one.name]]).all():
            fed = part.kind in OF_SOURCES
            stated += [replace(part, user=one.name, feeds=feeds[one.name] if fed else {}) for one in users]
    for capture in pipeline.captures.values():
        if capture.owned is not None:
            stated += _logs(capture, servers.kafka)
    for view in pipeline.views.values():
        if view.owned is not None:
            stated += _target(view, servers.targets.get(view.name), tables.get(view.name))
    captures = {name: _ours(one.owned, one.source) for name, one in pipeline.captures.items()}
    views = {name: _ours(one.owned, None) for name, one in pipeline.views.items()}
    return PipelineNeeds(stated, {**captures, **views}, feeds)


def _feeds(recipes: list[DatabaseConnector]) -> Feeds:
    """The topics of tables that are read so."""
    return {recipe.topic(table): table for recipe in recipes for table in recipe.tables}


def _ours(owned: bool | None, source: SourceFields | None) -> frozenset[str]:
    stated = {"own": bool(owned)}
    if source is not None:
        stated |= {
            "connector": source.connector is not None and source.connector.owned, "slot": source.slot.owned,
            "publication": source.publication.owned,
        }  # fmt: skip
    return frozenset(part for part, ours in stated.items() if ours)


class _SourceNeeds:
    """The publication, the slot, the connector and its topics, for the captures with these recipes."""

    def __init__(self, source: SourceFields, servers: PipelineServers, recipes: list[DatabaseConnector]) -> None:
        self._source, self._recipes = source, recipes
        self._database = servers.databases.get(source.name)
        self._cluster = servers.kafka
        self._config = servers.connectors.get(source.name)

    def all(self) -> Iterator[DesiredState]:
        """In the order in which they are made. The user is still to be named."""
        first = [*self._publication(), *self._slot(), *self._topics()]
        yield from first
        connector = self._source.connector
        if connector is None or connector.url is None:
            return
        settings = self._settings(connector)
        needs = tuple(one.key for one in first if one.owned)
        yield DesiredState(*self._connector_key(connector), settings, connector.owned, "", needs if settings else ())

    def _connector_key(self, connector: ConnectorFields) -> tuple[Kind, str, str]:
        return Kind.CONNECTOR, connector.name, url_of(self._source)

    def _publication(self) -> Iterator[DesiredState]:
        found = self._source.publication
        name = self._name("publication.name", found.name, found.owned)
        tables = sorted({table for recipe in self._recipes for table in recipe.tables})
        if name is not None and not READABLE_PUBLICATION.fullmatch(name):
            found.node.fail(
                f"the connector's file has publication.name={name}, and Debezium does not quote it: it would read by "
                "another publication, or by none. Take a name of a-z, 0-9 and _"
            )
        if name is None or self._database is None:
            if found.owned:
                found.node.fail(_NO_DATABASE)
            return
        if tables:
            yield DesiredState(Kind.PUBLICATION, name, self._database.address, {"tables": tables}, found.owned, "")

    def _slot(self) -> Iterator[DesiredState]:
        found, connector = self._source.slot, self._source.connector
        name = self._name("slot.name", found.name, found.owned)
        if name is None or self._database is None:
            if found.owned:
                found.node.fail(_NO_DATABASE)
            return
        settings = {} if self._database.database is None else {"database": self._database.database}
        if found.owned:
            settings["plugin"] = _PLUGIN
        maker = None
        if self._takes_snapshot:
            if connector is not None and connector.owned and found.owned:
                _, named, address = self._connector_key(connector)
                maker = (Kind.CONNECTOR, address, named)
            elif found.owned or (connector is not None and connector.owned):
                found.node.fail(
                    "a connector makes the slot of its first snapshot itself, or snapshot and changes would not meet: "
                    "let slot and connector have one owner; or take no snapshot (snapshot.mode no_data in the "
                    "connector's file, snapshot: none of the captures)"
                )
        yield DesiredState(Kind.SLOT, name, self._database.address, settings, found.owned, "", maker=maker)

    @property
    def _takes_snapshot(self) -> bool:
        if self._config is not None:
            return takes_snapshot(self._config)
        return any(recipe.snapshot == "initial" for recipe in self._recipes)

    def _name(self, setting: str, given: str | None, owned: bool) -> str | None:
        """What it is called: as the file has it, or the connector's settings; of ours, else as the prefix."""
        if given is not None or self._config is None:
            return given or (slot_name(self._source.prefix) if owned else None)
        return self._config.get(setting, slot_name(self._source.prefix))

    def _topics(self) -> Iterator[DesiredState]:
        """Those of a connector of ours: made before it, and removed after it."""
        connector = self._source.connector
        if connector is None or not connector.owned or self._config is None:
            return
        if self._cluster is None:
            connector.node.fail("the topics of an owned connector are in Kafka, and the file names none: write kafka:")
        config, recipes = self._config, self._recipes
        single = {recipe.transaction_topic for recipe in recipes}
        single |= {recipe.notification_topic for recipe in recipes if recipe.notification_topic is not None}
        if config.get("heartbeat.interval.ms", "0") != "0" and recipes:
            named = {"start": config["topic.heartbeat.prefix"]} if "topic.heartbeat.prefix" in config else {}
            single.add(heartbeat_topic(self._source.prefix, **named))
        partitions = _partitions(config, connector)
        replicas = config.get("topic.creation.default.replication.factor", "-1")
        for name in sorted(single | {topic for recipe in recipes for topic in recipe.topics()}):
            settings = {**({"partitions": 1} if name in single else partitions), **KEEPING}
            if replicas.isdecimal():
                settings["replication"] = int(replicas)
            yield DesiredState(Kind.TOPIC, name, self._cluster.address, settings, True, "")

    def _settings(self, connector: ConnectorFields) -> Mapping[str, Any]:
        """The configuration: that of its file, with the names of the pipeline in it."""
        if self._config is None:
            return {}
        own = {
            "topic.prefix": self._source.prefix,
            "slot.name": self._name("slot.name", self._source.slot.name, True),
            "publication.name": self._name("publication.name", self._source.publication.name, True),
            "publication.autocreate.mode": "disabled",
            # By default TRUNCATE is left out.
            "skipped.operations": "none",
        }
        if self._source.notifications is not None:
            # Without them the capture would wait for the end of the snapshot without end.
            own |= {"notification.sink.topic.name": self._source.notifications}
            channels = self._config.get("notification.enabled.channels", "")
            if "sink" not in map(str.strip, channels.split(",")):
                own |= {"notification.enabled.channels": "sink"}
        for setting, value in own.items():
            found = self._config.get(setting, value)
            if found != value:
                connector.node.fail(
                    f"the connector's file has {setting}={found}, and the pipeline needs {value}: write that"
                )
        kept = {name: value for name, value in self._config.items() if name != _MESSAGES}
        config = {**kept, **NO_MESSAGES, **in_value_form(kept), **own}
        config |= seeing_all(kept) if self._takes_snapshot else {}
        self._check_sent(connector, config)
        listed, tables = config.get("table.include.list"), {table for one in self._recipes for table in one.tables}
        # Else it would take its snapshot of others, too, and nothing would remove their topics.
        return {**config, "table.include.list": exact_list(config, sorted(tables))} if listed and tables else config

    def _check_sent(self, connector: ConnectorFields, config: Mapping[str, Any]) -> None:
        """Refuse settings that send less than captures read, or more tables: these have topics without an owner."""
        tables = {name: row.columns for recipe in self._recipes for name, row in recipe.tables.items()}
        unsent, unread = unsent_tables(config, tables), unread_tables(config, tables) if tables else []
        if unsent:
            connector.node.fail(
                f"the filters of the connector's file leave out {', '.join(unsent)}, which a capture reads: add it to "
                "table.include.list, or leave it out of the capture (docs/operations/tables.md)"
            )
        by_key = any(recipe.before == FROM_STATE for recipe in self._recipes)
        for one in omissions(config, tables, by_key=by_key):
            connector.node.fail(
                f"the connector's file has {one.setting}: {one.why}. So {one.remedy} (docs/operations/connector.md)"
            )
        if unread:
            connector.node.fail(
                f"the connector's file names {', '.join(unread)} in table.include.list, and no capture reads that, so "
                "nothing would remove its topic: leave it out of the list, or capture it"
            )
        if tables and reads_all_tables(config):
            listed = json.dumps(",".join(map(exact_pattern, sorted(tables))))
            connector.node.fail(
                "the connector's file has no table.include.list: it reads all tables of the database, and nothing "
                f'would remove the topics of those that no capture reads. Write "table.include.list": {listed}'
            )


def _partitions(config: Mapping[str, str], connector: ConnectorFields) -> Mapping[str, int]:
    """The setting of its topics with changes; none where it is a reference, which only Connect resolves."""
    name = "topic.creation.default.partitions"
    text = config.get(name, "1")
    if "${" in text:
        return {}
    if not (text.isascii() and text.isdecimal() and int(text)):
        connector.node.fail(f"the connector's file has {name}={text}: write a whole number from 1 on")
    return {"partitions": int(text)}


#: Beside the list of those that are left out, Debezium does not take it.
_MESSAGES = "message.prefix.include.list"
_NO_DATABASE = "it is made in the database of the source, and the file names none: write postgres: {conninfo: ...}"


def _logs(capture: CaptureFields, cluster: KafkaCluster | None) -> Iterator[DesiredState]:
    """The logs of a capture, and its remap."""
    into: LogAddress = capture.arguments.into
    remap: LogAddress | None = capture.arguments.remap
    places = [into.of(table) for table in row_types(capture)] if into.is_topic else [into]
    if remap is not None:
        places = written_places(capture.arguments, capture_request(capture.arguments)) if into.is_topic else [into]
        yield _place(capture, Kind.REMAP, remap, cluster, SUMMARIES)
    for place in places:
        yield _place(capture, Kind.TOPIC if place.is_topic else Kind.STATE_FOLDER, place, cluster, {})


def _place(
    capture: CaptureFields, kind: Kind, place: LogAddress, cluster: KafkaCluster | None, more: Mapping[str, str]
) -> DesiredState:
    owned = bool(capture.owned)
    if not place.is_topic:
        return DesiredState(kind, place.name, THIS_MACHINE, {}, owned, capture.name)
    if cluster is None:
        capture.node.fail("its logs are in Kafka, and the file names none: write kafka: {bootstrap: HOST:PORT}")
    settings = {"partitions": 1, **KEEPING, **(more if owned else {})}
    return DesiredState(kind, place.name, cluster.address, settings, owned, capture.name)


def _target(
    view: ViewFields, server: DatabaseServer | KafkaCluster | None, tables: list[Table] | None
) -> Iterator[DesiredState]:
    """The tables or topics that a view writes."""
    if server is None or tables is None:
        view.node.fail(
            "'owned' goes with a view of a capture of this file, and with the drivers postgres and kafka: leave it "
            "out, and the job makes what is missing"
        )
    for table in tables:
        if isinstance(server, DatabaseServer):
            yield _table(view, server, table, [one.name for one in tables])
            continue
        fields = dict(view.fields["target"].entries())
        partitions = fields["partitions"].number(1) if "partitions" in fields else 1
        name = f"{fields['prefix'].text() if 'prefix' in fields else ''}{table.name}"
        settings = {"partitions": partitions, **KEEPING}
        yield DesiredState(Kind.TOPIC, name, server.address, settings, bool(view.owned), view.name)


def _table(view: ViewFields, server: DatabaseServer, table: Table, all_tables: list[str]) -> DesiredState:
    settings = {
        "columns": made_columns(table), "key": [field.name for field in table.key],
        # With the last of them goes what the view has committed.
        "materialization": view.name, "tables": sorted(all_tables),
    }
    return DesiredState(Kind.TARGET_TABLE, table.name, server.address, settings, bool(view.owned), view.name)
