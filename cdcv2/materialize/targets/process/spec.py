"""What a connector learns of a materialization before it opens: its tables as collections, its settings, its version.

Connectors know *collections* with a JSON schema and *projections* of it, of which a *field selection* takes keys,
values and, for the whole row, the document. A table is a collection whose rows are objects with the table's columns,
and with ``_meta/op``: c, u or d, whether the row is new there, changed, or deleted. Some connectors keep all of it,
some the keys and the document alone, and refuse every other field.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cdcv2.errors import TurnError, UsageError
from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.process.values import META, TYPES, Documents, json_types

#: The one version of the protocol.
PROTOCOL = 3032023
#: The field of the whole row.
DOCUMENT = "flow_document"
# Connectors that check their input want these to be there; nothing is run by them.
_JOURNAL = {"replication": 1, "fragment": {"length": "1048576", "compressionCodec": "GZIP", "refreshInterval": "300s"}}
_SHARD = {"recoveryLogPrefix": "recovery", "hintPrefix": "/hints", "hintBackups": 1, "maxTxnDuration": "60s"}
#: Constraints of a connector on a field that it refuses, or needs: of several, the greatest counts.
_WEIGHTS = {"FIELD_REQUIRED": 1, "FIELD_FORBIDDEN": 2, "INVALID": 3, "INCOMPATIBLE": 3, "UNSATISFIABLE": 3}
_REFUSED = 2
_ABSENT = {"type": "FIELD_FORBIDDEN"}
#: How connectors of databases call the setting without which they keep deleted rows.
HARD_DELETES = ("hardDelete", "hard_delete")
_LONGEST, _SHORTEST = 512, 4
_OPERATIONS = {"type": "object", "properties": {"op": {"type": "string", "enum": ["c", "d", "u"]}}}


def token(text: str, least: int = 1) -> str:
    """A name that connectors take for a collection or a materialization: letters, digits, ``-_./``, and not too many.

    What has to be changed for that ends with a digest of the name, so that two names never become one.

    >>> token("shop/public.orders"), token("shop/odd names")
    ('shop/public.orders', 'shop/odd_names-35a7e22f')
    """
    plain = re.sub(r"[^\w./-]", "_", text)
    if plain == text and least <= len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[:_LONGEST - 9]}-{digest}"


def collection(name: str, table: Table) -> dict[str, Any]:
    """A table as a collection of this name."""
    required = [field.name for field in table.fields]
    schema = {
        "type": "object",
        "properties": {
            META: _OPERATIONS,
            **{field.name: {"type": json_types(field), **TYPES[field.kind][1]} for field in table.fields},
        },
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

    ``known`` are the bindings that it has agreed to before: what it knows by a name keeps it. Raises UsageError for
    tables that the connector does not take as they are.
    """

    def __init__(
        self, name: str, tables: Sequence[Table], config: Mapping[str, Any], resource: Mapping[str, Any], sent: Any,
        known: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if sent.get("protocol") != PROTOCOL:
            raise UsageError(
                f"the connector speaks the protocol {sent.get('protocol')!r}, not {PROTOCOL}: use another release of it"
            )
        self._tables = tuple(tables)
        self.config = _configured(config, tables, sent.get("configSchema"))
        for table in tables:
            if DOCUMENT in (field.name for field in table.fields):
                raise UsageError(f"{table.name}: the column {DOCUMENT!r} is the connector's: call it otherwise")
        schema = sent.get("resourceConfigSchema")
        self._resources = [_resource(table, schema, resource) for table in tables]
        names = {str(one["collection"]["name"]) for one in known}
        self.name = name if any(one.startswith(f"{name}/") for one in names) else token(name)
        pairs = [(f"{self.name}/{table.name}", table) for table in tables]
        self._collections = [
            collection(one if one in names else token(one, _SHORTEST), table) for one, table in pairs
        ]
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
        """Take the answer in. Raises TurnError unless it is for all bindings."""
        found = validated.get("bindings") or []
        if not isinstance(found, list) or len(found) != len(self._tables):
            raise TurnError("driver", f"sent Validated, and not for the {len(self._tables)} bindings it was asked for")
        self.bindings = [self._agreed(number, one) for number, one in enumerate(found)]

    def _agreed(self, number: int, sent: Any) -> dict[str, Any]:
        table = self._tables[number]
        if not isinstance(sent, Mapping):
            raise TurnError("driver", f"sent Validated with what is no object for {table.name}")
        path = sent.get("resourcePath")
        if not path or not isinstance(path, list):
            raise TurnError("driver", f"sent Validated without a resourcePath for {table.name}")
        limits = _limits(table, sent)
        if bool(sent.get("deltaUpdates")) != table.delta:
            raise UsageError(
                f"{table.name}: the connector keeps no rows, it takes changes: set delta to true" if not table.delta
                else f"{table.name}: the connector keeps rows there, it takes no changes: leave delta out"
            )  # fmt: skip
        values, document = _covered(table, limits)
        return {
            "resourceConfig": self._resources[number],
            "resourcePath": path,
            "collection": self._collections[number],
            "fieldSelection": {
                "keys": [field.name for field in table.key],
                "values": values,
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


def same_view(binding: Mapping[str, Any]) -> dict[str, Any]:
    """A binding without its schemas: its projections have all that makes it another one."""
    schemas = ("writeSchema", "readSchema")
    shape = {name: one for name, one in binding["collection"].items() if name not in schemas}
    return {**binding, "collection": shape}


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
            "the connector's resourceConfigSchema has no property with x-collection-name: nothing can name its table"
        )
    return found


def _configured(config: Mapping[str, Any], tables: Sequence[Table], schema: Any) -> dict[str, Any]:
    """The connector's settings, with its own option to delete rows, if it has one."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    found = dict(config)
    hard = [table.name for table in tables if table.erased]
    for name in HARD_DELETES if hard else ():
        if isinstance(properties, Mapping) and name in properties:
            if found.setdefault(name, True) is not True:
                raise UsageError(
                    f"{hard[0]}: deletes is 'hard', and the config has {name}: {json.dumps(found[name])}, with which "
                    f"the connector keeps what is deleted: leave {name} out, or set deletes to soft"
                )
    return found


def _limits(table: Table, sent: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Field -> the connector's constraint: in a map, or (since 2026) in a list, where a field may be several times.

    Of several constraints on one field, the one that refuses it counts.
    """
    mapped, listed = sent.get("constraints") or {}, sent.get("projectionConstraints") or []
    if not isinstance(mapped, Mapping) or any(not isinstance(one or {}, Mapping) for one in mapped.values()):
        raise TurnError("driver", f"sent Validated with constraints of {table.name} that are no objects by name")
    pairs = [(name, one or _ABSENT) for name, one in mapped.items()]
    for one in listed if isinstance(listed, list) else [listed]:
        if not isinstance(one, Mapping) or not isinstance(one.get("constraint") or {}, Mapping):
            raise TurnError(
                "driver", f"sent Validated with projectionConstraints of {table.name} that are no list of objects"
            )
        pairs.append((str(one.get("field", "")), one.get("constraint") or _ABSENT))
    found: dict[str, Mapping[str, Any]] = {}
    for name, constraint in pairs:
        if name not in found or _weight(constraint) > _weight(found[name]):
            found[name] = constraint
    return found


def _kind(constraint: Mapping[str, Any]) -> str:
    return str(constraint.get("type", "INVALID"))


def _weight(constraint: Mapping[str, Any]) -> int:
    return _WEIGHTS.get(_kind(constraint), 0)


def _covered(table: Table, limits: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], bool]:
    """Which columns are values, and whether there is the document: all columns, or the document with all of them.

    Raises UsageError where a column could not be kept at all, or where another one is wanted.
    """
    document = _weight(limits.get(DOCUMENT, _ABSENT)) < _REFUSED
    forbidden = [field for field in table.values if _kind(limits.get(field.name, _ABSENT)) == "FIELD_FORBIDDEN"]
    whole = document and len(forbidden) == len(table.values)
    for field in table.key if whole else table.fields:
        limit = limits.get(field.name, _ABSENT)
        if _weight(limit) >= _REFUSED:
            reason = limit.get("reason") or "it gives no reason"
            raise UsageError(f"{table.name}: the connector does not take the column {field.name!r}: {reason}")
    ours = {DOCUMENT, *(field.name for field in table.fields)}
    for name, limit in limits.items():
        if _kind(limit) == "FIELD_REQUIRED" and name not in ours:
            raise UsageError(f"{table.name}: the connector needs a column {name!r}, which the view has not")
    return [] if whole else Documents(table).value_names, document
