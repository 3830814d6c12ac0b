"""A reader, one message at a time: :class:`Stash` decides what is new, :class:`Ledger` what is finished.

Whole numbers as times, where each contradiction is an error, are read by :class:`IntegerReader`, which decides the same
faster, until it meets what may be an error.

The facts of a log may come duplicated, reordered and re-batched in any way; each finished frontier's batch comes
out exactly once, in order. This is the push form; :class:`cdcv2.Iter` pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, sort_key
from cdcv2.core.own_json import reading
from cdcv2.errors import DecodeError, MalformedError, UsageError
from cdcv2.protocol.integer_reader import IntegerReader, UndecidedMessage
from cdcv2.protocol.ledger import Dispute, Ledger
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Batch, GarbledMessage, Message, Progress, Update, Updates, check_data
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.stash import Arrivals, Stash

#: The version of the exported state.
VERSION = 1

#: None may be data.
NOT_GIVEN: Any = object()


class Resolver:
    """The reader's two halves on one thread.

    >>> reader = Resolver()
    >>> reader.absorb(Progress([0], [5], {3: 1}))
    Batch(updates=[], lower=Antichain([0]), upper=Antichain([3]))
    >>> reader.absorb(Updates([("a", 3, 1)])).updates
    [('a', 3, 1)]

    ``start`` is the frontier to read from (default: the integer 0; product times need their own). An update before it
    raises StartError, as the reader would leave it out; a reader that was given what came before, as the content of a
    checkpoint, gives with ``begins`` where that began.
    ``on_error``: ``"raise"``, or ``"quarantine"``, which holds the frontier at a time whose facts contradict each
    other, keeps both as evidence in :attr:`quarantine`, and reads on; :meth:`resolve` decides which is right.
    ``keep_all=True`` releases nothing, and so forgets nothing: every contradiction of the whole log is found, at
    a memory of the whole log (that is what ``verify --full`` pays).
    ``general=True`` reads by Stash and Ledger from the first message on: nothing differs but the cost.

    Raises MalformedError for an empty start or another ``on_error``. Cost: an update O(1) expected, a statement
    O(counts · log open), a frontier move what it releases. Memory: updates of open times, waiting statements.
    Source: the CDCv2 post, ``Iter``; the rules are written down in docs/protocol.md.
    """

    # While it is there, it has all that was taken in, and ledger and stash are empty.
    _integers: IntegerReader | None

    def __init__(
        self, start: Iterable[Time] | None = None, *, begins: Iterable[Time] | None = None, on_error: str = "raise",
        keep_all: bool = False, general: bool = False,
    ) -> None:
        frontier = Antichain([0] if start is None else start)
        if not frontier:
            raise MalformedError("start is empty: a reader needs at least one time to begin at")
        origin = frontier if begins is None else Antichain(begins)
        self._begin(Ledger(frontier, begins=origin, on_error=on_error), None)
        self._quarantine = on_error == "quarantine"
        self._keep_all = keep_all
        first, begin = frontier.integer, origin.integer
        if first is not None and begin is not None and not (self._quarantine or keep_all or general):
            self._integers = IntegerReader(first, begin)

    def _begin(self, ledger: Ledger, stash: Stash | None) -> None:
        total = all(type(time) is int for time in ledger.known) and bool(ledger.known)
        self._ledger = ledger
        # Asked for None, not for truth: a stash without updates is false, and may still hold what was ruled.
        self._stash = Stash(total=total) if stash is None else stash
        self._integers = None
        self._counters = {
            "updates": 0, "repeats": 0, "late": 0, "before_start": 0, "statements": 0, "parked": 0,
        }
        #: Undecodable bytes that were parked: ``Entry`` or ``GarbledMessage``, in the order of arrival.
        self.parked: list[Entry | GarbledMessage] = []
        #: What was resolved, and how: ``(time, data, diff)`` or ``(time, count)``.
        self.resolutions: list[tuple[Any, ...]] = []

    # -- absorbing ----------------------------------------------------------------------------------------------

    def absorb(self, message: Union[Message, Entry, GarbledMessage]) -> Batch | None:
        """Take in one message; return the batch that it completes, if it completes one.

        Atomic: when it raises, nothing has changed. Raises ContradictionError, DecodeError for bytes that are no
        message (unless they are parked), StartError for updates before the start, MalformedError for times of another
        kind.
        """
        if self._integers is not None:
            try:
                return self._integers.absorb(message)
            except UndecidedMessage:
                self._ledger, self._stash = self._halves()
                self._counters, self._integers = self.counters, None
        position = None
        if isinstance(message, Entry):
            position, message = message.position, message.message
        if isinstance(message, Updates):
            self._absorb_updates(message, position)
        elif isinstance(message, Progress):
            self._ledger.state([(message, position)])
            self._counters["statements"] += 1
        elif isinstance(message, GarbledMessage):
            self._park(message, position)
        else:
            raise MalformedError(f"{message!r} is no message: a log is made of Updates and Progress")
        return self._settle()

    def _absorb_updates(self, message: Updates, position: Any) -> None:
        arrivals = self._stash.plan(message.updates, self._ledger.reported, position)
        if arrivals.disputes and not self._quarantine:
            raise min(arrivals.disputes, key=lambda dispute: sort_key(dispute.time)).error()
        before = self._ledger.left_out(arrivals.finished, position) if arrivals.finished else 0
        self._ledger.arrived(arrivals.counts())
        self._admit(arrivals)
        self._counters["before_start"] += before
        self._counters["late"] += sum(arrivals.finished.values()) - before
        self._counters["updates"] += len(message.updates)

    def _admit(self, arrivals: Arrivals) -> None:
        self._stash.admit(arrivals)
        for dispute in arrivals.disputes:
            self._ledger.hold(dispute, _reason(dispute.data))
        self._counters["repeats"] += arrivals.repeats

    def _park(self, garbled: GarbledMessage, position: Any) -> None:
        if not self._quarantine:
            raise DecodeError(garbled.reason, position=position, raw=garbled.raw)
        self.parked.append(garbled if position is None else Entry(position, garbled))
        self._counters["parked"] += 1

    def _settle(self) -> Batch | None:
        if self._keep_all:
            return None
        lower = self._ledger.reported
        upper = self._ledger.settle()
        if upper == lower:
            return None
        return Batch(self._stash.release(upper), lower, upper)

    # -- looking ------------------------------------------------------------------------------------------------

    def _halves(self) -> tuple[Ledger, Stash]:
        return (self._ledger, self._stash) if self._integers is None else self._integers.halves()

    @property
    def counters(self) -> dict[str, int]:
        """How much came and gave nothing, or was parked: nothing is dropped without a trace. Cost: the open times."""
        return {**self._counters, **(self._integers.counters() if self._integers is not None else {})}

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is complete, and has been given out (unless all is kept)."""
        if self._integers is not None:
            return self._integers.frontier
        return self._ledger.complete if self._keep_all else self._ledger.reported

    @property
    def known(self) -> Antichain:
        """Every time from the start on that is not beyond it is stated, if perhaps not yet received."""
        return self._ledger.known if self._integers is None else self._integers.known

    @property
    def closed(self) -> bool:
        """Whether the empty frontier was reached: the history is complete, and all of it has arrived."""
        return not self.frontier if self._integers is None else self._integers.closed

    @property
    def quarantine(self) -> dict[Time, list[Dispute]]:
        """The contested times, each with its disputes: both facts, and where they were read."""
        return {
            time: list(reasons.values())
            for time, reasons in sorted(self._ledger.contested.items(), key=lambda item: sort_key(item[0]))
        }

    def missing(self) -> MissingUpdates:
        """What lacks below the join of the stated uppers; falsy iff nothing does."""
        return self._halves()[0].missing()

    def open_times(self) -> dict[Time, tuple[int | None, int]]:
        """Open time -> (stated count or None, updates held): what the reader waits with."""
        return self._halves()[0].open_times()

    def waiting_statements(self) -> int:
        """How many statements cannot be reached yet."""
        return self._halves()[0].waiting_statements()

    def unreached(self) -> list[Progress]:
        """Those statements: some of their times are beyond ``known``."""
        return self._halves()[0].unreached()

    def held_updates(self) -> int:
        """How many updates are held at open times."""
        return len(self._halves()[1])

    def keeps(self, time: Time) -> bool:
        """Whether the time is open: updates at it are still wanted, and disputes about it can be resolved."""
        return self._ledger.keeps(time) if self._integers is None else self._integers.frontier.less_equal(time)

    def held_at(self, time: Time) -> list[tuple[Any, int, Any]]:
        """The updates held at an open time: data, diff, and where it was read (None: not known)."""
        return (self._stash if self._integers is None else self._integers.stash_of([time])).at(time)

    def orphans(self) -> list[Update]:
        """The updates at times beyond ``known``: durable, and counted by no statement that can be reached yet."""
        return self._halves()[1].beyond(self.known)

    # -- resolving ----------------------------------------------------------------------------------------------

    def resolve(
        self, time: Time, *, count: int | None = None, data: Any = NOT_GIVEN, diff: int | None = None
    ) -> Batch | None:
        """Settle a dispute at ``time``: fix the count, or the diff of ``data`` (0: it never happened).

        Returns the batch that this completes, if any. The decision is kept in :attr:`resolutions`, and holds
        against all later facts of the log. Raises UsageError unless reading with ``on_error="quarantine"``,
        for a time that was given out already, and unless either ``count`` is given, or ``data`` and ``diff`` are;
        MalformedError unless the diff is an int.
        """
        if not self._quarantine:
            raise UsageError("resolve() needs a reader with on_error='quarantine'")
        if (count is None) == (diff is None) or (diff is None) != (data is NOT_GIVEN):
            raise UsageError("resolve() takes either count=, or data= and diff=")
        if not self._ledger.keeps(time):
            raise UsageError(f"time {time} has been given out: nothing at it can be resolved any more")
        if count is not None:
            self._ledger.rule(time, count)
            self.resolutions.append((time, count))
        elif type(diff) is not int:
            raise MalformedError(f"the diff {diff!r} is not an int")
        else:
            check_data(data)
            change = self._stash.rule(time, data, diff)
            if change > 0:
                self._ledger.arrived({time: change})
            elif change < 0:
                self._ledger.withdrew(time)
            self._ledger.lift(time, _reason(data))
            self.resolutions.append((time, data, diff))
        return self._settle()

    def withhold(self, times: Iterable[Time]) -> Batch | None:
        """Hold the frontier at times that other readings found in dispute, and no more at those of the last call.

        A time that was given out holds nothing. Returns the batch that this completes, if any. Raises UsageError
        unless reading with ``on_error="quarantine"``.
        """
        if not self._quarantine:
            raise UsageError("withhold() needs a reader with on_error='quarantine'")
        self._ledger.withhold(times)
        return self._settle()

    # -- export -------------------------------------------------------------------------------------------------

    def export_state(self, data_to_plain: Callable[[Any], Any] = lambda data: data) -> dict[str, Any]:
        """The state as a plain, versioned value; ``data_to_plain`` makes each datum plain (default: as it is).

        Positions and the evidence of disputes over diffs stay as the objects that they are. Cost: linear.
        """
        ledger, stash = self._halves()
        diffs = [
            [data_to_plain(dispute.data), dispute]
            for reasons in ledger.contested.values() for dispute in reasons.values() if dispute.what == "diff"
        ]
        return {
            "version": VERSION,
            "ledger": ledger.export(),
            "stash": stash.export(data_to_plain),
            "counters": self.counters,
            "diffs": [[data, dispute._replace(data=None)] for data, dispute in diffs],
            "parked": list(self.parked),
            "resolutions": list(self.resolutions),
            "keep_all": self._keep_all,
        }

    @classmethod
    def restore(
        cls, plain: Mapping[str, Any], data_from_plain: Callable[[Any], Any] = lambda data: data
    ) -> Resolver:
        """The reader that :meth:`export_state` made this of. Raises MalformedError for another version."""
        if plain.get("version") != VERSION:
            raise MalformedError(f"a reader's state of version {plain.get('version')!r}: this release reads {VERSION}")
        with reading("the state of a reader"):
            ledger = Ledger.restore(plain["ledger"])
            reader = cls.__new__(cls)
            reader._begin(ledger, Stash.restore(plain["stash"], data_from_plain, total=plain["ledger"]["total"]))
            reader._quarantine = plain["ledger"]["quarantine"]
            reader._keep_all = plain["keep_all"]
            reader._counters.update(plain["counters"])
            for data, dispute in plain["diffs"]:
                original = Dispute(*dispute)._replace(data=data_from_plain(data))
                ledger.hold(original, _reason(original.data))
            reader.parked = list(plain["parked"])
            reader.resolutions = list(plain["resolutions"])
            return reader


def _reason(data: Any) -> Hashable:
    # The data itself, not its text: equal data may print differently, and different data alike.
    return "diff", data
