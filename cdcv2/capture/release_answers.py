"""The answers of ``CommitTransactions``: what may be released, or why nothing may."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from cdcv2.capture.transaction_contradictions import Commit
from cdcv2.capture.updates_then_statements import Advance
from cdcv2.core.antichain import Antichain

#: What is reported of logs whose snapshot could only be assumed to be whole.
ASSUMED = "snapshot completeness assumed: no notification topic states how many rows it has"
#: After so many records what is whole is released, if nothing else is asked for; without a remap and without Spark.
RELEASE_EVERY = 2000


@dataclass(frozen=True)
class Release:
    """What may be released now, wholly and in this order.

    - ``snapshot``: the time of the snapshot's rows if they are part of it, else None; ``assumed``: no notification
      stated that these are all of them.
    - ``again``: the time of a resnapshot, which comes after the transactions: the difference to it is released.
      ``superseded`` are the transactions that it makes up for; nothing else of them is released.
    - ``through``: every table's log gets one statement ``[its known, through + 1)``, whether it has rows in it or not.
    - ``uncovered``: tables that get no statement; ``partial`` are those of them with rows that are in no record.
    - ``begins``: tables that are covered from the time there on: their first statement begins there.
    - ``empty``: tables that were empty at the snapshot only by the user's declaration.
    """

    snapshot: int | None
    transactions: tuple[Commit[int], ...]
    through: int
    assumed: bool = False
    again: int | None = None
    superseded: tuple[int, ...] = ()
    begins: Mapping[str, int] = field(default_factory=dict)
    uncovered: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()

    @property
    def frontier(self) -> Antichain:
        """Up to where the logs are complete once it is written."""
        return Antichain([self.through + 1])

    @property
    def advance(self) -> Advance:
        """How far it brings the logs, and of which tables."""
        return Advance(self.frontier, self.begins, self.uncovered, self.partial, self.empty)


@dataclass(frozen=True)
class WaitReason:
    """Why nothing more can be released: ``text`` for people, the rest for programs.

    ``what`` is "snapshot", "rows" (of transaction ``tx``, whose END is ``lsn``), "end" (the next END is not in; ``tx``
    has rows that wait for it, None: nothing does) or "stop" (nothing more will be released).
    """

    what: str
    text: str
    tx: int | None = None
    lsn: int | None = None
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def inside(self) -> bool:
        """Whether topics that end here end inside the snapshot or a transaction."""
        return self.what in ("snapshot", "rows") or (self.what == "end" and self.tx is not None)


def without_end(open_ones: Collection[int]) -> WaitReason:
    """The reason if no END is in; ``open_ones`` are the transactions that have rows."""
    if not open_ones:
        return WaitReason("end", "nothing is open")
    first = list(islice(open_ones, 3))
    more = f" and {len(open_ones) - 3} more" if len(open_ones) > 3 else ""
    which = f"transaction{'s' if len(first) > 1 else ''} {', '.join(map(str, first))}{more}"
    return WaitReason("end", f"{which}: rows are in, and no END yet", first[0])
