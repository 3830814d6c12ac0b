"""Row types as Avro schemas: which schemas are row types, and the one normal form that they are compared in.

A *shape* is the parsed form of an Avro type. :func:`parse` reads any record schema that is a row type and refuses
every other, naming the column; :func:`emit` writes the normal form:

- the outer record is called ``com.materialize.cdc.data``, the name by which readers find it;
- named types carry full names; one without a namespace gets ``com.materialize.cdc.data``, and so does one whose
  name the format itself uses;
- defaults, aliases and sort orders are dropped: they are for reading *other* schemas' bytes;
- field names are Avro names (:mod:`cdcv2.rows.names`); all other attributes stay, as they carry the meaning of a
  value (``logicalType``, ``connect.name``).

Allowed are null, boolean, int, long, float, double, bytes, string, fixed, enum, array, map, record, and unions of
null and one other type. Nothing recursive, and no array of something that takes no bytes: a few bytes could then
stand for any number of items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdcv2.errors import MalformedError
from cdcv2.rows.names import avro_name, column_name, is_avro_name
from cdcv2.rows.source_types import ATTRIBUTE

#: The namespace of the published format.
NAMESPACE = "com.materialize.cdc"
#: The full name of the row record in the published format.
ROW_NAME = f"{NAMESPACE}.data"
#: Names in that namespace that the format itself defines.
RESERVED = frozenset(f"{NAMESPACE}.{name}" for name in ("data", "update", "progress", "counts", "time"))

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "enum", "fixed"})
_STRUCTURE = frozenset({"type", "name", "namespace", "fields", "symbols", "size", "items", "values"})
_DROPPED = frozenset({"default", "aliases", "order"})
_DEEPEST = 32
#: The most digits of a decimal: as many as PostgreSQL allows for a numeric column.
MOST_DIGITS = 1000


@dataclass(frozen=True)
class SchemaColumn:
    """A field of a record: ``name`` as the database has it, ``avro`` as the schema writes it."""

    name: str
    avro: str
    shape: Shape
    # Further attributes, as JSON text.
    extras: str = "{}"


@dataclass(frozen=True)
class Shape:
    """A parsed Avro type. Which of the attributes matter depends on ``kind``.

    ``kind`` is a primitive, ``record`` (name, columns), ``enum`` (name, symbols), ``fixed`` (name, size),
    ``array`` (inner: the items), ``map`` (inner: the values) or ``optional`` (inner: the other branch).
    """

    kind: str
    name: str = ""
    columns: tuple[SchemaColumn, ...] = ()
    inner: Shape | None = None
    null_first: bool = True
    symbols: tuple[str, ...] = ()
    size: int = 0
    # Further attributes, logical type among them, as JSON text.
    extras: str = "{}"
    # (precision, scale) of a decimal.
    decimal: tuple[int, int] | None = None

    @property
    def item(self) -> Shape:
        """``inner``, for the kinds that have one.

        Raises MalformedError for the others.
        """
        if self.inner is None:
            raise MalformedError(f"a {self.kind} has no inner type")
        return self.inner

    def parts(self) -> Iterator[Shape]:
        """This shape and every shape inside."""
        yield self
        if self.inner is not None:
            yield from self.inner.parts()
        for column in self.columns:
            yield from column.shape.parts()

    def least_bytes(self) -> int:
        """The fewest bytes that a value of this shape takes."""
        if self.kind == "null":
            return 0
        if self.kind == "record":
            return sum(column.shape.least_bytes() for column in self.columns)
        return {"fixed": self.size, "float": 4, "double": 8}.get(self.kind, 1)


def parse(schema: object, *, outer: bool = True) -> Shape:
    """The shape of a record schema (parsed JSON). Raises MalformedError where it is no row type, naming the place.

    ``outer`` gives the record the name of the published format; without, it keeps its own (a record inside a row).
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise MalformedError(f"a row type is an Avro record schema, not {shown(schema)}")
    shape = _Parser().read(schema, "", "the row", 0)
    if outer and not shape.columns:
        raise MalformedError("the row type has no columns: a row needs at least one")
    return replace(shape, name=ROW_NAME) if outer else shape


def emit(
    shape: Shape, attributes: Callable[[Shape | SchemaColumn], Mapping[str, Any]] = lambda of: json.loads(of.extras)
) -> Any:
    """The normal form of a shape, as parsed JSON; a named type is written out where it first occurs.

    ``attributes``: which further ones a type or a column has (default: all its own).
    """
    return _emit(shape, set(), attributes)


def canonical_text(schema: object) -> str:
    """A schema as JSON text that equal schemas share: sorted keys, no spaces."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def identity(schema: Any) -> Any:
    """The schema without the attributes that do not matter to bytes or values: documentation and source types."""
    if isinstance(schema, dict):
        return {key: identity(value) for key, value in schema.items() if key not in ("doc", ATTRIBUTE)}
    return [identity(item) for item in schema] if isinstance(schema, list) else schema


class _Parser:
    """One walk over a schema; knows the named types seen so far."""

    def __init__(self) -> None:
        # Full name in the source -> shape; None while the type is being read: meeting it then is a recursion.
        self._known: dict[str, Shape | None] = {}
        # Full names given out in the normal form.
        self._taken: set[str] = {ROW_NAME}

    def read(self, schema: object, space: str, place: str, depth: int) -> Shape:
        """The shape of any allowed type; ``space`` is the enclosing namespace, ``place`` is for the error.

        Raises MalformedError for what is no Avro type, and for types that lie too deep in one another.
        """
        if depth > _DEEPEST:
            raise MalformedError(f"{place}: types lie more than {_DEEPEST} deep in one another. Make it flatter")
        if isinstance(schema, str):
            return self._named(schema, space, place)
        if isinstance(schema, (list, tuple)):
            return self._optional(schema, space, place, depth)
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise _no_type(place, schema)
        kind = schema["type"]
        if isinstance(kind, (Mapping, list, tuple)):
            return self.read(kind, space, place, depth + 1)
        if kind in PRIMITIVES:
            return _with_decimal(Shape(kind, extras=_extras(schema)), place)
        if kind == "array":
            return self._array(schema, space, place, depth)
        if kind == "map":
            inner = self.read(schema.get("values"), space, f"{place}, its values", depth + 1)
            return Shape("map", inner=inner, extras=_extras(schema))
        if kind in _NAMED:
            return self._definition(schema, space, place, depth)
        return self._named(kind, space, place)

    def _named(self, name: object, space: str, place: str) -> Shape:
        if not isinstance(name, str):
            raise _no_type(place, name)
        if name in PRIMITIVES:
            return Shape(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self._known:
            raise MalformedError(
                f"{place}: the type {name!r} is not defined before its use. Define it there, or name a type of Avro"
            )
        shape = self._known[full]
        if shape is None:
            raise MalformedError(
                f"{place}: the type {name!r} holds itself; a row type holds nothing recursive. Keep it as text"
            )
        return shape

    def _optional(self, branches: list[Any] | tuple[Any, ...], space: str, place: str, depth: int) -> Shape:
        shapes = [self.read(branch, space, place, depth + 1) for branch in branches]
        nulls = [shape.kind == "null" for shape in shapes]
        if len(shapes) != 2 or sum(nulls) != 1 or any(shape.kind == "optional" for shape in shapes):
            raise MalformedError(
                f"{place}: the union {shown(list(branches))} is not of null and one other type. Make a column of each "
                "of its types"
            )
        return Shape("optional", inner=shapes[nulls.index(False)], null_first=nulls[0])

    def _array(self, schema: Mapping[str, Any], space: str, place: str, depth: int) -> Shape:
        inner = self.read(schema.get("items"), space, f"{place}, its items", depth + 1)
        if inner.least_bytes() == 0:
            raise MalformedError(
                f"{place}: an array of {shown(schema['items'])} takes no bytes for its items. Keep their number instead"
            )
        return Shape("array", inner=inner, extras=_extras(schema))

    def _definition(self, schema: Mapping[str, Any], space: str, place: str, depth: int) -> Shape:
        source = _full_name(schema, space, place)
        if source in self._known:
            raise MalformedError(f"{place}: the type {source!r} is defined twice. Name it alone the second time")
        self._known[source] = None
        # The outermost record is renamed by the caller, so it takes no name away from a type inside.
        name = source if depth == 0 else self._free_name(source, place)
        extras, kind = _extras(schema), schema["type"]
        if kind == "record":
            columns = self._columns(schema, source.rpartition(".")[0], place, depth)
            shape = Shape(kind, name, columns=columns, extras=extras)
        elif kind == "enum":
            shape = Shape(kind, name, symbols=_symbols(schema, place), extras=extras)
        else:
            size = schema.get("size")
            if type(size) is not int or size < 0:
                raise MalformedError(f"{place}: a fixed type has the size {size!r}, not a number of bytes")
            shape = _with_decimal(Shape(kind, name, size=size, extras=extras), place)
        self._known[source] = shape
        return shape

    def _columns(self, schema: Mapping[str, Any], space: str, place: str, depth: int) -> tuple[SchemaColumn, ...]:
        fields = schema.get("fields")
        if not isinstance(fields, (list, tuple)):
            raise MalformedError(f"{place}: a record's fields are a list, not {shown(fields)}")
        columns: list[SchemaColumn] = []
        for field in fields:
            if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or "type" not in field:
                raise MalformedError(f"{place}: {shown(field)} is no field: a field has a name and a type")
            given = field["name"]
            column = column_name(given) if is_avro_name(given) else given
            avro = given if is_avro_name(given) else avro_name(given)
            if any(column == other.name or avro == other.avro for other in columns):
                raise MalformedError(f"{place}: there are two columns {column!r}")
            inside = f"{place}.{column}" if depth else f"column {column!r}"
            columns.append(
                SchemaColumn(column, avro, self.read(field["type"], space, inside, depth + 1), _extras(field))
            )
        return tuple(columns)

    def _free_name(self, given: str, place: str) -> str:
        name = given
        if "." not in name or name in RESERVED:
            name = f"{ROW_NAME}.{given.rpartition('.')[2]}"
        if name in self._taken:
            raise MalformedError(f"{place}: two types would be called {name!r}; give one of them a namespace")
        self._taken.add(name)
        return name


def _emit(shape: Shape, written: set[str], attributes: Callable[[Shape | SchemaColumn], Mapping[str, Any]]) -> Any:
    if shape.kind == "optional":
        inner = _emit(shape.item, written, attributes)
        return ["null", inner] if shape.null_first else [inner, "null"]
    extras = attributes(shape)
    if shape.kind in PRIMITIVES:
        return {"type": shape.kind, **extras} if extras else shape.kind
    if shape.kind == "array":
        return {"type": "array", "items": _emit(shape.item, written, attributes), **extras}
    if shape.kind == "map":
        return {"type": "map", "values": _emit(shape.item, written, attributes), **extras}
    if shape.name in written:
        return shape.name
    written.add(shape.name)
    namespace, _, name = shape.name.rpartition(".")
    plain = {"type": shape.kind, "name": name, **({"namespace": namespace} if namespace else {}), **extras}
    if shape.kind == "enum":
        return {**plain, "symbols": list(shape.symbols)}
    if shape.kind == "fixed":
        return {**plain, "size": shape.size}
    fields = [
        {"name": column.avro, "type": _emit(column.shape, written, attributes), **attributes(column)}
        for column in shape.columns
    ]
    return {**plain, "fields": fields}


def _no_type(place: str, schema: object) -> MalformedError:
    return MalformedError(
        f"{place}: {shown(schema)} is no Avro type. Write the name of one, as 'long', or an object with its type"
    )


def _full_name(schema: Mapping[str, Any], space: str, place: str) -> str:
    name, namespace = schema.get("name"), schema.get("namespace", space)
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise MalformedError(f"{place}: a {schema['type']} needs a name, not {shown(name)} in {shown(namespace)}")
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    if not all(is_avro_name(part) for part in full.split(".")):
        raise MalformedError(f"{place}: {full!r} is no name in Avro")
    return full


def _symbols(schema: Mapping[str, Any], place: str) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, (list, tuple)) or not all(isinstance(symbol, str) for symbol in symbols) or not symbols:
        raise MalformedError(f"{place}: an enum needs a list of symbols, not {shown(symbols)}")
    for symbol in symbols:
        if not is_avro_name(symbol) or symbols.count(symbol) > 1:
            raise MalformedError(f"{place}: {symbol!r} is no symbol in Avro, or stands there twice; use a string")
    return tuple(symbols)


def _with_decimal(shape: Shape, place: str) -> Shape:
    extras = json.loads(shape.extras)
    if extras.get("logicalType") != "decimal" or shape.kind not in ("bytes", "fixed"):
        return shape
    precision, scale = extras.get("precision"), extras.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not (
        0 <= scale <= precision and 1 <= precision <= MOST_DIGITS
    ):
        raise MalformedError(f"{place}: no decimal has the precision {precision!r} and the scale {scale!r}")
    return replace(shape, decimal=(precision, scale))


def _extras(schema: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in schema.items() if key not in _STRUCTURE and key not in _DROPPED}
    try:
        return canonical_text(kept)
    except (TypeError, ValueError):
        raise MalformedError(f"the attributes {shown(kept)} of a schema are no JSON") from None


def shown(value: object) -> str:
    """A value for an error message: its repr, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
