"""Whether what ``Commits`` exported once may be gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdcv2.errors import ForeignStateError

MEMORY_VERSION = 1

#: What to do about a memory that does not fit.
FORGET = "remove the memory, and the capture begins at the start of its topics and repeats the facts that are there"


def same_topics(found: Mapping[str, str], remembered: Mapping[str, str]) -> dict[str, str]:
    """The identities of topics by their names. Raises ForeignStateError when one was made anew since it was captured.

    >>> same_topics({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    {'a': '1', 'c': '3', 'b': '2'}
    """
    for topic, identity in remembered.items():
        if found.get(topic, identity) != identity:
            raise ForeignStateError(
                f"the topic {topic} is another one than the one that was captured before: it was made anew. Begin anew "
                "with it: no memory, and other logs"
            )
    return {**remembered, **found}


def check_memory(plain: Mapping[str, Any], tables: tuple[str, ...], snapshot: str, known: int) -> None:
    """Raises ForeignStateError where it is of another capture, or ahead of logs that are stated up to ``known``."""
    if plain.get("version") != MEMORY_VERSION:
        raise ForeignStateError(f"the memory has version {plain.get('version')!r}, not {MEMORY_VERSION}: {FORGET}")
    if tuple(plain["tables"]) != tables or plain["mode"] != snapshot:
        raise ForeignStateError(
            f"the memory is of the tables {plain['tables']} with snapshot {plain['mode']}, "
            f"this capture has {list(tables)} with snapshot {snapshot}: {FORGET}"
        )
    through = plain["through"]
    if through is not None and (snapshot == "initial" or through > 0) and through >= known:
        raise ForeignStateError(
            f"the memory says that all through {through} is in the logs, but one only has what is before {known}, "
            f"so it is not the memory of these logs: {FORGET}"
        )
