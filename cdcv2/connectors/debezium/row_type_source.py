"""How ``cdcv2 rows`` makes the row types of PostgreSQL's tables: asked of the database, or of a record of Debezium."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cdcv2.connectors.debezium.row_types import row_type_from_envelope, source_table, without_sources
from cdcv2.store.source_address import source_address


class PostgresRowTypes:
    """See the contract (:class:`~cdcv2.capture.connector.RowTypeSource`)."""

    schemas = "set value.converter.schemas.enable=true in the connector's worker"

    def of_source(
        self, where: str, table: str, excluded: Collection[str] = ()
    ) -> tuple[dict[str, Any], str | None]:
        """By the catalogue; the remark is about a table without REPLICA IDENTITY FULL."""
        from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres, set_full, table_identities
        from cdcv2.store.postgres_session import connect

        address = source_address(where)
        connection = connect(address.conninfo, origin=address.origin, autocommit=True)
        try:
            schema = row_type_from_postgres(connection, table, excluded)
            lacking = table_identities(connection, [table])[table].lacking(table)
        finally:
            connection.close()
        return schema, (
            f"{', '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} not REPLICA IDENTITY FULL, so the records "
            f"of {table} do not hold before-images whole: {set_full(lacking)} before the connector's snapshot, or, if "
            "it has a primary key, capture with --before from-state"
        ) if lacking else None

    def of_record(self, body: Mapping[str, Any], table: str) -> tuple[dict[str, Any], str | None] | None:
        """By the schema in an envelope; the remark is about source types that it does not state."""
        source = body["payload"].get("source") if isinstance(body.get("payload"), dict) else None
        if not isinstance(source, dict) or not isinstance(body.get("schema"), dict) or source_table(source) != table:
            return None
        schema = row_type_from_envelope(body["schema"], table)
        lacking = without_sources(schema)
        return schema, (
            f"the record does not state the types that {', '.join(lacking)} of {table} have in the source, so a "
            "target's columns will be what the log has: text, or numbers. Set datatype.propagate.source.type=.+ in the "
            "connector, or take --source env"
        ) if lacking else None
