"""What was observed of a database, a slot, a connector, a transaction topic and a copy, each at one moment.

Values without a clock and without a connection: :mod:`cdcv2.control.seconds_behind` decides on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cdcv2.connectors.transaction_ends import TransactionEnd

#: The state of a connector that Connect does not have; and of one about which Connect does not answer.
MISSING, UNANSWERED = "MISSING", "UNANSWERED"


class AwaitedTransaction(NamedTuple):
    """A transaction that has not ended: of which process of PostgreSQL, or the name of one that is prepared.

    ``user``, ``application``, ``database``: whose, as far as the server names it. ``since``: when it began, or was
    prepared, by the server's clock, in UTC; empty: the role may not see that.
    """

    process: int | None = None
    prepared: str | None = None
    user: str = ""
    application: str = ""
    database: str = ""
    since: str = ""

    @property
    def text(self) -> str:
        """It, in words.

        >>> AwaitedTransaction(7, user="lab", application="psql", database="shop", since="2026-01-01 00:01:00").text
        'process 7 of lab (psql) in the database shop, since 2026-01-01 00:01:00 UTC'
        """
        what = f"process {self.process}" if self.prepared is None else f"the prepared transaction {self.prepared}"
        whose = f" of {self.user}" if self.user else ""
        whose += f" ({self.application})" if self.application else ""
        where = f" in the database {self.database}" if self.database else ""
        return f"{what}{whose}{where}{f', since {self.since} UTC' if self.since else ''}"

    @property
    def remedy(self) -> str:
        """How it ends.

        >>> AwaitedTransaction(prepared="it's", database="shop").remedy
        "in the database shop: COMMIT PREPARED 'it''s' or ROLLBACK PREPARED 'it''s'"
        """
        if self.prepared is None:
            return f"let it end; or end it, and what it has not committed: SELECT pg_terminate_backend({self.process})"
        name = "'" + self.prepared.replace("'", "''") + "'"
        where = f"in the database {self.database}: " if self.database else ""
        return f"{where}COMMIT PREPARED {name} or ROLLBACK PREPARED {name}"


class SlotObservation(NamedTuple):
    """A replication slot, as its server reports it.

    - ``active``: whether a connector reads from it; ``confirmed``: the LSN up to which that needs nothing again.
    - ``sent``: up to where the server has sent its WAL to the connector; None: nothing is sent, or we may not see it.
    - ``status``: of its WAL, ``lost`` where that is removed; ``retained``: bytes of WAL that it keeps; ``left``: bytes
      of WAL until it is in danger, None without a limit.
    - ``being_made``: a session makes it, and PostgreSQL waits for the transactions that were open before; ``oldest``:
      the oldest that is open, None: none is seen.
    """

    name: str
    active: bool
    confirmed: int | None = None
    sent: int | None = None
    status: str | None = None
    retained: int | None = None
    left: int | None = None
    being_made: bool = False
    oldest: AwaitedTransaction | None = None

    @property
    def awaits(self) -> str | None:
        """What its making waits for, in words; None: it is made."""
        if not self.being_made:
            return None
        oldest = f". The oldest that is open: {self.oldest.text}" if self.oldest is not None else ""
        return f"PostgreSQL makes the slot {self.name} when the transactions that were open have ended{oldest}"


class DatabaseObservation(NamedTuple):
    """A database, as it was at one moment.

    - ``at``: that moment, by its own clock, in seconds since 1970; ``position``: where its WAL ended, in bytes.
    - ``slot``: None where there is none of that name. What it states was asked for behind the position.
    - ``slot_name``: the name that was asked for.
    - ``last_tx``: the transaction that was committed last, where the server keeps that.
    - ``first_after``: when the oldest commit behind the last END was, of those that the server keeps; None: not known.
    """

    at: float
    position: int
    slot: SlotObservation | None = None
    last_tx: int | None = None
    first_after: float | None = None
    slot_name: str = ""

    @property
    def read_slot(self) -> SlotObservation | None:
        """Its slot, if a connector reads from it: only that can confirm what the topic has."""
        return self.slot if self.slot is not None and self.slot.active else None


class TopicObservation(NamedTuple):
    """A transaction topic: its name, behind which offset it ends, its last END, and the first beyond a frontier."""

    name: str
    end: int
    last: TransactionEnd | None = None
    beyond: TransactionEnd | None = None


class ConnectorObservation(NamedTuple):
    """A connector: its state and those of its tasks, as Connect has them; ``reason`` of one that failed."""

    name: str
    state: str
    tasks: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it and its tasks run."""
        return self.state == "RUNNING" and bool(self.tasks) and set(self.tasks) == {"RUNNING"}


class CopyObservation(NamedTuple):
    """A copy: up to where it is complete, when the last commit of that was, and when nothing was missing before.

    ``of_commits``: whether its times are those of commits, in bytes of WAL; else those of a remap. ``captured``: the
    LSN through which its logs were complete before the source was looked at; None: not known.
    """

    frontier: Sequence[Any] | None
    committed_at: float | None = None
    all_there_at: float | None = None
    of_commits: bool = True
    captured: int | None = None
