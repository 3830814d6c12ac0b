"""The command lines of a pipeline's instances: the replicas of each, and the controller that answers for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from cdcv2.control.instance_fields import InstanceFields
from cdcv2.control.pipeline import Pipeline, kafka_words
from cdcv2.errors import OutputError
from cdcv2.logs.log_json import LOG_FILE


def instance_commands(pipeline: Pipeline, part: InstanceFields) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each job of an instance, by its name, with its command line: its controller first.

    Nothing of them waits for another: a controller goes on trying to reach its replicas, and they wait for it.
    """
    logs = [*_logs(pipeline, part), *_reach(pipeline, part)]
    index = [f"--index={table}={','.join(columns)}" for table, columns in part.index.items()]
    of = [f"--of={place}" for place in part.replicas]
    own = [f"--instance={part.place}", f"--state={part.state}", f"--history={part.history:.0f}"]
    if part.marker and part.capture is not None:
        source = pipeline.captures[part.capture].source
        # The connection string is in the file, and not on the command line.
        own += ["--marker", f"--source=pipeline:{source.name if source else ''}:{pipeline.path.absolute()}"]
    command = (sys.executable, "-m", "cdcv2")
    name, *replicas = part.jobs
    yield name, (*command, "replicas", *logs, *index, *of, *own)
    for name, place in zip(replicas, part.replicas, strict=True):
        yield name, (*command, "instance", *logs, "--replica", f"--instance={place}")


def instance_logs(pipeline: Pipeline, part: InstanceFields) -> list[Path]:
    """What has to be there of the logs in folders before an instance of a capture can start."""
    into = None if part.capture is None else pipeline.captures[part.capture].arguments.into
    return [] if into is None or into.is_topic else [Path(into.of(table).name) / LOG_FILE for table in part.index]


def make_places(pipeline: Pipeline) -> None:
    """Make the folders of the sockets, open to their user alone. Raises OutputError."""
    for part in pipeline.instances.values():
        folder = part.replicas[0].parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder} cannot be made: {error.strerror}; mend that, or name another state") from None


def _logs(pipeline: Pipeline, part: InstanceFields) -> list[str]:
    if part.capture is None:
        return list(part.logs)
    into = pipeline.captures[part.capture].arguments.into
    # A topic does not know its table.
    return [f"{table}={into.of(table)}" if into.is_topic else str(into.of(table)) for table in part.index]


def _reach(pipeline: Pipeline, part: InstanceFields) -> list[str]:
    """What is needed to read topics."""
    capture = None if part.capture is None else pipeline.captures[part.capture].arguments
    if capture is None or not capture.into.is_topic:
        return []
    return [*kafka_words(*pipeline.kafka), f"--rows={pipeline.rows}"]
