"""Recipes: their text, in which points two differ and whether that matters, and what both know together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdcv2.errors import ForeignStateError
from cdcv2.timeline.recipe import MAPPING, BoundRecipe

BANK = BoundRecipe(
    {"account": {"database": "bank", "table": "public.account", "row": "7f"}, "orders": {"topic": "shop", "row": "8e"}},
    {"bank": {"snapshot": "initial", "empty": ["public.note"]}}, {"shop": "id-1", "bank.tx": "id-2"},
    {"shop": {"0": 4}}, "T1", 2,
)  # fmt: skip
WHOLE = (
    '{"begins":{"shop":{"0":4}},"cdcv2-capture":1,"databases":{"bank":{"empty":["public.note"],"snapshot":"initial"}},'
    '"mapping":2,"tables":{"account":{"database":"bank","row":"7f","table":"public.account"},"orders":{"row":"8e",'
    '"topic":"shop"}},"timeline":"T1","topics":{"bank.tx":"id-2","shop":"id-1"}}'
)


def table(**of: Any) -> BoundRecipe:
    """A recipe of the table ``t``."""
    return BoundRecipe({"t": of})


def database(**options: Any) -> BoundRecipe:
    """A recipe of the database ``p``."""
    return BoundRecipe({}, {"p": options})


def test_the_text_of_a_recipe_is_the_same_for_equal_ones() -> None:
    """As remaps hold it: a change of it is another recipe for every capture that is out there."""
    assert WHOLE == BANK.text() and BANK == BoundRecipe.parse(WHOLE)
    assert BoundRecipe({}) == BoundRecipe.parse(BoundRecipe({}).text())
    assert ({}, {}, {}, None, MAPPING) == (*list(vars(BoundRecipe({})).values())[1:],)


@pytest.mark.parametrize("change", [
    {"cdcv2-capture": 2}, {"cdcv2-capture": None}, {"tables": 7}, {"databases": None}, {"topics": 3}, {"begins": [4]},
    {"mapping": "x"},
], ids=str)  # fmt: skip
def test_what_no_capture_bound_is_refused(change: dict[str, Any]) -> None:
    """Also the recipe of a later release, and one that lacks a part."""
    with pytest.raises(ForeignStateError, match="which is no recipe of a capture"):
        BoundRecipe.parse(json.dumps({**json.loads(WHOLE), **change}))
    lacking = {name: value for name, value in json.loads(WHOLE).items() if name not in change}
    with pytest.raises(ForeignStateError):
        BoundRecipe.parse(json.dumps(lacking))


@pytest.mark.parametrize("text", ["v1", "[]", "7", "{}"])
def test_a_text_that_is_no_recipe_is_named_in_part(text: str) -> None:
    """Other programs may bind times, too; at most eighty letters of theirs are shown, and what is wrong."""
    with pytest.raises(ForeignStateError, match=r"bound under .*, which is no recipe") as refused:
        BoundRecipe.parse(text + " " * 200)

    assert repr(text)[:-1] in str(refused.value) and " " * 81 not in str(refused.value)


@pytest.mark.parametrize("mine, bound, found", [
    (table(topic="a"), table(topic="b"), ["'t' has topic 'a', bound 'b'"]),
    (table(row="7f", topic="a"), table(topic="b", key="id"), [
        "'t' has key None, bound 'id'", "'t' has row '7f', bound None", "'t' has topic 'a', bound 'b'",
    ]),
    (BoundRecipe({"d": {}, "b": {}, "c": {}}), BoundRecipe({"e": {}, "a": {}, "c": {}}), [
        "'b' is captured here, and not bound", "'d' is captured here, and not bound",
        "'a' is bound, and not captured here", "'e' is bound, and not captured here",
    ]),
    (BoundRecipe({}, {"p": {"before": "full"}}), BoundRecipe({}, {"p": {}, "q": {}}), [
        "'p' has before 'full', bound None", "'q' is bound, and not captured here",
    ]),
    (BoundRecipe({}, mapping=3), BoundRecipe({}, mapping=2), ["the mapping is version 3, bound 2"]),
    (BoundRecipe({}, timeline="T1"), BoundRecipe({}, timeline="T2"), ["the timeline is T1, bound T2"]),
    (BoundRecipe({}, timeline="T1"), BoundRecipe({}), []), (BoundRecipe({}), BoundRecipe({}, timeline="T1"), []),
    (BoundRecipe({}, topics={"a": "1"}), BoundRecipe({}, begins={"a": {"0": 4}}), []),
])  # fmt: skip
def test_differences_are_each_named_and_what_one_alone_knows_is_none(
    mine: BoundRecipe, bound: BoundRecipe, found: list[str]
) -> None:
    """Mapping, tables, databases, timeline, each sorted."""
    assert found == mine.differences(bound) and not mine.differences(mine)


@pytest.mark.parametrize("mine, bound, found", [
    (table(topic="a", key="id"), table(topic="b"), []),
    (table(row="7f"), table(row="8e"), ["'t' has row '7f', bound '8e'"]),
    (table(database="p"), table(database="q"), ["'t' has database 'p', bound 'q'"]),
    (table(table="x"), table(table="y"), ["'t' has table 'x', bound 'y'"]),
    (table(row="7f"), BoundRecipe({}), []),
    (database(snapshot="initial"), database(snapshot="never"), ["'p' has snapshot 'initial', bound 'never'"]),
    (database(ordering="T"), database(), ["'p' has ordering 'T', bound None"]),
    (database(before="full"), database(before="key"), ["'p' has before 'full', bound 'key'"]),
    (database(empty=["a"], other=1), database(), []),
    (BoundRecipe({"c": {"database": "p"}, "b": {"database": "p"}, "x": {}}, {"p": {}}),
     BoundRecipe({"b": {"database": "p"}, "a": {"database": "p"}, "y": {"database": "q"}}, {"p": {}, "q": {}}),
     ["'p' has the tables b, c, bound a, b"]),
    (BoundRecipe({"a": {"database": "q"}}, {"q": {}}), BoundRecipe({}, {"p": {}}), []),
])  # fmt: skip
def test_logs_serve_another_recipe_unless_rows_or_databases_are_of_another_kind(
    mine: BoundRecipe, bound: BoundRecipe, found: list[str]
) -> None:
    """The type of the rows, the place in a database, how that was started and with which tables."""
    assert found == mine.unlike(bound) and not mine.unlike(mine)


def test_tables_that_one_alone_takes_for_empty_are_named() -> None:
    """Of the databases that both have."""
    mine = BoundRecipe({}, {"p": {"empty": ["b", "c"]}, "mine": {"empty": ["x"]}, "q": {"empty": ["e"]}})
    bound = BoundRecipe({}, {"p": {"empty": ["c", "a"]}, "bound": {"empty": ["y"]}, "q": {}})

    assert ["a", "b", "e"] == mine.assumed_otherwise(bound) == bound.assumed_otherwise(mine)
    assert [] == mine.assumed_otherwise(mine)


def test_topics_that_were_made_again_under_their_names_are_named() -> None:
    """Those that both know, sorted."""
    mine = BoundRecipe({}, topics={"d": "1", "b": "1", "a": "1", "same": "1"})

    assert ["b", "d"] == mine.recreated_topics({"d": "2", "b": "3", "same": "1", "new": "2"})


def test_joined_recipes_know_what_both_know() -> None:
    """What is bound goes first; of topics that have not started, the later begin, partition by partition."""
    mine = BoundRecipe(
        {"t": {"topic": "a"}}, {"p": {}}, {"a": "1", "b": "1"},
        {"a": {"0": 9}, "b": {"0": 4, "1": 9, "2": 1, "4": 0}, "c": {"0": 2}}, "T1",
    )  # fmt: skip
    bound = BoundRecipe({}, {}, {"a": "2", "d": "2"}, {"a": {"0": 3}, "b": {"0": 7, "1": 5, "3": 6}}, "T2")
    before = mine.text(), bound.text()

    assert BoundRecipe(
        {"t": {"topic": "a"}}, {"p": {}}, {"a": "2", "b": "1", "d": "2"},
        {"a": {"0": 3}, "b": {"0": 7, "1": 9, "2": 1, "3": 6, "4": 0}, "c": {"0": 2}}, "T2",
    ) == mine.joined(bound, ["a", "never"])  # fmt: skip
    assert before == (mine.text(), bound.text())


def test_a_recipe_names_its_topics_and_reads_those_of_its_databases() -> None:
    """Also those that were not there when it was bound; of no other."""
    assert {("shop", 0): 4} == BANK.firsts and {"shop", "bank.tx"} == BANK.sources
    assert [True, True, True, False, False, False] == [
        BANK.reads(topic) for topic in ("shop", "bank.tx", "bank.public.new", "bank", "banker.tx", "shop.x")
    ]
    assert (True, False) == (BANK.has("orders"), BANK.has("shop")) and not BoundRecipe({}).reads("a")
