"""What a view has committed decides whether its table may be made, and goes with the last one; without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pytest

from cdcv2.control.entries import CatalogueEntry, Kind
from cdcv2.control.kinds.postgres import TargetTableKind
from cdcv2.control.kinds.table_checkpoints import demand_not_started, own_checkpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.messages import Checkpoint

SETTINGS = {"columns": [["id", "bigint", False]], "key": ["id"], "materialization": "copy", "tables": ["items", "wide"]}
ENTRY = CatalogueEntry("7f", Kind.TARGET_TABLE, "wide", "PostgreSQL db", SETTINGS, True, ("view copy",))


class KeptRows(NamedTuple):
    """What a statement of the double gives."""

    rows: Sequence[tuple[Any, ...]]

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first."""
        return self.rows[0] if self.rows else None

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """All."""
        return self.rows


class CheckpointSession:
    """A session of a database that has these checkpoints of the view; None: not even their table."""

    def __init__(self, texts: list[str] | None) -> None:
        self.texts = texts
        #: the statements that were executed, as text
        self.statements: list[str] = []

    def execute(self, statement: Any, parameters: Any = None) -> KeptRows:
        """The two questions that are known; anything else is an act."""
        self.statements.append(str(statement))
        if "to_regclass" in str(statement):
            return KeptRows([(self.texts is not None,)])
        return KeptRows([(text,) for text in self.texts or ()])


def session_of(*checkpoints: Checkpoint | str) -> Any:
    """A session that has them."""
    texts = [one if isinstance(one, str) else json.dumps(one.to_plain()) for one in checkpoints]
    return cast(Any, CheckpointSession(texts))


BEGUN = Checkpoint(Antichain([120]), None, {"wide": "m1"})
FRESH = Checkpoint(Antichain([0]), committed=False)


def test_a_table_is_not_made_beside_a_view_that_has_begun() -> None:
    """It would be empty, and the view would go on at its frontier: older rows would be missing without an error."""
    older = Checkpoint(Antichain([7]), committed=None)
    for session in (session_of(BEGUN), session_of(FRESH, BEGUN), session_of(older)):
        with pytest.raises(RefusedError, match="'copy' is at .*cdcv2_checkpoints.*down FILE --remove-external"):
            TargetTableKind({})._make(session, ENTRY)
        assert not [one for one in session.statements if "CREATE" in one]
    with pytest.raises(ForeignStateError):
        demand_not_started(session_of("{"), ENTRY)


def test_a_table_is_made_where_nothing_was_committed() -> None:
    """An instance that only opened the view has left nothing; nor where no view ever was."""
    for session in (session_of(FRESH), session_of(), CheckpointSession(None)):
        TargetTableKind({})._make(session, ENTRY)
        assert [one for one in session.statements if "CREATE TABLE" in one]


def test_only_a_checkpoint_that_states_our_tables_is_ours() -> None:
    """Another pipeline may have a view of the same name; what cannot be read is not ours to remove."""
    theirs = Checkpoint(Antichain([3]), None, {"lab": "m2"})
    session = session_of(theirs, BEGUN, "{", FRESH, Checkpoint(Antichain([7]), committed=None))

    assert [json.dumps(BEGUN.to_plain())] == own_checkpoints(session, ENTRY)
