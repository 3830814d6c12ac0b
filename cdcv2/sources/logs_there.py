"""Can the logs that are there be gone on with? Asked before a recipe is proposed, as that stops the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.protocol.log import Log
from cdcv2.protocol.writer import Writer
from cdcv2.reclock.binding import check_int
from cdcv2.reclock.transactions import resume
from cdcv2.sources.binder import Binder
from cdcv2.sources.shared_capture import Span, check_bound


def check_there(binder: Binder, logs: Iterable[tuple[str, Callable[[], Log]]]) -> None:
    """Whether these logs, each with the table that it is of, were written with the remap, and none is too far behind.

    One that is not there, which opening it says by MissingLogError, begins with the recipe. Raises ForeignStateError
    and RefusedError as a capture does, and what opening and reading raise. Cost: the whole logs.
    """
    found: list[tuple[str, Antichain]] = []
    spans: list[tuple[str, Span]] = []
    for table, opened in logs:
        try:
            with Writer(opened()) as writer:
                found.append((table, writer.known))
                spans.append((writer.log.name, writer.span))
        except MissingLogError:
            found.append((table, Antichain([0])))
    # The logs were read after the remap, and others write them: only now the remap has all that they have.
    binder.follow()
    check_bound(binder.remap, spans)
    resume(binder.remap, [Antichain([binder.starts(table, check_int(at))]) for table, known in found for at in known])
