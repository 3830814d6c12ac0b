"""What a capture on a shared remap is asked for: plain topics and databases, of row types in a folder.

The command and the job on Spark ask for it in the same words::

    --plain clicks=web.clicks --rows rows                  rows/clicks.avsc, written to the log clicks
    --prefix shop --rows rows                              rows/SCHEMA.TABLE.avsc, to the logs SCHEMA.TABLE
    --prefix bank --prefix shop --rows rows                rows/bank/SCHEMA.TABLE.avsc, to the logs bank.SCHEMA.TABLE
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdcv2.errors import UsageError
from cdcv2.protocol.log import LogAddress
from cdcv2.reclock.temp import AS_COMPLETE, COMMIT_ORDER
from cdcv2.sources.asked import check_topic, listed
from cdcv2.sources.bound_recipe import BoundRecipe
from cdcv2.sources.database import check_recipe
from cdcv2.sources.debezium import FROM_ENVELOPE, Recipe
from cdcv2.wire.file_system import is_there, matching
from cdcv2.wire.log_set import demand_room
from cdcv2.wire.meant import meant
from cdcv2.wire.named import table_of
from cdcv2.wire.numbered import path_to_read
from cdcv2.wire.rows import RowType
from cdcv2.wire.temp_rows import TEMP

#: So many seconds may be waited for at most.
LONGEST = 10**9
#: Where TEMP of each database is: no log of a table, so not beside these.
TEMP_FOLDER = "_temp"


def add_wanted_arguments(parser: argparse._ArgumentGroup) -> None:
    """Declare what only a capture on a shared remap can be asked for."""
    parser.add_argument("--plain", action="append", default=[], metavar="TABLE=TOPIC",
                        help="a topic whose records are rows of a table that only grows; DIR/TABLE.avsc in --rows")
    parser.add_argument("--ordering", choices=(COMMIT_ORDER, AS_COMPLETE), default=COMMIT_ORDER,
                        help="transactions in the order of their commits (the default), or each as soon as it is "
                             "complete: no consistent cut, and nothing that needs the state before")
    parser.add_argument("--bind-every", type=float, default=1.0, metavar="SECONDS",
                        help="the least time between two bindings, while it goes on for ever (default: 1)")
    parser.add_argument("--bind-idle", type=float, default=10.0, metavar="SECONDS",
                        help="then also: state that nothing has happened after so long (default: 10; 0: never)")
    parser.add_argument("--bind-at-most", type=int, default=100_000, metavar="N",
                        help="about how many records one binding takes in; they are held in memory (default: 100000)")
    parser.add_argument("--begin-at-first", action="store_true",
                        help="plain topics that are bound for the first time begin with the first record that is there")
    parser.add_argument("--propose-recipe", action="store_true",
                        help="if times are bound under another recipe, bind them under this one from now on")
    # Whoever parses the arguments knows how the process was started.
    parser.set_defaults(command_line=None)


def together(logs: LogAddress) -> Path | None:
    """The one directory that has all the logs in it, and the note of their capture; None where there is none.

    Raises UsageError where that is itself a log.
    """
    demand_room(logs)
    return None if logs.is_topic or logs.is_template else Path(logs.name)


def temp_name(logs: LogAddress, prefix: str) -> str:
    """What the log of TEMP of a database is called beside the others."""
    return f"{TEMP_FOLDER}{'.' if logs.is_topic else '/'}{prefix}"


def check_apart(remap: LogAddress, logs: LogAddress, option: str, asked: Wanted) -> None:
    """Raise UsageError unless remap and logs are in places of their own: both number what they put there.

    ``logs`` is what was given with ``option``.
    """
    demand_room(logs)
    names = [*asked.recipe.tables, *(temp_name(logs, prefix) for prefix in asked.databases)]
    places = [logs.of(name) for name in names]
    if remap.is_topic or logs.is_topic:
        taken = remap in places
    else:
        folders = [*(Path(place.name) for place in places), together(logs)]
        taken = Path(remap.name).resolve() in {folder.resolve() for folder in folders if folder is not None}
    if taken:
        raise UsageError(f"--remap {remap} and {option} {logs} are in one place: give the remap one of its own")


def check_numbers(args: argparse.Namespace, *names: str) -> None:
    """Whether these arguments are numbers from 1 on, where they are given. Raises UsageError."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value}: it takes a number from 1 on")


@dataclass(frozen=True)
class Wanted:
    """What the arguments ask for."""

    #: Table -> its topic and row type.
    plain: Mapping[str, tuple[str, RowType]]
    #: Prefix -> what is captured of that database, and table -> its log.
    databases: Mapping[str, tuple[Recipe, Mapping[str, str]]]
    ordering: str

    @property
    def topics(self) -> frozenset[str]:
        """All that is read."""
        of_databases = [topic for recipe, _ in self.databases.values() for topic in recipe.topics()]
        return frozenset([*(topic for topic, _ in self.plain.values()), *of_databases])

    def logs(self, address: LogAddress) -> dict[str, RowType]:
        """The row types of all that is written, by what it is called at the address; TEMP among it."""
        found = {table: kind for table, (_, kind) in self.plain.items()}
        for prefix, (recipe, names) in self.databases.items():
            found |= {names[table]: kind for table, kind in recipe.tables.items()}
            found[temp_name(address, prefix)] = TEMP
        return found

    @property
    def single(self) -> frozenset[str]:
        """Those whose records have an order."""
        recipes = [recipe for recipe, _ in self.databases.values()]
        topics = [topic for recipe in recipes for topic in (recipe.transaction_topic, recipe.notification_topic)]
        return frozenset(topic for topic in topics if topic is not None)

    @property
    def needed(self) -> frozenset[str]:
        """Those that must be there: a connector makes a table's topic with its first row."""
        of_databases = [recipe.transaction_topic for recipe, _ in self.databases.values()]
        return frozenset([*(topic for topic, _ in self.plain.values()), *of_databases])

    @property
    def empty(self) -> frozenset[str]:
        """The logs of tables that were empty at the snapshot, as the user says."""
        return frozenset(names[table] for recipe, names in self.databases.values() for table in recipe.empty)

    @property
    def recipe(self) -> BoundRecipe:
        """What is bound of it; the timeline is a name for one that nobody has begun."""
        tables = {table: {"topic": topic, "row": kind.fingerprint} for table, (topic, kind) in self.plain.items()}
        for prefix, (recipe, names) in self.databases.items():
            for table, kind in recipe.tables.items():
                tables[names[table]] = {"database": prefix, "table": table, "row": kind.fingerprint}
        databases = {
            prefix: {
                "snapshot": recipe.snapshot, "notifications": recipe.notification_topic,
                "transactions": recipe.transaction_topic, "ordering": self.ordering,
                "full_identity": sorted(recipe.full_identity),
                # What is not said is what was the only way once.
                **({} if recipe.before == FROM_ENVELOPE else {"before": recipe.before}),
                **({"empty": sorted(recipe.empty)} if recipe.empty else {}),
            }
            for prefix, (recipe, _) in self.databases.items()
        }
        return BoundRecipe(tables, databases, timeline=uuid.uuid4().hex)


def wanted(args: argparse.Namespace) -> Wanted:
    """What the arguments ask for. Raises UsageError."""
    for name in ("bind_every", "bind_idle"):
        # Written so that what is no number is none of these either.
        if not 0 <= getattr(args, name) <= LONGEST:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(args, name)}: it takes seconds, 0 to {LONGEST}")
    plain = _plain(args)
    prefixes = args.prefix or []
    if len(set(prefixes)) < len(prefixes):
        raise UsageError(f"--prefix {' '.join(prefixes)}: each database once")
    databases = {prefix: _database(args, prefix) for prefix in prefixes}
    if not plain and not databases:
        raise UsageError("--remap needs topics to bind: --plain TABLE=TOPIC, or --prefix NAME of a connector")
    # Of plain topics alone there is nothing in another order, and no log of theirs may say so.
    found = Wanted(plain, databases, args.ordering if databases else COMMIT_ORDER)
    logs = [*plain, *(log for _, names in databases.values() for log in names.values())]
    twice = sorted({log for log in logs if logs.count(log) > 1})
    if twice:
        raise UsageError(f"two tables would be written to the log {twice[0]}: give --plain another TABLE")
    topics = [*(topic for topic, _ in plain.values()), *(one for of, _ in databases.values() for one in of.topics())]
    shared = sorted({topic for topic in topics if topics.count(topic) > 1})
    if shared:
        raise UsageError(
            f"the topic {shared[0]} would be read twice, as that of two connectors, or of a connector and of --plain: "
            "each has topics of its own, that of the notifications, too"
        )
    for option, given in (("--tables", args.tables), ("--empty", args.empty)):
        named = set(listed(option, given)) - set(logs)
        if named:
            raise UsageError(
                f"{option} names {min(named)}, whose row type is missing in {args.rows}{meant(min(named), logs)}"
            )
    return found


def _plain(args: argparse.Namespace) -> dict[str, tuple[str, RowType]]:
    plain: dict[str, tuple[str, RowType]] = {}
    for text in args.plain:
        table, topic = table_of(text)
        if table is None or not topic:
            raise UsageError(f"--plain {text!r}: write TABLE=TOPIC")
        if table in plain or topic in {taken for taken, _ in plain.values()}:
            raise UsageError(f"--plain {text!r}: each table has one topic, and each topic one table")
        path = path_to_read(args.rows) / f"{table}.avsc"
        if not is_there(path):
            raise UsageError(f"the row type of {table} is missing: {path}")
        plain[table] = topic, RowType.load(path)
    return plain


def _database(args: argparse.Namespace, prefix: str) -> tuple[Recipe, dict[str, str]]:
    """What is captured of a database, and the logs of its tables."""
    folder, own = path_to_read(args.rows) / prefix, True
    if not is_there(folder):
        folder, own = path_to_read(args.rows), False
        if len(args.prefix) > 1:
            raise UsageError(f"of several databases each has a folder of row types: {folder / prefix} is missing")
    # Without a schema it is the row type of a plain topic.
    found = {path.name.removesuffix(".avsc"): path for path in matching(folder, "*.*.avsc")}
    names = {table: f"{prefix}.{table}" if own else table for table in found}
    chosen, full = listed("--tables", args.tables), listed("--full-identity", args.full_identity)
    empty = listed("--empty", args.empty)
    tables = [table for table in found if not chosen or names[table] in chosen]
    if not tables:
        raise UsageError(f"there is no row type of a table of {prefix} in {folder}: make one per table with cdcv2 rows")
    recipe = Recipe(
        prefix,
        {table: RowType.load(found[table]) for table in tables},
        snapshot=args.snapshot,
        notification_topic=_notifications(args, prefix),
        full_identity=frozenset(table for table in tables if names[table] in full),
        empty=frozenset(table for table in tables if names[table] in empty),
        before=args.before,
    )
    check_recipe(recipe, args.ordering)
    return recipe, {table: names[table] for table in tables}


def _notifications(args: argparse.Namespace, prefix: str) -> str | None:
    given = [table_of(text) for text in args.notifications]
    for _, topic in given:
        check_topic("--notifications", topic)
    topics = [topic for of, topic in given if of == prefix or (of is None and len(args.prefix) == 1)]
    if len(topics) > 1 or any(of is not None and of not in args.prefix for of, _ in given):
        raise UsageError(f"--notifications {' '.join(args.notifications)}: one for each database, PREFIX=TOPIC")
    return topics[0] if topics else None
