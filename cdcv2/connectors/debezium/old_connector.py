"""The warning about a connector that renumbers a transaction's rows when it is restarted inside it."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger(__name__)


class OldConnector:
    """Warns once of a connector before 3.7.0; ``prefix`` is the one of its topics."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._warned = prefix, False

    def seen(self, old: bool) -> None:
        """A record came; ``old``: of such a connector."""
        if old and not self._warned:
            self._warned = True
            LOGGER.warning(
                "the connector of %s is older than Debezium 3.7.0: restarted inside a transaction, it numbers the rest "
                "of it anew and may lose rows, and the capture stops there for good. Use 3.7.0 or later", self._prefix,
            )
