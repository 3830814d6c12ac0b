"""A transaction topic that forgets is a warning at every start, with the setting to change; both captures on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.facts import Record
from cdcv2.capture.open_records import ThroughRecord
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.query import CaptureQuery
from cdcv2.spark.remap_capture.outputs import BoundDatabase

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})
RECIPE = Recipe("p", {"public.t": ROWS}, snapshot="none")
PLACE = RECIPE.transaction_topic, 0
LSNS = (70, 90)


class Forgetful:
    """A transaction topic of a few ENDs, as Kafka shows it: these settings are not the ones that keep all."""

    def __init__(self, retention: dict[str, str]) -> None:
        self._retention = retention

    def look(self) -> TopicExtents:
        """All is there yet."""
        return TopicExtents({PLACE: (0, len(LSNS))}, {}, {PLACE[0]: self._retention} if self._retention else {})

    def read(self, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Record]:
        """ENDs."""
        for offset in range(*ranges.get(PLACE, (0, 0))):
            said = {"status": "END", "id": f"{offset + 5}:{LSNS[offset]}", "event_count": 0, "data_collections": []}
            yield Record(*PLACE, offset, None, json.dumps(said).encode())


def by_commit_times(topic: Any) -> Any:
    """What a start of the one looks up."""
    topics = SimpleNamespace(transactions=lambda spark: topic)
    capture, found = SimpleNamespace(topics=topics, recipe=RECIPE, start={}, _spark=None), list[Any]()
    commits = SimpleNamespace(through=LSNS[-1], recall=lambda recalled, has_end: found.append(recalled))
    CaptureQuery._recall(cast(CaptureQuery, capture), cast(CommitTransactions, commits))
    return found[0]


def on_a_remap(topic: Any) -> Any:
    """And of the other."""
    database = cast(BoundDatabase, SimpleNamespace(_recipe=RECIPE))
    return BoundDatabase._recalled(database, [ThroughRecord(LSNS[-1], 0)], {PLACE: len(LSNS)}, topic)


@pytest.mark.parametrize("start", [by_commit_times, on_a_remap])
@pytest.mark.parametrize("setting", [{"retention.ms": "604800000"}, {"retention.bytes": "1000"}, {}])
def test_what_forgets_is_named_with_the_setting(
    setting: dict[str, str], start: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """One that keeps all is none; what is there is known in either case."""
    found = start(Forgetful(setting))
    assert list(LSNS) == [lsn for _, lsn, *_ in found.up_to(LSNS[-1])]
    if not setting:
        assert "" == caplog.text
        return
    ((name, value),) = setting.items()
    assert "p.transaction is read again at each start: it holds 2 of the last 1024 transactions" in caplog.text
    assert f"It forgets ({name}={value}): kafka-configs.sh --bootstrap-server KAFKA:9092 --alter" in caplog.text
    assert f"--entity-name p.transaction --add-config {name}=-1 keeps what is still there" in caplog.text
