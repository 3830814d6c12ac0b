"""See it work: change data through capture, mangled logs and replay.

The result is compared with the source.

With --small: without servers. Recorded change data, through files, in
seconds. Without an option: PostgreSQL, Kafka, Debezium and two Spark jobs that
are killed on the way. All are started here and stopped again. That needs Java
17 and the demo extra. With --tables, the same bank ends in a second PostgreSQL
and in Delta tables, which are read all the time, while runtimes, sessions and
a server are killed. With --doubled: two databases, and two captures that write
the same logs at once, each of which is killed.
"""

from __future__ import annotations

import argparse
import signal

from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 demo --small", "without servers, in seconds"),
    ("cdcv2 demo", "with real servers; a few minutes"),
    ("cdcv2 demo --tables", "into PostgreSQL and Delta tables; a few minutes"),
    ("cdcv2 demo --doubled", "two databases, two captures that write one log; a few minutes"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--small", action="store_true", help="without servers: recorded change data, through files")
    which.add_argument("--tables", action="store_true", help="into a second PostgreSQL and Delta tables, too")
    which.add_argument("--doubled", action="store_true", help="two databases, and two captures that write one log")


def run(args: argparse.Namespace) -> Exit | int:
    """Run it; its exit code shows whether everything was as promised."""
    # As after Ctrl-C, nothing that was started stays behind.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if args.small:
            from cdcv2.demo import small

            return small.main()
        if args.tables:
            from cdcv2.demo import views

            return views.main()
        if args.doubled:
            from cdcv2.demo import two_databases

            return two_databases.main()
        from cdcv2.demo import full

        return int(full.main())
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
