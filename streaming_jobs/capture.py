"""Entry point for spark-submit: the changes of a database into one log per table. See ``--help``."""

from __future__ import annotations

import sys

from cdcv2.process_end import end_with
from cdcv2.spark.jobs.capture import main

if __name__ == "__main__":
    sys.exit(end_with(main()))
