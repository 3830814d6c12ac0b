"""``cdcv2 capture --remap``: what the arguments mean, and the capture at work; see :mod:`cdcv2.cli.capture`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from cdcv2.capture.binder import Binder
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.empty_directory import clear_empty
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.log_types import in_directories, kept_types
from cdcv2.capture.run.omitted_tables import CaptureLogs, bring_up, check_left_out
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.outputs import outputs
from cdcv2.capture.run.recipe_check import DatabaseLogs, check_first, check_fresh, check_there
from cdcv2.capture.run.remap_loop import RunResult, begin_when_there, carry_on
from cdcv2.capture.run.request import CaptureRequest, temp_name, together
from cdcv2.capture.run.timeline_manifest import check_timeline, write_timeline
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.cli.console import ResultOutput as Written, remark
from cdcv2.cli.logs import kafka_client, kafka_log
from cdcv2.cli.options.capture import dump_files, from_kafka
from cdcv2.cli.options.remap_capture import capture_request, run_options
from cdcv2.cli.progress import Lines
from cdcv2.cli.remaps import open_remap
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import through_text
from cdcv2.connectors.debezium.envelope import Recipe
from cdcv2.connectors.debezium.topics_check import check_meet
from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import CAPTURE_FILE, log_set_in
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.log_set import describe_log_set
from cdcv2.protocol.log import Log, LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there
from cdcv2.timeline.minting import RemapLog
from cdcv2.timeline.ordering import COMMIT_ORDER

#: How many records are read at once, by default.
AT_MOST = 50_000


def run_shared(args: argparse.Namespace) -> Exit:
    """Capture until what the topics hold now is written, or a signal stops it."""
    asked = capture_request(args)
    ranges = _ranges(args, asked)
    look = ranges.look()
    for recipe, _ in asked.databases.values():
        check_meet(recipe, _there(args, recipe, look), follow=args.follow, remark=_print)
    run = run_options(args, asked)
    with stop_signals() as stopping:
        begun = begin_when_there(
            run, partial(_remap, args, asked, ranges), ranges.look, stopping=stopping, remark=_print
        )
        if begun is None:
            return Exit.DONE
        log, look = begun
        lines = Lines(_print)
        came = carry_on(
            run, log, look, lambda binder: _opened(args, asked, binder, ranges),
            check=lambda binder: _check_proposed(args, asked, binder, look, ranges), stopping=stopping, remark=_print,
            turn=lambda *now: lines.turn(partial(_far, *now)) if args.follow else None,
        )
        if came is None:
            return Exit.DONE
        _report(came, as_json=args.json)
        return Exit.MISSING if came.waiting and not stopping() else Exit.DONE


def _print(text: str) -> None:
    remark(f"cdcv2 capture: {text}")


def _far(capture: SharedCapture, binder: Binder, look: TopicExtents) -> str:
    """How far one is that follows, and what it waits for."""
    behind = binder.behind(look.ends)
    waits = [f"{behind} records to be bound"] if behind else capture.waits()
    return f"{through_text(capture.complete)}: {capture.records} records; {'; '.join(waits) or 'nothing is open'}"


def _ranges(args: argparse.Namespace, asked: CaptureRequest) -> Ranges:
    if from_kafka(args):
        from cdcv2.connectors.kafka_ranges import KafkaRanges

        return KafkaRanges(kafka_client(args), asked.topics, single=asked.single)
    if args.follow:
        raise UsageError("--follow goes with kafka: a dump does not grow")
    return DumpedRanges(DumpedTopics(*dump_files(args)))


def _there(args: argparse.Namespace, recipe: Recipe, look: TopicExtents) -> Collection[str]:
    """All topics that there are."""
    if not from_kafka(args):
        return look.topics
    from cdcv2.connectors.kafka_topics import KafkaTopics

    return KafkaTopics(kafka_client(args), recipe).topics()


def _remap(args: argparse.Namespace, asked: CaptureRequest, ranges: Ranges, look: TopicExtents) -> RemapLog:
    """The remap, which is made if it is not there; not for topics that are not or do not fit, which would leave it."""
    missing = sorted(asked.needed - look.topics)
    try:
        return open_remap(args.remap, args)
    except MissingLogError:
        if not missing:
            check_first(asked, look, ranges)
            return open_remap(args.remap, args, create=True)
        raise MissingLogError(
            f"there is no topic {missing[0]!r} in {' '.join(args.source) or 'kafka'}: its name is wrong, or "
            "nobody has written it yet"
        ) from None


def _check_proposed(
    args: argparse.Namespace, asked: CaptureRequest, binder: Binder, look: TopicExtents, ranges: Ranges
) -> None:
    """Raise an error unless the recipe can be continued, as far as that can be seen before it is proposed."""
    check_left_out(binder, _left(args, ranges))
    _check_logs(args, asked, binder)
    check_fresh(binder, asked, look, ranges, at_first=args.begin_at_first)


def _check_logs(args: argparse.Namespace, asked: CaptureRequest, binder: Binder) -> None:
    """Raise an error unless the logs that are there can be continued. Makes none."""
    folder = together(args.into)
    if folder is not None:
        check_timeline(folder, str(binder.bound.timeline))

    def opened(name: str, row_type: RowType) -> Callable[[], Log]:
        return partial(_log, args, name, row_type, create=False)

    check_there(binder, [(table, opened(table, kind)) for table, (_, kind) in asked.plain.items()], [
        DatabaseLogs(
            names, {table: opened(names[table], kind) for table, kind in recipe.tables.items()},
            opened(temp_name(args.into, prefix), TEMP), recipe.snapshot == "initial",
        )
        for prefix, (recipe, names) in asked.databases.items()
    ])


def _left(args: argparse.Namespace, ranges: Ranges) -> CaptureLogs:
    """The logs of tables that are left out, where they are; a dump is read as it was."""
    return CaptureLogs(
        args.into, Path(args.rows), partial(_log, args, create=False),
        lambda asked: _ranges(args, asked) if from_kafka(args) else ranges, args.max_records or AT_MOST,
    )


@contextmanager
def _opened(args: argparse.Namespace, asked: CaptureRequest, binder: Binder, ranges: Ranges) -> Iterator[SharedCapture]:
    """The capture with its logs, which are made if they are not there."""
    folder = together(args.into)
    described = LogDescription(asked.ordering)
    with ExitStack() as opened:
        if folder is not None:
            used = opened.enter_context(FolderInUse(folder))
            clear_empty(used, {"timeline": str(binder.recipe.timeline)}, asked.logs(args.into))
        bring_up(binder, _left(args, ranges), _print)
        unnoted = folder is not None and not is_there(folder / CAPTURE_FILE)
        if unnoted or asked.ordering != COMMIT_ORDER:
            # A note, and a mark that a log is in no order, stay for ever: the logs of others get none.
            _check_logs(args, asked, binder)
        if folder is not None:
            write_timeline(folder, str(binder.recipe.timeline), asked.recipe.tables, ordering=asked.ordering)
        made, logs = outputs(
            asked, args.into,
            lambda name, kind: _log(args, name, kind, LogDescription() if kind is TEMP else described), opened,
        )

        for text in kept_types(in_directories(args.into, asked.logs(args.into))):
            _print(text)

        def own() -> None:
            whole = describe_log_set(logs, replace(log_set_in(folder), timeline=binder.recipe.timeline))
            binder.of_log_set(whole.log_set)

        capture = SharedCapture(binder, ranges, made, at_most=args.max_records or AT_MOST, own=own)
        opened.callback(capture.close)
        yield capture


def _log(
    args: argparse.Namespace, name: str, row_type: RowType, description: LogDescription = LogDescription(), *,
    create: bool = True,
) -> Log:
    address: LogAddress = args.into.of(name)
    if not address.is_topic:
        return DirectoryLog(Path(address.name), row_type, create=create, description=description)
    return kafka_log(address.name, args, row_type, "int", create=create, description=description)


def _report(came: RunResult, *, as_json: bool) -> None:
    with Written(None) as output:
        if as_json:
            output.line(json.dumps({
                "frontier": plain_frontier(came.frontier), "records": came.records, "waiting": came.waiting,
                "not_covered": list(came.coverage.uncovered),
            }))
        else:
            output.line(f"{through_text(came.frontier)}: {came.records} records")
    for text in (*came.waiting, *came.coverage.texts()):
        remark(f"cdcv2 capture: {text}")
