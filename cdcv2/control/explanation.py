"""The way to one table, capture, view or instance of a pipeline, as it is now: see :mod:`cdcv2.control.chain`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeAlias

from cdcv2.cli.options.capture_arguments import from_kafka
from cdcv2.connectors.debezium.config import heartbeat_topic
from cdcv2.connectors.kafka_moments import last_written_at
from cdcv2.control.chain import Link, first_fault, links
from cdcv2.control.chain_observation import ChainObservation, InstanceObservation, JobActivity, LockWait, LogObservation
from cdcv2.control.instance_fields import InstanceFields, place_mistake
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.log_tail import log_end
from cdcv2.control.parallel_requests import NOT_ASKED, ask_all
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.control.pipeline_probe import SourceObservation, slot_of
from cdcv2.control.pipeline_status import PipelineStatus, TableRow, bound_logs, captured_through, status_of
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.errors import UnavailableError, UsageError
from cdcv2.sql_names import parts_of
from cdcv2.store.kafka_client import Client
from cdcv2.store.postgres_session import connect
from cdcv2.suggestions import meant

#: Seconds that the target has to answer who blocks whom.
_PATIENCE = 4.0
#: Sessions of ours that wait for a lock, whom for, and on which table.
_BLOCKED = """
    SELECT a.pid, b.blocker, (SELECT min(c.relname) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c
                                ON c.oid = l.relation WHERE l.pid = a.pid AND c.relname = ANY(%s)),
           extract(epoch FROM clock_timestamp() - a.state_change)::float8
      FROM pg_catalog.pg_stat_activity a, LATERAL unnest(pg_blocking_pids(a.pid)) AS b(blocker)
     WHERE a.datname = current_database() AND a.usename = current_user AND a.wait_event_type = 'Lock'
       AND a.pid <> pg_backend_pid() ORDER BY 1, 2
"""


#: A way: from a capture, or logs of others; to a reader, or no further than the logs.
_Way: TypeAlias = tuple[CaptureFields | None, ViewFields | ReplayFields | None]


class Explanation(NamedTuple):
    """The way to one name: its links, the first that stands still, and how far the table rows of it are.

    ``hangs``: that the cdcv2 up that keeps the jobs does nothing, and what to do; None: it works, or there is none.
    """

    name: str
    links: list[Link]
    fault: Link | None
    tables: list[TableRow]
    hangs: str | None = None

    def to_plain(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "name": self.name, "links": [link.to_plain() for link in self.links],
            "fault": None if self.fault is None else self.fault.to_plain(),
            "tables": [row._asdict() for row in self.tables], "hangs": self.hangs,
        }


def explain(pipeline: Pipeline, name: str) -> list[Explanation]:
    """The ways to what is called so: a capture, view, replay, instance, a table (to all that hold it), or a target.

    Raises UsageError with what there is, and as :func:`~cdcv2.control.pipeline_status.status_of`.
    """
    status = status_of(pipeline)
    held = [part for part in pipeline.instances.values() if name in (*part.jobs, *part.index)]
    of_instances = [_way(pipeline, status, _capture_of(pipeline, part), None, part) for part in held]
    if any(name in part.jobs for part in held):
        return of_instances
    ways = _ways(pipeline, status, name, others=bool(held))
    return [*(_way(pipeline, status, capture, view) for capture, view in ways), *of_instances]


def explanations(pipeline: Pipeline, status: PipelineStatus) -> list[Explanation]:
    """The ways to all views, replays and instances, and to the captures that none of them reads, by a status."""
    views, instances = list(pipeline.readers.values()), list(pipeline.instances.values())
    read = {view.capture for view in views} | {part.capture for part in instances}
    found = [_way(pipeline, status, _capture_of(pipeline, view), view) for view in views]
    found += [_way(pipeline, status, capture, None) for name, capture in pipeline.captures.items() if name not in read]
    return [*found, *(_way(pipeline, status, _capture_of(pipeline, part), None, part) for part in instances)]


def _ways(
    pipeline: Pipeline, status: PipelineStatus, name: str, *, others: bool
) -> list[_Way]:
    if name in pipeline.captures:
        return [(pipeline.captures[name], None)]
    if name in pipeline.readers:
        return [(_capture_of(pipeline, pipeline.readers[name]), pipeline.readers[name])]
    views = [
        view for view in pipeline.readers.values()
        if name in {text for pair in bound_logs(view) for text in pair}
    ]
    captures = [row.job for row in status.tables if row.kind == "log" and row.table == name]
    if views:
        return [(_capture_of(pipeline, view), view) for view in views]
    if captures:
        # Where an instance holds the table, the way to its log is part of the way to that.
        return [] if others else [(pipeline.captures[capture], None) for capture in captures]
    if others:
        return []
    there = {*pipeline.captures, *pipeline.readers, *pipeline.instances, *(row.table for row in status.tables)}
    there |= {table for part in pipeline.instances.values() for table in part.index}
    targets = {row.target for row in status.tables if row.target is not None}
    names = sorted(there | targets)
    if name in pipeline.timers:
        raise UsageError(
            f"{pipeline.path}: {name} is a timer, and on no way of rows: cdcv2 status shows when it is due, and cdcv2 "
            f"output {pipeline.path} {name} what it found"
        )
    raise UsageError(
        f"{pipeline.path}: there is no job, instance, table or target {name!r}; there are {', '.join(names)}"
        f"{meant(name, names)}"
    )


def _capture_of(pipeline: Pipeline, part: ViewFields | ReplayFields | InstanceFields) -> CaptureFields | None:
    return None if part.capture is None else pipeline.captures[part.capture]


def _way(
    pipeline: Pipeline, status: PipelineStatus, capture: CaptureFields | None,
    view: ViewFields | ReplayFields | None, instance: InstanceFields | None = None,
) -> Explanation:
    names = {part.name for part in (capture, view) if part is not None}
    tables = [row for row in status.tables if row.job in names]
    lost, changed, owed, moved = (
        tuple(one for name in sorted(names) for one in things.get(name, ()))
        for things in (status.lost.of, status.lost.changed, status.lost.owed, status.lost.moved)
    )
    kept = status.owner is not None
    seen = ChainObservation(
        str(pipeline.path), time.time(), lost=lost, changed=changed, owed=owed, kept=kept, moved=moved,
        hangs=None if status.owner_silent is None else status.kept, disk=status.disk,
    )
    source = capture.source if capture is not None else None
    if source is not None:
        connector, found = source.connector, status.observation.sources.get(source.name, SourceObservation())
        seen = seen._replace(
            source=source.name, slot=slot_of(source), database=found.database, connector=found.connector,
            url=None if connector is None else connector.url, login=None if connector is None else connector.login,
            made_by_up=connector is not None and connector.owned,
            connector_name=source.name if connector is None else connector.name,
        )
    if capture is not None:
        logs = [row for row in tables if row.kind == "log"]
        end = log_end(capture.arguments.into, [row.table for row in logs])
        stop = None if end.stop is None else (end.stop.reason, end.stop.remedy)
        frontier = logs[0].frontier if logs else None
        seen = seen._replace(
            topics=status.observation.topics.get(capture.name, NOT_ASKED),
            capture=_activity(pipeline, status, capture.name),
            log=LogObservation(capture.into.text(), frontier, end.moved_at, stop, end.error),
            captured=captured_through(capture, frontier),
        )
        beat_at, beat_every = _beats(pipeline, capture)
        seen = seen._replace(beat_at=beat_at, beat_every=beat_every)
    if view is not None:
        seen = seen._replace(
            view=_activity(pipeline, status, view.name), target=status.observation.targets.get(view.name, NOT_ASKED),
            blocked=_blocked(view), of_reader=tuple(
                one for things in (status.lost.of, status.lost.moved, status.lost.owed)
                for one in things.get(view.name, ())
            ),
        )
    if instance is not None:
        seen = seen._replace(instance=_instance(pipeline, status, instance))
    found_links = links(seen)
    name = next((part.name for part in (instance, view, capture) if part is not None), "")
    return Explanation(name, found_links, first_fault(found_links), tables, seen.hangs)


def _instance(pipeline: Pipeline, status: PipelineStatus, part: InstanceFields) -> InstanceObservation | None:
    controller, *replicas = (_activity(pipeline, status, job) for job in part.jobs)
    if controller is None:
        return None
    there = tuple(one for one in replicas if one is not None)
    return InstanceObservation(str(part.place), place_mistake(part), controller, there)


def _activity(pipeline: Pipeline, status: PipelineStatus, name: str) -> JobActivity | None:
    row = status.job(name)
    if row is None:
        return None
    folder = JobFolder(folder_of(pipeline) / name)
    return JobActivity(row, folder.moved_at(), folder.printed_at())


def _beats(pipeline: Pipeline, capture: CaptureFields) -> tuple[float | None, float | None]:
    """When the connector of a capture wrote its last heartbeat, and how often it is to write one, as far as known."""
    source = capture.source
    if source is None or source.connector is None or not from_kafka(capture.arguments):
        return None, None
    connector = source.connector
    bootstrap, config = pipeline.kafka
    topic = heartbeat_topic(source.prefix)

    def last() -> float | None:
        return last_written_at(Client(bootstrap, config, patience=_PATIENCE), topic)

    def every() -> float | None:
        client = connector.client(patience=_PATIENCE)
        settings = None if client is None else client.config(connector.name)
        milliseconds = str((settings or {}).get("heartbeat.interval.ms", "0"))
        return int(milliseconds) / 1000 if settings is not None and milliseconds.isdecimal() else None

    questions: dict[str, Callable[[], float | None]] = {"last": last, "every": every}
    answers = ask_all(questions, _PATIENCE)
    return answers["last"].value, answers["every"].value


def _blocked(view: ViewFields | ReplayFields) -> LockWait | None:
    """Who holds a lock in PostgreSQL that the session of a view waits for."""
    if isinstance(view, ReplayFields):
        return None
    target = dict(view.fields["target"].entries())
    if target["driver"].text() != "postgres":
        return None
    conninfo = target["conninfo"].conninfo() if "conninfo" in target else ""
    names = [parts_of(name)[-1] for _, name in bound_logs(view)]

    def question() -> LockWait | None:
        import psycopg

        with closing(connect(conninfo, origin=f"the target of {view.name}", autocommit=True, patience=3.0)) as session:
            try:
                rows = session.execute(_BLOCKED, (names,)).fetchall()
            except psycopg.Error as cause:
                raise UnavailableError(f"PostgreSQL does not name its locks ({type(cause).__name__})") from None
        for pid, blocker, table, seconds in rows:
            return LockWait(
                f"its session (process {pid}) waits {seconds:.0f} s for a lock"
                f"{f' on {table}' if table else ''} that process {blocker} of PostgreSQL holds", blocker,
            )
        return None

    answer: LockWait | None = ask_all({"blocked": question}, _PATIENCE)["blocked"].value
    return answer
