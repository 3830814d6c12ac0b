"""The command lines of a pipeline's replays: as a command, or as a job on Spark."""

from __future__ import annotations

import sys
from pathlib import Path

from cdcv2.control.pipeline import Pipeline
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.logs.log_json import LOG_FILE


def replay_command(part: ReplayFields) -> tuple[str, ...]:
    """The command line of a replay, but for its events."""
    if part.spark is not None:
        return (*part.spark.argv([*part.words, f"--output={part.output}"]), "--follow")
    return (sys.executable, "-m", "cdcv2", "replay", *part.words, f"--lake={part.output}", "--follow")


def replay_logs(pipeline: Pipeline, part: ReplayFields) -> list[Path]:
    """What has to be there of the logs in folders before a replay of a capture can start."""
    into = None if part.capture is None else pipeline.captures[part.capture].arguments.into
    return [] if into is None or into.is_topic else [Path(into.of(table).name) / LOG_FILE for table in part.tables]
