"""A capture at work over topics that end, that go on, and that hold what is no record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.topics import Item, PartitionPosition
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimes
from cdcv2.protocol.log import Place
from cdcv2.protocol.messages import Progress
from cdcv2.rows.row_type import RowType
from tests.doubles import GivenRanges, RecordingLog

TABLE = "public.t"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})


class Given:
    """Topics that give these items, and remember what was asked of them."""

    def __init__(self, *items: Item) -> None:
        self._items = items
        self.wished: list[bool] = []
        self.asked_ends = 0

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """The items; following, then nothing for ever."""
        yield from self._items
        while follow:
            yield None

    def identities(self) -> dict[str, str]:
        """None."""
        return {}

    def ranges(self, topic: str) -> GivenRanges:
        """The topic."""
        return GivenRanges(item for item in self._items if isinstance(item, Record) and item.topic == topic)

    def ends(self) -> dict[Place, int]:
        """One row in the table's topic."""
        self.asked_ends += 1
        return {("src.public.t", 0): 1, ("src.public.t", 1): 3}

    def topics(self) -> list[str]:
        """Not asked here."""
        return []

    known_topics = topics

    def unread(self) -> int:
        """None."""
        return 0

    def waits(self) -> None:
        """Nothing."""

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Remember whether some should wait."""
        self.wished.append(is_ahead is not None)


def end(offset: int, lsn: int, rows: int = 0) -> Record:
    """An END."""
    counts = f'{{"data_collection": "public.t", "event_count": {rows}}}' if rows else ""
    value = f'{{"status": "END", "id": "{lsn}:{lsn}", "data_collections": [{counts}]}}'
    return Record("src.transaction", 0, offset, None, value.encode())


def snapshot_row(marker: str) -> Record:
    """The one row of a snapshot at 1000."""
    source = f'{{"name": "src", "schema": "public", "table": "t", "lsn": 1000, "snapshot": "{marker}"}}'
    return Record("src.public.t", 0, 0, None, f'{{"op": "r", "after": {{"id": 1}}, "source": {source}}}'.encode())


def capture(snapshot: str = "none") -> Capture:
    """A capture into a log in memory."""
    return Capture(Recipe("src", {TABLE: ROWS}, snapshot=snapshot), {TABLE: RecordingLog()})


def test_at_the_end_of_the_topics_everything_whole_is_released() -> None:
    """And it reports what it would wait for."""
    mine = capture()
    waiting = run(mine, Given(end(0, 70), end(1, 80, rows=2)))
    assert "transaction 80 (END 80) lacks 2 of 2 rows of public.t" == waiting.text
    assert Antichain([71]) == mine.frontier


def test_a_release_keeps_its_moment_before_it_is_stated() -> None:
    """A crash between the two leaves a moment too many, and never a statement without one."""
    log, kept = RecordingLog(), list[tuple[ReleaseTime, int]]()

    class Times(ReleaseTimes):
        def keep(self, release: ReleaseTime) -> None:
            kept.append((release, sum(isinstance(message, Progress) for message in log.durable)))

    recipe = Recipe("src", {TABLE: ROWS}, snapshot="none")
    timed = [end(0, 70), end(1, 80)]
    timed = [record._replace(value=record.value.replace(b'"END"', b'"END", "ts_ms": 1234')) for record in timed
             if record.value is not None]  # fmt: skip
    run(Capture(recipe, {TABLE: log}, times=Times(Path("nowhere"))), Given(*timed), release_every=1)

    assert [(ReleaseTime(70, 1234), 0), (ReleaseTime(80, 1234), 1)] == kept


def test_following_it_releases_whenever_there_is_nothing_to_read() -> None:
    """A quiet source must not hold back what is whole."""
    mine = capture()
    asked: list[Antichain | None] = []

    def stopping() -> bool:
        asked.append(mine.frontier)
        return mine.frontier == Antichain([71])

    run(mine, Given(end(0, 70), None), follow=True, stopping=stopping)
    assert [Antichain([1]), Antichain([1]), Antichain([71])] == asked


def test_a_record_that_is_none_ends_it_after_everything_before() -> None:
    """The place is named; the logs are complete up to it."""
    mine = capture()
    with pytest.raises(DecodeError, match=r"src.transaction\[0\]@1"):
        run(mine, Given(end(0, 70), Record("src.transaction", 0, 1, None, b"\x00"), end(2, 80)))
    assert Antichain([71]) == mine.frontier


def test_the_ends_are_read_once_and_reaching_them_releases_the_snapshot() -> None:
    """Where a partition's last record is not for us, that it was reached is enough."""
    mine, topics = capture("initial"), Given(
        snapshot_row("last"), None, PartitionPosition(("src.public.t", 1), 3), None
    )
    run(mine, topics)
    assert 1 == topics.asked_ends
    assert Antichain([1001]) == mine.frontier


def test_partitions_are_let_wait_only_while_too_much_is_held() -> None:
    """The limit is a number of rows."""
    topics = Given(snapshot_row("true"), end(0, 1070), end(1, 1080))
    run(capture("initial"), topics, release_every=1, hold=0)
    assert [True, True, True] == topics.wished
    topics = Given(end(0, 70), end(1, 80))
    run(capture(), topics, release_every=1, hold=0)
    assert [False, False] == topics.wished
