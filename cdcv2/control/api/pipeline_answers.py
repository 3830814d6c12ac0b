"""The answers about one pipeline: looked at again when they are old, and never by the loop that keeps the jobs."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, TypeVar

from cdcv2.control.api.limits import FRESH, MEASURED_FRESH, PATIENCE, STATUS_FRESH, BackgroundAnswer, RecentAnswer
from cdcv2.control.explanation import Explanation, explanations
from cdcv2.control.external_view import external_of
from cdcv2.control.metrics.measure import measure
from cdcv2.control.metrics.model import Measurements, samples_of
from cdcv2.control.metrics.text import text_of
from cdcv2.control.page.content import page_content
from cdcv2.control.page.model import page_model
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_status import PipelineStatus, status_of
from cdcv2.errors import UnavailableError

T = TypeVar("T")


class _Look(NamedTuple):
    """A status, and when it was looked at."""

    status: PipelineStatus
    at: float


class _Ways(NamedTuple):
    """The ways to the tables of a look."""

    look: _Look
    ways: list[Explanation]


class PipelineAnswers:
    """What the API answers about a pipeline whose state folder is there. Any thread may ask."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._file = str(pipeline.path)
        self._look = BackgroundAnswer[_Look](
            lambda before: _Look(status_of(pipeline, before and before.status), time.time()), STATUS_FRESH,
            first=PATIENCE,
        )
        self._ways = BackgroundAnswer[_Ways](lambda before: self._explained(pipeline, before), FRESH, first=PATIENCE)
        self._measured = BackgroundAnswer[Measurements](lambda before: measure(pipeline), MEASURED_FRESH)
        self._external = RecentAnswer(lambda: external_of(pipeline.state), FRESH)

    def status(self) -> dict[str, Any]:
        """As ``cdcv2 status --json`` has it. Raises UnavailableError where the first look takes long."""
        return self._looked().status.to_plain()

    def external(self) -> dict[str, Any]:
        """As ``cdcv2 external --json`` has it."""
        return self._external()

    def metrics(self) -> str:
        """As ``cdcv2 metrics`` has it; what topics and remaps are like is missing until it is known."""
        look = self._looked()
        return text_of(samples_of(look.status.to_plain(), look.at, self._external()["entries"], self._measured()))

    def page(self, width: int) -> dict[str, Any]:
        """What the page asks for, with a picture of so many pixels. Errors are as of :meth:`status`."""
        found = _answered(self._ways())
        entries, now = self._external()["entries"], time.time()
        page = page_model(found.look.status, found.ways, entries, self._file, now)
        return page_content(page, width, now - found.look.at)

    def _explained(self, pipeline: Pipeline, before: _Ways | None) -> _Ways:
        look = self._looked()
        if before is not None and before.look is look:
            return before
        return _Ways(look, explanations(pipeline, look.status))

    def _looked(self) -> _Look:
        return _answered(self._look())


def _answered(answer: T | None) -> T:
    """Raise UnavailableError unless there is an answer."""
    if answer is None:
        raise UnavailableError(
            f"servers of the pipeline have not answered within {PATIENCE:g} s, so there is no status yet: ask again"
        )
    return answer
