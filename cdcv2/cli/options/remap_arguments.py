"""What the arguments of a capture on a shared remap mean: plain topics and databases, of row types in a folder.

The command and the job on Spark ask for it in the same words::

    --plain clicks=web.clicks --rows rows                  rows/clicks.avsc, written to the log clicks
    --prefix shop --rows rows                              rows/SCHEMA.TABLE.avsc, to the logs SCHEMA.TABLE
    --prefix bank --prefix shop --rows rows                rows/bank/SCHEMA.TABLE.avsc, to the logs bank.SCHEMA.TABLE
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.run.database import check_recipe
from cdcv2.capture.run.remap_capture import CaptureTopics
from cdcv2.capture.run.remap_loop import AT_MOST, RunOptions
from cdcv2.capture.run.request import CaptureRequest, check_apart, temp_name
from cdcv2.cli.options.capture_arguments import check_topic, dump_files, from_kafka, listed, recipe_from, topics_of
from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics
from cdcv2.errors import UsageError
from cdcv2.logs.log_names import table_of
from cdcv2.protocol.log_address import LogAddress
from cdcv2.store.file_system import is_there, matching
from cdcv2.store.numbered import path_to_read
from cdcv2.suggestions import meant
from cdcv2.timeline.ordering import COMMIT_ORDER

#: So many seconds may be waited for at most.
LONGEST = 10**9


def capture_request(args: argparse.Namespace) -> CaptureRequest:
    """What the arguments ask for. Raises UsageError."""
    args.into.demand_several()
    for name in ("bind_every", "bind_idle"):
        # Written so that what is no number is none of these either.
        if not 0 <= getattr(args, name) <= LONGEST:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(args, name)}: it takes seconds, 0 to {LONGEST}")
    plain = topics_of("--plain", args.plain, args.rows)
    prefixes = args.prefix or []
    if len(set(prefixes)) < len(prefixes):
        raise UsageError(f"--prefix {' '.join(prefixes)}: each database once")
    databases = {prefix: _database(args, prefix) for prefix in prefixes}
    if not plain and not databases:
        raise UsageError("--remap needs topics to bind: --plain TABLE=TOPIC, or --prefix NAME of a connector")
    # Of plain topics alone there is nothing in another order, and no log of theirs may state so.
    found = CaptureRequest(plain, databases, args.ordering if databases else COMMIT_ORDER)
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
    check_apart(args.remap, args.into, found)
    return found


def written_places(args: argparse.Namespace, request: CaptureRequest) -> list[LogAddress]:
    """Where its logs are, of tables and of open transactions."""
    names = [*request.plain]
    for prefix, (_, logs) in request.databases.items():
        names += [*logs.values(), temp_name(args.into, prefix)]
    return [args.into.of(name) for name in names]


def run_options(args: argparse.Namespace, request: CaptureRequest) -> RunOptions:
    """How the arguments want it to run."""
    return RunOptions(
        request, args.into, Path(args.rows), args.max_records or AT_MOST, follow=args.follow,
        bind_every=args.bind_every, bind_idle=args.bind_idle, bind_at_most=args.bind_at_most, name=args.bind_as,
        propose=args.propose_recipe, at_first=args.begin_at_first, command_line=args.command_line,
        create=not args.no_create,
    )


def capture_topics(args: argparse.Namespace, client: Callable[[], Any]) -> CaptureTopics:
    """The topics that the arguments name; ``client`` reaches Kafka. Raises what reading dumps raises."""
    held = None if from_kafka(args) else DumpedRanges(DumpedTopics(*dump_files(args)))
    return CaptureTopics(held, client, " ".join(args.source) or "kafka")


def _database(args: argparse.Namespace, prefix: str) -> tuple[DatabaseConnector, dict[str, str]]:
    """What is captured of a database, and the logs of its tables."""
    folder, own = path_to_read(args.rows) / prefix, True
    if not is_there(folder):
        folder, own = path_to_read(args.rows), False
        if len(args.prefix) > 1:
            raise UsageError(f"of several databases each has a folder of row types: {folder / prefix} is missing")
    # Without a schema it is the row type of a plain topic.
    found = {path.name.removesuffix(".avsc"): path for path in matching(folder, "*.*.avsc")}
    names = {table: f"{prefix}.{table}" if own else table for table in found}
    chosen = listed("--tables", args.tables)
    tables = [table for table in found if not chosen or names[table] in chosen]
    if not tables:
        raise UsageError(f"there is no row type of a table of {prefix} in {folder}: make one per table with cdcv2 rows")
    recipe = recipe_from(
        args, prefix, {table: found[table] for table in tables}, _notifications(args, prefix),
        lambda given: [table for table in tables if names[table] in given],
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
