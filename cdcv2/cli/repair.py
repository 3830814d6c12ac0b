"""Bring a damaged target back to its logs.

A target is damaged when rows were changed by hand, or files were lost. It takes
the YAML file of cdcv2 materialize, or that of a pipeline. It compares as cdcv2
compare does, at the frontier that the target has. Only where they differ does
it write, in one transaction (PostgreSQL) or one manifest (lake). The frontier
stays. Other targets are refused, with what to do instead.

  PostgreSQL   exactly the rows that differ
  lake         each table that differs, as one new file; also tables of which
               files are missing or cannot be read

Rows that were deleted softly count as deleted, as in cdcv2 compare. Those of
lost files do not come back.

To write, it takes the materialization over, as a run does. Of a pipeline, it
pauses the job of the view meanwhile (cdcv2 pause), and resumes it at the end,
also at SIGTERM and Ctrl-C; a job that was held starts then, too. If it was
killed in between, cdcv2 resume does that. Another process that keeps this
target is fenced off: it ends, and loses nothing. Start it again. If one starts
during the repair, the repair ends with an error and has changed nothing. You
may kill it and run it again at any time.
With --dry-run it takes nothing over and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple

from cdcv2.cli.compare_sides import current, held, not_compared_lines, verdict_of
from cdcv2.cli.compare_target import (
    TableComparison, TargetRequest, compared_table, demand_started, left_out, rows_by_logs,
)
from cdcv2.cli.console import ResultOutput
from cdcv2.cli.coverage import remark_logs
from cdcv2.cli.display import json_line
from cdcv2.cli.disputes import OF_FILE, add_quarantine_argument, quarantine_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.view_alone import view_alone
from cdcv2.completeness import through_text
from cdcv2.control.materialization_file import read_plan
from cdcv2.control.plan import MaterializationPlan, TargetContent
from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError
from cdcv2.exits import Exit
from cdcv2.logs.named_logs import CoveredLogs, some_covered
from cdcv2.materialize.protocol.messages import Key, Values
from cdcv2.materialize.repair import RepairableDriver, TableRepair, TargetRepair
from cdcv2.materialize.targets.lake.view import LakeView
from cdcv2.materialize.texts import texts
from cdcv2.rows.fingerprint import Texts
from cdcv2.views.binding import ViewBinding

EXAMPLES = (
    ("cdcv2 repair shop-lake.yaml --dry-run", "what differs, and would be written"),
    ("cdcv2 repair shop-lake.yaml", "write it; a process that keeps this target is fenced off"),
    ("cdcv2 repair shop-lake.yaml --json", "the result as one JSON object"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "the target has what its logs state, now",
    Exit.MISSING: "as cdcv2 compare: it cannot be judged",
    Exit.WRONG: "with --dry-run, something differs",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "file", "--view")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    declare(parser, "--json", more="the result, one object")
    declare(parser, "--events")
    add_quarantine_argument(parser, OF_FILE)


class Damage(NamedTuple):
    """A table that is not as its logs have it: what is to be written, and its comparison; or why it was not read."""

    repair: TableRepair
    binding: ViewBinding
    comparison: TableComparison | None
    unreadable: str | None = None

    @property
    def lines(self) -> Iterator[str]:
        """For people."""
        if self.comparison is None:
            yield f"{self.binding.target}: the whole table, {len(self.repair.rows)} rows: {self.unreadable}"
            return
        ours, theirs = self.comparison.rows
        yield (
            f"{self.binding.target}: {self.comparison.number} rows differ; the logs state {ours}, "
            f"the target had {theirs}"
        )
        yield from self.comparison.differing_lines


class _Target:
    """The target of a plan, and what belongs there by its logs."""

    def __init__(self, plan: MaterializationPlan, found: CoveredLogs, request: TargetRequest) -> None:
        self._plan, self._found, self._request = plan, found, request
        # The frontier that the rows are of.
        self._rows: tuple[Antichain, list[dict[Key, Values]]] | None = None
        #: up to where the target was when it was looked at, and the tables about which the logs state nothing
        self.frontier = Antichain([plan.start])
        self.left: dict[str, str] = {}

    def damage(self) -> list[Damage]:
        """The tables that are not as their logs have them, now."""
        with closing(_held(self._plan)) as view:
            self.frontier = view.frontier
            demand_started(self._plan, view.frontier)
            self.left = left_out(self._plan, self._found, view.frontier)
            if self._rows is None or self._rows[0] != view.frontier:
                rows = rows_by_logs(self._plan, self._found, view.frontier, self._request)
                self._rows = view.frontier, rows
            numbered = enumerate(zip(self._plan.bindings, self._rows[1]))
            found = [
                _damage(number, binding, rows, view) for number, (binding, rows) in numbered
                if binding.target not in self.left
            ]
        return [one for one in found if one is not None]


def _held(plan: MaterializationPlan) -> TargetContent:
    """The target; where it has lost files, as it is."""
    view = plan.own_view()
    try:
        return held(view, plan)
    except OutputError:
        return view


def run(args: argparse.Namespace) -> Exit:
    """Compare, and write what differs."""
    plan = read_plan(args.file, args.view)
    driver = plan.driver()
    if not isinstance(driver, RepairableDriver):
        plan.lines[None].fail(_INSTEAD)
    found = some_covered(plan.logs)
    target = _Target(plan, found, TargetRequest(None, False, quarantine_of(args, plan.quarantine), args.events))
    damage = target.damage()
    if damage and not args.dry_run:
        # Before anything is taken over: one who is refused leaves the one who runs alone.
        with view_alone(args.file, args.view, "cdcv2 repair"):
            damage = _repaired(plan, target, driver)
    wrong = bool(damage) and args.dry_run
    verdict, _ = verdict_of(differ=wrong, complete=True, not_compared=target.left)
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json_line(_plain(plan, target, damage, dry_run=args.dry_run)))
        for line in [] if args.json else _lines(plan, target, damage, dry_run=args.dry_run):
            output.line(line)
    remark_logs("cdcv2 repair", found)
    return verdict


#: What is to be done with a target that no driver of ours repairs.
_INSTEAD = (
    "cdcv2 repair writes into PostgreSQL and lakes. Restore Delta tables to the version of the last commit, or "
    "materialize again, under another name and into an empty place. What was pushed (kafka, webhook, process) cannot "
    "be looked at: its receiver has to ask for all of it again"
)


def _repaired(plan: MaterializationPlan, target: _Target, driver: RepairableDriver) -> list[Damage]:
    """Take over, look again, and write what differs then. Raises FencedError when another has taken over."""
    tables = [binding.view().table for binding in plan.bindings]
    with ExitStack() as opened, plan.errors_at_line():
        opened.callback(driver.close)
        log = plan.recovery()
        if log is not None:
            opened.callback(log.close)
        repair = TargetRepair(plan.name, tables, driver, log, Antichain([plan.start]))
        damage = target.damage()
        repair.demand_at(target.frontier)
        if damage:
            repair.write([one.repair for one in damage])
        return damage


def _damage(number: int, binding: ViewBinding, rows: dict[Key, Values], view: TargetContent) -> Damage | None:
    """How a table differs; None where it does not."""
    try:
        compared = compared_table(binding, rows, view)
        if not compared.number:
            return None
        there = list(view.rows(binding.target))
    except OutputError as error:
        # Lost, cut or replaced: it is written as a whole, and this is why.
        if not isinstance(view, LakeView):
            raise
        return Damage(TableRepair(number, rows, rows), binding, None, str(error))
    table = compared.table
    width = len(binding.view().table.key)
    if view.stored_table(binding.view().table).multiset:
        return Damage(TableRepair(number, rows, rows), binding, compared)
    wanted = {one.key for one in compared.verdict.differing}
    known: dict[Texts, Key] = {texts(table.fields[:width], key): key for key in rows}
    differing: dict[Key, Values | None] = {known[one]: rows[known[one]] for one in wanted if one in known}
    now = dict(current(binding, table, there))
    deleted = {key: values for key, values in there if key not in now}
    for key, values in now.items():
        text = texts(table.fields[:width], key)
        if text in wanted and text not in known:
            differing[key] = _deleted(binding, values)
    softly = {key: values for key, values in differing.items() if values is not None and key not in rows}
    return Damage(TableRepair(number, {**deleted, **softly, **rows}, differing), binding, compared)


def _deleted(binding: ViewBinding, values: Values) -> Values | None:
    """What stays of a row that the logs do not have: nothing, or the row as a deleted one."""
    if binding.deletes != "soft" or binding.reduce:
        return None
    return (*values[:-1], True if binding.key else 0)


def _lines(plan: MaterializationPlan, target: _Target, damage: list[Damage], *, dry_run: bool) -> Iterator[str]:
    for one in damage:
        yield from one.lines
    yield from not_compared_lines(target.left)
    what = "nothing differs" if not damage else f"{len(damage)} tables differ" if dry_run else "repaired"
    yield f"{what}: {plan.name}, {through_text(target.frontier)}"


def _plain(plan: MaterializationPlan, target: _Target, damage: list[Damage], *, dry_run: bool) -> dict[str, object]:
    return {
        "materialization": plan.name, "frontier": target.frontier.to_plain(), "written": bool(damage) and not dry_run,
        "not_compared": target.left,
        "tables": {
            one.binding.target: {
                "rows": len(one.repair.rows), "unreadable": one.unreadable,
                "differing": None if one.comparison is None else one.comparison.number,
            }
            for one in damage
        },
    }  # fmt: skip
