"""How a command line names remaps, positions in their sources, and how both are shown.

::

    remap                    a shared remap in a directory
    kafka:remap              one in a topic, at the brokers of --bootstrap

    17  16/B374D848          a position: a number, an LSN
    2@17                     of a topic: partition 2, offset 17
    bank=16/B374D848         of one source of several, by its name
    orders=2@17              and that source may be a topic
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from cdcv2.cli.display import json_line
from cdcv2.cli.logs import LOG_FILE, check_kafka
from cdcv2.cli.options.log_words import declare_kafka_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import parse_time, whole_number
from cdcv2.cli.options.words import declare
from cdcv2.completeness import time_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import MalformedError, UsageError
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.log_address import LogAddress
from cdcv2.store.file_system import is_there, matching
from cdcv2.timeline.gauges import lsn, lsn_text
from cdcv2.timeline.minting import Minting, Read, RemapLog, run
from cdcv2.timeline.partitioned import Part, Partitioned
from cdcv2.timeline.records import Genesis, HoldRecord, Proposal, Record, decode
from cdcv2.timeline.shared_remap import AcceptedBinding, LogView, SharedRemap


def add_remap_arguments(parser: OptionParser) -> None:
    """Declare the remap to read, as ``args.remap``, how to reach Kafka, and how to show its positions."""
    declare(parser, "remap")
    declare_kafka_words(parser)
    declare(parser, "--lsn")


def open_remap(address: LogAddress, args: argparse.Namespace, *, create: bool = False) -> RemapLog:
    """The log of the remap; with ``create`` it is made if it is not there.

    Raises UsageError, MissingLogError, UnavailableError, UnsafeTopicError.
    """
    if not address.is_topic:
        return DirectoryRemap(Path(address.name), create=create)
    from cdcv2.logs.remap_kafka import KafkaRemap

    patience = check_kafka(args)
    return KafkaRemap(address.name, args.bootstrap, config_file=args.kafka_config, create=create, patience=patience)


def is_remap(address: LogAddress) -> bool:
    """Whether it is a directory that holds a remap, by what it has in it."""
    folder = Path(address.name)
    if address.is_topic or is_there(folder / LOG_FILE):
        return False
    return bool(matching(folder, "[0-9]" * 20 + ".json"))


def parse_position(text: str) -> Time:
    """A position as it is written on a command line; see the top. Raises UsageError.

    >>> parse_position("orders=2@17"), parse_position("16/B374D848") == 0x16B374D848
    (Partitioned.at('orders', Partitioned.at(2, 17)), True)
    """
    name, named, rest = text.partition("=")
    if named:
        return Partitioned.at(name, parse_position(rest))
    partition, numbered, rest = text.partition("@")
    try:
        if numbered:
            return Partitioned.at(whole_number(partition), parse_position(rest))
        return lsn(text) if "/" in text else parse_time(text)
    except (ValueError, UsageError) as cause:
        raise UsageError(
            f"{text!r} is no position: write 17, 16/B374D848, 2@17 for partition and offset, or NAME=one of these"
        ) from cause


def position_text(position: Time, as_lsn: bool) -> str:
    """A position as :func:`parse_position` takes it.

    >>> position_text(Partitioned.at("orders", Partitioned.at(2, 17)), False)
    'orders=2@17'
    """
    if isinstance(position, Partitioned) and position.time is not None:
        numbered = isinstance(position.part, int)
        # The offsets of a topic are no LSNs, whatever else there is on the timeline.
        inner = position_text(position.time, as_lsn and not numbered)
        return f"{position.part}{'@' if numbered else '='}{inner}"
    return lsn_text(position) if as_lsn and type(position) is int else time_text(position)


def places(frontier: Antichain, as_lsn: bool, within: str = "") -> Iterator[str]:
    """A frontier as lines: how far each part is, and which are finished. What is not named has not started.

    >>> list(places(Antichain([Partitioned.at(0, 4), Partitioned.rest([0, 2])]), False))
    ['0@4', '2 finished']
    >>> list(places(Antichain([Partitioned.at(0, 4)]), False))
    ['0@4', 'all others finished']
    """
    if not frontier:
        yield f"{within}finished"
    started: dict[Part, list[Time]] = {}
    waiting: list[Partitioned] = []
    for element in frontier:
        if not isinstance(element, Partitioned):
            yield within + position_text(element, as_lsn)
        elif element.part is None or element.time is None:
            waiting.append(element)
        else:
            started.setdefault(element.part, []).append(element.time)
    for part, times in started.items():
        numbered = isinstance(part, int)
        yield from places(Antichain(times), as_lsn and not numbered, f"{within}{part}{'@' if numbered else '='}")
    for rest in waiting:
        if rest.all_but:
            yield from (f"{within}{part} finished" for part in rest.named if part not in started)
        yield from () if rest.named else [f"{within}not started"]
    if started and not any(rest.all_but for rest in waiting):
        yield f"{within}all others finished"


def record_lines(log: RemapLog, *, as_json: bool, brief: bool, as_lsn: bool) -> Iterator[str]:
    """Each record of a remap, in order, and its outcome. Raises DamagedRecordError for bytes that are none."""
    view, bindings = run(log, _all())
    won = {one.position for one in bindings}
    for position, raw in view.records:
        record, holds = decode(raw, position), position in won
        if as_json:
            plain = json.loads(raw)
            if "position" in plain:
                # That of a summary is up to where it sums up, not where it stands.
                plain["before"] = plain.pop("position")
            yield json_line({"position": position, "won": holds, **plain})
        elif holds or not brief:
            yield _record_text(f"{log.name}@{position}", record, holds, as_lsn)


def _all() -> Minting[tuple[LogView, list[AcceptedBinding]]]:
    """All records, and the bindings that hold."""
    view: LogView = yield Read(0)
    return view, SharedRemap().absorb(view) if view.records else []


def _record_text(head: str, record: Record, holds: bool, as_lsn: bool) -> str:
    by = f"  by {record.by}" if record.by else ""
    if isinstance(record, Genesis):
        where, what = record.start, f"genesis   under {record.recipe!r}, from"
    elif isinstance(record, Proposal):
        binding = record.binding
        upper = "the end" if binding.upper is None else str(binding.into)
        recipe = "" if record.recipe is None else f", under {record.recipe!r} from now on"
        where, what = binding.frontier, f"binding   {binding.lower} to {upper}{recipe}:"
    elif isinstance(record, HoldRecord):
        needed = "not needed any more" if record.since is None else f"needed from the time {record.since} on"
        of = f"{record.called} ({record.of})" if record.called else record.of
        return f"{head}  hold      {of}: {needed}{by}"
    else:
        since = record.remap["bindings"][0][0]
        return f"{head}  summary   of all before {record.position}, from the time {since} on{by}"
    return f"{head}  {what} {', '.join(places(where, as_lsn))}{by}{'' if holds else '  (void)'}"


def check_time(text: str) -> int:
    """A time of a timeline. Raises UsageError for anything but an integer from 0 on."""
    try:
        time = parse_time(text)
    except MalformedError as cause:
        raise UsageError(f"{text!r} is no time of a timeline") from cause
    if type(time) is not int:
        raise UsageError(f"{text!r} is no time of a timeline: those are integers, as milliseconds are")
    return time
