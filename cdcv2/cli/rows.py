"""Make the row type of a table: an Avro record schema, for capture.

Look at it, and commit it. --source reads the columns from the catalogue of the
database, and reports a table that lacks REPLICA IDENTITY FULL. --from-envelope
reads a record of Debezium that carries its schema (schemas.enable=true). Types
are never guessed from values.

Where the database is, and its password: --source env (CDCV2_POSTGRES, a
connection string; or libpq's own PGHOST, PGDATABASE, PGPASSWORD, ...),
--source service:NAME of libpq's service file, or --source FILE with a
connection string (file:FILE, if it is called env). It never comes from an
argument.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdcv2.capture.connector import FIRST_KIND, RowTypeSource
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.options.capture_arguments import listed
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.connectors.dump_files import VALUE_NAMES
from cdcv2.connectors.kinds import DATABASES, database_kind
from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError, MissingLogError, OutputError, UsageError
from cdcv2.exits import Exit
from cdcv2.store.file_system import in_words, unreadable

EXAMPLES = (
    ("cdcv2 rows --source env --table public.orders --output rows/public.orders.avsc",
     "from the database that PGHOST, PGDATABASE, ... name"),
    ("cdcv2 rows --source service:shop --table public.orders", "from a service of libpq's service file"),
    ("cdcv2 rows --source shop.dsn --table public.orders", "from a connection string in a file"),
    ("cdcv2 rows --source env --table public.users --exclude-columns photo,place", "without two columns"),
    ("cdcv2 rows --from-envelope record.json --table public.orders", "from a record that carries its schema"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.WRONG: "a column has a type for which there is no row type, or the file of --from-envelope cannot be read",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    origin = parser.add_mutually_exclusive_group(required=True)
    declare(origin, "--source", more="; it is asked")
    origin.add_argument("--from-envelope", metavar="FILE",
                        help="read a record: JSON, or JSON lines (a dump, too), plain or .gz")
    declare(parser, "--table", more=": SCHEMA.TABLE", required=True)
    declare(parser, "--exclude-columns", more=", as the connector's column.exclude.list does; with --source")
    declare(parser, "--output", more="; its folder is made (default: standard output)")
    parser.set_defaults(connector=FIRST_KIND)
    if len(DATABASES) > 1:
        parser.add_argument("--connector", metavar="KIND", default=FIRST_KIND,
                            help=f"which connector captures the table (default: {FIRST_KIND})")
    parser.formerly("--from-postgres", "--source=env")
    parser.formerly("--service", "--source=service:{}")
    parser.formerly("--dsn-file", "--source=file:{}")


def run(args: argparse.Namespace) -> Exit:
    """Make the schema and print it.

    Raises UsageError if the table lacks its schema, or if columns are to be left out of a record.
    """
    if "." not in args.table:
        raise UsageError(f"the table {args.table!r} lacks its schema: write public.{args.table}")
    excluded = listed("--exclude-columns", args.exclude_columns)
    if excluded and args.source is None:
        raise UsageError("--exclude-columns is for --source: a record has the columns that the connector sends")
    row_types = _row_types(args.connector)
    schema, doubt = (
        row_types.of_source(args.source, args.table, excluded) if args.source is not None
        else _read(Path(args.from_envelope), args.table, row_types)
    )
    if args.output:
        _make_folder(Path(args.output).parent)
    if doubt is not None:
        remark(f"cdcv2 rows: {doubt}")
    with ResultOutput(args.output) as output:
        output.line(json.dumps(schema, indent=2, ensure_ascii=False))
    return Exit.DONE


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror or error}; give another --output") from error


def _row_types(kind: str) -> RowTypeSource:
    found = database_kind(kind).row_types
    if found is None:
        raise UsageError(f"cdcv2 rows knows no row types of {kind}: write DIR/TABLE.avsc by hand")
    return found


def _read(path: Path, table: str, row_types: RowTypeSource) -> tuple[dict[str, Any], str | None]:
    for body in _records(path):
        found = row_types.of_record(body, table)
        if found is not None:
            return found
    raise UsageError(
        f"{path} holds no record of {table} with a schema: {row_types.schemas}, or take --source env"
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects in a file: records, bare or as the value of a dumped one."""
    for found in _values(_text(path), str(path)):
        if isinstance(found, dict):
            value = next((found[name] for name in VALUE_NAMES if isinstance(found.get(name), str)), None)
            if value is not None:
                found = next(_values(value, f"a value in {path}"), None)
        if isinstance(found, dict):
            yield found


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except FileNotFoundError:
        raise MissingLogError(f"there is no file {path}") from None
    except (gzip.BadGzipFile, IsADirectoryError) as error:
        raise UsageError(f"{path} cannot be read: {in_words(error)}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (UnicodeDecodeError, EOFError) as error:
        raise MalformedError(f"{path} is no text: {error}") from error


def _values(text: str, place: str) -> Iterator[Any]:
    """The JSON that a whole text is, else that of each of its lines."""
    try:
        whole = parse_json(text)
    except ValueError:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    yield parse_json(line)
                except ValueError as error:
                    raise MalformedError(f"line {number} of {place} is no JSON: {error}") from None
    else:
        yield whole
