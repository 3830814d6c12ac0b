"""CDCv2 itself: what is written, how it is read in any order, how it is written on. No I/O.

``Stash`` (what is new) and ``Ledger`` (what is finished) have the reader's rules; ``Resolver`` and ``Iter`` compose
them on one thread, ``cdcv2.spark`` on many machines. ``IntegerReader`` decides the plain cases of the usual log faster,
and leaves to them whatever may be an error. ``Timeline`` reads several logs as one.
"""

from cdcv2.protocol.iter import Iter
from cdcv2.protocol.ledger import Dispute, Ledger
from cdcv2.protocol.log import Entry, Log, Position, Positions, Sink, Source
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Batch, GarbledMessage, Message, Progress, Update, Updates
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.stash import Stash
from cdcv2.protocol.timeline import Cut, Timeline
from cdcv2.protocol.writer import Writer

__all__ = [
    "Batch",
    "Cut",
    "Dispute",
    "Entry",
    "GarbledMessage",
    "Iter",
    "Ledger",
    "Log",
    "LogAddress",
    "Message",
    "MissingUpdates",
    "Position",
    "Positions",
    "Progress",
    "Resolver",
    "Sink",
    "Source",
    "Stash",
    "Timeline",
    "Update",
    "Updates",
    "Writer",
    "mangle",
]
