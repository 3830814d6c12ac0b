"""Entry point for spark-submit: finished tables out of the logs of one timeline. See ``--help``."""

from __future__ import annotations

import sys

from cdcv2.process_end import end_with
from cdcv2.spark.replay import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(end_with(main()))
