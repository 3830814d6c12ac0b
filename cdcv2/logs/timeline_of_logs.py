"""Which timeline and which log set the logs are of that one capture writes; and which timeline logs are read in.

Several captures may begin the same logs at once, and all of them must state the same. So nothing is drawn here that
was not put if absent: what some log states already stands; otherwise the logs have the identity of the first of them by
name, which was put with that log: by Kafka with a topic, in ``_log.json`` with a directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from cdcv2.errors import ForeignStateError, UsageError
from cdcv2.logs.description import DescribedLog, LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.store.file_system import is_there
from cdcv2.timeline.ordering import COMMIT_ORDER


def describe_log_set(logs: Mapping[str, Log], stated: LogDescription) -> LogDescription:
    """Have all the logs, by name, state which timeline and log set they are of; what they state then.

    ``stated`` is what is known: on a remap its timeline, and in a directory a log set, by the manifest of the capture,
    which counts if no log states one. If nothing names a timeline, the times are those of commits in the one
    source, and the log set stands for it. A directory states its name, too. Attributes of one log alone are not
    stated here.

    Raises ForeignStateError where a log is of another timeline or log set than the others, and names both.
    """
    describing = {name: log for name, log in sorted(logs.items()) if isinstance(log, DescribedLog)}
    whole, identities = LogDescription(timeline=stated.timeline), []
    for log in describing.values():
        one = log.description()
        identities.append(one.identity)
        alone = replace(one, ordering=COMMIT_ORDER, identity=None, table=None, start=None, empty=None)
        whole = alone.joined(whole, log.name)
    log_set = whole.log_set or stated.log_set or next(iter(identities), None)
    whole = replace(whole, log_set=log_set, timeline=whole.timeline or log_set)
    for log in describing.values():
        log.describe(replace(whole, table=log.path.absolute().name) if isinstance(log, DirectoryLog) else whole)
    return whole


def demand_room(logs: LogAddress) -> None:
    """Raise UsageError if the directory is itself a log: a set of logs has one of its own.

    Raises UnavailableError if that cannot be known.
    """
    if logs.is_topic:
        return
    folder = Path(logs.of("t").name).parent
    if is_there(folder / LOG_FILE):
        raise UsageError(
            f"{folder} is itself a log ({LOG_FILE} is in it), and no directory for logs of several tables: give the "
            f"one that it is in, {folder.absolute().parent}, or another"
        )


@runtime_checkable
class UndescribedLog(Protocol):
    """A log of which it may be known only later what it states: a topic without a message."""

    def expect(self, timeline: str) -> None:
        """From now on, raise ForeignStateError when a message states another timeline."""


class LogPart(NamedTuple):
    """A log that is read together with others: how people call it, and the timeline that it states, if it does."""

    name: str
    timeline: str | None


#: How a user names the timeline of logs that do not state it: on a command line, and in a materialization's file.
OPTION, FIELD = "--timeline ", "timeline: "


def one_timeline(parts: Sequence[LogPart], named: str | None = None, *, naming: str = OPTION) -> str | None:
    """The timeline of logs that are read as one; None for a single one that states none.

    ``named`` is the user's name for those that state none, ``naming`` what stands before a name where they may.
    Raises ForeignStateError where two of them, or one and the user, name different ones, UsageError for several of
    which one states none and the user names none.

    >>> one_timeline([LogPart("a", "x"), LogPart("b", None)], "x")
    'x'
    """
    stating = [part for part in parts if part.timeline is not None]
    for part in stating[1:]:
        if part.timeline != stating[0].timeline:
            raise ForeignStateError(
                f"{stating[0].name} is of the timeline {stating[0].timeline}, and {part.name} of the timeline "
                f"{part.timeline}: their times have nothing to do with each other. Read them apart"
            )
    timeline = stating[0].timeline if stating else named
    if named not in (None, timeline):
        raise ForeignStateError(
            f"{stating[0].name} is of the timeline {timeline}, and not of {named}, which {naming.strip(' :')} "
            "names: leave that out, or read another log"
        )
    silent = [part.name for part in parts if part.timeline is None]
    if len(parts) > 1 and silent and named is None:
        other = (stating or [part for part in parts if part.name != silent[0]] or parts)[0].name
        raise UsageError(
            f"{silent[0]} does not state of which timeline its times are, and is to be read together with {other}"
            f"{f', which is of {timeline}' if timeline else ''}: if they are of one timeline, name it, with {naming}"
            f"{timeline or 'NAME'}"
        )
    return timeline
