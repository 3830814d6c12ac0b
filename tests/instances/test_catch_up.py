"""When all that the logs held at first is there: exactly then, for logs that send late, several logs, and copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.logs.read import LogReader
from cdcv2.logs.read_on import read_on
from cdcv2.protocol.log import Entry, Positions
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.row_type import RowType

ROW = RowType({"type": "record", "name": "prices", "fields": [
    {"name": "name", "type": "string"}, {"name": "price", "type": "long"}]})  # fmt: skip


class LateLog(DirectoryLog):
    """Gives nothing at first when it is followed, as a broker does that sends later than it is asked."""

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        if follow:
            yield from [None] * 50
        yield from super().read(after, follow=follow)


def test_what_a_log_sends_late_is_there_before_the_first_answer(tmp_path: Path) -> None:
    log = LateLog(tmp_path / "prices", ROW, create=True,
                  description=LogDescription(timeline="market", identity="prices"))  # fmt: skip
    writer = cdcv2.Writer(log)
    for time in range(1, 20):
        writer.extend([(ROW.row(["pear", time]), time, 1)])
        writer.advance([time + 1])
    instance = LoneInstance([NamedLog("prices", log, ROW)], {"prices": ["name"]})

    looks = iter(range(1000))
    instance.read(lambda: next(looks) == 999)

    assert instance.upper == Antichain([20])
    instance.close()


def test_a_log_is_read_to_its_end_and_on_from_there(tmp_path: Path) -> None:
    """In a directory, where a position is that of a file of several messages: none comes twice, none lacks."""
    log = DirectoryLog(tmp_path / "prices", ROW, create=True, idle_wait=0.0)
    sent, read, reached = list[Message](), list[Message](), list[int]()

    def send(number: int) -> None:
        for _ in range(number):
            sent.append(Updates([(ROW.row(["pear", len(sent)]), len(sent), 1)]))
            log.send(sent[-1])
        log.flush()

    send(3)
    reading = read_on(log, lambda: reached.append(len(read)))
    for number in (2, 0, 3, 1):
        for entry in iter(reading.__next__, None):
            read.append(entry.message)  # type: ignore[arg-type]
        assert read == sent and reached == [3]
        send(number)


def messages(random: Random, end: int) -> list[Message]:
    """A log of some times, in small messages; the last ones may lack their statement, or an update."""
    made: list[Message] = []
    at = 0
    while at < end:
        upper = min(end, at + random.choice((1, 2, 9)))
        updates: list[Any] = [(str(time), time, 1) for time in range(at, upper) if random.random() < 0.6]
        made += [Updates([update]) for update in updates]
        made.append(Progress([at], [upper], {time: 1 for _, time, _ in updates}))
        at = upper
    return made[:len(made) - random.choice((0, 0, 1, 2))]


def test_logs_are_caught_up_when_what_they_held_is_given_out_and_not_before() -> None:
    """Of random logs, with copies that have a part each; what each gives meanwhile is that of the whole."""
    for seed in range(150):
        random = Random(seed)
        logs = []
        for table in ("orders", "items", "notes")[:random.randint(1, 3)]:
            whole = messages(random, random.choice((0, 3, 20, 60)))
            copies = random.choice((1, 1, 2))
            parts = [[one for one in whole if random.random() < 0.7] for _ in range(copies - 1)]
            parts.append([one for one in whole if copies == 1 or not any(one in part for part in parts)])
            logs += [NamedLog(table, MemoryLog(f"{table} {number}", part, idle_wait=0.0), ROW)
                     for number, part in enumerate(parts)]  # fmt: skip
        wanted = LogReader(covered(logs))
        for _ in wanted:
            pass
        reading = LogReader(covered(logs), follow=True, catch_up=True)
        least = 3 * len(logs) + sum(len(named.log.messages) for named in logs)  # type: ignore[attr-defined]
        for number, _ in enumerate(reading.cuts()):
            if reading.caught_up:
                break
            assert number < least
        assert reading.frontier == wanted.frontier, seed
