"""What the page shows, as values: decided on a status, the ways to its tables, and the catalogue of external state.

Words only: how it looks is decided in :mod:`cdcv2.control.page.drawing`. No clock and no connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from enum import StrEnum
from typing import Any, NamedTuple

from cdcv2.control.age import age
from cdcv2.control.chain import Link, lsn_text
from cdcv2.control.explanation import Explanation
from cdcv2.control.pipeline_status import JobRow, PipelineStatus, TableRow
from cdcv2.control.status_picture import pipeline_picture
from cdcv2.viz.draw_pipeline import PipelinePicture

#: The links of a way that a log needs; those behind it are of its readers.
_OF_LOGS = ("server", "slot", "connector", "topic", "capture", "log")
#: States of external state in which there is nothing to do; and the reason of what is only waited for.
_SETTLED, _AWAITED = ("made", "in use"), "awaited"


class Tone(StrEnum):
    """Whether something is well; a text beside it states the same."""

    GOOD = "good"
    BAD = "bad"
    CALM = "calm"


class PageVerdict(StrEnum):
    """How it all stands, in words."""

    NOTHING = "nothing is there yet"
    WELL = "all is well"
    ATTENTION = "something needs attention"
    CHANGING = "not all is there yet"


class PageMoment(NamedTuple):
    """Since when: as a clock shows it, as programs read it, and how long that is."""

    shown: str
    iso: str
    age: str


class PageFault(NamedTuple):
    """Something that a person has to look at.

    - ``where``: what it is about; ``what``: what is wrong with it; ``place``: where, as far as known.
    - ``remedy``: what mends it; ``blocks``: the tables and targets that wait for it.
    - ``moved``: when it moved last; ``since``: since when it is so.
    - ``way``: all links of the way, with how far each is; empty where there is none.
    """

    where: str
    what: str
    place: str
    remedy: str | None
    blocks: tuple[str, ...]
    moved: PageMoment | None = None
    since: PageMoment | None = None
    way: tuple[tuple[str, str], ...] = ()


class PageTable(NamedTuple):
    """A table in a log, or in a target.

    ``copy``: which of the two; ``behind``: how far, ``why``: what that number means, where it needs words; ``through``:
    complete through which time; ``waits``: what it waits for, or the :attr:`PageFault.where` of its ``fault``.
    """

    table: str
    copy: str
    tone: Tone
    state: str
    behind: str
    why: str
    through: str
    waits: tuple[str, ...]
    fault: str | None


class PageJob(NamedTuple):
    """A job: its state and since when, how far it is, what it waits for, and the file with what it prints."""

    name: str
    kind: str
    tone: Tone
    state: str
    since: PageMoment | None
    through: str
    stated: PageMoment | None
    waits: tuple[str, ...]
    remedy: str | None
    output: str


class PageSource(NamedTuple):
    """A server, slot, connector or topic that rows come from, with how far it is."""

    source: str
    part: str
    tone: Tone
    state: str
    detail: str


class PageEntry(NamedTuple):
    """Something in another system: whose it is, what it is known by, and what is still to be done."""

    name: str
    address: str
    owner: str
    tone: Tone
    state: str
    since: PageMoment | None
    users: tuple[str, ...]
    identity: str | None
    waits: tuple[str, ...]


class PageModel(NamedTuple):
    """The whole page. ``file``: the pipeline file, as its commands name it; ``kept``: which process keeps the jobs.

    Each section is a field. One that comes later is a field more, and a function of :mod:`cdcv2.control.page.drawing`.
    """

    pipeline: str
    file: str
    kept: str
    verdict: PageVerdict
    faults: tuple[PageFault, ...]
    picture: PipelinePicture
    tables: tuple[PageTable, ...]
    jobs: tuple[PageJob, ...]
    sources: tuple[PageSource, ...]
    entries: tuple[PageEntry, ...]


def page_model(
    status: PipelineStatus, ways: Sequence[Explanation], entries: Sequence[Mapping[str, Any]], file: str, now: float
) -> PageModel:
    """The page. ``ways``: to each view, and to each capture without one, of this status; ``entries``: of the catalogue,
    plain; ``now``: in seconds since 1970.
    """
    tables = tuple(_table(row, status, ways) for row in status.tables)
    picture = pipeline_picture(status, lambda row: _fault_of(row, ways) is not None)
    faults = tuple(_faults(status, ways, entries, file, now))
    return PageModel(
        status.pipeline, file, status.kept, _verdict(status, faults), faults, picture, tables,
        tuple(_job(row, now) for row in status.jobs), tuple(_sources(status)),
        tuple(_entry(entry, now) for entry in entries),
    )


def _verdict(status: PipelineStatus, faults: Sequence[PageFault]) -> PageVerdict:
    if faults:
        return PageVerdict.ATTENTION
    if all(row.frontier is None for row in status.tables):
        return PageVerdict.NOTHING
    complete = status.well and all(row.frontier is not None for row in status.tables)
    return PageVerdict.WELL if complete else PageVerdict.CHANGING


def _faults(
    status: PipelineStatus, ways: Sequence[Explanation], entries: Sequence[Mapping[str, Any]], file: str, now: float
) -> Iterator[PageFault]:
    """The first fault of each way, once, with all that waits for it; then what does not follow when that is mended."""
    found: dict[tuple[str, str], PageFault] = {}
    for way in ways:
        fault = way.fault
        if fault is None:
            continue
        same = found.setdefault((fault.kind, fault.name), _of_link(fault, way, (), now))
        blocks = [_copy_name(row) for row in way.tables if _fault_of(row, [way]) is not None]
        found[fault.kind, fault.name] = same._replace(blocks=tuple(dict.fromkeys([*same.blocks, *blocks])))
    held = {job.name for job in status.jobs if job.state == "held"}
    for way in ways:
        for link in way.links:
            if link.kind in ("capture", "reader") and link.name in held and (link.kind, link.name) not in found:
                found[link.kind, link.name] = _of_link(link, way, (), now)
    if status.owner_silent is not None:
        yield PageFault("cdcv2 up", status.kept, "", None, (), since=_moment(now - status.owner_silent, now))
    yield from found.values()
    explained = {link.name for way in ways if way.fault is not None for link in way.links}
    for job in status.jobs:
        # One that is on no way of rows, as a timer.
        if job.name not in explained and job.reason is not None:
            remedy = job.remedy or f"cdcv2 output {file} {job.name}"
            yield PageFault(f"{job.kind} {job.name}", job.reason, "", remedy, (), since=_moment(job.since, now))
    for entry in entries:
        if _hinders(entry):
            yield _of_entry(entry, now)


def _of_link(fault: Link, way: Explanation, blocks: Iterable[str], now: float) -> PageFault:
    place = ", ".join(f"{name} {value}" for name, value in fault.place.items())
    links = tuple((f"{link.kind} {link.name}", link.measure) for link in way.links)
    return PageFault(
        _where(fault), fault.fault or "", place, fault.remedy, tuple(blocks), _moment(fault.moved_at, now), None, links
    )


def _where(link: Link) -> str:
    return f"{link.kind} {link.name}"


def _of_entry(entry: Mapping[str, Any], now: float) -> PageFault:
    debt = entry["debt"]
    if debt is None:
        what, since = "it is lost: only a person can decide what to do", entry["since"]
    else:
        tried = f", tried {debt['tries']} times" if debt["tries"] > 1 else ""
        what, since = f"{debt['reason']}{tried}: {debt['text']}", debt["since"]
    return PageFault(
        f"{entry['kind']} {entry['name']}", what, entry["address"], None, tuple(entry["users"]),
        since=_moment(since, now),
    )


def _hinders(entry: Mapping[str, Any]) -> bool:
    """Whether a person has to look at it."""
    debt = entry["debt"]
    return bool(entry["state"] == "lost" or (debt is not None and debt["reason"] != _AWAITED))


def _table(row: TableRow, status: PipelineStatus, ways: Sequence[Explanation]) -> PageTable:
    fault, job = _fault_of(row, ways), status.job(row.job)
    copy = "log" if row.target is None else f"{row.job}: {row.target}"
    waits = () if job is None else tuple(job.awaited)
    tone = Tone.GOOD if row.is_known else Tone.CALM
    state = "not known" if not row.is_known else "moves" if row.seconds_behind else "nothing missing"
    if fault is not None:
        tone, state, waits = Tone.BAD, "stands still", ()
    why = row.text if row.seconds_behind is None or row.basis == "at most" else ""
    return PageTable(
        row.table, copy, tone, state, row.behind, why, row.through, waits, None if fault is None else _where(fault)
    )


def _fault_of(row: TableRow, ways: Iterable[Explanation]) -> Link | None:
    """The first link that stands still on the way to a row. A log does not wait for its readers."""
    for way in ways:
        links = [link for link in way.links if row.kind == "target" or link.kind in _OF_LOGS]
        if any(link.kind in ("capture", "reader") and link.name == row.job for link in links):
            return next((link for link in links if link.fault is not None), None)
    return None


def _copy_name(row: TableRow) -> str:
    return row.table if row.target is None else f"{row.job}: {row.target}"


def _job(row: JobRow, now: float) -> PageJob:
    tone = Tone.GOOD if row.well else Tone.BAD if row.state == "held" or (row.reason and row.run) else Tone.CALM
    waits = (*row.awaited, *(() if row.reason is None else (row.reason,)))
    return PageJob(
        row.name, row.kind, tone, row.state, _moment(row.since, now), row.through, _moment(row.event_at, now), waits,
        row.remedy, row.output,
    )


def _sources(status: PipelineStatus) -> Iterator[PageSource]:
    for name, view in status.observation.sources.items():
        database, connector = view.database, view.connector
        if database.error is not None:
            yield PageSource(name, "database", Tone.BAD, "no answer", database.error)
        elif database.value is not None:
            yield PageSource(name, "database", Tone.GOOD, "answers", f"WAL up to {lsn_text(database.value.position)}")
            slot = database.value.slot
            if slot is None:
                yield PageSource(name, f"slot {database.value.slot_name}", Tone.CALM, "not there", "")
            else:
                kept = "" if slot.retained is None else f"; keeps {slot.retained / 1e6:,.1f} MB of WAL"
                lost = slot.status == "lost"
                tone = Tone.BAD if lost else Tone.GOOD if slot.active else Tone.CALM
                state = "lost" if lost else "read" if slot.active else "not read"
                yield PageSource(name, f"slot {slot.name}", tone, state, f"confirmed {lsn_text(slot.confirmed)}{kept}")
        if connector.error is not None:
            yield PageSource(name, "connector", Tone.BAD, "no answer", connector.error)
        elif connector.value is not None:
            one = connector.value
            detail = f"tasks: {', '.join(one.tasks) or 'none'}{f'; {one.reason}' if one.reason else ''}"
            state = "failed" if "FAILED" in (one.state, *one.tasks) else one.state.lower()
            tone = Tone.GOOD if one.runs else Tone.BAD
            yield PageSource(name, f"connector {one.name}", tone, state if one.runs or one.tasks else "no task", detail)
    for name, answer in status.observation.topics.items():
        if answer.error is not None:
            yield PageSource(name, "transaction topic", Tone.BAD, "no answer", answer.error)
        elif answer.value is not None:
            last = answer.value.last
            detail = "no transaction yet" if last is None else f"last END {lsn_text(last.lsn)} of transaction {last.tx}"
            yield PageSource(
                name, f"topic {answer.value.name}", Tone.GOOD, "answers", f"{detail}; ends at offset {answer.value.end}"
            )


def _entry(entry: Mapping[str, Any], now: float) -> PageEntry:
    debt, state = entry["debt"], str(entry["state"])
    tone = Tone.BAD if _hinders(entry) else Tone.GOOD if state in _SETTLED and debt is None else Tone.CALM
    waits = (*entry["waits_for"], *(() if debt is None else (f"{debt['reason']}: {debt['text']}",)))
    return PageEntry(
        f"{entry['kind']} {entry['name']}", entry["address"], "owned" if entry["owned"] else "not owned", tone, state,
        _moment(entry["since"], now), tuple(entry["users"]), entry["identity"], waits,
    )


def _moment(at: float | None, now: float) -> PageMoment | None:
    """None where nothing was yet: a job that never ran is idle since 0."""
    if not at:
        return None
    clock = datetime.fromtimestamp(at, timezone.utc)
    return PageMoment(f"{clock:%Y-%m-%d %H:%M:%S} UTC", f"{clock:%Y-%m-%dT%H:%M:%SZ}", age(now - at))
