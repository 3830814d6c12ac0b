"""What a connector is told of a materialization before it opens: its tables as collections, its settings, its version.

Connectors know *collections* with a JSON schema and *projections* of it, of which a *field selection* takes keys,
values and, for the whole row, the document. A table is a collection whose rows are objects with the table's columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cdcv2.errors import TurnError, UsageError
from cdcv2.materialize.drivers.process_values import TYPES, Documents, json_types
from cdcv2.materialize.messages import Field, Table

#: The one version of the protocol.
PROTOCOL = 3032023
#: The field of the whole row.
DOCUMENT = "flow_document"
# Connectors that check their input want these to be there; nothing is run by them.
_JOURNAL = {"replication": 1, "fragment": {"length": "1048576", "compressionCodec": "GZIP", "refreshInterval": "300s"}}
_SHARD = {"recoveryLogPrefix": "recovery", "hintPrefix": "/hints", "hintBackups": 1, "maxTxnDuration": "60s"}
_REFUSED = ("INVALID", "FIELD_FORBIDDEN", "INCOMPATIBLE", "UNSATISFIABLE")


def collection(materialization: str, table: Table) -> dict[str, Any]:
    """A table as a collection."""
    name = f"{materialization}/{table.name}"
    required = [field.name for field in table.fields]
    schema = {
        "type": "object",
        "properties": {field.name: {"type": json_types(field), **TYPES[field.kind][1]} for field in table.fields},
        "required": required,
    }
    projections = [_projection(field, field in table.key) for field in table.fields]
    projections.append({"ptr": "", "field": DOCUMENT, "inference": {"types": ["object"], "exists": "MUST"}})
    return {
        "name": name,
        "writeSchema": schema,
        "readSchema": schema,
        "key": [_pointer(field.name) for field in table.key],
        "uuidPtr": "/_meta/uuid",
        "projections": sorted(projections, key=lambda one: str(one["field"]).encode()),
        "ackTemplate": {},
        "partitionTemplate": {"name": name, **_JOURNAL},
    }


def _projection(field: Field, key: bool) -> dict[str, Any]:
    types, text = json_types(field), TYPES[field.kind][1]
    inference = {"types": types, "exists": "MUST", **({"string": dict(text)} if "string" in types else {})}
    return {"ptr": _pointer(field.name), "field": field.name, "inference": inference,
            **({"isPrimaryKey": True} if key else {})}  # fmt: skip


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


class Spec:
    """One materialization as this connector takes it, with its settings: ``config``, and ``resource`` for each table.

    Raises UsageError for tables that the connector does not take as they are.
    """

    def __init__(
        self, name: str, tables: Sequence[Table], config: Mapping[str, Any], resource: Mapping[str, Any], said: Any
    ) -> None:
        if said.get("protocol") != PROTOCOL:
            raise UsageError(
                f"the connector speaks the protocol {said.get('protocol')!r}, not {PROTOCOL}: use another release of it"
            )
        self.name, self.config = name, dict(config)
        self._tables = tuple(tables)
        for table in tables:
            if DOCUMENT in (field.name for field in table.fields):
                raise UsageError(f"{table.name}: the column {DOCUMENT!r} is the connector's: call it otherwise")
        schema = said.get("resourceConfigSchema")
        self._resources = [_resource(table, schema, resource) for table in tables]
        self._collections = [collection(name, table) for table in tables]
        #: the bindings as the connector has agreed to them
        self.bindings: list[dict[str, Any]] = []

    def validate(self) -> dict[str, Any]:
        """The question whether the connector takes these tables."""
        pairs = zip(self._resources, self._collections)
        return {
            "name": self.name, "connectorType": "IMAGE", "config": self.config,
            "bindings": [{"resourceConfig": one, "collection": shape, "fieldConfig": {}} for one, shape in pairs],
        }  # fmt: skip

    def agree(self, validated: Mapping[str, Any]) -> None:
        """Take note of the answer."""
        found = validated.get("bindings") or []
        if not isinstance(found, list) or len(found) != len(self._tables):
            raise TurnError("driver", f"sent Validated, and not for the {len(self._tables)} bindings it was asked for")
        self.bindings = [self._agreed(number, one) for number, one in enumerate(found)]

    def _agreed(self, number: int, said: Any) -> dict[str, Any]:
        table = self._tables[number]
        if not isinstance(said, Mapping):
            raise TurnError("driver", f"sent Validated with what is no object for {table.name}")
        path, limits = said.get("resourcePath"), said.get("constraints") or {}
        if not path or not isinstance(path, list):
            raise TurnError("driver", f"sent Validated without a resourcePath for {table.name}")
        if not isinstance(limits, Mapping) or any(not isinstance(one or {}, Mapping) for one in limits.values()):
            raise TurnError("driver", f"sent Validated with constraints of {table.name} that are no objects by name")
        if bool(said.get("deltaUpdates")) != table.delta:
            raise UsageError(
                f"{table.name}: the connector keeps no rows, it takes changes: set delta to true" if not table.delta
                else f"{table.name}: the connector keeps rows there, it takes no changes: leave delta out"
            )  # fmt: skip
        document = _demand_taken(table, limits)
        return {
            "resourceConfig": self._resources[number],
            "resourcePath": path,
            "collection": self._collections[number],
            "fieldSelection": {
                "keys": [field.name for field in table.key],
                "values": Documents(table).value_names,
                **({"document": DOCUMENT} if document else {}),
            },
            "deltaUpdates": table.delta,
            "stateKey": "/".join(map(str, path)),
        }

    def materialization(self, bindings: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """All of it, with these bindings in place of its own."""
        return {
            "name": self.name, "connectorType": "IMAGE", "config": self.config,
            "bindings": list(self.bindings if bindings is None else bindings),
            "shardTemplate": {"id": f"materialize/{self.name}", **_SHARD},
            "recoveryLogTemplate": {"name": f"recovery/{self.name}", **_JOURNAL},
        }  # fmt: skip


def version_of(bindings: Sequence[Any]) -> str:
    """The same for equal bindings."""
    return hashlib.sha256(json.dumps(bindings, sort_keys=True).encode()).hexdigest()[:16]


def _resource(table: Table, schema: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A table's settings: where the connector's schema wants a name, or to know of changes, it gets them."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    found, named = dict(given), False
    for name, one in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(one, Mapping) and one.get("x-collection-name"):
            found[name], named = table.name, True
        elif isinstance(one, Mapping) and one.get("x-delta-updates"):
            found[name] = table.delta
    if not named:
        raise UsageError(
            "the connector's resourceConfigSchema has no property with x-collection-name: it cannot be told which table"
        )
    return found


def _demand_taken(table: Table, said: Mapping[str, Mapping[str, Any] | None]) -> bool:
    """Every column can be kept, and nothing else is wanted. Whether the whole row can be."""
    constraints = {name: one for name, one in said.items() if one}
    kinds = {name: str(one.get("type", "INVALID")) for name, one in constraints.items()}
    for field in table.fields:
        if kinds.get(field.name, "FIELD_FORBIDDEN") in _REFUSED:
            reason = constraints.get(field.name, {}).get("reason") or "it gives no reason"
            raise UsageError(f"{table.name}: the connector does not take the column {field.name!r}: {reason}")
    ours = {DOCUMENT, *(field.name for field in table.fields)}
    for name, kind in kinds.items():
        if kind == "FIELD_REQUIRED" and name not in ours:
            raise UsageError(f"{table.name}: the connector needs a column {name!r}, which the view has not")
    return kinds.get(DOCUMENT, "FIELD_FORBIDDEN") not in _REFUSED
