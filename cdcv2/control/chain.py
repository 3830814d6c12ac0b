"""The way of a table's rows, link by link, and the first link that stands still: decided on what was seen.

::

    server -> slot -> connector -> topic -> capture -> log -> reader -> target
                                                           -> replica -> instance

Each link has a measure of its own (an LSN, an offset, a transaction, a frontier) and a moment at which it moved last. A
link stands still if one of its faults is seen; a link that only waits for the one before it has none. So the first
link with a fault is the cause: once it is mended, those behind it follow. The connector depends on a later one: Connect
keeps its state in Kafka, and a connector writes there. Where Kafka does not answer, it has no fault of its own.

The file is long as it has all links: which one is named depends on what those before it state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cdcv2.completeness import through_text
from cdcv2.control.chain_observation import ChainObservation, InstanceObservation, JobActivity, LogObservation
from cdcv2.control.entries import Kind
from cdcv2.control.lost_state import MissingState
from cdcv2.control.observations import MISSING, ConnectorObservation, DatabaseObservation, SlotObservation
from cdcv2.control.parallel_requests import NOT_ASKED
from cdcv2.control.pipeline_probe import TopicEnds
from cdcv2.control.pipeline_status import JobRow
from cdcv2.control.seconds_behind import OTHER_SERVER, ends_before
from cdcv2.core.antichain import Antichain
from cdcv2.store.connect_client import curl

#: Seconds without a move until a wait is a fault; and without an event until a job is silent: a job has one at least
#: every ten seconds, but it may be in one long step. Less where its input has moved meanwhile.
STILL, SILENT, SILENT_WITH_INPUT = 10.0, 60.0, 20.0
_RESNAPSHOTS = "docs/operations/resnapshots.md#the-slot-was-lost"
_START_OVER = "docs/operations/start-over.md"
#: How to go on, or start over, by what is lost.
_SOMETHING_LOST = f"{_START_OVER}#something-is-lost"
_MOVE = "docs/operations/move-servers.md"
#: The links at which the catalogue's things are named that are no part of a target.
_KINDS = {
    "slot": (Kind.SLOT, Kind.PUBLICATION), "connector": (Kind.CONNECTOR,), "topic": (Kind.TOPIC,),
    "log": (Kind.STATE_FOLDER, Kind.REMAP),
}
_NEW_LOGS = "docs/operations/stops.md#permanent-stops"
#: How far a link is whose thing is lost. A slot in doubt is another case: whose it is is not known.
_IN_PART = "changes may be missing"


class Link(NamedTuple):
    """A link of the way.

    - ``kind``: which of the ten; ``name``: of this one; ``measure``: how far it is, in words.
    - ``moved_at``: when it moved last, in seconds since 1970; None: not known.
    - ``fault``: why it stands still; None: it does not. ``place``: topic, partition, offset, transaction, table, as far
      as known. ``remedy``: what mends it.
    """

    kind: str
    name: str
    measure: str
    moved_at: float | None = None
    fault: str | None = None
    place: Mapping[str, Any] = {}
    remedy: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**self._asdict(), "place": dict(self.place)}


def links(seen: ChainObservation) -> list[Link]:
    """The links of the way, each with its fault, if it has one."""
    found: list[Link] = []
    if seen.source is not None:
        found += [_server(seen), _slot(seen), _connector(seen)]
    if seen.topics != NOT_ASKED:
        found.append(_topic(seen))
    if seen.capture is not None:
        found.append(_job(seen, "capture", seen.capture, _capture_fault(seen, seen.capture)))
    if seen.log is not None:
        found.append(_log(seen.log))
    if seen.view is not None:
        found.append(_job(seen, "reader", seen.view, _reader_fault(seen, seen.view)))
        found.append(_target(seen, seen.view))
    if seen.instance is not None:
        found += [_job(seen, "replica", one, _replica_fault(seen, one)) for one in seen.instance.replicas]
        found.append(_instance(seen, seen.instance))
    return [_with_entries(seen, link) for link in found]


def _with_entries(seen: ChainObservation, link: Link) -> Link:
    """The link, with what the catalogue has of it as lost, or on another server: that comes first, whatever it does."""
    of_reader = link.kind == "target"
    kinds = tuple(Kind) if of_reader else _KINDS.get(link.kind, ())
    found = _entry(seen, kinds, of_reader=of_reader)
    if found is None:
        return link
    one, remedy = found
    name = f"{link.name}, which reads by the publication {one.name}" if one.kind is Kind.PUBLICATION else link.name
    if remedy == _SOMETHING_LOST and link.kind in ("slot", "connector"):
        # Whatever it sends now, something before is missing.
        return Link(link.kind, name, _IN_PART, None, one.text, {one.kind.value: one.name}, remedy)
    return link._replace(name=name, fault=one.text, place={one.kind.value: one.name}, remedy=remedy)


def _entry(seen: ChainObservation, kinds: Collection[Kind], *, of_reader: bool) -> tuple[MissingState, str] | None:
    """The first thing of these kinds that is lost, or else on another server, and what to do."""
    for things, remedy in ((seen.lost, _SOMETHING_LOST), (seen.moved, f"cdcv2 external {seen.file}; {_MOVE}")):
        for one in things:
            if one.kind in kinds and (one in seen.of_reader) is of_reader:
                return one, remedy
    return None


def first_fault(found: Iterable[Link]) -> Link | None:
    """The first link that stands still."""
    return next((link for link in found if link.fault is not None), None)


class _Fault(NamedTuple):
    text: str
    remedy: str | None
    place: Mapping[str, Any] = {}


def _server(seen: ChainObservation) -> Link:
    name, database = f"database of {seen.source}", seen.database.value
    if seen.database.error is not None:
        part = f"the conninfo of the source {seen.source} in {seen.file}"
        remedy = f"start it, or mend {part}; then cdcv2 doctor {seen.file}"
        return Link("server", name, "no answer", None, seen.database.error, {}, remedy)
    if database is None:
        return Link("server", name, "not asked: the file names no conninfo")
    measure = f"WAL up to {lsn_text(database.position)}"
    if ends_before(database.position, seen.captured):
        fault = f"{OTHER_SERVER}; the logs are complete through {lsn_text(seen.captured)}"
        remedy = f"let the conninfo name the server that was captured; if it was restored, start over: {_START_OVER}"
        return Link("server", name, measure, database.at, fault, {}, remedy)
    return Link("server", name, measure, database.at)


def _slot(seen: ChainObservation) -> Link:
    name, database = f"{seen.slot}", seen.database.value
    if not isinstance(database, DatabaseObservation):
        return Link("slot", name, "not asked")
    slot = database.slot
    if slot is None and _has_captured(seen):
        fault = f"there is no replication slot {name}: what was committed since it was dropped is lost"
        return Link("slot", name, "not there", None, fault, {"slot": name}, f"resnapshot: {_RESNAPSHOTS}")
    if slot is None:
        return Link("slot", name, "not there yet: the connector makes it")
    moved = database.at if slot.active else None
    if slot.being_made and _has_captured(seen):
        fault = f"{name} was dropped, and is being made again: what was committed since it was dropped is lost"
        return Link("slot", name, "it is being made", None, fault, {"slot": name}, f"resnapshot: {_RESNAPSHOTS}")
    if slot.being_made:
        remedy = "look again, with cdcv2 explain" if slot.oldest is None else slot.oldest.remedy
        return Link("slot", name, "it is being made", None, slot.awaits, {"slot": name}, remedy)
    # What is sent is shown to few roles.
    sent = "" if slot.sent is None else f"sent {lsn_text(slot.sent)}, "
    measure = f"confirmed {lsn_text(slot.confirmed)}, {sent}WAL {slot.status}"
    found = _slot_fault(seen, slot)
    if found is None:
        return Link("slot", name, measure, moved)
    return Link("slot", name, measure, moved, found.text, {"slot": name}, found.remedy)


def _slot_fault(seen: ChainObservation, slot: SlotObservation) -> _Fault | None:
    if slot.status == "lost":
        return _Fault(f"the server has removed WAL that the slot {slot.name} needs: changes are lost",
                      f"resnapshot: {_RESNAPSHOTS}")  # fmt: skip
    connector = seen.connector.value
    if not slot.active and isinstance(connector, ConnectorObservation) and connector.runs and not seen.without_kafka:
        return _Fault(f"the connector runs, and does not read from the slot {slot.name}",
                      "see Connect's log: another connector may have the slot, or the role may not replicate")
    return None


def _connector(seen: ChainObservation) -> Link:
    link = _own_connector(seen)
    value = seen.connector.value
    # A person has paused or removed it, whatever became of Kafka.
    states = {value.state, *value.tasks} if isinstance(value, ConnectorObservation) else set[str]()
    meant = bool(states & {MISSING, "PAUSED", "STOPPED"})
    if states and _makes_its_slot(seen) and "FAILED" not in states:
        # It has no task before its slot is made, and starting it again would begin that again.
        return link if meant else link._replace(fault=None, place={}, remedy=None)
    return link._replace(fault=None, place={}, remedy=None) if seen.without_kafka and not meant else link


def _makes_its_slot(seen: ChainObservation) -> bool:
    database = seen.database.value
    return isinstance(database, DatabaseObservation) and database.slot is not None and database.slot.being_made


def _own_connector(seen: ChainObservation) -> Link:
    connector, name = seen.connector.value, seen.connector_name or "connector"
    if seen.connector.error is not None:
        start = f"start Kafka Connect at {seen.url}, or mend url: in {seen.file}"
        remedy = start if seen.connector.away else f"cdcv2 doctor {seen.file}"
        return Link("connector", name, "no answer", None, seen.connector.error, {}, remedy)
    if not isinstance(connector, ConnectorObservation):
        database = seen.database.value
        slot = database.slot if isinstance(database, DatabaseObservation) else None
        if slot is not None and not slot.active:
            fault = f"no connector reads from the slot {slot.name}"
            return Link("connector", name, "not asked: the file names no url", None, fault, {"slot": slot.name},
                        f"start the connector that reads from {slot.name}, and read its log")  # fmt: skip
        return Link("connector", name, "not asked: the file names no url")
    if connector.state == MISSING and seen.made_by_up:
        # The connector comes last, so it waits for all that is lost, on another server, or owed.
        found = _entry(seen, tuple(Kind), of_reader=False)
        owed = next((one.text for one in seen.owed if one not in seen.of_reader), None)
        first = owed if found is None else found[0].text
        fault = f"Connect has no connector {name}: cdcv2 up {'makes it' if first is None else f'waits: {first}'}"
        remedy = f"cdcv2 {'up' if first is None and not seen.kept else 'external'} {seen.file}"
        remedy = remedy if found is None else found[1]
        return Link("connector", name, "not there", None, fault, {}, remedy)
    if connector.state == MISSING:
        made = curl(f"-X PUT -H 'Content-Type: application/json' -d @connector.json {_at(seen)}/config", seen.login)
        return Link("connector", name, "not there", None, f"Connect has no connector {name}", {}, made)
    measure = f"{connector.state}; tasks: {', '.join(connector.tasks) or 'none'}"
    if connector.runs:
        return _changed(seen, _running(seen, Link("connector", name, measure)))
    states = {connector.state, *connector.tasks}
    if "FAILED" in states:
        return Link("connector", name, measure, None, f"it has failed: {connector.reason or 'see the log of Connect'}",
                    {}, f"mend the cause; then {_restart(seen, '&onlyFailed=true')}")
    if states & {"PAUSED", "STOPPED"}:
        return Link("connector", name, measure, None, f"it is {connector.state.lower()}", {},
                    curl(f"-X PUT {_at(seen)}/resume", seen.login))  # fmt: skip
    fault = f"it is {connector.state.lower()}" if connector.tasks else "it has no task"
    return Link("connector", name, measure, None, fault, {}, _restart(seen))


def _changed(seen: ChainObservation, link: Link) -> Link:
    """One that runs with other settings than those of the file: what it sends is not known."""
    other = next((one for one in seen.changed if one.kind in (Kind.CONNECTOR, Kind.PUBLICATION)), None)
    if link.fault is not None or other is None:
        return link
    return link._replace(fault=other.text, place={other.kind.value: other.name}, remedy=f"cdcv2 external {seen.file}")


def _running(seen: ChainObservation, link: Link) -> Link:
    """One that runs. It may be unable to write: its producer tries again for long, and Connect reports nothing."""
    ends, database = seen.topics.value, seen.database.value
    if seen.beat_at is None or not isinstance(ends, TopicEnds) or not isinstance(database, DatabaseObservation):
        return link
    last = ends.last.written_at if ends.last is not None else None
    moved = max(seen.beat_at, last or 0.0)
    silent = seen.now - moved
    # While it takes a snapshot, or looks for its place in WAL, it may write no heartbeat.
    reads = database.slot is not None and database.slot.active
    # Two in a row did not come; and one that writes none is not silent.
    patience = SILENT if seen.beat_every is None else max(SILENT, 2 * seen.beat_every)
    if not reads or seen.beat_every == 0 or silent <= patience:
        return link._replace(moved_at=moved)
    fault = f"it runs, and for {silent:.0f} s nothing of it has arrived in Kafka, not even a heartbeat"
    remedy = f"see Connect's log, and whether it reaches Kafka; then {_restart(seen)}"
    return link._replace(moved_at=moved, fault=fault, remedy=remedy)


def _restart(seen: ChainObservation, more: str = "") -> str:
    return curl(f"-X POST '{_at(seen)}/restart?includeTasks=true{more}'", seen.login)


def _at(seen: ChainObservation) -> str:
    return f"{(seen.url or '').rstrip('/')}/connectors/{seen.connector_name}"


def _topic(seen: ChainObservation) -> Link:
    ends = seen.topics.value
    if not isinstance(ends, TopicEnds):
        start = f"start Kafka, or mend kafka: in {seen.file}; then " if seen.without_kafka else ""
        name, remedy = "Kafka" if start else "the transaction topic", f"{start}cdcv2 doctor {seen.file}"
        return Link("topic", name, "no answer", None, seen.topics.error, {}, remedy)
    if ends.last is None:
        return Link("topic", ends.name, f"no transaction yet; ends at offset {ends.end}")
    last = ends.last
    measure = f"END {lsn_text(last.lsn)} of transaction {last.tx} at offset {last.offset}; ends at offset {ends.end}"
    return Link("topic", ends.name, measure, last.written_at)


def _log(log: LogObservation) -> Link:
    measure = "not known" if log.frontier is None else through_text(log.frontier, word="stated")
    if log.stop is not None:
        reason, remedy = log.stop
        return Link("log", log.name, measure, log.moved_at, f"a stop is kept in it: {reason}", {},
                    f"{remedy} ({_NEW_LOGS})")  # fmt: skip
    if log.error is not None:
        return Link("log", log.name, measure, log.moved_at, log.error, {}, f"cdcv2 verify {log.name}")
    return Link("log", log.name, measure, log.moved_at)


def _job(seen: ChainObservation, kind: str, job: JobActivity, fault: _Fault | None) -> Link:
    row = job.row
    measure = f"{row.state}; {row.through}"
    if fault is None:
        return Link(kind, row.name, measure, job.moved_at)
    return Link(kind, row.name, measure, job.moved_at, fault.text, fault.place, fault.remedy)


def _capture_fault(seen: ChainObservation, capture: JobActivity) -> _Fault | None:
    """One whose slot is being made waits for that, or for what has that."""
    if _makes_its_slot(seen) and capture.row.state not in ("held", "paused"):
        return None
    # A log of another one cannot have moved: it is the capture that writes it.
    fault = _job_fault(seen, capture, _topic_moved_at(seen), _log_moved_at(seen))
    return _after_entries(seen, capture, fault, of_reader=False)


def _after_entries(seen: ChainObservation, job: JobActivity, fault: _Fault | None, *, of_reader: bool) -> _Fault | None:
    """The fault of a job that waits, or does not run, with what to do about what it needs: no start comes by itself."""
    if fault is None or job.row.state in ("held", "paused"):
        return fault
    found = _entry(seen, tuple(Kind), of_reader=of_reader)
    if found is not None:
        return fault._replace(remedy=found[1])
    owed = any((one in seen.of_reader) is of_reader for one in seen.owed)
    return fault._replace(remedy=f"cdcv2 external {seen.file}") if owed and not job.row.alive else fault


def _reader_fault(seen: ChainObservation, view: JobActivity) -> _Fault | None:
    """One that its target hinders waits for that, or has ended for it, and is tried again."""
    hindered = seen.target.error is not None or seen.blocked is not None
    if hindered and view.row.state not in ("held", "paused"):
        return None
    return _after_entries(seen, view, _job_fault(seen, view, _log_moved_at(seen)), of_reader=True)


def _replica_fault(seen: ChainObservation, replica: JobActivity) -> _Fault | None:
    """One that waits for its controller has no fault: that is the link behind it."""
    waits = [wait for wait in _waits(replica.row) if wait.get("what") != "controller"]
    return _job_fault(seen, replica._replace(row=replica.row._replace(waits=waits)), _log_moved_at(seen))


def _instance(seen: ChainObservation, instance: InstanceObservation) -> Link:
    link = _job(seen, "instance", instance.controller, _job_fault(seen, instance.controller))
    link = link._replace(measure=f"{link.measure}; at {instance.place}")
    if instance.fault is None:
        return link
    return link._replace(fault=instance.fault, remedy=f"mend its place in {seen.file}; then cdcv2 up {seen.file}")


def _topic_moved_at(seen: ChainObservation) -> float | None:
    ends = seen.topics.value
    return ends.last.written_at if isinstance(ends, TopicEnds) and ends.last is not None else None


def _log_moved_at(seen: ChainObservation) -> float | None:
    return None if seen.log is None else seen.log.moved_at


def _job_fault(
    seen: ChainObservation, job: JobActivity, input_moved_at: float | None = None, wrote_at: float | None = None
) -> _Fault | None:
    """Why a job stands still, of its own making or for what it waits for.

    ``input_moved_at``: when what it reads moved last, ``wrote_at``: when what it writes did, in seconds since 1970;
    None: not known.
    """
    row = job.row
    if row.state == "held":
        return _Fault(f"it is held: {row.reason}", f"{_mended(row)}; then {_release(seen, row.name)}")
    if row.state == "finished":
        return None
    if row.state == "paused":
        return _Fault(f"it is {row.reason}", f"cdcv2 resume {seen.file} {row.name}")
    if not row.alive:
        why = f": {row.reason}" if row.reason else ""
        return _Fault(f"it does not run{why}", f"{_mended(row)}; {_start(seen)}")
    if row.event_at is not None:
        silent, has_input = seen.now - row.event_at, (input_moved_at or 0.0) > row.event_at
        limit = SILENT_WITH_INPUT if has_input else SILENT
        if silent > limit and seen.disk is not None:
            return _Fault(f"it has stated nothing for {silent:.0f} s, as it cannot: {seen.disk}",
                          f"mend that first; then look again, with cdcv2 explain {seen.file}")  # fmt: skip
        worked_at = max((at for at in (job.printed_at, wrote_at) if at is not None), default=0.0)
        if silent > limit and seen.now - worked_at > limit:
            meanwhile = ", and its input has moved" if has_input else ""
            ended = "" if row.reason is None else f". When it ended last: {row.reason}"
            text = f"it has stated nothing for {silent:.0f} s{meanwhile}: it hangs, or is in one long step{ended}"
            return _Fault(text, f"read {row.output}; {_restart_of(seen, row.name)}")  # fmt: skip
    if row.reason is not None and row.state != "stopping":
        # As long as it counts: else it would stand still only in the pauses between two runs.
        return _Fault(f"it runs again, and has come no further than when it ended: {row.reason}",
                      f"{_mended(row)}; it continues by itself then")  # fmt: skip
    if job.moved_at is not None and seen.now - job.moved_at < STILL:
        return None
    for wait in _waits(row):
        if wait.get("what") != "records":
            return _Fault(f"it waits: {wait.get('text')}", _wait_remedy(seen, wait), dict(wait.get("place") or {}))
    return None


def _waits(row: JobRow) -> Iterator[Mapping[str, Any]]:
    return (wait for wait in row.waits if isinstance(wait, Mapping))


def _mended(row: JobRow) -> str:
    """How to mend what ended it."""
    return row.remedy.rstrip(".") if row.remedy else f"read {row.output}"


def _start(seen: ChainObservation) -> str:
    """What starts a job that waits for its next start."""
    if seen.hangs is not None:
        return seen.hangs
    return "cdcv2 up, which runs, starts it again by itself" if seen.kept else f"then cdcv2 up {seen.file}"


def _release(seen: ChainObservation, name: str) -> str:
    """What starts one that is held."""
    if seen.hangs is not None:
        return seen.hangs
    if seen.kept:
        return f"cdcv2 pause {seen.file} {name}, and cdcv2 resume {seen.file} {name}"
    return f"cdcv2 up {seen.file} --start-held {name}"


def _restart_of(seen: ChainObservation, name: str) -> str:
    return f"if it hangs, cdcv2 pause {seen.file} {name} ends it, and cdcv2 resume {seen.file} {name} starts it again"


def _wait_remedy(seen: ChainObservation, wait: Mapping[str, Any]) -> str:
    what = wait.get("what")
    if what == "decision":
        return "cdcv2 resolve: docs/operations/contradictions.md#what-to-do"
    if what == "unavailable":
        return f"start the server that it names; then cdcv2 doctor {seen.file}"
    if what == "replica":
        name = str(dict(wait.get("place") or {}).get("replica")).rpartition("/")[2].removesuffix(".sock")
        return f"cdcv2 output {seen.file} {name}; {_restart_of(seen, name)}"
    if what in ("statements", "updates") and seen.log is not None:
        return f"cdcv2 verify {seen.log.name}"
    return f"cdcv2 doctor {seen.file}; docs/operations/stands-still.md#the-capture-waits"


def _target(seen: ChainObservation, view: JobActivity) -> Link:
    name = view.row.name
    if seen.target.error is not None:
        start = f"start it, or mend the target of {name} in {seen.file}; then " if seen.target.away else ""
        measure = "no answer" if start else "not known"
        return Link("target", name, measure, None, seen.target.error, {}, f"{start}cdcv2 doctor {seen.file}")
    at = seen.target.value
    measure = "nothing is committed yet" if at is None else through_text(at)
    if seen.blocked is not None:
        return Link("target", name, measure, view.moved_at, seen.blocked.text, {"process": seen.blocked.holder},
                    "let that session end its transaction; or, in the target: "
                    f"SELECT pg_terminate_backend({seen.blocked.holder})")  # fmt: skip
    stated = None if seen.log is None else seen.log.frontier
    behind = at is not None and stated is not None and not _frontier(at).dominates(_frontier(stated))
    still = view.moved_at is not None and seen.now - view.moved_at > SILENT
    if view.row.alive and behind and still:
        return Link("target", name, measure, view.moved_at, "it takes no commit, and its log is further", {},
                    f"read {view.row.output}; cdcv2 doctor {seen.file}")  # fmt: skip
    return Link("target", name, measure, view.moved_at)


def _frontier(plain: Iterable[object]) -> Antichain:
    return Antichain.from_plain(plain)


def _has_captured(seen: ChainObservation) -> bool:
    """Whether something has come through the slot: then it must be there."""
    ends = seen.topics.value
    if isinstance(ends, TopicEnds) and ends.last is not None:
        return True
    return seen.capture is not None and seen.capture.row.frontier not in (None, [0], [1])


def lsn_text(lsn: int | None) -> str:
    """An LSN as PostgreSQL writes it, and as the number that a time is.

    >>> lsn_text(101936016), lsn_text(None)
    ('0/6136B90 (101936016)', 'not known')
    """
    return "not known" if lsn is None else f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X} ({lsn})"
