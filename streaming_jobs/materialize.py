"""Entry point for spark-submit: views of logs in other systems, worked out by executors. See ``--help``."""

from __future__ import annotations

import sys

from cdcv2.process_end import end_with
from cdcv2.spark.jobs.materialize import main

if __name__ == "__main__":
    sys.exit(end_with(main()))
