"""The two kinds of statements that a log is made of, and the batch that a reader gives out.

- ``Updates``: triples ``(data, time, diff)``; each states that the multiplicity of ``data`` changes at ``time`` by
  exactly ``diff``. The identity of an update is ``(data, time)``.
- ``Progress``: how many distinct updates there are at each time beyond ``lower`` and not beyond ``upper``.

Both are true of the finished history and can be made before it is finished; so they may be repeated, reordered
and re-batched at will. Their constructors refuse what can never be right, whatever else the log has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import lt
from typing import Any, TypeAlias, TypeVar, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time, check_time, sort_key
from cdcv2.errors import MalformedError

T = TypeVar("T")

#: ``(data, time, diff)``: the multiplicity of data changes at time by diff.
Update: TypeAlias = tuple[Any, Time, int]


@dataclass(frozen=True, slots=True)
class Updates:
    """Some updates, in any order; the grouping of updates into messages means nothing.

    >>> Updates([("a", 3, 1), ("b", 3, -2)]).updates
    (('a', 3, 1), ('b', 3, -2))

    Raises MalformedError for a zero diff, a diff that is not an int, a value that is no time, and data that
    cannot be hashed. Cost: linear. Source: the CDCv2 post, "Updates".
    """

    updates: tuple[Update, ...]

    def __init__(self, updates: Iterable[Update] = ()) -> None:
        given = _iterable(updates, "updates", "[(data, time, diff)]")
        object.__setattr__(self, "updates", tuple(_checked(update) for update in given))

    @classmethod
    def trusted(cls, updates: tuple[Update, ...]) -> Updates:
        """The same without the checks, for code that has just made or decoded the triples itself.

        The caller owes what the constructor checks: a tuple of triples, each time of the type that a time has (3, and
        not 3.0, which Python takes for equal), each diff an int other than zero, data that can be hashed. Readers
        check these again only where it costs nothing: one for whole numbers asks the type of a time when it is new.
        """
        message = cls.__new__(cls)
        object.__setattr__(message, "updates", updates)
        return message

    def __len__(self) -> int:
        return len(self.updates)


def _iterable(given: Iterable[T], what: str, example: str) -> Iterator[T]:
    try:
        return iter(given)
    except TypeError:
        raise MalformedError(f"the {what} {given!r} are not iterable: write {example}") from None


def _checked(update: object) -> Update:
    data: Any
    time: Any
    diff: Any
    try:
        data, time, diff = update  # type: ignore[misc]
    except (TypeError, ValueError):
        raise MalformedError(f"{update!r} is no update: an update is (data, time, diff)") from None
    if type(diff) is not int or diff == 0:
        raise MalformedError(f"the update {update!r} has the diff {diff!r}: a diff is an int other than zero")
    check_time(time)
    check_data(data)
    return (data, time, diff)


def check_data(data: Any) -> None:
    """Raise MalformedError unless ``data`` can be the data of an update: it can be hashed."""
    try:
        hash(data)
    except TypeError:
        raise MalformedError(f"the data {data!r} cannot be hashed: use tuples, not lists or dicts") from None


@dataclass(frozen=True, slots=True)
class Progress:
    """At times beyond ``lower`` and not beyond ``upper`` there are exactly these numbers of distinct updates.

    ``counts`` may be a mapping or pairs ``(time, count)``; a time in the interval that is absent has none. An
    empty ``upper`` states that the history is complete. ``upper == lower`` is legal and states nothing.

    >>> Progress([0], [3], {1: 2}).counts
    ((1, 2),)

    Raises MalformedError for an empty ``lower``, bounds that are not antichains, an ``upper`` that is not beyond
    ``lower``, a count that is not a positive int, a repeated time, a time outside the interval.
    Cost: a comparison per time and element of the bounds. Source: the CDCv2 post, "Progress".
    """

    lower: Antichain
    upper: Antichain
    counts: tuple[tuple[Time, int], ...]

    def __init__(
        self,
        lower: Iterable[Time],
        upper: Iterable[Time],
        counts: Mapping[Any, int] | Iterable[tuple[Time, int]] = (),
    ) -> None:
        low, high = _bound("lower", lower), _bound("upper", upper)
        if not low:
            raise MalformedError("a statement with an empty lower bound covers no time: lower needs an element")
        if not high.dominates(low):
            raise MalformedError(f"the upper bound {high} of a statement is not beyond its lower bound {low}")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        object.__setattr__(self, "counts", _counts(low, high, counts))

    def covers(self, time: Time) -> bool:
        """Whether ``time`` is in the interval: beyond ``lower`` and not beyond ``upper``."""
        return self.lower.less_equal(time) and not self.upper.less_equal(time)


def _bound(name: str, times: Iterable[Time]) -> Antichain:
    if isinstance(times, Antichain):
        return times
    try:
        elements = list(times)
    except TypeError:
        raise MalformedError(f"the {name} bound {times!r} is not iterable: write [{times!r}]") from None
    bound = Antichain(elements)
    if len(bound) != len(elements):
        raise MalformedError(f"the {name} bound {elements!r} is no antichain: some element is beyond another")
    return bound


def _counts(
    lower: Antichain, upper: Antichain, counts: Mapping[Any, int] | Iterable[tuple[Time, int]]
) -> tuple[tuple[Time, int], ...]:
    pairs = list(counts.items() if isinstance(counts, Mapping) else _iterable(counts, "counts", "{time: count}"))
    if not pairs or _are_in_order(pairs, lower.integer, upper):
        return tuple(pairs)
    seen: set[Time] = set()
    for pair in pairs:
        try:
            time, count = pair
        except (TypeError, ValueError):
            raise MalformedError(f"{pair!r} is no count: counts are pairs (time, count)") from None
        check_time(time)
        if type(count) is not int or count < 1:
            raise MalformedError(f"the count {count!r} at time {time!r} is not a positive int: leave out what is zero")
        if time in seen:
            raise MalformedError(f"time {time!r} stands twice in the counts of one statement")
        if not lower.less_equal(time) or upper.less_equal(time):
            raise MalformedError(f"time {time!r} has a count but is not in the statement's interval [{lower}, {upper})")
        seen.add(time)
    return tuple(sorted(((time, count) for time, count in pairs), key=lambda pair: sort_key(pair[0])))


def _are_in_order(pairs: list[Any], lower: int | None, upper: Antichain) -> bool:
    """Whether they are counts at rising whole numbers in the interval, as nearly all are."""
    if lower is None or set(map(type, pairs)) != {tuple} or set(map(len, pairs)) != {2}:
        return False
    times, counts = zip(*pairs)
    return (
        set(map(type, times + counts)) == {int} and min(counts) > 0 and lower <= times[0]
        and (times[-1] < upper.integer if upper.integer is not None else not upper and times[-1] <= MAX_TIME)
        and all(map(lt, times, times[1:]))
    )


#: What a log is made of.
Message: TypeAlias = Union[Updates, Progress]


@dataclass(frozen=True, slots=True)
class GarbledMessage:
    """Bytes that are no message, as a source hands them on; the consumer raises, or parks them.

    ``reason`` is what is wrong with them.
    """

    raw: bytes
    reason: str


# Not frozen: setting three frozen fields would be a fifth of what a small message costs a reader.
@dataclass(slots=True)
class Batch:
    """What a reader gives out once: every update at times beyond ``lower`` and not beyond ``upper``.

    ``updates`` is a list of triples by time, one per identity. A batch unpacks to ``updates, upper``:

    >>> updates, frontier = Batch([("a", 0, 1)], Antichain([0]), Antichain([3]))
    >>> updates, frontier
    ([('a', 0, 1)], Antichain([3]))
    """

    updates: list[Update]
    lower: Antichain
    upper: Antichain

    def __iter__(self) -> Iterator[Any]:
        return iter((self.updates, self.upper))


def counted(message: object, before: tuple[Time, Time] | None = None) -> tuple[Time, Time] | None:
    """The first and the last time (by sort key) of those before, and of those at which a statement counts updates.

    Cost: constant. Source: ours.

    >>> counted(Progress([0], [9], {3: 1, 5: 2}), (4, 4)), counted(Updates([]), (4, 4))
    ((3, 5), (4, 4))
    """
    if not isinstance(message, Progress) or not message.counts:
        return before
    first, last = message.counts[0][0], message.counts[-1][0]
    if before is not None:
        first, last = min(first, before[0], key=sort_key), max(last, before[1], key=sort_key)
    return first, last
