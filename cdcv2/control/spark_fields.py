"""``spark:`` of a capture, a view or a replay in a pipeline's file: it runs as a job on Spark, started by spark-submit.

::

    spark:
      state: /data/shop-state                the job's state; all machines of Spark see this folder
      arguments: [--master, "spark://HOST:7077", --jars, "${JARS}"]
      conf: {spark.executor.memory: 2g}
      max-files: 100                         options of the job that the command does not have
"""

from __future__ import annotations

import sys
from argparse import Action
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cdcv2.cli.options.capture_options import COMMAND, JOB, fields_of_pipelines
from cdcv2.cli.options.capture_parser import add_capture_job_options
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.spark_jobs import add_materialize_job_options, add_replay_job_options
from cdcv2.control.argument_secrets import demand_no_secret, demand_no_secrets
from cdcv2.control.yaml_lines import LineError, YamlNode
from cdcv2.errors import MissingExtraError, UsageError
from cdcv2.spark_files import job_file, spark_submit_program

#: What spark-submit is given, and not the job.
_SUBMIT = "submit arguments conf state"
#: Options of the jobs that read logs which a pipeline gives itself; those of a capture are in ``capture_options``.
_GIVEN = {"help", "events", "follow", "no-follow", "state", "view"}
#: Those of the replay job that the file has beside ``spark``.
_OF_REPLAY = ("row", "rows", "output", "bootstrap", "kafka-config", "timeline", "start")
#: Those of the jobs that read logs whose value is a path.
_PATHS = {"checkpoint", "quarantine"}
#: What chooses where the driver runs.
_MODE = "spark.submit.deployMode"
#: Where a secret of spark-submit belongs.
_INSTEAD = "put it into a file, and give [--properties-file, FILE]"


@dataclass(frozen=True)
class SparkFields:
    """How a part of a pipeline runs on Spark.

    ``submit``: the program; None: that of the installed pyspark, or else the one in PATH. ``before``: its own words,
    ``words``: those of the job.
    """

    job: str
    submit: str | None
    before: tuple[str, ...]
    words: tuple[str, ...]
    node: YamlNode = field(repr=False)

    def argv(self, words: Iterable[str]) -> tuple[str, ...]:
        """The command line of the job with these words before its own."""
        # Where the driver runs is stated whatever a file of properties has; so is which Python it is.
        own = ("--deploy-mode", "client", "--conf", f"spark.pyspark.python={sys.executable}")
        return (self.submit or _found(), *own, *self.before, str(job_file(self.job)), *words, *self.words)


def capture_on_spark(part: YamlNode, words: Sequence[str], under: Callable[[YamlNode], Path]) -> SparkFields:
    """How a capture with these words of ``cdcv2 capture`` runs on Spark. Raises UsageError with the line.

    ``under`` makes a path of a text.
    """
    known = OptionParser("capture.py", None)
    add_capture_job_options(known)
    stateless = any(word.partition("=")[0] == "--remap" for word in words)
    # What the command has, too, is among the options of the capture, and in ``words``.
    own = {name: one.is_path for name, one in fields_of_pipelines(JOB).items() if COMMAND not in one.programs}
    return _fields("capture", known, part, words, under, own, stateless=stateless)


def view_on_spark(part: YamlNode, words: Sequence[str], under: Callable[[YamlNode], Path]) -> SparkFields:
    """How a view runs on Spark, whose words are the file and its name in it. Raises UsageError with the line."""
    known = OptionParser("materialize.py", None)
    add_materialize_job_options(known)
    return _fields("materialize", known, part, words, under, _of_reader(known))


def replay_on_spark(part: YamlNode, words: Sequence[str], under: Callable[[YamlNode], Path]) -> SparkFields:
    """How a replay with these words of its job runs on Spark. Raises UsageError with the line."""
    known = OptionParser("replay.py", None)
    add_replay_job_options(known)
    return _fields("replay", known, part, words, under, _of_reader(known, less=_OF_REPLAY))


def _of_reader(known: OptionParser, less: Iterable[str] = ()) -> dict[str, bool]:
    """The options that a file may have for a job that reads logs, and whether the value of each is a path."""
    return {word: word in _PATHS for word in _words(known) if word not in _GIVEN and word not in less}


def _fields(
    job: str, known: OptionParser, part: YamlNode, given: Sequence[str], under: Callable[[YamlNode], Path],
    own: Mapping[str, bool], *, stateless: bool = False,
) -> SparkFields:
    """``own``: by name, the options that the file may have, and whether the value of each is a path."""
    actions = _words(known)
    fields = part.fields("" if stateless else "state", " ".join([_SUBMIT, *own]))
    if stateless and "state" in fields:
        fields["state"].fail("a capture on a remap keeps no state beside its logs: leave it out")
    words = [] if stateless else [f"--state={under(fields['state'])}"]
    for name, is_path in own.items():
        if name in fields:
            words += _option(name, actions[name], fields[name], under if is_path else YamlNode.text)
    try:
        known.parse_args([*given, *words])
    except UsageError as error:
        if isinstance(error, LineError):
            raise
        named = [node for name, node in fields.items() if f"--{name}" in str(error)]
        (named[0] if named else part).fail(error)
    submit = fields["submit"].text() if "submit" in fields else None
    return SparkFields(job, submit, _before(fields), tuple(words), part)


def _words(parser: OptionParser) -> dict[str, Action]:
    return {
        word.removeprefix("--"): one for one in parser._actions for word in one.option_strings if word.startswith("--")
    }


def _option(name: str, action: Action, value: YamlNode, read: Callable[[YamlNode], object]) -> list[str]:
    if action.nargs == 0:
        return [f"--{name}"] if value.one_of("yes", "no", "true", "false") in ("yes", "true") else []
    return [f"--{name}={read(value)}"]


def _before(fields: dict[str, YamlNode]) -> tuple[str, ...]:
    """The words of spark-submit. Every user of the machine can read them: what looks like a secret is refused."""
    words: list[str] = []
    for name, value in fields["conf"].entries() if "conf" in fields else []:
        _demand_allowed(value, f"{name}={value.text()}")
        words += ["--conf", f"{name}={value.text()}"]
    items = fields["arguments"].items() if "arguments" in fields else []
    demand_no_secrets(items, _INSTEAD)
    for before, item in zip([None, *items], items):
        word = item.text()
        _demand_allowed(item, f"{_MODE}={word}" if before is not None and before.text() == "--deploy-mode" else word)
        words.append(word)
    return tuple(words)


def _demand_allowed(part: YamlNode, word: str) -> None:
    name, _, value = word.removeprefix("--conf=").partition("=")
    if name in (_MODE, "--deploy-mode") and value != "client":
        part.fail(
            f"the driver of a job must run on this machine, where cdcv2 up can see and end it (--deploy-mode client), "
            f"and here it is {value!r}: leave it out; the executors run where --master has them"
        )
    demand_no_secret(part, word, _INSTEAD)


def _found() -> str:
    try:
        return str(spark_submit_program())
    except MissingExtraError:
        return "spark-submit"
