"""What a target should have, by its logs, and what it has: the one comparison of ``cdcv2 compare`` and ``repair``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import LiteralString

from cdcv2.cli.compare_sides import MOST_SHOWN, added, current
from cdcv2.cli.disputes import remark_disputes
from cdcv2.cli.logs import bar_of
from cdcv2.completeness import through_text
from cdcv2.control.plan import MaterializationPlan, TargetContent
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, less_equal
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.events import JobEvents
from cdcv2.logs.named_logs import CoveredLogs
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.materialize.protocol.messages import Field, Key, Table, Values
from cdcv2.materialize.targets.postgres.tables import postgres_errors
from cdcv2.materialize.targets.postgres.view import PostgresView
from cdcv2.materialize.texts import plain, texts
from cdcv2.rows.fingerprint import LocalRows, Side, Texts, Verdict, compare
from cdcv2.views.binding import ViewBinding
from cdcv2.views.combined_updates import CombinedUpdates

#: What is wrong with a target that is not where it should be.
BEHIND = "the target is behind"


@dataclass(frozen=True)
class TableComparison:
    """One table, and what logs (one) and target (other) are to each other there."""

    table: Table
    verdict: Verdict

    @property
    def rows(self) -> tuple[int, int]:
        """How many each side has."""
        return self.verdict.one.rows, self.verdict.other.rows

    @property
    def fingerprint(self) -> tuple[str, str]:
        """Both, as people compare them."""
        return str(self.verdict.one), str(self.verdict.other)

    @property
    def number(self) -> int:
        """How many keys differ."""
        return len(self.verdict.differing)

    @property
    def differing(self) -> Iterator[tuple[str, str | None, str | None]]:
        """The first of them: the key, and what each side has there."""
        width = len(self.table.key)
        for one in self.verdict.differing[:MOST_SHOWN]:
            both = (one.one, one.other)
            sides = [next((_json(self.table.values, row[width:]) for row in rows), None) for rows in both]
            yield _json(self.table.key, one.key), sides[0], sides[1]

    @property
    def differing_lines(self) -> Iterator[str]:
        """The same for people."""
        for key, by_logs, in_target in self.differing:
            yield f"  {key}: the logs state {by_logs or 'nothing'}, the target has {in_target or 'nothing'}"
        if self.number > MOST_SHOWN:
            yield f"  and {self.number - MOST_SHOWN} more"


@dataclass(frozen=True)
class TargetRequest:
    """The arguments about the target.

    ``now``: ``at`` is the last finished time of its logs. ``through``: the last time up to which it may lack nothing
    that its logs have; None: it may lack anything behind its frontier.
    """

    at: Time | None
    now: bool
    quarantine: Quarantine | None
    events: JobEvents
    through: Time | None = None


def demand_started(plan: MaterializationPlan, frontier: Antichain) -> None:
    """Raise IncompleteError unless the target has something."""
    if frontier == Antichain([plan.start]):
        raise IncompleteError(
            "run cdcv2 materialize, once something is complete in its logs (cdcv2 verify states what is). If it had "
            "something before, its tables were lost",
            what=f"the target of {plan.name} has nothing yet",
        )


def left_out(plan: MaterializationPlan, found: CoveredLogs, frontier: Antichain) -> dict[str, str]:
    """The tables of the target about which the logs state nothing, and why."""
    return {
        binding.target: found.of.text(binding.log) for binding in plan.bindings
        if not found.of.states(binding.log, frontier)
    }


def rows_by_logs(
    plan: MaterializationPlan, found: CoveredLogs, frontier: Antichain, request: TargetRequest
) -> list[dict[Key, Values]]:
    """What each view comes to at the frontier, as one transaction from nothing would store it.

    Raises UsageError where that is another state than the one at ``at``, IncompleteError where the logs are not
    complete up to there, or, with ``--at now``, are complete further on, or have updates up to ``through`` behind it.
    """
    at, now, quarantine = request.at, request.now, request.quarantine
    views = [binding.view() for binding in plan.bindings]
    combined = CombinedUpdates(views)
    asked, moved = None if at is None else Antichain([at]), 0
    through, lacking = request.through, 0
    with bar_of(found.logs, "comparing", events=request.events) as bar:
        reading = LogReader(found, start=[plan.start], observer=bar, quarantine=quarantine)
        bar.follow(reading)
        for cut_updates, reached in reading:
            for number, binding in enumerate(plan.bindings):
                updates = cut_updates.get(binding.log, [])
                wanted = [(views[number].key_of(one[0]), one) for one in updates if not frontier.less_equal(one[1])]
                if through is not None:
                    lacking += sum(frontier.less_equal(time) and less_equal(time, through) for _, time, _ in updates)
                if asked is not None:
                    moved += sum(asked.less_equal(time) and time != at for _, (_, time, _) in wanted)
                for _ in combined.add(number, wanted):
                    continue
            # Updates before a start would be left out on both sides: they may stand anywhere in the logs.
            if not (now or through is not None or plan.start or found.starts) and reached.dominates(frontier):
                break
    found.demand_still()
    remark_disputes("cdcv2 compare", reading.disputed(), quarantine)
    plan.demand_reached(frontier, reading.frontier, reading.missing())
    if now and not frontier.dominates(reading.frontier):
        raise IncompleteError(
            f"it is {through_text(frontier)}, and its logs {through_text(reading.frontier)}: let it continue",
            what=BEHIND,
        )
    if lacking:
        raise IncompleteError(
            f"it is {through_text(frontier)}, and its logs have {lacking} updates behind that, as the source has: let "
            "it continue, or give it time (--wait SECONDS)", what=BEHIND,
        )
    if moved:
        raise UsageError(
            f"--at {at}: the target is {through_text(frontier)}, which is {moved} updates of its views further on, and "
            "shows no past. Leave --at out, and it is compared as it is"
        )
    rows: list[dict[Key, Values]] = [{} for _ in views]
    for store in combined.stores():
        rows[store.binding][store.key] = store.values
    return rows


def compared_table(binding: ViewBinding, rows: dict[Key, Values], view: TargetContent) -> TableComparison:
    """The rows that a view comes to, and those that the target has. Raises what reading the target raises."""
    named = binding.view().table
    # Equal is what the types call equal that the columns have there; of one that is as in the log, those of the file.
    kept = view.stored_table(named)
    table = _typed(kept, named)
    if kept.multiset:
        table = replace(table, key=table.values[:-1], values=table.values[-1:])
        there = (values for _, values in view.rows(table.name))
        logs, lake = (LocalRows(added(table, one), len(table.key)) for one in (rows.values(), there))
        return TableComparison(table, compare(logs, lake, len(table.key)))
    width = len(table.key)
    expected = LocalRows(((texts(table.fields, (*key, *values)), 1) for key, values in rows.items()), width)
    target: Side | None = None
    if isinstance(view, PostgresView):
        target = view.side(table, _there(binding))
    if target is None:
        found = current(binding, table, view.rows(table.name))
        target = LocalRows(((texts(table.fields, (*key, *values)), 1) for key, values in found), width)
    with postgres_errors("read", table.name) if isinstance(view, PostgresView) else nullcontext():
        return TableComparison(table, compare(expected, target, width))


def _typed(kept: Table, named: Table) -> Table:
    fields = [there if there.source is not None else one for there, one in zip(kept.fields, named.fields)]
    return replace(named, key=tuple(fields[: len(named.key)]), values=tuple(fields[len(named.key):]))


def _there(binding: ViewBinding) -> LiteralString:
    """Which rows of a table in PostgreSQL were not deleted softly."""
    if binding.marked:
        return "NOT s.cdcv2_deleted"
    return "true" if binding.key else "s.cdcv2_count <> 0"


def _json(fields: tuple[Field, ...], row: Texts) -> str:
    return json.dumps(plain(fields, row), ensure_ascii=False)
