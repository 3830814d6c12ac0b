"""`cdcv2 capture --propose-recipe` without a table: its log is brought up to there, through crashes and compactions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cdcv2 import failpoints
from cdcv2.capture.binder import BOUND
from cdcv2.capture.updates_then_statements import TABLE_STATED, TABLE_WRITTEN
from cdcv2.capture.run.omitted_tables import BROUGHT, IN_FORCE, CaptureLogs
from cdcv2.capture.run.on_remap import READ
from cdcv2.errors import UsageError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run, Said
from tests.cli.test_command_capture_databases import words as of_database
from tests.cli.test_command_capture_databases import recorded, write  # noqa: F401

ROW = {"type": "record", "name": "t", "fields": [{"name": "user", "type": "string"}]}
TABLES = ("clicks", "likes", "views")


class Site:
    """Topics of one partition, captured on a remap."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self._run = folder, run
        self.topics: dict[str, list[str]] = {}
        (folder / "rows").mkdir()
        for table in TABLES:
            (folder / "rows" / f"{table}.avsc").write_text(json.dumps(ROW), "utf-8")

    def grow(self, *tables: str, value: str | None = None) -> None:
        """Two more records in each; or one with this value."""
        for table in tables:
            found = self.topics.setdefault(table, [])
            found += [value] if value is not None else [json.dumps({"user": f"u{len(found) + at}"}) for at in range(2)]
        lines = [
            {"topic": f"web.{table}", "partition": 0, "offset": offset, "value": text}
            for table, values in self.topics.items() for offset, text in enumerate(values)
        ]
        (self.folder / "dump.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")

    def capture(self, tables: Sequence[str], *more: object) -> Said:
        """Those that are named."""
        plain = [word for table in tables for word in ("--plain", f"{table}=web.{table}")]
        return self._run("capture", self.folder / "dump.jsonl", "--remap", self.folder / "remap", *plain,
                         "--rows", self.folder / "rows", "--into", self.folder / "logs", "--bind-at-most", 1,
                         "--max-records", 1, *more)  # fmt: skip

    def crash(self, step: str, tables: Sequence[str], *more: object) -> None:
        """The same, killed there."""
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash, match=step):
            self.capture(tables, *more)

    def users(self, table: str) -> list[str]:
        """The rows of a log that are complete."""
        messages = (entry.message for entry in DirectoryLog(self.folder / "logs" / table).read() if entry is not None)
        return sorted(row.user for batch in Iter(messages) for row, _, _ in batch.updates)

    def known(self, table: str) -> int:
        """Up to where a log is complete."""
        plain = json.loads(self._run("verify", "--json", self.folder / "logs").out)
        return int(plain["tables"][table]["frontier"][0])


@pytest.fixture
def site(run: Run, tmp_path: Path) -> Site:
    """Two tables; of the second half of their records it is bound when they came, and nothing is written."""
    site = Site(tmp_path, run)
    site.grow("clicks", "views")
    assert 0 == site.capture(["clicks", "views"]).code
    site.grow("clicks", "views")
    site.crash(BOUND, ["clicks", "views"])
    return site


def test_the_log_of_a_table_that_is_left_out_comes_to_where_the_recipe_begins(run: Run, site: Site) -> None:
    """With all that was bound; the capture with the old arguments finds nothing to write, and stops."""
    lacks = site.known("views")
    said = site.capture(["clicks"], "--propose-recipe")
    until = site.known("views")
    site.grow("clicks", "views")
    again, old = site.capture(["clicks"]), site.capture(["clicks", "views"])

    assert (0, "", 0, 4) == (said.code, said.err, again.code, old.code), again.err + old.err
    assert ["u0", "u1", "u2"] == site.users("views")
    assert lacks < until == site.known("views") < site.known("clicks")
    assert "'views' is captured here, and not bound" in old.err
    assert 6 == len(site.users("clicks"))
    assert 0 == run("verify", "--full", site.folder / "logs").code


@pytest.mark.parametrize("step", [IN_FORCE, READ, TABLE_WRITTEN, TABLE_STATED, BROUGHT])
def test_killed_anywhere_the_next_start_does_the_rest(run: Run, site: Site, step: str) -> None:
    """Without the option, too; and no compaction meanwhile forgets what the log lacks."""
    site.crash(step, ["clicks"], "--propose-recipe")
    compacted = run("compact-remap", site.folder / "remap", "--keep", 0)
    site.grow("clicks")
    said = site.capture(["clicks"])

    assert (0, 0, "") == (compacted.code, said.code, said.err)
    assert ["u0", "u1", "u2"] == site.users("views")
    assert 6 == len(site.users("clicks"))
    assert 0 == run("compact-remap", site.folder / "remap", "--keep", 0).code
    assert 0 == site.capture(["clicks"]).code


def test_a_log_that_was_complete_and_one_that_was_not_come_there_together(run: Run, site: Site) -> None:
    """Killed between the statements of two tables, the capture before left the one that stays behind."""
    site.crash(TABLE_STATED, ["clicks", "views"])
    assert site.known("clicks") > site.known("views")
    assert 0 == site.capture(["views"], "--propose-recipe").code
    assert [4, 4] == [len(site.users(table)) for table in ("clicks", "views")]


def test_tables_are_left_out_one_after_the_other(run: Run, tmp_path: Path) -> None:
    """Each by a start that dies; the last one brings both to where they were left out."""
    site = Site(tmp_path, run)
    site.grow(*TABLES)
    assert 0 == site.capture(TABLES).code
    site.grow(*TABLES)
    site.crash(BOUND, TABLES)
    site.crash(IN_FORCE, TABLES[:2], "--propose-recipe")
    site.crash(IN_FORCE, TABLES[:1], "--propose-recipe")
    assert 0 == site.capture(TABLES[:1]).code
    assert [4, 3, 3] == [len(site.users(table)) for table in TABLES]
    back = site.capture(TABLES, "--propose-recipe")
    assert (0, [4, 4, 4]) == (back.code, [len(site.users(table)) for table in TABLES]), back.err


def test_what_can_be_written_no_more_is_named_and_the_others_go_on(run: Run, site: Site) -> None:
    """The topic is missing, and is why the table was left out."""
    del site.topics["views"]
    site.grow("clicks")
    said = site.capture(["clicks"], "--propose-recipe")
    assert (0, 6) == (said.code, len(site.users("clicks")))
    assert "the log of views, left out from the time" in said.err and "may end before that: " in said.err
    assert "the topic 'web.views', partition 0, is missing" in said.err, said.err
    assert 2 == len(site.users("views"))


def test_a_record_that_is_no_row_ends_the_log_before_it(run: Run, tmp_path: Path) -> None:
    """It stopped all of them, and the table is left out to have the others go on."""
    site = Site(tmp_path, run)
    site.grow("clicks", "views")
    assert 0 == site.capture(["clicks", "views"]).code
    site.grow("views", value="{}")
    site.grow("clicks")
    assert 3 == site.capture(["clicks", "views"]).code
    said = site.capture(["clicks"], "--propose-recipe")
    assert (0, 4, 2) == (said.code, len(site.users("clicks")), len(site.users("views"))), said.err
    assert "may end before that: " in said.err and "web.views[0]@2" in said.err


def test_a_log_that_is_not_there_is_not_made(run: Run, site: Site) -> None:
    """The logs are new: what was bound before is for a capture with the old arguments."""
    shutil.rmtree(site.folder / "logs")
    said = site.capture(["clicks"], "--propose-recipe")
    assert (1, True) == (said.code, "a capture with that one writes them, and stops there" in said.err), said.err
    assert not (site.folder / "logs" / "views").exists()


def test_the_row_type_of_a_topic_is_in_its_folder(tmp_path: Path) -> None:
    """A topic does not know its rows; those of others do not fit."""
    kind = RowType(ROW)

    def none(*of: object) -> None:
        raise UsageError("not asked for")

    logs = CaptureLogs(LogAddress.parse("kafka:of.{table}"), tmp_path, none, none, 1)  # type: ignore[arg-type]
    of = {"database": "bank", "table": "public.t", "row": kind.fingerprint}
    assert logs.kind("bank.public.t", of) is None
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "public.t.avsc").write_text(json.dumps(ROW), "utf-8")
    assert kind == logs.kind("bank.public.t", of)
    assert logs.kind("bank.public.t", {**of, "row": "other"}) is None


@pytest.mark.parametrize("lost", [None, "public.orders"])
def test_a_database_that_is_left_out_comes_there_too(
    run: Run, recorded: Path, tmp_path: Path, lost: str | None  # noqa: F811
) -> None:
    """With its transactions as far as they are complete; TEMP as well. Without the log of a table, that is named."""
    rows = tmp_path / "rows"
    shutil.copytree(recorded / "rows", rows)
    (rows / "clicks.avsc").write_text(json.dumps(ROW), "utf-8")
    clicks = write(tmp_path / "clicks.jsonl", [
        {"topic": "web", "partition": 0, "offset": 0, "value": '{"user": "u"}'},
    ])  # fmt: skip
    plain = ["--rows", rows, "--plain", "clicks=web"]

    def both(dump: str) -> list[object]:
        words = of_database(recorded, tmp_path, "--bind-at-most", 10**6, dump=dump)
        return [*words[:2], clicks, *words[2:], *plain]

    assert 1 == run(*both("clean_full-half.jsonl")).code
    with failpoints.placed(BOUND), pytest.raises(failpoints.PlacedCrash):
        run(*both("clean_full.jsonl"))
    if lost is not None:
        shutil.rmtree(tmp_path / "logs" / lost)
    said = run("capture", recorded / "clean_full.jsonl", clicks, "--remap", tmp_path / "remap", "--into",
               tmp_path / "logs", *plain, "--propose-recipe")  # fmt: skip
    if lost is not None:
        assert 0 == said.code and f"may end before that: the log of {lost} is not there" in said.err, said.err
        return
    assert (0, "") == (said.code, said.err)
    whole = tmp_path / "whole"
    assert 0 == run(*of_database(recorded, whole)).code
    for table in ("public.orders", "public.order_items"):
        ours, theirs = (run("as-of", folder / "logs", "--table", table).out for folder in (tmp_path, whole))
        assert theirs == ours != ""
    assert "0 are held" in run("open-transactions", tmp_path / "logs" / "_temp" / "clean_full").err
