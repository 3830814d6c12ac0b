"""What a reader's state belongs to: the logs, their row types, and the time at which reading began.

A state is a summary of the content of these logs. With other logs it would be meaningless, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError
from cdcv2.rows.row_type import RowType
from cdcv2.spark.sources import LogPlace


def binding(
    tables: Mapping[str, RowType], places: Sequence[LogPlace], identities: Mapping[str, str], start: Antichain
) -> dict[str, Any]:
    """What a state belongs to, as plain values: row types and places of each table, identities of topics, start."""
    return {
        "start": start.to_plain(),
        "tables": {
            name: {
                "rows": row_type.fingerprint,
                "places": sorted([place.kind, place.name] for place in places if place.table == name),
            }
            for name, row_type in tables.items()
        },
        "topics": dict(sorted(identities.items())),
    }


def compare(theirs: Mapping[str, Any], ours: Mapping[str, Any], folder: Path) -> None:
    """Raise ForeignStateError, which names what differs, unless the two bindings are one."""
    remedy = (
        f"give each replay a state of its own, or remove {folder} (with the checkpoint in it): all is read again, and "
        "the output takes only what it lacks"
    )
    if theirs["start"] != ours["start"]:
        raise ForeignStateError(f"the state in {folder} begins at {theirs['start']}, not {ours['start']}: {remedy}")
    if sorted(theirs["tables"]) != sorted(ours["tables"]):
        raise ForeignStateError(
            f"the state in {folder} is of the tables {', '.join(theirs['tables'])}, not {', '.join(ours['tables'])}: "
            f"{remedy}"
        )
    for name, mine in ours["tables"].items():
        other = theirs["tables"][name]
        if other["rows"] != mine["rows"]:
            raise ForeignStateError(f"the state in {folder} holds rows of {name} of another type: {remedy}")
        if other["places"] != mine["places"]:
            places = [", ".join(place for _, place in one["places"]) for one in (other, mine)]
            raise ForeignStateError(
                f"the state in {folder} has read {name} from {places[0]}, not {places[1]}: {remedy}"
            )
    if theirs["topics"] != ours["topics"]:
        changed = [topic for topic, identity in ours["topics"].items() if theirs["topics"].get(topic) != identity]
        raise ForeignStateError(
            f"the state in {folder} is of another topic that was also called {', '.join(changed)}: {remedy}"
        )
