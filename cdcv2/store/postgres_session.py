"""How PostgreSQL is reached, and the errors when it is not: for sources and for targets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from cdcv2.errors import MissingExtraError, UnavailableError, UsageError
from cdcv2.sql_names import parts_of

if TYPE_CHECKING:
    from psycopg import Connection

#: What names a host: libpq's settings, and its variables, where the settings do not.
_SETTINGS, _VARIABLES = ("host", "hostaddr"), ("PGHOST", "PGHOSTADDR")
#: Limits that database and role may have for their sessions -> the version from which on there is one.
_LIMITS = {
    "statement_timeout": 0, "lock_timeout": 0, "idle_in_transaction_session_timeout": 0,
    "idle_session_timeout": 140000, "transaction_timeout": 170000,
}  # fmt: skip
#: A setting in ``options``, as ``-c name=value`` and ``--name=value``.
_SETTING = re.compile(r"(?:^|\s)(?:-c\s*|--)([\w-]+)\s*=")
#: Whether a session may write, whether the server is a standby, and where its default for that is from; and its role
#: and database, in quotes where they need them.
_READ_ONLY = """
    SELECT current_setting('transaction_read_only')::bool, pg_is_in_recovery(), source,
           quote_ident(current_user), quote_ident(current_database())
      FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only'
"""
#: The role that has opened a session, in quotes where it needs them, and whether it may replicate: on Amazon RDS by
#: being in another role.
_REPLICATES = """
    SELECT quote_ident(r.rolname), r.rolreplication OR r.rolsuper OR EXISTS (
               SELECT FROM pg_catalog.pg_roles g
                WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'USAGE')
           )
      FROM pg_catalog.pg_roles r WHERE r.rolname = session_user
"""
#: Where a setting is from, as ``pg_settings`` has it -> who has set it; others: the server's configuration.
_SET_BY = {
    "client": "the connection string (options), or PGOPTIONS", "user": "the role", "database": "the database",
    "database user": "the role in this database",
}  # fmt: skip
#: What is in the answer of a server that is there.
_ANSWERED = ("FATAL", "no password supplied")
#: What libpq states of a service that it does not find; no server was asked then.
_NO_SERVICE = ('definition of service "', 'service file "')
#: A connection string that is a URL: its users and servers, and its database.
_URL = re.compile(r"postgres(?:ql)?://(?P<servers>[^/?]*)(?P<database>[^?]*)")
_UNREADABLE = (
    "the connection string of PostgreSQL {} (it is not shown, as a password may be in it): write host=... port=... "
    "dbname=... user=..., a value with blanks in single quotes, or postgresql://user@host:port/dbname, with %-escapes: "
    "%2F for '/', %40 for '@'"
)
_TABLE = """
    SELECT c.oid, c.relreplident FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
#: A role that is not there is subject to each policy.
_GUARDED = """
    SELECT n.nspname || '.' || c.relname
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname || '.' || c.relname = ANY(%(tables)s) AND c.relrowsecurity AND NOT EXISTS (
               SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = coalesce(%(role)s, current_user) AND (
                   r.rolsuper OR r.rolbypassrls
                   OR NOT c.relforcerowsecurity AND pg_has_role(r.oid, c.relowner, 'USAGE')
               )
           )
     ORDER BY 1
"""


def connect(
    conninfo: str, *, origin: str = "the connection string", autocommit: bool = False, patience: float | None = None
) -> Connection[Any]:
    """A session of psycopg. ``origin``: where ``conninfo`` is from, as errors name it.

    ``patience``: seconds that the server has to take the session, unless ``conninfo`` has its own; None: libpq's.

    Raises UsageError for what is no connection string and for a service that is not known, UnavailableError if no
    server answers, or it refuses the session: with the message of the server or libpq, the host and who names it, and
    without the password.
    """
    demand_readable(conninfo)
    import psycopg

    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    if not given.keys() & {"port", "service"}:
        _demand_port()
    if patience is not None and "connect_timeout" not in given:
        # libpq takes 1 second for 2.
        conninfo = psycopg.conninfo.make_conninfo(conninfo, connect_timeout=max(2, round(patience)))
    try:
        # In a database that names no encoding, names and values would come as bytes.
        encoding: dict[str, Any] = {} if "client_encoding" in given else {"client_encoding": "UTF8"}
        session = psycopg.connect(conninfo, autocommit=True, **encoding)
        with ExitStack() as unless_it_serves:
            unless_it_serves.callback(session.close)
            if "replication" not in given:
                # One for replication takes commands of its own.
                _unlimit(session, given)
            session.autocommit = autocommit
            unless_it_serves.pop_all()
    except psycopg.OperationalError as cause:
        raise _refusal(" ".join(str(cause).split()), given, origin) from None
    # Database and role may have another default, by which a statement behind a lock sees what was before it.
    session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return session


def _unlimit(session: Connection[Any], given: dict[str, Any]) -> None:
    """Take off the limits that database and role have for sessions, as pg_dump does; one in ``options`` stays.

    They are there for sessions that somebody forgot. One of ours reads a whole table, waits for a lock behind others
    and rests while a source is idle: a limit would end it there again and again, and the server would seem to be
    unwell. Who asks and has no time sets its own limit. Read-only stays as it is: that somebody wants.
    """
    options = f"{given.get('options') or os.environ.get('PGOPTIONS', '')}"
    stated = {name.lower().replace("-", "_") for name in _SETTING.findall(options)}
    limits = [name for name, version in _LIMITS.items()
              if session.info.server_version >= version and name not in stated]  # fmt: skip
    session.execute("; ".join(f"SET {name} = 0" for name in limits).encode())


def why_read_only(connection: Any, *, standby_only: bool = False) -> tuple[str, str] | None:
    """Why nothing can be written in a session, and what to do about that; None: something can.

    ``standby_only``: where only a standby is in the way, as of a logical message.
    """
    with connection.cursor() as cursor:
        cursor.execute(_READ_ONLY)
        read_only, standby, source, role, database = cursor.fetchone()
    if standby:
        return "it is a standby, in which nothing can be written", "let its conninfo name the primary server"
    if not read_only or standby_only:
        return None
    text = f"its sessions are read-only: default_transaction_read_only is on, by {_SET_BY.get(source, 'the server')}"
    if source == "client":
        return text, "take it out there"
    # The sessions of who mends it are read-only, too.
    alter = f"ALTER ROLE {role} IN DATABASE {database} SET default_transaction_read_only = off;"
    return text, f"BEGIN READ WRITE; {alter} COMMIT;"


def may_replicate(connection: Any) -> tuple[str, bool]:
    """The role that has opened the session, as statements name it, and whether it may replicate."""
    with connection.cursor() as cursor:
        cursor.execute(_REPLICATES)
        role, replicates = cursor.fetchone()
    return role, bool(replicates)


def demand_readable(conninfo: str) -> str:
    """The connection string. Raises UsageError for what is none, without showing it: it may be a password.

    Raises MissingExtraError unless psycopg is installed.

    Of the password of a URL with a ``/`` or an ``@`` that is not escaped, libpq takes parts for host, port and
    database, which are shown where no server answers: so it is refused, and so is a port that is no number.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as cause:
        raise MissingExtraError("talking to PostgreSQL needs psycopg", "postgres") from cause
    try:
        given = conninfo_to_dict(conninfo)
    except ProgrammingError:
        raise UsageError(_UNREADABLE.format("cannot be read")) from None
    url = _URL.match(conninfo)
    if url is not None and (url["servers"].count("@") > 1 or "@" in url["database"]):
        raise UsageError(_UNREADABLE.format("has a '/' or an '@' that is not escaped"))
    if not all(_is_port(one.strip()) for one in str(given.get("port") or "").split(",")):
        raise UsageError(_UNREADABLE.format("has a port that is no number from 1 to 65535"))
    return conninfo


#: What begins a value of a connection string, with or without quotes.
_VALUE = re.compile(r"(?:^|\s)\w+\s*=\s*(?P<value>'(?:[^'\\]|\\.)*|(?:[^\s'\\]|\\.)*)\Z", re.DOTALL)


def beside(before: str, value: str, behind: str = "") -> str:
    r"""A value as it stands in a connection string between what is there, in which it is to be this value.

    An empty one is in quotes: of ``user= password=x``, libpq takes ``password=x`` for the user, and shows it.

    >>> print(beside("host=db password=", "a b\\c'd"))
    a\ b\\c\'d
    >>> beside("host=db user=", "", " password=x"), beside("user=", "", "x"), beside("user='", "", "'")
    ("''", '', '')
    >>> beside("postgresql://user:", "a%20b"), beside("", "host=db dbname=shop")
    ('a%20b', 'host=db dbname=shop')
    """
    begun = None if _URL.match(before) else _VALUE.search(before)
    if begun is None:
        return value
    if not value and not begun["value"] and not behind[:1].strip():
        return "''"
    return re.sub(r"([\\'\s])", r"\\\1", value)


def _demand_port() -> None:
    """Raise UsageError unless the port in the environment is one."""
    port = os.environ.get("PGPORT", "")
    if not all(_is_port(one.strip()) for one in port.split(",")):
        raise UsageError(f"PGPORT is {port!r}, which is no number from 1 to 65535: export a port, or unset it")


def _is_port(text: str) -> bool:
    """Whether it is one; libpq has a default where there is none."""
    return not text or (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= 65535)


def plain_address(conninfo: str, named: str) -> str:
    """The connection string of ``named``, with host, port, database and user, so that no variable adds to it.

    Raises UsageError where one of them lacks, but for the port, and where a password or another secret is in it.
    """
    demand_readable(conninfo)
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    found = conninfo_to_dict(conninfo)
    secrets = sorted(_secrets().intersection(found))
    if secrets:
        raise UsageError(
            f"{named} has {secrets[0]}, a secret which everybody on the machine can read in arguments: leave it out, "
            "and let the environment have it"
        )
    lacking = [name for name in ("host", "dbname", "user") if not found.get(name)]
    if lacking:
        raise UsageError(f"{named} lacks {', '.join(lacking)}: write 'host=HOST port=PORT dbname=NAME user=NAME'")
    return make_conninfo("", **{"port": "5432", **found})


def _secrets() -> set[str]:
    """The settings of a connection whose values PostgreSQL's library has marked not to be shown."""
    from psycopg.pq import Conninfo

    return {one.keyword.decode() for one in Conninfo.get_defaults() if one.dispchar == b"*"}


def _refusal(reason: str, given: dict[str, Any], origin: str) -> UnavailableError | UsageError:
    for secret in filter(None, map(given.get, _secrets())):
        reason = reason.replace(str(secret), "***")
    if any(mark in reason for mark in _NO_SERVICE):
        return UsageError(f"{reason}: is its name right, and is it in ~/.pg_service.conf?")
    host, place = _host(given, origin)
    # Where only a variable names the host, psycopg does not.
    reason = reason.replace("failed to resolve host None", f"failed to resolve host {host!r}")
    if any(mark in reason for mark in _ANSWERED):
        return UnavailableError(
            f"PostgreSQL does not let us in ({reason}): are user, password and database right? {place}. If it is only "
            "starting, or full, try again later"
        )
    return UnavailableError(
        f"PostgreSQL does not answer ({reason}): is it there, and are host and port right? {place}. See to that and "
        "start again"
    )


def _host(given: dict[str, Any], origin: str) -> tuple[str | None, str]:
    """The host, and where its name is from."""
    for name in _SETTINGS:
        if given.get(name):
            return str(given[name]), f"The host {given[name]} is from {origin}"
    if given.get("service"):
        return None, f"The host is that of the service {given['service']}"
    for variable in _VARIABLES:
        if os.environ.get(variable):
            return os.environ[variable], f"The host {os.environ[variable]} is from {variable}"
    if os.environ.get("PGSERVICE"):
        return None, f"The host is that of the service {os.environ['PGSERVICE']} (PGSERVICE)"
    return None, f"No host is named, neither in {origin} nor in PGHOST, so it is this machine's socket"


def find_table(connection: Any, table: str) -> tuple[int, str]:
    """The number of a table, written ``schema.table``, in the catalogue, and its replica identity, one letter.

    Raises UsageError where the database has none of that name.
    """
    schema, *name = parts_of(table)
    with connection.cursor() as cursor:
        cursor.execute(_TABLE, (schema, "".join(name)))
        row = cursor.fetchone()
    if row is None:
        raise UsageError(
            f"PostgreSQL has no table {table!r} in this database: mend its name (schema.table), or the connection"
        )
    identity = row[1].decode() if isinstance(row[1], bytes) else row[1]
    return row[0], identity


def guarded_tables(connection: Any, tables: Iterable[str], role: str | None = None) -> tuple[str, ...]:
    """Those of the tables of which row-level security may hide rows from a role, in order; None: that of the session.

    Of a role that the server does not have: all with row-level security.
    """
    with connection.cursor() as cursor:
        cursor.execute(_GUARDED, {"tables": list(tables), "role": role})
        return tuple(str(table) for (table,) in cursor.fetchall())
