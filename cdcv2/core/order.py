"""Times, and the partial order on them.

A *time* is a non-negative ``int`` (up to 2**63 - 1), a :class:`Product` of such integers, or any hashable value
that offers ``less_equal``, ``join`` and ``sort_key``. The functions here are the only place that knows
how the kinds differ:

- ``less_equal(a, b)`` is the partial order. ``join`` is the least time beyond both (None where there is none).
- ``sort_key`` gives a total order that extends the partial one, for sorting and for nothing else. ``<`` never
  stands in for ``less_equal``: a plain tuple is refused as a time, since its order is lexicographic.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import le
from typing import Any, Protocol, TypeAlias, Union, cast, runtime_checkable

from cdcv2.errors import MalformedError

#: The greatest integer that is a time: Avro's ``long`` holds no more.
MAX_TIME = 2**63 - 1


@runtime_checkable
class PartialOrder(Protocol):
    """What a value of another type must offer to be used as a time."""

    def less_equal(self, other: Any) -> bool:
        """Whether ``other`` is beyond (greater than or equal to) this time."""

    def join(self, other: Any) -> Any | None:
        """The least time beyond both, or None where the two have no common upper bound."""

    def sort_key(self) -> Any:
        """A key that sorts times of this type; if ``a.less_equal(b)`` then a's key is not above b's."""


class Product:
    """A time of several coordinates, each a non-negative integer; ordered coordinate by coordinate.

    >>> Product(1, 2).less_equal(Product(1, 3)), Product(1, 2).less_equal(Product(2, 1))
    (True, False)
    >>> tuple(Product(1, 2).join(Product(2, 1)))
    (2, 2)

    Raises MalformedError for no coordinates, and for a coordinate that is not an ``int`` from 0 to 2**63 - 1.
    Cost: each operation looks at each coordinate once.
    """

    __slots__ = ("_coordinates",)

    def __init__(self, *coordinates: int) -> None:
        if not coordinates:
            raise MalformedError("a Product time needs at least one coordinate: Product(1, 2)")
        for coordinate in coordinates:
            _check_int(coordinate)
        self._coordinates = coordinates

    def less_equal(self, other: Product) -> bool:
        """Whether each coordinate is less than or equal to that of ``other``."""
        return all(map(le, self._coordinates, self._others(other)))

    def join(self, other: Product) -> Product:
        """The greater of each pair of coordinates."""
        return Product(*map(max, self._coordinates, self._others(other)))

    def sort_key(self) -> tuple[int, ...]:
        """The coordinates: lexicographic order extends the order by coordinates."""
        return self._coordinates

    def _others(self, other: object) -> tuple[int, ...]:
        if not isinstance(other, Product) or len(other._coordinates) != len(self._coordinates):
            raise MalformedError(f"{self!r} and {other!r} are times of different kinds: a log has times of one kind")
        return other._coordinates

    def __iter__(self) -> Iterator[int]:
        return iter(self._coordinates)

    def __len__(self) -> int:
        return len(self._coordinates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self._coordinates == other._coordinates

    def __hash__(self) -> int:
        return hash(("Product", self._coordinates))

    def __repr__(self) -> str:
        return f"Product({', '.join(map(str, self._coordinates))})"


#: Any value that can be a time.
Time: TypeAlias = Union[int, Product, PartialOrder]


def less_equal(a: Time, b: Time) -> bool:
    """Whether ``b`` is beyond ``a``: the partial order of times.

    >>> less_equal(3, 5), less_equal(Product(0, 2), Product(2, 0))
    (True, False)

    Raises MalformedError when the two are times of different kinds.
    """
    if type(a) is int and type(b) is int:
        return a <= b
    _same_kind(a, b)
    return cast(PartialOrder, a).less_equal(b)


def join(a: Time, b: Time) -> Time | None:
    """The least time beyond both; None where they have no common upper bound.

    >>> join(3, 5), join(Product(0, 2), Product(2, 0))
    (5, Product(2, 2))
    """
    if type(a) is int and type(b) is int:
        return a if a >= b else b
    _same_kind(a, b)
    return cast("Time | None", cast(PartialOrder, a).join(b))


def sort_key(time: Time) -> Any:
    """A key for sorting times; it extends the partial order and has no other meaning."""
    return time if type(time) is int else cast(PartialOrder, time).sort_key()


def is_total(time: Time) -> bool:
    """Whether times of this kind are totally ordered; integers are, and have the fast paths."""
    return type(time) is int


def check_time(time: object) -> Time:
    """Return ``time`` if it can be a time, else raise MalformedError that names it.

    >>> check_time((1, 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cdcv2.errors.MalformedError: (1, 2) is a plain tuple, ... for several coordinates use Product(1, 2)
    """
    if type(time) is int:
        return _check_int(time)
    if isinstance(time, Product):
        return time
    if isinstance(time, tuple) and not _is_ordered(type(time)):
        inside = ", ".join(map(repr, time))
        raise MalformedError(
            f"{time!r} is a plain tuple, whose order is lexicographic, and no time: "
            f"for several coordinates use Product({inside})"
        )
    if _is_ordered(type(time)):
        try:
            hash(time)
        except TypeError:
            raise MalformedError(f"{time!r} cannot be a time: it is not hashable") from None
        return cast(PartialOrder, time)
    raise MalformedError(f"{time!r} is no time: a time is an int from 0 to 2**63 - 1, or a Product of such integers")


def to_plain(time: Time) -> int | list[int]:
    """The time as JSON can hold it: an integer, or a list of coordinates.

    >>> to_plain(7), to_plain(Product(1, 2))
    (7, [1, 2])

    Raises MalformedError for a time of another type, which has no plain form here.
    """
    if type(time) is int:
        return time
    if isinstance(time, Product):
        return list(time)
    raise MalformedError(f"{time!r} has no plain form: only integers and Products can be exported")


def from_plain(plain: object) -> Time:
    """The time that :func:`to_plain` made this of. Raises MalformedError for anything else.

    >>> from_plain([1, 2])
    Product(1, 2)
    """
    return Product(*plain) if isinstance(plain, (list, tuple)) else check_time(plain)


def _check_int(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_TIME:
        raise MalformedError(f"{value!r} is no time: a time is an int from 0 to 2**63 - 1 (no bool, no float)")
    return value


# Asking whether a type offers what a protocol wants costs more than all else here, and the answer does not change.
_ORDERED: dict[type, bool] = {}


def _is_ordered(kind: type) -> bool:
    if kind not in _ORDERED:
        _ORDERED[kind] = issubclass(kind, PartialOrder)
    return _ORDERED[kind]


def _same_kind(a: object, b: object) -> None:
    if type(a) is not type(b):
        raise MalformedError(f"{a!r} and {b!r} are times of different kinds: a log has times of one kind")
