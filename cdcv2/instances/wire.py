"""How commands and responses are written: JSON, a line each; the kind first, then the fields by name.

>>> from cdcv2.instances.commands import CancelPeek
>>> encode(CancelPeek("u1"))
'{"CancelPeek": {"uuid": "u1"}}'
>>> decode(encode(CancelPeek("u1")))
CancelPeek(uuid='u1')
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import ANSWERS, COMMANDS, Answer, Command, IndexedTable, RowChange, RowCount

#: What a controller sends from time to time, and a replica sends back at once: no message of their session.
BEAT = '{"beat": {}}'
#: The field that is left out where it is None.
_MAY_LACK = "committed_at"
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (*COMMANDS, *ANSWERS)}


def encode(message: Command | Answer) -> str:
    """The message as one line, without its end. Cost: linear."""
    values = {one.name: _plain(getattr(message, one.name)) for one in fields(message)}
    if values.get(_MAY_LACK, 0) is None:
        del values[_MAY_LACK]
    return json.dumps({type(message).__name__: values})


def decode(line: str | bytes) -> Any:
    """The message that :func:`encode` made the line of. Raises MalformedError for anything else. Cost: linear."""
    try:
        plain = parse_json(line)
        [(name, values)] = plain.items()
        if {*values, _MAY_LACK} != {*(one.name for one in fields(_KINDS[name])), _MAY_LACK}:
            raise ValueError(f"its fields are {sorted(values)}")
        return _KINDS[name](**{field: _READERS[field](value) for field, value in values.items()})
    except MalformedError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        raise MalformedError(
            f"{_short(line)} is no message of an instance or its controller: {cause!r}. Have both be of one release of "
            "cdcv2, and no other program write to the socket"
        ) from None


def _short(line: str | bytes) -> str:
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


def _plain(value: Any) -> Any:
    return value.to_plain() if isinstance(value, Antichain) else value


def demand_text(value: Any) -> str:
    """The value, if it is a text. Raises TypeError."""
    if type(value) is not str:
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _frontier(value: Any) -> Antichain:
    if type(value) is not list or len(value) > 1:
        raise TypeError(f"{value!r} is no frontier")
    return Antichain(_number(time) for time in value)


def _tables(value: Any) -> tuple[IndexedTable, ...]:
    return tuple(
        IndexedTable(demand_text(name), tuple(map(demand_text, demand_list(key))), demand_text(log))
        for name, key, log in value
    )


def demand_list(value: Any) -> list[Any]:
    """The value, if it is a list. Raises TypeError."""
    if type(value) is not list:
        raise TypeError(f"{value!r} is no list")
    return value


def _keys(value: Any) -> dict[str, tuple[tuple[Any, ...], ...]]:
    return {
        demand_text(table): tuple(tuple(demand_list(key)) for key in demand_list(keys))
        for table, keys in value.items()
    }


def _rows(value: Any) -> dict[str, tuple[tuple[RowCount, ...], ...]]:
    return {
        demand_text(table): tuple(
            tuple(RowCount(row, _number(count)) for row, count in demand_list(rows)) for rows in demand_list(found)
        )
        for table, found in value.items()
    }


def _changes(value: Any) -> tuple[RowChange, ...]:
    return tuple(RowChange(row, _number(time), _number(diff)) for row, time, diff in demand_list(value))


def _error(value: Any) -> str | None:
    return None if value is None else demand_text(value)


def _moment(value: Any) -> float | None:
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise TypeError(f"{value!r} is no moment")
    return None if value is None else float(value)


#: Field -> how its value is read.
_READERS: dict[str, Callable[[Any], Any]] = {
    "tables": _tables, "since": _number, "time": _number, "frontier": _frontier, "after": _frontier, "lower": _frontier,
    "upper": _frontier, "keys": _keys, "rows": _rows, "changes": _changes, "error": _error,
    "committed_at": _moment,
    **dict.fromkeys(("id", "uuid", "nonce", "table", "reason"), demand_text),
}  # fmt: skip
