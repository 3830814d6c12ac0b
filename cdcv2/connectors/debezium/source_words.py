"""What remedies call the parts of PostgreSQL and of Debezium's connector for it."""

from __future__ import annotations

from cdcv2.capture.source_words import SourceWords

_UPGRADE = "use Debezium 3.7.0 or later, and start over with a new snapshot: new topics, new slot, new logs"

POSTGRES_WORDS = SourceWords(
    slot="slot",
    replication_slot="replication slot",
    prefix="topic.prefix",
    whole_rows="REPLICA IDENTITY FULL",
    take_whole_rows="FULL",
    partial_rows=". With REPLICA IDENTITY USING INDEX old values are not whole: take DEFAULT or FULL",
    key="the primary key, or the connector's message.key.columns",
    no_snapshot="snapshot.mode=no_data",
    captured_tables="table.include.list, its publication",
    snapshot_lsn="source.lsn",
    producers="Connect's producers",
    or_restarted=(
        " Or was the connector restarted inside the transaction? Before version 3.7.0 it then numbers and counts the "
        f"rest only: {_UPGRADE}"
    ),
    renumbered=(
        "A connector before 3.7.0 that is restarted inside a transaction numbers the rest from 1 again, counts only "
        f"that in END, and may lose rows: {_UPGRADE}"
    ),
    old_connector="a connector before 3.7.0",
)
