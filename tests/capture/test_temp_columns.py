"""What stands in a log of TEMP, column by column: logs of this form exist, and are read by others."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from cdcv2.capture import open_record_codec
from cdcv2.capture.open_record_codec import TEMP, OpenRecordCodec
from cdcv2.capture.open_records import (
    SNAPSHOT, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RestartRecord, RowRecord, StartRecord, ThroughRecord,
)
from cdcv2.capture.table_content import UNRESOLVED
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.timeline.ordering import AS_COMPLETE

COLUMNS: list[tuple[str, Any]] = [
    ("kind", "string"), ("transaction", ["null", "string"]), ("table", ["null", "string"]),
    ("place", ["null", "string"]), ("after", ["null", "long"]), ("commit", ["null", "long"]),
    ("changes", ("change", [("data", "bytes"), ("diff", "long")])),
    ("counts", ("count", [("table", "string"), ("rows", "long")])),
    ("reason", ["null", "string"]), ("remedy", ["null", "string"]), ("ordering", ["null", "string"]),
    ("tables", {"type": "array", "items": "string"}), ("snapshot", ["null", "boolean"]),
    ("looked_up", ["null", "boolean"]),
]  # fmt: skip
NOTHING = {
    "transaction": None, "table": None, "place": None, "after": None, "commit": None, "changes": [], "counts": [],
    "reason": None, "remedy": None, "ordering": None, "tables": [], "snapshot": None, "looked_up": None,
}  # fmt: skip


class Words:
    """A codec of words: the mark of the codec, and the word."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def encode(self, row: str) -> bytes:
        """The mark comes first."""
        return f"{self.mark} {row}".encode()

    def decode(self, data: bytes) -> str:
        """Raises ValueError for a word of another codec."""
        mark, word = data.decode().split()
        if mark != self.mark:
            raise ValueError(f"{data!r} is no word of {self.mark}")
        return word


CODEC = OpenRecordCodec({"a": Words("row"), "b": Words("other")}, {"a": Words("part")})
ROWS: dict[str, tuple[OpenRecord, dict[str, Any]]] = {
    "a row with its number": (
        RowRecord("a", 7, 3, 70, (("old", -1), ("new", 1)), 2),
        {"kind": "row", "transaction": "7", "table": "a", "place": '{"order":3,"number":2}', "after": 70,
         "changes": [{"data": b"row old", "diff": -1}, {"data": b"row new", "diff": 1}]},
    ),
    "a row that may be renumbered": (
        RowRecord("b", "x", 3, None, (("new", 1),), 2, True),
        {"kind": "row", "transaction": '"x"', "table": "b", "place": '{"order":3,"number":2,"anew":true}',
         "changes": [{"data": b"other new", "diff": 1}]},
    ),
    "a row that may be renumbered and has no number": (
        RowRecord("b", 7, 3, None, (), None, True),
        {"kind": "row", "transaction": "7", "table": "b", "place": '{"order":3,"number":null,"anew":true}'},
    ),
    "a row of a snapshot": (
        RowRecord("a", SNAPSHOT, ("a", 0, (5,)), 50, (("new", 1),)),
        {"kind": "row", "transaction": '"snapshot"', "table": "a", "place": '["a",0,[5]]', "after": 50,
         "changes": [{"data": b"row new", "diff": 1}]},
    ),
    "a partial change": (
        RowRecord("a", 7, 3, None, (("deleted", UNRESOLVED),), 2),
        {"kind": "row", "transaction": "7", "table": "a", "place": '{"order":3,"number":2}',
         "changes": [{"data": b"part deleted", "diff": 0}]},
    ),
    "diff 0 of a table without partial changes": (
        RowRecord("b", 7, 3, None, (("same", 0),), 2),
        {"kind": "row", "transaction": "7", "table": "b", "place": '{"order":3,"number":2}',
         "changes": [{"data": b"other same", "diff": 0}]},
    ),
    "a halt": (
        HaltRecord(7, 70, "truncated", "capture again"),
        {"kind": "halt", "transaction": "7", "after": 70, "reason": "truncated", "remedy": "capture again"},
    ),
    "an End": (
        EndRecord(7, 90, (("a", 2), ("c", 1))),
        {"kind": "end", "transaction": "7", "commit": 90,
         "counts": [{"table": "a", "rows": 2}, {"table": "c", "rows": 1}]},
    ),
    "a restart": (RestartRecord(7), {"kind": "restart", "transaction": "7"}),
    "a release": (ReleaseRecord(7, 90), {"kind": "done", "transaction": "7", "commit": 90}),
    "how far all is released": (ThroughRecord(90, 70), {"kind": "through", "commit": 90, "after": 70}),
    "the start": (
        StartRecord(AS_COMPLETE, ("a", "b"), True, False),
        {"kind": "begun", "ordering": AS_COMPLETE, "tables": ["a", "b"], "snapshot": True, "looked_up": False},
    ),
    "the other start": (
        StartRecord(AS_COMPLETE, (), False, True),
        {"kind": "begun", "ordering": AS_COMPLETE, "snapshot": False, "looked_up": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("held, columns", ROWS.values(), ids=ROWS)
def test_each_record_is_one_row(held: OpenRecord, columns: dict[str, Any]) -> None:
    """With the columns of its kind and no others; and the row is the record."""
    row = TEMP.row(NOTHING | columns)

    assert row == CODEC.row(held)
    assert held == CODEC.held(row) and type(held) is type(CODEC.held(row))


def test_a_place_of_version_1_is_the_order_alone() -> None:
    """Rows had no numbers then."""
    row = TEMP.row({**NOTHING, "kind": "row", "transaction": "7", "table": "a", "place": "3"})

    assert RowRecord("a", 7, 3, None, ()) == CODEC.held(row)


def test_names_inside_a_place_are_tuples_at_any_depth() -> None:
    """As sources give them: a list is no name."""
    row = TEMP.row({**NOTHING, "kind": "row", "transaction": '["x",[1]]', "table": "a",
                    "place": '{"order":["y",[2,["z"]]],"number":1}'})  # fmt: skip

    assert RowRecord("a", ("x", (1,)), ("y", (2, ("z",))), None, (), 1) == CODEC.held(row)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [1.5j, b"x", [1], {1: 2}, (1, [2])])
def test_a_transaction_that_json_does_not_hold_as_it_is_is_refused(name: Any) -> None:
    """It would come back as another one."""
    with pytest.raises(MalformedError, match="cannot be kept"):
        CODEC.row(RestartRecord(name))


def test_a_transaction_without_a_name_is_kept() -> None:
    """Only what JSON has no text for is refused."""
    none: Any = None

    assert RestartRecord(none) == CODEC.held(CODEC.row(RestartRecord(none)))


def test_data_of_another_codec_are_no_record() -> None:
    """A partial change is written with the codec of partial changes alone."""
    change = {"kind": "row", "transaction": "7", "table": "a", "place": "3", "changes": [{"data": b"row x", "diff": 0}]}
    with pytest.raises(DecodeError, match="no row of an open-records log: .* no word of part"):
        CODEC.held(TEMP.row(NOTHING | change))


def test_the_row_type_of_temp_is_that_of_the_logs_that_exist() -> None:
    """Made again here, as each process makes it: names and types of all columns, and what each is for."""
    spec = importlib.util.spec_from_file_location(open_record_codec.__name__, open_record_codec.__file__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    fields = made.TEMP.schema["fields"]

    assert COLUMNS == [(field["name"], _kind(field["type"])) for field in fields]
    assert all(field["doc"] for field in fields)
    assert made.TEMP == TEMP


def _kind(kind: Any) -> Any:
    """A type; of a list of records the name and the fields of these."""
    if not isinstance(kind, dict) or isinstance(kind["items"], str):
        return kind
    assert kind["type"] == "array" and kind["items"]["type"] == "record"
    return kind["items"]["name"], [(field["name"], field["type"]) for field in kind["items"]["fields"]]
