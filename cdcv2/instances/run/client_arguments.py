"""What a client of an instance is given, as it can be sent: times, and keys of values that JSON has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import MalformedError, UsageError
from cdcv2.instances.commands import PlainKey
from cdcv2.instances.run.forms import RAW
from cdcv2.rows.plain import plain_bytes
from cdcv2.timeline.gauges import lsn


def keys_of(given: Mapping[str, Any], column: Callable[[str, int], str]) -> dict[str, tuple[PlainKey, ...]]:
    """Table -> its keys as tuples of values: one key, or a list of them.

    Bytes are sent as an object. ``column`` names the column of a table at a place of its key, for errors. Raises
    UsageError for what JSON has not.

    >>> keys_of({"orders": [42, 43], "items": (42, "pear")}, lambda table, place: "")
    {'orders': ((42,), (43,)), 'items': ((42, 'pear'),)}
    >>> keys_of({"parts": bytes([0, 1])}, lambda table, place: "")
    {'parts': (({'bytes': 'AAE='},),)}
    """
    keys = {}
    for table, of_table in given.items():
        demand_text("the table", table)
        several = of_table if isinstance(of_table, list) else [of_table]
        given_keys = (key if isinstance(key, tuple) else (key,) for key in several)
        keys[table] = tuple(tuple(map(_sendable, key)) for key in given_keys)
        for key in keys[table]:
            for place, value in enumerate(key):
                if type(value) is not int and not _is_plain(value):
                    raise UsageError(
                        f"the key {key!a} of the table {table}: its {column(table, place)} is of the type "
                        f"{type(value).__name__}, and JSON has no such value: give a number, a text without half "
                        "letters, True, False or None"
                    )
    return keys


def _sendable(value: Any) -> Any:
    return {RAW: plain_bytes(value)} if isinstance(value, bytes) else value


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def demand_text(what: str, text: Any) -> str:
    """The text, if it can be sent. Raises UsageError for another value, and for half of a letter."""
    if not isinstance(text, str) or not _is_plain(text):
        raise UsageError(f"{what} {text!a} is no text that can be sent: write another one")
    return text


def time_of(name: str, given: int | str | None) -> tuple[int | None, bool]:
    """A time as a number, and whether it was an LSN. Raises UsageError.

    >>> time_of("at", "0/2A"), time_of("at", None)
    ((42, True), (None, False))
    """
    if isinstance(given, str) and "/" in given:
        try:
            return lsn(given), True
        except MalformedError as cause:
            raise UsageError(f"{name}={given!a}: {cause}") from None
    if given is not None and (type(given) is not int or not 0 <= given <= MAX_TIME):
        raise UsageError(
            f"{name}={given!a} is no time: give a whole number from 0 to {MAX_TIME}, an LSN, or None for now"
        )
    return given, False


def frontier_of(given: Antichain | Sequence[int] | int | str | None) -> tuple[Antichain, str | None]:
    """The upper that a tail continues at, and the identity of its log; None: from the beginning. Raises UsageError.

    A text is a resume token, as a tail gives it, or a frontier without a log: then it is not known of which one it is.

    >>> frontier_of("7@orders-1"), frontier_of("[7]"), frontier_of(7)
    ((Antichain([7]), 'orders-1'), (Antichain([7]), None), (Antichain([7]), None))
    """
    if isinstance(given, str):
        text, _, log = given.partition("@")
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if not re.fullmatch("[0-9]{1,20}", inner, re.ASCII) and text != "[]":
            raise _no_upper(given)
        return frontier_of([int(inner)] if inner else [])[0], demand_text("the log", log) or None
    times = [0] if given is None else [given] if isinstance(given, (int, float)) else list(given)
    if len(times) > 1 or any(type(time) is not int or not 0 <= time <= MAX_TIME for time in times):
        raise _no_upper(given)
    return Antichain(times), None


def resume_token(upper: Antichain, log: str) -> str:
    """An upper and the identity of its log, as one text.

    >>> resume_token(Antichain([7]), "orders-1"), resume_token(Antichain(), "orders-1")
    ('7@orders-1', '[]@orders-1')
    """
    return f"{upper.integer if upper else []}@{log}"


def _no_upper(given: object) -> UsageError:
    return UsageError(
        f"after={given!a} is no upper of a batch: give what a tail gave, as 7@LOG, or a whole number from 0 to "
        f"{MAX_TIME}"
    )
