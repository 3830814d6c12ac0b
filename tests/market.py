"""A log in which the price of a pear is always its time, and an instance of it: an oracle that needs no sum."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import cdcv2
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from cdcv2.rows.row_type import RowType

PRICES = RowType({"type": "record", "name": "prices", "fields": [
    {"name": "name", "type": "string"}, {"name": "price", "type": "long"}]})
#: What an instance holds of it.
KEYS = {"prices": ["name"]}


class Market:
    """A log in which the price of a pear is always its time, and an instance of it."""

    def __init__(self, folder: Path) -> None:
        self.log = DirectoryLog(folder / "prices", PRICES, create=True,
                                description=LogDescription(timeline="market", identity="prices-1", log_set="market"))
        self.writer = cdcv2.Writer(self.log)
        self.at = 0
        self.reprice(1)
        self.place = folder / "market.sock"

    def logs(self) -> list[NamedLog]:
        """The log, opened by a reader."""
        return [NamedLog("prices", DirectoryLog(self.log.path), PRICES)]

    @cached_property
    def instance(self) -> LoneInstance:
        """An instance alone over it."""
        return LoneInstance(self.logs(), KEYS)

    def reprice(self, time: int, note: str = "pear") -> None:
        for at in range(self.at + 1, time + 1):
            gone = [(PRICES.row([note, at - 1]), at, -1)] if at > 1 else []
            self.writer.extend([*gone, (PRICES.row([note, at]), at, 1)])
        self.writer.advance([time + 1])
        self.log.flush()
        self.at = time
