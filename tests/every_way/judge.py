"""The result that every capture must have, by definition: all that is in the topics up to some cut, judged afresh.

The judge knows what really happened (each record names its event) and keeps only what was released. It works on cuts:
so many records of each partition are known. Of a cut it decides which transactions are whole, and whose records
contradict what the connector may send: those are *culprits*. Nothing of a culprit is released from the cut on
that shows it, and nothing behind it; that is a stop. A stop is *due* when all before the culprit is whole; one that is
not due may stop a capture already. What was given out before any record showed that it was wrong is no fault, but then
the capture must stop when one does. Where records contradict each other about what was given out rightly, a capture may
stop and need not. A capture without its memory knows of a snapshot that is given out how many rows it has, and no
positions: as long as it has read no more than that, it need not know that one of them is none of those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise

from tests.every_way.connector import OLD, TRANSACTIONS, Place, Sent
from tests.every_way.database import RARE, SNAPSHOT_LSN, TABLES, Change, Difference, difference
from tests.every_way.world import EARLY_BEGIN, Cut, World

#: The snapshot as a transaction before all others.
SNAPSHOT = 0
#: An LSN behind all.
EVER = 2**62
#: Why: an END that stands behind one of a later transaction.
LATE_END = "a late END"
#: Why: a connector before 3.7.0 was restarted inside a transaction.
NUMBERED_AGAIN = "numbered from 1 again"
TWO_ROWS = "two rows of one number"
#: With these, rows of a snapshot are in the topics twice.
TWICE = {"snapshot begun twice", "late snapshot row", "one snapshot row more"}
Facts = dict[str, Difference]


@dataclass(frozen=True)
class Way:
    """What is asked of a capture."""

    #: "commit" or "complete".
    ordering: str = "commit"
    #: Whether old rows come from the state, so that a TRUNCATE can be carried over.
    state: bool = False


@dataclass(frozen=True)
class Culprit:
    """Why a capture stops. ``at`` is the LSN from which on nothing may be given out; ``must``: it is certain.

    ``now``: it is due whatever came before; ``at_once``: a capture may stop before what comes before is written.
    """

    why: str
    at: int
    must: bool
    tx: int | None = None
    now: bool = False
    at_once: bool = False
    #: The transaction before the snapshot that it is.
    early: int | None = None
    #: Whether it is of another snapshot than the first one: a stop that speaks of a second one is for no other.
    another: bool = False

    @property
    def words(self) -> set[str]:
        """One of them is in the reason of a stop for it."""
        return {str(self.tx)} if self.tx is not None else {"snapshot", "snapshots", str(self.early)}


@dataclass
class Known:
    """The records up to a cut."""

    world: World
    cut: Cut

    @cached_property
    def all(self) -> list[tuple[Place, int, Sent]]:
        """Each with where it is."""
        return [(place, at, one) for place, found in self.world.entries.items()
                for at, one in enumerate(found[:self.cut.get(place, 0)])]

    def of(self, what: str, tx: int | None = None) -> list[Sent]:
        """Of one kind, those of one topic in order."""
        return [one for _, _, one in self.all if one.what == what and tx in (None, one.tx)]

    def begins_twice(self, tx: int) -> bool:
        """Whether two BEGINs of the transaction follow each other in their topic."""
        found = [one for one in self.world.entries.get((TRANSACTIONS, 0), ()) if one.what in ("begin", "end")]
        found = found[:sum(one.what in ("begin", "end") for _, _, one in self.all)]
        return any(one.what == other.what == "begin" and one.tx == other.tx == tx for one, other in pairwise(found))

    def ends(self) -> list[Sent]:
        """The first END of each transaction, in the order of the topic."""
        first: dict[int, Sent] = {}
        for one in self.of("end"):
            first.setdefault(one.tx, one)
        return list(first.values())

    def rows(self, tx: int) -> dict[str, dict[int, Sent]]:
        """By table and number the first record of each row of a transaction."""
        found: dict[str, dict[int, Sent]] = {}
        for one in self.of("row", tx):
            found.setdefault(one.table, {}).setdefault(one.number, one)
        return found

    # -- the snapshot

    @property
    def scanned(self) -> dict[str, int] | None:
        """How many rows the completed run has; None: none is completed."""
        notes = self.of("note")
        if not any(one.kind == "COMPLETED" for one in notes):
            return None
        notes = notes[:next(at for at, one in enumerate(notes) if one.kind == "COMPLETED")]
        started = max(at for at, one in enumerate(notes) if one.kind == "STARTED")
        return {table: rows for one in notes[started:] for table, rows in one.counts}

    def has_more_than_scanned(self, reads: Iterable[Sent]) -> bool:
        """Whether these rows are more than the completed run has; of a table that it does not name it has none."""
        held, scanned = Counter(one.table for one in reads), self.scanned
        return scanned is not None and any(number > scanned.get(table, 0) for table, number in held.items())

    def first_reads(self) -> list[Sent]:
        """The rows of the first snapshot, of a run that was broken off, too; of another one if no others are known."""
        reads = self.of("read")
        first = [one for one in reads if one.commit <= SNAPSHOT_LSN]
        return first or (reads if any(self.world.database.snapshot.values()) else [])

    def reads(self) -> Counter[str]:
        """How many of these rows of each table are known."""
        return Counter(one.table for one in self.first_reads())

    def snapshot_is_whole(self) -> bool:
        """Whether it can be given out."""
        if self.world.snapshot == "marked":
            return any(one.kind == "last" for one in self.of("read"))
        return self.scanned is not None and all(self.reads()[table] >= n for table, n in self.scanned.items())

    def snapshot_facts(self) -> Facts:
        """Its rows."""
        return facts_of(self.first_reads())

    # -- transactions

    def is_whole(self, end: Sent) -> bool:
        """Whether each table has all numbers from 1 to what END counts."""
        rows = self.rows(end.tx)
        return all(set(range(1, number + 1)) <= rows.get(table, {}).keys() for table, number in end.counts)

    @cached_property
    def partial(self) -> frozenset[str]:
        """The tables whose first row that an END counts is none of an insert: nothing is stated of these.

        Also where that row is not read again yet: the logs state it since it was given out.
        """
        everything = Known(self.world, self.world.whole)
        for end in sorted(self.ends(), key=lambda one: one.commit) if self.world.late else ():
            first = everything.rows(end.tx).get(RARE, {}).get(1) if dict(end.counts).get(RARE) else None
            if first is not None and first.change is not None:
                return had_rows(first.change)
        return frozenset()

    def facts(self, end: Sent, held: Facts | None = None) -> Facts:
        """What the known rows of the transaction do; what it really did, if they are all of it.

        With ``held`` what they do to tables that held this: a TRUNCATE takes away that.
        """
        return {table: Counter() if table in self.partial else rows for table, rows in self._facts(end, held).items()}

    def _facts(self, end: Sent, held: Facts | None) -> Facts:
        rows = self.rows(end.tx)
        changes: dict[str, list[Change]] = {table: [] for table in TABLES}
        for table, number in end.counts:
            of_table = sorted(rows.get(table, {}).items())
            changes[table] += [one.change for at, one in of_table if one.change and at <= number]
        if held is not None:
            return {table: difference(done, held[table]) for table, done in changes.items()}
        real = next((one for one in self.world.transactions if one.tx == end.tx), None)
        if real is not None and Counter(chain(*changes.values())) == Counter(real.captured):
            return {table: real.differences[table] for table in TABLES}
        return {table: difference(done, self.world.before(end.commit, table)) for table, done in changes.items()}


class Judge:
    """Of one history, captured one way."""

    def __init__(self, world: World, way: Way) -> None:
        self.world, self.way = world, way
        self.commits = {one.tx: one.commit for one in world.transactions}
        late = (change for one in world.transactions for change in one.captured if change.table == RARE)
        self._partial = next(map(had_rows, late), frozenset[str]()) if world.late else frozenset[str]()

    # -- what is wrong

    def culprits(self, known: Known, released: dict[int, Facts]) -> list[Culprit]:
        """All that the records show."""
        found = [
            *self._of_snapshot(known, released), *self._of_transactions(known, released), *self._of_late(known),
            *self._of_counts(known, released),
        ]
        return [replace(one, must=False) if self._is_old(one, known, released) else one for one in found]

    def _is_old(self, one: Culprit, known: Known, released: dict[int, Facts]) -> bool:
        """Whether so many were released behind it that it is a duplicate to a capture that sees it now."""
        if one.tx is None or self.world.known is None:
            return False
        if self.way.ordering == "complete" and one.tx not in released and any(end.tx == one.tx for end in known.ends()):
            # It is waited for, and nothing behind it is passed.
            return False
        # Its own END is one of those that are known; one that is lost is none.
        ended = {end.tx for end in known.ends()}
        behind = sum(self.commits.get(tx, 0) > one.at for tx in released if tx in ended)
        return behind >= self.world.known - (one.tx in ended)

    def _of_snapshot(self, known: Known, released: dict[int, Facts]) -> Iterator[Culprit]:
        if self.world.snapshot == "none":
            return
        kinds, given = [one.kind for one in known.of("note")], SNAPSHOT in released
        first = kinds.index("COMPLETED") if "COMPLETED" in kinds else len(kinds)
        if kinds[:first].count("STARTED") > 1:
            yield Culprit("a snapshot begun twice", SNAPSHOT, True, now=True)
        lsns = {one.commit for one in known.of("read")}
        if TWICE & {*self.world.mishaps} and lsns:
            # Their looks may show it before the notifications do.
            yield Culprit("snapshot rows that are there twice", SNAPSHOT, False, at_once=True)
        if "STARTED" in kinds[first:] or len(lsns) > 1 and max(lsns) > SNAPSHOT_LSN:
            yield Culprit("a second snapshot", EVER, True, now=given, at_once=True, another=True)
        elif max(lsns, default=0) > SNAPSHOT_LSN:
            # They look like those of the first one, but there are too many.
            more = known.has_more_than_scanned(known.of("read"))
            at = EVER if given or not more else SNAPSHOT
            yield Culprit("rows of another snapshot", at, more, now=more, at_once=True, another=True)
        elif len(lsns) > 1:
            yield Culprit("two snapshots", SNAPSHOT, True, now=True, another=True)
        firsts = known.first_reads()
        if given and not self._is_another_snapshot(released):
            firsts = [one for one in firsts if one.commit <= SNAPSHOT_LSN]
        if known.has_more_than_scanned(firsts):
            yield Culprit("more snapshot rows than were scanned", SNAPSHOT, True, now=True)
        read, reads = facts_of(firsts), Counter(one.table for one in firsts)
        if given and any(n > released[SNAPSHOT][table][row] for table in TABLES for row, n in read[table].items()):
            # Without a state only their number shows it: the logs do not have the positions at which they stood.
            more = any(reads[table] > released[SNAPSHOT][table].total() for table in TABLES)
            yield Culprit("a snapshot row after the snapshot", SNAPSHOT, more, now=True)
        base = min((one.commit for one in firsts), default=SNAPSHOT_LSN)
        for one in known.ends():
            if one.commit <= SNAPSHOT_LSN:
                # Of a run that was broken off there may be rows from before it, which hide that.
                is_early = bool(lsns) and one.commit <= base
                due = is_early and (given or known.snapshot_is_whole())
                yield Culprit("an END before the snapshot", SNAPSHOT, is_early, now=due, early=one.tx)

    def _of_transactions(self, known: Known, released: dict[int, Facts]) -> Iterator[Culprit]:
        seen = 0
        ends = known.ends()
        for end in ends:
            if end.commit < seen:
                # Where nothing behind it was given out before, the order does no harm.
                passed = any(self.commits.get(tx, 0) > end.commit for tx in released)
                passed &= self._is_open(end.tx, released)
                harm = passed and bool(end.counts) and self.way.ordering == "commit"
                yield Culprit(LATE_END, end.commit, harm, end.tx, at_once=True)
            seen = max(seen, end.commit)
            yield from self._of_one(end, known, released)
        yield from self._of_early_begins(known)
        for tx in {one.tx for one in known.of("begin")} - {one.tx for one in [*ends, *known.of("row")]}:
            if any(one.commit > self.commits[tx] for one in ends):
                yield Culprit("a lost END", self.commits[tx], self._knows_begins(), tx)
        for tx in {one.tx for one in known.of("row")} - {one.tx for one in ends}:
            if any(one.commit > self.commits[tx] for one in ends):
                yield Culprit("a lost END", self.commits[tx], True, tx)
            yield from self._of_rows(tx, known, None, released)

    def _of_early_begins(self, known: Known) -> Iterator[Culprit]:
        """A BEGIN stands before an END that no later one precedes, and behind none of its own transaction.

        So its END was to come before that one, and whether it comes behind it changes nothing.
        """
        topic = [one for place, _, one in known.all if place == (TRANSACTIONS, 0) and one.what in ("begin", "end")]
        begun, ended, seen = set[int](), set[int](), 0
        for one in topic:
            if one.what == "begin":
                begun |= {one.tx} - ended
                continue
            begun.discard(one.tx)
            ended.add(one.tx)
            if one.commit > seen:
                for tx in sorted(begun):
                    yield Culprit(EARLY_BEGIN, one.commit, self._knows_begins(), tx)
                begun.clear()
            seen = max(seen, one.commit)

    def _knows_begins(self) -> bool:
        """Where little is read again of the topic, or it loses its beginning, a start may not know of a BEGIN."""
        return self.world.known is None and not self.world.forgets

    def _of_one(self, end: Sent, known: Known, released: dict[int, Facts]) -> Iterator[Culprit]:
        tx, counted = end.tx, dict(end.counts)
        if end.commit <= SNAPSHOT_LSN:
            return
        if len({(one.commit, one.counts) for one in known.of("end", tx)}) > 1:
            # The first may be one that the topic has lost since.
            must = self._is_open(tx, released) or not self.world.forgets
            yield Culprit("two ENDs", end.commit, must, tx, at_once=True)
        for table, rows in known.rows(tx).items():
            if max(rows) > counted.get(table, 0):
                yield Culprit("a row above END's count", end.commit, True, tx)
        if not self.way.state and any(one.change and one.change.op == "t" for one in known.of("row", tx)):
            yield Culprit("a TRUNCATE", end.commit, True, tx)
        yield from self._of_rows(tx, known, end, released)

    def _of_rows(self, tx: int, known: Known, end: Sent | None, released: dict[int, Facts]) -> Iterator[Culprit]:
        changes: dict[object, set[tuple[Change | None, int, int]]] = {}
        for one in known.of("row", tx):
            for place in (one.order, (one.table, one.number)):
                changes.setdefault(place, set()).add((one.change, one.order, one.number))
        if any(len(different) > 1 for different in changes.values()):
            # Without END its turn has not come.
            due = (end is not None or tx in released) and self._is_open(tx, released)
            yield Culprit(TWO_ROWS, self.commits[tx], due, tx)
        if changes and self.world.connector.version == OLD and len(known.of("begin", tx)) > 1:
            # A row of it shows the version. Whether it was renumbered or sent again, no record shows.
            given = known.facts(end) if end is not None and known.is_whole(end) else None
            given = released.get(tx, given)
            wrong = given is not None and given != self.real(tx, {tx: given} | released)
            # With others between the two BEGINs it was sent again as a whole: what is wrong then has another reason.
            yield Culprit(NUMBERED_AGAIN, self.commits[tx], wrong and known.begins_twice(tx), tx)

    def _is_open(self, tx: int, released: dict[int, Facts]) -> bool:
        """Whether it is not given out, or was wrongly: of one that is, nothing need be known any more."""
        return tx not in released or self._is_wrong(tx, released)

    def real(self, tx: int, released: dict[int, Facts]) -> Facts:
        """What the transaction really did.

        A table that had rows before its first record is left out; but where that record was not given out before those
        behind it, as its END was late, the table has begun with them.
        """
        done = next(one.differences for one in self.world.transactions if one.tx == tx)
        has_begun = any(facts[RARE] for facts in released.values())
        left_out = frozenset[str]() if has_begun else self._partial
        return {table: Counter() if table in left_out else rows for table, rows in done.items()}

    def _is_wrong(self, tx: int, released: dict[int, Facts]) -> bool:
        """Whether what was given out is not what the transaction did."""
        return tx in released and self.real(tx, released) != released[tx]

    def _is_passed_by(self, known: Known, released: dict[int, Facts]) -> bool:
        """Whether a transaction is missing before one that may be given out, so that its rows may be asked for."""
        ends = known.ends()
        last, ended = max((one.commit for one in ends), default=0), {one.tx for one in ends}
        given = max((self.commits.get(tx, 0) for tx in released), default=0)
        return any(
            one.captured and one.tx not in released and one.commit < (given if one.tx in ended else last)
            for one in self.world.transactions
        )

    def some_is_wrong(self, released: dict[int, Facts]) -> bool:
        """Whether old rows may not be found, as something before is not what it was."""
        wrong = (tx in self.commits and self._is_wrong(tx, released) for tx in released)
        return self._is_another_snapshot(released) or any(wrong)

    def _is_another_snapshot(self, released: dict[int, Facts]) -> bool:
        """Whether what was given out is not what the first snapshot is."""
        read = {table: Counter(rows) for table, rows in self.world.database.snapshot.items()}
        return SNAPSHOT in released and released[SNAPSHOT] != read

    def _of_late(self, known: Known) -> Iterator[Culprit]:
        """A row of the table that was covered late, or is declared empty, was there before: no state has it."""
        table = RARE if self.world.late else self.world.declared_empty
        if not self.way.state or table is None or known.partial:
            return
        rows: Difference = Counter()
        for end in sorted(known.ends(), key=lambda one: one.commit):
            if not known.is_whole(end):
                return
            for _, one in sorted(known.rows(end.tx).get(table, {}).items()):
                assert one.change is not None
                if one.change.op == "t":
                    rows.clear()
                if one.change.old is not None:
                    if not rows[one.change.old]:
                        yield Culprit("a row from before the table was covered", end.commit, True, end.tx)
                        return
                    rows[one.change.old] -= 1
                if one.change.new is not None:
                    rows[one.change.new] += 1

    def _of_counts(self, known: Known, released: dict[int, Facts]) -> Iterator[Culprit]:
        """A row is changed, and by the number of rows that the table has there is none; a state finds it by itself."""
        if self.world.snapshot == "none" or self.way.ordering == "complete" or self.way.state:
            return
        if SNAPSHOT not in released and not known.snapshot_is_whole():
            return
        held = {table: rows.total() for table, rows in released.get(SNAPSHOT, known.snapshot_facts()).items()}
        # How many rows a table had that is covered late, no record shows.
        judged = [table for table in TABLES if table != RARE or not self.world.late]
        ends = {end.tx: end for end in known.ends()}
        for tx, commit in sorted(self.commits.items(), key=lambda one: one[1]):
            end = ends.get(tx)
            if tx not in released and end is None:
                continue
            if tx not in released and end is not None and not known.is_whole(end):
                return
            does = released[tx] if end is None or tx in released else known.facts(end)
            for table in judged:
                counted = end is not None and dict(end.counts).get(table)
                first = known.rows(tx).get(table, {}).get(1) if counted else None
                changes = first is not None and first.change is not None and first.change.op in ("u", "d")
                if held[table] + does[table].total() < 0 or (changes and not held[table]):
                    # Of a late END it is not known when the next one is judged.
                    yield Culprit("a row that cannot be there", commit, True, tx)
                    break
                held[table] += does[table].total()

    # -- what is given out

    def step(self, known: Known, released: dict[int, Facts], waiting: Collection[int] = ()) -> Step:
        """What is given out at a cut, where that was given out before; these ENDs, known before, were waited for."""
        culprits = self.culprits(known, released)
        step = Step(culprits, must=any(one.must and one.now for one in culprits), waiting=frozenset(waiting))
        self._give_all(known, released, step)
        # What is given out here may be wrong already, and what comes behind it here, too, look for its rows.
        wrong = self.some_is_wrong(released | step.fresh) or self._is_passed_by(known, released)
        if self.way.state and wrong:
            culprits.append(Culprit("an old row that is not there", EVER, False, at_once=True))
        return step

    def _give_all(self, known: Known, released: dict[int, Facts], step: Step) -> None:
        culprits = step.culprits
        cap = min((one.at for one in culprits if one.must), default=EVER)
        if SNAPSHOT not in released and self.world.snapshot != "none":
            if cap == SNAPSHOT or not known.snapshot_is_whole():
                return
            step.fresh[SNAPSHOT] = known.snapshot_facts()
        self._give(known, released, step, cap)

    def _too_late(self, ends: list[Sent], released: dict[int, Facts]) -> set[int]:
        """Whose END stands behind so many of later transactions, all given out, as are known.

        As complete, nothing is passed by behind the commit of an END that is waited for.
        """
        found = set[int]()
        for number, end in enumerate(ends):
            waits = (one for one in ends[:number] if one.tx not in released and one.commit > SNAPSHOT_LSN)
            if self.way.ordering == "complete" and any(one.commit < end.commit for one in waits):
                continue
            before = {one.tx for one in ends[:number] if one.commit > end.commit and one.tx in released}
            if self.world.known is not None and len(before) >= self.world.known:
                found.add(end.tx)
        return found

    def _give(self, known: Known, released: dict[int, Facts], step: Step, cap: int) -> None:
        bad = {one.tx for one in step.culprits if one.must}
        # Behind so many others that it is a duplicate to a capture that reads it.
        old = self._too_late(known.ends(), released) - step.waiting
        step.waiting = frozenset({end.tx for end in known.ends()} - old)
        is_due = True
        for end in sorted(known.ends(), key=lambda one: one.commit):
            for one in step.culprits:
                if is_due and one.must and one.at <= end.commit:
                    step.must = True
            if end.tx in released or end.tx in old or end.commit <= SNAPSHOT_LSN:
                continue
            whole = known.is_whole(end) and end.tx not in bad
            is_due = is_due and whole
            if whole and (is_due and end.commit < cap or self.way.ordering == "complete"):
                step.fresh[end.tx] = known.facts(end)
        if is_due and any(one.must for one in step.culprits):
            step.must = True


@dataclass
class Step:
    """What a cut comes to: what is given out at it, and whether a capture must, or may, stop there."""

    culprits: list[Culprit]
    fresh: dict[int, Facts] = field(default_factory=dict)
    must: bool = False
    #: Whose END is known, and was not too late when it came.
    waiting: frozenset[int] = frozenset()

    @property
    def may(self) -> bool:
        """Whether there is anything to stop for."""
        return bool(self.culprits)


def had_rows(first: Change) -> frozenset[str]:
    """The table, if it had rows before this change, which is the first one of it."""
    return frozenset({first.table} if first.op in ("u", "d") else ())


def facts_of(reads: Iterable[Sent]) -> Facts:
    """What these rows of a snapshot are."""
    found: Facts = {table: Counter() for table in TABLES}
    for one in reads:
        assert one.row is not None
        found[one.table][one.row] += 1
    return found


def summed(facts: Iterable[Facts]) -> Facts:
    """Several together."""
    found: Facts = {table: Counter() for table in TABLES}
    for one in facts:
        for table, rows in one.items():
            found[table].update(rows)
    return {table: Counter({row: n for row, n in rows.items() if n}) for table, rows in found.items()}
