"""On Spark, a timeline's logs become durable in the same order as without it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from cdcv2.protocol.writer import Writer
from cdcv2.spark.remap_capture.outputs import BoundDatabase
from tests.capture.test_transactions_order import ORDER, SUMMARY, Journaled, ordered


def test_updates_then_the_statement_of_temp_then_those_of_the_tables() -> None:
    """The executors note what they are told to write; the driver decides when."""
    journal: list[str] = []

    def written(*_: Any) -> dict[tuple[str, int], Any]:
        journal.extend(f"updates of {table}" for table in ("a", "b"))
        return {("a", 5): SimpleNamespace(identities=1), ("b", 5): SimpleNamespace(identities=1)}

    def state(*_: Any) -> None:
        journal.extend(f"statement of {table}" for table in ("a", "b"))

    nothing = cast(Callable[..., Any], lambda *_: {})
    database = SimpleNamespace(
        _marks=SimpleNamespace(learn=nothing, unknown=nothing, count=nothing), _fetched=nothing,
        _rows=SimpleNamespace(row=lambda held: held), _temp=Writer(Journaled("TEMP", journal)),
        _given=lambda *_: (None, 0), _logs=SimpleNamespace(write=written, state=state), has_begun=True,
        _tables=SimpleNamespace(cover=nothing, assume=nothing), _empty=(),
        _transactions=SimpleNamespace(uncovered=(), partial=()),
    )  # fmt: skip
    BoundDatabase._write(cast(BoundDatabase, database), SUMMARY)

    assert ORDER == ordered(journal)
