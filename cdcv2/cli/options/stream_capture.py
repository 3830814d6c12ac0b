"""What a capture of stream topics is asked for: the same for the command and for the job on Spark.

::

    --stream clicks=web.clicks --rows web                  web/clicks.avsc, written to the log clicks
"""

from __future__ import annotations

import argparse

from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.cli.options.capture import topics_of
from cdcv2.cli.options.words import Arguments
from cdcv2.connectors.kinds import STREAM_TOPIC
from cdcv2.connectors.stream import DIFF, TIME


def add_stream_options(group: Arguments) -> None:
    """Declare the options of stream topics."""
    group.add_argument(
        "--stream", action="append", default=[], metavar="TABLE=TOPIC",
        help="a topic whose records are updates with times of their own, and bounds; DIR/TABLE.avsc in --rows "
             "(docs/operations/streams.md)",
    )
    group.add_argument("--time-column", default=TIME, metavar="NAME",
                       help=f"the column of a --stream that has the time (default: {TIME})")
    group.add_argument("--diff-column", default=DIFF, metavar="NAME",
                       help=f"the column that has the diff; where a record lacks it, it is 1 (default: {DIFF})")


def stream_topics(args: argparse.Namespace) -> dict[str, StreamTopic]:
    """Table -> what it is captured from. Raises UsageError."""
    return {
        table: StreamTopic(topic, STREAM_TOPIC(row_type, time=args.time_column, diff=args.diff_column))
        for table, (topic, row_type) in topics_of("--stream", args.stream, args.rows).items()
    }
