"""What the page asks for: how a pipeline stands, drawn for a width, with how old that is."""

from __future__ import annotations

from typing import Any

from cdcv2.control.page.drawing import draw_page, headline
from cdcv2.control.page.model import PageModel
from cdcv2.viz.svg import LEAST, MOST, USUAL


def page_content(page: PageModel, width: int, age: float) -> dict[str, Any]:
    """As JSON has it; ``age``: the seconds since the pipeline was looked at."""
    return {
        "pipeline": page.pipeline, "file": page.file, "headline": headline(page), "verdict": page.verdict.value,
        "age": round(max(0.0, age), 3), "content": draw_page(page, width).to_plain(),
    }


def picture_width(text: str | None) -> int:
    """The width of a picture for a screen that wide, in pixels; of what is no number, the usual one.

    >>> picture_width("344"), picture_width("1280"), picture_width("9" * 50), picture_width("-1")
    (360, 1280, 960, 960)
    """
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return USUAL
    return min(max(int(text), LEAST), MOST)
