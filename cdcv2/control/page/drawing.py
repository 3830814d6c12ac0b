"""The model of the page as elements: a function for each section, with headings, tables and texts beside colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cdcv2.control.page.elements import Element, element, element_of_svg
from cdcv2.control.page.model import PageFault, PageModel, PageMoment, PageVerdict, Tone
from cdcv2.viz.draw_pipeline import draw_pipeline

_VERDICTS = {
    PageVerdict.NOTHING: (Tone.CALM, "Nothing is there yet."),
    PageVerdict.WELL: (Tone.GOOD, "All is well."),
    PageVerdict.CHANGING: (Tone.CALM, "Not all is there yet."),
}
#: A mark beside a text, so that a state is seen without its colour, too.
_MARKS = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.CALM: "–"}
_Row = Sequence[Element | str]
#: So many names are listed; the others are counted.
_NAMES = 12


def draw_page(page: PageModel, width: int) -> Element:
    """The content of the page, with a picture of so many pixels. Raises UsageError for a width that is none of one."""
    sections = [_faults(page), _picture(page, width), _tables(page), _jobs(page), _sources(page), _external(page)]
    shown = [one for one in sections if one is not None]
    return element("div", _head(page), _navigation(shown), *shown, class_="page")


def headline(page: PageModel) -> str:
    """How it stands, in a sentence."""
    if page.verdict is not PageVerdict.ATTENTION:
        return _VERDICTS[page.verdict][1]
    count = len(page.faults)
    return "One thing needs attention." if count == 1 else f"{count} things need attention."


def _head(page: PageModel) -> Element:
    tone = Tone.BAD if page.verdict is PageVerdict.ATTENTION else _VERDICTS[page.verdict][0]
    return element(
        "header",
        element("h1", page.pipeline),
        element("p", _mark(tone), headline(page), class_=f"verdict {tone}"),
        element("p", page.kept, class_="faint"),
        element("p", _next_step(page), class_="next") if page.verdict is PageVerdict.NOTHING else None,
    )


def _next_step(page: PageModel) -> str:
    """What comes first, where nothing is there."""
    waits = list(dict.fromkeys(wait for job in page.jobs for wait in job.waits))
    if waits:
        return f"It waits for {waits[0]}"
    return (
        "The captures have stated nothing yet, which takes some seconds after a start. If it stays so, "
        f"cdcv2 doctor {page.file} names what is missing."
    )


def _navigation(sections: Iterable[Element]) -> Element:
    links = [
        element("li", element("a", one.children[0].text, href=f"#{one.attributes['id']}"))
        for one in sections if isinstance(one.children[0], Element)
    ]
    return element("nav", element("ul", *links), aria_label="Sections")


def _section(name: str, title: str, *content: Element | None) -> Element:
    return element("section", element("h2", title, id=f"{name}-title"), *content, id=name,
                   aria_labelledby=f"{name}-title")  # fmt: skip


def _faults(page: PageModel) -> Element | None:
    if not page.faults:
        return None
    faults = (_fault(one, number) for number, one in enumerate(page.faults))
    return _section("attention", "What needs attention", *faults)


def _fault(fault: PageFault, number: int) -> Element:
    """What it is, what waits for it, and what mends it."""
    blocks = [*fault.blocks[:_NAMES], *([f"{len(fault.blocks) - _NAMES} more"] if len(fault.blocks) > _NAMES else [])]
    facts = [
        ("Where", fault.place or None), ("Waiting for it", ", ".join(blocks) or None),
        ("Moved last", None if fault.moved is None else _moment(fault.moved, "ago")),
        ("Since", None if fault.since is None else _moment(fault.since)),
        ("What mends it", None if fault.remedy is None else element("code", fault.remedy)),
    ]
    listed = [part for name, fact in facts if fact is not None
              for part in (element("dt", name), element("dd", fact))]
    way = element(
        "details", element("summary", "The whole way"),
        element("ol", *(element("li", element("b", name), f": {measure}") for name, measure in fault.way)),
    ) if fault.way else None  # fmt: skip
    return element(
        "article", element("h3", _mark(Tone.BAD), fault.where), element("p", fault.what, class_="bad"),
        element("dl", *listed), way, class_="fault", id=f"fault-{number}",
    )


def _picture(page: PageModel, width: int) -> Element | None:
    if not page.picture.tables:
        return None
    drawn = element_of_svg(draw_pipeline(page.picture, width))
    return _section("picture", "Picture", element("div", drawn, class_="picture"))


def _tables(page: PageModel) -> Element:
    numbers = {fault.where: number for number, fault in reversed(list(enumerate(page.faults)))}
    rows: list[_Row] = [
        [element("b", one.table), one.copy, _state(one.tone, one.state), _lines(one.behind, one.why), one.through,
         _lines(*one.waits) if one.fault is None else element("a", one.fault, href=f"#fault-{numbers[one.fault]}")]
        for one in page.tables
    ]
    return _section("tables", "Tables", _table(
        "How far each table is, in its log and in each target",
        ["Table", "Log or target", "State", "Behind", "Complete", "Waits for"], rows,
        "No table is known yet: the row types of the captures are read first.",
    ))


def _jobs(page: PageModel) -> Element:
    rows: list[_Row] = [
        [element("b", one.name), one.kind, _state(one.tone, one.state), _moment(one.since),
         _lines(one.through, "" if one.stated is None else f"stated {one.stated.age} ago"),
         _lines(*one.waits, one.remedy or ""), element("code", one.output)]
        for one in page.jobs
    ]
    return _section("jobs", "Jobs", _table(
        "Each job, and since when it is in its state",
        ["Job", "Kind", "State", "Since", "How far", "Waits for", "Output"], rows, "The file has no job.",
    ))


def _sources(page: PageModel) -> Element | None:
    rows: list[_Row] = [
        [element("b", one.part), one.source, _state(one.tone, one.state), one.detail] for one in page.sources
    ]
    if not rows:
        return None
    return _section("sources", "Sources", _table(
        "What rows come from", ["Part", "Source or capture", "State", "How far"], rows, "",
    ))


def _external(page: PageModel) -> Element:
    rows: list[_Row] = [
        [_lines(element("b", one.name), one.address), one.owner, _state(one.tone, one.state), _moment(one.since),
         ", ".join(one.users) or "no job", one.identity or "", _lines(*one.waits)]
        for one in page.entries
    ]
    return _section("external", "External state", _table(
        "What the pipeline has in other systems, and whose it is",
        ["What", "Owner", "State", "Since", "Used by", "Identity", "Waits for"], rows,
        "The file states nothing as owned, so the catalogue is empty.",
    ))


def _table(caption: str, heads: Sequence[str], rows: Iterable[_Row], empty: str) -> Element:
    """A table; on a narrow screen each row is a list of its cells with their heads. The roles stay in both."""
    body = [
        element("tr", *(
            element("td" if column else "th", cell, role="cell" if column else "rowheader", data_label=head,
                    scope=None if column else "row", class_=None if _is_filled(cell) else "empty")
            for column, (head, cell) in enumerate(zip(heads, row, strict=True))
        ), role="row")
        for row in rows
    ]  # fmt: skip
    if not body:
        return element("p", empty, class_="faint")
    head = element("tr", *(element("th", one, scope="col", role="columnheader") for one in heads), role="row")
    return element(
        "table", element("caption", caption), element("thead", head, role="rowgroup"),
        element("tbody", *body, role="rowgroup"), role="table",
    )


def _is_filled(cell: Element | str) -> bool:
    return bool(cell if isinstance(cell, str) else cell.text)


def _lines(*texts: Element | str) -> Element:
    """Texts, each on a line of its own; empty ones are left out. What follows the first one is fainter."""
    shown = [one for one in texts if one]
    return element("div", *(element("div", one, class_="faint" if number else None)
                            for number, one in enumerate(shown)))  # fmt: skip


def _state(tone: Tone, text: str) -> Element:
    return element("span", _mark(tone), text, class_=f"state {tone}")


def _mark(tone: Tone) -> Element:
    """A sign that a screen reader leaves out: the text beside it states the same."""
    return element("span", _MARKS[tone], class_="mark", aria_hidden="true")


def _moment(moment: PageMoment | None, word: str = "") -> Element | str:
    if moment is None:
        return ""
    return element("div", element("div", f"{moment.age} {word}".strip()),
                   element("time", moment.shown, datetime=moment.iso, class_="faint"))  # fmt: skip
