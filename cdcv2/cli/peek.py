"""Ask an instance what is at some keys of its tables, at one time in all of them.

The instance is a cdcv2 instance, or cdcv2 replicas, that runs. The answer is
the rows with these keys, and the time that it is of. Without --at it is the
last time that is finished there. A later time is waited for. With after:LSN it
is the last finished time, once every commit up to this LSN is finished: so you
see what you have committed.

A key is written as TABLE=VALUE; of several columns, with commas. A value is
written as in JSON; what is no JSON is a text. So 42 is a number, and '"42"' is
a text; of two columns '"42",7'. A decimal with a point is a text: '"4.20"'.
Several keys of a table: write it several times.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import whole_time
from cdcv2.cli.options.words import declare
from cdcv2.completeness import committed_text
from cdcv2.core.json_text import parse_json
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.instances.run.client import TIMEOUT, InstanceClient
from cdcv2.instances.run.conversation import demand_seconds
from cdcv2.logs.tables_at_time import TablesAtTime
from cdcv2.rows.plain import plain_int

EXAMPLES = (
    ("cdcv2 peek public.orders=42 --instance shop.sock", "one row, as it is now"),
    ("cdcv2 peek public.orders=42 public.orders=43 public.customers=7 --instance shop.sock", "of one moment"),
    ("cdcv2 peek public.orders=42 --instance shop.sock --at 101936016 --json", "as it was"),
    ("cdcv2 peek public.orders=42 --instance shop.sock --at after:0/61B7000", "with all commits up to this LSN"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done, also where nothing is at a key",
    Exit.WRONG: "a row is there less than zero times: its log lacks its beginning, or is wrong",
    Exit.MISSING: "the time of --at is not finished within --timeout: the message states how far the logs are",
    Exit.UNABLE: "no instance answers within --timeout, or it does not keep the time any more",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    parser.add_argument("key", nargs="+", metavar="TABLE=KEY", help="which rows: those of this table with this key")
    declare(parser, "--instance")
    declare(parser, "--at",
            more="a whole number, an LSN, now (the default: the last finished one), or after:TIME (now, as soon as "
                 "everything up to this time or LSN is finished)")
    declare(parser, "--timeout", default=TIMEOUT,
            help=f"give up after so many seconds, and name what the answer waits for (default: {TIMEOUT:.0f})")
    declare(parser, "--json", more="one object a line, with its table")


def run(args: argparse.Namespace) -> Exit:
    """Ask, and print the rows."""
    demand_seconds("--timeout ", args.timeout)
    at, after = _time(args.at)
    answer = InstanceClient(args.instance).peek(_keys(args.key), at=at, after=after, timeout=args.timeout)
    with ResultOutput.standard() as output:
        for line in _lines(answer, as_json=args.json):
            output.line(line)
    number = sum(len(answer[table]) for table in answer)
    ago = "" if at is not None else committed_text(answer.committed_at, time.time())
    remark(f"cdcv2 peek: {answer.when()}: {number} rows{ago}")
    return Exit.DONE


def _lines(answer: TablesAtTime, *, as_json: bool) -> list[str]:
    lines = []
    for name in answer:
        for row, count in answer[name].counts():
            plain = answer[name].row_type.to_plain(row)
            if as_json:
                lines.append(json.dumps({"table": name, "data": plain, "multiplicity": plain_int(count)}))
            else:
                times = "" if count == 1 else f" ({count} times)"
                lines.append(f"{name}: {json.dumps(plain, ensure_ascii=False)}{times}")
    return lines


def _time(text: str | None) -> tuple[int | str | None, int | str | None]:
    """What --at is: a time that is asked for, and one that is to be finished before. Raises UsageError."""
    if text is None or text == "now":
        return None, None
    sign, _, rest = text.rpartition("after:")
    if sign or not rest:
        raise UsageError(f"--at {text!r} is no time of an instance: write a whole number, an LSN, now, or after:TIME")
    time_or_lsn = rest if "/" in rest else whole_time("--at", rest)
    return (None, time_or_lsn) if text.startswith("after:") else (time_or_lsn, None)


def _keys(words: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Table -> its keys. Raises UsageError."""
    keys: dict[str, list[tuple[Any, ...]]] = {}
    for word in words:
        table, sign, text = word.partition("=")
        if not table or not sign or not text:
            raise UsageError(f"{word!r} names no key: write it as public.orders=42")
        keys.setdefault(table, []).append(_values(text))
    return keys


def _values(text: str) -> tuple[Any, ...]:
    """The values of a key: JSON with commas, or texts with commas.

    >>> _values("42"), _values('"a,b",7'), _values("pear,7")
    ((42,), ('a,b', 7), ('pear', 7))
    """
    try:
        return tuple(parse_json(f"[{text}]"))
    except ValueError:
        return tuple(_value(part) for part in text.split(","))


def _value(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text
