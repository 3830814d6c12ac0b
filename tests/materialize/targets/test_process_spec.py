"""What a connector learns of a materialization, and what it may answer; no connector is started."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.errors import TurnError, UsageError
from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.process.spec import PROTOCOL, Spec, collection, same_view, token, version_of

TABLE = Table("t", (Field("id", "int"),), (Field("v", "decimal", True), Field("a/~b", "bytes")))
JOURNAL = {"replication": 1, "fragment": {
    "length": "1048576", "compressionCodec": "GZIP", "refreshInterval": "300s"}}  # fmt: skip
RESOURCE = {"properties": {
    "schema": {}, "table": {"x-collection-name": True}, "changes": {"x-delta-updates": True}, "odd": 7,
}}  # fmt: skip


def digest(text: str) -> str:
    """The eight digits that a name gets."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


@pytest.mark.parametrize("text", ["a", "A-z_0./é", "x" * 512])
def test_a_name_that_is_taken_as_it_is(text: str) -> None:
    """Letters of every language."""
    assert text == token(text)


@pytest.mark.parametrize(
    ("text", "least", "made"),
    [
        ("a b", 1, "a_b-"), ("abc", 4, "abc-"), ("", 1, "-"), ("x" * 513, 1, "x" * 503 + "-"),
        ("\ud800", 1, "_-"), ("a:b", 1, "a_b-"), ("a\n", 1, "a_-"), (" " * 600, 1, "_" * 503 + "-"),
    ],
)  # fmt: skip
def test_a_name_that_is_changed_ends_with_a_digest(text: str, least: int, made: str) -> None:
    """Too short, too long, or of other characters; 512 at most."""
    assert made + digest(text) == token(text, least)
    assert "abcd" == token("abcd", 4)


def test_a_table_as_a_collection() -> None:
    """To the letter: two schemas, the key as pointers, projections by name."""
    schema = {
        "type": "object",
        "properties": {
            "_meta": {"type": "object", "properties": {"op": {"type": "string", "enum": ["c", "d", "u"]}}},
            "id": {"type": ["integer"]},
            "v": {"type": ["null", "string"], "format": "number"},
            "a/~b": {"type": ["string"], "contentEncoding": "base64"},
        },
        "required": ["id", "v", "a/~b"],
    }

    assert {
        "name": "shop/t", "writeSchema": schema, "readSchema": schema, "key": ["/id"], "uuidPtr": "/_meta/uuid",
        "projections": [
            {"ptr": "/a~1~0b", "field": "a/~b", "inference": {
                "types": ["string"], "exists": "MUST", "string": {"contentEncoding": "base64"}}},
            {"ptr": "", "field": "flow_document", "inference": {"types": ["object"], "exists": "MUST"}},
            {"ptr": "/id", "field": "id", "inference": {"types": ["integer"], "exists": "MUST"}, "isPrimaryKey": True},
            {"ptr": "/v", "field": "v", "inference": {
                "types": ["null", "string"], "exists": "MUST", "string": {"format": "number"}}},
        ],
        "ackTemplate": {}, "partitionTemplate": {"name": "shop/t", **JOURNAL},
    } == collection("shop/t", TABLE)  # fmt: skip


def spec(
    *tables: Table, config: Mapping[str, Any] | None = None, resource: Mapping[str, Any] | None = None,
    name: str = "shop", known: Any = (), **sent: Any,
) -> Spec:
    """As a connector asks for it that has a name for the table, and wants to know of changes."""
    answer = {"protocol": PROTOCOL, "resourceConfigSchema": RESOURCE, **sent}
    return Spec(name, tables or (TABLE,), config or {}, resource or {}, answer, known)


def test_the_question_whether_it_takes_these_tables() -> None:
    """With the settings of each, and the collections by their names."""
    other = replace(TABLE, name="u", delta=True)

    assert {
        "name": "shop", "connectorType": "IMAGE", "config": {"path": "x"},
        "bindings": [
            {"resourceConfig": {"schema": "s", "table": "t", "changes": False},
             "collection": collection("shop/t", TABLE), "fieldConfig": {}},
            {"resourceConfig": {"schema": "s", "table": "u", "changes": True},
             "collection": collection("shop/u", other), "fieldConfig": {}},
        ],
    } == spec(TABLE, other, config={"path": "x"}, resource={"schema": "s", "table": "z"}).validate()  # fmt: skip


def test_names_are_made_fit_unless_they_are_known() -> None:
    """What the connector knows by a name keeps it; a collection has four characters at least."""
    fresh = spec(replace(TABLE, name="a b"), name="my shop")
    assert f"my_shop-{digest('my shop')}" == fresh.name
    whole = f"{fresh.name}/a b"
    assert token(whole) == fresh.validate()["bindings"][0]["collection"]["name"] != whole
    known = [{"collection": {"name": "my shop/a b"}}]
    assert "my shop" == spec(replace(TABLE, name="a b"), name="my shop", known=known).name
    old = spec(replace(TABLE, name="a b"), replace(TABLE, name="c d"), name="my shop", known=known).validate()
    assert ["my shop/a b", token("my shop/c d")] == [one["collection"]["name"] for one in old["bindings"]]
    short = spec(name="s").validate()["bindings"][0]["collection"]["name"]
    assert f"s/t-{digest('s/t')}" == short
    assert token("my shop") == spec(name="my shop", known=[{"collection": {"name": "my shopping/t"}}]).name


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ({"protocol": 7}, "speaks the protocol 7, not 3032023"),
        ({"resourceConfigSchema": None}, "no property with x-collection-name"),
        ({"resourceConfigSchema": {"properties": [1]}}, "no property with x-collection-name"),
        ({"resourceConfigSchema": {"properties": {"a": {"x-delta-updates": True}, "b": 1}}}, "no property with x-coll"),
    ],
)
def test_a_connector_that_cannot_be_used(sent: dict[str, Any], text: str) -> None:
    """Another protocol, or no place for the name of a table."""
    with pytest.raises(UsageError, match=text):
        spec(**sent)


def test_a_column_that_is_the_connectors_is_refused() -> None:
    """It has the whole row by that name."""
    with pytest.raises(UsageError, match="t: the column 'flow_document' is the connector's"):
        spec(replace(TABLE, values=(Field("flow_document", "json"),)))


HARD = {"properties": {"hardDelete": {}, "path": {}}}


@pytest.mark.parametrize(
    ("schema", "config", "found"),
    [
        (HARD, {}, {"hardDelete": True}), (HARD, {"hardDelete": True, "path": "x"}, {"hardDelete": True, "path": "x"}),
        ({"properties": {"hard_delete": {}}}, {"a": 1}, {"a": 1, "hard_delete": True}),
        ({"properties": {"hard_delete": {}, "hardDelete": {}}}, {}, {"hard_delete": True, "hardDelete": True}),
        ({"properties": ["hardDelete"]}, {}, {}), (None, {}, {}), ({}, {}, {}), ([], {}, {}),
    ],
)
def test_deleting_is_the_connectors_own_option(schema: Any, config: dict[str, Any], found: dict[str, Any]) -> None:
    """Where it has one, and a table deletes."""
    assert found == spec(config=config, configSchema=schema).config
    soft = replace(TABLE, soft=True)
    assert config == spec(soft, config=config, configSchema=schema).config
    assert found == spec(soft, TABLE, config=config, configSchema=schema).config


@pytest.mark.parametrize("wrong", [False, None, 1, "yes"])
def test_keeping_what_is_deleted_by_hand_is_refused(wrong: Any) -> None:
    """With the table that deletes."""
    soft = replace(TABLE, name="s", soft=True)
    with pytest.raises(UsageError, match="^t: deletes is 'hard', and the config has hardDelete: "):
        spec(soft, TABLE, replace(TABLE, name="u"), config={"hardDelete": wrong}, configSchema=HARD)
    assert {"hardDelete": wrong} == spec(soft, config={"hardDelete": wrong}, configSchema=HARD).config


NEEDED, TAKEN, NOT, WRONG = ({"type": one} for one in (
    "FIELD_REQUIRED", "FIELD_OPTIONAL", "FIELD_FORBIDDEN", "INCOMPATIBLE"))  # fmt: skip
ALL = {"id": NEEDED, "v": TAKEN, "a/~b": TAKEN, "flow_document": TAKEN}


def agreed(constraints: Any = None, *, table: Table = TABLE, **sent: Any) -> dict[str, Any]:
    """The binding that a connector with this answer has agreed to."""
    made = spec(table)
    answer = {"constraints": ALL if constraints is None else constraints, "resourcePath": ["main", 7], **sent}
    made.agree({"bindings": [answer]})
    assert [made.bindings[0]] == made.bindings
    return made.bindings[0]


def test_what_is_agreed() -> None:
    """The values in the order of their names, and the document; the key of the state is the path."""
    assert {
        "resourceConfig": {"table": "t", "changes": False}, "resourcePath": ["main", 7],
        "collection": collection("shop/t", TABLE),
        "fieldSelection": {"keys": ["id"], "values": ["a/~b", "v"], "document": "flow_document"},
        "deltaUpdates": False, "stateKey": "main/7",
    } == agreed()  # fmt: skip


def fields(constraints: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The values, and whether there is the document."""
    found = agreed(constraints)["fieldSelection"]
    return found["values"], "document" in found


def test_which_fields_are_kept() -> None:
    """All of them, with the document or without; or the document with all of them, beside the key."""
    assert (["a/~b", "v"], True) == fields(ALL)
    assert (["a/~b", "v"], False) == fields(ALL | {"flow_document": NOT})
    assert (["a/~b", "v"], False) == fields({name: one for name, one in ALL.items() if name != "flow_document"})
    assert ([], True) == fields({"id": NEEDED, "flow_document": NEEDED})
    assert ([], True) == fields(ALL | {"v": NOT, "a/~b": None})
    assert (["a/~b", "v"], True) == fields(ALL | {"x": TAKEN, "_meta/op": NOT, "flow_document": NEEDED})


@pytest.mark.parametrize(
    ("constraints", "text"),
    [
        (ALL | {"v": NOT}, "does not take the column 'v': it gives no reason"),
        (ALL | {"v": {**WRONG, "reason": "too wide"}}, "does not take the column 'v': too wide"),
        (ALL | {"v": {"reason": "it has no type"}}, "does not take the column 'v': it has no type"),
        (ALL | {"v": {}}, "does not take the column 'v'"), (ALL | {"v": {"type": "UNSATISFIABLE"}}, "column 'v'"),
        ({"v": NOT, "a/~b": NOT, "id": NEEDED, "flow_document": NOT}, "column 'v'"),
        ({"id": NOT, "flow_document": TAKEN}, "column 'id'"), (ALL | {"id": {"type": "INVALID"}}, "column 'id'"),
        ({"id": NEEDED, "flow_document": TAKEN, "v": WRONG, "a/~b": NOT}, "column 'v'"),
        (ALL | {"x": NEEDED}, "needs a column 'x', which the view has not"), ({}, "column 'id'"),
    ],
)
def test_tables_that_are_not_taken_as_they_are(constraints: dict[str, Any], text: str) -> None:
    """A column that could not be kept, or one that is wanted beside them."""
    with pytest.raises(UsageError, match=f"^t: the connector .*{text}"):
        agreed(constraints)


def listed(*pairs: tuple[str | None, Any]) -> list[dict[str, Any]]:
    """Constraints as a list."""
    return [{**({} if name is None else {"field": name}), "constraint": one} for name, one in pairs]


def test_constraints_in_a_list() -> None:
    """Of several on one field the one that refuses it counts, whatever comes first; also beside a map."""
    pairs = listed(*ALL.items())
    assert ["a/~b", "v"] == agreed({}, projectionConstraints=pairs)["fieldSelection"]["values"]
    for order in (1, -1):
        with pytest.raises(UsageError, match="column 'v'"):
            agreed({}, projectionConstraints=[*pairs, *listed(("v", TAKEN), ("v", WRONG), ("v", NOT))[::order]])
    with pytest.raises(UsageError, match="column 'v': no"):
        agreed({}, projectionConstraints=[*pairs, *listed(("v", NOT), ("v", {**WRONG, "reason": "no"}))])
    two = [("v", {**WRONG, "reason": "first"}), ("v", {**WRONG, "reason": "second"})]
    with pytest.raises(UsageError, match="column 'v': first"):
        agreed({}, projectionConstraints=[*pairs, *listed(*two)])
    for order in (1, -1):
        with pytest.raises(UsageError, match="needs a column 'x'"):
            agreed(ALL, projectionConstraints=listed(("x", TAKEN), ("x", NEEDED))[::order])
    with pytest.raises(UsageError, match="column 'v'"):
        agreed(ALL, projectionConstraints=listed(("v", None)))
    assert ["a/~b", "v"] == agreed(ALL, projectionConstraints=listed((None, NOT)))["fieldSelection"]["values"]
    with pytest.raises(UsageError, match="needs a column ''"):
        agreed(ALL, projectionConstraints=listed((None, NEEDED)))


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ({"constraints": [1]}, "with constraints of t that are no objects by name"),
        ({"constraints": {"v": 7}}, "with constraints of t that are no objects by name"),
        ({"projectionConstraints": 7}, "with projectionConstraints of t that are no list of objects"),
        ({"projectionConstraints": [7]}, "with projectionConstraints of t that are no list of objects"),
        ({"projectionConstraints": [{"constraint": 7}]}, "with projectionConstraints of t that are no list"),
        ({"resourcePath": []}, "without a resourcePath for t"), ({"resourcePath": "main"}, "without a resourcePath"),
        ({"resourcePath": None}, "without a resourcePath for t"),
    ],
)
def test_an_answer_that_is_none(sent: dict[str, Any], text: str) -> None:
    """The connector's mistake, with the table."""
    with pytest.raises(TurnError, match=f"^the driver sent Validated {text}"):
        agreed(**sent)


@pytest.mark.parametrize("bindings", [None, [], {}, "x", [{}, {}], 7])
def test_another_number_of_bindings(bindings: Any) -> None:
    """Than was asked for."""
    with pytest.raises(TurnError, match="not for the 1 bindings it was asked for"):
        spec().agree({"bindings": bindings})
    with pytest.raises(TurnError, match="what is no object for t"):
        spec().agree({"bindings": [7]})


@pytest.mark.parametrize("said", [None, False, 0])
def test_changes_where_rows_are_kept_and_the_other_way_round(said: Any) -> None:
    """It is a setting of the table."""
    delta = replace(TABLE, delta=True)
    assert agreed(table=delta, deltaUpdates=True)["deltaUpdates"]
    assert not agreed(deltaUpdates=said)["deltaUpdates"]
    with pytest.raises(UsageError, match="t: the connector keeps rows there, it takes no changes: leave delta out"):
        agreed(table=delta, deltaUpdates=said)
    with pytest.raises(UsageError, match="t: the connector keeps no rows, it takes changes: set delta to true"):
        agreed(deltaUpdates=True)


def test_the_materialization() -> None:
    """With its own bindings, or others in their place; and what nothing is run by."""
    made = spec(config={"path": "x"})
    made.agree({"bindings": [{"constraints": ALL, "resourcePath": ["t"]}]})
    whole = {
        "name": "shop", "connectorType": "IMAGE", "config": {"path": "x"}, "bindings": made.bindings,
        "shardTemplate": {"id": "materialize/shop", "recoveryLogPrefix": "recovery", "hintPrefix": "/hints",
                          "hintBackups": 1, "maxTxnDuration": "60s"},
        "recoveryLogTemplate": {"name": "recovery/shop", **JOURNAL},
    }  # fmt: skip

    assert whole == made.materialization()
    assert {**whole, "bindings": [{"a": 1}]} == made.materialization([{"a": 1}])
    assert {**whole, "bindings": []} == made.materialization([])


def test_equal_bindings_have_one_version() -> None:
    """Whatever came first in them; another value is another one."""
    assert version_of([{"a": 1, "b": 2}]) == version_of([{"b": 2, "a": 1}]) != version_of([{"a": 2, "b": 1}])
    assert 16 == len(version_of([]))


def test_a_view_is_the_same_whatever_its_schemas_are() -> None:
    """Its projections have all that makes it another one."""
    one = agreed()
    other = {**one, "collection": {**one["collection"], "writeSchema": {}, "readSchema": {}}}

    assert same_view(one) == same_view(other)
    assert {*one["collection"]} - {"writeSchema", "readSchema"} == {*same_view(one)["collection"]}
    assert same_view(one) != same_view({**one, "collection": {**one["collection"], "key": []}})
    assert same_view(one) != same_view({**one, "deltaUpdates": True})
