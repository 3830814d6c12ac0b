"""A pipeline as values for a drawing: from the source over the log to the targets, and how far behind each is."""

from __future__ import annotations

from typing import NamedTuple


class CopyBox(NamedTuple):
    """A log or a target: its name, how far it is in words, and whether that is well (None: not known)."""

    name: str
    text: str
    well: bool | None


class TableLine(NamedTuple):
    """A table: the capture of its source, its log (None: there is none yet), and its targets."""

    source: str
    log: CopyBox | None
    targets: tuple[CopyBox, ...]


class PipelinePicture(NamedTuple):
    """A pipeline, by tables."""

    name: str
    tables: tuple[TableLine, ...]

    def __repr__(self) -> str:
        return f"PipelinePicture({self.name}: {len(self.tables)} tables)"

    def _repr_html_(self) -> str:
        from cdcv2.viz.draw_pipeline import draw_pipeline

        return draw_pipeline(self)
