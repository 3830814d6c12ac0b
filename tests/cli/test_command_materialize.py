"""`cdcv2 materialize` keeps what a YAML file defines, and names the line of what it cannot understand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.cli import coverage, materialize
from cdcv2.cli.materialize import _Source
from cdcv2.control.materialization_file import DRIVERS, read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError, RefusedError
from cdcv2.events import JobEvents
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.stops import HEADER, Stop
from cdcv2.materialize import Checkpoint
from cdcv2.materialize.protocol.messages import Acknowledge, Acknowledged
from cdcv2.materialize.subscriber import Subscriber
from cdcv2.materialize.targets.delta.driver import open_delta
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.children import CDCV2, started
from tests.cli.conftest import APPLE, HISTORY, PEAR, PRICES, Run, price, write
from tests.materialize.targets.test_webhook import Receiver
from tests.logs.polling import until

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

LAKE = """
materialization: prices
logs:
  prices: prices
bindings:
  - log: prices
    target: now
    key: id
  - {log: prices, target: "all"}
  - log: prices
    target: names
    key: [name]
    reduce: {n: count, total: {sum: price}, low: {min: price}, last: {last: price}}
    deletes: soft
target: {driver: lake, folder: lake}
recovery_log: recovery
rows: 1
"""


def written(folder: Path, text: str) -> Path:
    """The text as a file."""
    path = folder / "prices.yaml"
    path.write_text(text, "utf-8")
    return path


def test_a_log_that_turns_out_to_be_in_no_order_is_refused_before_the_first_commit(run: Run, tmp_path: Path) -> None:
    """While it was empty it could not know: asked again at the first cut."""
    write(tmp_path / "prices", *HISTORY)
    reading = _Source(read_plan(str(written(tmp_path, LAKE))), follow=False, stopping=lambda: 0, events=JobEvents("it"))
    DirectoryLog(tmp_path / "prices", description=LogDescription("complete"))
    with pytest.raises(RefusedError, match="a view of prices needs the state before each transaction"):
        next(reading.cuts(Checkpoint(Antichain([0]))))


def test_a_lake_has_what_the_log_has(run: Run, tmp_path: Path) -> None:
    """Three views of one log; run again, it finds nothing to do, and then what was added."""
    messages = [*HISTORY[:2], Updates([(APPLE, 6, -1), (price(2, None, ""), 6, -1), (price(1, 12, "apple"), 6, 1)]),
                *HISTORY[3:]]  # fmt: skip
    once = [Updates([(APPLE, 3, 1), (price(2, None, ""), 3, 1)]), *messages[1:]]
    write(tmp_path / "prices", *once)
    path = written(tmp_path, LAKE)
    first, again = run("materialize", path), run("materialize", path, "--json")
    view = open_lake(tmp_path / "lake")

    assert (0, "prices: complete through 9; 3 transactions, 6 updates read\n") == (first.code, first.out), first.err
    assert {"frontier": [10], "transactions": 0, "updates": 0}.items() <= json.loads(again.out).items()
    assert {(1,): (12, "apple"), (3,): (7, 'pl"um, ripe')} == dict(view.rows("now"))
    assert [1, 1] == [values[-1] for values in dict(view.rows("all")).values()]
    names = dict(view.rows("names"))
    assert {("apple",), ("",), ('pl"um, ripe',)} == set(names)
    assert (1, 12, 12, 12, False) == (*names["apple",][:3], names["apple",][4], names["apple",][-1])
    assert (None, True) == (names["",][4], names["",][-1])

    write(tmp_path / "more", Updates([(price(4, 1, "nut"), 10, 1)]), Progress([10], [], {10: 1}))
    path.write_text(LAKE.replace("prices: prices\n", "prices: [prices, more]\n"), "utf-8")
    more = run("materialize", path)

    assert (0, True) == (more.code, "the history is finished; 1 transactions, 1 updates read" in more.out)
    assert (4,) in dict(open_lake(tmp_path / "lake").rows("now"))
    finished = run("materialize", path)

    assert (0, True) == (finished.code, "the history is finished; 0 transactions, 0 updates read" in finished.out)


def test_types_of_the_source_come_from_a_folder_of_row_schemas(run: Run, tmp_path: Path) -> None:
    """For a log whose own schema lacks them; of the same rows, and for one of the logs at least."""
    write(tmp_path / "prices", *HISTORY)
    text = LAKE.replace("rows: 1\n", "types: rows\n")
    schema = RowType.load(PRICES).schema
    for field in schema["fields"]:
        if field["name"] == "price":
            field["cdcv2.source"] = {"type": "date"}
    (tmp_path / "rows").mkdir()

    assert "has the row schema of no log: prices.avsc" in run("materialize", written(tmp_path, text)).err

    (tmp_path / "rows" / "prices.avsc").write_text('{"type": "record", "name": "t", "fields": '
                                                   '[{"name": "id", "type": "int"}]}', "utf-8")
    assert "prices.avsc is of other rows than" in run("materialize", written(tmp_path, text)).err

    (tmp_path / "rows" / "prices.avsc").write_text(json.dumps(schema), "utf-8")
    assert 0 == run("materialize", written(tmp_path, text)).code
    assert "date32[day]" == str(open_lake(tmp_path / "lake").read("now").schema.field("price").type)
    assert 0 == run("compare", tmp_path / "prices.yaml").code


def test_a_file_uri_is_a_path(run: Run, tmp_path: Path) -> None:
    """Of the folder that it names, not one of that name beside the file."""
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    text = LAKE.replace("folder: lake", f"folder: {(tmp_path / 'other').as_uri()}")
    said = run("materialize", written(tmp_path, text))

    assert 0 == said.code, said.err
    assert {"other", "prices", "prices.yaml", "recovery"} == {path.name for path in tmp_path.iterdir()}


def test_a_start_behind_what_the_log_begins_with_is_refused(run: Run, tmp_path: Path) -> None:
    """It would leave that out, and nothing would show it; corrected, the same file begins where the log does."""
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([3], [5], {3: 1}))
    late = run("materialize", written(tmp_path, LAKE + "start: 4\n"))

    assert (4, True) == (late.code, "1 update at time 3" in late.err and "to begin at [4]" in late.err), late.err
    assert [] == list(open_lake(tmp_path / "lake").rows("now"))
    begun = run("materialize", written(tmp_path, LAKE + "start: 3\n"))
    assert (0, True) == (begun.code, "complete through 4; 1 transactions, 1 updates read" in begun.out), begun.err
    assert {(1,): (10, "apple")} == dict(open_lake(tmp_path / "lake").rows("now"))
    assert 0 == run("compare", tmp_path / "prices.yaml").code


@pytest.mark.parametrize("target", ["lake", "delta"])
@pytest.mark.parametrize("recovery", ["recovery", "recovery.sqlite"])
def test_a_start_that_was_taken_out_again_leaves_nothing_out(
    run: Run, tmp_path: Path, target: str, recovery: str
) -> None:
    """What the refused start came to is no checkpoint: nothing was committed there."""
    log = [Updates([(APPLE, 3, 1), (PEAR, 6, 1)]), Progress([0], [8], {3: 1, 6: 1})]
    text = LAKE.replace("driver: lake", f"driver: {target}").replace("log: recovery", f"log: {recovery}")
    write(tmp_path / "prices", *log)
    assert 4 == run("materialize", written(tmp_path, text + "start: 5\n")).code
    said = run("materialize", written(tmp_path, text))

    assert (0, True) == (said.code, "complete through 7; 1 transactions, 2 updates read" in said.out), said
    assert 0 == run("compare", tmp_path / "prices.yaml").code


def test_a_log_that_ends_early_is_1_and_what_is_complete_is_there(run: Run, tmp_path: Path) -> None:
    """With what lacks."""
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}), Progress([5], [8], {6: 3}))
    said = run("materialize", written(tmp_path, LAKE))

    assert (1, "prices: complete through 5; 2 transactions, 1 updates read\n") == (said.code, said.out)
    assert "prices is incomplete" in said.err
    assert {(1,): (10, "apple")} == dict(open_lake(tmp_path / "lake").rows("now"))


TWO = LAKE.replace("  prices: prices\n", "  prices: prices\n  fast: fast\n").replace(
    'log: prices, target: "all"', 'log: fast, target: "all"'
)


def test_no_log_is_read_further_than_the_slowest_needs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is ahead would be held in memory; and behind the end of the slowest, nothing is asked for."""
    slow: list[Any] = []
    for time in range(40):
        slow += [Updates([(price(time), time, 1)]), Progress([time], [time + 1], {time: 1})]
    fast: list[Any] = []
    for time in range(0, 100, 10):
        fast += [Updates([(price(time), time, 1)]), Progress([time], [time + 10], {time: 1})]
    write(tmp_path / "prices", *slow)
    write(tmp_path / "fast", *fast, Progress([100], [200], {150: 7}))
    read: dict[str, int] = {"prices": 0, "fast": 0}
    entries = DirectoryLog.read

    def counted(log: DirectoryLog, *args: Any, **options: Any) -> Any:
        for entry in entries(log, *args, **options):
            read[Path(log.name).name] += 1
            yield entry

    monkeypatch.setattr(DirectoryLog, "read", counted)
    path = written(tmp_path, TWO)
    reading = _Source(read_plan(str(path)), follow=False, stopping=lambda: 0, events=JobEvents("it"))
    for fed in reading.cuts(Checkpoint(Antichain([0]))):
        assert fed is not None
        upper = fed[0].upper.elements[0]
        assert read["fast"] <= 2 * (upper // 10 + 1), (upper, read)

    assert {"prices": 80, "fast": 10} == read
    assert {} == reading.incomplete()
    said = run("materialize", path)
    assert (0, True) == (said.code, "complete through 39;" in said.out), said.err


WRONG = [
    ("materialization: prices", "materialisation: prices", 2, "'materialisation' is not known here; known are materia"),
    ("rows: 1\n", "rows: many\n", 17, "a whole number from 1 on is wanted here, and there is 'many'"),
    ("materialization: prices", "materialization: null", 2,
     "a text is wanted here, and there is null, which is nothing in YAML: write a text, or 'null' in quotes"),
    ("materialization: prices", "materialization: NULL", 2, "and there is NULL, which is nothing in YAML"),
    ("materialization: prices", "materialization:", 2, "and there is nothing: write it behind the colon"),
    ("materialization: prices", "materialization: ''", 2, "the name is empty: write one"),
    ("materialization: prices", "materialization: [a]", 2, "a text is wanted here, and there is a list"),
    ("key: id", "key: [id, id]", 8, "now: the key names the column 'id' twice: name it once"),
    ("key: id", "key:\n      - id\n      - id", 10, "now: the key names the column 'id' twice: name it once"),
    ("key: id", "key: [id, ~]", 8, "and there is ~, which is nothing in YAML"),
    ("key: id", "key: ident", 6, "there is no column 'ident'"),
    ("  prices: prices", "  prices: nowhere", 4, "nowhere"),
    ("  prices: prices", "  praises: prices", 6, "there is no log 'prices'; there are praises"),
    ("  prices: prices", "  prices: prices\n  more: prices", 5, "no binding keeps the log 'more'"),
    ("  prices: prices", "  prices: prices\n  prices: prices", 5, "'prices' is there twice"),
    ("  prices: prices", "  prices: {kafka: t, row: no.avsc}", 4, "no.avsc"),
    ("  prices: prices", "  prices:", 4, "a text is wanted here, and there is nothing"),
    ("  prices: prices", "  prices: []", 4, "the log 'prices' is an empty list"),
    ("folder: lake", "folder: ''", 15, "folder: a path is wanted here, and there is none"),
    ("folder: lake", "folder: 's3://bucket/lake'", 15, "s3: is not supported"),
    ("recovery_log: recovery", "recovery_log: gs://bucket/x", 16, "gs: is not supported"),
    ("folder: lake", "folder: prices", 15, "prices holds the logs that are read"),
    ("driver: lake, folder: lake", "driver: delta, folder: ./prices", 15, "./prices holds the logs that are read"),
    ("recovery_log: recovery", "recovery_log: prices/", 16, "prices/ holds the logs that are read"),
    ("key: id", "key: [id", 9, "no YAML"),
    ("deletes: soft", "deletes: gently", 14, "'gently' is none of hard, soft"),
    ("n: count", "n: number", 13, "'number' is none of count"),
    ("{sum: price}", "{sum: price, min: price}", 13, "one of count, sum, min, max, last is wanted"),
    ("{sum: price}", "{sum: name}", 10, "the sum of 'name' cannot be kept"),
    ("{last: price}", "{sum: price, retractions: false}", 13, "only min, max, last"),
    ("driver: lake, ", "", 15, "'driver' is missing: one of postgres, lake, delta, kafka, webhook"),
    ("driver: lake", "driver: duck", 15, "'duck' is none of postgres"),
    (", folder: lake", "", 15, "'folder' is missing"),
    ("folder: lake", 'folder: "${NOT_EXPORTED}"', 15, "the environment has no NOT_EXPORTED; export it"),
    ("folder: lake", "folder: 'x ${NOT-A-NAME}'", 15, "'${' begins ${NAME} of the environment"),
    ("folder: lake", "folder: '${HOME:-lake}'", 15, "'${' begins ${NAME} of the environment"),
    ("folder: lake", "folder: '${HOME'", 15, "'${' begins ${NAME} of the environment"),
    ("{driver: lake, folder: lake}", "{driver: process, command: x, config: &me {a: [*me]}}", 15, "is part of itself"),
    ("rows: 1\n", f"rows: {'[' * 101}{']' * 101}\n", 17, "nested more than 100 deep"),
    ("recovery_log: recovery\n", "", 15, "the driver 'lake' needs a recovery_log"),
    ("{driver: lake, folder: lake}", "{driver: postgres}", 16, "leave recovery_log out"),
    ("{driver: lake, folder: lake}", "{driver: webhook, url: 'ftp://x'}", 15, "is no address of a webhook"),
    ("{driver: lake, folder: lake}", "{driver: webhook, url: nope}", 15, "'nope' is no address of a webhook"),
    ('target: "all"', 'target: ""', 9, "the name of the target is empty"),
    ("{driver: lake, folder: lake}", "{driver: kafka}", 15, "Kafka needs bootstrap"),
    ("{driver: lake, folder: lake}", "{driver: delta, folder: lake, files: 3}", 15, "'files' is not known here"),
    ("{driver: lake, folder: lake}\nrecovery_log: recovery", "{driver: postgres, conninfo: password=my hush}", 15,
     "the connection string of PostgreSQL cannot be read (it is not shown"),
    ('target: "all"', 'target: "all", delta: true', 9, "all: a lake keeps views, not changes"),
    ('target: "all"', "target: .all", 9, "'.all' cannot be the name of a table of a lake"),
    ("{driver: lake, folder: lake}", "{driver: webhook, url: 'http://x'}", 6, "now: a view cannot be looked up"),
    ('target: "all"', "target: now", 6, "two bindings have the target 'now'"),
    ('target: "all"', "target: all, delta: yes", 9, "true or false is wanted here, and there is 'yes'"),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), WRONG, ids=[one[3][:30] for one in WRONG])
def test_what_is_wrong_in_the_file_is_said_with_its_line(
    run: Run, tmp_path: Path, old: str, new: str, line: int, text: str
) -> None:
    """Exit code 2, one line, and nothing is written."""
    write(tmp_path / "prices", *HISTORY)
    assert old in LAKE
    said = run("materialize", written(tmp_path, LAKE.replace(old, new, 1)))

    assert (2, "", 1) == (said.code, said.out, said.err.count("\n")), said.err
    assert f"prices.yaml, line {line}: " in said.err and text in said.err, said.err
    assert "hush" not in said.err
    assert not (tmp_path / "lake").exists()


def test_the_help_names_all_that_the_file_may_say(run: Run) -> None:
    """Every setting of every driver, of a binding and of the file."""
    shown = set(re.findall(r"\w+", run("materialize", "--help").out))
    settings = " ".join(" ".join(both) for both in DRIVERS.values()).split()
    others = "materialization logs bindings target kafka recovery_log rows start row log key reduce deletes delta"
    reductions = "sqlite count sum min max last retractions"

    assert set() == {*DRIVERS, *settings, *others.split(), *reductions.split()} - shown


def test_a_file_that_is_none_is_said(run: Run, tmp_path: Path) -> None:
    """Missing, empty, no text, a list; and a number that is none."""
    wrong = [(b"", "is empty"), (b"\xff", "no UTF-8"), (b"[" * 9999, "100 deep"), (b"- a\n", "names with values are")]
    for raw, text in wrong:
        (tmp_path / "f.yaml").write_bytes(raw)
        said = run("materialize", tmp_path / "f.yaml")
        assert (2, True) == (said.code, text in said.err), said.err
    assert "cannot be read" in run("materialize", tmp_path / "none.yaml").err
    assert 2 == run("materialize", tmp_path / "none.yaml", "--report-every", "-1").code


PUSHED = """
materialization: prices
logs: .
bindings: {log: prices, target: prices, delta: true}
target:
  driver: webhook
  url: "http://127.0.0.1:${PORT}/hook?secret=${TOKEN}"
  headers: {Authorization: "Bearer ${TOKEN}", X-Literal: "$${TOKEN}"}
recovery_log: {sqlite: recovery.db}
"""


def test_secrets_come_from_the_environment_and_go_nowhere_else(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the request, and into no error."""
    write(tmp_path / "prices", *HISTORY)
    path = written(tmp_path, PUSHED)
    with Receiver() as receiver:
        monkeypatch.setenv("PORT", str(receiver.server_port))
        monkeypatch.setenv("TOKEN", "hush-hush")
        receiver.answers += [(403, {})]
        refused, taken = run("materialize", path), run("materialize", path)
        receiver.shutdown()
    headers = receiver.asked[0][0]

    assert (4, True, False) == (refused.code, "403 Forbidden" in refused.err, "hush" in refused.err)
    assert ("Bearer hush-hush", "${TOKEN}") == (headers["Authorization"], headers["X-Literal"])
    assert 0 == taken.code, taken.err
    from cdcv2.control.materialization_file import read_plan

    subscriber = Subscriber(read_plan(str(path)).bindings)
    for message in receiver.messages():
        subscriber.take(message)

    assert [1, 1, 1] == [values[-1] for values in subscriber.view["prices"].values()]


def process(path: Path, *words: str, **environment: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """The command as a process of its own."""
    return started(*CDCV2, "materialize", str(path), *words, env={**os.environ, **environment})


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_following_ends_between_transactions_when_it_is_told_to(
    run: Run, tmp_path: Path, sent: int, code: int
) -> None:
    """And takes what comes until then; its last line is true."""
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    path, lake = written(tmp_path, LAKE), tmp_path / "lake"
    with process(path, "--follow", "--report-every", "0") as following:
        until(lambda: "complete through 4" in (following.stderr or sys.stdin).readline(), "the first is there")
        write(tmp_path / "prices", Updates([(price(5, 5, "fig"), 6, 1)]), Progress([5], [8], {6: 1}))
        until(lambda: (5,) in dict(open_lake(lake).rows("now")), "the second is there")
        following.send_signal(sent)
        out, err = following.communicate(timeout=300)

    assert (code, "prices: complete through 7; 2 transactions, 2 updates read\n") == (following.returncode, out), err
    assert "Traceback" not in err
    assert 0 == run("materialize", path).code


@pytest.mark.parametrize("place", ["directory", "topic"])
def test_a_stop_that_comes_while_it_follows_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Nothing comes after it: it goes on, and waits. In a topic it is a message, in a directory it lies beside."""
    log, later = DirectoryLog(write(tmp_path / "prices", *HISTORY[:1])), list[Entry]()
    entries = DirectoryLog.read

    def read(log: DirectoryLog, *args: Any, **options: Any) -> Iterator[Entry | None]:
        for entry in entries(log, *args, **options):
            yield later.pop() if entry is None and later else entry

    monkeypatch.setattr(DirectoryLog, "read", read)
    monkeypatch.setattr(coverage, "_LOOK", 0)
    plan = read_plan(str(written(tmp_path, LAKE)))
    reading = _Source(plan, follow=True, stopping=lambda: False, events=JobEvents("it"))
    cuts = reading.cuts(Checkpoint(Antichain([0])))
    assert None is next(cuts) and "" == capsys.readouterr().err
    stop = Stop("a row is lacking", "start over")
    if place == "directory":
        log.put_stop(stop)
    else:
        later.append(Entry(Position("t", 0, 7), Updates([]), ((HEADER, stop.to_bytes()),)))
    assert [None] * 3 == [next(cuts) for _ in range(3)]
    assert f"cdcv2 materialize: {stop.text}\n" == capsys.readouterr().err


def test_what_fails_while_it_is_told_to_stop_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports up to where the target is complete: so what was committed last must be in it."""
    messages: list[Any] = []
    for time in range(9):
        messages += [Updates([(price(time, time, "x"), time, 1)]), Progress([time], [time + 1], {time: 1})]
    write(tmp_path / "prices", *messages)
    path, applying, stopped = written(tmp_path, LAKE), threading.Event(), threading.Event()
    applied, asked = LakeDriver.acknowledge, list[int]()

    def told() -> bool:
        # Asked before each message; the fourth transaction is behind the eighth.
        asked.append(len(asked))
        if len(asked) < 9:
            return False
        assert applying.wait(60)
        stopped.set()
        return True

    def full(driver: LakeDriver, message: Acknowledge) -> Acknowledged:
        if driver._pending and open_lake(tmp_path / "lake").frontier == Antichain([3]):
            applying.set()
            assert stopped.wait(60)
            raise OutputError("the disk is full")
        return applied(driver, message)

    with monkeypatch.context() as patched:
        patched.setattr(LakeDriver, "acknowledge", full)
        patched.setattr(materialize, "stop_signals", lambda: nullcontext(told))
        failed = run("materialize", path)

    assert (4, "", True) == (failed.code, failed.out, "the disk is full" in failed.err), failed
    again = run("materialize", path)
    assert (0, True) == (again.code, "complete through 8; 5 transactions" in again.out), again


@pytest.mark.parametrize(("driver", "own", "look"), [
    ("lake", ["lake.staged:2", "lake.applied:3"], open_lake),
    ("delta", ["delta.staged:2", "delta.begun:2", "delta.table:5", "delta.applied:3"], open_delta),
])  # fmt: skip
def test_deaths_lose_nothing_and_repeat_nothing(
    run: Run, tmp_path: Path, driver: str, own: list[str], look: Callable[[Path], Any]
) -> None:
    """One life after the other ends at a step of a commit, two of them by SIGKILL; then one is let live."""
    pytest.importorskip("pyarrow" if driver == "lake" else "deltalake")
    messages: list[Any] = []
    for time in range(12):
        messages += [Updates([(price(time, time, "x"), time, 1)]), Progress([time], [time + 1], {time: 1})]
    write(tmp_path / "prices", *messages)
    path = written(tmp_path, LAKE.replace("driver: lake", f"driver: {driver}"))
    for step in (own[0], "materialize.before-commit:2", "materialize.after-commit:2", *own[1:]):
        if step in (own[0], "materialize.after-commit:2"):
            with process(path, CDCV2_CRASH=step, CDCV2_CRASH_HOW="kill") as killed:
                _, err = killed.communicate(timeout=300)
            assert -signal.SIGKILL == killed.returncode, err
            continue
        name, _, nth = step.partition(":")
        with failpoints.placed(name, int(nth)), pytest.raises(failpoints.PlacedCrash, match=name):
            run("materialize", path)
    said = run("materialize", path)
    view = look(tmp_path / "lake")

    assert 0 == said.code, said.err
    assert {(time,): (time, "x") for time in range(12)} == dict(view.rows("now"))
    assert (12, sum(range(12))) == dict(view.rows("names"))["x",][:2]
