"""Capture on a shared remap: bindings alone decide which records are in at which time.

Each turn observes how far the topics are, proposes a binding for that, reads exactly what is bound (by any capture),
and writes it at its times. Then all logs are stated up to the last of these. A backlog is bound in as many steps as a
turn can carry. The content of the logs is a function of remap and topics alone. So any number of captures of one recipe
may write the same logs: started at other moments, with other sizes, one stopped for an hour, one killed anywhere.

A capture resumes at the meet of its logs: everything before that is written. What some log has beyond it is read again,
and not written again. The remap has the positions of the topics at that time. No other state is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from cdcv2 import failpoints
from cdcv2.capture.binder import Binder
from cdcv2.capture.facts import Record
from cdcv2.capture.run import retention_check
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.capture.transactions_on_timeline import resume
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import DecodeError, ForeignStateError, RefusedError, SourceStop, UnsafeTopicError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.protocol.log import Place
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.positions import of_topics, places
from cdcv2.timeline.ranges import BoundRanges, next_stretch
from cdcv2.timeline.remap import Remap
from cdcv2.timeline.shared_remap import AcceptedBinding

READ = failpoints.declare("shared-capture.read", "all records of some bindings are read; nothing of them is stated")
#: The first and the last time at which a log has updates; None: it has none.
Span: TypeAlias = tuple[Time, Time] | None


class RemapOutput(Protocol):
    """What becomes of the records of some topics: logs, stated time after time."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it takes records of."""

    def log_frontiers(self) -> Iterable[tuple[str, Antichain]]:
        """How far each of its logs is stated, with the table that it is of."""

    def spans(self) -> Iterable[tuple[str, Span]]:
        """The first and the last time at which each of its logs has updates, with the log's name; None: at none."""

    def resume(
        self, frontier: Antichain, before: Mapping[Place, int], ranges: Ranges
    ) -> Mapping[Place, tuple[int, int]]:
        """Go on at a frontier, before which the topics were at ``before``; what of that it needs once more.

        What it can only find by looking it reads itself, of ``ranges``. One that is stopped for good, as its logs keep,
        reads nothing: see :meth:`stopped`.
        """

    def restore(self, record: Record) -> None:
        """Take a record that was written before, and is needed once more."""

    def take(self, record: Record, into: int) -> None:
        """Take a record at its time. Raises DecodeError for one that is none."""

    def advance(self, frontier: Antichain) -> None:
        """All records before the frontier were taken: write and state. Raises SourceStop when all before is written."""

    def stopped(self) -> SourceStop | None:
        """Why nothing more can be written, now and after every restart."""

    @property
    def has_started(self) -> bool:
        """Whether anything is stated of its tables: of a database nothing is before its snapshot is whole."""

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as their connector does not cover them, or has not all their rows."""

    def waits(self) -> str | None:
        """What it holds on to, in words, if it does."""

    @property
    def held(self) -> int:
        """How many records it holds."""

    def close(self) -> None:
        """Release the logs. States nothing."""


class SharedCapture:
    """Carries what is bound into logs. One thread.

    ``binder`` has started, and belongs to no other capture; ``at_most`` is about how many records are read at once: at
    least those of one binding. ``own`` is called once the logs are known to be of this remap, before anything is
    written to them or held for them. Raises RefusedError if the remap has forgotten the positions of the topics,
    ForeignStateError for logs that were written with another remap, and what the remap and the outputs raise. An error
    of :meth:`carry` ends this object: open another, with another binder.
    """

    def __init__(
        self, binder: Binder, ranges: Ranges, outputs: Sequence[RemapOutput], *, at_most: int,
        own: Callable[[], object] = lambda: None,
    ) -> None:
        self._binder, self._ranges, self._outputs, self._at_most = binder, ranges, outputs, at_most
        self._output = {topic: output for output in outputs for topic in output.topics}
        # The logs were read after the remap, and others write them: only now the remap has all that they have.
        binder.follow()
        check_bound(binder.remap, [span for output in outputs for span in output.spans()])
        known = [
            binder.starts(table, check_int(at))
            for output in outputs for table, known in output.log_frontiers() for at in known
        ]
        begun = resume(binder.remap, [Antichain([at]) for at in known])
        own()
        #: All before is written.
        self.frontier = begun.frontier
        before = of_topics(places(begun.source), self._output)
        begins = {place: max(at, before.get(place, 0)) for place, at in binder.recipe.firsts.items()}
        self._read: Mapping[Place, int] = before | of_topics(begins, self._output)
        since = _held(begun.frontier)
        self._hold = binder.remap.hold(binder.remap.last if since is None else since)
        self.hold()
        self._pending: deque[AcceptedBinding] = deque()
        # Up to where the bindings go on from the frontier, those that are pending included.
        self._decided = begun.frontier
        for output in outputs:
            for record in ranges.read(output.resume(begun.frontier, self._read, ranges)):
                output.restore(record)
        #: How many records were taken.
        self.records = 0
        #: How many bindings of a backlog one turn may make: no more than it can carry.
        self.bindings = max(1, at_most // binder.at_most)

    # -- one turn

    def look(self) -> TopicExtents:
        """How far the topics are; all that is wanted of them is there. Raises UnsafeTopicError where it is not.

        Raises SourceStop first where nothing more can be written, which the logs may keep: its cause may be in the
        topics no more, and nothing is wanted of them.
        """
        self._demand_not_stopped()
        look = self._same_topics()
        retention_check.check(look, self._binder.remap, self._read, self._output)
        return look

    def _same_topics(self) -> TopicExtents:
        """How far the topics are, which are those that are bound."""
        look = self._ranges.look()
        recreated = self._binder.bound.recreated_topics(look.ids)
        if recreated:
            raise retention_check.recreated_topic(recreated[0], self._binder.remap, self._read)
        return look

    def carry(self) -> bool:
        """Read what is bound, the next part of it, and write it; whether anything was bound.

        Raises DecodeError and SourceStop once all before is written, and SourceStop where the next time is bound under
        another recipe.
        """
        self._demand_not_stopped()
        self._take_accepted()
        if not self._pending and self._binder.is_ours:
            return False
        stretch = next_stretch(
            self._pending, self._read, self._output, self._at_most, lambda text: not self._binder.differences(text)
        )
        if stretch is None:
            raise self._binder.stopped(check_int(self.frontier.elements[0]), self.frontier)
        wrong = self._take_records(stretch)
        failpoints.reach(READ)
        self._advance(stretch.upper if wrong is None else Antichain([wrong[0]]))
        if wrong is not None:
            raise wrong[1]
        for _ in range(stretch.bindings):
            self._pending.popleft()
        self._read = {**self._read, **stretch.end}
        return True

    def _demand_not_stopped(self) -> None:
        """Raise the SourceStop of the first output that can write nothing more."""
        for output in self._outputs:
            stop = output.stopped()
            if stop is not None:
                raise stop

    def _take_accepted(self) -> None:
        won = self._binder.won
        while won:
            one = won.popleft()
            upper = one.binding.upper
            if not self._decided or (upper is not None and upper <= check_int(self._decided.elements[0])):
                continue
            if self._decided.less_equal(one.binding.lower) and self._decided != Antichain([one.binding.lower]):
                raise RefusedError(
                    f"of the bindings after {self._decided} those before {one.binding.lower} were carried by another "
                    "capture: give each a binder of its own"
                )
            self._pending.append(one)
            self._decided = Antichain([] if upper is None else [upper])

    def _take_records(self, stretch: BoundRanges) -> tuple[int, DecodeError] | None:
        """Take all records; the first time at which one of them is none, and the error."""
        try:
            wrong = list(self._taken(stretch))
        except UnsafeTopicError:
            # A new look may raise an error that names the times that are lost.
            self.look()
            raise
        # A topic that was deleted meanwhile may have given records of its successor.
        self._same_topics()
        return min(wrong, key=lambda one: (one[0], str(one[1].position)), default=None)

    def _taken(self, stretch: BoundRanges) -> Iterator[tuple[int, DecodeError]]:
        """Take the records; those that are none, with their times."""
        for record in self._ranges.read(stretch.ranges):
            into = stretch.into((record.topic, record.partition), record.offset)
            try:
                self._output[record.topic].take(record, into)
                self.records += 1
            except DecodeError as error:
                yield into, error

    def _advance(self, frontier: Antichain) -> None:
        stops = []
        for output in self._outputs:
            try:
                output.advance(frontier)
            except SourceStop as stop:
                stops.append(stop)
        if stops:
            raise stops[0]
        self.frontier = frontier
        since = _held(frontier)
        self._hold.move(self._binder.remap.last if since is None else since)
        self.hold(seldom=True)

    def hold(self, *, seldom: bool = False) -> None:
        """Have it known from when on the logs need the remap; see :meth:`~cdcv2.capture.binder.Binder.hold`."""
        self._binder.hold(_held(self.frontier), seldom=seldom)

    @property
    def complete(self) -> Antichain:
        """Up to where all tables are complete: not at all while a database has no output, or no table is covered."""
        if set(self.coverage.uncovered).issuperset(self._binder.recipe.tables):
            return Antichain([0])
        return self.frontier if all(output.has_started for output in self._outputs) else Antichain([0])

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as their connector does not cover them, or has not all their rows."""
        each = [output.coverage for output in self._outputs]
        uncovered = sorted(table for one in each for table in one.uncovered)
        return TableCoverage(tuple(uncovered), {}, tuple(sorted(table for one in each for table in one.partial)))

    def waits(self) -> list[str]:
        """What is held that more records may complete."""
        return [text for text, _ in self.waits_by_topics()]

    def waits_by_topics(self) -> list[tuple[str, list[str]]]:
        """The same, each with the topics of its source."""
        each = [(output.waits(), sorted(output.topics)) for output in self._outputs]
        return [(text, topics) for text, topics in each if text is not None]

    @property
    def held(self) -> int:
        """How many records are held."""
        return sum(output.held for output in self._outputs)

    @property
    def has_carried_all(self) -> bool:
        """Whether all that is bound was read and written, as far as it can be."""
        return not self._pending and not self._binder.won

    def close(self) -> None:
        """Release logs and remap. States nothing."""
        self._hold.release()
        for output in self._outputs:
            output.close()


def check_bound(remap: Remap, spans: Iterable[tuple[str, Span]]) -> None:
    """Raise ForeignStateError unless the logs have updates only where something is bound, as with this remap.

    Looked at is the first and the last time of each: times of two timelines are hardly the same.
    """
    bound = {into for into, _ in remap.bindings()}
    for name, span in spans:
        odd = next((time for time in span or () if check_int(time) > remap.since and time not in bound), None)
        if odd is not None:
            raise ForeignStateError(
                f"the log {name} has updates at {odd}, a time at which this remap binds nothing: it was written with "
                "another remap, or by a capture without one. Name that remap, or give this capture logs of its own"
            )


def _held(frontier: Antichain) -> int | None:
    """From when on the remap is needed by logs that are complete up to there; None: finished ones need nothing."""
    return max(0, check_int(frontier.elements[0]) - 1) if frontier else None


def run(
    capture: SharedCapture,
    binder: Binder,
    *,
    follow: bool = False,
    stopping: Callable[[], bool] = lambda: False,
    wait: Callable[[], None] = lambda: None,
    turn: Callable[[TopicExtents], object] = lambda look: None,
) -> None:
    """Take turns until everything that the topics hold at the start is written; when following, until ``stopping``.

    ``wait`` is called when nothing happens, ``turn`` after each turn, with how far the topics were. Raises what
    ``capture`` and ``binder`` raise.
    """
    look = capture.look()
    while not stopping():
        if follow:
            look = capture.look()
        moved = False
        for _ in range(capture.bindings):
            if not binder.bind(look):
                break
            moved = True
        moved = capture.carry() or moved
        turn(look)
        if not moved:
            if not follow and binder.caught_up(look.ends):
                break
            wait()
    capture.hold()
