"""Every setting of Debezium's connector for PostgreSQL, by what a capture has to know of it.

A setting that a later Debezium adds is in none of these until somebody has judged it.
"""

from __future__ import annotations

#: Judged by ``connectors/debezium/left_out.py``: with another value, less or something else is sent.
LEAVES_OUT = """
binary.handling.mode column.exclude.list column.include.list column.mask.hash.([^.]+).with.salt.(.+)
column.mask.with.(d+).chars column.truncate.to.(d+).chars converters decimal.handling.mode
event.converting.failure.handling.mode event.processing.failure.handling.mode message.key.columns plugin.name
post.processors schema.exclude.list schema.include.list skipped.operations slot.drop.on.stop slot.stream.params
snapshot.include.collection.list snapshot.isolation.mode snapshot.mode snapshot.query.mode
snapshot.select.statement.overrides table.exclude.list table.include.list time.precision.mode
unavailable.value.placeholder
"""

#: Judged by ``control/connector_findings.py`` and ``control/pipeline_needs.py``: what it is has to be known.
#: (``driver.options``, which passes through to the driver, is no setting of the connector.)
DEMANDED = """
database.dbname database.hostname database.initial.statements database.port flush.lsn.source heartbeat.action.query
heartbeat.interval.ms lsn.flush.mode notification.enabled.channels notification.sink.topic.name
provide.transaction.metadata publication.autocreate.mode publication.name slot.name topic.prefix
"""

#: Why nothing has to be known of it -> the settings.
FREE = {
    "how it reaches the server, and how often": """
        connection.validation.timeout.ms database.exclude.list database.include.list database.password
        database.query.timeout.ms database.sslcert database.sslfactory database.sslkey database.sslmode
        database.sslpassword database.sslrootcert database.tcpKeepAlive database.user errors.max.retries
        executor.shutdown.timeout.ms lsn.flush.timeout.action lsn.flush.timeout.ms poll.interval.ms query.fetch.size
        retriable.restart.connector.wait.ms slot.failover slot.max.retries slot.retry.delay.ms snapshot.delay.ms
        snapshot.fetch.size snapshot.lock.timeout.ms status.update.interval.ms streaming.delay.ms xmin.fetch.interval.ms
        snapshot.locking.mode snapshot.locking.mode.custom.name
    """,
    "the same records, in other portions or in another order": """
        legacy.snapshot.max.threads internal.legacy.snapshot.max.threads max.batch.size max.queue.size
        max.queue.size.in.bytes snapshot.max.threads snapshot.max.threads.multiplier snapshot.tables.order.by.row.count
    """,
    "what is beside the rows": """
        column.propagate.source.type custom.metric.tags custom.sanitize.pattern datatype.propagate.source.type
        extended.headers.enabled guardrail.collections.limit.action guardrail.collections.max heartbeat.topics.prefix
        include.schema.comments internal.advanced.metrics.enable internal.offset.activity.monitor.interval.ms
        memory.management.schemas.class memory.management.tables.class notification.http.allow.private.networks
        notification.http.retries notification.http.timeout.ms notification.http.url
        openlineage.integration.config.file.path openlineage.integration.dataset.kafka.bootstrap.servers
        openlineage.integration.enabled openlineage.integration.job.description openlineage.integration.job.namespace
        openlineage.integration.job.owners openlineage.integration.job.tags schema.name.adjustment.mode
        statistics.metrics.enabled tombstones.on.delete
    """,
    "logical messages: no capture reads them": "message.prefix.exclude.list message.prefix.include.list",
    "an update that changes nothing changes nothing": "skip.messages.without.change",
    "the form of a value, which its row type states, so that another one is an error": """
        field.name.adjustment.mode hstore.handling.mode include.unknown.datatypes interval.handling.mode
    """,
    "other names or forms of what a capture waits for, and it would wait": """
        sourceinfo.struct.maker topic.naming.strategy transaction.metadata.factory
    """,
    "another snapshot than the first is refused by the capture": """
        incremental.snapshot.allow.schema.changes incremental.snapshot.chunk.size
        incremental.snapshot.watermarking.strategy internal.signal.processor.semaphore.wait.ms
        internal.signal.synchronous.batch.size signal.data.collection signal.emit.failure.backoff.ms
        signal.emit.failure.max.retries signal.enabled.channels signal.poll.interval.ms
    """,
    "of a value of snapshot.mode or snapshot.query.mode that is refused": """
        snapshot.mode.configuration.based.snapshot.data snapshot.mode.configuration.based.snapshot.on.data.error
        snapshot.mode.configuration.based.snapshot.on.schema.error snapshot.mode.configuration.based.snapshot.schema
        snapshot.mode.configuration.based.start.stream snapshot.mode.custom.name snapshot.query.mode.custom.name
    """,
    "of a publication or an identity that is looked at in the database": """
        publish.via.partition.root replica.identity.autoset.values
    """,
    "what Debezium states to be for its own tests, or for other plugins": """
        internal.log.position.check.enable internal.snapshot.scan.all.columns.force schema.refresh.mode
        table.ignore.builtin
    """,
}


def known_settings() -> list[str]:
    """All of them, sorted; one that is in two lists twice."""
    return sorted(name for text in (LEAVES_OUT, DEMANDED, *FREE.values()) for name in text.split())
