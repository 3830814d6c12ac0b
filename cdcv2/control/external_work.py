"""The external state of a pipeline, made and removed beside its jobs, in a thread of its own.

A server that does not answer delays no job that runs: the jobs are looked after by another thread. A job starts when
all that it needs is there, and recorded as in use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from types import TracebackType

from cdcv2.control.entries import CatalogueEntry, EntryState
from cdcv2.control.intents import missing_for, used_by
from cdcv2.control.reconcile import Reconciliation, is_unsettled

#: Seconds between two rounds: an entry that owes something is tried again at times of its own.
PAUSE = 0.5
#: So many seconds an act that is under way is waited for at the end. One that is left is found by the next owner.
LEAVING = 10.0
#: So many seconds jobs wait at the beginning until what they need was looked at: a server that is away takes longer.
FIRST_LOOK = 15.0
#: So many of the things that a job waits for are named.
_SHOWN = 3


class ExternalWork:
    """Rounds of a reconciliation, whose catalogue no other thread uses.

    ``jobs``: those that should run. ``seen`` reads the entries, for the thread that looks after the jobs. Within
    ``with`` it works; outside, :meth:`turn` does one round.
    """

    def __init__(
        self, reconciliation: Reconciliation, jobs: Collection[str], seen: Callable[[], list[CatalogueEntry]],
        *, at_work: Collection[str] = (),
    ) -> None:
        self._control, self._jobs, self._seen = reconciliation, tuple(jobs), seen
        #: Jobs that still run as they were before the file changed; set by the caller, who looks after the jobs.
        self.at_work = frozenset(at_work)
        #: The entries as they were at the last :meth:`look`.
        self.entries = seen()
        self._ended, self._failure = threading.Event(), list[BaseException]()
        self._looked, self._begun = threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="external state", daemon=True)

    def turn(self) -> None:
        """Make and remove what is due now; then, for each job that has all it needs, record that as in use.

        Raises FencedError when another owner has taken over, and OutputError where something cannot be written.
        """
        catalogue = self._control.catalogue
        self._control.round(removing=not self.at_work)
        for job in self._jobs:
            entries = catalogue.entries()
            changed = [] if missing_for(job, entries) else used_by(job, entries, self._control.now())
            if changed:
                catalogue.write(changed)
        self._looked.set()

    def waits(self, job: str) -> str | None:
        """What the job has to wait for, in words; None: it may start."""
        missing = missing_for(job, self.entries)
        if missing:
            more = f"; and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            return "; ".join(waiting_text(entry) for entry in missing[:_SHOWN]) + more
        if any(job in one.users for one in self.entries if one.is_live) and not self._has_looked():
            return "a first look at what it needs"
        unused = [one for one in self.entries if one.state is EntryState.MADE and job in one.users]
        return "what it needs, which is there and is recorded in a moment" if unused else None

    def is_done(self) -> bool:
        """Whether nothing is left to be made or removed, and every job may start."""
        return self._has_looked() and not self.left() and all(self.waits(job) is None for job in self._jobs)

    def is_stuck(self) -> bool:
        """Whether all that is left is lost: it is not waited for, as only a person ends that."""
        left = self.left()
        unused = any(one.state is EntryState.MADE and one.users for one in self.entries)
        return self._has_looked() and bool(left) and not unused and all(
            one.state is EntryState.LOST for one in left
        )  # fmt: skip

    def _has_looked(self) -> bool:
        """Whether what is in the catalogue was looked at since the beginning: it may be lost since the last time."""
        needless = not any(one.is_live for one in self.entries)
        return needless or self._looked.is_set() or time.monotonic() > self._begun + FIRST_LOOK

    def left(self) -> list[CatalogueEntry]:
        """What is still to be made or removed by us, or is lost, or is waited for by a job."""
        waited = {entry.nonce for job in self._jobs for entry in missing_for(job, self.entries)}
        return [
            one for one in self.entries
            if (is_unsettled(one) and one.owned) or one.state is EntryState.LOST or one.nonce in waited
        ]

    def look(self) -> None:
        """See the entries as they are now. Raises what ended the thread, if something did."""
        if self._failure:
            raise self._failure[0]
        self.entries = self._seen()

    def __enter__(self) -> ExternalWork:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(LEAVING)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self.turn()
                self._ended.wait(PAUSE)
        except BaseException as error:
            # Raised by look, in the thread that looks after the jobs.
            self._failure.append(error)


def waiting_text(entry: CatalogueEntry) -> str:
    """An entry that is not there, and why.

    >>> from cdcv2.control.entries import Debt, Kind, Reason
    >>> debt = Debt(Reason.UNREACHABLE, "PostgreSQL does not answer: start it", 0.0, 3)
    >>> waiting_text(CatalogueEntry("7f", Kind.SLOT, "shop", "PostgreSQL db/shop", {}, True, ("shop",), debt=debt))
    'slot shop (unreachable since 1970-01-01 00:00:00 UTC: PostgreSQL does not answer: start it)'
    """
    if entry.debt is None:
        return f"{entry.kind} {entry.name} ({entry.state})"
    since = datetime.fromtimestamp(entry.debt.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{entry.kind} {entry.name} ({entry.debt.reason} since {since}: {entry.debt.text})"
