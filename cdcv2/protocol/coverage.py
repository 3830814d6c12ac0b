"""Which times are stated: the union of the statements' intervals, and ``known``, how far it goes without a gap.

``known`` is the greatest frontier such that every time from the start on that is not beyond it is stated. When a
statement arrives, each element k of ``known`` that lies in its interval is replaced by the joins of k with the
elements of the statement's ``upper`` (*grafting*); a statement that cannot be reached yet waits, and is looked
at again when ``known`` moves, until ``known`` is beyond its ``upper``. For integers this is: waiting statements
sorted by ``lower``, and ``known`` the greatest ``upper`` reached.

Planning never changes anything; only :meth:`Coverage.accept` does. So a statement that turns out to contradict
another one leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sortedcontainers import SortedDict

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time, join, sort_key
from cdcv2.protocol.messages import Progress


class ReadStatement(NamedTuple):
    """A statement, and where it was read (None: unknown)."""

    statement: Progress
    position: Any = None


class CoveragePlan(NamedTuple):
    """What would follow from some statements; see :meth:`Coverage.plan`.

    ``known`` is the frontier that they lead to. ``reached`` are the statements, old and new, with times that
    cease to be beyond ``known``, in the order in which they take it on, each with ``known`` as it was before.
    ``done`` and ``waiting`` are the keys of those that need not wait (any more), and of those that start to.
    ``repeats`` counts new statements that are waiting already.
    """

    known: Antichain
    reached: list[tuple[ReadStatement, Antichain]]
    done: list[Any]
    waiting: list[tuple[Any, ReadStatement]]
    repeats: int


class Coverage:
    """The stated times of a log from ``start`` on.

    >>> coverage = Coverage(Antichain([0]))
    >>> for statement in (Progress([3], [5]), Progress([0], [3])):
    ...     coverage.accept(coverage.plan([ReadStatement(statement)]))
    >>> coverage.known
    Antichain([5])

    Cost of a statement: for integers O(log n) amortised, with n statements waiting; else, if it moves ``known``,
    O(n log n) per element of ``known``, for a chain of n statements as for one. Source: the CDCv2 post; for partial
    orders this goes further than the post, which grafts whole statements only and stops short where ``known`` is
    wide.
    """

    def __init__(self, start: Antichain, *, total: bool | None = None) -> None:
        #: Every time from the start on that is not beyond it is stated, and this holds for no greater frontier.
        self.known = start
        #: Whether times are integers, totally ordered.
        self.total = all(type(time) is int for time in start) and bool(start) if total is None else total
        # Key of a statement -> the statement; those of which known is not beyond the upper. Sorted by lower
        # for integers. Equal statements have equal keys, so each waits once.
        self._waiting: dict[Any, ReadStatement] = SortedDict() if self.total else {}

    def plan(self, arrived: Iterable[ReadStatement]) -> CoveragePlan:
        """What would follow from the statements of ``arrived``; changes nothing."""
        fresh: dict[Any, ReadStatement] = {}
        repeats = 0
        for stated in arrived:
            key = self._key(stated.statement)
            if key in self._waiting or key in fresh:
                repeats += 1
            else:
                fresh[key] = stated
        return self._plan_total(fresh, repeats) if self.total else self._plan_partial(fresh, repeats)

    def accept(self, plan: CoveragePlan) -> None:
        """Make ``plan``, the newest one made, come true."""
        self.known = plan.known
        for key in plan.done:
            self._waiting.pop(key, None)
        for key, stated in plan.waiting:
            self._waiting[key] = stated

    def waiting(self) -> list[ReadStatement]:
        """The statements of which ``known`` is not beyond the upper."""
        return list(self._waiting.values())

    def affected(self, plan: CoveragePlan) -> list[ReadStatement]:
        """The statements that wait now and may cover times that ``plan`` makes known, reached or not."""
        if not self.total:
            return self.waiting() if plan.known != self.known else []
        return [self._waiting[key] for key in plan.done if key in self._waiting]

    def gaps(self) -> list[tuple[Antichain, Antichain]]:
        """The intervals below the join of the stated uppers that no statement covers, in order.

        Each is ``(lower, upper)``. Found by filling the first gap and looking for the next one.
        """
        top = self.known
        for stated in self._waiting.values():
            top = top.join(stated.statement.upper)
        found: list[tuple[Antichain, Antichain]] = []
        probe = Coverage(self.known, total=self.total)
        probe._waiting = self._waiting.copy()
        while not probe.known.dominates(top):
            gap = probe._first_gap(top)
            found.append(gap)
            probe.accept(probe.plan([ReadStatement(Progress(*gap))]))
        return found

    def _first_gap(self, top: Antichain) -> tuple[Antichain, Antichain]:
        first = Antichain([next(time for time in self.known if not top.less_equal(time))])
        upper = first.join(top)
        for stated in self._waiting.values():
            # One whose upper the element is beyond covers nothing from there on.
            if not stated.statement.upper.less_equal(first.elements[0]):
                upper = upper.meet(first.join(stated.statement.lower))
                if self.total:
                    break
        return first, upper

    def _key(self, statement: Progress) -> Any:
        if not self.total:
            return statement
        upper = statement.upper.elements[0] if statement.upper else MAX_TIME + 1
        return statement.lower.elements[0], upper, statement.counts

    def _plan_total(self, fresh: dict[Any, ReadStatement], repeats: int) -> CoveragePlan:
        end = MAX_TIME + 1
        old: Any = self.known.elements[0] if self.known else end
        at, reached, done = old, [], []
        for key, stated in _merged(self._waiting, sorted(fresh), fresh):
            lower, upper = key[0], key[1]
            if lower > at:
                break
            if upper > at:
                reached.append((stated, _frontier(at)))
                at = upper
            done.append(key)
        gone = set(done)
        waiting = [(key, stated) for key, stated in fresh.items() if key not in gone]
        return CoveragePlan(self.known if at == old else _frontier(at), reached, done, waiting, repeats)

    def _plan_partial(self, fresh: dict[Any, ReadStatement], repeats: int) -> CoveragePlan:
        known, reached = self.known, []
        pool = fresh
        # Those that wait move nothing before a new one does.
        moved = any(stated.statement.covers(time) for stated in fresh.values() for time in known)
        if moved:
            # Earlier ones first: a chain that waited is taken in by one pass, and the next finds nothing left.
            everything = {**self._waiting, **fresh}
            pool = dict(sorted(everything.items(), key=lambda item: sort_key(item[0].lower.elements[0])))
        while moved:
            moved = False
            for stated in pool.values():
                grafted = graft(known, stated.statement)
                if grafted != known:
                    reached.append((stated, known))
                    known, moved = grafted, True
        done = [key for key, stated in pool.items() if known.dominates(stated.statement.upper)]
        gone = set(done)
        waiting = [(key, stated) for key, stated in fresh.items() if key not in gone]
        return CoveragePlan(known, reached, done, waiting, repeats)


def graft(known: Antichain, statement: Progress) -> Antichain:
    """``known`` when ``statement`` is stated as well: its elements in the interval are carried to the upper.

    >>> from cdcv2.core.order import Product
    >>> known = Antichain([Product(0, 1), Product(1, 0)])
    >>> graft(known, Progress([Product(0, 1)], [Product(0, 2)]))
    Antichain([Product(0, 2), Product(1, 0)])

    Cost: one join per element of ``known`` in the interval and element of the upper.
    """
    moving = [time for time in known if statement.covers(time)]
    if not moving:
        return known
    carried: list[Time] = [time for time in known if time not in moving]
    for time in moving:
        joins = (join(time, upper) for upper in statement.upper)
        carried.extend(joined for joined in joins if joined is not None)
    return Antichain(carried)


def _frontier(time: int) -> Antichain:
    return Antichain() if time > MAX_TIME else Antichain([time])


def _merged(waiting: Any, order: list[Any], fresh: dict[Any, ReadStatement]) -> Iterator[tuple[Any, ReadStatement]]:
    # Both are sorted by key, that is by lower first. Lazily: the waiting ones behind a gap are not looked at.
    keys = iter(waiting)
    held = next(keys, None)
    for key in order:
        while held is not None and held < key:
            yield held, waiting[held]
            held = next(keys, None)
        yield key, fresh[key]
    while held is not None:
        yield held, waiting[held]
        held = next(keys, None)
