"""The file of a pipeline is read whole, with small defaults, and what is wrong in it is named with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cdcv2.control.materialization_file import check_view, read_plan
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_servers import servers_of
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import HISTORY, PRICES, Run, captured, run, write  # noqa: F401 - fixtures

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

SHOP = """
pipeline: shop
state: kept
kafka: {bootstrap: "localhost:9092", config: kafka.properties}
rows: types
sources:
  db:
    postgres: {conninfo: "host=db password=${SHOP_PASSWORD}"}
    prefix: shop
    notifications: shop.notifications
    connector: {url: "http://localhost:8083", owned: no}
    slot: {name: shop_2}
captures:
  all:
    tables: [public.orders, public.items]
    before: from-state
    empty: [public.items, public.orders]
views:
  copy:
    bindings:
      - {log: public.orders, target: orders, key: [id]}
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""
SMALLEST = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {}}
captures: {shop: {}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text, "utf-8")
    return path


def read(folder: Path, text: str) -> Pipeline:
    return read_pipeline(str(written(folder, text)))


def test_a_capture_may_have_few_rows_in_memory(tmp_path: Path) -> None:
    """As the command."""
    shop = read(tmp_path, SHOP.replace("before: from-state", "memory-rows: 5000"))

    assert 5000 == shop.captures["all"].arguments.memory_rows


def test_a_capture_has_the_arguments_of_the_command(tmp_path: Path) -> None:
    """By their long names; what the pipeline knows is filled in, and paths are from the file's folder."""
    shop = read(tmp_path, SHOP)
    capture = shop.captures["all"]
    found = capture.arguments

    assert (tmp_path / "kept", tmp_path / "types", ("localhost:9092", tmp_path / "kafka.properties")) == (
        shop.state, shop.rows, shop.kafka)
    assert (["kafka"], "localhost:9092", str(tmp_path / "kafka.properties")) == (
        found.source, found.bootstrap, found.kafka_config)
    assert (["shop"], ["shop.notifications"], str(tmp_path / "types"), str(tmp_path / "logs")) == (
        found.prefix, found.notifications, found.rows, str(found.into))
    assert ("public.orders,public.items", "from-state", "public.items,public.orders", "initial") == (
        found.tables, found.before, found.empty, found.snapshot)
    assert (True, False) == (capture.following(True).follow, found.follow)


def test_the_smallest_file_is_small(tmp_path: Path) -> None:
    """What has one answer is not asked for."""
    shop = read(tmp_path, SMALLEST)
    source = shop.sources["shop"]

    assert (tmp_path / "shop.state", tmp_path / "rows") == (shop.state, shop.rows)
    assert ("shop", None, None, None) == (source.prefix, source.notifications, source.connector, source.conninfo())
    assert (False, False) == (source.slot.owned, source.publication.owned)
    assert source is shop.captures["shop"].source
    assert str(tmp_path / "logs") == str(shop.captures["shop"].arguments.into)


def test_slot_and_publication_are_owned_as_their_connector_is(tmp_path: Path) -> None:
    """Unless the file states it for one of them."""
    own = SMALLEST.replace("{shop: {}}", '{shop: {connector: {url: "http://c", config: c.json, owned: yes}}}', 1)
    other = own.replace("owned: yes}", "owned: yes}, slot: {owned: no}")
    first, second = (read(tmp_path, text).sources["shop"] for text in (own, other))

    assert (True, True, True) == (first.connector.owned if first.connector else None, first.slot.owned,
                                  first.publication.owned)
    assert (False, True) == (second.slot.owned, second.publication.owned)


def test_a_secret_is_asked_for_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a view is kept where the source's password is not known; and it is in no text of the pipeline."""
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    source = read(tmp_path, SHOP).sources["db"]
    with pytest.raises(UsageError, match="line 8: the environment has no SHOP_PASSWORD"):
        source.conninfo()
    monkeypatch.setenv("SHOP_PASSWORD", "hush")

    assert "host=db password=hush" == source.conninfo()
    assert "hush" not in repr(source)


@pytest.mark.parametrize("written", ["host=db password=${SHOP_PASSWORD}", "host=db password='${SHOP_PASSWORD}'",
                                     "${SHOP_CONNINFO}"])
def test_a_password_with_a_backslash_is_that_password(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken as it is, with quotes around it or without; a whole connection string in a variable is its own."""
    monkeypatch.setenv("SHOP_PASSWORD", r"a\b 'c")
    monkeypatch.setenv("SHOP_CONNINFO", r"host=db password='a\\b \'c'")
    found = read(tmp_path, SHOP.replace("host=db password=${SHOP_PASSWORD}", written)).sources["db"].conninfo()
    psycopg = pytest.importorskip("psycopg")

    assert psycopg.conninfo.conninfo_to_dict(found) == {"host": "db", "password": r"a\b 'c"}


@pytest.mark.parametrize(("written", "user"), [
    ("host=db user=${NONE} password=${PW}", None), ("host=db user = ${NONE}${NONE} password=${PW}", None),
    ("host=db user=${NONE}x password=${PW}", "x"), ("host=db user=x${NONE} password=${PW}", "x"),
    ("host=db user='${NONE}' password=${PW}", None), ("host=db password=${PW} user=${NONE}", None),
    ("host=db user='a=${NONE} b' password=${PW}", "a= b"), ("host=db user=${NONE}${PW} password=${PW}", "hush"),
])
def test_an_empty_variable_takes_nothing_of_the_next_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, user: str | None
) -> None:
    """The password would be taken for the user, whose name errors show."""
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("NONE", "")
    monkeypatch.setenv("PW", "hush")
    text = SHOP.replace('"host=db password=${SHOP_PASSWORD}"', f'"{written}"')
    found = psycopg.conninfo.conninfo_to_dict(read(tmp_path, text).sources["db"].conninfo())

    assert ("hush", user) == (found["password"], found.get("user") or None)


#: What is replaced in the file, by what, the line that the error names, and some of its words.
WRONG = [
    ("pipeline: shop", "pipeline: my shop", 2, "'my shop' is no name: write letters, digits, - and _"),
    ("state: kept", "sate: kept", 3, "'sate' is not known here; known are"),
    ("state: kept", "state: kafka:x", 3, "state: a path is wanted here"),
    ("pipeline: shop", 'pipeline: "a\\0b"', 2, "pipeline: this has a NUL character, or half a character of UTF-16"),
    ("state: kept", 'state: "a\\0b"', 3, "state: no path can have what is in 'a\\x00b': write another one"),
    ("state: kept", 'state: "a\\ud800"', 3, "state: no path can have what is in 'a\\ud800'"),
    ("state: kept", "state: file:///a%00b", 3, "state: no path can have what is in"),
    ("state: kept", "state: http://a/b", 3, "state: http://a/b: http: is not supported"),
    ("state: kept", f"state: {'a' * 300}", 3, "is no path here: File name too long"),
    ("rows: types", "rows: ''", 5, "rows: a path is wanted here"),
    ("config: kafka.properties", 'config: "a\\0b"', 4, "config: no path can have what is in 'a\\x00b'"),
    ('{bootstrap: "localhost:9092", config: kafka.properties}', "{brokers: a}", 4, "'brokers' is not known here"),
    ('kafka: {bootstrap: "localhost:9092", config: kafka.properties}\n', "", 14, "the file names none: write kafka:"),
    ("    prefix: shop", "    prefix: ''", 9, "the name is empty: write one"),
    ("    prefix: shop", "    prefixes: shop", 9, "'prefixes' is not known here"),
    ("http://localhost:8083", "localhost:8083", 11, "'localhost:8083' is no address of Kafka Connect"),
    ('{url: "http://localhost:8083"', "{login: a.netrc", 11, "a login is for the url of Connect, which is missing"),
    ("owned: no", "owned: nope", 11, "'nope' is none of yes, no"),
    ("owned: no", "owned: yes", 11, "needs url: that of Connect, and config: a JSON file"),
    ("name: shop_2", "name: Shop-2", 12, "'Shop-2' is no name here"),
    ("name: shop_2}", "name: shop_2}\n    publication: {name: Shop}", 13, "'Shop' is no name here: up to 63 of a-z"),
    ("name: shop_2}", "name: shop_2}\n    publication: {name: my.pub}", 13, "'my.pub' is no name here: up to 63"),
    ("    tables:", "    source: dbb\n    tables:", 15, "there is no source 'dbb'; there are db"),
    ("before: from-state", "before: from-stat", 16, "invalid choice: 'from-stat'"),
    ("before: from-state", "befor: from-state", 16, "'befor' is not known here"),
    ("before: from-state", "bootstrap: b:1", 16, "'bootstrap' is not known here"),
    ("before: from-state", "bind-every: 3", 16, "--bind-every goes with --remap"),
    ("before: from-state", "memory-rows: 0", 16, "argument --memory-rows: 0 is not above 0"),
    ("before: from-state", "before: from-state\n    memory-rows: 9", 16, "--memory-rows does not go with --before"),
    ("before: from-state", "on: spark", 16, "'on' is not known here"),
    ("before: from-state", "begin-at-first: maybe", 16, "'maybe' is none of yes, no"),
    ("before: from-state", "into: logs\n  other:\n    into: ./logs", 18, "the captures all (line 16) and other write"),
    ("  copy:", "  all:", 20, "two parts are called 'all', of captures and of views"),
    ("    bindings:", "    capture: alll\n    bindings:", 20, "there is no capture 'alll'; there are all"),
    ("    bindings:", "    capture: all\n    logs: logs\n    bindings:", 20, "'capture' and 'logs' both name logs"),
    ("    target: {driver: lake, folder: lake}\n", "", 20, "'target' is missing"),
    ("    bindings:", "    materialization: x\n    bindings:", 20, "'materialization' is not known here"),
    ("  copy:\n", "  copy: x\n  other:\n", 19, "names with values are wanted here, and there is a text"),
    ("captures:", "captured:", 14, "'captured' is not known here"),
    ("localhost:9092", "localhost:port", 4, "'localhost:port' is no address of a broker of Kafka"),
    ("localhost:9092", "one:9092,two:99999", 4, "'two:99999' is no address of a broker of Kafka"),
    ("localhost:8083", "localhost:port", 11, "'http://localhost:port' is no address of Kafka Connect"),
    ("localhost:8083", "[::1", 11, "'http://[::1' is no address of Kafka Connect"),
    ("before: from-state", "into: 'kafka:cdc.{table}'", 16, "without --remap the logs are in one directory"),
    ("before: from-state", "into: 'kafka:cdc'\n    remap: timeline", 16, "the topics of several tables need names"),
    ("pipeline: shop", f"pipeline: {'s' * 101}", 2, "write letters, digits, - and _, up to 100 of them"),
    ("rows: types", "rows: types\n---\na: b", 6, "no YAML: expected a single document in the stream, but found"),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), WRONG, ids=[one[3][:30] for one in WRONG])
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    """As it is read, before anything is started or made."""
    assert old in SHOP
    with pytest.raises(UsageError) as caught:
        read(tmp_path, SHOP.replace(old, new, 1))

    assert f"pipeline.yaml, line {line}: " in str(caught.value) and text in str(caught.value), str(caught.value)


@pytest.mark.parametrize(("old", "new"), [
    ("http://localhost:8083", "http://cdc:hush@localhost:8083"), ("http://localhost:8083", "http://a/?key=hush"),
    ("http://localhost:8083", "hush@localhost:8083"), ("postgres: {", "postgres: {hush: a, "),
])
def test_what_may_be_a_secret_is_not_shown(tmp_path: Path, old: str, new: str) -> None:
    """It stands where none belongs; a name is shown."""
    with pytest.raises(UsageError) as caught:
        read(tmp_path, SHOP.replace(old, new, 1))

    assert "line " in str(caught.value) and ("hush" in str(caught.value)) == ("hush: a" in new), str(caught.value)


@pytest.mark.parametrize("part", ["  all:\n", "  copy:\n"])
def test_what_is_known_is_named_once_and_as_the_file_has_it(tmp_path: Path, part: str) -> None:
    """No option's short form, and no name twice."""
    with pytest.raises(UsageError, match="known are (.*)") as caught:
        read(tmp_path, SHOP.replace(part, f"{part}    zzz: 1\n", 1))
    known = str(caught.value).partition("known are ")[2].split(", ")

    assert len(set(known)) == len(known) and not any(one.startswith("-") for one in known), known


#: The same for what only the row types show.
WRONG_VIEW = [
    ("log: public.orders", "log: public.order", 21, "no capture writes the log 'public.order'; there"),
    ("key: [id]", "key: [ident]", 21, "there is no column 'ident'"),
    ("target: orders, ", "target: '', ", 21, "the name of the target is empty"),
    ("driver: lake", "driver: duck", 22, "'duck' is none of postgres"),
    ("    recovery_log: recovery\n", "", 22, "the driver 'lake' needs a recovery_log"),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), WRONG_VIEW, ids=[one[3][:30] for one in WRONG_VIEW])
def test_a_view_is_judged_before_there_are_logs(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    """By the row types of the tables that its capture will write."""
    assert old in SHOP
    view = read(tmp_path, SHOP.replace(old, new, 1)).view("copy")
    with pytest.raises(UsageError) as caught:
        check_view(view, {"public.orders": PRICES})

    assert f"pipeline.yaml, line {line}: " in str(caught.value) and text in str(caught.value), str(caught.value)
    check_view(read(tmp_path, SHOP).view(None), {"public.orders": PRICES})


OF_LOGS = """
pipeline: shop
views:
  now:
    logs: {prices: prices}
    bindings: [{log: prices, target: now, key: id}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
  all:
    logs: {prices: prices}
    bindings: [{log: prices, target: every}]
    target: {driver: lake, folder: lake-2}
    recovery_log: recovery-2
"""


def test_a_command_takes_a_view_of_a_pipeline(run: Run, tmp_path: Path) -> None:  # noqa: F811
    """`materialize`, `compare` and `orphans`; the target knows it by the name that it has in the file."""
    write(tmp_path / "prices", *HISTORY)
    path = written(tmp_path, OF_LOGS)
    kept = run("materialize", path, "--view", "now")
    compared = [run("compare", path, "--view", name) for name in ("now", "all")]
    which = run("materialize", path)
    wrong = run("orphans", path, "--view", "noww")

    assert (0, True) == (kept.code, kept.out.startswith("now: complete through 9")), kept
    assert [0, 2] == [one.code for one in compared] and "lake-2" in compared[1].err
    assert (2, True) == (which.code, "which view? the pipeline shop has now, all: name one with --view" in which.err)
    assert (2, True) == (wrong.code, "there is no view 'noww'" in wrong.err)


def test_a_plain_file_has_no_views(run: Run, tmp_path: Path) -> None:  # noqa: F811
    """A word that would be ignored is an error; and a log has none either."""
    path = tmp_path / "m.yaml"
    path.write_text("materialization: m\nlogs: {}\nbindings: []\ntarget: {}\n", "utf-8")

    assert "--view x: " in run("materialize", path, "--view", "x").err
    assert "--view is of a pipeline" in run("compare", tmp_path, "--source", "env", "--view", "x").err


def test_a_view_reads_topics_with_the_row_types_of_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics do not know them, and the file names their folder and their broker once."""
    from cdcv2.control.materialization_logs import FileLogs

    opened = []

    def kafka_log(reader: FileLogs, topic: str, row_type: RowType) -> object:
        opened.append((topic, row_type, reader._bootstrap))
        raise UsageError("no broker in this test")

    monkeypatch.setattr(FileLogs, "_kafka_log", kafka_log)
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "public.orders.avsc").write_text(json.dumps(PRICES.schema), "utf-8")
    text = SHOP.replace("    before: from-state", "    into: kafka:cdc.{table}\n    remap: timeline")
    with pytest.raises(UsageError, match="no broker in this test"):
        read_plan(str(written(tmp_path, text)))

    assert [("cdc.public.orders", "localhost:9092")] == [(topic, bootstrap) for topic, _, bootstrap in opened]
    assert str(tmp_path / "timeline") == str(read(tmp_path, text).captures["all"].arguments.remap)
    assert os.path.isabs(str(read(tmp_path, SHOP).captures["all"].arguments.into))


def test_two_captures_of_one_folder_are_refused_also_by_a_link(tmp_path: Path) -> None:
    """Each would write over the other's files."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "logs")
    second = SHOP.replace("before: from-state", "into: logs\n  other:\n    into: linked")

    with pytest.raises(UsageError, match=r"the captures all \(line 16\) and other write the same logs"):
        read(tmp_path, second)


@pytest.mark.parametrize(("old", "new", "text"), [
    ("config: kafka.properties", "config: away", "line 4: the Kafka settings in {}/away cannot be read: No such file"),
    ("owned: no}", "owned: yes,\n      config: away}", "line 12: {}/away cannot be read: No such file"),
    ("owned: no}", "owned: no,\n      login: away}", "line 12: the login for Kafka Connect in {}/away cannot be"),
])  # fmt: skip
def test_a_file_that_a_setting_names_and_is_not_there_is_an_error_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, text: str
) -> None:
    """It is read when servers are asked, and not with the pipeline's file; what mends it is named."""
    monkeypatch.setenv("SHOP_PASSWORD", "hush")
    (tmp_path / "kafka.properties").write_text("", "utf-8")
    pipeline = read(tmp_path, SHOP.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        servers_of(pipeline)

    assert text.format(tmp_path) in str(caught.value)
    assert str(caught.value).endswith("mend the path, or put the file there")


def test_one_connect_has_one_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources with the same address and another login: it is not known which is meant."""
    monkeypatch.setenv("SHOP_PASSWORD", "hush")
    for name in ("kafka.properties", "a.netrc"):
        (tmp_path / name).write_text("default login alice password hush\n" * (name == "a.netrc"), "utf-8")
    plain = '{connector: {url: "http://localhost:8083", login: a.netrc}}'
    text = SHOP.replace("owned: no", "owned: no, login: a.netrc").replace("captures:", f"  two: {plain}\ncaptures:", 1)
    text = text.replace("    tables:", "    source: db\n    tables:", 1)
    both = servers_of(read(tmp_path, text))
    assert {"http://localhost:8083": tmp_path / "a.netrc"} == both.connects

    with pytest.raises(UsageError, match="line 13: another source has another login for http://localhost:8083"):
        servers_of(read(tmp_path, text.replace(", login: a.netrc", "", 1)))
