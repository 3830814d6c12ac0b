"""A row image, as Debezium writes it in JSON, becomes a row.

JSON has fewer types than a table. What the connector writes for them, and what becomes of it:

====================================  =====================================  =======================
PostgreSQL                            in the record                          Avro type of the column
====================================  =====================================  =======================
smallint, integer; bigint             a number                               int; long
real; double precision                a number, or NaN, Infinity, -Infinity  float; double
                                      in a string
boolean, bit(1)                       a boolean                              boolean
numeric, money                        text: decimal.handling.mode=string     string
numeric, mode precise                 its unscaled bytes in base64           bytes, a decimal
text, varchar, uuid, json, jsonb,     text                                   string
xml, enum, inet, ranges, ...
char(n)                               text, padded                           string
bytea, bit(n)                         base64                                 bytes
date                                  days since 1970-01-01                  int
time, timestamp                       micros (up to 3 digits: millis)        long (time millis: int)
timestamptz, timetz                   ISO text                               string
interval                              micros, months as 30.4375 days         long
arrays                                an array                               array
====================================  =====================================  =======================

PostgreSQL's infinite dates and timestamps come as extreme numbers, those of a date not the same ones in a snapshot and
in the stream (-622191234 and 2146033979). Where the row schema states that a column is a date, a snapshot's becomes the
stream's, as the old row of the first change has that: else a row would go that was never there.

What the connector makes of a value that it cannot hold, and what is no value of the type, is no row: it stops here
(``docs/types.md#values-that-arrive-changed``).
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from cdcv2.capture.facts import PartialImage
from cdcv2.capture.partial_changes import part_type
from cdcv2.rows.plain import float_from_plain
from cdcv2.rows.postgres_values import STREAM_DATES, possible_numbers
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.rows.source_types import SourceType
from cdcv2.sql_names import sql_table

#: What the connector writes for a large value that the change did not touch, where identity is not FULL.
UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()
# As an element of uuid[] it is made a UUID, the way Java does it.
_UNAVAILABLE_UUID = str(uuid.UUID(bytes=hashlib.md5(UNAVAILABLE.encode(), usedforsecurity=False).digest(), version=3))
#: What PostgreSQL keeps in the row itself, always.
_NEVER_LARGE = frozenset({"boolean", "int", "long", "float", "double"})
#: What the connector makes up for NOT NULL columns that it was not given, besides zero, false and the empty string.
_MADE_UP = frozenset({"0", "{}", "1970-01-01T00:00:00Z", "00:00:00Z", "00000000-0000-0000-0000-000000000000"})

#: What Java prints of an array: the connector's element of a text[] of more than one dimension.
_JAVA_ARRAY = re.compile(r"\[+(?:[BCDFIJSZ]|L[\w.$]+;)@[0-9a-f]{1,8}", re.ASCII)

_Convert: TypeAlias = Callable[[Any], Any]


class UnfitImage(Exception):
    """A row image that is no row of the row type; ``classify`` makes a fact of it. Never leaves this box."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


#: Of a table that is sent with its partitions, the records do not show in which of these a row was.
_PARTITIONS = "If it is partitioned, each partition needs FULL, also a new one: that of the table above does not count."


def identity_remedy(table: str) -> str:
    """What to do about images that are not whole."""
    return (
        f"Capture needs whole before-images: ALTER TABLE {sql_table(table)} REPLICA IDENTITY FULL, "
        "then start over with a new snapshot (new topics, new slot, new logs). Or, if the table has a key, "
        f"let the capture keep the before-images itself: cdcv2 capture --before from-state. {_PARTITIONS}"
    )


def keyless_remedy(table: str) -> str:
    """What to do about old rows that no key identifies."""
    return (
        f"Without a key, before-images must come whole: ALTER TABLE {sql_table(table)} REPLICA IDENTITY FULL, or "
        f"give it a primary key, then start over with a new snapshot (new topics, new slot, new logs). {_PARTITIONS}"
    )


class ImageReader:
    """Reads the images of one row type. Can be pickled."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        shape = row_type.shape
        self._columns = tuple(column.name for column in shape.columns)
        self._names = frozenset(self._columns)
        converters = {
            column.name: _of_source(source) or _converter(column.shape)
            for column, source in zip(shape.columns, row_type.sources)
        }
        self._converters = [(name, convert) for name, convert in converters.items() if convert is not None]
        placeholders = [(column.name, _placeholders(column.shape)) for column in shape.columns]
        self._placeholders = [(name, there) for name, there in placeholders if there]

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageReader, (self._row_type,)

    def read(self, image: Any, table: str, *, old: bool = False) -> Any:
        """The row. Raises UnfitImage, naming the column; ``old``: it is a before-image."""
        values = self._checked(image, table, old)
        absent = self._left_out(image)
        if absent:
            names = ", ".join(map(repr, absent))
            reason = f"a row of {table} comes without its unchanged large value of {names}"
            raise UnfitImage(reason, identity_remedy(table))
        try:
            self._convert(image, table, self._converters)
            return self._row_type.row(image)
        except ValueError as error:
            remedy = f"{identity_remedy(table)} {_CHANGED}" if old else _CHANGED
            raise UnfitImage(f"the {values} of a row of {table} do not fit its row type: {error}", remedy) from None

    def part(self, image: Any, table: str, *, old: bool = False, only: Collection[str] | None = None) -> PartialImage:
        """The image without large values that it leaves out; ``only`` these columns of it.

        Raises UnfitImage as :meth:`read`. Cost: as there; a row type for each set of columns, once.
        """
        values = self._checked(image, table, old, _NO_IMAGE)
        absent = self._left_out(image)
        given = tuple(name for name in self._columns if (only is None or name in only) and name not in absent)
        if not given:
            return PartialImage((), ())
        whole = len(given) == len(self._names)
        row_type = self._row_type if whole else part_type(self._row_type, frozenset(given))
        try:
            self._convert(image, table, [one for one in self._converters if one[0] in given])
            row = row_type.row({name: image[name] for name in given})
        except ValueError as error:
            remedy = f"{_NAMED} {_CHANGED}" if old else _CHANGED
            raise UnfitImage(f"the {values} of a row of {table} do not fit its row type: {error}", remedy) from None
        return PartialImage(given, row if whole else tuple(row))

    def _convert(self, image: dict[str, Any], table: str, converters: Collection[tuple[str, _Convert]]) -> None:
        """Make of the columns' values what ``RowType.row`` takes, in place."""
        name = ""
        try:
            for name, convert in converters:
                image[name] = convert(image[name])
        except _ChangedValue as changed:
            reason = f"the connector sent {changed}, as column {name!r} of a row of {table}"
            raise UnfitImage(reason, _NOT_HELD) from None

    def _checked(self, image: Any, table: str, old: bool, remedy: str | None = None) -> str:
        values = "old values" if old else "values"
        if not isinstance(image, dict):
            raise UnfitImage(f"a row of {table} comes without its {values}", remedy or identity_remedy(table))
        if image.keys() != self._names:
            raise UnfitImage(f"the columns of {table} changed: {self._difference(image)}", _CHANGED)
        return values

    def looks_key_only(self, image: Mapping[str, Any], key: frozenset[str]) -> bool:
        """Whether only the key of an old row has values that the connector would not have made up."""
        others = [value for name, value in image.items() if name not in key]
        # Arrays and maps are made up empty.
        return bool(key and others) and all(
            not value or isinstance(value, str) and value in _MADE_UP for value in others
        )

    def unlike(self, image: Mapping[str, Any]) -> str | None:
        """How the row type differs in its columns from rows of which this is one; None where it does not."""
        lacks, more = sorted(image.keys() - self._names), sorted(self._names - image.keys())
        differences = [f"does not have the column {name!r}" for name in lacks]
        differences += [f"has the column {name!r}, which they do not have" for name in more]
        return ", and ".join(differences) or None

    def _difference(self, image: Mapping[str, Any]) -> str:
        gone = [f"{name!r} is missing" for name in sorted(self._names - image.keys())]
        return ", ".join(gone + [f"{name!r} is new" for name in sorted(image.keys() - self._names)])

    def _left_out(self, image: Mapping[str, Any]) -> list[str]:
        """The columns of which it has a placeholder in place of the large value that the change did not touch."""
        return [name for name, placeholders in self._placeholders if image[name] in placeholders]


_CHANGED = (
    "A log holds rows of one type, and so must its topic. After ALTER TABLE make the row type again (cdcv2 rows), and "
    "start over with a new snapshot (new topics, new slot, new logs); the logs that are there can be read up to the "
    "change. If the table was not altered, make the row type again, and capture into new logs. A generated column is "
    "best left out by the connector's column.exclude.list"
)


_NO_IMAGE = (
    "A change comes with the row as it is then, and a delete with the row's key: name the connector's own topics, "
    "without transforms that take these away"
)
_NAMED = "Name a table with --full-identity only if it has REPLICA IDENTITY FULL, and so has each partition of it."


_NOT_HELD = (
    "Leave the column out of the records (column.exclude.list) and of the row type, or change such values in the "
    "source; then start over with a new snapshot (new topics, new slot, new logs). Which values these are: "
    "docs/types.md#values-that-arrive-changed"
)


class _ChangedValue(Exception):
    """The connector cannot hold the value that is in the database; the text is what it sent, and what for."""


def _placeholders(shape: Shape) -> tuple[Any, ...]:
    """What the connector may write in a column of this shape for a large value that the change did not touch."""
    if shape.kind == "optional":
        return _placeholders(shape.item)
    if shape.kind in _NEVER_LARGE:
        return ()
    if shape.kind in ("bytes", "fixed"):
        return (_UNAVAILABLE_BYTES,)
    if shape.kind == "array":
        numbers = list(UNAVAILABLE.encode())
        return ([UNAVAILABLE], [_UNAVAILABLE_BYTES], [_UNAVAILABLE_UUID], numbers)
    if shape.kind == "map":
        return ({UNAVAILABLE: UNAVAILABLE},)
    return (UNAVAILABLE, f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}')


def _converter(shape: Shape) -> _Convert | None:
    """From parsed JSON to what ``RowType.row`` takes; None where that is the same."""
    kind = shape.kind
    if kind in ("float", "double"):
        return float_from_plain
    if kind in ("bytes", "fixed"):
        return _bytes
    if kind in ("optional", "array", "map"):
        if kind == "array" and "string" in (shape.item.kind, shape.item.kind == "optional" and shape.item.item.kind):
            return _texts
        inner = _converter(shape.item)
        if inner is None:
            return None
        return {"optional": _optional, "array": _array, "map": _map}[kind](inner)
    if kind == "record":
        inside = [(column.name, _converter(column.shape)) for column in shape.columns]
        return _record([(name, convert) for name, convert in inside if convert is not None])
    return None


def _of_source(source: SourceType | None) -> _Convert | None:
    """The same for numbers that the connector writes in two ways, or that are no values of the source's type."""
    if source is None:
        return None
    possible = possible_numbers(source)
    if possible is not None:
        return _possible(source.type, *possible)
    inner = _of_source(source.items)
    return None if inner is None else _array(inner)


def _possible(kind: str, least: int, greatest: int, beyond: Collection[int]) -> _Convert:
    stream = STREAM_DATES if kind == "date" else {}

    def convert(value: Any) -> Any:
        if type(value) is not int or least <= value <= greatest:
            return value
        if value not in beyond:
            raise _ChangedValue(f"{value} for a value of the type {kind} that it cannot hold")
        return stream.get(value, value)

    return convert


def _texts(value: Any) -> Any:
    # Of an array of arrays each element is such a text, also the first.
    if isinstance(value, list) and value and str(value[0]).startswith("[") and all(map(_is_java_array, value)):
        raise _ChangedValue(f"{value[0]!r} for an element that is an array itself")
    return value


def _is_java_array(value: Any) -> bool:
    return isinstance(value, str) and _JAVA_ARRAY.fullmatch(value) is not None


def _bytes(value: Any) -> Any:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


def _optional(inner: _Convert) -> _Convert:
    return lambda value: None if value is None else inner(value)


def _array(inner: _Convert) -> _Convert:
    return lambda value: [inner(item) for item in value] if isinstance(value, list) else value


def _map(inner: _Convert) -> _Convert:
    return lambda value: {key: inner(item) for key, item in value.items()} if isinstance(value, dict) else value


def _record(fields: list[tuple[str, _Convert]]) -> _Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return value | {name: inner(value[name]) for name, inner in fields if name in value}

    return convert
