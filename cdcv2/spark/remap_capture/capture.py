"""Capture on a shared remap, on Spark: the driver binds and decides, executors read, classify and write.

It is :class:`~cdcv2.capture.run.on_remap.SharedCapture`, turn for turn. Only the way to take the records of a range
differs: they are read as a frame, the executors classify them and keep the rows, and the driver receives their facts
without the rows. No query and no checkpoint of Spark are involved. Each turn is some batch jobs, and they read exactly
what is bound, so the capture may crash in any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdcv2.capture.binder import Binder
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.topics import Ranges
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.job import translated
from cdcv2.spark.remap_capture.classify import DRIVER_COLUMNS, FACTS, PLAIN, ShareFacts, bound
from cdcv2.spark.remap_capture.frames import Frames
from cdcv2.spark.remap_capture.outputs import BoundOutput, RangeShare
from cdcv2.timeline.ranges import BoundRanges


class BoundCapture(SharedCapture):
    """See :class:`~cdcv2.capture.run.on_remap.SharedCapture`; ``ranges`` and ``frames`` are of the same topics.

    ``spark`` is tuned for small batches, ``outputs`` have the numbers of their places. An error of Spark's is raised as
    ours, where we know which it is.
    """

    def __init__(
        self, binder: Binder, ranges: Ranges, frames: Frames, outputs: Sequence[BoundOutput], spark: SparkSession, *,
        at_most: int, report: CaptureReport | None = None, own: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(binder, ranges, outputs, at_most=at_most, own=own)
        self._frames, self._bound, self._spark = frames, outputs, spark
        self._report = report or CaptureReport()
        self._readers = {
            topic: (number, reader)
            for number, output in enumerate(outputs) for topic, reader in output.readers().items()
        }
        self._kept: DataFrame | None = None
        # What was reported of tables that are not covered.
        self._named: list[str] = []

    def carry(self) -> bool:
        """One turn, and what the executors kept for it is let go."""
        before, records = self.frontier, self.records
        try:
            return super().carry()
        except (PySparkException, Py4JError, OSError) as error:
            raise translated(error) from error
        finally:
            self._let_go()
            if self.frontier != before:
                fresh, stated = self.records - records, self.complete
                self._report.write(
                    "carried", f"frontier {_text(stated)}: {fresh} records ({self.records} in this run)", often=True,
                    frontier=stated.to_plain(), records=fresh, total_records=self.records,
                )
            self._name()

    def _name(self) -> None:
        """Name the tables that are not covered, when these are others than before."""
        coverage = self.coverage
        texts = coverage.texts()
        for text in texts if texts != self._named else ():
            self._report.write("not-covered", text, tables=coverage.uncovered)
        self._named = texts

    def _taken(self, stretch: BoundRanges) -> Iterator[tuple[int, DecodeError]]:
        for output in self._bound:
            output.receive_share(None)
        if not stretch.ranges:
            return
        try:
            found = self._read_facts(stretch)
        except (PySparkException, Py4JError, OSError) as error:
            raise translated(error) from error
        for one in found:
            self.records += one.records
            yield from one.wrong

    def _read_facts(self, stretch: BoundRanges) -> list[ShareFacts]:
        """Read and classify, and return the facts for the outputs."""
        records = self._frames.frame(self._spark, stretch.ranges)
        frame = self._kept = bound(records, self._readers, stretch).persist()
        shares = [RangeShare(frame, sorted(stretch.end)) for _ in self._bound]
        found = list[ShareFacts]()
        reports = frame.where(F.col("kind") != PLAIN).select(*DRIVER_COLUMNS).toArrow()
        for kind, output, *row, facts in zip(*(column.to_pylist() for column in reports.columns)):
            if kind == FACTS:
                found.append(ShareFacts.read(facts))
            else:
                shares[output].rows.append(tuple(row))
        for number, (output_of, share) in enumerate(zip(self._bound, shares)):
            for one in found:
                share.add(one, number)
            output_of.receive_share(share)
        return found

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
            self._kept = None


def _text(frontier: Antichain) -> str:
    return str(frontier.elements[0]) if frontier else "none: all is finished"
