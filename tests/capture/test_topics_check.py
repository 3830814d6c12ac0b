"""Whether what is asked for and the topics that are there meet: an error where nothing would ever be complete."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.capture.facts import PartialImage, Record
from cdcv2.capture.table_content import UnknownChange
from cdcv2.capture.topics import TopicExtents
from cdcv2.capture.topics_check import check_dumped, check_meet, listed, shown
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import MissingLogError
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
NOTED = Recipe("src", {"public.t": ROWS}, notification_topic="notes")
QUIET = Recipe("src", {"public.t": ROWS})
NONE_OF_OURS = "none of the captured tables has a topic"
NO_NOTES = "there is no topic 'notes'"


@pytest.mark.parametrize(
    ("recipe", "topics", "how", "remarks", "error"),
    [
        (NOTED, {"src.public.t", "notes"}, {}, [], None),
        # Other tables have topics, and none of ours: they may come later, or the notifications state that all is empty.
        (QUIET, {"src.public.u"}, {}, [], NONE_OF_OURS),
        (QUIET, {"src.public.u"}, {"follow": True}, [NONE_OF_OURS], None),
        (NOTED, {"src.public.u", "notes"}, {}, [NONE_OF_OURS], None),
        (NOTED, {"src.public.u"}, {}, [], NONE_OF_OURS),
        (NOTED, {"src.public.u"}, {"follow": True}, [NONE_OF_OURS, NO_NOTES], None),
        # The notifications may come later, too, or are not needed any more.
        (NOTED, {"src.public.t"}, {"begun": False}, [], NO_NOTES),
        (NOTED, {"src.public.t"}, {"begun": True}, [NO_NOTES], None),
        (NOTED, {"src.public.t"}, {}, [NO_NOTES], None),
        (NOTED, {"src.public.t"}, {"begun": False, "follow": True}, [NO_NOTES], None),
    ],
)
def test_they_meet_or_may_still(
    recipe: Recipe, topics: set[str], how: dict[str, bool], remarks: list[str], error: str | None
) -> None:
    """What lacks and may come is a remark; what cannot come is an error."""
    found: list[str] = []
    wanted: dict[str, Any] = {"follow": False, "remark": found.append, **how}
    if error is None:
        check_meet(recipe, topics, **wanted)
    else:
        with pytest.raises(MissingLogError, match=error):
            check_meet(recipe, topics, **wanted)

    assert len(remarks) == len(found)
    assert all(text.startswith(beginning) for text, beginning in zip(found, remarks))


@pytest.mark.parametrize("topics", [set(), {"src.public.t"}, {"src.transaction", "x.public.t"}, {"src.public.u"}])
def test_a_dump_that_may_be_the_connectors(topics: set[str]) -> None:
    """One of its topics is enough; topics of other tables of it are another error's."""
    check_dumped(QUIET, topics)


def test_a_dump_of_others_is_refused() -> None:
    """With the prefix that was given, and what is there."""
    with pytest.raises(MissingLogError, match=r"topics src\.\*: is the prefix right\? It has x.public.t, y.public.t$"):
        check_dumped(QUIET, {"y.public.t", "x.public.t"})


def test_some_names_are_shown() -> None:
    """Five, in order; and those of Kafka's own topics are not listed."""
    assert ("a, b, c, d, e", "a, b, c, d, e, ...", "none") == (shown("edcba"), shown("fedcba"), shown(""))
    assert "Topics of the prefix src: src.a, src.b" == listed("src", ["src.b", "srcc.a", "src.a", "_src.c"])
    assert "Topics that are there: a" == listed("src", ["_src.t", "a"])
    assert "Topics that are there: none" == listed("src", ["_a"])


def test_plain_facts() -> None:
    """What a record, a partial image and the extents of topics show of themselves."""
    extents = TopicExtents({("a", 0): (3, 7), ("a", 1): (0, 2), ("b", 0): (1, 1)})
    image = PartialImage(("id", "v", "w"), (1, None, 3))

    assert Position("a", 2, 9) == Record("a", 2, 9, None, None).position
    assert PartialImage(("id", "w"), (1, 3)) == image.only({"w", "id", "x"})
    assert (frozenset("ab"), {("a", 0): 7, ("a", 1): 2, ("b", 0): 1}) == (extents.topics, extents.ends)


def test_an_unknown_change_has_its_reason_and_remedy() -> None:
    """For the stop that it becomes."""
    error = UnknownChange("no such row", "snapshot again")

    assert ("no such row", "snapshot again", "no such row") == (error.reason, error.remedy, str(error))
