"""`cdcv2 capture` makes logs of dumped topics, may be run again, and stops readably where it must."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.directory import DirectoryLog
from tests.cli.conftest import Run

RECORDED = Path(__file__).resolve().parents[1] / "data" / "debezium"


def words(captured: Path, into: Path, *more: object) -> list[object]:
    """A capture of one table, whose topic holds the last row of the snapshot."""
    one = () if "--tables" in more else ("--tables", "public.order_items")
    return ["capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows", *one,
            "--into", into, *more]  # fmt: skip


def files(folder: Path) -> list[str]:
    """The names of all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_says_how_far_the_logs_are_complete(run: Run, captured: Path, tmp_path: Path) -> None:
    """And what it waits for; as JSON, too."""
    said = run(*words(captured, tmp_path / "logs"))
    plain = json.loads(run(*words(captured, tmp_path / "again", "--json")).out)

    assert (0, True) == (said.code, said.out.startswith("complete through 102462312: 816 transactions"))
    assert "snapshot completeness assumed" in said.err
    assert ([102462313], 816, 0) == (plain["frontier"], plain["transactions"], plain["repeats"])


def test_running_it_again_adds_nothing(run: Run, captured: Path, tmp_path: Path) -> None:
    """With its memory, and with the memory lost."""
    into = tmp_path / "logs"
    run(*words(captured, into))
    before = files(into)
    again = run(*words(captured, into))
    (into / "_memory.json").unlink()
    without = run(*words(captured, into))

    assert (0, 0) == (again.code, without.code)
    assert before == files(into)
    assert 0 == run("verify", "--full", into).code


def test_with_few_rows_in_memory_the_logs_have_the_same(run: Run, captured: Path, tmp_path: Path) -> None:
    """Snapshot and transactions; one that runs again finds nothing to add."""
    run(*words(captured, tmp_path / "logs"))
    said = run(*words(captured, tmp_path / "spilled", "--memory-rows", "5"))
    before = files(tmp_path / "spilled")
    (tmp_path / "spilled" / "_memory.json").unlink()
    again = run(*words(captured, tmp_path / "spilled", "--memory-rows", "7"))
    memory, spilled = (
        sorted(run("replay", tmp_path / into, "--json").out.splitlines()) for into in ("logs", "spilled")
    )

    assert (0, 0) == (said.code, again.code) and before == files(tmp_path / "spilled")
    assert len(memory) > 400 and memory == spilled


def test_a_dump_of_kcat_is_captured_as_one_of_ours(run: Run, captured: Path, tmp_path: Path) -> None:
    """``kcat -C -J`` calls value and timestamp payload and ts: the same log results; without values, exit 3."""
    kcat, keys = tmp_path / "kcat.jsonl", tmp_path / "keys.jsonl"
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        text = dump.read()
    kcat.write_text(text.replace(', "value": ', ', "payload": ').replace('"timestamp": ', '"ts": '), "utf-8")
    keys.write_text(json.dumps({"topic": "clean_full.transaction", "partition": 0, "offset": 0, "key": None}), "utf-8")
    said = run("capture", kcat, *words(captured, tmp_path / "logs")[2:])
    refused = run("capture", keys, *words(captured, tmp_path / "none")[2:])
    logs, table = (tmp_path / "logs", captured / "logs"), "public.order_items"
    shown = [run("as-of", folder, "--table", table).out for folder in logs]

    assert (0, shown[1]) == (said.code, shown[0])
    assert (3, True) == (refused.code, "keys.jsonl, line 1: it has neither 'value' nor 'payload'" in refused.err)


def test_topics_that_have_grown_are_captured_on(run: Run, captured: Path, tmp_path: Path) -> None:
    """The first half, then all: the same logs as all at once."""
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    middle = sorted(record["timestamp"] for record in records)[len(records) // 2]
    half = tmp_path / "half.jsonl"
    half.write_text("".join(json.dumps(record) + "\n" for record in records if record["timestamp"] < middle), "utf-8")
    into, table = tmp_path / "logs", "public.order_items"
    first = run("capture", half, *words(captured, into)[2:])
    through = json.loads(run("verify", "--json", into).out)["frontier"]
    second = run(*words(captured, into))

    assert (True, 0) == (first.code in (0, 1), second.code)
    assert 101779848 < through[0] < 102462313
    grown, whole = (run("as-of", folder, "--table", table).out for folder in (into, captured / "logs"))
    assert whole == grown


def test_a_dump_that_ends_inside_a_transaction_is_incomplete(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 1 and what is lacking; the logs are complete up to there."""
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    rows = [record for record in records if record["topic"].endswith("order_items")]
    lacking = tmp_path / "lacking.jsonl"
    lacking.write_text("".join(json.dumps(record) + "\n" for record in records if record != rows[-1]), "utf-8")
    said = run("capture", lacking, *words(captured, tmp_path / "logs")[2:])

    assert 1 == said.code
    assert "rows of public.order_items" in said.err
    assert 0 == run("verify", tmp_path / "logs").code


def test_a_dump_that_lacks_the_end_of_a_transaction_is_incomplete(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 1 and which: one END, or all of them, as the topic of the transactions is missing."""
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    items = [record for record in records if record["topic"] == "clean_full.public.order_items"]
    body = json.loads(items[-1]["value"])
    last = body.get("payload", body)["source"]["txId"]
    ends = [record for record in records if record["topic"] == "clean_full.transaction"]
    (place,) = [number for number, record in enumerate(ends) if _is_end_of(record, last)]
    said = []
    for kept in (ends[:place], []):
        lacking = tmp_path / f"{len(kept)}.jsonl"
        lacking.write_text("".join(json.dumps(record) + "\n" for record in [*items, *kept]), "utf-8")
        said.append(run("capture", lacking, *words(captured, tmp_path / f"{len(kept)}.logs")[2:]))

    assert [1, 1] == [one.code for one in said]
    assert f"transaction {last}: rows are in, and no END yet" in said[0].err
    assert "rows are in, and no END yet" in said[1].err
    assert said[0].out.startswith("complete through 10")


def _is_end_of(record: dict[str, str], tx: int) -> bool:
    body = json.loads(record["value"])
    body = body.get("payload", body)
    return (body["status"], body["id"].partition(":")[0]) == ("END", str(tx))


def test_tables_that_the_dump_does_not_have_are_named_with_those_that_it_has(
    run: Run, captured: Path, tmp_path: Path
) -> None:
    """Exit 2, by commit times and on a remap; nothing is made."""
    (tmp_path / "rows").mkdir()
    shutil.copy(captured / "rows" / "public.orders.avsc", tmp_path / "rows" / "shop.sales.avsc")
    given = ["capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", tmp_path / "rows",
             "--into", tmp_path / "logs"]  # fmt: skip
    for said in (run(*given), run(*given, "--remap", tmp_path / "remap", "--snapshot", "none")):
        assert 2 == said.code
        assert "the row types are of shop.sales, and the topics of the prefix clean_full are of public." in said.err
    assert {"rows"} == {path.name for path in tmp_path.iterdir()}


def test_a_subset_without_notifications_says_where_the_last_row_is(run: Run, captured: Path, tmp_path: Path) -> None:
    """The row marked last is in the topic of another table: exit 1, and what to name."""
    given = [word if word != "public.order_items" else "public.orders" for word in words(captured, tmp_path / "logs")]
    said = run(*given)

    assert (1, True) == (said.code, "in the topic of another table, unless all of its tables are captured" in said.err)
    assert "(--notifications)" in said.err


def test_a_prefix_that_no_topic_of_the_dump_has_is_said(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 2, with what there is; nothing is made."""
    said = run("capture", captured / "topics.jsonl.gz", "--prefix", "clean", "--rows", captured / "rows",
               "--into", tmp_path / "logs")  # fmt: skip

    assert (2, True) == (said.code, "none of the connector's topics clean.*: is the prefix right?" in said.err)
    assert "clean_full.message" in said.err and not (tmp_path / "logs").exists()


def test_a_dump_whose_beginning_is_gone_is_refused(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 4, with what is missing; a topic that is not captured may begin anywhere."""
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    table = "clean_full.public.order_items"
    said = []
    for name in (table, "clean_full.public.orders"):
        trimmed = tmp_path / f"{name}.jsonl"
        kept = [record for record in records if record["topic"] != name or record["offset"] > 2]
        trimmed.write_text("".join(json.dumps(record) + "\n" for record in kept), "utf-8")
        said.append(run("capture", trimmed, *words(captured, tmp_path / f"{name}.logs")[2:]))

    # What was refused before it began binds nothing: other tables go into the same folder.
    again = run("capture", tmp_path / f"{table}.jsonl", "--prefix", "clean_full", "--rows", captured / "rows",
                "--tables", "public.orders", "--into", tmp_path / f"{table}.logs")  # fmt: skip

    assert ([4, 0], False) == ([one.code for one in said], "another capture" in again.err)
    assert f"{table}.jsonl the topic '{table}' begins at 3 in partition 0, and 0 is wanted" in said[0].err


def test_a_truncate_stops_it_with_reason_and_remedy(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 4; what was committed before is in the logs, whole."""
    into = tmp_path / "logs"
    said = run("capture", RECORDED / "clean_full" / "topics.jsonl.gz", "--prefix", "clean_full", "--rows",
               captured / "rows", "--into", into)  # fmt: skip
    verified = run("verify", "--full", into)

    assert 4 == said.code
    assert "was truncated in transaction" in said.err and "Delete rows instead" in said.err
    assert 1 == len([line for line in said.err.splitlines() if "truncated" in line])
    assert (0, True) == (verified.code, verified.out.splitlines()[-1].startswith("complete through 1024"))


def test_identity_default_is_captured_with_old_rows_from_the_state(run: Run, captured: Path, tmp_path: Path) -> None:
    """Without that, exit 4 and the option to take; with it, in the same directory, all of it, TRUNCATE included."""
    words = ["capture", RECORDED / "clean_default" / "topics.jsonl.gz", "--prefix", "clean_default", "--rows",
             captured / "rows", "--into", tmp_path / "logs"]  # fmt: skip
    without = run(*words)
    said = run(*words, "--before", "from-state")
    again = run(*words, "--before", "from-state", "--json")
    verified = run("verify", "--full", tmp_path / "logs")
    rows = run("as-of", tmp_path / "logs", "--table", "public.orders")

    assert (4, True) == (without.code, "cdcv2 capture --before from-state" in without.err)
    assert (0, True) == (said.code, said.out.startswith("complete through 126822024"))
    assert (0, 0) == (again.code, json.loads(again.out)["transactions"])
    assert (0, True) == (verified.code, verified.out.splitlines()[-1].startswith("complete through 126822024"))
    assert (0, False) == (rows.code, "__debezium_unavailable_value" in rows.out)


def test_a_first_record_that_is_refused_leaves_nothing(run: Run, captured: Path, tmp_path: Path) -> None:
    """The dump was the wrong one: the right one goes into the same folder."""
    wrong = tmp_path / "wrong.jsonl"
    record = {"topic": "clean_full.public.order_items", "partition": 0, "offset": 0, "key": None, "value": '{"op": 1}'}
    wrong.write_text(json.dumps(record) + "\n", "utf-8")
    said = run("capture", wrong, *words(captured, tmp_path / "logs")[2:])

    assert (3, False) == (said.code, (tmp_path / "logs").exists())
    assert "not a record of the connector at clean_full.public.order_items[0]@0" in said.err


def test_another_capture_needs_another_directory(run: Run, captured: Path, tmp_path: Path) -> None:
    """Other tables in the same directory would be another timeline."""
    into = tmp_path / "logs"
    run(*words(captured, into))
    said = run("capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows",
               "--into", into)  # fmt: skip

    other = run(*words(captured, into, "--notifications", "clean_full.notifications"))
    none = run(*words(captured, into, "--snapshot", "none"))

    assert (4, True) == (said.code, "holds another capture, with --tables public.order_items, and not" in said.err)
    assert "without --notifications, and not with --notifications: give another --into" in other.err
    assert "with --snapshot initial, and not with --snapshot none: give another --into" in none.err
    assert ["public.order_items"] == [path.name for path in sorted(into.iterdir()) if path.is_dir()]


def test_the_memory_of_another_directory_is_refused(run: Run, captured: Path, tmp_path: Path) -> None:
    """What it skips is not in these logs; without it they are made whole."""
    one, other = tmp_path / "one", tmp_path / "other"
    run(*words(captured, one))
    with gzip.open(captured / "topics.jsonl.gz", "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    middle = sorted(record["timestamp"] for record in records)[len(records) // 2]
    half = tmp_path / "half.jsonl"
    half.write_text("".join(json.dumps(record) + "\n" for record in records if record["timestamp"] < middle), "utf-8")
    run("capture", half, *words(captured, other)[2:])
    (other / "_memory.json").write_bytes((one / "_memory.json").read_bytes())
    said = run(*words(captured, other))
    (other / "_memory.json").unlink()
    again = run(*words(captured, other))

    assert (4, True) == (said.code, f"{other / '_memory.json'} was made for other logs" in said.err)
    assert 0 == again.code
    table = "public.order_items"
    assert run("as-of", one, "--table", table).out == run("as-of", other, "--table", table).out


def test_a_log_that_is_gone_stays_gone_where_the_memory_knows_it(run: Run, captured: Path, tmp_path: Path) -> None:
    """Exit 4, and verify still reports it as missing; without the state it is written again, whole."""
    into, table = tmp_path / "logs", "public.order_items"
    both = words(captured, into, "--tables", f"{table},public.orders")
    run(*both)
    shutil.rmtree(into / table)
    said = run(*both)
    verified = run("verify", into)
    (into / "_memory.json").unlink()
    again = run(*both)

    assert (4, True) == (said.code, f"the memory {into / '_memory.json'} is of a log that is missing" in said.err)
    assert (1, True) == (verified.code, f"missing: the whole log {into / table}" in verified.out)
    assert (0, run("as-of", captured / "logs", "--table", table).out) == (
        again.code, run("as-of", into, "--table", table).out
    )


def test_nothing_is_complete_over_a_log_that_lacks_a_file(run: Run, captured: Path, tmp_path: Path) -> None:
    """What was read, by the state, stands in the log, or is lost: in a view of it, too."""
    into, table = tmp_path / "logs", "public.order_items"
    capture = words(captured, into, "--max-records", "100")
    assert 0 == run(*capture).code
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"materialization: m\nlogs: logs\nbindings: [{{log: {table}, target: t}}]\n"
        "recovery_log: recovery\ntarget: {driver: lake, folder: lake}\n", "utf-8",
    )
    assert 0 == run("materialize", plan).code
    (into / table / f"{1:020d}.avro").unlink()

    for said in (run(*capture), run("materialize", plan)):
        assert (4, True) == (said.code, f"has no file {1:020d}.avro" in said.err), said
        assert "complete through" not in said.out


@pytest.mark.parametrize(
    "raw", ["[]", "7", "null", "{", "[" * 200_000, '{"version": 1, "tables": "public.t"}', '{"version": 1, "id": 7}']
)
def test_a_directory_with_something_else_in_the_captures_place_is_refused(
    run: Run, captured: Path, tmp_path: Path, raw: str
) -> None:
    """Exit 4, its name, and what to do, in the words of those who read the logs: another --into would leave them."""
    (tmp_path / CAPTURE_FILE).write_text(raw, "utf-8")
    said = run(*words(captured, tmp_path))
    read = run("verify", tmp_path)

    assert (4, True) == (said.code, f"{tmp_path / CAPTURE_FILE} is not what a capture writes" in said.err)
    assert said.err.partition(": ")[2] == read.err.partition(": ")[2] and "restore it; or remove it, if" in said.err
    assert "--into" not in said.err


def test_what_is_no_dump_is_said(run: Run, captured: Path, tmp_path: Path) -> None:
    """A directory is its files, and one of them is damaged; so is a damaged file alone."""
    damaged = tmp_path / "topics.jsonl.gz"
    raw = (captured / "topics.jsonl.gz").read_bytes()
    damaged.write_bytes(raw[:5000] + b"\xff" * 50 + raw[5050:])
    more = words(captured, tmp_path / "logs")[2:]

    assert [3, 3] == [run("capture", dump, *more).code for dump in (tmp_path, damaged)]


def test_a_directory_of_dumps_is_its_files(run: Run, captured: Path, tmp_path: Path) -> None:
    """But for those with a name that a copy under way has; and beside other dumps."""
    (tmp_path / "dumps").mkdir()
    shutil.copy(captured / "topics.jsonl.gz", tmp_path / "dumps")
    (tmp_path / "dumps" / ".topics.jsonl.gz.crc").write_bytes(b"1")
    (tmp_path / "none.jsonl").touch()
    more = words(captured, tmp_path / "logs")[2:]
    said = run("capture", tmp_path / "dumps", tmp_path / "none.jsonl", *more)

    assert 0 == said.code, said.err
    assert run(*words(captured, tmp_path / "others")).out == said.out


def test_a_changed_row_type_needs_another_log(run: Run, captured: Path, tmp_path: Path) -> None:
    """The log describes what it holds."""
    into, rows = tmp_path / "logs", tmp_path / "rows"
    run(*words(captured, into))
    rows.mkdir()
    schema = json.loads((captured / "rows" / "public.order_items.avsc").read_text("utf-8"))
    schema["fields"].append({"name": "more", "type": ["null", "long"]})
    (rows / "public.order_items.avsc").write_text(json.dumps(schema), "utf-8")
    said = run(*[rows if word == captured / "rows" else word for word in words(captured, into)])

    assert (4, True) == (said.code, "rows of another type" in said.err)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"--rows": "/nowhere"}, "the row type of public.order_items is missing: /nowhere"),
        ({"--tables": "public.none"}, "the row type of public.none is missing"),
        ({"--full-identity": "public.none"}, "full_identity names public.none, which is not captured"),
        ({"--max-records": "0"}, "argument --max-records: 0 is not above 0"),
        ({"--memory-rows": "0"}, "argument --memory-rows: 0 is not above 0"),
        ({"--memory-rows": "2", "--before": "from-state"}, "--memory-rows does not go with --before from-state: all"),
        ({"--snapshot": "some"}, "invalid choice: 'some'"),
    ],
)
def test_wrong_usage_is_told(run: Run, captured: Path, tmp_path: Path, change: dict[str, str], what: str) -> None:
    """What is wrong, and nothing is written."""
    more = [word for pair in change.items() for word in pair]
    said = run(*words(captured, tmp_path / "logs", *more))

    assert (2, True, False) == (said.code, what in said.err, (tmp_path / "logs").exists())


def test_sources_do_not_mix(run: Run, captured: Path, tmp_path: Path) -> None:
    """A dump does not grow, and Kafka is one word."""
    dump = words(captured, tmp_path / "logs")
    follow, both, nowhere = (
        run(*dump, "--follow"), run("capture", "kafka", *dump[1:]), run("capture", "kafka", *dump[2:])
    )  # fmt: skip

    assert (2, True) == (follow.code, "a dump does not grow" in follow.err)
    assert (2, True) == (both.code, "not from both" in both.err)
    assert (2, True) == (nowhere.code, "Kafka needs --bootstrap" in nowhere.err)


@pytest.mark.parametrize("damage", ["not json", '{"topic": "t"}', "[1, 2]"])
def test_a_line_that_is_no_record_is_named(run: Run, captured: Path, tmp_path: Path, damage: str) -> None:
    """File and line, exit 3."""
    dump = tmp_path / "dump.jsonl"
    good = '{"topic": "t", "partition": 0, "offset": 0, "key": null, "value": null}'
    dump.write_text(f"{good}\n{damage}\n", "utf-8")
    said = run("capture", dump, *words(captured, tmp_path / "logs")[2:])

    assert (3, True) == (said.code, f"{dump}, line 2" in said.err)
    assert 2 == run("capture", tmp_path / "none.jsonl", *words(captured, tmp_path / "logs")[2:]).code


def test_verify_knows_what_the_capture_knew(run: Run, captured: Path, tmp_path: Path) -> None:
    """Without an initial snapshot there is nothing to assume."""
    run(*words(captured, tmp_path / "logs", "--snapshot", "none"))
    begun = json.loads((tmp_path / "logs" / CAPTURE_FILE).read_text("utf-8"))

    assert ("known", "none") == (begun["snapshot_completeness"], begun["snapshot"])
    assert "assumed" not in run("verify", tmp_path / "logs").out
    assert DirectoryLog(tmp_path / "logs" / "public.order_items").row_type.columns == ("order_id", "sku", "qty")
