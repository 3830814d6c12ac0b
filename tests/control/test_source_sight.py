"""What a real server states of its commits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdcv2.control import source_sight
from cdcv2.control.seconds_behind import EndSight
from cdcv2.control.source_sight import confirmed_slot, first_commit_after
from cdcv2.servers.postgres import Postgres

pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(settings={"track_commit_timestamp": "on"}) as made:
        with made.connect(autocommit=True) as session:
            session.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
            session.execute("CREATE TABLE orders (id bigint)")
        yield made


def conninfo(server: Postgres) -> str:
    return (
        f"host={server.host} port={server.port} dbname={server.database} user={server.username} "
        f"password={server.password}"
    )


def test_no_first_commit_is_named_where_not_all_were_looked_at(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some, the oldest may be younger than one that was not looked at: "at most" would be below the truth."""
    begun = time.time()
    with server.connect(autocommit=True) as session:
        for number in range(3):
            session.execute("INSERT INTO orders VALUES (%s)", (number,))
    last = EndSight(3, 500, begun, 8)
    first = first_commit_after(conninfo(server), "shop", last, origin="a test")
    monkeypatch.setattr(source_sight, "MOST", 2)

    assert first is not None and begun <= first <= time.time()
    assert first_commit_after(conninfo(server), "shop", last, origin="a test") is None


def test_a_slot_that_is_not_read_confirms_nothing_and_is_seen_as_it_is(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for it has an end."""
    monkeypatch.setattr(source_sight, "_CONFIRMING", 0.1)
    seen = confirmed_slot(conninfo(server), "shop", 1 << 60, origin="a test")

    assert seen is not None and (seen.name, seen.active) == ("shop", False)
    assert confirmed_slot(conninfo(server), "other", 1 << 60, origin="a test") is None
