"""Hold tables of logs by key in several processes, which answer as one.

Each of them is a cdcv2 instance --replica, over the same logs. Here is their
controller: it connects to them, states what to hold, and answers cdcv2 peek
and cdcv2 tail at --instance, as a cdcv2 instance does. The first answer of any
of them is given. Any of them may be killed, and started again; so may this
process. Clients do not notice: they connect again by themselves.

It keeps one small file in --state: what is held, and from which time on.

It ends at SIGTERM or Ctrl-C; the replicas stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.instance import in_each_turn, index_keys
from cdcv2.cli.logs import add_log_arguments, open_logs
from cdcv2.cli.markers import add_marker_arguments, check_marker, marker_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.place import InstancePlace

EXAMPLES = (
    ("cdcv2 replicas logs --index public.orders=id --of one.sock --of two.sock --instance shop.sock --state shop.state",
     "two replicas, each of them a cdcv2 instance logs --replica"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: SIGTERM ended it",
    Exit.UNABLE: "another process answers at this place or has this --state, or not possible here or now: the message "
                 "states what to do",
}
#: The default of --history, in seconds.
HISTORY = 3600.0


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    add_log_arguments(parser, several=True)
    declare(parser, "--index", required=True)
    parser.add_argument("--of", action="append", required=True, metavar="PLACE",
                        help="a replica: the --instance of a cdcv2 instance --replica; several: repeat the option")
    declare(parser, "--instance", "--events")
    declare(parser, "--state", required=True, more=": what is held, and from which time on")
    declare(parser, "--history", default=HISTORY, more=f" (default: {HISTORY:.0f})")
    add_marker_arguments(parser)
    parser.checks.append(lambda given, args: check_marker(args))


def run(args: argparse.Namespace) -> Exit:
    """Keep the replicas at work and answer clients, until a signal. Raises UsageError if two are at one place."""
    keys, places = index_keys(args.index), [Path(place) for place in args.of]
    if len(set(args.of)) < len(args.of) or args.instance in args.of:
        raise UsageError("each --of is the place of another replica, and --instance is none of them")
    with stop_signals() as stopping, InstancePlace(Path(args.instance)) as place:
        logs = open_logs(args)
        with IndexCatalogue(Path(args.state)) as catalogue:
            controller = ReplicaController(
                logs, keys, places, catalogue, _remark, history=args.history, marker=marker_of(args, _remark)
            )
            place.listen()
            remark(f"cdcv2 replicas: {', '.join(keys)} at {args.instance}, of {', '.join(args.of)}")
            controller.serve(place, in_each_turn(args.events, controller.progress, stopping))
    return Exit.DONE


def _remark(text: str) -> None:
    remark(f"cdcv2 replicas: {text}")
