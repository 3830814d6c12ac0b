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

What their tables hold at a time is a question to :func:`open`:

>>> open(folder).as_of(1)
TablesAtTime(at 1: fruit 2 rows)

What was written for others is read as Arrow tables, by :func:`read_lake`.

This module is the front door. The boxes behind it are folders: ``core`` (times), ``protocol``, ``rows``, ``store``,
``timeline``, ``logs``, ``capture``, ``connectors``, ``views``, ``materialize``, ``spark``, ``servers``, ``testing``,
``demo``, ``viz`` and ``cli``.
"""

from __future__ import annotations

# The first of all: Ctrl-C may come while the rest is imported.
from cdcv2 import early_interrupt  # noqa: F401
import pathlib
import typing

from cdcv2 import errors
from cdcv2.core import Antichain, MutableAntichain, Product
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.read import LogReader, read
from cdcv2.protocol import Batch, Iter, Progress, Resolver, Updates, Writer, mangle
from cdcv2.protocol.timeline import Cut, Timeline
from cdcv2.rows.row_type import RowType

if typing.TYPE_CHECKING:
    from cdcv2.instances.run.client import InstanceClient
    from cdcv2.logs.open_logs import OpenLogs

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
    "connect",
    "errors",
    "mangle",
    "open",
    "read",
    "read_lake",
]


def open(
    addresses: str | pathlib.Path | typing.Iterable[str | pathlib.Path], *,
    rows: RowType | str | pathlib.Path | typing.Mapping[str, RowType | str | pathlib.Path] | None = None,
    bootstrap: str | None = None, config_file: str | pathlib.Path | None = None, times: str | int = "int",
    timeline: str | None = None, start: typing.Iterable[typing.Any] | None = None,
) -> OpenLogs:
    """The logs at some addresses, to be asked: what their tables hold at one time, how far they are finished.

    >>> logs = open("logs")                                             # doctest: +SKIP
    >>> logs.as_of(35123056)["public.orders"].to_arrow().num_rows       # doctest: +SKIP
    2

    Addresses and arguments are those of :func:`read`, and so are the errors. The log itself, for a Writer or for
    ``Iter(log.read())``, is ``open(address).log()``. Cost: a look at each place; every question reads the logs.
    """
    from cdcv2.logs.open_logs import open_logs_at

    return open_logs_at(
        addresses, rows=rows, bootstrap=bootstrap, config_file=config_file, times=times, timeline=timeline, start=start
    )


def connect(place: str | pathlib.Path) -> InstanceClient:
    """An instance, to be asked what is at some keys, and what changes. ``place`` is its ``--instance``.

    >>> answer = connect("shop.sock").peek({"public.orders": [42, 43], "public.customers": 7})    # doctest: +SKIP
    >>> answer["public.orders"].to_arrow().num_rows                                               # doctest: +SKIP
    2

    >>> for batch in connect("shop.sock").tail("public.orders", after=35123057):                  # doctest: +SKIP
    ...     print(batch.upper, batch.changes)

    It need not run yet: each question waits for it.
    """
    from cdcv2.instances.run.client import InstanceClient

    return InstanceClient(place)


def read_lake(
    folder: str | pathlib.Path, table: str, at: Antichain | typing.Iterable[int] | int | None = None
) -> typing.Any:
    """A table of a lake, or of the output of replay, as a pyarrow.Table. Needs no Spark.

    Of a lake the current rows, of one commit. Of replay the rows that are there at a time, each once, and
    ``cdcv2_count``, how often. ``at`` is a time, for everything up to and including it; or a frontier (an antichain, or
    a list of its elements), for everything that is not beyond it; by default all that is finished.

    >>> read_lake("lake", "orders").num_rows                            # doctest: +SKIP
    3
    >>> read_lake("tables", "public.orders", at=35123056).num_rows      # doctest: +SKIP
    2

    Raises MissingLogError for a folder or table that is not there; RefusedError when ``at`` is not finished, or not
    what a lake of current rows is at; UsageError for a time before the history begins; IncompleteError for a table that
    the connector does not cover, and where nothing is finished yet; OutputError for a file that cannot be read;
    MalformedError for a row that is there less than zero times. Cost: memory for the table, of replay for all its
    updates up to then.
    """
    from cdcv2.materialize.targets.lake.view import read_lake as read_table

    return read_table(folder, table, at)
