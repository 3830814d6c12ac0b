"""The transactions that were open on a timeline, as values for its drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cdcv2.protocol.timeline import Cut
from cdcv2.viz.draw_timeline import TimelineBar


def open_transactions(cuts: Iterable[Cut]) -> tuple[TimelineBar, ...]:
    """When transactions were open, by the cuts of an open-records log: while rows of theirs are in it."""
    rows, began = Counter[str](), dict[str, int]()
    bars = list[TimelineBar]()
    for updates, _ in cuts:
        changes = [(time, row.transaction, diff) for one in updates.values() for row, time, diff in one
                   if row.transaction is not None and isinstance(time, int)]
        for time in sorted({time for time, _, _ in changes}):
            touched = {name for at, name, _ in changes if at == time}
            rows.update({name: sum(diff for at, of, diff in changes if (at, of) == (time, name)) for name in touched})
            for name in sorted(touched):
                if rows[name] > 0:
                    began.setdefault(name, time)
                elif name in began:
                    bars.append(TimelineBar(f"transaction {name}", began.pop(name), time))
    return (*bars, *(TimelineBar(f"transaction {name}", time, None) for name, time in began.items()))
