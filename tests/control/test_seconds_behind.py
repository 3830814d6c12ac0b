"""Seconds behind: the number against an oracle that sees every commit, and a table of what can be seen."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control.observations import (
    UNANSWERED, ConnectorObservation, CopyObservation, DatabaseObservation, SlotObservation, TopicObservation,
)
from cdcv2.control.seconds_behind import Basis, Lag, lag_of

RUNS = ConnectorObservation("shop", "RUNNING", ("RUNNING",))
PAUSED = ConnectorObservation("shop", "PAUSED", ("PAUSED",))
DONE = SlotObservation("shop", True, confirmed=900, sent=900)
LAST = TransactionEnd(757, 500, 100.0, 8, 100.5)
TOPIC = TopicObservation("shop.transaction", 9, LAST)
HERE = CopyObservation([501], 100.0)


def source(**fields: object) -> DatabaseObservation:
    return DatabaseObservation(130.0, 900, DONE)._replace(**fields)


@pytest.mark.parametrize(("name", "lag", "seconds", "basis"), [
    ("an idle source", lag_of(HERE, source(), RUNS, TOPIC, 131.0), 0.0, Basis.EXACT),
    ("no WAL behind the END", lag_of(HERE, source(position=500, slot=None), PAUSED, TOPIC, 131.0), 0.0, Basis.EXACT),
    ("the last transaction", lag_of(HERE, source(last_tx=757, slot=None), PAUSED, TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("another last transaction", lag_of(HERE, source(last_tx=9, slot=None), RUNS, TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("a commit behind it that the server names",
     lag_of(HERE, source(last_tx=9, slot=None, first_after=127.0), RUNS, TOPIC, 131.0), 3.0, Basis.AT_MOST),
    ("a connector that is paused", lag_of(HERE, source(), PAUSED, TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("a failed task", lag_of(HERE, source(), RUNS._replace(tasks=("FAILED",)), TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("no task", lag_of(HERE, source(), RUNS._replace(tasks=()), TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("Connect does not answer", lag_of(HERE, source(), RUNS._replace(state=UNANSWERED, tasks=()), TOPIC, 131.0), 30.0,
     Basis.AT_MOST),
    ("an older server", lag_of(HERE._replace(captured=500), source(position=499), RUNS, TOPIC, 131.0), None,
     Basis.NOT_KNOWN),
    ("the same server", lag_of(HERE._replace(captured=500), source(position=500), RUNS, TOPIC, 131.0), 0.0,
     Basis.EXACT),
    ("an older server, and a copy that lacks an END: by our clock",
     lag_of(HERE._replace(captured=500), source(position=499), RUNS,
            TOPIC._replace(beyond=TransactionEnd(9, 600, 123.0, 9)), 131.0), 8.0, Basis.EXACT),
    ("a connector that runs, has received all WAL, and cannot write",
     lag_of(HERE, source(slot=DONE._replace(confirmed=899)), RUNS, TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("a slot that states nothing", lag_of(HERE, source(slot=DONE._replace(confirmed=None)), RUNS, TOPIC, 131.0), 30.0,
     Basis.AT_MOST),
    ("a slot that is not read", lag_of(HERE, source(slot=DONE._replace(active=False)), RUNS, TOPIC, 131.0), 30.0,
     Basis.AT_MOST),
    ("WAL that is not sent",
     lag_of(HERE, source(slot=DONE._replace(confirmed=500, sent=899)), RUNS, TOPIC, 131.0), 30.0, Basis.AT_MOST),
    ("a role that does not see what is sent", lag_of(HERE, source(slot=DONE._replace(sent=None)), RUNS, TOPIC, 131.0),
     0.0, Basis.EXACT),
    ("all was there at an earlier look",
     lag_of(HERE._replace(all_there_at=128.0), source(slot=None), RUNS, TOPIC, 131.0), 2.0, Basis.AT_MOST),
    ("a capture that lags",
     lag_of(HERE, source(), RUNS, TOPIC._replace(beyond=TransactionEnd(9, 600, 123.0, 9)), 131.0), 7.0, Basis.EXACT),
    ("an END without a clock",
     lag_of(HERE, source(), RUNS, TOPIC._replace(beyond=TransactionEnd(9, 600, None, 9)), 131.0), 30.0, Basis.AT_MOST),
    ("a commit behind the look",
     lag_of(HERE, source(), RUNS, TOPIC._replace(beyond=TransactionEnd(9, 600, 130.2, 9)), 131.0), 0.0, Basis.EXACT),
    ("a capture that lags, and the source is away",
     lag_of(HERE, None, RUNS, TOPIC._replace(beyond=TransactionEnd(9, 600, 123.0, 9)), 131.0), 8.0, Basis.EXACT),
    ("the source is away", lag_of(HERE, None, RUNS, TOPIC, 131.0), 31.0, Basis.LAST_END),
    ("source and topics are away", lag_of(HERE, None, None, None, 131.0), 31.0, Basis.LAST_END),
    ("the topics are away", lag_of(HERE, source(), RUNS, None, 131.0), 30.0, Basis.AT_MOST),
    ("the topics are away, and nothing was committed", lag_of(HERE, source(position=500), None, None, 131.0), 0.0,
     Basis.EXACT),
    ("nothing is complete", lag_of(CopyObservation([0]), source(), RUNS, TOPIC, 131.0), None, Basis.NOT_KNOWN),
    ("nothing is known of it", lag_of(CopyObservation(None), source(), RUNS, TOPIC, 131.0), None, Basis.NOT_KNOWN),
    ("it is finished", lag_of(CopyObservation([]), None, None, None, 131.0), 0.0, Basis.EXACT),
    ("a clock that is ahead", lag_of(HERE, None, None, None, 90.0), 0.0, Basis.LAST_END),
    ("milliseconds are no bytes of WAL",
     lag_of(CopyObservation([1795251720505], 100.0, of_commits=False), source(slot=None), RUNS,
            TOPIC._replace(last=LAST._replace(lsn=400)), 131.0), 30.0, Basis.AT_MOST),
    ("no transaction yet since the snapshot", lag_of(HERE, source(), RUNS, TOPIC._replace(last=None), 131.0), 0.0,
     Basis.EXACT),
])  # fmt: skip
def test_what_is_seen_gives_the_seconds(name: str, lag: Lag, seconds: float | None, basis: Basis) -> None:
    """Each line of the rule, with the reason in words."""
    assert (lag.seconds, lag.basis, bool(lag.text)) == (seconds, basis, True), name


#: Moments at which the source commits; how many of the commits the connector has sent, and written, and a copy has.
Commits = st.lists(st.floats(0.1, 5.0), min_size=1, max_size=12)


@given(Commits, st.data())
def test_no_number_is_below_the_truth(gaps: list[float], data: st.DataObject) -> None:
    """The oracle sees every commit: exact is the truth, at most is never below it, and 0 is stated only where it is.

    The source commits to other tables, too: they grow its WAL and are in no topic.
    """
    moments = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    captured = [data.draw(st.booleans()) for _ in gaps]
    of_topics = [number for number, one in enumerate(captured) if one]
    now = moments[-1] + data.draw(st.floats(0.0, 9.0))
    written = data.draw(st.integers(0, len(of_topics)))
    copied = data.draw(st.integers(0, written))
    ends = [TransactionEnd(number, 100 * number + 100, moments[number], number) for number in of_topics[:written]]
    position = 100 * len(gaps) + data.draw(st.integers(0, 50))
    # It runs, and has received all, whatever it was able to write; it confirms no commit that Kafka does not have.
    runs = data.draw(st.booleans())
    unwritten = [100 * number + 100 for number in of_topics[written:]]
    confirmed = data.draw(st.integers(0, min([position, *(lsn - 1 for lsn in unwritten)])))
    topic = TopicObservation("t", written, ends[-1] if ends else None, ends[copied] if copied < written else None)
    frontier = ends[copied - 1].lsn + 1 if copied else 2
    seen = DatabaseObservation(
        now, position, SlotObservation("s", runs, confirmed=confirmed, sent=position),
        data.draw(st.sampled_from([None, len(gaps) - 1])),
    )
    copy = CopyObservation([frontier], ends[copied - 1].at if copied else 0.0)
    lag = lag_of(copy, seen, RUNS if runs else PAUSED, topic, now)
    missing = [moments[number] for number in of_topics[copied:]]
    truth = now - missing[0] if missing else 0.0

    assert lag.seconds is not None
    if lag.basis is Basis.EXACT:
        assert lag.seconds == pytest.approx(truth, abs=0.01)
    assert lag.seconds >= truth - 0.01
    assert lag.all_there_at is None or not [one for one in missing if one < lag.all_there_at]
