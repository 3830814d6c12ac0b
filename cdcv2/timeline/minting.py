"""The steps of a minter, with every read and write left to the caller.

Each function here is a generator of *requests*: it yields one, is sent the answer, and returns the result of all. So a
test can stop two hundred minters between any two requests, and the same code runs on any log::

    Read(after)          answered with a View of the records from that place on
    Append(raw, after)   answered with the place of the new record, which is not before ``after``
    Trim(before)         answered when the records before that place are deleted, or will be

If an Append raises instead of being answered, it is open whether the record is there, or will be. Make the same request
again: what is bound in the meantime is not proposed twice.

Logs whose places are names in a folder or a bucket have no such requests. :func:`on_objects` makes them of four that
every object store has, and its docstring explains why that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, Union

from cdcv2.core.antichain import Antichain
from cdcv2.errors import DamagedRecordError
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.records import Record, encode
from cdcv2.timeline.shared_remap import AcceptedBinding, LogView, SharedRemap

T = TypeVar("T")


class Read(NamedTuple):
    """What is in the log from the place ``after`` on?"""

    after: int


class Append(NamedTuple):
    """Put a record into the log, durably, at a place that is not before ``after``."""

    raw: bytes
    after: int


class Trim(NamedTuple):
    """Remove the records before a place."""

    before: int


#: What a minter asks for.
Request: TypeAlias = Union[Read, Append, Trim]
#: A minter at work: requests go out, answers come in, the result is what is returned.
Minting: TypeAlias = Generator[Request, Any, T]


class RemapLog(Protocol):
    """A log of records that many append to, each at its own place. Called by one thread at a time."""

    @property
    def name(self) -> str:
        """The topic or directory: for people."""

    def place(self, number: int) -> str:
        """Where a record stands, for people: the file, or topic and offset."""

    def read(self, after: int) -> LogView:
        """A :class:`LogView` from a place on, of a moment after the call began. Raises UnavailableError."""

    def append(self, raw: bytes, after: int) -> int:
        """The place at which the record is durable. Raises UnavailableError, OutputError: it may be there or not."""

    def trim(self, before: int) -> None:
        """Remove the records before a place. Raises UnavailableError, OutputError: some may be deleted."""


def run(log: RemapLog, minting: Minting[T]) -> T:
    """Do what a generator of this module asks for, on a log; its result.

    Raises what the log or the minter raises; a DamagedRecordError names the record as the log does.
    """
    answer: Any = None
    while True:
        try:
            request = minting.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what a Minting[T] returns is a T
        except DamagedRecordError as error:
            raise DamagedRecordError(error.reason, log.place(int(str(error.position))), error.raw) from error
        if isinstance(request, Read):
            answer = log.read(request.after)
        elif isinstance(request, Append):
            answer = log.append(request.raw, request.after)
        else:
            log.trim(request.before)
            answer = None


def ask(request: Request) -> Minting[Any]:
    """One request alone; its answer."""
    return (yield request)


def follow(shared: SharedRemap) -> Minting[list[AcceptedBinding]]:
    """Read what is new; the bindings that have won since. Asks once."""
    return shared.absorb((yield Read(shared.next)))


def agree(shared: SharedRemap, want: Callable[[], Record | None]) -> Minting[list[AcceptedBinding]]:
    """Read, and append what ``want`` returns, until it returns None; all bindings accepted meanwhile, of any minter.

    ``want`` is called again each time that more has been read: ``lambda: shared.propose(observed, now())``. After an
    append the log is read past the place of the new record: only that shows whether it is accepted. Ends after one
    append for each proposal of another that came in between, at most.
    """
    won = yield from follow(shared)
    while (record := want()) is not None:
        place = yield Append(encode(record), shared.next)
        won += yield from _past(shared, place)
    return won


def mint(shared: SharedRemap, observed: Antichain, now: Callable[[], int]) -> Minting[list[AcceptedBinding]]:
    """Bind what was observed, as :func:`agree`; ``now`` gives the time of the timeline."""
    return agree(shared, lambda: shared.propose(observed, now()))


def compact(shared: SharedRemap, since: int) -> Minting[list[AcceptedBinding]]:
    """Append a summary of all that was read, and trim what it stands for; returns the bindings accepted meanwhile.

    See :meth:`SharedRemap.summarize` for ``since``. The remap in memory is compacted, too, as far as its holds allow.
    Nothing is trimmed before the summary is known to be in the log.
    """
    won = yield from follow(shared)
    summary = shared.summarize(since)
    since = check_int(summary.remap["bindings"][0][0])
    place = yield Append(encode(summary), shared.next)
    won += yield from _past(shared, place)
    remap = shared.remap
    remap.compact(max(remap.since, min(since, remap.last)))
    yield Trim(summary.position)
    return won


def _past(shared: SharedRemap, place: int) -> Minting[list[AcceptedBinding]]:
    won: list[AcceptedBinding] = []
    while shared.next <= place:
        won += yield from follow(shared)
    return won


# -- logs made of objects -----------------------------------------------------------------------------------------


class List(NamedTuple):
    """Which numbers are there? Answered with all that were there all the time, and any that were for a part of it."""


class Get(NamedTuple):
    """The bytes of a number, or None when it is not there."""

    number: int


class Put(NamedTuple):
    """Put bytes under a number unless it is taken; answered with whether they are there now, durably and whole."""

    number: int
    raw: bytes


class Remove(NamedTuple):
    """Remove a number; it is no mistake if it is not there."""

    number: int


#: What an object store is asked for.
ObjectRequest: TypeAlias = Union[List, Get, Put, Remove]


def on_objects(minting: Minting[T]) -> Generator[ObjectRequest, Any, T]:
    """The same minter on objects with consecutive numbers, put if absent.

    A record goes to the first free number from where its minter has read. While nothing is trimmed, that is behind the
    last one. If numbers before it have been trimmed meanwhile, it may land there: such a record was never decided on,
    and must not be. It is in a place that a summary covers, and every reader finds that summary: it was durable before
    the number was free, and after reading the objects a reader lists the numbers again, and reads what is new, until
    nothing is. A summary is only trimmed when a later one covers it.
    """
    answer: Any = None
    while True:
        try:
            request = minting.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # as in run
        if isinstance(request, Read):
            answer = yield from _read(request.after)
        elif isinstance(request, Append):
            number = request.after
            while not (yield Put(number, request.raw)):
                number += 1
            answer = number
        else:
            answer = None
            for number in sorted((yield List())):
                if number < request.before:
                    yield Remove(number)


def _read(after: int) -> Generator[ObjectRequest, Any, LogView]:
    got: dict[int, bytes] = {}
    numbers: set[int] = set((yield List()))
    while True:
        for number in sorted(numbers):
            if number >= after and number not in got:
                raw = yield Get(number)
                if raw is not None:
                    got[number] = raw
        again = set((yield List()))
        if again == numbers:
            break
        numbers = again
    # One that vanished while it was read was trimmed; its summary has been read, if anything has.
    return LogView(sorted(got.items()), max(numbers, default=-1) + 1)
