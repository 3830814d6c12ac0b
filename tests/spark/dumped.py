"""Captures on Spark of small dumps, as those of the command's tests: what their tests share."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from cdcv2.spark.capture.job import capture as run_job, parser, planned
from cdcv2.spark.capture.report import CaptureReport
from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import Captures


class OnSpark(Captures):
    """Captures by the job; each share of a dump is a micro-batch of its own."""

    def __init__(self, run: Run, folder: Path, spark: SparkSession, *words: str) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(run, folder)
        self.spark, self.words, self.state = spark, words, folder / "state"

    def job(self, *shares: list[str], tables: str = "tu") -> str:
        """The lines that the job prints for people. Raises what ends it."""
        self.arrange_rows(tables)
        topics, people = self.folder / "topics", io.StringIO()
        shutil.rmtree(topics, ignore_errors=True)
        topics.mkdir()
        for number, share in enumerate(shares):
            path = topics / f"{number}.jsonl"
            path.write_text("\n".join(share) + "\n", "utf-8")
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        plan = planned(parser().parse_args([
            str(topics), "--prefix", "p", "--rows", str(self.folder / "rows"), "--into", str(self.logs),
            "--state", str(self.state), "--max-files", "1", "--no-follow", *self.words,
        ]))  # fmt: skip
        run_job(self.spark, plan, CaptureReport(people=people))
        return people.getvalue()

    def lost(self) -> None:
        """Lose the memory."""
        shutil.rmtree(self.state, ignore_errors=True)
