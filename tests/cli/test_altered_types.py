"""A column that was altered in the source: its log goes on where values mean what they did, and every message helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import test_command_capture_edges as edges
from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import Captures

FIRST, SECOND = "1.50", "2.2512"


class Altered(Captures):
    """Captures of one table whose column ``v`` has the type of the source that is set."""

    physical, source = "string", dict[str, Any]()

    def arrange_rows(self, tables: str) -> Path:
        """A folder with the row type."""
        rows = self.folder / f"rows{json.dumps(self.source)}"
        rows.mkdir(exist_ok=True)
        fields = [{"name": "id", "type": "int"},
                  {"name": "v", "type": ["null", self.physical], "cdcv2.source": self.source}]  # fmt: skip
        schema = {"type": "record", "name": "t", "fields": fields}
        (rows / "public.t.avsc").write_text(json.dumps(schema))
        return rows


def dump(*values: object) -> list[str]:
    """A transaction for each value, which is in a row of its own."""
    lines = []
    for number, value in enumerate(values):
        tx, lsn = 5 + number, 120 + 20 * number
        one: dict[str, Any] = {
            "op": "c", "before": None, "after": {"id": number, "v": value},
            "transaction": {"id": f"{tx}:1", "total_order": 1, "data_collection_order": 1},
            "source": {"version": "3.7.0.Final", "connector": "postgresql", "name": "p", "schema": "public",
                       "table": "t", "lsn": lsn - 5, "txId": tx, "snapshot": "false",
                       "sequence": json.dumps([str(lsn - 20), str(lsn - 5)])},
        }  # fmt: skip
        end = {"status": "END", "id": f"{tx}:{lsn}", "event_count": 1,
               "data_collections": [{"data_collection": "public.t", "event_count": 1}]}  # fmt: skip
        for topic, plain in (("p.public.t", one), ("p.transaction", end)):
            lines.append(json.dumps({
                "topic": topic, "partition": 0, "offset": number, "timestamp": number, "key": None,
                "value": json.dumps(plain),
            }))
    return lines


@pytest.fixture
def altered(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Altered:
    """Captures into a folder of the test's."""
    monkeypatch.chdir(tmp_path)
    return Altered(run, tmp_path)


WAYS = pytest.mark.parametrize("more", [[], ["--remap", "remap"]], ids=["commit times", "remap"])


@WAYS
def test_a_column_whose_values_mean_something_else_is_refused(altered: Altered, more: list[str]) -> None:
    """Microseconds and milliseconds are the same longs: one log holds one of them."""
    altered.physical, altered.source = "long", {"type": "timestamp"}
    micros, millis = 1_700_000_000_000_001, 1_700_000_000_000
    assert 0 == altered(dump(micros), "--snapshot", "none", *more).code
    altered.source = {"type": "timestamp", "precision": 3}
    said = altered(dump(micros, millis), "--snapshot", "none", *more)

    assert 4 == said.code and "logs/public.t has the column 'v' as " in said.err, said.err
    assert "capture into new logs, from a new snapshot" in said.err
    assert [0] == altered.held()


@WAYS
def test_a_number_with_more_digits_goes_on_and_is_reported(altered: Altered, more: list[str]) -> None:
    """A reader of the log believes the log; the remedy names where to put the new schema, and is tried."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    altered.source = {"type": "numeric", "precision": 12, "scale": 2}
    text = (
        "materialization: m\nlogs: logs\nbindings: [{log: public.t, target: t, key: [id]}]\n"
        "target: {driver: lake, folder: %s}\nrecovery_log: r%s\n"
    )
    Path("m.yaml").write_text(text % ("lake", "lake"), "utf-8")
    assert 0 == altered(dump(FIRST), "--snapshot", "none", *more).code
    assert 0 == altered.run("materialize", "m.yaml").code
    altered.source = {"type": "numeric", "precision": 14, "scale": 4}
    said = altered(dump(FIRST, SECOND), "--snapshot", "none", *more)

    assert 0 == said.code and "keeps the types of the source that it began with: v is " in said.err, said.err
    refused = altered.run("materialize", "m.yaml")
    assert 3 == refused.code and "cannot hold the value Decimal('2.2512')" in refused.err, refused.err
    assert "If the column was altered in the source: make the row schema again" in refused.err
    types = altered.arrange_rows("t").name
    Path("m.yaml").write_text(text % ("new", "new") + f"types: '{types}'\n", "utf-8")
    assert [0, 0] == [altered.run(command, "m.yaml").code for command in ("materialize", "compare")]


def having(line: str, v: int, before: int | None = None) -> str:
    """The record with this value in its row, and, where it is an update, with this one in the old row."""
    plain = json.loads(line)
    value = json.loads(plain["value"])
    value["after"]["v"] = v
    if before is not None:
        value |= {"op": "u", "before": {**value["after"], "v": before}}
    return json.dumps({**plain, "value": json.dumps(value)})


@pytest.mark.parametrize("more", [
    (), ("--before", "from-state"), ("--before", "from-state", "--full-identity", "public.t"), ("--remap", "remap"),
], ids=["envelope", "state", "full", "remap"])  # fmt: skip
@pytest.mark.parametrize("scanned_as, streamed", [(-622191234, 2146033979), (-625821272, -2147472691)])
def test_an_infinite_date_of_a_snapshot_goes_when_it_is_changed(
    altered: Altered, scanned_as: int, streamed: int, more: tuple[str, ...]
) -> None:
    """The connector writes it as one number in a snapshot, and as another in the old row of the first change."""
    altered.physical, altered.source = "int", {"type": "date"}
    notes = [edges.note(0, "STARTED"), edges.scanned(1, 2), edges.note(2, "COMPLETED")]
    rows = [having(line, scanned_as) for line in edges.BEGUN]
    change = [having(edges.insert(0, 2, 1, 5, 1, 100), 7, streamed), edges.end(1, 5, 120, 1)]
    begin = edges.record("p.transaction", 0, 0, {"status": "BEGIN", "id": "5:1"})
    said = altered([begin, *notes, *rows, *change], *edges.NOTIFIED, *more)
    shown = altered.run("as-of", altered.logs, "--table", "public.t")

    assert 0 == said.code, said.err
    assert (0, f"id,v\n1,7\n3,{streamed}\n") == (shown.code, shown.out), shown.err


def test_a_number_that_is_no_date_is_taken_as_it_is(altered: Altered) -> None:
    """Of a column whose type in the source is another, or is not known."""
    altered.physical, altered.source = "int", {"type": "int4"}
    assert 0 == altered([having(line, -622191234) for line in edges.BEGUN]).code
    shown = altered.run("as-of", altered.logs, "--table", "public.t")
    assert "id,v\n1,-622191234\n3,-622191234\n" == shown.out, shown.err
