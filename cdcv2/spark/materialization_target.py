"""A materialization as the target of a reader: executors reduce, look up and stage; the driver commits.

Each binding of a transaction is one Spark job. Updates become (canonical key, canonical row, time, diff), are brought
together by key, and each task works through its keys in order with a hand of the driver's
(:mod:`cdcv2.materialize.distributed`). What comes back to the driver is a receipt per task, or the error that ended
it: no row passes through the driver.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from cdcv2.core.antichain import Antichain
from cdcv2.errors import Cdcv2Error
from cdcv2.materialize.distributed import DistributedRuntime, TargetWorker, carry
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import Key
from cdcv2.materialize.targets.lake.history_output import demand_not_behind
from cdcv2.protocol.messages import Update
from cdcv2.rows.row_type import RowType
from cdcv2.spark.codec import beyond
from cdcv2.spark.schema import values_of
from cdcv2.views.binding import View, ViewBinding
from cdcv2.views.identity import Provenance, demand_provenance

Batches: TypeAlias = Iterable[pa.RecordBatch]

# Updates by their key; ``failure``: an error of ours, pickled, in place of an update.
_KEYED = (
    spark.StructType()
    .add("key", spark.BinaryType()).add("row", spark.BinaryType())
    .add("time", spark.LongType()).add("diff", spark.LongType()).add("failure", spark.BinaryType())
)  # fmt: skip
_KEYED_ARROW = pa.schema([
    ("key", pa.binary()), ("row", pa.binary()), ("time", pa.int64()), ("diff", pa.int64()), ("failure", pa.binary()),
])  # fmt: skip
_RECEIPT = (
    spark.StructType()
    .add("receipt", spark.StringType()).add("updates", spark.LongType()).add("failure", spark.BinaryType())
)  # fmt: skip
_RECEIPT_ARROW = pa.schema([("receipt", pa.string()), ("updates", pa.int64()), ("failure", pa.binary())])


class MaterializationTarget:
    """The target (:class:`cdcv2.spark.output.Target`) that a materialization is.

    ``demand`` is asked before the first transaction, when the logs have messages, for their timeline and identities.
    ``look`` is asked up to where the store has the views, by default the runtime; ``begin`` opens the runtime, by
    default nothing, as it is open. What they raise ends the job.
    """

    def __init__(
        self,
        runtime: DistributedRuntime,
        demand: Callable[[], Provenance] = Provenance,
        look: Callable[[], Antichain] | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._runtime, self._demand, self._look, self._begin = runtime, demand, look, begin
        self.place = f"the target of the views {runtime.name!r}"
        self._demanded = False
        self._of = Provenance()

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is in the views."""
        return self._runtime.checkpoint.frontier

    def found(self) -> Antichain:
        """See :class:`~cdcv2.spark.output.Target`."""
        return self.upper if self._look is None else self._look()

    def begin(self) -> None:
        """See :class:`~cdcv2.spark.output.Target`."""
        self._begin()

    def apply(self, rows: Mapping[str, DataFrame], lower: Antichain, upper: Antichain) -> dict[str, int]:
        """One transaction. Raises what a task has met with, and what the driver and the recovery log raise."""
        begin = self.upper
        demand_not_behind(self.place, begin, lower)
        if begin.dominates(upper):
            return {}
        if not self._demanded:
            self._of = self._demand()
            demand_provenance(self._runtime.name, self._of, self._runtime.checkpoint)
        self._demanded = True
        counted: dict[str, int] = {}

        def carried(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
            for number, binding in enumerate(self._runtime.bindings):
                frame = rows.get(binding.log)
                if frame is None:
                    continue
                tasks = [_received(row) for row in _tasks(frame.where(beyond(begin)), binding, number, hand).collect()]
                counted[binding.log] = sum(updates for _, updates in tasks)
                yield from ((number, receipt) for receipt, _ in tasks)

        self._runtime.transact(upper, carried, self._of.to_plain())
        return counted


def _received(row: Any) -> tuple[Any, int]:
    """The result of a task: its receipt, and how many updates it had. Raises what ended it."""
    if row["failure"] is not None:
        failure = pickle.loads(row["failure"])
        if isinstance(failure, Cdcv2Error):
            raise failure
        raise RuntimeError(f"an executor reports {failure!r}, which is no error of ours")
    return json.loads(row["receipt"]), row["updates"]


def _tasks(frame: DataFrame, binding: ViewBinding, number: int, hand: TargetWorker) -> DataFrame:
    keyed = frame.select("data", "time", "diff").mapInArrow(_by_key(binding), _KEYED)
    return keyed.repartition("key").sortWithinPartitions("key").mapInArrow(_task(binding, number, hand), _RECEIPT)


def _by_key(binding: ViewBinding) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def by_key(batches: Batches) -> Iterator[pa.RecordBatch]:
        view, row_type = binding.view(), binding.row_type
        for batch in batches:
            rows: list[tuple[Any, ...]] = []
            for data, time, diff in zip(*(column.to_pylist() for column in batch.columns)):
                try:
                    row = row_type.row(values_of(data))
                    rows.append((canonical(view.key_of(row)), row_type.encode(row), time, diff, None))
                except Cdcv2Error as failure:
                    rows.append((b"", None, None, None, pickle.dumps(failure)))
            arrays = [pa.array(column, one.type) for column, one in zip(zip(*rows), _KEYED_ARROW)] if rows else []
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, schema=_KEYED_ARROW)

    return by_key


def _task(binding: ViewBinding, number: int, hand: TargetWorker) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def task(batches: Batches) -> Iterator[pa.RecordBatch]:
        count = 0

        def rows() -> Iterator[tuple[bytes, Any, int, int]]:
            nonlocal count
            for batch in batches:
                for key, row, time, diff, failure in zip(*(column.to_pylist() for column in batch.columns)):
                    if failure is not None:
                        raise pickle.loads(failure)
                    count += 1
                    yield key, row, time, diff

        view, receipt, wrong = binding.view(), None, None
        try:
            receipt = carry(view, number, hand, _groups(view, binding.row_type, rows()))
        except Cdcv2Error as failure:
            # To try again would not help; the driver raises it as it is.
            wrong = pickle.dumps(failure)
        yield pa.RecordBatch.from_pydict(
            {"receipt": [json.dumps(receipt)], "updates": [count], "failure": [wrong]}, schema=_RECEIPT_ARROW
        )

    return task


def _groups(
    view: View, row_type: RowType, rows: Iterable[tuple[bytes, bytes, int, int]]
) -> Iterator[tuple[Key, Iterable[Update]]]:
    """Rows that are sorted by key, as the updates of each."""
    for _, same in groupby(rows, key=lambda one: one[0]):
        updates = [(row_type.decode(raw), time, diff) for _, raw, time, diff in same]
        yield view.key_of(updates[0][0]), updates
