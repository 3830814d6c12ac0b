"""Progress in parts that come and go: which of them have not started, how far each is, which are finished.

A time is a set of parts, and how far those are: ``Partitioned.at(2, 17)`` is part 2 at 17; ``Partitioned.rest([0, 2])``
is every part but 0 and 2, known or not, of which nothing has happened. One time is beyond another if its parts are
among the other's and are at least as far. So the least time is ``Partitioned.rest()``: no part has started.

An antichain of such times states for each part, known or not, where it stands:

- an element ``at(p, t)``: everything of part p before t is in;
- an element ``rest(X)`` with p not in X: p has not started;
- neither: p is finished, and nothing of it can follow.

``{at(0, 4), rest([0])}`` has part 0 at 4 and all others not started, however many there will be. Parts are numbered
(Kafka's partitions) or named (the sources of one timeline); what happens in a part has times of any kind, its own
``Partitioned`` ones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product, Time, check_time, join, less_equal, sort_key
from cdcv2.errors import MalformedError

#: What a part is called: a number from 0 on, or a name.
Part: TypeAlias = Union[int, str]
#: The parts that lead to a number, the outermost first; of a time that is a number itself, none.
Path: TypeAlias = "tuple[Part, ...]"


class Partitioned:
    """A set of parts, and how far those are; made by :meth:`at`, :meth:`rest` and :meth:`among`.

    >>> Partitioned.rest([0]).less_equal(Partitioned.at(7, 0)), Partitioned.rest([0]).less_equal(Partitioned.at(0, 9))
    (True, False)

    The order is a lattice but for joins: parts that have nothing in common have no common upper bound. Cost: constant
    between parts, linear in what ``rest`` leaves out. Source: ``Partitioned`` of Materialize's timely-util, where the
    sets are intervals; sets need no order of the parts, and one element instead of one per gap.
    """

    __slots__ = ("_but", "_parts", "_time", "path", "number")

    # Whether the set is of all parts but `_parts`.
    _but: bool
    _parts: frozenset[Part]
    # How far the part is. None: nothing has happened, as always for more than one part.
    _time: Time | None
    #: The parts that lead to the number that the time comes down to, and that number; None and 0 where there is none.
    path: Path | None
    number: int

    def __init__(self) -> None:
        raise MalformedError("Partitioned() names nothing: write Partitioned.at(part, time) or Partitioned.rest(parts)")

    @classmethod
    def _made(cls, but: bool, parts: frozenset[Part], time: Time | None) -> Partitioned:
        made = cls.__new__(cls)
        made._but, made._parts, made._time = but, parts, time
        if type(time) is int:
            made.path, made.number = tuple(parts), time
        elif isinstance(time, Partitioned) and time.path is not None:
            made.path, made.number = (*parts, *time.path), time.number
        else:
            made.path, made.number = None, 0
        return made

    @classmethod
    def at(cls, part: Part, time: Time) -> Partitioned:
        """The part ``part`` at ``time``. Raises MalformedError for what is no part or no time.

        >>> Partitioned.at(2, 17).less_equal(Partitioned.at(2, 18))
        True
        """
        return cls._made(False, frozenset([_check_part(part)]), check_time(time))

    @classmethod
    def rest(cls, but: Iterable[Part] = ()) -> Partitioned:
        """All parts but these, known or not, of which nothing has happened. Raises MalformedError for no part.

        >>> Partitioned.rest([0]).join(Partitioned.rest([3]))
        Partitioned.rest([0, 3])
        """
        return cls._made(True, frozenset(map(_check_part, but)), None)

    @classmethod
    def among(cls, parts: Iterable[Part]) -> Partitioned:
        """These parts, of which nothing has happened. Raises MalformedError for none."""
        found = frozenset(map(_check_part, parts))
        if not found:
            raise MalformedError("a time of no parts is none: name a part, or write Partitioned.rest()")
        return cls._made(False, found, None)

    @property
    def part(self) -> Part | None:
        """The part of a time made by :meth:`at`; None for any other."""
        return next(iter(self._parts)) if self._time is not None else None

    @property
    def time(self) -> Time | None:
        """How far the part is; None while nothing of it has happened."""
        return self._time

    @property
    def all_but(self) -> bool:
        """Whether the set is of all parts but those named."""
        return self._but

    @property
    def named(self) -> tuple[Part, ...]:
        """The parts that the set is made of, or those that it is without; sorted."""
        return tuple(sorted(self._parts, key=_part_key))

    def less_equal(self, other: Partitioned) -> bool:
        """Whether the parts of ``other`` are among these, and at least as far.

        Raises MalformedError for a time of another kind, also inside one part.
        """
        other = _other(self, other)
        if not self._includes(other):
            return False
        return self._time is None or (other._time is not None and less_equal(self._time, other._time))

    def join(self, other: Partitioned) -> Partitioned | None:
        """The parts of both, as far as the farther; None when they have none in common.

        >>> Partitioned.rest([0]).join(Partitioned.at(2, 17)), Partitioned.at(0, 1).join(Partitioned.at(2, 1))
        (Partitioned.at(2, 17), None)
        """
        other = _other(self, other)
        if self._but and other._but:
            return self._made(True, self._parts | other._parts, None)
        if self._but:
            parts = other._parts - self._parts
        else:
            parts = self._parts - other._parts if other._but else self._parts & other._parts
        if not parts:
            return None
        if self._time is None or other._time is None:
            return self._made(False, parts, other._time if self._time is None else self._time)
        time = join(self._time, other._time)
        return None if time is None else self._made(False, parts, time)

    def sort_key(self) -> tuple[Any, ...]:
        """Larger sets first, then by part and by time."""
        parts = tuple(sorted(map(_part_key, self._parts)))
        if self._but:
            return 0, len(parts), parts
        if self._time is None:
            return 1, -len(parts), parts
        return 2, 0, parts, type(self._time).__name__, sort_key(self._time)

    def _includes(self, other: Partitioned) -> bool:
        if self._but:
            return self._parts <= other._parts if other._but else self._parts.isdisjoint(other._parts)
        return not other._but and other._parts <= self._parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partitioned) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[bool, frozenset[Part], Time | None]:
        return self._but, self._parts, self._time

    def __repr__(self) -> str:
        if self._but:
            return f"Partitioned.rest({list(self.named) or ''})"
        if self._time is None:
            return f"Partitioned.among({list(self.named)})"
        return f"Partitioned.at({self.part!r}, {self._time!r})"


def frontier_of(parts: Mapping[Part, Antichain], *, closed: bool = False) -> Antichain:
    """The frontier at which each part is at its own; an empty one means that the part is finished.

    Parts that are not named have not started; with ``closed`` they never will. A part at the least time of its kind
    has not started either: each state has one form, so that equal progress is equal.

    >>> frontier_of({"orders": offsets({0: 4}), "pay": Antichain([9])}).elements[0]
    Partitioned.rest(['orders', 'pay'])
    >>> frontier_of({"orders": NOT_STARTED}) == NOT_STARTED
    True

    Raises MalformedError for what is no part or no frontier. Cost: linear in the elements.
    """
    spoken: list[Part] = []
    elements: list[Time] = []
    for part, frontier in parts.items():
        if not isinstance(frontier, Antichain):
            raise MalformedError(f"the part {part!r} is at {frontier!r}, which is no frontier: give an Antichain")
        if closed or not any(map(is_least, frontier)):
            spoken.append(part)
            elements.extend(Partitioned.at(part, time) for time in frontier)
    return Antichain(elements if closed else [*elements, Partitioned.rest(spoken)])


def offsets(places: Mapping[Part, int | None], *, closed: bool = False) -> Antichain:
    """The frontier of a topic: for each partition the offset that is read next; None: it is finished.

    >>> offsets({0: 4, 1: 0, 2: None})
    Antichain([Partitioned.rest([0, 2]), Partitioned.at(0, 4)])

    Raises and costs as :func:`frontier_of`, which also explains ``closed``.
    """
    parts = {part: Antichain([] if offset is None else [offset]) for part, offset in places.items()}
    return frontier_of(parts, closed=closed)


def path_of(time: Time) -> tuple[Path | None, int]:
    """The parts that lead to the number that a time comes down to, and that number; None and 0 where there is none.

    Times of one path are totally ordered, by their numbers.

    >>> path_of(7), path_of(Partitioned.at("orders", Partitioned.at(2, 17))), path_of(Product(1, 2))
    (((), 7), (('orders', 2), 17), (None, 0))
    """
    if type(time) is int:
        return (), time
    return (time.path, time.number) if isinstance(time, Partitioned) else (None, 0)


class Beyond:
    """A frontier that answers for many times whether they are beyond it, as ``frontier.less_equal`` does.

    >>> beyond = Beyond(offsets({0: 4, 2: None}))
    >>> [beyond(Partitioned.at(*at)) for at in ((0, 3), (0, 4), (1, 0), (2, 9))]
    [False, True, True, False]

    Cost: linear to make; then constant for times of a part that is at a number, and that of the frontier for others.
    """

    __slots__ = ("frontier", "ends")

    def __init__(self, frontier: Antichain) -> None:
        #: The frontier itself.
        self.frontier = frontier
        #: Where each part is that is at a number: an antichain has nothing else that times of it are beyond.
        self.ends: dict[Path, int] = {
            path: number for path, number in map(path_of, frontier) if path is not None
        }

    def __call__(self, time: Time) -> bool:
        """Whether ``time`` is beyond it. Raises MalformedError for a time of another kind."""
        path, number = path_of(time)
        end = None if path is None else self.ends.get(path)
        return self.frontier.less_equal(time) if end is None else end <= number


def is_least(time: Time) -> bool:
    """Whether no time of its kind is before it.

    >>> is_least(0), is_least(Product(0, 1)), is_least(Partitioned.rest())
    (True, False, True)
    """
    if isinstance(time, Product):
        return not any(time)
    return time == 0 if type(time) is int else time == _LEAST


def _check_part(part: object) -> Part:
    if isinstance(part, str) or (type(part) is int and part >= 0):
        return part
    raise MalformedError(f"{part!r} is no part: a part is a number from 0 on, as of a Kafka partition, or a name")


def _part_key(part: Part) -> tuple[str, Part]:
    return type(part).__name__, part


def _other(mine: Partitioned, other: object) -> Partitioned:
    if not isinstance(other, Partitioned):
        raise MalformedError(f"{mine!r} and {other!r} are times of different kinds: a source has times of one kind")
    return other


_LEAST = Partitioned.rest()
#: No part has started: where a source in parts begins.
NOT_STARTED = Antichain([_LEAST])
