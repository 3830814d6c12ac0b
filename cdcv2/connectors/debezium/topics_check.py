"""Do the tables and the notifications that are asked for and the topics that are there meet at all?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from cdcv2.connectors.debezium.envelope import Recipe
from cdcv2.errors import MissingLogError
from cdcv2.suggestions import meant

#: How many names of one side are shown.
_SHOWN = 5


def unmet(recipe: Recipe, topics: Collection[str]) -> str | None:
    """A text if no table of the recipe has a topic, and others do, with both sides; None: some table has one.

    ``topics`` are all that there are. If no table at all has a topic there is no text: the connector makes one with the
    first row of its table.
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


def unnotified(recipe: Recipe, topics: Collection[str]) -> str | None:
    """That the topic of notifications is not there, which the snapshot needs, with what there is; None: it is.

    ``topics`` are all that there are.
    """
    named = recipe.notification_topic
    if named is None or named in topics or recipe.snapshot == "none":
        return None
    return (
        f"there is no topic {named!r}, and without its notifications the snapshot is not known to be whole: it is the "
        f"connector's notification.sink.topic.name, or the connector has sent none yet{meant(named, topics) or '.'} "
        f"{listed(recipe.prefix, topics)}"
    )


def listed(prefix: str, topics: Collection[str]) -> str:
    """What topics there are of a prefix, or else at all, as a sentence without its end.

    >>> listed("src", ["src.t", "x"]), listed("y", ["src.t", "_own"])
    ('Topics of the prefix src: src.t', 'Topics that are there: src.t')
    """
    others = [topic for topic in topics if not topic.startswith("_")]
    of_prefix = [topic for topic in others if topic.startswith(f"{prefix}.")]
    return f"Topics {f'of the prefix {prefix}' if of_prefix else 'that are there'}: {shown(of_prefix or others)}"


def check_meet(
    recipe: Recipe, topics: Collection[str], *, follow: bool, remark: Callable[[str], object], begun: bool = True
) -> None:
    """Raise MissingLogError unless a capture of the recipe may continue; ``remark`` gets what lacks and may still come.

    Tables without topics (:func:`unmet`) may get them if it follows, and if the connector's notifications state which
    are empty; the topic of these (:func:`unnotified`) may come if it follows, and one that has ``begun`` may need it no
    more. The error means that nothing would ever be complete.
    """
    doubt = unmet(recipe, topics)
    if doubt is not None and not follow and recipe.notification_topic not in topics:
        raise MissingLogError(doubt)
    lacks = unnotified(recipe, topics)
    if lacks is not None and not follow and not begun:
        raise MissingLogError(lacks)
    for one in (doubt, lacks):
        if one is not None:
            remark(one)


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
