"""What a commit sequence writes into the recovery log, step by step, and when it writes nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.materialize.commit_sequence import CommitSequence
from cdcv2.materialize.protocol.messages import Checkpoint, Open, Opened
from cdcv2.materialize.recovery_log import RecoveredState

START, UPPER, OTHER = Antichain([0]), Antichain([7]), Antichain([9])


def begun(opened: Opened, extent: Antichain | None) -> tuple[CommitSequence, list[tuple[Any, ...]]]:
    """A sequence over a recovery log that lists what it is given; a crash may have left an extent there."""
    calls = list[tuple[Any, ...]]()
    claim = SimpleNamespace(
        recovered=RecoveredState(Checkpoint(START), (), {}, extent),
        prepare=lambda upper, patch: calls.append(("prepare", upper, patch)),
        commit=lambda checkpoint, patch: calls.append(("commit", checkpoint, patch)),
        patch=lambda patch: calls.append(("patch", patch)),
    )
    sequence = CommitSequence("m", SimpleNamespace(open=lambda wanted, start: claim), START)  # type: ignore[arg-type]
    sequence.claim(Open("m", ()))
    sequence.adopt(opened)
    return sequence, calls


@pytest.mark.parametrize(("opened", "extent", "repeats", "step"), [
    (Opened(), None, True, ("prepare", UPPER, None)),
    (Opened(), OTHER, True, ("prepare", UPPER, None)),
    # A crash has left the same: it is durable already.
    (Opened(), UPPER, True, ("patch", None)),
    (Opened(), None, False, ("patch", None)),
    # The store's own checkpoint rules: an extent here would hold the next instance to what the store does not know.
    (Opened(Checkpoint(START)), None, True, ("patch", None)),
])
def test_the_extent_is_written_once_and_only_where_this_log_rules(
    opened: Opened, extent: Antichain | None, repeats: bool, step: tuple[Any, ...]
) -> None:
    sequence, calls = begun(opened, extent)

    sequence.prepare(UPPER, None, repeats=repeats)

    assert calls == [step]


@pytest.mark.parametrize(("opened", "step"), [
    (Opened(), ("commit", Checkpoint(UPPER), None)), (Opened(Checkpoint(START)), ("patch", None)),
])
def test_the_checkpoint_is_written_only_where_this_log_rules(opened: Opened, step: tuple[Any, ...]) -> None:
    sequence, calls = begun(opened, UPPER)

    sequence.commit(Checkpoint(UPPER), None)

    assert calls == [step] and sequence.checkpoint == Checkpoint(UPPER) and sequence.extent is None
