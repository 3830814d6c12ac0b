"""Markers: at an idle source a peek that waits for a commit has one committed, and nothing else does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.errors import IncompleteError, UnavailableError, UsageError
from cdcv2.instances.run import marker as marker_module
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.marker import MarkerWriter, commit_marker
from cdcv2.instances.run.replica import InstanceReplica
from cdcv2.servers.postgres import Postgres
from cdcv2.timeline.gauges import lsn_text
from tests.market import KEYS, Market
from tests.serving import served, serving

PATIENCE = 60.0


class IdleSource:
    """A source at ``at``, where only markers are committed; what captures it states each at once."""

    def __init__(self, market: Market, at: int) -> None:
        self._market, self.at = market, at
        self.markers: list[int] = []

    def mark(self, awaited: int) -> None:
        self.markers.append(awaited)
        if awaited <= self.at:
            self.at += 1
            self._market.writer.advance([self.at + 1])
            self._market.log.flush()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdleSource]:
    monkeypatch.setattr(marker_module, "_FIRST", 0.0)
    monkeypatch.setattr(marker_module, "_PAUSE", 0.0)
    yield IdleSource(Market(tmp_path), 7)


def test_a_peek_after_ones_commit_ends_at_an_idle_source(source: IdleSource) -> None:
    """Nothing is committed for a peek that need not wait, for a tail, or before and after somebody waits."""
    market = source._market
    instance = LoneInstance(market.logs(), KEYS, marker=MarkerWriter(source.mark, lambda text: None))
    with served(instance, market.place):
        client = cdcv2.connect(market.place)
        with client.tail("prices", timeout=PATIENCE) as tail:
            next(tail)
            assert client.peek({"prices": "pear"}, after=1, timeout=PATIENCE).at == 1
            assert (source.markers, client.status()["marker"]) == ([], "")
            assert client.peek({"prices": "pear"}, after="0/7", timeout=PATIENCE).at == 7
        assert client.status()["peeks"] == 0
        assert source.markers and set(source.markers) == {7}


def test_a_controller_marks_too_and_a_time_that_does_not_come_is_no_reason_to_wait(
    source: IdleSource, tmp_path: Path
) -> None:
    market = source._market
    replica = InstanceReplica(market.logs(), lambda text: None)
    with IndexCatalogue(tmp_path / "state") as catalogue:
        made = ReplicaController(market.logs(), KEYS, [tmp_path / "one.sock"], catalogue, lambda text: None,
                                 history=None, marker=MarkerWriter(source.mark, lambda text: None))
        with serving(made, market.place), serving(replica, tmp_path / "one.sock"):
            client = cdcv2.connect(market.place)
            assert client.peek({"prices": "pear"}, after=7, timeout=PATIENCE).at == 7
            with pytest.raises(IncompleteError, match="complete through 8"):
                client.peek({"prices": "pear"}, after=99, timeout=0.2)
    replica.close()
    assert source.at == 8


def test_at_most_one_in_a_pause_and_only_behind_a_moment(source: IdleSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test: most peeks are answered by the commits of others before a marker is due."""
    monkeypatch.setattr(marker_module, "_FIRST", 1.0)
    monkeypatch.setattr(marker_module, "_PAUSE", 1.0)
    now, written = [0.0], list[tuple[float, int]]()
    writer = MarkerWriter(lambda awaited: written.append((now[0], awaited)), lambda text: None, lambda: now[0])
    for tick in range(100):
        now[0] = tick / 10
        # Nothing waits at first; then from 1.0 on; for a moment again; then from 6.0 on.
        waits = 1.0 <= now[0] < 4.0 or 4.5 <= now[0] < 5.0 or now[0] >= 6.0
        writer.look(7 if waits else None)
        if writer._thread is not None:
            writer._thread.join()
    assert written == [(at, 7) for at in (2.0, 3.0, 7.0, 8.0, 9.0)]


def test_one_that_hangs_is_not_begun_again_and_a_fault_is_named(source: IdleSource) -> None:
    hangs, begun, lines = threading.Event(), list[int](), list[str]()

    def write(awaited: int) -> None:
        begun.append(awaited)
        hangs.wait(PATIENCE)
        if len(begun) == 1:
            raise UnavailableError("the source is away")

    market = source._market
    writer = MarkerWriter(write, lines.append)
    with served(LoneInstance(market.logs(), KEYS, marker=writer), market.place):
        client = cdcv2.connect(market.place)
        while not begun:
            with pytest.raises(IncompleteError):
                client.peek({"prices": "pear"}, after=7, timeout=0.1)
        with pytest.raises(IncompleteError):
            client.peek({"prices": "pear"}, after=7, timeout=0.3)
        assert begun == [7]
        hangs.set()
        while not writer.fault:
            pass
        with pytest.raises(IncompleteError, match="or ask for now. No marker can be committed: the source is away$"):
            client.peek({"prices": "pear"}, after=7, timeout=0)
        while writer.fault:
            with pytest.raises(IncompleteError):
                client.peek({"prices": "pear"}, after=7, timeout=0.1)
    assert lines == ["no marker can be committed: the source is away", "markers can be committed again"]


@pytest.mark.parametrize("words, text", [
    (["--marker"], "go together"), (["--source", "env"], "go together"),
    (["--marker", "--source", "host=x"], "no connection string"),
    (["--marker", "--source", "none.dsn"], "none.dsn"),
    (["--replica", "--marker", "--source", "env"], "--marker there"),
])  # fmt: skip
def test_the_options_go_together(
    words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = [] if "--replica" in words else ["--index", "prices=name"]
    assert main(["instance", str(tmp_path), *index, "--instance", str(tmp_path / "s.sock"), *words]) != 0
    assert text in capsys.readouterr().err


def test_times_of_a_remap_take_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcv2.instances.run.alone.is_on_remap", lambda log: True)
    with pytest.raises(UsageError, match="leave --marker out"):
        LoneInstance(Market(tmp_path).logs(), KEYS, marker=MarkerWriter(lambda awaited: None, lambda text: None))


@pytest.mark.integration
def test_a_marker_is_a_transaction_of_the_source() -> None:
    """With the message alone, and only if the source has come to the time that is waited for."""
    with Postgres() as server:
        conninfo = " ".join(f"{name}='{value}'" for name, value in (
            ("host", server.host), ("port", server.port), ("user", server.username), ("password", server.password),
            ("dbname", server.database)))  # fmt: skip
        with closing(server.connect(autocommit=True)) as session:
            session.execute("SELECT pg_create_logical_replication_slot('seen', 'test_decoding')")

            def position() -> int:
                ((found,),) = session.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchall()
                return int(found)

            def seen() -> list[Any]:
                return session.execute("SELECT data FROM pg_logical_slot_get_changes('seen', NULL, NULL)").fetchall()

            session.execute("CREATE TABLE one (id int PRIMARY KEY)")
            session.execute("INSERT INTO one VALUES (1)")
            mine = position()
            seen()
            commit = commit_marker(conninfo, "the test")
            commit(mine + (1 << 40))
            nothing = seen()
            commit(mine)
            marked = [text for (text,) in seen()]
            behind = position()
    assert nothing == [] and behind > mine, lsn_text(behind)
    assert len(marked) == 3 and "prefix: cdcv2" in marked[1] and "transactional: 1" in marked[1]
    with pytest.raises(UnavailableError, match="the test"):
        commit(mine)
