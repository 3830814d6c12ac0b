"""Pictures state what is there, and can be read: no label lies on another one, or over the edge, at any width."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.viz import CopyBox, PipelinePicture, TableLine, TimelineBar, TimelinePicture, open_transactions
from cdcv2.viz.draw_logs import draw_logs
from cdcv2.viz.draw_pipeline import draw_pipeline
from cdcv2.viz.draw_timeline import draw_timeline
from cdcv2.viz.draw_logs import LogLane, LogsPicture
from cdcv2.viz.logs_picture import picture_of

ROW = RowType.load({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
SVG = "{http://www.w3.org/2000/svg}"


def labels(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, right, top and bottom of each text, of letters that are 7.3 wide and 12 high."""
    found = []
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        x, y, wide = float(text.attrib["x"]), float(text.attrib["y"]), 7.3 * len(text.text or "")
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[text.attrib["text-anchor"]]
        found.append((left, left + wide, y - 10, y + 2))
    return found


def check_readable(svg: str, width: int) -> None:
    root, places = ElementTree.fromstring(svg), labels(svg)
    _, _, wide, high = map(float, root.attrib["viewBox"].split())
    assert width == wide and places
    for left, right, top, bottom in places:
        assert 0 <= left and right <= wide + 0.5 and 0 <= top and bottom <= high
    for one, other in combinations(places, 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
        assert apart, (one, other)
    for box in root.iter(f"{SVG}rect"):
        assert float(box.attrib.get("x", 0)) + float(box.attrib["width"]) <= wide + 4


names = st.text("<&abc_.\"'", max_size=90)
times = st.integers(0, 2**62)
counts = st.lists(st.tuples(times, st.integers(1, 10**6)), max_size=5).map(lambda found: tuple(sorted(found)))
spans = st.lists(st.tuples(times, times | st.none()), max_size=5).map(
    lambda found: tuple((low, None if high is None else low + high) for low, high in found)
)
widths = st.sampled_from([360, 500, 719, 720, 1280, 1600])
steps = st.lists(st.tuples(st.integers(0, 40), times | st.none()), max_size=5).map(
    lambda found: tuple(sorted(found, key=lambda one: one[0]))
)
lanes = st.builds(LogLane, names, counts, counts, spans, spans, counts, times | st.none(), steps)
copies = st.builds(CopyBox, names, names, st.sampled_from([True, False, None]))
tables = st.builds(TableLine, names, copies | st.none(), st.lists(copies, max_size=3).map(tuple))
bars = st.lists(st.builds(TimelineBar, names, times, times | st.none()), max_size=23).map(tuple)


@settings(max_examples=40)
@given(st.lists(lanes, max_size=8), st.integers(0, 10**9), widths)
def test_the_labels_of_logs_lie_apart(given_lanes: list[LogLane], messages: int, width: int) -> None:
    """Whatever is in them."""
    check_readable(draw_logs(LogsPicture(tuple(given_lanes), messages, 17), width), width)


@settings(max_examples=40)
@given(names, st.lists(tables, max_size=10), widths)
def test_the_labels_of_pipelines_lie_apart(name: str, lines: list[TableLine], width: int) -> None:
    """Ten tables, and none."""
    check_readable(draw_pipeline(PipelinePicture(name, tuple(lines)), width), width)


@settings(max_examples=40)
@given(names, st.lists(times, max_size=9), bars, bars, widths)
def test_the_labels_of_timelines_lie_apart(
    name: str, bindings: list[int], captures: tuple[TimelineBar, ...], transactions: tuple[TimelineBar, ...], width: int
) -> None:
    """More transactions than are drawn, too."""
    check_readable(draw_timeline(TimelinePicture(name, tuple(sorted(bindings)), captures, transactions), width), width)


def test_a_picture_is_for_light_and_dark_and_asks_for_nothing_from_elsewhere() -> None:
    """And is refused where it would be too narrow or too wide."""
    svg = draw_pipeline(PipelinePicture("shop", ()))

    assert "@media (prefers-color-scheme: dark)" in svg
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?:[^\"']*", svg)
    assert not re.search(r"url\(|href|@import|<script", svg)
    for width in (359, 1601):
        with pytest.raises(UsageError, match=f"a picture of {width} pixels: it is from 360 to 1600 wide"):
            draw_pipeline(PipelinePicture("shop", ()), width)


histories = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 11)), max_size=14, unique=True)


@settings(max_examples=60)
@given(histories, st.lists(st.integers(0, 5), max_size=3), st.sets(st.integers(0, 20)), st.integers(0, 99))
def test_the_model_is_what_is_in_the_log(
    history: list[tuple[int, int]], unstated: list[int], lost: set[int], seed: int
) -> None:
    """By counting over all times: statements cover two times each, some lack, and so do some updates."""
    updates = [(ROW.row((number,)), time, 1) for number, time in history]
    there = [one for at, one in enumerate(updates) if at not in lost]
    number = Counter(time for _, time, _ in updates)
    statements = [Progress([low], [low + 2], {time: number[time] for time in (low, low + 1) if number[time]})
                  for low in range(0, 12, 2) if low // 2 not in unstated]
    messages = list(mangle([Updates(there), *statements], seed=seed, copies=2))
    picture = picture_of(covered([NamedLog("t", MemoryLog("t", messages), ROW)]))
    (lane,) = picture.lanes
    stated = {time for one in statements for time in (one.lower.elements[0], one.lower.elements[0] + 1)}
    came = Counter(time for _, time, _ in there)
    frontier = next(time for time in range(13) if time not in stated or came[time] < number[time])

    assert (frontier, frontier, len(messages)) == (lane.frontier, picture.frontier, picture.messages)
    assert {time: count for time, count in came.items() if time < frontier} == dict(lane.finished)
    assert {time: count for time, count in came.items() if time >= frontier} == dict(lane.waiting)
    assert stated == {time for low, high in lane.stated for time in range(low, high or 0)}
    assert all(high is not None and high < low for (_, high), (low, _) in pairwise(lane.stated))
    gaps = {time for time in range(max(stated, default=0)) if time not in stated}
    assert gaps == {time for low, high in lane.gaps for time in range(low, high or 0)}
    assert {time: number[time] - came[time] for time in stated if number[time] > came[time]} == dict(lane.lacks)
    assert frontier == (lane.steps[-1][1] if lane.steps else None)
    assert list(lane.steps) == sorted(lane.steps)


def test_a_notebook_shows_a_picture_and_times_that_are_no_numbers_are_refused() -> None:
    """It is the drawing itself; in a line it is short."""
    picture = picture_of(covered([NamedLog("t", MemoryLog("t", [Progress([0], [], {})]), ROW)]))
    assert picture._repr_html_().startswith("<svg") and "the history is finished" in picture._repr_html_()
    assert "LogsPicture(t 0 updates; 1 messages)" == repr(picture)
    assert "PipelinePicture(shop: 0 tables)" == repr(PipelinePicture("shop", ()))
    assert "<svg" in PipelinePicture("shop", ())._repr_html_() + TimelinePicture("r", (), (), ())._repr_html_()
    with pytest.raises(UsageError, match="the times of t are no whole numbers"):
        picture_of(covered([NamedLog("t", MemoryLog("t"), ROW, 2)]))


def test_a_transaction_is_open_while_rows_of_it_are_held() -> None:
    """From the first that came to the last that went; one that is still there has no end."""
    temp = RowType.load({"type": "record", "name": "temp", "fields": [
        {"name": "transaction", "type": ["null", "string"]}, {"name": "number", "type": "long"}]})

    def cut(upper: int, *changes: tuple[str | None, int, int, int]) -> Cut:
        rows: list[Any] = [(temp.row((name, number)), time, diff) for name, number, time, diff in changes]
        return Cut({"temp": rows}, Antichain([0]), Antichain([upper]))

    cuts = [
        cut(3, ("7", 1, 1, 1), (None, 0, 1, 1), ("8", 1, 2, 1)), cut(6, ("7", 2, 4, 1), ("7", 1, 5, -1)),
        cut(9, ("7", 2, 8, -1), ("9", 1, 7, 1), ("9", 1, 8, -1)),
    ]
    assert [("transaction 7", 1, 8), ("transaction 8", 2, None), ("transaction 9", 7, 8)] == sorted(
        tuple(bar) for bar in open_transactions(cuts)
    )
