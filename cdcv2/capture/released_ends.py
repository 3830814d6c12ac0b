"""What a start reads again of the transaction topic: the ENDs released last, which show what is a duplicate.

What was released is a function of the transaction topic up to the END that was released last, and is stored nowhere
else. The topic has one partition, to which a connector sends transactions in the order of their commits. A connector
that is restarted goes back to some record that it had sent, and sends everything from there on again. H is the END up
to which all is released. So of the ENDs before the first one that is not before H, those nearest to it are the last
ones up to H, without gaps.

An END alone proves nothing. Of several at one place the first counts, and one that is new but stands behind a later one
was not released. So each record that is read from here on is judged by the records before it, as in a capture that was
never restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.released_transactions import KNOWN

#: What a transaction is called by its source.
T = TypeVar("T")


class TransactionRecord(NamedTuple, Generic[T]):
    """A BEGIN (``end`` is None) or an END (at ``end``) of the transaction topic, with its offset."""

    offset: int
    tx: T
    end: int | None
    counts: Mapping[str, int]


class ReleasedEnds(NamedTuple, Generic[T]):
    """What was read again.

    ``ends`` are (transaction, END, counts), each once, in the order of commits: those released last, and what came
    after them. ``whole``: nothing was released before the first of these, or enough of them are here. ``last`` is the
    transaction whose BEGIN is the last record; None: that record is an END, or there is none. ``restarted`` are open
    transactions with two BEGINs, one directly after the other.

    The topic may have lost its beginning. Then it is unknown whether the transaction of its first record had a BEGIN
    before that, too. ``doubted`` is that transaction; ``gone``: it is that of the first record to be read.

    ``unended`` are the transactions with a BEGIN and no END, ``highest`` is the latest END, 0: none stands there, and
    the topic begins there; None: that is unknown. See :class:`BeginRecords`.
    """

    ends: tuple[tuple[T, int, Mapping[str, int]], ...]
    whole: bool
    last: T | None
    restarted: frozenset[T] = frozenset()
    doubted: T | None = None
    gone: bool = False
    unended: frozenset[T] = frozenset()
    highest: int | None = None

    def up_to(self, through: int) -> list[tuple[T, int, Mapping[str, int]]]:
        """Those that are released through there, at most as many as are known."""
        return [end for end in self.ends if end[1] <= through][-KNOWN:]

    def after(self, through: int) -> list[tuple[T, int, Mapping[str, int]]]:
        """The others."""
        return [end for end in self.ends if end[1] > through]


def recall(
    read: Callable[[int, int], Iterable[TransactionRecord[T]]], first: int, at: int, through: int | None, *,
    start: int | None = None, known: int = KNOWN,
) -> ReleasedEnds[T]:
    """Read backwards from the offset ``at`` until the last ``known`` ENDs through H are there, or to ``first``.

    ``read`` gives the records from one offset up to, not including, another. ``first`` is where the topic begins,
    ``start`` from where on the capture reads it (default: ``at``). ``through`` None: nothing is released.

    >>> one, two = TransactionRecord(0, 7, None, {}), TransactionRecord(1, 7, 100, {"a": 1})
    >>> topic = [one, two, TransactionRecord(2, 8, None, {})]
    >>> recall(lambda low, high: topic[low:high], 0, 3, 100)  # doctest: +NORMALIZE_WHITESPACE
    ReleasedEnds(ends=((7, 100, {'a': 1}),), whole=True, last=8, restarted=frozenset(), doubted=None, gone=False,
        unended=frozenset({8}), highest=100)

    Cost: about twice ``known`` transactions are read, more if some were sent again. Source: how a restarted connector
    sends records again.
    """
    records: list[TransactionRecord[T]] = []
    low, size, wanted = at, 4 * known, 0 if through is None else known
    while low > first and (not records or len(_released(records, through)) < wanted):
        following = max(first, low - size)
        records, low, size = [*read(following, low), *records], following, 2 * size
    released = _released(records, through)
    found = _in_order(records, whole=low == 0)
    ends = [(found[lsn].tx, lsn, found[lsn].counts) for lsn in sorted(found)
            if low == 0 or lsn in released or (through is not None and lsn > through)]
    before = [record for record in records if start is None or record.offset < start]
    last = before[-1].tx if before and before[-1].end is None else None
    is_cut = low == first > 0
    begins = BeginRecords[T]()
    begins.recall(None, highest=0 if low == first == 0 else None)
    restarted = _restarted(before, begins)
    return ReleasedEnds(
        tuple(ends), low == 0 or len(released) >= wanted > 0, last, restarted,
        before[0].tx if is_cut and before else None, is_cut and not before,
        begins.unended, begins.highest,
    )


def _restarted(records: list[TransactionRecord[T]], begins: BeginRecords[T]) -> frozenset[T]:
    found = set[T]()
    for record in records:
        if record.end is not None:
            begins.end(record.tx, record.end)
            found.discard(record.tx)
        elif begins.begin(record.tx):
            found.add(record.tx)
    return frozenset(found)


def _in_order(records: Iterable[TransactionRecord[T]], *, whole: bool) -> dict[int, TransactionRecord[T]]:
    """The first record of each END that is not late: that does not stand behind a later one for the first time.

    What a connector sends in one run has no gaps. So an END is late that lies inside of an earlier run without being in
    it; the first run has all that is before it, if the records are the ``whole`` topic.

    >>> ends = [TransactionRecord(0, 7, 100, {}), TransactionRecord(1, 9, 120, {}), TransactionRecord(2, 8, 110, {})]
    >>> [list(_in_order(ends[1:], whole=whole)) for whole in (False, True)], list(_in_order(ends, whole=False))
    ([[120, 110], [120]], [100, 120])
    """
    found: dict[int, TransactionRecord[T]] = {}
    runs: list[tuple[int, int]] = []
    first, last = -1 if whole else None, -1
    for record in records:
        end = record.end
        if end is None:
            continue
        if first is None:
            first = end
        elif end < last:
            runs.append((first, last))
            first = end
        last = end
        if end not in found and not any(low < end < high for low, high in runs):
            found[end] = record
    return found


def _released(records: list[TransactionRecord[T]], through: int | None) -> set[int]:
    """The ENDs through H that are nearest to the last one that is not before H: what follows that may have gaps."""
    ends = [(record.offset, record.end) for record in records if record.end is not None]
    if through is None:
        return set()
    anchor = max((offset for offset, end in ends if end >= through), default=-1)
    return {end for offset, end in ends if end <= through and offset <= anchor}


def has_end(
    read: Callable[[int, int], Iterable[TransactionRecord[T]]], first: int, behind: int, tx: T, through: int, *,
    size: int = 4 * KNOWN,
) -> bool:
    """Whether an END of the transaction, up to this commit, stands at the offsets from ``first`` to before ``behind``.

    >>> topic = [TransactionRecord(0, 7, 100, {}), TransactionRecord(1, 8, 110, {})]
    >>> found = lambda tx, through: has_end(lambda low, high: topic[low:high], 0, 2, tx, through)
    >>> found(7, 100), found(8, 100), found(9, 200)
    (True, False, False)

    Cost: what is behind the END is read, backwards; without one the whole topic. Source: how a task that was replaced
    sends records again.
    """
    high = behind
    while high > first:
        low = max(first, high - size)
        if any(record.tx == tx and record.end is not None and record.end <= through for record in read(low, high)):
            return True
        high, size = low, 2 * size
    return False


def read_on(
    read: Callable[[int, int], Iterable[TransactionRecord[T]]], start: int, behind: int, through: int, *,
    size: int = 4 * KNOWN,
) -> int:
    """The offset behind the END H, from ``start`` on, or behind the first one after H; ``behind`` without either.

    >>> topic = [TransactionRecord(4, 7, 100, {}), TransactionRecord(6, 8, 110, {})]
    >>> read_on(lambda low, high: topic, 0, 9, 100), read_on(lambda low, high: topic, 0, 9, 105)
    (5, 7)

    Cost: what was sent through H from ``start`` on is read. Source: a capture whose logs are ahead of its positions.
    """
    low = start
    while low < behind:
        high = min(behind, low + size)
        for record in read(low, high):
            if record.end is not None and record.end >= through:
                return record.offset + 1
        low = high
    return behind
