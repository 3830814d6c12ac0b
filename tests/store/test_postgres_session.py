"""Where PostgreSQL is not reached: whether it answered, which host it is and who names that, and no password."""

from __future__ import annotations

import socket
from typing import Any

import psycopg
import pytest

from cdcv2.errors import Cdcv2Error, UnavailableError, UsageError
from cdcv2.exits import Exit, exit_of
from cdcv2.store.postgres_session import connect

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
    """What is said of it."""
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


def test_a_host_that_is_not_known_is_named_with_who_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no service that is not known, though the resolver speaks of one: exit 4, as a wrong port is."""
    given = refused("host=db1 dbname=x", origin="the file shop.dsn")
    assert "failed to resolve host 'db1'" in str(given) and "The host db1 is from the file shop.dsn." in str(given)
    monkeypatch.setenv("PGHOST", "db2")
    from_variable = refused("dbname=x")
    assert "failed to resolve host 'db2'" in str(from_variable) and "db2 is from PGHOST." in str(from_variable)
    assert [Exit.UNABLE] * 2 == [exit_of(given), exit_of(from_variable)]


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
