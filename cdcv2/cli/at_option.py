"""What ``--at`` means: a time of the logs, ``now``, an LSN as PostgreSQL writes it, or a moment of the clock.

By commit times the clock is that of the releases (:mod:`cdcv2.logs.release_times`): a moment is the time of the last
release that was committed up to it. On a remap times are milliseconds, so a moment is one by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from cdcv2.cli.console import remark
from cdcv2.cli.options.times import given_times
from cdcv2.core.order import MAX_TIME, Time
from cdcv2.errors import IncompleteError, MalformedError, UsageError
from cdcv2.logs.commit_clock import is_of_stream, is_on_remap
from cdcv2.logs.named_logs import NamedLog
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimeLog, clock_text, committed_by
from cdcv2.timeline.gauges import lsn, lsn_text

#: What it takes, for the help.
TAKES = "a finished time, now, an LSN (0/61B7000), or a moment with its zone (2026-11-21T09:02:06Z)"
_LSN = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}\Z")
_TIME = re.compile(r"[0-9]+(,[0-9]+)*\Z")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(Z|[+-]\d{2}(:?\d{2})?)?\Z")


def time_at(text: str, logs: Sequence[NamedLog], who: str) -> Time | None:
    """The time of the logs that is meant; None: the last one that is finished (``now``). ``who`` asks, for remarks.

    Raises UsageError for what is no time of these logs, with the first moment that is known if that is later;
    IncompleteError for a moment behind the last one that is known; and what reading the logs' descriptions raises.
    """
    if text == "now":
        return None
    if _LSN.match(text):
        if is_on_remap(logs[0].log):
            raise UsageError(
                f"--at {text}: these logs are of a remap, whose times are milliseconds: write one of them, or a "
                "moment, as 2026-11-21T09:02:06Z. cdcv2 when states at which of them a record of a topic was in "
                "(shop.transaction=0@17)"
            )
        return given_times("--at", [_position(text)], logs)[0]
    if not _MOMENT.match(text):
        if not _TIME.match(text):
            raise UsageError(f"--at {text!r} is no time: write {TAKES}; or 3,4 where times have several coordinates")
        return given_times("--at", [text], logs)[0]
    moment = _milliseconds(text)
    if is_on_remap(logs[0].log):
        return given_times("--at", [str(moment)], logs)[0]
    return _release(text, moment, logs, who).lsn


def _position(text: str) -> str:
    """The number of an LSN. Raises UsageError for one that is greater than any time."""
    try:
        return str(lsn(text))
    except MalformedError:
        raise UsageError(f"--at {text}: the greatest LSN that is a time is {lsn_text(MAX_TIME)}") from None


def _release(text: str, moment: int, logs: Sequence[NamedLog], who: str) -> ReleaseTime:
    kept = {release for named in logs if isinstance(named.log, ReleaseTimeLog) for release in named.log.release_times()}
    releases = sorted(kept)
    if not releases:
        if is_of_stream(logs[0].log):
            raise UsageError(
                f"--at {text}: the times of these logs are those of a stream, which are no moments: give a time of the "
                "stream, as a whole number"
            )
        raise UsageError(
            f"--at {text}: nothing with these logs states when what was committed (captures by commit times keep it, "
            "and copies of logs have none): write an LSN; or, if they are of a stream, a time of it as a whole number"
        )
    found = committed_by(releases, moment)
    if found is None:
        raise UsageError(
            f"--at {text}: the first time known is {clock_text(releases[0].ts_ms)}, of the LSN {releases[0].lsn}: "
            "write a later one, or an LSN"
        )
    if found == releases[-1] and moment > found.ts_ms:
        raise IncompleteError(
            f"the last release known was committed at {clock_text(found.ts_ms)} (LSN {found.lsn}), and nothing states "
            f"what was up to {text}: capture on, or take --at now"
        )
    if found.ts_ms < moment:
        remark(
            f"{who}: --at {text}: the last release before it was committed at {clock_text(found.ts_ms)} "
            f"(LSN {found.lsn})"
        )
    return found


def _milliseconds(text: str) -> int:
    """A moment, or a day's first one, in milliseconds since 1970.

    >>> _milliseconds("1970-01-01Z"), _milliseconds("1970-01-01-01:00"), _milliseconds("1970-01-01T01:00:00Z")
    (0, 3600000, 3600000)
    """
    day = _DAY.match(text)
    try:
        if day is None and text[10] not in "T ":
            # Python takes any character there, the sign of a zone, too.
            raise ValueError(text)
        moment = datetime.fromisoformat(text if day is None else f"{day[1]}T00:00{day[2] or ''}")
    except ValueError:
        raise UsageError(f"--at {text!r} is no moment: write it as 2026-11-21T09:02:06Z") from None
    if moment.tzinfo is None:
        clock = text if day is None else f"{text}T00:00"
        raise UsageError(f"--at {text}: in which zone? Write {clock}Z for UTC, or {clock}+01:00")
    return round(moment.timestamp() * 1000)
