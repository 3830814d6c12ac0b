"""Folders that hold states: known by the nonce in a file in them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from cdcv2 import failpoints
from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, ExternalObject, Look, NoAnswer, Reason
from cdcv2.control.kinds.marks import mark_of, read_mark
from cdcv2.core.json_text import parse_json
from cdcv2.store.file_system import in_words
from cdcv2.store.numbered import durable

#: The file with the mark.
MARK = "_external.json"
FOLDER_MADE = failpoints.declare("external.folder-made", "a folder is made, and has no mark")
FOLDER_ASIDE = failpoints.declare("external.folder-aside", "a folder to be removed is renamed, and still there")
FOLDER_EMPTIED = failpoints.declare("external.folder-emptied", "a folder to be removed holds only its mark")


class StateFolderKind:
    """Folders on file systems of this machine. Their server is the folder that they are in."""

    def look(self, entry: CatalogueEntry) -> Look:
        """See :class:`cdcv2.control.reconcile.ExternalKind`.

        A folder that is not mounted is another one than the folder that is mounted there, so what is in it is not
        missing but moved. One that has our mark is there, also where the folder that it is in was restored from a
        copy; to be removed, it must be in the same one.
        """
        found: list[Answer] = []

        def look() -> None:
            path, aside = Path(entry.name), _aside(entry)
            # The number of the folder in its file system.
            server = f"inode {os.stat(path.parent).st_ino}"
            if aside.exists():
                found.append(Answer(server, ExternalObject(entry.nonce, entry.nonce)))
                return
            _demand_no_link(path)
            there = _object_at(path) if path.exists() else None
            ours = there is not None and there.mark == entry.nonce and entry.state is not EntryState.UNWANTED
            found.append(Answer(entry.server or server if ours else server, there))

        return _done(entry, look) or found[0]

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`. An empty folder without a mark is taken over."""

        def make() -> None:
            path = Path(entry.name)
            _demand_no_link(path)
            path.mkdir(exist_ok=True)
            failpoints.reach(FOLDER_MADE)
            found = _object_at(path)
            if found.mark is None and found.empty:
                mark = path / MARK
                mark.write_text(json.dumps({"version": 1, "mark": mark_of(entry)}), "utf-8")
                durable(mark)
                durable(path, flushed=True)

        return _done(entry, make)

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """A folder has no settings."""
        return None

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`. It has another name while its content is removed."""

        def destroy() -> None:
            path, aside = Path(entry.name), _aside(entry)
            if not aside.exists():
                _demand_no_link(path)
                there = _object_at(path)
                if there.identity != entry.identity and not (entry.identity is None and there.empty):
                    return
                path.rename(aside)
            failpoints.reach(FOLDER_ASIDE)
            for name in os.listdir(aside):
                inner = aside / name
                if name != MARK and inner.is_dir() and not inner.is_symlink():
                    shutil.rmtree(inner)
                elif name != MARK:
                    inner.unlink()
            failpoints.reach(FOLDER_EMPTIED)
            (aside / MARK).unlink(missing_ok=True)
            aside.rmdir()
            durable(aside, flushed=True)

        return _done(entry, destroy)


def _aside(entry: CatalogueEntry) -> Path:
    path = Path(entry.name)
    return path.with_name(f".{path.name}.{entry.nonce}.removed")


def _demand_no_link(path: Path) -> None:
    """Raise NotADirectoryError unless the folder is one itself: a link can be removed, and not what it leads to."""
    if path.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a symbolic link, and not a folder itself", str(path))


def _object_at(path: Path) -> ExternalObject:
    """What a folder is. A mark that was not written whole is none. Raises OSError."""
    names = os.listdir(path)
    mark, owner = None, ""
    if MARK in names:
        try:
            mark, owner = read_mark(parse_json((path / MARK).read_text("utf-8"))["mark"])
        except (ValueError, TypeError, KeyError):
            mark = None
    inside = [name for name in names if name != MARK]
    return ExternalObject(mark, mark, owner, not inside, place=f"{len(inside)} files and folders in it")


def _done(entry: CatalogueEntry, work: Callable[[], None]) -> NoAnswer | None:
    """Do it; what hindered it, or None."""
    try:
        work()
    except (PermissionError, NotADirectoryError) as error:
        return NoAnswer(Reason.DENIED, f"{entry.shown}: {in_words(error)}: grant the right, or name another folder")
    except OSError as error:
        return NoAnswer(Reason.UNREACHABLE, f"{entry.shown}: {in_words(error)}: mend the file system of {entry.name}")
    return None
