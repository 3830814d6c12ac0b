"""What a capture waits for, as data with places, for its events (:mod:`cdcv2.events`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdcv2.capture.binder import Binder
from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.release_answers import WaitReason
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.remap_loop import RunResult
from cdcv2.capture.topics import TopicExtents
from cdcv2.core.antichain import Antichain
from cdcv2.events import JobProgress, JobWait
from cdcv2.protocol.log import Place


def stated_frontier(frontier: Antichain | None) -> Antichain:
    """Up to where the logs of a capture by commit times are complete, by the capture's own frontier.

    One without a snapshot that released nothing has stated nothing.
    """
    return Antichain([0]) if frontier is None or frontier == Antichain([1]) else frontier


def capture_waits(reason: WaitReason, recipe: DatabaseConnector, positions: Mapping[Place, int]) -> tuple[JobWait, ...]:
    """Why nothing more can be released, one for each table that lacks rows; nothing where nothing is open.

    ``positions`` are the next offsets to be read. The place is where it will come: the topic, with partition and offset
    where that is one partition; and the transaction, with the LSN of its END.
    """
    if reason.what == "end" and reason.tx is None:
        return ()
    of = {name: value for name, value in (("transaction", reason.tx), ("lsn", reason.lsn)) if value is not None}
    if not reason.missing:
        topic = {"end": recipe.transaction_topic, "snapshot": recipe.notification_topic}.get(reason.what)
        return (JobWait(reason.what, reason.text, {**of, **_there(topic, positions)}),)
    return tuple(
        JobWait(reason.what, reason.text, {**of, "table": table, "rows": rows,
                                           **_there(recipe.topic(table), positions)})
        for table, rows in sorted(reason.missing.items())
    )


def _there(topic: str | None, positions: Mapping[Place, int]) -> dict[str, str | int]:
    """Where the next record of a topic will be."""
    if topic is None:
        return {}
    known = [(part, offset) for (of, part), offset in positions.items() if of == topic]
    if len(known) != 1:
        return {"topic": topic}
    return {"topic": topic, "partition": known[0][0], "offset": known[0][1]}


def unread_waits(unread: int) -> tuple[JobWait, ...]:
    """That so many records are there which were not read."""
    return (JobWait("records", f"{unread} records to be read", {"records": unread}),)


def bound_waits(capture: SharedCapture, unbound: Mapping[Place, tuple[int, int]]) -> tuple[JobWait, ...]:
    """What a capture on a remap waits for: records that are not bound, or else what its outputs hold.

    ``unbound`` has for partitions the first offset that is not bound, and where the partition ends.
    """
    found = [
        JobWait("records", f"{end - bound} records to be bound", {
            "topic": topic, "partition": part, "offset": bound, "records": end - bound,
        })
        for (topic, part), (bound, end) in sorted(unbound.items())
    ]
    return tuple(found or [
        JobWait("transactions", text, {"topics": topics}) for text, topics in capture.waits_by_topics()
    ])


def bound_state(capture: SharedCapture, binder: Binder, look: TopicExtents) -> JobProgress:
    """How far a capture on a remap is, when the topics are as far as ``look`` has it."""
    frontier = capture.complete.to_plain()
    unbound = binder.unbound(look.ends)
    return JobProgress(
        frontier, bound_commit(frontier), bound_waits(capture, unbound), capture.held, {"records": capture.records},
        not unbound and capture.has_carried_all,
    )


def result_state(came: RunResult) -> JobProgress:
    """How far it is in the end."""
    frontier = came.frontier.to_plain()
    waits = [JobWait("transactions", text) for text in came.waiting]
    return JobProgress(frontier, bound_commit(frontier), waits, None, {"records": came.records})


def bound_commit(frontier: Sequence[Any]) -> float | None:
    """The last moment before a frontier of a remap, whose times are milliseconds, in seconds; None: there is none."""
    return (frontier[0] - 1) / 1000 if len(frontier) == 1 and frontier[0] else None


def stream_waits(texts: Iterable[tuple[str, str, str]]) -> tuple[JobWait, ...]:
    """What a capture of streams waits for: of each table that lacks something, the table, its topic, and what."""
    return tuple(
        JobWait("updates", f"{table}: {text}", {"table": table, "topic": topic}) for table, topic, text in texts
    )
