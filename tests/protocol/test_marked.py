"""A log is known again by all that stood last in each part, whether anything came since or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Entry, Log, Position, Positions
from cdcv2.protocol.log_identity import LogIdentity
from cdcv2.protocol.messages import Message, Progress, Updates

A, B, C = Updates([("a", 1, 1)]), Updates([("b", 1, 1)]), Progress([0], [2], {1: 2})


class Written:
    """A log of one part, with one or several messages at each offset."""

    name = "written"

    def __init__(self, *offsets: list[Message]) -> None:
        self.offsets = offsets

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry]:
        """From the position on."""
        for offset, messages in enumerate(self.offsets):
            if offset >= (after or {}).get(0, 0):
                for index, message in enumerate(messages):
                    yield Entry(Position(self.name, 0, offset, index), message)


def read_again(first: Written, second: Written) -> list[Message]:
    """What the second gives to one who has read the first, and takes it for that."""
    seen = LogIdentity(cast(Log, first), {})
    read = list(seen.read())
    again = LogIdentity(cast(Log, second), seen.marks())
    return [entry.message for entry in again.read({0: read[-1].position.offset + 1})]


@pytest.mark.parametrize("written", [[[A]], [[A], [B]], [[C], [A, B]], [[A, B], [C]]])
def test_what_came_since_is_read_and_nothing_else(written: list[list[Message]]) -> None:
    """From a log that has not changed, and from one that went on."""
    assert [] == read_again(Written(*written), Written(*written))
    assert [C, A] == read_again(Written(*written), Written(*written, [C, A]))


def test_a_moment_without_a_message_is_not_the_end() -> None:
    """A source may give one between two; what stands behind it is read, and counts for what stood last."""
    class Pausing(Written):
        def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry]:
            for entry in super().read(after, follow=follow):
                yield cast(Entry, None)
                yield entry

    assert [C] == read_again(Pausing([A], [B]), Pausing([A], [B], [C]))
    with pytest.raises(ForeignStateError):
        read_again(Pausing([A], [B]), Pausing([A], [C]))


@pytest.mark.parametrize(("one", "other"), [
    ([[A]], [[B]]), ([[A], [B]], [[A], [C]]), ([[C], [A, B]], [[C], [C, B]]), ([[C], [A, B]], [[C], [A, C]]),
    ([[C], [A, B]], [[C], [B]]), ([[A], [B]], [[A]]),
])
def test_another_log_is_refused(one: list[list[Message]], other: list[list[Message]]) -> None:
    """Whichever of the last messages differs, or is not there, and whether it went on or not."""
    for further in ([], [[C]]):
        with pytest.raises(ForeignStateError, match="not made from the log written, which holds something else before"):
            read_again(Written(*one), Written(*other, *further))
