"""Asks an instance what is at some keys. It may die and start again in between: the client repeats its question."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.json_text import parse_json
from cdcv2.errors import IncompleteError, UnavailableError, UsageError
from cdcv2.instances.run.place import LONGEST, PATIENCE, read_line
from cdcv2.logs.tables_at_time import TableAtTime, TablesAtTime
from cdcv2.rows.row_type import RowType

#: The default of how many seconds a question may take.
TIMEOUT = 10.0
#: Seconds between two questions.
_PAUSE = 0.1


class InstanceClient:
    """An instance, by its place. Each question is a connection of its own, so there is nothing to close.

    >>> shop = InstanceClient("shop.sock")                                    # doctest: +SKIP
    >>> shop.peek({"public.orders": 42}).to_arrow().num_rows                  # doctest: +SKIP
    1
    """

    def __init__(self, place: str | Path) -> None:
        self._place = Path(place)

    def peek(self, keys: Mapping[str, Any], *, at: int | None = None, timeout: float = TIMEOUT) -> TablesAtTime:
        """What is at these keys, at one time in all tables: ``{table: key}``, or a list of keys.

        A key of several columns is a tuple, in their order. Values are those of JSON. ``at``: None for the last time
        that is finished there. Raises UsageError for what the instance cannot be asked; after ``timeout`` seconds
        IncompleteError for a time that is not finished, UnavailableError where nothing answers.
        """
        if at is not None and (type(at) is not int or at < 0):
            raise UsageError(f"at={at!r} is no time: give a whole number from 0 on, or None for now")
        request = {"peek": {table: _keys(given) for table, given in keys.items()}, "at": at}
        line = json.dumps(request).encode() + b"\n"
        if len(line) > LONGEST:
            raise UsageError(f"the question has {len(line)} bytes, and may have {LONGEST}: ask for fewer keys at once")
        answer = self._answer(line, at, timeout)
        held = {}
        for table, rows in answer["rows"].items():
            row_type = RowType(answer["types"][table])
            counts = {row_type.from_plain(row): count for of_key in rows for row, count in of_key}
            held[table] = TableAtTime(table, row_type, ChangeBatch(counts.items()))
        return TablesAtTime(held, answer["time"], Antichain(answer["upper"]))

    def _answer(self, request: bytes, at: int | None, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            answer: Any = {}
            failed = "it ended while it was asked"
            try:
                line = self._exchanged(request)
                answer = parse_json(line) if line.endswith(b"\n") else {}
            except OSError as error:
                failed = error.strerror or str(error)
            if "fault" in answer:
                raise UsageError(answer["fault"])
            if "rows" in answer:
                return answer
            if time.monotonic() >= deadline:
                raise self._late(answer, at, failed, timeout)
            time.sleep(_PAUSE)

    def _exchanged(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self._place))
            connection.sendall(request)
            return read_line(connection)

    def _late(self, answer: Any, at: int | None, failed: str, timeout: float) -> UnavailableError | IncompleteError:
        if "upper" not in answer:
            return UnavailableError(
                f"no instance answers at {self._place} ({failed}) for {timeout:g} seconds: start cdcv2 instance with "
                "this --instance, or wait longer: it answers when it has read its logs"
            )
        upper = Antichain(answer["upper"])
        wanted = "no time is finished" if at is None else f"the time {at} is not finished"
        return IncompleteError(
            f"{wanted} after {timeout:g} seconds; its logs are {through_text(upper)}: capture on, or ask for now",
            what=f"the instance at {self._place}",
        )


def _keys(given: Any) -> list[Sequence[Any]]:
    """Keys as lists of values: one key, or a list of them."""
    several = given if isinstance(given, list) else [given]
    return [key if isinstance(key, tuple) else (key,) for key in several]
