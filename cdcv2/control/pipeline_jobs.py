"""The jobs of a pipeline: one for each of its captures and views, each of them a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from cdcv2.control.entries import CatalogueEntry
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.pipeline_file import CaptureFields, Pipeline, ViewFields
from cdcv2.control.supervisor import JobPlan

#: The folder of the jobs, in a pipeline's state folder.
JOBS = "jobs"


def jobs_of(pipeline: Pipeline) -> list[JobPlan]:
    """A job for each capture and view, by its name in the file.

    A job is another one, and is started again, when what the file has about it changes; not when a variable of the
    environment does.
    """
    parts: list[CaptureFields | ViewFields] = [*pipeline.captures.values(), *pipeline.views.values()]
    return [JobPlan(part.name, _argv(pipeline, part), settings=_settings(pipeline, part)) for part in parts]


def with_needs(plans: Iterable[JobPlan], entries: Iterable[CatalogueEntry]) -> list[JobPlan]:
    """The jobs with what is made for them: a job that needs another thing of the same name is another one.

    So one that still writes into what was dropped is ended, though the file has the same again.
    """
    known = list(entries)
    made = []
    for plan in plans:
        nonces = sorted(one.nonce for one in known if one.is_live and one.owned and plan.name in one.users)
        more = {"external state": " ".join(nonces)} if nonces else {}
        made.append(plan._replace(settings={**plan.settings, **more}))
    return made


def folder_of(pipeline: Pipeline) -> Path:
    """Where the folders of its jobs are."""
    return pipeline.state / JOBS


def _argv(pipeline: Pipeline, part: CaptureFields | ViewFields) -> tuple[str, ...]:
    if isinstance(part, CaptureFields):
        words: tuple[str, ...] = ("capture", *part.words)
        if part.arguments.remap is None:
            # A second one that was started by hand would do the same work again.
            words += ("--sole",)
        into_kafka = any(one is not None and one.is_topic for one in (part.arguments.into, part.arguments.remap))
        made = part.owned is None or not into_kafka
    else:
        words = ("materialize", str(pipeline.path.absolute()), f"--view={part.name}")
        made = part.owned is None
    if not made:
        words = (*words, "--no-create")
    events = JobFolder(folder_of(pipeline) / part.name).events
    return (sys.executable, "-m", "cdcv2", *words, "--follow", f"--events={events}")


def _settings(pipeline: Pipeline, part: CaptureFields | ViewFields) -> dict[str, str]:
    """All that the file has about a part, as it is written there, by its keys: its variables are not filled in."""
    found = {name: node.written() for name, node in part.node.entries()}
    if isinstance(part, CaptureFields) and part.source is not None:
        found[f"source {part.source.name}"] = part.source.node.written()
    if isinstance(part, ViewFields) and part.capture is not None:
        found[f"into of capture {part.capture}"] = pipeline.captures[part.capture].into.written()
    return found | {f"{name}:": node.written() for name, node in pipeline.node.entries() if name in ("kafka", "rows")}
