"""Entry point for spark-submit: views of logs in other systems, worked out by executors. See ``--help``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cdcv2.control.materialization_file import read_plan
from cdcv2.process_end import end_with
from cdcv2.spark import materialize


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with these arguments (default: the process's). Returns the exit code."""
    return materialize.main(read_plan, arguments)


if __name__ == "__main__":
    sys.exit(end_with(main()))
