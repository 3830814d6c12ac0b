"""Whether what a capture came to is right: raises :class:`Different`, with all that a reader needs to see why not."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import accumulate

from tests.every_way.connector import OLD
from tests.every_way.database import RARE, SNAPSHOT_LSN, TABLES
from tests.every_way.judge import (
    EVER, LATE_END, NUMBERED_AGAIN, SNAPSHOT, TWO_ROWS, Culprit, Facts, Judge, Known, Step, Way, summed,
)
from tests.every_way.pure import UNWANTED, Came
from tests.every_way.world import Cut, World

NONE: Facts = {table: Counter() for table in TABLES}


class Different(AssertionError):
    """A capture has another result than the judge."""


class Case:
    """One history, captured one way."""

    def __init__(self, name: str, world: World, way: Way, came: Came, *, bound: bool = False) -> None:
        self.name, self.world, self.way, self.came, self.bound = name, world, way, came, bound
        self.judge = Judge(world, way)
        #: The LSNs of snapshots that the topics have.
        self.snapshots = {SNAPSHOT_LSN} | {one.commit for one in Known(world, world.whole).of("read")}

    def fail(self, why: str) -> Different:
        """The report."""
        found = "\n".join(f"    {time}: {_short(facts)}" for time, facts in sorted(self.came.facts.items()))
        lives = "\n".join(f"    up to {upper}, {stop or 'no stop'}" for _, stop, upper in self.came.lives)
        return Different(
            f"{self.name} {self.way}, seed {self.world.seed}: {why}\n{self.world.described()}\n"
            f"  the logs, up to {self.came.upper}:\n{found}\n  lives:\n{lives}"
        )

    def _may_be_forgotten(self, cut: Cut, stop: str, upper: int) -> bool:
        """Whether all that showed it, at the cut or the time, may be a BEGIN, which the topic has lost since."""
        known = Known(self.world, self.came.cuts.get(upper, cut))
        shown = {one.tx for one in known.of("begin")} - {one.tx for one in known.of("row")}
        return self.came.forgot and any(stop.startswith(f"the END of transaction {tx} is missing") for tx in shown)

    def check_lives(self) -> None:
        """A stop is one in every later life."""
        stopped = False
        for cut, stop, upper in self.came.lives:
            if stop is not None and stop.startswith(UNWANTED) and not self._is_known_as_foreign(cut, stop, upper):
                raise self.fail(stop)
            if stopped and stop is None:
                raise self.fail("a stop is forgotten")
            if stop is not None and not self._may_be_forgotten(cut, stop, upper):
                stopped |= self.is_lasting(cut, upper, stop) and not self._may_be_mended(cut, stop)

    def _check_without_memory(self) -> None:
        """What the logs are stated beyond is kept in them by each run without its memory that finds it.

        But where a new slot may explain it: what shows it names no commit, which reads as that of the snapshot.
        """
        stop, keeps = self.came.without_memory or (None, False)
        if stop is None or keeps or "the logs are stated beyond it" not in stop or "--snapshot-again" in stop:
            return
        if not any(first in stop for first in ("before any other commit", "commit 0 ", f"commit {SNAPSHOT_LSN} ")):
            raise self.fail(f"a run without memory did not keep its stop: {stop}")

    def check_kept(self) -> None:
        """A stop lasts if, and only if, it is of what is stated; then each log keeps it, whatever the topics show."""
        for cut, stop, upper in self.came.lives:
            if stop is None or stop.startswith(UNWANTED):
                continue
            lasts = stop in self.came.lasting
            if not lasts and self._may_be_mended(cut, stop):
                continue
            if lasts != ("the logs are stated beyond it" in stop):
                raise self.fail(f"whether it lasts ({lasts}) is not what it says: {stop}")
            if not self.bound and lasts != self._is_of_stated(cut, upper, stop):
                raise self.fail(f"whether it lasts ({lasts}) is not whether it is of what is stated: {stop}")
        for name, kept in self.came.kept.items():
            if kept != self.came.lasting:
                raise self.fail(f"the log of {name} keeps {kept}, and not {self.came.lasting}")
        if not self.came.lasting.issuperset(self.came.afterwards):
            raise self.fail(f"with nothing but the logs it is {self.came.afterwards}, and not {self.came.lasting}")

    def _may_be_mended(self, cut: Cut, stop: str) -> bool:
        """Whether a new slot, or a topic that has not lost its beginning, may explain what the logs are stated beyond.

        It is of a lost END whose rows name no commit, as the first ones of a slot.
        """
        lost = re.match(r"the END of transaction (\d+) is missing", stop)
        rows = Known(self.world, cut).of("row", int(lost[1])) if lost is not None else []
        of_slot = any(json.loads(row.value["source"]["sequence"])[0] is None for row in rows)
        return of_slot or "cannot be known" in stop

    def _is_of_stated(self, cut: Cut, upper: int, stop: str) -> bool:
        """Whether it is of what the logs are stated beyond; a second snapshot is behind all that they are."""
        released = self.released(upper)
        if "which is none of the rows that were released" in stop and self._is_of_a_later_snapshot(cut, released):
            return True
        if any(f"not after the snapshot at {at};" in stop for at in self.snapshots & self.came.facts.keys()):
            # A run without memory may meet rows of the later one first, which the first one's counts fit as well.
            return True
        culprits = self._blamed(self.judge.culprits(Known(self.world, cut), released), stop)
        return any(one.tx in released or one.at == SNAPSHOT and SNAPSHOT in released for one in culprits)

    def _is_of_a_later_snapshot(self, cut: Cut, released: dict[int, Facts]) -> bool:
        """Whether the logs hold rows of a later snapshot, in place of the first one's, and lack some that are known."""
        held = max(self.snapshots & self.came.facts.keys(), default=SNAPSHOT_LSN)
        rows = Counter(one.table for one in Known(self.world, cut).of("read") if one.commit == held)
        return held > SNAPSHOT_LSN and any(n > released[SNAPSHOT][table].total() for table, n in rows.items())

    def is_lasting(self, cut: Cut, upper: int, stop: str) -> bool:
        """Whether a stop there has other reasons than records of what is not given out: those are judged again.

        Of several culprits those count that it names: it need not be of one that is old.
        """
        if self.bound:
            return True
        released = self.released(upper)
        culprits = self.judge.culprits(Known(self.world, cut), released)
        culprits = self._blamed(culprits, stop) or [one for one in culprits if one.must]
        return any(one.tx in released or one.tx is None and SNAPSHOT in released for one in culprits)

    def _is_known_as_foreign(self, cut: Cut, stop: str, upper: int) -> bool:
        """Where another snapshot was written, as nothing showed it, the logs are not those of the topics."""
        odd = any(name in stop for name in ("ForeignStateError", "ResumeError"))
        return odd and self.judge.step(Known(self.world, cut), self.released(upper)).must

    def check(self) -> None:
        """All of it."""
        self.check_lives()
        self._check_without_memory()
        if self.bound:
            self.check_bound()
        else:
            self.check_commits()
        self.check_kept()

    def _named(self, culprits: list[Culprit], stop: str) -> list[Culprit]:
        """Those that the stop names: of them it can be, or it is of what misses a row of one in the state, or has one.

        That the logs are of other topics, where these show it, is judged with the lives.
        """
        in_state = "that is not there" in stop or stop.startswith("there are two rows of")
        # A delete that END does not count, and that is lost, has left the row that is inserted again.
        in_state |= "was inserted, and there is one already" in stop
        is_any = stop.startswith(UNWANTED) or self.way.state and in_state
        return culprits if is_any else self._blamed(culprits, stop)

    def _blamed(self, culprits: list[Culprit], stop: str) -> list[Culprit]:
        """Those that the stop can be of: it names the transaction, or the snapshot, the first one or a second one."""
        words = {*re.findall(r"\w+", stop.partition(". ")[0])}
        return [one for one in culprits if words & one.words and (one.another or "second" not in words)]

    # -- by commit times

    def check_commits(self) -> None:
        """Facts at commits, each life's stop, and that nothing is given out that was known to be wrong."""
        commits = {one.commit: one.tx for one in self.world.transactions} | dict.fromkeys(self.snapshots, SNAPSHOT)
        odd = sorted(set(self.came.facts) - commits.keys())
        if odd:
            raise self.fail(f"there is no commit at {odd}")
        released: dict[int, Facts] = {}
        for commit, tx in sorted(commits.items()):
            if commit < self.came.upper and commit in self.came.facts:
                if self.came.given:
                    self._check_given(tx, commit, released)
                else:
                    self._check_true(tx, commit, released)
            other = tx == SNAPSHOT and commit not in self.came.facts and self.snapshots & self.came.facts.keys()
            if commit < self.came.upper and not other:
                released[tx] = self.came.facts.get(commit, NONE)
        for cut, stop, upper in self.came.lives:
            self._check_life(cut, stop, upper)

    def _check_given(self, tx: int, commit: int, released: dict[int, Facts]) -> None:
        """Of each table it is what was known to be whole when its log was stated, and nothing was known to be wrong."""
        for table, log in self.came.given.items():
            given = next((one for one in log if one.lower <= commit < one.upper), None)
            if given is None:
                continue
            known = Known(self.world, given.cut)
            shown = [one for one in self.judge.culprits(known, released) if one.must and one.at <= commit]
            if shown and not given.partly:
                raise self.fail(f"{tx} was given out at {commit}, and the records showed {shown}: {given.cut}")
            wanted = self._known_facts(tx, known)
            if wanted is None:
                raise self.fail(f"{tx} was given out at {commit} and was not whole: {given.cut}")
            wrong = wanted[table] != self.came.facts[commit][table]
            if wrong and not (self.way.state and self.judge.some_is_wrong(released)):
                raise self.fail(f"of {table} in {tx}, at {commit}, wanted is {_short(wanted)}")

    def _known_facts(self, tx: int, known: Known) -> Facts | None:
        """What is to be given out of a transaction, or of the snapshot, that is whole by now.

        A snapshot's rows are counted and have no number: where one is there twice while another is late, so many make
        it whole. That is all that may be wrong: it stops as soon as one row more is read.
        """
        if tx == SNAPSHOT:
            return known.snapshot_facts() if known.snapshot_is_whole() else None
        end = next((one for one in known.ends() if one.tx == tx), None)
        return known.facts(end) if end is not None and known.is_whole(end) else None

    def _check_true(self, tx: int, commit: int, released: dict[int, Facts]) -> None:
        """It is not known what was known: the facts are what happened, or what records show, or these contradict it.

        Where an END counts one row too few, and that row is lost, nothing shows it.
        """
        if tx == SNAPSHOT:
            rows = self.world.database.snapshot
            real = {table: Counter(rows[table]) for table in TABLES}
        else:
            real = self.judge.real(tx, {tx: self.came.facts[commit]} | released)
        known = Known(self.world, self.world.whole)
        culprits, facts = self.judge.culprits(known, released), self.came.facts[commit]
        if facts not in (real, self._known_facts(tx, known)) and not any(one.at <= commit for one in culprits):
            raise self.fail(f"of {tx}, at {commit}, wanted is {_short(real)}")

    def released(self, upper: int) -> dict[int, Facts]:
        """What is given out where the logs are stated up to there."""
        found = {
            one.tx: self.came.facts.get(one.commit, NONE) for one in self.world.transactions if one.commit < upper
        }
        if self.world.snapshot != "none" and upper:
            found[SNAPSHOT] = next((self.came.facts[lsn] for lsn in self.snapshots if lsn in self.came.facts), NONE)
        return found

    def _check_life(self, cut: Cut, stop: str | None, upper: int) -> None:
        released = self.released(upper)
        step = self.judge.step(Known(self.world, cut), released)
        if self.came.forgot and stop is not None and "cannot be known" in stop:
            # What would show whether a record is a duplicate is lost.
            return
        missing = self._unfounded(cut, released, step)
        if missing:
            raise self.fail(f"{missing} were passed by, and no record shows it")
        # While no table is covered no log states anything, so what has no rows is not seen to be given out.
        seen = bool(upper) or self.world.snapshot != "none"
        fresh = sorted(tx for tx, facts in step.fresh.items() if seen or any(facts.values()))
        if stop is None:
            if step.must:
                raise self.fail(f"it must stop at {cut}: {step.culprits}")
            if fresh:
                raise self.fail(f"{fresh} are whole at {cut} and not given out")
            return
        if not step.may:
            raise self.fail(f"a false stop at {cut}: {stop}")
        named = self._named(step.culprits, stop)
        if not named:
            raise self.fail(f"the stop names none of {sorted({one.tx for one in step.culprits}, key=str)}: {stop}")
        at = min(one.at for one in named)
        # An END that stands behind a later one need not have been read when that one stopped the capture.
        late = {one.tx for one in step.culprits if one.at_once}
        fresh = [tx for tx in fresh if self.judge.commits.get(tx, SNAPSHOT) < at and tx not in late]
        if fresh and not any(one.at_once for one in named):
            raise self.fail(f"{fresh} are whole at {cut}, before the stop, and not given out")

    def _unfounded(self, cut: Cut, released: dict[int, Facts], step: Step) -> list[int]:
        """What was passed by without its facts, if nothing is known to be wrong."""
        guilty = {one.tx for one in step.culprits}
        real = {one.tx: self.judge.real(one.tx, released) for one in self.world.transactions}
        known = Known(self.world, cut)
        seen = {one.tx for one in known.of("row")}
        ends = {one.tx: one for one in known.ends()}
        # What was committed before the snapshot that the logs have, if that is a later one, is a part of it.
        first = max((lsn for lsn in self.snapshots if lsn in self.came.facts), default=0)
        later = {one.tx for one in self.world.transactions if one.commit > first}

        def is_founded(tx: int) -> bool:
            """It is what happened, or what the END counts; a TRUNCATE from state takes away what the logs hold.

            While an END is late, another record of the table that is covered late may be its first one.
            """
            end = ends.get(tx)
            given = [] if end is None else [known.facts(end)]
            if end is not None and self.way.state:
                given.append(known.facts(end, summed(one for at, one in self.came.facts.items() if at < end.commit)))
            late = (one.at for one in step.culprits if one.why == LATE_END)
            if self.world.late and min(late, default=EVER) < self.judge.commits[tx]:
                given += [{**facts, RARE: Counter[object]()} for facts in (real[tx], *given)]
            return released[tx] in (real[tx], *given)

        return [tx for tx in released if tx in later - guilty and tx in seen and not is_founded(tx)]

    # -- on a timeline

    def check_bound(self) -> None:
        """Facts at every time, exactly, up to the stop, which is where it may be and no later than it must be."""
        self._check_stops()
        upper, stop, released = self.came.upper, self.came.stop, dict[int, Facts]()
        time, before, waiting = 0, list[Culprit](), frozenset[int]()
        for time, cut in sorted(self.came.cuts.items()):
            if not time:
                continue
            step = self.judge.step(Known(self.world, cut), released, waiting if self.way.ordering == "complete" else ())
            waiting = step.waiting
            facts = self.came.facts.get(time, NONE)
            if self.came.forgot and upper <= time and stop is not None and "cannot be known" in stop:
                # What would show whether a record is a duplicate is lost.
                return
            if stop is not None and self._stops_here(time, step, before, facts):
                return
            if step.must:
                raise self.fail(f"it must stop at {time} ({cut}): {step.culprits}")
            if upper <= time:
                raise self.fail(f"it goes no further than {upper}, and {cut} is bound at {time}: {step.culprits}")
            unsure = self.judge.some_is_wrong(released) or any(one.at == EVER for one in step.culprits)
            if facts != summed(step.fresh.values()) and not (self.way.state and unsure):
                raise self.fail(f"at {time} ({cut}) wanted is {[*step.fresh]}: {_short(summed(step.fresh.values()))}")
            released, before = released | step.fresh, step.culprits
            if SNAPSHOT not in released and self.world.snapshot != "none" and self.came.first_stated is not None:
                if self.came.first_stated <= time + 1:
                    raise self.fail(f"tables are stated up to {self.came.first_stated}, before the snapshot is whole")
        if stop is not None:
            raise self.fail(f"a false stop: {stop}")
        if time and upper != time + 1:
            raise self.fail(f"the last time is {time}, and the logs are stated up to {upper}")

    def _check_stops(self) -> None:
        """They are at one time; but what a topic has lost, and when, may show more or less to each life."""
        stops = [
            (stop, upper) for cut, stop, upper in self.came.lives
            if stop is not None and not self._may_be_forgotten(cut, stop, upper)
        ]
        uppers = {upper for stop, upper in stops if not (self.came.forgot and "cannot be known" in stop)}
        if len(uppers) > 1:
            raise self.fail(f"it stops at different times: {sorted(uppers)}")

    def _stops_here(self, time: int, step: Step, before: list[Culprit], facts: Facts) -> bool:
        """Whether it stops before the time, or behind all that is whole at it, for what may be known only then.

        What is certain may stop it at any time from which on it is known. What is not must be new: these are what the
        cut ``before`` showed already, and it passed that. What shows an old connector comes one by one (a second BEGIN,
        a row numbered 1, its version), and so does what shows another snapshot (its row, an END from before it) or an
        early END (its LSN, that of the snapshot). A late END that is bound with a later one does no harm, until a
        capture begins again: it reads the ENDs in the order of their topic, and meets a row of that transaction.
        """
        blamed = self._named(step.culprits, str(self.came.stop))
        if self.came.upper == time + 1:
            given = list(accumulate(([one] for one in step.fresh.values()), initial=[]))
            given = given if any(one.at_once for one in blamed) else given[-1:]
            certain = any(one.must or one.at == EVER for one in blamed)
            return certain and facts in [summed(some) for some in given]
        piecewise = [
            one for one in before
            if one.another or one.early is not None or one.why == LATE_END or self._is_numbered_again(one)
        ]
        old = {(one.why, one.tx) for one in before if not one.must and one not in piecewise}
        return self.came.upper == time and any(one.must or (one.why, one.tx) not in old for one in blamed)

    def _is_numbered_again(self, culprit: Culprit) -> bool:
        """Whether an old connector was restarted: that two rows of a number are two is known by their BEGINs."""
        old = self.world.connector.version == OLD
        return culprit.why == NUMBERED_AGAIN or (old and culprit.why == TWO_ROWS)


def _short(facts: Facts) -> str:
    return str({table[7:]: dict(rows) for table, rows in facts.items() if rows}) if facts else "nothing"
