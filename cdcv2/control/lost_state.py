"""What the catalogue of a pipeline has as lost, as changed by others, or on another server than the one that answers.

Of a job that used what is lost, nothing can be called complete any more. When something is lost is not decided here,
but in :mod:`cdcv2.control.external_state` (``_keeping`` and what it asks); that names what goes along.
"""

from __future__ import annotations

from typing import NamedTuple

from cdcv2.control.catalogue import DATABASE, read_catalogue
from cdcv2.control.entries import EntryState, Kind, Reason
from cdcv2.control.pipeline import Pipeline
from cdcv2.errors import Cdcv2Error
from cdcv2.store.file_system import is_there


class MissingState(NamedTuple):
    """A thing that is lost, or changed: its kind, its name, and what is so and what to do, in words."""

    kind: Kind
    name: str
    text: str


class LostState(NamedTuple):
    """Job -> what it used, and is lost. ``error``: why the catalogue cannot be read; then nothing is known of it.

    ``changed``: job -> what others have changed, and is not as the file has it. ``owed``: job -> what is still to be
    made for it, and could not be. ``moved``: job -> what was on another server than the one that answers now.
    """

    of: dict[str, list[MissingState]]
    error: str | None = None
    changed: dict[str, list[MissingState]] = {}
    owed: dict[str, list[MissingState]] = {}
    moved: dict[str, list[MissingState]] = {}

    def text(self, job: str | None) -> str | None:
        """What is lost of a job, or else on another server; None: nothing that is known."""
        if job is None or not (job in self.of or job in self.moved):
            return None
        # Of a server all is moved at once, and one thing names it.
        return "; ".join(one.text for one in self.of[job]) if job in self.of else self.moved[job][0].text

    @property
    def servers(self) -> list[str]:
        """What is on another server, in words: one thing of each kind."""
        return list({one.kind: one.text for things in self.moved.values() for one in reversed(things)}.values())


def lost_state(pipeline: Pipeline) -> LostState:
    """What is lost of a pipeline's external state, as ``cdcv2 up`` has seen it. Nothing is asked of servers."""
    found, changed, owed, moved = (dict[str, list[MissingState]]() for _ in range(4))
    try:
        if is_there(pipeline.state / DATABASE):
            with read_catalogue(pipeline.state) as catalogue:
                for entry in catalogue.entries():
                    text = "" if entry.debt is None else entry.debt.text
                    reason = None if entry.debt is None else entry.debt.reason
                    wanted = entry.state is EntryState.WANTED and entry.owned
                    for job in entry.users:
                        state = MissingState(entry.kind, entry.name, text)
                        if entry.state is EntryState.LOST:
                            found.setdefault(job, []).append(state)
                        elif reason is Reason.MOVED and entry.is_live:
                            moved.setdefault(job, []).append(state)
                        elif reason is Reason.DRIFT:
                            changed.setdefault(job, []).append(state)
                        elif wanted and reason not in (None, Reason.AWAITED):
                            owed.setdefault(job, []).append(state)
    except Cdcv2Error as error:
        return LostState({}, str(error))
    return LostState(found, None, changed, owed, moved)
