"""In files, a column has Arrow's type of what it is in the source, and its values go there and come back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.source_types import SourceType
from cdcv2.views.arrow_columns import ArrowColumn, arrow_column
from cdcv2.views.source_columns import kind_of

LEAP = datetime(2024, 2, 29, 12, 34, 56, 123456)
FIRST, LATEST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
INT, LONG = "int", "long"


def column(source: SourceType | None, kind: str | None = None) -> ArrowColumn | None:
    """Of a column of this type; its kind is the type's unless it is given."""
    return arrow_column(Field("v", kind or (kind_of(source) if source is not None else None) or "json", source=source))


def numeric(precision: int | None = None, scale: int | None = None) -> SourceType:
    """numeric(precision, scale)."""
    return SourceType("numeric", precision, scale)


def array(items: str | SourceType, precision: int | None = None) -> SourceType:
    """An array of these."""
    return SourceType("array", items=SourceType(items, precision) if isinstance(items, str) else items)


@pytest.mark.parametrize(("source", "arrow", "values"), [
    (SourceType("int2"), pa.int16(), [(-32768, -32768), (32767, 32767)]),
    (numeric(12, 2), pa.decimal128(12, 2), [("1234.50", Decimal("1234.50")), ("-0.01", Decimal("-0.01"))]),
    (numeric(38), pa.decimal128(38, 0), [("9" * 38, Decimal("9" * 38))]),
    # Of a negative scale, digits before the point are zeros; of a great one, behind it.
    (numeric(5, -2), pa.decimal128(7, 0), [("-9999900", Decimal(-9999900))]),
    (numeric(2, 5), pa.decimal128(5, 5), [("0.00012", Decimal("0.00012"))]),
    (numeric(9, 7), pa.decimal128(9, 7), [("0.0000001", Decimal("1E-7"))]),
    (SourceType("money"), pa.decimal128(19, 2), [("-92233720368547758.08", Decimal("-92233720368547758.08"))]),
    (SourceType("date"), pa.date32(), [(-719162, FIRST.date()), (19782, date(2024, 2, 29)), (2932896, LATEST.date())]),
    (SourceType("time"), pa.string(), [(45296123456, "12:34:56.123456"), (86400000000, "24:00:00.000000")]),
    (SourceType("time", 3), pa.string(), [(45296123, "12:34:56.123000"), (0, "00:00:00.000000")]),
    (SourceType("time", 4), pa.string(), [(45296123400, "12:34:56.123400")]),
    (SourceType("timestamp"), pa.timestamp("us"), [
        (1709210096123456, LEAP), (-62135596800000000, FIRST), (253402300799999999, LATEST),
    ]),
    (SourceType("timestamp", 3), pa.timestamp("us"), [
        (1709210096123, LEAP.replace(microsecond=123000)), (-62135596800000, FIRST),
        (253402300799999, LATEST.replace(microsecond=999000)),
    ]),
    (SourceType("timestamp", 4), pa.timestamp("us"), [(1709210096123400, LEAP.replace(microsecond=123400))]),
    (SourceType("timestamptz"), pa.timestamp("us", tz="UTC"), [
        ("2024-02-29T12:34:56.123456Z", LEAP.replace(tzinfo=UTC)),
        ("0001-01-01T00:00:00.000000Z", FIRST.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", LATEST.replace(tzinfo=UTC)),
    ]),
    (SourceType("timestamptz", 0), pa.timestamp("us", tz="UTC"), [
        ("2024-02-29T12:34:56Z", LEAP.replace(microsecond=0, tzinfo=UTC)),
    ]),
    (array("int2"), pa.list_(pa.int16()), [("[-32768,null]", [-32768, None])]),
    (array("int4"), pa.list_(pa.int32()), [("[]", []), ("[2147483647]", [2**31 - 1])]),
    (array("int8"), pa.list_(pa.int64()), [('["9223372036854775807",7]', [2**63 - 1, 7])]),
    (array("float4"), pa.list_(pa.float32()), [('[1.5,"NaN"]', [1.5, pytest.approx(float("nan"), nan_ok=True)])]),
    (array("float8"), pa.list_(pa.float64()), [('[0.1,"-Infinity"]', [0.1, float("-inf")])]),
    (array("bool"), pa.list_(pa.bool_()), [("[true,null,false]", [True, None, False])]),
    (array("text"), pa.list_(pa.string()), [('["é",null,"a\\"b"]', ["é", None, 'a"b'])]),
    (array("bytea"), pa.list_(pa.binary()), [('["AP8="]', [b"\x00\xff"])]),
    (array(numeric(10, 2)), pa.list_(pa.decimal128(10, 2)), [('["1.50"]', [Decimal("1.50")])]),
    (array(numeric()), pa.list_(pa.string()), [('["1E+30"]', ["1E+30"])]),
    (array("date"), pa.list_(pa.date32()), [("[19782]", [date(2024, 2, 29)])]),
    (array("timestamp", 3), pa.list_(pa.timestamp("us")), [
        ("[1709210096123,-62135596800000]", [LEAP.replace(microsecond=123000), FIRST]),
    ]),
    (array("timestamp"), pa.list_(pa.timestamp("us")), [('["-62135596800000000"]', [FIRST])]),
    (array("timestamptz", 6), pa.list_(pa.timestamp("us", tz="UTC")), [
        ('["2024-02-29T12:34:56.123456Z",null]', [LEAP.replace(tzinfo=UTC), None]),
    ]),
], ids=str)  # fmt: skip
def test_values_go_into_a_column_of_the_type_and_come_back(
    source: SourceType, arrow: pa.DataType, values: list[tuple[Any, Any]]
) -> None:
    """As any reader has them, and as the log has them; also the first and the last that all readers have."""
    made = column(source)
    assert made is not None and arrow == made.type(pa)
    stored = pa.array([made.put(value) for value, _ in values], made.type(pa))
    assert [there for _, there in values] == stored.to_pylist()
    read = stored if made.read_as is None else stored.cast(made.read_as(pa))
    assert repr([value for value, _ in values]) == repr([made.get(one) for one in read.to_pylist()])


@pytest.mark.parametrize(("source", "kind"), [
    (None, "string"), (numeric(), "string"), (numeric(39, 2), "string"), (numeric(30, -9), "string"),
    (numeric(12, 39), "string"), (SourceType("text"), "string"), (SourceType("int4"), INT),
    (array(array("int4")), None), (array("hstore"), None), (SourceType("hstore"), "string"),
    # Where the log has it otherwise, it is not what the source's type is written as.
    (numeric(12, 2), "json"), (SourceType("date"), LONG), (array("int4"), "string"),
], ids=str)  # fmt: skip
def test_what_has_no_type_of_its_own_is_as_the_log_has_it(source: SourceType | None, kind: str | None) -> None:
    """Numbers of more than 38 digits, arrays of what is not known, and types that the log has as they are."""
    assert column(source, kind) is None


@pytest.mark.parametrize(("source", "value", "words"), [
    (numeric(5, 2), "NAN", "NAN is no number that a decimal holds. Mend the source's row"),
    (numeric(5, 2), "POSITIVE_INFINITY", "POSITIVE_INFINITY is no number that a decimal holds"),
    (SourceType("date"), -719163, "the date -719163 days from 1970-01-01 is outside of the years 0001 to 9999, which"),
    (SourceType("date"), 2932897, "the date 2932897 days from 1970-01-01 is outside"),
    (SourceType("date"), 2146033979, "the date infinity is outside"),
    (SourceType("timestamp"), -62135596800000001, "the timestamp 0000-12-31T23:59:59.999999 is outside"),
    (SourceType("timestamp"), 253402300800000000, r"the timestamp \+10000-01-01T00:00:00.000000 is outside"),
    (SourceType("timestamp", 3), 253402300800000, r"the timestamp \+10000-01-01T00:00:00.000000 is outside"),
    (SourceType("timestamp"), -(2**63), "the timestamp -infinity is outside"),
    (SourceType("timestamptz"), "infinity", "the moment infinity is outside"),
    (SourceType("timestamptz"), "-infinity", "the moment -infinity is outside"),
    (SourceType("timestamptz"), "0000-12-31T23:59:59.999999Z", "the moment 0000-12-31T23:59:59.999999Z is outside"),
    (SourceType("timestamptz"), "+10000-01-01T00:00:00.000000Z", r"the moment \+10000-01-01T00:00:00.000000Z is outs"),
    (array("date"), "[2932897]", "the date 2932897 days from 1970-01-01 is outside"),
], ids=str)  # fmt: skip
def test_what_no_reader_could_read_is_refused_by_its_value(source: SourceType, value: Any, words: str) -> None:
    """One microsecond, or one day, outside of what is held."""
    made = column(source)
    assert made is not None
    with pytest.raises(MalformedError, match=f"^{words}"):
        made.put(value)
