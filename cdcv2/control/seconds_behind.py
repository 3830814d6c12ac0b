"""How many seconds a copy is behind its source: decided on what was seen, with no clock and no connection.

A copy (the logs of a capture, or a target) is behind by the age of the oldest commit that it lacks, by the source's
clock; by 0 where it lacks none. Four things are looked at, in this order: the source's position, the connector, the
copies' frontiers, and the transaction topic, which has an END for each commit, in the order of commits.

================================================= ==================================================================
what was seen                                     seconds behind
================================================= ==================================================================
an END beyond the frontier                        the age of the first of them: exact
no END beyond it, and the topic has all commits   0: exact
no END beyond it, the topic may lack commits      at most the age of the last END
the source does not answer                        the age of the last END that is in: "since the last END read"
its WAL ends before what was captured             not known: it is another server, or a restored one
nothing is complete yet, or no clock is known     not known
something of it is lost, or it is not covered     not known: ``pipeline_status`` decides that, and asks no further
================================================= ==================================================================

The distance in WAL is no measure: it also grows by checkpoints, by vacuum, and by tables that are not captured. The
topic has all commits where one of these holds:

- the source's WAL ends where the last END is;
- the connector runs, and has confirmed all WAL that there was: it confirms only what Kafka has acknowledged.

That the server has sent all its WAL to a connector that runs proves nothing: it may be unable to write to Kafka, and is
``RUNNING`` while it tries again. Nor does it that the last END is of the transaction that the server names as its last
(``track_commit_timestamp = on``): of two that commit at the same time the server may name the one that is first in WAL.

Where the topic may lack commits, all of them are younger than its last END, than the moment at which nothing was
missing as an earlier look knows, and not older than the first commit behind the last END that the server names.

Where only the connector can show that the topic has all commits, :mod:`cdcv2.control.pipeline_probe` gives it time for
that, and looks again: by the same :func:`has_ended` and :attr:`DatabaseObservation.read_slot`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control.observations import (
    UNANSWERED, ConnectorObservation, CopyObservation, DatabaseObservation, TopicObservation,
)


class Basis(StrEnum):
    """What a number of seconds means."""

    EXACT = "exact"
    AT_MOST = "at most"
    LAST_END = "since the last END read"
    NOT_KNOWN = "not known"


#: Of a source whose WAL ends before what came from it.
OTHER_SERVER = "the source's WAL ends before what was captured: another server, or a restored one"


class Lag(NamedTuple):
    """How far a copy is behind: the seconds, what they mean, and the reason in words.

    ``all_there_at``: the last moment, by the source's clock, at which it is known that nothing was missing.
    """

    seconds: float | None
    basis: Basis
    text: str
    all_there_at: float | None = None


def lag_of(
    copy: CopyObservation, source: DatabaseObservation | None, connector: ConnectorObservation | None,
    topic: TopicObservation | None, now: float,
) -> Lag:
    """How far a copy is behind. ``source``, ``topic``: None where it is not asked, or does not answer; ``connector``:
    None where it is not asked, and with the state ``UNANSWERED`` where Connect does not answer.

    ``topic.beyond`` is of this copy's frontier; ``now`` is our own clock, for a source that does not answer.

    >>> topic = TopicObservation("shop.transaction", 9, TransactionEnd(757, 500, 100.0, 8))
    >>> lag_of(CopyObservation([501]), DatabaseObservation(130.0, 500), None, topic, 130.0).seconds
    0.0
    >>> lag = lag_of(CopyObservation([501]), DatabaseObservation(130.0, 900), None, topic, 130.0)
    >>> lag.seconds, lag.basis.value
    (30.0, 'at most')
    """
    if copy.frontier is not None and not copy.frontier:
        return Lag(0.0, Basis.EXACT, "the history is finished", copy.all_there_at)
    if copy.frontier is None or list(copy.frontier) in ([0], [1]):
        return Lag(None, Basis.NOT_KNOWN, "nothing is complete yet")
    other = source is not None and ends_before(source.position, copy.captured)
    beyond = None if topic is None else topic.beyond
    if beyond is not None and beyond.at is not None:
        return _beyond(beyond, beyond.at, None if other else source, copy, now)
    if other:
        return Lag(None, Basis.NOT_KNOWN, OTHER_SERVER, copy.all_there_at)
    last = None if topic is None or beyond is not None else topic.last
    ended = last.at if last is not None and last.at is not None else copy.committed_at
    if source is None:
        if ended is None:
            return Lag(None, Basis.NOT_KNOWN, "the source is not asked, and no END has a clock", copy.all_there_at)
        text = "the source is not asked: it may have committed more"
        return Lag(_age(now, ended), Basis.LAST_END, text, copy.all_there_at)
    proof = None if beyond is not None else _all_in_topic(source, connector, last, copy)
    if proof is not None and (topic is not None or proof == _AT_END):
        return Lag(0.0, Basis.EXACT, proof, source.at)
    known = [one for one in (ended, copy.all_there_at, source.first_after) if one is not None]
    if not known:
        return Lag(None, Basis.NOT_KNOWN, "no END has a clock", copy.all_there_at)
    return Lag(_age(source.at, max(known)), Basis.AT_MOST, _doubt(source, connector, topic), copy.all_there_at)


def ends_before(position: int, captured: int | None) -> bool:
    """Whether a source lacks WAL that was captured before it was looked at: then it is not the server that wrote it.

    ``position``: where its WAL ended. ``captured``: the LSN through which a copy was complete before that; None: not
    known. An END is where the WAL of its commit ends, and is sent when that is safe: no honest server ends before it.

    >>> ends_before(500, 500), ends_before(500, 501), ends_before(500, None)
    (False, True, False)
    """
    return captured is not None and position < captured


def has_ended(source: DatabaseObservation, last: TransactionEnd | None, through: int = 0) -> bool:
    """Whether a source has committed nothing behind the last END, nor behind ``through``, if a copy is further.

    >>> end = TransactionEnd(757, 500, 100.0, 8)
    >>> has_ended(DatabaseObservation(130.0, 500), end), has_ended(DatabaseObservation(130.0, 900), end)
    (True, False)
    """
    return source.position <= max(through, 0 if last is None else last.lsn)


_AT_END = "the source has committed nothing since"
_CONFIRMED = "the connector has confirmed all that is committed"


def _beyond(
    end: TransactionEnd, at: float, source: DatabaseObservation | None, copy: CopyObservation, now: float
) -> Lag:
    text = f"transaction {end.tx}, END {end.lsn}, offset {end.offset} of its topic, is the first that is missing"
    if source is None:
        return Lag(_age(now, at), Basis.EXACT, text, copy.all_there_at)
    # Committed behind our look at the source: at that moment nothing was missing.
    there = source.at if at >= source.at else copy.all_there_at
    return Lag(_age(source.at, at), Basis.EXACT, text, there)


def _all_in_topic(
    source: DatabaseObservation, connector: ConnectorObservation | None, last: TransactionEnd | None,
    copy: CopyObservation,
) -> str | None:
    """Why the topic has all that the source has committed; None: it may lack commits."""
    through = copy.frontier[0] - 1 if copy.of_commits and copy.frontier and isinstance(copy.frontier[0], int) else 0
    if has_ended(source, last, through):
        return _AT_END
    slot = source.read_slot
    if slot is None or slot.confirmed is None or slot.confirmed < source.position:
        return None
    return _CONFIRMED if connector is None or connector.runs else None


def _doubt(source: DatabaseObservation, connector: ConnectorObservation | None, topic: TopicObservation | None) -> str:
    if topic is None:
        return "the topics are not asked: commits may be missing"
    if connector is not None and connector.state == UNANSWERED:
        return "Connect does not answer: commits may be missing"
    if connector is not None and not connector.runs:
        return "the connector does not run: commits may be missing"
    slot = source.read_slot
    if slot is None:
        return "no connector reads from the slot: commits may be missing"
    if slot.sent is not None and slot.sent < source.position:
        unsent = source.position - slot.sent
        return f"{unsent} bytes of WAL are not sent to the connector yet: commits may be missing"
    unconfirmed = max(0, source.position - (slot.confirmed or 0))
    return f"the connector has not confirmed {unconfirmed} bytes of WAL: commits may be missing"


def _age(now: float, then: float) -> float:
    """Two clocks: that of the source may be ahead."""
    return round(max(0.0, now - then), 3)
