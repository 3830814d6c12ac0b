"""The same of files of Parquet and of Delta tables: which of Arrow's types a column of the source has there.

What no type of Arrow's holds exactly, in the range that all readers have, stays as the log has it: text, or numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.plain import bytes_from_plain, float_from_plain, int_from_plain, plain_bytes, plain_float, plain_int
from cdcv2.rows.postgres_values import DATES, TIMESTAMPS, decimal_of, iso_text, micros, time_of_day, time_text
from cdcv2.rows.source_types import SourceType
from cdcv2.views.source_columns import Convert, kind_of

#: Digits of the decimals that all readers have.
DIGITS = 38
# From the first day of the year 1 to the last one of 9999: others are written, and not read by all.
_DAYS = (-719162, 2932896)
_MOMENTS = (-62135596800000000, 253402300799999999)
_REMEDY = (
    "Mend the source's row, leave the column out, or, in a new folder, keep the column as the log has it: take its "
    "cdcv2.source out of the row schema, and name that with types in the file"
)


@dataclass(frozen=True)
class ArrowColumn:
    """How a column is kept. Values are not null.

    ``type``: Arrow's, of the module pyarrow; ``put``: from the log's value to what that takes; ``read_as``: what it is
    cast to before it is read, if it is; ``get``: from that to the log's value.
    """

    type: Callable[[Any], Any]
    put: Convert
    get: Convert
    read_as: Callable[[Any], Any] | None = None


def arrow_column(field: Field) -> ArrowColumn | None:
    """How it is kept; None: as the log has it."""
    source = field.source
    if source is None or kind_of(source) != field.kind:
        return None
    return _array(source.items) if source.items is not None else _column(source)


def _column(source: SourceType) -> ArrowColumn | None:
    digits = source.precision if source.precision is not None else 6
    unit = 1000 if digits <= 3 else 1
    if source.type in ("numeric", "money"):
        return _decimal(source)
    if source.type == "int2":
        return ArrowColumn(lambda pa: pa.int16(), _same, _same)
    if source.type == "date":
        return ArrowColumn(lambda pa: pa.date32(), _day, _same, lambda pa: pa.int32())
    if source.type == "time":
        return ArrowColumn(
            lambda pa: pa.string(), lambda value: time_text(time_of_day(value, unit)),
            lambda text: micros(f"{text}Z") // unit,
        )  # fmt: skip
    if source.type == "timestamp":
        return ArrowColumn(
            lambda pa: pa.timestamp("us"), partial(_timestamp, unit), lambda number: number // unit,
            lambda pa: pa.int64(),
        )  # fmt: skip
    if source.type == "timestamptz":
        return ArrowColumn(
            lambda pa: pa.timestamp("us", tz="UTC"), _moment, lambda number: iso_text(number, digits),
            lambda pa: pa.int64(),
        )  # fmt: skip
    return None


def _decimal(source: SourceType) -> ArrowColumn | None:
    if source.type == "money":
        precision, scale = 19, 2
    elif source.precision is None:
        return None
    else:
        given = source.scale or 0
        precision, scale = max(source.precision, given) - min(given, 0), max(given, 0)
    if precision > DIGITS:
        return None
    return ArrowColumn(lambda pa: pa.decimal128(precision, scale), _number, lambda number: format(number, "f"))


def _array(items: SourceType) -> ArrowColumn | None:
    kind = kind_of(items)
    if kind is None or items.type == "array":
        return None
    inner = _column(items) or ArrowColumn(_PHYSICAL[kind], _same, _same)
    read_as = inner.read_as
    to_plain, from_plain = _PLAIN.get(kind, (_same, _same))

    def put(text: str) -> list[Any]:
        return [None if one is None else inner.put(from_plain(one)) for one in json.loads(text)]

    def get(values: list[Any]) -> str:
        plain = [None if one is None else to_plain(inner.get(one)) for one in values]
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))

    cast = None if read_as is None else partial(_listed, read_as)
    return ArrowColumn(partial(_listed, inner.type), put, get, cast)


def _listed(items: Callable[[Any], Any], pa: Any) -> Any:
    return pa.list_(items(pa))


_PHYSICAL: dict[str, Callable[[Any], Any]] = {
    "boolean": lambda pa: pa.bool_(), "int": lambda pa: pa.int32(), "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(), "double": lambda pa: pa.float64(), "string": lambda pa: pa.string(),
    "bytes": lambda pa: pa.binary(),
}  # fmt: skip
_PLAIN: dict[str, tuple[Convert, Convert]] = {
    "int": (plain_int, int_from_plain), "long": (plain_int, int_from_plain),
    "float": (plain_float, float_from_plain), "double": (plain_float, float_from_plain),
    "bytes": (plain_bytes, bytes_from_plain),
}  # fmt: skip


def _same(value: Any) -> Any:
    return value


def _number(text: str) -> Decimal:
    number = decimal_of(text)
    if not number.is_finite():
        raise MalformedError(f"{text} is no number that a decimal holds. {_REMEDY}")
    return number


def _day(value: int) -> int:
    if not _DAYS[0] <= value <= _DAYS[1]:
        raise MalformedError(f"the date {DATES.get(value, f'{value} days from 1970-01-01')} {_OUTSIDE}")
    return value


def _timestamp(unit: int, value: int) -> int:
    if not _MOMENTS[0] <= value * unit <= _MOMENTS[1]:
        raise MalformedError(f"the timestamp {TIMESTAMPS.get(value) or iso_text(value * unit)[:-1]} {_OUTSIDE}")
    return value * unit


def _moment(value: str) -> int:
    number = None if value in ("infinity", "-infinity") else micros(value)
    if number is None or not _MOMENTS[0] <= number <= _MOMENTS[1]:
        raise MalformedError(f"the moment {value} {_OUTSIDE}")
    return number


_OUTSIDE = f"is outside of the years 0001 to 9999, which all readers of the files have. {_REMEDY}"
