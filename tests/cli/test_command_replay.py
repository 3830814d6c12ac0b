"""`cdcv2 replay` prints a history in order, once, however its log was mangled."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import APPLE, HISTORY, PEAR, Run, price, write

TEXT = """\
+1 at 3  prices  {"id": 1, "price": 10, "name": "apple"}
+2 at 3  prices  {"id": 2, "price": null, "name": ""}
-- complete through 4, frontier [5]
-1 at 6  prices  {"id": 2, "price": null, "name": ""}
-1 at 6  prices  {"id": 1, "price": 10, "name": "apple"}
+1 at 6  prices  {"id": 1, "price": 12, "name": "apple"}
-- complete through 7, frontier [8]
-- complete through 8, frontier [9]
+1 at 9  prices  {"id": 3, "price": 7, "name": "pl\\"um, ripe"}
-- complete through 9, frontier [10]
"""


def updates(said: str) -> list[dict[str, object]]:
    """The updates among JSON lines."""
    return [plain for plain in map(json.loads, said.splitlines()) if "data" in plain]


def test_text_shows_updates_and_the_frontier_that_they_complete(run: Run, tmp_path: Path) -> None:
    """Nothing comes before it is finished; a move of the frontier alone is printed, too."""
    log = write(tmp_path / "prices", *HISTORY[:4], HISTORY[5], HISTORY[4])
    said = run("replay", log)

    assert (0, TEXT, "cdcv2 replay: complete through 9\n") == said


def test_a_mangled_copy_gives_the_same_updates(run: Run, prices: Path, tmp_path: Path) -> None:
    """Repeated, reordered, re-batched: a reader sees no difference."""
    copy = write(tmp_path / "copy" / "prices", *mangle(HISTORY, seed=3, copies=3))
    straight, mangled = (updates(run("replay", "--json", log).out) for log in (prices, copy))

    def in_order(told: list[dict[str, object]]) -> list[str]:
        return sorted(map(json.dumps, told), key=lambda line: (json.loads(line)["time"], line))

    assert in_order(straight) == in_order(mangled)
    assert [3, 3, 6, 6, 6, 9] == [plain["time"] for plain in mangled]


def test_json_lines_name_table_data_time_diff_and_frontier(run: Run, prices: Path) -> None:
    """What a program needs to go on, one object a line."""
    said = [json.loads(line) for line in run("replay", "--json", prices).out.splitlines()]

    apple = {"id": 1, "price": 10, "name": "apple"}
    # The statement comes behind the updates here, so a frontier completes them at once.
    assert {"table": "prices", "data": apple, "time": 3, "diff": 1} == said[0]
    assert [[5], [8], [10]] == [plain["frontier"] for plain in said if "frontier" in plain]


def test_csv_tells_null_from_the_empty_string(run: Run, prices: Path, tmp_path: Path) -> None:
    """As PostgreSQL's COPY does: NULL is nothing, an empty string is quoted."""
    target = tmp_path / "prices.csv"
    said = run("replay", "--csv", prices, "--output", target)

    assert (0, "") == (said.code, said.out)
    assert [
        "time,diff,id,price,name", "3,1,1,10,apple", '3,2,2,,""', '6,-1,2,,""', "6,-1,1,10,apple", "6,1,1,12,apple",
        '9,1,3,7,"pl""um, ripe"',
    ] == target.read_text("utf-8").splitlines()  # fmt: skip


def test_csv_is_for_one_table(run: Run, prices: Path, tmp_path: Path) -> None:
    """Two tables have two sets of columns."""
    said = run("replay", "--csv", prices, write(tmp_path / "other", *HISTORY))

    assert (2, "") == (said.code, said.out)
    assert "CSV has one set of columns: name the log of one table, not of prices, other" in said.err


def test_several_tables_come_out_at_the_meet_of_their_frontiers(run: Run, tmp_path: Path) -> None:
    """A transaction over two tables is whole, or not there yet."""
    accounts = write(tmp_path / "accounts", Updates([(APPLE, 3, 1), (APPLE, 7, 5)]), Progress([0], [9], {3: 1, 7: 1}))
    ledger = write(tmp_path / "ledger", Progress([0], [5], {3: 1}), Updates([(PEAR, 3, 1)]))
    said = [json.loads(line) for line in run("replay", "--json", accounts, ledger).out.splitlines()]

    assert [("accounts", 3), ("ledger", 3)] == [(plain["table"], plain["time"]) for plain in said if "table" in plain]
    assert {"frontier": [5]} == said[-1]


def test_what_is_finished_is_printed_though_more_is_missing(run: Run, tmp_path: Path) -> None:
    """Exit 1: what came is right, and it is not all."""
    log = write(tmp_path / "prices", *HISTORY[:2], *HISTORY[3:])
    said = run("replay", "--json", log)

    assert (1, 2) == (said.code, len(updates(said.out)))
    assert "complete through 5" in said.err
    assert "prices is incomplete: 3 updates missing at time 6" in said.err


def test_a_contradiction_ends_it_with_the_evidence_in_one_line(run: Run, tmp_path: Path) -> None:
    """No traceback: the log is at fault, not the program."""
    log = write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Updates([(APPLE, 3, 2)]))
    said = run("replay", log)

    assert (3, "", 1) == (said.code, said.out, said.err.count("\n"))
    assert f"the diff 1 and also 2 ({log}[0]@0 and {log}[0]@1)" in said.err


def test_product_times_are_written_as_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    """A coordinate after the other, with a comma between, on the command line as in the output."""
    from cdcv2.core.order import Product
    from cdcv2.logs.directory import DirectoryLog
    from tests.cli.conftest import PRICES

    log = DirectoryLog(tmp_path / "grid", PRICES, create=True, times=2)
    log.send(Updates([(price(1), Product(1, 0), 1), (price(2), Product(0, 1), 1)]))
    log.send(Progress([Product(0, 0)], [Product(2, 0), Product(0, 2)], {Product(1, 0): 1, Product(0, 1): 1}))
    log.flush()
    said = run("replay", log.path, "--start", "0,0")

    assert 0 == said.code
    assert {"+1 at 1,0", "+1 at 0,1"} == {line.partition("  ")[0] for line in said.out.splitlines() if line[0] == "+"}
    assert "frontier [0,2 2,0]" in said.out
    assert 0 == run("verify", log.path, "--start", "0,0").code
