"""A change is looked up in its table; what cannot be known there is reported, with the remedy."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cdcv2.capture.before_images import Content, Contents
from cdcv2.capture.facts import End, PartialChange, PartialChangeFact, PartialImage, Record, UnfitRow
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.table_content import UnknownChange
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, SourceStop, UsageError
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.rows.values import NAN
from tests.doubles import RecordingLog

TABLE, TOPIC = "public.t", "src.public.t"
COLUMNS = ("id", "name", "size")
ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]},
    {"name": "size", "type": ["null", "double"]}]})


def row(number: int, name: str | None = None, size: float | None = None) -> Any:
    """A row."""
    return ROWS.row((number, name, size))


def whole(number: int, name: str | None = None, size: float | None = None) -> PartialImage:
    """All of a row."""
    return PartialImage(COLUMNS, row(number, name, size))


def key(number: int) -> PartialImage:
    """Which row it is."""
    return PartialImage(("id",), (number,))


def content(*rows: Any) -> Content:
    """A table that holds these."""
    return Content(TABLE, ROWS, {one: rows.count(one) for one in rows})


def changed(start: Content, *told: PartialChange) -> list[tuple[Any, int]]:
    """What a transaction of these changes does."""
    return start.change(list(enumerate(told, 1)))


# -- a table


def test_a_row_is_found_by_its_key() -> None:
    """Whatever it was, it goes; inserted and updated in one transaction, too."""
    table = content(row(1, "a"), row(2, "b"))
    assert [(row(1, "a"), -1), (row(1, "c"), 1)] == changed(table, PartialChange("u", key(1), None, whole(1, "c")))
    assert [(row(3, "x"), 1), (row(3, "x"), -1), (row(3, "y"), 1), (row(3, "y"), -1)] == changed(
        table, PartialChange("c", key(3), None, whole(3, "x")), PartialChange("u", key(3), None, whole(3, "y")),
        PartialChange("d", key(3), None, None),
    )
    assert {row(1, "c"): 1, row(2, "b"): 1} == table.rows


def test_what_a_change_left_out_is_taken_from_the_row_that_goes() -> None:
    """In an update, from the row of its key; in an insert, from the row of the delete directly before."""
    table = content(row(1, "large", 1.5))
    part = PartialImage(("id", "size"), (1, 2.5))
    assert [(row(1, "large", 1.5), -1), (row(1, "large", 2.5), 1)] == changed(
        table, PartialChange("u", key(1), None, part)
    )
    moved = PartialImage(("id", "size"), (7, 2.5))
    assert [(row(1, "large", 2.5), -1), (row(7, "large", 2.5), 1)] == changed(
        table, PartialChange("d", key(1), None, None), PartialChange("c", key(7), None, moved)
    )


@pytest.mark.parametrize("between", [
    [PartialChange("c", key(5), None, whole(5))], [PartialChange("t", None, None, None)],
    [PartialChange("u", key(2), None, whole(2))],
])
def test_only_the_delete_directly_before_fills_an_insert(between: list[PartialChange]) -> None:
    """Any other change between them, or a number that is missing: the value is not known."""
    start = [row(1, "large"), row(2, "other")]
    moved = PartialChange("c", key(7), None, PartialImage(("id", "size"), (7, None)))
    with pytest.raises(UnknownChange, match="inserted without its large value of 'name'"):
        changed(content(*start), PartialChange("d", key(1), None, None), *between, moved)
    with pytest.raises(UnknownChange, match="inserted without its large value of 'name'"):
        content(*start).change([(1, PartialChange("d", key(1), None, None)), (3, moved)])


def test_truncate_takes_away_every_row_of_that_moment() -> None:
    """Equal rows together; rows inserted before it in the transaction go, those after it stay."""
    table = content(row(1), row(1), row(2))
    assert [(row(3), 1), (row(1), -2), (row(2), -1), (row(3), -1), (row(3), 1)] == changed(
        table, PartialChange("c", None, None, whole(3)), PartialChange("t", None, None, None),
        PartialChange("c", None, None, whole(3))
    )
    assert {row(3): 1} == table.rows


def test_a_key_is_free_again_behind_a_truncate() -> None:
    """As are all others."""
    table = content(row(1, "a"))
    changed(table, PartialChange("u", key(1), None, whole(1, "b")), PartialChange("t", None, None, None))
    assert [(row(1), 1)] == changed(table, PartialChange("c", key(1), None, whole(1)))
    with pytest.raises(UnknownChange, match="not there, the key id=2"):
        changed(table, PartialChange("d", key(2), None, None))


def test_changes_are_done_in_their_order_not_in_that_of_their_arrival() -> None:
    """A partition may hurry ahead of another."""
    log = RecordingLog()
    capture = Capture(RECIPE, {TABLE: log})
    absorb(
        capture, told_row(5, 3, PartialChange("c", key(1), None, whole(1, "b"))),
        told_row(5, 2, PartialChange("d", key(1), None, None)),
        End(5, 70, {TABLE: 3}), told_row(5, 1, PartialChange("c", key(1), None, whole(1, "a"))),
    )
    capture.release()
    assert [Updates([(row(1, "b"), 70, 1)]), Progress([0], [71], {70: 1})] == log.durable


def test_a_row_without_a_key_is_found_by_all_that_it_was() -> None:
    """One of equal rows goes; NaN is itself."""
    table = content(row(1, "a", NAN), row(1, "a", NAN))
    done = changed(
        table,
        PartialChange("u", None, whole(1, "a", NAN), whole(1, "b")),
        PartialChange("d", None, whole(1, "a", NAN), None),
    )
    assert [(row(1, "a", NAN), -1), (row(1, "b"), 1), (row(1, "a", NAN), -1)] == done
    with pytest.raises(UnknownChange, match=r"a row of public.t was deleted that is not there: Row\(id=1, name='a'"):
        changed(table, PartialChange("d", None, whole(1, "a", NAN), None))


def test_a_key_that_was_dropped_tells_rows_apart_no_more() -> None:
    """ALTER TABLE ... DROP CONSTRAINT: from then on equal ids are fine, and a new key finds what is there then."""
    table = content(row(1, "a"))
    changed(table, PartialChange("u", key(1), None, whole(1, "b")))
    assert [(row(1, "c"), 1)] == changed(table, PartialChange("c", None, None, whole(1, "c")))
    assert [(row(1, "c"), -1)] == changed(table, PartialChange("d", PartialImage(("name",), ("c",)), None, None))


def test_rows_told_by_their_values_may_share_a_key_for_a_moment() -> None:
    """As with a deferrable key: each update moves on to the key of the next row."""
    table = content(row(1, "a"), row(2, "b"))
    changed(
        table, PartialChange("d", None, whole(1, "a"), None), PartialChange("c", None, None, whole(2, "a")),
        PartialChange("d", None, whole(2, "b"), None), PartialChange("c", None, None, whole(3, "b")),
    )
    assert {row(2, "a"): 1, row(3, "b"): 1} == table.rows


def test_old_values_that_come_with_a_key_must_be_what_the_row_had() -> None:
    """Those that are given; NaN equals NaN."""
    table = content(row(1, "a", NAN))
    changed(table, PartialChange("u", key(1), PartialImage(("id", "size"), (1, NAN)), whole(1, "b", 2.5)))
    with pytest.raises(
        UnknownChange, match="the key id=1 are not what it had: 'name' was 'b' before, and 'c' in the record"
    ):
        changed(table, PartialChange("u", key(1), whole(1, "c", 2.5), whole(1, "d")))


@pytest.mark.parametrize("told, reason", [
    (PartialChange("u", key(9), None, whole(9)), "a row of public.t was updated that is not there, the key id=9"),
    (PartialChange("d", key(9), None, None), "a row of public.t was deleted that is not there, the key id=9"),
    (PartialChange("c", key(1), None, whole(1, "b")),
     r"the key id=1 was inserted, and there is one already: Row\(id=1"),
])
def test_another_history_is_told(told: PartialChange, reason: str) -> None:
    """A row that is not there, and one that is there already."""
    with pytest.raises(UnknownChange, match=reason):
        changed(content(row(1, "a")), told)


@pytest.mark.parametrize("rows", [[row(1, "a"), row(1, "b")], [row(1), row(1)]])
def test_a_key_that_two_rows_have_is_none(rows: list[Any]) -> None:
    """Reported at the first change by that key, with what to do."""
    with pytest.raises(UnknownChange, match="there are two rows of public.t with the key id=1") as caught:
        changed(content(*rows, row(2)), PartialChange("d", key(2), None, None))
    assert "name it with --full-identity" in caught.value.remedy


def test_another_key_is_another_way_to_find_the_same_rows() -> None:
    """A primary key that was altered."""
    table = content(row(1, "a"), row(2, "b"))
    changed(table, PartialChange("d", key(1), None, None))
    assert [(row(2, "b"), -1)] == changed(table, PartialChange("d", PartialImage(("name",), ("b",)), None, None))


def test_of_rows_with_one_key_the_same_is_named_whatever_order_they_are_in() -> None:
    """Captures that began at other moments hold rows in other orders, and must stop with the same words."""
    rows = [row(2, "a"), row(2, "b"), row(1, "a"), row(1, "b")]
    for some in (rows, rows[::-1]):
        with pytest.raises(UnknownChange, match="with the key id=1$"):
            changed(content(*some), PartialChange("d", key(2), None, None))


# -- the facts of a record


RECIPE = Recipe("src", {TABLE: ROWS}, before="from-state", snapshot="none")
KINDS: dict[str, Any] = {
    "id": "int", "text": "string", "raw": "bytes", "texts": {"type": "array", "items": "string"},
    "numbers": {"type": "array", "items": "int"}, "uuids": {"type": "array", "items": "string"},
    "pairs": {"type": "map", "values": ["null", "string"]},
}
LARGE = RowType({"type": "record", "name": "t", "fields": [
    {"name": name, "type": kind} for name, kind in KINDS.items()]})
PLACEHOLDER = "__debezium_unavailable_value"


def tell(op: str, before: Any, after: Any, named: Any = None, recipe: Recipe = RECIPE) -> Any:
    """The fact of this change's record."""
    value = {
        "op": op, "before": before, "after": after, "transaction": {
            "id": "7:1040", "total_order": 3, "data_collection_order": 2},
        "source": {"name": "src", "schema": "public", "table": "t", "txId": 7, "lsn": 1040, "snapshot": "false",
                   "sequence": '["1000","1040"]'},
    }
    raw = None if named is None else json.dumps(named).encode()
    return recipe.fact(Record(TOPIC, 1, 17, raw, json.dumps(value).encode()))


def image(number: int | None, name: str | None = None, size: float | None = None) -> dict[str, Any]:
    """A row in JSON."""
    return {"id": number, "name": name, "size": size}


@pytest.mark.parametrize("op, before, after, named, told", [
    ("c", None, image(1, "a"), {"id": 1}, PartialChange("c", key(1), None, whole(1, "a"))),
    ("u", None, image(1, "a"), {"id": 1}, PartialChange("u", key(1), None, whole(1, "a"))),
    ("u", image(1, "z"), image(1, "a"), {"id": 1}, PartialChange("u", key(1), whole(1, "z"), whole(1, "a"))),
    ("u", None, image(1, PLACEHOLDER), {"id": 1},
     PartialChange("u", key(1), None, PartialImage(("id", "size"), (1, None)))),
    ("d", image(1, "made up"), None, {"id": 1}, PartialChange("d", key(1), None, None)),
    ("t", None, None, None, PartialChange("t", None, None, None)),
    ("c", None, image(1), None, PartialChange("c", None, None, whole(1))),
    ("u", image(1, "z"), image(1), None, PartialChange("u", None, whole(1, "z"), whole(1))),
    ("d", image(1, "z"), None, None, PartialChange("d", None, whole(1, "z"), None)),
])
def test_what_a_record_tells(op: str, before: Any, after: Any, named: Any, told: PartialChange) -> None:
    """By its key; of a keyless table, by the whole row. A delete's values outside the key mean nothing."""
    assert PartialChangeFact(TABLE, 7, 3, 2, 1000, told, Position(TOPIC, 1, 17)) == tell(op, before, after, named)


def test_a_table_with_full_identity_is_told_by_its_values() -> None:
    """Where they are given; a table that had another identity before is identified by its key until then."""
    full = Recipe("src", {TABLE: ROWS}, before="from-state", full_identity=frozenset({TABLE}))
    assert PartialChange("d", None, whole(1, "z"), None) == tell("d", image(1, "z"), None, {"id": 1}, full).change
    assert PartialChange("u", key(1), None, whole(1)) == tell("u", None, image(1), {"id": 1}, full).change


def test_untouched_large_values_of_every_type_are_seen() -> None:
    """Text, bytes, arrays of texts, of numbers and of UUIDs, maps: each has a placeholder of its own."""
    large: dict[str, Any] = {
        "id": 1, "text": PLACEHOLDER, "raw": base64.b64encode(PLACEHOLDER.encode()).decode(), "texts": [PLACEHOLDER],
        "numbers": list(PLACEHOLDER.encode()), "pairs": {PLACEHOLDER: PLACEHOLDER},
        # java.util.UUID.nameUUIDFromBytes of the placeholder.
        "uuids": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    }
    recipe = Recipe("src", {TABLE: LARGE}, before="from-state", snapshot="none")
    told = tell("u", None, large, {"id": 1}, recipe).change
    given = {"id": 1, "text": "t", "raw": "AA==", "texts": ["t"], "numbers": [1], "uuids": ["u"], "pairs": {}}

    assert PartialImage(("id",), (1,)) == told.new
    assert tuple(KINDS) == tell("u", None, given, {"id": 1}, recipe).change.new.columns


@pytest.mark.parametrize("op, before, after, named, reason, remedy", [
    ("u", None, image(1), None, "was updated, and neither its old values nor its key are given",
     "ALTER TABLE public.t REPLICA IDENTITY FULL, or give it a primary key"),
    ("d", None, None, None, "was deleted, and neither", "Without a key, before-images must come whole"),
    ("d", image(1, PLACEHOLDER), None, None, "its old values are not all given", "REPLICA IDENTITY FULL"),
    ("c", None, image(1), {"id": 1, "zone": 2}, "the key of a row of public.t is not given: 'zone'", "cdcv2 rows"),
    ("d", image(1), None, {"zone": 2}, "the key of a row of public.t is not given: 'zone'", "column.exclude.list"),
    ("d", None, None, {"id": 1}, "comes without its old values", "the connector's own topics"),
    ("c", None, {"id": 1}, {"id": 1}, "the columns of public.t changed: 'name' is missing, "
     "'size' is missing", "cdcv2 rows"),
    ("c", None, image(None), {"id": 1}, "do not fit its row type: column 'id': None", "cdcv2 rows"),
    ("d", image(None), None, {"id": 1}, "do not fit its row type: column 'id': None", "cdcv2 rows"),
])
def test_what_names_no_row_is_told_with_the_remedy(
    op: str, before: Any, after: Any, named: Any, reason: str, remedy: str
) -> None:
    """A stop at its transaction, not an error of the record."""
    fact = tell(op, before, after, named)
    assert isinstance(fact, UnfitRow)
    assert reason in fact.reason and fact.reason.endswith("in transaction 7")
    assert remedy in fact.remedy


def test_a_wrong_recipe_is_refused() -> None:
    """Old rows come from one place or the other."""
    with pytest.raises(UsageError, match="before is 'from-envelope' or 'from-state', not 'state'"):
        Recipe("src", {TABLE: ROWS}, before="state")


# -- a capture


def absorb(capture: Capture, *facts: Any) -> None:
    """Feed facts."""
    for fact in facts:
        position = fact.position if isinstance(fact, PartialChangeFact) else Position("src.transaction", 0, fact.lsn)
        capture.absorb_fact(fact, position)


def told_row(tx: int, order: int, told: PartialChange, seq: int | None = None) -> PartialChangeFact:
    """A change in a transaction."""
    return PartialChangeFact(TABLE, tx, order, order, seq, told, Position(TOPIC, 0, tx * 10 + order))


def test_what_cannot_be_known_stops_before_its_transaction() -> None:
    """Everything before it is written, also of the same release, and nothing of it; a restart stops there again."""
    log = RecordingLog()
    for _ in range(2):
        capture = Capture(RECIPE, {TABLE: log})
        absorb(
            capture, told_row(5, 1, PartialChange("c", key(1), None, whole(1, "a"))), End(5, 70, {TABLE: 1}),
            told_row(6, 1, PartialChange("c", key(2), None, whole(2)), 70),
            told_row(6, 2, PartialChange("d", key(9), None, None), 70),
            End(6, 80, {TABLE: 2}), told_row(7, 1, PartialChange("d", key(1), None, None), 80), End(7, 90, {TABLE: 1}),
        )
        for _ in range(2):
            with pytest.raises(SourceStop, match="deleted that is not there, the key id=9, in transaction 6") as caught:
                capture.release()
        assert Antichain([71]) == caught.value.frontier
        assert [Updates([(row(1, "a"), 70, 1)]), Progress([0], [71], {70: 1})] == log.durable
        log = log.again()


def test_the_state_is_what_is_stated_at_the_resume_frontier() -> None:
    """Not what a log has that is ahead of the others, not what no statement counts, nothing twice."""
    ahead = RecordingLog([
        Updates([(row(1), 5, 1), (row(2), 6, 1)]), Updates([(row(1), 5, 1)]), Progress([0], [7], {5: 1, 6: 1}),
        Updates([(row(1), 8, -1)]), Progress([7], [9], {8: 1}), Updates([(row(3), 9, 1)]),
    ])
    contents = Contents.of({TABLE: ROWS}, {TABLE: ahead}, {TABLE: 7})
    assert {row(1): 1, row(2): 1} == contents.rows(TABLE)
    assert {row(1): 1, row(2): 1} == Contents.of({TABLE: ROWS}, {TABLE: ahead}, {TABLE: 8}).rows(TABLE)
    assert {row(2): 1} == Contents.of({TABLE: ROWS}, {TABLE: ahead}, {TABLE: 9}).rows(TABLE)
    assert {} == Contents.of({TABLE: ROWS}, {TABLE: ahead}, {TABLE: 0}).rows(TABLE)


def test_a_log_that_lacks_updates_or_is_no_table_is_refused() -> None:
    """Old rows that are not there would make a wrong log of a damaged one."""
    lacking = RecordingLog([Updates([(row(1), 5, 1)]), Progress([0], [7], {5: 1, 6: 1})])
    with pytest.raises(RefusedError, match="lacks what it states before 7 .1 update missing at time 6.*Put back"):
        Contents.of({TABLE: ROWS}, {TABLE: lacking}, {TABLE: 7})
    negative = RecordingLog([Updates([(row(1), 5, -1)]), Progress([0], [7], {5: 1})])
    with pytest.raises(RefusedError, match=r"the log of public.t has -1 of the row Row\(id=1.*Start over"):
        Contents.of({TABLE: ROWS}, {TABLE: negative}, {TABLE: 7})
