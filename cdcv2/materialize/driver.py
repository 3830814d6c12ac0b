"""What a driver is: the knowledge of one foreign system, as seven methods. Writing one is an afternoon's work.

First decide whose commit counts, and state it in ``open``:

- **The store's** (a database with transactions). Keep the checkpoint in a table of the store, written in the same
  transaction as the rows, and return it from ``open``; raise a fence there (:mod:`cdcv2.materialize.protocol.fence` is
  the rule, :mod:`cdcv2.materialize.targets.postgres.driver` an example), check it in every commit, and once more after
  the last key was looked up, since what a successor has left there is not what this instance's updates go with; be
  *committed when* ``start_commit`` *returns*.
- **The recovery log's, and the store can apply a staged transaction idempotently** (files of a lake). ``store`` stages
  under a name that no other instance uses; ``start_commit`` returns a patch that names what is staged; ``acknowledge``
  applies what the state names, and only that, and must do nothing the second time.
- **The recovery log's, and the store only takes pushes** (a topic, a webhook). Mark your answer to Open with
  ``repeats=True``: the runtime then repeats an interrupted transaction with the same extent, so that the receiver
  recognizes a duplicate by ``(lower, upper, key)``.
- **No commit counts** (a store that can neither): at least once. Good for last write wins, wrong for sums.

Then run the conformance kit of :mod:`cdcv2.testing` against it: every rule, and a crash, a stall and a zombie at each
message.

Who calls: one thread, one method at a time (``interrupt`` apart), in the order of
:mod:`cdcv2.materialize.protocol.turns`; each conversation has an instance of its own. It may be a thread of the
driver's own (:class:`~cdcv2.materialize.connection.ThreadConnection`): while a method works, the runtime reduces the
next transaction. Not promised: that any method is called after another, that ``close`` is called, that no other
instance works on the same store at the same time: that is what fences are for.

A method that raises ends the conversation; raise UnavailableError when trying again later may help, FencedError when
another instance has taken over, and an error with the value and the remedy otherwise. Nothing of the transaction may be
in the store then, unless it was staged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from cdcv2.errors import UsageError
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, Flush, Flushed, Load, Loaded, Open, Opened, Patch, StartCommit, StartedCommit,
    Store,
)


class Driver(ABC):
    """One foreign system; see the module for what to decide first."""

    #: after ``open``, remarks for the user: sentences
    remarks: Sequence[str] = ()

    def prepare(self, message: Open) -> Patch | None:
        """What must be durable in the recovery log before anything is made in the store; None when nothing (more) is.

        Called before ``open``, again and again until it returns None; each patch is durable before it is called again,
        and then in ``message.state``. By default there is nothing.
        """
        return None

    @abstractmethod
    def open(self, message: Open) -> Opened:
        """Connect, make the tables that are missing, refuse those that do not fit, and state whose commit counts.

        Called once, first. A store that rules fences off every other instance whose range overlaps, and returns the
        checkpoint and the pieces that it finds then. ``message.state`` is the driver's state in the recovery log: what
        it names is committed, even if it was never applied. If the store has more of any key than ``message.pieces``,
        refuse it (RefusedError): that recovery log is another one, or an old one. Refuse, too, tables with ``delta``
        that the system cannot push to, or others that it cannot load from (UsageError).
        """

    @abstractmethod
    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Make sure that the last committed transaction is in the store, visible to its readers.

        Called after ``open`` and after each ``start_commit`` whose patch is durable. After ``open`` it may have been
        done before, so it must be idempotent. Loads that follow must see what it applied. The patch that it returns may
        be lost.
        """

    @abstractmethod
    def load(self, message: Load) -> Iterable[Loaded]:
        """What is at a key: answer now, or stage the key and answer all in ``flush``.

        Called any number of times per transaction, once per key at most, never for a table with ``delta``. A key that
        is not there is not answered.
        """

    @abstractmethod
    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Answer the Loads that are left, and then, last, Flushed.

        Called once per transaction, also when there were no Loads. The patch is durable before the first ``store``.
        """

    @abstractmethod
    def store(self, message: Store) -> None:
        """Take the new values of a key; stage them, or buffer them. No reader may see them yet.

        Called any number of times per transaction, once per key at most, in the order of bindings and keys: a repeated
        transaction has the same calls in the same order.
        """

    def changes(self, message: Changes) -> None:
        """Take the rows of a table that go and come; stage them. No reader may see them yet.

        Called in place of ``load`` and ``store`` for the tables that Opened names, once per transaction at most. A key
        that has no such form takes a Load and a Store also there. Raises UsageError unless the driver takes rows so.
        """
        raise UsageError(f"{type(self).__name__} takes one row after the other, and no Changes")

    @abstractmethod
    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Finish all stores. A store that rules commits them with the checkpoint, and checks its fence in doing so.

        Called once per transaction. Otherwise what is staged is durable on return, and the patch names it.
        """

    def interrupt(self) -> None:
        """The method at work is no longer waited for: let it raise soon, if it may take long. By default, it may not.

        Called from another thread, before ``close``. What was not committed need not be.
        """

    def close(self) -> None:
        """Release what is held: connections, locks, temporary files. Commits nothing, applies nothing.

        Called in the end, after errors, or not at all; possibly twice.
        """
