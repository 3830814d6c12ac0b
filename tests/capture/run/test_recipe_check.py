"""Whether a recipe can be carried on, before it is proposed: its logs are of this remap, and its topics can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.recipe_check import DatabaseLogs, check_first, check_fresh, check_there
from cdcv2.capture.run.request import CaptureRequest
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import (
    DecodeError, ForeignStateError, MissingLogError, RefusedError, SourceStop, UnavailableError, UnsafeTopicError,
)
from cdcv2.logs.description import LogDescription
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.log import Log, Place
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import COMMIT_ORDER
from cdcv2.timeline.partitioned import NOT_STARTED
from cdcv2.timeline.positions import frontier
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.remap import Remap

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})
A = ("topic-a", 0)


class Bound:
    """What is asked of a binder: three records of a topic are bound, at 1000, 2000 and 3000."""

    def __init__(self, *, timeline: str | None = "drawn", later: int = 3, **begins: Mapping[str, int]) -> None:
        self.bound = BoundRecipe({}, timeline=timeline, begins=begins)
        self.remap = Remap(NOT_STARTED)
        self.asked: list[tuple[str, int]] = []
        self._later = later
        self._mint(1, later)

    def _mint(self, first: int, behind: int) -> None:
        for at in range(first, behind + 1):
            self.remap.mint(frontier({A: at}), now=1000 * at)

    def follow(self) -> None:
        """The others have bound up to the third by now."""
        self._mint(self._later + 1, 3)

    def starts(self, table: str, known: int) -> int:
        """Note it."""
        self.asked.append((table, known))
        return known


class Closing(MemoryLog):
    """Notes that it is closed."""

    closed = 0

    def close(self) -> None:
        """Note it."""
        self.closed += 1
        super().close()


def log(name: str, upper: int, *times: int, timeline: str | None = None, row: Any = None) -> Closing:
    """A log that is stated up to there, with updates at these times."""
    made = Closing(name)
    row = row if row is not None else ROWS.row(["x"])
    made.send(Updates([(row, time, 1) for time in times]))
    made.send(Progress([0], [upper], dict.fromkeys(times, 1)))
    made.flush()
    if timeline is not None:
        made.describe(LogDescription(timeline=timeline))
    return made


def there(made: Log | None) -> Callable[[], Log]:
    """How it is opened; None: it is missing."""
    def opened() -> Log:
        if made is None:
            raise MissingLogError("there is no log")
        return made

    return opened


def started(upper: int, *times: int, timeline: str | None = None) -> Closing:
    """TEMP of a database that has started at the first of these times."""
    plain: dict[str, Any] = {column: None for column in TEMP.columns} | {"changes": (), "counts": (), "tables": ()}
    return log("temp", upper, *times, timeline=timeline, row=TEMP.row({**plain, "kind": "begun"}))


def database(*, temp: Log | None = None, snapshot: bool = False, **tables: Log | None) -> DatabaseLogs:
    """The logs of one; each table's is called log-TABLE."""
    names = {name: f"log-{name}" for name in tables}
    return DatabaseLogs(names, {name: there(one) for name, one in tables.items()}, there(temp), snapshot)


def checked(binder: Any, logs: Mapping[str, Log | None], *databases: DatabaseLogs) -> list[tuple[str, int]]:
    """Up to where each log is found to be known."""
    check_there(binder, [(name, there(one)) for name, one in logs.items()], databases)
    found: list[tuple[str, int]] = binder.asked
    return found


def test_logs_that_are_there_and_those_that_are_not() -> None:
    """Of plain tables, of a database, and TEMP, which counts as the first of the logs; all are closed."""
    a, t, temp = log("a", 3001, 1000, 3000), log("t", 2001, 2000), started(2501, 1000)
    found = checked(Bound(), {"a": a, "b": None}, database(temp=temp, u=None, t=t), database(v=None))

    assert [
        ("a", 3001), ("b", 0), ("log-t", 2001), ("log-u", 1000), ("log-t", 2501), ("log-v", 0), ("log-v", 0),
    ] == found  # fmt: skip
    assert (1, 1, 1) == (a.closed, t.closed, temp.closed)


def test_the_output_begins_with_the_snapshot_if_there_is_one() -> None:
    """It is not released yet: so nothing before the end of TEMP is missing."""
    found = checked(Bound(), {}, database(temp=started(2501, 1000), snapshot=True, t=None))

    assert [("log-t", 2501), ("log-t", 2501)] == found


def test_what_is_bound_meanwhile_is_read_first() -> None:
    """The log was written by another capture, at a time that we did not know."""
    assert [("a", 3001)] == checked(Bound(later=1), {"a": log("a", 3001, 1000, 3000)})


@pytest.mark.parametrize(
    ("logs", "of_database", "text"),
    [
        ({"a": log("a", 9000, 8000)}, {}, "the log a has updates at 8000"),
        ({}, {"t": log("t", 9000, 1500), "temp": started(9000, 1000)}, "the log t has updates at 1500"),
        ({}, {"t": log("t", 9000), "temp": started(9000, 1500)}, "the log temp has updates at 1500"),
        ({"a": log("a", 3001, timeline="other")}, {}, "the log a is of the timeline other, and this remap is drawn"),
        ({}, {"t": log("t", 9, timeline="other"), "temp": None}, "the log t is of the timeline other"),
        ({}, {"t": None, "temp": started(9, timeline="other")}, "the log temp is of the timeline other"),
    ],
)  # fmt: skip
def test_logs_of_another_remap_are_refused(
    logs: dict[str, Log | None], of_database: dict[str, Any], text: str
) -> None:
    """By the times of their updates, or by what they state."""
    with pytest.raises(ForeignStateError, match=text):
        checked(Bound(), logs, *([database(**of_database)] if of_database else []))


@pytest.mark.parametrize(("stated", "bound"), [(None, "drawn"), ("drawn", "drawn"), (None, None)])
def test_logs_of_this_timeline(stated: str | None, bound: str | None) -> None:
    """Or of none that they name."""
    checked(Bound(timeline=bound), {"a": log("a", 3001, 3000, timeline=stated)})


def test_logs_that_are_too_far_behind_are_refused() -> None:
    """The remap has forgotten where their sources were."""
    binder = Bound()
    binder.remap.compact(2000)
    checked(binder, {"a": log("a", 2001)})
    with pytest.raises(RefusedError, match="the remap was compacted to 2000"):
        checked(binder, {"a": log("a", 2000), "b": log("b", 3001)})


class Topics:
    """Records of topics; the first ones of some are missing."""

    def __init__(self, lows: Mapping[Place, int] | None = None, **values: list[Any]) -> None:
        self.records = {
            (topic.replace("_", "."), 0): [json.dumps(one).encode() for one in found] for topic, found in values.items()
        }
        self.lows = lows or {}
        self.asked: dict[Place, tuple[int, int]] = {}
        self.failure: Exception | None = None

    def look(self) -> TopicExtents:
        """As they are."""
        return TopicExtents({at: (self.lows.get(at, 0), len(found)) for at, found in self.records.items()})

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """As asked for."""
        self.asked = dict(ranges)
        if self.failure is not None:
            raise self.failure
        for (topic, part), (low, high) in ranges.items():
            for at in range(low, high):
                yield Record(topic, part, at, None, self.records[topic, part][at])


GOOD = {"text": "x"}


def plain(*topics: str) -> CaptureRequest:
    """Of plain topics."""
    return CaptureRequest({topic: (topic, ROWS) for topic in topics}, {}, COMMIT_ORDER)


def test_the_first_records_are_tried() -> None:
    """Ten of each partition, from the first that is there; other topics are not read."""
    topics = Topics({("b", 0): 3}, a=[GOOD] * 12, b=[None] * 3 + [GOOD] * 2, other=[{}])
    check_first(plain("a", "b"), topics.look(), topics)

    assert {("a", 0): (0, 10), ("b", 0): (3, 5)} == topics.asked


def test_a_record_that_is_no_row_is_an_error() -> None:
    """With the first that is wrong, and only among those that are tried."""
    topics = Topics(a=[GOOD] * 9 + [{"text": 7}])
    with pytest.raises(DecodeError, match=r"a\[0\]@9"):
        check_first(plain("a"), topics.look(), topics)
    late = Topics(a=[GOOD] * 10 + [{"text": 7}])
    check_first(plain("a"), late.look(), late)


def test_what_does_not_answer_is_left_to_the_capture() -> None:
    """It reads the same records next; before a proposal it is an error."""
    topics = Topics(a=[GOOD])
    topics.failure = UnavailableError("the broker does not answer")
    check_first(plain("a"), topics.look(), topics)
    binder: Any = Bound()
    with pytest.raises(UnavailableError):
        check_fresh(binder, plain("a"), topics.look(), topics, at_first=False)


def row(op: str) -> dict[str, Any]:
    """A record of Debezium's, without the row before."""
    source = {"name": "p", "schema": "public", "table": "t", "txId": 7, "lsn": 70, "sequence": '["60","70"]'}
    return {
        "op": op, "before": None, "after": GOOD, "source": {**source, "snapshot": "false"},
        "transaction": {"id": "7:70", "total_order": 1, "data_collection_order": 1},
    }  # fmt: skip


def test_records_of_a_database_are_tried_too() -> None:
    """One that cannot be captured is a stop, with its remedy."""
    recipe = Recipe("p", {"public.t": ROWS})
    asked = CaptureRequest({"a": ("a", ROWS)}, {"p": (recipe, {"public.t": "p.public.t"})}, COMMIT_ORDER)
    topics = Topics(a=[GOOD], p_public_t=[row("c")])
    check_first(asked, topics.look(), topics)
    assert {("a", 0): (0, 1), ("p.public.t", 0): (0, 1)} == topics.asked
    unfit = Topics(p_public_t=[row("c"), row("u")])
    with pytest.raises(SourceStop, match=r"old values are not given.*, at p\.public\.t\[0\]@1") as caught:
        check_first(asked, unfit.look(), unfit)

    assert "REPLICA IDENTITY FULL" in caught.value.remedy


def fresh(binder: Any, topics: Topics, *names: str, at_first: bool = False) -> dict[Place, tuple[int, int]]:
    """What was read of them before a proposal."""
    check_fresh(binder, plain(*names), topics.look(), topics, at_first=at_first)
    return topics.asked


def test_only_topics_of_which_nothing_is_bound_are_tried() -> None:
    """The others are the business of the captures that bind them."""
    topics = Topics(b=[GOOD] * 2)
    topics.records[A] = [b"no row"]

    assert {("b", 0): (0, 2)} == fresh(Bound(), topics, "topic-a", "b")


def test_a_topic_that_has_lost_its_head_begins_later_only_if_it_may() -> None:
    """By the option, or as it was bound; the first ten records are then those from there on."""
    topics = Topics({("b", 0): 3}, b=[None] * 3 + [GOOD] * 12)
    with pytest.raises(UnsafeTopicError, match="'b', partition 0, begins at 3, and 0 is wanted"):
        fresh(Bound(), topics, "b")
    assert {("b", 0): (3, 13)} == fresh(Bound(), topics, "b", at_first=True)
    assert {("b", 0): (3, 13)} == fresh(Bound(b={"0": 3}), topics, "b")
    assert {("b", 0): (5, 15)} == fresh(Bound(b={"0": 5}), topics, "b", at_first=True)
    with pytest.raises(UnsafeTopicError, match="begins at 3, and 2 is wanted"):
        fresh(Bound(b={"0": 2}), topics, "b", at_first=True)


def test_the_topic_of_a_database_may_not_begin_later() -> None:
    """Its transactions would not be whole."""
    recipe = Recipe("p", {"public.t": ROWS})
    asked = CaptureRequest({}, {"p": (recipe, {"public.t": "p.public.t"})}, COMMIT_ORDER)
    topics = Topics({("p.public.t", 0): 1}, p_public_t=[None, row("c")])
    binder: Any = Bound()
    with pytest.raises(UnsafeTopicError, match="begins at 1, and 0 is wanted"):
        check_fresh(binder, asked, topics.look(), topics, at_first=True)
