"""``cdcv2 up`` makes what the file owns before the job that needs it; ``cdcv2 down --remove-external`` removes it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.run.manifest import first_manifest
from cdcv2.connectors.debezium.config import IDLE_SETTINGS, JSON_CONVERTERS, debezium_config
from cdcv2.cli.down import remove_all
from cdcv2.cli.main import main
from cdcv2.cli.up import show_entries
from cdcv2.control import examination, pipeline_servers
from cdcv2.control.catalogue import DATABASE, take_catalogue
from cdcv2.control.entries import CatalogueEntry, Debt, EntryState, Kind, Reason
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_changes import planned_entries
from cdcv2.control.pipeline_check import recipes_of
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.reconcile import Reconciliation
from cdcv2.core.own_json import with_digest, without_digest
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run
from tests.external_world import MemoryCatalogue, World, WorldObject

pytest.importorskip("yaml")
pytest.importorskip("confluent_kafka")

#: A capture of a Kafka that is away: its job starts, and waits for that.
FILE = """
pipeline: shop
kafka: {bootstrap: "127.0.0.1:1"}
sources: {shop: {}}
captures:
  shop: {into: there/logs, owned: yes}
"""
ROW = '{"type": "record", "name": "orders", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The pipeline; the folder in which its logs will be is not there."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(ROW, "utf-8")
    path = tmp_path / "shop.yaml"
    path.write_text(FILE, "utf-8")
    return path


def states(run: Run, file: Path) -> list[str]:
    """Of its external state."""
    return [one["state"] for one in json.loads(run("external", file, "--json", "--all").out)["entries"]]


def test_a_job_starts_when_what_it_needs_is_there_and_all_of_it_is_removed_at_the_end(
    run: Run, file: Path, tmp_path: Path
) -> None:
    """A time-out leaves the intent; a plain down removes nothing."""
    logs, job = tmp_path / "there" / "logs", tmp_path / "shop.state" / "jobs" / "shop" / "run.json"
    waits = run("up", file, "--once", "--timeout", "0")
    assert (Exit.UNABLE, False, ["wanted"]) == (waits.code, job.exists(), states(run, file))
    assert "cdcv2 up: shop: waits for state folder" in waits.err
    shown = json.loads(run("status", file, "--json").out)["jobs"][0]
    assert ("waiting", "it waits for state folder") == (shown["state"], shown["reason"][:25])

    logs.parent.mkdir()
    assert Exit.DONE == run("up", file, "--once", "--timeout", "60").code
    try:
        assert (True, ["in use"]) == (job.exists(), states(run, file))
        # It is the job that the plan means, with what was made for it.
        assert not [line for line in run("plan", file).out.splitlines() if "make" in line or "restart" in line]
        assert "cdcv2: entry" in json.loads((logs / "_external.json").read_text("utf-8"))["mark"]
    finally:
        assert Exit.DONE == main(["down", str(file)])
    assert (True, ["in use"]) == (logs.exists(), states(run, file))

    removed = run("down", file, "--remove-external")
    assert (Exit.DONE, False, ["gone"]) == (removed.code, logs.exists(), states(run, file)), removed.err


@pytest.mark.parametrize("spelled", ["elsewhere/../shop.yaml", "link/shop.yaml"])
def test_the_same_file_by_another_path_changes_nothing(run: Run, file: Path, tmp_path: Path, spelled: str) -> None:
    """Its folders are known by where they are, and so are those in a catalogue of before."""
    (tmp_path / "there").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    assert Exit.DONE == run("up", file, "--once", "--timeout", "60").code
    try:
        (tmp_path / "there" / "logs" / "of the user").write_text("rows")
        again = run("plan", tmp_path / spelled)
        assert ([], ["in use"]) == ([line for line in again.out.splitlines() if "nothing" not in line],
                                    states(run, file))  # fmt: skip
        catalogue = tmp_path / "shop.state" / DATABASE
        with closing(sqlite3.connect(catalogue)) as database:
            # As an older release wrote it, where the command was called by that path.
            rows = database.execute("SELECT key, value FROM cdcv2_catalogue WHERE key LIKE 'entry:%'").fetchall()
            for key, value in rows:
                plain = without_digest(json.loads(value), catalogue)
                plain["name"] = str((tmp_path / spelled).parent / "there" / "logs")
                database.execute(
                    "UPDATE cdcv2_catalogue SET value = ? WHERE key = ?", [json.dumps(with_digest(plain)), key]
                )
            database.commit()
        assert Exit.DONE == run("up", file, "--once", "--timeout", "60").code
        assert ("rows", ["in use"]) == (
            (tmp_path / "there" / "logs" / "of the user").read_text(), states(run, tmp_path / spelled)
        )
    finally:
        main(["down", str(file)])


def test_another_pipeline_with_the_same_state_is_refused(run: Run, file: Path, tmp_path: Path) -> None:
    """Before anything is changed; the plan shows it, too."""
    (tmp_path / "there").mkdir()
    file.write_text(FILE.replace("kafka:", "state: kept\nkafka:"), "utf-8")
    assert Exit.DONE == run("up", file, "--once", "--timeout", "60").code
    main(["down", str(file)])
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text("utf-8").replace("pipeline: shop", "pipeline: other").replace("logs", "more"))
    for words in (["plan"], ["up", "--once"], ["down", "--remove-external"], ["down"]):
        refused = run(words[0], other, *words[1:])
        assert Exit.UNABLE == refused.code and "is the state of the pipeline 'shop'" in refused.err, refused
    assert (True, ["in use"]) == ((tmp_path / "there" / "logs").exists(), states(run, file))


def test_a_view_waits_for_the_logs_of_its_capture(run: Run, file: Path, tmp_path: Path) -> None:
    """At the first start they are not made yet: it is not started, and so it is not held."""
    view = """
views:
  copy:
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""
    file.write_text(FILE + view, "utf-8")
    begun = run("up", file, "--once", "--timeout", "0")

    assert Exit.UNABLE == begun.code
    assert "cdcv2 up: copy: waits for the logs of its capture: " in begun.err
    assert not (tmp_path / "shop.state" / "jobs" / "copy" / "run.json").exists()


def test_what_cannot_be_removed_is_named(run: Run, file: Path, tmp_path: Path) -> None:
    """The intent is kept: the next down goes on with it."""
    (tmp_path / "there").mkdir()
    run("up", file, "--once", "--timeout", "60")
    main(["down", str(file)])
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    owed = run("down", file, "--remove-external", "--timeout", "0")

    assert (Exit.UNABLE, ["unwanted"]) == (owed.code, states(run, file))
    assert "run cdcv2 down --remove-external again" in owed.err and "there/logs" in owed.err
    (tmp_path / "elsewhere").rename(tmp_path / "there")
    assert Exit.DONE == run("down", file, "--remove-external").code
    assert ["there"] == [one.name for one in tmp_path.iterdir() if one.name == "there"]
    assert [] == list((tmp_path / "there").iterdir())


def test_what_is_in_doubt_is_left_only_if_that_is_stated(run: Run, file: Path) -> None:
    """A person knows whose it is; then it is forgotten, and not touched."""
    refused = run("down", file, "--leave-doubtful")
    assert Exit.USAGE == refused.code and "--leave-doubtful goes with --remove-external" in refused.err

    world, catalogue = World(), MemoryCatalogue()
    world.slots_by_name = True
    control = Reconciliation(catalogue.taken(), world.kinds(), lambda: world.now)  # type: ignore[arg-type]
    entry = CatalogueEntry("7f", Kind.SLOT, "shop", "a", {"plugin": "pgoutput"}, True, (), maker="c", attempted=1.0,
                           identity="shop", server="server-a", state=EntryState.UNWANTED)  # fmt: skip
    control.catalogue.write([entry])
    world.put("a", Kind.SLOT, "shop", WorldObject("shop", "others", {"plugin": "pgoutput"}))
    external: Any = SimpleNamespace(needs=SimpleNamespace(desired=lambda entries: []))
    assert Exit.UNABLE == remove_all(control, external, 0.0)
    world.now += 99
    assert Exit.DONE == remove_all(control, external, 0.0, leave=True)
    assert EntryState.GONE is catalogue.kept["7f"].state and world.server("a").objects


@pytest.mark.parametrize("words", [["--timeout", "5"], ["--once", "--timeout", "-1"], ["--once", "--timeout", "nan"]])
def test_a_time_out_that_means_nothing_is_refused(run: Run, file: Path, words: list[str]) -> None:
    """Before anything is made."""
    assert Exit.USAGE == run("up", file, *words).code
    assert not (file.parent / "shop.state").exists()


@pytest.mark.parametrize("owned", [", owned: no", ""])
def test_what_the_file_let_go_is_not_removed(run: Run, file: Path, tmp_path: Path, owned: str) -> None:
    """Also where no ``cdcv2 up`` ran since: the catalogue still has it as ours."""
    (tmp_path / "there").mkdir()
    run("up", file, "--once", "--timeout", "60")
    main(["down", str(file)])
    file.write_text(FILE.replace(", owned: yes", owned), "utf-8")
    ended = run("down", file, "--remove-external")

    assert (Exit.DONE, ["gone"]) == (ended.code, states(run, file)), ended.err
    assert (tmp_path / "there" / "logs" / "_external.json").exists()


def test_a_file_that_cannot_be_judged_removes_nothing(run: Run, file: Path, tmp_path: Path) -> None:
    """What it states as ours is not known: the settings of its connector are missing."""
    (tmp_path / "there").mkdir()
    run("up", file, "--once", "--timeout", "60")
    connector = "{connector: {name: c, url: 'http://127.0.0.1:1', config: none.json, owned: yes}}"
    file.write_text(FILE.replace("shop: {}", f"shop: {connector}"), "utf-8")
    refused = run("down", file, "--remove-external")
    file.write_text(FILE, "utf-8")
    main(["down", str(file)])

    assert (Exit.USAGE, ["in use"]) == (refused.code, states(run, file)), refused.err
    assert "none.json" in refused.err
    assert (tmp_path / "there" / "logs").exists()


def test_other_tables_over_the_same_logs_are_refused_before_anything_is_removed(
    run: Run, file: Path, tmp_path: Path
) -> None:
    """The capture's job would refuse them, when the topic of the table left out was deleted with its records."""
    (tmp_path / "there").mkdir()
    run("up", file, "--once", "--timeout", "60")
    main(["down", str(file)])
    logs, orders = tmp_path / "there" / "logs", tmp_path / "rows" / "public.orders.avsc"
    (recipe,) = recipes_of(read_pipeline(str(file)).captures["shop"])
    (logs / "_capture.json").write_text(json.dumps(first_manifest(recipe)), "utf-8")
    orders.rename(tmp_path / "rows" / "public.items.avsc")
    without_facts = run("plan", file).out
    (logs / "public.orders").mkdir(exist_ok=True)
    (logs / "public.orders" / "1.avro").write_bytes(b"a fact")
    refused, planned, looked = run("up", file, "--once"), run("plan", file), run("doctor", file)
    states_then = states(run, file)
    (tmp_path / "rows" / "public.items.avsc").rename(orders)

    assert (Exit.USAGE, ["in use"]) == (refused.code, states_then), refused.err
    for text in (refused.err, planned.out, looked.out):
        plain = " ".join(text.split())
        assert "holds another capture, with --tables public.orders, and not with --tables public.items" in plain
        assert "tables.md" in plain and "line 6" in plain
    assert "another capture" not in without_facts + run("plan", file).out


SOURCE = """
pipeline: shop
kafka: {bootstrap: "127.0.0.1:1"}
sources:
  shop:
    postgres: {conninfo: "host=127.0.0.1 port=1 dbname=d user=u"}
    connector: {name: shop, url: "http://127.0.0.1:1", owned: yes, config: connector.json}
    slot: {name: shop, owned: yes}
    publication: {name: NAMED, owned: yes}
captures:
  shop: {into: there/logs}
"""


def test_another_name_of_a_publication_is_refused_while_its_slot_goes_on(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By up before anything is done; plan and doctor name it, and what is lost by now."""
    monkeypatch.setattr(examination, "_PATIENCE", 0.2)
    monkeypatch.setattr(pipeline_servers, "PATIENCE", 0.2)
    config = debezium_config(
        "shop", ["public.orders"], host="db", port=1, database="d", user="u", publication="disabled")

    def name(publication: str) -> None:
        own = {**config, **JSON_CONVERTERS, **IDLE_SETTINGS, "publication.name": publication}
        (tmp_path / "connector.json").write_text(json.dumps(own), "utf-8")
        file.write_text(SOURCE.replace("NAMED", publication), "utf-8")

    name("before")
    pipeline = read_pipeline(str(file))
    made = [
        replace(entry, state=EntryState.IN_USE, identity="1")
        for entry in planned_entries([], list(external_needs(pipeline).needs.desired([])), 5.0)
    ]
    topic = next(one for one in made if one.kind is Kind.TOPIC)
    lost = replace(topic, nonce="7f", name="gone", state=EntryState.LOST, debt=Debt(Reason.LOST, "it fell", 1.0, 1))
    with OwnedFolder(pipeline.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write([*made, lost])
    same = run("doctor", file, "--json").out
    name("after")
    refused, planned, looked = run("up", file, "--once"), run("plan", file), run("doctor", file)

    assert Exit.UNABLE == refused.code and "another publication is made would be lost" not in same
    assert "it fell" in same
    for text in (refused.err, planned.out, looked.out):
        assert "another publication is made would be lost" in " ".join(text.split())
    assert {"in use", "lost"} == {*states(run, file)}


def test_another_prefix_is_refused_while_connector_and_slot_go_on(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the topics with the old one are removed; with other names of connector and slot it is a new start."""
    monkeypatch.setattr(examination, "_PATIENCE", 0.2)
    monkeypatch.setattr(pipeline_servers, "PATIENCE", 0.2)

    def write(prefix: str, name: str) -> None:
        config = debezium_config(
            prefix, ["public.orders"], host="db", port=1, database="d", user="u", publication="disabled",
            more={**JSON_CONVERTERS, **IDLE_SETTINGS, "slot.name": name, "publication.name": name},
        )  # fmt: skip
        (tmp_path / "connector.json").write_text(json.dumps(config), "utf-8")
        text = SOURCE.replace("NAMED", name).replace("name: shop", f"name: {name}")
        file.write_text(text.replace("    postgres", f"    prefix: {prefix}\n    postgres"), "utf-8")

    write("shop", "shop")
    pipeline = read_pipeline(str(file))
    made = [
        replace(entry, state=EntryState.IN_USE, identity="1", attempted=1.0, applied=entry.settings)
        for entry in planned_entries([], list(external_needs(pipeline).needs.desired([])), 5.0)
    ]
    with OwnedFolder(pipeline.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write(made)
    write("other", "shop")
    refused, planned, looked = run("up", file, "--once"), run("plan", file), run("doctor", file)
    assert (Exit.UNABLE, {"in use"}) == (refused.code, {*states(run, file)})
    for text in (refused.err, planned.out, looked.out):
        assert "has topic.prefix=shop, and continues with its slot 'shop'" in " ".join(text.split())
    write("other", "other")
    assert "continues with its slot" not in run("plan", file).out


class TwoTables:
    """A pipeline of ours with two tables: its external state is in the catalogue as made, and its job has run."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder, self.file = folder, file
        for table in ("orders", "items"):
            (folder / "rows" / f"public.{table}.avsc").write_text(ROW.replace("orders", table), "utf-8")

    def write(self, captures: str, tables: list[str]) -> Pipeline:
        """The file with these captures, and a connector for these tables."""
        config = debezium_config(
            "shop", [f"public.{table}" for table in tables], host="db", port=1, database="d", user="u",
            publication="disabled", more={**JSON_CONVERTERS, **IDLE_SETTINGS},
        )  # fmt: skip
        (self.folder / "connector.json").write_text(json.dumps(config), "utf-8")
        told = "  shop:\n    notifications: shop.notifications\n    postgres"
        text = SOURCE.replace("NAMED", "shop").replace("  shop:\n    postgres", told)
        self.file.write_text(text.replace("  shop: {into: there/logs}", captures), "utf-8")
        return read_pipeline(str(self.file))

    def make(self, pipeline: Pipeline) -> list[CatalogueEntry]:
        """All that the file needs is there, and in use."""
        with OwnedFolder(pipeline.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
            known = catalogue.entries()
            desired = list(external_needs(pipeline).needs.desired(known))
            made = [
                replace(one, state=EntryState.IN_USE, identity="1", applied=one.settings, attempted=5.0)
                if one.is_live else one
                for one in planned_entries(known, desired, 5.0)
            ]
            catalogue.write(made)
        return made

    def ran(self, pipeline: Pipeline, job: str, frontiers: list[list[int]]) -> None:
        """The job has run, and stated these frontiers."""
        plan = next(one for one in jobs_of(pipeline) if one.name == job)
        folder = JobFolder(folder_of(pipeline) / job)
        folder.start(["true"], 1, plan.digest, parts=plan.parts)
        events = [{"version": 1, "event": "progress", "at": 1.0, "frontier": one, "waits": []} for one in frontiers]
        folder.events.write_text("".join(f"{json.dumps(one)}\n" for one in events), "utf-8")


@pytest.fixture
def two(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoTables:
    """Beside servers that are away, and not waited for."""
    monkeypatch.setattr(examination, "_PATIENCE", 0.2)
    monkeypatch.setattr(pipeline_servers, "PATIENCE", 0.2)
    return TwoTables(tmp_path, file)


@pytest.mark.parametrize(("place", "captured", "refused"), [
    ("remap: there/timeline", [[1], [501]], True), ("remap: there/timeline", [[1]], False),
    ("remap: there/timeline2", [[1], [501]], True), ("remap: there/timeline", [], False),
    ("remap: there/timeline, into: there/logs2", [[501]], True),
    ("remap: there/timeline2, into: there/logs2", [[501]], False),
])
@pytest.mark.parametrize("name", ["shop", "renamed"])
def test_a_topic_of_logs_that_go_on_is_not_removed(
    run: Run, two: TwoTables, place: str, captured: list[list[int]], refused: bool, name: str
) -> None:
    """A table is left out, and the logs on a remap stay: only the job would see that they are of other tables."""
    both = "  shop: {into: there/logs, remap: there/timeline, tables: [public.orders, public.items]}"
    pipeline = two.write(both, ["orders", "items"])
    two.make(pipeline)
    two.ran(pipeline, "shop", captured)
    same = run("doctor", two.file, "--json").out
    place = place if "into" in place else f"{place}, into: there/logs"
    two.write(f"  {name}: {{{place}, tables: [public.orders]}}", ["orders"])
    planned, looked = run("plan", two.file).out, run("doctor", two.file).out
    text = f"would be removed, with its records, and the capture {name} continues with the logs"

    assert text not in same and [refused] * 2 == [text in " ".join(one.split()) for one in (planned, looked)]
    assert not refused or {"refused"} == {line.split()[0] for line in planned.splitlines()}
    if refused:
        ended = run("up", two.file, "--once", "--timeout", "0")
        assert (Exit.UNABLE, {"in use"}) == (ended.code, {*states(run, two.file)}) and text in ended.err


@pytest.mark.parametrize(("logs", "second", "refused"), [
    ("there/first", False, False), ("there/first", True, True), ("'kafka:c.{table}'", False, False),
    ("'kafka:c.{table}'", True, True),
])
def test_a_capture_beside_others_of_its_source_may_be_left_out(
    run: Run, two: TwoTables, logs: str, second: bool, refused: bool
) -> None:
    """Topics of a connector have all of its captures as users. ``second``: the table is left out of the other's."""
    tables = "[public.orders, public.items]" if second else "[public.orders]"
    first = f"  first: {{into: {logs}, remap: there/timeline, tables: %s}}"
    other = "  other: {into: there/other, remap: there/timeline2, tables: [public.items]}"
    pipeline = two.write(f"{first % tables}\n{other}", ["orders", "items"])
    two.make(pipeline)
    for job, names in (("first", ["orders", "items"] if second else ["orders"]), ("other", ["items"])):
        two.ran(pipeline, job, [[501]])
        for name in names:
            if job == "other" or "kafka" not in logs:
                DirectoryLog(two.folder / "there" / job / f"public.{name}", create=True, row_type=RowType(
                    json.loads(ROW.replace("orders", name)))).close()
    two.write(first % "[public.orders]", ["orders"])

    assert refused is ("would be removed, with its records" in " ".join(run("plan", two.file).out.split()))


@pytest.mark.parametrize(("into", "captured", "altered", "refused"), [
    ("there/second", [[501]], True, True), ("there/second", [[1]], True, False),
    ("there/third", [[501]], True, False), ("there/second", [[501]], False, False),
])
def test_logs_go_on_only_if_their_tables_were_published_all_the_time(
    run: Run, two: TwoTables, into: str, captured: list[list[int]], altered: bool, refused: bool
) -> None:
    """A capture was left out of the file, up has taken its table out of the publication, and the capture is back."""
    first = "  first: {into: there/first, tables: [public.orders]}"
    second = "  second: {into: %s, tables: [public.items]}"
    pipeline = two.write(f"{first}\n{second % 'there/second'}", ["orders", "items"])
    two.make(pipeline)
    two.ran(pipeline, "second", captured)
    if altered:
        two.make(two.write(first, ["orders"]))
    two.write(f"{first}\n{second % into}", ["orders", "items"])
    planned = " ".join(run("plan", two.file).out.split())

    assert refused is ("does not publish public.items any more, as the file left that out" in planned), planned
    if refused:
        assert Exit.UNABLE == run("up", two.file, "--once", "--timeout", "0").code


#: How the topic of a table was left out; whether it is in the publication and in the list of the connector, still; when
#: the connector began; and why it is refused.
LEFT_OUT = [
    ({"state": EntryState.GONE}, True, True, 5.0, "keeps running: what it had sent"),
    ({"state": EntryState.GONE}, False, True, 5.0, "keeps running: what it had sent"),
    ({"state": EntryState.GONE}, False, False, 90.0, ""),
    ({"state": EntryState.UNWANTED}, False, True, 5.0, "lacks what was committed"),
    ({"state": EntryState.UNWANTED}, True, False, 5.0, "lacks what was committed"),
    ({"state": EntryState.UNWANTED}, True, True, 5.0, ""),
    ({"state": EntryState.UNWANTED, "removal": True}, True, True, 5.0, "is being removed with its records"),
    ({"state": EntryState.UNWANTED, "before": EntryState.LOST}, True, True, 5.0, "is being removed with its records"),
    ({"state": EntryState.UNWANTED, "before": None}, True, True, 5.0, "is being removed with its records"),
    ({"state": EntryState.GONE, "identity": None, "attempted": 6.0}, True, True, 5.0,
     "keeps running: what it had sent"),
    ({"state": EntryState.GONE, "identity": None, "attempted": None}, True, True, 5.0, ""),
]


@pytest.mark.parametrize("into", ["there/second", "there/third"])
@pytest.mark.parametrize("publication_owned", [True, False])
@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("left, published, listed, connector_since, why", LEFT_OUT)
def test_a_table_that_was_left_out_does_not_come_back_to_a_connector_that_goes_on(
    run: Run, two: TwoTables, into: str, publication_owned: bool, returns: bool, left: dict[str, Any], published: bool,
    listed: bool, connector_since: float, why: str,
) -> None:
    """What the connector had sent of it is in no topic, so logs in another place would lack it as well.

    It may where the connector was made afterwards, and where its topic, its publication and the list of the connector
    are what they were. What a publication of others has is judged by looks at it. ``returns``: the file has left out
    all of the source for a moment.
    """
    def write(captures: str, tables: list[str]) -> Pipeline:
        pipeline = two.write(captures, tables)
        if not publication_owned:
            text = two.file.read_text("utf-8").replace("{name: shop, owned: yes}\ncap", "{name: shop, owned: no}\ncap")
            two.file.write_text(text, "utf-8")
            pipeline = read_pipeline(str(two.file))
        return pipeline

    def after(one: CatalogueEntry) -> CatalogueEntry:
        if returns and one.name != "shop.public.items":
            one = replace(one, state=EntryState.UNWANTED, before=EntryState.IN_USE)
        if one.name == "shop.public.items":
            return replace(one, **{"since": 50.0, "before": EntryState.IN_USE, **left})
        if one.kind is Kind.SLOT:
            return replace(one, attempted=connector_since)
        if one.kind is Kind.CONNECTOR:
            own = one.settings if listed else {**one.settings, "table.include.list": "public\\.orders"}
            return replace(one, attempted=connector_since, applied=own)
        if one.kind is Kind.PUBLICATION:
            return replace(one, applied={**one.settings, "tables": ["public.orders", "public.items"][:1 + published]})
        return one

    first = "  first: {into: there/first, tables: [public.orders]}"
    pipeline = write(f"{first}\n  second: {{into: there/second, tables: [public.items]}}", ["orders", "items"])
    made = two.make(pipeline)
    assert publication_owned is next(one.owned for one in made if one.kind is Kind.PUBLICATION)
    with OwnedFolder(pipeline.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write([after(one) for one in made])
    write(f"{first}\n  second: {{into: {into}, tables: [public.items]}}", ["orders", "items"])
    planned = " ".join(run("plan", two.file).out.split())
    if not publication_owned and not published and "lacks" in why:
        why = ""

    assert bool(why) is ("start over, with all tables of the connector" in planned) and why in planned, planned
    if why:
        ended = run("up", two.file, "--once", "--timeout", "0")
        assert Exit.UNABLE == ended.code and "tables.md#put-a-table-back" in ended.err


@pytest.mark.parametrize("into", ["there/second", "there/third"])
@pytest.mark.parametrize(("altered", "refused"), [(True, True), (False, False)])
def test_a_table_that_a_publication_of_ours_left_out_does_not_come_back_where_its_topic_goes_on(
    run: Run, two: TwoTables, into: str, altered: bool, refused: bool
) -> None:
    """Connector and slot are of others. What was committed meanwhile is in no topic, whatever the logs."""
    theirs = ("owned: yes, config: connector.json}\n    slot: {name: shop, owned: yes}", "config: connector.json}")

    def write(captures: str) -> Pipeline:
        two.write(captures, ["orders", "items"])
        two.file.write_text(two.file.read_text("utf-8").replace(*theirs), "utf-8")
        return read_pipeline(str(two.file))

    first = "  first: {into: there/first, tables: [public.orders]}"
    second = "  second: {into: %s, tables: [public.items]}"
    two.make(write(f"{first}\n{second % 'there/second'}"))
    if altered:
        two.make(write(first))
    write(f"{first}\n{second % into}")
    planned = " ".join(run("plan", two.file).out.split())

    assert refused is ("has left out what the topics shop.public.items have" in planned), planned
    if refused:
        ended = run("up", two.file, "--once", "--timeout", "0")
        assert Exit.UNABLE == ended.code and "tables.md#put-a-table-back" in ended.err


def test_what_is_accepted_is_printed(run: Run, two: TwoTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do next: a person who looked at one thing sees what else was meant by its name."""
    entry = CatalogueEntry("7f", Kind.PUBLICATION, "shop", "db", {}, False, ("shop",))
    monkeypatch.setattr(Reconciliation, "accept", lambda _, names: [entry] * len(names))
    two.write("  shop: {into: there/logs}", ["orders", "items"])
    ended = run("up", two.file, "--once", "--timeout", "0", "--accept-lost", "shop")

    assert "cdcv2 up: the publication 'shop' (db): accepted as it is now; run cdcv2 compare --source" in ended.err


@pytest.mark.parametrize(("then", "refused"), [
    ({"state": EntryState.GONE}, ["items", "orders"]), ({"state": EntryState.UNWANTED, "removal": True},
                                                        ["items", "orders"]),
    ({"state": EntryState.UNWANTED}, ["items"]), ({"address": "PostgreSQL elsewhere:1/d"}, ["items"]),
    ({"state": EntryState.GONE, "before": EntryState.MADE}, []),
])  # fmt: skip
def test_a_publication_of_ours_that_was_removed_does_not_come_back_where_topics_go_on(
    run: Run, two: TwoTables, then: dict[str, Any], refused: list[str]
) -> None:
    """All was left out for a while. Before anything was removed it returns, without what it had left out itself."""
    theirs = ("owned: yes, config: connector.json}\n    slot: {name: shop, owned: yes}", "config: connector.json}")

    def write(captures: str) -> Pipeline:
        two.write(captures, ["orders", "items"])
        two.file.write_text(two.file.read_text("utf-8").replace(*theirs), "utf-8")
        return read_pipeline(str(two.file))

    first = "  first: {into: there/%s, tables: [public.orders]}"
    second = "  second: {into: there/%s, tables: [public.items]}"
    pipeline = write(f"{first % 'one'}\n{second % 'two'}")
    made = two.make(pipeline)
    if refused == ["items"]:
        made = two.make(write(first % "one"))
    with OwnedFolder(pipeline.state, 5.0) as folder, take_catalogue(folder, "cdcv2 up", 5.0, "shop") as catalogue:
        catalogue.write([
            replace(one, **{"since": 50.0, "before": EntryState.IN_USE, **then})
            for one in catalogue.entries() if one.kind is Kind.PUBLICATION
        ])
    write(f"{first % 'three'}\n{second % 'four'}")
    planned = " ".join(run("plan", two.file).out.split())

    names = ", ".join(f"shop.public.{one}" for one in refused)
    assert bool(refused) is (f"has left out what the topics {names} have" in planned), planned
    assert bool(refused) is ("has left out" in planned) and made


def test_what_is_not_ours_is_not_shown_as_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """Its entry ends, and it stays: the states of the entry would be read as those of the thing."""
    shown = dict[str, str]()
    for state in (EntryState.IN_USE, EntryState.UNWANTED, EntryState.GONE):
        for owned in (True, False):
            entry = CatalogueEntry(f"6f{owned}", Kind.SLOT, f"of {owned}", "db", {}, owned, ("shop",), state=state)
            show_entries("down", [replace(entry, identity="5", attempted=1.0) if owned else entry], shown)
        refused = CatalogueEntry("6f", Kind.SLOT, "another's", "db", {}, True, ("shop",), state=state)
        show_entries("down", [refused], shown)
    lines = capsys.readouterr().err.splitlines()

    assert "nothing owned was made there, and nothing is removed" in [
        line.rpartition(": ")[2] for line in lines if "another's" in line]
    assert ["unwanted", "gone"] == [line.rpartition(": ")[2] for line in lines if "of True" in line]
    assert ["not looked at any more; it is not owned, and stays"] == [
        line.rpartition(": ")[2] for line in lines if "of False" in line
    ]
