"""How far the target of a view or a replay is, as what keeps that states it. No log is opened, and nothing is made."""

from __future__ import annotations

from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any

from cdcv2.control.pipeline import Pipeline, ViewFields
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.logs.capture_manifest import log_set_in
from cdcv2.materialize import FileRecoveryLog, RecoveryLog, SqliteRecoveryLog
from cdcv2.materialize.protocol.fence import Holding
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.materialize.targets.postgres.view import committed
from cdcv2.store.file_system import is_there
from cdcv2.store.postgres_session import connect
from cdcv2.views.identity import Provenance, demand_provenance

#: Seconds that a server has to take the session.
_PATIENCE = 3.0


def timeline_of(pipeline: Pipeline, view: ViewFields | ReplayFields) -> str | None:
    """The timeline of the logs of a view, where the directory of its capture states one.

    Raises RefusedError where that is damaged, UnavailableError where it cannot be read.
    """
    into = None if view.capture is None else pipeline.captures[view.capture].arguments.into
    if into is None or into.is_topic:
        return None
    stated = log_set_in(Path(into.name))
    return stated.timeline or stated.log_set


def checkpoint_of(view: ViewFields | ReplayFields, timeline: str | None = None) -> list[Any] | None:
    """Up to where its target has it, as plain JSON; None: it has not begun. Raises what asking raises.

    ``timeline``: that of its logs; None: not known. Raises RefusedError for the checkpoint of another view of the same
    name, which keeps other tables there, or is of another timeline.
    """
    if isinstance(view, ReplayFields):
        _, manifest = LakeFolder(view.output).last()
        return None if manifest is None else manifest.frontier.to_plain()
    kept = [Checkpoint.from_plain(one.value["checkpoint"]) for one in _held(view)]
    for one in kept:
        _demand_own(view, one)
        if timeline is not None:
            demand_provenance(view.name, Provenance(timeline), one)
    return reduce(Antichain.meet, [one.frontier for one in kept]).to_plain() if kept else None


def _demand_own(view: ViewFields, kept: Checkpoint) -> None:
    targets = _targets(view)
    if kept.views and targets and not {*targets} & {*kept.views}:
        raise RefusedError(
            f"the target has {', '.join(sorted(kept.views))} of a view {view.name!r}, and none of its tables here "
            f"({', '.join(targets)}): it is another view of that name; give this one a name of its own"
        )


def _targets(view: ViewFields) -> list[str]:
    bound = [dict(one.entries()).get("target") for one in view.fields["bindings"].items()]
    return [one.text() for one in bound if one is not None]


def _held(view: ViewFields) -> list[Holding]:
    part = view.fields.get("recovery_log")
    if part is None:
        target = dict(view.fields["target"].entries())
        conninfo = target["conninfo"].conninfo() if "conninfo" in target else ""
        origin = f"the target of the view {view.name}"
        return committed(
            conninfo, view.name, _targets(view),
            connect=lambda given: connect(given, origin=origin, patience=_PATIENCE),
        )
    where = part if part.is_text else part.fields("sqlite")["sqlite"]
    path = where.path(view.folder)
    if not is_there(path):
        return []
    log: RecoveryLog = FileRecoveryLog(view.name, path) if part.is_text else SqliteRecoveryLog(view.name, path)
    with closing(log):
        return log.holdings()
