"""Plain topics of a real Kafka on a shared remap in a topic: what exact ranges, and what is unsafe about topics."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.facts import SnapshotRow
from cdcv2.cli.main import main
from cdcv2.connectors.kafka_ranges import KafkaRanges
from cdcv2.control.metrics.measure import measure
from cdcv2.control.metrics.model import TopicBacklog
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import UnsafeTopicError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.resolver import Resolver
from cdcv2.store.kafka_client import Client

from tests.recorded import HOME, dump, facts, truth
from tests.timelines import notified
from tests.logs.polling import until
from tests.topics import delete_topic, make_topics

pytestmark = pytest.mark.integration
_names = itertools.count()
ROWS = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Any]:
    """One of their own: recorded topics keep their names, which other tests have, too."""
    from cdcv2.servers.kafka import KafkaBroker

    with KafkaBroker() as running:
        yield running


class Hands:
    """What a test does to a topic of its own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.bootstrap, self.folder, self.name = bootstrap, folder, f"clicks{next(_names)}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        # Idempotent, as one that tries again otherwise puts later records first.
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        (folder / "clicks.avsc").write_text(json.dumps(ROWS), "utf-8")

    def make(self, partitions: int = 1, **settings: str) -> None:
        make_topics(self.bootstrap, {self.name: partitions}, {n.replace("_", "."): v for n, v in settings.items()})

    def send(self, partition: int, *pages: str) -> None:
        for page in pages:
            self.producer.produce(self.name, partition=partition, value=json.dumps({"page": page}).encode())
        self.producer.flush(20)

    def trim(self, partition: int, before: int) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self.name, partition, before)
        self.admin.delete_records([place])[place].result(timeout=60)

    def ranges(self, **more: Any) -> KafkaRanges:
        return KafkaRanges(Client(self.bootstrap), [self.name, f"{self.name}-later"], **more)

    def run(self, *more: str, into: str = "one") -> int:
        return main([
            "capture", "kafka", "--bootstrap", self.bootstrap, "--remap", f"kafka:{self.name}.remap", "--plain",
            f"clicks={self.name}", "--rows", str(self.folder), "--into", f"kafka:{self.name}.{into}.{{table}}", *more,
        ])

    def pages(self, capsys: Any, into: str = "one") -> Counter[str]:
        capsys.readouterr()
        assert 0 == main(["as-of", f"kafka:{self.name}.{into}.clicks", "--bootstrap", self.bootstrap, "--row",
                          str(self.folder / "clicks.avsc")])  # fmt: skip
        return Counter(capsys.readouterr().out.split()[1:])


@pytest.fixture
def hands(broker: Any, tmp_path: Path) -> Hands:
    """The broker, as a test's hands."""
    return Hands(broker.bootstrap, tmp_path)


def test_ranges_are_read_exactly(hands: Hands) -> None:
    """Of several partitions; what is behind the range is not given, and comes the next time. What forgets is known."""
    hands.make(2, retention_ms="604800000")
    hands.send(0, *"abcdef")
    hands.send(1, *"xyz")
    ranges = hands.ranges()
    look = ranges.look()
    one = [(r.partition, r.offset) for r in ranges.read({(hands.name, 0): (1, 4), (hands.name, 1): (0, 1)})]
    other = [(r.partition, r.offset) for r in ranges.read({(hands.name, 0): (4, 6), (hands.name, 1): (1, 1)})]
    ranges.close()

    assert {(hands.name, 0): (0, 6), (hands.name, 1): (0, 3)} == look.spans
    assert {hands.name: Client(hands.bootstrap).topic_id(hands.name)} == look.ids
    assert {hands.name: {"retention.ms": "604800000"}} == look.retention
    assert ([(0, 1), (0, 2), (0, 3), (1, 0)], [(0, 4), (0, 5)]) == (sorted(one), sorted(other))


def test_what_is_not_captured_is_measured_with_the_moment_at_which_it_is_forgotten(hands: Hands) -> None:
    """By the timestamp of the oldest such record of any partition; what a partition lost before is counted."""
    hands.make(2, retention_ms="604800000")
    for partition, moments in ((0, (1, 2, 3)), (1, (4, 5))):
        for moment in moments:
            at = (int(time.time()) - 100 + moment) * 1000
            hands.producer.produce(hands.name, partition=partition, value=b'{"page": "x"}', timestamp=at)
    hands.producer.flush(20)
    assert hands.run() == 0
    file = hands.folder / "shop.yaml"
    file.write_text(
        f"{{pipeline: shop, kafka: {{bootstrap: '{hands.bootstrap}'}}, rows: ., captures: {{all: {{plain: 'clicks="
        f"{hands.name}', remap: 'kafka:{hands.name}.remap', into: 'kafka:{hands.name}.one.{{table}}'}}}}}}", "utf-8",
    )  # fmt: skip
    before, measured = int(time.time()), [measure(read_pipeline(str(file)))]
    for offset in range(3):
        at = (before - 50 + offset) * 1000
        hands.producer.produce(hands.name, partition=1, value=b'{"page": "y"}', timestamp=at)
    hands.producer.flush(20)
    measured.append(measure(read_pipeline(str(file))))
    hands.trim(1, 4)
    measured.append(measure(read_pipeline(str(file))))

    need = TopicBacklog("all", hands.name, 0, 0, None, 604800.0)
    assert [one.topics for one in measured] == [
        (need,), (need._replace(unread=3, oldest=before - 50.0),),
        (need._replace(unread=1, lost=2, oldest=before - 48.0),),
    ]  # fmt: skip
    assert set(measured[2].reachable.values()) == {True} and len(measured[2].holds) == 1


def test_transactions_leave_gaps_that_hold_nothing_up(hands: Hands) -> None:
    """The markers take offsets, also the last ones of a range."""
    from confluent_kafka import Producer

    hands.make()
    writer = Producer({"bootstrap.servers": hands.bootstrap, "transactional.id": hands.name})
    writer.init_transactions(30)
    for done in (writer.commit_transaction, writer.abort_transaction, writer.commit_transaction):
        writer.begin_transaction()
        writer.produce(hands.name, value=b"x", partition=0)
        # Else it is never sent where it is taken back.
        writer.flush(30)
        done(30)
    ranges, place = hands.ranges(), (hands.name, 0)
    # The last marker is written after the answer.
    until(lambda: ranges.look().spans == {place: (0, 6)}, "the end of the last transaction", seconds=60)

    assert [0, 4] == [record.offset for record in ranges.read({place: (0, 6)})]
    assert [0] == [record.offset for record in ranges.read({place: (0, 4)})]
    assert [] == [record.offset for record in ranges.read({place: (1, 4)})]
    ranges.close()


def test_unsafe_topics_are_refused(hands: Hands) -> None:
    """Compacted ones, and one of several partitions where an order is needed; a range that was trimmed away."""
    hands.make(2, cleanup_policy="compact")
    with pytest.raises(UnsafeTopicError, match="is compacted"):
        hands.ranges().look()
    with pytest.raises(UnsafeTopicError, match="has 2 partitions, .*: start over, with a topic of one"):
        hands.ranges(single=[hands.name]).look()
    hands.name += "-trimmed"
    hands.make()
    hands.send(0, *"abc")
    hands.trim(0, 2)
    with pytest.raises(UnsafeTopicError, match="are missing that were to be read"):
        list(hands.ranges().read({(hands.name, 0): (0, 3)}))


def test_a_live_capture_is_moved_to_other_topics_by_writing_twice(hands: Hands, capsys: Any) -> None:
    """The runbook: another capture under the same remap into other topics, then the first one is left alone."""
    hands.make(2)
    hands.send(0, "a", "b")
    assert 0 == hands.run("--bind-at-most", "1")
    assert 0 == hands.run(into="two")
    hands.send(1, "c")
    assert (0, 0) == (hands.run(into="two"), hands.run())

    assert Counter("abc") == hands.pages(capsys) == hands.pages(capsys, into="two")
    copies = [f"clicks=kafka:{hands.name}.{into}.clicks" for into in ("one", "two")]
    assert 0 == main(["verify", "--full", *copies, "--bootstrap", hands.bootstrap, "--row",
                      str(hands.folder / "clicks.avsc")])  # fmt: skip
    assert 0 == main(["where", f"kafka:{hands.name}.remap", "--bootstrap", hands.bootstrap])
    assert f"{hands.name}=1@1" in capsys.readouterr().out


def test_a_topic_that_was_deleted_and_made_anew_is_known(hands: Hands, capsys: Any) -> None:
    """By the identity that is bound, though it has grown past where the old one was."""
    hands.make()
    hands.send(0, "a")
    assert 0 == hands.run()
    delete_topic(hands.bootstrap, hands.name)
    capsys.readouterr()
    assert 4 == hands.run()
    assert "is missing. Of what is bound, the logs have everything" in capsys.readouterr().err
    hands.make()
    hands.send(0, "x", "y")

    assert 4 == hands.run()
    assert f"the topic '{hands.name}' was deleted and made again" in capsys.readouterr().err


def test_a_database_is_captured_into_topics_with_its_temp(hands: Hands, capsys: Any) -> None:
    """What Debezium wrote, in a real Kafka: the true table, TEMP beside it, and a second capture that adds nothing."""
    from confluent_kafka import admin

    run, table = "clean_full", "public.orders"
    records = [record for record in dump(run).read() if record.topic in (f"{run}.{table}", f"{run}.transaction")]
    said_of_orders = [fact for at in range(3) for _, fact in facts(run)[f"{run}.{table}", at]]
    scanned = sum(isinstance(fact, SnapshotRow) for fact in said_of_orders)
    parts = {f"{run}.{table}": 3, f"{run}.transaction": 1, f"{run}.notes": 1}
    made_of = admin.NewTopic  # type: ignore[attr-defined]
    new = [made_of(topic, num_partitions=number) for topic, number in parts.items()]
    for made in hands.admin.create_topics(new).values():
        made.result(timeout=300)
    for said in (("STARTED",), ("TABLE_SCAN_COMPLETED", table, scanned), ("COMPLETED",)):
        hands.producer.produce(f"{run}.notes", value=notified(0, *said).value)
    for record in records:
        hands.producer.produce(record.topic, partition=record.partition, key=record.key, value=record.value)
        hands.producer.poll(0)
    hands.producer.flush(30)
    line = [
        "capture", "kafka", "--bootstrap", hands.bootstrap, "--remap", f"kafka:{hands.name}.remap", "--prefix", run,
        "--notifications", f"{run}.notes", "--rows", str(HOME / "rows"), "--tables", table, "--into",
        f"kafka:{hands.name}.{{table}}", "--bind-at-most", "500", "--json",
    ]
    done = []
    for _ in range(2):
        assert 0 == main(line)
        done.append(json.loads(capsys.readouterr().out)["records"])
    log = [f"kafka:{hands.name}.{table}", "--bootstrap", hands.bootstrap, "--row", str(HOME / "rows" / f"{table}.avsc")]
    assert 0 == main(["as-of", *log])
    rows = capsys.readouterr().out.splitlines()
    assert 0 == main(["open-transactions", f"kafka:{hands.name}._temp.{run}", "--bootstrap", hands.bootstrap])

    assert [len(records) + 3, 0] == done
    assert sum(truth(run, "final", table).values()) == len(rows) - 1
    assert "0 are held; given out through" in capsys.readouterr().err


def content(folder: Path) -> tuple[Counter[str], int]:
    """What a directory log has by now, and the last time that is complete."""
    if not (folder / "_log.json").exists():
        return Counter(), -1
    reader, found = Resolver(), Counter[str]()
    for entry in DirectoryLog(folder).read():
        batch = reader.absorb(entry) if entry is not None else None
        for row, _, diff in batch.updates if batch is not None else ():
            found[row.page] += diff
    (upper,) = reader.frontier
    assert isinstance(upper, int)
    return found, upper - 1


def test_two_captures_follow_and_either_may_die(hands: Hands) -> None:
    """Of two processes that write one log one is killed; the other goes on, states idle times, and ends at SIGTERM."""
    hands.make(2)
    hands.send(0, "a")
    line = [
        sys.executable, "-m", "cdcv2", "capture", "kafka", "--bootstrap", hands.bootstrap, "--remap",
        f"kafka:{hands.name}.remap", "--plain", f"clicks={hands.name}", "--rows", str(hands.folder), "--into",
        str(hands.folder / "logs"), "--follow", "--bind-every", "0.1", "--bind-idle", "0.5",
    ]
    log = hands.folder / "logs" / "clicks"
    running = [subprocess.Popen([*line, "--bind-as", name], stderr=subprocess.PIPE, text=True) for name in ("a", "b")]
    try:
        until(lambda: content(log)[0] == Counter("a"), "the first record", seconds=60)
        running[0].kill()
        hands.send(1, "b", "b")
        until(lambda: content(log)[0] == Counter("abb"), "records after one has died", seconds=60)
        last = content(log)[1]
        until(lambda: content(log)[1] > last, "a time at which nothing has happened", seconds=60)
        running[1].send_signal(signal.SIGTERM)
        said = running[1].communicate(timeout=60)[1]
    finally:
        for process in running:
            process.kill()
            process.communicate()

    assert (-9, 0) == (running[0].returncode, running[1].returncode), said
    assert all(line.startswith("cdcv2 capture: complete through ") for line in said.splitlines()), said
