"""The configuration of Debezium's PostgreSQL connector that a capture can rely on.

What is not a default in it, and why:

- ``provide.transaction.metadata``: a transaction is complete when its END is there and all that END counts is there;
- one partition for the transaction topic, as its order is the order of commits; as many as one likes for tables;
- ``skipped.operations=none``: by default TRUNCATE is left out, and every copy is silently wrong from there on;
- ``decimal.handling.mode=string`` keeps all digits; :mod:`.left_out` has the settings that would send something else;
- notifications: only they state how many rows a snapshot has;
- ``event.converting.failure.handling.mode=fail``: else a value that Debezium cannot convert is sent as NULL;
- ``row_security = off``: else a snapshot lacks the rows that row-level security hides from the connector's role;
- ``driver.options``: the form in which the server sends values is that of no database or role;
- idempotent producers: a repeated snapshot row has no identity of its own;
- ``retention.ms=-1``: a topic that forgets is no log.

The tables need ``REPLICA IDENTITY FULL``, or updates and deletes come without their old rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cdcv2.errors import UsageError

#: The default of ``password``: Connect takes it from its own environment, as its worker allows.
FROM_ENVIRONMENT = "${env:PGPASSWORD}"
#: The class of the converter that a capture reads.
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
#: What a capture reads, whatever the worker's own converters are.
JSON_CONVERTERS = {
    "key.converter": JSON_CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON_CONVERTER,
    "value.converter.schemas.enable": "false",
    # Or a NULL in a column with a DEFAULT is sent as that default.
    "value.converter.replace.null.with.default": "false",
}
#: Logical messages, which any program may write, go to no topic, which nothing would remove.
NO_MESSAGES = {"message.prefix.exclude.list": ".*"}
#: For a database whose tables are idle while others write to it: the connector commits a message of its own now and
#: then. Its END moves frontiers, and the slot keeps no WAL of others.
IDLE_SETTINGS = {
    "heartbeat.interval.ms": "10000",
    "heartbeat.action.query": "SELECT pg_logical_emit_message(true, 'cdcv2', 'heartbeat')",
    **NO_MESSAGES,
}
#: What a connector does with a value that it cannot convert. By default it sends NULL for it, and goes on.
CONVERTING = "event.converting.failure.handling.mode"
#: The names of publications by which a connector can read. It does not quote them: PostgreSQL folds capitals, so it
#: reads by another publication, or, with other characters, by none.
READABLE_PUBLICATION = re.compile(r"[a-z_][a-z0-9_$]{0,62}")
#: With this a snapshot fails where row-level security would hide rows from it. Without, it has the others, silently.
SEES_ALL = {"database.initial.statements": "SET row_security = off"}
#: The form in which the server sends values, whatever database and role have: its stream has them as text, and Debezium
#: reads no other form. With ``bytea_output=escape`` other bytes arrive, with ``sql_standard`` an interval of 0.
VALUE_FORM = {"driver.options": "-c intervalstyle=postgres -c bytea_output=hex -c extra_float_digits=3"}
#: What Connect puts a value in the place of: ``${PROVIDER:KEY}`` or ``${PROVIDER:PATH:KEY}``.
_REFERENCE = re.compile(r"\$\{[^${}:]+:[^${}]+\}")


def debezium_config(
    prefix: str,
    tables: Sequence[str],
    *,
    host: str,
    port: int,
    database: str,
    user: str,
    password: str = FROM_ENVIRONMENT,
    partitions: int = 1,
    replication: int = 1,
    publication: str = "filtered",
    snapshot: str = "initial",
    heartbeat_ms: int = 1000,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The connector's configuration for ``tables`` (each ``schema.table``), as Connect takes it.

    Topics are ``prefix.schema.table``, ``prefix.transaction`` and ``prefix.notifications``. ``partitions`` are those of
    the topic of a table, ``replication`` is the replication factor of all topics (-1: the cluster's own).
    ``publication`` is Debezium's ``publication.autocreate.mode``, ``snapshot`` its ``snapshot.mode``; ``heartbeat_ms``
    0 switches heartbeats off, and ``more`` adds or replaces settings. It is one long table of settings, each with its
    reason beside it.

    The ``password`` is a reference that Connect resolves, as ``${env:NAME}`` or ``${file:PATH:KEY}``. Raises UsageError
    for a password itself: everybody who may ask Connect would read it.

    >>> debezium_config("bank", ["public.accounts"], host="db", port=5432, database="bank", user="me")["slot.name"]
    'bank'
    """
    if not _REFERENCE.fullmatch(password):
        raise UsageError(
            "the connector's password is written out, and Connect's REST interface shows it to everybody: give a "
            "reference to it, as ${env:PGPASSWORD} or ${file:/etc/connect/db.properties:password}"
        )
    if replication < 1 and replication != -1:
        raise UsageError(f"the replication factor {replication} is none: give 1 or more, or -1 for the cluster's own")
    slot = slot_name(prefix)
    ones = [f"{prefix}.transaction", f"{prefix}.notifications", heartbeat_topic(prefix)]
    return {
        "name": prefix,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": host,
        "database.port": str(port),
        "database.dbname": database,
        "database.user": user,
        "database.password": password,
        "topic.prefix": prefix,
        "slot.name": slot,
        "slot.drop.on.stop": "false",
        # After a kill the server may believe for a moment that the slot is still in use.
        "slot.max.retries": "60",
        "slot.retry.delay.ms": "500",
        "retriable.restart.connector.wait.ms": "500",
        "publication.name": slot,
        "publication.autocreate.mode": publication,
        "table.include.list": ",".join(map(exact_pattern, tables)),
        "snapshot.mode": snapshot,
        **SEES_ALL,
        **VALUE_FORM,
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "string",
        CONVERTING: "fail",
        # Where records carry schemas, these state the types that columns have in the database.
        "datatype.propagate.source.type": ".+",
        "heartbeat.interval.ms": str(heartbeat_ms),
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{prefix}.notifications",
        "producer.override.enable.idempotence": "true",
        "producer.override.acks": "all",
        "topic.creation.groups": "ordered",
        "topic.creation.ordered.include": "|".join(re.escape(topic) for topic in ones),
        "topic.creation.ordered.partitions": "1",
        "topic.creation.ordered.replication.factor": str(replication),
        "topic.creation.ordered.cleanup.policy": "delete",
        "topic.creation.ordered.retention.ms": "-1",
        "topic.creation.default.partitions": str(partitions),
        "topic.creation.default.replication.factor": str(replication),
        "topic.creation.default.cleanup.policy": "delete",
        "topic.creation.default.retention.ms": "-1",
        **(more or {}),
    }


def exact_pattern(name: str) -> str:
    """The entry of a list of tables or columns that means this one alone.

    The connector's lists have patterns, for which ``orders`` and ``Orders`` are the same unless they state otherwise.

    >>> print(exact_pattern("public.Orders"))
    (?-i:public\\.Orders)
    """
    # At a comma, the list would be split.
    return f"(?-i:{re.escape(name)})".replace(",", "\\,")


def seeing_all(config: Mapping[str, str]) -> dict[str, str]:
    """The setting by which a connector's snapshot has all rows or fails, beside the statements that it has already.

    >>> seeing_all({"database.initial.statements": "SET work_mem = '64MB';"})
    {'database.initial.statements': "SET work_mem = '64MB';SET row_security = off"}
    >>> seeing_all({}) == seeing_all(seeing_all({})) == SEES_ALL
    True
    """
    ((name, statement),) = SEES_ALL.items()
    own = config.get(name, "").strip()
    if statement in own:
        return {name: own}
    return {name: f"{own}{'' if not own or own.endswith(';') else '; '}{statement}"}


def in_value_form(config: Mapping[str, str]) -> dict[str, str]:
    """The setting by which the server sends values in the form that Debezium reads, beside the options that it has.

    >>> in_value_form({"driver.options": "-c work_mem=64MB"})["driver.options"].split(" -c ")[:2]
    ['-c work_mem=64MB', 'intervalstyle=postgres']
    >>> in_value_form({}) == in_value_form(in_value_form({})) == VALUE_FORM
    True
    """
    ((name, options),) = VALUE_FORM.items()
    own = config.get(name, "").strip()
    # Of two, the later one counts.
    return {name: own if own.endswith(options) else f"{own} {options}".strip()}


def heartbeat_topic(prefix: str, start: str = "__debezium-heartbeat") -> str:
    """The topic of a connector's heartbeats; ``start``: its ``topic.heartbeat.prefix``.

    >>> heartbeat_topic("shop")
    '__debezium-heartbeat.shop'
    """
    return f"{start}.{prefix}"


def slot_name(prefix: str) -> str:
    """The name of a connector's slot and publication: of its prefix, in the letters that PostgreSQL allows.

    >>> slot_name("Shop-2")
    'shop_2'
    """
    return re.sub(r"[^a-z0-9_]", "_", prefix.lower())
