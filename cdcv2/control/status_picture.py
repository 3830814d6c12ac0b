"""The status of a pipeline as the values of a picture: see :mod:`cdcv2.viz.draw_pipeline`."""

from __future__ import annotations

from collections.abc import Callable

from cdcv2.control.pipeline_status import PipelineStatus, TableRow
from cdcv2.viz.draw_pipeline import CopyBox, PipelinePicture, TableLine


def pipeline_picture(
    status: PipelineStatus, is_still: Callable[[TableRow], bool] = lambda row: False
) -> PipelinePicture:
    """The picture of a pipeline, of its status. ``is_still``: whether it is known that a table stands still."""
    lines = list[TableLine]()
    table: str | None = None

    def box(row: TableRow) -> CopyBox:
        copy = _copy(row, status)
        return copy._replace(well=False) if is_still(row) else copy

    # The targets of a log follow it; those of logs that no capture of the file writes come last.
    for row in status.tables:
        if row.kind == "log":
            lines.append(TableLine(row.job, box(row), ()))
            table = row.table
        elif row.table == table:
            lines[-1] = lines[-1]._replace(targets=(*lines[-1].targets, box(row)))
        else:
            lines.append(TableLine("not in this file", None, (box(row),)))
            table = None
    return PipelinePicture(status.pipeline, tuple(lines))


def _copy(row: TableRow, status: PipelineStatus) -> CopyBox:
    broken = any(job.name == row.job and job.reason is not None for job in status.jobs)
    name = row.table if row.target is None else f"{row.job}: {row.target}"
    well = False if broken else True if row.is_known else None
    # Grey stands for "not known", and the room is needed for what is.
    text = row.through if row.seconds_behind is None else f"{row.behind}; {row.through}"
    return CopyBox(name, text, well)
