"""Negative controls: a proof is worth something if it fails when something *is* wrong.

Two copies of a log in a directory, one without an update message, one with a changed diff; reading must stop short
or refuse, and ``cdcv2 verify`` must report it by its exit code.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from cdcv2.demo.story import Story
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import GarbledMessage, Message, Updates
from cdcv2.rows.row_type import RowType


def controls(story: Story, folder: Path, messages: Sequence[Message], row_type: RowType) -> None:
    """Damage copies of the log of ``messages`` below ``folder``, and check that it is found.

    Raises Failed when it is not.
    """
    whole = _copy(folder / "control-whole", messages, row_type)
    story.check(_verify(whole) == 0, "control: cdcv2 verify exits 0 on an undamaged copy of a log")
    holding = [(number, message) for number, message in enumerate(messages) if isinstance(message, Updates)]
    gone, lost = holding[len(holding) // 2]
    lacking = _copy(folder / "control-lacking", [*messages[:gone], *messages[gone + 1:]], row_type)
    full, short = Iter(iter(messages)), Iter(lacking_messages(lacking, row_type))
    arrived = sum(len(updates) for updates, _ in full), sum(len(updates) for updates, _ in short)
    story.check(
        arrived[1] < arrived[0] and short.frontier != full.frontier and bool(short.missing()),
        f"an update message removed: replay stops short, at {_shown(short)} of {_shown(full)} "
        f"({str(short.missing()).partition(';')[0]}; and so on)",
    )
    story.check(_verify(lacking) == 1, "an update message removed: cdcv2 verify exits 1")
    data, time, diff = lost.updates[0]
    other = Updates([(data, time, diff + 1 or 2)])
    changed = _copy(folder / "control-changed", [*messages[:gone], other, *messages[gone:]], row_type)
    story.check(_verify(changed) == 3, "a diff changed in one of two copies: cdcv2 verify exits 3")


def _shown(reader: Iter) -> str:
    return ", ".join(map(str, reader.frontier)) or "the end"


def lacking_messages(path: Path, row_type: RowType) -> Iterable[Message]:
    """The messages of the log in the directory ``path``."""
    for entry in DirectoryLog(path, row_type).read():
        if entry is not None and not isinstance(entry.message, GarbledMessage):
            yield entry.message


def _copy(path: Path, messages: Iterable[Message], row_type: RowType) -> Path:
    log = DirectoryLog(path, row_type, create=True)
    for message in messages:
        log.send(message)
    log.flush()
    log.close()
    return path


def _verify(path: Path) -> int:
    command = [sys.executable, "-m", "cdcv2", "verify", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).returncode
