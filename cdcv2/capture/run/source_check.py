"""What a capture finds about its source: a stop, and a connector that is too old.

A stop that lasts is kept in the logs, so it must be of their topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from cdcv2.capture.engine import CaptureEngine
from cdcv2.errors import SourceStop
from cdcv2.logs.stops import put_stop
from cdcv2.protocol.log import Log

LOGGER = logging.getLogger(__name__)


def raise_stop(engine: CaptureEngine, logs: Iterable[Log], save: Callable[[], object]) -> None:
    """Raise the SourceStop that has been reached, if any is; all before it is written.

    Where an END is lost the memory is saved by ``save`` first. Raises what writing raises.
    """
    stop = engine.commits.stopped()
    if stop is not None and is_for_good(stop, logs, sure=engine.sure):
        if engine.commits.lost:
            save()
        raise stop


def is_for_good(stop: SourceStop, logs: Iterable[Log], *, sure: bool) -> bool:
    """Whether the stop is to be raised; one that lasts is in the logs when this returns. Raises what writing raises.

    What the logs keep for ever must be of their own topics. So a stop that lasts waits until it is ``sure`` that these
    are theirs, at their ends at the latest; until then they are read on.
    """
    if stop.lasting and not sure:
        return False
    put_stop(logs, stop)
    return True


class OldConnector:
    """Warns once, with the text ``warning``, of a connector that renumbers rows when it is restarted inside their
    transaction.
    """

    def __init__(self, warning: str) -> None:
        self._warning, self._warned = warning, False

    def seen(self, old: bool) -> None:
        """A record came; ``old``: of such a connector."""
        if old and not self._warned:
            self._warned = True
            LOGGER.warning("%s", self._warning)
