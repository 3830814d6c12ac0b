"""Rows and updates to Avro binary and back, by functions that are compiled once for each row type.

Decoding is the hot path of every reader. A general decoder asks of each value what type it has; here the question
is answered once, by writing out, as Python source, the function that a patient person would write by hand for this
one row type: no dispatch, no dictionaries in between, straight into named tuples.

What it makes is canonical: one NaN, 0.0 for -0.0, decimals in the fewest bytes, maps by key. What it reads is
checked to the byte: lengths within the bytes at hand (so a forged count costs nothing), branches, booleans and
symbols that exist, UTF-8, a map's keys once, integers within their type. A violation is a DecodeError; running off
the end is an IndexError or struct.error inside, which :func:`guarded` turns into one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from cdcv2.errors import DecodeError, MalformedError
from cdcv2.rows.schema import Shape
from cdcv2.rows.values import NAN, canonical_decimal
from cdcv2.rows.varint import bad, long_bytes, read_long, read_tail

_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}


class Codec(NamedTuple):
    """The compiled functions of one row type; ``buf`` is bytes, ``at`` and ``end`` places in it, ``out`` a bytearray.

    Writers take canonical rows, or anything that ``make`` turns into one; times are written by the given function.
    """

    read_row: Callable[[bytes, int, int], tuple[Any, int]]
    write_row: Callable[[bytearray, Any], None]
    read_updates: Callable[[bytes, int, int, Callable[[bytes, int], tuple[Any, int]]], tuple[list[Any], int]]
    write_updates: Callable[[bytearray, Any, Callable[[Any], bytes]], None]
    source: str


def compile_codec(shape: Shape, row_class: Callable[[Shape], type], make: Callable[[Any], Any]) -> Codec:
    """Write and compile the functions for a record shape. Cost: milliseconds; keep the result."""
    code = _Code(row_class, make)
    reader, writer = code.reader(shape), code.writer(shape)
    code.updates(shape)
    source = "\n".join(code.done)
    space = dict(code.names)
    exec(compile(source, f"<codec of {shape.name}>", "exec"), space)
    return Codec(space[reader], space[writer], space["read_updates"], space["write_updates"], source)


def guarded(read: Callable[..., Any], *args: Any) -> Any:
    """Call ``read``, and raise DecodeError for every way in which bytes can be wrong."""
    try:
        return read(*args)
    except DecodeError:
        raise
    except (IndexError, struct.error):
        raise DecodeError("the bytes end in the middle of a value") from None
    except UnicodeDecodeError as cause:
        raise DecodeError(f"a string that is not UTF-8: {cause.reason}") from None
    except MalformedError as cause:
        raise DecodeError(str(cause)) from None


def _out_of_range(number: int) -> None:
    bad(f"{number} does not fit an int of 32 bits")


class _Code:
    """Source under construction: finished functions in ``done``, the values that they name in ``names``."""

    def __init__(self, row_class: Callable[[Shape], type], make: Callable[[Any], Any]) -> None:
        self.done: list[str] = []
        self.names: dict[str, Any] = {
            "bad": bad, "long": read_long, "tail": read_tail, "varint": long_bytes, "new": tuple.__new__,
            "NAN": NAN, "make": make, "out_of_range": _out_of_range, "key": lambda pair: pair[0],
            "get_float": _FLOATS["float"].unpack_from, "put_float": _FLOATS["float"].pack,
            "get_double": _FLOATS["double"].unpack_from, "put_double": _FLOATS["double"].pack,
        }
        self._row_class = row_class
        self._lines: list[str] = []
        self._functions: dict[tuple[str, Shape], str] = {}
        self._fresh = 0

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def add(self, depth: int, *lines: str) -> None:
        self._lines.extend("    " * depth + line for line in lines)

    def function(self, head: str, body: Callable[[], None]) -> None:
        """Write one function; what it calls is written before it, or while its body is."""
        outer, self._lines = self._lines, [head]
        body()
        self.done.append("\n".join(self._lines) + "\n")
        self._lines = outer

    # --- reading: the statements that leave the value at p in `target`, and move p behind it

    def read(self, shape: Shape, target: str, depth: int) -> None:
        """Scalars are written in place; records, arrays and maps inside a row are calls."""
        kind = shape.kind
        if kind in ("record", "array", "map"):
            self.add(depth, f"{target}, p = {self.reader(shape)}(buf, p, end)")
        elif kind == "optional":
            self._read_optional(shape, target, depth)
        elif kind in ("int", "long"):
            self.read_long(target, depth)
            if kind == "int":
                self.add(depth, f"if not -2147483648 <= {target} < 2147483648: out_of_range({target})")
        elif kind in ("float", "double"):
            width = _FLOATS[kind].size
            self.add(depth, f"{target} = get_{kind}(buf, p)[0] or 0.0", f"p += {width}",
                     f"if {target} != {target}: {target} = NAN")
        elif kind == "boolean":
            self.add(depth, "b = buf[p]", "p += 1", "if b > 1: bad(f'the byte {b} where a boolean belongs')",
                     f"{target} = b == 1")
        elif kind == "null":
            self.add(depth, f"{target} = None")
        elif kind == "enum":
            symbols = self.constant("symbols", shape.symbols)
            self.read_long("n", depth)
            self.add(depth, f"if not 0 <= n < {len(shape.symbols)}: bad(f'symbol {{n}} of {len(shape.symbols)}')",
                     f"{target} = {symbols}[n]")
        else:
            self._read_run(shape, target, depth)

    def read_long(self, target: str, depth: int) -> None:
        # Up to three bytes in place: a call costs as much as reading them.
        self.add(depth, "b = buf[p]", "p += 1", f"if b < 128: {target} = (b >> 1) ^ -(b & 1)",
                 "elif (c := buf[p]) < 128:", "    p += 1", f"    {target} = (b & 127 | c << 7) >> 1 ^ -(b & 1)",
                 "elif (d := buf[p + 1]) < 128:", "    p += 2",
                 f"    {target} = (b & 127 | (c & 127) << 7 | d << 14) >> 1 ^ -(b & 1)",
                 f"else: {target}, p = tail(buf, p, b)")

    def _read_optional(self, shape: Shape, target: str, depth: int) -> None:
        value, null = (2, 0) if shape.null_first else (0, 2)
        # A branch may be written longer than it need be, as every integer may.
        self.add(depth, "b = buf[p]", "p += 1", "if b > 127:", "    n, p = tail(buf, p, b)", "    b = n * 2",
                 f"if b == {value}:")
        self.read(shape.item, target, depth + 1)
        self.add(depth, f"elif b == {null}: {target} = None", "else: bad('an unknown branch of a union')")

    def _read_run(self, shape: Shape, target: str, depth: int) -> None:
        """Bytes, strings and fixed: so many bytes as are stated, and no more than there are."""
        if shape.kind == "fixed":
            self.add(depth, f"q = p + {shape.size}")
        else:
            self.read_long("n", depth)
            self.add(depth, "if n < 0: bad(f'a length of {n}')", "q = p + n")
        self.add(depth, "if q > end: bad(f'{q - p} bytes are stated to follow where {end - p} are left')")
        if shape.kind == "string":
            self.add(depth, f"{target} = buf[p:q].decode()")
        elif shape.decimal:
            decimal = self.constant("decimal", partial(canonical_decimal, shape))
            self.add(depth, f"{target} = {decimal}(buf[p:q])")
        else:
            self.add(depth, f"{target} = buf[p:q]")
        self.add(depth, "p = q")

    def reader(self, shape: Shape) -> str:
        """The name of the function that reads a record, array or map."""
        known = self._functions.get(("read", shape))
        if known:
            return known
        name = self._functions["read", shape] = self.fresh("read_")
        body = {"record": self._record_body, "array": self._array_body, "map": self._map_body}[shape.kind]
        self.function(f"def {name}(buf, p, end):", lambda: body(shape))
        return name

    def columns(self, shape: Shape, depth: int) -> str:
        """Read the columns of a record; the expression that makes the row of them."""
        targets = [self.fresh("v") for _ in shape.columns]
        for target, column in zip(targets, shape.columns):
            self.read(column.shape, target, depth)
        return f"new({self.constant('Row', self._row_class(shape))}, ({''.join(f'{target}, ' for target in targets)}))"

    def _record_body(self, shape: Shape) -> None:
        row = self.columns(shape, 1)
        self.add(1, f"return {row}, p")

    def _array_body(self, shape: Shape) -> None:
        self.add(1, "items = []", "while True:")
        self.block(2, "return tuple(items), p")
        self.read(shape.item, "item", 3)
        self.add(3, "items.append(item)")
        self.block_end(2)

    def _map_body(self, shape: Shape) -> None:
        self.add(1, "items = {}", "while True:")
        self.block(2, "return tuple(sorted(items.items(), key=key)), p")
        self.read(Shape("string"), "name", 3)
        self.add(3, "if name in items: bad(f'a map with two values for {name!r}')")
        self.read(shape.item, "item", 3)
        self.add(3, "items[name] = item")
        self.block_end(2)

    def block(self, depth: int, at_end: str) -> None:
        """The head of a block of items: its count, and its size where the count is negative."""
        self.add(depth, "count, p = long(buf, p)", f"if not count: {at_end}", "stop = -1", "if count < 0:",
                 "    count = -count", "    size, p = long(buf, p)",
                 "    if not 0 <= size <= end - p: bad(f'a block of {size} bytes where {end - p} are left')",
                 "    stop = p + size",
                 # Every item takes a byte: a forged count is found before anything is made of it.
                 "if count > end - p: bad(f'{count} items are stated to follow in {end - p} bytes')",
                 "for _ in range(count):")

    def block_end(self, depth: int) -> None:
        self.add(depth, "if stop >= 0 and p != stop: bad('a block that is not as long as it states')")

    # --- writing: the statements that append the canonical form of `source` to out

    def write(self, shape: Shape, source: str, depth: int) -> None:
        """As for reading; the value is canonical already."""
        kind = shape.kind
        if kind in ("record", "array", "map"):
            self.add(depth, f"{self.writer(shape)}(out, {source})")
        elif kind == "optional":
            value, null = (2, 0) if shape.null_first else (0, 2)
            self.add(depth, f"if {source} is None: out.append({null})", "else:", f"    out.append({value})")
            self.write(shape.item, source, depth + 1)
        elif kind in ("int", "long"):
            self.write_long(source, depth)
        elif kind in ("float", "double"):
            self.add(depth, f"out += put_{kind}({source})")
        elif kind == "boolean":
            self.add(depth, f"out.append({source})")
        elif kind == "enum":
            numbers = self.constant("numbers", {symbol: long_bytes(at) for at, symbol in enumerate(shape.symbols)})
            self.add(depth, f"out += {numbers}[{source}]")
        elif kind == "fixed":
            self.add(depth, f"out += {source}")
        elif kind != "null":
            self.add(depth, f"raw = {source}.encode()" if kind == "string" else f"raw = {source}", "n = len(raw)")
            self.write_long("n", depth)
            self.add(depth, "out += raw")

    def write_long(self, source: str, depth: int) -> None:
        self.add(depth, f"if -64 <= {source} < 64: out.append(({source} << 1) ^ ({source} >> 63))",
                 f"else: out += varint({source})")

    def writer(self, shape: Shape) -> str:
        """The name of the function that writes a record, array or map."""
        known = self._functions.get(("write", shape))
        if known:
            return known
        name = self._functions["write", shape] = self.fresh("write_")
        body = {"record": self._write_columns, "array": self._write_array, "map": self._write_map}[shape.kind]
        self.function(f"def {name}(out, value):", lambda: body(shape, 1))
        return name

    def _write_columns(self, shape: Shape, depth: int) -> None:
        sources = [self.fresh("v") for _ in shape.columns]
        # A record inside a row may have no columns: then nothing is unpacked and nothing written.
        self.add(depth, f"{', '.join(sources)}, = value" if sources else "pass")
        for source, column in zip(sources, shape.columns):
            self.write(column.shape, source, depth)

    def _write_array(self, shape: Shape, depth: int) -> None:
        self.add(depth, "if value:", "    out += varint(len(value))", "    for item in value:")
        self.write(shape.item, "item", depth + 2)
        self.add(depth, "out.append(0)")

    def _write_map(self, shape: Shape, depth: int) -> None:
        self.add(depth, "if value:", "    out += varint(len(value))", "    for name, item in value:")
        self.write(Shape("string"), "name", depth + 2)
        self.write(shape.item, "item", depth + 2)
        self.add(depth, "out.append(0)")

    # --- the array of updates, with the row written in place

    def updates(self, shape: Shape) -> None:
        """Write read_updates and write_updates."""
        self.function("def read_updates(buf, p, end, read_time):", lambda: self._read_updates(shape))
        self.function("def write_updates(out, updates, time_bytes):", lambda: self._write_updates(shape))

    def _read_updates(self, shape: Shape) -> None:
        # Neighbours often share their time: its bytes are compared before they are read. The first comparison is
        # with more than the whole buffer, which nothing in it can equal.
        self.add(1, "updates = []", "add = updates.append", "seen, width, time = buf + b'.', 0, None", "while True:")
        self.block(2, "return updates, p")
        row = self.columns(shape, 3)
        self.add(3, "if buf.startswith(seen, p): p += width", "else:", "    q = p", "    time, p = read_time(buf, p)",
                 "    seen, width = buf[q:p], p - q")
        self.read_long("diff", 3)
        self.add(3, "if not diff: bad('an update with the diff 0')", f"add(({row}, time, diff))")
        self.block_end(2)

    def _write_updates(self, shape: Shape) -> None:
        row = self.constant("Row", self._row_class(shape))
        self.add(1, "last = raw_time = None", "if updates:", "    out += varint(len(updates))",
                 "    for value, time, diff in updates:",
                 f"        if value.__class__ is not {row}: value = make(value)")
        self._write_columns(shape, 3)
        self.add(3, "if time is not last: last, raw_time = time, time_bytes(time)", "out += raw_time")
        self.write_long("diff", 3)
        self.add(1, "out.append(0)")
