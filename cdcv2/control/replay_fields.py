"""``replays:`` of a pipeline's file: the whole history of some tables, as Parquet files that are read as of a time.

::

    replays:
      history:
        capture: shop                                   the only capture, if it is left out; or logs: {TABLE: FOLDER}
        tables: [public.orders, public.customers]       not with logs that name them
        output: history                                 the folder of the lake
        start: 100                                      where the history begins; 0, if it is left out
        quarantine: quarantine                          decisions about contradictions in the logs
        spark: {state: /data/replay}                    it runs on Spark (cdcv2.control.spark_fields)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdcv2.cli.options.times import whole_number
from cdcv2.control.part_logs import logs_of_tables
from cdcv2.control.quarantine_field import QUARANTINE, quarantine_folder, quarantine_part
from cdcv2.control.spark_fields import SparkFields, replay_on_spark
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.logs.log_names import table_of
from cdcv2.store.file_system import is_there
from cdcv2.suggestions import meant


@dataclass(frozen=True)
class ReplayLogs:
    """The logs of a capture. ``reach``: words for how topics are read; None: the logs are in folders."""

    capture: str
    place_of: Callable[[str], str]
    reach: tuple[str, ...] | None


@dataclass(frozen=True)
class ReplayFields:
    """A history. ``capture``: whose logs; None: those that the file names.

    ``words`` has the logs, and how they are read, as a command line has it. ``start`` is None where it is left out.
    """

    name: str
    capture: str | None
    tables: tuple[str, ...]
    words: tuple[str, ...]
    output: Path
    start: str | None
    node: YamlNode = field(repr=False)
    #: How it runs on Spark; None: as a command.
    spark: SparkFields | None = None
    #: The folder of decisions about contradictions; None: the file names none.
    quarantine: Path | None = None


def replay_fields(
    name: str, part: YamlNode, logs_of: Callable[[YamlNode | None], ReplayLogs], under: Callable[[YamlNode], Path]
) -> ReplayFields:
    """The history that a part of the file has kept. Raises UsageError with the line.

    ``logs_of`` gives the logs of the capture that a part names, or of the only one; ``under`` reads a path of the file.
    """
    fields = part.fields("output", "capture logs tables start quarantine spark")
    if "capture" in fields and "logs" in fields:
        fields["capture"].fail("'capture' and 'logs' both name logs: leave one out")
    capture = None if "logs" in fields else logs_of(fields.get("capture"))
    tables = _tables(fields, part)
    if capture is None:
        words = tuple(logs_of_tables(fields["logs"], tables, under, "tables"))
    else:
        words = (*(f"{table}={capture.place_of(table)}" for table in tables), *(capture.reach or ()))
    start = _start(fields["start"]) if "start" in fields else None
    words = (*words, *([] if start is None else [f"--start={start}"]))
    named = quarantine_part(fields, fields.get("spark"))
    quarantine = None if named is None else quarantine_folder(named, under)
    if QUARANTINE in fields:
        words = (*words, f"--quarantine={quarantine}")
    output = under(fields["output"])
    spark = None
    if "spark" in fields:
        spark = replay_on_spark(fields["spark"], [*words, f"--output={output}"], under)
    capture_name = None if capture is None else capture.capture
    return ReplayFields(name, capture_name, tables, words, output, start, part, spark, quarantine)


def _tables(fields: Mapping[str, YamlNode], part: YamlNode) -> tuple[str, ...]:
    named = "logs" in fields and not fields["logs"].is_text
    if named and "tables" in fields:
        fields["tables"].fail("'logs' names the tables: leave 'tables' out")
    if named:
        if not fields["logs"].entries():
            fields["logs"].fail("there is no log here: name one, as {orders: logs/orders}")
        return tuple(table for table, _ in fields["logs"].entries())
    if "tables" not in fields:
        part.fail("which tables? Write tables: [TABLE, ...]")
    tables = tuple(fields["tables"].texts())
    if not tables or not all(tables) or len(set(tables)) < len(tables):
        fields["tables"].fail("a list of tables is wanted here, each once: write [public.orders]")
    return tables


def _start(part: YamlNode) -> str:
    text = part.text()
    try:
        whole_number(text)
    except ValueError:
        part.fail(f"{text!r} is no time of a lake: write a whole number")
    return text


def demand_outputs_apart(
    replays: Mapping[str, ReplayFields], taken: Iterable[tuple[Path, str]], of_logs: Iterable[tuple[Path, str]]
) -> None:
    """Raise UsageError, with the line, for an output that is no folder of its own.

    ``taken``: what other parts write, and which ones; ``of_logs``: folders in which logs are, beside which it may be.
    An output has a folder for each table, so neither of two may be in the other. Two replays that write one folder
    would end one another.
    """
    # A link leads to the same folder.
    places = [(path.resolve(), who) for path, who in taken]
    places += [
        (one.quarantine.resolve(), f"{name}, as its quarantine") for name, one in replays.items() if one.quarantine
    ]
    beside = {path.resolve(): who for path, who in of_logs}
    for name, replay in replays.items():
        output, place = dict(replay.node.entries())["output"], replay.output.resolve()
        if place.exists() and not place.is_dir():
            output.fail(f"{replay.output} is a file: give {name} a folder")
        if place in beside:
            output.fail(f"{replay.output} is written by {beside[place]}, too: give {name} an output of its own")
        logs = [(path, "the capture of its logs") for path in _folders_of_logs(replay)]
        logs += [(path, "the capture of a log") for path in (place, *place.parents) if is_there(path / LOG_FILE)]
        for path, who in (*places, *logs):
            if path == place:
                output.fail(f"{replay.output} is written by {who}, too: give {name} an output of its own")
            if path.is_relative_to(place) or place.is_relative_to(path):
                output.fail(
                    f"{replay.output} and {path}, which is written by {who}, are one in the other: give {name} an "
                    "output of its own"
                )
        places.append((place, f"the replay {name} (line {replay.node.line})"))


def _folders_of_logs(replay: ReplayFields) -> Iterator[Path]:
    places = (table_of(word)[1] for word in replay.words if not word.startswith("-"))
    yield from (Path(place).resolve() for place in places if not place.startswith("kafka:"))


def known_tables(replay: ReplayFields, tables: Mapping[str, object]) -> None:
    """Raise UsageError, with the line, for a table that the capture of a replay does not capture."""
    for table in replay.tables:
        if table not in tables:
            replay.node.fail(
                f"there is no log of the table {table!r}; the capture {replay.capture} has "
                f"{', '.join(tables)}{meant(table, tables)}"
            )
