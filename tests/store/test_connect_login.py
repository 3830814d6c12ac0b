"""The login at Kafka Connect: from a file in the form of netrc, sent to that host alone, and shown nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cdcv2.errors import UnavailableError, UsageError
from cdcv2.store.connect_client import ConnectClient
from tests.fake_connect import FakeConnect, fake_connect

PASSWORD = "correct horse:battery"


@pytest.fixture
def connect() -> Iterator[FakeConnect]:
    """A worker that asks for a login."""
    with fake_connect() as running:
        running.login = "alice", PASSWORD
        yield running


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A file with the right one."""
    path = tmp_path / "connect.netrc"
    path.write_text(f'machine 127.0.0.1 login alice password "{PASSWORD}"\n')
    return path


def test_a_login_is_read_from_its_file_each_time(connect: FakeConnect, login: Path) -> None:
    """A password that changes needs no restart; without the right one, Connect refuses us, and the file is named."""
    client = ConnectClient(connect.url, login)
    assert "cluster-1" == client.cluster_id()
    connect.login = "alice", "another"
    with pytest.raises(UnavailableError, match=f"status 401.*correct the login in {login}") as refused:
        client.cluster_id()
    assert refused.value.forbidden and PASSWORD not in str(refused.value) + repr(client)
    login.write_text("default login alice password another\n")
    assert "cluster-1" == client.cluster_id()

    with pytest.raises(UnavailableError, match="asks for a login") as refused:
        ConnectClient(connect.url).cluster_id()
    assert refused.value.forbidden


@pytest.mark.parametrize("text, why", [
    ("machine elsewhere login alice password hunter2\n", "has no login for 127.0.0.1"),
    ("machine 127.0.0.1 login alice hunter2\n", "has not the form of netrc"),
    ("hunter2\n", "has not the form of netrc"),
    ("", "has no login for 127.0.0.1"),
    (b"machine 127.0.0.1 login alice password hunter2\xff\n", "cannot be read: it is no UTF-8 text"),
    (None, "cannot be read: No such file"),
])
def test_a_wrong_file_is_named_without_its_words(tmp_path: Path, text: str | bytes | None, why: str) -> None:
    """Before any request."""
    path = tmp_path / "connect.netrc"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=why) as wrong:
        ConnectClient("http://127.0.0.1:9", path)

    assert str(path) in str(wrong.value) and "hunter2" not in str(wrong.value)


def test_a_login_does_not_go_to_where_an_answer_leads_on(connect: FakeConnect, login: Path) -> None:
    """That may be a server of others."""
    connect.login = None
    asked: list[str | None] = []

    class Leading(BaseHTTPRequestHandler):
        """Leads everything to the worker."""

        def do_GET(self) -> None:
            """With the path as it is."""
            asked.append(self.headers.get("Authorization"))
            self.send_response(302)
            self.send_header("Location", connect.url + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Not to the terminal."""

    with HTTPServer(("127.0.0.1", 0), Leading) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        client = ConnectClient(f"http://127.0.0.1:{server.server_port}", login)
        assert "cluster-1" == client.cluster_id()
        server.shutdown()

    assert [True] == [bool(one) for one in asked]
    assert [None] == connect.authorizations
