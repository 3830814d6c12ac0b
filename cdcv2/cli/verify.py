"""State how far logs are complete, what is missing, or what is wrong.

It looks at the logs alone.

A reader forgets a time when it is finished, and counts what arrives later as
late. With --full nothing is forgotten: a contradiction is found at any time.
The whole log is then in memory. Of bytes that are no messages, the first
thousand are shown, each with its position and its first bytes. All are
counted.

Logs of several tables are judged each by itself. Complete is what is complete
in all of them. Logs of one table are copies, and are judged as one. If a log
of a captured table is not in the directory of its capture, it is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cdcv2.capture.release_answers import ASSUMED
from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line, plain_position, raw_text
from cdcv2.cli.disputes import add_quarantine_argument, quarantine_of, remark_disputes
from cdcv2.cli.logs import (
    ProgressObserver, add_log_arguments, addresses, assumed_empty, bar_of, captured_streams, open_logs,
    snapshot_assumed,
)
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import start_of
from cdcv2.cli.options.words import declare
from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, UnsafeTopicError
from cdcv2.exits import Exit
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.description import description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import plain_frontier, plain_time
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, covered, missing_logs
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.logs.stops import Stop, stops_of
from cdcv2.protocol.ledger import Dispute
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import GarbledMessage
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType

EXAMPLES = (
    ("cdcv2 verify logs", "all the logs of a capture"),
    ("cdcv2 verify logs/public.orders --full", "one log, with contradictions at finished times"),
    ("cdcv2 verify logs --json", "the same for a program"),
    ("cdcv2 verify kafka:orders --bootstrap localhost:9092 --row rows/public.orders.avsc", "a topic"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: 'done: nothing that was stated is missing ("complete through ...")',
    Exit.MISSING: "something is missing, and what; or nothing is complete yet; with --closed also: the history "
                  "continues",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message, with the positions of both facts; "
                "or the capture of the logs stopped permanently",
}

#: The text in place of how far a log is complete that has lost messages.
LACKING = "a part of it is missing, so nothing is known to be complete"
#: How many findings of one table the text names; JSON has all that are kept.
MOST_SHOWN = 10
#: Of so many bytes that are no messages, and of each so many, is kept what they are: a topic may hold nothing else.
GARBLED_KEPT, BYTES_KEPT = 1000, 1024


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=True)
    parser.add_argument("--full", action="store_true", help="find contradictions at finished times, too")
    parser.add_argument("--closed", action="store_true", help="demand that the history is finished")
    declare(parser, "--start")
    add_quarantine_argument(parser)
    declare(parser, "--json", more="the findings, one object")
    declare(parser, "--events")


class MalformedMessages:
    """What in the log of one table is no message: how often, and where at first. Its memory is bounded."""

    def __init__(self) -> None:
        self.number = 0
        #: The first ones: where, how they begin and why they are none, and how long they are.
        self.first: list[tuple[Position, GarbledMessage, int]] = []

    def add(self, position: Position, garbled: GarbledMessage) -> None:
        """One more."""
        self.number += 1
        if len(self.first) < GARBLED_KEPT:
            shortened = GarbledMessage(garbled.raw[:BYTES_KEPT], garbled.reason)
            self.first.append((position, shortened, len(garbled.raw)))

    def text(self) -> list[str]:
        """The first of each kind: a topic that is no log has one thing wrong with it, in every message."""
        kinds = {garbled.reason: (position, garbled, size) for position, garbled, size in reversed(self.first)}
        return [f"wrong: {_garbled_text(*first)}" for first in reversed(kinds.values())]


class TableVerdict:
    """One table: its reader, and what it comes to."""

    def __init__(self, table: str, row_type: RowType, reader: Resolver, malformed: MalformedMessages, *, closed: bool,
                 lost: list[str], start: Antichain, copies: int, stops: Collection[Stop] = (),
                 unmet: Mapping[str, str] = MappingProxyType({})) -> None:
        self.table, self.row_type, self.reader, self.malformed = table, row_type, reader, malformed
        # A time in dispute is reported as such, with its evidence.
        self.missing = replace(reader.missing(), contested=())
        self.disputes = [dispute for disputes in reader.quarantine.values() for dispute in disputes]
        self.unfinished = closed and not reader.closed
        self.orphans = len(reader.orphans())
        self.start = start
        #: Of its copies, why nothing more can be read of those that have lost messages; and whether that are all.
        self.lost, self.lacks = lost, len(lost) == copies
        #: Why a capture stopped that found them lacking something that they state.
        self.stops = sorted(stops)
        #: Name of a case in the quarantine -> its sentence: what only other readings have met.
        self.unmet = dict(unmet)

    @property
    def exit(self) -> Exit:
        """The exit code that this table alone deserves."""
        if self.disputes or self.unmet or self.malformed.number or self.stops:
            return Exit.WRONG
        return Exit.MISSING if self.missing or self.unfinished or self.lost else Exit.DONE

    def text(self) -> list[str]:
        """The report for people, the first line first."""
        counted = self.reader.counters
        # What is complete in the rest of a log shows nothing of the log, unless a copy has what it lacks.
        through = LACKING if self.lacks else through_text(self.reader.frontier, self.start)
        lines = [
            f"{self.table}: {through} ({counted['updates']} updates, of them "
            f"{counted['repeats']} repeats; {counted['statements']} statements)"
        ]
        findings = [f"wrong: {stop.text}" for stop in self.stops]
        findings += [f"wrong: {dispute.error()}" for dispute in self.disputes]
        findings += [f"wrong: in quarantine as {name}: {text}" for name, text in self.unmet.items()]
        kept = len(findings) + len(self.malformed.first)
        findings += self.malformed.text()
        shown = min(len(findings), MOST_SHOWN)
        lines += [f"  {finding}" for finding in findings[:MOST_SHOWN]]
        number = len(self.stops) + len(self.disputes) + len(self.unmet) + self.malformed.number
        if number > shown:
            which = "them all" if number == kept else f"{kept} of all"
            lines.append(f"  and {number - shown} more; --json names {which}")
        lines += [f"  missing: {reason}" for reason in self.lost]
        if self.missing:
            lines.append(f"  missing: {self.missing}")
        if self.unfinished:
            lines.append("  missing: the statement that the history is finished")
        if self.orphans:
            lines.append(f"  {self.orphans} updates are there that no statement counts yet")
        if counted["late"]:
            lines.append(f"  {counted['late']} updates came at finished times: duplicates, or only --full can find out")
        return lines

    def plain(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "exit": int(self.exit),
            "frontier": plain_frontier(self.reader.frontier),
            "known": plain_frontier(self.reader.known),
            "closed": self.reader.closed,
            "missing": self.missing.to_plain(),
            "contradictions": [_plain_dispute(dispute, self.row_type) for dispute in self.disputes],
            "quarantined": self.unmet,
            "malformed": [_plain_garbled(*malformed) for malformed in self.malformed.first],
            "malformed_number": self.malformed.number,
            "lost": self.lost,
            "stops": [stop._asdict() for stop in self.stops],
            "orphans": self.orphans,
            "counters": {**self.reader.counters, "parked": self.malformed.number},
        }


class Findings:
    """What is found wrong while logs are read: it ends nothing, all logs are read as far as they can be."""

    def __init__(self, logs: Collection[NamedLog], bar: ProgressObserver) -> None:
        self._bar = bar
        self.malformed = {named.table: MalformedMessages() for named in logs}
        self.losses: list[tuple[str, UnsafeTopicError]] = []

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Move the bar on."""
        self._bar.read(named, entry)

    def follow(self, reading: LogReader) -> None:
        """What reads the logs."""
        self._bar.follow(reading)

    def lost(self, named: NamedLog, error: UnsafeTopicError) -> None:
        """Keep why the log cannot be read on."""
        self.losses.append((named.table, error))

    def garbled(self, named: NamedLog, entry: Entry) -> bool:
        """Keep the first of the bytes that are no message, and count all."""
        if isinstance(entry.message, GarbledMessage):
            self.malformed[named.table].add(entry.position, entry.message)
        return True


def _read(
    found: CoveredLogs, start: Antichain, seen: Findings, quarantine: Quarantine | None, *, full: bool
) -> tuple[dict[str, Resolver], dict[str, dict[str, str]]]:
    """The readers of the tables, with all that the logs hold; what is in dispute is kept in the quarantine. And what
    is in dispute by the quarantine alone.
    """
    if not found.logs:
        return {}, {}
    reading = LogReader(
        found, start=start, on_error="quarantine", keep_all=full, content=False, observer=seen, quarantine=quarantine,
    )
    seen.follow(reading)
    for _ in reading:
        continue
    remark_disputes("cdcv2 verify", reading.disputed(), quarantine)
    return reading.readers, reading.unmet()


def run(args: argparse.Namespace) -> Exit:
    """Read the logs to their ends and judge them."""
    opened = open_logs(args)
    start, found = Antichain(start_of(args.start, opened)), covered(opened)
    logs, starts = found.logs, {named.table: found.of.start(named.table, start) for named in found.logs}
    row_types: dict[str, RowType] = {named.table: named.row_type for named in logs}
    with bar_of(logs, "verifying", events=args.events) as bar:
        seen = Findings(logs, bar)
        readers, unmet = _read(found, start, seen, quarantine_of(args), full=args.full)
    stops: dict[str, set[Stop]] = {table: set() for table in readers}
    for named in logs:
        stops[named.table].update(stops_of([named.log]))
    judged = [
        TableVerdict(
            table, row_types[table], reader, seen.malformed[table], closed=args.closed,
            lost=[str(why) for of, why in seen.losses if of == table], start=starts[table], stops=stops[table],
            copies=sum(named.table == table for named in logs), unmet=unmet.get(table, {}),
        )
        for table, reader in sorted(readers.items())
    ]
    frontier = Antichain.meet_of(reader.frontier for reader in readers.values())
    # A copy of it, given by its table, is as good.
    gone = [log for log in missing_logs(addresses(args)) if log.name not in {named.table for named in opened}]
    lacks = any(one.lacks for one in judged)
    if gone or lacks or not readers:
        # Nothing is complete in a log that is not there, or of which a part is not.
        frontier = frontier.meet(start)
    # Where nothing is complete yet there is nothing to read, whatever is stated.
    verdict = max([*(one.exit for one in judged), Exit.MISSING if gone or frontier == start else Exit.DONE])
    assumed, empty = snapshot_assumed(args), assumed_empty(args, opened)
    sets = {description_of(named.log).log_set for named in logs}
    together = len(sets) == 1 and None not in sets and not captured_streams(args)
    behind = _behind(judged, topics=any(not isinstance(named.log, DirectoryLog) for named in logs)) if together else []
    with ResultOutput.standard() as output:
        if args.json:
            output.line(_plain(judged, gone, frontier, verdict, assumed, empty, found.of))
        else:
            through = LACKING if lacks else through_text(frontier, start)
            for line in _text(judged, gone, through, verdict, assumed, empty, behind, found.of):
                output.line(line)
    return verdict


def _text(
    judged: list[TableVerdict], gone: list[Path], through: str, verdict: Exit, assumed: bool, empty: list[str],
    behind: list[str], found: TableCoverage,
) -> list[str]:
    lines = [line for one in judged for line in one.text()]
    lines += [
        f"{log.name}: missing: the whole log {log}, which the capture wrote; bring it back, or start its capture: it "
        "writes it again from its topics, or states what to remove first. If the capture leaves it out now, "
        "nothing writes it: read the others one by one, by their names"
        for log in gone
    ]
    lines += found.texts()
    if assumed:
        lines.append(ASSUMED)
    lines += [
        f"{table}: assumed to have been empty at the snapshot, as the capture states (--empty)" for table in empty
    ]
    lines += behind
    so_far = "" if through == LACKING else "so far "
    summary = {Exit.DONE: "", Exit.MISSING: f"incomplete: {so_far}", Exit.WRONG: f"wrong: {so_far}"}[verdict]
    return [*lines, f"{summary}{through}"]


def _behind(judged: list[TableVerdict], *, topics: bool) -> list[str]:
    """Which logs of a log set end before others do: a capture states them one by one, and brings them to one end.

    Those of streams end each by itself, which logs in ``topics`` do not state.
    """
    usual = ". Of a capture of streams (--stream) nothing is wrong: each log ends where its own topic is complete"
    furthest = reduce(Antichain.join, (one.reader.frontier for one in judged))
    return [
        f"{one.table}: behind the others, which are {through_text(furthest)}: a capture ended between its statements, "
        "or has not come there, or files at the log's end are missing; start the capture, which knows. If the capture "
        "leaves it out now, it stays behind: read the others one by one, by their names" + (usual if topics else "")
        for one in judged if not one.lacks and one.reader.frontier != furthest
    ]


def _plain(
    judged: list[TableVerdict], gone: list[Path], frontier: Antichain, verdict: Exit, assumed: bool, empty: list[str],
    found: TableCoverage,
) -> str:
    return json_line({
        "exit": int(verdict),
        "frontier": plain_frontier(frontier),
        "closed": not frontier,
        "snapshot_assumed": assumed,
        "assumed_empty": empty,
        "not_covered": list(found.uncovered),
        "covered_from": dict(found.starts),
        "tables": {one.table: one.plain() for one in judged},
        "gone": [str(log) for log in gone],
    })


def _plain_dispute(dispute: Dispute, row_type: RowType) -> dict[str, Any]:
    return {
        "what": dispute.what,
        "time": plain_time(dispute.time),
        "data": row_type.to_plain(dispute.data) if dispute.what == "diff" else None,
        "first": dispute.first,
        "second": dispute.second,
        "positions": [plain_position(position) for position in dispute.positions],
    }


def _garbled_text(position: Position, garbled: GarbledMessage, size: int) -> str:
    # The error has the words for what could not be decoded, and where.
    return f"{DecodeError(garbled.reason, position=position)}; the bytes: {raw_text(garbled.raw, size=size)}"


def _plain_garbled(position: Position, garbled: GarbledMessage, size: int) -> dict[str, Any]:
    plain = {"position": plain_position(position), "reason": garbled.reason, "raw": garbled.raw.hex()}
    return {**plain, "bytes": size}
