"""The answers about one pipeline: looked at again when they are old, and never by the loop that keeps the jobs."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from cdcv2.control.api.limits import FRESH, MEASURED_FRESH, PATIENCE, STATUS_FRESH, BackgroundAnswer, RecentAnswer
from cdcv2.control.external_view import external_of
from cdcv2.control.metrics.measure import measure
from cdcv2.control.metrics.model import Measurements, samples_of
from cdcv2.control.metrics.text import text_of
from cdcv2.control.pipeline_file import Pipeline
from cdcv2.control.pipeline_status import PipelineStatus, status_of
from cdcv2.errors import UnavailableError


class _Look(NamedTuple):
    """A status, and when it was looked at."""

    status: PipelineStatus
    at: float


class PipelineAnswers:
    """What the API answers about a pipeline whose state folder is there. Any thread may ask."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._look = BackgroundAnswer[_Look](
            lambda before: _Look(status_of(pipeline, before and before.status), time.time()), STATUS_FRESH,
            first=PATIENCE,
        )
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

    def _looked(self) -> _Look:
        look = self._look()
        if look is None:
            raise UnavailableError(
                f"servers of the pipeline have not answered within {PATIENCE:g} s, so there is no status yet: ask again"
            )
        return look
