"""Print the open transactions of a capture, and what each waits for.

LOG is the open-records log of a capture with --remap, or the directory of the
logs of that capture, if it is of one database.

A transaction is released when all of it is there and, in the order of
commits, everything before it is. Without --at, the answer is as of the last
finished time.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.request import TEMP_FOLDER
from cdcv2.cli.collection import collection
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.display import json_line
from cdcv2.cli.logs import open_one
from cdcv2.cli.options.log_words import declare_kafka_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import given_times, start_of
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.completeness import through_text, time_text
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.named_logs import NamedLog, covered, directory_logs
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import Row
from cdcv2.store.file_system import is_there
from cdcv2.timeline.gauges import lsn_text
from cdcv2.timeline.ordering import COMMIT_ORDER

EXAMPLES = (
    ("cdcv2 open-transactions logs/_temp/bank", "of one database, at the last time that is finished"),
    ("cdcv2 open-transactions logs/_temp/bank --at 3000 --json", "at a time, one JSON object a line"),
    ("cdcv2 open-transactions kafka:cdc._temp.bank --bootstrap localhost:9092 --lsn", "from a topic; commits as LSNs"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "the time of --at is not finished, or no time is",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "log", more=": the open-records log")
    declare_kafka_words(parser)
    declare(parser, "--at", more="a finished time (default: the last one)")
    declare(parser, "--lsn")
    declare(parser, "--json", more="one object a line")
    declare(parser, "--output", more=STANDARD_OUTPUT)
    parser.set_defaults(row=[], rows=None, times="int", row_type=TEMP, timeline=None)


def _temp_of(log: LogAddress) -> LogAddress:
    """The log of TEMP in the directory of a capture; what is named, if that is none."""
    if log.is_topic:
        return log
    temps = Path(log.name) / TEMP_FOLDER
    inside = directory_logs(temps) if is_there(temps) else []
    if len(inside) > 1:
        raise UsageError(
            f"{log} holds an open-records log for each of several databases: name one, for example {inside[0]}"
        )
    if not inside and is_there(Path(log.name) / CAPTURE_FILE):
        raise UsageError(f"{log} holds no open-records log: only a capture with --remap keeps one")
    return LogAddress("directory", str(inside[0])) if inside else log


@dataclass
class OpenTransactionView:
    """What is held of one transaction."""

    transaction: Any
    rows: Counter[str] = field(default_factory=Counter)
    commit: int | None = None
    counts: dict[str, int] | None = None
    halt: str | None = None
    done: bool = False

    def waits_for(self) -> str:
        """What lacks before it can be given out, if all before it are."""
        if self.halt is not None:
            return f"it can never be given out: {self.halt}"
        if self.done:
            return "given out already, before one that was committed earlier"
        if self.counts is None:
            return "no END yet"
        lacks = {table: number - self.rows[table] for table, number in self.counts.items()}
        named = ", ".join(f"{number} of {table}" for table, number in sorted(lacks.items()) if number > 0)
        return f"rows are missing: {named}" if named else "whole; it waits for those committed before it"


def run(args: argparse.Namespace) -> Exit:
    """Add TEMP up, and print it by transaction."""
    args.log = _temp_of(args.log)
    logs = open_one(args)
    _check(logs[0])
    at = given_times("--at", [args.at], logs)[0] if args.at is not None else None
    content, frontier, _ = collection(covered(logs), at, start_of(None, logs))
    held = [row for row, _ in content]
    found = transactions(held)
    with ResultOutput(args.output) as output:
        for one in found:
            output.line(json_line(_plain(one)) if args.json else _text(one, as_lsn=args.lsn))
    when = f"at {time_text(at)}" if at is not None else through_text(frontier)
    remark(f"cdcv2 open-transactions: {when}: {len(found)} are held; {_released(held, as_lsn=args.lsn)}")
    return Exit.DONE


def transactions(held: Iterable[Row]) -> list[OpenTransactionView]:
    """The rows of TEMP by transaction: those with an END by their commits, then those without."""
    found: dict[str, OpenTransactionView] = {}
    for row in held:
        if row.transaction is None:
            continue
        one = found.setdefault(row.transaction, OpenTransactionView(json.loads(row.transaction)))
        if row.kind == "row":
            one.rows[row.table] += 1
        elif row.kind == "halt":
            one.halt = f"{row.reason}. {row.remedy}"
        else:
            one.commit, one.done = row.commit, row.kind == "done"
            one.counts = {count.table: count.rows for count in row.counts}
    return sorted(found.values(), key=lambda one: (one.commit is None, one.commit or 0, str(one.transaction)))


def _check(log: NamedLog) -> None:
    if log.row_type != TEMP:
        columns = ", ".join(log.row_type.columns[:5])
        raise UsageError(f"{log.log.name} is no open-records log: it has the columns {columns}")


def _released(held: Iterable[Row], *, as_lsn: bool) -> str:
    through = next((row.commit for row in held if row.kind == "through"), None)
    ordering = next((row.ordering for row in held if row.kind == "begun"), COMMIT_ORDER)
    how = "" if ordering == COMMIT_ORDER else ", each as soon as it is complete"
    return ("none is given out" if through is None else f"given out through {_commit(through, as_lsn)}") + how


def _commit(commit: int, as_lsn: bool) -> str:
    return lsn_text(commit) if as_lsn else str(commit)


def _text(one: OpenTransactionView, *, as_lsn: bool) -> str:
    tables = sorted({*one.rows, *(one.counts or {})})
    parts = [
        f"{one.rows[table]} rows of {table}" if one.counts is None
        else f"{one.rows[table]} of {one.counts.get(table, 0)} rows of {table}"
        for table in tables
    ]
    committed = "" if one.commit is None else f", committed at {_commit(one.commit, as_lsn)}"
    came = "".join(f"; {part}" for part in parts)
    return f"transaction {one.transaction}{committed}{came}; {one.waits_for()}"


def _plain(one: OpenTransactionView) -> dict[str, Any]:
    return {
        "transaction": one.transaction, "commit": one.commit, "rows": dict(sorted(one.rows.items())),
        "counts": one.counts, "halt": one.halt, "done": one.done, "waits_for": one.waits_for(),
    }
