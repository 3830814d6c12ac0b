"""`cdcv2 materialize` into a connector: the page's own file, what is wrong in such a file, and how it is let go."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cdcv2 import failpoints
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.children import CDCV2, started
from tests.cli.conftest import APPLE, HISTORY, Run, price, write
from tests.materialize.targets.test_process_conforms import EXAMPLE, STAGING
from tests.materialize.targets.test_process_frames import FIELDS
from tests.logs.polling import until

pytest.importorskip("yaml")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "third-party-connectors.md").read_text("utf-8")
PRICES = """
materialization: prices
logs: .
bindings:
  - {log: prices, target: now, key: id, deletes: hard}
  - {log: prices, target: names, key: [name], reduce: {n: count, low: {min: price}, last: {last: price}}, deletes: soft}
target:
  driver: process
  command: [PYTHON, CONNECTOR]
  config: {path: prices.db, durable: false}
recovery_log: recovery
rows: 1
"""


ONCE = [
    Updates([(APPLE, 3, 1), (price(2, None, ""), 3, 1)]), HISTORY[1],
    Updates([(APPLE, 6, -1), (price(2, None, ""), 6, -1), (price(1, 12, "apple"), 6, 1)]), *HISTORY[3:],
]  # fmt: skip


def written(folder: Path, old: str = "", new: str = "", *, connector: Path = EXAMPLE) -> Path:
    """The file, with something put in place of something."""
    path = folder / "prices.yaml"
    assert old in PRICES
    text = PRICES.replace(old, new, 1) if old else PRICES
    path.write_text(text.replace("PYTHON", sys.executable).replace("CONNECTOR", str(connector)), "utf-8")
    return path


def kept(path: Path, table: str) -> dict[int, tuple[object, ...]]:
    """What the example keeps in a table, without the documents."""
    with closing(sqlite3.connect(path)) as database:
        return {row[0]: row[1:-1] for row in database.execute(f'SELECT * FROM "{table}"')}


def test_the_example_keeps_what_the_log_has(run: Run, tmp_path: Path) -> None:
    """Rows and reductions; run again, it finds nothing to do."""
    write(tmp_path / "prices", *ONCE)
    path = written(tmp_path)
    first, again = run("materialize", path, "--json"), run("materialize", path, "--json")
    now = kept(tmp_path / "prices.db", "now")

    assert (0, 0) == (first.code, again.code), first.err + again.err
    assert json.loads(first.out)["transactions"] > 0 == json.loads(again.out)["transactions"]
    assert json.loads(first.out)["frontier"] == json.loads(again.out)["frontier"]
    lines = run("as-of", tmp_path / "prices").out.splitlines()[1:]
    assert len(lines) == len(now) > 0
    assert {int(line.split(",")[0]) for line in lines} == set(now)
    assert 2 == run("compare", path).code
    assert "what a connector keeps cannot be looked at" in run("compare", path).err


def test_the_file_of_the_page(run: Run, captured: Path, tmp_path: Path) -> None:
    """Works as it stands there, in a folder with the logs and the example."""
    shutil.copytree(captured / "logs", tmp_path / "logs")
    shutil.copytree(EXAMPLE.parent, tmp_path / "examples")
    text = next(text for text in re.findall("```yaml\n(.*?)```", PAGE, re.DOTALL) if "driver: process" in text)
    (tmp_path / "shop.yaml").write_text(text, "utf-8")
    said = run("materialize", tmp_path / "shop.yaml")

    assert 0 == said.code, said.err
    assert len(run("as-of", tmp_path / "logs", "--table", "public.orders").out.splitlines()) - 1 == len(
        kept(tmp_path / "shop.db", "orders")
    )


def test_the_messages_of_the_page_are_messages() -> None:
    """Each line is JSON, with the fields that are sent."""
    block = PAGE.split("```json\n{\"open\"")[1].split("```")[0]
    lines = [json.loads(line) for line in ('{"open"' + block).splitlines()]
    sent = [(kind, set(said)) for line in lines for kind, said in line.items() if kind in FIELDS]

    assert ["open", "acknowledge", "load", "flush", "store", "startCommit"] == [kind for kind, _ in sent]
    assert [FIELDS[kind] for kind, _ in sent] == [fields for _, fields in sent]


WRONG = [
    ("PYTHON, ", "no-such-program, ", 9, "there is no program 'no-such-program' in the PATH"),
    ("[PYTHON, CONNECTOR]", "./missing", 9, "there is no program './missing' in "),
    ("  command: [PYTHON, CONNECTOR]\n", "", 8, "'command' is missing"),
    ("[PYTHON, CONNECTOR]", "[]", 9, "the command is empty"),
    ("[PYTHON, CONNECTOR]", "{a: b}", 9, "a text is wanted here, and there is a mapping"),
    ("{path: prices.db, durable: false}", "prices.db", 10, "names with values are wanted here"),
    ("prices.db", "'${NOT_EXPORTED}'", 10, "the environment has no NOT_EXPORTED"),
    ("prices.db", "${HOME}", 10, 'no YAML: expected \',\' or \'}\', but got \'{\'; put "${NAME}" into quotes'),
    ("  config: ", "  patience: soon\n  config: ", 10, "a whole number from 1 on is wanted"),
    ("  config: ", "  image: none\n  config: ", 10, "'image' is not known here; known are driver, command, config"),
    (", deletes: hard", "", 5, "now: many connectors keep rows that are deleted, so the file has to state"),
    ("  config: ", "  acknowledge_patience: 0\n  config: ", 10, "a whole number from 1 on is wanted"),
    ("recovery_log: recovery\n", "", 8, "the driver 'process' needs a recovery_log"),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), WRONG, ids=[one[3][:30] for one in WRONG])
def test_what_is_wrong_in_the_file_is_said_with_its_line(
    run: Run, tmp_path: Path, old: str, new: str, line: int, text: str
) -> None:
    """And nothing is started or made."""
    write(tmp_path / "prices", *ONCE)
    said = run("materialize", written(tmp_path, old, new))

    assert (2, "", 1) == (said.code, said.out, said.err.count("\n")), said.err
    assert f"prices.yaml, line {line}: " in said.err and text in said.err, said.err
    assert ["prices", "prices.yaml"] == sorted(one.name for one in tmp_path.iterdir())


def test_settings_are_what_json_makes_of_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and truth values without quotes; text in quotes, from the environment, and where YAML would guess."""
    monkeypatch.setenv("SECRET", "17")
    write(tmp_path / "prices", *ONCE)
    config = """{folder: ., record: heard, a: 17, b: "17", c: "${SECRET}", e: no,
    f: [1.5, true, null, x y], g: {h: -3, i: 007, j: 1e9}}
  resource: {schema: s}"""
    path = written(tmp_path, "{path: prices.db, durable: false}", config, connector=STAGING)
    said = run("materialize", path)
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").splitlines()]

    assert 0 == said.code, said.err
    assert {
        "folder": ".", "record": "heard", "a": 17, "b": "17", "c": "17", "e": "no",
        "f": [1.5, True, None, "x y"], "g": {"h": -3, "i": "007", "j": "1e9"},
    } == heard[0]["spec"]["config"]  # fmt: skip
    resources = [one["resourceConfig"] for one in heard[1]["validate"]["bindings"]]
    assert [{"schema": "s", "table": "now"}, {"schema": "s", "table": "names"}] == resources


def test_a_connector_that_fails_is_said_with_its_words(run: Run, tmp_path: Path) -> None:
    """One line for the error, and what it wrote itself; it goes on from there the next time."""
    write(tmp_path / "prices", *ONCE)
    fault = 'fault: {at: startCommit, nth: 2, how: exit}'
    path = written(tmp_path, "path: prices.db, durable: false", f"folder: ., {fault}", connector=STAGING)
    failed = run("materialize", path)
    path.write_text(path.read_text("utf-8").replace(fault, "x: 1"), "utf-8")
    said = run("materialize", path)

    assert 0 not in (failed.code, len(failed.err)) and "it printed: the disk is full" in failed.err
    assert 0 == said.code, said.err


@pytest.mark.parametrize(("signals", "code"), [
    ([signal.SIGTERM], 0), ([signal.SIGKILL], -9), ([signal.SIGINT] * 2, 130),
])  # fmt: skip
def test_nothing_is_left_when_it_is_let_go(tmp_path: Path, signals: list[int], code: int) -> None:
    """After SIGTERM between transactions; when it was killed itself; after two Ctrl-C also when the connector hangs."""
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    hangs = ", fault: {at: flush, how: hang}" if code == 130 else ""
    path = written(tmp_path, "path: prices.db, durable: false", f"folder: ., record: heard{hangs}", connector=STAGING)
    heard = tmp_path / "heard"
    with started(*CDCV2, "materialize", str(path), "--follow", "--report-every", "0") as following:
        wanted = '{"flush"' if code == 130 else '{"startCommit"'
        until(lambda: heard.exists() and wanted in heard.read_text("utf-8"), "it is at work")
        [connector] = children(following.pid)
        for number in signals:
            following.send_signal(number)
            until(lambda: following.poll() is not None or caught_up(following.pid), "it has heard the signal")
        following.wait(60)

    assert code == following.returncode
    until(lambda: not Path(f"/proc/{connector}").exists(), "it is gone", seconds=60)


@pytest.mark.parametrize("connector", [EXAMPLE, STAGING], ids=["the store rules", "the recovery log rules"])
def test_deaths_lose_nothing_and_repeat_nothing(run: Run, tmp_path: Path, connector: Path) -> None:
    """At the steps of a commit, one after the other, twice by SIGKILL; then one lives. A sum shows what is repeated."""
    messages: list[Message] = []
    for time in range(12):
        messages += [Updates([(price(time, time, "x"), time, 1)]), Progress([time], [time + 1], {time: 1})]
    write(tmp_path / "prices", *messages)
    path = written(tmp_path, "durable: false", "folder: .", connector=connector)
    path.write_text(path.read_text("utf-8").replace("n: count", "n: count, total: {sum: price}"), "utf-8")
    for step, nth in (("after-prepare", 1), ("before-commit", 1), ("after-prepare", 3)):
        with failpoints.placed(f"materialize.{step}", nth), pytest.raises(failpoints.PlacedCrash, match=step):
            run("materialize", path)
    for step in ("before-commit:2", "after-commit:2"):
        environment = {**os.environ, "CDCV2_CRASH": f"materialize.{step}", "CDCV2_CRASH_HOW": "kill"}
        killed = subprocess.run([sys.executable, "-m", "cdcv2", "materialize", str(path)], env=environment,
                                capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        assert -signal.SIGKILL == killed.returncode, killed.stderr
    said = run("materialize", path)

    assert 0 == said.code, said.err
    if connector is EXAMPLE:
        with closing(sqlite3.connect(tmp_path / "prices.db")) as database:
            found = database.execute("SELECT flow_document FROM names").fetchall()
        documents = [json.loads(text) for (text,) in found]
    else:
        documents = list(json.loads((tmp_path / "view.json").read_text("utf-8"))["tables"]["names"].values())
    assert [("x", 12, sum(range(12)))] == [(one["name"], one["n"], one["total"]) for one in documents]


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    return [int(line.split()[0]) for line in found.stdout.splitlines() if line.split()[1] == str(parent)]


def caught_up(process: int) -> bool:
    """Whether no signal waits for it."""
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    return all(int(mask, 16) == 0 for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\S+)", status, re.MULTILINE))
