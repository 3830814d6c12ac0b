"""Connect is killed while it writes down its positions, without a Connect: what it had written before is put back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdcv2.servers import connect as embedded
from cdcv2.servers.connect import Connect
from cdcv2.servers.processes import Server

PAST = b'{"server":"shop"} {"lsn":1040,"txId":5}x'
INSIDE = b'{"server":"shop"} {"lsn":1000,"snapshot":"INITIAL","snapshot_completed":false}x'
LATER = PAST.replace(b"1040", b"1080")
#: What is there first when the file is written over: Java's mark of the format.
HALF = b"\xac\xed\x00\x05"


@pytest.mark.parametrize(("before", "after", "kept"), [
    (PAST, b"", PAST), (PAST, HALF, PAST), (PAST, PAST[:-1], PAST), (PAST, LATER, LATER),
    (INSIDE, b"", b""), (INSIDE, INSIDE, INSIDE), (None, None, None),
])
def test_a_kill_does_not_lose_the_place_in_the_stream(
    before: bytes | None, after: bytes | None, kept: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a file would be none, and the connector take a second snapshot; one inside the first is left as it is."""
    connect = Connect("127.0.0.1:1", {"name": "shop"}, environment={}, folder=tmp_path)

    def killed(server: Server) -> None:
        if after is not None:
            connect.positions.write_bytes(after)

    monkeypatch.setattr(Server, "kill9", killed)
    if before is not None:
        connect.positions.write_bytes(before)
    connect.kill9()

    assert kept == (connect.positions.read_bytes() if connect.positions.exists() else None)


@pytest.mark.parametrize("begun", [b"", HALF, PAST[:-1]])
def test_a_kill_waits_for_positions_that_are_being_written(
    begun: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put back is a whole file: the one that was begun before the kill, not the nothing that it was then."""
    connect = Connect("127.0.0.1:1", {"name": "shop"}, environment={}, folder=tmp_path)
    connect.positions.write_bytes(begun)

    def poll(whole: Callable[[], bool], seconds: float, pause: float) -> bool:
        assert not whole()
        connect.positions.write_bytes(PAST)
        return whole()

    monkeypatch.setattr(embedded, "poll_until", poll)
    monkeypatch.setattr(Server, "kill9", lambda server: connect.positions.write_bytes(HALF))
    connect.kill9()

    assert PAST == connect.positions.read_bytes()
