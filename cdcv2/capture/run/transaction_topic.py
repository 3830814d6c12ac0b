"""The transaction topic of a connector, as a start reads it again: see :mod:`cdcv2.capture.released_ends`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Begin, End
from cdcv2.capture.released_ends import ReleasedEnds, TransactionRecord, has_end, read_on, recall
from cdcv2.capture.released_transactions import KNOWN
from cdcv2.capture.topics import Ranges
from cdcv2.errors import DecodeError

LOGGER = logging.getLogger(__name__)


class TransactionTopic:
    """Reads the transaction topic of a recipe by ranges of offsets. Asks where it begins, and how long it keeps."""

    def __init__(self, ranges: Ranges, recipe: DatabaseConnector) -> None:
        self._ranges, self._recipe = ranges, recipe
        self._place = recipe.transaction_topic, 0
        look = ranges.look()
        self._first, self._behind = look.spans.get(self._place, (0, 0))
        self._retention: Mapping[str, str] = look.retention.get(recipe.transaction_topic, {})

    def before(self, at: int, through: int | None) -> ReleasedEnds[int]:
        """What stands before the offset ``at``, of a capture that has released all through H; None: nothing.

        Raises what the topic raises.
        """
        return self._warned(recall(self._read, self._first, min(at, self._behind), through), through)

    def around(self, start: int, through: int | None) -> ReleasedEnds[int]:
        """The same of a capture that reads on from ``start``: what it has released may stand behind that, too.

        So it is where the logs are ahead of what is kept of positions, and where nothing is kept of these.
        """
        begins = start < self._first
        start = min(max(start, self._first), self._behind)
        at = start
        if through is not None:
            near = self._read(max(self._first, start - 4 * KNOWN), start)
            # What comes behind the last END that was released, and was not read, is judged as what is new.
            if not any(record.end is not None and record.end >= through for record in near):
                at = read_on(self._read, start, self._behind, through)
        found = recall(self._read, self._first, at, through, start=start)
        # A capture that begins with what is there has read nothing that is lost.
        return self._warned(found._replace(gone=False) if begins else found, through)

    def has_end(self, tx: Any, through: int) -> bool:
        """Whether an END of the transaction, up to this commit, is in the topic now. Raises what the topic raises."""
        first, behind = self._ranges.look().spans.get(self._place, (0, 0))
        return has_end(self._read, first, behind, tx, through)

    def _read(self, low: int, high: int) -> Iterator[TransactionRecord[int]]:
        if low >= high:
            return
        for record in self._ranges.read({self._place: (low, high)}):
            try:
                fact = self._recipe.fact(record)
            except DecodeError:
                # Of what is released there is none; behind that it is judged when it is read in its turn.
                continue
            if isinstance(fact, Begin):
                yield TransactionRecord(record.offset, fact.tx, None, {})
            elif isinstance(fact, End):
                yield TransactionRecord(record.offset, fact.tx, fact.lsn, fact.counts)

    def _warned(self, recalled: ReleasedEnds[int], through: int | None) -> ReleasedEnds[int]:
        """The same; what is lost of it, or may be, is a warning."""
        if through is None or len(recalled.up_to(through)) >= KNOWN or (self._first == 0 and not self._retention):
            return recalled
        name, known = self._recipe.transaction_topic, recalled.up_to(through)
        text = f"it holds {len(known)} of the last {KNOWN} transactions that are released"
        if self._first > 0:
            since = f"from END {known[0][1]} on" if known else f"after END {through}"
            text += (
                f", and begins at the offset {self._first}: what comes again can be judged {since}, and what would "
                "need an older END stops the capture"
            )
        settings = ", ".join(f"{key}={value}" for key, value in self._retention.items())
        remedy = (
            f"It forgets ({settings}): kafka-configs.sh --bootstrap-server KAFKA:9092 --alter "
            f"--entity-type topics --entity-name {name} --add-config "
            f"{','.join(f'{key}=-1' for key in self._retention)} keeps what is still there"
            if self._retention else "Keep it whole, or dump it from further back"
        )
        LOGGER.warning("the topic %s is read again at each start: %s. %s", name, text, remedy)
        return recalled
