"""`cdcv2 compare` reports whether a target has what its logs have, and which rows differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.control.materialization_file import read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.errors import FencedError
from cdcv2.failpoints import PlacedCrash, placed
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimes
from cdcv2.materialize.protocol.messages import Flush, Open
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.postgres_texts import PostgresRows
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from tests.cli.conftest import HISTORY, MARKET, Run, price, write
from tests.cli.test_command_materialize import LAKE, PUSHED, written

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
GOOD = [Updates([(price(1, 10, "apple"), 3, 1), (price(2), 3, 1)]), Progress([0], [5], {3: 2}),
        Updates([(price(2), 6, -1), (price(1, 10, "apple"), 6, -1), (price(1, 12, "apple"), 6, 1)]),
        *HISTORY[3:]]  # fmt: skip
#: The same, with another price at the same time.
OTHER = [Updates([(price(1, 10, "apple"), 3, 1), (price(2), 3, 1)]), Progress([0], [5], {3: 2}),
         Updates([(price(2), 6, -1), (price(1, 10, "apple"), 6, -1), (price(1, 13, "apple"), 6, 1)]),
         *HISTORY[3:]]  # fmt: skip


def emptied(log: Path) -> None:
    """The log has lost its messages, and is the same log."""
    for path in log.glob("*.avro"):
        path.unlink()


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> Path:
    """A lake, by its file; the log beside it is good."""
    write(tmp_path / "prices", *GOOD)
    path = written(tmp_path, LAKE)
    assert 0 == run("materialize", path).code
    return path


def test_equal_is_0_with_a_fingerprint_per_table(run: Run, kept: Path) -> None:
    """Also with softly deleted rows in it, and where the log has grown since."""
    said, plain = run("compare", kept), json.loads(run("compare", kept, "--json").out)

    assert (0, "equal: prices, complete through 9") == (said.code, said.out.splitlines()[-1])
    assert ["now: 2 rows", "all: 2 rows", "names: 2 rows"] == [line.split(",")[0] for line in said.out.splitlines()[:3]]
    assert {"equal": True, "frontier": [10]}.items() <= plain.items()
    assert plain["tables"]["now"]["fingerprint"]["logs"] in said.out

    write(kept.parent / "more", Updates([(price(4), 11, 1)]), Progress([10], [12], {11: 1}))
    kept.write_text(LAKE.replace("prices: prices\n", "prices: [prices, more]\n"), "utf-8")

    assert 0 == run("compare", kept).code


def test_what_differs_is_named_and_3(run: Run, kept: Path) -> None:
    """By key, with both sides; in every view that it is in."""
    emptied(kept.parent / "prices")
    write(kept.parent / "prices", *OTHER)
    said, plain = run("compare", kept), json.loads(run("compare", kept, "--json").out)

    run("compare", kept, "--events", kept.parent / "events")
    end = json.loads((kept.parent / "events").read_text("utf-8").splitlines()[-1])

    assert (3, "different: prices, complete through 9") == (said.code, said.out.splitlines()[-1])
    assert (3, None, "different: prices, complete through 9") == (end["exit"], end["error"], end["reason"])
    row = '  {"id": 1}: the logs state {"price": 13, "name": "apple"}, the target has {"price": 12, "name": "apple"}'
    assert row in said.out.splitlines()
    assert {"now": 1, "all": 2, "names": 1} == {name: one["differing"] for name, one in plain["tables"].items()}
    assert "the target has nothing" in said.out and "the logs state nothing" in said.out


def test_a_time_is_demanded(run: Run, kept: Path) -> None:
    """The target is at this time: 0; before it: 1; behind it: 2, as a target shows no past."""
    assert 0 == run("compare", kept, "--at", 9).code
    early, late = run("compare", kept, "--at", 10), run("compare", kept, "--at", 8)

    assert (1, True) == (early.code, "let it continue" in early.err)
    assert (2, True) == (late.code, "shows no past" in late.err), late.err
    ReleaseTimes(kept.parent).keep(ReleaseTime(9, 10**12))
    assert [0, 0, 0] == [run("compare", kept, "--at", at).code for at in ("2001-09-09T01:46:40Z", "now", "0/9")]


def test_now_is_where_the_logs_are(run: Run, kept: Path) -> None:
    """A target that has not come there is behind, though it has what it should have where it is."""
    write(kept.parent / "more", Updates([(price(4), 11, 1)]), Progress([10], [12], {11: 1}))
    kept.write_text(LAKE.replace("prices: prices\n", "prices: [prices, more]\n"), "utf-8")
    behind, said = run("compare", kept, "--at", "now"), run("compare", kept)
    assert 0 == run("materialize", kept).code

    assert 1 == behind.code
    assert "cdcv2 compare: the target is behind: it is complete through 9, and its logs" in behind.err
    assert (0, 0) == (said.code, run("compare", kept, "--at", "now").code)


def test_a_target_that_was_emptied_is_not_equal(run: Run, kept: Path) -> None:
    """A lake that was moved away is not started again by the next run; a new one holds nothing."""
    shutil.move(kept.parent / "lake", kept.parent / "moved")
    refused, said = run("materialize", kept), run("compare", kept)

    assert (4, 2) == (refused.code, said.code), refused.err + said.err
    plan = read_plan(str(kept))
    tables = tuple(binding.view().table for binding in plan.bindings)
    plan.driver().open(Open("prices", tables, start=Antichain([0])))
    said = run("compare", kept)
    assert (1, True) == (said.code, "the target of prices has nothing yet: run cdcv2 materialize" in said.err)


@pytest.mark.parametrize("changed, told", [
    (("deletes: soft", "deletes: hard"), "its view 'names' was another"),
    (("low: {min: price}", "low: {max: price}"), "its view 'names' was another"),
    (("target: now", "target: later"), "its view 'later' is new"),
    (("key: id", "key: [id, name]"), "its view 'now' was another"),
    (("key: id", "deletes: hard"), "its view 'now' was another"),
], ids=["deletes", "reduction", "name", "key", "multiset"])  # fmt: skip
def test_a_file_whose_views_are_others_is_refused_as_by_materialize(
    run: Run, kept: Path, changed: tuple[str, str], told: str
) -> None:
    """Their rows are not those of the target: there is nothing to compare."""
    kept.write_text(LAKE.replace(*changed), "utf-8")
    said, refused = run("compare", kept), run("materialize", kept)

    assert (4, 4, "") == (said.code, refused.code, said.out), said.err
    assert told in said.err
    assert said.err.replace("cdcv2 compare", "cdcv2 materialize") == refused.err


@pytest.mark.parametrize("recovery", ["recovery", "other", "none"])
@pytest.mark.parametrize("driver", ["lake", "delta"])
def test_a_target_of_another_materialization_is_refused_as_by_materialize(
    run: Run, tmp_path: Path, recovery: str, driver: str
) -> None:
    """Also where its rows are equal."""
    if driver == "delta":
        pytest.importorskip("deltalake")
    text = LAKE.replace("driver: lake", f"driver: {driver}")
    write(tmp_path / "prices", *GOOD)
    kept = written(tmp_path, text)
    assert 0 == run("materialize", kept).code
    other = text.replace("materialization: prices", "materialization: costs")
    if recovery == "other":
        path = written(tmp_path, other.replace("folder: lake", "folder: second").replace(": recovery", ": other"))
        assert 0 == run("materialize", path).code
    kept.write_text(other.replace(": recovery", f": {recovery}"), "utf-8")
    said, refused = run("compare", kept), run("materialize", kept)

    assert (4, 4, "") == (said.code, refused.code, said.out), said.err
    assert "of 'prices', not of 'costs'" in said.err
    assert said.err.replace("cdcv2 compare", "cdcv2 materialize") == refused.err


@pytest.mark.parametrize("start", ["", "start: 2\n", "start: 3\n"], ids=["", "before", "there"])
def test_a_time_before_the_history_is_an_error(run: Run, kept: Path, start: str) -> None:
    """As in as-of: of what nothing is known cannot be compared; the target is not even asked how far it is."""
    kept.write_text(LAKE + start, "utf-8")
    for at in (0, 1, 2):
        said, shown = run("compare", kept, "--at", at), run("as-of", kept.parent / "prices", "--at", at)
        assert (2, 2, "") == (said.code, shown.code, said.out)
        wanted = "the history begins later" if "3" in start or (start and at < 2) else "the history begins at 3"
        assert wanted in said.err and "the history begins at 3" in shown.err, said.err
    assert "shows no past" in run("compare", kept, "--at", 3).err


def test_a_time_before_a_start_is_an_error_also_of_an_empty_log(run: Run, tmp_path: Path) -> None:
    """There nothing moves, and both sides are empty: that was not known at the time either."""
    write(tmp_path / "prices", Progress([5], [10]))
    path = written(tmp_path, f"{LAKE}start: 5\n")
    assert 0 == run("materialize", path).code
    assert [2, 0, 0, 1] == [run("compare", path, "--at", at).code for at in (4, 5, 9, 10)]
    assert "--at 4: the history begins later" in run("compare", path, "--at", 4).err


@pytest.mark.parametrize("rest", [[20], []], ids=["goes on", "finished"])
def test_a_time_after_which_nothing_has_changed_is_reached(run: Run, kept: Path, rest: list[int]) -> None:
    """The target has all up to there, and nothing later, also at the end of a finished history."""
    write(kept.parent / "rest", Progress([10], rest))
    kept.write_text(LAKE.replace("prices: prices\n", "prices: [prices, rest]\n"), "utf-8")

    assert 0 == run("materialize", kept).code
    assert [0, 0, 2] == [run("compare", kept, "--at", at).code for at in (9, 19, 8)]
    assert (1 if rest else 0) == run("compare", kept, "--at", 10**9).code


def test_logs_that_lost_their_end_are_1(run: Run, kept: Path) -> None:
    """They end before the target does."""
    emptied(kept.parent / "prices")
    write(kept.parent / "prices", *GOOD[:2])
    said = run("compare", kept)

    assert (1, True) == (said.code, "its logs complete through 4" in said.err), said.err


def test_what_was_pushed_cannot_be_looked_at(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2, with the line; and a lake that is not there."""
    write(tmp_path / "prices", *GOOD)
    monkeypatch.setenv("PORT", "1")
    monkeypatch.setenv("TOKEN", "t")
    said = run("compare", written(tmp_path, PUSHED))
    missing = run("compare", written(tmp_path, LAKE))

    assert (2, True) == (said.code, "line 6: what was pushed to 'webhook' cannot be looked at" in said.err), said.err
    assert (2, True) == (missing.code, "there is no lake" in missing.err)


def test_a_delta_table_that_somebody_changed_is_found(run: Run, tmp_path: Path) -> None:
    """Equal with what was deleted softly in it; then a row is changed, and one removed, by another program."""
    deltalake = pytest.importorskip("deltalake")
    write(tmp_path / "prices", *GOOD)
    path = written(tmp_path, LAKE.replace("driver: lake, folder: lake", "driver: delta, folder: tables"))
    never, kept, equal = run("compare", path), run("materialize", path), run("compare", path)
    deltalake.DeltaTable(tmp_path / "tables" / "now").update({"price": "99"}, predicate="id = 1")
    deltalake.DeltaTable(tmp_path / "tables" / "all").delete("name = 'apple'")
    changed = json.loads(run("compare", path, "--json").out)

    assert (2, True) == (never.code, "no Delta tables of a materialization" in never.err), never.err
    assert (0, 0) == (kept.code, equal.code), kept.err + equal.err
    assert "equal: prices, complete through 9" == equal.out.splitlines()[-1]
    assert {"now": 1, "all": 1, "names": 0} == {name: one["differing"] for name, one in changed["tables"].items()}


@pytest.mark.parametrize("typed", [True, False], ids=["decimals", "text"])
@pytest.mark.parametrize("driver", ["lake", "delta"])
def test_a_table_is_compared_by_the_types_that_it_has(run: Run, tmp_path: Path, driver: str, typed: bool) -> None:
    """Whatever the file names by now: what was made with decimals goes on with them, and 2.2500 is 2.25.

    And what was made as the log has it goes on so: the numbers are the same, however they are spelled.
    """
    if driver == "delta":
        pytest.importorskip("deltalake")

    def rows(source: dict[str, object] | None) -> RowType:
        n = {"name": "n", "type": ["null", "string"]} | ({"cdcv2.source": source} if source else {})
        return RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "int"}, n]})

    source_of = {"type": "numeric", "precision": 12, "scale": 2}
    numeric = rows(source_of if typed else None)
    with Writer(DirectoryLog(tmp_path / "prices", numeric, create=True, description=MARKET)) as writer:
        writer.update(numeric.row((1, "1.50")), 3, 1)
        writer.advance([5])
    text = LAKE.partition("bindings:")[0] + "bindings: [{log: prices, target: now, key: [id]}]\n" + (
        f"target: {{driver: {driver}, folder: kept}}\nrecovery_log: recovery\n"
    )
    path = written(tmp_path, text)
    assert 0 == run("materialize", path).code
    with Writer(DirectoryLog(tmp_path / "prices")) as writer:
        writer.update(numeric.row((2, "2.2500")), 6, 1)
        writer.advance([9])
    if not typed:
        assert 0 == run("materialize", path).code
    (tmp_path / "types").mkdir()
    written(tmp_path, text + "types: types\n")
    for source in (None, {"type": "uuid"}) if typed else (source_of,):
        (tmp_path / "types" / "prices.avsc").write_text(json.dumps(rows(source).schema))
        kept, said = run("materialize", path), run("compare", path)
        assert (0, 0) == (kept.code, said.code), kept.err + said.out
    by_hand = json.loads(run("compare", path, "--json").out)["tables"]["now"]["fingerprint"]
    assert by_hand["logs"] == by_hand["target"]


MARKED = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "cdcv2_deleted", "type": "boolean"}]})  # fmt: skip
OWN = """
materialization: prices
logs: {marked: marked}
bindings:
  - {log: marked, target: now, key: [id]}
  - {log: marked, target: all, deletes: soft}
  - {log: marked, target: sums, key: [id], reduce: {cdcv2_deleted: count}}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


def own_mark(folder: Path) -> None:
    """A log with a column of its own that is called as the mark of what was deleted softly."""
    with Writer(DirectoryLog(folder / "marked", MARKED, create=True, description=MARKET)) as writer:
        for number in range(4):
            writer.update(MARKED.row((number, number % 2 == 1)), 3, 1)
        writer.advance([5])


def test_a_column_of_the_logs_own_is_not_taken_for_the_mark_of_soft_deletes(run: Run, tmp_path: Path) -> None:
    """Every row counts, in each kind of view; with the mark beside it, it is refused by name."""
    own_mark(tmp_path)
    path = written(tmp_path, OWN)
    kept, equal = run("materialize", path), run("compare", path)

    assert (0, 0) == (kept.code, equal.code), equal.out + equal.err
    assert ["now: 4 rows", "all: 4 rows", "sums: 4 rows"] == [
        line.split(",")[0] for line in equal.out.splitlines()[:3]
    ]
    soft = run("materialize", written(tmp_path, OWN.replace("now, key: [id]", "now, key: [id], deletes: soft")))
    assert (2, True) == (soft.code, "two columns would be called 'cdcv2_deleted', the log's and" in soft.err), soft.err


@pytest.mark.integration
def test_a_table_that_somebody_changed_is_found(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In PostgreSQL: a row changed, one removed, one added."""
    write(tmp_path / "prices", *GOOD)
    text = LAKE.replace("{driver: lake, folder: lake}", "{driver: postgres}").replace("recovery_log: recovery\n", "")
    path = written(tmp_path, text)
    with Postgres() as postgres:
        for name, value in postgres.environment.items():
            monkeypatch.setenv(name, value)
        never = run("compare", path)
        kept, equal = run("materialize", path), run("compare", path)
        with monkeypatch.context() as patched:
            # Equal tables are not moved, those with JSON apart.
            patched.setattr(PostgresRows, "rows", None)
            assert 0 == run("compare", path).code
        own_mark(tmp_path)
        lake = "{driver: lake, folder: lake}\nrecovery_log: recovery"
        (tmp_path / "own.yaml").write_text(
            OWN.replace(lake, "{driver: postgres}").replace("prices", "own").replace(", target: ", ", target: own_"),
            "utf-8",
        )  # fmt: skip
        own = run("materialize", tmp_path / "own.yaml"), run("compare", tmp_path / "own.yaml")
        with postgres.connect(autocommit=True) as connection:
            connection.execute("UPDATE now SET price = 99 WHERE id = 1")
            connection.execute("INSERT INTO now VALUES (7, 7, 'seven')")
            connection.execute('DELETE FROM "all" WHERE name = \'apple\'')
        changed = run("compare", path, "--json")
        plan = read_plan(str(path))
        running = plan.driver()
        running.open(Open("prices", tuple(binding.view().table for binding in plan.bindings), start=Antichain([0])))
        tried = run("repair", path, "--dry-run")
        with placed("postgres.before-commit"), pytest.raises(PlacedCrash):
            run("repair", path)
        still, mended, right = run("compare", path, "--json"), run("repair", path), run("compare", path)
        with pytest.raises(FencedError):
            list(running.flush(Flush(Antichain([10]), Antichain([11]))))
        running.close()
        with postgres.connect() as connection:
            names = connection.execute("SELECT name, n, cdcv2_deleted FROM names ORDER BY name").fetchall()
        shutil.rmtree(tmp_path / "prices")
        write(tmp_path / "prices", *GOOD)
        fence = "SELECT fence FROM cdcv2_checkpoints WHERE materialization = 'prices'"
        with postgres.connect() as connection:
            before = connection.execute(fence).fetchall()
        others = run("compare", path), run("materialize", path)
        path.write_text(text.replace("\ntarget:", "\n  - {log: prices, target: more}\ntarget:"), "utf-8")
        more = run("materialize", path)
        with postgres.connect() as connection:
            after = connection.execute(fence).fetchall()

    assert (3, 0, 0, changed.out) == (tried.code, mended.code, right.code, still.out), mended
    assert "now: 2 rows differ; the logs state 2, the target had 3" in mended.out.splitlines()
    assert tried.out.splitlines()[:-1] == mended.out.splitlines()[:-1]
    assert {("", 0, True), ('pl"um, ripe', 1, False), ("apple", 1, False)} == set(names)
    # Who is refused leaves the one who runs alone.
    assert before == after
    assert (4, True) == (more.code, "and its view 'more' is new" in more.err), more.err
    assert (4, 4) == (others[0].code, others[1].code), others[0].err + others[1].err
    assert "was made of another log 'prices'" in others[0].err and "of another log 'prices'" in others[1].err
    assert (0, 0) == (kept.code, equal.code), equal.out + equal.err
    assert (0, 0) == (own[0].code, own[1].code), own[0].err + own[1].out + own[1].err
    assert (2, True) == (never.code, "the database, or nothing was materialized yet" in never.err), never.err
    assert {"now": 2, "all": 1, "names": 0} == {
        name: one["differing"] for name, one in json.loads(changed.out)["tables"].items()
    }
