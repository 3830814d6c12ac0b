"""What a log lacks: the answer to "does the target have everything?", as data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, to_plain


@dataclass(frozen=True)
class MissingUpdates:
    """What lacks below the join of the stated uppers. Falsy iff nothing does: complete so far.

    ``statements`` are the intervals ``(lower, upper)`` that no statement covers; ``updates`` pairs
    ``(time, how many updates are missing there)``; ``contested`` the times whose facts contradict each other
    (only with ``on_error="quarantine"``), here or in another reading. Each in the order of times.
    """

    statements: tuple[tuple[Antichain, Antichain], ...] = ()
    updates: tuple[tuple[Time, int], ...] = ()
    contested: tuple[Time, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.statements or self.updates or self.contested)

    def to_plain(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return {
            "statements": [[lower.to_plain(), upper.to_plain()] for lower, upper in self.statements],
            "updates": [[to_plain(time), count] for time, count in self.updates],
            "contested": [to_plain(time) for time in self.contested],
        }

    def __str__(self) -> str:
        if not self:
            return "nothing that was stated is missing"
        parts = [f"no statement covers {_interval(lower, upper)}" for lower, upper in self.statements]
        parts += [f"{count} update{'s' if count > 1 else ''} missing at time {time}" for time, count in self.updates]
        parts += [f"time {time} is in dispute" for time in self.contested]
        shown = parts[:10]
        return "; ".join(shown) + (f"; and {len(parts) - 10} more" if len(parts) > 10 else "")


def _interval(lower: Antichain, upper: Antichain) -> str:
    low, high = (", ".join(map(str, bound)) for bound in (lower, upper))
    return f"the times from {low} to before {high}" if upper else f"the times from {low} on"
