"""Times are a lattice wherever a join exists, and what cannot be a time is refused by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core import order
from cdcv2.core.order import Product, check_time, from_plain, join, less_equal, sort_key, to_plain
from cdcv2.errors import MalformedError
from tests.doubles import Lane

small = st.integers(0, 4)
ints = st.integers(0, 2**63 - 1) | small
lanes = st.builds(Lane, st.sampled_from("ab"), small) | st.just(Lane("", 0))
KINDS = {
    "int": ints,
    "product of one": st.builds(Product, small),
    "product of two": st.builds(Product, small, small),
    "product of three": st.builds(Product, small, small, small),
    "lane": lanes,
}


def three(kind: str) -> Any:
    """Three times of one kind, often comparable."""
    return st.tuples(KINDS[kind], KINDS[kind], KINDS[kind])


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@given(st.data())
def test_less_equal_is_a_partial_order(kind: str, data: st.DataObject) -> None:
    """Reflexive, antisymmetric, transitive: without this no frontier means anything."""
    a, b, c = data.draw(three(kind))

    assert less_equal(a, a)
    assert (a == b) == (less_equal(a, b) and less_equal(b, a))
    assert not (less_equal(a, b) and less_equal(b, c)) or less_equal(a, c)


@each_kind
@given(st.data())
def test_join_is_the_least_upper_bound(kind: str, data: st.DataObject) -> None:
    """It is beyond both, and whatever is beyond both is beyond it; None only where nothing is beyond both."""
    a, b, c = data.draw(three(kind))
    both = join(a, b)

    if both is None:
        assert not (less_equal(a, c) and less_equal(b, c))
    else:
        assert less_equal(a, both) and less_equal(b, both)
        assert (less_equal(a, c) and less_equal(b, c)) == less_equal(both, c)


@each_kind
@given(st.data())
def test_join_does_not_mind_order(kind: str, data: st.DataObject) -> None:
    """The remaining laws: commutative, associative, idempotent."""
    a, b, c = data.draw(three(kind))

    assert a == join(a, a)
    assert join(a, b) == join(b, a)
    left, right = join(a, b), join(b, c)
    if left is not None and right is not None:
        assert join(left, c) == join(a, right)


@each_kind
@given(st.data())
def test_the_sort_key_extends_the_order(kind: str, data: st.DataObject) -> None:
    """Sorting by it never puts a time before one that it is beyond."""
    a, b, _ = data.draw(three(kind))

    assert not less_equal(a, b) or sort_key(a) <= sort_key(b)
    assert (a == b) == (sort_key(a) == sort_key(b))


@given(st.tuples(small, small), st.tuples(small, small))
def test_products_compare_coordinate_by_coordinate(a: tuple[int, int], b: tuple[int, int]) -> None:
    """Spelled out from the definition, for the operations' methods too."""
    left, right = Product(*a), Product(*b)

    assert (a[0] <= b[0] and a[1] <= b[1]) == left.less_equal(right) == less_equal(left, right)
    assert Product(max(a[0], b[0]), max(a[1], b[1])) == left.join(right)


def test_a_product_is_a_value() -> None:
    """Equal, hashed and printed by its coordinates; it can be unpacked, and has a length."""
    one = Product(1, 2)

    assert Product(1, 2) == one
    assert Product(2, 1) != one
    assert (1, 2) != one
    assert hash(Product(1, 2)) == hash(one)
    assert [1, 2] == list(one)
    assert 2 == len(one)
    assert "Product(1, 2)" == repr(one)


def test_a_product_cannot_be_changed() -> None:
    """A time in a dict that changed would be lost there."""
    with pytest.raises(AttributeError):
        Product(1, 2).extra = 3  # type: ignore[attr-defined]


def test_less_than_is_not_offered_by_products() -> None:
    """`<` sorts, `less_equal` is the order; Products offer only the one that is right."""
    with pytest.raises(TypeError):
        Product(0, 1) < Product(1, 0)  # type: ignore[operator]


@pytest.mark.parametrize(
    "value", [-1, 2**63, True, False, 1.0, 0.5, "1", None, (), (1,), (1, 2), [1], {1}, b"1", float("nan")]
)
def test_what_is_no_time_is_refused_by_name(value: object) -> None:
    """Negative, too large, bool, float, tuple, text: each would be compared in some way, and wrongly."""
    with pytest.raises(MalformedError) as caught:
        check_time(value)

    assert repr(value) in str(caught.value)


def test_a_tuple_is_told_what_to_be() -> None:
    """The most likely mistake gets the remedy."""
    with pytest.raises(MalformedError, match=r"Product\(1, 2\)"):
        check_time((1, 2))


def test_a_time_of_another_type_must_be_hashable() -> None:
    """Times are keys everywhere; one that cannot be a key is refused at the door."""
    class Unhashable(Lane):
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(MalformedError, match="not hashable"):
        check_time(Unhashable("a", 1))


@pytest.mark.parametrize("time", [0, 1, 2**63 - 1, Product(0), Product(0, 2**63 - 1), Lane("a", 1)])
def test_what_is_a_time_is_given_back(time: Any) -> None:
    """The ends of the range are inside it, and other types may join in by offering the operations."""
    assert time is check_time(time)


@pytest.mark.parametrize(
    "coordinates", [(), (-1,), (1, -1), (True,), (0, False), (1.0,), (0, 2**63), (None,), ("1",), ((1, 2),)]
)
def test_a_product_refuses_what_is_no_coordinate(coordinates: tuple[Any, ...]) -> None:
    """The same rule as for int times, for every coordinate, and at least one."""
    with pytest.raises(MalformedError):
        Product(*coordinates)


@pytest.mark.parametrize("operation", [less_equal, join])
@pytest.mark.parametrize(
    "a, b",
    [
        (1, Product(1)), (Product(1), 1), (Product(1), Product(1, 2)), (Product(1, 2), Product(1, 2, 3)),
        (Product(1, 2), Lane("a", 1)), (3, Lane("a", 3)), (Lane("a", 3), 3),
    ],
)
def test_times_of_different_kinds_do_not_mix(operation: Any, a: Any, b: Any) -> None:
    """A log has times of one kind; two kinds in one are somebody's mistake, and are named."""
    with pytest.raises(MalformedError) as caught:
        operation(a, b)

    assert repr(a) in str(caught.value) and repr(b) in str(caught.value)


@given(ints | st.builds(Product, small, small) | st.builds(Product, small))
def test_plain_and_back(time: Any) -> None:
    """States and JSON lines hold times as ints and lists, and lose nothing."""
    plain = to_plain(time)

    assert isinstance(plain, (int, list))
    assert time == from_plain(plain)
    assert type(time) is type(from_plain(plain))


@pytest.mark.parametrize("plain", [-1, True, 1.5, "1", None, [], [1, -1], [True], [[1]], {"a": 1}])
def test_a_broken_plain_form_is_refused(plain: object) -> None:
    """A state that was written by something else does not slip in."""
    with pytest.raises(MalformedError):
        from_plain(plain)


def test_a_foreign_time_has_no_plain_form() -> None:
    """Only ints and Products can be exported, and the message names the class."""
    with pytest.raises(MalformedError, match="Lane"):
        to_plain(Lane("a", 1))


def test_only_ints_are_called_total() -> None:
    """The fast paths hang on it."""
    assert order.is_total(3)
    assert not order.is_total(Product(3))
    assert not order.is_total(Lane("a", 3))


class Named(NamedTuple):
    """A partial order of somebody's own, which happens to be a tuple."""

    x: int
    y: int

    def less_equal(self, other: Named) -> bool:
        """In both coordinates."""
        return self.x <= other.x and self.y <= other.y

    def join(self, other: Named) -> Named:
        """The larger of each."""
        return Named(max(self.x, other.x), max(self.y, other.y))

    def sort_key(self) -> tuple[int, int]:
        """Lexicographic."""
        return self.x, self.y


def test_a_tuple_with_an_order_of_its_own_is_a_time() -> None:
    """Only one without is refused, as its order would be another one than was meant."""
    assert Named(1, 2) == check_time(Named(1, 2))
