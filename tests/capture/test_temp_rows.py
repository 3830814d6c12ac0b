"""What TEMP holds comes back from its rows as it was, and a row that no capture writes is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.capture.open_record_codec import TEMP, OpenRecordCodec
from cdcv2.capture.open_records import (
    SNAPSHOT, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RowRecord, StartRecord, ThroughRecord,
)
from cdcv2.capture.table_content import UNRESOLVED
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER

THINGS = RowType({"type": "record", "name": "thing", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}]})
#: The partial changes of things, with diff 0.
TOLDS = RowType({"type": "record", "name": "told", "fields": [{"name": "op", "type": "string"}]})
KEPT = OpenRecordCodec({"things": THINGS}, {"things": TOLDS})
LONGS = st.integers(1, 2**63 - 1)
TXS = st.one_of(st.integers(0, 2**40), st.text(min_size=1), st.just(SNAPSHOT))
ORDERS = st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers(), st.tuples(st.integers())))
DATA = st.tuples(st.integers(-5, 5), st.none() | st.text()).map(THINGS.row)
CHANGES = st.one_of(
    st.lists(st.tuples(DATA, st.sampled_from((-1, 1))), max_size=2).map(tuple),
    st.tuples(st.tuples(st.sampled_from("cudt").map(lambda op: TOLDS.row([op])), st.just(UNRESOLVED))),
)
COUNTS = st.dictionaries(st.text(min_size=1), st.integers(0, 9), max_size=3)
HELD: st.SearchStrategy[OpenRecord] = st.one_of(
    st.builds(RowRecord, st.just("things"), TXS, ORDERS, st.none() | LONGS, CHANGES),
    st.builds(HaltRecord, TXS, st.none() | LONGS, st.text(), st.text()),
    st.builds(EndRecord.of, TXS, LONGS, COUNTS),
    st.builds(ReleaseRecord, TXS, LONGS),
    st.builds(ThroughRecord, LONGS, LONGS),
    st.builds(StartRecord, st.sampled_from((COMMIT_ORDER, AS_COMPLETE)), st.lists(st.text(), max_size=3).map(tuple),
              st.booleans(), st.booleans()),
)  # fmt: skip


@given(HELD, HELD)
def test_what_is_held_comes_back(one: OpenRecord, other: OpenRecord) -> None:
    """Through its bytes, too; equal things are equal rows, different ones are not."""
    row = KEPT.row(one)

    assert one == KEPT.held(TEMP.decode(TEMP.encode(row)))
    assert (one == other) == (row == KEPT.row(other))


@pytest.mark.parametrize("order", [object(), {1: 2}, b"x", 1.5j])
def test_a_place_that_cannot_be_kept_is_refused(order: Any) -> None:
    """It would come back as something else."""
    with pytest.raises(MalformedError, match="cannot be kept"):
        KEPT.row(RowRecord("things", 1, order, None, ()))


def test_rows_of_other_tables_need_their_row_type() -> None:
    """To be written, and to be read."""
    with pytest.raises(MalformedError, match="row type of others is not given"):
        KEPT.row(RowRecord("others", 1, 1, None, ()))
    row = KEPT.row(RowRecord("things", 1, 1, None, ()))
    with pytest.raises(DecodeError, match="row type of things is not given"):
        OpenRecordCodec({}).held(row)


@pytest.mark.parametrize("columns", [
    {"kind": "other"}, {"kind": "end", "transaction": "{", "commit": 3}, {"kind": "end", "transaction": "7"},
    {"kind": "row", "transaction": "7", "table": "things", "place": "1", "changes": [{"data": b"zz", "diff": 1}]},
    {"kind": "done"},
])
def test_a_row_that_no_capture_writes_is_named(columns: dict[str, Any]) -> None:
    """It is the log that is wrong."""
    nothing = dict.fromkeys(TEMP.columns) | {"changes": (), "counts": (), "tables": ()}

    with pytest.raises(DecodeError, match=columns["kind"]):
        KEPT.held(TEMP.row(nothing | columns))
