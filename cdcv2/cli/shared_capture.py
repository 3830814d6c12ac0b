"""``cdcv2 capture --remap``: what the arguments mean, and how it writes its logs; see :mod:`cdcv2.cli.capture`."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from cdcv2.capture.binder import Binder
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.remap_outputs import remap_outputs
from cdcv2.capture.run.remap_capture import CaptureTopics, DescribeLogs, run_remap_capture
from cdcv2.capture.run.remap_loop import RunOptions, RunResult
from cdcv2.capture.run.waits import bound_commit, bound_state, result_state
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.cli.console import ResultOutput as Written, remark
from cdcv2.cli.logs import kafka_client, kafka_log
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.cli.options.capture_arguments import from_kafka
from cdcv2.cli.options.remap_arguments import capture_request, capture_topics, run_options
from cdcv2.cli.remaps import open_remap
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import committed_text, through_text
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.minting import RemapLog


def run_shared(args: argparse.Namespace) -> Exit:
    """Capture until what the topics hold now is written, or a signal stops it."""
    run, topics, lines = run_options(args, capture_request(args)), _topics(args), Lines(_print)
    events: JobEvents = args.events

    def turn(*now: Any) -> None:
        events.progress(partial(bound_state, *now))
        if args.follow:
            lines.turn(partial(_far, *now), partial(_age, now[0]))

    with stop_signals() as stopping:
        came = run_remap_capture(
            run, topics, _CommandStores(args, run), stopping=events.keeping_alive(stopping), turn=turn,
        )
        if came is None:
            return Exit.DONE
        events.progress(partial(result_state, came), at_once=True)
        _report(came, as_json=args.json)
        return Exit.MISSING if came.waiting and not stopping() else Exit.DONE


def _print(text: str) -> None:
    remark(f"cdcv2 capture: {text}")


def _far(capture: SharedCapture, binder: Binder, look: TopicExtents) -> str:
    """How far one is that follows, and what it waits for."""
    behind = binder.behind(look.ends)
    waits = [f"{behind} records to be bound"] if behind else capture.waits()
    return f"{through_text(capture.complete)}: {capture.records} records; {'; '.join(waits) or 'nothing is open'}"


def _age(capture: SharedCapture) -> str:
    return committed_text(bound_commit(capture.complete.to_plain()), time.time())


def _topics(args: argparse.Namespace) -> CaptureTopics:
    if args.follow and not from_kafka(args):
        raise UsageError("--follow goes with kafka: a dump does not grow")
    return capture_topics(args, lambda: kafka_client(args))


class _CommandStores:
    """The remap and the logs of the command, which writes them itself; see RemapStores."""

    def __init__(self, args: argparse.Namespace, run: RunOptions) -> None:
        self._args, self._run = args, run

    def remap(self, *, create: bool = False) -> RemapLog:
        """The remap."""
        return open_remap(self._args.remap, self._args, create=create)

    def log(
        self, name: str, row_type: RowType, description: LogDescription = LogDescription(), *, create: bool = False
    ) -> Log:
        """The log of this name; with ``create`` it is made, with the description."""
        address: LogAddress = self._run.logs.of(name)
        if not address.is_topic:
            return DirectoryLog(Path(address.name), row_type, create=create, description=description)
        create = create and self._run.create
        return kafka_log(address.name, self._args, row_type, "int", create=create, description=description)

    def capture(
        self, binder: Binder, ranges: Ranges, description: LogDescription, describe: DescribeLogs, opened: ExitStack
    ) -> SharedCapture:
        """The capture in this process."""

        def made(name: str, kind: RowType) -> Log:
            return self.log(name, kind, LogDescription() if kind is TEMP else description, create=True)

        written, logs = remap_outputs(self._run.request, self._run.logs, made, opened)
        return SharedCapture(binder, ranges, written, at_most=self._run.at_most, own=lambda: describe(logs))

    def report(self, what: str, text: str) -> None:
        """A line on standard error; and an event, of what it waits for."""
        if what == "waiting":
            self._args.events.waiting(text)
        _print(text)


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
