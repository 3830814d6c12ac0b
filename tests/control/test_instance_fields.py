"""``instances:`` of a pipeline's file: which processes hold which tables, and where they are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.cli.main import main, parser_of
from cdcv2.cli.markers import marker_of
from cdcv2.control.instance_jobs import make_places
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import FirstLogs, jobs_of
from cdcv2.control.pipeline_status import job_rows
from cdcv2.errors import UsageError

FILE = """
pipeline: shop
kafka: {bootstrap: "localhost:9092"}
sources: {shop: {}}
captures:
  shop: {tables: [public.orders, public.lines]}
  topics: {into: "kafka:copy.{table}", remap: timeline, tables: [public.orders]}
instances:
  rows:
    capture: shop
    index: {public.orders: [id], public.lines: [order_id, sku]}
    replicas: 2
    history: 30m
  away: {logs: {a: [there/a, there/b]}, index: {a: id}, place: away.sock}
  copied: {capture: topics, index: {public.orders: id}}
"""


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By a short path: one of a socket may have 107 bytes."""
    return tmp_path_factory.mktemp("f")


def pipeline_in(folder: Path, text: str = FILE) -> Pipeline:
    """The pipeline of a file in this folder."""
    (folder / "shop.yaml").write_text(text, "utf-8")
    return read_pipeline(str(folder / "shop.yaml"))


def test_an_instance_is_a_controller_and_its_replicas(tmp_path: Path) -> None:
    """Each is a job, whose command line its command reads, over the same logs."""
    pipeline = pipeline_in(tmp_path)
    argv = {plan.name: plan.argv[3:] for plan in jobs_of(pipeline)}
    sockets = tmp_path / "shop.state" / "instances"

    read = {}
    for name in ("rows", "rows-1", "rows-2", "away", "away-1", "copied", "copied-1"):
        read[name] = parser_of(argv[name][0]).parse_args(argv[name][1:])
    assert read["rows"].of == [str(sockets / "rows-1.sock"), str(sockets / "rows-2.sock")]
    assert (read["rows"].instance, read["rows"].history) == (str(sockets / "rows.sock"), 1800.0)
    assert read["rows"].index == ["public.orders=id", "public.lines=order_id,sku"]
    assert read["rows"].log == read["rows-1"].log == read["rows-2"].log
    assert [log.name for log in read["rows"].log] == [
        str(tmp_path / "logs" / table) for table in ("public.orders", "public.lines")
    ]
    assert read["rows-2"].replica and read["rows-2"].instance == str(sockets / "rows-2.sock")
    assert read["away"].instance == str(tmp_path / "away.sock") and read["away"].history == 3600.0
    assert [(log.table, log.name) for log in read["away"].log] == [
        ("a", str(tmp_path / "there" / name)) for name in ("a", "b")
    ]
    assert [(log.table, str(log)) for log in read["copied-1"].log] == [("public.orders", "kafka:copy.public.orders")]
    assert read["copied-1"].bootstrap == "localhost:9092" and str(read["copied-1"].rows) == str(tmp_path / "rows")


def test_a_change_starts_what_it_is_about_again(tmp_path: Path) -> None:
    """Both a replica and its controller, as both are made of the part; not those of another instance."""
    before = {plan.name: plan.digest for plan in jobs_of(pipeline_in(tmp_path))}
    more = pipeline_in(tmp_path, FILE.replace("[id], public.l", "[customer], public.l"))
    after = {plan.name: plan.digest for plan in jobs_of(more)}

    assert {name for name in before if before[name] != after[name]} == {"rows", "rows-1", "rows-2"}


def test_it_waits_for_the_logs_that_its_capture_makes_first(tmp_path: Path) -> None:
    """As a view does; of topics, and of logs of others, it states itself that there are none."""
    logs = FirstLogs(pipeline_in(tmp_path))

    assert "public.orders is not there yet" in str(logs.waits("rows")) and logs.waits("rows-2") is not None
    assert logs.waits("away") is logs.waits("copied") is None


def test_their_sockets_have_a_folder_for_their_user_alone(tmp_path: Path) -> None:
    """It is there before they start; where it cannot be, that is the error."""
    make_places(pipeline_in(tmp_path))

    assert (tmp_path / "shop.state" / "instances").stat().st_mode & 0o777 == 0o700
    assert {row.kind for row in job_rows(pipeline_in(tmp_path)) if row.name.startswith("rows")} == {"instance"}


@pytest.mark.parametrize(("old", "new", "text"), [
    ("capture: shop\n", "capture: shp\n", "line 10: there is no capture 'shp'"),
    ("    capture: shop\n", "", "line 10: which capture writes its logs"),
    ("capture: topics,", "capture: topics, logs: x,", "line 15: 'capture' and 'logs' both name logs"),
    ("replicas: 2", "replicas: many", "line 12: a whole number from 1 on is wanted here, and there is 'many'"),
    ("replicas: 2", "replicas: 10", "line 12: 10 replicas: 1 to 9 can be"),
    ("history: 30m", "history: 30", "line 13: '30' is no span of time"),
    ("[order_id, sku]", "[order_id, order_id]", "line 11: the key of public.lines is a list of its columns, each once"),
    ("[order_id, sku]", "[]", "line 11: the key of public.lines"),
    ("logs: {a:", "logs: {b:", "line 14: there is no log of the table 'a'; there are b"),
    ("logs: {a:", "logs: {b: b, a:", "line 14: no key of the table 'b' is named"),
    ("index: {a: id}", "index: {}", "line 14: no table is named"),
    ("index: {a: id}, ", "", "line 14: 'index' is missing"),
    ("  away:", "  rows-2:", "line 14: two parts are called 'rows-2', of instances and of instances"),
    ("  away:", "  shop:", "line 14: two parts are called 'shop', of captures and of instances"),
    ("away.sock", "/" + "x" * 110, "line 14: .* is longer than 107 bytes, which no socket may be"),
])  # fmt: skip
def test_one_that_cannot_be_is_refused_with_its_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    """Before anything starts."""
    assert old in FILE
    with pytest.raises(UsageError, match=text):
        pipeline_in(tmp_path, FILE.replace(old, new))


@pytest.mark.parametrize("place, replicas", [("two.sock", 1), ("s/instances/two-1.sock", 1), ("link/two.sock", 1),
                                             ("s/instances/one-2.sock", 2)])  # fmt: skip
def test_no_two_processes_answer_at_one_place(place: str, replicas: int, tmp_path: Path) -> None:
    """Neither controllers nor replicas, nor a controller and its own replica; a link is the same place."""
    (tmp_path / "link").symlink_to(tmp_path)
    text = f"""
pipeline: shop
state: s
instances:
  one: {{logs: logs, index: {{a: id}}, place: {place}, replicas: {replicas}}}
  two: {{logs: logs, index: {{a: id}}, place: two.sock}}
"""
    with pytest.raises(UsageError, match=r"line \d+: .* is a place of the instance (one|two) .* already"):
        pipeline_in(tmp_path, text)


def test_a_place_where_nothing_can_answer_is_refused_by_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is a file, or in no folder; the folder of the state is made."""
    (tmp_path / "taken.sock").touch()
    text = """
pipeline: shop
state: s
instances:
  one: {logs: logs, index: {a: id}, place: taken.sock}
  two: {logs: logs, index: {a: id}, place: none/two.sock}
  three: {logs: logs, index: {a: id}}
"""
    pipeline_in(tmp_path, text)
    assert main(["plan", str(tmp_path / "shop.yaml")]) == 1
    refused = [line for line in capsys.readouterr().out.splitlines() if line.startswith("refused")]
    assert len(refused) == 2
    assert "job one" in refused[0] and "line 5: " in refused[0] and "no socket" in refused[0]
    assert "job two" in refused[1] and "no folder" in refused[1]


MARKED = """
pipeline: shop
sources: {shop: {postgres: {conninfo: "host=127.0.0.1 password=${SECRET}"}}, other: {}}
captures:
  shop: {source: shop, from: topics.jsonl, tables: [a]}
  bare: {source: other, into: bare, from: topics.jsonl, tables: [a]}
  bound: {source: shop, into: bound, from: topics.jsonl, tables: [a], remap: timeline}
instances:
  rows: {capture: CAPTURE, index: {a: id}, marker: YES}
"""


def test_a_marker_is_committed_at_the_source_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller gets the file, and no secret; a replica commits none."""
    monkeypatch.setenv("SECRET", "hidden")
    pipeline = pipeline_in(tmp_path, MARKED.replace("CAPTURE", "shop").replace("YES", "yes"))
    argv = {plan.name: plan.argv for plan in jobs_of(pipeline)}
    source = f"--source=pipeline:shop:{tmp_path / 'shop.yaml'}"
    assert "--marker" in argv["rows"] and source in argv["rows"]
    assert not any("hidden" in word or "marker" in word for word in argv["rows-1"])
    assert "hidden" not in " ".join(argv["rows"])
    read = parser_of("replicas").parse_args(argv["rows"][4:])
    writer = marker_of(read, lambda text: None)
    assert writer is not None
    without = pipeline_in(tmp_path, MARKED.replace("CAPTURE", "shop").replace("YES", "no"))
    assert "--marker" not in {plan.name: plan.argv for plan in jobs_of(without)}["rows"]


@pytest.mark.parametrize("instead, text", [
    ("capture: bare, index: {a: id}, marker: yes", "line 9: .*needs the database"),
    ("capture: bound, index: {a: id}, marker: yes", "line 9: .*are no LSNs"),
    ("logs: there, index: {a: id}, marker: yes", "line 9: .*name the capture, and no logs"),
    ("capture: shop, index: {a: id}, marker: often", "line 9: "),
])  # fmt: skip
def test_a_marker_needs_a_database_and_times_that_are_lsns(
    instead: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    with pytest.raises(UsageError, match=text):
        pipeline_in(tmp_path, MARKED.replace("capture: CAPTURE, index: {a: id}, marker: YES", instead))
