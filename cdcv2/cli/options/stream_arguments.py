"""What the arguments of a capture of stream topics mean: the same for the command and for the job on Spark.

::

    --stream clicks=web.clicks --rows web                  web/clicks.avsc, written to the log clicks
"""

from __future__ import annotations

import argparse

from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.cli.options.capture_arguments import topics_of
from cdcv2.connectors.kinds import STREAM_TOPIC


def stream_topics(args: argparse.Namespace) -> dict[str, StreamTopic]:
    """Table -> what it is captured from. Raises UsageError."""
    return {
        table: StreamTopic(topic, STREAM_TOPIC(row_type, time=args.time_column, diff=args.diff_column))
        for table, (topic, row_type) in topics_of("--stream", args.stream, args.rows).items()
    }
