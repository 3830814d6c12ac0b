"""Which changes of a row a record may have, and the bytes of its images."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest

from cdcv2.capture.facts import PartialChange, PartialImage, encoded_images
from cdcv2.errors import Cdcv2Error
from cdcv2.protocol.log import Position
from cdcv2.rows.values import NAN

HERE = Position("shop.t", 1, 7)


@pytest.mark.parametrize("changes, images", [
    ((("old", -1),), (b"old", None)), ((("new", 1),), (None, b"new")),
    ((("old", -1), ("new", 1)), (b"old", b"new")),
])
def test_the_images_of_a_record(changes: tuple[tuple[str, int], ...], images: tuple[bytes | None, ...]) -> None:
    """Of the row that it takes away, and of the one that it adds."""
    assert images == encoded_images(changes, str.encode, HERE)


@pytest.mark.parametrize("diffs", [(), (0,), (2,), (1, -1), (-1, -1), (1, 1), (-1, 1, 1)])
def test_a_record_with_other_changes_is_refused(diffs: tuple[int, ...]) -> None:
    """With its place and the diffs; the rows are not encoded."""
    with pytest.raises(Cdcv2Error) as caught:
        encoded_images(tuple((None, diff) for diff in diffs), str.encode, HERE)

    assert (
        "shop.t[1]@7: a record takes away one row, or adds one, or does both in this order, and the diffs of its "
        f"changes are {diffs}: correct the connector"
    ) == str(caught.value)


def test_a_partial_change_is_equal_to_what_another_process_gets_of_it() -> None:
    """Of a NaN, too, in an array as well; not of one object, which equals itself whatever it is."""
    image = PartialImage(("id", "scores"), (NAN, (1.5, NAN, (NAN, "x"))))
    change = PartialChange("u", image.only({"id"}), None, image)

    again = pickle.loads(pickle.dumps(change))

    assert change == again and again.key is not change.key
    assert {again.key: 1} == {change.key: 1}
    assert deepcopy(change) == change
