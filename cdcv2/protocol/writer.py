"""A changing collection becomes a log: updates in any order and an advancing frontier become statements.

The writer consolidates: each identity ``(data, time)`` is written once, with its final diff, and never a zero.
It makes the updates of an interval durable, and *then* the statement that counts them. So a crash at any moment
leaves a log that is right, if perhaps not finished, and the next writer states the same facts:

- It resumes at ``known`` of the log, as a reader computes it.
- Updates beyond that, which no statement counts yet (*orphans* of a crash), are facts already. It refuses to
  state an interval unless what it is fed there contains them.
- So are statements beyond that, of which an earlier one lacks. It refuses to state anything else of their times.

Two writers that are fed the same history may write one log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Union

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time, check_time
from cdcv2.errors import LogFinishedError, MalformedError, UsageError
from cdcv2.protocol.log import Log, Positions, Source
from cdcv2.protocol.log_identity import LogIdentity, check_ends
from cdcv2.protocol.messages import Progress, Update, Updates, counted
from cdcv2.protocol.open_times import OpenTimes
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.statements import check_orphans, check_stated, statements
from cdcv2.protocol.sums import Sums

UPDATES_SENT = failpoints.declare(
    "writer.updates-sent", "updates are sent, perhaps not durable; no statement counts them"
)
UPDATES_DURABLE = failpoints.declare("writer.updates-durable", "updates are durable; no statement counts them")
STATEMENT_SENT = failpoints.declare("writer.statement-sent", "the statement is sent, perhaps not durable")
STATEMENT_DURABLE = failpoints.declare("writer.statement-durable", "updates and statement are durable")


class Writer:
    """Writes one log.

    ``log`` is read to its end first (from ``state`` on, if an :meth:`export_state` is given, else from the
    start), then written. ``start`` is the frontier at which the history begins, as for a reader.
    ``updates_per_message`` bounds the size of a message.

    >>> from cdcv2.logs.memory import MemoryLog
    >>> with Writer(MemoryLog()) as writer:
    ...     writer.update("a", 3, 1)
    ...     writer.advance([5])
    ...     writer.known
    Antichain([5])

    Leaving the block, with or without an exception, states nothing: that the history is complete is a fact about
    the history, which only :meth:`finish` states. Raises LogFinishedError for a log that is finished,
    ForeignStateError for the state of another log, and what reading the log raises. Cost: O(1) expected per update;
    ``advance`` costs what it writes. Memory: the updates that are not stated yet, and a message; of
    :meth:`extend_sums` only that. Source: the CDCv2 post, "A Sketch".
    """

    def __init__(
        self,
        log: Log,
        *,
        start: Iterable[Time] | None = None,
        updates_per_message: int = 1000,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        if type(updates_per_message) is not int or updates_per_message < 1:
            raise UsageError(f"updates_per_message is {updates_per_message!r}: it takes an int from 1 on")
        if not callable(getattr(log, "send", None)):
            raise UsageError(f"{log!r} is no log to write to: it takes a MemoryLog, DirectoryLog, KafkaLog or the like")
        #: The log that it writes.
        self.log = log
        self._chunk = updates_per_message
        origin = Antichain([0] if start is None else start)
        if state is not None:
            _check_state(log, state)
        marked = LogIdentity(log, {} if state is None else state["marks"])
        if state is None:
            found = read_content(marked, Resolver(origin))
        else:
            read = Resolver.restore(state["reader"])
            found = read_content(marked, read, state["positions"], state.get("rows"))._replace(span=None, first=None)
        reader, self._positions = found.reader, found.positions
        #: Up to where the log was stated when it was opened.
        self.read_to = reader.known
        #: The sum of the diffs of all updates at the times before :attr:`read_to`; None: it was not known then.
        self.rows = found.rows
        #: The first and the last time at which the log has updates; None: none. Not known, and None, from a state.
        self.span = found.span
        #: The first finished time at which the log has updates, and the sum of their diffs; None as for ``span``.
        self.first = found.first
        self._marks = marked.marks()
        if not reader.known:
            raise LogFinishedError(f"the history of log {log.name} is complete: nothing can be added to it")
        #: All times not beyond it are stated, by whomever.
        self.known = reader.known
        self._reader_state = reader.export_state()
        total = all(type(time) is int for time in reader.known)
        # Time -> data -> diff: durable, and not counted by any statement that can be reached yet.
        self._orphans: OpenTimes[dict[Any, int]] = OpenTimes(total=total)
        for data, time, diff in reader.orphans():
            if time not in self._orphans:
                self._orphans[time] = {}
            self._orphans[time][data] = diff
        # Statements of times beyond known.
        self._unreached = reader.unreached()
        # Time -> the sums of the diffs fed at it, at times beyond known.
        self._pending: OpenTimes[Sums] = OpenTimes(total=total)
        # What is fed must be beyond it: the last frontier advanced to, which known may be ahead of.
        self._fed = origin
        # What is to be stated, and up to where.
        self._staged: tuple[list[Progress], Antichain] | None = None

    def update(self, data: Any, time: Time, diff: int) -> None:
        """The multiplicity of ``data`` changes at ``time`` by ``diff``; changes to one identity add up.

        Raises MalformedError for a value that is no time, or a time not beyond the frontier advanced to (also when
        that advance has raised), a diff that is not an int, data that cannot be hashed or that are no row of the log.
        Data at a time that the log has stated already is taken as written before.
        """
        check_time(time)
        # Asked of each update, not only of the first at a time: what was staged must not change any more.
        if not self._fed.less_equal(time):
            raise MalformedError(f"the update {data!r} is at time {time}, but {self._fed} was advanced to before")
        if type(diff) is not int:
            raise MalformedError(f"the diff {diff!r} of {data!r} at time {time} is not an int")
        # Consolidated must be what a reader would take for one identity, not what Python takes for equal.
        data = self.log.canonical(data)
        pending = self._pending.get(time)
        if pending is None:
            if not self.known.less_equal(time):
                return
            pending = self._pending[time] = ChangeBatch()
        try:
            pending.update(data, diff)
        except TypeError:
            raise MalformedError(f"the data {data!r} cannot be hashed: use tuples, not lists or dicts") from None

    def extend(self, updates: Iterable[Update]) -> None:
        """:meth:`update` for each triple."""
        for data, time, diff in updates:
            self.update(data, time, diff)

    def extend_sums(self, time: Time, sums: Sums) -> None:
        """:meth:`update` for each of the sums at ``time``, at once; their data must be canonical in the log.

        They stay where they are: this object has no copy of them, and they must not be changed before the time is
        stated. Raises MalformedError for what is no time, or a time not beyond the frontier advanced to. Cost:
        constant, and what was fed at the time before.
        """
        check_time(time)
        if not self._fed.less_equal(time):
            raise MalformedError(f"updates are at time {time}, but {self._fed} was advanced to before")
        if not self.known.less_equal(time):
            return
        for data, diff in self._pending.get(time) or ():
            sums.update(data, diff)
        self._pending[time] = sums

    def advance(self, frontier: Union[Iterable[Time], Antichain]) -> None:
        """No more will be fed at times not beyond ``frontier``: write them, then state them.

        When it returns, both are durable. When it raises (UnavailableError, OutputError), calling it again with
        the same frontier is right. Raises ResumeError when an orphan in the log is not among what was fed, or when a
        statement there counts something else, UsageError when ``frontier`` is not beyond the one before,
        LogFinishedError after :meth:`finish`.
        """
        self.stage(frontier)
        self.commit()

    def stage(self, frontier: Union[Iterable[Time], Antichain]) -> None:
        """The first half of :meth:`advance`: the updates are durable when it returns, and nothing is stated.

        Raises LogFinishedError if the log is complete, UsageError if the frontier goes back; else as :meth:`advance`.
        """
        if not self.known:
            raise LogFinishedError(f"the history of log {self.log.name} is complete: nothing can be added to it")
        bound = frontier if isinstance(frontier, Antichain) else Antichain(frontier)
        if not bound.dominates(self._fed):
            raise UsageError(f"the frontier {bound} is not beyond {self._fed}, which was advanced to before")
        upper = self.known.join(bound)
        self._check_orphans(upper)
        times = self._pending.not_beyond(upper)
        stated = statements(self.known, upper, {time: len(self._pending[time]) for time in times})
        for one in stated:
            check_stated(one, self._unreached, self.log.name)
        # From here on parts of it may be durable, even if this raises: what is fed so far is final.
        self._fed = bound
        unwritten, sent = self._unwritten(times), False
        while chunk := tuple(islice(unwritten, self._chunk)):
            self.log.send(Updates.trusted(chunk))
            sent = True
        if sent:
            failpoints.reach(UPDATES_SENT)
            self.log.flush()
            failpoints.reach(UPDATES_DURABLE)
        self._staged = stated, upper

    def _unwritten(self, times: Iterable[Time]) -> Iterator[Update]:
        """The updates at these times that the log has not."""
        for time in times:
            durable = self._orphans.get(time) or {}
            for data, diff in self._pending[time]:
                if data not in durable:
                    yield data, time, diff

    def commit(self) -> None:
        """The second half of :meth:`advance`: the staged updates are stated, durably, when it returns.

        Raises UsageError unless :meth:`stage` came before, and what the log raises.
        """
        if self._staged is None:
            raise UsageError("commit() needs a stage() before it")
        stated, upper = self._staged
        if stated:
            for one in stated:
                self.log.send(one)
            failpoints.reach(STATEMENT_SENT)
            self.log.flush()
            failpoints.reach(STATEMENT_DURABLE)
        self.known, self._staged = upper, None
        self._unreached = [other for other in self._unreached if not self.known.dominates(other.upper)]
        for kept in (self._pending, self._orphans):
            for time in kept.not_beyond(self.known):
                kept.pop(time)

    def finish(self) -> None:
        """State that the history is complete: write what was fed, and the empty upper. The log takes no more."""
        self.advance(Antichain())

    def close(self) -> None:
        """Release the log. States nothing."""
        self.log.close()

    def export_state(self) -> dict[str, Any]:
        """What spares the next writer reading the log from the start: a reader's state, and its positions."""
        return {
            "reader": self._reader_state, "positions": dict(self._positions), "marks": dict(self._marks),
            "rows": self.rows,
        }

    def _check_orphans(self, upper: Antichain) -> None:
        for time in self._orphans.not_beyond(upper):
            fed, held = self._pending.get(time), self._orphans[time]
            lacking = [data for data, diff in held.items() if fed is None or fed.get(data) != diff]
            check_orphans(self.log.name, time, len(held), len(held) - len(lacking), next(iter(lacking or held)))

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LogContent(NamedTuple):
    """What a log holds, for who goes on with it: its ``reader``, and the ``positions`` behind all that was read.

    ``span`` has the first and the last time at which updates were read; ``first`` the first finished time of them, and
    the sum of their diffs there. ``rows`` is the sum of the diffs of all before ``reader.known``; None: not known.
    """

    reader: Resolver
    positions: Positions
    span: tuple[Time, Time] | None
    first: tuple[Time, int] | None
    rows: int | None


def read_content(
    log: Source | LogIdentity, reader: Resolver, positions: Positions | None = None, rows: int | None = 0
) -> LogContent:
    """Take what a log holds behind the positions into a reader, which has taken what is before: ``rows`` is its sum.

    Raises what reading the log and absorbing raise. Cost: what is read.

    >>> from cdcv2.logs.memory import MemoryLog
    >>> log = MemoryLog("a")
    >>> with Writer(log) as writer:
    ...     writer.update("x", 3, 1)
    ...     writer.advance([5])
    >>> found = read_content(log, Resolver())
    >>> found.reader.known, found.first, found.rows
    (Antichain([5]), (3, 1), 1)
    """
    positions = dict(positions or {})
    span: tuple[Time, Time] | None = None
    first: tuple[Time, int] | None = None
    for entry in log.read(dict(positions) or None):
        if entry is None:
            continue
        batch = reader.absorb(entry)
        if batch is not None and rows is not None:
            rows += sum([diff for _, _, diff in batch.updates])
        if first is None and batch is not None and batch.updates:
            time = batch.updates[0][1]
            first = time, sum(diff for _, at, diff in batch.updates if at == time)
        span = counted(entry.message, span)
        part, offset = entry.position.part, entry.position.offset
        positions[part] = max(positions.get(part, 0), offset + 1)
    return LogContent(reader, positions, span, first, rows if reader.frontier == reader.known else None)


def _check_state(log: Log, state: Mapping[str, Any]) -> None:
    remedy = "give none, and the log is read from its start"
    if not isinstance(state, Mapping) or not {"reader", "positions", "marks"} <= state.keys():
        raise MalformedError(f"the state {state!r:.80} is no state that a writer exported: {remedy}")
    check_ends(log.name, state["positions"], log.ends(), remedy)
