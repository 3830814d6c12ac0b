"""The facts of the model of the connector as the bytes that the real one writes."""

from __future__ import annotations

import json
from typing import Any

from cdcv2.capture.facts import End, Fact, Notification, RowFact, SnapshotRow

#: What notifications call the captured tables of the model.
KIND = "Initial Snapshot"


def value(fact: Fact, prefix: str) -> bytes:
    """The value of the record that has this fact."""
    return json.dumps(_plain(fact, prefix)).encode()


def _plain(fact: Fact, prefix: str) -> dict[str, Any]:
    if isinstance(fact, End):
        counts = [{"data_collection": table, "event_count": count} for table, count in sorted(fact.counts.items())]
        return {"status": "END", "id": f"{fact.tx}:{fact.lsn}", "data_collections": counts}
    if isinstance(fact, Notification):
        more = {"connector_name": prefix, "scanned_collection": fact.table, "total_rows_scanned": fact.rows}
        return {"type": fact.kind, "aggregate_type": KIND, "additional_data": more}
    assert isinstance(fact, (RowFact, SnapshotRow))
    schema, _, name = fact.table.partition(".")
    source: dict[str, Any] = {"name": prefix, "schema": schema, "table": name}
    if isinstance(fact, SnapshotRow):
        source |= {"lsn": fact.lsn, "snapshot": fact.marker}
        return {"op": "r", "before": None, "after": {"text": fact.row}, "source": source, "transaction": None}
    sequence = json.dumps([None if fact.seq is None else str(fact.seq), "1"])
    ((text, _),) = fact.changes
    return {
        "op": "c", "before": None, "after": {"text": text},
        "source": {**source, "txId": fact.tx, "lsn": 1, "sequence": sequence, "snapshot": "false"},
        "transaction": {"id": f"{fact.tx}:1", "total_order": fact.order, "data_collection_order": fact.table_order},
    }
