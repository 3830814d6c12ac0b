"""Checks whether a capture may resume with a state that ``CommitTransactions`` exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdcv2.core.own_json import checked, reading
from cdcv2.errors import ForeignStateError, RefusedError

MEMORY_VERSION = 1

#: What to do about a memory that does not fit.
FORGET = "remove the memory, and the capture begins at the start of its topics and repeats the facts that are there"


def same_topics(found: Mapping[str, str], remembered: Mapping[str, str]) -> dict[str, str]:
    """The identities of topics by their names. Raises ForeignStateError if one was recreated since it was captured.

    >>> same_topics({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    {'a': '1', 'c': '3', 'b': '2'}
    """
    for topic, identity in remembered.items():
        if found.get(topic, identity) != identity:
            raise ForeignStateError(
                f"the topic {topic} is another one than the one that was captured before: it was made again. Start "
                "over with it: no memory, and other logs"
            )
    return {**remembered, **found}


def demand_typed(plain: Mapping[str, Any]) -> None:
    """Raises ForeignStateError where a value of the memory is of another type, or is missing.

    A memory with a digest never has such a one; those that were written before there were digests may.
    """
    with reading("the memory of the capture", FORGET):
        places = [*plain["positions"].values(), *(log["positions"] for log in plain["logs"].values() if log)]
        for part, offset in (one for place in places for one in place.items()):
            int(part), checked(offset, int)
        checked(plain.get("topics", {}), dict)
        commits = plain["commits"]
        checked(commits["through"], int, type(None))
        for told in (commits.get("again") or {"told": []})["told"]:
            checked(told, int)
        snapshot = commits["snapshot"]
        checked(snapshot["released"], bool)
        checked(snapshot["lsn"], int, type(None))
        checked(snapshot["completed"], bool)
        checked(snapshot.get("notified", 0), int)
        # One that was never JSON has tuples.
        for name in ("spoilt", "lost"):
            checked(commits.get(name), list, tuple, type(None))


def declares_same(commits: Mapping[str, Any], again: tuple[int, ...]) -> bool:
    """Whether a state was saved with the same resnapshots declared; if not, its positions may be behind their rows.

    A permanent stop in the state always counts, unless a newly declared resnapshot explains it. Raises RefusedError if
    a resnapshot that is already in the logs is no longer declared.
    """
    told: list[int] = commits.get("again", {}).get("told", [])
    kept = [lsn for lsn in told if lsn <= (commits.get("through") or 0)]
    if not set(again).issuperset(kept):
        said = ",".join(map(str, kept))
        raise RefusedError(
            f"these logs were captured with --snapshot-again {said}, and it is not given any more: go on giving it (if "
            "it was wrong, remove the memory of this capture)"
        )
    spoilt = commits.get("spoilt") or []
    return told == list(again) or (bool(spoilt) and spoilt[2:] != [True])


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
