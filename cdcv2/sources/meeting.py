"""Do the tables that are asked for and the topics that are there meet at all?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from cdcv2.errors import MissingLogError
from cdcv2.sources.debezium import Recipe

#: How many names of one side are shown.
_SHOWN = 5


def unmet(recipe: Recipe, topics: Collection[str]) -> str | None:
    """That no table of the recipe has a topic, and others do, with what there is on both sides; None: they meet.

    ``topics`` are all that there are. Where there is no table's topic at all nothing is said: the connector makes one
    with the first row of its table.
    """
    if any(recipe.topic(table) in topics for table in recipe.tables):
        return None
    # prefix.schema.table; a topic of the prefix with one part more is the connector's own, as prefix.transaction.
    start = f"{recipe.prefix}."
    others = {topic.removeprefix(start) for topic in topics if topic.startswith(start)}
    others = {name for name in others if "." in name and start + name not in recipe.topics()}
    if not others:
        return None
    return (
        f"none of the captured tables has a topic: the row types are of {shown(recipe.tables)}, and the topics of the "
        f"prefix {recipe.prefix} are of {shown(others)}. Make row types of these (cdcv2 rows), or have the connector "
        "capture those tables (table.include.list)"
    )


def check_meet(
    recipe: Recipe, topics: Collection[str], *, follow: bool, remark: Callable[[str], object]
) -> None:
    """Return if a capture of the recipe may begin; what :func:`unmet` says goes to ``remark``, if that may change.

    It may for one that follows, and where the connector's notifications state which tables are empty. Raises
    MissingLogError where it cannot: nothing would ever be complete.
    """
    doubt = unmet(recipe, topics)
    if doubt is None:
        return
    if not follow and recipe.notification_topic not in topics:
        raise MissingLogError(doubt)
    remark(doubt)


def check_dumped(recipe: Recipe, topics: Collection[str]) -> None:
    """Raise MissingLogError if a dump has topics, and none of them is the connector's."""
    if topics and not set(recipe.topics()) & set(topics) and unmet(recipe, topics) is None:
        raise MissingLogError(
            f"the dump has none of the connector's topics {recipe.prefix}.*: is the prefix right? It has "
            f"{shown(topics)}"
        )


def shown(names: Iterable[str]) -> str:
    """Some of the names, in order.

    >>> shown("fedcba"), shown([])
    ('a, b, c, d, e, ...', 'none')
    """
    listed = sorted(names)
    return ", ".join(listed[:_SHOWN]) + (", ..." if len(listed) > _SHOWN else "") if listed else "none"
