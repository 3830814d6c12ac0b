"""A bookmark leaves out what is over, and nothing else; where it does not fit, all is read."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.logs.bookmark import Bookmark, covering
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.timeline import Cut, Timeline
from tests.cli.conftest import APPLE, PRICES, price, write


class Parts:
    """Several memory logs as the parts of one."""

    name = "parts"

    def __init__(self, parts: list[MemoryLog]) -> None:
        self.parts = parts
        self.given = 0

    def ends(self) -> dict[int, int]:
        """Of each."""
        return {number: part.ends()[0] for number, part in enumerate(self.parts)}

    def read(self, after: dict[int, int] | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """One after the other."""
        for number, part in enumerate(self.parts):
            for entry in part.read({0: (after or {}).get(number, 0)}, follow=False):
                if entry is not None:
                    self.given += 1
                    position = entry.position
                    yield Entry(Position("parts", number, position.offset, position.index), entry.message)


def history(seed: int) -> list[Message]:
    """A finished history of 40 times, in order, as messages."""
    draw = random.Random(seed)
    updates = sorted({(draw.randrange(9), draw.randrange(40)) for _ in range(60)}, key=lambda one: one[1])
    messages: list[Message] = [Updates([(data, time, draw.choice([1, -1]))]) for data, time in updates]
    counts = Counter(time for _, time in updates)
    for lower in range(0, 40, 4):
        within = {time: counts[time] for time in range(lower, lower + 4) if counts[time]}
        last = [at for at, one in enumerate(messages) if isinstance(one, Updates) and one.updates[0][1] < lower + 4]
        messages.insert(last[-1] + 1 if last else 0, Progress([lower], [lower + 4], within))
    return [*messages, Progress([40], [], {})]


def cuts(bookmark: Bookmark, start: Antichain) -> Iterator[tuple[Cut, Any]]:
    """What is read, with the bookmark behind each cut, after JSON."""
    timeline = Timeline(["all"], start=start, begins=[0])
    for entry in bookmark.read(follow=False):
        assert entry is not None
        cut = timeline.absorb("all", entry)
        if cut is not None:
            yield cut, json.loads(json.dumps(bookmark.plain(cut.upper)))


def known(found: list[tuple[Cut, Any]]) -> list[Any]:
    """All updates of cuts."""
    return sorted(update for cut, _ in found for updates in cut.updates.values() for update in updates)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_order_nothing_is_lost(seed: int) -> None:
    """From each cut of a mangled log of two parts, and twice in a row, as much is read as from the start."""
    draw = random.Random(seed)
    messages = list(mangle(history(seed), seed=seed, copies=1 + seed % 2, window=1 + 5 * (seed % 4)))
    parts = [MemoryLog(f"part {number}") for number in range(2)]
    for message in messages:
        draw.choice(parts).send(message)
    for part in parts:
        part.flush()
    whole, skipped = list(cuts(Bookmark(Parts(parts)), Antichain([0]))), 0
    for at, (cut, plain) in enumerate(whole[:-1]):
        source = Parts(parts)
        mark = Bookmark(source, plain, cut.upper)
        rest = list(cuts(mark, cut.upper))
        assert Antichain() == covering(Antichain([0]), mark.statements()).known
        skipped += len(messages) - source.given
        assert known(whole[at + 1:]) == known(rest)
        if rest[1:]:
            assert known(whole[at + 1:]) == sorted(known(rest[:1]) + known(
                list(cuts(Bookmark(Parts(parts), rest[0][1]), rest[0][0].upper))
            ))
    assert skipped > 0


def test_most_of_a_log_in_order_is_left_out(tmp_path: Path) -> None:
    """Files of several messages each; reading begins with the last one that is over."""
    log = DirectoryLog(tmp_path / "log", PRICES, create=True)
    for time in range(10):
        log.send(Updates([(price(time, 1, "x"), time, 1), (price(time, 2, "y"), time, 1)]))
        log.send(Progress([time], [time + 1], {time: 2}))
        log.flush()
    found = list(cuts(Bookmark(log), Antichain([0])))
    again = Bookmark(log, found[6][1])
    read = [entry.position.offset for entry in again.read(follow=False) if entry is not None]

    assert [6, 6, 7, 7, 8, 8, 9, 9] == read
    assert list(found[6][1]["parts"]) == ["0"] and found[6][1]["parts"]["0"][0] == 6
    assert [[[0], [7]]] == found[6][1]["stated"]


@pytest.mark.parametrize("other", [
    [], [Updates([("a", 1, 1)])], [Updates([("a", 1, 1)]), Progress([0], [1], {}), Progress([1], [4], {1: 1})],
    [Progress([0], [2], {1: 1}), Updates([("a", 1, 1)])],
])  # fmt: skip
def test_a_log_that_was_made_anew_is_read_from_its_start(other: list[Message]) -> None:
    """Where another message stands, or none."""
    first = MemoryLog("log", [Updates([("a", 1, 1)]), Progress([0], [2], {1: 1})])
    [(_, plain)] = cuts(Bookmark(first), Antichain([0]))
    entries = [entry.message for entry in Bookmark(MemoryLog("log", other), plain).read(follow=False) if entry]

    assert other == [one for at, one in enumerate(entries) if one not in entries[:at]]


@pytest.mark.parametrize("plain", [None, 5, [], {"x": 1}, {"0": 5}, {"0": ["a", "b"]}, {"7": [0, "digest"]}])
def test_what_is_no_bookmark_costs_a_reading(plain: Any) -> None:
    """And nothing else."""
    messages: list[Message] = [Updates([("a", 1, 1)]), Progress([0], [2], {1: 1})]

    assert messages == [one.message for one in Bookmark(MemoryLog("log", messages), plain).read(follow=False) if one]


def test_the_command_leaves_it_in_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run reads the last file of the first one, and what was added; and all of a log that is another."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    (tmp_path / "f.yaml").write_text(
        "materialization: prices\nlogs: .\nbindings: {log: prices, target: now, key: id}\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8",
    )  # fmt: skip
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    read: list[int] = []
    inner = DirectoryLog._messages

    def noted(self: DirectoryLog, number: int) -> Iterator[Entry]:
        read.append(number)
        return inner(self, number)

    monkeypatch.setattr(DirectoryLog, "_messages", noted)
    assert 0 == main(["materialize", str(tmp_path / "f.yaml")])
    write(tmp_path / "prices", Updates([(price(2, 2, "b"), 6, 1)]), Progress([5], [8], {6: 1}))
    assert 0 == main(["materialize", str(tmp_path / "f.yaml")])

    from cdcv2.materialize.targets.lake.driver import open_lake

    assert [0, 1, 1, 2, 3] == read
    assert {(1,), (2,)} == set(dict(open_lake(tmp_path / "lake").rows("now")))
