"""The disks that a pipeline fills: those of its state, of logs in directories, of lakes and histories of replays."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cdcv2.control.pipeline import Pipeline
from cdcv2.control.written_folders import written_folders


#: With fewer bytes than these a disk is full: a job cannot write the next of its small files.
_LEAST = 64 * 1024


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
    for view in pipeline.views.values():
        folders |= {path: f"what {view.name} keeps" for path in written_folders(view.fields, view.folder)}
    for folder, content in folders.items():
        usage = shutil.disk_usage(_there(folder))
        yield folder, content, DiskSpace(usage.free, usage.total)


def refusal(folder: Path) -> str | None:
    """Why nothing can be written in a folder, or where it will be made, in the system's words; None: it can.

    A file with a few bytes is written there, and removed.
    """
    there = _there(folder)
    try:
        # A database is a file in its folder.
        with tempfile.NamedTemporaryFile(dir=there if there.is_dir() else there.parent) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def unwritable(folder: Path) -> str | None:
    """Why no job of any user can write in a folder: its disk is full, or is read-only; None: it can, as far as
    that is seen. Nothing is written.
    """
    there = _there(folder)
    try:
        disk = os.statvfs(there)
    except OSError as error:
        return f"{there} cannot be read: {error.strerror or error}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the file system of {there} is read-only: see why, and mount it for writing (mount -o remount,rw)"
    if disk.f_bavail * disk.f_frsize < _LEAST:
        return f"the disk of {there} is full: make room there"
    if disk.f_files and not disk.f_favail:
        return f"the disk of {there} has no inode left: remove files there"
    return None


def _there(folder: Path) -> Path:
    """A folder that is not there yet will be on the disk of the one above."""
    return next(one for one in (folder, *folder.absolute().parents) if one.exists())
