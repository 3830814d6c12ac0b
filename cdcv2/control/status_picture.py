"""The status of a pipeline as the values of a picture: see :mod:`cdcv2.viz.draw_pipeline`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdcv2.control.instance_fields import InstanceFields
from cdcv2.control.pipeline_status import PipelineStatus, TableRow
from cdcv2.viz.draw_pipeline import CopyBox, PipelinePicture, TableLine


def pipeline_picture(
    status: PipelineStatus, is_still: Callable[[TableRow], bool] = lambda row: False,
    instances: Iterable[InstanceFields] = (),
) -> PipelinePicture:
    """The picture of a pipeline, of its status. ``is_still``: whether it is known that a table stands still.

    ``instances`` hold tables of its logs: each is where targets are.
    """
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
    for part in instances:
        held = _instance(part, status)
        for name in part.index:
            place = next((place for place, line in enumerate(lines) if line.log is not None and line.log.name == name
                          and line.source == part.capture), None)  # fmt: skip
            if place is None:
                lines.append(TableLine("not in this file", CopyBox(name, "", None), (held,)))
            else:
                lines[place] = lines[place]._replace(targets=(*lines[place].targets, held))
    return PipelinePicture(status.pipeline, tuple(lines))


def _instance(part: InstanceFields, status: PipelineStatus) -> CopyBox:
    """An instance as its jobs state it."""
    rows = [row for row in status.jobs if row.name in part.jobs]
    broken = next((row.reason for row in rows if row.reason is not None), None)
    controller = next((row for row in rows if row.name == part.name), None)
    text = "not started yet" if controller is None else f"{controller.state}; {controller.through}"
    return CopyBox(f"{part.name}: instance", text, False if broken is not None else None)


def _copy(row: TableRow, status: PipelineStatus) -> CopyBox:
    broken = any(job.name == row.job and job.reason is not None for job in status.jobs)
    name = row.table if row.target is None else f"{row.job}: {row.target}"
    well = False if broken else True if row.is_known else None
    # Grey stands for "not known", and the room is needed for what is.
    text = row.through if row.seconds_behind is None else f"{row.behind}; {row.through}"
    return CopyBox(name, text, well)
