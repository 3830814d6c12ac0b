"""The servers in which a pipeline has external state: their addresses, without any secret, and how they are reached."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cdcv2.control.entries import Kind
from cdcv2.control.first_pipeline import connector_of
from cdcv2.control.kinds.connectors import ConnectorKind
from cdcv2.control.kinds.folders import StateFolderKind
from cdcv2.control.kinds.postgres import PublicationKind, StagingKind, TargetTableKind
from cdcv2.control.kinds.slots import SlotKind
from cdcv2.control.kinds.remaps import RemapKind
from cdcv2.control.kinds.topics import TopicKind
from cdcv2.control.materialization_file import target_cluster
from cdcv2.control.pipeline import Pipeline, SourceFields, ViewFields
from cdcv2.control.reconcile import ExternalKind
from cdcv2.core.json_text import parse_json
from cdcv2.errors import UsageError
from cdcv2.store.connect_client import ConnectClient, without_secrets
from cdcv2.store.file_system import text_of
from cdcv2.store.kafka_client import Client
from cdcv2.store.postgres_session import demand_readable

#: How long, in seconds, an answer of a server is waited for. What gets none is looked at again later.
PATIENCE = 10.0


@dataclass(frozen=True)
class DatabaseServer:
    """A database of PostgreSQL: its address for people and for the catalogue; its name, where that is known."""

    address: str
    database: str | None
    conninfo: str = field(repr=False)


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster: its address for people and for the catalogue."""

    address: str
    bootstrap: str | None
    config: Path | None


@dataclass(frozen=True)
class PipelineServers:
    """By name in the file: the databases of sources, the settings of connectors of ours, the targets of views."""

    kafka: KafkaCluster | None
    databases: Mapping[str, DatabaseServer]
    connectors: Mapping[str, Mapping[str, str]]
    targets: Mapping[str, DatabaseServer | KafkaCluster]
    #: address of Kafka Connect -> the file with the login there
    connects: Mapping[str, Path | None]

    def kinds(self) -> Mapping[Kind, ExternalKind]:
        """How each kind is looked at and made there. Raises UsageError for what is no address."""
        sources = {one.address: _patient(one.conninfo) for one in self.databases.values()}
        stores = [one for one in self.targets.values() if isinstance(one, DatabaseServer)]
        targets = {one.address: _patient(one.conninfo) for one in stores}
        clusters = [one for one in (self.kafka, *self.targets.values()) if isinstance(one, KafkaCluster)]
        topics = TopicKind({
            one.address: Client(one.bootstrap, one.config, patience=PATIENCE) for one in clusters
        })
        folders = StateFolderKind()
        return {
            Kind.TOPIC: topics, Kind.REMAP: RemapKind(topics, folders), Kind.STATE_FOLDER: folders,
            Kind.PUBLICATION: PublicationKind(sources), Kind.SLOT: SlotKind(sources),
            Kind.TARGET_TABLE: TargetTableKind(targets), Kind.STAGING: StagingKind(targets),
            Kind.CONNECTOR: ConnectorKind({
                url: ConnectClient(url, login, patience=PATIENCE) for url, login in self.connects.items()
            }),
        }  # fmt: skip


def servers_of(pipeline: Pipeline) -> PipelineServers:
    """The servers of a pipeline. Variables of the environment are needed for what is ours, and only for that.

    Raises UsageError with the line, also for a connector whose file has a secret in clear text.
    """
    sources = pipeline.sources.values()
    databases = {one.name: _source(one) for one in sources}
    connectors = {
        one.name: _connector(one) for one in sources if one.connector is not None and one.connector.owned
    }
    views = {view.name: target_server(view) for view in pipeline.views.values()}
    return PipelineServers(
        _kafka_of(pipeline) if any(pipeline.kafka) else None,
        {name: found for name, found in databases.items() if found is not None}, connectors,
        {name: found for name, found in views.items() if found is not None},
        _connects(pipeline.sources.values()),
    )


def _connects(sources: Iterable[SourceFields]) -> Mapping[str, Path | None]:
    found: dict[str, Path | None] = {}
    for source in sources:
        connector, url = source.connector, url_of(source)
        if connector is None or not url:
            continue
        if found.setdefault(url, connector.login) != connector.login:
            connector.node.fail(f"another source has another login for {url}: write the same file in both")
        if connector.login is not None:
            dict(connector.node.entries())["login"].made_by(partial(connector.client, patience=PATIENCE))
    return found


def url_of(source: SourceFields) -> str:
    """The address of Kafka Connect of a source that has one."""
    url = None if source.connector is None else source.connector.url
    return "" if url is None else url.rstrip("/")


def _source(source: SourceFields) -> DatabaseServer | None:
    owned = source.slot.owned or source.publication.owned
    try:
        return None if source.postgres is None else source.postgres.text_as(database_server)
    except UsageError:
        # What others own is not looked at where the environment lacks a variable: jobs on that do not wait for it.
        if owned:
            raise
        return None


def target_server(view: ViewFields) -> DatabaseServer | KafkaCluster | None:
    """Where a view writes, if that is a server. None where the environment lacks a variable and nothing is ours there;
    else that raises UsageError."""
    fields = dict(view.fields["target"].entries())
    driver = fields["driver"].text() if "driver" in fields else ""
    try:
        if driver == "postgres":
            named = fields.get("conninfo")
            return database_server("") if named is None else named.made_by(lambda: database_server(named.conninfo()))
        return _kafka(*target_cluster(view)) if driver == "kafka" else None
    except UsageError:
        if view.owned is not None:
            raise
        return None


def database_server(conninfo: str) -> DatabaseServer:
    """The database to which a connection string leads, with what the environment adds. Raises UsageError for none."""
    demand_readable(conninfo)
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(conninfo)
    service = given.get("service") or os.environ.get("PGSERVICE")
    database = given.get("dbname") or os.environ.get("PGDATABASE")
    if service and not given.get("host"):
        named = f"service {service}"
    else:
        host = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "localhost"
        port = str(given.get("port") or os.environ.get("PGPORT") or 5432)
        named = f"{host}{'' if port == '5432' else f':{port}'}"
        database = database or given.get("user") or os.environ.get("PGUSER")
    return DatabaseServer(f"PostgreSQL {named}/{database or ''}", None if database is None else str(database), conninfo)


def host_and_port(conninfo: str) -> str | None:
    """HOST:PORT of a connection string, with what the environment adds; None: a service, a socket, or several hosts."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(conninfo)
    if given.get("service") or os.environ.get("PGSERVICE"):
        return None
    host = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "")
    port = given.get("port") or os.environ.get("PGPORT") or 5432
    return f"{host}:{port}" if host and not {*"/,@"} & {*host} else None


def _kafka_of(pipeline: Pipeline) -> KafkaCluster:
    part = dict(pipeline.node.entries())["kafka"]
    return dict(part.entries()).get("config", part).made_by(lambda: _kafka(*pipeline.kafka))


def _kafka(bootstrap: str | None, config: Path | None) -> KafkaCluster:
    return KafkaCluster(f"Kafka {Client(bootstrap, config).bootstrap}", bootstrap, config)


def _patient(conninfo: str) -> str:
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(conninfo)
    return conninfo if "connect_timeout" in given else make_conninfo(conninfo, connect_timeout=int(PATIENCE))


def _connector(source: SourceFields) -> Mapping[str, str]:
    """The settings in the file of a connector of ours, without its name."""
    connector = source.connector
    if connector is None or connector.config is None:
        raise UsageError(f"the source {source.name} has no file of settings for its connector")
    path = connector.config

    def read() -> dict[str, str]:
        text = text_of(path, str(path))
        try:
            plain = parse_json(text)
        except ValueError as cause:
            raise UsageError(f"{path} is no JSON: {cause}") from None
        config = connector_of(plain, str(path))
        secret = sorted({*config} - {*without_secrets(config)})
        if secret:
            raise UsageError(
                f"{path} has {', '.join(secret)} in clear text, and Kafka Connect shows it to everybody: write a "
                "reference, as ${env:NAME} or ${file:PATH:KEY}"
            )
        return {name: value for name, value in config.items() if name != "name"}

    return dict(connector.node.entries())["config"].made_by(read)
