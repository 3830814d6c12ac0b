"""What cdcv2 up does nothing with: changes of the file by which something would be lost, or stand still for good.

They are known before anything is made or removed. ``plan`` and ``doctor`` name them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cdcv2.control.entries import CatalogueEntry, Kind
from cdcv2.control.intents import DesiredState, refused_replacements
from cdcv2.control.pipeline_file import Pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.supervisor import Supervisor

#: The frontiers of a capture that has captured nothing yet.
_NOTHING = ([0], [1])


def refused_changes(
    pipeline: Pipeline, entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState]
) -> list[tuple[CatalogueEntry, str]]:
    """The entries that would be removed and must not be, each with the reason and what to do."""
    known, wanted = list(entries), list(desired)
    return [*refused_replacements(known, wanted), *_topics_of_logs_that_go_on(pipeline, known, wanted)]


def _topics_of_logs_that_go_on(
    pipeline: Pipeline, entries: list[CatalogueEntry], desired: list[DesiredState]
) -> Iterator[tuple[CatalogueEntry, str]]:
    """The topics of tables that were left out of a capture, whose logs in the same place have them.

    The capture would refuse those logs, when the topics were removed with their records. Of logs in a directory by
    commit times it shows in there; of a remap and of logs in Kafka in what the job has run with.
    """
    names = {(one.kind, one.name) for one in desired}
    places = {_place(one.parts): one.name for one in jobs_of(pipeline) if "into" in one.parts}
    supervisor = Supervisor(folder_of(pipeline))
    for report in supervisor.look():
        capture = places.get(_place(report.sight.parts))
        if capture is None or report.damage is not None:
            continue
        if all(frontier in _NOTHING for frontier in supervisor.job(report.name).frontiers()):
            continue
        for entry in entries:
            gone = entry.is_live and entry.is_there and (entry.kind, entry.name) not in names
            # A connector without heartbeats needs their topic no more.
            if gone and entry.kind is Kind.TOPIC and entry.owned and not entry.name.startswith("__"):
                if report.name in entry.users:
                    yield entry, (
                        f"{entry.shown} would be removed, with its records, and the capture {capture} goes on with the "
                        "logs that have its table: it would refuse them. Other tables need another 'into', and on a "
                        "remap another 'remap' (docs/operations/tables.md)"
                    )


def _place(parts: Mapping[str, str]) -> tuple[str | None, str | None]:
    """What the digests of a job's parts state of where its logs are."""
    return parts.get("into"), parts.get("remap")
