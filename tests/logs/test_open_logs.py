"""`cdcv2.open` answers what tables hold at one time, and it is what the updates up to then add up to."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, MalformedError, MissingExtraError, MissingLogError, UsageError
from cdcv2.logs.capture_manifest import put_manifest
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.open_logs import OpenLogs
from cdcv2.logs.named_logs import NamedLog
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType

ROW = RowType.load({"type": "record", "name": "thing", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]})
SHOP = LogDescription(timeline="shop")


def row(number: int, name: str | None = None) -> Any:
    return ROW.row((number, name))


def write(path: Path, *messages: Any, description: LogDescription = SHOP) -> None:
    log = DirectoryLog(path, ROW, create=True, description=description)
    for message in messages:
        log.send(message)
    log.flush()
    log.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables: of items, more is finished."""
    write(tmp_path / "items", Updates([(row(7), 2, 1)]), Progress([0], [9], {2: 1}))
    write(
        tmp_path / "orders", Updates([(row(1, "<b>"), 2, 2), (row(2), 3, 1)]), Progress([0], [4], {2: 1, 3: 1}),
        Updates([(row(1, "<b>"), 4, -1)]), Progress([4], [6], {4: 1}),
    )
    put_manifest(tmp_path, {"version": 1, "tables": ["items", "orders"]})
    return tmp_path


histories = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 6), st.integers(1, 3)), max_size=12
)


@settings(max_examples=50)
@given(histories, st.dictionaries(st.sampled_from("ab"), st.integers(2, 9), min_size=2), st.integers(0, 7),
       st.integers(0, 99))
def test_it_is_what_the_updates_add_up_to(
    history: list[tuple[str, int, int, int]], ends: dict[str, int], at: int, seed: int
) -> None:
    """At any finished time, whatever the order of the messages; any other time is refused."""
    logs = []
    sums = {table: Counter[tuple[int, int]]() for table in "ab"}
    for table, number, time, diff in history:
        if time < ends[table]:
            sums[table][number, time] += diff
    for table in "ab":
        updates = [(row(number), time, diff) for (number, time), diff in sums[table].items()]
        counts = Counter(time for _, time, _ in updates)
        messages = mangle([Updates(updates), Progress([0], [ends[table]], counts)], seed=seed, copies=2)
        logs.append(NamedLog(table, MemoryLog(table, messages), ROW))
    opened = OpenLogs(logs, [0])
    finished, every = min(ends.values()), [time for table in "ab" for _, time in sums[table]]

    assert Antichain([finished]) == opened.frontier
    if at >= finished:
        with pytest.raises(IncompleteError, match=f"time {at} is not finished"):
            opened.as_of(at)
    elif every and at < min(every):
        with pytest.raises(UsageError, match="nothing is known"):
            opened.as_of(at)
    else:
        state, last = opened.as_of(at), opened.as_of()
        for table in "ab":
            for found, upto in ((state, at), (last, finished - 1)):
                wanted = Counter[int]()
                for (number, time), diff in sums[table].items():
                    wanted[number] += diff if time <= upto else 0
                assert sorted(wanted.elements()) == sorted(found[table].to_arrow()["id"].to_pylist())
                assert sorted(wanted.elements()) == sorted(one[0] for one in found[table])
                assert len(found[table]) == wanted.total()


def test_the_tables_of_a_folder_are_given_at_one_time(folder: Path) -> None:
    """Without a time it is the last one that is finished in all of them, though items are known further."""
    with cdcv2.open(str(folder)) as logs:
        assert ["items", "orders"] == logs.tables
        assert (Antichain([0]), Antichain([6])) == (logs.since, logs.frontier)
        state = logs.as_of(3)
        assert (3, 1) == (len(state["orders"]), len(state["items"]))
        assert [(row(1, "<b>"), 2), (row(2), 1)] == list(state["orders"].counts())
        expected = pa.table({"id": [1, 2], "name": ["<b>", None]})
        assert expected.to_pylist() == logs.to_arrow("orders").to_pylist()
        assert expected.to_pylist() == logs.as_of().to_arrow("orders").to_pylist()


def test_it_is_as_new_as_the_logs(folder: Path) -> None:
    """A question reads the logs again, and needs no second opening."""
    logs = cdcv2.open(str(folder / "orders"))
    before = logs.as_of()
    write_on = DirectoryLog(folder / "orders")
    write_on.send(Progress([6], [9], {}))
    write_on.flush()

    assert (Antichain([6]), Antichain([9])) == (before.frontier, logs.frontier)


def test_it_shows_itself_in_a_line_and_in_a_notebook(folder: Path) -> None:
    """What is in a row is no markup."""
    logs = cdcv2.open(str(folder))
    state = logs.as_of()

    assert "OpenLogs(items, orders)" == repr(logs)
    assert "TablesAtTime(complete through 5: items 1 rows, orders 2 rows)" == repr(state)
    assert "TableAtTime(orders: 2 rows)" == repr(state["orders"])
    assert "&lt;b&gt;" in state["orders"]._repr_html_() and "NULL" in state["orders"]._repr_html_()
    assert "<b>" not in state["orders"]._repr_html_()
    assert "complete through 5" in state._repr_html_() and "id, name" in logs._repr_html_()


def test_what_cannot_be_answered_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what is wrong."""
    logs = cdcv2.open(str(folder))
    with pytest.raises(IncompleteError, match="time 6 is not finished in orders: complete through 5"):
        logs.as_of(6)
    with pytest.raises(UsageError, match="nothing is known at time 1: the history begins at 2"):
        logs.as_of(1)
    for wrong in ("now", True, 1.5, [3]):
        with pytest.raises(UsageError, match="is no time: give a whole number"):
            logs.as_of(wrong)  # type: ignore[arg-type]
    with pytest.raises(MalformedError):
        logs.as_of(-1)
    with pytest.raises(UsageError, match="name one of the tables items, orders"):
        logs.to_arrow()
    with pytest.raises(MissingLogError, match="there is no table 'order' here; there are items, orders"):
        logs.as_of(3)["order"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="to_pandas\\(\\) needs pandas"):
        logs.to_pandas("orders")


def test_a_table_that_is_covered_later_is_left_out_before(folder: Path) -> None:
    """The others had their rows then; and where it alone is asked for, it is named."""
    write(folder / "late", Updates([(row(5), 4, 1)]), Progress([4], [6], {4: 1}),
          description=LogDescription(timeline="shop", start="4"))
    logs = cdcv2.open(str(folder))

    assert (["items", "orders"], Antichain([4])) == (logs.as_of(3).tables, logs.since)
    assert ["items", "late", "orders"] == sorted(logs.as_of(5).tables)
    with pytest.raises(UsageError, match="the history begins later, at \\[4\\] for late"):
        cdcv2.open(str(folder / "late")).as_of(3)


def test_pandas_has_what_arrow_has(folder: Path) -> None:
    """As pyarrow makes it."""
    frame = cdcv2.open(str(folder / "items")).to_pandas()

    assert ([7], ["id", "name"]) == (list(frame["id"]), list(frame.columns))


def test_the_front_door_is_as_cheap_as_before() -> None:
    """`import cdcv2` brings in neither what answers questions nor pandas."""
    script = "import sys, cdcv2; print([name for name in ('cdcv2.logs.open_logs', 'pandas') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "[]\n" == shown.stdout


def test_a_path_is_an_address(folder: Path) -> None:
    """Of a directory, also where its name looks like a table with its log."""
    (folder / "orders").rename(folder / "a=b")
    for one in (folder / "items", [folder / "items"]):
        assert cdcv2.open(one).tables == ["items"]
    assert cdcv2.open(folder / "a=b").tables == ["a=b"]
