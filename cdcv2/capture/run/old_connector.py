"""The warning about a connector that renumbers a transaction's rows when it is restarted inside it."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger(__name__)


class OldConnector:
    """Warns once of such a connector, with the text ``warning``."""

    def __init__(self, warning: str) -> None:
        self._warning, self._warned = warning, False

    def seen(self, old: bool) -> None:
        """A record came; ``old``: of such a connector."""
        if old and not self._warned:
            self._warned = True
            LOGGER.warning("%s", self._warning)
