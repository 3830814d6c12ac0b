"""Asks an instance what is at some keys, and what changes. It may die in between: then its client asks it again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import Cdcv2Error, IncompleteError, MalformedError, UnavailableError, UsageError
from cdcv2.instances.commands import is_finished
from cdcv2.instances.requests import LONGEST, PeekRequest, StatusRequest, TailRequest
from cdcv2.instances.run.conversation import PATIENCE, PAUSE, InstanceConversation, no_answer
from cdcv2.instances.run.tail import InstanceTail
from cdcv2.logs.tables_at_time import TableAtTime, TablesAtTime
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.gauges import lsn

#: The default of how many seconds a question may take.
TIMEOUT = 10.0
#: The same for how long a tail waits for an instance that does not answer.
TAIL_TIMEOUT = 60.0


class InstanceClient:
    """An instance, by its place, alone or with replicas. Each question is a connection of its own, so there is nothing
    to close.

    >>> shop = InstanceClient("shop.sock")                                    # doctest: +SKIP
    >>> shop.peek({"public.orders": 42}).to_arrow().num_rows                  # doctest: +SKIP
    1
    >>> for batch in shop.tail("public.orders"):                              # doctest: +SKIP
    ...     print(batch.upper, batch.changes)
    [101936017] [(Row(id=42, state='new'), 101936016, 1)]

    An answer is never older than one that the same client has had before.
    """

    def __init__(self, place: str | Path) -> None:
        self._place = Path(place)
        # The last time that an answer was of.
        self._seen = 0
        # Table -> its type as it was answered last, and that: making one takes as long as an answer.
        self._types: dict[str, tuple[Any, RowType]] = {}

    def peek(
        self, keys: Mapping[str, Any], *, at: int | str | None = None, after: int | str | None = None,
        timeout: float = TIMEOUT,
    ) -> TablesAtTime:
        """What is at these keys, at one time in all tables: ``{table: key}``, or a list of keys.

        A key of several columns is a tuple, in their order. Values are those of JSON. ``at``: a time, or an LSN as
        PostgreSQL writes it; None for the last time that is finished there. ``after``: the last finished time, once
        everything up to this time or LSN is finished: so one reads what one has committed.

        Raises UsageError for what the instance cannot be asked, RefusedError for a time that it keeps no longer; after
        ``timeout`` seconds IncompleteError for a time that is not finished, UnavailableError where nothing answers.
        """
        if at is not None and after is not None:
            raise UsageError("at= is one time, and after= is the last one that is finished: give one of them")
        (time_at, by_lsn), (least, least_by_lsn) = _time("at", at), _time("after", after)
        least = max(least or 0, self._seen)
        request = PeekRequest(
            uuid.uuid4().hex, {table: _keys(given) for table, given in keys.items()}, time_at, least,
            by_lsn or least_by_lsn,
        )
        answer = self._answer(request, timeout)
        upper = Antichain(answer["upper"])
        self._seen = max(self._seen, answer["time"] or 0)
        held = {}
        for table, rows in answer["rows"].items():
            row_type = self._type(table, answer["types"][table])
            counts = {row_type.from_plain(row): count for of_key in rows for row, count in of_key}
            held[table] = TableAtTime(table, row_type, ChangeBatch(counts.items()))
        return TablesAtTime(held, answer["time"], upper, answer["committed_at"])

    def _type(self, table: str, stated: Any) -> RowType:
        plain, row_type = self._types.get(table, (None, None))
        if row_type is None or plain != stated:
            row_type = RowType(stated)
            self._types[table] = stated, row_type
        return row_type

    def tail(
        self, table: str, *, after: Antichain | Sequence[int] | int | None = None, since: int | None = None,
        timeout: float = TAIL_TIMEOUT,
    ) -> InstanceTail:
        """The changes of a table, as they are finished: iterate for batches, and close it. It ends with the logs.

        ``after``: the upper of the last batch that one has; None: from the beginning, which is one batch with all that
        is there at ``since`` (None: the last finished time) and what has changed since then. ``timeout``: for how many
        seconds an instance is waited for that does not answer.

        Raises, when iterated, UsageError for an unknown table, RefusedError where the changes behind ``after`` are not
        kept any more, UnavailableError where nothing answers.
        """
        wanted = [] if after is None else [after] if isinstance(after, int) else list(after)
        if after is not None and since is not None:
            raise UsageError("since= is for a tail from the beginning, and after= continues one: give one of them")
        try:
            request = TailRequest(uuid.uuid4().hex, table, Antichain([0] if after is None else wanted), since)
        except MalformedError as cause:
            raise UsageError(f"after={after!r} is no upper of a batch: {cause}") from None
        return InstanceTail(self._place, request, timeout)

    def status(self, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """How far the instance is (``upper``), from which time on it can be asked (``since``), and who is connected."""
        deadline = time.monotonic() + timeout
        try:
            found: dict[str, Any] = self._reply(StatusRequest().to_line(), deadline, timeout)["status"]
        except TimeoutError:
            raise self._busy(timeout) from None
        return found

    def _answer(self, request: PeekRequest, timeout: float) -> Any:
        line = request.to_line()
        if len(line) > LONGEST:
            raise UsageError(f"the question has {len(line)} bytes, and may have {LONGEST}: ask for fewer keys at once")
        try:
            return self._reply(line, time.monotonic() + timeout, timeout)
        except TimeoutError:
            pass
        status = self.status(timeout=PATIENCE)
        upper, time_asked = Antichain(status["upper"]), request.least if request.at is None else request.at
        if not status["replicas"] or not is_finished(time_asked, upper):
            raise self._late(request, status, timeout)
        try:
            # It is there, and the answer was only not given in so short a time.
            return self._reply(line, time.monotonic() + PATIENCE, timeout)
        except TimeoutError:
            raise self._busy(timeout) from None

    def _reply(self, line: bytes, deadline: float, timeout: float) -> Any:
        """The answer to a line. Raises TimeoutError while the instance has it and does not answer yet."""
        while True:
            try:
                with InstanceConversation(self._place, line) as conversation:
                    return conversation.answer(deadline)
            except TimeoutError:
                raise
            except OSError as error:
                # A try takes a moment, in which an answer can come.
                if time.monotonic() + 2 * PAUSE >= deadline:
                    raise no_answer(self._place, error, timeout) from None
                time.sleep(PAUSE)

    def _late(self, request: PeekRequest, status: Mapping[str, Any], timeout: float) -> Cdcv2Error:
        """Why there is no answer after so many seconds, by how far the instance is."""
        if not status["replicas"]:
            return UnavailableError(
                f"no replica of the instance at {self._place} is connected for {timeout:g} seconds: start cdcv2 "
                "instance --replica at the places of its --of"
            )
        after = f"not everything up to {request.least} is finished"
        wanted = f"the time {request.at} is not finished"
        if request.at is None:
            wanted = after if request.least else "no time is finished"
        return IncompleteError(
            f"{wanted} after {timeout:g} seconds; its logs are {through_text(status['upper'])}: capture on (a source "
            "that is idle finishes no time), or ask for now",
            what=f"the instance at {self._place}",
        )

    def _busy(self, timeout: float) -> UnavailableError:
        return UnavailableError(
            f"the instance at {self._place} does not answer for {timeout:g} seconds: it is busy, or stopped"
        )


def _keys(given: Any) -> tuple[tuple[Any, ...], ...]:
    """Keys as tuples of values: one key, or a list of them."""
    several = given if isinstance(given, list) else [given]
    return tuple(key if isinstance(key, tuple) else (key,) for key in several)


def _time(name: str, given: int | str | None) -> tuple[int | None, bool]:
    """A time as a number, and whether it was an LSN. Raises UsageError."""
    if isinstance(given, str) and "/" in given:
        try:
            return lsn(given), True
        except MalformedError as cause:
            raise UsageError(f"{name}={given!r}: {cause}") from None
    if given is not None and (type(given) is not int or given < 0):
        raise UsageError(f"{name}={given!r} is no time: give a whole number from 0 on, an LSN, or None for now")
    return given, False
