"""The table of docs/operations/remap.md, done step by step, one row after the other, on a live topic.

Records come all along; no reader may miss one, or see one twice, when a process is killed, stopped, moved or replaced.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.package_zip import package_zip
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.recipe import MAPPING
from tests.children import CDCV2, started
from tests.cli.conftest import Run
from tests.logs.polling import until
from tests.topics import make_topics
from tests.recorded import HOME, TABLES, checkpoint_time, content, truth
from tests.timelines import NOTIFICATIONS, records_through

pytestmark = pytest.mark.integration

CLICKS = RowType({"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]})


class Site:
    """A topic that grows, captures of it as processes, and readers of what they write. ``close`` ends all."""

    def __init__(self, broker: KafkaBroker, folder: Path, run: Run, name: str) -> None:
        from confluent_kafka import Producer

        self.bootstrap, self.folder, self.run, self.sent = broker.bootstrap, folder, run, 0
        self.topic, self.remap = f"{name}.clicks", f"kafka:{name}.timeline"
        make_topics(self.bootstrap, {self.topic: 2})
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        (folder / "clicks.avsc").write_text(json.dumps(CLICKS.schema), "utf-8")
        self._running = ExitStack()
        self.close = self._running.close

    def send(self, views: str | None = None, number: int = 20) -> None:
        """Some more clicks, each on a page of its own; or views, in their topic."""
        for at in range(number if views is not None else 0):
            self._producer.produce(views, value=json.dumps({"page": f"view {at}"}).encode())
        for _ in range(0 if views is not None else number):
            value = json.dumps({"page": f"page {self.sent}"}).encode()
            self._producer.produce(self.topic, partition=self.sent % 2, value=value)
            self.sent += 1
        assert 0 == self._producer.flush(120)

    def release(self, name: str, mapping: int) -> dict[str, str]:
        """Another version of cdcv2, unpacked, with this ``mapping``; the environment to run it in."""
        path = self.folder / name
        path.mkdir()
        with zipfile.ZipFile(package_zip(path)) as archive:
            archive.extractall(path)
        recipe = path / "cdcv2" / "timeline" / "recipe.py"
        text = recipe.read_text("utf-8")
        own = f"\nMAPPING = {MAPPING}\n"
        assert 1 == text.count(own)
        recipe.write_text(text.replace(own, f"\nMAPPING = {mapping}\n"), "utf-8")
        return {**os.environ, "PYTHONPATH": str(path)}

    def capture(self, into: str, *more: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A capture that follows, into logs of this name."""
        return self._running.enter_context(started(
            *CDCV2, "capture", "kafka", "--bootstrap", self.bootstrap, "--remap", self.remap, "--plain",
            f"clicks={self.topic}", "--rows", str(self.folder), "--into", f"kafka:{into}.{{table}}", "--follow",
            "--bind-every", "0.1", "--bind-idle", "0.3", *more, cwd=self.folder, env=env,
        ))  # fmt: skip

    def words(self, *into: str) -> list[str]:
        """Their logs as copies of one."""
        names = [f"clicks=kafka:{name}.clicks" for name in into]
        return [*names, "--bootstrap", self.bootstrap, "--row", str(self.folder / "clicks.avsc")]

    def frontier(self, into: str) -> int:
        """How far a log is complete; 0 while there is none."""
        said = self.run("verify", "--json", *self.words(into))
        return json.loads(said.out)["frontier"][0] if said.code == 0 else 0

    def pages(self, into: str, *more: str) -> list[str]:
        """What a reader of a log gets, each update as often as it gets it."""
        lines = self.run("replay", "--json", *more, *self.words(into)).out.splitlines()
        return [said["data"]["page"] for said in map(json.loads, lines) if "data" in said]

    def read_some(self, into: str) -> tuple[list[str], int]:
        """What a reader got that stopped in the middle, and the frontier at which it did."""
        read: list[str] = []
        for line in self.run("replay", "--json", *self.words(into)).out.splitlines():
            said = json.loads(line)
            if "data" in said:
                read.append(said["data"]["page"])
            elif len(read) > self.sent // 2:
                assert len(read) < self.sent
                return read, said["frontier"][0]
        raise AssertionError("there is no frontier in the middle")

    def until_all_in(self, into: str) -> None:
        """All that was sent is in the log, and complete."""
        until(lambda: len(self.pages(into)) >= self.sent, f"{self.sent} clicks are in {into}")
        self.check(self.pages(into))

    def check(self, pages: list[str]) -> None:
        """What was read is what was sent, each once."""
        assert sorted(f"page {number}" for number in range(self.sent)) == sorted(pages)

    def moves_on(self, into: str) -> None:
        """The frontier does."""
        before = self.frontier(into)
        until(lambda: self.frontier(into) > before, f"the frontier of {into} moves")


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """For all of them."""
    with KafkaBroker() as started:
        yield started


@pytest.fixture
def site(broker: KafkaBroker, run: Run, tmp_path: Path) -> Iterator[Site]:
    """With a topic and a timeline of its own."""
    site = Site(broker, tmp_path, run, tmp_path.name)
    try:
        yield site
    finally:
        site.close()


def stopped(process: subprocess.Popen[str]) -> int:
    """Stopped by a signal."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    return process.returncode


@pytest.mark.xdist_group("jobs")
def test_a_live_capture_is_doubled_upgraded_moved_and_changed(site: Site) -> None:
    """Row by row of the table; its claims about readers and exit codes hold."""
    # A capture that may die: two, with the same arguments; one may be stopped for ever.
    first, second = site.capture("old"), site.capture("old")
    site.send()
    site.until_all_in("old")
    first.kill()
    site.send()
    site.until_all_in("old")

    # A new version of cdcv2: beside the old one; the frontier moves; the old one is stopped.
    newer = site.capture("old", env=site.release("newer", mapping=MAPPING))
    site.moves_on("old")
    assert 0 == stopped(second)
    site.send()
    site.until_all_in("old")

    # Logs in other topics, with more partitions: a second capture with another --into.
    KafkaLog("moved.clicks", site.bootstrap, CLICKS, create=True, partitions=3).close()
    moved = site.capture("moved")
    site.send()
    site.until_all_in("old")
    far = site.frontier("old")
    until(lambda: site.frontier("moved") >= far, "the new logs have come as far")
    assert 0 == stopped(newer)
    site.send()
    site.until_all_in("moved")
    # Readers change over at any frontier: what they read of the old log before it, and of the new one from it on.
    read, change = site.read_some("old")
    later = [said for said in pages(site, site.words("moved")) if said["time"] >= change]
    site.check([*read, *(said["data"]["page"] for said in later)])
    assert site.sent - 20 == len(site.pages("old")), "nobody writes the old logs any more"

    # A version that writes something else reports that; proposed, the old one stops by itself.
    other = site.release("other", mapping=MAPPING + 1)
    _, said = site.capture("moved", env=other).communicate(timeout=120)
    assert f"the mapping is version {MAPPING + 1}, bound {MAPPING}" in said and "--propose-recipe" in said, said
    changed = site.capture("moved", "--propose-recipe", env=other)
    _, said = moved.communicate(timeout=120)
    assert (4, True) == (moved.returncode, "bound under another recipe than ours" in said), said
    site.send()
    site.until_all_in("moved")
    assert 0 == stopped(changed)

    # All of them have written one history.
    assert 0 == site.run("verify", "--full", *site.words("old", "moved")).code
    # In which of its partitions a topic gets a message is the producer's whim.
    log = KafkaLog("moved.clicks", site.bootstrap, CLICKS)
    assert {0, 1, 2} == log.ends().keys()
    log.close()


def pages(site: Site, words: list[str]) -> list[dict[str, Any]]:
    """The updates that a reader gets."""
    return [said for said in map(json.loads, site.run("replay", "--json", *words).out.splitlines()) if "data" in said]


@pytest.mark.xdist_group("jobs")
def test_one_more_topic_and_a_remap_that_is_compacted(site: Site) -> None:
    """The old capture stops when it has written all before; a compaction disturbs no process, now or at a start."""
    old = site.capture("grown")
    site.send()
    site.until_all_in("grown")
    views = site.topic.replace("clicks", "views")
    make_topics(site.bootstrap, {views: 1})
    (site.folder / "views.avsc").write_text(json.dumps(CLICKS.schema), "utf-8")
    site.send(views, 7)
    more, before = ["--plain", f"views={views}"], site.frontier("grown")
    newer = site.capture("grown", *more, "--propose-recipe")
    _, said = old.communicate(timeout=120)
    assert (4, True) == (old.returncode, "bound under another recipe than ours" in said), said
    words = ["views=kafka:grown.views", *site.words("grown")[1:]]
    until(lambda: 7 == len(pages(site, words)), "the views are in their log")
    site.send()
    site.until_all_in("grown")
    assert 0 == site.run("verify", "--full", "views=kafka:grown.views", *site.words("grown")).code
    assert before <= min(said["time"] for said in pages(site, words)), "from the time on at which it was proposed"

    # A remap that does not grow for ever.
    compacting = ["compact-remap", site.remap, "--bootstrap", site.bootstrap]
    assert 0 == site.run(*compacting, "--keep", 48).code
    came = json.loads(site.run(*compacting, "--keep", 0, "--json").out)
    assert ["kafka:grown.{table}"] == list(came["called"].values())
    assert 0 < came["since"] and [came["since"]] == list(came["holds"].values())
    shown = site.run("inspect", site.remap, "--bindings", "--bootstrap", site.bootstrap).out.splitlines()
    since = f"from the time {came['since']} on"
    assert any(since in line for line in shown) and not any("  genesis  " in line for line in shown), shown
    site.send()
    site.until_all_in("grown")
    assert 0 == stopped(newer)
    assert came["since"] < json.loads(site.run(*compacting, "--keep", 0, "--json").out)["since"]
    again = site.capture("grown", *more)
    site.send()
    site.until_all_in("grown")
    assert 0 == stopped(again)


@pytest.mark.xdist_group("jobs")
def test_other_tables_of_a_database_take_a_capture_of_their_own(broker: KafkaBroker, run: Run) -> None:
    """With a remap and logs of its own; on the old ones it is refused, with why."""
    from confluent_kafka import Producer

    name, tag = "clean_full", "01_live"
    records = records_through(name, checkpoint_time(name, tag))
    parts = {topic: 1 + max(one.partition for one in records if one.topic == topic) for topic, *_ in records}
    make_topics(broker.bootstrap, parts)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for one in records:
        producer.produce(one.topic, partition=one.partition, key=one.key, value=one.value)
    assert 0 == producer.flush(120)

    def captured(timeline: str, tables: str, into: str, *more: str) -> tuple[int, str]:
        said = run(
            "capture", "kafka", "--bootstrap", broker.bootstrap, "--remap", f"kafka:{timeline}", "--prefix", name,
            "--notifications", NOTIFICATIONS, "--rows", HOME / "rows", "--tables", tables, "--into",
            f"kafka:{into}.{{table}}", *more,
        )
        return said.code, said.err

    def table(into: str, of: str) -> Counter[tuple[str, ...]]:
        log = KafkaLog(f"{into}.{of}", broker.bootstrap, TABLES[of])
        messages = [entry.message for entry in log.read() if entry is not None]
        log.close()
        reader = Resolver()
        for message in messages:
            reader.absorb(message)
        [now] = content(messages, of, check_int(reader.known.elements[0]) - 1)  # type: ignore[arg-type]  # whole
        return now

    few, both = "public.orders", "public.orders,public.order_items"
    assert captured("few", few, "few")[0] in (0, 1)
    assert truth(name, tag, few) == table("few", few)
    assert captured("both", both, "both")[0] in (0, 1)
    assert [truth(name, tag, of) for of in both.split(",")] == [table("both", of) for of in both.split(",")]

    code, said = captured("few", both, "few")
    assert (4, True) == (code, "'public.order_items' is captured here, and not bound" in said), said
    code, said = captured("few", both, "few", "--propose-recipe")
    assert (4, True) == (code, "this recipe cannot follow what is bound" in said), said
    assert truth(name, tag, few) == table("few", few), "nothing was written"
    assert captured("few", few, "few")[0] in (0, 1), "and nothing was bound"
