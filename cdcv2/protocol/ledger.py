"""What is finished: counts that were stated against counts that were received. It never sees a row.

For a time t: ``expected(t)`` is the count of any statement that covers t (absent: 0), ``received(t)`` the number
of distinct identities that arrived. Then ::

    reported = meet(known, {t : expected(t) > received(t)}, contested, withheld)

is the frontier up to which everything has arrived, and it never goes back. Statements that overlap must agree at
every time that is beyond ``reported`` and not beyond ``known``, and no more may be received there than stated.

How many distinct identities a time has may be reported exactly (a stash that folds each arrival at once), or as a
number of rows among which there may be repeats (a stash that folds later, in bulk). Of the latter the ledger
asks for an exact number, by :meth:`Ledger.to_fold`, only when the time may be complete.

The file is long as it is one rule: each of its parts keeps the same few maps by time right, and none could be used or
judged without the others.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain, MutableAntichain
from cdcv2.core.order import Time, from_plain, sort_key, to_plain
from cdcv2.errors import ContradictionError, MalformedError, StartError
from cdcv2.protocol.coverage import Coverage, CoveragePlan, ReadStatement
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.open_times import OpenTimes

#: The version of the exported state.
VERSION = 1


class Dispute(NamedTuple):
    """Two facts that contradict each other at a time; ``what`` as in ContradictionError."""

    what: str
    time: Time
    first: Any
    second: Any
    positions: tuple[Any, Any] = (None, None)
    data: Any = None

    def error(self) -> ContradictionError:
        """The error for it."""
        return ContradictionError(
            self.what, self.time, self.first, self.second, data=self.data, positions=self.positions
        )


class Ledger:
    """The counts of one log from ``start`` on.

    >>> ledger = Ledger([0])
    >>> ledger.state([(Progress([0], [5], {3: 2}), None)])
    >>> ledger.arrived({3: 1}); ledger.settle()
    Antichain([3])
    >>> ledger.arrived({3: 1}); ledger.settle()
    Antichain([5])

    An update before ``start`` is an error: a reader from there would leave it out. A reader that was given what
    came before, as the content of a checkpoint, gives with ``begins`` where that began: from there on to ``start``,
    updates are counted, and left out.

    With ``on_error="quarantine"`` a contradiction does not raise: its time becomes *contested*, which holds
    ``reported`` back until :meth:`rule` settles it. Cost: see the methods; memory: a few numbers per open time
    and the waiting statements. Source: the CDCv2 post, ``Iter``; the rules are those of docs/protocol.md.
    """

    def __init__(
        self, start: Iterable[Time] = (0,), *, begins: Iterable[Time] | None = None, on_error: str = "raise"
    ) -> None:
        if on_error not in ("raise", "quarantine"):
            raise MalformedError(f"on_error is {on_error!r}: it takes 'raise' or 'quarantine'")
        frontier = start if isinstance(start, Antichain) else Antichain(start)
        self._quarantine = on_error == "quarantine"
        # Where this reader began, and where the history does; None: not known, in a state that was exported without.
        self._origin: tuple[Antichain, Antichain] | None = frontier, frontier if begins is None else Antichain(begins)
        self._begin(frontier, Coverage(frontier))

    def _begin(self, reported: Antichain, coverage: Coverage) -> None:
        total = coverage.total
        #: Everything not beyond it has been given out; it never goes back.
        self.reported = reported
        self._coverage = coverage
        # Time -> (stated count, position), at times beyond reported and not beyond known; absent = 0.
        self._expected: OpenTimes[tuple[int, Any]] = OpenTimes(total=total)
        # Time -> rows held, at times beyond reported; exact unless the time is in _unfolded.
        self._held: OpenTimes[int] = OpenTimes(total=total)
        # Times whose number of rows may count repeats.
        self._unfolded: set[Time] = set()
        # Exactly the times not beyond known that hold reported back, each with count 1.
        self._due = MutableAntichain()
        # Contested time -> reason -> the dispute. A reason is "count", "surplus" or one given to hold().
        self.contested: dict[Time, dict[Hashable, Dispute]] = {}
        # Open times at which other readings found a contradiction.
        self._withheld: set[Time] = set()
        # Time -> the count that rule() fixed; from then on no statement is compared with it.
        self._ruled: dict[Time, int] = {}
        #: Statements without anything new: duplicates, empty or wholly finished ones.
        self.repeated_statements = 0

    @classmethod
    def resumed(
        cls, origin: tuple[Antichain, Antichain] | None, reported: Antichain, known: Antichain, *,
        expected: Mapping[Time, tuple[int, Any]], held: Mapping[Time, int], waiting: Iterable[ReadStatement],
        repeated_statements: int, total: bool, on_error: str = "raise",
    ) -> Ledger:
        """A ledger that is in the midst of a log: ``origin`` is where it began, and where the history does.

        ``expected`` has stated counts with their positions, ``held`` how many updates there are.
        Cost: as to take all of it in.
        """
        ledger = cls(on_error=on_error)
        coverage = Coverage(known, total=total)
        ledger._begin(reported, coverage)
        ledger._origin = origin
        coverage.accept(coverage.plan(waiting))
        for time, stated in expected.items():
            ledger._expected[time] = stated
        for time, count in held.items():
            ledger._held[time] = count
        for time in {*expected, *held}:
            ledger._refresh(time)
        ledger.repeated_statements = repeated_statements
        return ledger

    @property
    def known(self) -> Antichain:
        """Every time from the start on that is not beyond it is stated."""
        return self._coverage.known

    def keeps(self, time: Time) -> bool:
        """Whether an update at ``time`` is still wanted: the time is beyond ``reported``."""
        return self.reported.less_equal(time)

    def left_out(self, counts: Mapping[Time, int], position: Any = None) -> int:
        """Of updates at times not beyond ``reported``: how many were before the start; the others came late.

        Raises StartError for a time that is not beyond ``begins``. Cost: linear in the times.

        >>> Ledger([5], begins=[0]).left_out({3: 2})
        2
        """
        if self._origin is None:
            return 0
        start, begins = self._origin
        before = [time for time in counts if not start.less_equal(time)]
        early = [time for time in before if not begins.less_equal(time)]
        if early:
            first = min(early, key=sort_key)
            raise StartError(first, counts[first], begins, position=position)
        return sum(counts[time] for time in before)

    # -- statements ---------------------------------------------------------------------------------------------

    def state(self, statements: Iterable[tuple[Progress, Any]]) -> None:
        """Take in statements, each with its position (or None): all of them, or none when it raises.

        Raises ContradictionError when two statements differ at a time that is now not beyond ``known``, or when
        more updates were received there than are stated; StartError for updates that are stated before ``begins``;
        MalformedError for times of another kind.
        Cost: O(counts · log open) for integers.
        """
        arrived = []
        statements = list(statements)
        for statement, position in statements:
            self._check_begins(statement, position)
        for statement, position in statements:
            if statement.lower == statement.upper or not self._needed(statement):
                self.repeated_statements += 1
            else:
                arrived.append(ReadStatement(statement, position))
        if not arrived:
            return
        plan = self._coverage.plan(arrived)
        counts, disputes = self._compare(plan, arrived)
        moved = plan.known != self.known
        crossed = self._held.between(self.known, plan.known) if moved else []
        for time in crossed:
            disputes.extend(self._surplus(time, counts.get(time)))
        if disputes and not self._quarantine:
            raise min(disputes, key=lambda dispute: sort_key(dispute.time)).error()
        self._coverage.accept(plan)
        self.repeated_statements += plan.repeats
        for time, stated in counts.items():
            self._expected[time] = stated
        self._contest(disputes)
        for time in {*counts, *crossed, *self.contested, *self._withheld}:
            self._refresh(time)

    def _check_begins(self, statement: Progress, position: Any) -> None:
        if self._origin is not None and not statement.lower.dominates(self._origin[1]):
            self.left_out(dict(statement.counts), position)

    def _needed(self, statement: Progress) -> bool:
        # Comparing names the two kinds of times, should the statement be of another kind than the log.
        self.reported.less_equal(statement.lower.elements[0])
        # A wholly finished statement cannot be compared with anything any more.
        return not self.reported.dominates(statement.upper)

    def _compare(
        self, plan: CoveragePlan, arrived: list[ReadStatement]
    ) -> tuple[dict[Time, tuple[int, Any]], list[Dispute]]:
        """The counts at times that cease to be beyond known, and what contradicts them or those before."""
        counts: dict[Time, tuple[int, Any]] = {
            time: (count, None) for time, count in self._ruled.items() if count and self._crosses(time, plan)
        }
        for (statement, position), _ in plan.reached:
            for time, count in statement.counts:
                if time not in counts and self._crosses(time, plan) and time not in self._ruled:
                    counts[time] = (count, position)
        fresh: OpenTimes[tuple[int, Any]] = OpenTimes(total=self._coverage.total)
        for time, stated in counts.items():
            fresh[time] = stated
        disputes: list[Dispute] = []
        # What was recorded before has been compared with those that wait: when it was recorded, or when they came.
        for stated_before in self._coverage.affected(plan):
            disputes.extend(self._differences(stated_before, plan, self.known, fresh))
        for stated_now in arrived:
            disputes.extend(self._differences(stated_now, plan, self.reported, self._expected, fresh))
        return counts, disputes

    def _crosses(self, time: Time, plan: CoveragePlan) -> bool:
        return self.known.less_equal(time) and not plan.known.less_equal(time)

    def _differences(
        self, stated: ReadStatement, plan: CoveragePlan, since: Antichain, *recorded_at: OpenTimes[tuple[int, Any]]
    ) -> Iterable[Dispute]:
        """Where ``stated`` differs from what is recorded, at times beyond ``since`` and not beyond the new known."""
        statement, position = stated
        latest = {
            time: count for time, count in statement.counts
            if since.less_equal(time) and not plan.known.less_equal(time)
        }
        for time, count in latest.items():
            recorded, where = next((held[time] for held in recorded_at if time in held), (0, None))
            if recorded != count and time not in self._ruled:
                yield Dispute("count", time, recorded, count, (where, position))
        for held in recorded_at:
            for time in held.between(statement.lower, statement.upper):
                if time not in latest and time not in self._ruled:
                    recorded, where = held[time]
                    yield Dispute("count", time, recorded, 0, (where, position))

    # -- arrivals -----------------------------------------------------------------------------------------------

    def arrived(self, counts: Mapping[Time, int], *, exact: bool = True) -> None:
        """Add, for times beyond ``reported``, the number of new distinct identities held there.

        With ``exact=False`` they are numbers of rows, of which some may be repeats. Raises ContradictionError,
        and changes nothing, when more are held at a time not beyond ``known`` than are stated.
        Cost: O(log open) per time.
        """
        # At a time beyond known nothing can be too much yet, and nothing holds reported back.
        reached = [time for time in counts if not self.known.less_equal(time)]
        if exact and not self._quarantine:
            for time in reached:
                if time not in self._unfolded:
                    for dispute in self._surplus(time, self._expected.get(time), more=counts[time]):
                        raise dispute.error()
        for time, count in counts.items():
            self._held[time] = self._held.get(time, 0) + count
            if not exact:
                self._unfolded.add(time)
        for time in reached:
            self._refresh(time)

    def to_fold(self) -> list[Time]:
        """The times, sorted, whose exact number of distinct identities must be reported before settling.

        They are not beyond ``known``, rows have been added since they were folded last, and there are at least
        as many rows as stated. Cost: O(times with unfolded rows).
        """
        asked = [
            time for time in self._unfolded
            if not self.known.less_equal(time) and self._held[time] >= self._expected.get(time, (0, None))[0]
        ]
        return sorted(asked, key=sort_key)

    def folded(self, counts: Mapping[Time, int]) -> None:
        """Take the exact numbers of distinct identities at some times.

        Raises ContradictionError, and changes nothing, when one exceeds what is stated (at a time not beyond
        ``known``). Cost: O(log open) per time.
        """
        disputes = [
            dispute for time, count in counts.items()
            for dispute in self._surplus(time, self._expected.get(time), total=count)
        ]
        if disputes and not self._quarantine:
            raise min(disputes, key=lambda dispute: sort_key(dispute.time)).error()
        for time, count in counts.items():
            self._unfolded.discard(time)
            if count:
                self._held[time] = count
            else:
                self._held.pop(time)
            self._refresh(time)

    def _surplus(
        self, time: Time, stated: tuple[int, Any] | None, *, more: int = 0, total: int | None = None
    ) -> Iterable[Dispute]:
        """The dispute over too many updates at ``time``, if there is one. Unfolded rows prove nothing."""
        if total is None:
            if time in self._unfolded:
                return
            total = self._held.get(time, 0) + more
            if more and self.known.less_equal(time):
                return
        elif self.known.less_equal(time):
            return
        # Where a count was ruled, that is what is stated.
        count, position = stated or (0, None)
        if total > count:
            yield Dispute("surplus", time, count, total, (position, None))

    # -- settling -----------------------------------------------------------------------------------------------

    def _refresh(self, time: Time) -> None:
        """Make ``_due`` right about ``time`` after any change there."""
        if not self.known.less_equal(time):
            expected = self._expected.get(time, (0, None))
            held = self._held.get(time, 0)
            if self._quarantine:
                self._lift(time, "surplus")
                self._contest(self._surplus(time, expected))
            disputed = time in self.contested or time in self._withheld
            due = expected[0] > held or time in self._unfolded or disputed
        else:
            due = False
        if due != (self._due.count(time) > 0):
            self._due.update([(time, 1 if due else -1)])

    @property
    def complete(self) -> Antichain:
        """How far ``reported`` could move: everything not beyond it is stated, and has arrived."""
        return self.known.meet(self._due.frontier)

    def settle(self) -> Antichain:
        """Move ``reported`` as far as the facts allow, forget what is not beyond it, and return it.

        Cost: what is forgotten, and for partial orders the open times.
        """
        frontier = self.complete
        if frontier != self.reported:
            self.reported = frontier
            for kept in (self._expected, self._held):
                for time in kept.not_beyond(frontier):
                    kept.pop(time)
            for time in [time for time in self._ruled if not frontier.less_equal(time)]:
                del self._ruled[time]
        return self.reported

    # -- quarantine ---------------------------------------------------------------------------------------------

    def hold(self, dispute: Dispute, reason: Hashable) -> None:
        """Make a time contested for a reason of the caller's: two diffs for one identity."""
        self.contested.setdefault(dispute.time, {}).setdefault(reason, dispute)
        self._refresh(dispute.time)

    def lift(self, time: Time, reason: Hashable) -> None:
        """Withdraw a :meth:`hold`."""
        self._lift(time, reason)
        self._refresh(time)

    def withhold(self, times: Iterable[Time]) -> None:
        """Hold ``reported`` at these times, as far as they are open, and no more at those of the last call.

        They are in dispute by what other readings met, whatever is met here. An exported state does not have them.
        """
        before, self._withheld = self._withheld, {time for time in times if self.keeps(time)}
        for time in before ^ self._withheld:
            self._refresh(time)

    def rule(self, time: Time, count: int) -> None:
        """Fix the count at ``time``, against all statements. Raises MalformedError for a negative count."""
        if type(count) is not int or count < 0:
            raise MalformedError(f"the count {count!r} ruled at time {time!r} is not an int from 0 on")
        self._ruled[time] = count
        if not self.known.less_equal(time):
            self._expected.pop(time)
            if count:
                self._expected[time] = (count, None)
        self._lift(time, "count")
        self._refresh(time)

    def withdrew(self, time: Time) -> None:
        """Take note that one distinct identity at ``time`` does not count any more."""
        self._held[time] = self._held[time] - 1
        self._refresh(time)

    def _lift(self, time: Time, reason: Hashable) -> None:
        reasons = self.contested.get(time, {})
        reasons.pop(reason, None)
        if not reasons:
            self.contested.pop(time, None)

    def _contest(self, disputes: Iterable[Dispute]) -> None:
        for dispute in disputes:
            self.contested.setdefault(dispute.time, {}).setdefault(dispute.what, dispute)

    # -- looking ------------------------------------------------------------------------------------------------

    def missing(self) -> MissingUpdates:
        """What lacks below the join of the stated uppers. Cost: linear in what is open and waiting."""
        lacking: dict[Time, int] = {}
        stated = [(time, count) for time, (count, _) in self._expected.items()]
        for statement, _ in self._coverage.waiting():
            stated += [(time, count) for time, count in statement.counts if self.known.less_equal(time)]
        for time, count in stated:
            short = count - self._held.get(time, 0)
            if short > 0:
                # Statements that wait may differ, and will contradict each other; in whatever order they came.
                lacking[time] = max(short, lacking.get(time, 0))
        return MissingUpdates(
            tuple(self._coverage.gaps()),
            tuple(sorted(lacking.items(), key=lambda item: sort_key(item[0]))),
            tuple(sorted({*self.contested, *self._withheld}, key=sort_key)),
        )

    def open_times(self) -> dict[Time, tuple[int | None, int]]:
        """Open time -> (stated count, None while it is beyond ``known``; rows held), sorted by time."""
        times = sorted({*self._expected, *self._held}, key=sort_key)
        return {
            time: (
                None if self.known.less_equal(time) else self._expected.get(time, (0, None))[0],
                self._held.get(time, 0),
            )
            for time in times
        }

    def waiting_statements(self) -> int:
        """How many statements wait to be reached."""
        return len(self._coverage.waiting())

    def unreached(self) -> list[Progress]:
        """The statements that wait to be reached."""
        return [stated.statement for stated in self._coverage.waiting()]

    def copy(self) -> Ledger:
        """An independent ledger in the same state."""
        return copy.deepcopy(self)

    # -- export -------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """The state as plain values that JSON can hold, with a version. Raises MalformedError for exotic times."""
        return {
            "version": VERSION,
            "quarantine": self._quarantine,
            "total": self._coverage.total,
            "origin": None if self._origin is None else [one.to_plain() for one in self._origin],
            "reported": self.reported.to_plain(),
            "known": self.known.to_plain(),
            "expected": [[to_plain(time), count, _plain(where)] for time, (count, where) in self._expected.items()],
            "held": [[to_plain(time), count, time not in self._unfolded] for time, count in self._held.items()],
            "waiting": [_plain_statement(stated) for stated in self._coverage.waiting()],
            "ruled": [[to_plain(time), count] for time, count in self._ruled.items()],
            "contested": [
                [reason, dispute.what, to_plain(time), dispute.first, dispute.second,
                 [_plain(where) for where in dispute.positions]]
                for time, reasons in self.contested.items() for reason, dispute in reasons.items()
                if dispute.what != "diff"
            ],
            "repeated_statements": self.repeated_statements,
        }

    @classmethod
    def restore(cls, plain: Mapping[str, Any], *, start: Antichain | None = None) -> Ledger:
        """The ledger that :meth:`export` made this of. Raises MalformedError for another version.

        ``start`` is where it began, if that is known, for a state that was exported without.
        """
        if plain.get("version") != VERSION:
            raise MalformedError(f"a reader's state of version {plain.get('version')!r}: this release reads {VERSION}")
        origin = plain.get("origin")
        begun: tuple[Antichain, Antichain] | None
        if origin is not None:
            begun = Antichain.from_plain(origin[0]), Antichain.from_plain(origin[1])
        else:
            begun = None if start is None else (start, start)
        waiting = [
            ReadStatement(
                Progress(
                    Antichain.from_plain(lower), Antichain.from_plain(upper),
                    [(from_plain(time), count) for time, count in counts],
                ),
                _position(where),
            )
            for lower, upper, counts, where in plain["waiting"]
        ]
        ledger = cls.resumed(
            begun, Antichain.from_plain(plain["reported"]), Antichain.from_plain(plain["known"]),
            expected={from_plain(time): (count, _position(where)) for time, count, where in plain["expected"]},
            held={from_plain(time): count for time, count, _ in plain["held"]},
            waiting=waiting, repeated_statements=plain["repeated_statements"], total=plain["total"],
            on_error="quarantine" if plain["quarantine"] else "raise",
        )
        ledger._unfolded = {from_plain(time) for time, _, exact in plain["held"] if not exact}
        ledger._ruled = {from_plain(time): count for time, count in plain["ruled"]}
        for reason, what, time, first, second, positions in plain["contested"]:
            where = (_position(positions[0]), _position(positions[1]))
            dispute = Dispute(what, from_plain(time), first, second, where)
            ledger.contested.setdefault(dispute.time, {})[reason] = dispute
        for open_time in {*ledger._expected, *ledger._held, *ledger.contested}:
            ledger._refresh(open_time)
        return ledger


def _plain_statement(stated: ReadStatement) -> list[Any]:
    statement, position = stated
    counts = [[to_plain(time), count] for time, count in statement.counts]
    return [statement.lower.to_plain(), statement.upper.to_plain(), counts, _plain(position)]


def _plain(position: Any) -> Any:
    if position is None:
        return None
    return list(position) if isinstance(position, Position) else str(position)


def _position(plain: Any) -> Any:
    return Position(*plain) if isinstance(plain, list) else plain
