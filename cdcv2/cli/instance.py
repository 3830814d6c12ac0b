"""Hold tables of logs by key, and answer cdcv2 peek and cdcv2 tail.

The logs are of one timeline: what a capture wrote, or several of them. The
instance reads them, and then follows them. It holds the tables in memory, as
they were at every finished time (--history), so an answer needs no reading of
logs.

It answers at --instance, a Unix socket that only its user can connect to, as
soon as it has read what the logs hold. It may be killed and started again at
any time: it keeps no files, and reads the logs again.

It ends at SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.logs import add_log_arguments, open_logs
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import through_text
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.place import InstancePlace

EXAMPLES = (
    ("cdcv2 instance logs --index public.orders=id --instance shop.sock", "one table, until Ctrl-C"),
    ("cdcv2 instance logs --index public.orders=id --index public.order_items=order_id,sku --instance shop.sock",
     "two tables, one by two columns"),
    ("cdcv2 instance logs --index public.orders=id --instance shop.sock --history 3600", "of the last hour alone"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: SIGTERM ended it",
    Exit.WRONG: "the logs contradict themselves",
    Exit.UNABLE: "another process answers at this place, or not possible here or now: the message states what to do",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=True)
    declare(parser, "--index", required=True)
    declare(parser, "--instance")
    declare(parser, "--history", more="; by default all of them")


def run(args: argparse.Namespace) -> Exit:
    """Follow the logs and answer clients, until a signal."""
    keys = index_keys(args.index)
    with stop_signals() as stopping, InstancePlace(Path(args.instance)) as place:
        with closing(LoneInstance(open_logs(args), keys, history=args.history)) as instance:
            instance.read(stopping)
            place.listen()
            remark(f"cdcv2 instance: {', '.join(keys)} at {args.instance}, {through_text(instance.upper)}")
            instance.serve(place, stopping)
    return Exit.DONE


def index_keys(words: list[str]) -> dict[str, list[str]]:
    """Table -> the columns of its key. Raises UsageError."""
    keys: dict[str, list[str]] = {}
    for word in words:
        table, _, columns = word.partition("=")
        names = columns.split(",")
        if not table or not all(names) or len(set(names)) < len(names):
            raise UsageError(f"--index {word}: write it as public.orders=id, with each column once")
        if table in keys:
            raise UsageError(f"--index names {table} twice: a table has one key")
        keys[table] = names
    return keys
