"""Where PostgreSQL is not reached: whether it answered, which host it is and who names that, and no password."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from cdcv2.errors import Cdcv2Error, UnavailableError, UsageError
from cdcv2.exits import Exit, exit_of
from cdcv2.store.postgres_session import beside, connect, demand_readable

VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGSERVICE", "PGSERVICEFILE")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of libpq, and no name of a host that is known."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


def refused(conninfo: str, **options: Any) -> Cdcv2Error:
    """The error of this connection."""
    with pytest.raises(Cdcv2Error) as caught:
        connect(conninfo, **options)
    return caught.value


def test_a_connection_that_fails_says_nothing_secret() -> None:
    """A connection string may hold a password."""
    closed = refused("postgresql://me:s3cret@127.0.0.1:1/db")
    assert isinstance(closed, UnavailableError) and "s3cret" not in str(closed)
    assert "PostgreSQL does not answer (" in str(closed) and "127.0.0.1 is from the connection string" in str(closed)
    misread = refused("nonsense s3cret")
    assert isinstance(misread, UsageError) and "s3cret" not in str(misread)


@pytest.mark.parametrize("password", ["s3/cret", "12/s3cret", "s3@cret", "a#s3/cret@"])
def test_a_password_that_would_be_taken_for_a_port_or_a_host_is_not_shown(password: str) -> None:
    """libpq splits a URL there, and its message has the port; ours have host and database."""
    misread = refused(f"postgresql://me:{password}@127.0.0.1:1/db")
    assert isinstance(misread, UsageError) and "cret" not in str(misread) and "s3" not in str(misread)
    assert "a '/' or an '@' that is not escaped" in str(misread) and "%2F for '/'" in str(misread)


@pytest.mark.parametrize("conninfo", ["host=127.0.0.1 port=s3cret", "host=a,b port=1,s3cret", "postgresql://h:0/db",
                                      "postgresql://h:65536/db"])
def test_a_port_that_is_no_number_is_wrong_usage(conninfo: str) -> None:
    """No retry makes it one, and it may be a part of a password."""
    misread = refused(conninfo)
    assert isinstance(misread, UsageError) and "s3cret" not in str(misread)
    assert "has a port that is no number from 1 to 65535" in str(misread)


@pytest.mark.parametrize("port", ["abc", "0", "1,x"])
def test_a_port_of_the_environment_that_is_no_number_is_wrong_usage_and_named(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it counts: a port that is given, or a service, comes first."""
    monkeypatch.setenv("PGPORT", port)
    misread = refused("host=127.0.0.1")

    assert isinstance(misread, UsageError) and f"PGPORT is {port!r}, which is no number from 1 to 65535" in str(misread)
    assert isinstance(refused("host=127.0.0.1 port=1"), UnavailableError)


@pytest.mark.parametrize("password", ["a\\b", "it's", "a b", "\\", "tab\there", "plain", 'say "x"', "ü=%40"])
@pytest.mark.parametrize("quote", ["", "'"])
def test_a_value_put_into_a_connection_string_is_what_libpq_reads(password: str, quote: str) -> None:
    """With quotes around it or without, and behind another one."""
    before = f"host=db user='o\\'k' password={quote}"
    conninfo = f"{before}{beside(before, password)}{quote} dbname=shop"

    assert psycopg.conninfo.conninfo_to_dict(conninfo) == {
        "host": "db", "user": "o'k", "password": password, "dbname": "shop",
    }


@pytest.mark.parametrize("conninfo", ["", "host=a,b port=1, user=x@y", "postgresql://u:%40%2F@h1:1,h2:2/d?options=a@b",
                                      "postgresql:///d%40x?host=/tmp/x", "service=x", "dbname='a/b@c' password='d/@f'"])
def test_what_libpq_takes_is_taken(conninfo: str) -> None:
    """An '@' that is escaped, that is of the query, or that is in no URL."""
    assert conninfo == demand_readable(conninfo)


def test_a_host_that_is_not_known_is_named_with_who_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no service that is not known, though the resolver speaks of one: exit 4, as a wrong port is."""
    given = refused("host=db1 dbname=x", origin="the file shop.dsn")
    assert "failed to resolve host 'db1'" in str(given) and "The host db1 is from the file shop.dsn." in str(given)
    monkeypatch.setenv("PGHOST", "db2")
    from_variable = refused("dbname=x")
    assert "failed to resolve host 'db2'" in str(from_variable) and "db2 is from PGHOST." in str(from_variable)
    assert [Exit.UNABLE] * 2 == [exit_of(given), exit_of(from_variable)]


def test_a_session_that_cannot_be_made_ready_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may end it right away."""
    closed: list[bool] = []

    class Session:
        """One that takes no statement."""

        info = SimpleNamespace(server_version=170000)

        def execute(self, statement: bytes) -> None:
            """Refuse it."""
            raise psycopg.OperationalError("the connection was closed")

        def close(self) -> None:
            """Note it."""
            closed.append(True)

    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: Session())
    assert isinstance(refused("host=127.0.0.1"), UnavailableError)
    assert [True] == closed


def test_a_service_that_is_not_known_is_wrong_usage() -> None:
    """No server was asked."""
    said = refused("service=nowhere")
    assert isinstance(said, UsageError) and "is it in ~/.pg_service.conf?" in str(said)


@pytest.mark.parametrize("reason", ["FATAL: password authentication failed for user \"me\"",
                                    "fe_sendauth: no password supplied"])
def test_a_server_that_lets_nobody_in_has_answered(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """User and password are what to look at."""

    def answer(*_: Any, **__: Any) -> None:
        raise psycopg.OperationalError(f"connection to server at \"10.0.0.1\", port 5432 failed: {reason}")

    monkeypatch.setattr(psycopg, "connect", answer)
    said = str(refused("host=10.0.0.1 user=me password=s3cret"))
    assert f'does not let us in (connection to server at "10.0.0.1", port 5432 failed: {reason})' in said
    assert "are user, password and database right? The host 10.0.0.1 is from the connection string." in said
