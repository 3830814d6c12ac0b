"""Row types: what a row of one collection is, when two rows are equal, and how rows become bytes.

Two rows are equal when their canonical encodings are: the row schema's Avro binary with arrays in one block, map
keys sorted, decimals in the fewest bytes, one NaN, and 0.0 for -0.0. Rows are hashable named tuples whose ``==`` is
that equality: whatever way a row is made (from values, bytes, JSON, a pickle), it is made canonical. Logical types
are carried as the numbers and bytes underneath; ``to_plain`` shows decimals as people write them.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cdcv2.core.json_text import parse_json
from cdcv2.errors import DecodeError, MalformedError, UsageError
from cdcv2.rows.binary import Codec, compile_codec, guarded
from cdcv2.rows.names import python_name
from cdcv2.rows.plain import Convert, from_plain, to_plain
from cdcv2.rows.schema import ROW_NAME, Shape, canonical_text, emit, identity, parse, shown
from cdcv2.rows.source_types import ATTRIBUTE, SourceType
from cdcv2.rows.values import NAN, Check, checker
from cdcv2.store.file_system import text_of

#: A row: a named tuple of a class that its row type made. Which columns it has only that row type knows.
Row: TypeAlias = Any


class RowType:
    """The columns of one collection and their types, from an Avro record schema (parsed JSON).

    >>> orders = RowType({"type": "record", "name": "order", "fields": [
    ...     {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}]})
    >>> orders.row({"id": 5, "note": None})
    Row(id=5, note=None)
    >>> orders.decode(orders.encode([5, "late"])).note
    'late'

    Two row types are equal when their normal schemas are, documentation and source types aside; they then share the
    class of their rows. A row type can be pickled. Raises MalformedError for a schema that is no row type
    (``rows/schema.py`` has the rules), naming the column. Cost: milliseconds, once per schema and process.
    """

    __slots__ = ("_made", "_schema", "_sources")

    def __init__(self, schema: object) -> None:
        self._schema = emit(parse(schema))
        self._made = _made(canonical_text(identity(self._schema)))
        self._sources = tuple(map(_source, self.columns, self._schema["fields"]))

    @classmethod
    def load(cls, source: RowType | Mapping[str, Any] | str | Path) -> RowType:
        """A row type from a parsed schema or from the path of an ``.avsc`` file.

        Raises UsageError for a file that is not there or holds no row type, UnavailableError for one that cannot be
        read, MalformedError for a schema that is none.
        """
        if isinstance(source, RowType):
            return source
        if isinstance(source, Mapping):
            return cls(source)
        text = text_of(source, f"the row schema {str(source)!r}")
        try:
            plain = parse_json(text)
        except ValueError as cause:
            raise UsageError(f"the row schema {str(source)!r} is no JSON: {cause}") from cause
        try:
            return cls(plain)
        except MalformedError as cause:
            raise UsageError(f"the row schema {str(source)!r}: {cause}") from None

    @property
    def schema(self) -> dict[str, Any]:
        """The normal form of the schema, called ``com.materialize.cdc.data``; a copy."""
        copy: dict[str, Any] = json.loads(json.dumps(self._schema))
        return copy

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the normal schema without documentation, in hexadecimal: equal row types have equal ones."""
        return self._made.fingerprint

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns as the database calls them."""
        return tuple(column.name for column in self._made.shape.columns)

    @property
    def sources(self) -> tuple[SourceType | None, ...]:
        """The columns' types in the database that they come from, as far as the schema has them; no part of ``==``."""
        return self._sources

    @property
    def shape(self) -> Shape:
        """The parsed schema, for code that maps it to types of its own."""
        return self._made.shape

    @property
    def row_class(self) -> Callable[..., Row]:
        """The class of this type's rows; calling it checks as :meth:`row` does."""
        made: Callable[..., Row] = self._made.row_class
        return made

    @property
    def codec(self) -> Codec:
        """The compiled functions, for the codec of messages."""
        return self._made.codec

    def row(self, values: Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> Row:
        """The canonical row of these values: a mapping from column to value, or all values in order.

        Raises MalformedError, naming the column and the value, for a value that its type does not hold, a missing
        or an unknown column. Cost: one check per value; none for a row of this type.
        """
        return self._made.check(values)

    def encode(self, row: Row) -> bytes:
        """The canonical bytes of a row, or of anything :meth:`row` takes. Raises MalformedError as :meth:`row` does."""
        out = bytearray()
        self._made.codec.write_row(out, self._made.check(row))
        return bytes(out)

    def decode(self, raw: bytes) -> Row:
        """The row of these bytes. Raises DecodeError for bytes that are none, or that go on behind it."""
        row, end = guarded(self._made.codec.read_row, raw, 0, len(raw))
        if end != len(raw):
            raise DecodeError(f"{len(raw) - end} bytes are left over behind the row", raw=raw)
        return row

    def to_plain(self, row: Row) -> dict[str, Any]:
        """The row as a JSON object by column, without loss: see ``wire/plain.py`` for how values are written."""
        plain: dict[str, Any] = self._made.to_plain(self._made.check(row))
        return plain

    def text(self, row: Row) -> str:
        """The row as one line of JSON, for people."""
        return json.dumps(self.to_plain(row), ensure_ascii=False)

    def from_plain(self, plain: Mapping[str, Any]) -> Row:
        """The row that :meth:`to_plain` made this of. Raises MalformedError, naming the column and the value."""
        return self._made.check(self._made.from_plain(plain))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowType) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowType, (self._schema,)

    def __repr__(self) -> str:
        return f"RowType({', '.join(self.columns)})"


class _CompiledType:
    """Everything that is made once for a normal schema: class, checks, converters, compiled codec."""

    def __init__(self, text: str) -> None:
        self.shape = parse(json.loads(text))
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.row_class = class_of(self.shape)
        self.check: Check = record_check(self.shape, "the row")
        self.to_plain: Convert = to_plain(self.shape)
        self.from_plain: Convert = from_plain(self.shape)
        self.codec = compile_codec(self.shape, class_of, self.check)


def _source(column: str, field: Mapping[str, Any]) -> SourceType | None:
    if ATTRIBUTE not in field:
        return None
    try:
        return SourceType.from_plain(field[ATTRIBUTE])
    except MalformedError as cause:
        raise MalformedError(f"column {column!r}: {cause}") from None


@functools.cache
def _made(text: str) -> _CompiledType:
    return _CompiledType(text)


def class_of(shape: Shape) -> Any:
    """The class of the rows of a record shape; one for all equal shapes of this process."""
    return _class(canonical_text(identity(emit(shape))))


@functools.cache
def _class(text: str) -> Any:
    shape = parse(json.loads(text), outer=False)
    base = namedtuple(  # type: ignore[misc]  # the fields are known only now
        "Row" if shape.name == ROW_NAME else python_name(shape.name.rpartition(".")[2]),
        [python_name(column.avro) for column in shape.columns],
    )
    intern = _interner(shape)

    def checked(values: Any) -> Any:
        # Made late: the check of a record needs this very class.
        return _check_of(text)(tuple(values))

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return checked(base(*args, **kwargs))

    def __reduce__(self: Any) -> Any:
        return _revived, (text, tuple(self))

    return type(base.__name__, (base,), {
        "__slots__": (), "__module__": __name__, "__doc__": f"A row of {shape.name}; canonical, whatever made it.",
        "__new__": __new__, "_make": classmethod(lambda cls, values: checked(values)), "__reduce__": __reduce__,
        "_intern": staticmethod(intern or tuple),
    })


@functools.cache
def _check_of(text: str) -> Check:
    return record_check(parse(json.loads(text), outer=False), "the row")


def _revived(text: str, values: tuple[Any, ...]) -> Any:
    """A row out of a pickle: its class made again from the schema, NaN made the one that rows hold."""
    row_class = _class(text)
    return tuple.__new__(row_class, row_class._intern(values))


def record_check(shape: Shape, place: str) -> Check:
    """The check of records of this shape, which makes a row of what it takes; ``place`` names them in errors."""
    row_class = class_of(shape)
    inside = place if place != "the row" else ""
    names = tuple(column.name for column in shape.columns)
    checks = [
        checker(column.shape, f"{inside}.{column.name}" if inside else f"column {column.name!r}", record_check)
        for column in shape.columns
    ]

    def check(value: Any) -> Any:
        if value.__class__ is row_class:
            return value
        values: Sequence[Any] = ()
        if isinstance(value, Mapping):
            values = _by_name(names, place, value)
        elif not isinstance(value, (list, tuple)) or len(value) != len(names):
            raise MalformedError(f"{place}: {shown(value)} is not the {len(names)} values of {', '.join(names)}")
        elif getattr(value, "_fields", row_class._fields) != row_class._fields:
            raise MalformedError(f"{place}: {shown(value)} is a row of another type than {', '.join(names)}")
        else:
            values = value
        return tuple.__new__(row_class, [check_one(one) for check_one, one in zip(checks, values)])

    return check


def _by_name(names: tuple[str, ...], place: str, value: Mapping[str, Any]) -> list[Any]:
    try:
        values = [value[name] for name in names]
    except KeyError as cause:
        raise MalformedError(f"{place}: the column {cause.args[0]!r} is missing in {shown(dict(value))}") from None
    if len(value) != len(names):
        unknown = sorted(repr(name) for name in value if name not in names)
        raise MalformedError(f"{place}: there is no column {', '.join(unknown)}; there are {', '.join(names)}")
    return values


def _interner(shape: Shape) -> Callable[[Any], Any] | None:
    """What makes each NaN inside a value of this shape the one NaN; None where there can be none.

    Records inside see to themselves: each is revived by its own class.
    """
    if shape.kind in ("float", "double"):
        return lambda number: NAN if number != number else number
    if shape.kind == "record":
        parts = [_interner(column.shape) if column.shape.kind != "record" else None for column in shape.columns]
        if not any(parts):
            return None
        return lambda row: tuple([part(value) if part else value for part, value in zip(parts, row)])
    inner = _interner(shape.inner) if shape.inner is not None and shape.inner.kind != "record" else None
    if inner is None:
        return None
    if shape.kind == "optional":
        return lambda value: None if value is None else inner(value)
    if shape.kind == "array":
        return lambda items: tuple([inner(item) for item in items])
    return lambda pairs: tuple([(key, inner(value)) for key, value in pairs])
