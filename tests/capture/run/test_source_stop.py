"""A stop that lasts is kept by logs that are of its topics, and an old connector is warned of once."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.run.source_check import OldConnector, is_for_good, raise_stop
from cdcv2.errors import SourceStop
from cdcv2.logs.memory import MemoryLog

LASTS, PASSES = SourceStop("rows are lost", "snapshot", lasting=True), SourceStop("no row", "mend it")


@pytest.mark.parametrize(
    ("stop", "sure", "raised", "kept"),
    [(LASTS, True, True, 1), (LASTS, False, False, 0), (PASSES, True, True, 0), (PASSES, False, True, 0)],
)
def test_a_stop_that_lasts_waits_until_the_topics_are_the_logs(
    stop: SourceStop, sure: bool, raised: bool, kept: int
) -> None:
    """Then the logs keep it; another one is raised at once, and kept nowhere."""
    log = MemoryLog("t")

    assert raised == is_for_good(stop, [log], sure=sure)
    assert kept == len(log.stops())


@pytest.mark.parametrize("lost", [True, False])
def test_a_stop_is_raised_once_the_memory_is_saved(lost: bool) -> None:
    """Where an END is lost: nothing else would know of it."""
    saved: list[int] = []
    log = MemoryLog("t")

    def engine(stop: SourceStop | None, sure: bool = True) -> Any:
        return SimpleNamespace(commits=SimpleNamespace(stopped=lambda: stop, lost=lost), sure=sure)

    raise_stop(engine(None), [log], lambda: saved.append(1))
    raise_stop(engine(LASTS, sure=False), [log], lambda: saved.append(2))
    assert ([], []) == (saved, log.stops())
    with pytest.raises(SourceStop) as caught:
        raise_stop(engine(LASTS), [log], lambda: saved.append(len(log.stops())))

    assert (LASTS, [1] if lost else [], 1) == (caught.value, saved, len(log.stops()))


def test_an_old_connector_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """With its own text, at its first record."""
    old = OldConnector("it is 100% old")
    with caplog.at_level(logging.WARNING):
        old.seen(False)
        assert [] == caplog.records
        for _ in range(2):
            old.seen(True)

    assert ["it is 100% old"] == [one.getMessage() for one in caplog.records]
