"""Show what is in quarantine, and decide it.

DIR is what a command was given with --quarantine: the evidence of
contradictions, with where each message was read. DIR alone is listed; of a
case, the evidence is shown. A contradiction is decided by a count (how many
updates the time has), or by the diff of a row: 0 means that the update never
happened. Bytes that are no message hold nothing back; --pass-over leaves them
out.

A decision is kept in DIR, once, and never changed. Commands that are given the
same --quarantine DIR continue with it. Others still stop at the contradiction.
The log itself is never changed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.core.json_text import parse_json
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.quarantine import Case, Quarantine
from cdcv2.store.numbered import path_to_read

EXAMPLES = (
    ("cdcv2 resolve quarantine", "all cases, and what was decided"),
    ("cdcv2 resolve quarantine 4f1c09aa27be", "the evidence of one"),
    ("cdcv2 resolve quarantine 4f1c09aa27be --diff 1", "the row of the case came once"),
    ("cdcv2 resolve quarantine 4f1c09aa27be --count 2", "the time has two updates"),
    ("cdcv2 resolve quarantine 4f1c09aa27be --data '{\"id\": 7}' --diff 0", "this update at the time never happened"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: everything in DIR is decided",
    Exit.WRONG: "something in DIR is not decided",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help="the folder with the evidence")
    parser.add_argument("case", metavar="CASE", nargs="?", help="one case, by its name or how that begins")
    parser.add_argument("--count", type=int, metavar="N", help="decide how many updates the time has")
    parser.add_argument("--diff", type=int, metavar="N", help="decide the diff of the row; 0: it never happened")
    parser.add_argument("--data", metavar="JSON", help="the row that is decided, where it is not that of the case")
    parser.add_argument("--pass-over", action="store_true", help="decide that bytes that are no message are left out")
    declare(parser, "--json", more="one case a line")
    parser.formerly("--row", "--data")


def run(args: argparse.Namespace) -> Exit:
    """List, show or decide. Raises UsageError if a decision names no case."""
    quarantine = Quarantine(path_to_read(args.folder))
    deciding = args.pass_over or any(one is not None for one in (args.count, args.diff, args.data))
    if args.case is None and deciding:
        raise UsageError("name the case that is decided: cdcv2 resolve DIR CASE ...")
    cases = quarantine.cases() if args.case is None else [quarantine.case(args.case)]
    if deciding:
        _decide(quarantine, cases[0], args)
        cases = [quarantine.case(cases[0].name)]
    with ResultOutput.standard() as output:
        if not cases and not args.json:
            output.line(f"nothing is in quarantine in {quarantine.folder}")
        for case in cases:
            if args.json:
                decisions = [str(one) for one in case.decisions]
                output.line(json_line(
                    {"case": case.name, **case.plain, "decisions": decisions, "settled": case.settled}
                ))
                continue
            for line in _lines(case, whole=args.case is not None and not deciding):
                output.line(line)
    return Exit.DONE if all(case.settled for case in cases) else Exit.WRONG


def _decide(quarantine: Quarantine, case: Case, args: argparse.Namespace) -> None:
    if args.pass_over != (case.what == "bytes"):
        raise UsageError(
            f"{case.name} is about {'bytes: decide it with --pass-over' if case.what == 'bytes' else 'a time'}"
            f"{'' if case.what == 'bytes' else ': decide it with --count or --diff'}"
        )
    row = None if args.data is None else _row(args.data)
    quarantine.decide(case.decision(args.count, row, args.diff))


def _row(text: str) -> dict[str, object]:
    try:
        row = parse_json(text)
    except ValueError as cause:
        raise UsageError(f"--data {text}: this is no JSON: {cause}") from None
    if not isinstance(row, dict):
        raise UsageError(f"--data {text}: a row is an object, column by column, as cdcv2 inspect --json shows it")
    return row


def _lines(case: Case, *, whole: bool) -> Iterator[str]:
    yield f"{case.name}  {case.plain['table']}: {case.text}"
    for decision in case.decisions:
        yield f"  decided: {decision}"
    if not case.settled:
        yield f"  {case.undecided}"
    if not whole:
        return
    for position, message in zip(case.plain["positions"], case.plain.get("messages", ())):
        if position is not None:
            place, part, offset, index = position
            yield f"  read at {place}[{part}]@{offset}{f'#{index}' if index else ''}: {json.dumps(message)}"
    for update in case.plain.get("updates", ()):
        yield f"  held at this time: {json.dumps(update['row'])}, diff {update['diff']}"
    if "raw" in case.plain:
        yield f"  the bytes, as hexadecimal digits: {case.plain['raw']}"
