"""What cdcv2 up does nothing with: changes of the file by which something would be lost, or stand still for good.

They are known before anything is made or removed. ``plan`` and ``doctor`` name them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cdcv2.connectors.debezium.left_out import unsent_tables
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind
from cdcv2.control.intents import DesiredState, refused_replacements, requested_as
from cdcv2.control.past_knowledge import Feeds
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_check import recipes_of
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.supervisor import Supervisor
from cdcv2.control.unread_topics import removed_topics
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.store.file_system import is_there

#: The frontiers of a capture that has captured nothing yet.
_NOTHING = ([0], [1])


def refused_changes(
    pipeline: Pipeline, entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState]
) -> list[tuple[CatalogueEntry, str]]:
    """The entries that would be changed or removed and must not be, each with the reason and what to do."""
    known, wanted = list(entries), list(desired)
    found = [*refused_replacements(known, wanted), *_topics_that_lack_rows(known, wanted)]
    found += _topics_that_were_not_fed(known, wanted)
    for job, capture, same_tables in _going_on(pipeline):
        found += _topics_of_its_logs(pipeline, job, capture, known, wanted, same_tables=same_tables)
        found += _tables_that_were_not_published(pipeline, capture, known, wanted)
    return found


def _going_on(pipeline: Pipeline) -> Iterator[tuple[str, str, bool]]:
    """Each job that has captured something, with the capture of the file that goes on with its logs, or with its remap,
    and whether that states the same ``tables``.

    It may have another name by now. Where logs in a directory by commit times are of other tables, that shows in there;
    of a remap and of logs in Kafka, in what the job has run with.
    """
    plans = [one for one in jobs_of(pipeline) if one.name in pipeline.captures]
    places = {(part, one.parts[part]): one for one in plans for part in ("remap", "into") if part in one.parts}
    supervisor = Supervisor(folder_of(pipeline))
    for report in supervisor.look():
        parts = report.observation.parts
        found = (places.get((part, parts[part])) for part in ("into", "remap") if part in parts)
        capture = next((one for one in found if one is not None), None)
        if capture is None or report.damage is not None:
            continue
        if any(frontier not in _NOTHING for frontier in supervisor.job(report.name).frontiers()):
            stated = parts.get("tables")
            yield report.name, capture.name, stated is not None and stated == capture.parts.get("tables")


def _topics_of_its_logs(
    pipeline: Pipeline, job: str, capture: str, entries: list[CatalogueEntry], desired: list[DesiredState], *,
    same_tables: bool,
) -> Iterator[tuple[CatalogueEntry, str]]:
    """The topics of tables that were left out, whose logs in the same place have them.

    A topic of a connector is used by all captures of its source, and the table may be another one's.
    """
    source, into = pipeline.captures[capture].source, pipeline.captures[capture].arguments.into
    prefix = "" if source is None else f"{source.prefix}."

    def is_its_own(entry: CatalogueEntry) -> bool:
        place = into.of(entry.name.removeprefix(prefix))
        if entry.users == (job,):
            return True
        return not same_tables if place.is_topic else is_there(Path(place.name) / LOG_FILE)

    names = {(one.kind, one.name) for one in desired}
    for entry in entries:
        gone = entry.is_live and entry.is_there and (entry.kind, entry.name) not in names
        # A connector without heartbeats needs their topic no more.
        of_table = entry.kind is Kind.TOPIC and entry.owned and not entry.name.startswith("__")
        if gone and of_table and job in entry.users and is_its_own(entry):
            yield entry, (
                f"{entry.shown} would be removed, with its records, and the capture {capture} continues with the logs "
                "that have its table: it would refuse them. Other tables need another 'into', and on a remap another "
                "'remap' (docs/operations/tables.md)"
            )


def _tables_that_were_not_published(
    pipeline: Pipeline, capture: str, entries: list[CatalogueEntry], desired: list[DesiredState]
) -> Iterator[tuple[CatalogueEntry, str]]:
    """The publications of ours that lack a table of these logs: it was left out of the file for a while."""
    names = {(one.kind, one.name) for one in desired if one.kind is Kind.PUBLICATION and one.user == capture}
    made = [one for one in entries if (one.kind, one.name) in names and one.owned and one.is_there]
    # A capture that is wrong, and has none, is left to its job.
    recipes = recipes_of(pipeline.captures[capture]) if made else []
    tables = {table for recipe in recipes for table in recipe.tables}
    for entry in made:
        published = _settings_of(entry).get("tables", ())
        lacking = sorted(tables - {*published})
        if lacking:
            yield entry, (
                f"{entry.shown} does not publish {', '.join(lacking)} any more, as the file left that out, and the "
                f"capture {capture} continues with logs that have it: what was committed meanwhile is in no topic. "
                f"{_START_OVER}"
            )


def _topics_that_were_not_fed(
    entries: list[CatalogueEntry], desired: list[DesiredState]
) -> Iterator[tuple[CatalogueEntry, str]]:
    """The publications of ours that left a table out, or were removed, while topics go on: a connector of others has
    these.
    """
    known, keys = [one for one in entries if one.is_live or one.may_return], {one.key for one in desired}
    removed = removed_topics(entries)
    for wish in {one.key: one for one in desired if one.kind is Kind.PUBLICATION and one.owned}.values():
        feeds = _fed_by(wish, desired)
        made = requested_as(known, wish, keys)
        if made is None:
            olds = [one for one in entries if (one.kind, one.name, one.owned) == (wish.kind, wish.name, True)]
            last = max((one for one in olds if one not in known), key=lambda one: one.since, default=None)
            used = last is not None and last.before in (EntryState.IN_USE, EntryState.LOST)
            lacking = {*(last.feeds or {})} & {*feeds} - {*removed} if last is not None and used else set()
        else:
            last, published = made, _settings_of(made).get("tables", ())
            lacking = {
                topic for past in made.past for topic, table in past.feeds.items() if made.owned
                and feeds.get(topic) == table and table not in published and removed.get(topic, -1) < past.since
            }
        if last is not None and lacking:
            yield last, (
                f"{last.shown} has left out what the topics {', '.join(sorted(lacking))} have, as the file did: what "
                f"was committed meanwhile is in none. {_START_OVER}"
            )


_START_OVER = (
    "Leave it out, or start over, with all tables of the connector (docs/operations/tables.md#put-a-table-back)"
)


def _topics_that_lack_rows(
    entries: list[CatalogueEntry], desired: list[DesiredState]
) -> Iterator[tuple[CatalogueEntry, str]]:
    """The topics of a connector of ours that goes on, whose tables were left out of the file for a while.

    What was sent before is in none if the removal of the topic was begun, also what the snapshot had; and what was
    committed meanwhile, if the table left the publication, or the list of the connector. Logs that begin now would lack
    it, whatever their place.
    """
    # What was left out for a moment itself may return, as it was.
    known, keys = [one for one in entries if one.is_live or one.may_return], {one.key for one in desired}
    # Each of its captures wants it.
    for connector in {one.key: one for one in desired}.values():
        ours = connector.kind is Kind.CONNECTOR and connector.owned
        made = requested_as(known, connector, keys) if ours else None
        if made is None:
            continue
        feeds = _fed_by(connector, desired)
        # A connector that was made again has the positions of before, as its slot shows.
        slots = [one.attempted for one in known if one.kind is Kind.SLOT and one.nonce in made.needs]
        began = min(one for one in (made.attempted, *slots) if one is not None)
        published = {
            table for one in known if one.kind is Kind.PUBLICATION and one.nonce in made.needs and one.owned
            for table in _settings_of(one).get("tables", ())
        }
        for kind, _, name in connector.needs:
            # Heartbeats mean nothing for what is captured.
            if kind is not Kind.TOPIC or name.startswith("__"):
                continue
            olds = [
                one for one in entries
                if (one.kind, one.name) == (kind, name) and one.owned and (one.identity or one.attempted is not None)
            ]
            gone = next((one for one in olds if one.state is EntryState.GONE and one.since > began), None)
            unwanted = next((one for one in olds if one.state is EntryState.UNWANTED), None)
            table = feeds.get(name)
            left = table is not None and (
                bool(published and table not in published) or bool(unsent_tables(_settings_of(made), [table]))
            )
            if gone is not None:
                yield gone, (
                    f"{gone.shown} was removed with its records, as the file left its table out, and {made.shown} "
                    f"keeps running: what it had sent of the table is in no topic. {_START_OVER}"
                )
            elif unwanted is not None and not unwanted.may_return:
                yield unwanted, (
                    f"{unwanted.shown} is being removed with its records, as the file left its table out, and "
                    f"{made.shown} keeps running: what it had sent of the table will be in no topic. {_START_OVER}"
                )
            elif unwanted is not None and left:
                yield unwanted, (
                    f"{unwanted.shown} lacks what was committed while the file left its table out, and {made.shown} "
                    f"keeps running. {_START_OVER}"
                )


def _fed_by(wish: DesiredState, desired: Iterable[DesiredState]) -> Feeds:
    """The topics that all of its users read, with their tables."""
    return {topic: table for one in desired if one.key == wish.key for topic, table in one.feeds.items()}


def _settings_of(entry: CatalogueEntry) -> Mapping[str, Any]:
    """As it was given them last."""
    return entry.settings if entry.applied is None else entry.applied
