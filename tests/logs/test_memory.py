"""The log in memory keeps the same promises as the others, so that what works on it works on them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cdcv2.errors import MalformedError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import GarbledMessage, Progress, Updates
from tests.logs.polling import next_of

FIRST, SECOND = Updates([("a", 3, 1)]), Progress([0], [5], {3: 1})


def test_messages_are_in_the_log_when_they_are_flushed() -> None:
    """Not before, and not when the sink is closed instead."""
    log = MemoryLog("orders")
    log.send(FIRST)
    assert [] == log.messages == list(log.read())
    log.flush()
    log.send(SECOND)
    log.close()
    log.flush()

    assert [FIRST] == log.messages and ("orders", {0: 1}) == (log.name, log.ends())
    assert [Entry(Position("orders", 0, 0), FIRST)] == list(log.read())


def test_reading_starts_behind_a_position_and_ends_where_the_log_ended() -> None:
    """What is written while reading is for the next call."""
    log = MemoryLog(messages=[FIRST, SECOND])
    reading = log.read({0: 1})
    log.send(FIRST)
    log.flush()

    assert [SECOND] == [entry.message for entry in reading if entry]
    assert [] == list(log.read({0: 5}))


def test_a_followed_log_goes_on_while_another_thread_writes() -> None:
    """None means nothing now."""
    log = MemoryLog(idle_wait=0.001)
    followed = log.read(follow=True)
    assert next(followed) is None

    def write() -> None:
        log.send(SECOND)
        log.flush()

    thread = threading.Thread(target=write)
    thread.start()
    assert SECOND == next_of(followed).message
    thread.join()


def test_garbled_bytes_can_be_placed_in_it() -> None:
    """For tests of consumers."""
    garbled = GarbledMessage(b"\xff", "no message")
    log = MemoryLog(messages=[FIRST, garbled])

    assert [FIRST, garbled] == [entry.message for entry in log.read() if entry] and [FIRST] == log.messages


@pytest.mark.parametrize("message", [None, ("a", 3, 1), GarbledMessage(b"", "")])
def test_what_is_no_message_is_refused(message: Any) -> None:
    """As every sink refuses it."""
    with pytest.raises(MalformedError):
        MemoryLog().send(message)
