"""What the tests of the command share: a way to run it, a small log to damage, and a captured directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest

from cdcv2.cli import main
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.wire.avro import MessageCodec
from cdcv2.wire.container import pack
from cdcv2.wire.files import DirectoryLog
from cdcv2.wire.rows import RowType

PRICES = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "int"]}, {"name": "name", "type": "string"}]})


class Said(NamedTuple):
    """What a run of the command said, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Said(code, *capsys.readouterr())

    return run


def write(path: Path, *messages: Message) -> Path:
    """A log of prices in a directory, one message a file."""
    log = DirectoryLog(path, PRICES, create=True)
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
    """A folder as the examples in the help want it: topics.jsonl.gz, rows, and what a capture of them wrote: logs."""
    folder = tmp_path_factory.mktemp("captured")
    with resources.as_file(resources.files("cdcv2.demo") / "recorded") as recorded:
        shutil.copytree(recorded, folder, dirs_exist_ok=True)
    words = ["capture", folder / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", folder / "rows",
             "--into", folder / "logs", "--release-every", "400"]  # fmt: skip
    assert 0 == main([str(word) for word in words])
    return folder
