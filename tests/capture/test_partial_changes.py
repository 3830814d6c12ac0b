"""A partial change comes back from its bytes as it was, and equal changes are equal bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.capture.facts import PartialChange, PartialImage
from cdcv2.capture.partial_changes import PARTIAL_CHANGE, PartialChangeCodec, part_type
from cdcv2.errors import DecodeError
from cdcv2.rows.row_type import RowType

KIND = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
FIELDS: list[tuple[str, Any]] = [
    ("id", "long"), ("note", ["null", "string"]), ("size", "double"), ("raw", ["null", "bytes"]), ("inner", KIND),
]
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": name, "type": kind} for name, kind in FIELDS]})
VALUES = (
    st.integers(-2**63, 2**63 - 1), st.none() | st.text(), st.floats(), st.none() | st.binary(),
    st.fixed_dictionaries({"x": st.integers(-5, 5)}),
)  # fmt: skip


@st.composite
def parts(draw: Any) -> PartialImage:
    """Some of the values of a row, as records of the connector are read."""
    names = draw(st.sets(st.sampled_from(ROWS.columns)))
    columns = tuple(name for name in ROWS.columns if name in names)
    values = {name: draw(VALUES[at]) for at, name in enumerate(ROWS.columns) if name in names}
    if not columns:
        return PartialImage((), ())
    row = part_type(ROWS, frozenset(columns)).row(values)
    return PartialImage(columns, ROWS.row(values) if columns == ROWS.columns else tuple(row))


TOLDS = st.builds(PartialChange, st.sampled_from("cudt"), st.none() | parts(), st.none() | parts(), st.none() | parts())


WHOLE = PartialImage(ROWS.columns, ROWS.row([5, "n", 1.5, b"r", {"x": 1}]))
SOME = PartialImage(("id", "size"), (7, 2.5))
NONE = PartialImage((), ())


@pytest.mark.parametrize("change", [
    PartialChange("d", SOME, None, None), PartialChange("u", None, WHOLE, SOME), PartialChange("c", NONE, SOME, WHOLE),
    PartialChange("t", None, None, None),
])  # fmt: skip
def test_each_part_comes_back(change: PartialChange) -> None:
    """Each under its name, whole rows as rows and others as tuples; the bytes have the parts that are there."""
    codec = PartialChangeCodec(ROWS)
    back = codec.decode(codec.encode(change))

    assert change == back and [type(part.values) for part in change[1:] if part] == [
        type(part.values) for part in back[1:] if part
    ]
    shown = PARTIAL_CHANGE.decode(codec.encode(change))
    assert change.op == shown.op
    assert [(part.of, tuple(part.columns)) for part in shown.parts] == [
        (name, part.columns) for name, part in zip(("key", "old", "new"), change[1:]) if part is not None
    ]
    assert [b"" != part.row for part in shown.parts] == [part.columns != () for part in change[1:] if part is not None]


@given(TOLDS, TOLDS)
def test_it_comes_back(one: PartialChange, other: PartialChange) -> None:
    """Whole rows as rows; NaN and -0.0, too."""
    codec = PartialChangeCodec(ROWS)

    assert one == codec.decode(codec.encode(one))
    assert (one == other) == (codec.encode(one) == codec.encode(other))


def test_columns_that_the_table_has_not_are_named() -> None:
    """The log of TEMP is another table's."""
    row = PARTIAL_CHANGE.encode(("d", [("key", ["id", "zone"], b"\x02\x04")]))
    with pytest.raises(DecodeError, match="it has the column 'zone', which the row type has not"):
        PartialChangeCodec(ROWS).decode(row)
