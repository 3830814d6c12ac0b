"""Keys as one has them: of a row of an answer, as a text on a command line, a UUID in capitals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.errors import UsageError
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.forms import form_of
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from cdcv2.rows.row_type import RowType
from tests.serving import served

UUID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
THINGS = RowType({"type": "record", "name": "things", "fields": [
    {"name": "code", "type": ["null", "string"]},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "raw", "type": ["null", "bytes"]},
    {"name": "uid", "type": {"type": "string", "connect.name": "io.debezium.data.Uuid"}},
    {"name": "number", "type": "long"},
]})  # fmt: skip
PLAIN = {"code": "42", "price": "42.00", "raw": "AAE=", "uid": UUID, "number": 7}
QUOTED = "Its keys are texts: on a command line"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An instance of five tables, which are one, each by another column; and one by two."""
    logs = []
    for name in (*THINGS.columns, "two"):
        log = DirectoryLog(tmp_path / name, THINGS, create=True,
                           description=LogDescription(timeline="t", identity=name, log_set="t"))  # fmt: skip
        writer = cdcv2.Writer(log)
        writer.extend([(THINGS.row(THINGS.from_plain(PLAIN)), 1, 1)])
        writer.advance([2])
        log.flush()
        logs.append(NamedLog(name, DirectoryLog(log.path), THINGS))
    keys = {name: [name] for name in THINGS.columns} | {"two": ["code", "number"]}
    with served(LoneInstance(logs, keys), tmp_path / "shop.sock") as path:
        yield path


def test_a_key_of_a_row_of_an_answer_is_taken(place: Path) -> None:
    client = cdcv2.connect(place)
    [row] = client.peek({"number": 7})["number"]
    assert (type(row.price), type(row.raw)) == (bytes, bytes)
    for column in THINGS.columns:
        assert [*client.peek({column: getattr(row, column)})[column]] == [row]
    assert [*client.peek({"two": (row.code, row.number)})["two"]] == [row]
    for keys in ({"price": 42}, {"price": "42"}, {"price": "42.00"}, {"uid": UUID.upper()}, {"raw": "AAE="}):
        [name] = keys
        assert [*client.peek(keys)[name]] == [row]
    for wrong in ({"code": b"42"}, {"number": b"7"}, {"price": 4.5}, {"raw": 7}):
        with pytest.raises(UsageError, match="column '"):
            client.peek(wrong)
    assert repr(client) == f"InstanceClient({str(place)!r})"


@pytest.mark.parametrize("key, code, text", [
    ("code=42", 2, QUOTED), ('code="42"', 0, "1 rows"), ("two=42,7", 2, QUOTED), ('two="42",7', 0, "1 rows"),
    ("price=42", 0, "1 rows"), ("price=42.00", 2, QUOTED), ('price="42.00"', 0, "1 rows"), ("number=x", 2, "fits long"),
    (f"uid={UUID.upper()}", 0, "1 rows"),
])  # fmt: skip
def test_a_key_on_a_command_line_is_found_or_it_is_said_how_to_write_it(
    key: str, code: int, text: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peek", key, "--instance", str(place)]) == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("value", [{"bytes": "AAE="}, {"bytes": 7}, {}, {"bytes": "AAE=", "more": 1}, None])
def test_only_bytes_may_be_an_object(value: Any) -> None:
    for column in ("code", "uid", "number"):
        if value is not None:
            with pytest.raises(cdcv2.errors.MalformedError, match=f"column '{column}'"):
                form_of(THINGS, [column]).key_from_plain([value])
    expected = {"AAE=": bytes([0, 1])}.get(value["bytes"]) if value and len(value) == 1 else None
    if value is None or expected is not None:
        assert form_of(THINGS, ["raw"]).key_from_plain([value]) == expected
    else:
        with pytest.raises(cdcv2.errors.MalformedError, match="column 'raw'"):
            form_of(THINGS, ["raw"]).key_from_plain([value])
