"""One PostgreSQL for the tests of its driver, and in it a schema for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdcv2.servers.postgres import Postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server that answers."""
    with Postgres() as started:
        yield started


@pytest.fixture
def connect(server: Postgres) -> Callable[[], Any]:
    """Connects to a schema that is empty at first."""
    return new_schema(server)


def new_schema(server: Postgres) -> Callable[[], Any]:
    """Connects to a new schema."""
    name = f"schema_{uuid.uuid4().hex}"
    with server.connect(autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return lambda: server.connect(options=f"-c search_path={name}")
