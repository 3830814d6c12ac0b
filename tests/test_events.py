"""What a job states of itself: when a line is written, what an end has, and that a stream never stands in its way."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import (
    DecodeError, FencedError, MissingLogError, OutputError, SourceStop, UnavailableError, UsageError,
)
from cdcv2.event_stream import DescriptorStream, open_events, parse_event, read_events
from cdcv2.events import CHANGED, MOST_TEXT, MOST_WAITS, UNCHANGED, JobEvents, JobProgress, JobWait, end_facts, shown
from cdcv2.exits import Exit
from cdcv2.logs import commit_clock
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimes


class Lines:
    """A stream in memory."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.closed = False

    def write(self, line: bytes, *, last: bool = False) -> None:
        """Keep it."""
        self.events.append(parse_event(line))

    def close(self) -> None:
        """Once, at the end."""
        self.closed = True


class Job:
    """A job whose clock is moved by hand, and its events in memory."""

    def __init__(self) -> None:
        self.now, self.stream = 0.0, Lines()
        self.events = JobEvents("a job", self.stream, clock=lambda: 1000 + self.now, ticks=lambda: self.now)

    def turn(self, seconds: float, frontier: int) -> None:
        """So much later it is there."""
        self.now += seconds
        self.events.progress(lambda: JobProgress([frontier]))

    @property
    def frontiers(self) -> list[tuple[float, Any]]:
        """When progress was stated, and which."""
        return [(one["at"] - 1000, one["frontier"]) for one in self.stream.events if one["event"] == "progress"]


def test_a_run_is_start_progress_and_end_under_one_name() -> None:
    """By run and process a reader knows which lines belong together."""
    job = Job()
    job.events.start()
    job.turn(CHANGED, 7)
    job.events.end(Exit.DONE)
    job.events.end(Exit.BUG)

    assert ["start", "progress", "end"] == [one["event"] for one in job.stream.events]
    assert {(1, "a job", os.getpid())} == {(one["version"], one["job"], one["pid"]) for one in job.stream.events}
    assert 1 == len({one["run"] for one in job.stream.events})
    assert ([7], 0, None, None) == tuple(job.stream.events[-1][name] for name in ("frontier", "exit", "error", "retry"))
    assert job.stream.closed


def test_progress_is_stated_when_something_changed_but_seldom() -> None:
    """At most once a second; and the last change is not lost."""
    job = Job()
    job.events.start()
    for frontier in range(1, 14):
        job.turn(0.25, frontier)
    job.turn(CHANGED, 13)

    assert [(1.0, [4]), (2.0, [8]), (3.0, [12]), (4.25, [13])] == job.frontiers


def test_one_that_stands_still_is_alive() -> None:
    """By this a supervisor knows it from one that hangs."""
    job = Job()
    job.events.start()
    for _ in range(25):
        job.turn(1.0, 7)
    stopping = job.events.keeping_alive(lambda: True)
    job.now += UNCHANGED

    assert stopping()
    assert [1.0, 11.0, 21.0, 35.0] == [at for at, _ in job.frontiers]


def test_what_is_in_the_way_is_stated_until_there_is_progress() -> None:
    """It has the frontier of before, and what it waits for instead."""
    job = Job()
    job.events.start()
    job.turn(CHANGED, 7)
    job.now += CHANGED
    job.events.waiting("Kafka does not answer", place={"topic": "orders"})
    job.turn(CHANGED, 7)
    waits = [one["waits"] for one in job.stream.events if one["event"] == "progress"]

    assert [[], [{"what": "unavailable", "text": "Kafka does not answer", "place": {"topic": "orders"}}], []] == waits
    assert [[7], [7], [7]] == [frontier for _, frontier in job.frontiers]


def test_a_state_is_asked_for_only_when_it_is_time_to() -> None:
    """It may cost a look at everything that is open."""
    job, asked = Job(), 0

    def state() -> JobProgress:
        nonlocal asked
        asked += 1
        return JobProgress([asked])

    for _ in range(100):
        job.events.progress(state)
    JobEvents("without a stream").progress(state)

    assert 1 == asked


def test_a_line_has_a_limit() -> None:
    """Whatever is open: a line stays a line."""
    waits = [JobWait("updates", "x" * 10 * MOST_TEXT, {"time": at}) for at in range(5 * MOST_WAITS)]
    plain = JobProgress([1], waits=waits).plain()

    assert (MOST_WAITS, 4 * MOST_WAITS) == (len(plain["waits"]), plain["more_waits"])
    assert MOST_TEXT == len(plain["waits"][0]["text"])


def failed(make: Callable[[], object]) -> BaseException:
    """What it raises."""
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    ("code", "error", "expected"),
    [
        (Exit.UNABLE, UnavailableError("Kafka does not\nanswer"),
         {"exit": 4, "error": "UnavailableError", "reason": "Kafka does not answer", "remedy": None,
          "retry": "mended"}),
        (Exit.UNABLE, SourceStop("a TRUNCATE", "Give --before from-state", 7),
         {"exit": 4, "error": "SourceStop", "reason": "a TRUNCATE", "remedy": "Give --before from-state",
          "retry": "mended"}),
        (Exit.UNABLE, FencedError("another runs"), {"retry": "never", "reason": "another runs"}),
        (Exit.UNABLE, FileNotFoundError(errno.ENOENT, "No such file", "rows"),
         {"error": "FileNotFoundError", "reason": "rows: No such file", "retry": "mended"}),
        (Exit.INTERRUPTED, KeyboardInterrupt(), {"exit": 130, "retry": "never"}),
        (Exit.MISSING, None, {"exit": 1, "error": None, "retry": "mended"}),
        (Exit.DONE, None, {"exit": 0, "error": None, "reason": None, "retry": None}),
        (143, None, {"exit": 143, "retry": "now"}),
    ],
)
def test_an_end_states_why_and_whether_a_retry_helps(
    code: int, error: BaseException | None, expected: dict[str, Any]
) -> None:
    """Reason and remedy apart where the error has them so, else its text is the reason."""
    facts = end_facts(code, error)

    assert expected == {name: facts[name] for name in expected}
    assert (code == 0) == (facts["reason"] is None)


def test_the_end_of_a_mistake_has_its_place_and_not_its_text() -> None:
    """The text of an error that is none of ours may quote anything."""
    facts = end_facts(Exit.BUG, failed(lambda: {}["hunter2"]))

    assert (70, "KeyError", "never") == (facts["exit"], facts["error"], facts["retry"])
    assert facts["reason"].startswith("KeyError at tests.test_events, line ") or "line" in facts["reason"]
    assert "hunter2" not in json.dumps(facts)


SECRETS = [
    "cannot connect to host=db user=cdc password=hunter2 dbname=shop",
    "cannot connect to host=db password='hunter2 or two' dbname=shop",
    "postgresql://cdc:hunter2@db:5432/shop does not answer",
    "sasl.password=hunter2 is refused",
    'sasl.jaas.config=PlainLoginModule required username="a" password="hunter2";',
    '{"database.password": "hunter2", "a": 1}',
    "ssl.key.password = hunter2; PGPASSWORD=hunter2",
    "Authorization token: hunter2",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_secret_is_in_an_event(text: str) -> None:
    """Errors have none. But one that comes from a library, through a text, is not ours to vouch for."""
    job = Job()
    job.events.start()
    job.now += 1
    job.events.waiting(text)
    job.events.progress(lambda: JobProgress([1], waits=[JobWait("records", text)]), at_once=True)
    job.events.end(Exit.UNABLE, SourceStop(text, text))

    assert "hunter2" not in json.dumps(job.stream.events)
    assert "***" in shown(text)
    assert text.split()[0][:4] == shown(text)[:4]


# -- where they go


def write(path: Path, *frontiers: int, ended: bool = True) -> None:
    """A run."""
    events = JobEvents("a job", open_events(str(path)))
    events.start()
    for frontier in frontiers:
        events.progress(lambda: JobProgress([frontier]), at_once=True)
    if ended:
        events.end(Exit.DONE)


def kinds(path: Path) -> list[str]:
    """The events of a file, by kind."""
    return [one["event"] for one in read_events(path)]


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """It has all runs, one after another."""
    write(tmp_path / "events", 1)
    write(tmp_path / "events", 2, 3)

    assert ["start", "progress", "end", "start", "progress", "progress", "end"] == kinds(tmp_path / "events")


def test_at_every_byte_a_kill_leaves_a_file_that_can_be_read_and_continued(tmp_path: Path) -> None:
    """Whole lines stay, a line that was broken off is passed over, and the next run begins a line of its own."""
    write(tmp_path / "whole", 1, 2)
    whole = (tmp_path / "whole").read_bytes()
    for size in range(1, len(whole) + 1):
        path = tmp_path / "cut"
        path.write_bytes(whole[:size])
        # One more where a line lacks its end alone.
        lines = whole[:size].count(b"\n")
        before = [one["event"] for one in read_events(path)]
        write(path)

        assert ["start", "progress", "progress", "end"][:len(before)] == before, size
        assert lines <= len(before) <= lines + 1, size
        assert [*before, "start", "end"] == kinds(path), size


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_line_is_refused_with_its_place(tmp_path: Path, number: int) -> None:
    """A kill breaks only the last line of a run off; anything else is damage, and what it held is not known."""
    write(tmp_path / "events", 1, 2)
    lines = (tmp_path / "events").read_bytes().splitlines(keepends=True)
    lines[number] = lines[number][:-9] + b"\n"
    (tmp_path / "events").write_bytes(b"".join(lines))

    with pytest.raises(DecodeError, match=f"events, line {number + 1}: it is no JSON"):
        read_events(tmp_path / "events")


@pytest.mark.parametrize(
    ("line", "reason"), [('{"version": 2, "event": "end"}', "version is 2"), ('{"version": 1}', "kind"), ("7", "kind")]
)
def test_what_is_no_event_of_this_version_is_refused(line: str, reason: str) -> None:
    """Never read as something else."""
    with pytest.raises(DecodeError, match=reason):
        parse_event(line)


def test_what_cannot_be_written_or_read_is_refused_at_the_start(tmp_path: Path) -> None:
    """Another file is not appended to, and neither are descriptors that are something else here."""
    (tmp_path / "shop.yaml").write_text("materialization: shop\n", "utf-8")
    reading, writing = os.pipe()

    with pytest.raises(UsageError, match="something else than events"):
        open_events(str(tmp_path / "shop.yaml"))
    with pytest.raises(OutputError, match="cannot be written"):
        open_events(str(tmp_path / "none" / "events"))
    with pytest.raises(UsageError, match="not open"):
        open_events("fd:1234")
    with pytest.raises(UsageError, match="reading only"):
        open_events(f"fd:{reading}")
    with pytest.raises(MissingLogError):
        read_events(tmp_path / "none")
    assert "materialization: shop\n" == (tmp_path / "shop.yaml").read_text("utf-8")
    os.close(reading), os.close(writing)


def test_the_end_of_a_file_has_its_last_events(tmp_path: Path) -> None:
    """Those that stand from a byte on, and of these as many as are whole in so many bytes at the end."""
    path = tmp_path / "events"
    lines = [json.dumps({"version": 1, "event": "progress", "frontier": [at]}) + "\n" for at in range(9)]
    path.write_text("".join(lines), "utf-8")

    for begins in range(9):
        for most in range(sum(map(len, lines)) + 2):
            expected = [at for at in range(begins, 9) if begins == at and most >= sum(map(len, lines[at:]))
                        or most > sum(map(len, lines[at:]))]  # fmt: skip
            found = read_events(path, begins=sum(map(len, lines[:begins])), most=most)
            assert expected == [event["frontier"][0] for event in found], (begins, most)


def test_a_reader_that_went_away_ends_nothing() -> None:
    """The job is worth more than who watches it."""
    reading, writing = os.pipe()
    events = JobEvents("a job", open_events(f"fd:{writing}"))
    events.start()
    first = os.read(reading, 10_000)
    os.close(reading)
    for frontier in range(3):
        events.progress(lambda: JobProgress([frontier]), at_once=True)
    events.end(Exit.DONE)

    assert "start" == parse_event(first)["event"]
    # It is not ours to close.
    os.close(writing)


def test_a_reader_that_does_not_read_is_not_waited_for_and_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full pipe loses lines, and never a part of one; what was written in part is completed first."""
    monkeypatch.setattr("cdcv2.event_stream._PATIENCE", 0.0)
    reading, writing = os.pipe()
    events = JobEvents("a job", open_events(f"fd:{writing}"))
    events.start()
    waits = [JobWait("records", "x" * 1500) for _ in range(20)]
    for frontier in range(50):
        events.progress(lambda: JobProgress([frontier], waits=waits), at_once=True)
    os.set_blocking(reading, False)
    read = b""
    for _ in range(10):
        try:
            while True:
                read += os.read(reading, 1_000_000)
        except BlockingIOError:
            events.progress(lambda: JobProgress([99]), at_once=True)
    events.end(Exit.DONE)
    read += os.read(reading, 1_000_000)
    frontiers = [parse_event(line).get("frontier") for line in read.splitlines()]

    assert frontiers[:3] == [None, [0], [1]]
    assert len(frontiers) < 50
    assert [[99], [99]] == frontiers[-2:]
    os.close(reading), os.close(writing)


def test_a_full_disk_ends_nothing_and_later_lines_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line that was written in part is completed when there is room, and it is named once."""
    real, room = os.write, [True]

    def full(number: int, text: bytes) -> int:
        if room[0]:
            return real(number, text)
        if room == [False, "part"]:
            room.pop()
            return real(number, text[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    events = JobEvents("a job", open_events(str(tmp_path / "events")))
    monkeypatch.setattr("cdcv2.event_stream.os.write", full)
    events.start()
    room[:] = [False, "part"]
    for frontier in (1, 2, 3):
        events.progress(lambda: JobProgress([frontier]), at_once=True)
    room[:] = [True]
    events.progress(lambda: JobProgress([4]), at_once=True)
    events.end(Exit.DONE)

    assert [None, [1], [4], [4]] == [one.get("frontier") for one in read_events(tmp_path / "events")]
    assert 1 == caplog.text.count("events cannot be written: No space left")


def test_a_descriptor_stream_is_closed_once(tmp_path: Path) -> None:
    """The number may be another file's after that."""
    stream = DescriptorStream(os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT), owned=True)
    stream.close()
    other = os.open(tmp_path / "b", os.O_WRONLY | os.O_CREAT)
    stream.close()
    stream.write(b"lost\n")

    assert 1 == os.write(other, b"x")
    os.close(other)


# -- when it was committed


def test_the_clock_of_commits_follows_the_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is appended later is read from there; a frontier between two releases has the earlier one."""
    times = ReleaseTimes(tmp_path)
    clock = CommitClock([])
    clock._files[tmp_path / "_times.jsonl"] = 0
    found = [clock.at([11])]
    times.keep(ReleaseTime(10, 1000))
    times.keep(ReleaseTime(20, 2000))
    found += [clock.at([10]), clock.at([11]), clock.at([20])]
    times.keep(ReleaseTime(30, 3000))
    found += [clock.at([31]), clock.at([0]), clock.at([])]
    monkeypatch.setattr(commit_clock, "is_on_remap", lambda log: True)
    monkeypatch.setattr(commit_clock, "is_of_stream", lambda log: False)

    assert [None, None, 1.0, 1.0, 3.0, None, 3.0] == found
    assert 1795251720.505 == CommitClock([object()]).at([1795251720506])  # type: ignore[list-item]
