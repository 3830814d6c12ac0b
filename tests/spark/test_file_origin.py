"""On Spark, a file of a directory log is read in its own place only."""

from __future__ import annotations

from cdcv2.logs.container import Origin, pack
from cdcv2.spark.sources import _messages

MINE = Origin("7f", "0c", 3)
PATH = "file:/logs/things/00000000000000000003.avro"


def read(raw: bytes, place: Origin) -> list[tuple[object, object]]:
    """Its messages, each with what is wrong with it."""
    batches = list(_messages("/logs/things", place, PATH, raw))
    return [(row["value"], row["fault"]) for batch in batches for row in batch.to_pylist()]


def test_a_file_in_the_place_of_another_is_a_fault() -> None:
    """Nothing of it is given out; the fault names both."""
    raw = pack([b"a", b"b"], MINE)

    assert [(b"a", None), (b"b", None)] == read(raw, MINE._replace(number=None))
    for place in (Origin("7e", "0c", None), Origin("7f", "0d", None)):
        ((value, fault),) = read(raw, place)
        assert value is None
        assert f"it is {MINE}, and stands in the place of {place._replace(number=3)}" == fault
