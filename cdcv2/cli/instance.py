"""Hold tables of logs by key, and answer cdcv2 peek and cdcv2 tail.

The logs are of one timeline: what a capture wrote, or several of them. The
instance reads them, and then follows them. It holds the tables in memory, as
they were at every finished time (--history), so an answer needs no reading of
logs.

It answers at --instance, a Unix socket that only its user can connect to, as
soon as it has read what the logs hold. It may be killed and started again at
any time: it keeps no files, and reads the logs again.

With --replica it is one of several of the same: it waits at --instance for
cdcv2 replicas, which states what to hold and answers the clients.

It ends at SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.logs import add_log_arguments, open_logs
from cdcv2.cli.markers import add_marker_arguments, check_marker, marker_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import through_text
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents, JobProgress
from cdcv2.exits import Exit
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.place import InstancePlace
from cdcv2.instances.run.replica import InstanceReplica

EXAMPLES = (
    ("cdcv2 instance logs --index public.orders=id --instance shop.sock", "one table, until Ctrl-C"),
    ("cdcv2 instance logs --index public.orders=id --index public.order_items=order_id,sku --instance shop.sock",
     "two tables, one by two columns"),
    ("cdcv2 instance logs --index public.orders=id --instance shop.sock --history 3600", "of the last hour alone"),
    ("cdcv2 instance logs --replica --instance one.sock", "one of several, for cdcv2 replicas"),
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
    declare(parser, "--index")
    declare(parser, "--instance", "--events")
    declare(parser, "--history", more="; by default all of them")
    add_marker_arguments(parser)
    parser.add_argument("--replica", action="store_true",
                        help="be one of several: wait for cdcv2 replicas, which states what to hold")
    parser.checks.append(_check_together)


def _check_together(given: frozenset[str], args: argparse.Namespace) -> None:
    if args.replica and (args.index or args.history is not None or args.marker):
        raise UsageError("--replica holds what cdcv2 replicas states: give --index, --history and --marker there")
    check_marker(args)
    if not args.replica and not args.index:
        raise UsageError("name what is to be held: --index public.orders=id, once for each table; or --replica")


def run(args: argparse.Namespace) -> Exit:
    """Follow the logs and answer clients, or a controller, until a signal."""
    with stop_signals() as stopping, InstancePlace(Path(args.instance)) as place:
        if args.replica:
            with closing(InstanceReplica(open_logs(args), _remark)) as replica:
                place.listen()
                remark(f"cdcv2 instance: a replica at {args.instance}")
                replica.serve(place, in_each_turn(args.events, replica.progress, stopping))
            return Exit.DONE
        keys, marker = index_keys(args.index), marker_of(args, _remark)
        with closing(LoneInstance(open_logs(args), keys, history=args.history, marker=marker)) as instance:
            stopping = in_each_turn(args.events, instance.progress, stopping)
            instance.read(stopping)
            place.listen()
            remark(f"cdcv2 instance: {', '.join(keys)} at {args.instance}, {through_text(instance.upper)}")
            instance.serve(place, stopping)
    return Exit.DONE


def in_each_turn(
    events: JobEvents, state: Callable[[], JobProgress], stopping: Callable[[], bool]
) -> Callable[[], bool]:
    """The same question, which is asked in each turn, and so states how far it is."""
    def requested() -> bool:
        events.progress(state)
        return stopping()

    return requested


def _remark(text: str) -> None:
    remark(f"cdcv2 instance: {text}")


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
