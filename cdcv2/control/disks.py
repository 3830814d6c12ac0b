"""The disks that a pipeline fills: those of its state, of logs in directories, and of the histories of replays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cdcv2.control.pipeline_file import Pipeline


class DiskSpace(NamedTuple):
    """The bytes of a disk."""

    free: int
    size: int


def disks_of(pipeline: Pipeline) -> Iterator[tuple[Path, str, DiskSpace]]:
    """Each folder, what is in it, and the space of its disk."""
    folders = {pipeline.state: "state"}
    for capture in pipeline.captures.values():
        if not capture.arguments.into.is_topic:
            folders[pipeline.path.absolute().parent / capture.into.text()] = f"logs of {capture.name}"
    folders |= {one.output: f"history of {one.name}" for one in pipeline.replays.values()}
    for folder, content in folders.items():
        # A folder that is not there yet will be on the disk of the one above.
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        usage = shutil.disk_usage(there)
        yield folder, content, DiskSpace(usage.free, usage.total)
