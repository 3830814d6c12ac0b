"""What a capture on a shared remap is asked for, once its arguments are read, and where it puts what it writes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdcv2.capture.connector import FIRST_KIND, FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.errors import UsageError
from cdcv2.logs.timeline_of_logs import demand_room
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.recipe import BoundRecipe

#: Where TEMP of each database is: no log of a table, so not beside these.
TEMP_FOLDER = "_temp"


def together(logs: LogAddress) -> Path | None:
    """The one directory that has all the logs in it, and the note of their capture; None where there is none.

    Raises UsageError where that is itself a log.
    """
    demand_room(logs)
    return None if logs.is_topic or logs.is_template else Path(logs.name)


def temp_name(logs: LogAddress, prefix: str) -> str:
    """What the log of TEMP of a database is called beside the others."""
    return f"{TEMP_FOLDER}{'.' if logs.is_topic else '/'}{prefix}"


def check_apart(remap: LogAddress, logs: LogAddress, asked: CaptureRequest) -> None:
    """Raise UsageError unless remap and logs are in places of their own: both number what they put there."""
    demand_room(logs)
    names = [*asked.recipe.tables, *(temp_name(logs, prefix) for prefix in asked.databases)]
    places = [logs.of(name) for name in names]
    if remap.is_topic or logs.is_topic:
        taken = remap in places
    else:
        folders = [*(Path(place.name) for place in places), together(logs)]
        taken = Path(remap.name).resolve() in {folder.resolve() for folder in folders if folder is not None}
    if taken:
        raise UsageError(f"--remap {remap} and --into {logs} are in one place: give the remap one of its own")


@dataclass(frozen=True)
class CaptureRequest:
    """What the arguments ask for."""

    #: Table -> its topic and row type.
    plain: Mapping[str, tuple[str, RowType]]
    #: Prefix -> what is captured of that database, and table -> its log.
    databases: Mapping[str, tuple[DatabaseConnector, Mapping[str, str]]]
    ordering: str

    @property
    def topics(self) -> frozenset[str]:
        """All that is read."""
        of_databases = [topic for recipe, _ in self.databases.values() for topic in recipe.topics()]
        return frozenset([*(topic for topic, _ in self.plain.values()), *of_databases])

    def logs(self, address: LogAddress) -> dict[str, RowType]:
        """The row types of all that is written, by what it is called at the address; TEMP among it."""
        found = {table: kind for table, (_, kind) in self.plain.items()}
        for prefix, (recipe, names) in self.databases.items():
            found |= {names[table]: kind for table, kind in recipe.tables.items()}
            found[temp_name(address, prefix)] = TEMP
        return found

    @property
    def single(self) -> frozenset[str]:
        """Those whose records have an order."""
        recipes = [recipe for recipe, _ in self.databases.values()]
        topics = [topic for recipe in recipes for topic in (recipe.transaction_topic, recipe.notification_topic)]
        return frozenset(topic for topic in topics if topic is not None)

    @property
    def needed(self) -> frozenset[str]:
        """Those that must be there: a connector makes a table's topic with its first row."""
        of_databases = [recipe.transaction_topic for recipe, _ in self.databases.values()]
        return frozenset([*(topic for topic, _ in self.plain.values()), *of_databases])

    def made_by(self, topic: str) -> str:
        """What makes one of the topics that are needed, in words."""
        return next(
            (one.first_transaction for one, _ in self.databases.values() if one.transaction_topic == topic),
            "What writes it makes it",
        )

    @property
    def empty(self) -> frozenset[str]:
        """The logs of tables that were empty at the snapshot by the user's declaration."""
        return frozenset(names[table] for recipe, names in self.databases.values() for table in recipe.empty)

    @property
    def recipe(self) -> BoundRecipe:
        """The recipe of the remap; its timeline is the name for a new remap."""
        tables = {table: {"topic": topic, "row": kind.fingerprint} for table, (topic, kind) in self.plain.items()}
        for prefix, (recipe, names) in self.databases.items():
            for table, kind in recipe.tables.items():
                tables[names[table]] = {"database": prefix, "table": table, "row": kind.fingerprint}
        databases = {
            prefix: {
                "snapshot": recipe.snapshot, "notifications": recipe.notification_topic,
                "transactions": recipe.transaction_topic, "ordering": self.ordering,
                "full_identity": sorted(recipe.full_identity),
                # A missing key means what was once the only way.
                **({} if recipe.before == FROM_ENVELOPE else {"before": recipe.before}),
                **({} if recipe.kind == FIRST_KIND else {"kind": recipe.kind}),
                **({"empty": sorted(recipe.empty)} if recipe.empty else {}),
            }
            for prefix, (recipe, _) in self.databases.items()
        }
        return BoundRecipe(tables, databases, timeline=uuid.uuid4().hex)
