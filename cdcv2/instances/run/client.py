"""Asks an instance what is at some keys, and what changes. It may die in between: then its client asks it again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdcv2.completeness import frontier_text, through_text, time_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import Cdcv2Error, IncompleteError, UnavailableError, UsageError
from cdcv2.instances.commands import LEAST, is_finished
from cdcv2.instances.requests import LONGEST, PeekRequest, StatusRequest, TailRequest
from cdcv2.instances.run.client_arguments import demand_text, frontier_of, keys_of, time_of
from cdcv2.instances.run.conversation import PAUSE, InstanceConversation, demand_place, demand_seconds, no_answer
from cdcv2.instances.run.silence import silence_text
from cdcv2.instances.run.tail import InstanceTail
from cdcv2.logs.tables_at_time import NO_WHOLE_HISTORY, TableAtTime, TablesAtTime, demand_no_less
from cdcv2.rows.row_type import RowType

#: The default of how many seconds a question may take.
TIMEOUT = 10.0
#: Seconds behind a time-out in which it is asked how far the instance is, and given an answer that is ready.
_LAST = 0.9
#: Seconds for which it is asked how the columns of a key are called, where one of them is wrong.
_MOMENT = 0.5


class InstanceClient:
    """An instance, by its place, alone or with replicas. Each question is a connection of its own, so there is nothing
    to close.

    >>> shop = InstanceClient("shop.sock")                                    # doctest: +SKIP
    >>> shop.peek({"public.orders": 42}).to_arrow().num_rows                  # doctest: +SKIP
    1
    >>> for batch in shop.tail("public.orders"):                              # doctest: +SKIP
    ...     print(batch.upper, batch.changes)
    [101936017] [(Row(id=42, state='new'), 101936016, 1)]

    An answer is never older than one that the same client has had before, of the same logs.
    """

    def __init__(self, place: str | Path) -> None:
        #: where it answers
        self.place = Path(place)
        # The last time that an answer was of, and the identities of the logs that it was of.
        self._seen = 0
        self._logs: tuple[str, ...] = ()
        # Table -> its type as it was answered last, and that: making one takes as long as an answer.
        self._types: dict[str, tuple[Any, RowType]] = {}

    def __repr__(self) -> str:
        return f"InstanceClient({str(self.place)!r})"

    def peek(
        self, keys: Mapping[str, Any], *, at: int | str | None = None, after: int | str | None = None,
        timeout: float = TIMEOUT,
    ) -> TablesAtTime:
        """What is at these keys, at one time in all tables: ``{table: key}``, or a list of keys.

        A key of several columns is a tuple, in their order. Values are those of JSON, and bytes, as a row of an answer
        has them: of a decimal, too. ``at``: a time, or an LSN as
        PostgreSQL writes it; None for the last time that is finished there. ``after``: the last finished time, once
        everything up to this time or LSN is finished: so one reads what one has committed.

        Raises UsageError for what the instance cannot be asked, RefusedError for a time that it keeps no longer,
        MalformedError for a row that is there less than zero times, as a log has it that lacks its beginning; after
        ``timeout`` seconds IncompleteError for a time that is not finished, UnavailableError where nothing answers.
        """
        if at is not None and after is not None:
            raise UsageError("at= is one time, and after= is the last one that is finished: give one of them")
        demand_seconds("timeout=", timeout)
        (time_at, by_lsn), (least, least_by_lsn) = time_of("at", at), time_of("after", after)
        request = PeekRequest(
            uuid.uuid4().hex, keys_of(keys, self._column), time_at, least or 0, by_lsn or least_by_lsn, self._seen,
            self._logs,
        )
        answer = self._answer(request, timeout)
        upper = Antichain(answer["upper"])
        if set(self._logs).isdisjoint(answer["logs"]):
            # What was seen is of other logs.
            self._seen = 0
        self._logs = tuple(answer["logs"])
        self._seen = max(self._seen, answer["time"] or 0)
        held = {}
        for table, rows in answer["rows"].items():
            row_type = self._type(table, answer["types"][table])
            counts = {row_type.from_plain(row): count for of_key in rows for row, count in of_key}
            demand_no_less(table, row_type, counts.items(), _time_of_answer(answer, upper), NO_WHOLE_HISTORY)
            held[table] = TableAtTime(table, row_type, ChangeBatch(counts.items()))
        return TablesAtTime(held, answer["time"], upper, answer["committed_at"])

    def _type(self, table: str, stated: Any) -> RowType:
        plain, row_type = self._types.get(table, (None, None))
        if row_type is None or plain != stated:
            row_type = RowType(stated)
            self._types[table] = stated, row_type
        return row_type

    def _column(self, table: str, place: int) -> str:
        """What a part of a key is called, for an error; by its number where the instance cannot be asked now."""
        try:
            return f"column {self.status(timeout=_MOMENT)['tables'][table][place]!r}"
        except (Cdcv2Error, LookupError):
            return f"value {place + 1}"

    def tail(
        self, table: str, *, after: Antichain | Sequence[int] | int | str | None = None, since: int | None = None,
        timeout: float | None = None,
    ) -> InstanceTail:
        """The changes of a table, as they are finished: iterate for batches, and close it. It ends with the logs.

        ``after``: the ``resume_token`` of the last batch that one has, or its ``upper`` alone, with which it is not
        looked at whether the log is the same; None: from the beginning, which is one batch with all that
        is there at ``since`` (None: the last finished time) and what has changed since then. ``timeout``: for how many
        seconds each batch is waited for. None: for ever where the instance answers, and for a minute where it does not.

        Raises, when iterated, UsageError for an unknown table, RefusedError where the changes after ``after`` are not
        kept any more, and where another log is there; after ``timeout`` seconds IncompleteError where nothing was
        finished, UnavailableError where nothing answers.
        """
        if after is not None and since is not None:
            raise UsageError("since= is for a tail from the beginning, and after= continues one: give one of them")
        if timeout is not None:
            demand_seconds("timeout=", timeout)
        demand_text("the table", table)
        begin, _ = time_of("since", since)
        upper, log = frontier_of(after)
        return InstanceTail(self, TailRequest(uuid.uuid4().hex, table, upper, begin, log), timeout)

    def status(self, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """How far the instance is (``upper``), from which time on it can be asked (``since``), and who is connected."""
        return self._status(demand_seconds("timeout=", timeout), timeout)

    def _status(self, seconds: float, timeout: float) -> dict[str, Any]:
        """The status, within some seconds; ``timeout``: how many its caller was given, for an error."""
        try:
            line = StatusRequest().to_line()
            found: dict[str, Any] = self._reply(line, time.monotonic() + seconds, timeout)["status"]
        except TimeoutError:
            raise self.busy(timeout) from None
        return found

    def _answer(self, request: PeekRequest, timeout: float) -> Any:
        line = request.to_line()
        if len(line) > LONGEST:
            raise UsageError(f"the question has {len(line)} bytes, and may have {LONGEST}: ask for fewer keys at once")
        try:
            return self._reply(line, time.monotonic() + timeout, timeout)
        except TimeoutError:
            pass
        end = time.monotonic() + _LAST
        status = self._status(_LAST, timeout)
        upper, time_asked = Antichain(status["upper"]), _awaited_time(request)
        if not _answering(status) or not is_finished(time_asked, upper):
            raise self._late(_awaited(request), status, timeout)
        try:
            # It is there, and the answer was only not given in so short a time.
            return self._reply(line, end, timeout)
        except TimeoutError:
            raise self.busy(timeout, status["replicas"]) from None

    def _reply(self, line: bytes, deadline: float, timeout: float) -> Any:
        """The answer to a line. Raises TimeoutError while the instance has it and does not answer yet."""
        while True:
            try:
                with InstanceConversation(self.place, line) as conversation:
                    return conversation.answer(deadline)
            except TimeoutError:
                raise
            except OSError as error:
                demand_place(self.place)
                # A try takes a moment, in which an answer can come.
                if time.monotonic() + 2 * PAUSE >= deadline:
                    raise no_answer(self.place, error, timeout) from None
                time.sleep(PAUSE)

    @property
    def moment(self) -> float:
        """Seconds within which the instance answers what it knows, if it is not busy."""
        return _LAST

    def late(self, awaited: str, timeout: float) -> Cdcv2Error:
        """Why a request that the instance has is not answered after so many seconds: ``awaited`` is not there yet.

        Raises UnavailableError where it does not answer how far it is.
        """
        return self._late(awaited, self._status(_LAST, timeout), timeout)

    def _late(self, awaited: str, status: Mapping[str, Any], timeout: float) -> Cdcv2Error:
        faults = status.get("faults", {})
        if faults and not set(status["replicas"]) - set(faults):
            why = "; ".join(f"{name}: {fault}" for name, fault in sorted(faults.items()))
            return UnavailableError(f"no replica of the instance at {self.place} works for it. {why}")
        if not status["replicas"]:
            return UnavailableError(
                f"no replica of the instance at {self.place} is connected for {timeout:g} seconds: start cdcv2 "
                "instance --replica at the places of its --of"
            )
        silent = silence_text(status.get("silent", {}))
        if not _answering(status):
            return UnavailableError(
                f"no replica of the instance at {self.place} answers ({silent}): each hangs, or is stopped; kill it, "
                "and start it again"
            )
        marker = f". No marker can be committed: {status['marker']}" if status.get("marker") else ""
        quiet = silence_text(status.get("asked", {}))
        hang = f" (of its replicas {quiet}: kill it and start it again, if it hangs)" if quiet else ""
        upper = Antichain(status["upper"])
        through = "nothing of its logs is complete yet" if upper == LEAST else f"its logs are {through_text(upper)}"
        return IncompleteError(
            f"{awaited} after {timeout:g} seconds; {through}{hang}: capture on (a "
            f"source that is idle finishes no time, unless --marker allows a marker), or ask for now{marker}",
            what=f"the instance at {self.place}",
        )

    def busy(self, timeout: float, replicas: Sequence[str] = ()) -> UnavailableError:
        """What is raised where it has a request, and could answer it, and did not for so many seconds.

        ``replicas``: who was asked, where the instance itself states how far it is.
        """
        if len(replicas) > 1 or any("/" in name or "." in name for name in replicas):
            asked = ", ".join(sorted(replicas))
            return UnavailableError(
                f"no replica of the instance at {self.place} answers this for {timeout:g} seconds (asked: {asked}): "
                "each is busy, hangs, or is stopped"
            )
        return UnavailableError(
            f"the instance at {self.place} does not answer for {timeout:g} seconds: it is busy, or stopped"
        )

    def demand_life(self, seconds: float, timeout: float) -> None:
        """Raise UnavailableError where it takes a question, and does not answer it within some seconds.

        Where nothing is at its place this raises nothing: who has a connection to it learns that there.
        """
        try:
            with InstanceConversation(self.place, StatusRequest().to_line()) as conversation:
                conversation.answer(time.monotonic() + seconds)
        except TimeoutError:
            raise self.busy(timeout) from None
        except OSError:
            return


def _time_of_answer(answer: Mapping[str, Any], upper: Antichain) -> str:
    return f"the end, {frontier_text(upper)}" if answer["time"] is None else time_text(answer["time"])


def _answering(status: Mapping[str, Any]) -> bool:
    """Whether a replica is connected that does not hang."""
    return bool(set(status["replicas"]) - set(status.get("silent", {})) - set(status.get("faults", {})))


def _awaited_time(request: PeekRequest) -> int:
    return max(request.least, request.seen) if request.at is None else request.at


def _awaited(request: PeekRequest) -> str:
    """What a peek waits for, in words."""
    time = _awaited_time(request)
    if request.at is not None:
        return f"the time {time} is not finished"
    return f"not everything up to {time} is finished" if time else "no time is finished"
