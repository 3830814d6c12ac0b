"""Connect is killed while it writes down its positions, without a Connect: what it had written before is put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.embedded.connect import Connect
from cdcv2.embedded.processes import Server

PAST = b'{"server":"shop"} {"lsn":1040,"txId":5}'
INSIDE = b'{"server":"shop"} {"lsn":1000,"snapshot":"INITIAL","snapshot_completed":false}'


@pytest.mark.parametrize(("before", "after", "kept"), [
    (PAST, b"", PAST), (PAST, PAST + b"1", PAST + b"1"), (INSIDE, b"", b""), (INSIDE, INSIDE, INSIDE),
    (None, None, None),
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
