"""The remap: which times of the timeline stand for how far the sources were.

A *binding* maps an into-time to a frontier of from-times. Bindings only ever go forward, so for every into-time t the
remap gives one frontier R(t), and an update of a source at the from-time s happens, on the timeline, at the first t
for which s is not beyond R(t). All updates of one from-time happen at one into-time; the same remap, kept somewhere
durable, gives the same answer to everybody and after every restart.

``since`` is the time from which on answers are exact: compaction forgets the bindings before it, and what happened
before it happens at it. ``upper`` is the frontier of the times that are not decided yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import ForgottenError, MalformedError, RefusedError
from cdcv2.timeline.binding import Binding, check_int
from cdcv2.timeline.gauges import frontier_from_plain, frontier_to_plain
from cdcv2.timeline.lookup import Lookup

#: The version of an exported remap; any other is refused.
VERSION = 1


class Remap:
    """The bindings from ``since`` on, and every read of them.

    >>> remap = Remap(Antichain([0]))
    >>> remap.mint(Antichain([3]), now=1000), remap.mint(Antichain([5]), now=2000)
    (Binding(lower=1, upper=1001, frontier=Antichain([3])), Binding(lower=1001, upper=2001, frontier=Antichain([5])))
    >>> [remap.into_of(line) for line in (0, 2, 3, 4, 5)]
    [1000, 1000, 2000, 2000, None]
    >>> remap.source_frontier_at(Antichain([1001]))
    Antichain([3])

    ``start`` is where the gauge begins. At time 0 nothing of the sources is in. Into-times are integers that only
    grow, as milliseconds do. Memory: the bindings after ``since``, each with a reference per element of its frontier.
    Source: the reclocking document, and Materialize's design of 2022 for what it leaves open.
    """

    def __init__(self, start: Antichain) -> None:
        if not start:
            raise MalformedError("a remap that starts where its source is finished binds nothing: give a gauge's start")
        self.start = start
        #: The bindings held: R(t) is the frontier at the greatest of their times that is not after t. The first of the
        #: times is since. A caller uses it to look up many from-times.
        self.lookup = Lookup([(0, start)])
        # The first time that is not decided; None: all are.
        self._end: int | None = 1
        # The greatest since that was asked for, and who reads from which time on.
        self._wanted = 0
        self._holds: dict[Hold, int] = {}

    @property
    def since(self) -> int:
        """The time from which on reads are exact."""
        return self.lookup.intos[0]

    @property
    def upper(self) -> Antichain:
        """The frontier of the times that are not decided; empty when the remap is closed."""
        return Antichain([] if self._end is None else [self._end])

    @property
    def last(self) -> int:
        """The last time that is decided; of a closed remap, the last at which something changes."""
        return self.lookup.intos[-1] if self._end is None else self._end - 1

    @property
    def current(self) -> Antichain:
        """The frontier that the sources have come to at the last time decided."""
        return self.lookup.frontiers[-1]

    def __len__(self) -> int:
        return len(self.lookup.intos)

    def bindings(self) -> Iterator[tuple[int, Antichain]]:
        """Each time held at which the frontier changes, and the frontier from there on; the first is at ``since``."""
        return zip(self.lookup.intos, self.lookup.frontiers)

    # -- deciding -----------------------------------------------------------------------------------------------

    def propose(self, observed: Antichain, now: int) -> Binding | None:
        """The binding that takes in what was observed of the sources; None when nothing of that is new.

        It is for the time ``now``, or the first undecided one when the clock is behind. What was observed may be
        older, in parts, than what is bound: the binding is the join. With nothing left to come it closes the remap.
        Raises RefusedError when the remap is closed and there is more. Cost: one join of two frontiers.
        """
        if self.current.dominates(observed):
            return None
        if self._end is None:
            raise RefusedError(
                f"the remap is closed at {self.current}, and a source has come to {observed}: what follows has no "
                "time on this timeline; begin a new one"
            )
        frontier = self.current.join(observed)
        return Binding(self._end, max(check_int(now), self._end) + 1 if frontier else None, frontier)

    def idle(self, now: int) -> Binding | None:
        """The binding that decides the times up to ``now`` without anything new; None when they are decided."""
        if self._end is None or check_int(now) < self._end:
            return None
        return Binding(self._end, now + 1, self.current)

    def close(self) -> Binding | None:
        """The binding that decides all times without anything new; None when they are decided."""
        return None if self._end is None else Binding(self._end, None, self.current)

    def mint(self, observed: Antichain, now: int) -> Binding | None:
        """Propose, and follow the proposal: for a remap that only this process binds into. See :meth:`propose`."""
        binding = self.propose(observed, now)
        if binding is not None:
            self.follow(binding)
        return binding

    def follow(self, binding: Binding) -> bool:
        """Take on a binding if it goes on where this remap ends, and not back; whether it did.

        This is the whole rule by which many who bind into one remap agree: of the bindings in one order, each reader
        takes on the same ones, and the others are void. Cost: one comparison of two frontiers.

        >>> remap = Remap(Antichain([0]))
        >>> [remap.follow(Binding(lower, upper, Antichain([line]))) for lower, upper, line in (
        ...     (1, 5, 3), (1, 9, 7), (5, 9, 2), (5, 9, 4))]
        [True, False, False, True]
        """
        if binding.lower != self._end or not all(map(self.lookup.reached, binding.frontier)):
            return False
        self._end = binding.upper
        if binding.frontier != self.current:
            self.lookup.append(binding.into, binding.frontier)
        return True

    def catch_up(self, other: Remap) -> list[Binding]:
        """Follow what another remap of the same bindings has decided and this one has not; the bindings for that.

        Where the other has forgotten times that this one has not come to, and something changed since, this one goes
        on at the other's ``since``, with no binding for what lies between. Raises ForgottenError when this remap is
        held before that, RefusedError when the two differ, so that they are not of the same bindings. Cost: the
        bindings of the other.

        >>> behind, ahead = Remap(Antichain([0])), Remap(Antichain([0]))
        >>> _ = ahead.mint(Antichain([3]), now=1000)
        >>> behind.catch_up(ahead)
        [Binding(lower=1, upper=1001, frontier=Antichain([3]))]
        """
        if self._end is None or (other._end is not None and other._end <= self._end):
            return []
        if other.since <= self.last and other.at(self.last) != self.current:
            raise RefusedError(
                f"at {self.last} the sources were at {self.current} here, and at {other.at(self.last)} in a remap that "
                "should be the same: one of them was read from another place. Read the remap again"
            )
        if other.since > self._end and other.lookup.frontiers[0] != self.current:
            if any(since < other.since for since in self._holds.values()):
                raise ForgottenError(
                    f"the remap was compacted to {other.since} by somebody, and is held here from "
                    f"{min(self._holds.values())} on, having come to {self._end}: what lies between is forgotten. "
                    "Stop, and resume from the output"
                )
            self.lookup = Lookup([(other.since, other.lookup.frontiers[0])])
            self._end = other.since + 1
        followed = [
            Binding(lower, into + 1, frontier) for lower, into, frontier in _after(self._end, other.bindings())
        ]
        end = followed[-1].upper if followed else self._end
        if end is not None and other._end != end:
            followed.append(Binding(end, other._end, other.current))
        for binding in followed:
            self.follow(binding)
        return followed

    # -- reading ------------------------------------------------------------------------------------------------

    def at(self, time: int) -> Antichain:
        """R(time): how far the sources are at a time of the timeline. Exactly the updates not beyond it have happened.

        Raises RefusedError for a time before ``since``, or one that is not decided. Cost: O(log bindings).
        """
        if check_int(time) < self.since:
            raise RefusedError(
                f"where the sources were at {time} is forgotten: the remap was compacted to {self.since}. Ask for a "
                "later time, and hold the remap where you read it"
            )
        if self._end is not None and time >= self._end:
            raise RefusedError(f"the time {time} is not decided: the remap has come to {self._end}; ask again later")
        return self.lookup.frontiers[bisect_right(self.lookup.intos, time) - 1]

    def into_of(self, time: Time) -> int | None:
        """When an update at this from-time happens on the timeline; None while no binding covers it.

        Raises MalformedError for a time of another gauge. Cost: see :meth:`~cdcv2.timeline.lookup.Lookup.into`.
        """
        return self.lookup.into(time)

    def reclock_frontier(self, source: Antichain) -> Antichain:
        """How far the timeline is complete when its sources are at ``source``: nothing to come is before it.

        Never beyond ``upper``. Cost: as of :meth:`into_of`, for each element.
        """
        intos = (self.into_of(time) for time in source)
        return self.upper.meet(Antichain(into for into in intos if into is not None))

    def source_frontier_at(self, output: Antichain) -> Antichain:
        """From where the sources must be read for an output that is complete up to ``output``: the inverse.

        Everything at times not beyond ``output`` comes from updates that are not beyond the answer. At or before
        ``since`` the answer is the start. That is right for a new output. But then what is read again gets the time
        ``since``, which an output that resumes has not passed: ``transactions.resume`` refuses that.

        Raises RefusedError for an output that is ahead of the remap: it was written under another one. Cost: O(log
        bindings).
        """
        if not output:
            return Antichain()
        time = check_int(output.elements[0])
        if time <= self.since:
            return self.start
        if self._end is not None and time > self._end:
            raise RefusedError(
                f"the output is complete up to {time} and its remap has come to {self._end} only: they do not belong "
                "together, or the remap has lost its end. Name the remap that the output was written with"
            )
        return self.at(time - 1)

    # -- forgetting ---------------------------------------------------------------------------------------------

    def hold(self, since: int | None = None) -> Hold:
        """A promise that times from ``since`` on stay readable (default: all that are), until it is moved or released.

        Raises RefusedError for a time that is forgotten already.
        """
        wanted = self.since if since is None else since
        if check_int(wanted) < self.since:
            raise RefusedError(
                f"times from {wanted} on cannot be held: the remap was compacted to {self.since}. What was to be read "
                "from there has to start over"
            )
        return Hold(self, wanted)

    def compact(self, since: int) -> None:
        """Forget what only reads before ``since`` need, as far as the holds allow; the rest when they allow it.

        Every read at times from ``since`` on is as before, and what happened before it happens at it. Raises
        RefusedError for a time before ``since`` now, or one that is not decided. Cost: what is forgotten.
        """
        if check_int(since) < self.since:
            raise RefusedError(f"the remap was compacted to {self.since}: it cannot be compacted back to {since}")
        if self._end is not None and since >= self._end:
            raise RefusedError(
                f"the remap cannot be compacted to {since}, which is not decided: it has come to {self._end}. Compact "
                "to a time that the output has passed"
            )
        self._wanted = max(self._wanted, since)
        self._forget()

    def _forget(self) -> None:
        since = min(self._wanted, *self._holds.values()) if self._holds else self._wanted
        if since > self.since:
            self.lookup.forget(since)

    # -- export -------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """The remap as plain values that JSON can hold, with a version; holds are not part of it."""
        return {
            "version": VERSION,
            "start": frontier_to_plain(self.start),
            "upper": self._end,
            "bindings": [[into, frontier_to_plain(frontier)] for into, frontier in self.bindings()],
        }

    @classmethod
    def restore(cls, plain: Mapping[str, Any]) -> Remap:
        """The remap that :meth:`export` made this of. Raises MalformedError for anything else."""
        version = plain.get("version") if isinstance(plain, Mapping) else None
        if version != VERSION:
            raise MalformedError(f"a remap of version {version!r}: this release reads {VERSION}")
        try:
            remap = cls(frontier_from_plain(plain["start"]))
            pairs = [(check_int(into), frontier_from_plain(frontier)) for into, frontier in plain["bindings"]]
            end = plain["upper"]
        except (KeyError, TypeError, ValueError) as cause:
            raise MalformedError(f"no exported remap ({cause!r}): restore it from a whole copy") from None
        intos, frontiers = [into for into, _ in pairs], [frontier for _, frontier in pairs]
        ordered = intos == sorted(set(intos)) and (end is None or check_int(end) > max(intos, default=end))
        if not pairs or not ordered or not all(b.dominates(a) for a, b in zip(frontiers, frontiers[1:])):
            raise MalformedError(f"an exported remap whose bindings {intos} up to {end} do not grow: it is damaged")
        remap.lookup, remap._end, remap._wanted = Lookup(pairs), end, intos[0]
        return remap

    def check(self) -> None:
        """Audit the invariants; for tests. Raises AssertionError."""
        intos, frontiers = self.lookup.intos, self.lookup.frontiers
        assert intos == sorted(set(intos)) and len(intos) == len(frontiers)
        assert self._end is None or intos[-1] < self._end
        for before, after in zip(frontiers, frontiers[1:]):
            assert after.dominates(before) and after != before, f"{before} and then {after}"
        assert all(since >= self.since for since in self._holds.values())


class Hold:
    """A reader needs the remap from ``since`` on: see :meth:`Remap.hold`. Leaving the ``with`` block releases it.

    >>> remap = Remap(Antichain([0]))
    >>> _ = remap.mint(Antichain([3]), now=1000), remap.mint(Antichain([5]), now=2000)
    >>> with remap.hold(500):
    ...     remap.compact(1500)
    ...     remap.since
    500
    >>> remap.since
    1500
    """

    def __init__(self, remap: Remap, since: int) -> None:
        self._remap = remap
        remap._holds[self] = since

    @property
    def since(self) -> int | None:
        """The time from which on it holds; None when it is released."""
        return self._remap._holds.get(self)

    def move(self, since: int) -> None:
        """Hold from a later time on; a compaction that was waiting for that happens. Moving back does nothing."""
        held = self._remap._holds.get(self)
        if held is not None and check_int(since) > held:
            self._remap._holds[self] = since
            self._remap._forget()

    def release(self) -> None:
        """Hold nothing; a compaction that was waiting for that happens. Releasing twice is as good as once."""
        self._remap._holds.pop(self, None)
        self._remap._forget()

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _after(end: int, bindings: Iterator[tuple[int, Antichain]]) -> Iterator[tuple[int, int, Antichain]]:
    """Those from ``end`` on, each with the first time that the one before it has not decided."""
    for into, frontier in bindings:
        if into >= end:
            yield end, into, frontier
            end = into + 1
