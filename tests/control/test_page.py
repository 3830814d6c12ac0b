"""The page without a browser: what it shows of a status, that no name is ever HTML, and what its policy allows."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from cdcv2.control.observations import ConnectorObservation
from cdcv2.control.page.document import page_document
from cdcv2.control.page.drawing import draw_page
from cdcv2.control.page.elements import Element, element_of_svg
from cdcv2.control.page.model import PageModel, PageVerdict, Tone
from cdcv2.control.parallel_requests import Reply
from cdcv2.control.pipeline_probe import SourceObservation
from cdcv2.viz.svg import DARK, LIGHT
from tests.page_worlds import (
    CONNECTOR, DATABASE, ENTRIES, FILE, HOSTILE, LSN, WORLDS, all_well, blocked, job, nothing_there, table, ten_tables,
    world,
)

#: What the page is made of. None of them runs, loads or sends anything; links lead to parts of the page.
TAGS = {
    "a", "article", "b", "caption", "code", "dd", "details", "div", "dl", "dt", "h1", "h2", "h3", "header", "li", "nav",
    "ol", "p", "polyline", "rect", "section", "span", "summary", "svg", "table", "tbody", "td", "text", "th", "thead",
    "time", "title", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "aria-hidden", "aria-label", "aria-labelledby", "class", "data-label", "datetime", "height", "href", "id", "points",
    "role", "scope", "text-anchor", "viewBox", "width", "x", "y",
}  # fmt: skip


def elements(root: Element) -> Iterator[Element]:
    yield root
    for child in root.children:
        if isinstance(child, Element):
            yield from elements(child)


def drawn(model: PageModel, width: int = 1280) -> list[Element]:
    return list(elements(draw_page(model, width)))


def of(found: list[Element], tag: str, **attributes: str) -> list[Element]:
    return [one for one in found if one.tag == tag
            and all(one.attributes.get(name.rstrip("_")) == value for name, value in attributes.items())]


def test_nothing_there_is_no_fault_and_names_what_it_waits_for() -> None:
    """Seconds after a start; without a wait, what shows more is named."""
    model = nothing_there().model()
    quiet = nothing_there()
    quiet = quiet._replace(status=quiet.status._replace(jobs=[job("shop", "capture", frontier=None)]))
    text = draw_page(model, 360).text

    assert (model.verdict, model.faults, model.tables) == (PageVerdict.NOTHING, (), ())
    assert "Nothing is there yet." in text and "It waits for the topic shop.transaction, which" in text
    assert f"cdcv2 doctor {FILE}" in draw_page(quiet.model(), 360).text


def test_all_well_has_each_copy_of_each_table_with_how_far_it_is() -> None:
    """What it waits for is that of its job; a timer that waits for its time is well."""
    model = all_well().model()
    first, second = model.tables[:2]
    text = draw_page(model, 1280).text

    assert (model.verdict, model.faults) == (PageVerdict.WELL, ())
    assert (first.copy, first.state, first.behind, first.tone) == ("log", "nothing missing", "0 s behind", Tone.GOOD)
    assert first.waits == ("records of shop.transaction behind offset 9119",)
    assert (second.copy, second.state, second.behind) == ("copy: customers", "moves", "at most 0.8 s behind")
    assert second.why == "the connector may not have written all of it yet" and second.waits == ()
    assert {one.tone for one in model.jobs} == {Tone.GOOD}
    assert [(one.owner, one.since.age if one.since else "") for one in model.entries] == [
        ("owned", "3 d"), ("owned", "3 d"), ("owned", "3 d"), ("not owned", "3 d")]
    for part in ("All is well.", "process 4711 on db7", f"complete through {LSN}", "keeps 4.2 MB of WAL", "16421",
                 "2 h", "f2Qz7bV5Sx-0jM1y", "shop.state/jobs/copy/output.log", "PostgreSQL copy:5432"):
        assert part in text, part


def test_a_blocked_frontier_names_table_cause_and_remedy() -> None:
    """Once, however many tables wait for it; what a mended cause does not mend is listed, too."""
    model = blocked().model()
    connector, held, timer, slot = model.faults
    page = drawn(model)

    assert model.verdict is PageVerdict.ATTENTION
    assert connector.where == "connector shop" and "No space left on device" in connector.what
    assert connector.blocks == ("public.customers", "copy: customers", "public.orders", "copy: orders")
    assert connector.remedy is not None and "/connectors/shop/restart?includeTasks=true" in connector.remedy
    assert [name for name, _ in connector.way][:3] == ["server database of shop", "slot shop", "connector shop"]
    assert connector.way[-1][0] == "target copy" and held.way[-1][0] == "target lake"
    assert (held.where, held.remedy) == (
        "reader lake", f"make room on the disk; then cdcv2 up {FILE} --start-held lake")
    assert (timer.where, timer.what, timer.remedy) == (
        "timer nightly", "orders differs in 2 rows", "cdcv2 repair copy.yaml --dry-run")
    assert slot.where == "replication slot shop" and "refused, tried 7 times: it has the mark" in slot.what
    assert {(one.state, one.tone, one.fault) for one in model.tables} == {("stands still", Tone.BAD, "connector shop")}
    assert {box.well for line in model.picture.tables for box in (line.log, *line.targets) if box} == {False}
    links = of(page, "a", href="#fault-0")
    assert [one.text for one in links] == ["connector shop"] * 4
    assert "connector shop" in of(page, "article", id="fault-0")[0].text


def test_a_log_does_not_stand_still_for_its_reader() -> None:
    """And a reader that is held is the fault of its own targets alone."""
    rows = [table("t", "shop"), table("t", "copy", "t"), table("t", "lake", "t")]
    held = job("lake", "view", state="held", alive=False, reason="a second row of a key")
    model = world(["t"], [job("shop", "capture"), job("copy", "view"), held], rows,
                  view=SourceObservation(DATABASE, CONNECTOR)).model()  # fmt: skip

    assert [one.state for one in model.tables] == ["nothing missing", "nothing missing", "stands still"]
    assert [(one.where, one.blocks) for one in model.faults] == [("reader lake", ("lake: t",))]


@pytest.mark.parametrize(("state", "reason", "expected"), [
    ("wanted", "awaited", (0, Tone.CALM)), ("wanted", "denied", (1, Tone.BAD)), ("lost", None, (1, Tone.BAD)),
    ("wanted", None, (0, Tone.CALM)), ("made", None, (0, Tone.GOOD)), ("made", "drift", (1, Tone.BAD)),
])  # fmt: skip
def test_external_state_needs_a_person_where_it_is_hindered_or_lost(
    state: str, reason: str | None, expected: tuple[int, Tone]
) -> None:
    """What is only waited for needs none."""
    debt = None if reason is None else {"reason": reason, "text": "the role may not", "since": 1.0, "tries": 1}
    made = all_well()._replace(entries=({**ENTRIES[0], "state": state, "debt": debt},)).model()

    assert (len(made.faults), made.entries[0].tone) == expected
    assert made.verdict is (PageVerdict.ATTENTION if expected[0] else PageVerdict.WELL)


def test_not_all_is_well_while_a_target_has_nothing_or_a_job_does_not_run() -> None:
    """Neither is a fault: it may only have started."""
    stopping = all_well()
    jobs = [*stopping.status.jobs[:1], job("copy", "view", state="stopping"), *stopping.status.jobs[2:]]
    stopping = stopping._replace(status=stopping.status._replace(jobs=jobs))

    assert ten_tables().model().verdict is PageVerdict.CHANGING
    assert stopping.model().verdict is PageVerdict.CHANGING


def test_a_job_that_starts_again_and_again_is_a_fault_while_it_runs_too() -> None:
    """Until it comes further. Where another link is the cause, that one is listed alone."""
    rows, again = [table("t", "shop"), table("t", "copy", "t")], job("copy", "view", reason="the disk is full")
    jobs = [job("shop", "capture"), again]
    alone = world(["t"], jobs, rows, view=SourceObservation(DATABASE, CONNECTOR)).model()
    behind = world(["t"], jobs, rows, view=SourceObservation(Reply(error="it is away"), CONNECTOR)).model()
    waits = again._replace(state="waiting", run=0)
    first = world(["t"], [jobs[0], waits], rows, view=SourceObservation(DATABASE, CONNECTOR))

    assert [(one.where, one.what, one.remedy) for one in alone.faults] == [
        ("reader copy", "it runs again, and has come no further than when it ended: the disk is full",
         f"read {again.output}; it continues by itself then")]
    assert [one.where for one in behind.faults] == ["server database of shop"]
    assert [one.tone for one in first.model().jobs] == [Tone.GOOD, Tone.CALM]


def test_a_source_that_cannot_be_asked_leaves_it_unknown_whether_something_is_missing() -> None:
    """The seconds since the last END are shown, and neither text nor picture has them as well."""
    rows = [table("t", "shop", seconds_behind=9.0, basis="since the last END read")]
    model = world(["t"], [job("shop", "capture")], rows, view=SourceObservation(DATABASE, CONNECTOR)).model()

    assert (model.tables[0].state, model.tables[0].tone) == ("not known", Tone.CALM)
    assert model.tables[0].behind == "9.0 s since the last END read"
    assert [line.log.well for line in model.picture.tables if line.log] == [None]


def test_tables_of_one_name_have_their_own_targets_in_the_picture() -> None:
    """Two captures, of two databases; and a view of logs that no capture of the file writes."""
    rows = [table("t", "shop"), table("t", "copy", "t"), table("t", "other"), table("t", "lake", "t"),
            table("u", "far", "u"), table("t", "far", "t")]
    jobs = [*(job(name, "capture") for name in ("shop", "other")), *(job(name, "view") for name in ("copy", "far"))]
    lines = world(["t"], jobs, rows, view=SourceObservation(DATABASE, CONNECTOR)).model().picture.tables

    assert [(line.source, line.log and line.log.name, [box.name for box in line.targets]) for line in lines] == [
        ("shop", "t", ["copy: t"]), ("other", "t", ["lake: t"]), ("not in this file", None, ["far: u"]),
        ("not in this file", None, ["far: t"]),
    ]


def test_what_servers_answer_is_on_the_page() -> None:
    """A connector whose task failed does not run, whatever Connect calls it."""
    connector = Reply(ConnectorObservation("shop", "RUNNING", ("FAILED",)))
    failed = SourceObservation(Reply(error="PostgreSQL does not answer"), connector)
    rows = [table("t", "shop"), table("t", "copy", "t")]
    model = world(["t"], [job("shop", "capture"), job("copy", "view")], rows, view=failed,
                  topic=Reply(error="no broker answers")).model()  # fmt: skip

    assert [(one.part, one.tone, one.state) for one in model.sources] == [
        ("database", Tone.BAD, "no answer"), ("connector shop", Tone.BAD, "failed"),
        ("transaction topic", Tone.BAD, "no answer"),
    ]


names = st.text(min_size=1, max_size=30) | st.sampled_from([HOSTILE, "a b", "<b>", "javascript:alert(1)", "#", "\x1f"])


@settings(max_examples=15)
@given(st.lists(names, min_size=1, max_size=4, unique=True), names, st.sampled_from([360, 719, 1600]))
def test_no_name_is_ever_anything_but_text(tables: list[str], words: str, width: int) -> None:
    """Whatever tables, targets, errors and jobs are called: the page has the same elements, links and attributes."""
    rows = [row for name in tables for row in (table(name, "shop", text=words), table(name, "copy", name))]
    broken = SourceObservation(DATABASE, Reply(error=words))
    jobs = [job("shop", "capture", waits=[{"what": "x", "text": words}], output=words), job("copy", "view")]
    entries = [{**ENTRIES[0], "name": words, "address": words, "identity": words, "users": [words]}]
    page = drawn(world(tables, jobs, rows, view=broken, entries=entries, pipeline=words).model(), width)

    assert {one.tag for one in page} <= TAGS
    assert {name for one in page for name in one.attributes} <= ATTRIBUTES
    assert all(re.fullmatch(r"#[a-z0-9-]+", one.attributes["href"]) for one in of(page, "a"))
    shown = [one.text for one in of(page, "th", role="rowheader")]
    assert [name for name in tables for _ in range(2)] == shown[: 2 * len(tables)]
    assert json.loads(json.dumps(page[0].to_plain())) == page[0].to_plain()


@pytest.mark.parametrize("name", WORLDS)
def test_headings_tables_and_links_can_be_read_without_seeing_them(name: str) -> None:
    """One title, headings in order, a caption and heads for each table, names for what is only a sign."""
    page = drawn(WORLDS[name]().model())
    levels = [int(one.tag[1]) for one in page if re.fullmatch(r"h\d", one.tag)]
    ids = [one.attributes["id"] for one in page if "id" in one.attributes]

    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    assert len(ids) == len(set(ids))
    assert {one.attributes["href"][1:] for one in of(page, "a")} <= set(ids)
    assert {one.attributes["aria-labelledby"] for one in of(page, "section")} <= set(ids)
    for found in of(page, "table"):
        inside = list(elements(found))
        heads, rows = of(inside, "th", scope="col"), of(inside, "tr")[1:]
        assert inside[1].tag == "caption" and inside[1].text and rows
        for row in rows:
            cells = [one for one in row.children if isinstance(one, Element)]
            assert [one.attributes["data-label"] for one in cells] == [one.text for one in heads]
            assert [one.attributes["role"] for one in cells] == ["rowheader", *["cell"] * (len(heads) - 1)]
    for sign in of(page, "span"):
        if "state" in sign.attributes["class"]:
            mark, text = sign.children
            assert isinstance(mark, Element) and mark.attributes["aria-hidden"] == "true" and text
    for picture in of(page, "svg"):
        assert picture.attributes["role"] == "img" and picture.attributes["aria-label"]


class Document(HTMLParser):
    """The tags of a document, with their attributes, and the text of its style and its script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.inside = list[tuple[str, dict[str, str | None]]](), dict[str, str]()
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        self.inside[self._open] = self.inside.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def test_the_policy_allows_what_is_in_the_document_and_no_more() -> None:
    """Style and script by their digests; requests to its own server; no frame, no form, no HTML made of a text."""
    document = page_document()
    found = Document(document.html)
    rules = dict(rule.split(" ", 1) for rule in document.headers["Content-Security-Policy"].split("; "))

    def digest(part: str) -> str:
        return f"'sha256-{b64encode(sha256(found.inside[part].encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'", "script-src": digest("script"), "style-src": digest("style"), "connect-src": "'self'",
        "img-src": "data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    }
    assert document.headers["X-Content-Type-Options"] == "nosniff"
    assert document.headers["Referrer-Policy"] == "no-referrer"
    assert [tag for tag, _ in found.tags].count("script") == [tag for tag, _ in found.tags].count("style") == 1


def test_the_document_asks_for_nothing_from_elsewhere_and_reads_no_text_as_html() -> None:
    """No address of another machine, no attribute that runs or styles, no way to make HTML of a text."""
    found = Document(page_document().html)
    attributes = {name for _, given in found.tags for name in given}
    addresses = [given[name] for _, given in found.tags for name in ("href", "src") if name in given]
    urls = set(re.findall(r"(?:https?:)?//[\w.-]+[^\s\"']*", found.inside["script"] + found.inside["style"]))

    assert addresses == ["data:,", "#content"]
    assert {"http://www.w3.org/2000/svg"} == {url for url in urls if not url.startswith("// ")}
    assert not {name for name in attributes if name.startswith("on") or name == "style"}
    refused = r"innerHTML|outerHTML|insertAdjacent|\.write\(|\beval\b|Function\(|DOMParser|localStorage|\.cookie"
    assert not re.search(refused, found.inside["script"])
    assert not re.search(r"@import|url\(", found.inside["style"])
    assert [given.get("lang") for tag, given in found.tags if tag == "html"] == ["en"]


def luminance(colour: str) -> float:
    shares = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(colours: dict[str, str]) -> None:
    """4.5 to 1 for texts, on the ground and in boxes; 3 to 1 for what is no text, as strokes that state something."""
    texts = [(text, "ground") for text in ("ink", "faint", "good", "bad", "fill")]
    texts += [(text, "calm") for text in ("ink", "faint", "bad")]
    strokes = [("good", "calm"), ("bad", "calm"), ("faint", "calm"), ("fill", "ground")]

    assert {} == {pair: found for pair in texts if (found := contrast(*(colours[one] for one in pair))) < 4.5}
    assert {} == {pair: found for pair in strokes if (found := contrast(*(colours[one] for one in pair))) < 3}
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_a_drawing_becomes_elements_without_its_style() -> None:
    """The policy would refuse a second style sheet."""
    found = element_of_svg(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9"><style>x</style><text x="1">a &lt; b</text><rect/></svg>'
    )

    assert found.to_plain() == ["svg", {"width": "9"}, [["text", {"x": "1"}, ["a < b"]], ["rect", {}, []]]]


def test_tones_stay_apart_without_colours() -> None:
    """Each has a sign of its own."""
    marks: dict[str, set[str]] = {}
    for name in WORLDS:
        for one in drawn(WORLDS[name]().model()):
            if one.tag == "span" and "state" in one.attributes["class"] and isinstance(one.children[0], Element):
                marks.setdefault(one.attributes["class"], set()).add(one.children[0].text)

    assert len(marks) == 3
    assert all(one.isdisjoint(other) for one, other in combinations(marks.values(), 2))
