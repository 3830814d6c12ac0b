"""See it work: change data through capture, mangled logs and replay.

The result is compared with the source.

  --small         without servers: recorded change data through files, in
                  seconds
  no option       cdcv2 up of the pipeline in examples/bank, with PostgreSQL,
                  Kafka, Debezium and Spark. Its jobs and cdcv2 up itself are
                  killed on the way
  --targets       the same bank ends in a second PostgreSQL and in Delta
                  tables, which are read all the time, while runtimes, sessions
                  and a server are killed
  --two-captures  two databases, and two captures that write the same logs at
                  once, each of which is killed

Servers are started here and stopped again. That needs Java 17 and the extra
demo.
"""

from __future__ import annotations

import argparse
import signal

from cdcv2.cli.options.parser import OptionParser
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 demo --small", "without servers, in seconds"),
    ("cdcv2 demo", "with real servers; a few minutes"),
    ("cdcv2 demo --targets", "into PostgreSQL and Delta tables; a few minutes"),
    ("cdcv2 demo --two-captures", "two databases, two captures that write one log; a few minutes"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: each check is right",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--small", action="store_true", help="recorded change data through files, without servers")
    which.add_argument("--targets", action="store_true", help="into a second PostgreSQL and Delta tables, too")
    which.add_argument("--two-captures", action="store_true", help="two captures of two databases, with the same logs")
    for old, new in (("--tables", "--targets"), ("--doubled", "--two-captures")):
        parser.formerly(old, new)


def run(args: argparse.Namespace) -> Exit | int:
    """Run it; its exit code shows whether everything was as promised."""
    # As after Ctrl-C, nothing that was started stays behind.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if args.small:
            from cdcv2.demo import small

            return small.main()
        if args.targets:
            from cdcv2.demo import views

            return views.main()
        if args.two_captures:
            from cdcv2.demo import two_databases

            return two_databases.main()
        from cdcv2.demo import full

        return int(full.main())
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
