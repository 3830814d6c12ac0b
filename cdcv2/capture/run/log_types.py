"""What a capture reports of logs that keep other types of the source than the row schemas that it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cdcv2.logs import log_json
from cdcv2.protocol.log import LogAddress
from cdcv2.rows.altered_columns import altered_text
from cdcv2.rows.row_type import RowType


def kept_types(logs: Iterable[tuple[Path, RowType]]) -> list[str]:
    """A line for each directory log, given with its row schema, that keeps another. Raises what reading it raises."""
    found = [altered_text(folder, log_json.read(folder).row_type, given) for folder, given in logs]
    return [text for text in found if text is not None]


def in_directories(logs: LogAddress, rows: Mapping[str, RowType]) -> list[tuple[Path, RowType]]:
    """The directory logs at an address, by their names, with their row schemas; topics keep none."""
    places = [(logs.of(name), row_type) for name, row_type in sorted(rows.items())]
    return [(Path(place.name), row_type) for place, row_type in places if not place.is_topic]
