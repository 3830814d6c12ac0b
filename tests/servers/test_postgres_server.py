"""PostgreSQL from a wheel: for root and for others, ready for logical decoding, with a secret that stays one."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cdcv2.errors import UnavailableError
from cdcv2.servers import postgres
from cdcv2.servers.postgres import Postgres

pytestmark = pytest.mark.integration
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be, or start, somebody else")

# The whole life of a server, in a Python of somebody else's.
LIFE = """
import os
from cdcv2.servers.postgres import Postgres
with Postgres() as server, server.connect() as connection:
    print(os.geteuid(), connection.execute("SELECT 6 * 7").fetchone()[0], os.stat(server.folder / "data").st_uid)
"""


def for_others(path: Path) -> bool:
    """Whether the file is there, for everybody; a Python also has to be of our version."""
    path = path.resolve()
    return path.exists() and postgres._closed_folder(path, stat.S_IROTH) is None and (
        "python" not in path.name or path.name.endswith(f"3.{sys.version_info.minor}")
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server that answers."""
    with Postgres() as started:
        yield started


def ask(server: Postgres, question: str) -> object:
    """The one value that answers it."""
    with server.connect() as connection:
        row = connection.execute(question.encode()).fetchone()
    return row[0] if row else None


def test_it_decodes_logically_and_listens_to_this_machine_only(server: Postgres) -> None:
    """What a change data capture needs, and no more."""
    settings = {name: ask(server, f"SHOW {name}") for name in ("wal_level", "listen_addresses", "TimeZone")}

    assert {"wal_level": "logical", "listen_addresses": "127.0.0.1", "TimeZone": "UTC"} == settings


def test_what_was_committed_survives_sigkill(server: Postgres) -> None:
    """Also with a connection open, whose process must end before the next start."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
    client = server.connect()

    server.kill9()
    with pytest.raises(psycopg.OperationalError):
        client.execute("SELECT 1")
    server.restart()

    assert 1000 == ask(server, "SELECT count(*) FROM kept")


def test_the_password_is_asked_for_and_told_to_nobody(server: Postgres) -> None:
    """It is on no command line, in no text form, and in one file that only its owner can read."""
    with pytest.raises(psycopg.OperationalError):
        server.connect(password="another")
    words = Path(f"/proc/{server.pid}/cmdline").read_bytes() if sys.platform == "linux" else b""

    assert server.password.encode() not in words + repr(server).encode() + server.log.read_bytes()
    assert server.environment["PGPASSWORD"] == server.password
    assert 0o600 == stat.S_IMODE((server.folder / "password").stat().st_mode)


@AS_ROOT
def test_root_starts_it_as_somebody_else(server: Postgres) -> None:
    """PostgreSQL refuses to run as root, and tests in containers mostly do."""
    assert 0 != Path(f"/proc/{server.pid}").stat().st_uid


@AS_ROOT
def test_somebody_who_is_not_root_starts_it_as_themselves(tmp_path: Path) -> None:
    """The ordinary case on a laptop."""
    nobody = pwd.getpwnam("nobody")
    home = Path(__file__).resolve().parents[2]
    packages = Path(psycopg.__file__).parents[1]
    python = next(filter(for_others, (Path(sys.executable), Path("/usr/bin/python3"))), None)
    if python is None or not for_others(home / "setup.cfg") or not for_others(packages / "psycopg" / "__init__.py"):
        pytest.skip("there is no Python, or no checkout, that others can reach")

    done = subprocess.run(
        [python, "-c", LIFE], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd=home,
        env={"PATH": os.defpath, "PYTHONPATH": f"{home}{os.pathsep}{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert f"{nobody.pw_uid} 42 {nobody.pw_uid}\n" == done.stdout, done.stderr


@AS_ROOT
def test_programs_that_others_cannot_reach_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's virtual environment may lie in root's home."""
    wheel = next(postgres._candidates())
    monkeypatch.setattr(postgres, "_candidates", lambda: iter([wheel]))
    reachable = postgres._closed_folder

    def closed(path: Path, need: int = stat.S_IXOTH) -> Path | None:
        return path if path.is_relative_to(wheel.resolve()) else reachable(path, need)

    monkeypatch.setattr(postgres, "_closed_folder", closed)

    with Postgres() as server:
        assert Path(f"/proc/{server.pid}/exe").resolve().is_relative_to(server.folder)
        assert 2 == ask(server, "SELECT 1 + 1")


@AS_ROOT
def test_a_folder_that_others_cannot_enter_is_named(tmp_path: Path) -> None:
    """Before PostgreSQL reports that it lacks some permission or other."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(UnavailableError, match="is closed: open it"):
        Postgres(closed / "server")


def test_without_programs_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base install has no PostgreSQL."""
    monkeypatch.setattr(postgres, "_candidates", lambda: iter(()))

    with pytest.raises(UnavailableError, match=r"no PostgreSQL is there.*pip install '\.\[demo\]'"):
        Postgres().__enter__()
