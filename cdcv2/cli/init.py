"""Make the files of a pipeline from a database: a first draft, to be read.

It asks the database for the tables and writes into the folder:

  rows/SCHEMA.TABLE.avsc   the row type of each table
  connector.json           the configuration of Debezium's connector, for Kafka
                           Connect (not with --from-connector)
  pipeline.yaml            captures and views, with keys and comments

No file is overwritten, and no password is written. At the end it prints what
to do next. Nothing is changed in the database, in Kafka or in Connect. With
--owned the file states that cdcv2 up makes the connector, its publication and
its topics; the connector makes its slot; and cdcv2 up removes all of them.
Without --owned you make connector and publication, or others do.

Where the database is, and its password: as for cdcv2 rows. Connect finds its
password in its own environment (PGPASSWORD).
"""

from __future__ import annotations

import argparse
import json
import re
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.options.capture_arguments import listed
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.store.source_address import source_address
from cdcv2.control.first_pipeline import (
    CONNECTOR_FILE, PIPELINE_FILE, DatabaseAddress, FirstPipeline, connector_of, source_tables,
)
from cdcv2.core.json_text import parse_json
from cdcv2.errors import OutputError, UsageError
from cdcv2.exits import Exit
from cdcv2.store.broker_addresses import demand_brokers
from cdcv2.store.connect_client import ConnectClient, curl
from cdcv2.store.file_system import text_of

EXAMPLES = (
    ("cdcv2 init --source env --output shop", "all tables of the schema public"),
    ("cdcv2 init --source env --owned --target 'host=copy port=5432 dbname=copy user=copy' --output shop",
     "for cdcv2 up, which makes the connector; its password for the copy is COPY_PASSWORD"),
    ("cdcv2 init --source shop.dsn --tables 'public.order*,audit.log' --bootstrap kafka:9092 --output shop",
     "some tables; a connection string in a file"),
    ("cdcv2 init --source env --exclude-columns public.users.photo --output shop", "all tables, without a column"),
    ("cdcv2 init --source env --from-connector http://connect:8083/connectors/shop --output shop",
     "for a connector that is there"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.WRONG: "a column has a type for which there is no row type",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "--source", more="; it is asked", required=True)
    parser.add_argument("--tables", metavar="A,B", default="public.*",
                        help="which tables (default: public.*, all of that schema)")
    declare(parser, "--exclude-columns", more=", each SCHEMA.TABLE.COLUMN; the connector does not send them")
    parser.add_argument("--from-connector", metavar="FILE|URL",
                        help="a connector that is there: its configuration as JSON, or where Connect has it")
    parser.add_argument("--owned", action="store_true",
                        help="let cdcv2 up make the connector, its publication and its topics, and remove "
                             "them, with the connector's slot, when the file does not need them any more")
    parser.add_argument("--target", metavar="CONNINFO",
                        help="the PostgreSQL that gets the copy: 'host=HOST dbname=NAME user=NAME', without a "
                             "password, which is in COPY_PASSWORD (default: to be filled in)")
    declare(parser, "--output", more=": a folder, which is made", required=True)
    parser.add_argument("--pipeline", metavar="NAME",
                        help="the pipeline's name, which its topics and its slot get (default: the database's)")
    declare(parser, "--bootstrap", default="localhost:9092", more=" (default: localhost:9092)")
    parser.add_argument("--connect", metavar="URL", default="http://localhost:8083",
                        help="Connect's REST interface (default: http://localhost:8083)")
    parser.add_argument("--connect-login", metavar="FILE", type=Path,
                        help="a file with the login at Connect, in the form of netrc, as curl reads it")
    parser.add_argument("--replication", metavar="N", type=int, default=-1,
                        help="how many copies Kafka keeps of each topic (default: -1, what the cluster is set to)")


def run(args: argparse.Namespace) -> Exit:
    """Ask the database, and write the files. Raises UsageError if one of them is there already."""
    made = _draft(args)
    folder = Path(args.output)
    files = {folder / path: text for path, text in made.files().items()}
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there:
        raise UsageError(
            f"nothing is written, as {', '.join(there[:5])}{', ...' if len(there) > 5 else ''} "
            f"{'is' if len(there) == 1 else 'are'} there already: give another --output, or move them away"
        )
    _write(folder, files)
    with ResultOutput.standard() as output:
        for path in files:
            output.line(str(path))
    for line in _next(made, folder):
        remark(line)
    return Exit.DONE


def _draft(args: argparse.Namespace) -> FirstPipeline:
    from cdcv2.store.postgres_session import connect, plain_address

    if args.owned and args.from_connector is not None:
        raise UsageError("--owned is of a connector that is made, and --from-connector of one that others run: leave "
                         "one of them out")
    excluded = listed("--exclude-columns", args.exclude_columns)
    if excluded and args.from_connector is not None:
        raise UsageError("--exclude-columns is of a connector that is made: one that is there leaves out the columns "
                         "that its column.exclude.list names, and so do the row types")
    demand_brokers(args.bootstrap)
    target = None if args.target is None else plain_address(args.target, "--target")
    # From the folder of the file that is written, the same path may lead elsewhere.
    login = None if args.connect_login is None else args.connect_login.absolute()
    ConnectClient(args.connect, login)
    connector = None if args.from_connector is None else _connector(args.from_connector, login)
    address = source_address(args.source)
    with closing(connect(address.conninfo, origin=address.origin, autocommit=True)) as session:
        info = session.info
        # Where the session is local, Connect, on this machine, reaches the server by its name.
        host = "localhost" if not info.host or info.host.startswith(("/", "@")) else info.host
        database = DatabaseAddress(host, info.port, info.dbname, info.user, bool(info.password))
        # A reference is known to Connect alone.
        reader = None if connector is None else connector.get("database.user")
        known = reader if reader is not None and "${" not in reader else None
        tables = source_tables(
            session, listed("--tables", args.tables), known, excluded=excluded, config=connector,
        )
    name = args.pipeline or re.sub(r"[^A-Za-z0-9_-]", "_", (connector or {}).get("topic.prefix", database.name))
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise UsageError(f"--pipeline {name!r} is no name: write letters, digits, - and _")
    url = args.connect
    if connector is not None and "://" in args.from_connector:
        url = args.from_connector.partition("/connectors/")[0]
    return FirstPipeline(
        name, database, tables, args.bootstrap, url, args.replication, connector, args.owned, target, login
    )


def _connector(where: str, login: Path | None) -> dict[str, str]:
    if where.startswith(("http://", "https://")):
        url, _, name = where.partition("/connectors/")
        config = ConnectClient(url, login).config(unquote(name.rstrip("/"))) if name else None
        if config is None:
            raise UsageError(f"there is no connector at {where}: write http://HOST:8083/connectors/NAME")
        return connector_of(config, where)
    try:
        return connector_of(parse_json(text_of(where, where)), where)
    except json.JSONDecodeError as cause:
        raise UsageError(f"{where} is no JSON: {cause}") from None


def _write(folder: Path, files: dict[Path, str]) -> None:
    """All, or none."""
    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as cause:
        for path in written:
            path.unlink(missing_ok=True)
        raise OutputError(
            f"{cause.filename or folder} cannot be written: {cause.strerror or cause}; nothing is left there. Give "
            "another --output"
        ) from cause


def _next(made: FirstPipeline, folder: Path) -> list[str]:
    """What to do now, in order."""
    steps = [f"cdcv2 init: {len(made.tables)} tables. Now:"]
    sql = made.statements()
    if sql:
        steps += ["in the database, as the owner of the tables:", *(f"  {one}" for one in sql)]
    path, named = folder / PIPELINE_FILE, "" if made.target is not None else ", name its target"
    steps += [f"read {path}{named}, and:", f"  cdcv2 doctor {path}"]
    if made.connector is None and not made.owned:
        steps += [
            "start the connector (Connect needs the password as PGPASSWORD, and its env provider):",
            "  " + curl(
                f"-X PUT -H 'Content-Type: application/json' -d @{folder / CONNECTOR_FILE} "
                f"{made.connect}/connectors/{made.name}/config", made.login,
            ),
            "and then:",
        ]
    return [*steps, f"  cdcv2 up {path}"]
