"""How a capture job without a remap runs: where it keeps its state, how long it works, and whose folder it writes."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.request import together
from cdcv2.errors import UsageError
from cdcv2.store.numbered import local_path


class StatefulRun(NamedTuple):
    """The run of a job that keeps a state: of a database by commit times, or of stream topics.

    - ``available_now``: to end when what is there now is read; else it follows its topics, with a micro-batch every
      ``interval`` seconds (None: as soon as the one before has ended).
    - ``together``: where the directories of all the logs are, if in one; ``sole``: whether no other capture may write
      these logs meanwhile.
    """

    state: Path
    available_now: bool
    interval: float | None
    together: Path | None
    sole: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> StatefulRun:
        """That of parsed arguments. Raises UsageError."""
        if options.state is None:
            raise UsageError("--state DIR is missing, where a capture without --remap keeps how far it is")
        folder = together(options.into)
        return cls(
            local_path(options.state), not options.follow, options.interval,
            None if folder is None else folder.absolute(), options.sole,
        )

    def lock(self, running: ExitStack) -> FolderInUse | None:
        """The folder of all the logs, locked until ``running`` is left; None: they are in no one folder."""
        return None if self.together is None else running.enter_context(FolderInUse(self.together, sole=self.sole))
