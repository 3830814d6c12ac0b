"""What was known of a publication, slot or connector when it last fed topics that no job of the file reads now.

A topic is *fed* by what its records come through. A capture that comes back reads on in its topics, or from their
begin: what was done to the thing in between was sent into none. So what was known is kept by topic, and not by job, nor
by log. ``unread_topics`` decides when it is kept and taken up again; ``external_state`` compares it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdcv2.control.slot_marks import SlotMark
from cdcv2.core.own_json import checked

#: Topic -> the table whose changes it has.
Feeds = Mapping[str, str]
#: What is known of each table: see ``PublicationKind`` of ``kinds/postgres``.
_OF_TABLES = ("members", "above", "named", "stored", "labels")


@dataclass(frozen=True)
class PastKnowledge:
    """What was known of a thing when it last fed some topics.

    Args:
        since: when they were read last, epoch seconds.
        feeds: which, with their tables.
        lost: whether it was lost then.
        server, identity, applied, slot: as the entry had them: see :class:`cdcv2.control.entries.CatalogueEntry`.
    """

    since: float
    feeds: Feeds
    lost: bool
    server: str | None
    identity: str | None
    applied: Mapping[str, Any] | None
    slot: SlotMark | None

    def of(self, topics: Collection[str]) -> PastKnowledge:
        """That of these topics alone. Cost: what is known."""
        feeds = {topic: table for topic, table in self.feeds.items() if topic in topics}
        tables = {*feeds.values()}
        return replace(self, feeds=feeds, applied=None if self.applied is None else {
            name: _of_tables(name, value, tables) for name, value in self.applied.items()
        })  # fmt: skip

    def to_plain(self) -> dict[str, Any]:
        """As JSON, in the catalogue's format."""
        return {
            "since": self.since, "feeds": dict(self.feeds), "lost": self.lost, "server": self.server,
            "identity": self.identity, "applied": None if self.applied is None else dict(self.applied),
            "slot": None if self.slot is None else self.slot.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> PastKnowledge:
        """What :meth:`to_plain` gave. Raises TypeError, KeyError for anything else."""
        none = type(None)
        slot = checked(plain["slot"], dict, none)
        return cls(
            checked(plain["since"], float, int), feeds_from_plain(plain["feeds"]), checked(plain["lost"], bool),
            checked(plain["server"], str, none), checked(plain["identity"], str, none),
            checked(plain["applied"], dict, none), None if slot is None else SlotMark.from_plain(slot),
        )


def feeds_from_plain(plain: object) -> Feeds:
    """Topics with their tables, as JSON has them. Raises TypeError for anything else."""
    found: dict[str, Any] = checked(plain, dict)
    return {topic: checked(table, str) for topic, table in found.items()}


def _of_tables(name: str, value: Any, tables: set[str]) -> Any:
    """A setting of a publication, as far as it is about these tables."""
    if name in _OF_TABLES:
        return {table: known for table, known in value.items() if table in tables}
    return [table for table in value if table in tables] if name == "tables" else value
