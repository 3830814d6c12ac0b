"""The mark of a view, and what a checkpoint must be of: the same for ever, and another for another view."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize import Count, Last, Max, Min, Sum, ViewBinding
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.rows.row_type import RowType
from cdcv2.views.identity import Provenance, demand_known_view, demand_provenance, demand_same, marks
from cdcv2.views.reductions import BoundReduction, Reduction

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def rows(*, nullable: bool = False, source: str | None = None, price: Any = None) -> RowType:
    """Rows of three columns; text may be of a type of the source, and null."""
    text: dict[str, Any] = {"name": "text", "type": ["null", "string"] if nullable else "string"}
    if source is not None:
        text["cdcv2.source"] = {"type": source}
    fields = [{"name": "id", "type": "long"}, text, {"name": "price", "type": price or PRICE}]
    return RowType({"type": "record", "name": "t", "fields": fields})


KEYED = ViewBinding("sales", rows(), "shops", ("id",))
REDUCED = replace(KEYED, reduce={"n": Count(), "sum": Sum("price"), "low": Min("text"), "high": Max("text", False)})
LAST = replace(KEYED, reduce={"newest": Last("text")}, deletes="soft")


class Own(Reduction):
    """A reduction of one's own, without settings."""

    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """As Count."""
        return Count().bind(name, row_type)


def mark(binding: ViewBinding) -> str:
    """Of one view."""
    return marks([binding])[binding.target]


def at(views: dict[str, str] | None, state: Any = None) -> Checkpoint:
    """A checkpoint of these views."""
    return Checkpoint(Antichain([7]), state, views)


@pytest.mark.parametrize(("binding", "text"), [
    (
        KEYED,
        '{"columns": [["id", "long", null, null], ["price", "decimal", 9, 2], ["text", "string", null, null]], '
        '"deletes": "hard", "delta": false, "key": ["id"], "log": "sales", "reduce": []}',
    ),
    (
        replace(KEYED, key=(), delta=True, deletes="soft"),
        '{"columns": [["cdcv2_count", "long", null, null], ["cdcv2_row", "string", null, null], '
        '["id", "long", null, null], ["price", "decimal", 9, 2], ["text", "string", null, null]], '
        '"deletes": "soft", "delta": true, "key": ["cdcv2_row"], "log": "sales", "reduce": []}',
    ),
    (
        REDUCED,
        '{"columns": [["high", "string", null, null], ["id", "long", null, null], ["low", "string", null, null], '
        '["low_values", "json", null, null], ["n", "integer", null, null], ["sum", "decimal", null, 2]], '
        '"deletes": "hard", "delta": false, "key": ["id"], "log": "sales", "reduce": [["n", "Count", {}], '
        '["sum", "Sum", {"column": "price"}], ["low", "Min", {"column": "text", "retractions": true}], '
        '["high", "Max", {"column": "text", "retractions": false}]]}',
    ),
    (
        replace(LAST, row_type=rows(source="numeric"), reduce={"newest": Last("text"), "x": Last("price"), "y": Own()}),
        '{"columns": [["cdcv2_count", "integer", null, null], ["cdcv2_deleted", "boolean", null, null], '
        '["id", "long", null, null], ["newest", "string", null, null], ["newest_rows", "json", null, null], '
        '["x", "decimal", 9, 2], ["x_rows", "json", null, null], ["y", "integer", null, null]], '
        '"deletes": "soft", "delta": false, "key": ["id"], "log": "sales", '
        '"reduce": [["newest", "Last", {"column": "text", "retractions": true}, "by value"], '
        '["x", "Last", {"column": "price", "retractions": true}], ["y", "Own", {}]]}',
    ),
], ids=["keyed", "multiset", "reduced", "last"])  # fmt: skip
def test_a_mark_is_the_digest_of_what_the_view_is(binding: ViewBinding, text: str) -> None:
    """Every checkpoint has it: another text would refuse all views that are there."""
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == mark(binding)


def test_marks_are_by_target() -> None:
    """Of each view one."""
    other = replace(KEYED, target="other", log="orders")

    assert {"shops": mark(KEYED), "other": mark(other)} == marks(iter([KEYED, other]))
    assert mark(KEYED) == mark(replace(KEYED, target="other"))


def test_what_may_be_null_may_change() -> None:
    """The log decides it."""
    assert mark(KEYED) == mark(replace(KEYED, row_type=rows(nullable=True)))


@pytest.mark.parametrize("other", [
    replace(KEYED, log="orders"), replace(KEYED, key=("text",)), replace(KEYED, key=("id", "text")),
    replace(KEYED, delta=True), replace(KEYED, deletes="soft"), replace(KEYED, reduce={"n": Count()}),
    replace(KEYED, row_type=rows(price={**PRICE, "scale": 3})), replace(KEYED, row_type=rows(price="long")),
], ids=str)  # fmt: skip
def test_a_view_that_has_become_another_is_refused(other: ViewBinding) -> None:
    """With what it was and what to do."""
    demand_same("shop", [KEYED], at(marks([KEYED])))
    with pytest.raises(RefusedError) as caught:
        demand_same("shop", iter([replace(KEYED, target="first"), other]), at(marks([KEYED]) | {"first": mark(KEYED)}))
    assert str(caught.value).startswith(
        f"'shop' is at {Antichain([7])}, and its view 'shops' was another (its log, columns, reductions or deletes): "
        "what came before would be missing or wrong there. Leave it as it was; or materialize again"
    )


def test_a_view_that_is_new_is_refused() -> None:
    """One that is left out is not; and nothing is known of what states no views."""
    demand_same("shop", [KEYED], at(None))
    demand_same("shop", [], at(marks([KEYED])))
    demand_known_view("shop", "shops", at(None))
    demand_known_view("shop", "shops", at(marks([KEYED])))
    for refused in (
        lambda: demand_same("shop", [replace(KEYED, target="more")], at(marks([KEYED]))),
        lambda: demand_known_view("shop", "more", at(marks([KEYED]))),
    ):
        with pytest.raises(RefusedError) as caught:
            refused()
        assert str(caught.value).startswith(
            f"'shop' is at {Antichain([7])}, and its view 'more' is new: what came before would be missing or wrong "
            "there. Leave it out; or materialize again"
        )


def test_a_last_value_of_an_earlier_release_is_refused_with_the_reason() -> None:
    """It kept no rows: its mark had no columns of rows, no settings but the column, and no rank."""
    binding = replace(LAST, row_type=rows(source="numeric"), reduce={"newest": Last("text"), "low": Min("text")})
    old = json.dumps({
        "columns": [
            ["cdcv2_count", "integer", None, None], ["cdcv2_deleted", "boolean", None, None],
            ["id", "long", None, None], ["low", "string", None, None], ["low_values", "json", None, None],
            ["newest", "string", None, None],
        ],
        "deletes": "soft", "delta": False, "key": ["id"], "log": "sales", "reduce": [
            ["newest", "Last", {"column": "text"}],
            ["low", "Min", {"column": "text", "retractions": True}, "by value"],
        ],
    })  # fmt: skip
    digest = hashlib.sha256(old.encode()).hexdigest()[:16]
    with pytest.raises(RefusedError, match="'shop' is at .* view 'shops' was begun by an earlier release, whose last"):
        demand_same("shop", [binding], at({"shops": digest}))
    with pytest.raises(RefusedError, match="was another"):
        demand_same("shop", [binding], at({"shops": "00"}))
    with pytest.raises(RefusedError, match="is new"):
        demand_same("shop", [KEYED], at({}))
    demand_same("shop", [binding], at(marks([binding])))


def test_a_provenance_states_what_it_knows() -> None:
    """In one order, and nothing of a log that states nothing."""
    assert {} == Provenance().to_plain() == Provenance(logs={"a": []}).to_plain()
    assert {"timeline": "x", "logs": {"a": ["1"]}} == Provenance("x", {"a": ["1"]}).to_plain()
    assert {"logs": {"a": ["1", "2"]}} == Provenance(logs={"a": ["2", "1"], "b": []}).to_plain()


def test_a_checkpoint_of_another_timeline_is_refused() -> None:
    """Its times mean something else; what states no timeline is not compared."""
    for state in (None, [], "x", {}, {"timeline": None}, {"timeline": "x", "logs": None}, {"logs": ["a"]}):
        demand_provenance("shop", Provenance("x", {"a": ["1"]}), at(None, state))
    for now, words in ((Provenance("y"), "of y"), (Provenance(), "of none that they state")):
        with pytest.raises(ForeignStateError) as caught:
            demand_provenance("shop", now, at(None, {"timeline": "x"}))
        assert str(caught.value).startswith(
            f"'shop' is at {Antichain([7])} of the timeline x, and its logs are {words}: their times have nothing to "
            "do with each other. Give it the logs that it was made of"
        )


def test_a_checkpoint_of_another_log_is_refused() -> None:
    """Of several copies one must be known. A log that is left out is not compared."""
    state = {"logs": {"a": ["1", "2"], "gone": ["9"], "b": ["3"]}}
    demand_provenance("shop", Provenance(None, {"a": ["2", "4"], "b": ["3"]}), at(None, state))
    for logs, words in (
        ({"a": ["2"], "b": []}, "another log 'b': of 3, and it is one that states no identity now. Give"),
        ({"a": ["4", "5"]}, "another log 'a': of 1 and 2, and it is 4 and 5 now. Give"),
        ({"a": ["4"], "c": ["2"]}, "another log 'a': of 1 and 2 (now called 'c'), and it is 4 now. Give"),
    ):
        with pytest.raises(ForeignStateError) as caught:
            demand_provenance("shop", Provenance(None, logs), at(None, state))
        assert str(caught.value).startswith(f"'shop' is at {Antichain([7])}, and was made of {words}")
