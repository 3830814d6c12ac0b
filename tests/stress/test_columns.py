"""Updates as columns, against rows: as many random row types and updates as the profile states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.stress.summary import record
from tests.rows.test_columns import check_same_updates


def test_columns_are_the_same_updates_as_rows() -> None:
    """With NaN, -0.0, nulls, decimals, maps, nested values and extremes of all types."""
    batches = 0

    @given(st.data())
    def each(data: st.DataObject) -> None:
        nonlocal batches
        check_same_updates(data)
        batches += 1

    each()
    record("updates as columns, against rows", [0], {"batches": batches})
