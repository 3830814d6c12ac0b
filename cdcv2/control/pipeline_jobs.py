"""The jobs of a pipeline, each of them a process of its own: of its captures, views, replays, timers and instances."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from cdcv2.control.entries import CatalogueEntry
from cdcv2.control.instance_fields import InstanceFields
from cdcv2.control.instance_jobs import instance_commands, instance_logs
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields, kafka_words
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.control.replay_jobs import replay_command, replay_logs
from cdcv2.control.supervisor import JobPlan
from cdcv2.control.timer_fields import TIMER_COMMANDS, TimerFields
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.errors import UsageError
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.store.file_system import is_there

#: The folder of the jobs, in a pipeline's state folder.
JOBS = "jobs"


def jobs_of(pipeline: Pipeline) -> list[JobPlan]:
    """A job for each capture, view, replay and timer, by its name in the file, and those of each instance.

    A job is another one, and is started again, when what the file has about it changes, or the folder of the file; not
    when a variable of the environment does, nor when Python or the file is found by another path.
    """
    parts: list[CaptureFields | ViewFields] = [*pipeline.captures.values(), *pipeline.views.values()]
    return [
        *(
            JobPlan(part.name, _argv(pipeline, part), None, _settings(pipeline, part), _identity(pipeline, part))
            for part in parts
        ),
        *(
            JobPlan(
                part.name, (*replay_command(part), _events(pipeline, part.name)), None,
                _reader_settings(pipeline, part), ("replay", part.name, _place(pipeline)),
            )
            for part in pipeline.replays.values()
        ),
        *(
            JobPlan(
                timer.name, _timer_argv(pipeline, timer), timer.every, _timer_settings(pipeline, timer),
                (timer.command, timer.of, _place(pipeline)),
            )
            for timer in pipeline.timers.values()
        ),
        *(
            JobPlan(
                name, (*argv, _events(pipeline, name)), None, _reader_settings(pipeline, part),
                ("instance", name, _place(pipeline), *map(str, (part.place, *part.replicas))),
            )
            for part in pipeline.instances.values()
            for name, argv in instance_commands(pipeline, part)
        ),
    ]


def with_needs(plans: Iterable[JobPlan], entries: Iterable[CatalogueEntry]) -> list[JobPlan]:
    """The jobs with what is made for them: a job that needs another thing of the same name is another one.

    So one that still writes into what was dropped is ended, though the file has the same again.
    """
    known = list(entries)
    made = []
    for plan in plans:
        nonces = sorted(one.nonce for one in known if one.is_live and one.owned and plan.name in one.users)
        more = {"external state": " ".join(nonces)} if nonces else {}
        made.append(plan._replace(settings={**plan.settings, **more}))
    return made


class FirstLogs:
    """The logs in folders that views, replays and instances wait for: captures make them when they first start."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._lacking = {view.name: first_logs(pipeline, view) for view in pipeline.views.values()}
        self._lacking |= {part.name: replay_logs(pipeline, part) for part in pipeline.replays.values()}
        for part in pipeline.instances.values():
            self._lacking |= {name: instance_logs(pipeline, part) for name in part.jobs}

    def waits(self, job: str) -> str | None:
        """What a job has to wait for, in words; None: nothing. Once its logs were there, it waits for none again."""
        lacking = self._lacking[job] = [one for one in self._lacking.get(job, []) if not is_there(one)]
        return f"the logs of its capture: {lacking[0].parent} is not there yet" if lacking else None


def first_logs(pipeline: Pipeline, view: ViewFields) -> list[Path]:
    """What has to be there of the logs in folders before a view of a capture can start; none of other views.

    None, too, of a view whose bindings are wrong: it states that itself.
    """
    capture = pipeline.captures[view.capture] if view.capture is not None else None
    if capture is None or capture.arguments.into.is_topic:
        return []
    try:
        bound = [dict(one.entries())["log"].text() for one in view.fields["bindings"].items()]
        return [Path(capture.arguments.into.of(log).name) / LOG_FILE for log in dict.fromkeys(bound)]
    except (UsageError, KeyError):
        return []


def folder_of(pipeline: Pipeline) -> Path:
    """Where the folders of its jobs are."""
    return pipeline.state / JOBS


def _argv(pipeline: Pipeline, part: CaptureFields | ViewFields) -> tuple[str, ...]:
    of_view = (str(pipeline.path.absolute()), f"--view={part.name}")
    words = part.words if isinstance(part, CaptureFields) else of_view
    own = (*_flags(part), _events(pipeline, part.name))
    if part.spark is not None:
        return (*part.spark.argv(words), *own)
    return (sys.executable, "-m", "cdcv2", _command(part), *words, *own)


def _identity(pipeline: Pipeline, part: CaptureFields | ViewFields) -> tuple[str, ...]:
    """What its command line has beside what the file has about it, and what changes what the job does."""
    return (_command(part), part.name, _place(pipeline), *_flags(part))


def _place(pipeline: Pipeline) -> str:
    """The folder of the file, to which its paths are relative, by its one path without links."""
    return os.path.realpath(pipeline.path.parent)


def _command(part: CaptureFields | ViewFields) -> str:
    return "capture" if isinstance(part, CaptureFields) else "materialize"


def _flags(part: CaptureFields | ViewFields) -> tuple[str, ...]:
    made = ("--no-create",) if part.owned is not None and _makes(part) else ()
    # A second one that was started by hand would do the same work again.
    alone = isinstance(part, CaptureFields) and part.arguments.remap is None
    return (*(("--sole",) if alone else ()), *made, "--follow")


def _makes(part: CaptureFields | ViewFields) -> bool:
    """Whether it would make something in a foreign system: a view its tables, a capture its topics."""
    if isinstance(part, ViewFields):
        return True
    return any(one is not None and one.is_topic for one in (part.arguments.into, part.arguments.remap))


def _timer_argv(pipeline: Pipeline, timer: TimerFields) -> tuple[str, ...]:
    if TIMER_COMMANDS[timer.command]:
        words = [str(pipeline.path.absolute()), f"--view={timer.of}"]
    else:
        asked = pipeline.captures[timer.of].arguments
        words = [str(asked.remap)]
        if asked.remap.is_topic:
            words += kafka_words(asked.bootstrap, asked.kafka_config)
    own = (*timer.arguments, _events(pipeline, timer.name))
    return (sys.executable, "-m", "cdcv2", timer.command, *words, *own)


def _timer_settings(pipeline: Pipeline, timer: TimerFields) -> dict[str, str]:
    """What the file has about a timer, and about the remap that it works on."""
    found = _written(timer.node)
    if not TIMER_COMMANDS[timer.command]:
        found |= {f"capture {timer.of}": pipeline.captures[timer.of].node.written()}
        found |= {f"{name}:": node.written() for name, node in pipeline.node.entries() if name == "kafka"}
    return found


def _events(pipeline: Pipeline, name: str) -> str:
    return f"--events={JobFolder(folder_of(pipeline) / name).events}"


def _settings(pipeline: Pipeline, part: CaptureFields | ViewFields) -> dict[str, str]:
    """All that the file has about a part, as it is written there, by its keys: its variables are not filled in."""
    found = _written(part.node)
    if isinstance(part, CaptureFields) and part.source is not None:
        found[f"source {part.source.name}"] = part.source.node.written()
    if isinstance(part, ViewFields) and part.capture is not None:
        found[f"into of capture {part.capture}"] = pipeline.captures[part.capture].into.written()
    return found | _shared(pipeline)


def _reader_settings(pipeline: Pipeline, part: InstanceFields | ReplayFields) -> dict[str, str]:
    """What the file has about an instance or a replay, and about where its logs are."""
    found = _written(part.node)
    if part.capture is not None:
        found[f"into of capture {part.capture}"] = pipeline.captures[part.capture].into.written()
    return found | _shared(pipeline)


def _shared(pipeline: Pipeline) -> dict[str, str]:
    """What the file has for all of its parts."""
    return {f"{name}:": node.written() for name, node in pipeline.node.entries() if name in ("kafka", "rows")}


def _written(node: YamlNode) -> dict[str, str]:
    return {name: part.written() for name, part in node.entries()}
