"""A log goes on with a row schema whose columns were altered only where its values mean what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import ForeignStateError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.rows.altered_columns import altered_text, demand_same_meaning
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType

LONG, INT, TEXT, BYTES = "long", "int", "string", "bytes"


def rows(physical: str, source: SourceType | None) -> RowType:
    """Of one column."""
    n: dict[str, Any] = {"name": "n", "type": ["null", physical]}
    return RowType({"type": "record", "name": "t", "fields": [
        n if source is None else {**n, "cdcv2.source": source.to_plain()},
    ]})


def typed(name: str, **more: Any) -> SourceType:
    """A type of the source."""
    return SourceType(name, **more)


def listed(items: SourceType) -> SourceType:
    """An array of it."""
    return SourceType("array", items=items)


OTHERS = [
    (LONG, typed("timestamp"), typed("timestamp", precision=3)), (LONG, typed("int8"), typed("timestamp")),
    (LONG, typed("interval"), typed("timestamp")), (LONG, typed("time"), typed("interval")),
    (INT, typed("int4"), typed("date")), (INT, typed("date"), typed("time", precision=3)),
    (BYTES, typed("bytea"), typed("bit", length=9)), (BYTES, typed("bit", length=9), typed("bit", length=12)),
    (TEXT, listed(typed("timestamp")), listed(typed("timestamp", precision=0))),
]  # fmt: skip
ALIKE = [
    (LONG, typed("timestamp"), typed("timestamp", precision=5)), (LONG, typed("int8"), typed("oid")),
    (INT, typed("int2"), typed("int4")), (TEXT, typed("numeric", precision=12, scale=2), typed("numeric")),
    (TEXT, typed("varchar", length=3), typed("text")), ("boolean", typed("bool"), typed("bit", length=1)),
    (LONG, None, typed("timestamp", precision=3)), (LONG, typed("timestamp"), None),
]  # fmt: skip


@pytest.mark.parametrize(("physical", "was", "now"), OTHERS)
def test_another_meaning_of_the_same_value_is_refused(
    tmp_path: Path, physical: str, was: SourceType, now: SourceType
) -> None:
    """Both ways, when a log is opened with the other row type; nothing would separate the rows before and after."""
    for number, (held, given) in enumerate([(was, now), (now, was)]):
        folder = tmp_path / str(number)
        DirectoryLog(folder, rows(physical, held), create=True)
        with pytest.raises(ForeignStateError, match="would mean something else in rows that come now"):
            DirectoryLog(folder, rows(physical, given))
        assert rows(physical, held).sources == DirectoryLog(folder).row_type.sources


@pytest.mark.parametrize(("physical", "was", "now"), ALIKE)
def test_what_means_the_same_goes_on_and_is_reported(
    tmp_path: Path, physical: str, was: SourceType | None, now: SourceType | None
) -> None:
    """Both ways; where one of both states nothing there is nothing to report."""
    for held, given in ((was, now), (now, was)):
        demand_same_meaning(tmp_path, rows(physical, held), rows(physical, given))
        text = altered_text(tmp_path, rows(physical, held), rows(physical, given))
        assert (text is None) == (held is None or given is None)
        assert text is None or "keeps the types of the source that it began with: n is {" in text
