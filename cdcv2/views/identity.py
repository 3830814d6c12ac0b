"""Which views a checkpoint is of: after their start, no view can be added, or become another.

A view depends on the whole history: on a log's rows from the first on. A view that comes later, or reads another
log, or reduces otherwise, would lack what came before, and nothing in the target would show it. So each commit carries
a *mark* of every view beside the frontier, wherever the checkpoint is kept; and an instance that resumes compares them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.views.binding import ViewBinding
from cdcv2.views.columns import column_of
from cdcv2.views.reductions import Last, Min, Reduction, last_rows


def marks(bindings: Iterable[ViewBinding]) -> dict[str, str]:
    """Target -> the mark of its view: the same for equal bindings, in every process."""
    return {binding.target: _mark(binding) for binding in bindings}


def _mark(binding: ViewBinding, reduce: list[list[Any]] | None = None, without: Collection[str] = ()) -> str:
    """``reduce``: what is to stand for the reductions; ``without``: fields of the table that are left out."""
    table = binding.view().table
    plain = {
        "log": binding.log,
        "key": [one.name for one in table.key],
        # The log decides what may be null, and that may change.
        "columns": sorted(
            [one.name, one.kind, one.precision, one.scale] for one in table.fields if one.name not in without
        ),
        "reduce": [_reduced(binding, *item) for item in binding.reduce.items()] if reduce is None else reduce,
        "deletes": binding.deletes,
        "delta": binding.delta,
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _mark_of_old(binding: ViewBinding) -> str | None:
    """The mark as it was when Last kept nothing beside what it showed; None for a view without one."""
    lasts = {name for name, one in binding.reduce.items() if isinstance(one, Last)}
    if not lasts:
        return None
    reduce = [
        [name, "Last", {"column": one.column}] if isinstance(one, Last) else _reduced(binding, name, one)
        for name, one in binding.reduce.items()
    ]
    return _mark(binding, reduce, {field.name for name in lasts for field in last_rows(name)})


def _reduced(binding: ViewBinding, name: str, reduction: Reduction) -> list[Any]:
    return [name, *_stated(reduction), *_ranked(binding, reduction)]


def _stated(reduction: Reduction) -> list[Any]:
    settings: dict[str, Any] = dataclasses.asdict(reduction) if dataclasses.is_dataclass(reduction) else {}
    return [type(reduction).__name__, settings]


def _ranked(binding: ViewBinding, reduction: Reduction) -> list[str]:
    """A least text is not a least number: where text is ranked by what it means, the view is another."""
    ranked = isinstance(reduction, (Min, Last)) and column_of(binding.row_type, reduction.column).order is not None
    return ["by value"] if ranked else []


def demand_same(materialization: str, bindings: Iterable[ViewBinding], checkpoint: Checkpoint) -> None:
    """Raise RefusedError unless the checkpoint is of all the views. It may be of one that is left out, too."""
    if checkpoint.views is None:
        return
    for binding in bindings:
        target, before = binding.target, checkpoint.views.get(binding.target)
        if before is not None and before == _mark_of_old(binding):
            raise RefusedError(
                f"{materialization!r} is at {checkpoint.frontier}, and its view {target!r} was begun by an earlier "
                "release, whose last value could be that of a deleted row; which rows are there, it has not kept. "
                "Materialize again, under another name and into an empty place"
            )
        demand_known_view(materialization, target, checkpoint)
        if before != _mark(binding):
            state = "was another (its log, columns, reductions or deletes)"
            raise _refused(materialization, target, checkpoint, state, "as it was")


def demand_known_view(materialization: str, target: str, checkpoint: Checkpoint) -> None:
    """Raises RefusedError for a view that is not among those that the checkpoint is of, as far as it states them."""
    if checkpoint.views is not None and target not in checkpoint.views:
        raise _refused(materialization, target, checkpoint, "is new", "out")


def _refused(materialization: str, target: str, checkpoint: Checkpoint, state: str, leave: str) -> RefusedError:
    return RefusedError(
        f"{materialization!r} is at {checkpoint.frontier}, and its view {target!r} {state}: what came before would be "
        f"missing or wrong there. Leave it {leave}; or materialize again, under another name and into an empty place"
    )


@dataclass(frozen=True)
class Provenance:
    """What a view is made of: the timeline of its logs, and by log the identities of its copies, as far as stated.

    A log may be known by several: a log that its capture has written again has its place, and not its own any more.

    >>> Provenance("x", {"a": ["7f"]}).to_plain()
    {'timeline': 'x', 'logs': {'a': ['7f']}}
    """

    timeline: str | None = None
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Its part of a reader's state in the checkpoint."""
        plain: dict[str, Any] = {} if self.timeline is None else {"timeline": self.timeline}
        logs = {log: sorted(identities) for log, identities in self.logs.items() if identities}
        return {**plain, "logs": logs} if logs else plain


#: What to do where a view and its logs do not go together.
_REMEDY = (
    "Give it the logs that it was made of; or materialize again, under another name and into an empty place"
)


def demand_provenance(
    materialization: str, now: Provenance, checkpoint: Checkpoint, *, remedy: str = _REMEDY
) -> None:
    """Raise ForeignStateError, with the remedy, unless the checkpoint is of this timeline and these logs.

    What the checkpoint lacks, as one by an earlier release, is not compared. A log that has copies is the same
    if one of them was read before.

    >>> from cdcv2.core.antichain import Antichain
    >>> demand_provenance("shop", Provenance("x"), Checkpoint(Antichain([7]), Provenance("x").to_plain()))
    """
    state = checkpoint.state if isinstance(checkpoint.state, dict) else {}
    timeline, logs = state.get("timeline"), state.get("logs")
    if timeline not in (None, now.timeline):
        raise ForeignStateError(
            f"{materialization!r} is at {checkpoint.frontier} of the timeline {timeline}, and its logs are "
            f"{f'of {now.timeline}' if now.timeline else 'of none that they state'}: their times have nothing to do "
            f"with each other. {remedy}"
        )
    for log, before in (logs if isinstance(logs, dict) else {}).items():
        if log in now.logs and not set(before) & set(now.logs[log]):
            found = " and ".join(now.logs[log]) or "one that states no identity"
            other = next((name for name, identities in now.logs.items() if set(before) & set(identities)), None)
            raise ForeignStateError(
                f"{materialization!r} is at {checkpoint.frontier}, and was made of another log {log!r}: of "
                f"{' and '.join(before)}{f' (now called {other!r})' if other else ''}, and it is {found} now. {remedy}"
            )
