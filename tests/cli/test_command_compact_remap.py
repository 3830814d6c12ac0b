"""`cdcv2 compact-remap`: what logs need stays, answers stay the same, and captures go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.records import HoldRecord, encode
from tests.cli.conftest import Run, bound
from tests.cli.test_command_capture_remap import CLICKS, dump, words


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """Two sets of logs on one remap; the clicks have grown since, and only the first set has them all."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "clicks.avsc").write_text(json.dumps(CLICKS), "utf-8")
    for number in (30, 60):
        dump(tmp_path / "clicks.jsonl", number)
        for into in ("logs", "others"):
            assert 0 == run(*words(tmp_path, "--bind-at-most", 10, into=into)).code
    dump(tmp_path / "clicks.jsonl", 120)
    assert 0 == run(*words(tmp_path, "--bind-at-most", 10)).code
    return tmp_path


def compacted(run: Run, folder: Path, *more: object) -> Any:
    """The result that the command prints."""
    said = run("compact-remap", folder / "remap", "--keep", 0, "--json", *more)
    assert 0 == said.code, said.err
    plain = json.loads(said.out)
    assert {str(manifest_of(Path(name))["id"]): name for name in plain["called"].values()} == plain["called"]
    return {**plain, "holds": {plain["called"][of]: since for of, since in plain["holds"].items()}}


def test_a_summary_is_shown_where_it_stands(run: Run, folder: Path) -> None:
    """As every record is; up to where it sums up is printed beside that."""
    compacted(run, folder)
    shown = [json.loads(line) for line in run("inspect", folder / "remap", "--json").out.splitlines()]
    lines = run("inspect", folder / "remap").out.splitlines()
    (summary,) = [one for one in shown if one["kind"] == "summary"]

    assert [int(line.split()[0].rpartition("@")[2]) for line in lines] == [one["position"] for one in shown]
    (text,) = [line for line in lines if "summary" in line]
    assert f"of all before {summary['before']}," in text


def answers(run: Run, folder: Path, since: int) -> list[object]:
    """When each click happened, if after this time, and where the topic was at each time from it on."""
    clicks = [f"web.clicks={part}@{at}" for part in range(3) for at in range(40)]
    when = run("when", folder / "remap", "--json", *clicks)
    told = [json.loads(line) for line in when.out.splitlines()]
    times = sorted({one["time"] for one in told if one["time"] >= since})
    return [
        *(one for one in told if one["time"] > since),
        *(run("where", folder / "remap", "--at", time).out for time in times),
    ]


def test_what_the_furthest_behind_needs_is_kept(run: Run, folder: Path) -> None:
    """Where it goes on; then what the other one needs. No answer about what is kept changes, and no log lacks any."""
    whole = answers(run, folder, 0)
    first = compacted(run, folder)
    since = first["holds"][str(folder / "others")]
    assert 0 == first["before"] < since == first["since"] < first["holds"][str(folder / "logs")] < first["last"] + 1
    assert first["records"] < first["records_before"]
    after = answers(run, folder, since)
    assert after and after == [one for one in whole if one in after]
    assert 4 == run("where", folder / "remap", "--at", since - 1).code

    assert 0 == run(*words(folder, into="others")).code
    verified = run("verify", "--full", f"clicks={folder}/logs/clicks", f"clicks={folder}/others/clicks")
    assert 0 == verified.code and "complete through" in verified.out
    second = compacted(run, folder)
    assert since < second["since"] == second["last"] == second["holds"][str(folder / "others")]
    assert 2 >= second["records"]
    dump(folder / "clicks.jsonl", 150)
    assert [0, 0] == [run(*words(folder, into=into)).code for into in ("logs", "others")]


def test_logs_that_nobody_writes_are_let_go(run: Run, folder: Path) -> None:
    """And cannot be resumed; neither can new ones start from what is forgotten."""
    first = compacted(run, folder, "--release", folder / "others")
    assert [str(folder / "logs")] == list(first["holds"]) and first["since"] == first["last"]
    for into in ("others", "new"):
        said = run(*words(folder, into=into))
        assert (4, True) == (said.code, "the remap was compacted to" in said.err), said.err
    again = compacted(run, folder)
    assert first["since"] == again["since"], "what was refused holds nothing"


def test_some_hours_are_kept_for_questions(run: Run, folder: Path) -> None:
    """A day by default; printed for people, with the logs that hold it."""
    whole, shown = answers(run, folder, 0), run("inspect", folder / "remap").out
    said = run("compact-remap", folder / "remap")
    records = len(run("inspect", folder / "remap").out.splitlines())

    assert 1 == records, "the summary"
    assert (0, True) == (said.code, ", before from 0: 1 records of " in said.out)
    assert answers(run, folder, 0) == whole
    identity = manifest_of(folder / "others")["id"]
    assert f"cdcv2 compact-remap: {folder / 'others'} ({identity}) needs it from " in said.err
    assert f"hold      {folder / 'logs'} ({manifest_of(folder / 'logs')['id']}): needed from" in shown


def test_a_hold_of_an_earlier_release_binds_all_of_its_name(run: Run, folder: Path) -> None:
    """Until it is released by that name, which lets go of it alone; two of one name are released by their identity."""
    remap, logs = DirectoryRemap(folder / "remap"), str(folder / "logs")
    for of, called in ((logs, ""), ("another machine's", logs)):
        remap.append(encode(HoldRecord(of, 1, "", called)), 0)
    text = f"{logs} (by an earlier release: once all captures of that name run this one, --release it) needs it from 1"
    said = run("compact-remap", folder / "remap")
    assert (0, True) == (said.code, text in said.err), said.err

    assert 0 == run("compact-remap", folder / "remap", "--release", logs).code
    wrong = run("compact-remap", folder / "remap", "--release", logs)
    assert (2, True) == (wrong.code, "several logs hold the remap under this name" in wrong.err), wrong.err
    assert 0 == run("compact-remap", folder / "remap", "--release", "another machine's").code
    assert {"logs", "others"} == {Path(name).name for name in compacted(run, folder)["holds"]}


def test_what_it_refuses(run: Run, tmp_path: Path) -> None:
    """Before anything is written."""
    remap = bound(tmp_path / "remap")
    before = sorted(path.name for path in remap.iterdir())
    nobody = run("compact-remap", remap)
    assert (4, True) == (nobody.code, "no logs hold the remap" in nobody.err)
    wrong = run("compact-remap", remap, "--release", "logs")
    assert (2, True) == (wrong.code, "no logs hold the remap under this name; there are none" in wrong.err)
    for keep in ("-1", "nan", "inf"):
        assert (2, True) == ((said := run("compact-remap", remap, f"--keep={keep}")).code, "--keep" in said.err)
    assert before == sorted(path.name for path in remap.iterdir())
    assert 2 == run("compact-remap", tmp_path / "none").code
