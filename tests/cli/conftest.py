"""What the tests of the command share: a way to run it, a small log to damage, and a captured directory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest

from cdcv2.capture.open_record_codec import TEMP, OpenRecordCodec
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, RowRecord, SourceRecord, Tx
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.container import pack
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.minting import RemapLog, follow, mint, run as minted
from cdcv2.timeline.partitioned import frontier_of, offsets
from cdcv2.timeline.records import encode
from cdcv2.timeline.shared_remap import SharedRemap

PRICES = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "int"]}, {"name": "name", "type": "string"}]})


class Said(NamedTuple):
    """The output of a run of the command, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


def runs(capsys: pytest.CaptureFixture[str]) -> Run:
    """The same, for tests elsewhere."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """What was started is ended."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


MARKET = LogDescription(timeline="market")


def write(path: Path, *messages: Message) -> Path:
    """A log of prices in a directory, one message a file; of the market's timeline, as all of them."""
    log = DirectoryLog(path, PRICES, create=True, description=MARKET)
    for message in messages:
        log.send(message)
        log.flush()
    log.close()
    return path


def append_raw(path: Path, *values: bytes) -> None:
    """Put one more file into the log, with these bytes as its messages."""
    number = len(list(path.glob("*.avro")))
    (path / f"{number:020d}.avro").write_bytes(pack(list(values)))


def encoded(message: Message) -> bytes:
    """The bytes of a message about prices."""
    return MessageCodec(PRICES).encode(message)


def price(number: int, price: int | None = None, name: str = "") -> object:
    """A row."""
    return PRICES.row((number, price, name))


APPLE, PEAR, PLUM = price(1, 10, "apple"), price(2, None, ""), price(3, 7, 'pl"um, ripe')
#: The history of a good log: three rows come, one goes, one changes its price.
HISTORY: tuple[Message, ...] = (
    Updates([(APPLE, 3, 1), (PEAR, 3, 2)]),
    Progress([0], [5], {3: 2}),
    Updates([(PEAR, 6, -1), (APPLE, 6, -1), (price(1, 12, "apple"), 6, 1)]),
    Progress([5], [8], {6: 3}),
    Updates([(PLUM, 9, 1)]),
    Progress([8], [10], {9: 1}),
)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A good log in a directory."""
    return write(tmp_path / "prices", *HISTORY)


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the examples in the help want it: topics.jsonl.gz, rows, what a capture of them wrote: logs."""
    folder = tmp_path_factory.mktemp("captured")
    with resources.as_file(resources.files("cdcv2.demo") / "recorded") as recorded:
        shutil.copytree(recorded, folder, dirs_exist_ok=True)
    words = ["capture", folder / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", folder / "rows",
             "--into", folder / "logs", "--max-records", "400"]  # fmt: skip
    assert 0 == main([str(word) for word in words])
    bound(folder / "remap")
    temp(folder / "temp")
    return folder


def temp(path: Path) -> Path:
    """The log of TEMP of a capture: one transaction is given out, one lacks a row, one its END, one can never be."""
    tables = {"public.orders": PRICES, "public.items": PRICES}
    carry, kept = Transactions(tables, snapshot=True), OpenRecordCodec(tables)

    def rows(tx: Tx, table: str, after: int, *numbers: int) -> list[SourceRecord]:
        return [RowRecord(table, tx, (table, number), after, ((price(number), 1),)) for number in numbers]

    said: list[list[SourceRecord]] = [
        [EndRecord.of(SNAPSHOT, 0x10, {"public.orders": 1}), *rows(SNAPSHOT, "public.orders", 0x10, 1)],
        [*rows(7, "public.orders", 0x10, 2), EndRecord.of(7, 0x20, {"public.orders": 1})],
        [*rows(8, "public.orders", 0x20, 3, 4), *rows(9, "public.items", 0x30, 5)],
        [EndRecord.of(8, 0x30, {"public.orders": 2, "public.items": 1})],
        [*rows(11, "public.items", 0x40, 6), EndRecord.of(9, 0x40, {"public.items": 1})],
    ]
    writer = Writer(DirectoryLog(path, TEMP, create=True))
    for at, records in enumerate(said, 1):
        done = carry.updates([(record, 1000 * at, 1) for record in records], Antichain([1000 * at + 1]))
        writer.extend((kept.row(held), time, diff) for held, time, diff in done.temp)
        writer.advance(done.frontier)
    return path


def bound(path: Path) -> Path:
    """A shared remap in a directory; see :func:`bind`."""
    bind(DirectoryRemap(path, create=True))
    return path


def bind(log: RemapLog) -> None:
    """Bindings of a database and a topic: begun by a, with a proposal of b that came too late."""
    start = frontier_of({})
    a, b = SharedRemap(start, recipe="v1", name="a"), SharedRemap(start, recipe="v1", name="b")
    for now, lsn, places in ((1000, 0x1000, {0: 2}), (2000, 0x1B00, {0: 18, 1: 4})):
        observed = frontier_of({"bank": Antichain([lsn]), "orders": offsets(places)})
        minted(log, mint(a, observed, lambda now=now: now))  # type: ignore[misc]  # bound now, not when it is called
        if now == 1000:
            minted(log, follow(b))
            late = b.propose(frontier_of({"bank": Antichain([0x1200])}), 1500)
    assert late is not None
    log.append(encode(late), 0)
