"""The messages to a connector, to the letter, and which values come back from it as they went."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, RefusedError, TurnError, UsageError
from cdcv2.materialize import Checkpoint, Field, Patch, Range, Table
from cdcv2.materialize.protocol.messages import (
    KINDS, Acknowledge, Acknowledged, Flush, Flushed, Load, Loaded, Open, Opened, StartCommit, StartedCommit, Store,
)
from cdcv2.materialize.targets.process.driver import INTENT, ProcessDriver, checkpoint_from_plain, checkpoint_to_plain
from cdcv2.materialize.targets.process.values import Documents, packed
from tests.materialize.targets.test_process_conforms import PYTHON, STAGING

PRICES = Table("prices", (Field("id", "long"),), (Field("price", "long", True), Field("name", "string")))
AT = [Antichain([time]) for time in (0, 5)]

#: What systems that speak the protocol send and take, message by message: the fields of each.
FIELDS = {
    "spec": {"connectorType", "config"},
    "validate": {"name", "connectorType", "config", "bindings"},
    "apply": {"materialization", "version", "state"},
    "open": {"materialization", "version", "range", "state"},
    "load": {"binding", "key", "keyPacked"},
    "flush": set[str](),
    "store": {"binding", "key", "keyPacked", "values", "valuesPacked", "doc", "exists", "delete"},
    "startCommit": {"runtimeCheckpoint"},
    "acknowledge": set[str](),
}

#: The type of each field that is no text.
TYPE: dict[str, type[object]] = {
    "binding": int, "key": list, "values": list, "exists": bool, "delete": bool, "bindings": list,
    **dict.fromkeys(("config", "doc", "materialization", "range", "state", "runtimeCheckpoint"), dict),
}  # fmt: skip


def staging(folder: Path, *words: str, patience: float = 60, grace: float = 5, **config: Any) -> ProcessDriver:
    """The staging connector, in a folder."""
    command = [*PYTHON, str(STAGING), *words]
    return ProcessDriver(command, {"folder": str(folder), **config}, patience=patience, grace=grace)


@pytest.fixture
def drivers() -> Iterator[list[ProcessDriver]]:
    """Those that are put in are closed."""
    made: list[ProcessDriver] = []
    yield made
    for driver in made:
        driver.close()


def kept(driver: ProcessDriver, table: Table, rows: list[tuple[Any, Any]]) -> list[Any]:
    """What is loaded in the transaction after the one that stored these rows."""
    assert Opened() == driver.open(Open("shop", (table,)))
    driver.acknowledge(Acknowledge())
    assert [Flushed()] == list(driver.flush(Flush(*AT)))
    for key, values in rows:
        driver.store(Store(0, key, values))
    driver.start_commit(StartCommit(Checkpoint(AT[1])))
    driver.acknowledge(Acknowledge())
    answers: list[Any] = []
    for key, _ in rows:
        answers += driver.load(Load(0, key))
    answers += driver.flush(Flush(AT[1], Antichain([9])))
    assert Flushed() == answers.pop()
    return answers


def test_a_conversation_to_the_letter(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """Every message of a transaction, as the connector reads it."""
    driver = staging(tmp_path, record=str(tmp_path / "heard"))
    drivers.append(driver)
    answers = kept(driver, PRICES, [((1,), (-1, "pear"))])
    driver.store(Store(0, (1,), (-1, "pear"), exists=True, delete=True))
    driver.start_commit(StartCommit(Checkpoint(Antichain([9]), {"at": 3})))
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").splitlines()]
    checkpoint = base64.b64encode(b'{"version":1,"frontier":[5],"state":null,"committed":true}').decode()

    assert [Loaded(0, (1,), (-1, "pear"))] == answers
    assert all(FIELDS[kind] == set(said) for one in heard for kind, said in one.items())
    # A strict reader knows of each field what it is, and takes no null for it.
    fields = [field for one in heard for said in one.values() for field in said.items()]
    assert all(type(value) is TYPE.get(name, str) for name, value in fields)
    assert [
        {"acknowledge": {}},
        {"flush": {}},
        {"store": {
            "binding": 0, "key": [1], "keyPacked": "FQE=", "values": ["pear", -1], "valuesPacked": "AnBlYXIAE/4=",
            "doc": {"id": 1, "price": -1, "name": "pear", "_meta": {"op": "c"}}, "exists": False, "delete": False,
        }},
        {"startCommit": {"runtimeCheckpoint": {"ackIntents": {"cdcv2/checkpoint": checkpoint}}}},
        {"acknowledge": {}},
        {"load": {"binding": 0, "key": [1], "keyPacked": "FQE="}},
        {"flush": {}},
    ] == heard[4:11]  # fmt: skip
    assert (True, True) == (heard[11]["store"]["exists"], heard[11]["store"]["delete"])


def test_what_is_opened_to_the_letter(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """A table as a binding of a collection; projections and values are in the order of their names."""
    driver = staging(tmp_path, record=str(tmp_path / "heard"))
    drivers.append(driver)
    driver.open(Open("shop", (PRICES,), Range(0, 99)))
    spec, validate, apply, opened = [json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").splitlines()]
    [binding] = opened["open"]["materialization"]["bindings"]
    collection = binding["collection"]

    assert {"keyBegin": 0, "keyEnd": 99, "rClockBegin": 0, "rClockEnd": 4294967295} == opened["open"]["range"]
    assert {} == opened["open"]["state"] == apply["apply"]["state"]
    assert opened["open"]["materialization"] == apply["apply"]["materialization"]
    assert {"table": "prices"} == binding["resourceConfig"]
    assert ["prices"] == binding["resourcePath"]
    assert {"keys": ["id"], "values": ["name", "price"], "document": "flow_document"} == binding["fieldSelection"]
    assert ("shop/prices", ["/id"]) == (collection["name"], collection["key"])
    assert ["flow_document", "id", "name", "price"] == [one["field"] for one in collection["projections"]]
    assert {"type": ["integer", "null"]} == collection["readSchema"]["properties"]["price"]
    assert collection == validate["validate"]["bindings"][0]["collection"]
    assert {"connectorType": "IMAGE", "config": opened["open"]["materialization"]["config"]} == spec["spec"]


def test_packed_tuples_are_those_of_foundationdb() -> None:
    """Vectors of the tuple layer's specification."""
    vectors: dict[str, list[Any]] = {
        "0246c3944f00ff62617200": ["F\u00d4O\u0000bar"],
        "11ab4b93": [-5551212],
        "213fbaffffffffffff": [-42.0],
        "00262714": [None, False, True, 0],
        "1c7fffffffffffffff0c7fffffffffffffff": [2**63 - 1, -(2**63)],
        "017b7d00": [{}],
    }

    assert list(vectors) == [base64.b64decode(packed(values)).hex() for values in vectors.values()]


PLANES = "".join(chr(0x10000 * plane + 0x41) for plane in range(17))
EVERYTHING: list[tuple[str, list[Any]]] = [
    ("boolean", [True, False]),
    ("int", [2**31 - 1, -(2**31), 0]),
    ("long", [2**63 - 1, -(2**63), 2**53 + 1, -1]),
    ("integer", [2**63, 10**60, -(10**60), 7]),
    ("decimal", [Decimal("-12345678901234567890.123456789"), Decimal("0.00")]),
    ("float", [1.5, math.inf]),
    ("double", [5e-324, 1.7976931348623157e308, -math.inf, 0.1]),
    ("string", ["", "\u0000\u2028\n\r\"\\", PLANES, "x" * 1_000_000]),
    ("bytes", [b"", bytes(range(256)), b"\xff" * 1_000_000]),
    ("json", ['{"a":[1,null,"\u00e9"],"b":{}}', "[]"]),
]


def test_every_value_comes_back(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """Limits of each kind, every plane of Unicode, a megabyte; and null."""
    assert set(KINDS) == {kind for kind, _ in EVERYTHING}
    fields = tuple(Field(f"c/{kind}~", kind, True) for kind, _ in EVERYTHING)
    table = Table("all of it", (Field("id", "string"),), fields)
    depth = max(len(values) for _, values in EVERYTHING)
    rows = [
        ((f"key {chr(0x10000 * at + 0x42)}",), tuple(dict(enumerate(values)).get(at) for _, values in EVERYTHING))
        for at in range(depth)
    ]
    driver = staging(tmp_path)
    drivers.append(driver)

    assert [Loaded(0, *row) for row in rows] == kept(driver, table, rows)


@pytest.mark.parametrize(("kind", "plain", "value"), [
    ("long", 7.0, 7), ("long", "9223372036854775807", 2**63 - 1), ("integer", 5, 5), ("double", 3, 3.0),
    ("decimal", 12, Decimal(12)), ("decimal", "1e3", Decimal(1000)), ("double", "NaN", None),
])  # fmt: skip
def test_numbers_in_other_clothes(kind: str, plain: Any, value: Any) -> None:
    """As programs write them that have other numbers."""
    [found] = Documents(Table("t", (), (Field("c", kind),))).back({"c": plain})[1]

    assert (math.isnan(found) if value is None else found == value) and type(found) is not bool


@pytest.mark.parametrize(("kind", "plain"), [
    ("long", 2**63), ("long", "x"), ("long", 0.5), ("long", True), ("int", 2**31), ("boolean", 1), ("string", 5),
    ("bytes", "?"), ("bytes", "\u00e9"), ("decimal", "1/2"), ("decimal", 0.5), ("double", "1"), ("string", None),
])  # fmt: skip
def test_what_is_no_value_is_the_connectors_fault(kind: str, plain: Any) -> None:
    """Named with table, column and kind."""
    with pytest.raises(TurnError, match="the driver sent Loaded for t with .* column 'c', which is"):
        Documents(Table("t", (), (Field("c", kind),))).back({"c": plain})


def test_checkpoints_there_and_back() -> None:
    """An empty one is the beginning; another program's is refused."""
    message, checkpoint = Open("shop", (), start=Antichain([3])), Checkpoint(Antichain([7]), {"positions": [1]})

    assert checkpoint == checkpoint_from_plain(checkpoint_to_plain(checkpoint), message)
    assert Checkpoint(Antichain([3])) == checkpoint_from_plain({}, message)
    for foreign in ({"sources": {"a/journal": {"readThrough": "5"}}}, {"ackIntents": {INTENT: "?"}}, "text"):
        with pytest.raises(ForeignStateError, match="'shop'"):
            checkpoint_from_plain(foreign, message)


def test_acknowledged_may_come_first(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """Before Acknowledge, as of a connector that applies at once."""
    driver = staging(tmp_path, eager=True)
    drivers.append(driver)

    assert [Loaded(0, (1,), (None, "pear"))] == kept(driver, PRICES, [((1,), (None, "pear"))])
    assert StartedCommit() == driver.start_commit(StartCommit(Checkpoint(Antichain([9]))))
    assert "pear" in (tmp_path / "view.json").read_text("utf-8")


def test_state_is_patched_or_replaced(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """What was applied is in the first Acknowledged; a merge patch stays one."""
    driver = staging(tmp_path)
    drivers.append(driver)
    driver.open(Open("shop", (PRICES,), state={}))
    first = driver.acknowledge(Acknowledge())
    list(driver.flush(Flush(*AT)))
    started = driver.start_commit(StartCommit(Checkpoint(AT[1])))
    again = driver.acknowledge(Acknowledge())

    assert first.state is not None and started.state is not None
    assert (False, {"connector", "applied"}) == (first.state.merge, set(first.state.document))
    assert (StartedCommit, {"connector"}) == (type(started), set(started.state.document))
    assert Acknowledged(Patch({"connector": {"pending": {"0-4294967295": None}}})) == again

    state = {**first.state.document, "connector": {"pending": {}}}
    other = staging(tmp_path)
    drivers.append(other)
    other.open(Open("shop", (PRICES,), state=state))
    assert Acknowledged(Patch({"connector": {"pending": {}}})) == other.acknowledge(Acknowledge())


def test_a_state_may_be_said_anew(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """It takes the place of the last one, and what was applied stays beside it."""
    driver = staging(tmp_path, whole=True)
    drivers.append(driver)
    driver.open(Open("shop", (PRICES,)))
    applied = driver.acknowledge(Acknowledge()).state
    list(driver.flush(Flush(*AT)))
    driver.start_commit(StartCommit(Checkpoint(AT[1])))
    anew = driver.acknowledge(Acknowledge()).state

    assert applied is not None and anew is not None
    assert Patch({"connector": {"pending": {}}, "applied": applied.document["applied"]}, merge=False) == anew


def test_settings_of_a_table_go_where_its_schema_has_them(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """The name, and whether it takes changes; without a place for the name, it would be unknown."""
    schema = {"properties": {
        "table": {"x-collection-name": True}, "delta_updates": {"x-delta-updates": True}, "schema": {"type": "string"},
    }}  # fmt: skip
    made = [staging(tmp_path, schema=one, record=str(tmp_path / "heard")) for one in (schema, {"properties": {}}, None)]
    drivers += made
    made[0].open(Open("shop", (PRICES,)))
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").splitlines()]
    for driver in made[1:]:
        with pytest.raises(UsageError, match="no property with x-collection-name"):
            driver.open(Open("shop", (PRICES,)))

    [binding] = heard[1]["validate"]["bindings"]
    assert {"table": "prices", "delta_updates": False} == binding["resourceConfig"]


def test_one_that_rules_serves_all_keys(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """What it has of other shares is unknown."""
    opened = {"runtimeCheckpoint": {}}
    made = [staging(tmp_path, opened=opened) for _ in range(2)]
    drivers += made

    assert Opened(Checkpoint(Antichain([3]))) == made[0].open(Open("shop", (PRICES,), start=Antichain([3])))
    with pytest.raises(UsageError, match="the keys 0-99 only"):
        made[1].open(Open("shop", (PRICES,), Range(0, 99)))


def test_tables_that_come_later_are_refused(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """They would lack what came before; a state of another driver's is refused as well."""
    driver = staging(tmp_path)
    drivers.append(driver)
    driver.open(Open("shop", (PRICES,)))
    patch = driver.acknowledge(Acknowledge()).state
    assert patch is not None
    wider = Table("prices", PRICES.key, (*PRICES.values, Field("more", "int")))
    later = Table("later", PRICES.key, ())
    for tables, text in (((wider,), "shop/prices was another"), ((PRICES, later), "shop/later is new")):
        other = staging(tmp_path)
        drivers.append(other)
        with pytest.raises(RefusedError, match=text):
            other.open(Open("shop", tables, state=patch.document))
    with pytest.raises(ForeignStateError, match="another driver's"):
        staging(tmp_path).open(Open("shop", (PRICES,), state={"staged": {}}))


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"delta": True}, "prices: the connector keeps no rows, it takes changes: set delta to true"),
    ({"constraints": {"name": {"type": "FIELD_FORBIDDEN", "reason": "no text"}}}, "the column 'name': no text"),
    ({"constraints": {"name": None}}, "the column 'name': it gives no reason"),
    ({"constraints": {"channel": {"type": "FIELD_REQUIRED"}}}, "needs a column 'channel', which the view has not"),
]


@pytest.mark.parametrize(("config", "text"), REFUSALS, ids=[text[:20] for _, text in REFUSALS])
def test_tables_that_it_does_not_take(
    tmp_path: Path, drivers: list[ProcessDriver], config: dict[str, Any], text: str
) -> None:
    """Named before anything is made."""
    drivers.append(staging(tmp_path, **config))
    with pytest.raises(UsageError) as told:
        drivers[0].open(Open("shop", (PRICES,)))

    assert text in str(told.value)


def test_another_version_of_the_protocol(tmp_path: Path, drivers: list[ProcessDriver]) -> None:
    """Is refused; and so is a view of a view's own column."""
    drivers.append(staging(tmp_path, "3032024"))
    with pytest.raises(UsageError, match="speaks the protocol 3032024, not 3032023"):
        drivers[0].open(Open("shop", (PRICES,)))
    drivers.append(staging(tmp_path))
    with pytest.raises(UsageError, match="'flow_document' is the connector's"):
        drivers[1].open(Open("shop", (Table("t", PRICES.key, (Field("flow_document", "string"),)),)))
