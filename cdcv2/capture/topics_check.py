"""Do the tables and the notifications that are asked for and the topics that are there meet at all?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.errors import MissingLogError

#: How many names of one side are shown.
_SHOWN = 5


def listed(prefix: str, topics: Collection[str]) -> str:
    """What topics there are of a prefix, or else at all, as a sentence without its end.

    >>> listed("src", ["src.t", "x"]), listed("y", ["src.t", "_own"])
    ('Topics of the prefix src: src.t', 'Topics that are there: src.t')
    """
    others = [topic for topic in topics if not topic.startswith("_")]
    of_prefix = [topic for topic in others if topic.startswith(f"{prefix}.")]
    return f"Topics {f'of the prefix {prefix}' if of_prefix else 'that are there'}: {shown(of_prefix or others)}"


def check_meet(
    recipe: DatabaseConnector, topics: Collection[str], *, follow: bool, remark: Callable[[str], object],
    begun: bool = True,
) -> None:
    """Raise MissingLogError unless a capture of the recipe may continue; ``remark`` gets what lacks and may still come.

    Tables without topics may get them if it follows, and if the connector's notifications state which are empty; the
    topic of these may come if it follows, and one that has ``begun`` may need it no more. The error means
    that nothing would ever be complete.
    """
    doubt = recipe.unmet(topics)
    if doubt is not None and not follow and recipe.notification_topic not in topics:
        raise MissingLogError(doubt)
    lacks = recipe.unnotified(topics)
    if lacks is not None and not follow and not begun:
        raise MissingLogError(lacks)
    for one in (doubt, lacks):
        if one is not None:
            remark(one)


def check_dumped(recipe: DatabaseConnector, topics: Collection[str]) -> None:
    """Raise MissingLogError if a dump has topics, and none of them is the connector's."""
    if topics and not set(recipe.topics()) & set(topics) and recipe.unmet(topics) is None:
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
