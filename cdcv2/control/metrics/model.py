"""The metrics of a pipeline, as a function of its status, of its external state, and of what servers have answered.

Moments are in seconds since 1970, as Prometheus has them: ``time() - metric`` is an age, also when the numbers are old.
What is not known has no sample: a number in its place would be believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cdcv2.control.entries import EntryState, Reason
from cdcv2.control.supervision import JobState


class Metric(NamedTuple):
    """A metric: its name, what it is in a sentence, and the names of its labels. ``total``: it only grows."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    total: bool = False


class MetricSample(NamedTuple):
    """A value of a metric, for values of its labels."""

    name: str
    labels: tuple[str, ...]
    value: float


class TopicBacklog(NamedTuple):
    """A topic that a capture reads, and what of it is not captured.

    - ``unread``: the records that are there and not captured; ``lost``: those that were removed and not captured.
    - ``oldest``: when the oldest unread one was written; ``retention``: seconds after which the topic forgets it, None:
      never, by age.
    """

    capture: str
    topic: str
    unread: int
    lost: int
    oldest: float | None
    retention: float | None


class HoldAge(NamedTuple):
    """What holds a shared remap, by its name and its identity, and the moment from which on it needs it."""

    remap: str
    holder: str
    identity: str
    since: float


class FolderSpace(NamedTuple):
    """The disk of a folder: what is in the folder, and its bytes."""

    folder: str
    content: str
    free: int
    size: int


class Measurements(NamedTuple):
    """What was looked at besides the status. ``reachable``: (kind of server, name of the part that uses it)."""

    at: float
    topics: tuple[TopicBacklog, ...] = ()
    holds: tuple[HoldAge, ...] = ()
    folders: tuple[FolderSpace, ...] = ()
    reachable: Mapping[tuple[str, str], bool] = {}


_JOB, _SLOT, _TOPIC = ("job", "kind"), ("source", "slot"), ("capture", "topic")
_HOLD = ("remap", "holder", "identity")
_TABLE = ("table", "kind", "job", "target")
METRICS = (
    Metric("cdcv2_kept_running", "1: a cdcv2 up keeps the jobs running"),
    Metric("cdcv2_up_silent_seconds", "for how long the cdcv2 up that keeps the jobs has done nothing; 0: it works"),
    Metric("cdcv2_status_timestamp_seconds", "when the status was looked at"),
    Metric("cdcv2_job_state", "1 for the state that the job is in, 0 for the others", (*_JOB, "state")),
    Metric("cdcv2_job_state_since_timestamp_seconds", "since when the job is in its state", _JOB),
    Metric("cdcv2_job_alive", "1: a process of the job runs", _JOB),
    Metric("cdcv2_job_runs", "how often the job was started", _JOB, total=True),
    Metric("cdcv2_job_deaths", "ends in a row without progress that were tried again at once", _JOB),
    Metric("cdcv2_job_last_exit", "exit code of the last run that reported its end; of a timer what it found", _JOB),
    Metric("cdcv2_job_frontier", "the first time that is not complete, where it is one number", _JOB),
    Metric("cdcv2_job_committed_timestamp_seconds", "when the source committed the last of what is complete", _JOB),
    Metric("cdcv2_job_stated_timestamp_seconds", "when the job wrote its newest event", _JOB),
    Metric("cdcv2_job_rows_held", "rows that the job holds as they are not complete", _JOB),
    Metric("cdcv2_table_seconds_behind", "age of the oldest commit that is missing in the log or the target", _TABLE),
    Metric("cdcv2_table_seconds_known", "0: it is not known how far the log or the target is behind", _TABLE),
    Metric("cdcv2_server_reachable", "1: the server answered the last question", ("server", "name")),
    Metric("cdcv2_connector_running", "1: the connector and its tasks run", ("source", "connector")),
    Metric("cdcv2_slot_there", "0: the server answers, and has no slot of that name", _SLOT),
    Metric("cdcv2_slot_active", "1: a connector reads the slot", _SLOT),
    Metric("cdcv2_slot_lost", "1: the server has removed WAL that the slot needs", _SLOT),
    Metric("cdcv2_slot_retained_bytes", "WAL that the server keeps for the slot", _SLOT),
    Metric("cdcv2_slot_safe_bytes", "WAL that may be written until the slot is in danger", _SLOT),
    Metric("cdcv2_slot_retained_share", "share of what max_slot_wal_keep_size lets the slot retain", _SLOT),
    Metric("cdcv2_topic_unread_records", "records of the topic that are not captured", _TOPIC),
    Metric("cdcv2_topic_lost_records", "records that were removed from the topic before they were captured", _TOPIC),
    Metric("cdcv2_topic_forgets_timestamp_seconds", "when the topic may forget the oldest unread record", _TOPIC),
    Metric("cdcv2_remap_hold_timestamp_seconds", "from when on the holder needs the remap", _HOLD),
    Metric("cdcv2_folder_free_bytes", "free bytes of the folder's disk", ("folder", "content")),
    Metric("cdcv2_folder_size_bytes", "all bytes of the folder's disk", ("folder", "content")),
    Metric("cdcv2_external_entries", "pieces of external state in this state", ("kind", "state")),
    Metric("cdcv2_external_owed", "pieces of external state of which something is to be done", ("reason",)),
    Metric("cdcv2_external_owed_since_timestamp_seconds", "since when the oldest of them is owed", ("reason",)),
    Metric("cdcv2_measured_timestamp_seconds", "when topics, remaps and disks were looked at"),
)


def samples_of(
    status: Mapping[str, Any], looked_at: float, entries: Iterable[Mapping[str, Any]], measured: Measurements | None
) -> list[MetricSample]:
    """All samples. ``status`` and ``entries`` are plain, as ``cdcv2 status --json`` and ``external --json`` have them.

    >>> nothing = {"pipeline": "shop", "owner": None, "owner_silent": None, "tables": [], "jobs": [], "sources": []}
    >>> samples_of(nothing, 7.0, [], None)[:2]  # doctest: +NORMALIZE_WHITESPACE
    [MetricSample(name='cdcv2_kept_running', labels=(), value=0.0),
     MetricSample(name='cdcv2_up_silent_seconds', labels=(), value=0.0)]
    """
    found = [
        MetricSample("cdcv2_kept_running", (), float(status["owner"] is not None)),
        MetricSample("cdcv2_up_silent_seconds", (), float(status["owner_silent"] or 0)),
        MetricSample("cdcv2_status_timestamp_seconds", (), looked_at),
    ]
    for row in status["jobs"]:
        found += _job(row)
    for row in status["tables"]:
        labels = (row["table"], row["kind"], row["job"], row["target"] or "")
        found += _known("cdcv2_table_seconds_behind", labels, row["seconds_behind"])
        found.append(MetricSample("cdcv2_table_seconds_known", labels, float(row["seconds_behind"] is not None)))
    reachable: dict[tuple[str, str], bool] = {}
    for view in status["sources"]:
        found += _source(view, reachable)
    if measured is not None:
        reachable.update(measured.reachable)
        found += _measured(measured)
    found += [MetricSample("cdcv2_server_reachable", key, float(answers)) for key, answers in reachable.items()]
    return found + list(_external(list(entries)))


def _known(name: str, labels: tuple[str, ...], value: Any) -> Iterator[MetricSample]:
    """The sample, if there is a value."""
    if value is not None:
        yield MetricSample(name, labels, float(value))


def _job(row: Mapping[str, Any]) -> Iterator[MetricSample]:
    labels = (row["name"], row["kind"])
    for state in JobState:
        yield MetricSample("cdcv2_job_state", (*labels, state.value), float(row["state"] == state.value))
    yield from _known("cdcv2_job_state_since_timestamp_seconds", labels, row["since"] or None)
    yield MetricSample("cdcv2_job_alive", labels, float(row["alive"]))
    yield MetricSample("cdcv2_job_runs", labels, float(row["run"]))
    yield from _known("cdcv2_job_deaths", labels, row["deaths"])
    yield from _known("cdcv2_job_last_exit", labels, row["last_exit"])
    frontier = row["frontier"]
    if frontier is not None and len(frontier) == 1 and isinstance(frontier[0], int):
        yield MetricSample("cdcv2_job_frontier", labels, float(frontier[0]))
    yield from _known("cdcv2_job_committed_timestamp_seconds", labels, row["committed_at"])
    yield from _known("cdcv2_job_stated_timestamp_seconds", labels, row["event_at"])
    yield from _known("cdcv2_job_rows_held", labels, row["rows_held"])


def _source(view: Mapping[str, Any], reachable: dict[tuple[str, str], bool]) -> Iterator[MetricSample]:
    """A source's slot and connector; which of its servers answered goes to ``reachable``."""
    source, database, connector = view["source"], view["database"], view["connector"]
    for server, answer in (("database", database), ("connect", connector)):
        error = view["database_error" if server == "database" else "connector_error"]
        if answer is not None or error is not None:
            reachable[server, source] = error is None
    if connector is not None:
        yield MetricSample("cdcv2_connector_running", (source, connector["name"]), float(connector["runs"]))
    if database is None:
        return
    slot = database["slot"]
    yield MetricSample("cdcv2_slot_there", (source, database["slot_name"]), float(slot is not None))
    if slot is None:
        return
    labels = (source, slot["name"])
    yield MetricSample("cdcv2_slot_active", labels, float(slot["active"]))
    yield MetricSample("cdcv2_slot_lost", labels, float(slot["status"] == "lost"))
    yield from _known("cdcv2_slot_retained_bytes", labels, slot["retained"])
    yield from _known("cdcv2_slot_safe_bytes", labels, slot["left"])
    yield from _known("cdcv2_slot_retained_share", labels, retained_share(slot["retained"], slot["left"]))


def retained_share(retained: float | None, left: float | None) -> float | None:
    """The share of what the server lets a slot retain; None: it has no limit, or that is not known.

    ``left`` bytes may still be written until the limit, ``retained`` ones are written: together they are the limit.

    >>> retained_share(75, 25), retained_share(75, -5), retained_share(75, None)
    (0.75, 1.0, None)
    """
    if retained is None or left is None:
        return None
    return 1.0 if left <= 0 else max(0.0, retained) / (max(0.0, retained) + left)


def _measured(measured: Measurements) -> Iterator[MetricSample]:
    yield MetricSample("cdcv2_measured_timestamp_seconds", (), measured.at)
    for need in measured.topics:
        labels = (need.capture, need.topic)
        yield MetricSample("cdcv2_topic_unread_records", labels, float(need.unread))
        yield MetricSample("cdcv2_topic_lost_records", labels, float(need.lost))
        if need.oldest is not None and need.retention is not None:
            yield MetricSample("cdcv2_topic_forgets_timestamp_seconds", labels, need.oldest + need.retention)
    for hold in measured.holds:
        yield MetricSample("cdcv2_remap_hold_timestamp_seconds", (hold.remap, hold.holder, hold.identity), hold.since)
    for space in measured.folders:
        yield MetricSample("cdcv2_folder_free_bytes", (space.folder, space.content), float(space.free))
        yield MetricSample("cdcv2_folder_size_bytes", (space.folder, space.content), float(space.size))


def _external(entries: list[Mapping[str, Any]]) -> Iterator[MetricSample]:
    """How many entries each kind has in each state, and what is owed: 0, too, so that a change can be seen."""
    live = [state.value for state in EntryState if state is not EntryState.GONE]
    for kind in sorted({entry["kind"] for entry in entries}):
        for state in live:
            number = sum(entry["kind"] == kind and entry["state"] == state for entry in entries)
            yield MetricSample("cdcv2_external_entries", (kind, state), float(number))
    for reason in Reason:
        since = [entry["debt"]["since"] for entry in entries if entry["debt"] and entry["debt"]["reason"] == reason]
        yield MetricSample("cdcv2_external_owed", (reason.value,), float(len(since)))
        if since:
            yield MetricSample("cdcv2_external_owed_since_timestamp_seconds", (reason.value,), min(since))
