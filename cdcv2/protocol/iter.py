"""The pull form of the reader: batches out of any iterable of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import UsageError
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Batch, GarbledMessage, Message
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.resolver import Resolver


class Iter(Iterator[Batch]):
    """The batches of a log whose messages come duplicated, reordered and re-batched in any way.

    >>> from cdcv2.protocol.messages import Progress, Updates
    >>> log = [Progress([0], [5], {3: 2}), Updates([("b", 3, 1), ("a", 3, 1)]), Progress([5], [])]
    >>> for updates, frontier in Iter(reversed(log)):
    ...     print(updates, frontier)
    [('b', 3, 1), ('a', 3, 1)] []

    ``messages`` yields Updates, Progress, :class:`Entry` (a message with its position), and None for "nothing
    now", which is passed over: a live source decides itself how long it waits. Iteration ends when the history
    is complete (:attr:`closed`), without asking for more; or when ``messages`` end: then :meth:`missing` returns
    what lacks. ``start``, ``begins`` and ``on_error`` as in :class:`Resolver`, which is available as :attr:`reader`.

    Raises UsageError for messages that cannot be iterated, then what :meth:`Resolver.absorb` raises; the iterator can
    be asked again after that, and goes on behind the message that raised, which has changed nothing. Cost: as of the
    Resolver.
    """

    def __init__(
        self,
        messages: Iterable[Union[Message, Entry, GarbledMessage, None]],
        *,
        start: Iterable[Time] | None = None,
        begins: Iterable[Time] | None = None,
        on_error: str = "raise",
    ) -> None:
        #: The reader that absorbs the messages.
        self.reader = Resolver(start, begins=begins, on_error=on_error)
        try:
            self._messages = iter(messages)
        except TypeError:
            raise UsageError(f"{messages!r} is no log: it takes an iterable of messages") from None

    def __iter__(self) -> Iter:
        return self

    def __next__(self) -> Batch:
        if not self.reader.closed:
            absorb = self.reader.absorb
            for message in self._messages:
                if message is not None:
                    # A history ends with a batch, so it is not asked about otherwise.
                    batch = absorb(message)
                    if batch is not None:
                        return batch
        raise StopIteration

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it has been given out."""
        return self.reader.frontier

    @property
    def closed(self) -> bool:
        """Whether the empty frontier was reached: the history is complete, and all of it was given out."""
        return self.reader.closed

    def missing(self) -> MissingUpdates:
        """What lacks below the join of the stated uppers; falsy iff nothing that was stated is missing."""
        return self.reader.missing()
