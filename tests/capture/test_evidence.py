"""Which topics the logs were made of: what shows it, and what shows that they are others."""

from __future__ import annotations

import pytest

from cdcv2.capture.evidence import SourceEvidence, Span
from cdcv2.errors import ForeignStateError

#: Two tables with rows in the snapshot, one that came later, one without updates.
SPANS: dict[str, Span | None] = {"a": (100, 130), "b": (100, 100), "c": (110, 120), "d": None}


def test_the_ends_show_it() -> None:
    """Those of the last updates, but for what the snapshot brought."""
    seen = SourceEvidence(SPANS)
    for lsn in (90, 105, 120):
        seen.end(lsn)
        assert not seen.sure
    seen.end(130)

    assert seen.sure
    seen.end(140)
    seen.finished()
    assert seen.sure


def test_nothing_is_compared_with_logs_without_updates() -> None:
    """Their first END is sure, too."""
    assert SourceEvidence({}).sure and SourceEvidence({"a": None}).sure and not SourceEvidence(SPANS).sure
    seen = SourceEvidence({"a": None})
    seen.snapshot("a", 50, 0)
    seen.end(0)
    seen.finished()
    assert seen.sure


def test_a_last_update_without_its_end_is_of_other_topics() -> None:
    """As soon as there is a later one; and when there is nothing more. The table is named."""
    seen = SourceEvidence(SPANS)
    with pytest.raises(ForeignStateError, match="the log of c has updates at 120, and no transaction ends there"):
        seen.end(125)
    seen = SourceEvidence(SPANS)
    seen.end(120)
    seen.end(110)
    with pytest.raises(ForeignStateError, match="the log of a has updates at 130, and the last END .* is at 120"):
        seen.finished()
    assert not seen.sure
    with pytest.raises(ForeignStateError, match="the last END of the topics is at 0$|is at 0[.]"):
        SourceEvidence({"a": (100, 130)}).finished()


def test_at_a_resnapshot_there_need_be_no_end() -> None:
    """It is sure without."""
    seen = SourceEvidence({"a": (100, 130)}, [130])
    seen.end(140)
    seen.finished()

    assert seen.sure


def test_a_row_of_the_snapshot_shows_where_the_log_begins() -> None:
    """At the log's first time, or at that of the snapshot; beyond what is stated, nothing is shown."""
    for table, lsn in (("a", 100), ("c", 110), ("c", 100), ("new", 300)):
        SourceEvidence(SPANS).snapshot(table, lsn, 500)
    seen = SourceEvidence(SPANS)
    seen.snapshot("a", 131, 130)
    with pytest.raises(ForeignStateError, match="rows of a snapshot of a at 99, and its log begins at 100"):
        seen.snapshot("a", 99, 130)
    with pytest.raises(ForeignStateError, match="rows of a snapshot of a at 130, and its log begins at 100"):
        seen.snapshot("a", 130, 130)
    with pytest.raises(ForeignStateError, match="rows of a snapshot of d at 130, and its log has no updates"):
        seen.snapshot("d", 130, 130)


def test_the_snapshot_alone_may_show_it() -> None:
    """Where all updates are of it; a doubt stays where some are not."""
    one, other = SourceEvidence({"a": (100, 100)}), SourceEvidence(SPANS)
    assert not one.sure
    one.snapshot("a", 100, 130)
    other.snapshot("a", 100, 130)

    assert one.sure and not other.sure
    sure = SourceEvidence({"a": (100, 130)})
    sure.end(130)
    sure.snapshot("a", 100, 130)
    sure.end(120)
    assert sure.sure


def test_without_a_snapshot_its_rows_show_nothing() -> None:
    """The logs may begin anywhere."""
    seen = SourceEvidence(SPANS, snapshot=False)
    seen.snapshot("a", 99, 130)

    assert not seen.sure


def test_times_that_are_no_numbers_are_not_compared() -> None:
    """A log of others."""
    seen = SourceEvidence({"a": ((1, 2), (3, 4)), "b": None})
    seen.snapshot("b", 0, 5)
    seen.end(0)

    assert seen.sure
