"""`cdcv2 capture --remap --prefix`: databases on a timeline, by several captures, with one cut over all of them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.directory import DirectoryLog
from tests.cli.conftest import Run, Said
from tests.recorded import TABLES as ALL, truth

RECORDED = Path(__file__).resolve().parents[1] / "data" / "debezium"
TABLES = ("public.order_items", "public.orders")


def notes(
    prefix: str, topics: list[dict[str, object]], tables: tuple[str, ...] = TABLES
) -> list[dict[str, object]]:
    """The notifications that the connector would have sent."""
    counts = dict.fromkeys(tables, 0)
    for record in topics:
        table = str(record["topic"]).partition(".")[2]
        if table in counts and '"op":"r"' in str(record["value"]):
            counts[table] += 1
    said = [("STARTED", None, None), *(("TABLE_SCAN_COMPLETED", *found) for found in counts.items())]
    return [
        {"topic": f"{prefix}.notes", "partition": 0, "offset": at, "value": json.dumps({
            "type": kind, "aggregate_type": "Initial Snapshot",
            "additional_data": {"scanned_collection": table, "total_rows_scanned": rows}})}
        for at, (kind, table, rows) in enumerate([*said, ("COMPLETED", None, None)])
    ]  # fmt: skip


def write(path: Path, records: list[dict[str, object]]) -> Path:
    """A dump."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


@pytest.fixture(scope="module")
def recorded(captured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of two databases that had the same history; halves that end in a transaction; row types of two tables."""
    folder = tmp_path_factory.mktemp("databases")
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        text = dump.read()
    wanted = {f"clean_full.{table}" for table in TABLES} | {"clean_full.transaction"}
    for prefix in ("clean_full", "bank"):
        lines = [line for line in text.splitlines() if json.loads(line)["topic"] in wanted]
        records = [json.loads(line.replace("clean_full", prefix)) for line in lines]
        more = notes(prefix, records)
        write(folder / f"{prefix}.jsonl", [*more, *records])
        middle = sorted(record["timestamp"] for record in records)[len(records) // 2]
        half = [one for one in records if one["timestamp"] < middle]
        half.remove([one for one in half if one["topic"] == f"{prefix}.public.order_items"][-1])
        write(folder / f"{prefix}-half.jsonl", [*more, *half])
        for rows in (folder / "rows", folder / "both" / prefix):
            rows.mkdir(parents=True, exist_ok=True)
            for table in TABLES:
                shutil.copy(captured / "rows" / f"{table}.avsc", rows)
    return folder


def words(recorded: Path, folder: Path, *more: object, dump: str = "clean_full.jsonl") -> list[object]:
    """The capture of one of them."""
    return ["capture", recorded / dump, "--remap", folder / "remap", "--prefix", "clean_full", "--notifications",
            "clean_full.notes", "--rows", recorded / "rows", "--into", folder / "logs", *more]  # fmt: skip


def test_a_walk_along_everything_that_can_be_asked(
    run: Run, recorded: Path, captured: Path, tmp_path: Path
) -> None:
    """Half of the topics, what is open then, all of them: the tables that a capture by commit times has."""
    half = run(*words(recorded, tmp_path, "--bind-at-most", 500, dump="clean_full-half.jsonl"))
    temp = tmp_path / "logs" / "_temp" / "clean_full"
    held = run("open-transactions", temp)
    assert (1, True) == (half.code, "are of transactions that are not complete" in half.err)
    assert held.code == 0 and "given out through" in held.err and held.out
    said = run(*words(recorded, tmp_path, "--bind-at-most", 500))
    assert (0, "") == (said.code, said.err)
    through = int(said.out.split()[2].rstrip(":"))
    verified = run("verify", "--full", tmp_path / "logs")
    assert (0, f"complete through {through}") == (verified.code, verified.out.splitlines()[-1])
    assert 0 == run("verify", "--full", temp).code
    assert "0 are held" in run("open-transactions", temp).err
    for table in TABLES:
        ours, theirs = (run("as-of", logs, "--table", table).out for logs in (tmp_path / "logs", captured / "logs"))
        assert theirs == ours != ""
    position = "clean_full.transaction=0@100"
    time = int(run("when", tmp_path / "remap", position).out.split()[-1])
    assert "clean_full.transaction=0@" in run("where", tmp_path / "remap", "--at", time).out
    again = run(*words(recorded, tmp_path, "--json"))

    nothing_new = {"frontier": [through + 1], "records": 0, "waiting": [], "not_covered": []}
    assert (0, nothing_new) == (again.code, json.loads(again.out))


def test_two_databases_with_one_cut_over_both(run: Run, recorded: Path, captured: Path, tmp_path: Path) -> None:
    """One capture of both, into one directory; each table is that of its database, and all are complete alike."""
    said = run(
        "capture", recorded / "clean_full.jsonl", recorded / "bank.jsonl", "--remap", tmp_path / "remap",
        "--prefix", "clean_full", "--prefix", "bank", "--notifications", "clean_full=clean_full.notes",
        "--notifications", "bank=bank.notes", "--rows", recorded / "both", "--into", tmp_path / "logs",
        "--bind-at-most", 3000,
    )
    assert (0, "") == (said.code, said.err)
    logs = sorted(path.name for path in (tmp_path / "logs").iterdir() if path.is_dir())
    assert ["_temp", *(f"{prefix}.{table}" for prefix in ("bank", "clean_full") for table in TABLES)] == logs
    verified = json.loads(run("verify", "--json", tmp_path / "logs").out)
    assert [verified["frontier"]] * 4 == [table["frontier"] for table in verified["tables"].values()]
    for prefix in ("clean_full", "bank"):
        ours = run("as-of", tmp_path / "logs", "--table", f"{prefix}.public.orders").out
        assert run("as-of", captured / "logs", "--table", "public.orders").out == ours


def test_a_database_and_a_plain_topic_are_one_timeline(run: Run, recorded: Path, tmp_path: Path) -> None:
    """Added by a proposal: the database's transactions go on as if nothing had been."""
    run(*words(recorded, tmp_path, "--bind-at-most", 500, dump="clean_full-half.jsonl"))
    rows = tmp_path / "rows"
    shutil.copytree(recorded / "rows", rows / "clean_full")
    shutil.copytree(recorded / "rows", rows, dirs_exist_ok=True)
    clicks = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}
    (rows / "clicks.avsc").write_text(json.dumps(clicks), "utf-8")
    shutil.rmtree(rows / "clean_full")
    write(tmp_path / "clicks.jsonl", [{"topic": "web", "partition": 0, "offset": 0, "value": '{"page": "/"}'}])
    said = run(
        "capture", recorded / "clean_full.jsonl", tmp_path / "clicks.jsonl", *words(recorded, tmp_path)[2:], "--rows",
        rows, "--plain", "clicks=web", "--propose-recipe",
    )

    assert (0, "") == (said.code, said.err)
    assert 0 == run("verify", "--full", tmp_path / "logs").code
    assert ["page", "/"] == run("as-of", tmp_path / "logs", "--table", "clicks").out.split()


def test_one_of_two_databases_starts_over_and_the_other_goes_on(
    run: Run, recorded: Path, captured: Path, tmp_path: Path
) -> None:
    """On the same remap, into the same logs: its new topics come in by a proposal, and its old ones are left out."""
    rows, again = tmp_path / "rows", tmp_path / "again.jsonl"
    shutil.copytree(recorded / "both", rows)
    shutil.copytree(rows / "bank", rows / "again")
    again.write_text((recorded / "bank.jsonl").read_text("utf-8").replace("bank", "again"), "utf-8")

    def go(other: str, *more: object) -> Said:
        names = [word for name in ("clean_full", other) for word in (
            "--prefix", name, "--notifications", f"{name}={name}.notes")]  # fmt: skip
        return run("capture", *more, "--remap", tmp_path / "remap", *names, "--rows", rows, "--into",
                   tmp_path / "logs", "--bind-at-most", 900)  # fmt: skip

    halves = [recorded / f"{name}-half.jsonl" for name in ("clean_full", "bank")]
    assert 1 == go("bank", *halves).code
    dumps = [recorded / "clean_full.jsonl", again, recorded / "bank-half.jsonl"]
    refused, said = go("again", *dumps), go("again", *dumps, "--propose-recipe")
    assert (4, True) == (refused.code, "or propose this one with --propose-recipe" in refused.err), refused
    assert (0, "") == (said.code, said.err)

    logs = [tmp_path / "logs" / f"{name}.{table}" for name in ("clean_full", "again") for table in TABLES]
    assert 0 == run("verify", "--full", *logs).code
    for name in ("clean_full", "again"):
        ours = run("as-of", tmp_path / "logs", "--table", f"{name}.public.orders").out
        assert run("as-of", captured / "logs", "--table", "public.orders").out == ours
    assert "bank.public.orders: behind the others" in run("verify", tmp_path / "logs").out


def test_what_the_logs_of_a_database_cannot_follow_is_not_proposed(run: Run, recorded: Path, tmp_path: Path) -> None:
    """Another table of it, or another way to begin it: refused before it is bound, and the remedy is one."""
    (tmp_path / "rows").mkdir()
    shutil.copy(recorded / "rows" / "public.orders.avsc", tmp_path / "rows")
    line = [*words(recorded, tmp_path), "--rows", tmp_path / "rows"]
    assert 0 == run(*line).code
    shutil.copy(recorded / "rows" / "public.order_items.avsc", tmp_path / "rows")
    stopped, proposed = run(*line), run(*line, "--propose-recipe")
    (tmp_path / "rows" / "public.order_items.avsc").unlink()
    other = run(*line, "--ordering", "complete", "--propose-recipe")

    for said in (stopped, proposed, other):
        assert (4, True) == (said.code, "begin this one with a remap and logs of its own" in said.err), said.err
    assert "has the tables public.order_items, public.orders, bound public.orders" in proposed.err
    assert "'clean_full' has ordering 'complete', bound 'commit'" in other.err
    assert (0, "") == (run(*line).code, run(*line).err)


def test_each_transaction_as_soon_as_it_is_complete(run: Run, recorded: Path, captured: Path, tmp_path: Path) -> None:
    """Noted beside the logs and in TEMP; the other ordering is another recipe."""
    said = run(*words(recorded, tmp_path, "--ordering", "complete", "--bind-at-most", 700))
    other = run(*words(recorded, tmp_path))

    assert 0 == said.code
    assert "complete" == json.loads((tmp_path / "logs" / CAPTURE_FILE).read_text("utf-8"))["ordering"]
    held = run("open-transactions", tmp_path / "logs" / "_temp" / "clean_full")
    assert "each as soon as it is complete" in held.err
    assert (4, True) == (other.code, "'clean_full' has ordering 'commit', bound 'complete'" in other.err)
    ours = run("as-of", tmp_path / "logs", "--table", "public.orders").out
    assert run("as-of", captured / "logs", "--table", "public.orders").out == ours
    lake = tmp_path / "lake.yaml"
    lake.write_text(
        "materialization: m\nlogs: logs\nbindings: [{log: public.orders, target: o, key: [id]}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: r\n", "utf-8",
    )
    view = run("materialize", lake)
    assert (4, True) == (view.code, "a view of public.orders needs the state before each transaction" in view.err)


def test_logs_of_others_are_not_marked_before_they_are_refused(run: Run, recorded: Path, tmp_path: Path) -> None:
    """Otherwise logs that were written in the order of commits would have no views of them any more."""
    assert 0 == run(*words(recorded, tmp_path)).code
    (tmp_path / "logs" / CAPTURE_FILE).unlink()
    shutil.rmtree(tmp_path / "remap")
    said = run(*words(recorded, tmp_path, "--ordering", "complete"))

    assert (4, True) == (said.code, "was written with another remap" in said.err), said.err
    assert {"commit"} == {DirectoryLog(tmp_path / "logs" / table).description().ordering for table in TABLES}


def test_a_log_tells_alone_that_its_transactions_are_in_no_order(run: Run, recorded: Path, tmp_path: Path) -> None:
    """Without the note beside it, also after a restart and as a copy, mangled or not: no view, and no comparison."""
    for more in ((), ("--bind-at-most", 900)):
        assert 0 == run(*words(recorded, tmp_path, "--ordering", "complete", *more)).code
    alone, mangled = tmp_path / "alone", tmp_path / "mangled"
    shutil.copytree(tmp_path / "logs" / "public.orders", alone / "public.orders")
    assert 0 == run("mangle", alone / "public.orders", mangled / "public.orders").code
    (tmp_path / "dsn").write_text("host=127.0.0.1 port=1", "utf-8")
    ordered = run("inspect", tmp_path / "logs" / "_temp" / "clean_full", "--limit", 1, "--json")

    for logs in (alone, mangled):
        (tmp_path / "lake.yaml").write_text(
            f"materialization: m\nlogs: {logs}\nbindings: [{{log: public.orders, target: o, key: [id]}}]\n"
            "target: {driver: lake, folder: lake}\nrecovery_log: r\n", "utf-8",
        )
        view, compared = run("materialize", tmp_path / "lake.yaml"), run("compare", tmp_path / "lake.yaml")
        source = run("compare", logs / "public.orders", "--source", tmp_path / "dsn")
        for said, purpose in ((view, "a view of"), (compared, "a view of"), (source, "comparing with the source")):
            assert (4, True) == (said.code, f"{purpose} public.orders needs the state before" in said.err), said.err
        shown = run("inspect", logs / "public.orders", "--limit", 2, "--brief")
        plain = run("inspect", logs / "public.orders", "--limit", 2, "--json")
        lines = [line for line in shown.out.splitlines() if not line.startswith("    ")]
        assert (3, True) == (len(lines), "ordering  complete" in lines[0])
        assert ["complete"] * 2 == [json.loads(line)["ordering"] for line in plain.out.splitlines()]
    assert "ordering" not in json.loads(ordered.out)
    assert not (tmp_path / "lake").exists()


def test_a_truncate_stops_it_now_and_whenever_it_is_started(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 4 with reason and remedy; everything before it is written."""
    full, table = RECORDED / "clean_full" / "topics.jsonl.gz", "public.pgbench_history"
    with gzip.open(full, "rt", encoding="utf-8") as dump:
        counted = notes("clean_full", [json.loads(line) for line in dump], (table,))
    line = [
        "capture", full, write(tmp_path / "n.jsonl", counted), "--remap", tmp_path / "remap", "--prefix", "clean_full",
        "--notifications", "clean_full.notes", "--rows", RECORDED / "rows", "--tables", table, "--into",
        tmp_path / "logs",
    ]
    said = [run(*line) for _ in range(2)]

    assert [4, 4] == [one.code for one in said]
    assert all(f"{table} was truncated in transaction" in one.err for one in said)
    assert 0 == run("verify", "--full", tmp_path / "logs").code
    assert 300 < len(run("as-of", tmp_path / "logs").out.splitlines())


@pytest.mark.parametrize("more, said", [
    (["--prefix", "clean_full"], "each database once"),
    (["--prefix", "bank"], "of several databases each has a folder of row types"),
    (["--notifications", "other=x"], "one for each database, PREFIX=TOPIC"),
    (["--tables", "public.none"], "there is no row type of a table of clean_full"),
    (["--tables", "public.none,public.orders"], "--tables names public.none"),
    (["--plain", "public.orders=web"], "two tables would be written to the log public.orders"),
    (["--tables", "public.order_items", "--plain", "public.orders=clean_full.public.order_items"],
     "the topic clean_full.public.order_items would be read twice"),
    (["--tables", "public.order_items", "--plain", "public.orders=clean_full.notes"],
     "the topic clean_full.notes would be read twice"),
    (["--into", "kafka:logs", "--bootstrap", "127.0.0.1:1"], "kafka:NAME.{table}"),
])  # fmt: skip
def test_wrong_arguments_leave_nothing_behind(
    run: Run, recorded: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    """Exit 2 and what it takes."""
    result = run(*words(recorded, tmp_path, *more))

    assert (2, True) == (result.code, said in result.err)
    assert [] == list(tmp_path.iterdir())


def test_databases_that_share_a_topic_are_refused(run: Run, recorded: Path, tmp_path: Path) -> None:
    """One of them would take the other one's snapshot for its own."""
    both = ["--prefix", "bank", "--notifications", "clean_full=notes", "--notifications", "bank=notes"]
    line = [word for word in words(recorded, tmp_path) if word not in ("--notifications", "clean_full.notes")]
    said = run(*line, *both, "--rows", recorded / "both")

    assert (2, True) == (said.code, "the topic notes would be read twice" in said.err)
    assert [] == list(tmp_path.iterdir())


def test_tables_with_default_identity_by_two_in_turns(run: Run, tmp_path: Path) -> None:
    """Old rows from the state, at each start from the logs: the true tables behind a TRUNCATE, and one for both."""
    name = "clean_default"
    with gzip.open(RECORDED / name / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = sorted(map(json.loads, dump), key=lambda record: int(record["timestamp"]))
    tables = tuple(ALL)
    more = notes(name, records, tables)
    shutil.copytree(RECORDED / "rows", tmp_path / "rows")

    def go(share: float, into: str, *others: object) -> Said:
        dump = write(tmp_path / "some.jsonl", [*more, *records[:int(share * len(records))]])
        return run("capture", dump, "--remap", tmp_path / "remap", "--prefix", name, "--notifications", f"{name}.notes",
                   "--rows", tmp_path / "rows", "--into", tmp_path / into, "--bind-at-most", 700, *others)  # fmt: skip

    state = "--before", "from-state"
    without = go(0.3, "stopped")
    assert (4, True) == (without.code, "--before from-state" in without.err), without.err
    assert not (tmp_path / "remap").exists()
    codes = [go(share, "logs", *state).code for share in (0.3, 0.6, 1.0)]
    other = go(0.3, "logs")
    assert (4, True) == (other.code, f"'{name}' has before None, bound 'from-state'" in other.err), other.err
    assert (0, 0) == (codes[-1], go(1.0, "alone", *state).code)
    for table in tables:
        ours = run("as-of", tmp_path / "logs", "--table", table).out.splitlines()
        assert run("as-of", tmp_path / "alone", "--table", table).out.splitlines() == ours
        assert truth(name, "final", table).total() == len(ours) - 1
    assert 0 == run("verify", "--full", tmp_path / "logs").code
    assert "0 are held" in run("open-transactions", tmp_path / "logs" / "_temp" / name).err
    refused = go(1.0, "new", *state, "--ordering", "complete")
    assert (4, True) == (refused.code, "--before from-state needs the state before each transaction" in refused.err)
    assert not (tmp_path / "new").exists()


def test_a_snapshot_that_nobody_counts_is_refused(run: Run, recorded: Path, tmp_path: Path) -> None:
    """Exit 2, with the two ways out."""
    line = [word for word in words(recorded, tmp_path) if word not in ("--notifications", "clean_full.notes")]
    said = run(*line)

    assert (2, True) == (said.code, "took no snapshot (snapshot.mode=no_data), --snapshot none" in said.err)
    assert [] == list(tmp_path.iterdir())


# -- two processes


@pytest.mark.xdist_group("jobs")
def test_two_processes_one_killed_and_started_again(
    run: Run, recorded: Path, captured: Path, tmp_path: Path, ended: list[subprocess.Popen[str]]
) -> None:
    """Killed between the statement of TEMP and those of the tables, while the other writes the same."""
    def started(crash: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "CDCV2_CRASH": crash, "CDCV2_CRASH_HOW": "kill"}
        line = map(str, words(recorded, tmp_path, "--bind-at-most", 150, "--max-records", 200))
        return subprocess.Popen(
            [sys.executable, "-m", "cdcv2", *line], env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    ended += [started("release.temp-stated:5"), started("")]
    said = [process.communicate(timeout=120) for process in ended]
    assert ([-9, 0], "") == ([process.returncode for process in ended], said[1][1])
    ended.append(started(""))
    again = ended[-1].communicate(timeout=120)

    assert (0, "") == (ended[-1].returncode, again[1])
    assert 0 == run("verify", "--full", tmp_path / "logs").code
    assert 0 == run("verify", "--full", tmp_path / "logs" / "_temp" / "clean_full").code
    for table in TABLES:
        ours, theirs = (run("as-of", logs, "--table", table).out for logs in (tmp_path / "logs", captured / "logs"))
        assert theirs == ours
