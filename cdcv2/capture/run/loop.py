"""A capture at work: topics in, releases out, until the topics end or for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cdcv2.capture.facts import Record
from cdcv2.capture.release_answers import RELEASE_EVERY, WaitReason
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.topics import Item, Topics
from cdcv2.errors import DecodeError, SourceStop


def run(
    capture: Capture,
    topics: Topics,
    *,
    follow: bool = False,
    release_every: int = RELEASE_EVERY,
    hold: int = 200_000,
    stopping: Callable[[], bool] = lambda: False,
) -> WaitReason:
    """Read, absorb, release; returns why nothing more can be released, at the end of the topics or when it must stop.

    A release is tried after ``release_every`` records and whenever there is nothing to read. When more than ``hold``
    rows are held, partitions that are ahead must wait. ``stopping`` is asked between records. Raises what the topics
    and the capture raise; SourceStop, and DecodeError for a malformed record, once everything before is written. A stop
    for an undeclared snapshot names its LSN, if the topics have it.
    """
    capture.will_seek()
    capture.reads(topics.identities())
    capture.recall(topics.ranges(capture.transaction_topic))
    start = capture.positions()
    while True:
        items = topics.read(start, follow=follow)
        try:
            return _run(capture, topics, items, release_every, hold, stopping)
        except SourceStop:
            if not capture.searches_resnapshot:
                raise
            getattr(items, "close", lambda: None)()
            _seek(capture, topics, stopping)
        capture.release()
        # The stop lasts, and whether these are the topics of the logs is not known yet: they are read on.
        start = capture.next_positions()


def _seek(capture: Capture, topics: Topics, stopping: Callable[[], bool]) -> None:
    """Look for a row of the snapshot that stopped the capture, up to the present ends of the topics."""
    for item in topics.read(capture.next_positions()):
        if stopping():
            return
        if isinstance(item, Record):
            capture.look(item)
            if not capture.searches_resnapshot:
                return
    capture.searched()


def _run(
    capture: Capture, topics: Topics, items: Iterator[Item], release_every: int, hold: int,
    stopping: Callable[[], bool],
) -> WaitReason:
    fresh = 0
    for item in items:
        if stopping():
            break
        if isinstance(item, Record):
            _absorb(capture, item)
            fresh += 1
        elif item is not None:
            capture.reached(*item)
        if capture.needs_ends:
            capture.ends_read(topics.ends())
        if fresh >= release_every or (fresh and item is None):
            capture.release()
            fresh = 0
            topics.let_wait(capture.is_ahead if capture.held_rows > hold else None)
    else:
        capture.ended()
    capture.release()
    return capture.waits()


def _absorb(capture: Capture, record: Record) -> None:
    try:
        capture.absorb(record)
    except DecodeError:
        capture.release()
        raise
