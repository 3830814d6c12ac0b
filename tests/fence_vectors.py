"""What installing a fence does, as known cases: for the rule in Python, and for each store that has it in SQL.

Fixtures are installed in their order, each asking for fence 5, with the checkpoint "1", "2", … by its place; so a
parent that is installed last raises its children to 6. A row is (begin, end, fence, checkpoint).
"""

from __future__ import annotations

from typing import NamedTuple

from cdcv2.materialize import Range

Row = tuple[int, int, int, str]

#: the holding of another materialization, which nothing may change
FOREIGN: Row = (0, 4294967295, 99, "foreign")
#: the fence that is asked for
ASKED = 5


class Vector(NamedTuple):
    """One case."""

    name: str
    fixtures: list[Range]
    before: list[Row]
    install: Range
    after: list[Row]
    #: fence and checkpoint that the installer is given
    given: tuple[int, str]


VECTORS = [
    Vector(
        "exact",
        [Range(0, 99), Range(100, 199), Range(200, 299), Range(0, 1000)],
        [(0, 99, 6, "1"), (100, 199, 6, "2"), (200, 299, 6, "3"), (0, 1000, 5, "4")],
        Range(100, 199),
        [(0, 99, 6, "1"), (100, 199, 7, "2"), (200, 299, 6, "3"), (0, 1000, 6, "4")],
        (7, "2"),
    ),
    Vector(
        "split",
        [Range(0, 499), Range(500, 799), Range(800, 1000), Range(0, 1000)],
        [(0, 499, 6, "1"), (500, 799, 6, "2"), (800, 1000, 6, "3"), (0, 1000, 5, "4")],
        Range(500, 599),
        [(500, 599, 7, "2"), (0, 499, 6, "1"), (500, 799, 7, "2"), (800, 1000, 6, "3"), (0, 1000, 6, "4")],
        (7, "2"),
    ),
    Vector(
        "straddle",
        [Range(0, 499), Range(500, 1000), Range(0, 1000)],
        [(0, 499, 6, "1"), (500, 1000, 6, "2"), (0, 1000, 5, "3")],
        Range(400, 599),
        [(400, 599, 6, "3"), (0, 499, 7, "1"), (500, 1000, 7, "2"), (0, 1000, 6, "3")],
        (6, "3"),
    ),
    Vector(
        "covered child",
        [Range(100, 199), Range(0, 1000)],
        [(100, 199, 6, "1"), (0, 1000, 5, "2")],
        Range(100, 800),
        [(100, 800, 6, "2"), (100, 199, 7, "1"), (0, 1000, 6, "2")],
        (6, "2"),
    ),
]
