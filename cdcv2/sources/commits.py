"""Which transactions are whole, in commit order: decided on counts alone.

The transaction topic gives, for each transaction, an END with its commit LSN and the number of rows of each table.
A transaction is *complete* when its END is in and each captured table has that many distinct rows; it is *released*
when it and every earlier END are complete. ``through`` (H) is the END up to which all is released. It tells repeats
from facts:

- an END with LSN <= H is a repeat;
- a row whose ``sequence[0]`` (the END of the transaction before its own) is < H is a repeat. A null ``sequence[0]``
  reads as the LSN of the snapshot, or 0 without one.

What cannot be carried over the frontier (TRUNCATE, a row of another type, a second snapshot, more rows than were
counted, a lost END) stops the capture: everything before it is released first, and the logs are complete up to there.

Rows never come here, so one process that holds them all and a Spark driver whose executors hold them decide alike.
Counts are *set*, not added: a caller may count again what it reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sortedcontainers import SortedDict

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError, SourceStop, UsageError
from cdcv2.reclock.succession import LOST, NEW_SOURCE, SPOILT, Commit, Succession, lost_end, uncounted_row
from cdcv2.sources.release import Release, Waiting, without_end
from cdcv2.sources.remembered import MEMORY_VERSION, check_memory
from cdcv2.sources.snapshot import ANEW, NO_SNAPSHOT, Place, Snapshot, twice


#: So many releases are remembered for the next run, which can tell rows whose END is lost from repeats of those.
REMEMBERED = 256


class Commits:
    """Decides what is complete. Feed it facts in any order; ask ``ready`` and ``stopped``; ``settle`` what is durable.

    ``known`` is the meet of the frontiers up to which the logs are stated: with the state lost, all before it is
    taken as released, and what the topics say about it as repeats.

    >>> commits = Commits(["public.t"], snapshot="none")
    >>> commits.end(7, 100, {"public.t": 2})
    True
    >>> commits.rows_seen(7, "public.t", 1)
    >>> commits.waits().text
    'transaction 7 (END 100) lacks 1 of 2 rows of public.t'
    >>> commits.rows_seen(7, "public.t", 2)
    >>> release = commits.ready()
    >>> release.transactions, release.frontier
    ((Commit(tx=7, lsn=100),), Antichain([101]))
    >>> commits.settle(release)
    >>> commits.is_repeat(None, 7), commits.is_repeat(100, 8)
    (True, False)

    Cost: a fact O(log open), ``ready`` what it gives out. Memory: a few numbers per open transaction and table.
    """

    def __init__(
        self, tables: Iterable[str], *, snapshot: str = "initial", notifications: bool = False, known: int = 0
    ) -> None:
        if snapshot not in ("initial", "none"):
            raise UsageError(f"snapshot is 'initial' or 'none', not {snapshot!r}")
        self.tables = tuple(sorted(tables))
        self._captured = frozenset(self.tables)
        self._mode = snapshot
        self._snapshot = Snapshot(self.tables, wanted=snapshot == "initial", notified=notifications)
        self._through: int | None = 0 if self._snapshot.released else None
        # Unreleased ENDs by LSN: (tx, rows of each captured table). Each LSN is above `_through`.
        self._ends: SortedDict[int, tuple[int, dict[str, int]]] = SortedDict()
        self._end_of: dict[int, int] = {}
        self._highest = 0
        self._rows: dict[int, dict[str, tuple[int, int]]] = {}
        self._halts: dict[int, tuple[str, str]] = {}
        # A stop that belongs to no open transaction; nothing above `_cap` is released any more.
        self._stop: tuple[str, str] | None = None
        self._cap: int | None = None
        # Released transactions that a row without a previous commit may belong to, while the snapshot's LSN is unknown.
        self._finished: set[int] = set()
        self._succession = Succession[int](self._through)
        # What was found only after the logs were stated beyond it, so that no log can be right any more.
        self._spoilt: tuple[str, str] | None = None
        if known > 0:
            self._resume_at(known - 1)

    def _resume_at(self, through: int) -> None:
        self._through, self._succession = through, Succession[int](through)
        if not self._snapshot.released:
            self._snapshot.released = True
            # Only an empty snapshot is released through 0.
            self._snapshot.lsn = 0 if through == 0 else None

    # -- what has been released

    @property
    def through(self) -> int | None:
        """H: the END up to which all is released; None while not even the snapshot is."""
        return self._through

    @property
    def frontier(self) -> Antichain | None:
        """Up to where the logs are complete; None when nothing is released."""
        return None if self._through is None else Antichain([self._through + 1])

    @property
    def base(self) -> int | None:
        """What a null ``sequence[0]`` reads as: the LSN of the snapshot, 0 without one; None while unknown."""
        return self._snapshot.lsn

    @property
    def snapshot_released(self) -> bool:
        """Whether snapshot rows need not be counted any more (those that still come are repeats, or a stop)."""
        return self._snapshot.released

    @property
    def certain(self) -> int | None:
        """A row whose ``sequence[0]`` is below it is a repeat, whichever its transaction; None: none is."""
        return self._succession.since

    @property
    def lost(self) -> bool:
        """Whether an END is lost, or was wrong: remember it then, as another run might see too late what showed it."""
        return self._spoilt is not None or self._succession.lost(self._highest) is not None

    @property
    def stopping(self) -> bool:
        """Whether a fact that is of no open transaction stops the capture: where it stands must be read again."""
        return self._stop is not None

    def is_repeat(self, seq: int | None, tx: int, table: str = "", number: int = 0) -> bool:
        """Whether a row of ``tx`` with this ``sequence[0]`` belongs to a transaction that is released.

        If others were released instead, its END is lost, and that stops the capture. So does a row of ``table`` whose
        ``number`` (the greatest ``data_collection_order`` of several) is above what the END of its transaction counted.
        While ``base`` is not known again (memory lost), a row with a null ``sequence[0]`` can be judged only when the
        END of its transaction is seen: ask again for such rows, before ``ready``, and count them anew.
        """
        if self._through is None:
            return False
        if seq is None:
            seq = self._snapshot.lsn
            if seq is None:
                return tx in self._finished
        if seq >= self._through:
            return False
        instead, uncounted = self._succession.instead(tx, seq), self._succession.uncounted(tx, seq, table, number)
        if instead is not None:
            self._spoil(f"{lost_end(tx, seq, instead)}; the logs are stated beyond it, and lack them", SPOILT)
        elif uncounted is not None:
            what = uncounted_row(tx, table, number, *uncounted)
            self._spoil(f"{what}; the logs are stated beyond it, and lack it", NEW_SOURCE)
        return True

    def _spoil(self, reason: str, remedy: str) -> None:
        if self._spoilt is None:
            self._spoilt = reason, remedy
            self._halt_all(reason, remedy, None)

    # -- facts

    def end(self, tx: int, lsn: int, counts: Mapping[str, int]) -> bool:
        """END of a transaction: its commit LSN, and how many rows each table has in it (tables not captured, too).

        Returns False for a repeat. The same END may come again with the same counts.
        """
        base = self._snapshot.lsn
        if self._mode == "initial" and base is not None and lsn <= base:
            self._halt_all(f"transaction {tx} was committed at {lsn}, not after the snapshot at {base}", ANEW, -1)
            return False
        if self._through is not None and lsn <= self._through:
            if base is None:
                self._finished.add(tx)
            self._succession.ended(tx)
            return False
        mine = {table: number for table, number in counts.items() if number and table in self._captured}
        if lsn in self._ends:
            self._same_end(tx, lsn, mine)
            return False
        if lsn < self._highest or tx in self._end_of:
            said = f"after END {self._highest}" if lsn < self._highest else f"after its END {self._end_of[tx]}"
            self._halt_all(f"END {lsn} of transaction {tx} came for the first time {said}", NEW_SOURCE, lsn - 1)
            return False
        self._ends[lsn], self._end_of[tx], self._highest = (tx, mine), lsn, lsn
        self._succession.ended(tx)
        return True

    def _same_end(self, tx: int, lsn: int, counts: dict[str, int]) -> None:
        if self._ends[lsn] != (tx, counts):
            first, said = self._ends[lsn]
            reason = f"END {lsn} says both that transaction {first} has {said} rows, and that {tx} has {counts}"
            self._halt_all(reason, NEW_SOURCE, lsn - 1)

    def rows_seen(self, tx: int, table: str, distinct: int, highest: int | None = None) -> None:
        """There are ``distinct`` rows of the table in the transaction by now, repeats (:meth:`is_repeat`) left out.

        ``highest`` is the greatest of their order numbers (``data_collection_order``), which count from 1. No rows
        forgets those that were counted before.
        """
        highest = distinct if highest is None else highest
        if not 0 <= distinct <= highest:
            raise MalformedError(f"{distinct} distinct rows cannot have order numbers from 1 to {highest}")
        if distinct:
            self._rows.setdefault(tx, {})[table] = (distinct, highest)
        elif table in self._rows.get(tx, {}):
            del self._rows[tx][table]
            if not self._rows[tx]:
                del self._rows[tx]
                self._succession.ended(tx)

    def comes_after(self, tx: int, seq: int | None) -> None:
        """A row of ``tx`` that is no repeat, or what stops the capture there, has this ``sequence[0]``."""
        if tx not in self._end_of:
            self._succession.row(tx, seq)

    def halt(self, tx: int, reason: str, remedy: str) -> None:
        """The transaction says something that cannot be captured: release all before it, then stop."""
        self._halts.setdefault(tx, (reason, remedy))

    def stop(self, reason: str, remedy: str) -> None:
        """Stop now: release nothing more than what is complete already, which a snapshot is when it is released."""
        self._halt_all(reason, remedy, None if self._snapshot.released else -1)

    def _halt_all(self, reason: str, remedy: str, cap: int | None) -> None:
        if self._stop is None:
            self._stop = (reason, remedy)
        if cap is not None:
            self._cap = cap if self._cap is None else min(self._cap, cap)

    # -- facts of the snapshot

    def snapshot_rows(self, table: str, lsn: int, distinct: int) -> None:
        """There are ``distinct`` unreleased snapshot rows of the table (by topic, partition, offset), with this LSN."""
        if self._mode == "none":
            self._halt_all(f"there are snapshot rows of {table}, and no snapshot is wanted", NO_SNAPSHOT, None)
        elif self._snapshot.released:
            self._late_snapshot_row(table, lsn)
        else:
            self._snapshot.rows_seen(table, lsn, distinct)
            self._check_snapshot()
            if self._ends and self._ends.peekitem(0)[0] <= lsn:
                early, (tx, _) = self._ends.peekitem(0)
                self._halt_all(f"transaction {tx} was committed at {early}, not after the snapshot at {lsn}", ANEW, -1)

    def _late_snapshot_row(self, table: str, lsn: int) -> None:
        through, base = self._through or 0, self._snapshot.lsn
        if lsn > through:
            reason = f"there are rows of a second snapshot of {table}, at {lsn}; all through {through} is released"
            self._halt_all(reason, ANEW, lsn)
        elif base is not None and lsn != base:
            # Perhaps ENDs of transactions without rows were read before it: what the slot lost is lost all the same.
            reason = f"there are rows of a second snapshot of {table}, at {lsn}; the one that is released is at {base}"
            self._halt_all(reason, ANEW, None)
        self._learn_base(lsn <= through, lsn)

    def _learn_base(self, told: bool, lsn: int) -> None:
        """With the memory lost, the topics tell again what the LSN of the released snapshot was."""
        if told and self._snapshot.released and self._snapshot.lsn is None:
            self._snapshot.lsn = lsn
            self._finished.clear()

    @property
    def broken_off(self) -> bool:
        """Whether a run of the snapshot is known to have been broken off: its rows may be among those of the next."""
        return self._snapshot.broken_off

    def snapshot_twice(self, table: str) -> None:
        """Rows of the table are there twice, of a snapshot that was broken off and taken again: stop before it."""
        self.stop(twice(table), ANEW)

    def snapshot_marked(self, marker: str, position: Sequence[object]) -> None:
        """An unreleased snapshot row, which stands there, has this ``source.snapshot``."""
        if not self._snapshot.released:
            self._snapshot.marked(marker, position)
            self._check_snapshot()

    def notification(self, kind: str, table: str | None, rows: int | None, offset: int) -> None:
        """A notification about the initial snapshot, in the order of its topic, with its offset there."""
        self._snapshot.notified(kind, table, rows, offset)
        self._check_snapshot()
        self._learn_base(self._snapshot.known_empty, 0)

    @property
    def wants_ends(self) -> bool:
        """Whether the end positions of the tables' partitions should be read now, for :meth:`ends_read`."""
        return self._snapshot.wants_ends

    def ends_read(self, ends: Mapping[Place, int]) -> None:
        """The next offsets of the tables' partitions, read after ``wants_ends`` became true. Then say ``consumed``."""
        self._snapshot.ends_read(ends)

    def consumed(self, positions: Mapping[Place, int]) -> None:
        """How far the partitions have been read: their next offsets. Needed while the snapshot is not released."""
        for place, following in positions.items():
            self._snapshot.consumed(place, following)

    def passed(self, place: Place) -> None:
        """The partition has shown a streamed row, so it has no more rows of the snapshot."""
        if not self._snapshot.released:
            self._snapshot.passed(place)

    def _check_snapshot(self) -> None:
        if self._snapshot.contradiction is not None:
            self._halt_all(self._snapshot.contradiction, ANEW, None if self._snapshot.released else -1)

    # -- decisions

    def ready(self) -> Release | None:
        """What may be released now, or None. Changes nothing but finding contradictions: ask as often as you like."""
        snapshot, through = None, self._through
        if self._spoilt is not None:
            return None
        if not self._snapshot.released:
            snapshot = through = self._snapshot.lsn or 0
            if (self._cap is not None and self._cap < snapshot) or not self._snapshot.whole():
                self._check_snapshot()
                return None
        transactions, lost = list[Commit[int]](), self._succession.lost(self._highest)
        for lsn, (tx, counts) in self._ends.items():
            if lost is not None and lsn > lost[1]:
                self._halt_all(lost_end(*lost, Commit(tx, lsn)), LOST, None)
                break
            if self._held_back(tx, lsn, counts):
                break
            transactions.append(Commit(tx, lsn))
            through = lsn
        if through is None or (snapshot is None and not transactions):
            return None
        assumed = snapshot is not None and self._snapshot.assumed
        return Release(snapshot, tuple(transactions), through, assumed)

    def _held_back(self, tx: int, lsn: int, counts: Mapping[str, int]) -> bool:
        beyond_stop = self._cap is not None and lsn > self._cap
        return beyond_stop or tx in self._halts or self._surplus(tx, lsn, counts) or bool(self._missing(tx, counts))

    def _surplus(self, tx: int, lsn: int, counts: Mapping[str, int]) -> bool:
        """Whether there are more rows than its END counts, which can never be right: stop before it."""
        for table, (distinct, highest) in self._rows.get(tx, {}).items():
            if highest > counts.get(table, 0):
                reason = (
                    f"transaction {tx} has {distinct} rows of {table}, numbered up to {highest}, "
                    f"but its END {lsn} counts {counts.get(table, 0)}"
                )
                self._halt_all(reason, NEW_SOURCE, lsn - 1)
                return True
        return False

    def _missing(self, tx: int, counts: Mapping[str, int]) -> dict[str, int]:
        rows = self._rows.get(tx, {})
        lacks = {table: number - rows.get(table, (0, 0))[0] for table, number in counts.items()}
        return {table: number for table, number in lacks.items() if number > 0}

    def settle(self, release: Release) -> None:
        """What :meth:`ready` gave is durable in every log, and stated: forget it."""
        if release.snapshot is not None:
            self._snapshot.release()
        if self._succession.since is None:
            self._succession.since = release.snapshot
        self._succession.released(release.transactions, [self._ends[lsn][1] for _, lsn in release.transactions])
        for tx, lsn in release.transactions:
            del self._ends[lsn], self._end_of[tx]
            self._rows.pop(tx, None)
            if self._snapshot.lsn is None:
                self._finished.add(tx)
        self._through = release.through

    def stopped(self) -> SourceStop | None:
        """The stop that has been reached: raise it, once :meth:`ready` gives nothing more. None: go on."""
        if self._stop is not None:
            return SourceStop(*self._stop, self.frontier)
        if self._ends and self._snapshot.released:
            lsn, (tx, _) = self._ends.peekitem(0)
            if tx in self._halts:
                return SourceStop(*self._halts[tx], self.frontier)
        return None

    def waits(self) -> Waiting:
        """Why nothing more can be released now."""
        if self._stop is not None:
            return Waiting("stop", self._stop[0])
        if not self._snapshot.released:
            return Waiting("snapshot", self._snapshot.waits(), missing=self._snapshot.missing())
        for lsn, (tx, counts) in self._ends.items():
            missing = self._missing(tx, counts)
            if tx in self._halts:
                return Waiting("stop", f"transaction {tx} (END {lsn}): {self._halts[tx][0]}", tx, lsn)
            if missing:
                lacks = ", ".join(f"{lack} of {counts[table]} rows of {table}" for table, lack in missing.items())
                return Waiting("rows", f"transaction {tx} (END {lsn}) lacks {lacks}", tx, lsn, missing)
        return without_end(self._rows)

    def open_transactions(self) -> int:
        """How many transactions have been seen in part, or wholly but behind one that is not whole."""
        return len(self._rows.keys() | self._end_of.keys())

    # -- memory

    def export(self) -> dict[str, Any]:
        """What must survive, as plain JSON. Facts of open transactions do not: they are read again by position."""
        return {
            "version": MEMORY_VERSION,
            "tables": list(self.tables),
            "mode": self._mode,
            "through": self._through,
            "snapshot": self._snapshot.export(),
            "lost": self._succession.lost(self._highest),
            "spoilt": self._spoilt,
            "released": self._succession.tail(REMEMBERED),
        }

    @classmethod
    def restore(
        cls, plain: Mapping[str, Any], tables: Iterable[str], *, snapshot: str = "initial",
        notifications: bool = False, known: int = 0,
    ) -> Commits:
        """The decisions as they stood at :meth:`export`, for logs that are stated up to ``known`` (their meet).

        The logs may be ahead of the memory, whose last saving a crash prevented. Raises ForeignStateError where the
        memory is of another capture, or ahead of the logs: its positions would skip what they lack.
        """
        commits = cls(tables, snapshot=snapshot, notifications=notifications)
        check_memory(plain, commits.tables, snapshot, known)
        through = plain["through"]
        commits._snapshot.remember(plain["snapshot"])
        commits._through, commits._succession = through, Succession[int](through)
        if plain.get("spoilt"):
            commits._spoilt = commits._stop = (plain["spoilt"][0], plain["spoilt"][1])
        if known > 0 and known - 1 != through:
            commits._resume_at(known - 1)
            return commits
        if plain.get("released"):
            since, released = plain["released"]
            commits._succession = Succession[int](since)
            commits._succession.released(((tx, lsn) for tx, lsn, _ in released), (counts for _, _, counts in released))
        if plain.get("lost"):
            commits._succession.row(*plain["lost"])
        return commits
