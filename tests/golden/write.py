"""Write the golden files of the present format version: ``python -m tests.golden.write tests/golden/v1``.

Run once per version, before its first release; what has been released is never written again, only read.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import JsonLines
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.partitioned import frontier_of, offsets
from cdcv2.timeline.records import Genesis, Proposal, Record, Summary, encode
from cdcv2.timeline.shared_remap import LogView, SharedRemap

ROW = RowType({"type": "record", "name": "everything", "namespace": "shop", "doc": "Every type once.", "fields": [
    {"name": "nothing", "type": "null"},
    {"name": "flag", "type": "boolean"},
    {"name": "small", "type": "int"},
    {"name": "id", "type": "long"},
    {"name": "single", "type": "float"},
    {"name": "rate", "type": ["null", "double"]},
    {"name": "raw", "type": ["bytes", "null"]},
    {"name": "name", "type": "string"},
    {"name": "unit price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
    {"name": "hash", "type": {"type": "fixed", "name": "hash", "size": 4}},
    {"name": "class", "type": {"type": "enum", "name": "class", "symbols": ["ECONOMY", "FIRST"]}},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": ["null", "string"]}}},
    {"name": "place", "type": {"type": "record", "name": "place", "fields": [
        {"name": "x", "type": "double"}, {"name": "y", "type": "double"}]}},
    {"name": "other place", "type": ["null", "place"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]})
PLAIN = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})


def row(**values: Any) -> Any:
    """A row of every type, with these values in place of the usual ones."""
    usual = {
        "nothing": None, "flag": True, "small": -5, "id": 2**60, "single": 0.1, "rate": math.nan, "raw": b"\x00\xff",
        "name": "Grüße \U0001f600", "unit price": b"\xfb\x2e", "hash": b"abcd", "class": "FIRST",
        "tags": {"b": ["x", None], "a": []}, "place": [1.5, -0.0], "other place": None, "at": -(2**63),
    }
    return ROW.row({**usual, **{name.replace("_", " "): value for name, value in values.items()}})


FLUSHES: list[list[Message]] = [
    [Updates([(row(), 3, 1), (row(rate=None, raw=None, other_place=[math.inf, math.nan]), 2**62, -2)])],
    [Progress([0], [4], {3: 1}), Updates([(row(id=number), 5, 1) for number in range(5)])],
    [Progress([4], [], {5: 5, 2**62: 1}), Updates([]), Progress([9], [9])],
]
PRODUCT: list[list[Message]] = [
    [Updates([((1,), Product(1, 0), 1), ((2,), Product(0, 2), -1)])],
    [Progress([Product(0, 0)], [Product(0, 3), Product(2, 0)], {Product(1, 0): 1, Product(0, 2): 1})],
]
# A shared remap of two sources, one of which has parts of its own.
START = frontier_of({})
BOUND = frontier_of({"bank": Antichain([7]), "orders": offsets({0: 4, 2: None}), "pairs": Antichain([Product(1, 2)])})
RECORDS: list[Record] = [
    Genesis(START, "v1", "capture-ä"),
    Proposal(0, Binding(1, 1001, BOUND), None, "a"),
    Proposal(0, Binding(1001, 2**62, BOUND), "v2", "b"),
    Proposal(1, Binding(2**62, None, Antichain()), None, "b"),
]


def summarized() -> Summary:
    """What the records above come to, from some time on."""
    shared = SharedRemap(name="c")
    shared.absorb(LogView(list(enumerate(map(encode, RECORDS))), len(RECORDS)))
    return shared.summarize(1500)


def write(folder: Path) -> None:
    """Both logs, and their messages as JSON lines; and the log of a remap."""
    remap = DirectoryRemap(folder / "remap", create=True)
    for record in (*RECORDS, summarized()):
        remap.append(encode(record), 0)
    for name, row_type, flushes, times in [("everything", ROW, FLUSHES, None), ("product", PLAIN, PRODUCT, 2)]:
        stated = LogDescription(timeline="a timeline", identity=f"the log {name}")
        log = DirectoryLog(folder / name, row_type, create=True, times=times, description=stated)
        lines = JsonLines(row_type)
        with open(folder / f"{name}.jsonl", "x", encoding="utf-8") as file:
            for messages in flushes:
                for message in messages:
                    log.send(message)
                    file.write(lines.encode(message) + "\n")
                log.flush()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
