"""What an instance alone answers to clients: it is the controller of itself, with one index over all its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from socket import socket

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import (
    Answer, CancelPeek, Command, CreateIndex, CreateInstance, InitializationComplete, Peek, PeekResponse, PlainKey,
    last_time,
)
from cdcv2.instances.run.feed import IndexSource
from cdcv2.instances.run.place import LONGEST, read_line
from cdcv2.logs.opening import NamedLog

#: The name of its one index.
_INDEX = "main"


class InstanceService:
    """An instance over logs, with its tables by these columns. :meth:`read` moves it on, :meth:`serve` answers.

    It holds all times from the beginning on. Raises UsageError for a table or column that is not there, RefusedError
    for a log without an identity.
    """

    def __init__(self, logs: Sequence[NamedLog], keys: Mapping[str, Sequence[str]]) -> None:
        self._source = IndexSource(logs, follow=True)
        tables = tuple(self._source.table(name, key) for name, key in keys.items())
        self._keys = {table.name: table.key for table in tables}
        self._types = {named.table: named.row_type.schema for named in logs}
        self._number, self._idle, self._enough = 0, 0, 2 * len(logs)
        for command in (CreateInstance("alone"), CreateIndex(_INDEX, tables), InitializationComplete()):
            self._obey(command)

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is finished here."""
        return self._source.instance.upper(_INDEX)

    def read(self) -> bool:
        """Take in what is finished next. Returns whether more may be there now. Raises what reading the logs raises."""
        _, moved = self._source.read()
        # One log may have nothing, while another one has.
        self._idle = 0 if moved else self._idle + 1
        return self._idle < self._enough

    def serve(self, client: socket) -> None:
        """Answer the one request of a client. One that goes away in between has no answer; it repeats its request."""
        with client:
            try:
                client.sendall(self.answer(read_line(client, LONGEST)).encode() + b"\n")
            except OSError:
                return

    def answer(self, line: bytes) -> str:
        """The answer to a request, as JSON: ``{"peek": {table: [key, ...]}, "at": a time, or null for now}``.

        ``upper`` is how far the instance is. ``rows`` and ``types`` are there if the time is finished; ``fault`` states
        what is wrong with the request.
        """
        try:
            keys, at = self._request(line)
            answer = self._peek(keys, at)
        except MalformedError as fault:
            return json.dumps({"fault": str(fault)})
        if answer is None:
            return json.dumps({"upper": self.upper.to_plain()})
        if answer.error is not None:
            return json.dumps({"fault": answer.error})
        time = last_time(self.upper) if at is None else at
        types = {table: self._types[table] for table in keys}
        return json.dumps({"upper": self.upper.to_plain(), "time": time, "rows": answer.rows, "types": types})

    def close(self) -> None:
        """Close the logs."""
        self._source.close()

    def _request(self, line: bytes) -> tuple[dict[str, tuple[PlainKey, ...]], int | None]:
        if not line.endswith(b"\n"):
            raise MalformedError(f"the request is no whole line of up to {LONGEST} bytes: ask for fewer keys at once")
        try:
            plain = parse_json(line)
            at, asked = plain["at"], plain["peek"]
            keys = {table: tuple(tuple(key) for key in given) for table, given in asked.items()}
        except (LookupError, TypeError, ValueError, AttributeError):
            raise MalformedError("the request is not of a form that this version knows: use its own client") from None
        for table, given in keys.items():
            columns = self._keys.get(table)
            if columns is None:
                raise MalformedError(f"the table {table!r} is not kept here: there are {', '.join(sorted(self._keys))}")
            for key in given:
                if len(key) != len(columns):
                    names = ", ".join(columns)
                    raise MalformedError(f"{table} is kept by the columns {names}, and the key has {len(key)} values")
        return keys, at

    def _peek(self, keys: Mapping[str, tuple[PlainKey, ...]], at: int | None) -> PeekResponse | None:
        """The answer, if the time is finished; else the peek is cancelled: the client asks again."""
        time = at
        if time is None:
            # Of logs that have ended, now is the end.
            time = last_time(self.upper) if self.upper else MAX_TIME
        if time is None:
            return None
        self._number += 1
        name = str(self._number)
        answers = self._obey(Peek(name, _INDEX, keys, time))
        self._obey(CancelPeek(name))
        return next((one for one in answers if isinstance(one, PeekResponse)), None)

    def _obey(self, command: Command) -> list[Answer]:
        return self._source.instance.receive(command)


def read_until(service: InstanceService, stopping: Callable[[], bool]) -> None:
    """Take in what the logs hold now, so that the first answer is not older than one of before a restart."""
    while service.read() and not stopping():
        continue
