"""A cdcv2 up that is there and does nothing is named, and nothing is promised in its name."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.control.chain import links
from cdcv2.control.metrics.model import samples_of
from cdcv2.control.owner import SILENT, OwnedFolder, beat, silent_for
from cdcv2.control.page.drawing import draw_page
from cdcv2.control.parallel_requests import Reply
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_status import status_of
from cdcv2.exits import Exit
from tests.control.test_chain import DEAD, WELL, capture
from tests.control.test_pipeline_status import answering, shop, topic  # noqa: F401
from tests.control.test_pipeline_status import WELL as ANSWERS
from tests.page_worlds import all_well

LOCK = "owner.lock"


def was_beaten(state: Path, ago: float) -> None:
    """The last round was so many seconds ago."""
    os.utime(state / LOCK, (time.time() - ago,) * 2)


def test_an_owner_is_silent_since_its_last_round(tmp_path: Path) -> None:
    """One that has made none yet is not, nor one that has ended; nor one that cannot state its rounds."""
    now = time.time()
    (tmp_path / LOCK).touch()
    was_beaten(tmp_path, 9 * SILENT)
    with OwnedFolder(tmp_path, now):
        assert silent_for(tmp_path, now) is None
    with OwnedFolder(tmp_path, now - 9 * SILENT):
        beat(tmp_path)
        assert silent_for(tmp_path, time.time()) is None
        was_beaten(tmp_path, 2 * SILENT)
        assert 2 * SILENT == pytest.approx(silent_for(tmp_path, time.time()), abs=5)
        if os.geteuid() != 0:
            (tmp_path / LOCK).chmod(stat.S_IRUSR)
            assert silent_for(tmp_path, time.time()) is None
    was_beaten(tmp_path, 2 * SILENT)
    assert silent_for(tmp_path, time.time()) is None


def test_an_owner_whose_clock_was_ahead_when_it_began_is_silent_all_the_same(tmp_path: Path) -> None:
    """The clock was set back since: what counts is when it made its rounds, and not when it began."""
    with OwnedFolder(tmp_path, time.time() + 3600):
        assert silent_for(tmp_path, time.time()) is None
        was_beaten(tmp_path, 2 * SILENT)
        assert 2 * SILENT == pytest.approx(silent_for(tmp_path, time.time()), abs=5)


def test_a_cdcv2_up_that_hangs_is_named_and_promises_nothing(
    shop: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]  # noqa: F811
) -> None:
    """By status, its exit code and the metrics; and by explain, also where no link stands still."""
    answering(monkeypatch, ANSWERS, Reply([501]), topic)
    with OwnedFolder(shop.state, time.time() - 9 * SILENT):
        beat(shop.state)
        status, well = status_of(shop), "kept running by process"
        assert status.owner_silent is None and well in status.kept
        was_beaten(shop.state, 60)
        status = status_of(shop)
        codes = [main([command, str(shop.path), *more]) for command, *more in (("status",), ("explain", "copy"))]
        shown = capsys.readouterr().out
    (silent,) = [one.value for one in samples_of(status.to_plain(), 7.0, [], None)
                 if one.name == "cdcv2_up_silent_seconds"]

    assert [Exit.MISSING] * 2 == codes and not status.well and 60 <= silent < 90
    assert shown.count(" s: it hangs. End that process (kill -9)") >= 2
    assert well not in shown and "by itself" not in shown


def test_no_link_promises_a_start_by_an_up_that_hangs() -> None:
    """What has to be done first is to end it."""
    seen = WELL._replace(kept=True, hangs="process 7 has done nothing for 60 s", capture=capture(**DEAD))
    held = seen._replace(capture=capture(state="held", alive=False, reason="twice"))

    for one in (seen, held):
        (fault,) = [link for link in links(one) if link.kind == "capture"]
        assert fault.remedy is not None and fault.remedy.endswith("process 7 has done nothing for 60 s")


def test_the_page_names_it_first() -> None:
    """Though all jobs run: one that ends is not started again."""
    world = all_well()
    hangs = world._replace(status=world.status._replace(owner_silent=61.0))
    fault = hangs.model().faults[0]

    assert ("cdcv2 up", True) == (fault.where, "has done nothing for 61 s" in fault.what)
    assert "has done nothing" in str(draw_page(hangs.model(), 1280)) and json.dumps(hangs.content(1280))
