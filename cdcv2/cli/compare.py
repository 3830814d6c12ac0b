"""Prove that source, log and target have the same rows: all of them, no others.

It takes the YAML file of a pipeline or of cdcv2 materialize. It reads the rows
of the target and its checkpoint, both as of one moment. It reads the logs up to
exactly that checkpoint, computes each view from nothing, and compares: first a
fingerprint of all rows, in any order, then the rows that differ. Targets:
postgres, lake, delta. A row that was deleted softly counts as deleted.

With --source, it also compares the tables in the source with the logs. The logs
must be by commit times: those of a remap are refused. The source is read in one
read-only transaction. The database computes fingerprints, and sends rows only
where these differ. What the logs had before must be in the source: if its WAL
ends before that, it has lost commits, or is another server, and differs.

The logs must be complete up to the position at which the source was read.
--wait gives them time, also to come to be there. An idle source commits
nothing, so its log does not move. --marker commits an empty transaction that
moves it. (Not needed if the connector commits heartbeats.)

With logs in place of the YAML file, source and logs are compared. With
--without-log, source and target are compared, if the views are rows by key or
multisets.

Where the source is, and its password: --source env (CDCV2_POSTGRES, a
connection string; or libpq's own PGHOST, PGDATABASE, PGPASSWORD, ...),
--source service:NAME of libpq's service file, or --source FILE with a
connection string (file:FILE, if it is called env).

Memory: the rows of the logs.
"""

from __future__ import annotations

import argparse
import json
import time as clock
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from cdcv2.cli.at_option import TAKES, time_at
from cdcv2.cli.compare_sides import (
    ComparisonResult, held, not_compared_lines, source_request, verdict_of, with_logs, with_target,
)
from cdcv2.cli.compare_source import PAUSE, SourceSnapshot
from cdcv2.cli.compare_target import (
    BEHIND, TableComparison, TargetRequest, compared_table, demand_started, left_out, rows_by_logs,
)
from cdcv2.cli.console import ResultOutput
from cdcv2.cli.coverage import remark_logs
from cdcv2.cli.disputes import OF_FILE, add_quarantine_argument, quarantine_of
from cdcv2.cli.logs import open_logs
from cdcv2.cli.options.log_words import declare_log_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import start_of
from cdcv2.cli.options.words import declare, log_to_read
from cdcv2.store.source_address import source_address
from cdcv2.completeness import through_text
from cdcv2.control.materialization_file import read_plan
from cdcv2.control.plan import MaterializationPlan
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import IncompleteError, LateTableError, MissingLogError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.contents import demand_history
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.named_logs import CoveredLogs, demand_ordered, some_covered

#: Seconds until it is looked again whether something is there.
_AGAIN = 1.0

EXAMPLES = (
    ("cdcv2 compare pipeline.yaml --source env --wait 120 --marker",
     "source, log and target of a pipeline; PGHOST, PGDATABASE, ... name the source"),
    ("cdcv2 compare shop-lake.yaml", "all that the target has"),
    ("cdcv2 compare shop-from-kafka.yaml --at 101936016", "demand that it has come just there"),
    ("cdcv2 compare shop-lake.yaml --json", "the same for a program"),
    ("cdcv2 compare shop-lake.yaml --source shop.dsn --wait 60 --marker",
     "source, log and target; the source's connection string is in a file"),
    ("cdcv2 compare logs --source env --wait 60", "source and log; PGHOST, PGDATABASE, ... name the source"),
    ("cdcv2 compare shop-lake.yaml --source service:shop --without-log", "source and target"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "they are equal",
    Exit.MISSING: "it cannot be judged. The logs are not complete up to where the target or the source is, and differ "
                  "from it. Or the target has nothing yet, or has not reached --at (with now: the last finished time "
                  "of its logs). Or one of the tables is not covered by its log (the others are compared)",
    Exit.USAGE: "wrong usage; or the target is beyond --at already, and does not keep its past",
    Exit.WRONG: "they differ, and where; or the source lacks commits that the logs or the target had before",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    parser.add_argument("log", nargs="+", metavar="FILE.yaml|LOG",
                        help="what is compared: the file of cdcv2 materialize or of a pipeline, or logs with "
                             "--source")
    declare(parser, "--source", more="; it is compared, too")
    parser.add_argument("--source-table", action="append", default=[], metavar="LOG=SCHEMA.TABLE",
                        help="what a log's table is called in the source (default: as the log is)")
    parser.add_argument("--without", action="append", default=[], metavar="LOG.COLUMN",
                        help="a column that is not to be compared with the source")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS",
                        help="how long to wait until logs and target are where the source is (default: 0)")
    declare(parser, "--marker", more=", so that they can come past it")
    parser.add_argument("--without-log", action="store_true", help="compare source and target only")
    declare(parser, "--view")
    declare(parser, "--at", more=f"demand that the target has all up to there, and nothing later: {TAKES}")
    declare(parser, "--json", more="the result, one object")
    declare(parser, "--events")
    add_quarantine_argument(parser, OF_FILE)
    declare_log_words(parser)
    parser.formerly("--table", "--source-table")


@dataclass(frozen=True)
class _WholeComparison:
    """The results with the source and with the target, and the logs that they are of."""

    parts: list[ComparisonResult]
    found: CoveredLogs
    at: Time | None

    @property
    def exit(self) -> Exit:
        """That of the worst of them."""
        return max((part.exit for part in self.parts), key=[Exit.DONE, Exit.MISSING, Exit.WRONG].index)


def run(args: argparse.Namespace) -> Exit:
    """Compare all tables of the file, or all logs."""
    file = args.log[0] if args.log[0].endswith((".yaml", ".yml")) else None
    _check(args, file)
    if file is None:
        args.log = [log_to_read(text) for text in args.log]
    whole = _waited(args, file)
    with ResultOutput.standard() as output:
        if args.json:
            plain: dict[str, Any] = {
                "equal": whole.exit is Exit.DONE, "not_covered": list(whole.found.of.uncovered),
                "not_compared": {table: why for part in whole.parts for table, why in part.not_compared.items()},
            }
            for part in whole.parts:
                plain.update(part.plain)
            output.line(json.dumps(plain))
        for line in [] if args.json else [line for part in whole.parts for line in part.lines]:
            output.line(line)
    remark_logs("cdcv2 compare", whole.found)
    # The verdicts, and no row: events are kept, and others may read them.
    args.events.result("; ".join(part.lines[-1] for part in whole.parts if part.exit is whole.exit))
    whole.found.of.demand_started(whole.at)
    return whole.exit


def _waited(args: argparse.Namespace, file: str | None) -> _WholeComparison:
    """The comparison; while there is time, again where something is not there yet: a capture may just begin, or come to
    a table that it did not cover.
    """
    deadline = clock.monotonic() + args.wait
    while True:
        try:
            whole = _compared(args, file, deadline)
        except (IncompleteError, LateTableError, MissingLogError):
            if clock.monotonic() >= deadline:
                raise
        else:
            if whole.exit is not Exit.MISSING or clock.monotonic() >= deadline:
                return whole
        clock.sleep(_AGAIN)
        args.wait = max(0.0, deadline - clock.monotonic())


def _compared(args: argparse.Namespace, file: str | None, deadline: float) -> _WholeComparison:
    plan = read_plan(file, args.view) if file is not None else None
    logs = plan.logs if plan is not None else open_logs(args)
    found = some_covered(logs)
    at = time_at(args.at, logs, "cdcv2 compare") if args.at is not None else None
    demand_ordered(logs, "comparing with the source")
    if at is not None:
        demand_history(logs, at, start_of(None, logs) if plan is None else [plan.start])
    with ExitStack() as opened:
        source = None
        if args.source:
            # It is looked at when what has to be in it was read.
            source = opened.enter_context(closing(SourceSnapshot(source_address(args.source))))
        parts: list[ComparisonResult] = []
        if source is not None and args.without_log and plan is not None:
            parts.append(with_target(source, plan, source_request(args, at, plan)))
        elif source is not None:
            start = plan.start if plan is not None else 0
            parts.append(with_logs(source, found, start, source_request(args, at, plan)))
        if plan is not None and not args.without_log:
            if source is not None and at is None:
                _wait_for_target(plan, source.high, deadline)
            through = source.high if source is not None and at is None else None
            try:
                parts.append(_with_target(plan, found, opened, at, args, through))
            except IncompleteError as behind:
                if all(part.exit is not Exit.WRONG for part in parts):
                    raise
                # What differs is known, and does not go away with time.
                parts.append(ComparisonResult(Exit.MISSING, [str(behind)], {}, {}))
    return _WholeComparison(parts, found, at)


def _wait_for_target(plan: MaterializationPlan, through: int, deadline: float) -> None:
    """Return when the target is complete through that position of the source, or there is no time left."""
    while clock.monotonic() < deadline:
        with closing(plan.view()) as view:
            if not view.frontier.less_equal(through):
                return
        clock.sleep(PAUSE)


def _check(args: argparse.Namespace, file: str | None) -> None:
    if file is None and not args.source:
        raise UsageError(f"{args.log[0]} is no YAML file: name that of cdcv2 materialize, or give --source for a log")
    if file is not None and len(args.log) > 1:
        raise UsageError(f"{args.log[1]}: the logs of a materialization stand in its file; name nothing beside it")
    if file is None and args.view is not None:
        raise UsageError("--view is of a pipeline: name its file")
    if file is None and args.without_log:
        raise UsageError("--without-log compares source and target: name the YAML file of cdcv2 materialize")
    given = [name for name in ("source_table", "without", "wait", "marker", "without_log") if getattr(args, name)]
    if given and not args.source:
        raise UsageError(f"--{given[0].replace('_', '-')} goes with --source")
    if not args.wait >= 0:
        raise UsageError(f"--wait {args.wait}: it takes a number of seconds from 0 on")


def _with_target(
    plan: MaterializationPlan, found: CoveredLogs, opened: ExitStack, at: Time | None, args: argparse.Namespace,
    through: Time | None,
) -> ComparisonResult:
    view = opened.enter_context(closing(held(plan.own_view(), plan)))
    frontier = view.frontier
    if at is not None and frontier.less_equal(at):
        raise IncompleteError(f"it is {through_text(frontier)}, and {at} is asked for: let it continue", what=BEHIND)
    demand_started(plan, frontier)
    request = TargetRequest(at, args.at == "now", quarantine_of(args, plan.quarantine), args.events, through)
    expected = rows_by_logs(plan, found, frontier, request)
    left = left_out(plan, found, frontier)
    compared = [
        compared_table(binding, rows, view)
        for binding, rows in zip(plan.bindings, expected) if binding.target not in left
    ]
    wrong = any(one.number for one in compared)
    verdict, what = verdict_of(differ=wrong, complete=True, not_compared=left)
    lines = [*_text(compared), *not_compared_lines(left), f"{what}: {plan.name}, {through_text(frontier)}"]
    return ComparisonResult(verdict, lines, _plain(plan, compared, frontier), left)


def _text(found: list[TableComparison]) -> Iterator[str]:
    for one in found:
        (ours, theirs), (here, there) = one.rows, one.fingerprint
        if not one.number:
            yield f"{one.table.name}: {theirs} rows, fingerprint {there}"
            continue
        sides = f"the logs state {ours} ({here}), the target has {theirs} ({there})"
        yield f"{one.table.name}: {one.number} rows differ; {sides}"
        yield from one.differing_lines


def _plain(plan: MaterializationPlan, found: list[TableComparison], frontier: Antichain) -> dict[str, Any]:
    return {
        "materialization": plan.name, "frontier": plain_frontier(frontier),
        "tables": {
            one.table.name: {
                "rows": dict(zip(("logs", "target"), one.rows)),
                "fingerprint": dict(zip(("logs", "target"), one.fingerprint)),
                "differing": one.number,
                "first": [dict(zip(("key", "logs", "target"), row)) for row in one.differing],
            }
            for one in found
        },
    }  # fmt: skip
