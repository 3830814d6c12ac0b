"""`cdcv2 inspect` prints a log as it stands: positions, repeats, disorder, and bytes that are no messages."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.logs.jsonlines import JsonLines
from tests.cli.conftest import HISTORY, PRICES, Run, append_raw, write


def test_messages_are_shown_with_their_positions(run: Run, prices: Path) -> None:
    """Updates with their rows, statements with their bounds and counts."""
    said = run("inspect", prices)

    assert 0 == said.code
    assert [
        f"{prices}[0]@0  updates   2",
        '    +1 at 3  {"id": 1, "price": 10, "name": "apple"}',
        '    +2 at 3  {"id": 2, "price": null, "name": ""}',
        f"{prices}[0]@1  progress  [0] to [5]  3: 2",
    ] == said.out.splitlines()[:4]


def test_brief_and_limit_make_it_short(run: Run, prices: Path) -> None:
    """The first lines of the first messages."""
    said = run("inspect", "--brief", "--limit", 3, prices)

    assert [f"{prices}[0]@{number}" for number in range(3)] == [line.split()[0] for line in said.out.splitlines()]
    assert 2 == run("inspect", "--limit", 0, prices).code
    # Rows are lines, too: a message of many of them is no screen of its own.
    whole, short = (run("inspect", *words, prices).out.splitlines() for words in ([], ["--limit", 2]))
    assert (whole[:2], "    +1 at 3") == (short, short[1][:11])


def test_json_lines_hold_the_messages_whole(run: Run, prices: Path) -> None:
    """The very messages can be made of them again."""
    said = [json.loads(line) for line in run("inspect", "--json", prices).out.splitlines()]
    positions = [plain.pop("position") for plain in said]
    tables = {plain.pop("table") for plain in said}

    assert list(HISTORY) == [JsonLines(PRICES).message(plain) for plain in said]
    assert ({"prices"}, {"place": str(prices), "part": 0, "offset": 1, "index": 0}) == (tables, positions[1])


def test_garbled_bytes_are_shown_where_they_stand(run: Run, prices: Path) -> None:
    """What is before and behind them is shown, too; exit 3 means that something is wrong."""
    append_raw(prices, b"\x00\x00\x00\x00", b"\xff\xfe")
    write(prices, HISTORY[0])
    said, plain = run("inspect", "--brief", prices), run("inspect", "--json", prices).out.splitlines()

    assert (3, 9) == (said.code, len(said.out.splitlines()))
    assert "[0]@6  garbled   2 bytes are left over behind the message: 00 00 00 00 (4 bytes)" in said.out
    assert "[0]@6#1  garbled" in said.out
    assert said.err == "cdcv2 inspect: 2 of the messages are garbled\n"
    assert {"reason": "2 bytes are left over behind the message", "raw": "00000000"} == json.loads(plain[6])["garbled"]


def test_the_logs_of_a_capture_are_all_shown(run: Run, captured: Path) -> None:
    """A message of each in turn."""
    said = run("inspect", "--json", "--limit", 12, captured / "logs")
    tables = [json.loads(line)["table"] for line in said.out.splitlines()]

    assert (6, tables[:6]) == (len(set(tables)), tables[6:])
