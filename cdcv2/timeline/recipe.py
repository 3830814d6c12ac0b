"""What is bound beside offsets: the recipe by which records become rows, as the text that stands in a remap.

Two captures write the same facts only if they read the same topics as the same tables in the same way. So all of that
is in the recipe: the tables, each with its topic or database, row type and options; the version of the mapping; Kafka's
identities of the topics. No capture writes a time that is bound under another recipe. The recipe also has the name of
the timeline, drawn when the remap started, which identifies its logs.

Some facts one capture knows and another does not: the identity of a topic that did not exist yet, the name of the
timeline. They make no difference: the recipe that has both is proposed, and stands for either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2.errors import ForeignStateError
from cdcv2.protocol.log import Place, places_from_plain

#: The version of the mapping from records to rows: a change of what is written needs a new one.
#: :data:`~cdcv2.capture.released_transactions.KNOWN` is a part of it. Version 2: TEMP has the numbers of rows.
MAPPING = 2
_MARK, _VERSION = "cdcv2-capture", 1
#: Of a table, and of a database, what is the same as long as it is written into the same logs.
_OF_TABLE, _OF_DATABASE = ("row", "database", "table"), ("snapshot", "ordering", "before", "kind")


@dataclass(frozen=True)
class BoundRecipe:
    """The recipe, as plain values.

    ``tables`` maps the name of each log to where its rows come from, and to the fingerprint of its row type.
    ``databases`` has the options of each connector, by prefix. ``topics`` has the cluster's identities of existing
    topics. ``begins`` has the first offset of each partition of plain topics that had lost their first records when
    they were first bound: what stood before is no part of their tables.

    >>> recipe = BoundRecipe({"orders": {"topic": "shop.orders", "row": "7f"}})
    >>> BoundRecipe.parse(recipe.text()) == recipe
    True
    """

    tables: Mapping[str, Mapping[str, Any]]
    databases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    timeline: str | None = None
    mapping: int = MAPPING

    def text(self) -> str:
        """The same for equal recipes."""
        plain = {
            _MARK: _VERSION, "mapping": self.mapping, "timeline": self.timeline, "tables": self.tables,
            "databases": self.databases, "topics": self.topics, "begins": self.begins,
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> BoundRecipe:
        """The recipe of a text. Raises ForeignStateError for what no capture bound."""
        try:
            plain: Any = json.loads(text)
            if plain[_MARK] != _VERSION:
                raise ValueError(f"version {plain[_MARK]!r}")
            return cls(
                dict(plain["tables"]), dict(plain["databases"]), dict(plain["topics"]), dict(plain["begins"]),
                plain["timeline"], int(plain["mapping"]),
            )
        except (ValueError, KeyError, TypeError) as cause:
            raise ForeignStateError(
                f"times of this timeline are bound under {text!r:.80}, which is no recipe of a capture ({cause!r}): "
                "the remap is of another program, or of a later release. Name another one"
            ) from None

    def differences(self, bound: BoundRecipe) -> list[str]:
        """In which points it is not the one that is bound, in words; what only one of them knows is none.

        >>> BoundRecipe({"a": {"topic": "a"}}).differences(BoundRecipe({"a": {"topic": "b"}, "c": {}}))
        ["'a' has topic 'a', bound 'b'", "'c' is bound, and not captured here"]
        """
        found = []
        if self.mapping != bound.mapping:
            found.append(f"the mapping is version {self.mapping}, bound {bound.mapping}")
        for mine, theirs in ((self.tables, bound.tables), (self.databases, bound.databases)):
            found += [f"{name!r} is captured here, and not bound" for name in sorted(mine.keys() - theirs.keys())]
            found += _differing(mine, theirs)
            found += [f"{name!r} is bound, and not captured here" for name in sorted(theirs.keys() - mine.keys())]
        if self.timeline and bound.timeline and self.timeline != bound.timeline:
            found.append(f"the timeline is {self.timeline}, bound {bound.timeline}")
        return found

    def unlike(self, bound: BoundRecipe) -> list[str]:
        """The differences, in words, that make the logs of one recipe useless for the other.

        A log has rows of one type; TEMP has how a database was started, and with which tables.

        >>> BoundRecipe({"a": {"topic": "a", "row": "7f"}}).unlike(BoundRecipe({"a": {"topic": "b", "row": "7f"}}))
        []
        """
        found = _differing(self.tables, bound.tables, _OF_TABLE) + _differing(
            self.databases, bound.databases, _OF_DATABASE
        )
        for prefix in sorted(self.databases.keys() & bound.databases.keys()):
            here, there = (
                sorted(name for name, of in recipe.tables.items() if of.get("database") == prefix)
                for recipe in (self, bound)
            )
            if here != there:
                found.append(f"{prefix!r} has the tables {', '.join(here)}, bound {', '.join(there)}")
        return found

    def assumed_otherwise(self, bound: BoundRecipe) -> list[str]:
        """The tables that only one of both takes for empty at the snapshot, as a user stated.

        >>> BoundRecipe({}, {"p": {}}).assumed_otherwise(BoundRecipe({}, {"p": {"empty": ["public.a"]}}))
        ['public.a']
        """
        both = self.databases.keys() & bound.databases.keys()
        theirs, mine = (
            {(prefix, table) for prefix in both for table in one.databases[prefix].get("empty", ())}
            for one in (bound, self)
        )
        return sorted(table for _, table in theirs ^ mine)

    def recreated_topics(self, ids: Mapping[str, str]) -> list[str]:
        """The topics that are others now, under the same names, than those that are bound."""
        both = sorted(self.topics.keys() & ids.keys())
        return [topic for topic in both if self.topics[topic] != ids[topic]]

    def joined(self, bound: BoundRecipe, started: Collection[str]) -> BoundRecipe:
        """The union of both; the timeline, the topics' identities, and where those ``started`` began, as in ``bound``.

        A topic of which nothing is bound begins at the later of both.
        """
        begins = {topic: dict(parts) for topic, parts in bound.begins.items()}
        for topic in self.begins.keys() - set(started):
            parts = begins.setdefault(topic, {})
            parts.update({part: max(at, parts.get(part, 0)) for part, at in self.begins[topic].items()})
        return replace(self, topics={**self.topics, **bound.topics}, begins=begins, timeline=bound.timeline)

    @property
    def firsts(self) -> dict[Place, int]:
        """Where partitions begin, other than with their first offset."""
        return places_from_plain(self.begins)

    @property
    def sources(self) -> set[str]:
        """The topics that it names: the plain ones, and of databases those that were there."""
        return {of["topic"] for of in self.tables.values() if "topic" in of} | set(self.topics)

    def reads(self, topic: str) -> bool:
        """Whether it reads the topic: one that it names, or one of a database, which may not have been there.

        >>> BoundRecipe({"orders": {"topic": "shop.orders"}}, {"bank": {}}).reads("bank.transaction")
        True
        """
        return topic in self.sources or topic.startswith(tuple(f"{prefix}." for prefix in self.databases))

    def has(self, table: str) -> bool:
        """Whether times under it have any row of the table, from any topic and of any row type."""
        return table in self.tables


def _differing(
    mine: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]], keys: Collection[str] | None = None
) -> list[str]:
    """In which points what is in both differs, in words; only these ones, if they are named."""
    return [
        f"{name!r} has {key} {mine[name].get(key)!r}, bound {theirs[name].get(key)!r}"
        for name in sorted(mine.keys() & theirs.keys())
        for key in sorted(mine[name].keys() | theirs[name].keys())
        if mine[name].get(key) != theirs[name].get(key) and (keys is None or key in keys)
    ]
