"""Text that is no number, moment or time of PostgreSQL's goes into no target; all that the connector writes does."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.materialize import MemoryRecoveryLog, Runtime, ViewBinding
from cdcv2.materialize.protocol.messages import Field
from cdcv2.materialize.targets.delta.driver import DeltaDriver
from cdcv2.materialize.targets.lake.driver import LakeDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.columns import UpdateBatch
from cdcv2.rows.plain import from_plain
from cdcv2.rows.postgres_values import holds, normal, number_text, zoned_text
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType
from cdcv2.rows.values import decimal_from_text
from cdcv2.views.columns import column_of
from cdcv2.views.source_columns import demand_held
from tests import every_type

NUMBERS = ["1_000.00", " 1.00", "1.00 ", "1.00\n", "١٢", "１", "", "-", ".", "1,5", "0x1", "sNaN", "NaN1", "1e", "--1",
           "1e99999999999999999999"]
MOMENTS = ["2024-02-30T00:00:00.000000Z", "2023-02-29T00:00:00.000000Z", "2024-04-31T00:00:00.000000Z",
           "2024-13-01T00:00:00.000000Z", "2024-00-10T00:00:00.000000Z", "2024-01-00T00:00:00.000000Z",
           "2024-01-01T23:59:60.000000Z", "2024-01-01T24:00:00.000001Z", "2024-01-01T25:00:00.000000Z",
           "2024-01-01T23:60:00.000000Z", "2024-01-01T00:00:00.000000+16:00", "2024-01-01T00:00:00.000000+01:60",
           "2024-01-01 00:00:00.000000Z", "2024-01-01T00:00:00.000000", "+10000-02-30T00:00:00Z",
           "-0043-02-30T00:00:00Z", "2024-01-01T00:00:00.0000001Z", "Infinity", "", "10:00:00Z"]
TIMES = ["23:59:60Z", "24:00:00.5Z", "24:01:00Z", "-01:00:00Z", "10:60:00Z", "10:00:00", "2024-01-01T10:00:00Z"]
#: Avro's type, the source's, and the values that are none of its.
IMPOSSIBLE: list[tuple[Any, dict[str, Any], list[Any]]] = [
    ("string", {"type": "numeric"}, NUMBERS), ("string", {"type": "numeric", "precision": 12, "scale": 2}, NUMBERS),
    ("string", {"type": "money"}, NUMBERS), ("string", {"type": "timestamptz"}, MOMENTS),
    ("string", {"type": "timestamptz", "precision": 0}, [*MOMENTS, "2024-02-30T00:00:00Z"]),
    ("string", {"type": "timetz"}, TIMES),
]
OF_A_DAY: list[tuple[str, dict[str, Any], list[int]]] = [
    ("long", {"type": "time"}, [-1, 86_400_000_001, -(2**63)]),
    ("int", {"type": "time", "precision": 3}, [-1, 86_400_001]),
]


def rows(avro: Any, source: dict[str, Any]) -> RowType:
    """Rows with such a column."""
    field = {"name": "v", "type": ["null", avro], "cdcv2.source": source}
    return RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}, field]})


@pytest.mark.parametrize(("avro", "source", "values"), IMPOSSIBLE, ids=lambda one: str(one)[:40])
def test_what_is_none_of_the_type_is_refused_with_its_column(
    avro: Any, source: dict[str, Any], values: list[Any]
) -> None:
    """As a value, in a batch, and in an array: before any target sees it."""
    row_type = rows(avro, source)
    lists = rows({"type": "array", "items": ["null", avro]}, {"type": "array", "items": source})
    for value in values:
        for of, one in ((row_type, value), (lists, [None, value])):
            row, column = of.row([1, one]), column_of(of, "v", "shop")
            batch = UpdateBatch.of(of, [(row, 1, 1)])
            assert batch is not None
            with pytest.raises(MalformedError, match=r"shop: in the column 'v', .* is (no|finer than)"):
                column.value(row)
            with pytest.raises(MalformedError, match=r"shop: in the column 'v', .* is (no|finer than)"):
                column.array(of, batch.rows.column(1))


@pytest.mark.parametrize(("avro", "source", "values"), OF_A_DAY, ids=["time", "time(3)"])
@pytest.mark.parametrize("driver", [LakeDriver, DeltaDriver], ids=["lake", "delta"])
def test_a_number_that_is_no_time_of_a_day_goes_into_no_table(
    tmp_path: Path, driver: Any, avro: str, source: dict[str, Any], values: list[int]
) -> None:
    """PostgreSQL would take it for a time of another day."""
    if driver is DeltaDriver:
        pytest.importorskip("deltalake")
    row_type = rows(avro, source)
    kind = SourceType.from_plain(source)
    for value in values:
        with pytest.raises(MalformedError, match=f"t: in the column 'v', {value} is no time: a day begins at 0"):
            demand_held(Field("v", avro, source=kind), value, "t")
        cut = Cut({"t": [(row_type.row([1, value]), 1, 1)]}, Antichain([0]), Antichain([2]))
        with pytest.raises(MalformedError, match=f"t: in the column 'v', {value} is no time: a day begins at 0"):
            Runtime(
                "m", [ViewBinding("t", row_type, "t", ("id",))], driver(tmp_path / str(value)), lambda _: [cut],
                log=MemoryRecoveryLog("m"),
            ).run()
    with pytest.raises(MalformedError, match="is no time"):
        demand_held(Field("v", "json", source=SourceType("array", items=SourceType("time"))), f'["{-(2**62)}"]', "t")


def test_all_that_the_connector_writes_is_taken() -> None:
    """Of every type, the extremes included: 24:00:00, infinities, years BC and after 9999, exponents."""
    types = {
        "price": SourceType("numeric", 12, 2), "any": SourceType("numeric"), "cash": SourceType("money"),
        "moment": SourceType("timestamptz"), "moment3": SourceType("timestamptz", 3),
        "moment0": SourceType("timestamptz", 0), "clockz": SourceType("timetz"), "clock": SourceType("time"),
        "clock3": SourceType("time", 3), "at": SourceType("timestamp"), "at3": SourceType("timestamp", 3),
        "day": SourceType("date"),
    }  # fmt: skip
    tried = 0
    for name, source in types.items():
        convert, check = normal(source), holds(source)
        for _, value in every_type.COLUMNS[name].values:
            made = value if convert is None else convert(value)
            assert check is None or check(made), (name, value)
            tried += 1
    assert tried > 30
    number, moment, clock = (normal(SourceType(name)) for name in ("numeric", "timestamptz", "timetz"))
    assert number is not None and moment is not None and clock is not None
    assert ["0.0000000000", "1000", "NaN", "Infinity", "1", "0.5"] == [
        number(one) for one in ("0E-10", "1E+3", "NAN", "POSITIVE_INFINITY", "+1", ".5")
    ]
    assert "2024-02-29T00:00:00.000000Z" == moment("2024-02-28T24:00:00Z")
    first, days = date(2023, 1, 1), (date(2025, 1, 1) - date(2023, 1, 1)).days
    for number in range(days):
        text = f"{first + timedelta(number)}T00:00:00.000000Z"
        assert text == moment(text)
    assert ["24:00:00Z", "24:00:00Z", "10:00:00.5+05:30"] == [
        clock(one) for one in ("24:00:00Z", "24:00:00.000+00", "10:00:00.50+05:30")
    ]


def test_a_comparison_takes_no_impossible_text_for_another_value() -> None:
    """It differs, and is shown as it is; and JSON has the numbers that PostgreSQL prints."""
    assert ["1_000", " 1", "2024-02-30T00:00:00Z", "23:59:60Z"] == [
        number_text("1_000"), number_text(" 1"), zoned_text("2024-02-30T00:00:00Z"), zoned_text("23:59:60Z")
    ]
    assert [None] * len(NUMBERS) == [decimal_from_text(one) for one in NUMBERS]
    decimal = RowType({"type": "record", "name": "t", "fields": [
        {"name": "v", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}}]})
    with pytest.raises(MalformedError, match="column 'v': '1_0' is no decimal number"):
        from_plain(decimal.shape)({"v": "1_0"})
