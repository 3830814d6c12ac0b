"""`cdcv2 capture --propose-recipe` without a table whose log is a topic, which does not know its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cdcv2.capture.binder import BOUND
from cdcv2.capture.updates_then_statements import TABLE_STATED
from cdcv2.capture.run.omitted_tables import IN_FORCE
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.iter import Iter
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from tests.cli.conftest import Run, Said
from tests.cli.test_capture_left_out import ROW, Site
from tests.topics import delete_topic

pytestmark = pytest.mark.integration


class InKafka(Site):
    """The same, with the logs in topics."""

    def __init__(self, folder: Path, run: Run, broker: KafkaBroker) -> None:
        super().__init__(folder, run)
        self._broker = broker

    def capture(self, tables: Sequence[str], *more: object) -> Said:
        """Those that are named; the last word that an option is given with counts."""
        return super().capture(tables, "--into", "kafka:logs.{table}", "--bootstrap", self._broker.bootstrap, *more)

    def _read(self, table: str) -> Iter:
        log = KafkaLog(f"logs.{table}", self._broker.bootstrap, RowType(ROW))
        return Iter(entry.message for entry in log.read() if entry is not None)

    def users(self, table: str) -> list[str]:
        """The rows of a log that are complete."""
        return sorted(row.user for batch in self._read(table) for row, _, _ in batch.updates)

    def known(self, table: str) -> int:
        """Up to where a log is complete."""
        reader = self._read(table)
        for _ in reader:
            continue
        (at,) = reader.frontier
        assert isinstance(at, int)
        return at


def test_a_topic_without_its_row_type_holds_the_remap_and_is_brought_up_when_it_is_given(
    run: Run, tmp_path: Path, broker: KafkaBroker
) -> None:
    """It is named before the recipe is proposed, and behind that at each start; no compaction forgets what it lacks."""
    site, both, remap = InKafka(tmp_path, run, broker), ["clicks", "views"], tmp_path / "remap"
    site.grow(*both)
    assert 0 == site.capture(both).code
    site.grow(*both)
    site.crash(BOUND, both)
    kind, away, records = tmp_path / "rows" / "views.avsc", tmp_path / "views.avsc", len(list(remap.glob("*.json")))
    kind.rename(away)
    named = site.capture(["clicks"], "--propose-recipe")
    assert (4, records) == (named.code, len(list(remap.glob("*.json")))), named.err
    assert "views is left out. What was bound before belongs into its log, the topic 'logs.views'" in named.err
    assert f"{kind} is missing" in named.err

    away.rename(kind)
    site.crash(IN_FORCE, ["clicks"], "--propose-recipe")
    lacks = site.known("views")
    kind.rename(away)
    kind.write_text(json.dumps({**ROW, "fields": [{"name": "at", "type": "long"}]}), "utf-8")
    other = site.capture(["clicks"])
    kind.unlink()
    lost = site.capture(["clicks"])
    assert (4, 4, lacks, 2) == (other.code, lost.code, site.known("views"), len(site.users("clicks"))), lost.err
    assert f"{kind} is another one than it was bound with. Put it back as it was" in other.err
    assert f"(stated through {lacks - 1})" in lost.err and "the remap is held until then" in lost.err
    assert 0 == run("compact-remap", remap, "--keep", 0).code

    away.rename(kind)
    site.crash(TABLE_STATED, ["clicks"])
    again = site.capture(["clicks"])
    assert (0, "") == (again.code, again.err)
    assert (["u0", "u1", "u2"], 4) == (site.users("views"), len(site.users("clicks")))
    assert lacks < site.known("views") < site.known("clicks")
    kind.unlink()
    assert (0, "") == site.capture(["clicks"])[::2], "a log that has come there needs it no more"


def test_a_topic_that_is_gone_is_not_made_and_needs_no_row_type(
    run: Run, tmp_path: Path, broker: KafkaBroker
) -> None:
    """As a missing directory: what was bound before is for a capture with the old arguments."""
    site = InKafka(tmp_path, run, broker)
    site.grow("likes", "posts")
    (tmp_path / "rows" / "posts.avsc").write_text(json.dumps(ROW), "utf-8")
    assert 0 == site.capture(["likes", "posts"]).code
    site.grow("likes", "posts")
    site.crash(BOUND, ["likes", "posts"])
    (tmp_path / "rows" / "posts.avsc").unlink()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    delete_topic(broker.bootstrap, "logs.posts")
    said = site.capture(["likes"], "--propose-recipe")
    assert (1, True) == (said.code, "a capture with that one writes them, and stops there" in said.err), said.err
    assert "logs.posts" not in admin.list_topics(timeout=10).topics
