"""Tables of which the connector never spoke: nothing is stated of them, the others go on, and they begin when it does.

The dumps are those of the snapshot's edges: a table ``t`` with a snapshot, and a table ``u`` that has none.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.run import log_starts, on_remap as shared_capture
from cdcv2.core.antichain import Antichain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress
from cdcv2.protocol.writer import Writer
from tests.cli.conftest import Run, Said
from tests.cli.test_command_capture_edges import BEGUN, FIRST, NOTIFIED, Captures, note, record, row, scanned

SAID = [note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
NAMED = "public.u is not covered by the connector: nothing is stated of it"
PARTIAL = "public.u has rows that are in no record"


@pytest.fixture
def capture(run: Run, tmp_path: Path) -> Captures:
    """Captures into a folder of the test's."""
    return Captures(run, tmp_path)


def change(table: str, offset: int, number: int, tx: int, order: int, before: int, of: int = 1) -> str:
    """A row that is inserted into a table: ``order`` in its transaction, ``of`` in its table's part of that."""
    transaction = {"id": f"{tx}:1", "total_order": order, "data_collection_order": of}
    return row(0, offset, number, table=table, op="c", before=before, txId=tx, transaction=transaction)


def end(offset: int, tx: int, lsn: int, **counts: int) -> str:
    """The END of a transaction that has so many rows of each table."""
    counted = [{"data_collection": f"public.{table}", "event_count": number} for table, number in counts.items()]
    value = {"status": "END", "id": f"{tx}:{lsn}", "event_count": sum(counts.values()), "data_collections": counted}
    return record("p.transaction", 0, offset, value)


def changed(op: str, inserted: str) -> str:
    """In place of an insert an update or a delete of a row that was there before."""
    plain = json.loads(inserted)
    value = json.loads(plain["value"])
    value |= {"op": op, "before": {"id": value["after"]["id"], "v": 4}} | ({"after": None} if op == "d" else {})
    return json.dumps({**plain, "value": json.dumps(value)})


#: A transaction of t; one of both tables, the first in which the connector covers u; another of u.
FIRST_OF_T = [change("t", 2, 10, 5, 1, 100), end(0, 5, 120, t=1)]
FIRST_OF_U = [change("t", 3, 11, 6, 1, 120), change("u", 0, 7, 6, 2, 120), end(1, 6, 140, t=1, u=1)]
LATER = [change("u", 1, 8, 7, 1, 140), end(2, 7, 160, u=1)]
WHOLE = [*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U, *LATER]
AT_ONCE = [WHOLE]
ONE_BY_ONE = [
    [*BEGUN, *SAID], [*BEGUN, *SAID, *FIRST_OF_T], [*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U], WHOLE,
]  # fmt: skip


def begins(capture: Captures, table: str = "u") -> str | None:
    """Where the log of the table states that it begins."""
    return DirectoryLog(capture.logs / f"public.{table}").description().start


@pytest.mark.parametrize("notified", [True, False])
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_the_others_go_on_without_it(capture: Captures, notified: bool, memory: str) -> None:
    """It has a row type, no topic, and no notification names it; every command names it."""
    said, more = (SAID, NOTIFIED) if notified else ([], ())
    for dump in ([*BEGUN, *said], [*BEGUN, *said, *FIRST_OF_T]):
        done = capture(dump, *more, tables="tu")
        assert 0 == done.code and NAMED in done.err
        assert (f"{NAMED}. If its topic was not dumped: dump that whole" in done.err) is not notified
        capture.forget(memory)

    assert ([1, 3, 10], [], "none") == (capture.held(), capture.held("u"), begins(capture))
    assert [] == list(DirectoryLog(capture.logs / "public.u").read())
    shown = capture.run("verify", capture.logs)
    assert 0 == shown.code and NAMED in shown.out and shown.out.endswith("complete through 120\n")
    plain = json.loads(capture.run("verify", capture.logs, "--json").out)
    assert (["public.u"], ["public.t"]) == (plain["not_covered"], list(plain["tables"]))
    replayed = capture.run("replay", capture.logs)
    assert 0 == replayed.code and NAMED in replayed.err and "complete through 120" in replayed.out
    asked = capture.run("as-of", capture.logs, "--table", "public.u")
    assert (1, "") == (asked.code, asked.out) and NAMED in asked.err
    assert 1 == capture.run("verify", capture.logs / "public.u").code


def test_the_right_notifications_are_read_from_their_start(capture: Captures) -> None:
    """A first try named those of another connector, and its dump had the right ones, too: they were read over."""
    other = [record("q.notifications", 0, 0, {
        "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {"connector_name": "q"},
    })]  # fmt: skip
    dump = [*BEGUN, *SAID, *FIRST_OF_T, *other]
    wrong = capture(dump, "--notifications", "q.notifications")
    assert 1 == wrong.code and [] == capture.held(), wrong.err
    right = capture(dump, *NOTIFIED)
    assert (0, [1, 3, 10]) == (right.code, capture.held()), right.err


def test_a_capture_whose_tables_are_all_unknown_stops(capture: Captures) -> None:
    """There are no others that could go on."""
    refused = capture([*BEGUN, *SAID], *NOTIFIED, "--tables", "public.u", tables="tu")
    assert 4 == refused.code and "leave it out (--tables)" in refused.err and "(--empty)" in refused.err
    assert None is begins(capture)


@pytest.mark.parametrize("dumps", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_from_its_first_record_on_it_is_captured(capture: Captures, dumps: list[list[str]], memory: str) -> None:
    """Where its log begins is stated, and is the same however it was captured; other logs begin where they did."""
    for dump in dumps:
        assert 0 == capture(dump, *NOTIFIED, tables="tu").code
        capture.forget(memory)

    assert ("140", None) == (begins(capture), begins(capture, "t"))
    assert ([1, 3, 10, 11], [7, 8]) == (capture.held(), capture.held("u"))
    shown = capture.run("verify", capture.logs)
    assert (0, True) == (shown.code, "public.u is covered by the connector from 140 on" in shown.out)
    assert shown.out.endswith("complete through 160\n")
    before = capture.run("as-of", capture.logs, "--table", "public.u", "--at", "139")
    assert (2, "") == (before.code, before.out) and "the history begins later, at [140] for public.u" in before.err
    at = capture.run("as-of", capture.logs, "--table", "public.u", "--at", "140")
    assert (0, "id,v\n7,0\n") == (at.code, at.out)
    replayed = capture.run("replay", capture.logs, "--json").out.splitlines()
    assert '{"frontier": [161]}' == replayed[-1] and 6 == sum('"data"' in line for line in replayed)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
@pytest.mark.parametrize("op", "ud")
@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_a_table_that_had_rows_before_its_first_record_is_named_and_the_others_go_on(
    capture: Captures, op: str, memory: str, before: str
) -> None:
    """A log of it would be no table: nothing is stated, now and later, with any records."""
    said = [*BEGUN, *SAID, *FIRST_OF_T, FIRST_OF_U[0], changed(op, FIRST_OF_U[1]), FIRST_OF_U[2]]
    for dump in (said, [*said, *LATER]):
        done = capture(dump, *NOTIFIED, "--before", before, tables="tu")
        assert 0 == done.code and PARTIAL in done.err and "a new place in the source, new topics, new logs" in done.err
        capture.forget(memory)

    assert ([1, 3, 10, 11], [], "partial") == (capture.held(), capture.held("u"), begins(capture))
    shown = capture.run("verify", capture.logs, "--full")
    assert 0 == shown.code and PARTIAL in shown.out and shown.out.endswith("complete through 160\n")
    asked = capture.run("as-of", capture.logs, "--table", "public.u")
    assert (1, "") == (asked.code, asked.out) and PARTIAL in asked.err


def test_a_row_from_before_that_is_changed_later_is_named_by_whoever_meets_it(capture: Captures) -> None:
    """The first record was an insert, so it was taken for a table that was made then; it is not its writer's fault."""
    dump = [*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U, changed("d", LATER[0]), LATER[1]]
    assert 0 == capture(dump, *NOTIFIED, tables="tu").code

    asked = capture.run("as-of", capture.logs, "--table", "public.u")
    assert (3, "") == (asked.code, asked.out) and "rows that it may have had then are not in its log" in asked.err
    assert "Only a new snapshot that covers it has its rows" in asked.err
    assert 0 == capture.run("as-of", capture.logs, "--table", "public.u", "--at", "140").code
    shutil.rmtree(capture.logs)
    stopped = capture(dump, *NOTIFIED, "--before", "from-state", tables="tu")
    assert 4 == stopped.code and "does the connector cover it only since its snapshot" in stopped.err
    assert "with a new snapshot that covers the table" in stopped.err and [1, 3, 10, 11] == capture.held()


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("step, nth", [
    (release_order.BEFORE_UPDATES, 1), (log_starts.COVERED, 1), (release_order.TABLE_WRITTEN, 1),
    (release_order.TABLE_WRITTEN, 2), (release_order.UPDATES_DURABLE, 1), (release_order.TABLE_STATED, 1),
    (release_order.TABLE_STATED, 2), (release_order.STATED, 1), (release_order.REMEMBERED, 1),
])  # fmt: skip
def test_a_crash_anywhere_while_it_is_covered_is_healed(capture: Captures, step: str, nth: int, memory: str) -> None:
    """Nothing is lost of it or of the others, and it begins where it would have, with the memory and without it."""
    assert 0 == capture([*BEGUN, *SAID, *FIRST_OF_T], *NOTIFIED, tables="tu").code
    with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
        capture([*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U], *NOTIFIED, tables="tu")
    capture.forget(memory)

    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    assert ("140", [1, 3, 10, 11], [7, 8]) == (begins(capture), capture.held(), capture.held("u"))
    assert 0 == capture.run("verify", capture.logs, "--full").code


@pytest.mark.parametrize("step", [release_order.TABLE_STATED, release_order.UPDATES_DURABLE, release_order.REMEMBERED])
def test_a_log_that_a_crash_left_behind_is_not_taken_for_one_of_such_a_table(capture: Captures, step: str) -> None:
    """Its table was scanned, and its first statement is not durable: the next run makes it, and judges alike."""
    dump = [*BEGUN, row(0, 0, 7, table="u"), note(0, "STARTED"), scanned(1, 2), scanned(2, 1, "public.u"),
            note(3, "COMPLETED")]  # fmt: skip
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        capture(dump, *NOTIFIED, tables="tuv")
    assert 0 == capture(dump, *NOTIFIED, tables="tuv").code
    assert (None, "none") == (begins(capture), begins(capture, "v"))
    assert ([1, 3], [7]) == (capture.held(), capture.held("u"))


def test_a_late_row_of_its_snapshot_stops_the_capture(capture: Captures) -> None:
    """It had rows, so it was scanned, against the notifications."""
    assert 0 == capture([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    late = capture([*BEGUN, *SAID, row(0, 0, 7, table="u", **FIRST)], *NOTIFIED, tables="tu")
    assert 4 == late.code and "a row of the snapshot of public.u stands at p.public.u[0]@0" in late.err


@pytest.mark.parametrize("known", ["--snapshot none", "SKIPPED"])
def test_without_a_snapshot_a_table_is_covered_if_it_has_a_topic(capture: Captures, known: str) -> None:
    """Or if the user declares it; another one begins with its first record."""
    skipped = [note(0, "SKIPPED")] if known == "SKIPPED" else []
    more = NOTIFIED if skipped else ("--snapshot", "none")
    dump = [*skipped, change("t", 0, 10, 5, 1, 100), end(0, 5, 120, t=1)]
    assert 0 == capture(dump, *more, "--empty", "public.v", tables="tuv").code
    assert (None, "none", None) == tuple(begins(capture, table) for table in "tuv")
    dump += [change("u", 0, 7, 6, 1, 120), end(1, 6, 140, u=1)]
    assert 0 == capture(dump, *more, tables="tuv").code
    assert ("140", [10], [7]) == (begins(capture), capture.held(), capture.held("u"))
    shutil.rmtree(capture.logs)
    assert 0 == capture(dump, *more, "--empty", "public.v", tables="tuv").code
    assert (None, None, None) == tuple(begins(capture, table) for table in "tuv")


def test_a_reader_that_began_without_it_does_not_go_on_when_it_is_covered(
    capture: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the logs and reading them the capture went on: half of a transaction would be given out."""
    from cdcv2.cli import replay

    assert 0 == capture([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    before: Any = replay.some_covered

    def then(logs: Any) -> Any:
        found = before(logs)
        assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
        return found

    monkeypatch.setattr(replay, "some_covered", then)
    torn = capture.run("replay", capture.logs)
    assert (4, "") == (torn.code, torn.out)
    assert "the connector covers public.u by now, from 140 on" in torn.err


def test_old_rows_from_the_state_of_a_table_that_begins_late(capture: Captures) -> None:
    """What is inserted into it is known; what is not known of it stops the capture, as ever."""
    for dump in ONE_BY_ONE:
        assert 0 == capture(dump, *NOTIFIED, "--before", "from-state", tables="tu").code
    assert ([1, 3, 10, 11], [7, 8]) == (capture.held(), capture.held("u"))


VIEWS = """
materialization: both
logs: logs
bindings:
  - {log: public.t, target: t, key: [id]}
  - {log: public.u, target: u, key: [id]}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


def test_views_go_on_without_it_and_take_it_in_when_it_is_covered(capture: Captures) -> None:
    """Its view is empty until then: compare compares the others, names it, and does not end with 0."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    path = capture.folder / "both.yaml"
    path.write_text(VIEWS, "utf-8")
    assert 0 == capture([*BEGUN, *SAID, *FIRST_OF_T], *NOTIFIED, tables="tu").code
    done, said = capture.run("materialize", path), capture.run("compare", path)
    assert (0, 1) == (done.code, said.code) and NAMED in done.err and NAMED in said.err
    first, *then = said.out.splitlines()
    assert first.startswith("t: 3 rows, fingerprint ")
    assert [f"u: not compared: {NAMED}", "not all compared: both, complete through 120"] == then
    plain = json.loads(capture.run("compare", path, "--json").out)
    assert (False, ["public.u"], {"u": NAMED}, ["t"]) == (
        plain["equal"], plain["not_covered"], plain["not_compared"], list(plain["tables"])
    )
    alone = capture.folder / "t.yaml"
    alone.write_text(VIEWS.replace("  - {log: public.u, target: u, key: [id]}\n", ""), "utf-8")
    asked = capture.run("compare", alone)
    assert (0, True) == (asked.code, asked.out.endswith("equal: both, complete through 120\n")), asked

    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    behind = capture.run("compare", path)
    assert 1 == behind.code and "u: not compared: public.u is covered by the connector from 140 on" in behind.out
    early = capture.run("compare", path, "--at", "120")
    assert 2 == early.code and "t: 3 rows" in early.out
    assert "nothing is stated of public.u at 120: the connector covers it from 140 on" in early.err
    assert (0, 0) == (capture.run("materialize", path).code, (said := capture.run("compare", path)).code)
    assert "t: 4 rows" in said.out and "u: 2 rows" in said.out and "equal: both, complete through 160" in said.out


def test_a_view_of_it_alone_has_its_rows(capture: Captures) -> None:
    """Its log begins later than the timeline, and no other one is read with it."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    path = capture.folder / "alone.yaml"
    path.write_text(VIEWS.replace("  - {log: public.t, target: t, key: [id]}\n", ""), "utf-8")
    for dump in ([*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U], WHOLE):
        assert 0 == capture(dump, *NOTIFIED, tables="tu").code
        done, said = capture.run("materialize", path), capture.run("compare", path)
        assert (0, 0) == (done.code, said.code), done.err + said.err
    assert "u: 2 rows" in said.out and "equal: both, complete through 160" in said.out


def test_views_do_not_go_on_when_it_is_covered_while_they_are_made(
    capture: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run reads it from where it begins: nothing of the view is beyond that."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    from cdcv2.cli import materialize

    path = capture.folder / "both.yaml"
    path.write_text(VIEWS, "utf-8")
    assert 0 == capture([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    before: Any = materialize.some_covered

    def then(logs: Any) -> Any:
        found = before(logs)
        assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
        return found

    with monkeypatch.context() as patched:
        patched.setattr(materialize, "some_covered", then)
        torn = capture.run("materialize", path)
    assert 4 == torn.code and "the connector covers public.u by now, from 140 on" in torn.err
    assert 0 == capture.run("materialize", path).code
    said = capture.run("compare", path)
    assert 0 == said.code and "u: 2 rows" in said.out


#: A view of the table alone that begins late, and of no other.
ALONE = VIEWS.replace("  - {log: public.t, target: t, key: [id]}\n", "").replace("both", "alone")


def views_of_late_logs_alone(capture: Captures, step: str) -> None:
    """Materialize and compare such a view: where its log has stated its start, and no more, and then all of it."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    path = capture.folder / "alone.yaml"
    path.write_text(ALONE, "utf-8")
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        capture(WHOLE, *NOTIFIED, tables="tu")
    waits, told = capture.run("materialize", path), capture.run("compare", path)
    assert (0, 1) == (waits.code, told.code) and "nothing is complete yet" in waits.out
    assert "the target of alone has nothing yet: run cdcv2 materialize, once something is complete" in told.err
    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    done, said = capture.run("materialize", path), capture.run("compare", path)
    assert (0, 0) == (done.code, said.code) and "1 transactions, 2 updates read" in done.out
    assert "u: 2 rows" in said.out and "equal: alone" in said.out


def test_logs_resume_behind_an_end_and_not_where_one_begins(capture: Captures) -> None:
    """Rows name the END before their own: where only the start is durable, they would pass for duplicates."""
    none = ("--snapshot", "none")
    assert 0 == capture([end(0, 4, 110, other=1), end(1, 5, 120, other=1)], *none).code
    dump = [end(0, 4, 110, other=1), end(1, 5, 120, other=1), change("t", 0, 10, 6, 1, 120), end(2, 6, 140, t=1)]
    with failpoints.placed(log_starts.COVERED), pytest.raises(failpoints.PlacedCrash):
        capture(dump, *none)
    capture.forget("lost")
    assert 0 == capture(dump, *none).code
    assert ("140", [10]) == (begins(capture, "t"), capture.held())


def test_logs_that_are_behind_one_that_has_begun_come_up_to_it_in_any_steps(capture: Captures) -> None:
    """It was stated first, and a crash came then; the next run releases what is before it by itself."""
    assert 0 == capture([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    with failpoints.placed(release_order.TABLE_STATED), pytest.raises(failpoints.PlacedCrash):
        capture([*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U], *NOTIFIED, tables="tu")
    assert 0 == capture(WHOLE, *NOTIFIED, "--max-records", "1", tables="tu").code
    assert ("140", [1, 3, 10, 11], [7, 8]) == (begins(capture), capture.held(), capture.held("u"))


# -- on a remap, where times are those of a clock


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
def test_where_no_table_is_covered_nothing_is_complete(capture: Captures, before: str) -> None:
    """A transaction of other tables is released, and no log has a statement: so `verify` finds it, too."""
    more = ("--snapshot", "none", "--before", before)
    other, first = end(0, 4, 110, other=1), [change("t", 0, 10, 5, 1, 110), end(1, 5, 120, t=1)]
    for _ in range(2):
        done = capture([other], *more, tables="tu")
        assert (0, True) == (done.code, done.out.startswith("nothing is complete yet: "))
        assert [0] == json.loads(capture([other], *more, "--json", tables="tu").out)["frontier"]
        shown = capture.run("verify", capture.logs)
        assert (1, True) == (shown.code, shown.out.endswith("so far nothing is complete yet\n")), shown.out
        capture.forget("lost")

    begun = capture([other, *first], *more, tables="tu")
    assert (0, True) == (begun.code, begun.out.startswith("complete through 120: ")), begun.out
    assert capture.run("verify", capture.logs).out.endswith("\ncomplete through 120\n")


@pytest.fixture(params=["commit", "complete"])
def bound(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Captures:
    """Captures on a remap, in both orderings."""
    return OnRemap(run, tmp_path, str(request.param))


def first_begin(plain: list[Any]) -> str:
    """A remap is begun with topics that are there: with a BEGIN, of the transaction whose END is to come first."""
    ids = [json.loads(one["value"])["id"] for one in plain if one["topic"] == "p.transaction"]
    value = {"status": "BEGIN", "id": ids[0] if ids else "5:1", "event_count": None, "data_collections": None}
    return record("p.transaction", 0, 0, value)


class OnRemap(Captures):
    """Captures into a folder, on a remap beside it; the topic of the transactions is there in each dump."""

    def __init__(self, run: Run, folder: Path, ordering: str = "commit") -> None:
        super().__init__(run, folder)
        self.ordering = ordering

    def __call__(self, dump: list[str], *more: str, tables: str = "t") -> Said:
        remap = ("--remap", str(self.folder / "remap"), "--ordering", self.ordering)
        return super().__call__(self.on_remap(dump), *remap, *more, tables=tables)

    @staticmethod
    def on_remap(dump: list[str]) -> list[str]:
        """The dump, with the topic of the transactions."""
        plain = [json.loads(line) for line in dump]
        later = [{**one, "offset": one["offset"] + (one["topic"] == "p.transaction")} for one in plain]
        return [first_begin(plain), *map(json.dumps, later)]


def statements(capture: Captures, table: str) -> list[Progress]:
    """What is stated in the log of a table."""
    entries = DirectoryLog(capture.logs / f"public.{table}").read()
    return [entry.message for entry in entries if entry is not None and isinstance(entry.message, Progress)]


def test_on_a_remap_the_others_go_on_without_it(bound: Captures) -> None:
    """Every command names it; it holds nothing up."""
    for dump in ([*BEGUN, *SAID], [*BEGUN, *SAID, *FIRST_OF_T]):
        done = bound(dump, *NOTIFIED, tables="tu")
        assert 0 == done.code and NAMED in done.err and "complete through" in done.out
    assert ([1, 3, 10], [], "none") == (bound.held(), bound.held("u"), begins(bound))
    assert [] == list(DirectoryLog(bound.logs / "public.u").read())
    plain = json.loads(bound(dump, *NOTIFIED, "--json", tables="tu").out)
    assert ["public.u"] == plain["not_covered"]
    shown = bound.run("verify", bound.logs)
    assert 0 == shown.code and NAMED in shown.out and f"complete through {plain['frontier'][0] - 1}\n" in shown.out
    replayed = bound.run("replay", bound.logs)
    assert 0 == replayed.code and NAMED in replayed.err
    asked = bound.run("as-of", bound.logs, "--table", "public.u")
    assert (1, "") == (asked.code, asked.out) and NAMED in asked.err


def test_on_a_remap_a_capture_whose_tables_are_all_unknown_stops(bound: Captures) -> None:
    """And the stop stays, as it is bound."""
    for dump in ([*BEGUN, *SAID], WHOLE):
        refused = bound(dump, *NOTIFIED, "--tables", "public.u", tables="tu")
        assert 4 == refused.code and "leave it out (--tables)" in refused.err
        assert "On a remap, do either with another remap and other logs" in refused.err
        assert [] == statements(bound, "u")
    empty = bound(dump, *NOTIFIED, "--tables", "public.u", "--empty", "public.u", tables="tu")
    assert 4 == empty.code and "stops because of the snapshot of public.u, neither helps" in empty.err


@pytest.mark.parametrize("dumps", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
def test_on_a_remap_it_is_captured_from_its_first_record_on(bound: Captures, dumps: list[list[str]]) -> None:
    """Its log begins at the time at which the first transaction with a row of it is given out."""
    for dump in dumps:
        assert 0 == bound(dump, *NOTIFIED, tables="tu").code
    start = int(begins(bound) or 0)
    assert start and begins(bound, "t") is None and ([1, 3, 10, 11], [7, 8]) == (bound.held(), bound.held("u"))
    assert Antichain([start]) == statements(bound, "u")[0].lower
    shown = bound.run("verify", bound.logs, "--full")
    assert (0, True) == (shown.code, f"public.u is covered by the connector from {start} on" in shown.out)
    before = bound.run("as-of", bound.logs, "--table", "public.u", "--at", str(start - 1))
    assert (2, "") == (before.code, before.out)
    at = bound.run("as-of", bound.logs, "--table", "public.u", "--at", str(start))
    assert (0, True) == (at.code, at.out.startswith("id,v\n7,0\n"))


def test_on_a_remap_views_of_logs_that_all_begin_late_have_their_rows(run: Run, tmp_path: Path) -> None:
    """As by commit times."""
    views_of_late_logs_alone(OnRemap(run, tmp_path), log_starts.COVERED)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
@pytest.mark.parametrize("op", "ud")
@pytest.mark.parametrize("step", [None, release_order.UPDATES_DURABLE, release_order.TEMP_STATED])
def test_on_a_remap_a_table_that_had_rows_before_its_first_record_is_named(
    run: Run, tmp_path: Path, op: str, before: str, step: str | None
) -> None:
    """Nothing is stated of it, now and later, also after a crash; the others go on."""
    capture = OnRemap(run, tmp_path)
    said = [*BEGUN, *SAID, *FIRST_OF_T, FIRST_OF_U[0], changed(op, FIRST_OF_U[1]), FIRST_OF_U[2]]
    if step is not None:
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
            capture(said, *NOTIFIED, "--before", before, tables="tu")
    for dump in (said, [*said, *LATER]):
        done = capture(dump, *NOTIFIED, "--before", before, tables="tu")
        assert 0 == done.code and PARTIAL in done.err
    assert ([1, 3, 10, 11], [], "partial") == (capture.held(), capture.held("u"), begins(capture))
    shown = capture.run("verify", capture.logs, "--full")
    assert 0 == shown.code and PARTIAL in shown.out


def test_on_a_remap_out_of_order_it_begins_with_what_is_given_out_first(run: Run, tmp_path: Path) -> None:
    """What comes first may not be the first row of the table: nothing can be judged by it."""
    capture = OnRemap(run, tmp_path, "complete")
    said = [*BEGUN, *SAID, *FIRST_OF_T, FIRST_OF_U[0], changed("u", FIRST_OF_U[1]), FIRST_OF_U[2]]
    assert 0 == capture(said, *NOTIFIED, tables="tu").code
    asked = capture.run("as-of", capture.logs, "--table", "public.u")
    assert 3 == asked.code and "Only a new snapshot that covers it has its rows" in asked.err


@pytest.mark.parametrize("step, nth", [
    (log_starts.COVERED, 1), (release_order.UPDATES_DURABLE, 1), (release_order.TEMP_STATED, 1),
    (release_order.TABLE_STATED, 1), (release_order.TABLE_STATED, 2), (shared_capture.READ, 1),
])  # fmt: skip
@pytest.mark.parametrize("first", ["t", "none"])
def test_on_a_remap_a_crash_anywhere_while_it_is_covered_is_healed(
    bound: Captures, step: str, nth: int, first: str
) -> None:
    """Also where no table was covered before, so that no log shows how far the capture is, but TEMP."""
    more = NOTIFIED if first == "t" else ("--snapshot", "none")
    begun, later = ([*BEGUN, *SAID], WHOLE) if first == "t" else ([end(0, 4, 110, other=1)], [
        end(0, 4, 110, other=1), change("t", 0, 10, 5, 1, 110), end(1, 5, 120, t=1),
        change("t", 1, 11, 6, 1, 120), change("u", 0, 7, 6, 2, 120), end(2, 6, 140, t=1, u=1),
    ])  # fmt: skip
    assert 0 == bound(begun, *more, tables="tu").code
    with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
        bound(later, *more, tables="tu")

    assert 0 == bound(later, *more, tables="tu").code
    held = ([1, 3, 10, 11], [7, 8]) if first == "t" else ([10, 11], [7])
    assert held == (bound.held(), bound.held("u"))
    start = begins(bound)
    assert start not in (None, "none") and Antichain([int(start or 0)]) == statements(bound, "u")[0].lower
    assert 0 == bound.run("verify", bound.logs, "--full").code


def test_on_a_remap_one_that_lags_behind_finds_the_same_start(bound: Captures) -> None:
    """Others have stated it; a run that resumes at an earlier time releases the same."""
    assert 0 == bound([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    with failpoints.placed(release_order.TABLE_STATED, 1), pytest.raises(failpoints.PlacedCrash):
        bound([*BEGUN, *SAID, *FIRST_OF_T, *FIRST_OF_U], *NOTIFIED, tables="tu")
    start = begins(bound)
    assert (start, 1, 1) == (begins(bound), len(statements(bound, "u")), len(statements(bound, "t")))
    assert 0 == bound(WHOLE, *NOTIFIED, tables="tu").code
    assert (start, [1, 3, 10, 11], [7, 8]) == (begins(bound), bound.held(), bound.held("u"))


def test_on_a_remap_one_that_lags_behind_by_several_steps_comes_up_to_the_others(bound: Captures) -> None:
    """It goes on at times before the table begins, whose log is stated beyond that."""
    assert 0 == bound(ONE_BY_ONE[0], *NOTIFIED, tables="tu").code
    for name in ("public.t", "_temp"):
        shutil.copytree(bound.logs / name, bound.folder / "before" / name)
    for dump in ONE_BY_ONE[1:]:
        assert 0 == bound(dump, *NOTIFIED, tables="tu").code
    start = begins(bound)
    for name in ("public.t", "_temp/p"):
        for later in {path.name for path in (bound.logs / name).glob("*.avro")} - {
            path.name for path in (bound.folder / "before" / name).glob("*.avro")
        }:
            (bound.logs / name / later).unlink()
    assert 0 == bound(WHOLE, *NOTIFIED, "--max-records", "1", tables="tu").code
    assert (start, [1, 3, 10, 11], [7, 8]) == (begins(bound), bound.held(), bound.held("u"))


@pytest.mark.parametrize("compacted", [False, True])
def test_on_a_remap_nothing_is_stated_before_the_snapshot_is_whole(bound: Captures, compacted: bool) -> None:
    """TEMP goes on, and the capture with it, also where the remap has forgotten what was before that."""
    lacking = [*BEGUN[:1], note(0, "STARTED")]
    for dump in (lacking, [*lacking, *BEGUN[1:]]):
        done = bound(dump, *NOTIFIED, tables="tu")
        assert (1, True) == (done.code, done.out.startswith("nothing is complete yet"))
        assert "the initial snapshot of p is not complete" in done.err
        assert ([], []) == (statements(bound, "t"), statements(bound, "u"))
        shown = bound.run("verify", bound.logs)
        assert (1, True) == (shown.code, shown.out.endswith("\nincomplete: so far nothing is complete yet\n"))
        if compacted:
            assert 0 == bound.run("compact-remap", bound.folder / "remap").code
    assert 0 == bound(WHOLE, *NOTIFIED, tables="tu").code
    assert ([1, 3, 10, 11], [7, 8]) == (bound.held(), bound.held("u"))


def test_on_a_remap_nothing_is_complete_where_no_table_is_covered(bound: Captures) -> None:
    """A transaction of other tables is bound, and no log has a statement."""
    other, first = end(0, 4, 110, other=1), [change("t", 0, 10, 5, 1, 110), end(1, 5, 120, t=1)]
    done = bound([other], "--snapshot", "none", tables="tu")
    assert (0, "nothing is complete yet: 2 records\n") == (done.code, done.out)
    assert [0] == json.loads(bound([other], "--snapshot", "none", "--json", tables="tu").out)["frontier"]
    assert (1, True) == ((shown := bound.run("verify", bound.logs)).code, "so far nothing is complete yet" in shown.out)
    begun = bound([other, *first], "--snapshot", "none", tables="tu")
    assert (0, True) == (begun.code, begun.out.startswith("complete through ")), begun.out


def test_on_a_remap_a_late_row_of_its_snapshot_stops_the_capture(bound: Captures) -> None:
    """It had rows, so it was scanned, against the notifications."""
    assert 0 == bound([*BEGUN, *SAID], *NOTIFIED, tables="tu").code
    late = bound([*BEGUN, *SAID, row(0, 0, 7, table="u", **FIRST)], *NOTIFIED, tables="tu")
    assert 4 == late.code and "none" == begins(bound)


@pytest.mark.parametrize("known", ["--snapshot none", "SKIPPED"])
def test_on_a_remap_without_a_snapshot_a_table_is_covered_if_it_has_records(bound: Captures, known: str) -> None:
    """When anything is bound first, or if the user declares it; another one begins with its first record."""
    skipped = [note(0, "SKIPPED")] if known == "SKIPPED" else []
    more = (*(NOTIFIED if skipped else ("--snapshot", "none")), "--empty", "public.v")
    dump = [*skipped, change("t", 0, 10, 5, 1, 100), end(0, 5, 120, t=1)]
    assert 0 == bound(dump, *more, tables="tuv").code
    assert (None, "none", None) == tuple(begins(bound, table) for table in "tuv")
    dump += [change("u", 0, 7, 6, 1, 120), end(1, 6, 140, u=1)]
    assert 0 == bound(dump, *more, tables="tuv").code
    assert begins(bound) not in (None, "none") and ([10], [7]) == (bound.held(), bound.held("u"))
    for made in ("logs", "remap"):
        shutil.rmtree(bound.folder / made)
    assert 0 == bound(dump, *more, tables="tuv").code
    assert (None, None, None) == tuple(begins(bound, table) for table in "tuv")


def test_on_a_remap_a_connector_that_took_no_snapshot_and_sent_nothing_is_waited_for(bound: Captures) -> None:
    """Each table begins with its first record."""
    assert 0 == bound([note(0, "SKIPPED"), end(0, 4, 110, other=1)], *NOTIFIED, tables="tu").code
    assert ("none", "none") == (begins(bound, "t"), begins(bound, "u"))
    dump = [note(0, "SKIPPED"), end(0, 4, 110, other=1), change("t", 0, 10, 5, 1, 110), end(1, 5, 120, t=1)]
    assert 0 == bound(dump, *NOTIFIED, tables="tu").code
    assert ([10], "none") == (bound.held(), begins(bound))


def test_on_a_remap_a_log_that_is_stated_from_the_start_cannot_begin_later(run: Run, tmp_path: Path) -> None:
    """As captures once stated it before the snapshot was whole."""
    capture = OnRemap(run, tmp_path)
    assert 1 == capture([*BEGUN, note(0, "STARTED")], *NOTIFIED, tables="tu").code
    row_type = DirectoryLog(capture.logs / "public.u").row_type
    with Writer(DirectoryLog(capture.logs / "public.u", row_type)) as writer:
        writer.advance([1])
    stopped = capture(WHOLE, *NOTIFIED, tables="tu")
    assert 4 == stopped.code and "do not state how many rows of public.u" in stopped.err


def test_on_a_remap_old_rows_come_from_the_state_of_a_table_that_begins_late(run: Run, tmp_path: Path) -> None:
    """What is inserted into it is known."""
    capture = OnRemap(run, tmp_path)
    for dump in ONE_BY_ONE:
        assert 0 == capture(dump, *NOTIFIED, "--before", "from-state", tables="tu").code
    assert ([1, 3, 10, 11], [7, 8]) == (capture.held(), capture.held("u"))


def test_on_a_remap_views_go_on_without_it_and_take_it_in(run: Run, tmp_path: Path) -> None:
    """Its view is empty until then, and compare names it."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    capture = OnRemap(run, tmp_path)
    path = capture.folder / "both.yaml"
    path.write_text(VIEWS, "utf-8")
    assert 0 == capture([*BEGUN, *SAID, *FIRST_OF_T], *NOTIFIED, tables="tu").code
    done, said = capture.run("materialize", path), capture.run("compare", path)
    assert (0, 1) == (done.code, said.code) and NAMED in done.err and NAMED in said.err
    assert "t: 3 rows" in said.out and f"u: not compared: {NAMED}" in said.out
    assert 0 == capture(WHOLE, *NOTIFIED, tables="tu").code
    assert (0, 0) == (capture.run("materialize", path).code, (said := capture.run("compare", path)).code)
    assert "t: 4 rows" in said.out and "u: 2 rows" in said.out


# -- tables that were empty only by the user's declaration


EMPTY = ("--empty", "public.t,public.u,public.v")
ASSUMED = "assumed to have been empty at the snapshot, as the capture states (--empty)"


@pytest.mark.parametrize("kind", ["commits", "remap"])
@pytest.mark.parametrize("notified", [True, False])
def test_a_table_that_is_said_to_be_empty_and_has_rows_is_an_error_that_says_so(
    run: Run, tmp_path: Path, kind: str, notified: bool
) -> None:
    """Nothing is written, and nothing stays marked."""
    if kind == "remap" and not notified:
        return
    capture = OnRemap(run, tmp_path) if kind == "remap" else Captures(run, tmp_path)
    said, more = (SAID, NOTIFIED) if notified else ([], ())
    for _ in range(2):
        refused = capture([*BEGUN, *said], *more, *EMPTY, tables="tuv")
        shown = "its notification counts 2 rows" if notified else "there are 2 rows of it"
        assert 4 == refused.code and "public.t was not empty at the snapshot, as --empty states" in refused.err
        assert shown in refused.err
        assert "Leave it out of --empty" in refused.err
    assert ASSUMED not in capture.run("verify", capture.logs).out
    if kind == "remap":
        other = capture([*BEGUN, *said], *more, "--empty", "public.u,public.v", tables="tuv")
        assert other.err.endswith(
            "If a capture with that recipe stops because of the snapshot of public.t, neither helps, as what was "
            "judged of it is bound: begin this one with a remap and logs of its own\n"
        )
    shutil.rmtree(capture.logs)
    shutil.rmtree(tmp_path / "remap", ignore_errors=True)
    assert 0 == capture([*BEGUN, *said], *more, "--empty", "public.u", tables="tu").code


@pytest.mark.parametrize("kind", ["commits", "remap"])
def test_what_only_the_user_says_is_marked_in_the_log_and_what_was_scanned_is_not(
    run: Run, tmp_path: Path, kind: str
) -> None:
    """A notification of no rows is known."""
    capture = OnRemap(run, tmp_path) if kind == "remap" else Captures(run, tmp_path)
    said = [note(0, "STARTED"), scanned(1, 2), scanned(2, 0, "public.u"), note(3, "COMPLETED")]
    assert 0 == capture([*BEGUN, *said], *NOTIFIED, "--empty", "public.u,public.v", tables="tuv").code
    marked = [DirectoryLog(capture.logs / f"public.{table}").description().empty for table in "tuv"]
    assert [None, None, "assumed"] == marked
    assert ["public.v"] == json.loads(capture.run("verify", capture.logs, "--json").out)["assumed_empty"]
    assert 0 == capture([*BEGUN, *said], *NOTIFIED, "--empty", "public.u,public.v", tables="tuv").code
    shown = capture.run("verify", capture.logs)
    assert 0 == shown.code and f"public.v: {ASSUMED}" in shown.out and 1 == shown.out.count(ASSUMED)
