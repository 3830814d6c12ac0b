"""What connectors in use do beyond what the example does: each is the example, changed in one way."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import RefusedError, TurnError, UnavailableError, UsageError
from cdcv2.materialize import (
    Checkpoint, Driver, FileRecoveryLog, MemoryRecoveryLog, RecoveryLog, Runtime, Sum, ThreadConnection, ViewBinding,
)
from cdcv2.materialize.protocol.messages import Acknowledge, Acknowledged, Open
from cdcv2.materialize.targets.process.driver import ProcessDriver
from cdcv2.materialize.targets.process.spec import token
from cdcv2.materialize.targets.process.values import packed
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests.materialize.targets.test_process_conforms import EXAMPLE, PYTHON, STAGING

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "process"
TEXT = EXAMPLE.read_text("utf-8")
ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "k", "type": "string"}, {"name": "v", "type": "long"}]})  # fmt: skip
HISTORY = [
    [(("k", 1), 1), (("l", 1), 1)], [(("k", 1), -1)], [(("k", 2), 1)], [(("k", 2), -1), (("k", 3), 1)],
]  # fmt: skip
TRUTH = [("k", 3), ("l", 1)]

MADE = '    say("applied", actionDescription="the tables are there")'
MAKES = '        for binding in said["materialization"]["bindings"]:\n            Table(binding).make(database)'
VALIDATES = '            say("validated"'
LISTED = '"projectionConstraints": [{"field": one, "constraint": CONSTRAINT} for one in fields],'
MAPPED = '"constraints": {one: needed if one == "flow_document" else taken for one in fields},'
DELETES = '        if store.get("delete"):\n'


def connector(folder: Path, *changes: tuple[str, str]) -> Path:
    """The example, changed."""
    text = TEXT
    for old, new in changes:
        assert 1 == text.count(old), f"the example has changed: {old!r} is {text.count(old)} times in it"
        text = text.replace(old, new)
    path = folder / "connector.py"
    path.write_text(text, "utf-8")
    return path


def cuts(checkpoint: Checkpoint) -> Iterator[Cut]:
    """The history, a transaction each."""
    for time, updates in enumerate(HISTORY):
        told = [(ROWS.row(row), time, diff) for row, diff in updates]
        yield Cut({"t": told}, Antichain([time]), Antichain([time + 1]))


def materialize(
    folder: Path, program: Path, log: RecoveryLog, *, target: str = "t", deletes: str = "hard", threaded: bool = False,
    name: str = "shop", **settings: Any,
) -> None:  # fmt: skip
    """The history into the connector, each cut a transaction."""
    config = {"path": "view.db", "durable": False, **settings.pop("config", {})}
    driver: Driver = ProcessDriver([*PYTHON, str(program)], config, folder=folder, **settings)
    binding = ViewBinding("t", ROWS, target, ("k",), deletes=deletes)
    Runtime(name, [binding], ThreadConnection(driver) if threaded else driver, cuts, log=log, rows=1).run()


def kept(folder: Path, query: str = "SELECT k, v FROM t ORDER BY 1") -> list[Any]:
    """What is in the connector's database."""
    with closing(sqlite3.connect(folder / "view.db")) as database:
        return database.execute(query).fetchall()


@pytest.fixture
def log() -> RecoveryLog:
    """An empty one."""
    return MemoryRecoveryLog("shop")


def test_constraints_as_a_list(tmp_path: Path, log: RecoveryLog) -> None:
    """In place of the map, as since June 2026."""
    listed = LISTED.replace("CONSTRAINT", 'needed if one == "flow_document" else taken')
    materialize(tmp_path, connector(tmp_path, (MAPPED, listed)), log)

    assert TRUTH == kept(tmp_path)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_constraints_the_one_that_refuses_counts(tmp_path: Path, log: RecoveryLog, order: int) -> None:
    """Whichever comes first."""
    two = "[{'field': one, 'constraint': it} for one in fields"
    two += f" for it in (taken, {{'type': 'INCOMPATIBLE', 'reason': 'it is a date'}})[::{order}]],"
    program = connector(tmp_path, (MAPPED, f'"projectionConstraints": {two}'))
    with pytest.raises(UsageError, match="t: the connector does not take the column 'k': it is a date"):
        materialize(tmp_path, program, log)


@pytest.mark.parametrize("said", ["5", "[5]", "[{'field': 'k', 'constraint': 5}]"])
def test_constraints_that_are_none(tmp_path: Path, log: RecoveryLog, said: str) -> None:
    """At the connector's fault."""
    with pytest.raises(TurnError, match="projectionConstraints of t that are no list of objects"):
        materialize(tmp_path, connector(tmp_path, (MAPPED, f'"projectionConstraints": {said},')), log)


KNOWN = '''            for one in said["bindings"] if not said.get("lastMaterialization") else []:
                if __import__("os").path.exists("view.db"):
                    sys.exit("table already exists for new binding: you must drop this table to continue")
'''


def test_what_is_agreed_is_durable_before_anything_is_made(tmp_path: Path) -> None:
    """A connector that dies having made its tables finds them again, and learns that they are its own."""
    def program(end: str) -> Path:
        return connector(tmp_path, (VALIDATES, KNOWN + VALIDATES), (MADE, end + MADE))

    first = FileRecoveryLog("shop", tmp_path / "recovery")
    with pytest.raises(UnavailableError, match="it printed: no power"):
        materialize(tmp_path, program('    sys.exit("no power")\n'), first)
    assert [] == kept(tmp_path)
    materialize(tmp_path, program(""), FileRecoveryLog("shop", tmp_path / "recovery"))

    assert TRUTH == kept(tmp_path)


def test_what_was_agreed_and_never_opened_may_become_another(tmp_path: Path, log: RecoveryLog) -> None:
    """Nothing is in it yet: the user who has written the wrong thing into the file mends it."""
    with pytest.raises(UnavailableError, match="no power"):
        materialize(tmp_path, connector(tmp_path, (MADE, '    sys.exit("no power")\n' + MADE)), log, deletes="soft")
    (tmp_path / "view.db").unlink()
    materialize(tmp_path, connector(tmp_path), log)

    assert TRUTH == kept(tmp_path)


AGAIN = '''    rounds = (said.get("state") or {}).get("rounds", 0)
    with open("heard", "a") as heard:
        heard.write(f"{rounds} ")
    say("applied", **({"state": {"updated": {"rounds": rounds + 1}, "mergePatch": MERGE}} if rounds < 2 else {}))'''


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("threaded", [True, False])
def test_apply_comes_again_while_it_is_answered_with_a_state(tmp_path: Path, merge: bool, threaded: bool) -> None:
    """Each state is durable before Apply comes again: one that dies then does not begin from the first."""
    rounds = (MAKES, MAKES.replace('["bindings"]:', '["bindings"] if said["state"].get("rounds") == 2 else []:'))
    again = AGAIN.replace("MERGE", str(merge))
    dies = again + '\n    if rounds == 1 and not __import__("os").path.exists("died"):\n'
    dies += '        open("died", "w").close()\n        sys.exit("no power")'
    program = connector(tmp_path, rounds, (MADE, dies))
    first = FileRecoveryLog("shop", tmp_path / "recovery")
    with pytest.raises(UnavailableError, match="no power"):
        materialize(tmp_path, program, first, threaded=threaded)
    materialize(tmp_path, program, FileRecoveryLog("shop", tmp_path / "recovery"), threaded=threaded)

    assert TRUTH == kept(tmp_path)
    # It may die with its answer out or not; what it was asked before is not asked again.
    assert (tmp_path / "heard").read_text("utf-8") in ("0 1 2 ", "0 1 1 2 ")


def test_apply_does_not_come_for_ever(tmp_path: Path, log: RecoveryLog) -> None:
    """One that never has done is at fault."""
    with pytest.raises(TurnError, match="sent Applied with a state 100 times, and never one without"):
        materialize(tmp_path, connector(tmp_path, (MADE, '    say("applied", state={"updated": {"a": 1}})')), log)


FORBIDDEN = '{"type": "FIELD_FORBIDDEN", "reason": "only the full document"}'
WHOLE = (
    (MAPPED, f'"constraints": {{one: taken if one in ("k", "flow_document") else {FORBIDDEN} for one in fields}},'),
    ('*(name(one) for one in selected["values"])', '*(sys.exit("there are values") for _ in selected["values"])'),
)


def test_a_connector_of_whole_documents(tmp_path: Path, log: RecoveryLog) -> None:
    """It takes keys and documents, and forbids every other field."""
    materialize(tmp_path, connector(tmp_path, *WHOLE), log)
    documents = [json.loads(text) for (text,) in kept(tmp_path, "SELECT flow_document FROM t ORDER BY k")]

    assert TRUTH == [(one["k"], one["v"]) for one in documents]
    assert [("k",), ("flow_document",)] == kept(tmp_path, "SELECT name FROM pragma_table_info('t')")


@pytest.mark.parametrize("field", ["k", "flow_document"])
def test_whole_documents_without_a_key_or_the_document(tmp_path: Path, log: RecoveryLog, field: str) -> None:
    """Would be nothing at all."""
    forbids = (MAPPED, WHOLE[0][1].replace(f'"{field}"', '"-"'))
    with pytest.raises(UsageError, match=f"the column '{'k' if field == 'k' else 'v'}': only the full document"):
        materialize(tmp_path, connector(tmp_path, forbids), log)


#: The connector answers when it may, or when its parent has ended.
WAITS = (
    "import os, time\n            parent = os.getppid()\n"
    "            while not os.path.exists('go') and os.getppid() == parent:\n"
    "                time.sleep(0.01)\n            "
)


def test_acknowledged_has_a_patience_of_its_own(
    tmp_path: Path, log: RecoveryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """By default it may take any time, as with one that applies on a schedule; other answers may not."""
    caplog.set_level(logging.INFO)
    late = ('            say("acknowledged")', "            " + WAITS + 'say("acknowledged")')
    program = connector(tmp_path, late)

    class Heard(logging.Handler):
        """Once it is reported that the answer is waited for, it may come."""

        def emit(self, record: logging.LogRecord) -> None:
            """The connector looks for this file."""
            if "is waited for" in record.getMessage():
                (tmp_path / "go").touch()

    with pytest.raises(UnavailableError, match=r"has answered nothing for 0.01 seconds \(patience\)"):
        materialize(tmp_path, program, log, acknowledge_patience=0.01)
    driver = ProcessDriver([*PYTHON, str(program)], {"path": "view.db"}, folder=tmp_path)
    driver.open(Open("shop", (ViewBinding("t", ROWS, "t", ("k",)).view().table,)))
    driver._connector._patience = 0.01
    heard = Heard()
    logging.getLogger("cdcv2").addHandler(heard)
    try:
        assert isinstance(driver.acknowledge(Acknowledge()), Acknowledged)
    finally:
        logging.getLogger("cdcv2").removeHandler(heard)
        driver.close()
    assert "has answered nothing for 0.01 seconds, and is waited for" in caplog.text
    with pytest.raises(UsageError, match="acknowledge_patience=0: it takes seconds"):
        ProcessDriver([*PYTHON, str(program)], acknowledge_patience=0)


NAMED = VALIDATES.replace("say", '''for one in said["bindings"]:
                template = one["collection"]["partitionTemplate"]["name"]
                if len(template) < 4 or " " in one["collection"]["name"] + said["name"]:
                    sys.exit("not a valid token " + template)
            say''')


@pytest.mark.parametrize(("name", "target"), [("shop", "odd names"), ("a", "t"), ("my shop", "p\u00e4r x" * 200)])
def test_names_are_made_into_tokens(tmp_path: Path, name: str, target: str) -> None:
    """What is seen in the store is the name itself."""
    program = connector(tmp_path, (VALIDATES, NAMED))
    for _ in range(2):
        materialize(tmp_path, program, log := MemoryRecoveryLog(name), target=target, name=name)

    assert TRUTH == kept(tmp_path, f'SELECT k, v FROM "{target}" ORDER BY 1')
    assert target in log._text.encode().decode("unicode_escape")


def test_tokens() -> None:
    """Different for different names, of 4 to 512 characters; a name that is one stays as it is."""
    assert ["shop/public.orders", "a/b"] == [token("shop/public.orders", 4), token("a/b")]
    names = ["a/b", "a b", "a_b", "a\tb", "x" * 513, "x" * 514, "/\u00e9 "]
    tokens = [token(one, 4) for one in names]
    assert len(set(tokens)) == len(names)
    assert all(4 <= len(one) <= 512 and " " not in one and "\t" not in one for one in tokens)
    assert 512 == len(token("x" * 513))


def test_a_recovery_log_of_before_goes_on(tmp_path: Path) -> None:
    """Its views, under the names that the connector knows them by, which are no tokens."""
    shutil.copytree(GOLDEN, tmp_path / "view")
    config = {"folder": str(tmp_path / "view"), "record": str(tmp_path / "heard")}
    bindings = [
        ViewBinding("t", ROWS, "odd names", ("k",)),
        ViewBinding("t", ROWS, "sums", ("k",), {"total": Sum("v")}, "soft"),
    ]

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        assert Antichain([3]) == checkpoint.frontier
        yield Cut({"t": [(ROWS.row(("c", 3)), 3, -1)]}, Antichain([3]), Antichain([4]))

    driver, log = ProcessDriver([*PYTHON, str(STAGING)], config), tmp_path / "view" / "recovery"
    Runtime("my shop", bindings, driver, source, log=FileRecoveryLog("my shop", log), rows=1).run()
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text("utf-8").splitlines()]
    tables = json.loads((tmp_path / "view" / "view.json").read_text("utf-8"))["tables"]

    assert "my shop/odd names" == heard[1]["validate"]["bindings"][0]["collection"]["name"]
    assert "my shop" == heard[1]["validate"]["name"] == heard[1]["validate"]["lastMaterialization"]["name"]
    assert ['["a"]', '["b"]'] == sorted(tables["odd names"])
    assert {"k": "c", "total": 0, "cdcv2_count": 0, "cdcv2_deleted": True, "_meta": {"op": "u"}} == (
        tables["sums"]['["c"]']
    )


IGNORED = (DELETES, DELETES.replace('store.get("delete")', "False"))
DROPPED = (DELETES, DELETES + "            return\n")


@pytest.mark.parametrize("how", [IGNORED, DROPPED], ids=["the document is stored", "nothing happens"])
def test_a_deletion_that_is_not_done_is_an_error(tmp_path: Path, log: RecoveryLog, how: tuple[str, str]) -> None:
    """With `hard`, nothing that was deleted may be loaded."""
    with pytest.raises(RefusedError, match=r"t: the connector has \('k',\) still, which was deleted, and deletes is"):
        materialize(tmp_path, connector(tmp_path, how), log)


def test_a_deletion_of_an_earlier_run_that_was_not_done(tmp_path: Path, log: RecoveryLog) -> None:
    """Its document shows it: no state is needed."""
    program = connector(tmp_path, IGNORED)
    del HISTORY[2:]
    try:
        materialize(tmp_path, program, log)
    finally:
        HISTORY[2:] = [[(("k", 2), 1)], [(("k", 2), -1), (("k", 3), 1)]]
    with pytest.raises(RefusedError, match="set deletes to soft; then materialize again"):
        materialize(tmp_path, program, log)


def test_soft_deletes_need_no_connector_that_deletes(tmp_path: Path, log: RecoveryLog) -> None:
    """The row stays, and is marked until it comes back."""
    materialize(tmp_path, connector(tmp_path, IGNORED), log, deletes="soft")

    assert [("k", 3, 0), ("l", 1, 0)] == kept(tmp_path, "SELECT k, v, cdcv2_deleted FROM t ORDER BY 1")


CONNECTS = '    database = sqlite3.connect(config["path"]'
OPTION = (
    ('settings = {"path"', 'settings = {"hardDelete": {"type": "boolean"}, "path"'),
    (DELETES, DELETES.replace('store.get("delete")', 'store["delete"] and __import__("os").path.exists("hard")')),
    (CONNECTS, f'    if config.get("hardDelete"):\n        open("hard", "w").close()\n{CONNECTS}'),
)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_hard_sets_the_connectors_own_option(tmp_path: Path, log: RecoveryLog, deletes: str) -> None:
    """Where its config has one; one that contradicts it is refused before anything is made."""
    program = connector(tmp_path, *OPTION)
    if deletes == "hard":
        with pytest.raises(UsageError, match="t: deletes is 'hard', and the config has hardDelete: false"):
            materialize(tmp_path, program, log, config={"hardDelete": False})
    assert not (tmp_path / "view.db").exists()
    materialize(tmp_path, program, log, deletes=deletes)

    assert TRUTH == kept(tmp_path)
    assert (deletes == "hard") == (tmp_path / "hard").exists()


def test_documents_say_what_has_happened(tmp_path: Path, log: RecoveryLog) -> None:
    """c, u and d, as captures do."""
    noted = "        open('heard', 'a').write(store['doc']['_meta']['op'] + store['doc']['k'] + ' ')\n"
    materialize(tmp_path, connector(tmp_path, (DELETES, noted + DELETES)), log)

    assert "ck cl dk ck uk " == (tmp_path / "heard").read_text("utf-8")


BINDING = {
    "resourceConfig": {"table": "s"}, "resourcePath": ["s"],
    "collection": {"name": "a/s", "key": ["/id"], "projections": []},
    "fieldSelection": {"keys": ["id"], "document": "flow_document"},
}  # fmt: skip
MATERIALIZATION = {"name": "a/m", "connectorType": "IMAGE", "config": {"path": "view.db"}, "bindings": [BINDING]}
ROW_KEY = [7, "\u0000x", None, True, False, -300, 1.5, -0.25, {"a": [1]}, 2**63 - 1, 0]


@pytest.mark.parametrize("key", [{"key": [json.dumps(ROW_KEY)]}, {"keyPacked": packed([json.dumps(ROW_KEY)])}])
def test_the_example_under_one_that_leaves_defaults_out(tmp_path: Path, key: dict[str, Any]) -> None:
    """As protobuf's JSON does: no binding 0, nothing empty, nothing false; and keys in packed form alone."""
    document = {"id": json.dumps(ROW_KEY), "x": 1}
    said = {"materialization": MATERIALIZATION, "version": "1"}
    lines: list[dict[str, Any]] = [
        {"apply": said}, {"open": {**said, "range": {"keyEnd": 2**32 - 1}}}, {"acknowledge": {}},
        {"load": key}, {"flush": {}}, {"store": {**key, "doc": document}}, {"startCommit": {}}, {"acknowledge": {}},
        {"load": key}, {"flush": {}}, {"store": {**key, "exists": True, "delete": True}}, {"startCommit": {}},
        {"acknowledge": {}}, {"load": key}, {"flush": {}},
    ]  # fmt: skip
    done = subprocess.run(
        [*PYTHON, str(EXAMPLE)], input="".join(json.dumps(one) + "\n" for one in lines), cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]

    assert (0, "") == (done.returncode, done.stderr)
    assert [{"loaded": {"binding": 0, "doc": document}}] == [one for one in answers if "loaded" in one]
    assert 3 == sum("flushed" in one for one in answers)


def test_answers_may_leave_defaults_out(tmp_path: Path, log: RecoveryLog) -> None:
    """No binding 0, nothing empty, nothing false."""
    says = "    print(json.dumps({kind: said}), flush=True)"
    less = "    said = {one: it for one, it in said.items() if it not in (0, '', [])}\n"
    materialize(tmp_path, connector(tmp_path, (says, less + says)), log)

    assert TRUTH == kept(tmp_path)


def test_the_example_unpacks_what_is_packed() -> None:
    """Every kind of value that a packed tuple has."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(TEXT, "example", "exec"), names)  # a program, not a module of a package
    values = [*ROW_KEY, "", 2**53 + 1, -1, -(2**63), -256, 255, 256, 5e-324, "\u0000\u0000", [1, "\u0000"]]

    assert values == names["unpacked"](packed(values))
    assert [] == names["unpacked"]("")
