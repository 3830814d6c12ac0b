"""The status of a pipeline as the values of a picture: see :mod:`cdcv2.viz.pipeline_picture`."""

from __future__ import annotations

from cdcv2.control.pipeline_status import PipelineStatus, TableRow
from cdcv2.viz.pipeline_picture import CopyBox, PipelinePicture, TableLine


def pipeline_picture(status: PipelineStatus) -> PipelinePicture:
    """The picture of a pipeline, of its status."""
    lines = []
    for row in status.tables:
        if row.kind == "log":
            targets = [one for one in status.tables if one.kind == "target" and one.table == row.table]
            lines.append(TableLine(row.job, _copy(row, status), tuple(_copy(one, status) for one in targets)))
    with_log = {row.table for row in status.tables if row.kind == "log"}
    lines += [
        TableLine("not in this file", None, (_copy(row, status),))
        for row in status.tables if row.kind == "target" and row.table not in with_log
    ]
    return PipelinePicture(status.pipeline, tuple(lines))


def _copy(row: TableRow, status: PipelineStatus) -> CopyBox:
    broken = any(job.name == row.job and job.reason is not None for job in status.jobs)
    name = row.table if row.target is None else f"{row.job}: {row.target}"
    well = False if broken else None if row.seconds_behind is None else True
    # Grey stands for "not known", and the room is needed for what is.
    text = row.through if row.seconds_behind is None else f"{row.behind}; {row.through}"
    return CopyBox(name, text, well)
