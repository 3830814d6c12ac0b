"""The changes of a table of an instance, as batches. It may die and start again: each row comes once."""

from __future__ import annotations

import html
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from cdcv2.completeness import frontier_text, through_text
from cdcv2.core.antichain import Antichain
from cdcv2.errors import Cdcv2Error, UsageError
from cdcv2.instances.commands import LEAST, is_finished, last_time
from cdcv2.instances.requests import TailRequest
from cdcv2.instances.run.client_arguments import resume_token, time_of
from cdcv2.instances.run.conversation import PAUSE, InstanceConversation, demand_place, no_answer
from cdcv2.logs.tables_at_time import SHOWN_ROWS, TablesAtTime, html_table, short_value
from cdcv2.rows.row_type import Row, RowType

#: Seconds for which an instance is waited for that does not answer, where nothing else was given.
SILENCE = 60.0


@dataclass(frozen=True)
class TailBatch:
    """The changes of a table beyond ``lower`` and not beyond ``upper``, consolidated, by time: ``(row, time, diff)``.

    The lower of each is the upper of the one before. Keep ``resume_token`` with what you make of the batch, and begin
    with ``after=`` it the next time: so each row comes once. ``log``: the identity of the log; ``committed_at``: when
    the last of what is not beyond ``upper`` was committed, in seconds since 1970; None: not known.
    """

    table: str
    row_type: RowType
    lower: Antichain
    upper: Antichain
    changes: Sequence[tuple[Row, int, int]]
    committed_at: float | None = None
    log: str = ""

    @property
    def resume_token(self) -> str:
        """The upper with its log, as one text: what to keep. Over another log a tail does not continue there."""
        return resume_token(self.upper, self.log)

    def to_arrow(self) -> Any:
        """The changes as a pyarrow.Table: the columns of the table, and then its time and diff.

        Raises UsageError where Arrow has no exact form of the rows. Cost: about a microsecond a row.
        """
        from cdcv2.rows.columns import UpdateBatch

        made = UpdateBatch.of(self.row_type, self.changes)
        if made is None:
            raise UsageError(f"Arrow has no exact form of the rows of {self.table}, {self.row_type}: use changes")
        return made.rows.append_column("cdcv2_time", made.times).append_column("cdcv2_diff", made.diffs)

    def through(self, time: int) -> TailBatch:
        """What of it is not beyond a time. When that was committed is not known: the batch has it of all."""
        changes = [change for change in self.changes if change[1] <= time]
        return replace(self, upper=Antichain([time + 1]), changes=changes, committed_at=None)

    def __repr__(self) -> str:
        return f"TailBatch({self.table}, {through_text(self.upper)}: {len(self.changes)} changes)"

    def _repr_html_(self) -> str:
        lines = [
            [f"{diff:+d}", str(at), *map(short_value, self.row_type.to_plain(row).values())]
            for row, at, diff in self.changes[:SHOWN_ROWS]
        ]
        more = len(self.changes) - len(lines)
        under = f"<p>and {more:,} more changes</p>" if more > 0 else ""
        heads = ["diff", "time", *self.row_type.columns]
        return f"<p>{html.escape(self.table)}, {through_text(self.upper)}</p>{html_table(heads, lines)}{under}"


class TailedInstance(Protocol):
    """What a tail asks its instance beside its batches."""

    @property
    def place(self) -> Path:
        """Where it answers."""

    @property
    def moment(self) -> float:
        """Seconds within which it answers what it knows, if it is not busy."""

    def peek(self, keys: Mapping[str, Any], *, after: int, timeout: float) -> TablesAtTime:
        """The last finished time, once it is not before ``after``."""

    def late(self, awaited: str, timeout: float) -> Cdcv2Error:
        """Why what is waited for does not come."""

    def busy(self, timeout: float) -> Cdcv2Error:
        """What is raised where it takes a request, and does not answer."""

    def demand_life(self, seconds: float, timeout: float) -> None:
        """Raise UnavailableError where it takes a question, and does not answer it within some seconds."""


class InstanceTail:
    """Iterate for :class:`TailBatch`; it ends where the logs end, and waits as long as nothing is finished.

    It connects by itself as often as it must, and continues at the upper of the last batch. ``timeout`` and errors are
    those of :meth:`~cdcv2.instances.run.client.InstanceClient.tail`. Behind an IncompleteError it can go on.
    """

    def __init__(self, client: TailedInstance, request: TailRequest, timeout: float | None) -> None:
        self._client, self._request = client, request
        #: For how many seconds a batch is waited for; None: for ever, but a minute where the instance does not answer.
        self.timeout = timeout
        self._conversation: InstanceConversation | None = None
        self._row_type: RowType | None = None
        # The identity of the log that is there.
        self._log = request.log or ""
        # Parts of the next batch: without its end they count for nothing.
        self._parts: list[Any] = []

    @property
    def upper(self) -> Antichain:
        """The upper of the last batch."""
        return self._request.after

    @property
    def resume_token(self) -> str:
        """The upper of the last batch with its log: what to give as ``after`` the next time."""
        return resume_token(self.upper, self._log)

    def __iter__(self) -> Iterator[TailBatch]:
        return self

    def __next__(self) -> TailBatch:
        if not self.upper and self._row_type is None:
            self._look()
        batch = self.batch() if self.upper else None
        if batch is None:
            raise StopIteration
        return batch

    def until(self, time: int | None = None) -> Iterator[TailBatch]:
        """The batches up to a time and including it; None: the last one that is finished when it is asked.

        A tail from the beginning is then one batch: the table at that time. "Now" is not before what the tail has, or
        begins at: an instance that has read less is waited for. Raises UsageError for a time before that.
        """
        end, _ = time_of("until", time)
        since, has = self._request.since, last_time(self.upper)
        if end is not None and since is not None and since > end:
            raise UsageError(f"the tail begins at {since}, and is to end at {end}: let it begin earlier, or end later")
        if end is not None and has is not None and has > end:
            raise UsageError(f"the tail continues behind {has}, and is to end at {end}: let it end later")
        # Before anything is waited for: it may be that nothing is to come.
        self._look()
        if end is None or end == has:
            # So what is stated in the end is what the logs have reached, and not what the tail was given.
            now = self._client.peek({}, after=max(since or 0, has or 0), timeout=self._silence).at
            if not isinstance(now, int):
                # The logs have ended: so does it, by itself.
                yield from self
                return
            end = now if end is None else end
        if self.upper == LEAST and since is None:
            # Otherwise it would begin with what is there now, or when it connects again.
            self.close()
            self._request = replace(self._request, since=end)
        while self.upper and not is_finished(end, self.upper):
            batch = self.batch()
            if batch is None:
                return
            if is_finished(end + 1, batch.upper):
                # What is behind it is not given out, so it comes again.
                self.close()
                batch = batch.through(end)
                self._request = replace(self._request, after=batch.upper)
            yield batch

    def batch(self) -> TailBatch | None:
        """The next batch; None where nothing follows."""
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        while True:
            conversation = self._connected(deadline)
            try:
                answer = self._answer(conversation, deadline)
            except OSError:
                self.close()
                continue
            if "ended" in answer:
                self.close()
                return None
            if "part" in answer:
                self._parts += answer["part"]
                deadline = None if self.timeout is None else time.monotonic() + self.timeout
                continue
            return self._taken(answer)

    def _answer(self, conversation: InstanceConversation, deadline: float | None) -> Any:
        while deadline is None:
            # One that is stopped keeps its connections, and so does one in which nothing happens: it is asked.
            try:
                return conversation.answer(time.monotonic() + SILENCE / 2)
            except TimeoutError:
                self._client.demand_life(SILENCE / 2, SILENCE)
        try:
            return conversation.answer(deadline)
        except TimeoutError:
            seconds = self._silence
            error = self._client.late(self._awaited(), seconds)
        try:
            # How far the instance is was asked meanwhile: it may have come.
            return conversation.answer(time.monotonic())
        except TimeoutError:
            raise error from None

    def _awaited(self) -> str:
        """What is not there yet, in words."""
        table, since = self._request.table, self._request.since
        if self.upper == LEAST and since is not None:
            return f"the time {since}, of which the first batch of {table} is, is not finished"
        return f"nothing of {table} beyond {frontier_text(self.upper)} is finished"

    @property
    def _silence(self) -> float:
        return SILENCE if self.timeout is None else self.timeout

    def close(self) -> None:
        """End it: nothing is left of it in the instance."""
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None
            self._parts = []

    def _look(self) -> None:
        """Look whether the table is there, and whether its log is that of the resume token: nothing more is begun.

        Raises as :meth:`batch`.
        """
        self._started(replace(self._request, uuid=uuid.uuid4().hex, after=Antichain([]), since=None), None).close()

    def _connected(self, deadline: float | None = None) -> InstanceConversation:
        if self._conversation is None:
            self._conversation = self._started(self._request, deadline)
        return self._conversation

    def _started(self, request: TailRequest, deadline: float | None) -> InstanceConversation:
        """A connection on which this was begun: of which log is known then.

        As a status, this answer is given a moment also where there is no time to wait.
        """
        deadline = time.monotonic() + self._silence if deadline is None else deadline
        while True:
            opened: InstanceConversation | None = None
            try:
                opened = InstanceConversation(self._client.place, request.to_line())
                begun = opened.answer(max(deadline, time.monotonic() + self._client.moment))["begun"]
            except OSError as error:
                if opened is not None:
                    opened.close()
                demand_place(self._client.place)
                if isinstance(error, TimeoutError):
                    raise self._client.busy(self._silence) from None
                if time.monotonic() >= deadline:
                    raise no_answer(self._client.place, error, self._silence) from None
                time.sleep(PAUSE)
            except BaseException:
                if opened is not None:
                    opened.close()
                raise
            else:
                self._row_type, self._log = RowType(begun["type"]), begun["log"]
                if self.upper != LEAST:
                    self._request = replace(self._request, log=self._log)
                return opened

    def _taken(self, answer: Any) -> TailBatch:
        batch, row_type = answer["batch"], self._row_type
        if row_type is None:
            raise UsageError("a batch came before its type")
        parts, self._parts = self._parts, []
        changes = [(row_type.from_plain(row), time, diff) for row, time, diff in (*parts, *batch["changes"])]
        upper = Antichain(batch["upper"])
        self._request = replace(self._request, after=upper, since=None, log=self._log)
        return TailBatch(
            self._request.table, row_type, Antichain(batch["lower"]), upper, changes, answer["committed_at"], self._log
        )

    def __enter__(self) -> InstanceTail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
