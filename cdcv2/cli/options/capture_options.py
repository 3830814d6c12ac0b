"""Every option of a capture, each stated once: to add an option, add an entry to :data:`OPTIONS`, and use it.

One that goes with all ways, and is not about Kafka, must be in ``WITH_ALL_WAYS`` of tests/cli/test_capture_options.py,
too: so that no way ignores it by oversight.

An entry has its name and its help, which ways to capture it goes with, whether it is about Kafka, and which program has
it: the command, the job on Spark, or both. The parsers of both, what is refused (``capture_ways``), and the fields of a
pipeline's file (:func:`fields_of_pipelines`) come from it. What the arguments mean is in ``capture_arguments``,
``remap_arguments`` and ``stream_arguments``; words that other programs have, too, are in ``words``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cdcv2.capture.connector import FIRST_KIND, FROM_ENVELOPE, FROM_STATE
from cdcv2.capture.release_answers import RELEASE_EVERY
from cdcv2.capture.run.remap_loop import AT_MOST
from cdcv2.capture.run.spilled_rows import MEMORY_ROWS
from cdcv2.cli.options.words import positive
from cdcv2.connectors.kinds import called_by_kinds
from cdcv2.connectors.stream import DIFF, TIME
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER

#: The ways: by commit times, on a shared remap, and of streams; the latter two are named by the option that chooses.
COMMIT_TIMES, REMAP, STREAM = "commit times", "--remap", "--stream"
ALL_WAYS = (COMMIT_TIMES, REMAP, STREAM)
#: The programs: the command, and the job on Spark.
COMMAND, JOB = "command", "job"
#: The groups of a help.
WHAT, ON_REMAP = "what is captured, and where it goes", "on a shared remap"
STREAMS = "records with times of their own"
#: What has to be there for an option to be about anything: topics in Kafka, or dumps; logs or a remap in Kafka.
READS, DUMPS, WRITES = "reads", "dumps", "writes"

_NONE: Mapping[str, Any] = MappingProxyType({})
_BOTH: Mapping[str, Mapping[str, Any]] = MappingProxyType({COMMAND: _NONE, JOB: _NONE})


class CaptureOption(NamedTuple):
    """An option, or a word that names what is read.

    - ``settings``: those of argparse, ``help`` among them. A word that other programs have, too, has its own in
      ``words``: then ``more`` ends its help, and the rest changes them.
    - ``programs``: which programs have it, each with settings that are its own.
    - ``ways``: which ways to capture it goes with. ``reason``: why not with --remap, if it goes without.
      ``from_state``: why not with --before from-state; empty: it goes with that.
    - ``places``: READS, DUMPS, WRITES: one of these must be there; none: it goes with all places.
    - ``group``: where a help shows it; None: among the options of every program.
    - ``several``: it is there only where there are connectors of several kinds to choose from.
    - ``is_path``: its value is a path, or the address of a topic. A path in a pipeline is from the folder of its file.
    - ``by_pipeline``: a pipeline states it, from other fields of its file: it is no option of a capture there.
    """

    name: str
    settings: Mapping[str, Any] = _NONE
    programs: Mapping[str, Mapping[str, Any]] = _BOTH
    ways: tuple[str, ...] = ALL_WAYS
    reason: str = ""
    from_state: str = ""
    places: frozenset[str] = frozenset()
    group: str | None = None
    several: bool = False
    is_path: bool = False
    by_pipeline: bool = False


def _what(name: str, ways: tuple[str, ...] = ALL_WAYS, reason: str = "", **settings: Any) -> CaptureOption:
    return CaptureOption(name, settings, ways=ways, reason=reason, group=WHAT)


def _of_database(name: str, **settings: Any) -> CaptureOption:
    return _what(name, (COMMIT_TIMES, REMAP), **settings)


def _of_remap(name: str, **settings: Any) -> CaptureOption:
    return CaptureOption(name, settings, ways=(REMAP,), group=ON_REMAP)


def _of_stream(name: str, **settings: Any) -> CaptureOption:
    return CaptureOption(name, settings, ways=(STREAM,), group=STREAMS)


def _of_kafka(
    name: str, *about: str, programs: Mapping[str, Mapping[str, Any]] = _BOTH, **settings: Any
) -> CaptureOption:
    return CaptureOption(name, settings, programs, places=frozenset(about))


def _without_remap(name: str, reason: str, programs: Mapping[str, Mapping[str, Any]], **settings: Any) -> CaptureOption:
    return CaptureOption(name, settings, programs, (COMMIT_TIMES, STREAM), reason)


#: All of them, in the order of a help.
OPTIONS: tuple[CaptureOption, ...] = (
    _what(
        "source", nargs="*", metavar="FROM",
        help="what is read: dumps (files, or directories of them), or the word kafka; with --bootstrap it may be left "
             "out, and is kafka",
    ),
    _of_database(
        "--prefix", action="append", metavar="NAME",
        help=f"the connector's {called_by_kinds(lambda words: words.prefix)}; with --remap also several, one for each "
             "database",
    )._replace(by_pipeline=True),
    _of_database(
        "--connector", metavar="KIND", default=FIRST_KIND,
        help=f"which connector has written the topics of --prefix, of each one if there are several (default: "
             f"{FIRST_KIND}); for databases of two kinds run two captures, which may share a remap",
    )._replace(several=True),
    _what("--rows", required=True, more="; of several databases DIR/PREFIX/TABLE.avsc")._replace(
        is_path=True, by_pipeline=True
    ),
    _of_database(
        "--tables", metavar="A,B", help="which tables (default: each with a file in --rows)"
    )._replace(by_pipeline=True),
    _what("--into")._replace(
        programs={COMMAND: {"more": " (needs --remap)"}, JOB: _NONE}, is_path=True, by_pipeline=True
    ),
    _what("--no-create")._replace(places=frozenset({WRITES}), by_pipeline=True),
    _of_database(
        "--snapshot", choices=("initial", "none"), default="initial",
        help="whether the topics begin with the connector's initial snapshot (default: initial)",
    ),
    _of_database(
        "--notifications", action="append", default=[], metavar="TOPIC",
        help="the connector's notification topic: it states how many rows the snapshot has (with --remap a snapshot "
             "needs it); PREFIX=TOPIC for one of several",
    )._replace(by_pipeline=True),
    _of_database("--full-identity", metavar="A,B",
                 help=f"tables that are known to have {called_by_kinds(lambda words: words.whole_rows)}, now and "
                      "later, each partition included; if one of them lacks it, a DELETE would remove a row that is "
                      "not in the log"),
    _of_database(
        "--before", choices=(FROM_ENVELOPE, FROM_STATE), default=FROM_ENVELOPE,
        help="where before-images come from: the records, which must have them whole (the default), or what the logs "
             "hold: all rows are then in memory",
    ),
    _of_database(
        "--empty", metavar="A,B",
        help="tables that were empty when the snapshot was taken, or made later; needed for those that have no topic "
             "and that no notification names. cdcv2 verify shows that this was assumed",
    ),
    _what(
        "--snapshot-again", (COMMIT_TIMES,), "a second snapshot stops a capture there", metavar="LSN,LSN",
        help=f"the LSNs of second snapshots ({called_by_kinds(lambda words: words.snapshot_lsn)} of their rows): the "
             f"connector lost its {called_by_kinds(lambda words: words.slot)}, made a new one, and took a second "
             "snapshot. It becomes the difference to what the logs hold. Name all of them, in every run. Needs "
             "--before from-state and --notifications",
    ),
    _without_remap(
        "--state", "on a shared remap the logs are the only memory", {JOB: _NONE},
        more=", small, and Spark's checkpoint; not with --remap",
    )._replace(is_path=True, by_pipeline=True),
    _of_kafka("--bootstrap", READS, WRITES)._replace(by_pipeline=True),
    _of_kafka("--log-bootstrap", WRITES, programs={JOB: _NONE}, metavar="HOST:PORT",
              help="the Kafka of the logs, if it is another one"),
    _of_kafka("--partitions", WRITES, programs={JOB: _NONE}),
    _of_kafka(
        "--kafka-config", READS, WRITES, programs={COMMAND: _NONE, JOB: {"more": "; all machines must see it"}}
    )._replace(is_path=True, by_pipeline=True),
    _of_kafka("--patience", READS, WRITES, programs={COMMAND: _NONE}),
    CaptureOption(
        "--follow", programs={COMMAND: {"default": False, "more": "; from Kafka"}, JOB: {"default": True}},
        by_pipeline=True,
    ),
    _without_remap(
        "--interval", "the least time between two bindings is --bind-every", {JOB: _NONE}, default=None,
        more=" (default: as soon as there is something)",
    ),
    CaptureOption(
        "--max-records",
        programs={
            COMMAND: {"more": f" (default: {RELEASE_EVERY}; with --remap {AT_MOST})"},
            JOB: {"default": 200_000,
                  "more": " (default: 200000); with --remap about so many, and whole bindings"},
        },
    ),
    CaptureOption(
        "--memory-rows",
        {"type": positive(int), "default": MEMORY_ROWS, "metavar": "N",
         "help": "keep at most so many rows of open transactions in memory, those of a snapshot included; more are in "
                 f"a temporary file; not with --remap or --before from-state (default: {MEMORY_ROWS})"},
        {COMMAND: _NONE}, (COMMIT_TIMES,), "all rows of open transactions are in memory there",
        from_state="all rows of the tables are in memory then",
    ),
    _without_remap("--max-files", "a batch is a binding there, of --bind-at-most records", {JOB: _NONE},
                   more="; without --remap")._replace(places=frozenset({DUMPS})),
    CaptureOption("--json", {"more": "the result, one object"}, {COMMAND: _NONE}, by_pipeline=True),
    CaptureOption("--events", by_pipeline=True),
    CaptureOption("--app-name", {"default": "cdcv2 capture"}, {JOB: _NONE}),
    CaptureOption("--spark-log", {"default": "OFF"}, {JOB: _NONE}),
    _without_remap(
        "--sole", "any number of captures may write the same logs there", _BOTH, action="store_true",
        help="run beside no other capture of these logs: one of the two is refused, and names the other; used by "
             "cdcv2 up",
    )._replace(by_pipeline=True),
    _of_remap("--remap", more="; made if it is not there")._replace(is_path=True),
    _of_remap(
        "--plain", action="append", default=[], metavar="TABLE=TOPIC",
        help="a topic whose records are rows of a table that only grows; DIR/TABLE.avsc in --rows",
    ),
    _of_remap(
        "--ordering", choices=(COMMIT_ORDER, AS_COMPLETE), default=COMMIT_ORDER,
        help="in which order transactions are released: commit is that of their commits (the default); complete is "
             "each as soon as it is whole. No frontier is a consistent cut then, and materialize, compare and --before "
             "from-state cannot be used",
    ),
    _of_remap("--bind-as", metavar="NAME",
              help="the name of this capture in the remap, for people who read it (default: host:pid)"),
    _of_remap("--bind-every", type=float, default=1.0, metavar="SECONDS",
              help="the least time between two bindings, while it follows (default: 1)"),
    _of_remap("--bind-idle", type=float, default=10.0, metavar="SECONDS",
              help="after how many seconds without a record the logs state that none came (default: 10; 0: never)"),
    _of_remap("--bind-at-most", type=positive(int), default=100_000, metavar="N",
              help="about how many records one binding takes in; they are held in memory (default: 100000)"),
    _of_remap("--begin-at-first", action="store_true",
              help="let a plain topic that is new to the remap begin with the first record that is still there"),
    _of_remap("--propose-recipe", action="store_true",
              help="bind later times under another recipe: what these arguments name. Without it a capture with "
                   "another recipe than that of the remap is refused"),
    _of_stream(
        "--stream", action="append", default=[], metavar="TABLE=TOPIC",
        help="a topic whose records are updates with times of their own, and bounds; DIR/TABLE.avsc in --rows "
             "(docs/operations/streams.md)",
    ),
    _of_stream("--time-column", default=TIME, metavar="NAME",
               help=f"the column of a --stream that has the time (default: {TIME})"),
    _of_stream("--diff-column", default=DIFF, metavar="NAME",
               help=f"the column that has the diff; where a record lacks it, it is 1 (default: {DIFF})"),
)  # fmt: skip


def fields_of_pipelines(program: str) -> dict[str, CaptureOption]:
    """By its name in a pipeline's file each option of the program that a capture may have there.

    >>> fields_of_pipelines(COMMAND)["remap"].is_path, "into" in fields_of_pipelines(COMMAND)
    (True, False)
    """
    named = {option.name: option for option in OPTIONS if program in option.programs and not option.by_pipeline}
    return {name.removeprefix("--"): option for name, option in named.items() if name.startswith("--")}


#: What options were called before, by program: old -> new.
OLD: Mapping[str, Mapping[str, str]] = {
    COMMAND: {"--release-every": "--max-records", "--name": "--bind-as"},
    JOB: {
        "--available-now": "--no-follow", "--name": "--app-name", "--logs": "--into", "--files": "{}",
        "--log-partitions": "--partitions", "--max-offsets-per-trigger": "--max-records",
    },
}
