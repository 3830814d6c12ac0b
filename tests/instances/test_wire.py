"""Every message has one written form, which a golden file keeps; what is none is refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import (
    ANSWERS, COMMANDS, AllowCompaction, CancelPeek, CreateIndex, CreateInstance, DroppedAt, Frontiers, IndexedTable,
    InitializationComplete, Peek, PeekResponse, RowChange, RowCount, Tail, TailResponse,
)
from cdcv2.instances.wire import decode, encode

GOLDEN = Path(__file__).parent.parent / "golden" / "instances" / "messages.jsonl"
MESSAGES = [
    CreateInstance("5f0c"),
    CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"), IndexedTable("items", ("order", "n"), "log-2")), 7),
    AllowCompaction("main", Antichain([9])),
    AllowCompaction("main", Antichain()),
    Peek("p1", "main", {"orders": ((42,), ("Zoë",)), "items": ((1, None),)}, 9),
    CancelPeek("p1"),
    Tail("t1", "main", "orders", Antichain([10]), 7),
    InitializationComplete(),
    Frontiers("main", Antichain([12])),
    PeekResponse("p1", {"orders": ((RowCount({"id": 42}, 1),), ()), "items": ((),)}),
    PeekResponse("p1", error="canceled"),
    TailResponse("t1", Antichain([10]), Antichain(), (RowChange({"id": 42}, 11, -1),)),
    DroppedAt("t1", Antichain([12]), "the index main was dropped"),
]


def test_messages_are_written_as_they_were() -> None:
    """An instance and a controller of two versions understand each other only by this: the JSON, however it is escaped.
    """
    lines = GOLDEN.read_text("utf-8").splitlines()
    assert [json.loads(encode(message)) for message in MESSAGES] == [json.loads(line) for line in lines]
    assert MESSAGES == [decode(line) for line in lines]
    assert {type(message) for message in MESSAGES} == {*COMMANDS, *ANSWERS}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_written_is_read_again(message: object) -> None:
    assert decode(encode(message)) == message  # type: ignore[arg-type]


@pytest.mark.parametrize("moment", [None, 10, 10.5, 0, -1.5])
def test_a_moment_is_left_out_where_it_is_not_known(moment: float | None) -> None:
    """As releases left it out that did not know it; stated as null it is not known, either."""
    line = encode(Frontiers("main", Antichain([12]), moment))
    plain = {"id": "main", "upper": [12]} | ({} if moment is None else {"committed_at": moment})
    assert {"Frontiers": plain} == json.loads(line)
    for one in (line, json.dumps({"Frontiers": {"id": "main", "upper": [12], "committed_at": moment}})):
        found = decode(one).committed_at
        assert (moment, True) == (found, found is None or type(found) is float)


@pytest.mark.parametrize(("moment", "shown"), [
    ("true", "True"), ('"10"', "'10'"), ("[10]", "[10]"), ("{}", "{}"), ("1e999", "inf"), ("-1e999", "-inf"),
])  # fmt: skip
def test_what_is_no_moment_is_refused(moment: str, shown: str) -> None:
    with pytest.raises(MalformedError, match=f"{re.escape(shown)} is no moment"):
        decode(f'{{"Frontiers": {{"id": "main", "upper": [12], "committed_at": {moment}}}}}')


def test_any_text_of_json_can_be_sent() -> None:
    """Half of a pair of UTF-16, too, which is no text in UTF-8: else one client would end the controller."""
    message = CancelPeek(json.loads('"\\ud800"'))

    assert message == decode(encode(message).encode())


@pytest.mark.parametrize("line", [
    "", "{}", "[]", "null", '{"Peek": {}}', '{"Nothing": {}}', '{"CancelPeek": {"uuid": 7}}',
    '{"CancelPeek": {"uuid": "a", "more": 1}}', '{"CancelPeek": {"uuid": "a"}, "CreateInstance": {"nonce": "a"}}',
    '{"Frontiers": {"id": "main", "upper": [1, 2]}}', '{"Frontiers": {"id": "main", "upper": [true]}}',
    '{"Frontiers": {"id": "main", "upper": [-1]}}', '{"Frontiers": {"id": "main", "upper": 3}}',
    '{"CreateIndex": {"id": "main", "tables": [["orders", [], "log"]], "since": 0}}',
    '{"CreateIndex": {"id": "main", "tables": [], "since": 0}}',
    '{"Peek": {"uuid": "a", "id": "main", "keys": {"orders": [7]}, "time": 1}}',
    '{"Peek": {"uuid": "a", "id": "main", "keys": {"orders": [[7]]}, "time": 1.5}}',
])  # fmt: skip
def test_what_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(MalformedError):
        decode(line)


@pytest.mark.parametrize(("line", "shown"), [
    ('{"Nothing": {}}', """'{"Nothing": {}}'"""),
    ('{"A": "' + "x" * 91 + '"}', repr('{"A": "' + "x" * 91 + '"}')),
    ('{"A": "' + "x" * 92 + '"}', repr('{"A": "' + "x" * 92 + '"...')),
    ('{"A": "' + "x" * 900 + '"}', repr('{"A": "' + "x" * 93 + "...")),
    ('{"Zoë": {}}'.encode(), """'{"Zoë": {}}'"""), (b'{"No\xff": {}}', """'{"No\ufffd": {}}'"""),
])  # fmt: skip
def test_what_is_no_message_is_shown_as_far_as_it_is_short(line: str | bytes, shown: str) -> None:
    """A hundred characters of it."""
    with pytest.raises(MalformedError) as caught:
        decode(line)
    assert str(caught.value).startswith(f"{shown} is no message of an instance or its controller: ")
