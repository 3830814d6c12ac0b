"""Entry point for spark-submit: views of logs in other systems, worked out by executors. See ``--help``."""

from __future__ import annotations

import sys

from cdcv2.control.materialization_file import read_plan
from cdcv2.spark.materialize import main

if __name__ == "__main__":
    sys.exit(main(read_plan))
