"""What to do about a snapshot that is not right, in words; ``rules`` judges which of them it is.

Words that differ by database are marks, which the connector fills (:mod:`cdcv2.capture.source_words`).
"""

from __future__ import annotations

from cdcv2.capture.source_words import (
    CAPTURED_TABLES, NO_SNAPSHOT_SETTING, PRODUCERS, REPLICATION_SLOT, SLOT, SNAPSHOT_LSN,
)

_START_OVER = (
    f"stop the connector, drop its {REPLICATION_SLOT} and its topics, remove the output and the memory of this capture "
    "(on a remap, take another remap and other logs), and start over"
)
#: What to do about a snapshot whose seam with the stream is not exact, by what shows that.
BEGUN_TWICE = f"A snapshot that was begun twice cannot be joined to the stream exactly: {_START_OVER}"
BROKEN_OFF = (
    f"A snapshot that was broken off is not whole, and the {SLOT} is there when it is tried again: {_START_OVER}"
)
TWO = f"The rows of two snapshots cannot be joined to one stream exactly: {_START_OVER}"
MORE = (
    "The topics hold rows of a snapshot that was broken off, too, or the producer sent a row twice, and which are too "
    f"many cannot be known: {_START_OVER}"
)
EARLY = f"The {SLOT} was there before the snapshot, so the two cannot be joined exactly: {_START_OVER}"
RESNAPSHOT = f"A resnapshot cannot be carried over so: {_START_OVER}"
NO_PLACE = f"So it cannot be put into the history: {_START_OVER}"
#: What to do about a table that the connector never reported.
UNKNOWN = (
    "If the connector does not capture this table, leave it out (--tables). If it was empty when the snapshot was "
    "taken, or did not exist yet, name it (--empty), which stays marked beside the logs. On a remap, do either with "
    "another remap and other logs. Otherwise start over with a snapshot of it: the connector's "
    f"{CAPTURED_TABLES}, a new {SLOT} and new topics"
)
#: What to do about a table that has no topic: a dump may lack the topic.
NO_TOPIC = f"If a dump is captured, and its topic was not dumped: dump that whole, too. {UNKNOWN}"
#: What to do about a scan of a table that states no number of rows that can be believed.
RESCAN = (
    "So nothing shows whether the snapshot is whole: stop the connector, mend what its log names, drop its "
    f"{REPLICATION_SLOT} and its topics, remove the output and the memory of this capture, and start over with a new "
    "snapshot"
)
#: What to do about a table that was declared to be empty, and was not.
NOT_EMPTY = (
    "Leave it out of --empty, and capture into empty logs; on a remap, with another remap, too"
)
LACKED = (
    "The snapshot was released without all of its rows. Start over with empty logs and without the memory of this "
    "capture (on a remap, with another remap); with the connector's notification topic (--notifications), if it was "
    "not given: it states how many rows there are. If it was given, the producer sent a row twice: drop the "
    f"{REPLICATION_SLOT} and the topics, too, and let {PRODUCERS} be idempotent"
)
NO_SNAPSHOT = (
    "Capture with --snapshot initial, into empty logs (on a remap, with another remap); or, if the connector was to "
    f"take no snapshot, begin with new topics, a new {SLOT}, empty logs, and the connector's {NO_SNAPSHOT_SETTING}"
)
#: What to do about an LSN that was declared as that of a snapshot, and is of none.
WRONG_LSN = f"Give --snapshot-again the LSN of a snapshot: {SNAPSHOT_LSN} of its rows, which stops of the capture name"
#: What to do about a table that had more rows at its snapshot than the snapshot brought.
NOT_WHOLE = (
    "The snapshot is not what was declared of the table. If it was named with --empty, leave it out of --empty, and "
    "capture into empty logs (on a remap, with another remap, too). If the connector was to take no snapshot "
    f"({NO_SNAPSHOT_SETTING}), capture with --snapshot none, into empty logs. Otherwise start over with a snapshot of "
    f"all rows of the table: a new {SLOT}, new topics, empty logs"
)
