"""Where the logs of tables begin, as they state it; and what they are made to state, in which order."""

from __future__ import annotations

import logging

import pytest

from cdcv2 import failpoints
from cdcv2.capture.run.log_starts import COVERED, LogStarts
from cdcv2.errors import UsageError
from cdcv2.failpoints import PlacedCrash
from cdcv2.logs.description import ASSUMED, LogDescription
from tests.doubles import RecordingLog

CALLS: list[tuple[str, str | None, str | None]] = []


class Described(RecordingLog):
    """A log that states something of itself; notes what it is made to state, in one list for all."""

    def __init__(self, name: str, **stated: str) -> None:
        super().__init__()
        self.name, self.stated = name, LogDescription(**stated)

    def description(self) -> LogDescription:
        """What it states."""
        return self.stated

    def describe(self, description: LogDescription) -> None:
        """Note it."""
        CALLS.append((self.name, description.start, description.empty))


@pytest.fixture(autouse=True)
def calls() -> list[tuple[str, str | None, str | None]]:
    """What logs are made to state in this test."""
    CALLS.clear()
    return CALLS


def opened(known: int, **stated: str) -> tuple[LogStarts, bool]:
    """The starts of one log that is stated up to there, and whether its table is covered."""
    starts = LogStarts({"t": Described("t", **stated)})
    begins = starts.stated("t")
    assert begins == LogDescription(**stated).begins
    return starts, starts.opened("t", known)


@pytest.mark.parametrize(
    ("stated", "known", "covered", "waiting", "partial"),
    [
        ({}, 0, True, {}, set()), ({}, 7, True, {}, set()),
        ({"start": "70"}, 71, True, {}, set()), ({"start": "70"}, 70, False, {"t": 70}, set()),
        ({"start": "none"}, 0, False, {}, set()), ({"start": "partial"}, 0, False, {}, {"t"}),
    ],
)  # fmt: skip
def test_what_a_log_shows_of_its_table(
    stated: dict[str, str], known: int, covered: bool, waiting: dict[str, int], partial: set[str]
) -> None:
    """It is covered from the beginning on, or from its first statement on; else nothing is stated of it."""
    starts, found = opened(known, **stated)

    assert (covered, waiting, partial) == (found, starts.waiting, starts.partial)
    assert ({"t": int(stated.get("start", 0))} if covered else {}) == starts.begin
    assert (set() if covered else {"t"}) == starts.uncovered
    assert stated.get("start") == starts.text("t")
    assert [] == CALLS


def test_several_may_be_partial() -> None:
    """Each as its log states."""
    starts = LogStarts({name: Described(name, start="partial") for name in "ab"})
    for name in "ab":
        starts.stated(name)
        starts.opened(name, 0)

    assert {"a", "b"} == starts.partial


def test_another_capture_has_found_that_it_is_covered() -> None:
    """It is stated, and so far only the log's statements show it."""
    starts, found = opened(7, start="none")

    assert (True, {"t": 0}, "0") == (found, starts.begin, starts.text("t"))
    assert [("t", "0", None)] == CALLS


def test_what_is_not_opened_states_nothing() -> None:
    """Neither a start."""
    starts = LogStarts({"t": Described("t")})

    assert (None, {}, frozenset()) == (starts.text("t"), starts.begin, starts.uncovered)


def test_whether_all_can_state_it() -> None:
    """One that cannot is enough."""
    assert LogStarts({"t": Described("t")}).describing
    assert not LogStarts({"t": Described("t"), "u": RecordingLog()}).describing


def several() -> LogStarts:
    """Four logs of tables that are covered, and a log that begins later."""
    logs = {name: Described(name, **({"start": "9"} if name == "z" else {})) for name in "dcabz"}
    starts = LogStarts(logs)
    for name in logs:
        starts.stated(name)
        starts.opened(name, 0)
    return starts


def test_what_is_not_covered_is_stated_first(caplog: pytest.LogCaptureFixture) -> None:
    """Then what has rows in no record, then where the others begin; each by name, and once."""
    starts = several()
    assert {"z": 9} == starts.waiting
    with caplog.at_level(logging.WARNING):
        starts.cover(["d", "b", "a"], {"z": 30, "c": 20}, ["b", "a"])

    assert [
        ("a", "none", None), ("b", "none", None), ("d", "none", None), ("a", "partial", None), ("b", "partial", None),
        ("c", "20", None), ("z", "30", None),
    ] == CALLS  # fmt: skip
    assert ({"a", "b", "d"}, {"a", "b"}) == (starts.uncovered, starts.partial)
    assert ({"c": 20, "z": 30}, {}) == (starts.begin, starts.waiting)
    assert ["partial", "partial", "20", "none", "30"] == [starts.text(name) for name in "abcdz"]
    assert [f"{name} is left out: its first record changes a row that no record brought" for name in "ab"] == [
        record.getMessage() for record in caplog.records
    ]
    CALLS.clear()
    starts.cover(["d", "b", "a"], {}, ["b", "a"])
    assert [] == CALLS
    starts.cover([], {"a": 40})
    assert ({"b", "d"}, {"b"}, 40, "40") == (starts.uncovered, starts.partial, starts.begin["a"], starts.text("a"))


def test_a_crash_when_the_starts_are_durable() -> None:
    """Where nothing begins, it is not reached."""
    starts = several()
    with failpoints.placed(COVERED):
        starts.cover(["a"], {})
        with pytest.raises(PlacedCrash):
            starts.cover([], {"a": 5})

    assert ("a", "5", None) == CALLS[-1]


def test_a_log_that_cannot_state_it_is_refused() -> None:
    """By its name."""
    starts = LogStarts({"t": RecordingLog()})
    starts.stated("t")
    starts.opened("t", 0)
    with pytest.raises(UsageError, match="the log recording cannot state"):
        starts.cover(["t"], {})


def test_what_was_empty_by_declaration_is_stated_once() -> None:
    """By logs that can, and do not state it yet."""
    starts = LogStarts({"b": Described("b"), "a": Described("a"), "c": Described("c", empty=ASSUMED),
                        "d": RecordingLog(), "e": Described("e")})  # fmt: skip
    for name in "abcd":
        starts.stated(name)
    starts.assume(["d", "c", "b", "a", "e", "x"])

    assert [("a", None, ASSUMED), ("b", None, ASSUMED)] == CALLS
    assert [ASSUMED, ASSUMED, ASSUMED, None] == [starts.empty(name) for name in "abcd"]
    starts.assume("ab")
    assert 2 == len(CALLS)
