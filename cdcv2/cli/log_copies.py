"""Where copies of logs go: their addresses, what they state of themselves, and the manifest beside them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cdcv2.cli.logs import LOG_FILE, kafka_log
from cdcv2.errors import OutputError, UsageError
from cdcv2.logs.capture_manifest import manifest_of, put_manifest
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import demand_room
from cdcv2.logs.named_logs import NamedLog, check_timeline
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import TEMPLATE, LogAddress
from cdcv2.store.file_system import is_there


def capture_folder(address: LogAddress) -> Path | None:
    """The directory that is copied log by log; None where the address is that of one log."""
    folder = Path(address.name)
    return None if address.is_topic or is_there(folder / LOG_FILE) else folder


def targets_of(
    to: LogAddress, tables: Iterable[str], sources: Sequence[LogAddress], *, within: bool
) -> dict[str, LogAddress]:
    """Where the copy of each table's log goes: one of several, or one in a directory of several (``within``), has the
    table's name. ``sources`` is what is copied.

    Raises UsageError where two copies would go to one place, and for a place within a source or around one.
    """
    names = list(tables)
    several = len(names) > 1
    if several:
        to.demand_several()
    if within or several or to.is_template:
        demand_room(to)
    inside = to.is_template or ((within or several) and not to.is_topic)
    targets = {table: to.of(table) if inside else to for table in names}
    first: dict[str, str] = {}
    for table, target in targets.items():
        other = first.setdefault(str(target) if target.is_topic else str(Path(target.name).resolve()), table)
        if other != table:
            raise UsageError(f"{target}: the copies of {other} and {table} would both go there; give another target")
        _demand_apart(target, sources)
    return targets


def _demand_apart(target: LogAddress, sources: Sequence[LogAddress]) -> None:
    """Raise UsageError unless a directory is outside of all that is copied, and has none of that in it."""
    if target.is_topic:
        return
    place = Path(target.name).resolve()
    for source in sources:
        if source.is_topic:
            continue
        read = Path(source.name).resolve()
        if place != read and (place in read.parents or read in place.parents):
            raise UsageError(
                f"{target} cannot be the place of a copy: one of it and {source}, which is copied, is within the "
                f"other; give a directory outside"
            )


def demand_free(target: LogAddress) -> None:
    """Raise UsageError for a directory log with messages; of a topic that is asked when its turn comes."""
    if not target.is_topic and is_there(Path(target.name) / LOG_FILE):
        _check_empty(DirectoryLog(Path(target.name)), target)


def copy_manifest(folder: Path, to: LogAddress) -> None:
    """Give the copies the note of the capture, before there is any: what lacks after a crash is then known to lack.

    Raises OutputError where it cannot be written, UsageError for a folder with logs of another capture.
    """
    note, into = manifest_of(folder), Path(to.name)
    if to.is_template:
        if into.name != TEMPLATE or TEMPLATE in str(into.parent):
            # The copies do not lie in one directory, as the logs of a capture do.
            return
        into = into.parent
    if not note:
        return
    timeline = note.get("timeline") or note.get("id")
    if timeline is not None:
        # The copies get an id of their own; their times are of the same timeline.
        note["timeline"] = timeline
    try:
        put_manifest(into, note)
    except OSError as error:
        raise OutputError(f"{into} cannot be written: {error.strerror or error}; give another target") from error
    there = manifest_of(into)
    if {**there, "id": None} != {**note, "id": None}:
        raise UsageError(f"{into} holds logs of another capture: give the name of a directory that is not there yet")


def open_copy(named: NamedLog, target: LogAddress, args: argparse.Namespace) -> Log:
    """The copy of a log, to be written; it states what the log does, as another log. Raises UsageError for one with
    messages, and what opening a log raises.
    """
    log, stated = _open(target, named, args), _stated(named, args.timeline)
    try:
        _check_empty(log, target)
    except BaseException:
        log.close()
        raise
    if stated != LogDescription():
        log.close()
        log = _open(target, named, args, stated)
    return log


def _stated(named: NamedLog, timeline: str | None) -> LogDescription:
    """What the copy states of itself; ``timeline`` is the user's for a log that does not state one."""
    return replace(description_of(named.log).of_copy(), timeline=check_timeline([named], timeline))


def _check_empty(log: Log, target: LogAddress) -> None:
    if any(log.ends().values()):
        raise UsageError(f"{target} holds messages already: give the name of a log that is not there yet")


def _open(
    target: LogAddress, named: NamedLog, args: argparse.Namespace, stated: LogDescription = LogDescription()
) -> Log:
    if target.is_topic:
        return kafka_log(
            target.name, args, named.row_type, named.times, create=True, partitions=args.partitions, description=stated
        )
    return DirectoryLog(Path(target.name), named.row_type, create=True, times=named.times, description=stated)
