"""The conformance set under docs/conformance, which other languages' implementations run too.

Its bytes are written by hand; here they are checked against this implementation and, where another Avro library
has an opinion, against that.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cdcv2.errors import DecodeError
from cdcv2.logs.avro import MessageCodec, message_schema
from cdcv2.logs.jsonlines import JsonLines
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.names import avro_name, column_name
from cdcv2.rows.row_type import RowType

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "conformance"
SETS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def of_messages(kind: str) -> list[Any]:
    """Every case of this kind, with the codecs of its set."""
    found = []
    for name in ("messages", "product_times"):
        row_type = RowType(SETS[name]["row"])
        codec, lines = MessageCodec(row_type, SETS[name]["times"]), JsonLines(row_type)
        found += [pytest.param(codec, lines, case, id=f"{name}: {case['name']}") for case in SETS[name][kind]]
    return found


def of_rows(kind: str) -> list[Any]:
    """Every type's cases of this kind, with a row type of one column."""
    found = []
    for number, case in enumerate(SETS["rows"]["types"]):
        row_type = RowType({"type": "record", "name": "data", "fields": [{"name": "c", "type": case["type"]}]})
        found += [pytest.param(row_type, item, id=f"{number} {item.get('name', '')}") for item in case[kind]]
    return found


def raw(text: str) -> bytes:
    """Bytes of hexadecimal digits; spaces are for people."""
    return bytes.fromhex(text)


@pytest.mark.parametrize(("codec", "lines", "case"), of_messages("canonical"))
def test_messages_are_written_and_read_exactly_so(codec: MessageCodec, lines: JsonLines, case: Any) -> None:
    """The published encoding, byte for byte."""
    message = lines.message(case["message"])

    assert raw(case["hex"]) == codec.encode(message)
    assert message == codec.decode(raw(case["hex"]))
    assert case["message"] == lines.plain(message)


@pytest.mark.parametrize(("codec", "lines", "case"), of_messages("canonical"))
def test_another_avro_library_writes_the_same(codec: MessageCodec, lines: JsonLines, case: Any) -> None:
    """With the schema as it would be registered, with the namespace and without."""
    for schema in (codec.schema, message_schema(codec.row_type, codec.times, "")):
        parsed, out = fastavro.parse_schema(json.loads(json.dumps(schema))), io.BytesIO()
        read = fastavro.schemaless_reader(io.BytesIO(raw(case["hex"])), parsed, None)
        fastavro.schemaless_writer(out, parsed, read)

        assert raw(case["hex"]) == out.getvalue()
        assert codec.schema == MessageCodec.from_schema(json.loads(json.dumps(schema))).schema


@pytest.mark.parametrize(("codec", "lines", "case"), of_messages("readable"))
def test_other_bytes_of_a_message_are_read(codec: MessageCodec, lines: JsonLines, case: Any) -> None:
    """Other writers are free where Avro is."""
    assert lines.message(case["message"]) == codec.decode(raw(case["hex"]))


@pytest.mark.parametrize(("codec", "lines", "case"), of_messages("refused"))
def test_what_is_no_message_is_refused(codec: MessageCodec, lines: JsonLines, case: Any) -> None:
    """Each with a reason, and with a DecodeError only."""
    with pytest.raises(DecodeError) as caught:
        codec.decode(raw(case["hex"]))

    assert caught.value.reason and caught.value.raw == raw(case["hex"])


@pytest.mark.parametrize(("row_type", "case"), of_rows("rows"))
def test_rows_have_one_canonical_form(row_type: RowType, case: Any) -> None:
    """Equal rows have equal bytes, and other bytes of a row are read as that row."""
    row = row_type.from_plain({"c": case["plain"]})

    assert raw(case["canonical"]) == row_type.encode(row)
    assert {row} == {row_type.decode(raw(text)) for text in [case["canonical"], *case["also"]]}
    assert {"c": case["plain"]} == row_type.to_plain(row)


@pytest.mark.parametrize(("row_type", "case"), of_rows("refused"))
def test_what_is_no_row_is_refused(row_type: RowType, case: Any) -> None:
    """A wrong byte in a column is never a value."""
    with pytest.raises(DecodeError):
        row_type.decode(raw(case["hex"]))


@pytest.mark.parametrize(("column", "name"), SETS["names"]["names"])
def test_columns_have_their_avro_names(column: str, name: str) -> None:
    """Both ways."""
    assert (name, column) == (avro_name(column), column_name(name))


def test_a_reader_shows_what_the_published_scenario_shows() -> None:
    """Six steps: what is visible at the frontier that is reached after each."""
    case = SETS["reader"]
    codec, collection = MessageCodec(RowType(case["row"]), case["times"]), Counter[Any]()
    reader = Resolver(case["start"])
    for step in case["steps"]:
        for text in step["messages"]:
            batch = reader.absorb(codec.decode(raw(text)))
            for row, _, diff in batch.updates if batch else []:
                collection[row] += diff
        visible = [codec.row_type.to_plain(row) for row in collection.elements()]

        assert (step["visible"], step["frontier"]) == (visible, reader.frontier.to_plain()), step["note"]
