"""Whether a connector, and the topics that it writes, are as a capture needs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.connectors.debezium.config import IDLE_SETTINGS, JSON_CONVERTER, VALUE_FORM, in_value_form
from cdcv2.connectors.debezium.left_out import masked_columns, omissions, unsent_tables
from cdcv2.control.findings import Finding, Health, judged
from cdcv2.logs.kafka_topics import Topic

#: The oldest Debezium that numbers rows after a restart as before.
OLDEST = (3, 7, 0)
#: Names of this machine.
_HERE = re.compile(r"^(127\.0\.0\.1|::1)(?=:\d+$)")
_IDLE = "docs/operations/connector.md#when-tables-are-idle"
#: Setting -> what it has to be; what a connector without it has is in :data:`_DEFAULTS`.
_DEMANDED = {
    "provide.transaction.metadata": "true", "value.converter": JSON_CONVERTER, "key.converter": JSON_CONVERTER,
}
#: Settings that a connector may leave out -> what they are then; None: as the worker is set up.
_DEFAULTS = {
    "provide.transaction.metadata": "false", "value.converter": None, "key.converter": None,
}


def connector_findings(
    part: str, config: Mapping[str, Any], recipe: DatabaseConnector | None, *, slot: str | None,
    publication: str | None, database: str | None = None, server: str | None = None,
) -> Iterator[Finding]:
    """What is found of a connector's settings; ``recipe`` is that of the capture of its topics, ``database`` the name
    of the one that the file has, ``server`` its HOST:PORT; None: not known.
    """
    read = str(config.get("database.dbname"))
    yield judged(part, database is None or "${" in read or read == database, f"it reads the database {read}",
                 f"set database.dbname={database} in the connector, or mend conninfo in the pipeline file")  # fmt: skip
    yield from _server(part, config, server)
    for name, demanded in _DEMANDED.items():
        found = config.get(name, _DEFAULTS[name])
        if found is None:
            yield Finding(part, f"{name} is the worker's", Health.WARNING, f"set {name}={demanded} in the connector")
        else:
            yield judged(part, found == demanded, f"{name}={found}", f"set {name}={demanded} in the connector")
    for name, own in (("slot.name", slot), ("publication.name", publication)):
        if own is not None:
            found = config.get(name, "debezium" if name == "slot.name" else "dbz_publication")
            yield judged(part, found == own, f"{name}={found}", f"the pipeline file has {own}: write {found} there")
    yield from _positions(part, config)
    mode = config.get("publication.autocreate.mode", "all_tables")
    yield judged(part, mode in ("disabled", "filtered"), f"publication.autocreate.mode={mode}",
                 "set it to disabled, and make the publication", otherwise=Health.WARNING)  # fmt: skip
    ((name, options),) = VALUE_FORM.items()
    fixed = in_value_form(config)[name] == config.get(name)
    yield judged(part, fixed or "${" in config.get(name, ""), "its sessions fix the form of values",
                 f"set {name}={options}", otherwise=Health.WARNING,
                 lacking="its sessions take the form of values from database and role: with another intervalstyle, "
                 "bytea_output or extra_float_digits there, other values arrive")  # fmt: skip
    tables = {} if recipe is None else {name: row.columns for name, row in recipe.tables.items()}
    left_out = list(omissions(config, tables, by_key=recipe is not None and recipe.before == FROM_STATE))
    for one in left_out:
        yield Finding(part, f"it has {one.setting}: {one.why}", Health.WRONG, one.remedy)
    if recipe is not None:
        if not left_out:
            yield Finding(part, "no setting that is known leaves out rows of the capture, or changes values unasked")
        for column, setting in masked_columns(config, tables).items():
            yield Finding(part, f"{column} is sent as {setting} makes it", Health.WARNING,
                          "if this is meant, give compare --source the option --without for it")  # fmt: skip
        unsent = unsent_tables(config, recipe.tables)
        yield judged(part, not unsent, "its filters leave out no table of the capture",
                     "add it to table.include.list: docs/operations/tables.md", otherwise=Health.WARNING,
                     lacking=f"its filters leave out {', '.join(unsent)}: no change of it is sent")  # fmt: skip
        prefix, topic = config.get("topic.prefix"), recipe.notification_topic
        yield judged(part, prefix == recipe.prefix, f"topic.prefix={prefix}", f"prefix: {prefix} in the pipeline file")
        sent = config.get("notification.sink.topic.name") if config.get("notification.enabled.channels") else None
        yield judged(part, topic is None or sent == topic,
                     "it sends no notifications" if sent is None else f"its notifications go to {sent}",
                     f"set notification.enabled.channels=sink and notification.sink.topic.name={topic}")  # fmt: skip


def _server(part: str, config: Mapping[str, Any], server: str | None) -> Iterator[Finding]:
    """What is found of the server that it reads; it may have several names."""
    read = f"{config.get('database.hostname')}:{config.get('database.port') or 5432}"
    if server is not None and "database.hostname" in config and "${" not in read:
        same = re.sub(_HERE, "localhost", read) == re.sub(_HERE, "localhost", server)
        yield judged(part, same, f"it reads the server {read}",
                     "if these are two servers, mend database.hostname and database.port, or conninfo",
                     otherwise=Health.WARNING,
                     lacking=f"it reads the server {read}, and conninfo names {server}")  # fmt: skip


def _positions(part: str, config: Mapping[str, Any]) -> Iterator[Finding]:
    """What is found of how the connector confirms WAL to its server."""
    flush = config.get("lsn.flush.mode") or ("manual" if config.get("flush.lsn.source") == "false" else "connector")
    why = "the server keeps all WAL" if flush == "manual" else "Debezium 3.7 fails at a restart, as it lacks WAL then"
    yield judged(part, flush == "connector", f"lsn.flush.mode={flush}", f"leave it out of the connector: {why}")
    idle = "; ".join(f"{name}={value}" for name, value in IDLE_SETTINGS.items())
    beats = config.get("heartbeat.interval.ms", "0") != "0" and bool(config.get("heartbeat.action.query"))
    found = "its heartbeats commit" if beats else "its heartbeats commit nothing: in idle tables no frontier moves"
    yield judged(part, beats, found, f"set {idle} in the connector: {_IDLE}", otherwise=Health.WARNING)


def state_findings(part: str, status: Mapping[str, Any]) -> Iterator[Finding]:
    """What is found of the state that Connect reports of a connector and its tasks."""
    tasks = status.get("tasks", [])
    for what, one in [("the connector", status.get("connector", {})), *(("its task", task) for task in tasks)]:
        state = one.get("state")
        remedy = "POST /connectors/NAME/restart?includeTasks=true to Connect, whose log has the reason"
        yield judged(part, state == "RUNNING", f"{what} is {state}", remedy)
    yield judged(part, bool(tasks), f"it has {len(tasks)} tasks", "see Connect's log: a connector has one")


def version_finding(part: str, plugins: Sequence[Mapping[str, Any]]) -> Finding:
    """Which Debezium the worker has, of the plugins that Connect reports."""
    found = next((str(one.get("version")) for one in plugins if "PostgresConnector" in str(one.get("class"))), None)
    if found is None:
        return Finding(part, "Connect has no PostgresConnector", Health.WRONG, "put Debezium into its plugin.path")
    numbers = tuple(int(one) for one in found.split(".")[:3] if one.isdecimal())
    return judged(part, numbers >= OLDEST, f"Debezium {found}", "take 3.7.0 or later: others may lose rows")


def rights_findings(
    part: str, rights: Mapping[str, frozenset[str] | None], may_create: Callable[[str], bool], *, owned: bool
) -> Iterator[Finding]:
    """What is found of the rights to the topics of a capture: see :func:`cdcv2.logs.kafka_rights.rights_to`.

    It reads them. ``owned``: cdcv2 up makes and removes them. A topic that we may not see may be there or not.
    """
    needed = ("READ", "DELETE") if owned else ("READ",)
    lacking = {
        topic: ([] if not owned or may_create(topic) else ["CREATE"]) if allowed is None
        else [right for right in (*needed, *(("CREATE",) if owned and not allowed else ())) if right not in allowed]
        for topic, allowed in sorted(rights.items())
    }
    if not any(lacking.values()):
        yield Finding(part, f"Kafka lets it {'make, read and remove' if owned else 'read'} its topics")
    for topic, missing in lacking.items():
        if missing:
            options = " ".join(f"--operation {right.capitalize()}" for right in missing)
            # Without that alone all works, until it is to be removed.
            health = Health.WARNING if missing == ["DELETE"] else Health.WRONG
            yield Finding(part, f"{topic}: Kafka does not grant {' and '.join(missing)} to it", health,
                          "kafka-acls.sh --bootstrap-server KAFKA:9092 --add --allow-principal User:NAME "
                          f"{options} --topic {topic}")  # fmt: skip


def topics_findings(
    part: str, recipe: DatabaseConnector, there: set[str], describe: Callable[[str], Topic], *, owned: bool = False
) -> Iterator[Finding]:
    """What is found of the topics of a capture; ``describe`` asks the cluster for one of those ``there``.

    ``owned``: cdcv2 up makes them, before the connector.
    """
    missing = sorted(topic for topic in recipe.topics() if topic not in there)
    if owned and missing:
        yield Finding(part, f"not there yet: {len(missing)} topics of the connector; cdcv2 up makes them")
    doubt = None if owned else recipe.unmet(there)
    if doubt is not None:
        yield Finding(part, doubt, Health.WRONG, "name the tables that the connector has")
    single = {recipe.transaction_topic, recipe.notification_topic}
    if missing and not owned:
        yield Finding(part, f"not there yet: {', '.join(missing)}", Health.WARNING,
                      "the connector makes a topic with its first record: start it")  # fmt: skip
    for topic in sorted(set(recipe.topics()) & there):
        yield from topic_findings(part, describe(topic), single=topic in single)


def topic_findings(part: str, topic: Topic, *, single: bool) -> Iterator[Finding]:
    """What is found of one topic of a connector; ``single``: its order counts, so it has one partition."""
    alter = (
        "kafka-configs.sh --bootstrap-server KAFKA:9092 --alter --entity-type topics "
        f"--entity-name {topic.name} --add-config"
    )
    policy, kept = topic.settings.get("cleanup.policy"), topic.settings.get("retention.ms")
    if not topic.settings:
        yield Finding(part, f"{topic.name}: its settings may not be read", Health.NOT_CHECKED,
                      "allow DescribeConfigs on the topic")  # fmt: skip
    else:
        found = f"{topic.name}: cleanup.policy={policy}"
        yield judged(part, policy == "delete", found, f"{alter} cleanup.policy=delete")
        yield judged(part, kept == "-1", f"{topic.name}: retention.ms={kept}", f"{alter} retention.ms=-1",
                     otherwise=Health.WARNING)  # fmt: skip
        if topic.settings.get("unclean.leader.election.enable") == "true":
            yield Finding(part, f"{topic.name}: unclean.leader.election.enable=true: it may lose newest records, and "
                          "have others at their offsets", Health.WARNING,
                          f"{alter} unclean.leader.election.enable=false")  # fmt: skip
    first = [low for low, _ in topic.spans.values() if low]
    yield judged(part, not first, f"{topic.name}: {'has lost its first records' if first else 'has all its records'}",
                 "a new capture needs a new connector with new topics", otherwise=Health.WARNING)  # fmt: skip
    if single:
        yield judged(part, len(topic.spans) == 1, f"{topic.name}: {len(topic.spans)} partitions",
                     "its order is that of commits: a new connector, with topic.creation of 1 partition")  # fmt: skip
