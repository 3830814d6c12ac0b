"""What an examination of a pipeline has found: each finding with the one line that mends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cdcv2.errors import Cdcv2Error


class Health(StrEnum):
    """How something is found."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: of which part, what it is, how it is, and the line that mends it."""

    part: str
    text: str
    health: Health = Health.OK
    remedy: str = ""

    def to_plain(self) -> dict[str, str]:
        """As JSON."""
        return {"part": self.part, "health": self.health.value, "text": self.text, "remedy": self.remedy}


def judged(
    part: str, good: bool, text: str, remedy: str, *, lacking: str | None = None, otherwise: Health = Health.WRONG
) -> Finding:
    """The finding that something is as it has to be, or else is not, with its remedy.

    ``text`` states what is found; where it is true of the good alone, ``lacking`` states the other.

    >>> judged("server", False, "wal_level is replica", "ALTER SYSTEM ...").health.value
    'wrong'
    >>> judged("connector", False, "it has no transforms", "...", lacking="it has transforms").text
    'it has transforms'
    """
    return Finding(part, text) if good else Finding(part, text if lacking is None else lacking, otherwise, remedy)


def guarded(part: str, findings: Iterable[Finding], again: str) -> Iterator[Finding]:
    """The findings; where looking ends with an error, that is the last of them. Its text states the remedy.

    ``again``: the command that looks again.
    """
    try:
        yield from findings
    except Cdcv2Error as error:
        yield Finding(part, " ".join(str(error).split()), Health.WRONG, f"mend that; then {again}")
