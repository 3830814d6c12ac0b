"""Pictures of logs, timelines and pipelines: a model first, as plain values, and then a drawing of it, as SVG."""

from cdcv2.viz.logs_picture import logs_picture
from cdcv2.viz.draw_pipeline import CopyBox, PipelinePicture, TableLine
from cdcv2.viz.draw_timeline import TimelineBar, TimelinePicture
from cdcv2.viz.timeline_picture import open_transactions

__all__ = ["CopyBox", "PipelinePicture", "TableLine", "TimelineBar", "TimelinePicture", "logs_picture",
           "open_transactions"]
