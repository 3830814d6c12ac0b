"""The parts of the demonstration with targets: its readers must see what is wrong, and its mangling lose nothing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import Iter, Progress, Updates
from cdcv2.demo import live, polls, service
from cdcv2.demo.mangled_copy import describe
from cdcv2.demo.service import Life, Service
from cdcv2.errors import UnavailableError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Message
from cdcv2.servers.processes import Child, poll_until

MONEY = 100
PATIENCE = 60


def content(upper: int, accounts: int, branches: int, ledger: int = 0) -> polls.TargetSums:
    """One row in each table, with this money."""
    sums = {"public.accounts": (1, accounts), "public.branches": (1, branches), "public.ledger": (1, ledger)}
    return polls.TargetSums(upper, sums)


class Answers:
    """A target that answers so, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.closed = list(answers), False

    def __call__(self) -> Any:
        """The next one."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Noted."""
        self.closed = True


def judged(*contents: polls.TargetSums | None) -> polls.Poller:
    """A reader that has seen these."""
    poller = polls.Poller(Answers(), MONEY, pause=0.0)
    for one in contents:
        poller.judge(one)
    return poller


def test_a_constant_sum_is_right_and_counted() -> None:
    """Also while nothing is there; the same frontier twice is two snapshots at one frontier."""
    nothing = {"public.accounts": (0, 0), "public.branches": (0, 0), "public.ledger": (0, 0)}
    poller = judged(
        None, polls.TargetSums(0, nothing), polls.TargetSums(2, nothing), content(3, 70, 30, 5),
        content(3, 70, 30, 5), content(7, 60, 40),
    )  # fmt: skip

    assert ([], 3, 2, 7) == (poller.wrong, poller.snapshots, len(poller.contents), poller.upper)
    assert {"public.accounts": 2, "public.branches": 2, "public.ledger": 2} == poller.distinct()
    assert {0, 2} == poller.empty


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ((content(3, 70, 31),), "at 3 the tables have 101"),
        ((content(0, 70, 31),), "at 0 the tables have 101"),
        ((content(3, 70, 30), content(2, 70, 30)), "there is TargetSums(upper=2"),
        ((content(3, 70, 30), content(3, 60, 40)), "there is TargetSums(upper=3"),
        ((content(3, 70, 30), None), "there is None"),
        ((content(3, 70, 30), polls.TargetSums(4, {"public.accounts": (0, 0)})), "there is TargetSums(upper=4"),
    ],
    ids=["torn", "torn before the first checkpoint", "back in time", "another at the same frontier", "gone", "emptied"],
)  # fmt: skip
def test_what_must_not_be_seen_is_noted(contents: tuple[polls.TargetSums | None, ...], said: str) -> None:
    """Proof that the judge judges."""
    (wrong,) = judged(*contents).wrong

    assert said in wrong


def test_a_reader_goes_on_where_nobody_answers_and_tells_what_ends_it() -> None:
    """A server that is down is looked at again; any other error is the demonstration's."""
    look = Answers(content(3, 70, 30), polls.UnreachableTarget("down"), content(4, 70, 30), ValueError("broken"))
    with polls.Poller(look, MONEY, pause=0.0) as poller:
        assert poll_until(lambda: not look.answers, PATIENCE)
    with pytest.raises(ValueError, match="broken"):
        poller.check()

    assert (1, 2, 4, True) == (poller.unreachable, poller.snapshots, poller.upper, look.closed)


def test_the_course_is_what_was_there_before_each_upper() -> None:
    """Updates in any order; times between commits, before the first and after the last."""
    account = (1, 1, "h", 70, None, True, 3, None)
    course = polls.Course({
        "public.accounts": [((*account[:3], 60, *account[4:]), 5, 1), (account, 1, 1), (account, 5, -1)],
        "public.branches": [((1, "Delft", 30), 1, 1)],
        "public.ledger": [((1, 1, "fee", -100), 5, 2)],
    })

    assert {"public.accounts": (0, 0), "public.branches": (0, 0), "public.ledger": (0, 0)} == course.at(1)
    assert {"public.accounts": (1, 70), "public.branches": (1, 30), "public.ledger": (0, 0)} == course.at(5)
    assert {"public.accounts": (1, 60), "public.branches": (1, 30), "public.ledger": (2, -200)} == course.at(6)


class Grown:
    """A log of which more and more is there."""

    def __init__(self, messages: list[Message]) -> None:
        self.all, self.there = messages, 0

    def messages(self, table: str) -> list[Message]:
        """What is there by now; some more each time."""
        self.there = min(len(self.all), self.there + 7)
        return self.all[:self.there]


def history(times: int) -> list[Message]:
    """Two updates at each time, and a statement."""
    return [
        message for time in range(times) for message in (
            Updates([(f"a{time}", time, 1), (f"b{time}", time, 1)]), Progress([time], [time + 1], {time: 2}),
        )
    ]  # fmt: skip


def test_a_copy_of_a_growing_log_says_the_same_in_no_order() -> None:
    """With repeats, inversions and other bounds; while it grows, a reader of the copy gets further."""
    log, copy = Grown(history(60)), MemoryLog("copy")
    mangling = live.LiveMangler(log, {"t": copy}, seed=3)
    for _ in range(8):
        mangling.round()
    early = [entry.message for entry in copy.read() if entry is not None]
    for _ in range(10):
        mangling.round()
    mangling.round(last=True)
    there = [entry.message for entry in copy.read() if entry is not None]
    reader, on_the_way = Iter(iter(there)), Iter(iter(early))
    read = sorted(update for updates, _ in reader for update in updates)

    assert sorted(update for one in log.all if isinstance(one, Updates) for update in one.updates) == read
    assert [60] == reader.frontier.to_plain() and not reader.missing()
    assert [0] < [frontier.to_plain() for _, frontier in on_the_way][-1] < [60]
    assert describe("copy", log.all, there).thoroughly


def test_all_is_copied_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its thread, round after round, and the rest in the end."""
    monkeypatch.setattr(live, "PAUSE", 0.001)
    log, copy = Grown(history(60)), MemoryLog("copy")
    with live.LiveMangler(log, {"t": copy}, seed=3) as mangling:
        assert poll_until(lambda: log.there == len(log.all), PATIENCE)
    reader = Iter(entry.message for entry in copy.read() if entry is not None)

    assert 120 == sum(len(updates) for updates, _ in reader)
    assert [60] == reader.frontier.to_plain() and mangling.rounds > 2


def test_mangling_that_cannot_write_says_so() -> None:
    """An error of the thread is raised in its owner, and the rest is not tried after an error of others."""

    class Full(MemoryLog):
        """It takes nothing."""

        def flush(self) -> None:
            """Never."""
            raise UnavailableError("the disk is full")

    with pytest.raises(UnavailableError, match="full"), live.LiveMangler(Grown(history(9)), {"t": Full("f")}, seed=3):
        pass
    with pytest.raises(KeyError), live.LiveMangler(Grown(history(9)), {"t": Full("f")}, seed=3):
        raise KeyError


class Clock:
    """Time that passes only during a sleep: however slow the machine is, no patience ends by it."""

    now = 0.0

    def monotonic(self) -> float:
        """What it shows."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """It goes on."""
        self.now += seconds


def test_what_is_slow_is_waited_for_and_what_stands_still_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience begins again with each move: all of them together take longer than it is."""
    clock = Clock()
    monkeypatch.setattr("cdcv2.servers.processes.time", clock)
    monkeypatch.setattr(service, "PATIENCE", 0.2)
    asked = iter(range(1000))
    moved: list[int] = []

    def moves() -> int:
        moved.append(next(asked))
        return moved[-1] // 4

    assert service.arrives(lambda: len(moved) >= 40, moves)
    assert clock.now > 2 * 0.2
    assert not service.arrives(lambda: False, lambda: 1)


def test_a_service_lives_again_and_dies_in_mid_run(tmp_path: Path) -> None:
    """Killed when it has brought the work further; the step of the first life is placed in no other one."""
    steps = tmp_path / "steps"
    program = (
        "import os, sys\n"
        "with open(sys.argv[1], 'a', buffering=1) as file:\n"
        " while True:\n"
        "  file.write('.' if 'CDCV2_CRASH' not in os.environ else '!')\n"
        "  file.flush()\n"
        "  os.fsync(file.fileno())\n"
    )

    def launch(more: Mapping[str, str]) -> Child:
        return Child("s", [sys.executable, "-c", program, steps], log=tmp_path / "log", env=dict(more))

    def moves() -> int:
        return len(steps.read_text()) if steps.exists() else 0

    with Service("s", launch, moves, crash="delta.table") as served:
        served.kill9()
        assert {"!"} == set(steps.read_text())
        served.start()
        served.kill9()
        assert steps.read_text().endswith("...")
        served.start()
        served.child.signal(signal.SIGTERM)
        assert -signal.SIGTERM == served.wait_dead()

    assert 3 == len(served.lives)
    assert all(isinstance(life, Life) and life.start + 3 <= life.end for life in served.lives[:2])
