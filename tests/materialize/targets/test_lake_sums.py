"""Sums of a lake and of Delta have so many digits; of who needs more, the rows are right."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.materialize import Checkpoint, Runtime, Sum, ViewBinding
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.testing import Subject
from tests.lakes import DeltaSubject, LakeSubject

PRICED = RowType({"type": "record", "name": "t", "fields": [
    {"name": "k", "type": "int"},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 12}},
    {"name": "v", "type": "string", "cdcv2.source": {"type": "numeric", "precision": 60, "scale": 12}},
]})  # fmt: skip
MOST = "9" * 26 + "." + "9" * 12


@pytest.mark.parametrize("made", [LakeSubject, DeltaSubject])
@pytest.mark.parametrize("column", ["d", "v"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_sum_of_too_many_digits_names_the_limit(made: type[Any], column: str, rows: int) -> None:
    """With 38 it is held; with 39 neither the source's row nor its column is to be mended."""
    subject: Subject = made()
    view = ViewBinding("rows", PRICED, "sums", ("k",), {"s": Sum(column)})

    def source(_: Checkpoint) -> Iterator[Cut]:
        row = PRICED.row((1, Decimal(MOST), MOST))
        yield Cut({"rows": [(row, 0, rows)]}, Antichain([0]), Antichain([1]))

    runtime = Runtime("m", [view], subject.driver(), source, log=subject.log())
    if rows == 1:
        runtime.run()
    else:
        with pytest.raises(MalformedError, match="sums: the column 's' .* The rows are right: .*PostgreSQL") as caught:
            runtime.run()
        assert "decimal128(38, 12)" in str(caught.value) and "Mend the source" not in str(caught.value)
    subject.close()
