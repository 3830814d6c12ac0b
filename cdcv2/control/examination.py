"""An examination of all that a pipeline needs: the checks of each part, composed. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.connectors.debezium.left_out import takes_snapshot
from cdcv2.control.catalogue import catalogue_entries
from cdcv2.control.connector_findings import (
    connector_findings, rights_findings, state_findings, topics_findings, version_finding,
)
from cdcv2.control.disks import disks_of, refusal
from cdcv2.control.findings import Finding, Health, guarded, judged
from cdcv2.control.entries import EntryState, Kind
from cdcv2.control.instance_fields import InstanceFields
from cdcv2.control.materialization_file import target_of
from cdcv2.control.owned_folders import demand_alone
from cdcv2.control.pipeline import CaptureFields, ConnectorFields, Pipeline, SourceFields, ViewFields
from cdcv2.control.pipeline_check import check_instance, check_view_of, demand_own_logs, recipes_of, row_types
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_servers import database_server, host_and_port
from cdcv2.control.refusals import refused_changes
from cdcv2.control.replay_fields import ReplayFields, known_tables
from cdcv2.control.source_findings import reader_findings, source_findings
from cdcv2.control.view_checkpoint import checkpoint_of, timeline_of
from cdcv2.errors import Cdcv2Error, UnavailableError
from cdcv2.logs.kafka_rights import may_create, rights_to
from cdcv2.logs.kafka_topics import describe
from cdcv2.rows.row_type import RowType
from cdcv2.sql_names import parts_of, sql_name
from cdcv2.store.connect_client import curl
from cdcv2.store.kafka_client import Client
from cdcv2.store.postgres_session import connect, why_read_only

#: Of each schema of a target: whether it is there, whether tables may be made in it or are there, and its tables.
_SCHEMAS = """
    SELECT t.schema, n.oid IS NOT NULL,
           coalesce(bool_and(c.oid IS NOT NULL OR has_schema_privilege(n.oid, 'CREATE')), false),
           array_agg(t.schema || '.' || t.name ORDER BY t.name)
      FROM unnest(%s::text[], %s::text[]) t (schema, name)
      LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema
      LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.name
     GROUP BY t.schema, n.oid ORDER BY 1
"""
#: Seconds that Connect has for an answer, and Kafka.
_PATIENCE = 10.0
#: Below this share, and this many bytes, a disk is nearly full.
_SHARE, _BYTES = 0.1, 5_000_000_000


def examine(pipeline: Pipeline) -> Iterator[Finding]:
    """Every finding, part by part; a part that cannot be looked at is wrong, and the others are looked at."""
    def look(part: str, findings: Iterable[Finding]) -> Iterator[Finding]:
        return guarded(part, findings, f"cdcv2 doctor {pipeline.path}")

    recipes: dict[str, list[DatabaseConnector]] = {}
    for capture in pipeline.captures.values():
        found = list(look(f"capture {capture.name}", _capture(pipeline, capture, recipes)))
        yield from found
    for view in pipeline.views.values():
        yield from look(f"view {view.name}", _view(pipeline, view))
    for replay in pipeline.replays.values():
        yield from look(f"replay {replay.name}", _replay(pipeline, replay))
    for source in pipeline.sources.values():
        yield from look(f"source {source.name}", _source(pipeline, source))
        yield from look(f"connector of {source.name}", _connector(pipeline, source, recipes))
    for capture in pipeline.captures.values():
        if "from" not in capture.options:
            yield from look("kafka", _topics(pipeline, capture, recipes.get(capture.name, [])))
    for instance in pipeline.instances.values():
        yield from look(f"instance {instance.name}", _instance(pipeline, instance))
    yield from look("external state", _external(pipeline))
    yield from _disks(pipeline)


def _external(pipeline: Pipeline) -> Iterator[Finding]:
    """What cdcv2 up has made, and what it would refuse to make, or what is lost. Nothing is asked of servers."""
    entries = catalogue_entries(pipeline.state, pipeline.name)
    if not entries:
        return
    desired = external_needs(pipeline).needs.desired(entries)
    for entry, text in refused_changes(pipeline, entries, desired):
        yield Finding(entry.shown, text, Health.WRONG, f"mend {pipeline.path}; then cdcv2 plan {pipeline.path}")
    for entry in entries:
        if entry.state is EntryState.LOST:
            text = "it is lost" if entry.debt is None else entry.debt.text
            yield Finding(entry.shown, text, Health.WRONG, "docs/operations/start-over.md#something-is-lost")
    live = sum(one.is_live for one in entries)
    yield Finding("external state", f"{live} things in other systems are in the catalogue in {pipeline.state}")


def _instance(pipeline: Pipeline, instance: InstanceFields) -> Iterator[Finding]:
    """Its place, and its tables with their keys, where a capture of the file writes their logs."""
    part = f"instance {instance.name}"
    check_instance(instance)
    yield Finding(part, f"clients ask at {instance.place}")
    if instance.capture is None:
        yield Finding(part, "its tables are judged when its logs are opened", Health.NOT_CHECKED)
        return
    types = row_types(pipeline.captures[instance.capture])
    for table, key in instance.index.items():
        columns = types[table].columns if table in types else ()
        lacking = next((column for column in key if column not in columns), None)
        if table not in types:
            yield Finding(part, f"the capture {instance.capture} has no table {table}", Health.WRONG,
                          f"name one of {', '.join(sorted(types))} in its index")  # fmt: skip
        elif lacking is not None:
            yield Finding(part, f"{table} has no column {lacking}", Health.WRONG,
                          f"name columns of {', '.join(columns)} in its index")  # fmt: skip
    yield Finding(part, f"it holds {len(instance.index)} tables, in {len(instance.replicas)} processes")


def _capture(
    pipeline: Pipeline, capture: CaptureFields, recipes: dict[str, list[DatabaseConnector]]
) -> Iterator[Finding]:
    types = row_types(capture)
    demand_own_logs(capture)
    recipes[capture.name] = recipes_of(capture)
    if capture.owned:
        demand_alone(pipeline)
    yield Finding(f"capture {capture.name}", f"{len(types)} tables, of the row types in {capture.arguments.rows}")


def _replay(pipeline: Pipeline, replay: ReplayFields) -> Iterator[Finding]:
    if replay.capture is not None:
        known_tables(replay, row_types(pipeline.captures[replay.capture]))
    yield Finding(f"replay {replay.name}", f"{len(replay.tables)} tables, into {replay.output}")


def _view(pipeline: Pipeline, view: ViewFields) -> Iterator[Finding]:
    part = f"view {view.name}"
    check_view_of(pipeline, view)
    if view.capture is None:
        yield Finding(part, "its bindings are judged when its logs are opened", Health.NOT_CHECKED)
    else:
        yield Finding(part, "its bindings fit the row types")
    target = dict(view.fields["target"].entries())
    if target["driver"].text() == "postgres":
        names = [target_of(binding).text() for binding in view.fields["bindings"].items()]
        yield from _target(part, target["conninfo"].conninfo() if "conninfo" in target else "", names)
    # It raises for the checkpoint of another view of this name, and for a damaged one: each text has its own remedy.
    checkpoint_of(view, timeline_of(pipeline, view))


def _target(part: str, conninfo: str, names: Iterable[str]) -> Iterator[Finding]:
    with closing(connect(conninfo, origin=f"the target of the {part}", autocommit=True)) as session:
        row = session.execute(
            "SELECT current_setting('server_version_num')::int, current_database(), current_schema(), current_user, "
            "has_schema_privilege(coalesce(current_schema(), 'public'), 'CREATE')"
        ).fetchone()
        named = [parts_of(name) for name in names if "." in name]
        schemas = session.execute(_SCHEMAS, [list(each) for each in zip(*named)] or [[], []]).fetchall()
        read_only = why_read_only(session)
    version, database, schema, user, may = row or (0, "", "", "", False)
    yield judged(part, version >= 150000, f"its target is PostgreSQL {version // 10000}", "15 or later is needed")
    if read_only is not None:
        # Whatever it may do: it cannot.
        yield Finding(part, read_only[0], Health.WRONG, read_only[1])
        return
    yield judged(part, bool(may), f"{user} may make tables in {database}",
                 f"GRANT CREATE ON SCHEMA {sql_name(schema or 'public')} TO {sql_name(user)};",
                 lacking=f"{user} may not make tables in {database}")  # fmt: skip
    for schema, there, may, tables in schemas:
        makes = f"CREATE SCHEMA {sql_name(schema)}; or, if the dot is part of the table's name, another target"
        grants = f"GRANT CREATE ON SCHEMA {sql_name(schema)} TO {sql_name(user)};"
        yield judged(part, there and may, f"{user} may make tables in the schema {schema}", grants if there else makes,
                     lacking=f"{user} may not make {', '.join(tables)} in the schema {schema}" if there else
                     f"its target has no schema {schema}, and so no place for {', '.join(tables)}")  # fmt: skip


def _source(pipeline: Pipeline, source: SourceFields) -> Iterator[Finding]:
    conninfo = source.conninfo()
    if conninfo is None:
        yield Finding(f"source {source.name}", "the file does not name its database", Health.NOT_CHECKED,
                      'postgres: {conninfo: "host=... dbname=... user=... password=${PGPASSWORD}"}')  # fmt: skip
        return
    types, known_full, from_state = dict[str, RowType](), set[str](), True
    for capture in pipeline.captures.values():
        if capture.source is source:
            from_state = from_state and capture.arguments.before == FROM_STATE
            for recipe in recipes_of(capture):
                types |= recipe.tables
                known_full |= recipe.full_identity
    origin = f"the conninfo of the source {source.name}"
    marked = any(
        part.marker and part.capture is not None and pipeline.captures[part.capture].source is source
        for part in pipeline.instances.values()
    )
    with closing(connect(conninfo, origin=origin, autocommit=True)) as session:
        yield from source_findings(
            source, session, types, from_state=from_state, config=_known_config(pipeline, source), marked=marked,
            known_full=known_full,
        )


def _known_config(pipeline: Pipeline, source: SourceFields) -> Mapping[str, Any] | None:
    """The settings of a source's connector; None: they are not known. What is wrong with it is found of itself.

    Those of one that cdcv2 up makes are known of the file, also where it is not there yet, or Connect is away.
    """
    connector = source.connector
    if connector is None:
        return None
    made: Mapping[str, Any] | None = None
    there: Mapping[str, Any] | None = None
    with suppress(Cdcv2Error):
        made = _made_config(pipeline, connector) if connector.owned else None
    with suppress(Cdcv2Error):
        worker = connector.client(patience=_PATIENCE)
        there = None if worker is None else worker.config(connector.name)
    return None if made is None and there is None else {**(there or {}), **(made or {})}


def _connector(
    pipeline: Pipeline, source: SourceFields, recipes: Mapping[str, list[DatabaseConnector]]
) -> Iterator[Finding]:
    part, connector = f"connector of {source.name}", source.connector
    worker = None if connector is None else connector.client(patience=_PATIENCE)
    if connector is None or worker is None:
        yield Finding(part, "the file does not name it", Health.NOT_CHECKED,
                      'connector: {name: ..., url: "http://CONNECT:8083"}')  # fmt: skip
        return
    made = _made_config(pipeline, connector) if connector.owned else None
    conninfo = source.conninfo()
    database = None if conninfo is None else database_server(conninfo).database
    server = None if conninfo is None else host_and_port(conninfo)
    yield version_finding(part, worker.plugins())
    recipe = next((one for found in recipes.values() for one in found if one.prefix == source.prefix), None)
    config = worker.config(connector.name)
    if config is None and made is not None:
        yield Finding(part, f"Connect has no connector {connector.name} yet: cdcv2 up makes it")
        yield from connector_findings(
            part, made, recipe, slot=source.slot.name, publication=source.publication.name, database=database,
            server=server,
        )
        yield from _reader(part, source, made, recipe)
        return
    if config is None:
        yield Finding(part, f"Connect has no connector {connector.name}", Health.WRONG,
                      curl(f"-X PUT -H 'Content-Type: application/json' -d @connector.json "
                           f"{worker.url}/connectors/{connector.name}/config", connector.login))  # fmt: skip
        return
    # What cdcv2 up alters is as it will be then; cdcv2 plan shows the difference.
    yield from connector_findings(
        part, {**config, **(made or {})}, recipe, slot=source.slot.name, publication=source.publication.name,
        database=database, server=server,
    )  # fmt: skip
    yield from state_findings(part, worker.status(connector.name) or {})
    yield from _reader(part, source, {**config, **(made or {})}, recipe)


def _reader(
    part: str, source: SourceFields, config: Mapping[str, Any], recipe: DatabaseConnector | None
) -> Iterator[Finding]:
    """The role of the connector, in the database, where it reads rows and is another than ours."""
    conninfo = source.conninfo()
    if conninfo is None or recipe is None or not takes_snapshot(config):
        return
    user = str(config.get("database.user"))
    try:
        opened = connect(conninfo, origin=f"the conninfo of the source {source.name}", autocommit=True)
    except UnavailableError:
        # What is found of the source names that.
        return
    with closing(opened) as session:
        if user != session.info.user:
            yield from reader_findings(part, session, user, recipe.tables)


def _made_config(pipeline: Pipeline, connector: ConnectorFields) -> Mapping[str, Any]:
    """The settings with which cdcv2 up makes a connector of ours. Raises UsageError where it would refuse the file."""
    stated = external_needs(pipeline).needs.stated
    return next(one.settings for one in stated if (one.kind, one.name) == (Kind.CONNECTOR, connector.name))


def _topics(pipeline: Pipeline, capture: CaptureFields, recipes: list[DatabaseConnector]) -> Iterator[Finding]:
    bootstrap, config = pipeline.kafka
    client = Client(bootstrap, config, patience=_PATIENCE)
    there = set(client.request("Kafka", lambda: client.admin.list_topics(timeout=_PATIENCE)).topics)
    yield Finding("kafka", f"answers, and has {len(there)} topics")
    owned = bool(capture.source and capture.source.connector and capture.source.connector.owned)
    topics = [topic for recipe in recipes for topic in recipe.topics()]
    yield from rights_findings(
        f"capture {capture.name}", rights_to(client, topics), lambda topic: may_create(client, topic), owned=owned
    )
    for recipe in recipes:
        yield from topics_findings(
            f"capture {capture.name}", recipe, there, lambda topic: describe(client, topic), owned=owned
        )


def _disks(pipeline: Pipeline) -> Iterator[Finding]:
    for folder, content, space in disks_of(pipeline):
        refused = refusal(folder)
        if refused is not None:
            yield Finding(f"folder {folder}", f"{content}: nothing can be written there: {refused}", Health.WRONG,
                          f"make room on its disk, or let the jobs' user write there: ls -ld {folder}")  # fmt: skip
            continue
        yield judged(
            f"folder {folder}", space.free >= min(_BYTES, _SHARE * space.size),
            f"{content}: {space.free / 1e9:.0f} of {space.size / 1e9:.0f} GB are free",
            "logs are kept for ever: make room, or name a folder on another disk", otherwise=Health.WARNING,
        )
