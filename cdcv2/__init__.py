"""Change-data capture and replay, with proof that all of it arrived.

A *writer* turns a changing collection into a log of two kinds of statements: updates, and how many of them there
are. A *reader* takes them duplicated, reordered and re-batched in any way, and gives out each finished frontier's
batch exactly once, in order:

>>> from cdcv2.logs.memory import MemoryLog
>>> log = MemoryLog()
>>> with Writer(log) as writer:
...     writer.extend([("apple", 1, +2), ("pear", 1, +1)])
...     writer.advance([2])
...     writer.extend([("apple", 4, -1)])
...     writer.advance([5])
...     writer.finish()
>>> mangled = list(mangle(log.messages, seed=1, copies=3))
>>> len(mangled) > 2 * len(log.messages)
True
>>> reader = Iter(mangled)
>>> history = [update for updates, frontier in reader for update in updates]
>>> sorted(history), reader.closed
([('apple', 1, 2), ('apple', 4, -1), ('pear', 1, 1)], True)

Logs that lie somewhere are opened by their address, and several are read together, each cut finished in all of them:

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> fruit = RowType.load({"type": "record", "name": "fruit", "fields": [{"name": "name", "type": "string"}]})
>>> with Writer(DirectoryLog(folder + "/fruit", fruit, create=True)) as writer:
...     writer.extend([(fruit.row(["apple"]), 1, +2)])
...     writer.advance([2])
>>> for updates, frontier in read(folder):
...     print(updates, frontier)
{'fruit': [(Row(name='apple'), 1, 2)]} [2]

This module is the front door. The boxes behind it are folders: ``core`` (times), ``protocol``, ``rows``, ``store``,
``timeline``, ``logs``, ``capture``, ``connectors``, ``views``, ``materialize``, ``spark``, ``servers``, ``testing``,
``demo`` and ``cli``.
"""

from cdcv2 import errors
from cdcv2.core import Antichain, MutableAntichain, Product
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.read import LogReader, open, read
from cdcv2.protocol import Batch, Iter, Progress, Resolver, Updates, Writer, mangle
from cdcv2.protocol.timeline import Cut, Timeline
from cdcv2.rows.row_type import RowType

__version__ = "0.1.0"

__all__ = [
    "Antichain",
    "Batch",
    "Cut",
    "DirectoryLog",
    "Iter",
    "LogReader",
    "MemoryLog",
    "MutableAntichain",
    "Product",
    "Progress",
    "Resolver",
    "RowType",
    "Timeline",
    "Updates",
    "Writer",
    "errors",
    "mangle",
    "open",
    "read",
]
