"""A command that takes a view over has it alone: the job that keeps it is paused, and resumed after the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdcv2.cli.console import remark
from cdcv2.cli.options.words import TIMEOUT
from cdcv2.cli.stop_signals import put_right_first
from cdcv2.control.pausing import job_of, paused
from cdcv2.control.pipeline_file import is_pipeline, read_pipeline
from cdcv2.control.yaml_lines import load


@contextmanager
def view_alone(file: str, view: str | None, by: str) -> Iterator[None]:
    """Within the block no job of cdcv2 up keeps the view: it would take over from the command, ``by``.

    A file that is no pipeline has no job. Raises RefusedError where the job does not end in time.
    """
    if not is_pipeline(load(file)):
        yield
        return
    pipeline = read_pipeline(file)
    name = pipeline.view(view).name
    resumed = f"cdcv2 resume {file} {name} resumes it"
    with put_right_first(), paused(pipeline, name, by, TIMEOUT) as was_paused:
        before = job_of(pipeline, name).paused()
        if was_paused:
            remark(f"{by}: the job {name} is paused until the end")
        elif before is not None:
            remark(f"{by}: the job {name} is {before} already, and stays so: {resumed}")
        yield
    after = job_of(pipeline, name).paused()
    if was_paused and after is not None:
        remark(f"{by}: the job {name} is {after} meanwhile, and stays so: {resumed}")
