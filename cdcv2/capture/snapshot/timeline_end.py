"""Makes the End of the first snapshot on a timeline, as no record of a connector is one; ``rules`` judges when.

On a timeline of bindings the snapshot is a transaction before all others. Its End counts the rows that the
notifications of its completed run count. Its commit is the LSN of its rows. So its time is the first one at which both
the completion and a row are bound. If no captured table has a row, it is the time of the completion, and the commit is
the least one there is. The End is thus a function of what is bound, and all captures make the same one.
"""

from __future__ import annotations

from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord
from cdcv2.capture.snapshot import rules
from cdcv2.capture.snapshot.tracker import SnapshotTracker
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords


def snapshot_end(tracker: SnapshotTracker, words: SourceWords = ANY_SOURCE) -> EndRecord | HaltRecord | None:
    """The End, as soon as it is known, or the reason why there can be none.

    >>> tracker = SnapshotTracker(["t"], known=[])
    >>> tracker.notification("TABLE_SCAN_COMPLETED", "t", 2, 1), tracker.notification("COMPLETED", None, None, 2)
    ([], [])
    >>> snapshot_end(tracker), tracker.rows_seen("t", 70, 1), snapshot_end(tracker)
    (None, [], EndRecord(tx='snapshot', commit=70, counts=(('t', 2),)))
    """
    counts = tracker.counts()
    halt = snapshot_halt(tracker, words)
    if halt is not None or counts is None or not rules.end_is_known(counts, tracker.lsn):
        return halt
    return EndRecord.of(SNAPSHOT, tracker.lsn or 0, counts)


def snapshot_halt(tracker: SnapshotTracker, words: SourceWords = ANY_SOURCE) -> HaltRecord | None:
    """The reason why the snapshot stops the capture, before its End or after it, in these words; None: it does not."""
    found = next((stop.found for stop in tracker.stops()), None)
    return found and HaltRecord(SNAPSHOT, None, words.fill(found.reason), words.fill(found.remedy))
