"""Commits markers at an idle source, for who waits for a time that no later commit lets finish.

A time is finished when a later commit was captured. At an idle source there is none, so a peek ``after`` one's own
commit would wait for somebody else's. A marker is a transaction with one logical message, as the heartbeats of a
connector that ``cdcv2 init`` writes (decision 0562): its END comes into the topics, and no row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from cdcv2.errors import Cdcv2Error, UnavailableError
from cdcv2.store.postgres_session import connect
from cdcv2.timeline.gauges import lsn_text

#: Seconds for which one waits before a marker is committed, and between two of them at least.
_FIRST, _PAUSE = 1.0, 1.0
#: Seconds that the source has to take a session.
_PATIENCE = 3.0
#: Only for a time that the source has come to: no marker brings another one nearer.
_MARK = """
    SELECT pg_logical_emit_message(true, 'cdcv2', 'marker') WHERE pg_current_wal_insert_lsn() >= %s::pg_lsn
"""


class MarkerWriter:
    """Commits at most one marker a second, and only while somebody waits: ``write`` is given the time, in a thread.

    ``report`` is given a line for people when it fails, and when it works again. One thread calls :meth:`look`, which
    does not wait.
    """

    def __init__(
        self, write: Callable[[int], object], report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._report, self._clock = write, report, clock
        self._since: float | None = None
        self._next = 0.0
        self._thread: threading.Thread | None = None
        #: Why the last one could not be committed; "": it could, or none was tried yet.
        self.fault = ""

    def look(self, awaited: int | None) -> None:
        """``awaited``: the least time that is waited for and not finished; None: there is none."""
        now = self._clock()
        if awaited is None:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now >= max(self._since + _FIRST, self._next) and not self._is_busy:
            self._next = now + _PAUSE
            # One that hangs ends with its process, and no other one is begun meanwhile.
            self._thread = threading.Thread(target=self._commit, args=(awaited,), name="marker", daemon=True)
            self._thread.start()

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _commit(self, awaited: int) -> None:
        try:
            self._write(awaited)
            fault = ""
        except Cdcv2Error as error:
            fault = str(error)
        if fault != self.fault:
            self.fault = fault
            self._report(f"no marker can be committed: {fault}" if fault else "markers can be committed again")


def commit_marker(conninfo: str, origin: str) -> Callable[[int], None]:
    """What commits a marker in the PostgreSQL of a connection string; ``origin``: who names it, for errors."""
    def commit(awaited: int) -> None:
        import psycopg

        with closing(connect(conninfo, origin=origin, autocommit=True, patience=_PATIENCE)) as session:
            try:
                session.execute(_MARK, (lsn_text(awaited),))
            except psycopg.Error as cause:
                raise UnavailableError(
                    f"the PostgreSQL of {origin} takes no marker ({' '.join(str(cause).split())}): name the primary "
                    "server, and a user who may execute pg_logical_emit_message"
                ) from None

    return commit
