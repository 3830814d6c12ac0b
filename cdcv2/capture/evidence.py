"""Are these the topics that the logs were made of? A capture without a state must find out.

Everything that such a capture reads at first looks like a duplicate, even if it is of another source. But the logs hold
what the topics had: rows of the snapshot at its LSN, everything else at the LSN of an END. So the last time of each log
must be found among the ENDs, which come in order, and the first time must be that of the snapshot. At the LSN of a
resnapshot there need be no END.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdcv2.core.order import Time
from cdcv2.errors import ForeignStateError

#: The first and the last time at which a log has updates; None: it has none.
Span = tuple[Time, Time]


class SourceEvidence:
    """Compares the topics with the first and the last times of the logs.

    >>> evidence = SourceEvidence({"public.t": (100, 130)})
    >>> evidence.end(110); evidence.end(130); evidence.snapshot("public.t", 100, 130); evidence.finished()

    ``snapshot``: the logs begin with one. Each method raises ForeignStateError if the topics are of another source.
    """

    def __init__(
        self, spans: Mapping[str, Span | None], again: Collection[int] = (), *, snapshot: bool = True
    ) -> None:
        self._firsts = {table: None if span is None else _number(span[0]) for table, span in spans.items()}
        first = min((time for time in self._firsts.values() if time is not None), default=0)
        # Where the snapshot was taken, if it has rows; without one rows of a snapshot show nothing of the logs.
        self._snapshot = first if snapshot else None
        # Of each log the last time, which is an END's: only the first of all may be the snapshot's.
        self._wanted = {_number(span[1]): table for table, span in sorted(spans.items()) if span is not None}
        self._last = max(self._wanted, default=0)
        for time in (first, *again):
            self._wanted.pop(time, None)
        self._highest = 0
        #: Whether enough was seen of the topics: what comes now needs no comparing.
        self.sure = not any(spans.values())

    def snapshot(self, table: str, lsn: int, through: int) -> None:
        """There is a row of the table's snapshot; the logs are stated up to ``through``.

        One at the LSN of their snapshot, of a table that has none there, is theirs, and was not released; one beyond
        what is stated is of another snapshot. Whether these stop the capture is not decided here.
        """
        if self._snapshot is None or lsn > through:
            return
        first = self._firsts.get(table, lsn)
        if lsn not in (first, self._snapshot):
            start = "has no updates" if first is None else f"begins at {first}"
            raise _foreign(f"the topics have rows of a snapshot of {table} at {lsn}, and its log {start}")
        self.sure |= not self._wanted

    def end(self, lsn: int) -> None:
        """There is an END; the ENDs come in order, and some again."""
        self._highest = max(self._highest, lsn)
        self._wanted.pop(lsn, None)
        missed = min(self._wanted, default=lsn)
        if missed < lsn:
            raise _foreign(f"the log of {self._wanted[missed]} has updates at {missed}, and no transaction ends there")
        self.sure |= lsn >= self._last

    def finished(self) -> None:
        """There is nothing more in the topics."""
        if self._wanted:
            last = max(self._wanted)
            raise _foreign(
                f"the log of {self._wanted[last]} has updates at {last}, and the last END of the topics is at "
                f"{self._highest}"
            )
        self.sure = True


def _number(time: Time) -> int:
    return time if type(time) is int else 0


def _foreign(found: str) -> ForeignStateError:
    return ForeignStateError(
        f"the logs were made of other topics: {found}. Capture this source into logs of its own; or, if the topics "
        "were cut off or made again under the old names, start over with a new snapshot; or, if the logs were captured "
        "with --snapshot-again, keep giving it"
    )
