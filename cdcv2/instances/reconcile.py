"""What an instance has, compared with what its controller requests: kept, created, replaced or dropped, and why.

Source: document 002. What it calls compatible: the imports, the plan and the exports are equal, and the ``as_of`` of
what exists is not in advance of the new one. Here imports and plan are the tables with their keys and logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdcv2.instances.commands import CreateIndex


@dataclass(frozen=True)
class IndexReconciliation:
    """What becomes of each index, by its id. ``replaced``: id -> why what was there could not be kept."""

    kept: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    replaced: Mapping[str, str] | None = None

    @property
    def text(self) -> str:
        """In a line, for people.

        >>> IndexReconciliation(("main",), replaced={"old": "it has another key"}).text
        'kept main; replaced old (it has another key)'
        """
        parts = [(word, ", ".join(ids)) for word, ids in
                 (("kept", self.kept), ("created", self.created), ("dropped", self.dropped)) if ids]
        texts = [f"{word} {ids}" for word, ids in parts]
        texts += [f"replaced {name} ({why})" for name, why in (self.replaced or {}).items()]
        return "; ".join(texts) or "nothing to do"


def reconcile(existing: Mapping[str, tuple[CreateIndex, int]], requested: Iterable[CreateIndex]) -> IndexReconciliation:
    """Compare index by index; ``existing``: id -> it, and the since that it has by now.

    A history that is no continuation of what made the instance is judged by the same rule.

    >>> from cdcv2.instances.commands import IndexedTable
    >>> orders, items = (IndexedTable(name, ("id",), f"log of {name}") for name in ("orders", "items"))
    >>> there = {"main": (CreateIndex("main", (orders,), 0), 5), "old": (CreateIndex("old", (orders,), 0), 0)}
    >>> reconcile(there, [CreateIndex("main", (orders,), 5), CreateIndex("new", (items,), 0)]).text
    'kept main; created new; dropped old'

    Cost: linear.
    """
    kept, created, replaced = [], [], {}
    names = set()
    for index in requested:
        names.add(index.id)
        if index.id not in existing:
            created.append(index.id)
            continue
        why = difference(*existing[index.id], index)
        if why is None:
            kept.append(index.id)
        else:
            replaced[index.id] = why
    dropped = tuple(name for name in existing if name not in names)
    return IndexReconciliation(tuple(kept), tuple(created), dropped, replaced)


def difference(existing: CreateIndex, since: int, requested: CreateIndex) -> str | None:
    """Why an index that is compacted up to ``since`` cannot serve as the requested one; None: it can."""
    old, new = ({table.name: table for table in index.tables} for index in (existing, requested))
    if set(old) != set(new):
        return f"it has the tables {', '.join(sorted(old))}, and {', '.join(sorted(new))} are requested"
    for name, table in new.items():
        if old[name].key != table.key:
            return f"the key of {name} is {', '.join(old[name].key)}, and {', '.join(table.key)} is requested"
        if old[name].log != table.log:
            return f"{name} is read from the log {old[name].log}, and {table.log} is requested"
    if since > requested.since:
        return f"it is compacted up to {since}, and {requested.since} is requested"
    return None
