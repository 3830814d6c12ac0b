"""The requests of ``cdcv2 compare`` to a source, and their results: source and logs, or source and target."""

from __future__ import annotations

import argparse
import json
import time as clock
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdcv2.cli.compare_source import PAUSE, LogHistory, SourceComparison, SourceSnapshot, compare_log, tables_of
from cdcv2.cli.disputes import quarantine_of, remark_disputes
from cdcv2.completeness import through_text
from cdcv2.control.plan import MaterializationPlan, TargetContent
from cdcv2.control.seconds_behind import OTHER_SERVER, ends_before
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.commit_clock import is_of_stream
from cdcv2.logs.description import description_of
from cdcv2.logs.named_logs import CoveredLogs, NamedLog
from cdcv2.logs.quarantine import Quarantine
from cdcv2.materialize.protocol.messages import DELETED, Key, Table, Values
from cdcv2.materialize.targets.lake.view import LakeView, held_lake
from cdcv2.materialize.texts import texts
from cdcv2.rows.fingerprint import Texts
from cdcv2.rows.postgres_texts import TextTable
from cdcv2.timeline.gauges import lsn_text
from cdcv2.views.binding import COUNT, ViewBinding
from cdcv2.views.columns import columns_of

#: How many differing rows of one table are named.
MOST_SHOWN = 10


def current(binding: ViewBinding, table: Table, rows: Iterable[tuple[Key, Values]]) -> Iterator[tuple[Key, Values]]:
    """The rows of a target without what was deleted softly."""
    names = [one.name for one in table.values]
    mark = names.index(DELETED) if binding.marked else None
    count = names.index(COUNT) if not binding.key else None
    for key, values in rows:
        if not (mark is not None and values[mark]) and not (count is not None and not values[count]):
            yield key, values


def held(view: TargetContent, plan: MaterializationPlan) -> TargetContent:
    """The target, of which no file is needed any more: a lake that runs replaces its files while the logs are read."""
    return held_lake(view, [one.target for one in plan.bindings]) if isinstance(view, LakeView) else view


def added(table: Table, rows: Iterable[Values]) -> Iterator[tuple[Texts, int]]:
    """Of a multiset without digests, each row once: its values are the key, and how often it is there the value."""
    counts = Counter[Texts]()
    for *row, count in rows:
        counts[texts(table.key, row)] += count
    return (((*row, *texts(table.values, [count])), 1) for row, count in counts.items() if count)


def shown(table: TextTable, rows: Counter[Texts]) -> list[dict[str, Any]]:
    """Rows of a difference for people: column -> text."""
    plain = []
    for row, count in sorted(rows.items(), key=repr):
        texts = {column.name: column.shown(one) for column, one in zip(table.columns, row)}
        if table.width < len(table.columns):
            texts = dict(list(texts.items())[table.width:])
        plain += [texts] * count
    return plain


@dataclass(frozen=True)
class ComparisonResult:
    """The result of one comparison: its exit code, the text for people, and the values for programs.

    ``not_compared``: table -> why, of those that were asked about and about which the logs state nothing.
    """

    exit: Exit
    lines: list[str]
    plain: dict[str, Any]
    not_compared: Mapping[str, str]


def verdict_of(*, differ: bool, complete: bool, not_compared: Mapping[str, str]) -> tuple[Exit, str]:
    """The exit code of a comparison, and the word that its last line begins with.

    ``complete``: whether what differs cannot be on its way. Two sides that both have nothing prove nothing, so a table
    about which nothing is stated is never equal.
    """
    if differ:
        return (Exit.WRONG, "different") if complete else (Exit.MISSING, "not comparable")
    return (Exit.MISSING, "not all compared") if not_compared else (Exit.DONE, "equal")


def not_compared_lines(not_compared: Mapping[str, str]) -> list[str]:
    """A line for each table that was not compared."""
    return [f"{table}: not compared: {why}" for table, why in not_compared.items()]


@dataclass(frozen=True)
class SourceRequest:
    """The arguments about the source."""

    called: dict[str, str]
    without: tuple[str, ...]
    patience: float
    marker: bool
    at: int | None
    quarantine: Quarantine | None


def source_request(args: argparse.Namespace, at: Time | None, plan: MaterializationPlan | None) -> SourceRequest:
    """These arguments, about the view of a file. Raises UsageError."""
    if at is not None and type(at) is not int:
        raise UsageError(f"--at {args.at}: times of a source are whole numbers")
    called = {}
    for text in args.source_table:
        name, sign, table = text.partition("=")
        if not sign or "." not in table:
            raise UsageError(f"--source-table {text}: write LOG=SCHEMA.TABLE")
        called[name] = table
    quarantine = quarantine_of(args, None if plan is None else plan.quarantine)
    return SourceRequest(called, tuple(args.without), args.wait, args.marker, at, quarantine)


def with_logs(source: SourceSnapshot, covered: CoveredLogs, start: int, wanted: SourceRequest) -> ComparisonResult:
    """Each table with its log, or its copies. Of a table that the connector covers later, rows that it had before
    differ. The tables that it does not cover are named. A source that lacks what the logs had before it is not equal.
    """
    logs = covered.logs
    _demand_positions(logs)
    tables = tables_of(source, {named.table: named.row_type for named in logs}, wanted.called, wanted.without)
    read = LogHistory(logs, start=start, at=wanted.at, patience=wanted.patience, quarantine=wanted.quarantine)
    read.read_all()
    source.look()
    read.look(source.low, source.high)
    lacking = _lacking(source.high, read.stated, "the logs")
    # Of a source that lacks commits, all that the logs had is known to be missing there: it is not waited for.
    complete = lacking is not None or read.read_through(_through(source, wanted.marker))
    # What came meanwhile was committed before now.
    lacking = lacking or _lacking(source.end(), read.stated, "the logs")
    covered.demand_still()
    remark_disputes("cdcv2 compare", read.disputed(), wanted.quarantine)
    if lacking is None:
        _demand_still(source, read, wanted.at)
    found = {name: compare_log(source, table, read, name) for name, table in tables.items()}
    far = through_text(read.frontier)
    behind = f"of the logs {far} only" + (f" ({read.lacking()})" if read.lacking() else "")
    left = {table: covered.of.text(table) for table in covered.of.uncovered}
    other = _OtherSide("log", "the log states", far, None if complete else behind, lacking)
    return _part(source, found, other, left)


def _lacking(position: int, stated: int | None, what: str) -> str | None:
    """What is wrong with a source whose WAL ends at a position, if something else was complete beyond that before."""
    if stated is None or not ends_before(position, stated):
        return None
    return (
        f"{OTHER_SERVER}. It ends at {position} ({lsn_text(position)}), and {what} had all through {stated} "
        f"({lsn_text(stated)}) before that was asked. If this is the server that was captured, it has lost commits, as "
        "where a standby was promoted without them, or an older backup was put back: "
        "docs/operations/move-servers.md#compare-after-a-failover"
    )


def _stated_by_target(plan: MaterializationPlan, frontier: Antichain) -> int | None:
    """The position through which a target is complete; None: its times are none, or may be none, or it has nothing."""
    first = next(iter(frontier), None)
    if not isinstance(first, int) or first <= plan.start:
        return None
    described = [description_of(named.log) for named in plan.logs]
    # Of a copy of a log it is not known: it states no log set.
    of_commits = all(one.timeline is not None and one.timeline == one.log_set for one in described)
    return first - 1 if of_commits and not any(is_of_stream(named.log) for named in plan.logs) else None


def _demand_positions(logs: Iterable[NamedLog]) -> None:
    """Raise UsageError unless the times are positions of a source: those of a remap are milliseconds."""
    for named in logs:
        stated = description_of(named.log)
        # By commit times the log set stands for the timeline.
        on_remap = None not in (stated.timeline, stated.log_set) and stated.timeline != stated.log_set
        if named.times != "int" or on_remap:
            raise UsageError(
                f"the times of the log {named.log.name} are no positions of a source: they come from a remap, or from "
                "elsewhere. Compare source and target, with --without-log"
            )


def _demand_still(source: SourceSnapshot, read: LogHistory, at: int | None) -> None:
    """Raise IncompleteError unless the source, as it is, is what it was at that time."""
    if at is None:
        return
    if at > source.high:
        raise IncompleteError(
            f"the source is at {source.high} only; let it continue, or leave --at out", what=f"--at {at}"
        )
    if read.moved:
        raise IncompleteError(
            f"the source has moved on since, by {read.moved} updates, and shows no past: what it had then cannot be "
            "compared. Leave --at out", what=f"--at {at}"
        )


def with_target(source: SourceSnapshot, plan: MaterializationPlan, wanted: SourceRequest) -> ComparisonResult:
    """Each table with the target's, if that is not a reduction: no log shows what is on its way.

    Raises UsageError for a table that is one, and for --at.
    """
    reduced = [binding.target for binding in plan.bindings if binding.reduce]
    if reduced:
        raise UsageError(f"{reduced[0]} is a reduction: only the log states what it should be; leave --without-log out")
    if wanted.at is not None:
        raise UsageError("--at needs the log, as neither source nor target show a past: leave one of both out")
    tables = tables_of(source, {one.log: one.row_type for one in plan.bindings}, wanted.called, wanted.without)
    with closing(plan.own_view()) as view:
        before = view.frontier
    source.look()
    lacking = _lacking(source.high, _stated_by_target(plan, before), "the target")
    through = source.high if lacking else _through(source, wanted.marker)
    view, deadline = plan.own_view(), clock.monotonic() + wanted.patience
    while view.frontier.less_equal(through) and clock.monotonic() < deadline:
        view.close()
        clock.sleep(min(PAUSE, wanted.patience))
        view = plan.view()
    with closing(held(view, plan)) as view:
        frontier = view.frontier
        rows = {one.target: list(_texts_of(one, tables[one.log], view)) for one in plan.bindings}
    lacking = lacking or _lacking(source.end(), _stated_by_target(plan, frontier), "the target")
    found: dict[str, SourceComparison] = {}
    for one in plan.bindings:
        verdict = source.compare(tables[one.log], rows[one.target])
        found[one.target] = SourceComparison(tables[one.log], verdict.one, verdict.other, list(verdict.differing))
    complete = not frontier.less_equal(through)
    if complete and any(compared.differing for compared in found.values()):
        _leave_what_moves(source, found, rows)
    behind = None if complete else f"of the target {through_text(frontier)} only"
    other = _OtherSide("target", "the target has", through_text(frontier), behind, lacking)
    return _part(source, found, other, {})


def _leave_what_moves(
    source: SourceSnapshot, found: dict[str, SourceComparison], rows: dict[str, list[tuple[Texts, int]]]
) -> None:
    """The target may be ahead of the snapshot: what counts are keys that are the same in a later snapshot, too."""
    with closing(source.later()) as later:
        for target, comparison in found.items():
            again = {one.key: one.one for one in later.compare(comparison.table, rows[target]).differing}
            same = [one for one in comparison.differing if again.get(one.key) == one.one]
            comparison.between = len(comparison.differing) - len(same)
            comparison.differing = same


def _texts_of(binding: ViewBinding, table: TextTable, view: TargetContent) -> Iterator[tuple[Texts, int]]:
    """The rows of a target as the log would have them, as texts."""
    columns, target = columns_of(binding.row_type), binding.view().table
    names = [one.name for one in target.fields]
    for key, values in current(binding, target, view.rows(target.name)):
        named = dict(zip(names, (*key, *values)))
        row = binding.row_type.row([column.back(named[column.field.name]) for column in columns])
        yield table.texts(row), 1 if binding.key else named[COUNT]


def _through(source: SourceSnapshot, marker: bool) -> int:
    """The time through which others must be complete to be as far as the source."""
    return source.mark() if marker else source.high


class _OtherSide(NamedTuple):
    """What a source is compared with: its name, the words before its rows, and how far it is.

    ``behind``: where it is, if it is not as far as the source. ``lacking``: what is wrong with a source that lacks
    commits.
    """

    name: str
    verb: str
    far: str
    behind: str | None
    lacking: str | None


def _part(
    source: SourceSnapshot, found: dict[str, SourceComparison], other: _OtherSide, not_compared: Mapping[str, str]
) -> ComparisonResult:
    differ, lacks = any(one.differing for one in found.values()), other.lacking is not None
    complete = other.behind is None or lacks
    verdict, what = verdict_of(differ=differ or lacks, complete=complete, not_compared=not_compared)
    lines = [line for name, one in found.items() for line in _lines(name, one, other.verb)]
    lines += not_compared_lines(not_compared)
    if _nothing_common(found.values()):
        lines.append(
            f"no row of the source is in the {other.name} as it is: this may be another database, or other tables, "
            "than those that were captured"
        )
    if other.lacking is not None:
        lines.append(other.lacking)
    elif differ and not complete:
        lines.append(
            f"cannot be compared yet: the source was read at {source.high}, and {other.behind}: what differs may be on "
            "its way. Give it time with --wait, and with --marker where the source is idle"
        )
    if differ and source.open:
        lines.append(
            f"{source.open} transactions were open in the source: one that waits for a standby is in the log before "
            "anybody sees it in the source"
        )
    lines.append(f"{what}: source at {source.high}, {other.name} {other.far}")
    plain = {
        "source": {
            "position": source.high, "complete": other.behind is None, "open_transactions": source.open,
            "lacks_commits": lacks, "tables": {name: _plain(one, other.name) for name, one in found.items()},
        },
    }  # fmt: skip
    return ComparisonResult(verdict, lines, plain, not_compared)


def _nothing_common(found: Collection[SourceComparison]) -> bool:
    """Whether both sides have rows, and not one in common: what only lags behind has most of them."""
    apart = all(
        sum(one.one.total() for one in compared.differing) == compared.one.rows
        and sum(one.other.total() for one in compared.differing) == compared.other.rows
        and not any(one.one & one.other for one in compared.differing)
        for compared in found
    )
    return apart and any(compared.one.rows for compared in found) and any(compared.other.rows for compared in found)


def _lines(name: str, found: SourceComparison, verdict: str) -> Iterator[str]:
    table = found.table
    if table.left_out:
        yield f"{name}: not compared: {', '.join(table.left_out)} of {table.name}"
    if found.between:
        yield f"{name}: {found.between} keys changed while they were read, and are as they were in between"
    if not found.differing:
        yield f"{name}: {found.one.rows} rows in the source, fingerprint {found.one}"
        return
    yield (
        f"{name}: {len(found.differing)} keys differ; the source has {found.one.rows} rows ({found.one}), "
        f"{verdict} {found.other.rows} ({found.other})"
    )
    for one in found.differing[:MOST_SHOWN]:
        key = {column.name: column.shown(text) for column, text in zip(table.columns, one.key)}
        sides = [", ".join(json.dumps(row, ensure_ascii=False) for row in shown(table, rows)) or "nothing"
                 for rows in (one.one, one.other)]  # fmt: skip
        yield f"  {json.dumps(key, ensure_ascii=False)}: the source has {sides[0]}, {verdict} {sides[1]}"
    if len(found.differing) > MOST_SHOWN:
        yield f"  and {len(found.differing) - MOST_SHOWN} more"


def _plain(found: SourceComparison, other: str) -> dict[str, Any]:
    table = found.table
    return {
        "table": table.name,
        "rows": {"source": found.one.rows, other: found.other.rows},
        "fingerprint": {"source": str(found.one), other: str(found.other)},
        "not_compared": list(table.left_out),
        "changed_meanwhile": found.between,
        "differing": len(found.differing),
        "first": [
            {
                "key": {column.name: column.shown(text) for column, text in zip(table.columns, one.key)},
                "source": shown(table, one.one), other: shown(table, one.other),
            }
            for one in found.differing[:MOST_SHOWN]
        ],
    }  # fmt: skip
