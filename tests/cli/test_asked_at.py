"""`--at` takes what people have at hand: now, an LSN, and a moment of the clock, which releases keep beside logs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from cdcv2.cli.at_option import _milliseconds
from cdcv2.errors import RefusedError, UsageError
from cdcv2.logs.release_times import TIMES_FILE, Clock, ReleaseTime, ReleaseTimes, clock_text
from tests.cli.conftest import Run

TABLE = "public.order_items"


@pytest.fixture
def logs(captured: Path, tmp_path: Path) -> Path:
    """What a capture wrote in several releases."""
    shutil.copytree(captured / "logs", tmp_path / "logs")
    return tmp_path / "logs"


def at(run: Run, logs: Path, text: str) -> tuple[int, str, str]:
    """The table at a time."""
    said = run("as-of", logs, "--table", TABLE, "--at", text)
    return said.code, said.out, said.err


def test_a_moment_is_the_last_release_that_was_committed_by_then(run: Run, logs: Path) -> None:
    """At the release, and until the next one; in any zone; before the first one is known, and behind the last."""
    kept = ReleaseTimes(logs).read()
    one, two = kept[2], kept[3]
    assert len(kept) > 4 and one.ts_ms + 1 < two.ts_ms
    wanted = at(run, logs, str(one.lsn))
    assert 0 == wanted[0] and at(run, logs, str(two.lsn))[1] != wanted[1]

    for ts_ms in (one.ts_ms, one.ts_ms + 1, two.ts_ms - 1):
        code, out, err = at(run, logs, clock_text(ts_ms))
        which = f"as-of: --at {clock_text(ts_ms)}: the last release before it was committed at {clock_text(one.ts_ms)}"
        assert (wanted[:2], ts_ms != one.ts_ms) == ((code, out), which in err) and err.endswith(wanted[2])
    utc = clock_text(one.ts_ms)
    east = f"{utc[:11]}{(int(utc[11:13]) + 2) % 24:02d}{utc[13:-1]}+02:00"
    assert wanted == at(run, logs, east)
    assert wanted == at(run, logs / TABLE, utc)
    early, late = at(run, logs, clock_text(kept[0].ts_ms - 1)), at(run, logs, clock_text(kept[-1].ts_ms + 1))
    assert (2, True) == (early[0], f"the first time known is {clock_text(kept[0].ts_ms)}" in early[2])
    assert (1, True) == (late[0], "nothing states what was up to" in late[2])


def test_now_and_the_lsn_of_postgresql_are_taken(run: Run, logs: Path) -> None:
    """Now is the last finished time; an LSN is written in either way."""
    whole = run("as-of", logs, "--table", TABLE)
    lsn = ReleaseTimes(logs).read()[2].lsn

    assert (whole.code, whole.out, whole.err) == at(run, logs, "now")
    assert at(run, logs, str(lsn)) == at(run, logs, f"{lsn >> 32:x}/{lsn & 0xFFFFFFFF:X}")


@pytest.mark.parametrize(("text", "said"), [
    ("2026-11-21T09:02:06", "in which zone? Write 2026-11-21T09:02:06Z for UTC"),
    ("2026-11-23", "in which zone? Write 2026-11-23T00:00Z for UTC, or 2026-11-23T00:00+01:00"),
    ("2026-13-41T09:02:06Z", "is no moment"),
    ("2026-11-23+01:00:00", "is no moment"),
    ("yesterday", "is no time: write a finished time, now, an LSN (0/61B7000), or a moment with its zone"),
    ("FFFFFFFF/FFFFFFFF", "the greatest LSN that is a time is 7FFFFFFF/FFFFFFFF"),
])  # fmt: skip
def test_what_is_no_time_is_refused(run: Run, logs: Path, text: str, said: str) -> None:
    """Exit 2, with what to write."""
    code, _, err = at(run, logs, text)
    assert (2, True) == (code, said in err)


@pytest.mark.parametrize("text", ["2026-11-23", "2026-11-23T09:02", "2026-11-23 09:02:06.5"])
def test_what_is_advised_is_taken(text: str) -> None:
    """In both zones; a day with its zone is its first moment."""
    with pytest.raises(UsageError) as caught:
        _milliseconds(text)
    utc, east = re.findall(rf"{text}\S*(?:Z|\+01:00)", str(caught.value))
    assert 3600_000 == _milliseconds(utc) - _milliseconds(east)
    assert _milliseconds("2026-11-23Z") == _milliseconds("2026-11-23+00:00") == _milliseconds("2026-11-23T00:00:00Z")


def test_without_an_entry_an_lsn_is_asked_for(run: Run, logs: Path) -> None:
    """Logs of an earlier release keep no moments."""
    (logs / TIMES_FILE).unlink()
    code, _, err = at(run, logs, "2026-11-21T09:02:06Z")
    assert (2, True) == (code, "nothing with these logs states when what was committed" in err)


def test_on_a_remap_a_moment_is_a_time_by_itself(run: Run, tmp_path: Path) -> None:
    """Its times are milliseconds; an LSN is none of them."""
    (tmp_path / "rows").mkdir()
    kind = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}
    (tmp_path / "rows" / "clicks.avsc").write_text(json.dumps(kind), "utf-8")
    click = {"topic": "web.clicks", "partition": 0, "offset": 0, "value": '{"page": "/"}'}
    (tmp_path / "clicks.jsonl").write_text(json.dumps(click), "utf-8")
    run("capture", tmp_path / "clicks.jsonl", "--remap", tmp_path / "remap", "--plain", "clicks=web.clicks",
        "--rows", tmp_path / "rows", "--into", tmp_path / "logs")  # fmt: skip
    through = json.loads(run("verify", tmp_path / "logs", "--json").out)["frontier"][0] - 1
    said = run("as-of", tmp_path / "logs" / "clicks", "--at", clock_text(through))
    later = run("as-of", tmp_path / "logs" / "clicks", "--at", clock_text(through + 1))
    lsn = run("as-of", tmp_path / "logs" / "clicks", "--at", "0/61B7000")

    assert (0, "page\n/\n") == (said.code, said.out)
    assert (1, True) == (later.code, f"time {through + 1} is not finished" in later.err)
    assert (2, True) == (lsn.code, "whose times are milliseconds" in lsn.err)


def test_captures_that_repeat_themselves_keep_the_same(run: Run, captured: Path, logs: Path) -> None:
    """Twice, with the memory lost, or into another folder: the same facts, whatever the releases are."""
    kept = set(ReleaseTimes(logs).read())
    words = ["capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows"]
    (logs / "_memory.json").unlink()
    assert 0 == run(*words, "--into", logs, "--max-records", 400).code
    assert kept == set(ReleaseTimes(logs).read())
    assert 0 == run(*words, "--into", logs.parent / "other", "--max-records", 900).code
    ends = {}
    for release in (*kept, *ReleaseTimes(logs.parent / "other").read()):
        assert release.ts_ms == ends.setdefault(release.lsn, release.ts_ms)


def test_a_line_that_was_broken_off_harms_no_other(tmp_path: Path) -> None:
    """The next one begins a line of its own; a later version is refused."""
    times = ReleaseTimes(tmp_path)
    times.keep(ReleaseTime(10, 100))
    with open(tmp_path / TIMES_FILE, "a", encoding="utf-8") as file:
        file.write('{"version": 1, "ls')
    times.keep(ReleaseTime(20, 200))
    times.keep(ReleaseTime(20, 200))
    assert [ReleaseTime(10, 100), ReleaseTime(20, 200)] == times.read()

    with open(tmp_path / TIMES_FILE, "a", encoding="utf-8") as file:
        file.write('{"version": 2}\n')
    with pytest.raises(RefusedError, match="times of version 2"):
        times.read()


def test_only_the_last_end_of_a_release_is_kept(tmp_path: Path) -> None:
    """Not those between, which are of no statement, nor one that is released already, nor one without a moment."""
    times = ReleaseTimes(tmp_path)
    clock = Clock(times)
    for lsn, ts_ms in ((10, 100), (20, 200), (30, None), (40, 400)):
        clock.end(lsn, ts_ms)
    clock.release(20)
    clock.end(10, 100)
    clock.release(30)
    clock.release(40)
    assert [ReleaseTime(20, 200), ReleaseTime(40, 400)] == times.read()
